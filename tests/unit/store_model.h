/* tests/unit/store_model.h: what the job store should do, in plain C. */
#ifndef CK_TESTS_STORE_MODEL_H
#define CK_TESTS_STORE_MODEL_H

#include "tests/unit/store.h"

#define JOBS      60
#define BLOBS     6
#define MAX_TRIES 3

struct job {
    bool there, durable, fresh, has_file;
    enum ck_job_state state;
    uint64_t version, token;
    unsigned attempt, crashes, blob;
    int64_t run_at, created, started, finished, expires, cancel, lease;
    const char *reason;
};

struct blob {
    bool there, durable;
    int64_t used;
};

static struct job jobs[JOBS];
static struct blob blobs[BLOBS];
static struct ck_store *store;
static int64_t now;
static uint64_t seed;

static unsigned any(unsigned n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static bool unfinished(const struct job *job) {
    return job->there && (job->state == CK_STATE_QUEUED || job->state == CK_STATE_RUNNING);
}

static bool in_use(unsigned b) {
    for (unsigned n = 0; n < JOBS; n++)
        if (unfinished(&jobs[n]) && jobs[n].blob == b)
            return true;
    return false;
}

static void use(unsigned b) {
    if (blobs[b].there)
        blobs[b].used = CK_MAX(blobs[b].used, now);
}

static void finish_as(struct job *job, enum ck_job_state state, const char *reason, int64_t expires) {
    job->state = state;
    job->reason = reason;
    job->finished = now;
    job->expires = expires;
    job->version++;
}

static void hand_back(struct job *job, const char *reason, int64_t run_at, bool crashed, bool forgive,
                      int64_t expires) {
    job->token++;
    job->crashes += crashed;
    job->has_file = false;
    if (job->cancel) {
        finish_as(job, CK_STATE_CANCELLED, "cancelled", expires);
        return;
    }
    if (!forgive && job->attempt >= MAX_TRIES) {
        finish_as(job, CK_STATE_DEAD, "attempts", expires);
        return;
    }
    job->state = CK_STATE_QUEUED;
    job->reason = reason;
    job->attempt -= forgive;
    job->started = 0;
    job->run_at = run_at < 0 ? job->run_at : run_at;
    job->version++;
}

static void start_anew(struct job *job, const char *reason, int64_t run_at) {
    *job = (struct job){.there = true,
                        .durable = job->durable,
                        .fresh = job->fresh,
                        .state = CK_STATE_QUEUED,
                        .version = job->version + 1,
                        .token = job->token,
                        .blob = job->blob,
                        .run_at = run_at,
                        .created = job->created,
                        .reason = reason};
}

static int first_due(void) {
    int first = -1;

    for (int n = 0; n < JOBS; n++)
        if (jobs[n].there && jobs[n].state == CK_STATE_QUEUED && jobs[n].run_at <= now &&
            (first < 0 || jobs[n].run_at < jobs[first].run_at))
            first = n;
    return first;
}

#endif
