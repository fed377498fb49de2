#include <stdio.h>

#include "server/store/inner.h"

#define APPLICATION_ID "1667985524" /* "ckpt" */

/* Times are ms since 1970. CHECKs hold a state to its columns, so that a bug is an error and not a strange job.
 *
 * job_queue covers claims and counts (with state: SQLite looks it up otherwise). job_list covers the filters of a page,
 * so that rows are read only for jobs that fit. spec, labels, outcome, files and error are JSON; no CHECK says so,
 * because trusted_schema=OFF forbids json_valid() in a schema. */
static const char version_1[] =
    "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE job ("
    "  id TEXT PRIMARY KEY NOT NULL,"
    "  tenant TEXT NOT NULL,"
    "  state TEXT NOT NULL"
    "    CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'dead', 'expired')),"
    "  version INTEGER NOT NULL,"
    "  kind TEXT NOT NULL, target TEXT NOT NULL, quant TEXT NOT NULL,"
    "  spec TEXT NOT NULL,"
    "  labels TEXT NOT NULL,"
    "  stem TEXT NOT NULL,"
    "  cache_key TEXT NOT NULL,"
    "  fresh INTEGER NOT NULL CHECK (fresh IN (0, 1)),"
    "  reason TEXT,"
    "  run_at INTEGER NOT NULL,"
    "  attempt INTEGER NOT NULL CHECK (attempt >= 0),"
    "  max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),"
    "  crash_count INTEGER NOT NULL CHECK (crash_count >= 0),"
    "  lease_token INTEGER NOT NULL," /* raised by each claim and each hand-back */
    "  lease_owner TEXT,"
    "  lease_expires_at INTEGER,"
    "  created_at INTEGER NOT NULL,"
    "  started_at INTEGER, finished_at INTEGER, expires_at INTEGER, cancel_requested_at INTEGER,"
    "  outcome TEXT,"
    "  files TEXT NOT NULL,"
    "  error TEXT,"
    "  durable INTEGER NOT NULL CHECK (durable IN (0, 1)),"
    "  request_id TEXT, trace_id TEXT, caller TEXT,"
    "  cached_from TEXT NOT NULL,"
    "  converter TEXT,"
    "  CHECK ((state = 'running') = (lease_owner IS NOT NULL)),"
    "  CHECK ((state = 'running') = (lease_expires_at IS NOT NULL)),"
    "  CHECK ((state IN ('queued', 'running')) = (finished_at IS NULL)),"
    "  CHECK (state <> 'running' OR started_at IS NOT NULL),"
    "  CHECK (state <> 'queued' OR (started_at IS NULL AND cancel_requested_at IS NULL AND attempt < max_attempts))"
    ") STRICT;"
    "CREATE INDEX job_list ON job (tenant, id, state, kind, target, created_at);"
    "CREATE INDEX job_queue ON job (run_at, id, created_at, state) WHERE state = 'queued';"
    "CREATE INDEX job_lease ON job (lease_expires_at) WHERE state = 'running';"
    "CREATE INDEX job_cache ON job (tenant, cache_key, finished_at) WHERE state = 'succeeded';"
    "CREATE INDEX job_expiry ON job (expires_at) WHERE state = 'succeeded';"
    "CREATE INDEX job_finished ON job (finished_at, state) WHERE finished_at IS NOT NULL;"
    "CREATE TABLE job_input ("
    "  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,"
    "  position INTEGER NOT NULL,"
    "  tenant TEXT NOT NULL,"
    "  digest TEXT NOT NULL," /* of a blob, which may be gone once the job is finished */
    "  bytes INTEGER NOT NULL,"
    "  role TEXT NOT NULL,"
    "  name TEXT NOT NULL,"
    "  PRIMARY KEY (job_id, position)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE blob ("
    "  tenant TEXT NOT NULL,"
    "  digest TEXT NOT NULL,"
    "  bytes INTEGER NOT NULL CHECK (bytes >= 0),"
    "  durable INTEGER NOT NULL CHECK (durable IN (0, 1)),"
    "  created_at INTEGER NOT NULL,"
    "  last_used_at INTEGER NOT NULL,"
    "  PRIMARY KEY (digest, tenant)" /* digest first: the walk at the start has no tenant */
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX blob_used ON blob (last_used_at);"
    "PRAGMA application_id = " APPLICATION_ID ";";

const char *const ck_schema_steps[] = {version_1};
const int ck_schema_n_steps = CK_ARRAY_LEN(ck_schema_steps);

static int read_number(struct ck_conn *conn, const char *sql, int64_t *ret_number, struct ck_error *err) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(conn->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : ck_conn_error(conn, rc, err);
}

/* Any SQLite file could stand at the path. */
static int check_is_ours(struct ck_conn *conn, const char *path, int64_t version, struct ck_error *err) {
    int64_t application, tables;
    int r;

    r = read_number(conn, "PRAGMA application_id", &application, err);
    if (r < 0)
        return r;
    r = read_number(conn, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (r < 0)
        return r;
    if (version == 0 && tables == 0)
        return 0;
    if (application == (int64_t)atoll(APPLICATION_ID) && version > 0)
        return 0;
    ck_error_set(err, CK_E_IO, path, "%s is an SQLite file of another program, not a job store of ckptd", path);
    ck_error_set_hint(err, "move the file away, or give another --data");
    return CK_E_IO;
}

static int too_new(const char *path, int64_t version, int known, struct ck_error *err) {
    ck_error_set(err, CK_E_IO, path, "%s has version %lld of the job store, and this ckptd knows versions up to %d",
                 path, (long long)version, known);
    ck_error_set_hint(err, "start the newer ckptd that wrote it, or give another --data");
    return CK_E_IO;
}

static int upgrade_from(struct ck_conn *conn, int version, const char *const *steps, int n_steps,
                        struct ck_error *err) {
    char remember[64];
    int r;

    for (int i = version; i < n_steps; i++) {
        r = ck_conn_exec(conn, steps[i], err);
        if (r < 0)
            return r;
    }
    snprintf(remember, sizeof(remember), "PRAGMA user_version = %d; COMMIT", n_steps);
    return ck_conn_exec(conn, remember, err);
}

static int upgrade_locked(struct ck_conn *conn, const char *path, const char *const *steps, int n_steps,
                          struct ck_error *err) {
    int64_t version;
    int r;

    r = read_number(conn, "PRAGMA user_version", &version, err);
    if (r < 0)
        return r;
    r = check_is_ours(conn, path, version, err);
    if (r < 0)
        return r;
    if (version > n_steps)
        return too_new(path, version, n_steps, err);
    if (version < n_steps)
        return upgrade_from(conn, (int)version, steps, n_steps, err);
    return ck_conn_exec(conn, "COMMIT", err);
}

int ck_schema_upgrade(struct ck_conn *conn, const char *path, const char *const *steps, int n_steps,
                      struct ck_error *err) {
    int r;

    r = ck_conn_exec(conn, "BEGIN IMMEDIATE", err);
    if (r < 0)
        return r;
    r = upgrade_locked(conn, path, steps, n_steps, err);
    if (r < 0 && !sqlite3_get_autocommit(conn->db))
        sqlite3_exec(conn->db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}
