#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/store/inner.h"

int ck_conn_open(struct ck_conn *conn, const char *path, const char *doing, struct ck_error *err) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                SQLITE_OPEN_EXRESCODE;
    int rc = sqlite3_open_v2(path, &conn->db, flags, NULL);

    conn->doing = doing;
    if (rc != SQLITE_OK)
        return ck_conn_error(conn, rc, err);
    /* The file may be somebody's work: no function of a schema runs that SQLite does not call harmless. */
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DQS_DDL, 0, (int *)NULL);
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DQS_DML, 0, (int *)NULL);
    return 0;
}

void ck_conn_close(struct ck_conn *conn) {
    for (size_t i = 0; i < conn->n_cached; i++)
        sqlite3_finalize(conn->cache[i].stmt);
    sqlite3_close(conn->db);
    *conn = (struct ck_conn){0};
}

int ck_conn_exec(struct ck_conn *conn, const char *sql, struct ck_error *err) {
    int rc = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : ck_conn_error(conn, rc, err);
}

static int code_of(int rc, int system_errno) {
    switch (rc & 0xFF) {
    case SQLITE_FULL:
        return CK_E_STORAGE_FULL;
    case SQLITE_NOMEM:
        return CK_E_OUT_OF_MEMORY;
    case SQLITE_IOERR:
        /* Growing the index of the WAL on a full disk is reported so. */
        return system_errno == ENOSPC || system_errno == EDQUOT ? CK_E_STORAGE_FULL : CK_E_STORE_UNAVAILABLE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return CK_E_STORE_UNAVAILABLE;
    default:
        return CK_E_INTERNAL;
    }
}

static void hint_for(int rc, struct ck_error *err) {
    switch (rc & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        ck_error_set_hint(err, "stop the daemon and restore the file of the job store from a backup, or move it away: "
                               "then the jobs are lost, and the uploaded blobs are kept");
        break;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        ck_error_set_hint(err, "let the daemon's user write the file of the job store and its folder");
        break;
    case SQLITE_BUSY:
        ck_error_set_hint(err, "another program holds the file of the job store; end it, then try again");
        break;
    default:
        break;
    }
}

int ck_conn_error(struct ck_conn *conn, int rc, struct ck_error *err) {
    int system_errno = conn->db ? sqlite3_system_errno(conn->db) : 0;
    int code = code_of(rc, system_errno);
    bool system_counts = (rc & 0xFF) == SQLITE_IOERR || (rc & 0xFF) == SQLITE_CANTOPEN;
    char text[128];

    if (err && err->code != 0)
        return code;
    /* sqlite3_errmsg() tells which constraint or which SQL; of the others it says no more than the code does. */
    if (code == CK_E_INTERNAL && conn->db)
        ck_error_set(err, code, NULL, "the job store cannot %s: %s (%d)", conn->doing, sqlite3_errmsg(conn->db), rc);
    else if (system_counts && system_errno != 0)
        ck_error_set(err, code, NULL, "the job store cannot %s: %s (%s)", conn->doing, sqlite3_errstr(rc),
                     strerror_r(system_errno, text, sizeof(text)));
    else
        ck_error_set(err, code, NULL, "the job store cannot %s: %s", conn->doing, sqlite3_errstr(rc));
    hint_for(rc, err);
    return code;
}

static int prepare(struct ck_conn *conn, const char *sql, sqlite3_stmt **ret_stmt) {
    int rc;

    for (size_t i = 0; i < conn->n_cached; i++)
        if (conn->cache[i].sql == sql) {
            *ret_stmt = conn->cache[i].stmt;
            return SQLITE_OK;
        }
    if (conn->n_cached == CK_SQLITE_STATEMENTS)
        return SQLITE_INTERNAL;
    rc = sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    conn->cache[conn->n_cached].sql = sql;
    conn->cache[conn->n_cached++].stmt = *ret_stmt;
    return SQLITE_OK;
}

struct ck_stmt ck_stmt(struct ck_conn *conn, const char *sql) {
    struct ck_stmt stmt = {.conn = conn};

    stmt.rc = prepare(conn, sql, &stmt.stmt);
    return stmt;
}

/* The number of a parameter; a name that the SQL does not have becomes a failure of the statement. */
static int parameter(struct ck_stmt *stmt, const char *name) {
    int index;

    if (stmt->rc != SQLITE_OK)
        return 0;
    index = sqlite3_bind_parameter_index(stmt->stmt, name);
    if (index == 0)
        stmt->rc = SQLITE_RANGE;
    return index;
}

void ck_stmt_text(struct ck_stmt *stmt, const char *name, const char *text) {
    int index = parameter(stmt, name);

    if (index > 0)
        stmt->rc = sqlite3_bind_text(stmt->stmt, index, text, -1, SQLITE_STATIC);
}

void ck_stmt_i64(struct ck_stmt *stmt, const char *name, int64_t value) {
    int index = parameter(stmt, name);

    if (index > 0)
        stmt->rc = sqlite3_bind_int64(stmt->stmt, index, value);
}

void ck_stmt_u64(struct ck_stmt *stmt, const char *name, uint64_t value) {
    ck_stmt_i64(stmt, name, (int64_t)CK_MIN(value, (uint64_t)INT64_MAX));
}

void ck_stmt_time(struct ck_stmt *stmt, const char *name, int64_t ms) {
    if (ms != 0)
        ck_stmt_i64(stmt, name, ms);
    else
        ck_stmt_text(stmt, name, NULL);
}

int ck_stmt_step(struct ck_stmt *stmt, struct ck_error *err) {
    if (stmt->rc == SQLITE_OK || stmt->rc == SQLITE_ROW)
        stmt->rc = sqlite3_step(stmt->stmt);
    if (stmt->rc == SQLITE_ROW)
        return 1;
    return stmt->rc == SQLITE_DONE ? 0 : ck_conn_error(stmt->conn, stmt->rc, err);
}

int ck_stmt_run(struct ck_stmt *stmt, uint64_t *ret_changed, struct ck_error *err) {
    int r;

    do
        r = ck_stmt_step(stmt, err);
    while (r > 0);
    if (r == 0 && ret_changed)
        *ret_changed = (uint64_t)sqlite3_changes64(stmt->conn->db);
    return r;
}

const char *ck_stmt_get(struct ck_stmt *stmt, int column) {
    const unsigned char *text = sqlite3_column_text(stmt->stmt, column);

    return text ? (const char *)text : "";
}

void ck_stmt_reset(struct ck_stmt *stmt) {
    if (!stmt->stmt)
        return;
    sqlite3_reset(stmt->stmt);
    /* The texts are borrowed. */
    sqlite3_clear_bindings(stmt->stmt);
}
