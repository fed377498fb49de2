#include "server/work/scheduler.h"

#include <stdio.h>
#include <string.h>

#include "server/log.h"
#include "server/metrics.h"
#include "server/work/worker_child.h"

#define INBOX_MAX 256 /* jobs to look at; beyond that all are */

struct claim {
    struct ck_scheduler *scheduler;
    uv_work_t work;
    bool busy;
    struct ck_run *run; /* what was claimed, or NULL */
    bool ended;         /* it is over already: answered from cache */
    struct ck_error err;
};

struct beat {
    struct ck_scheduler *scheduler;
    uv_work_t work;
    bool all; /* runs */
    size_t n;
    struct {
        char id[CK_JOB_ID_SIZE];
        uint64_t token;
        bool lost, cancel;
    } runs[];
};

struct ck_scheduler {
    uv_loop_t *loop;
    struct ck_daemon *daemon;
    uv_async_t wake;
    uv_work_t looking;
    bool look_busy;

    pthread_mutex_t lock; /* guards inbox, the list `running`, and live in its runs */
    char inbox[INBOX_MAX][CK_JOB_ID_SIZE];
    size_t n_inbox;
    bool look_at_all;
    struct ck_run *running; /* claimed, until the store knows its end */

    struct ck_run *held, *unended; /* no memory yet; the store did not take its end */
    struct claim claim;
    unsigned n_works, n_beats; /* under way on the pool; the beats among them */
    uint64_t budget, reserved;
    int64_t beat_at, claim_after;
    bool draining, ending;
    atomic_uint n_children;
    _Atomic(const char *) trouble;
};

static void claim_next(struct ck_scheduler *scheduler);
static void begin_end(struct ck_run *run);

/* ---- the list of runs ---- */

static void list_run(struct ck_scheduler *scheduler, struct ck_run *run) {
    pthread_mutex_lock(&scheduler->lock);
    run->next = scheduler->running;
    scheduler->running = run;
    pthread_mutex_unlock(&scheduler->lock);
}

static void unlist_run(struct ck_scheduler *scheduler, struct ck_run *run) {
    pthread_mutex_lock(&scheduler->lock);
    for (struct ck_run **at = &scheduler->running; *at; at = &(*at)->next) {
        if (*at == run) {
            *at = run->next;
            break;
        }
    }
    pthread_mutex_unlock(&scheduler->lock);
}

/* On the loop's thread, which alone changes the list. */
static struct ck_run *find_run(const struct ck_scheduler *scheduler, const char *id) {
    for (struct ck_run *run = scheduler->running; run; run = run->next)
        if (strcmp(run->row.id, id) == 0)
            return run;
    return NULL;
}

bool ck_scheduler_live(struct ck_scheduler *scheduler, const char *job, struct ck_job_live *ret_live) {
    const struct ck_run *run;

    pthread_mutex_lock(&scheduler->lock);
    run = find_run(scheduler, job);
    if (run)
        *ret_live = run->live;
    pthread_mutex_unlock(&scheduler->lock);
    return run != NULL;
}

static void observe_stage(const struct ck_run *run, int64_t now) {
    CK_METRIC_OBSERVE(job_stage_duration_seconds, (double)(now - run->live.stage_started) / 1000,
                      ck_stage_name(run->live.stage), run->row.target[0] ? run->row.target : run->row.kind);
}

void ck_scheduler_progress(struct ck_run *run, enum ck_stage stage, uint64_t done, uint64_t total) {
    struct ck_scheduler *scheduler = run->scheduler;
    int64_t now = ck_clock_ms();
    struct ck_job_live *live = &run->live;
    bool next = stage != live->stage;

    if (next)
        observe_stage(run, now);
    pthread_mutex_lock(&scheduler->lock);
    if (next)
        live->stage_started = now;
    live->stage = stage;
    live->done = done;
    live->total = total;
    live->rate = now > live->stage_started ? (double)done * 1000 / (double)(now - live->stage_started) : 0;
    live->sequence++;
    pthread_mutex_unlock(&scheduler->lock);
    ck_waiters_changed(&scheduler->daemon->waiters, run->row.id, false);
}

/* ---- the end of a run ---- */

static void log_end(const struct ck_run *run, const struct ck_job_row *row) {
    int64_t now = ck_now_ms();

    CK_LOG(INFO, "job", CK_LOG_TEXT("job_id", row->id),
           CK_LOG_TEXT("request_id", row->request_id ? row->request_id : ""),
           CK_LOG_TEXT("trace_id", row->trace_id ? row->trace_id : ""), CK_LOG_TEXT("kind", row->kind),
           CK_LOG_TEXT("target", row->target), CK_LOG_TEXT("state", ck_job_state_name(row->state)),
           CK_LOG_TEXT("reason", row->reason ? row->reason : ""), CK_LOG_TEXT("detail", run->err.message),
           CK_LOG_NUMBER("attempt", row->attempt),
           CK_LOG_NUMBER("queued_ms", (uint64_t)CK_MAX(row->started_at - row->created_at, 0)),
           CK_LOG_NUMBER("run_ms", (uint64_t)(now - run->started)), CK_LOG_NUMBER("input_bytes", row->inputs[0].bytes));
    if (ck_job_state_finished(row->state))
        CK_METRIC_ADD(jobs_total, 1, row->kind, row->target[0] ? row->target : "none", ck_job_state_name(row->state),
                      row->reason ? row->reason : "ok");
}

static void end_work(uv_work_t *work) {
    struct ck_run *run = work->data;
    struct ck_daemon *daemon = run->scheduler->daemon;

    ck_run_end(run, daemon);
    /* Before anybody hears of the end: whoever was waiting for it may ask for the next job at once, and its place is
     * free. */
    (void)ck_daemon_count(daemon, NULL);
}

static void after_end(uv_work_t *work, _unused_ int status) {
    struct ck_run *run = work->data;
    struct ck_scheduler *scheduler = run->scheduler;

    scheduler->n_works--;
    if (run->end_failed && !scheduler->ending) {
        run->next_unended = scheduler->unended;
        scheduler->unended = run;
        return;
    }
    unlist_run(scheduler, run);
    if (run->stale) {
        CK_METRIC_ADD(stale_completions_total, 1);
        CK_LOG(WARNING, "the lease was lost, the result is dropped", CK_LOG_TEXT("job_id", run->row.id));
    } else if (!run->end_failed) {
        observe_stage(run, ck_clock_ms());
        log_end(run, &run->ended);
        ck_waiters_changed(&scheduler->daemon->waiters, run->row.id, ck_job_state_finished(run->ended.state));
    }
    ck_run_free(run);
    claim_next(scheduler);
}

static void begin_end(struct ck_run *run) {
    struct ck_scheduler *scheduler = run->scheduler;

    scheduler->n_works++;
    run->work.data = run;
    uv_queue_work(scheduler->loop, &run->work, end_work, after_end);
}

static void start_held(struct ck_scheduler *scheduler);

static const char *exit_cause(const struct ck_run *run) {
    switch (run->err.code) {
    case 0:
        return "ok";
    case CK_E_WORKER_TIMEOUT:
        return "timeout";
    case CK_E_WORKER_OOM:
        return "oom";
    case CK_E_WORKER_CRASHED:
    case CK_E_WORKER_KILLED:
        return "signal";
    case CK_E_CANCELLED:
    case CK_E_DRAINING:
        return "cancelled";
    default:
        return "refused";
    }
}

static void child_ended(struct ck_run *run, void *ctx) {
    struct ck_scheduler *scheduler = ctx;

    run->child = NULL;
    atomic_fetch_sub(&scheduler->n_children, 1);
    scheduler->reserved -= run->reserved;
    CK_METRIC_ADD(worker_exits_total, 1, exit_cause(run));
    ck_scheduler_progress(run, CK_STAGE_publish, 0, 0);
    begin_end(run);
    start_held(scheduler);
    claim_next(scheduler);
}

/* ---- the start of a run ---- */

static void start(struct ck_scheduler *scheduler, struct ck_run *run) {
    int r;

    run->started = ck_now_ms();
    r = ck_child_start(scheduler->loop, &scheduler->daemon->settings, &scheduler->daemon->data, run, child_ended,
                       scheduler, &run->err);
    atomic_store(&scheduler->trouble, r < 0 ? "the last worker process could not be started" : NULL);
    if (r < 0) {
        ck_log_error(CK_LOG_ERROR, "cannot start a worker", &run->err);
        begin_end(run);
        return;
    }
    scheduler->reserved += run->reserved;
    atomic_fetch_add(&scheduler->n_children, 1);
}

static bool fits(const struct ck_scheduler *scheduler, const struct ck_run *run) {
    return atomic_load(&scheduler->n_children) == 0 || scheduler->reserved + run->reserved <= scheduler->budget;
}

static void start_held(struct ck_scheduler *scheduler) {
    struct ck_run *run = scheduler->held;

    if (!run || !fits(scheduler, run))
        return;
    scheduler->held = NULL;
    start(scheduler, run);
}

/* What a worker is likely to need: its code and tiles, and the description of the model, which its input bounds. The
 * limit is what keeps it there; the prediction decides how many run beside each other. */
static uint64_t predict_memory(uint64_t input_bytes, uint64_t limit) {
    uint64_t bytes;

    if (!ck_mul_u64(input_bytes, 32, &bytes) || !ck_add_u64(bytes, 128 * CK_MIB, &bytes))
        return limit;
    return CK_MIN(bytes, limit);
}

static void claim_work(uv_work_t *work) {
    struct claim *claim = work->data;

    ck_run_claim(claim->scheduler->daemon, &claim->run, &claim->ended, &claim->err);
    if (claim->ended)
        (void)ck_daemon_count(claim->scheduler->daemon, NULL);
}

static void take_claim(struct ck_scheduler *scheduler, struct ck_run *run, bool ended) {
    int64_t now = ck_clock_ms();

    run->scheduler = scheduler;
    run->started = ck_now_ms();
    run->live = (struct ck_job_live){.stage = CK_STAGE_read, .stage_started = now};
    CK_METRIC_OBSERVE(job_queue_wait_seconds, (double)CK_MAX(now - run->row.created_at, 0) / 1000, "default");
    if (ended) {
        log_end(run, &run->ended);
        CK_METRIC_ADD(result_cache_hits_total, 1);
        ck_waiters_changed(&scheduler->daemon->waiters, run->row.id, true);
        ck_run_free(run);
        return;
    }
    list_run(scheduler, run);
    ck_waiters_changed(&scheduler->daemon->waiters, run->row.id, false);
    if (run->err.code) {
        begin_end(run);
        return;
    }
    run->memory = CK_MIN(scheduler->daemon->settings.worker_memory, scheduler->budget);
    run->reserved = predict_memory(run->row.inputs[0].bytes, run->memory);
    if (fits(scheduler, run))
        start(scheduler, run);
    else
        scheduler->held = run;
}

static void after_claim(uv_work_t *work, _unused_ int status) {
    struct claim *claim = work->data;
    struct ck_scheduler *scheduler = claim->scheduler;
    struct ck_run *run = TAKE_PTR(claim->run);

    claim->busy = false;
    scheduler->n_works--;
    if (claim->err.code) {
        ck_log_error(CK_LOG_ERROR, "cannot claim a job", &claim->err);
        scheduler->claim_after = ck_now_ms() + 1000;
        return;
    }
    if (!run)
        return;
    take_claim(scheduler, run, claim->ended);
    if (scheduler->ending)
        ck_scheduler_end(scheduler);
    claim_next(scheduler);
}

static void claim_next(struct ck_scheduler *scheduler) {
    struct claim *claim = &scheduler->claim;

    if (scheduler->draining || claim->busy || scheduler->held || ck_now_ms() < scheduler->claim_after ||
        atomic_load(&scheduler->n_children) >= scheduler->daemon->settings.workers)
        return;
    *claim = (struct claim){.scheduler = scheduler, .busy = true};
    claim->work.data = claim;
    scheduler->n_works++;
    uv_queue_work(scheduler->loop, &claim->work, claim_work, after_claim);
}

/* ---- heartbeat ---- */

static void beat_work(uv_work_t *work) {
    struct beat *beat = work->data;
    struct ck_daemon *daemon = beat->scheduler->daemon;
    int64_t now = ck_clock_ms(), lease = (int64_t)daemon->settings.lease * 1000;
    struct ck_error err = {0};
    uint64_t reaped = 0;
    int r = 0;

    /* A daemon that was stopped for a while, or whose store was locked, must not take its own leases for lost ones:
     * none is taken back before all of its own are renewed. */
    for (size_t i = 0; i < beat->n && r == 0; i++)
        r = daemon->store->job_renew(daemon->store, beat->runs[i].id, beat->runs[i].token, now, lease,
                                     &beat->runs[i].lost, &beat->runs[i].cancel, &err);
    if (beat->all && r == 0)
        (void)daemon->store->jobs_reap(daemon->store, now, &reaped, &err);
    if (reaped > 0) {
        CK_METRIC_ADD(leases_expired_total, (double)reaped);
        CK_LOG(WARNING, "leases ran out", CK_LOG_NUMBER("jobs", reaped));
    }
    if (err.code)
        ck_log_error(CK_LOG_ERROR, "cannot renew leases", &err);
}

/* Ends a run early, wherever it is. */
static void stop(struct ck_scheduler *scheduler, struct ck_run *run, int code, const char *message) {
    if (run->child) {
        ck_child_kill(run->child, code, message);
    } else if (run == scheduler->held) {
        scheduler->held = NULL;
        ck_error_set(&run->err, code, NULL, "%s", message);
        begin_end(run);
    }
}

static void after_beat(uv_work_t *work, _unused_ int status) {
    struct beat *beat = work->data;
    struct ck_scheduler *scheduler = beat->scheduler;

    scheduler->n_works--;
    scheduler->n_beats--;
    for (size_t i = 0; i < beat->n; i++) {
        struct ck_run *run = find_run(scheduler, beat->runs[i].id);

        if (!run || run->row.lease_token != beat->runs[i].token)
            continue;
        if (beat->runs[i].lost || beat->runs[i].cancel)
            stop(scheduler, run, CK_E_CANCELLED, beat->runs[i].lost ? "the lease was lost" : "the job was cancelled");
    }
    free(beat);
    claim_next(scheduler);
}

/* Of one job, or of all (id NULL). */
static void heartbeat(struct ck_scheduler *scheduler, const char *id) {
    struct beat *beat;
    size_t n = 0;

    for (const struct ck_run *run = scheduler->running; run; run = run->next)
        n++;
    beat = calloc(1, sizeof(*beat) + n * sizeof(beat->runs[0]));
    if (!beat)
        return; /* the next one is soon */
    for (const struct ck_run *run = scheduler->running; run; run = run->next) {
        if (id && strcmp(id, run->row.id) != 0)
            continue;
        memcpy(beat->runs[beat->n].id, run->row.id, CK_JOB_ID_SIZE);
        beat->runs[beat->n++].token = run->row.lease_token;
    }
    beat->scheduler = scheduler;
    beat->all = !id;
    beat->work.data = beat;
    scheduler->n_works++;
    scheduler->n_beats++;
    uv_queue_work(scheduler->loop, &beat->work, beat_work, after_beat);
}

/* ---- the loop ---- */

void ck_scheduler_look(struct ck_scheduler *scheduler, const char *job) {
    pthread_mutex_lock(&scheduler->lock);
    if (job && scheduler->n_inbox < INBOX_MAX)
        snprintf(scheduler->inbox[scheduler->n_inbox++], CK_JOB_ID_SIZE, "%s", job);
    else if (job)
        scheduler->look_at_all = true;
    uv_async_send(&scheduler->wake);
    pthread_mutex_unlock(&scheduler->lock);
}

static void on_wake(uv_async_t *wake) {
    struct ck_scheduler *scheduler = wake->data;
    char ids[INBOX_MAX][CK_JOB_ID_SIZE];
    size_t n;
    bool all;

    pthread_mutex_lock(&scheduler->lock);
    n = scheduler->n_inbox;
    memcpy(ids, scheduler->inbox, n * CK_JOB_ID_SIZE);
    all = scheduler->look_at_all;
    scheduler->n_inbox = 0;
    scheduler->look_at_all = false;
    pthread_mutex_unlock(&scheduler->lock);
    for (size_t i = 0; i < n && !all; i++)
        if (find_run(scheduler, ids[i]))
            heartbeat(scheduler, ids[i]);
    if (all)
        heartbeat(scheduler, NULL);
    claim_next(scheduler);
}

static void look_work(uv_work_t *work) {
    struct ck_scheduler *scheduler = work->data;

    ck_daemon_look(scheduler->daemon);
}

static void after_look(uv_work_t *work, _unused_ int status) {
    struct ck_scheduler *scheduler = work->data;

    scheduler->look_busy = false;
    scheduler->n_works--;
}

void ck_scheduler_tick(struct ck_scheduler *scheduler) {
    const struct ck_settings *settings = &scheduler->daemon->settings;
    struct ck_run *unended = TAKE_PTR(scheduler->unended), *next;
    int64_t now = ck_now_ms();

    for (; unended; unended = next) {
        next = unended->next_unended;
        begin_end(unended);
    }
    for (struct ck_run *run = scheduler->running; run; run = run->next)
        if (run->child && now - run->started > (int64_t)settings->worker_time * 1000)
            ck_child_kill(run->child, CK_E_WORKER_TIMEOUT,
                          "the worker process used up the time of one job (--worker-time)");
    /* A store that does not answer must not gather a queue of them. */
    if (now >= scheduler->beat_at && scheduler->n_beats == 0) {
        scheduler->beat_at = now + (int64_t)settings->lease * 1000 / 3;
        heartbeat(scheduler, NULL);
    }
    if (!scheduler->look_busy) {
        scheduler->look_busy = true;
        scheduler->looking.data = scheduler;
        scheduler->n_works++;
        uv_queue_work(scheduler->loop, &scheduler->looking, look_work, after_look);
    }
    claim_next(scheduler);
}

void ck_scheduler_drain(struct ck_scheduler *scheduler) {
    scheduler->draining = true;
}

void ck_scheduler_end(struct ck_scheduler *scheduler) {
    struct ck_run *next;

    scheduler->draining = scheduler->ending = true;
    for (struct ck_run *run = scheduler->running; run; run = next) {
        next = run->next;
        stop(scheduler, run, CK_E_DRAINING, "the daemon was shut down before the job was done");
    }
}

bool ck_scheduler_idle(const struct ck_scheduler *scheduler) {
    return !scheduler->running && scheduler->n_works == 0;
}

const char *ck_scheduler_trouble(const struct ck_scheduler *scheduler) {
    return atomic_load(&scheduler->trouble);
}

unsigned ck_scheduler_busy(const struct ck_scheduler *scheduler) {
    return atomic_load(&scheduler->n_children);
}

int ck_scheduler_new(uv_loop_t *loop, struct ck_daemon *daemon, struct ck_scheduler **ret_scheduler,
                     struct ck_error *err) {
    struct ck_scheduler *scheduler = calloc(1, sizeof(*scheduler));
    int r;

    if (!scheduler)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    scheduler->loop = loop;
    scheduler->daemon = daemon;
    scheduler->budget = daemon->settings.memory_budget;
    r = uv_async_init(loop, &scheduler->wake, on_wake);
    if (r < 0) {
        free(scheduler);
        return ck_error_set(err, CK_E_IO, NULL, "cannot start the scheduler: %s", uv_strerror(r));
    }
    scheduler->wake.data = scheduler;
    pthread_mutex_init(&scheduler->lock, NULL);
    *ret_scheduler = scheduler;
    return 0;
}

void ck_scheduler_close(struct ck_scheduler *scheduler) {
    uv_close((uv_handle_t *)&scheduler->wake, NULL);
}

void ck_scheduler_free(struct ck_scheduler *scheduler) {
    if (!scheduler)
        return;
    pthread_mutex_destroy(&scheduler->lock);
    free(scheduler);
}
