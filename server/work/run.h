/* server/work/run.h: one attempt at one job: what the scheduler claimed, what the worker process made of it. */
#ifndef CK_SERVER_WORK_RUN_H
#define CK_SERVER_WORK_RUN_H

#include <uv.h>

#include "api/ports.h"
#include "core/job/job.h"

struct ck_child;
struct ck_daemon;
struct ck_scheduler;

struct ck_run {
    struct ck_scheduler *scheduler;
    struct ck_job_row row; /* as claimed; owned */
    struct ck_spec spec;   /* of row.spec; owned */
    char cache_key[CK_DIGEST_SIZE]; /* of this version, which may be later than the job's record */
    int input_fd;          /* owned */
    uint64_t memory;       /* bytes that the worker may take at most */
    uint64_t reserved;     /* bytes that count against the budget while it runs */
    int64_t started;       /* ms of CLOCK_MONOTONIC */

    struct ck_job_live live; /* guarded by the scheduler's lock: other threads ask for it */

    /* The worker's outcome. */
    struct ck_error err;         /* code 0: done */
    struct ck_job_result result; /* owned; a refused job has its report */
    int *files;                  /* descriptors of result.files, owned */

    /* The end, as the store took it. */
    struct ck_job_row ended; /* owned */
    bool published;          /* the results lie in jobs/ID/ */
    bool stale;              /* somebody else holds the job by now */
    bool end_failed;         /* the store did not answer: try again */

    struct ck_child *child; /* NULL before it starts and after it ended */
    uv_work_t work;
    struct ck_run *next, *next_unended;
};

/* ---- what blocks; for libuv's pool (server/work/run.c) ---- */

/* Claims the next job. *ret_run: NULL if there is none. *ret_ended: an equal job had results, the job is over (run->ended). What keeps a
 * claimed job from being started is in run->err. Returns 0 or the store's error. */
int ck_run_claim(struct ck_daemon *daemon, struct ck_run **ret_run, bool *ret_ended, struct ck_error *err);

/* Publishes what the worker made and ends the claim: fills ended, or sets stale or end_failed. May be called again after end_failed. */
void ck_run_end(struct ck_run *run, struct ck_daemon *daemon);

/* Closes and frees everything, and the run. Accepts NULL. */
void ck_run_free(struct ck_run *run);

#endif
