#include "server/events.h"

#include <signal.h>
#include <string.h>

#include "server/http/http.h"
#include "server/disk/janitor.h"
#include "server/log.h"
#include "server/work/scheduler.h"

#define TICK_MS    1000
#define DRAIN_MS   50
#define ANSWERS_MS 2000 /* after the grace: for the answers that say so */

struct farewell {
    struct ck_errand errand;
    struct ck_daemon *daemon;
    char job[CK_JOB_ID_SIZE];
};

static void cancel_now(void *ctx) {
    struct farewell *farewell = ctx;
    struct ck_daemon *daemon = farewell->daemon;
    struct ck_job_row row = {0};

    if (daemon->store->job_cancel(daemon->store, "", farewell->job, ck_clock_ms(), &row, NULL) == 0)
        daemon->ports.changed(daemon->ports.ctx, farewell->job);
    ck_job_row_release(&row);
    free(farewell);
}

/* A client that asked for its job to be cancelled if it leaves has left. */
static void on_gone(void *ctx, const char *job) {
    struct farewell *farewell = calloc(1, sizeof(*farewell));

    if (!farewell)
        return;
    farewell->daemon = ctx;
    farewell->errand = (struct ck_errand){.run = cancel_now, .ctx = farewell};
    memcpy(farewell->job, job, CK_JOB_ID_SIZE);
    ck_crew_post(farewell->daemon->crew, &farewell->errand);
}

static void on_tick(uv_timer_t *timer) {
    struct ck_events *events = timer->data;
    struct ck_daemon *daemon = events->daemon;

    atomic_store(&daemon->loop_seen, ck_now_ms());
    ck_scheduler_tick(daemon->scheduler);
    ck_waiters_tick(&daemon->waiters, ck_now_ms(), on_gone, daemon);
    if (daemon->http)
        ck_http_tick(daemon->http);
}

static void clean_work(uv_work_t *work) {
    const struct ck_events *events = work->data;

    ck_daemon_clean(events->daemon);
}

static void after_clean(uv_work_t *work, _unused_ int status) {
    struct ck_events *events = work->data;

    events->cleaning_busy = false;
}

static void on_janitor(uv_timer_t *timer) {
    struct ck_events *events = timer->data;

    if (events->cleaning_busy || atomic_load(&events->daemon->draining))
        return;
    events->cleaning_busy = true;
    events->cleaning.data = events;
    uv_queue_work(&events->loop, &events->cleaning, clean_work, after_clean);
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

static bool runs_here(void *ctx, const char *job) {
    struct ck_job_live live;

    return ck_scheduler_live(ctx, job, &live);
}

static void on_drain(uv_timer_t *timer) {
    struct ck_events *events = timer->data;
    struct ck_daemon *daemon = events->daemon;
    bool late = ck_now_ms() >= events->deadline,
         done = atomic_load(&daemon->open) == 0 && ck_scheduler_idle(daemon->scheduler);

    if (!done && late && !events->ended) {
        CK_LOG(WARNING, "the grace is over, jobs are ended", CK_LOG_NUMBER("open", atomic_load(&daemon->open)));
        events->ended = true;
        events->deadline = ck_now_ms() + ANSWERS_MS;
        ck_scheduler_end(daemon->scheduler);
        ck_waiters_wake_all(&daemon->waiters, NULL, NULL);
        return;
    }
    if (!events->ended)
        ck_waiters_wake_all(&daemon->waiters, runs_here, daemon->scheduler);
    if (!done && !late)
        return;
    /* A store that does not take the end of a job is not waited for: the next start queues the job again. */
    if (nothing_suspended(daemon) && (late || ck_scheduler_idle(daemon->scheduler)) && !events->cleaning_busy)
        uv_stop(&events->loop);
}

static void on_signal(uv_signal_t *handle, int number) {
    struct ck_events *events = handle->data;
    struct ck_daemon *daemon = events->daemon;

    if (atomic_exchange(&daemon->draining, true)) {
        /* Workers die with this process, and the next start finds what they left. */
        CK_LOG(WARNING, "second signal, leaving now", CK_LOG_NUMBER("signal", (uint64_t)number));
        _exit(128 + number);
    }
    CK_LOG(INFO, "draining", CK_LOG_NUMBER("signal", (uint64_t)number),
           CK_LOG_NUMBER("open", atomic_load(&daemon->open)),
           CK_LOG_NUMBER("grace_s", daemon->settings.shutdown_grace));
    ck_scheduler_drain(daemon->scheduler);
    events->deadline = ck_now_ms() + (int64_t)daemon->settings.shutdown_grace * 1000;
    uv_timer_start(&events->drain, on_drain, 0, DRAIN_MS);
}

static void on_hangup(uv_signal_t *handle, _unused_ int number) {
    const struct ck_events *events = handle->data;
    struct ck_error err = {0};

    if (!events->daemon->keys)
        return;
    if (ck_keys_reload(events->daemon->keys, &err) < 0)
        ck_log_error(CK_LOG_ERROR, "the keys stay as they were", &err);
    else
        CK_LOG(INFO, "keys read", CK_LOG_NUMBER("keys", ck_keys_count(events->daemon->keys)));
}

int ck_events_init(struct ck_events *events, struct ck_daemon *daemon, struct ck_error *err) {
    uint64_t interval = daemon->settings.janitor_interval * 1000;
    int r;

    *events = (struct ck_events){.daemon = daemon};
    r = uv_loop_init(&events->loop);
    if (r < 0)
        return ck_error_set(err, CK_E_IO, NULL, "cannot start the event loop: %s", uv_strerror(r));
    uv_signal_init(&events->loop, &events->term);
    uv_signal_init(&events->loop, &events->interrupt);
    uv_signal_init(&events->loop, &events->hangup);
    uv_timer_init(&events->loop, &events->tick);
    uv_timer_init(&events->loop, &events->drain);
    uv_timer_init(&events->loop, &events->janitor);
    events->term.data = events->interrupt.data = events->hangup.data = events;
    events->tick.data = events->drain.data = events->janitor.data = events;
    r = ck_scheduler_new(&events->loop, daemon, &daemon->scheduler, err);
    if (r < 0) {
        ck_events_release(events);
        return r;
    }
    uv_signal_start(&events->term, on_signal, SIGTERM);
    uv_signal_start(&events->interrupt, on_signal, SIGINT);
    uv_signal_start(&events->hangup, on_hangup, SIGHUP);
    uv_timer_start(&events->tick, on_tick, 0, TICK_MS);
    uv_timer_start(&events->janitor, on_janitor, interval, interval);
    atomic_store(&daemon->loop_seen, ck_now_ms());
    return 0;
}

void ck_events_run(struct ck_events *events) {
    uv_run(&events->loop, UV_RUN_DEFAULT);
}

void ck_events_release(struct ck_events *events) {
    uv_handle_t *const handles[] = {(uv_handle_t *)&events->term,   (uv_handle_t *)&events->interrupt,
                                    (uv_handle_t *)&events->hangup, (uv_handle_t *)&events->tick,
                                    (uv_handle_t *)&events->drain,  (uv_handle_t *)&events->janitor};

    if (!events->daemon)
        return;
    for (size_t i = 0; i < CK_ARRAY_LEN(handles); i++)
        uv_close(handles[i], NULL);
    if (events->daemon->scheduler)
        ck_scheduler_close(events->daemon->scheduler);
    uv_run(&events->loop, UV_RUN_DEFAULT);
    ck_scheduler_free(events->daemon->scheduler);
    events->daemon->scheduler = NULL;
    uv_loop_close(&events->loop);
    events->daemon = NULL;
}
