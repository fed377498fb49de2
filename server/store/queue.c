#include <stdio.h>

#include "server/store/inner.h"

/* ---- claim ---- */

const char ck_sql_claim[] =
    "UPDATE job SET state = 'running', reason = NULL, attempt = attempt + 1, lease_token = lease_token + 1, "
    "lease_owner = :owner, lease_expires_at = :now + :lease, started_at = :now, version = version + 1 "
    "WHERE id = (SELECT id FROM job WHERE state = 'queued' AND run_at <= :now ORDER BY run_at, id LIMIT 1) "
    "RETURNING " CK_ROW_COLUMNS;

/* Returns 1 with a row, 0 if there is none. */
static int claim(struct ck_conn *conn, const char *owner, int64_t now, int64_t lease_ms, struct ck_job_row *ret_row,
                 struct ck_error *err) {
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, ck_sql_claim);
    int r;

    ck_stmt_text(&stmt, ":owner", owner);
    ck_stmt_i64(&stmt, ":now", now);
    ck_stmt_i64(&stmt, ":lease", lease_ms);
    r = ck_stmt_step(&stmt, err);
    if (r <= 0)
        return r;
    r = ck_row_read(&stmt, ret_row, err);
    return r < 0 ? r : 1;
}

int ck_sqlite_job_claim(struct ck_sqlite *store, const char *owner, int64_t now, int64_t lease_ms, bool *ret_claimed,
                        struct ck_job_row *ret_row, struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "claim a job", &conn, err);
    if (r < 0)
        return r;
    r = claim(conn, owner, now, lease_ms, &row, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_claimed = r > 0;
    if (r > 0)
        *ret_row = ck_row_take(&row);
    return 0;
}

/* ---- renew ---- */

/* Returns 1 while the claim holds. */
static int renew(struct ck_conn *conn, const char *id, uint64_t token, int64_t until, bool *ret_cancel,
                 struct ck_error *err) {
    static const char sql[] =
        "UPDATE job SET lease_expires_at = :until WHERE id = :id AND lease_token = :token AND state = 'running' "
        "RETURNING cancel_requested_at";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    ck_stmt_text(&stmt, ":id", id);
    ck_stmt_u64(&stmt, ":token", token);
    ck_stmt_i64(&stmt, ":until", until);
    r = ck_stmt_step(&stmt, err);
    if (r <= 0)
        return r;
    /* RETURNING cancel_requested_at IS NOT NULL is wrong in SQLite 3.40: it takes the column for one that cannot be
     * NULL. */
    *ret_cancel = sqlite3_column_type(stmt.stmt, 0) != SQLITE_NULL;
    return 1;
}

int ck_sqlite_job_renew(struct ck_sqlite *store, const char *id, uint64_t token, int64_t now, int64_t lease_ms,
                        bool *ret_lost, bool *ret_cancel, struct ck_error *err) {
    struct ck_conn *conn;
    bool cancel_asked = false;
    int r;

    r = ck_sqlite_write(store, "renew a lease", &conn, err);
    if (r < 0)
        return r;
    r = renew(conn, id, token, now + lease_ms, &cancel_asked, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_lost = r == 0;
    *ret_cancel = cancel_asked;
    return 0;
}

/* ---- ends without a result ---- */

#define LEASES                                                                                                         \
    " WHERE state = 'running' AND lease_expires_at < :before"                                                          \
    " AND (:id IS NULL OR (id = :id AND lease_token = :token))"
#define VOID_LEASE                                                                                                     \
    "lease_owner = NULL, lease_expires_at = NULL, lease_token = lease_token + 1, version = version + 1,"               \
    " crash_count = crash_count + :crashed, files = '[]', outcome = NULL"

static void bind_leases(struct ck_stmt *stmt, const struct ck_hand_back *what) {
    ck_stmt_i64(stmt, ":before", what->before);
    ck_stmt_text(stmt, ":id", what->id);
    ck_stmt_u64(stmt, ":token", what->token);
    ck_stmt_i64(stmt, ":crashed", what->crashed);
}

static int to_cancelled(struct ck_conn *conn, const struct ck_hand_back *what, uint64_t *ret_n, struct ck_error *err) {
    static const char sql[] =
        "UPDATE job SET state = 'cancelled', reason = 'cancelled', error = NULL, "
        "finished_at = :now, expires_at = :expires, " VOID_LEASE LEASES " AND cancel_requested_at IS NOT NULL";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

    bind_leases(&stmt, what);
    ck_stmt_i64(&stmt, ":now", what->now);
    ck_stmt_time(&stmt, ":expires", what->expires_at);
    return ck_stmt_run(&stmt, ret_n, err);
}

static int to_dead(struct ck_conn *conn, const struct ck_hand_back *what, uint64_t *ret_n, struct ck_error *err) {
    static const char sql[] =
        "UPDATE job SET state = 'dead', reason = 'attempts', error = :error, "
        "finished_at = :now, expires_at = :expires, " VOID_LEASE LEASES " AND attempt >= max_attempts";
    _cleanup_(ck_freep) char *error = NULL;
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    char detail[256];
    int r;

    snprintf(detail, sizeof(detail),
             "the job was started as often as it may be, and no attempt came to an end (last: %s)",
             what->reason ? what->reason : "unknown");
    r = ck_job_error_json(CK_E_ATTEMPTS_EXHAUSTED, detail, &error, err);
    if (r < 0)
        return r;
    bind_leases(&stmt, what);
    ck_stmt_i64(&stmt, ":now", what->now);
    ck_stmt_time(&stmt, ":expires", what->expires_at);
    ck_stmt_text(&stmt, ":error", error);
    return ck_stmt_run(&stmt, ret_n, err);
}

static int to_queued(struct ck_conn *conn, const struct ck_hand_back *what, uint64_t *ret_n, struct ck_error *err) {
    static const char sql[] = "UPDATE job SET state = 'queued', reason = :reason, error = NULL, started_at = NULL, "
                              "run_at = CASE WHEN :run_at < 0 THEN run_at ELSE :run_at END, "
                              "attempt = max(0, attempt - :forgive), " VOID_LEASE LEASES;
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

    bind_leases(&stmt, what);
    ck_stmt_text(&stmt, ":reason", what->reason);
    ck_stmt_i64(&stmt, ":run_at", what->run_at);
    ck_stmt_i64(&stmt, ":forgive", what->forgive);
    return ck_stmt_run(&stmt, ret_n, err);
}

int ck_job_hand_back(struct ck_conn *conn, const struct ck_hand_back *what, struct ck_handed_back *ret_done,
                     struct ck_error *err) {
    struct ck_handed_back done = {0};
    int r;

    /* In this order: each leaves to the next what is still running. */
    r = to_cancelled(conn, what, &done.cancelled, err);
    if (r < 0)
        return r;
    if (!what->forgive) {
        r = to_dead(conn, what, &done.dead, err);
        if (r < 0)
            return r;
    }
    r = to_queued(conn, what, &done.queued, err);
    if (r < 0)
        return r;
    *ret_done = done;
    return 0;
}

int ck_sqlite_jobs_reap(struct ck_sqlite *store, int64_t now, uint64_t *ret_reaped, struct ck_error *err) {
    const struct ck_hand_back what = {.before = now, .now = now, .reason = "lease_expired", .run_at = now};
    struct ck_handed_back done = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "take back leases", &conn, err);
    if (r < 0)
        return r;
    r = ck_job_hand_back(conn, &what, &done, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_reaped = done.queued + done.dead + done.cancelled;
    return 0;
}

/* ---- the end of a claim ---- */

static int finish(struct ck_conn *conn, const char *id, uint64_t token, int64_t now, const struct ck_job_end *end,
                  uint64_t *ret_changed, struct ck_error *err) {
    static const char sql[] =
        "UPDATE job SET state = :state, reason = :reason, error = :error, outcome = :outcome, files = :files, "
        "durable = :durable, crash_count = crash_count + :crashed, finished_at = :now, expires_at = :expires, "
        "cached_from = coalesce(:cached_from, ''), converter = coalesce(:converter, converter), "
        "cache_key = coalesce(:cache_key, cache_key), lease_owner = NULL, lease_expires_at = NULL, version = version + "
        "1 "
        "WHERE id = :id AND lease_token = :token AND state = 'running'";
    _cleanup_(ck_freep) char *files = NULL;
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    r = ck_files_json(end->files, end->n_files, &files, err);
    if (r < 0)
        return r;
    ck_stmt_text(&stmt, ":id", id);
    ck_stmt_u64(&stmt, ":token", token);
    ck_stmt_i64(&stmt, ":now", now);
    ck_stmt_text(&stmt, ":state", ck_job_state_name(end->state));
    ck_stmt_text(&stmt, ":reason", end->reason);
    ck_stmt_text(&stmt, ":error", end->error);
    ck_stmt_text(&stmt, ":outcome", end->outcome);
    ck_stmt_text(&stmt, ":files", files);
    ck_stmt_i64(&stmt, ":durable", end->durable);
    ck_stmt_i64(&stmt, ":crashed", end->crashed);
    ck_stmt_time(&stmt, ":expires", end->expires_at);
    ck_stmt_text(&stmt, ":cached_from", end->cached_from);
    ck_stmt_text(&stmt, ":converter", end->converter);
    ck_stmt_text(&stmt, ":cache_key", end->cache_key);
    r = ck_stmt_run(&stmt, ret_changed, err);
    if (r < 0 || *ret_changed == 0)
        return r;
    return ck_job_touch_inputs(conn, id, now, err);
}

static int hand_back_one(struct ck_conn *conn, const char *id, uint64_t token, int64_t now,
                         const struct ck_job_end *end, uint64_t *ret_changed, struct ck_error *err) {
    const struct ck_hand_back what = {.id = id,
                                      .token = token,
                                      .before = INT64_MAX,
                                      .now = now,
                                      .reason = end->reason,
                                      .run_at = CK_MAX(end->run_at, (int64_t)0),
                                      .expires_at = end->expires_at,
                                      .crashed = end->crashed,
                                      .forgive = end->forgive};
    struct ck_handed_back done = {0};
    int r = ck_job_hand_back(conn, &what, &done, err);

    *ret_changed = done.queued + done.dead + done.cancelled;
    return r;
}

/* Returns 1 if the claim was ended, 0 if it is stale. */
static int end_claim(struct ck_conn *conn, const char *id, uint64_t token, int64_t now, const struct ck_job_end *end,
                     struct ck_job_row *ret_row, struct ck_error *err) {
    uint64_t changed = 0;
    int r;

    if (end->state == CK_STATE_QUEUED)
        r = hand_back_one(conn, id, token, now, end, &changed, err);
    else
        r = finish(conn, id, token, now, end, &changed, err);
    if (r < 0 || changed == 0)
        return r;
    r = ck_row_find(conn, NULL, id, ret_row, err);
    return r < 0 ? r : 1;
}

int ck_sqlite_job_end(struct ck_sqlite *store, const char *id, uint64_t token, int64_t now,
                      const struct ck_job_end *end, bool *ret_stale, struct ck_job_row *ret_row, struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_conn *conn;
    int r;

    if (end->state == CK_STATE_RUNNING || end->state == CK_STATE_EXPIRED)
        return ck_error_set(err, CK_E_INTERNAL, NULL, "a claim cannot end as %s", ck_job_state_name(end->state));
    r = ck_sqlite_write(store, "end a job", &conn, err);
    if (r < 0)
        return r;
    r = end_claim(conn, id, token, now, end, &row, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_stale = r == 0;
    if (r > 0 && ret_row)
        *ret_row = ck_row_take(&row);
    return 0;
}
