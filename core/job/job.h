/* job/job.h: the core's one entry: specification and input files in, output files and report out. The worker process,
 * the CLI and the tests all come through here. */
#ifndef CK_JOB_JOB_H
#define CK_JOB_JOB_H

#include "core/base/limits.h"
#include "core/base/pool.h"
#include "core/base/progress.h"
#include "core/job/options.h"

struct ck_job_input {
    const char *role; /* "model" */
    const char *name; /* as the client named it; for messages only, never for output bytes */
    int fd;           /* borrowed, a regular file */
};

/* Where output files come from: the CLI opens them in its folder, the worker takes the next inherited descriptor. */
struct ck_job_sink {
    /* Gives a writable and readable, empty file for `name`. The descriptor stays the sink's. Returns 0 or a negative
     * code. */
    int (*create)(void *ctx, const char *name, int *ret_fd, struct ck_error *err);
    void *ctx;
    int scratch_fd; /* borrowed: an empty file, readable and writable, for what must be unpacked (base/scratch.h); -1: none
                       */
};

struct ck_job_file {
    char name[128];
    uint64_t bytes;
    uint32_t crc32;
};

struct ck_job_result {
    struct ck_job_file *files; /* owned; in the order of creation */
    size_t n_files;
    /* Of a conversion; of a dry run, as planned; 0 after an analysis. */
    uint32_t tensors; /* written */
    uint32_t assumed; /* for X-Ckptd-Assumed */
    uint32_t dropped, aliases;
    uint64_t overflowed; /* values that a cast made infinite */
};

/* Runs the job. What it writes:
 *   a conversion  the model's files and report.json, which comes last
 *   a dry run     plan.json alone (job/report.h). That the plan refuses is an answer, too: returns 0
 *   an analysis   analysis.json alone (job/analysis.h)
 * A refused job has written report.json alone (result lists it) and returns the refusal; a dry run or an analysis is
 * refused only if the file cannot be read, or no set of weights in it can be told. Nothing is synced or renamed. Stages
 * read, plan, write, verify go to progress, as far as the job gets. pool may be NULL where no model is written. */
int ck_job_run(const struct ck_spec *spec, const struct ck_job_input *inputs, size_t n_inputs,
               const struct ck_limits *limits, struct ck_pool *pool, const struct ck_progress *progress,
               const struct ck_job_sink *sink, struct ck_job_result *ret_result, struct ck_error *err);

void ck_job_result_release(struct ck_job_result *result);

#endif
