/* server/worker_pool.h: jobs wait here for a worker process. Submitting works from any thread; everything else happens
 * on the loop's thread. */
#ifndef CK_SERVER_WORKER_POOL_H
#define CK_SERVER_WORKER_POOL_H

#include <uv.h>

#include "core/job/job.h"
#include "server/data_dir.h"
#include "server/settings.h"

struct ck_workers;
struct ck_child;

struct ck_job {
    /* The submitter's; unchanged and alive until finished() is called. */
    const char *id;
    const struct ck_spec *spec;
    const char *input_name;
    int input_fd;
    uint64_t input_bytes;
    int client_fd; /* the socket of the client that waits: when it is closed the job is cancelled; -1 for none */
    void (*finished)(void *ctx); /* on the loop's thread; from then on the job belongs to the submitter */
    void *ctx;

    /* The outcome. */
    struct ck_error err;         /* code 0: done */
    struct ck_job_result result; /* owned by the submitter; released with ck_job_outcome_release() */
    int *files;                  /* descriptors of result.files, owned by the submitter; -1 for one that was taken */

    /* Of the pool. */
    struct ck_job *next;
    struct ck_child *child;            /* NULL while waiting */
    uint64_t submitted_at, started_at; /* ms, uv_hrtime() */
};

/* All borrowed; the loop must run for anything to happen. */
int ck_workers_new(uv_loop_t *loop, const struct ck_settings *settings, const struct ck_data_dir *data,
                   struct ck_workers **ret_workers, struct ck_error *err);

/* From any thread. finished() will be called, whatever happens. */
void ck_workers_submit(struct ck_workers *workers, struct ck_job *job);

/* Once a second: cancels the jobs whose clients are gone. */
void ck_workers_tick(struct ck_workers *workers);

/* Ends all jobs, waiting, running and still to come, with CK_E_DRAINING. */
void ck_workers_end(struct ck_workers *workers);

unsigned ck_workers_busy(const struct ck_workers *workers); /* waiting and running */

/* The sentence about the last start of a worker that failed, or NULL if it succeeded. From any thread; static storage.
 */
const char *ck_workers_trouble(const struct ck_workers *workers);

/* Closes its handles; the caller runs the loop until they are closed, then frees. No job may be left. */
void ck_workers_close(struct ck_workers *workers);
void ck_workers_free(struct ck_workers *workers);

/* Closes what is left of the files. */
void ck_job_outcome_release(struct ck_job *job);

#endif
