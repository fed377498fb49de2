/* ckptd serve: makes the parts of the daemon, runs the loop, takes them down in the opposite order. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/version.h"
#include "server/commands.h"
#include "server/events.h"
#include "server/http.h"
#include "server/log.h"
#include "server/sandbox.h"

#define LOOP_STUCK_MS 10000

static void health(void *ctx, struct ck_health *ret_health) {
    struct ck_daemon *daemon = ctx;
    uint64_t free_bytes = 0, total = 0;
    bool stuck = ck_now_ms() - atomic_load(&daemon->loop_seen) > LOOP_STUCK_MS;
    const char *trouble = stuck ? "the loop that starts workers is stuck" : ck_workers_trouble(daemon->workers);

    (void)ck_data_dir_space(&daemon->data, &free_bytes, &total, NULL);
    *ret_health = (struct ck_health){
        .draining = atomic_load(&daemon->draining),
        .free_bytes = free_bytes,
        .need_bytes = daemon->settings.min_free ? CK_MAX(daemon->settings.min_free, total / 50) : 0,
        .workers_ok = !trouble,
        .workers_why = trouble,
    };
}

/* A connection, its upload and up to 128 result files each take a descriptor. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int open_parts(struct ck_daemon *daemon, struct ck_events *events, struct ck_error *err) {
    int r;

    r = ck_listen_open(daemon->settings.listen, daemon->settings.insecure != 0, &daemon->listen, err);
    if (r == 0)
        r = ck_data_dir_open(daemon->settings.data, &daemon->data, err);
    if (r == 0)
        r = ck_hasher_new((unsigned)daemon->settings.hash_threads, &daemon->hasher, err);
    if (r == 0)
        r = ck_events_init(events, daemon, err);
    if (r == 0)
        r = ck_http_start(daemon, err);
    return r;
}

static void close_parts(struct ck_daemon *daemon, struct ck_events *events) {
    ck_http_stop(daemon->http);
    ck_events_release(events);
    ck_hasher_free(daemon->hasher);
    if (daemon->data.path)
        ck_data_dir_set_port(&daemon->data, 0);
    ck_data_dir_release(&daemon->data);
    ck_closep(&daemon->listen.fd);
}

static void announce(const struct ck_daemon *daemon) {
    const struct ck_settings *settings = &daemon->settings;
    char address[300];

    snprintf(address, sizeof(address), strchr(daemon->listen.host, ':') ? "[%s]:%u" : "%s:%u", daemon->listen.host,
             daemon->listen.port);
    CK_LOG(INFO, "listening", CK_LOG_TEXT("address", address), CK_LOG_NUMBER("port", daemon->listen.port),
           CK_LOG_TEXT("data", daemon->data.path), CK_LOG_TEXT("version", ck_version()),
           CK_LOG_NUMBER("workers", settings->workers), CK_LOG_NUMBER("threads", settings->threads),
           CK_LOG_NUMBER("worker_memory", settings->worker_memory), CK_LOG_TEXT("sandbox", ck_sandbox_name()));
    if (!daemon->listen.loopback)
        CK_LOG(WARNING, "other machines can reach this daemon and no key is asked for",
               CK_LOG_TEXT("address", address));
    ck_data_dir_set_port(&daemon->data, daemon->listen.port);
}

/* The general hints of the error table are for clients; here stands somebody who starts a daemon. */
static void print_error(const struct ck_error *err) {
    bool place = err->where[0] && !strstr(err->message, err->where);

    fprintf(stderr, "ckptd serve: %s%s%s%s", err->message, place ? " (" : "", place ? err->where : "",
            place ? ")" : "");
    if (err->hint[0])
        fprintf(stderr, "; %s", err->hint);
    else if (err->code == CK_E_BAD_OPTION)
        fprintf(stderr, "; ckptd serve --help lists the settings");
    fprintf(stderr, "\n");
}

int ck_cmd_serve(int argc, char **argv) {
    struct ck_daemon daemon = {.listen.fd = -1, .data.lock = -1};
    struct ck_events events = {0};
    struct ck_error err = {0};
    bool help;
    int r;

    r = ck_settings_read(argc, argv, &daemon.settings, &help, &err);
    if (r < 0) {
        print_error(&err);
        return CK_EXIT_USAGE;
    }
    if (help) {
        ck_settings_print_help();
        return 0;
    }
    ck_log_set_level(ck_log_level_by_name(daemon.settings.log_level));
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    pthread_mutex_init(&daemon.suspend_lock, NULL);
    daemon.ports = (struct ck_ports){.health = health, .ctx = &daemon, .build_json = ck_build_json()};
    r = open_parts(&daemon, &events, &err);
    if (r == 0) {
        announce(&daemon);
        ck_events_run(&events);
    } else {
        print_error(&err);
    }
    close_parts(&daemon, &events);
    pthread_mutex_destroy(&daemon.suspend_lock);
    if (r == 0)
        CK_LOG(INFO, "stopped", CK_LOG_TEXT("version", ck_version()));
    return r == 0 ? 0 : r == CK_E_BAD_OPTION ? CK_EXIT_USAGE : 1;
}
