#include "server/worker_pool.h"

#include <pthread.h>
#include <stdatomic.h>

#include "server/log.h"
#include "server/peer.h"
#include "server/worker_child.h"

struct list {
    struct ck_job *first, *last;
};

struct ck_workers {
    uv_loop_t *loop;
    const struct ck_settings *settings;
    const struct ck_data_dir *data;
    uv_async_t wake;
    pthread_mutex_t lock; /* guards inbox */
    struct list inbox;
    struct list waiting, running;
    unsigned n_waiting, n_running;
    bool ending;
    _Atomic(const char *) trouble;
};

static void append(struct list *list, struct ck_job *job) {
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
}

static void take_out(struct list *list, struct ck_job *job) {
    struct ck_job *before = NULL, *at = list->first;

    while (at && at != job) {
        before = at;
        at = at->next;
    }
    if (!at)
        return;
    if (before)
        before->next = job->next;
    else
        list->first = job->next;
    if (list->last == job)
        list->last = before;
}

static void finish(struct ck_job *job) {
    const char *code = job->err.code ? ck_error_row(job->err.code)->name : "ok";
    uint64_t now = uv_hrtime() / 1000000;

    CK_LOG(INFO, "job", CK_LOG_TEXT("job", job->id), CK_LOG_TEXT("outcome", code),
           CK_LOG_NUMBER("queued_ms", (job->started_at ? job->started_at : now) - job->submitted_at),
           CK_LOG_NUMBER("run_ms", job->started_at ? now - job->started_at : 0),
           CK_LOG_NUMBER("input_bytes", job->input_bytes));
    job->finished(job->ctx);
}

static void start_waiting(struct ck_workers *workers);

static void child_ended(struct ck_job *job, void *ctx) {
    struct ck_workers *workers = ctx;

    take_out(&workers->running, job);
    workers->n_running--;
    job->child = NULL;
    finish(job);
    start_waiting(workers);
}

static void start_one(struct ck_workers *workers, struct ck_job *job) {
    int r;

    job->started_at = uv_hrtime() / 1000000;
    r = ck_child_start(workers->loop, workers->settings, workers->data, job, child_ended, workers, &job->err);
    atomic_store(&workers->trouble, r < 0 ? "the last worker process could not be started" : NULL);
    if (r < 0) {
        ck_log_error(CK_LOG_ERROR, "cannot start a worker", &job->err);
        finish(job);
        return;
    }
    append(&workers->running, job);
    workers->n_running++;
}

static void start_waiting(struct ck_workers *workers) {
    while (workers->waiting.first && workers->n_running < workers->settings->workers) {
        struct ck_job *job = workers->waiting.first;

        take_out(&workers->waiting, job);
        workers->n_waiting--;
        start_one(workers, job);
    }
}

static void refuse_waiting(struct ck_workers *workers) {
    while (workers->waiting.first) {
        struct ck_job *job = workers->waiting.first;

        take_out(&workers->waiting, job);
        workers->n_waiting--;
        ck_error_set(&job->err, CK_E_DRAINING, NULL, "the daemon was shut down before the job began");
        finish(job);
    }
}

static void on_wake(uv_async_t *wake) {
    struct ck_workers *workers = wake->data;
    struct list inbox;

    pthread_mutex_lock(&workers->lock);
    inbox = workers->inbox;
    workers->inbox = (struct list){0};
    pthread_mutex_unlock(&workers->lock);
    while (inbox.first) {
        struct ck_job *job = inbox.first;

        take_out(&inbox, job);
        append(&workers->waiting, job);
        workers->n_waiting++;
    }
    if (workers->ending)
        refuse_waiting(workers);
    else
        start_waiting(workers);
}

int ck_workers_new(uv_loop_t *loop, const struct ck_settings *settings, const struct ck_data_dir *data,
                   struct ck_workers **ret_workers, struct ck_error *err) {
    struct ck_workers *workers = calloc(1, sizeof(*workers));
    int r;

    if (!workers)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    workers->loop = loop;
    workers->settings = settings;
    workers->data = data;
    r = uv_async_init(loop, &workers->wake, on_wake);
    if (r < 0) {
        free(workers);
        return ck_error_set(err, CK_E_IO, NULL, "cannot start the worker pool: %s", uv_strerror(r));
    }
    workers->wake.data = workers;
    pthread_mutex_init(&workers->lock, NULL);
    *ret_workers = workers;
    return 0;
}

void ck_workers_submit(struct ck_workers *workers, struct ck_job *job) {
    job->err = (struct ck_error){0};
    job->submitted_at = uv_hrtime() / 1000000;
    pthread_mutex_lock(&workers->lock);
    append(&workers->inbox, job);
    /* Under the lock: the pool is closed only after the loop has emptied the inbox. */
    uv_async_send(&workers->wake);
    pthread_mutex_unlock(&workers->lock);
}

static bool is_abandoned(const struct ck_job *job) {
    return job->client_fd >= 0 && ck_peer_is_gone(job->client_fd);
}

void ck_workers_tick(struct ck_workers *workers) {
    struct ck_job *next;

    for (struct ck_job *job = workers->running.first; job; job = job->next)
        if (is_abandoned(job))
            ck_child_kill(job->child, CK_E_CANCELLED, "the client closed the connection");
    for (struct ck_job *job = workers->waiting.first; job; job = next) {
        next = job->next;
        if (!is_abandoned(job))
            continue;
        take_out(&workers->waiting, job);
        workers->n_waiting--;
        ck_error_set(&job->err, CK_E_CANCELLED, NULL, "the client closed the connection");
        finish(job);
    }
}

void ck_workers_end(struct ck_workers *workers) {
    workers->ending = true;
    refuse_waiting(workers);
    for (struct ck_job *job = workers->running.first; job; job = job->next)
        ck_child_kill(job->child, CK_E_DRAINING, "the daemon was shut down before the job was done");
}

unsigned ck_workers_busy(const struct ck_workers *workers) {
    return workers->n_waiting + workers->n_running;
}

const char *ck_workers_trouble(const struct ck_workers *workers) {
    return atomic_load(&workers->trouble);
}

void ck_workers_close(struct ck_workers *workers) {
    uv_close((uv_handle_t *)&workers->wake, NULL);
}

void ck_workers_free(struct ck_workers *workers) {
    if (!workers)
        return;
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}

void ck_job_outcome_release(struct ck_job *job) {
    for (size_t i = 0; job->files && i < job->result.n_files; i++)
        ck_closep(&job->files[i]);
    free(job->files);
    free(job->result.files);
    job->files = NULL;
    job->result = (struct ck_job_result){0};
}
