/* server/store/inner.h: what the files of the SQLite store share. Nobody else includes it, but for the store's own tests.
 *
 *   store_sqlite.c     open, close, the pool of connections, transactions
 *   store_schema.c     tables, versions, upgrades
 *   store_conn.c       one connection: statements, values, errors
 *   store_rows.c       struct ck_job_row <-> row
 *   store_jobs.c       what clients do with jobs
 *   store_list.c       pages of jobs, counts
 *   store_queue.c      what runs jobs
 *   store_recover.c    the start
 *   store_blobs.c, store_retention.c
 *   store_port.c       the table of functions, watched */
#ifndef CK_SERVER_STORE_INNER_H
#define CK_SERVER_STORE_INNER_H

#include <pthread.h>
#include <sqlite3.h>

#include "server/store/sqlite.h"

#define CK_SQLITE_READERS    4
#define CK_SQLITE_STATEMENTS 48 /* different SQL texts that one connection sees */

/* ---- store_conn.c ---- */

/* One connection, used by one thread at a time. */
struct ck_conn {
    sqlite3    *db;
    const char *doing; /* completes "the job store cannot ..." */
    bool        taken;
    struct {
        const char   *sql; /* the address is the key: SQL texts are constants */
        sqlite3_stmt *stmt;
    } cache[CK_SQLITE_STATEMENTS];
    size_t n_cached;
};

/* Opens without looking into the file. doing is borrowed. */
int  ck_conn_open(struct ck_conn *conn, const char *path, const char *doing, struct ck_error *err);
void ck_conn_close(struct ck_conn *conn);

/* Runs SQL that gives no rows. */
int ck_conn_exec(struct ck_conn *conn, const char *sql, struct ck_error *err);

/* Fills err from a result code of SQLite: the one place where they are translated. Returns the code. */
int ck_conn_error(struct ck_conn *conn, int rc, struct ck_error *err);

/* A prepared statement in use. Failures while it is made and bound are kept, and come out of ck_stmt_step().
 *     _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql); */
struct ck_stmt {
    struct ck_conn *conn;
    sqlite3_stmt   *stmt;
    int             rc;
};

struct ck_stmt ck_stmt(struct ck_conn *conn, const char *sql);

/* Bind a named parameter (":id"). Texts are borrowed until the reset; NULL is NULL. */
void ck_stmt_text(struct ck_stmt *stmt, const char *name, const char *text);
void ck_stmt_i64(struct ck_stmt *stmt, const char *name, int64_t value);
void ck_stmt_u64(struct ck_stmt *stmt, const char *name, uint64_t value);
void ck_stmt_time(struct ck_stmt *stmt, const char *name, int64_t ms); /* 0 is NULL */

/* Returns 1 with a row, 0 at the end, or a negative code. */
int ck_stmt_step(struct ck_stmt *stmt, struct ck_error *err);

/* Steps to the end. Returns 0 or a negative code. ret_changed: rows that were changed; may be NULL. */
int ck_stmt_run(struct ck_stmt *stmt, uint64_t *ret_changed, struct ck_error *err);

/* The text of a column, never NULL. Borrowed until the next step. */
const char *ck_stmt_get(struct ck_stmt *stmt, int column);

void ck_stmt_reset(struct ck_stmt *stmt);

/* ---- store_schema.c ---- */

/* Runs the steps that the file does not have: steps[i] leads from version i to i + 1. All in one transaction. CK_E_IO for a file that has
 * more versions than there are steps, or is not a job store. */
int ck_schema_upgrade(struct ck_conn *conn, const char *path, const char *const *steps, int n_steps, struct ck_error *err);

extern const char *const ck_schema_steps[];
extern const int         ck_schema_n_steps;

/* ---- store_sqlite.c ---- */

struct ck_sqlite {
    struct ck_store port; /* the first member, so that one pointer is both */
    int             busy_ms;
    char            boot_id[64];
    bool            is_new; /* nobody has used it before */
    bool            rebooted;
    pthread_mutex_t writing; /* held while writer is used */
    struct ck_conn  writer;
    pthread_mutex_t lock; /* guards readers[].taken */
    pthread_cond_t  freed;
    struct ck_conn  readers[CK_SQLITE_READERS];
    void (*observe)(void *ctx, const char *op, double seconds, int code);
    void *observe_ctx;
};

static inline struct ck_sqlite *ck_sqlite(struct ck_store *port) {
    return (struct ck_sqlite *)port;
}

/* Begin a transaction on a connection that is this thread's until ck_sqlite_end(). doing is static. */
int ck_sqlite_write(struct ck_sqlite *store, const char *doing, struct ck_conn **ret_conn, struct ck_error *err);
int ck_sqlite_read(struct ck_sqlite *store, const char *doing, struct ck_conn **ret_conn, struct ck_error *err);

/* Commits if r is not negative, else takes everything back. Returns r, or why it could not be committed. All statements are reset by then. */
int ck_sqlite_end(struct ck_sqlite *store, struct ck_conn *conn, int r, struct ck_error *err);

/* ---- store_rows.c ---- */

/* Columns of a job that are read into a row, after id: name, which is the member's, and how it is kept. */
#define CK_JOB_COLUMNS(X)        \
    X(tenant, TEXT)              \
    X(state, STATE)              \
    X(version, U64)              \
    X(kind, TEXT)                \
    X(target, TEXT)              \
    X(quant, TEXT)               \
    X(spec, TEXT)                \
    X(labels, TEXT)              \
    X(stem, TEXT)                \
    X(cache_key, ARRAY)          \
    X(fresh, BOOL)               \
    X(reason, TEXT)              \
    X(attempt, UNSIGNED)         \
    X(max_attempts, UNSIGNED)    \
    X(crash_count, UNSIGNED)     \
    X(lease_token, U64)          \
    X(created_at, TIME)          \
    X(started_at, TIME)          \
    X(finished_at, TIME)         \
    X(expires_at, TIME)          \
    X(cancel_requested_at, TIME) \
    X(outcome, TEXT)             \
    X(files, FILES)              \
    X(error, TEXT)               \
    X(durable, BOOL)             \
    X(request_id, TEXT)          \
    X(trace_id, TEXT)            \
    X(caller, TEXT)              \
    X(cached_from, ARRAY)        \
    X(converter, TEXT)

#define CK_ROW_NAME_(name, type) "," #name
#define CK_ROW_COLUMNS "id" CK_JOB_COLUMNS(CK_ROW_NAME_)

/* The row that a statement stands on, which selects or returns CK_ROW_COLUMNS, with its inputs. */
int ck_row_read(struct ck_stmt *stmt, struct ck_job_row *ret_row, struct ck_error *err);

/* A job by its id. tenant NULL: anybody's. CK_E_JOB_NOT_FOUND. */
int ck_row_find(struct ck_conn *conn, const char *tenant, const char *id, struct ck_job_row *ret_row, struct ck_error *err);

/* Adds the row alone, with version 1. */
int ck_row_insert(struct ck_conn *conn, const struct ck_job_row *row, struct ck_error *err);

/* A list of files as JSON, as the column `files` keeps it. Owned by the caller. */
int ck_files_json(const struct ck_job_file *files, size_t n_files, char **ret_json, struct ck_error *err);

/* Moves a row to its receiver. */
static inline struct ck_job_row ck_row_take(struct ck_job_row *row) {
    struct ck_job_row taken = *row;

    *row = (struct ck_job_row){0};
    return taken;
}

/* Blobs that a job refers to are used now. */
int ck_job_touch_inputs(struct ck_conn *conn, const char *id, int64_t now, struct ck_error *err);

/* {"code","title","detail","hint"} of a job that the store itself ends. Owned by the caller. */
int ck_job_error_json(int code, const char *detail, char **ret_json, struct ck_error *err);

/* ---- store_queue.c ---- */

/* Ends leases without a result. */
struct ck_hand_back {
    const char *id;     /* NULL: of all jobs */
    uint64_t    token;  /* with id: nothing is done unless it is the token of the claim */
    int64_t     before; /* leases that end before it; INT64_MAX: all */
    int64_t     now;
    const char *reason; /* of those that are queued */
    int64_t     run_at; /* of those that are queued; -1: as it was */
    int64_t     expires_at; /* of those that end here; 0: none */
    bool        crashed, forgive;
};

struct ck_handed_back {
    uint64_t queued, dead, cancelled;
};

/* running -> cancelled if that was asked for; dead at the last attempt; else queued. */
int ck_job_hand_back(struct ck_conn *conn, const struct ck_hand_back *what, struct ck_handed_back *ret_done, struct ck_error *err);

/* ---- the SQL that must use its index; a test looks ---- */

extern const char ck_sql_claim[], ck_sql_list_newest[], ck_sql_list_oldest[], ck_sql_cached[], ck_sql_expired[], ck_sql_oldest_results[],
    ck_sql_old_jobs[], ck_sql_old_blobs[];

/* ---- the port, unwatched ---- */

int ck_sqlite_job_create(struct ck_sqlite *store, const struct ck_job_row *row, struct ck_error *err);
int ck_sqlite_job_get(struct ck_sqlite *store, const char *tenant, const char *id, struct ck_job_row *ret_row, struct ck_error *err);
int ck_sqlite_job_list(struct ck_sqlite *store, const struct ck_job_filter *filter, int (*each)(void *ctx, const struct ck_job_row *row), void *ctx,
                       struct ck_error *err);
int ck_sqlite_job_ahead(struct ck_sqlite *store, const char *id, uint64_t *ret_ahead, struct ck_error *err);
int ck_sqlite_job_counts(struct ck_sqlite *store, struct ck_queue_counts *ret_counts, struct ck_error *err);
int ck_sqlite_job_cancel(struct ck_sqlite *store, const char *tenant, const char *id, int64_t now, struct ck_job_row *ret_row, struct ck_error *err);
int ck_sqlite_job_retry(struct ck_sqlite *store, const char *tenant, const char *id, int64_t now, struct ck_job_row *ret_row, struct ck_error *err);
int ck_sqlite_job_delete(struct ck_sqlite *store, const char *tenant, const char *id, struct ck_error *err);
int ck_sqlite_job_cached(struct ck_sqlite *store, const char *tenant, const char *cache_key, struct ck_job_row *ret_row, struct ck_error *err);
int ck_sqlite_job_claim(struct ck_sqlite *store, const char *owner, int64_t now, int64_t lease_ms, bool *ret_claimed, struct ck_job_row *ret_row,
                        struct ck_error *err);
int ck_sqlite_job_renew(struct ck_sqlite *store, const char *id, uint64_t token, int64_t now, int64_t lease_ms, bool *ret_lost, bool *ret_cancel,
                        struct ck_error *err);
int ck_sqlite_job_end(struct ck_sqlite *store, const char *id, uint64_t token, int64_t now, const struct ck_job_end *end, bool *ret_stale,
                      struct ck_job_row *ret_row, struct ck_error *err);
int ck_sqlite_jobs_reap(struct ck_sqlite *store, int64_t now, uint64_t *ret_reaped, struct ck_error *err);
int ck_sqlite_blob_put(struct ck_sqlite *store, const char *tenant, const char *digest, uint64_t bytes, bool durable, int64_t now, bool *ret_new,
                       struct ck_error *err);
int ck_sqlite_blob_get(struct ck_sqlite *store, const char *tenant, const char *digest, uint64_t *ret_bytes, bool *ret_durable, struct ck_error *err);
int ck_sqlite_blob_touch(struct ck_sqlite *store, const char *tenant, const char *digest, int64_t now, struct ck_error *err);
int ck_sqlite_blob_delete(struct ck_sqlite *store, const char *tenant, const char *digest, struct ck_error *err);
int ck_sqlite_expire_results(struct ck_sqlite *store, int64_t now, unsigned most, void (*gone)(void *ctx, const char *id), void *ctx, struct ck_error *err);
int ck_sqlite_expire_oldest(struct ck_sqlite *store, unsigned most, void (*gone)(void *ctx, const char *id), void *ctx, struct ck_error *err);
int ck_sqlite_forget_jobs(struct ck_sqlite *store, int64_t before, unsigned most, void (*gone)(void *ctx, const char *id), void *ctx,
                          struct ck_error *err);
int ck_sqlite_forget_blobs(struct ck_sqlite *store, int64_t before, unsigned most, void (*gone)(void *ctx, const char *digest), void *ctx,
                           struct ck_error *err);

/* ---- store_port.c ---- */

extern const struct ck_store ck_sqlite_port;

#endif
