#include <string.h>

#include "server/store/inner.h"

/* All of these return the keys of the rows that they changed or removed. */
const char ck_sql_expired[] =
    "UPDATE job SET state = 'expired', reason = 'expired', files = '[]', version = version + 1 WHERE id IN "
    "(SELECT id FROM job WHERE state = 'succeeded' AND expires_at <= :before ORDER BY expires_at LIMIT :most) "
    "RETURNING id";

const char ck_sql_oldest_results[] =
    "UPDATE job SET state = 'expired', reason = 'expired', files = '[]', version = version + 1 WHERE id IN "
    "(SELECT id FROM job WHERE state = 'succeeded' AND finished_at <= :before "
    "ORDER BY finished_at LIMIT :most) RETURNING id";

const char ck_sql_old_jobs[] = "DELETE FROM job WHERE id IN (SELECT id FROM job WHERE finished_at < :before "
                               "ORDER BY finished_at LIMIT :most) RETURNING id";

const char ck_sql_old_blobs[] =
    "DELETE FROM blob WHERE (tenant, digest) IN (SELECT tenant, digest FROM blob WHERE last_used_at < :before "
    "AND (tenant, digest) NOT IN ("
    "SELECT i.tenant, i.digest FROM job j CROSS JOIN job_input i ON i.job_id = j.id WHERE j.state = 'queued' UNION ALL "
    "SELECT i.tenant, i.digest FROM job j CROSS JOIN job_input i ON i.job_id = j.id WHERE j.state = 'running') "
    "ORDER BY last_used_at LIMIT :most) RETURNING digest";

struct key {
    char text[CK_DIGEST_SIZE];
};

struct keys {
    struct key *items;
    size_t n, room;
};

static void keys_release(struct keys *keys) {
    free(keys->items);
}

static int keys_add(struct keys *keys, const char *text, struct ck_error *err) {
    if (keys->n == keys->room) {
        size_t room = keys->room ? keys->room * 2 : 64;
        struct key *items = reallocarray(keys->items, room, sizeof(*items));

        if (!items)
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for what is to be removed");
        keys->items = items;
        keys->room = room;
    }
    strncpy(keys->items[keys->n].text, text, sizeof(keys->items->text) - 1);
    keys->items[keys->n++].text[sizeof(keys->items->text) - 1] = 0;
    return 0;
}

static int remove_rows(struct ck_conn *conn, const char *sql, int64_t before, unsigned most, struct keys *keys,
                       struct ck_error *err) {
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    ck_stmt_i64(&stmt, ":before", before);
    ck_stmt_u64(&stmt, ":most", most);
    while ((r = ck_stmt_step(&stmt, err)) > 0) {
        r = keys_add(keys, ck_stmt_get(&stmt, 0), err);
        if (r < 0)
            return r;
    }
    return r;
}

/* Files are removed by gone() after the commit: a file without a row is only found later, a row without its file would
 * be a lie. */
static int retire(struct ck_sqlite *store, const char *doing, const char *sql, int64_t before, unsigned most,
                  void (*gone)(void *ctx, const char *key), void *ctx, struct ck_error *err) {
    _cleanup_(keys_release) struct keys keys = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_write(store, doing, &conn, err);
    if (r < 0)
        return r;
    r = remove_rows(conn, sql, before, most, &keys, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < keys.n; i++)
        gone(ctx, keys.items[i].text);
    return 0;
}

int ck_sqlite_expire_results(struct ck_sqlite *store, int64_t now, unsigned most,
                             void (*gone)(void *ctx, const char *id), void *ctx, struct ck_error *err) {
    return retire(store, "expire results", ck_sql_expired, now, most, gone, ctx, err);
}

int ck_sqlite_expire_oldest(struct ck_sqlite *store, unsigned most, void (*gone)(void *ctx, const char *id), void *ctx,
                            struct ck_error *err) {
    return retire(store, "expire the oldest results", ck_sql_oldest_results, INT64_MAX, most, gone, ctx, err);
}

int ck_sqlite_forget_jobs(struct ck_sqlite *store, int64_t before, unsigned most,
                          void (*gone)(void *ctx, const char *id), void *ctx, struct ck_error *err) {
    return retire(store, "forget old jobs", ck_sql_old_jobs, before, most, gone, ctx, err);
}

int ck_sqlite_forget_blobs(struct ck_sqlite *store, int64_t before, unsigned most,
                           void (*gone)(void *ctx, const char *digest), void *ctx, struct ck_error *err) {
    return retire(store, "forget old blobs", ck_sql_old_blobs, before, most, gone, ctx, err);
}
