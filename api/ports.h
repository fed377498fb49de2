/* api/ports.h: what the handlers need from the process that runs them. server/ implements it; tests put in their own. */
#ifndef CK_API_PORTS_H
#define CK_API_PORTS_H

#include "api/blob_store.h"
#include "api/store.h"
#include "core/base/limits.h"

struct ck_health {
    bool        draining;    /* SIGTERM came: what runs is finished, nothing new is taken */
    uint64_t    free_bytes;  /* on the file system of the data directory */
    uint64_t    need_bytes;  /* below this no upload is taken */
    bool        workers_ok;  /* the loop that starts workers answers, and its last start succeeded */
    const char *workers_why; /* one sentence if not; static storage */
    bool        store_ok;    /* the last look at the store succeeded */
    char        store_why[256];
    bool        started;     /* recovery is over */
};

/* How far a running job is. */
struct ck_job_live {
    enum ck_stage stage;
    uint64_t      done, total;  /* bytes of the stage; total 0: not known */
    uint64_t      sequence;     /* changes with every report */
    double        rate;         /* bytes/s of this stage so far; 0: not known */
    int64_t       stage_started; /* ms since 1970 */
};

/* What handlers may know of the settings. Sizes in bytes, times in seconds; server/settings.h explains each. */
struct ck_terms {
    uint64_t max_upload, max_json, max_files, max_wait, max_sync_wait, queue, workers, result_ttl, input_ttl, record_ttl, max_attempts;
    bool     durable;
    bool     keys; /* callers must show one */
    struct ck_limits limits;
};

struct ck_ports {
    void *ctx;
    struct ck_store *store;
    struct ck_blobs *blobs;
    struct ck_terms  terms;
    const char      *build_json; /* members of /version that only the server knows: one JSON object */

    int64_t (*now)(void *ctx);                              /* ms since 1970 */
    void (*new_id)(void *ctx, char ret_id[CK_JOB_ID_SIZE]); /* UUIDv7 */
    void (*health)(void *ctx, struct ck_health *ret_health); /* from any thread, cheap */
    /* False if the job does not run here. */
    bool (*live)(void *ctx, const char *job, struct ck_job_live *ret_live);
    /* A job was made, cancelled or retried: whoever runs jobs should look, whoever waits for it is told. */
    void (*changed)(void *ctx, const char *job);
    /* Marks a blob used, later and on another thread: for heads, which must not block. */
    void (*touch_blob)(void *ctx, const char *digest);
    /* Counts in metrics: a job answered from cache; an upload whose blob was there */
    void (*count_cache_hit)(void *ctx);
    void (*count_blob_hit)(void *ctx);
    /* The text of /metrics. open: OpenMetrics. */
    void (*metrics)(void *ctx, bool open, struct ck_buffer *buffer);
};

#endif
