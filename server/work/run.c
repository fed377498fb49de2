#include "server/work/run.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/problem.h"
#include "api/submit.h"
#include "core/base/version.h"
#include "core/job/spec_json.h"
#include "server/disk/blobs_dir.h"
#include "server/daemon.h"
#include "server/log.h"
#include "server/work/scheduler.h"

#define RETRY_KILLED_MS 1000  /* after the second start; doubled each time */
#define RETRY_DISK_MS   15000 /* doubled each time */
#define RETRY_MOST_MS   900000

static const char owner[] = "self"; /* one daemon per data directory */

static void close_files(struct ck_run *run) {
    for (size_t i = 0; run->files && i < run->result.n_files; i++)
        ck_data_dir_discard(TAKE_FD(run->files[i]));
    free(run->files);
    run->files = NULL;
    ck_job_result_release(&run->result);
}

void ck_run_free(struct ck_run *run) {
    if (!run)
        return;
    close_files(run);
    ck_closep(&run->input_fd);
    ck_spec_release(&run->spec);
    ck_job_row_release(&run->row);
    ck_job_row_release(&run->ended);
    free(run);
}

/* ---- claim ---- */

static void decref(json_t **value) {
    json_decref(*value);
}

static int read_spec(struct ck_run *run) {
    _cleanup_(decref) json_t *object = json_loads(run->row.spec, 0, NULL);

    return ck_spec_from_json(object, &run->spec, &run->err);
}

/* ms since 1970 until which results stay. */
static int64_t expiry(const struct ck_daemon *daemon, int64_t now) {
    return now + (int64_t)daemon->settings.result_ttl * 1000;
}

/* An equal job may have ended since this one was made. */
static bool end_from_cache(struct ck_daemon *daemon, struct ck_run *run) {
    struct ck_job_row found = {0};
    struct ck_error err = {0};
    int64_t now = ck_clock_ms();
    bool done = false;

    if (run->row.fresh || daemon->store->job_cached(daemon->store, run->row.tenant, run->cache_key, &found, &err) < 0)
        return false;
    if (ck_link_cached(daemon->blobs, &found, run->row.id, &err) == 0) {
        const struct ck_job_end end = {
            .state = CK_STATE_SUCCEEDED,
            .reason = "cached",
            .outcome = found.outcome,
            .files = found.files,
            .n_files = found.n_files,
            .durable = found.durable,
            .expires_at = expiry(daemon, now),
            .cached_from = found.id,
            .converter = ck_version(),
            .cache_key = run->cache_key,
        };

        done = daemon->store->job_end(daemon->store, run->row.id, run->row.lease_token, now, &end, &run->stale,
                                      &run->ended, &err) == 0 &&
               !run->stale;
        if (!done)
            daemon->blobs->remove_results(daemon->blobs, run->row.id);
    }
    ck_job_row_release(&found);
    return done;
}

static int open_input(struct ck_daemon *daemon, struct ck_run *run) {
    const struct ck_job_source *input = &run->row.inputs[0];
    uint64_t bytes;
    int r;

    r = daemon->blobs->open(daemon->blobs, input->digest, &run->input_fd, &bytes, &run->err);
    if (r == CK_E_BLOB_NOT_FOUND) {
        run->err = (struct ck_error){0};
        r = ck_error_set(&run->err, CK_E_INPUT_NOT_FOUND, input->digest,
                         "the input sha256:%s is not stored here any more", input->digest);
    }
    return r;
}

int ck_run_claim(struct ck_daemon *daemon, struct ck_run **ret_run, bool *ret_ended, struct ck_error *err) {
    struct ck_run *run = calloc(1, sizeof(*run));
    bool claimed = false;
    int r;

    if (!run)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    run->input_fd = -1;
    run->scheduler = daemon->scheduler;
    r = daemon->store->job_claim(daemon->store, owner, ck_clock_ms(), (int64_t)daemon->settings.lease * 1000, &claimed,
                                 &run->row, err);
    if (r < 0 || !claimed) {
        ck_run_free(run);
        return r;
    }
    r = ck_cache_key(run->row.inputs[0].role, run->row.inputs[0].digest, run->row.spec, run->cache_key, &run->err);
    *ret_ended = r == 0 && end_from_cache(daemon, run);
    if (r == 0 && !*ret_ended)
        r = read_spec(run);
    if (r == 0 && !*ret_ended)
        (void)open_input(daemon, run);
    *ret_run = run;
    return 0;
}

/* ---- end ---- */

static int64_t later(int64_t step, unsigned doublings) {
    return CK_MIN(step << CK_MIN(doublings, 20u), (int64_t)RETRY_MOST_MS);
}

/* The decision: what an outcome means for the job. */
static void decide(const struct ck_run *run, int64_t now, int64_t expires_at, struct ck_job_end *end) {
    const struct ck_job_row *row = &run->row;
    enum ck_error_class class_ = ck_error_row(run->err.code)->class_;
    unsigned again = row->attempt > 1 ? row->attempt - 2 : 0;

    *end = (struct ck_job_end){
        .state = CK_STATE_FAILED, .reason = ck_error_row(run->err.code)->name, .expires_at = expires_at};
    switch (run->err.code) {
    case 0:
        end->state = CK_STATE_SUCCEEDED;
        end->reason = NULL;
        return;
    case CK_E_CANCELLED:
        end->state = CK_STATE_CANCELLED;
        return;
    case CK_E_DRAINING:
        end->state = CK_STATE_QUEUED;
        end->reason = "drained";
        end->forgive = true;
        end->run_at = now;
        return;
    case CK_E_WORKER_CRASHED:
    case CK_E_WORKER_OOM:
        end->crashed = true;
        end->state = row->crash_count + 1 >= CK_CRASHES_MAX ? CK_STATE_DEAD : CK_STATE_QUEUED;
        end->run_at = now;
        return;
    case CK_E_WORKER_KILLED:
        end->state = CK_STATE_QUEUED;
        end->run_at = row->attempt > 1 ? now + later(RETRY_KILLED_MS, again) : now;
        return;
    default:
        /* The disk or the machine, not the document: what was promised is tried again. */
        if (class_ == CK_CLASS_server && row->durable && row->attempt < row->max_attempts) {
            end->state = CK_STATE_QUEUED;
            end->run_at = now + later(RETRY_DISK_MS, row->attempt - 1);
        }
        return;
    }
}

static int publish(struct ck_run *run, struct ck_daemon *daemon) {
    size_t n = run->result.n_files;
    _cleanup_(ck_freep) const char **names = NULL;
    int r;

    if (n == 0 || run->published)
        return 0;
    names = calloc(n, sizeof(*names));
    if (!names)
        return ck_error_set(&run->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the result");
    for (size_t i = 0; i < n; i++)
        names[i] = run->result.files[i].name;
    r = ck_blobs_dir_publish_results(daemon->blobs, run->row.id, names, run->files, n,
                                     run->row.durable && daemon->ports.terms.durable, &run->err);
    run->published = r == 0;
    return r;
}

static char *outcome_json(const struct ck_job_result *result) {
    char *text = NULL;

    if (asprintf(&text, "{\"tensors\":%u,\"assumed\":%u,\"dropped\":%u,\"aliases\":%u,\"overflowed\":%llu}",
                 result->tensors, result->assumed, result->dropped, result->aliases,
                 (unsigned long long)result->overflowed) < 0)
        return NULL;
    return text;
}

void ck_run_end(struct ck_run *run, struct ck_daemon *daemon) {
    _cleanup_(ck_freep) char *error = NULL, *outcome = NULL;
    struct ck_error failure = {0};
    int64_t now = ck_clock_ms();
    struct ck_job_end end;
    int r;

    (void)publish(run, daemon);
    decide(run, now, expiry(daemon, now), &end);
    if (end.state == CK_STATE_SUCCEEDED)
        end.outcome = outcome = outcome_json(&run->result);
    else if (run->err.code)
        end.error = error = ck_problem_members_json(&run->err);
    if (run->published && ck_job_state_finished(end.state)) {
        end.files = run->result.files;
        end.n_files = run->result.n_files;
        end.durable = run->row.durable;
        end.converter = ck_version();
        end.cache_key = run->cache_key;
    }
    r = daemon->store->job_end(daemon->store, run->row.id, run->row.lease_token, now, &end, &run->stale, &run->ended,
                               &failure);
    run->end_failed = r < 0;
    if (r < 0)
        ck_log_error(CK_LOG_ERROR, "cannot write the end of a job", &failure);
}
