#include "server/events.h"

#include <signal.h>

#include "server/http.h"
#include "server/log.h"

#define TICK_MS    1000
#define DRAIN_MS   50
#define ANSWERS_MS 2000 /* after the grace: for the answers that say so */

static void on_tick(uv_timer_t *timer) {
    struct ck_events *events = timer->data;

    atomic_store(&events->daemon->loop_seen, ck_now_ms());
    ck_workers_tick(events->daemon->workers);
    if (events->daemon->http)
        ck_http_tick(events->daemon->http);
}

/* True once libmicrohttpd can be stopped: it must not have a suspended connection then. */
static bool nothing_suspended(struct ck_daemon *daemon) {
    bool none;

    pthread_mutex_lock(&daemon->suspend_lock);
    daemon->closing = true;
    none = daemon->suspended == 0;
    pthread_mutex_unlock(&daemon->suspend_lock);
    return none;
}

static void on_drain(uv_timer_t *timer) {
    struct ck_events *events = timer->data;
    struct ck_daemon *daemon = events->daemon;
    bool late = ck_now_ms() >= events->deadline, done = atomic_load(&daemon->open) == 0;

    if (!done && late && !events->ended) {
        CK_LOG(WARNING, "the grace is over, jobs are ended", CK_LOG_NUMBER("open", atomic_load(&daemon->open)));
        events->ended = true;
        events->deadline = ck_now_ms() + ANSWERS_MS;
        ck_workers_end(daemon->workers);
        return;
    }
    if (!done && !late)
        return;
    if (nothing_suspended(daemon) && ck_workers_busy(daemon->workers) == 0)
        uv_stop(&events->loop);
}

static void on_signal(uv_signal_t *handle, int number) {
    struct ck_events *events = handle->data;
    struct ck_daemon *daemon = events->daemon;

    if (atomic_exchange(&daemon->draining, true)) {
        /* Workers die with this process, files have no names: there is nothing to tidy up. */
        CK_LOG(WARNING, "second signal, leaving now", CK_LOG_NUMBER("signal", (uint64_t)number));
        _exit(128 + number);
    }
    CK_LOG(INFO, "draining", CK_LOG_NUMBER("signal", (uint64_t)number),
           CK_LOG_NUMBER("open", atomic_load(&daemon->open)),
           CK_LOG_NUMBER("grace_s", daemon->settings.shutdown_grace));
    events->deadline = ck_now_ms() + (int64_t)daemon->settings.shutdown_grace * 1000;
    uv_timer_start(&events->drain, on_drain, 0, DRAIN_MS);
}

int ck_events_init(struct ck_events *events, struct ck_daemon *daemon, struct ck_error *err) {
    int r;

    *events = (struct ck_events){.daemon = daemon};
    r = uv_loop_init(&events->loop);
    if (r < 0)
        return ck_error_set(err, CK_E_IO, NULL, "cannot start the event loop: %s", uv_strerror(r));
    uv_signal_init(&events->loop, &events->term);
    uv_signal_init(&events->loop, &events->interrupt);
    uv_timer_init(&events->loop, &events->tick);
    uv_timer_init(&events->loop, &events->drain);
    events->term.data = events->interrupt.data = events->tick.data = events->drain.data = events;
    r = ck_workers_new(&events->loop, &daemon->settings, &daemon->data, &daemon->workers, err);
    if (r < 0) {
        ck_events_release(events);
        return r;
    }
    uv_signal_start(&events->term, on_signal, SIGTERM);
    uv_signal_start(&events->interrupt, on_signal, SIGINT);
    uv_timer_start(&events->tick, on_tick, 0, TICK_MS);
    atomic_store(&daemon->loop_seen, ck_now_ms());
    return 0;
}

void ck_events_run(struct ck_events *events) {
    uv_run(&events->loop, UV_RUN_DEFAULT);
}

void ck_events_release(struct ck_events *events) {
    if (!events->daemon)
        return;
    uv_close((uv_handle_t *)&events->term, NULL);
    uv_close((uv_handle_t *)&events->interrupt, NULL);
    uv_close((uv_handle_t *)&events->tick, NULL);
    uv_close((uv_handle_t *)&events->drain, NULL);
    if (events->daemon->workers)
        ck_workers_close(events->daemon->workers);
    uv_run(&events->loop, UV_RUN_DEFAULT);
    ck_workers_free(events->daemon->workers);
    events->daemon->workers = NULL;
    uv_loop_close(&events->loop);
    events->daemon = NULL;
}
