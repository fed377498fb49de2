/* ckptd serve: reads the settings, makes the daemon, runs its loop, takes it down. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/version.h"
#include "server/command/commands.h"
#include "server/events.h"
#include "server/log.h"
#include "server/work/sandbox.h"

/* A connection, its upload and up to 128 result files each take a descriptor. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
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
    if (!daemon->listen.loopback && !daemon->keys)
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

/* The actions that start nothing. Returns the exit status. */
static int act(enum ck_settings_action action, const struct ck_settings *settings) {
    struct ck_error err = {0};

    if (action == CK_SETTINGS_HELP) {
        ck_settings_print_help();
    } else if (action == CK_SETTINGS_PRINT) {
        ck_settings_print(settings, stdout);
    } else if (ck_settings_check(settings, &err) < 0) {
        print_error(&err);
        return CK_EXIT_USAGE;
    } else {
        printf("ok\n");
    }
    return 0;
}

int ck_cmd_serve(int argc, char **argv) {
    struct ck_daemon daemon = {.listen.fd = -1, .data.lock = -1};
    struct ck_events events = {0};
    struct ck_error err = {0};
    enum ck_settings_action action;
    int r;

    r = ck_settings_read(argc, argv, &daemon.settings, &action, &err);
    if (r < 0) {
        print_error(&err);
        return CK_EXIT_USAGE;
    }
    if (action != CK_SETTINGS_RUN) {
        r = act(action, &daemon.settings);
        ck_settings_release(&daemon.settings);
        return r;
    }
    ck_log_set_level(ck_log_level_by_name(daemon.settings.log_level));
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    r = ck_daemon_open(&daemon, &events, &err);
    if (r == 0) {
        announce(&daemon);
        ck_events_run(&events);
    } else {
        print_error(&err);
    }
    ck_daemon_close(&daemon, &events);
    ck_settings_release(&daemon.settings);
    if (r == 0)
        CK_LOG(INFO, "stopped", CK_LOG_TEXT("version", ck_version()));
    return r == 0 ? 0 : r == CK_E_BAD_OPTION ? CK_EXIT_USAGE : 1;
}
