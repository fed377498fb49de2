/* api/store.h: the job store: what is asked of it. server/store/sqlite.c is the embedded one; tests bring their own.
 *
 * The store owns the state of every job; connections, threads and processes only ever hold copies. Each function is one transaction and may
 * block on the disk, so none is called from a thread that serves sockets. All are thread-safe. Times are ms since 1970.
 *
 * The life of a job:
 *   queued    -> running (claim), cancelled, succeeded (from cache)
 *   running   -> succeeded, failed, cancelled, dead (finish, with the lease's token), queued (requeue: handed back or to be tried again)
 *   failed, cancelled, dead, expired -> queued (retry)
 *   succeeded -> expired (results removed, record kept)
 * Every change of state adds one to `version`.
 *
 * Errors of all: CK_E_STORE_UNAVAILABLE (locked, unreadable, corrupt), CK_E_STORAGE_FULL, CK_E_OUT_OF_MEMORY, and those named below. */
#ifndef CK_API_STORE_H
#define CK_API_STORE_H

#include "api/reply.h"
#include "core/job/job.h"

#define CK_JOB_STATES(X)                                                                                                  \
    /* NAME       text         finished */                                                                                \
    X(QUEUED,     "queued",    false)                                                                                     \
    X(RUNNING,    "running",   false)                                                                                     \
    X(SUCCEEDED,  "succeeded", true)                                                                                      \
    X(FAILED,     "failed",    true)  /* the document or the request: the same input fails again */                       \
    X(CANCELLED,  "cancelled", true)                                                                                      \
    X(DEAD,       "dead",      true)  /* given up: it crashed its worker twice, or every attempt was lost */              \
    X(EXPIRED,    "expired",   true)  /* succeeded; the results are removed */

enum ck_job_state {
#define X(name, text, finished) CK_STATE_##name,
    CK_JOB_STATES(X) CK_STATE_END_
#undef X
};

const char *ck_job_state_name(enum ck_job_state state);
bool        ck_job_state_finished(enum ck_job_state state);
bool        ck_job_state_parse(const char *text, enum ck_job_state *ret_state);

#define CK_DIGEST_SIZE 65 /* 64 hex digits and NUL */

/* One input of a job: a blob in a role. */
struct ck_job_source {
    char    *role; /* "model" */
    char    *name; /* as the client named it */
    char     digest[CK_DIGEST_SIZE];
    uint64_t bytes;
};

/* One job. Texts are owned by the row (ck_job_row_release); a text that is absent is NULL. */
struct ck_job_row {
    char              id[CK_JOB_ID_SIZE]; /* UUIDv7: sorts by time of creation */
    char             *tenant;             /* "" */
    enum ck_job_state state;
    uint64_t          version;
    char             *kind, *target, *quant; /* words of core/job/options.h; target and quant are "" for other kinds than convert */
    char             *spec;                  /* ck_spec_normalised(): kind, to, quant, options, dry_run */
    struct ck_job_source *inputs;
    size_t            n_inputs;
    char             *labels;      /* JSON object of strings, "{}" */
    char             *stem;        /* of the names that results get: "resnet" */
    char              cache_key[CK_DIGEST_SIZE]; /* sha256 of inputs' digests and roles, spec, converter version */
    bool              fresh;       /* was not and must not be answered from cache */
    char             *reason;      /* one word for the state ("worker_crashed", "cancelled", "cached", "drained" ...); NULL */
    unsigned          attempt;     /* starts so far */
    unsigned          max_attempts;
    unsigned          crash_count; /* attempts that ended in the job's own crash */
    uint64_t          lease_token; /* of the last claim */
    int64_t           created_at, started_at, finished_at, expires_at, cancel_requested_at; /* 0: not yet */
    char             *outcome;     /* succeeded: JSON object {"tensors","assumed","dropped","aliases","overflowed"} */
    struct ck_job_file *files;     /* of jobs/ID/; report.json too, also for a failed job that has one */
    size_t            n_files;
    char             *error;       /* failed, dead: problem document's members as JSON {"code","title","detail","where","hint","questions"} */
    bool              durable;     /* inputs and results were synced; without it a crash of the machine may lose them */
    char             *request_id, *trace_id, *caller;
    char              cached_from[CK_JOB_ID_SIZE]; /* "" */
    char             *converter;   /* version that made the results, or will */
};

void ck_job_row_release(struct ck_job_row *row);

struct ck_job_filter {
    const char *tenant;
    unsigned    states;        /* bit (1 << state); 0: all */
    const char *kind, *target; /* NULL: all */
    const char *label_key, *label_value; /* NULL: all */
    int64_t     created_after, created_before; /* 0: no bound; exclusive */
    const char *cursor;        /* id of the last job of the page before, or NULL */
    bool        oldest_first;
    unsigned    limit;         /* rows at most */
};

/* How a claim's holder ends it. */
struct ck_job_end {
    enum ck_job_state state; /* SUCCEEDED, FAILED, CANCELLED, DEAD; QUEUED: hand it back */
    const char       *reason;
    const char       *error;   /* JSON or NULL */
    const char       *outcome; /* JSON or NULL */
    const struct ck_job_file *files;
    size_t            n_files;
    bool              durable;
    bool              crashed;       /* counts in crash_count */
    bool              forgive;       /* QUEUED: the attempt is not counted (drain) */
    int64_t           run_at;        /* QUEUED: not before */
    int64_t           expires_at;    /* finished: when results, or the record, go */
    const char       *cached_from;   /* SUCCEEDED without work, or NULL */
    const char       *converter, *cache_key; /* finished: of the version that did it, which may be a later one than the job was made for; NULL: as they are */
};

struct ck_queue_counts {
    uint64_t queued, running;
    int64_t  oldest_queued_at; /* ms, 0 if none */
};

struct ck_store {
    /* Inserts a job with references to its inputs: queued, or succeeded at once (from cache: with files, outcome, cached_from and times; the
     * results are linked before). CK_E_INPUT_NOT_FOUND naming the digest if a
     * blob is unknown or being deleted. durable rows are on disk when it returns. */
    int (*job_create)(struct ck_store *store, const struct ck_job_row *row, struct ck_error *err);

    /* CK_E_JOB_NOT_FOUND. */
    int (*job_get)(struct ck_store *store, const char *tenant, const char *id, struct ck_job_row *ret_row, struct ck_error *err);

    /* Calls each() for every row of the page, newest first. A negative return of each() ends it and is returned. */
    int (*job_list)(struct ck_store *store, const struct ck_job_filter *filter, int (*each)(void *ctx, const struct ck_job_row *row), void *ctx,
                    struct ck_error *err);

    /* Queued jobs that are claimed before this one. */
    int (*job_ahead)(struct ck_store *store, const char *id, uint64_t *ret_ahead, struct ck_error *err);

    int (*job_counts)(struct ck_store *store, struct ck_queue_counts *ret_counts, struct ck_error *err);

    /* A queued job is cancelled at once; a running one gets cancel_requested_at, and its holder ends it. *ret_row is the row afterwards.
     * CK_E_JOB_NOT_FOUND; CK_E_JOB_FINISHED unless it is cancelled already. */
    int (*job_cancel)(struct ck_store *store, const char *tenant, const char *id, int64_t now, struct ck_job_row *ret_row, struct ck_error *err);

    /* failed, cancelled, dead, expired -> queued, with the counts of attempts and crashes at 0. CK_E_JOB_NOT_FOUND; CK_E_JOB_NOT_RETRYABLE;
     * CK_E_INPUT_NOT_FOUND if an input was removed meanwhile. */
    int (*job_retry)(struct ck_store *store, const char *tenant, const char *id, int64_t now, struct ck_job_row *ret_row, struct ck_error *err);

    /* Forgets a finished job and its references; the caller removes its files afterwards. CK_E_JOB_NOT_FOUND; CK_E_JOB_NOT_FINISHED. */
    int (*job_delete)(struct ck_store *store, const char *tenant, const char *id, struct ck_error *err);

    /* The newest succeeded job with that cache key, whose results are there. CK_E_JOB_NOT_FOUND. */
    int (*job_cached)(struct ck_store *store, const char *tenant, const char *cache_key, struct ck_job_row *ret_row, struct ck_error *err);

    /* ---- for whoever runs jobs ---- */

    /* The queued job that has waited longest (run_at passed) becomes running: attempt + 1, lease_token + 1, leased until now + lease_ms.
     * One statement, so that no two claim the same. Returns 0 and *ret_claimed false if there is none. */
    int (*job_claim)(struct ck_store *store, const char *owner, int64_t now, int64_t lease_ms, bool *ret_claimed, struct ck_job_row *ret_row,
                     struct ck_error *err);

    /* Heartbeat of one claim. *ret_lost: somebody else holds it now, or nobody. *ret_cancel: a cancel was asked for. */
    int (*job_renew)(struct ck_store *store, const char *id, uint64_t token, int64_t now, int64_t lease_ms, bool *ret_lost, bool *ret_cancel,
                     struct ck_error *err);

    /* Ends a claim. *ret_stale true, and nothing is changed, if the token is not that of a running claim: the holder must then drop what it
     * made. A job whose cancel was asked for and that is handed back becomes cancelled. *ret_row: afterwards; may be NULL. */
    int (*job_end)(struct ck_store *store, const char *id, uint64_t token, int64_t now, const struct ck_job_end *end, bool *ret_stale,
                   struct ck_job_row *ret_row, struct ck_error *err);

    /* Leases that ran out before `now`: back to queued with run_at, or dead (reason "attempts") at max_attempts. */
    int (*jobs_reap)(struct ck_store *store, int64_t now, uint64_t *ret_reaped, struct ck_error *err);

    /* ---- blobs ---- */

    /* Makes the row, or brings it up to date (last_used_at; durable is only ever set). *ret_new: there was none. The file must be there. */
    int (*blob_put)(struct ck_store *store, const char *tenant, const char *digest, uint64_t bytes, bool durable, int64_t now, bool *ret_new,
                    struct ck_error *err);

    /* CK_E_BLOB_NOT_FOUND. */
    int (*blob_get)(struct ck_store *store, const char *tenant, const char *digest, uint64_t *ret_bytes, bool *ret_durable, struct ck_error *err);

    /* Marks it used now, so that the janitor keeps it for its time. */
    int (*blob_touch)(struct ck_store *store, const char *tenant, const char *digest, int64_t now, struct ck_error *err);

    /* Removes the row; the caller removes the file afterwards. CK_E_BLOB_NOT_FOUND; CK_E_BLOB_IN_USE (naming a job) while a queued or running
     * job refers to it. */
    int (*blob_delete)(struct ck_store *store, const char *tenant, const char *digest, struct ck_error *err);

    /* ---- retention: each removes rows first and calls gone() for each, so that the caller removes the files; at most `most` of them ---- */

    /* succeeded -> expired where expires_at passed: gone(id). */
    int (*expire_results)(struct ck_store *store, int64_t now, unsigned most, void (*gone)(void *ctx, const char *id), void *ctx, struct ck_error *err);
    /* The oldest succeeded results whatever their time, to make room: gone(id). */
    int (*expire_oldest)(struct ck_store *store, unsigned most, void (*gone)(void *ctx, const char *id), void *ctx, struct ck_error *err);
    /* Records of finished jobs that ended before `before`: gone(id). */
    int (*forget_jobs)(struct ck_store *store, int64_t before, unsigned most, void (*gone)(void *ctx, const char *id), void *ctx, struct ck_error *err);
    /* Blobs that no unfinished job refers to and that were last used before `before`: gone(digest). */
    int (*forget_blobs)(struct ck_store *store, int64_t before, unsigned most, void (*gone)(void *ctx, const char *digest), void *ctx, struct ck_error *err);
};

#endif
