#include "server/store/inner.h"

static int no_blob(const char *digest, struct ck_error *err) {
    return ck_error_set(err, CK_E_BLOB_NOT_FOUND, NULL, "there is no blob sha256:%.64s", digest);
}

/* Returns 1 if there is one, 0 if not. */
static int find(struct ck_conn *conn, const char *tenant, const char *digest, uint64_t *ret_bytes, bool *ret_durable,
                struct ck_error *err) {
    static const char sql[] = "SELECT bytes, durable FROM blob WHERE tenant = :tenant AND digest = :digest";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    ck_stmt_text(&stmt, ":tenant", tenant);
    ck_stmt_text(&stmt, ":digest", digest);
    r = ck_stmt_step(&stmt, err);
    if (r <= 0)
        return r;
    *ret_bytes = (uint64_t)sqlite3_column_int64(stmt.stmt, 0);
    *ret_durable = sqlite3_column_int(stmt.stmt, 1) != 0;
    return 1;
}

/* Returns 1 if there was one. */
static int put(struct ck_conn *conn, const char *tenant, const char *digest, uint64_t bytes, bool durable, int64_t now,
               struct ck_error *err) {
    static const char sql[] =
        "INSERT INTO blob (tenant, digest, bytes, durable, created_at, last_used_at) "
        "VALUES (:tenant, :digest, :bytes, :durable, :now, :now) ON CONFLICT (digest, tenant) DO UPDATE SET "
        "durable = max(durable, excluded.durable), last_used_at = max(last_used_at, excluded.last_used_at)";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    uint64_t old_bytes;
    bool old_durable;
    int known, r;

    known = find(conn, tenant, digest, &old_bytes, &old_durable, err);
    if (known < 0)
        return known;
    ck_stmt_text(&stmt, ":tenant", tenant);
    ck_stmt_text(&stmt, ":digest", digest);
    ck_stmt_u64(&stmt, ":bytes", bytes);
    ck_stmt_i64(&stmt, ":durable", durable);
    ck_stmt_i64(&stmt, ":now", now);
    r = ck_stmt_run(&stmt, NULL, err);
    return r < 0 ? r : known;
}

int ck_sqlite_blob_put(struct ck_sqlite *store, const char *tenant, const char *digest, uint64_t bytes, bool durable,
                       int64_t now, bool *ret_new, struct ck_error *err) {
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "add a blob", &conn, err);
    if (r < 0)
        return r;
    r = put(conn, tenant, digest, bytes, durable, now, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_new = r == 0;
    return 0;
}

int ck_sqlite_blob_get(struct ck_sqlite *store, const char *tenant, const char *digest, uint64_t *ret_bytes,
                       bool *ret_durable, struct ck_error *err) {
    struct ck_conn *conn;
    uint64_t bytes = 0;
    bool durable = false;
    int r;

    r = ck_sqlite_read(store, "look for a blob", &conn, err);
    if (r < 0)
        return r;
    r = find(conn, tenant, digest, &bytes, &durable, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    if (r == 0)
        return no_blob(digest, err);
    *ret_bytes = bytes;
    *ret_durable = durable;
    return 0;
}

static int touch(struct ck_conn *conn, const char *tenant, const char *digest, int64_t now, struct ck_error *err) {
    static const char sql[] = "UPDATE blob SET last_used_at = max(last_used_at, :now) "
                              "WHERE tenant = :tenant AND digest = :digest";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    uint64_t changed;
    int r;

    ck_stmt_text(&stmt, ":tenant", tenant);
    ck_stmt_text(&stmt, ":digest", digest);
    ck_stmt_i64(&stmt, ":now", now);
    r = ck_stmt_run(&stmt, &changed, err);
    if (r < 0)
        return r;
    return changed > 0 ? 0 : no_blob(digest, err);
}

int ck_sqlite_blob_touch(struct ck_sqlite *store, const char *tenant, const char *digest, int64_t now,
                         struct ck_error *err) {
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "mark a blob as used", &conn, err);
    if (r < 0)
        return r;
    r = touch(conn, tenant, digest, now, err);
    return ck_sqlite_end(store, conn, r, err);
}

static int check_unused(struct ck_conn *conn, const char *tenant, const char *digest, struct ck_error *err) {
    /* CROSS JOIN keeps the order: unfinished jobs are few, references are many. */
    static const char sql[] = "SELECT j.id FROM job j CROSS JOIN job_input i ON i.job_id = j.id AND i.tenant = :tenant "
                              "AND i.digest = :digest "
                              "WHERE j.state = 'queued' UNION ALL "
                              "SELECT j.id FROM job j CROSS JOIN job_input i ON i.job_id = j.id AND i.tenant = :tenant "
                              "AND i.digest = :digest "
                              "WHERE j.state = 'running' LIMIT 1";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    ck_stmt_text(&stmt, ":tenant", tenant);
    ck_stmt_text(&stmt, ":digest", digest);
    r = ck_stmt_step(&stmt, err);
    if (r <= 0)
        return r;
    return ck_error_set(err, CK_E_BLOB_IN_USE, NULL, "job %s needs the blob sha256:%.64s", ck_stmt_get(&stmt, 0),
                        digest);
}

static int erase(struct ck_conn *conn, const char *tenant, const char *digest, struct ck_error *err) {
    static const char sql[] = "DELETE FROM blob WHERE tenant = :tenant AND digest = :digest";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    uint64_t deleted;
    int r;

    r = check_unused(conn, tenant, digest, err);
    if (r < 0)
        return r;
    ck_stmt_text(&stmt, ":tenant", tenant);
    ck_stmt_text(&stmt, ":digest", digest);
    r = ck_stmt_run(&stmt, &deleted, err);
    if (r < 0)
        return r;
    return deleted > 0 ? 0 : no_blob(digest, err);
}

int ck_sqlite_blob_delete(struct ck_sqlite *store, const char *tenant, const char *digest, struct ck_error *err) {
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "delete a blob", &conn, err);
    if (r < 0)
        return r;
    r = erase(conn, tenant, digest, err);
    return ck_sqlite_end(store, conn, r, err);
}

static int drop(struct ck_conn *conn, const char *digest, struct ck_error *err) {
    static const char sql[] = "DELETE FROM blob WHERE digest = :digest";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

    ck_stmt_text(&stmt, ":digest", digest);
    return ck_stmt_run(&stmt, NULL, err);
}

int ck_store_sqlite_drop_blob(struct ck_store *port, const char *digest, struct ck_error *err) {
    struct ck_sqlite *store = ck_sqlite(port);
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, "drop a blob", &conn, err);
    if (r < 0)
        return r;
    r = drop(conn, digest, err);
    return ck_sqlite_end(store, conn, r, err);
}
