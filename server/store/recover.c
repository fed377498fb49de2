#include <stdio.h>

#include "server/store/inner.h"

/* Results that are gone: those of one job, or (id "") all that were not durable when the machine went down. */
#define GONE " WHERE state = 'succeeded' AND id BETWEEN :first AND :last AND durable <= :durable"

static void bind_gone(struct ck_stmt *stmt, const char *id) {
    ck_stmt_text(stmt, ":first", id);
    ck_stmt_text(stmt, ":last", id[0] ? id : "~"); /* behind every id */
    ck_stmt_i64(stmt, ":durable", id[0] != 0);
}

static int rerun(struct ck_conn *conn, const char *id, uint64_t *ret_n, struct ck_error *err) {
    static const char sql[] =
        "UPDATE job SET state = 'queued', reason = 'recovered', attempt = 0, crash_count = 0, started_at = NULL, "
        "finished_at = NULL, expires_at = NULL, cancel_requested_at = NULL, outcome = NULL, files = '[]', "
        "cached_from = '', version = version + 1" GONE " AND NOT EXISTS (SELECT 1 FROM job_input i LEFT JOIN blob b "
        "ON b.tenant = i.tenant AND b.digest = i.digest WHERE i.job_id = job.id AND b.digest IS NULL)";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

    bind_gone(&stmt, id);
    return ck_stmt_run(&stmt, ret_n, err);
}

static int give_up(struct ck_conn *conn, const char *id, int64_t now, uint64_t *ret_n, struct ck_error *err) {
    static const char sql[] =
        "UPDATE job SET state = 'failed', reason = 'input_not_found', error = :error, finished_at = :now, "
        "expires_at = NULL, outcome = NULL, files = '[]', version = version + 1" GONE;
    static const char detail[] =
        "the results are gone from the disk, and an input that would make them again is gone, too";
    _cleanup_(ck_freep) char *error = NULL;
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    r = ck_job_error_json(CK_E_INPUT_NOT_FOUND, detail, &error, err);
    if (r < 0)
        return r;
    bind_gone(&stmt, id);
    ck_stmt_text(&stmt, ":error", error);
    ck_stmt_i64(&stmt, ":now", now);
    return ck_stmt_run(&stmt, ret_n, err);
}

/* The report of a job that failed is gone: the error in its row stays. */
static int forget_report(struct ck_conn *conn, const char *id, struct ck_error *err) {
    static const char sql[] =
        "UPDATE job SET files = '[]', version = version + 1 WHERE id = :id AND state <> 'succeeded'";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

    ck_stmt_text(&stmt, ":id", id);
    return ck_stmt_run(&stmt, NULL, err);
}

static int hurry(struct ck_conn *conn, int64_t now, struct ck_error *err) {
    static const char sql[] = "UPDATE job SET run_at = :now WHERE state = 'queued' AND run_at > :now";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

    ck_stmt_i64(&stmt, ":now", now);
    return ck_stmt_run(&stmt, NULL, err);
}

static int remember_boot(struct ck_conn *conn, const char *boot_id, struct ck_error *err) {
    static const char sql[] = "INSERT INTO meta (key, value) VALUES ('boot_id', :boot) "
                              "ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

    ck_stmt_text(&stmt, ":boot", boot_id);
    return ck_stmt_run(&stmt, NULL, err);
}

static int recover(struct ck_sqlite *store, struct ck_conn *conn, int64_t now, struct ck_store_recovery *recovery,
                   struct ck_error *err) {
    const struct ck_hand_back all = {.before = INT64_MAX, .now = now, .reason = "recovered", .run_at = -1};
    struct ck_handed_back done;
    int r;

    r = ck_job_hand_back(conn, &all, &done, err);
    if (r < 0)
        return r;
    *recovery = (struct ck_store_recovery){.requeued = done.queued, .dead = done.dead, .cancelled = done.cancelled};
    if (store->rebooted) {
        r = rerun(conn, "", &recovery->rerun, err);
        if (r < 0)
            return r;
        r = give_up(conn, "", now, &recovery->lost, err);
        if (r < 0)
            return r;
    }
    r = hurry(conn, now, err);
    if (r < 0)
        return r;
    return remember_boot(conn, store->boot_id, err);
}

int ck_store_sqlite_recover(struct ck_store *port, int64_t now, struct ck_store_recovery *ret_recovery,
                            struct ck_error *err) {
    struct ck_sqlite *store = ck_sqlite(port);
    struct ck_store_recovery recovery = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "be recovered", &conn, err);
    if (r < 0)
        return r;
    r = recover(store, conn, now, &recovery, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    store->rebooted = false;
    *ret_recovery = recovery;
    return 0;
}

int ck_store_sqlite_lose_results(struct ck_store *port, const char *id, int64_t now, struct ck_error *err) {
    struct ck_sqlite *store = ck_sqlite(port);
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "note lost results", &conn, err);
    if (r < 0)
        return r;
    r = rerun(conn, id, NULL, err);
    if (r == 0)
        r = give_up(conn, id, now, NULL, err);
    if (r == 0)
        r = forget_report(conn, id, err);
    return ck_sqlite_end(store, conn, r, err);
}

/* ---- walks ---- */

#define BATCH 256

struct step {
    char digest_or_id[CK_DIGEST_SIZE];
    uint64_t bytes;
    bool durable;
};

/* The next rows after the given key, at most BATCH: nothing is held while the caller looks at them. */
static int read_batch(struct ck_sqlite *store, const char *sql, const char *doing, const struct step *after,
                      struct step batch[BATCH], size_t *ret_n, struct ck_error *err) {
    struct ck_conn *conn;
    size_t n = 0;
    int r;

    r = ck_sqlite_read(store, doing, &conn, err);
    if (r < 0)
        return r;
    {
        _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

        ck_stmt_text(&stmt, ":after", after->digest_or_id);
        while (n < BATCH && (r = ck_stmt_step(&stmt, err)) > 0) {
            snprintf(batch[n].digest_or_id, sizeof(batch[n].digest_or_id), "%s", ck_stmt_get(&stmt, 0));
            batch[n].bytes = (uint64_t)sqlite3_column_int64(stmt.stmt, 1);
            batch[n++].durable = sqlite3_column_int(stmt.stmt, 2) != 0;
        }
    }
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_n = n;
    return 0;
}

static int walk(struct ck_sqlite *store, const char *sql, const char *doing,
                int (*each)(void *ctx, const struct step *step), void *ctx, struct ck_error *err) {
    _cleanup_(ck_freep) struct step *batch = calloc(BATCH, sizeof(*batch));
    struct step after = {0};
    size_t n;
    int r;

    if (!batch)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the job store");
    do {
        r = read_batch(store, sql, doing, &after, batch, &n, err);
        for (size_t i = 0; i < n && r >= 0; i++) {
            r = each(ctx, &batch[i]);
            after = batch[i];
        }
    } while (r >= 0 && n == BATCH);
    return r < 0 ? r : 0;
}

struct blob_walk {
    int (*each)(void *ctx, const char *digest, uint64_t bytes, bool durable);
    void *ctx;
};

static int walk_blob(void *ctx, const struct step *step) {
    const struct blob_walk *to = ctx;

    return to->each(to->ctx, step->digest_or_id, step->bytes, step->durable);
}

int ck_store_sqlite_each_blob(struct ck_store *port,
                              int (*each)(void *ctx, const char *digest, uint64_t bytes, bool durable), void *ctx,
                              struct ck_error *err) {
    /* The same bytes are one file, whoever sent them. */
    static const char sql[] = "SELECT digest, max(bytes), min(durable) FROM blob WHERE digest > :after "
                              "GROUP BY digest ORDER BY digest LIMIT 256";
    struct blob_walk to = {each, ctx};

    return walk(ck_sqlite(port), sql, "list blobs", walk_blob, &to, err);
}

struct job_walk {
    int (*each)(void *ctx, const char *id);
    void *ctx;
};

static int walk_job(void *ctx, const struct step *step) {
    const struct job_walk *to = ctx;

    return to->each(to->ctx, step->digest_or_id);
}

int ck_store_sqlite_each_job_with_files(struct ck_store *port, int (*each)(void *ctx, const char *id), void *ctx,
                                        struct ck_error *err) {
    static const char sql[] = "SELECT id, 0, 0 FROM job WHERE id > :after AND files <> '[]' ORDER BY id LIMIT 256";
    struct job_walk to = {each, ctx};

    return walk(ck_sqlite(port), sql, "list jobs", walk_job, &to, err);
}
