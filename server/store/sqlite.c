#include "server/store/sqlite.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/store/inner.h"

#define BUSY_MS 5000

static int64_t monotonic_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- transactions ---- */

/* A deferred BEGIN does nothing yet: the snapshot is taken by the first statement. */
static int begin(struct ck_conn *conn, const char *doing, const char *sql, struct ck_error *err) {
    conn->doing = doing;
    {
        _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

        return ck_stmt_run(&stmt, NULL, err);
    }
}

int ck_sqlite_write(struct ck_sqlite *store, const char *doing, struct ck_conn **ret_conn, struct ck_error *err) {
    int64_t asked = monotonic_ms(), left;
    int r;

    pthread_mutex_lock(&store->writing);
    /* While another program holds the file, those behind the first have waited already. */
    left = store->busy_ms - (monotonic_ms() - asked);
    sqlite3_busy_timeout(store->writer.db, (int)CK_MAX(left, (int64_t)0));
    r = begin(&store->writer, doing, "BEGIN IMMEDIATE", err);
    if (r < 0) {
        pthread_mutex_unlock(&store->writing);
        return r;
    }
    *ret_conn = &store->writer;
    return 0;
}

static struct ck_conn *take_reader(struct ck_sqlite *store) {
    struct ck_conn *conn = NULL;

    pthread_mutex_lock(&store->lock);
    while (!conn) {
        for (size_t i = 0; i < CK_SQLITE_READERS && !conn; i++)
            if (!store->readers[i].taken)
                conn = &store->readers[i];
        if (!conn)
            pthread_cond_wait(&store->freed, &store->lock);
    }
    conn->taken = true;
    pthread_mutex_unlock(&store->lock);
    return conn;
}

static void give_back(struct ck_sqlite *store, struct ck_conn *conn) {
    if (conn == &store->writer) {
        pthread_mutex_unlock(&store->writing);
        return;
    }
    pthread_mutex_lock(&store->lock);
    conn->taken = false;
    pthread_cond_signal(&store->freed);
    pthread_mutex_unlock(&store->lock);
}

int ck_sqlite_read(struct ck_sqlite *store, const char *doing, struct ck_conn **ret_conn, struct ck_error *err) {
    struct ck_conn *conn = take_reader(store);
    int r = begin(conn, doing, "BEGIN", err);

    if (r < 0) {
        give_back(store, conn);
        return r;
    }
    *ret_conn = conn;
    return 0;
}

static int commit(struct ck_conn *conn, struct ck_error *err) {
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, "COMMIT");

    return ck_stmt_run(&stmt, NULL, err);
}

static void roll_back(struct ck_conn *conn) {
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, "ROLLBACK");

    ck_stmt_run(&stmt, NULL, NULL);
}

int ck_sqlite_end(struct ck_sqlite *store, struct ck_conn *conn, int r, struct ck_error *err) {
    if (r >= 0) {
        int committed = commit(conn, err);

        r = committed < 0 ? committed : r;
    }
    /* Some failures, such as a full disk, have rolled back already. */
    if (r < 0 && !sqlite3_get_autocommit(conn->db))
        roll_back(conn);
    give_back(store, conn);
    return r;
}

/* ---- open and close ---- */

/* The one word that a PRAGMA answers. */
static int pragma_is(struct ck_conn *conn, const char *sql, const char *want, bool *ret_is, struct ck_error *err) {
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r = ck_stmt_step(&stmt, err);

    if (r < 0)
        return r;
    *ret_is = r > 0 && strcmp(ck_stmt_get(&stmt, 0), want) == 0;
    return 0;
}

static int configure(struct ck_conn *conn, bool durable, struct ck_error *err) {
    int r = ck_conn_exec(conn,
                         "PRAGMA cell_size_check = ON;"
                         "PRAGMA foreign_keys = ON;"
                         "PRAGMA journal_size_limit = 16777216;",
                         err);

    return r < 0 ? r : ck_conn_exec(conn, durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
}

static int check_file(struct ck_conn *conn, struct ck_error *err) {
    bool sound;
    int r;

    if (sqlite3_db_readonly(conn->db, "main"))
        return ck_conn_error(conn, SQLITE_READONLY, err);
    r = pragma_is(conn, "PRAGMA quick_check(1)", "ok", &sound, err);
    if (r < 0)
        return r;
    return sound ? 0 : ck_conn_error(conn, SQLITE_CORRUPT, err);
}

static int use_wal(struct ck_conn *conn, const char *path, struct ck_error *err) {
    bool wal;
    int r = pragma_is(conn, "PRAGMA journal_mode = WAL", "wal", &wal, err);

    if (r < 0)
        return r;
    if (!wal)
        return ck_error_set(err, CK_E_IO, path,
                            "the file system of %s cannot hold a job store (no shared memory for its log): put the "
                            "data directory on a local disk",
                            path);
    return 0;
}

static int open_writer(struct ck_sqlite *store, const char *path, bool durable, const char *doing,
                       struct ck_error *err) {
    int r;

    r = ck_conn_open(&store->writer, path, doing, err);
    if (r < 0)
        return r;
    sqlite3_busy_timeout(store->writer.db, store->busy_ms);
    r = configure(&store->writer, durable, err);
    if (r < 0)
        return r;
    r = check_file(&store->writer, err);
    if (r < 0)
        return r;
    r = ck_schema_upgrade(&store->writer, path, ck_schema_steps, ck_schema_n_steps, err);
    if (r < 0)
        return r;
    return use_wal(&store->writer, path, err);
}

static int open_reader(struct ck_sqlite *store, struct ck_conn *conn, const char *path, bool durable, const char *doing,
                       struct ck_error *err) {
    int r;

    r = ck_conn_open(conn, path, doing, err);
    if (r < 0)
        return r;
    sqlite3_busy_timeout(conn->db, store->busy_ms);
    r = configure(conn, durable, err);
    if (r < 0)
        return r;
    return ck_conn_exec(conn, "PRAGMA query_only = ON", err);
}

static int compare_boot(struct ck_sqlite *store, const char *boot_id, struct ck_error *err) {
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt =
        ck_stmt(&store->writer, "SELECT value FROM meta WHERE key = 'boot_id'");
    int r = ck_stmt_step(&stmt, err);

    if (r < 0)
        return r;
    snprintf(store->boot_id, sizeof(store->boot_id), "%s", boot_id);
    store->is_new = r == 0;
    store->rebooted = r > 0 && (boot_id[0] == 0 || strcmp(ck_stmt_get(&stmt, 0), store->boot_id) != 0);
    return 0;
}

static int open_all(struct ck_sqlite *store, const char *path, bool durable, const char *boot_id,
                    struct ck_error *err) {
    char doing[512];
    int r;

    snprintf(doing, sizeof(doing), "open its file %s", path);
    r = open_writer(store, path, durable, doing, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < CK_SQLITE_READERS; i++) {
        r = open_reader(store, &store->readers[i], path, durable, doing, err);
        if (r < 0)
            return r;
    }
    return compare_boot(store, boot_id, err);
}

int ck_store_sqlite_open(const char *path, bool durable, const char *boot_id, struct ck_store **ret_store,
                         struct ck_error *err) {
    struct ck_sqlite *store = calloc(1, sizeof(*store));
    int r;

    if (!store)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the job store");
    store->port = ck_sqlite_port;
    store->busy_ms = BUSY_MS;
    pthread_mutex_init(&store->writing, NULL);
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->freed, NULL);
    r = open_all(store, path, durable, boot_id, err);
    if (r < 0) {
        ck_store_sqlite_close(&store->port);
        return r;
    }
    *ret_store = &store->port;
    return 0;
}

void ck_store_sqlite_close(struct ck_store *port) {
    struct ck_sqlite *store = ck_sqlite(port);

    if (!port)
        return;
    for (size_t i = 0; i < CK_SQLITE_READERS; i++)
        ck_conn_close(&store->readers[i]);
    /* Last: whoever closes last moves the log into the file. */
    ck_conn_close(&store->writer);
    pthread_cond_destroy(&store->freed);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->writing);
    free(store);
}

bool ck_store_sqlite_is_new(const struct ck_store *port) {
    return ((const struct ck_sqlite *)port)->is_new;
}

bool ck_store_sqlite_rebooted(const struct ck_store *port) {
    return ((const struct ck_sqlite *)port)->rebooted;
}

int ck_store_sqlite_check(struct ck_store *port, struct ck_error *err) {
    struct ck_sqlite *store = ck_sqlite(port);
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_read(store, "be read", &conn, err);
    if (r < 0)
        return r;
    {
        _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, "SELECT count(*) FROM meta");

        r = ck_stmt_run(&stmt, NULL, err);
    }
    return ck_sqlite_end(store, conn, r, err);
}

void ck_store_sqlite_observe(struct ck_store *port,
                             void (*observe)(void *ctx, const char *op, double seconds, int code), void *ctx) {
    struct ck_sqlite *store = ck_sqlite(port);

    store->observe = observe;
    store->observe_ctx = ctx;
}

void ck_store_sqlite_busy_timeout(struct ck_store *port, int ms) {
    struct ck_sqlite *store = ck_sqlite(port);

    store->busy_ms = ms;
    sqlite3_busy_timeout(store->writer.db, ms);
    for (size_t i = 0; i < CK_SQLITE_READERS; i++)
        sqlite3_busy_timeout(store->readers[i].db, ms);
}
