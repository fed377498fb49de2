#include <string.h>

#include "server/store/inner.h"

/* ---- making ---- */

/* The blob's row gives the size, and its absence is what refuses the input. */
static int insert_source(struct ck_conn *conn, const struct ck_job_row *row, size_t position, struct ck_error *err) {
    static const char sql[] = "INSERT INTO job_input (job_id, position, tenant, digest, bytes, role, name) "
                              "SELECT :id, :position, tenant, digest, bytes, :role, :name FROM blob "
                              "WHERE tenant = :tenant AND digest = :digest";
    const struct ck_job_source *source = &row->inputs[position];
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    uint64_t inserted;
    int r;

    ck_stmt_text(&stmt, ":id", row->id);
    ck_stmt_u64(&stmt, ":position", position);
    ck_stmt_text(&stmt, ":tenant", row->tenant);
    ck_stmt_text(&stmt, ":digest", source->digest);
    ck_stmt_text(&stmt, ":role", source->role);
    ck_stmt_text(&stmt, ":name", source->name);
    r = ck_stmt_run(&stmt, &inserted, err);
    if (r < 0)
        return r;
    if (inserted == 0)
        return ck_error_set(err, CK_E_INPUT_NOT_FOUND, NULL, "there is no blob sha256:%s for the input %.200s",
                            source->digest, source->name);
    return 0;
}

static int create(struct ck_conn *conn, const struct ck_job_row *row, struct ck_error *err) {
    int r;

    r = ck_row_insert(conn, row, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < row->n_inputs; i++) {
        r = insert_source(conn, row, i, err);
        if (r < 0)
            return r;
    }
    return ck_job_touch_inputs(conn, row->id, row->created_at, err);
}

int ck_sqlite_job_create(struct ck_sqlite *store, const struct ck_job_row *row, struct ck_error *err) {
    struct ck_conn *conn;
    int r;

    if (row->state != CK_STATE_QUEUED && row->state != CK_STATE_SUCCEEDED)
        return ck_error_set(err, CK_E_INTERNAL, NULL, "a job cannot begin as %s", ck_job_state_name(row->state));
    r = ck_sqlite_write(store, "make a job", &conn, err);
    if (r < 0)
        return r;
    r = create(conn, row, err);
    return ck_sqlite_end(store, conn, r, err);
}

/* ---- reading ---- */

int ck_sqlite_job_get(struct ck_sqlite *store, const char *tenant, const char *id, struct ck_job_row *ret_row,
                      struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_read(store, "read a job", &conn, err);
    if (r < 0)
        return r;
    r = ck_row_find(conn, tenant, id, &row, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_row = ck_row_take(&row);
    return 0;
}

const char ck_sql_cached[] = "SELECT " CK_ROW_COLUMNS " FROM job WHERE tenant = :tenant AND cache_key = :key "
                             "AND state = 'succeeded' ORDER BY finished_at DESC LIMIT 1";

static int cached(struct ck_conn *conn, const char *tenant, const char *cache_key, struct ck_job_row *ret_row,
                  struct ck_error *err) {
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, ck_sql_cached);
    int r;

    ck_stmt_text(&stmt, ":tenant", tenant);
    ck_stmt_text(&stmt, ":key", cache_key);
    r = ck_stmt_step(&stmt, err);
    if (r < 0)
        return r;
    if (r == 0)
        return ck_error_set(err, CK_E_JOB_NOT_FOUND, NULL, "no job has this result");
    return ck_row_read(&stmt, ret_row, err);
}

int ck_sqlite_job_cached(struct ck_sqlite *store, const char *tenant, const char *cache_key, struct ck_job_row *ret_row,
                         struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_read(store, "look for a result", &conn, err);
    if (r < 0)
        return r;
    r = cached(conn, tenant, cache_key, &row, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_row = ck_row_take(&row);
    return 0;
}

/* ---- changing ---- */

/* Runs an UPDATE with :id and :now, then reads the row anew. */
static int change(struct ck_conn *conn, const char *sql, int64_t now, struct ck_job_row *row, struct ck_error *err) {
    struct ck_job_row after = {0};
    int r;

    {
        _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

        ck_stmt_text(&stmt, ":id", row->id);
        ck_stmt_i64(&stmt, ":now", now);
        r = ck_stmt_run(&stmt, NULL, err);
    }
    if (r < 0)
        return r;
    r = ck_row_find(conn, NULL, row->id, &after, err);
    if (r < 0)
        return r;
    ck_job_row_release(row);
    *row = after;
    return 0;
}

static int cancel(struct ck_conn *conn, int64_t now, struct ck_job_row *row, struct ck_error *err) {
    static const char queued[] = "UPDATE job SET state = 'cancelled', reason = 'cancelled', finished_at = :now, "
                                 "cancel_requested_at = :now, version = version + 1 WHERE id = :id";
    static const char running[] = "UPDATE job SET cancel_requested_at = :now, version = version + 1 WHERE id = :id";

    if (row->state == CK_STATE_QUEUED)
        return change(conn, queued, now, row, err);
    if (row->state == CK_STATE_RUNNING)
        return row->cancel_requested_at ? 0 : change(conn, running, now, row, err);
    if (row->state == CK_STATE_CANCELLED)
        return 0;
    return ck_error_set(err, CK_E_JOB_FINISHED, NULL, "job %s is %s", row->id, ck_job_state_name(row->state));
}

int ck_sqlite_job_cancel(struct ck_sqlite *store, const char *tenant, const char *id, int64_t now,
                         struct ck_job_row *ret_row, struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "cancel a job", &conn, err);
    if (r < 0)
        return r;
    r = ck_row_find(conn, tenant, id, &row, err);
    if (r == 0)
        r = cancel(conn, now, &row, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_row = ck_row_take(&row);
    return 0;
}

static int check_inputs(struct ck_conn *conn, const char *id, struct ck_error *err) {
    static const char sql[] = "SELECT i.digest, i.name FROM job_input i LEFT JOIN blob b "
                              "ON b.tenant = i.tenant AND b.digest = i.digest "
                              "WHERE i.job_id = :id AND b.digest IS NULL ORDER BY i.position LIMIT 1";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    ck_stmt_text(&stmt, ":id", id);
    r = ck_stmt_step(&stmt, err);
    if (r <= 0)
        return r;
    return ck_error_set(err, CK_E_INPUT_NOT_FOUND, NULL, "the blob sha256:%s of the input %.200s was removed",
                        ck_stmt_get(&stmt, 0), ck_stmt_get(&stmt, 1));
}

static int retry(struct ck_conn *conn, int64_t now, struct ck_job_row *row, struct ck_error *err) {
    static const char sql[] =
        "UPDATE job SET state = 'queued', reason = NULL, run_at = :now, attempt = 0, crash_count = 0, "
        "started_at = NULL, finished_at = NULL, expires_at = NULL, cancel_requested_at = NULL, outcome = NULL, "
        "files = '[]', error = NULL, cached_from = '', version = version + 1 WHERE id = :id";
    const unsigned retryable =
        1u << CK_STATE_FAILED | 1u << CK_STATE_CANCELLED | 1u << CK_STATE_DEAD | 1u << CK_STATE_EXPIRED;
    int r;

    if (!(retryable >> row->state & 1))
        return ck_error_set(err, CK_E_JOB_NOT_RETRYABLE, NULL, "job %s is %s", row->id, ck_job_state_name(row->state));
    r = check_inputs(conn, row->id, err);
    if (r < 0)
        return r;
    r = ck_job_touch_inputs(conn, row->id, now, err);
    if (r < 0)
        return r;
    return change(conn, sql, now, row, err);
}

int ck_sqlite_job_retry(struct ck_sqlite *store, const char *tenant, const char *id, int64_t now,
                        struct ck_job_row *ret_row, struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "retry a job", &conn, err);
    if (r < 0)
        return r;
    r = ck_row_find(conn, tenant, id, &row, err);
    if (r == 0)
        r = retry(conn, now, &row, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_row = ck_row_take(&row);
    return 0;
}

static int erase(struct ck_conn *conn, const char *tenant, const char *id, struct ck_error *err) {
    static const char sql[] = "DELETE FROM job WHERE id = :id"; /* its inputs' rows cascade */
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    r = ck_row_find(conn, tenant, id, &row, err);
    if (r < 0)
        return r;
    if (!ck_job_state_finished(row.state))
        return ck_error_set(err, CK_E_JOB_NOT_FINISHED, NULL, "job %s is %s", row.id, ck_job_state_name(row.state));
    ck_stmt_text(&stmt, ":id", row.id);
    return ck_stmt_run(&stmt, NULL, err);
}

int ck_sqlite_job_delete(struct ck_sqlite *store, const char *tenant, const char *id, struct ck_error *err) {
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "delete a job", &conn, err);
    if (r < 0)
        return r;
    r = erase(conn, tenant, id, err);
    return ck_sqlite_end(store, conn, r, err);
}
