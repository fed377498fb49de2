#include <stdio.h>

#include "core/base/buffer.h"
#include "server/store/inner.h"

/* ---- pages ---- */

#define PAGE(bound, order)                                                                                             \
    "SELECT " CK_ROW_COLUMNS " FROM job WHERE tenant = :tenant AND id " bound " :cursor"                               \
    " AND (:states IS NULL OR instr(:states, ',' || state || ',') > 0)"                                                \
    " AND (:kind IS NULL OR kind = :kind) AND (:target IS NULL OR target = :target)"                                   \
    " AND (:after IS NULL OR created_at > :after) AND (:before IS NULL OR created_at < :before)"                       \
    " AND (:label IS NULL OR EXISTS (SELECT 1 FROM json_each(job.labels) AS l"                                         \
    " WHERE l.key = :label AND (:value IS NULL OR l.value = :value)))"                                                 \
    " ORDER BY id " order " LIMIT :limit"

const char ck_sql_list_newest[] = PAGE("<", "DESC");
const char ck_sql_list_oldest[] = PAGE(">", "ASC");

struct page {
    struct ck_job_row *rows;
    size_t n, room;
};

static void page_release(struct page *page) {
    for (size_t i = 0; i < page->n; i++)
        ck_job_row_release(&page->rows[i]);
    free(page->rows);
}

static int page_add(struct page *page, struct ck_stmt *stmt, struct ck_error *err) {
    int r;

    if (page->n == page->room) {
        size_t room = page->room ? page->room * 2 : 16;
        struct ck_job_row *rows = reallocarray(page->rows, room, sizeof(*rows));

        if (!rows)
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for a page of jobs");
        page->rows = rows;
        page->room = room;
    }
    page->rows[page->n] = (struct ck_job_row){0};
    r = ck_row_read(stmt, &page->rows[page->n], err);
    if (r < 0)
        return r;
    page->n++;
    return 0;
}

/* ",queued,running," */
static void name_states(unsigned states, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, ",");

    for (int i = 0; i < CK_STATE_END_ && used < size; i++)
        if (states >> i & 1)
            used += (size_t)snprintf(text + used, size - used, "%s,", ck_job_state_name((enum ck_job_state)i));
}

static int read_page(struct ck_conn *conn, const struct ck_job_filter *filter, struct page *page,
                     struct ck_error *err) {
    const char *start = filter->oldest_first ? "" : "~"; /* before and behind every id */
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt =
        ck_stmt(conn, filter->oldest_first ? ck_sql_list_oldest : ck_sql_list_newest);
    char states[128];
    int r;

    name_states(filter->states, states, sizeof(states));
    ck_stmt_text(&stmt, ":tenant", filter->tenant);
    ck_stmt_text(&stmt, ":cursor", filter->cursor ? filter->cursor : start);
    ck_stmt_text(&stmt, ":states", filter->states ? states : NULL);
    ck_stmt_text(&stmt, ":kind", filter->kind);
    ck_stmt_text(&stmt, ":target", filter->target);
    ck_stmt_time(&stmt, ":after", filter->created_after);
    ck_stmt_time(&stmt, ":before", filter->created_before);
    ck_stmt_text(&stmt, ":label", filter->label_key);
    ck_stmt_text(&stmt, ":value", filter->label_value);
    ck_stmt_u64(&stmt, ":limit", filter->limit);
    while ((r = ck_stmt_step(&stmt, err)) > 0) {
        r = page_add(page, &stmt, err);
        if (r < 0)
            return r;
    }
    return r;
}

int ck_sqlite_job_list(struct ck_sqlite *store, const struct ck_job_filter *filter,
                       int (*each)(void *ctx, const struct ck_job_row *row), void *ctx, struct ck_error *err) {
    _cleanup_(page_release) struct page page = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_read(store, "list jobs", &conn, err);
    if (r < 0)
        return r;
    r = read_page(conn, filter, &page, err);
    r = ck_sqlite_end(store, conn, r, err);
    for (size_t i = 0; i < page.n && r >= 0; i++)
        r = each(ctx, &page.rows[i]);
    return r < 0 ? r : 0;
}

/* ---- counts ---- */

static int read_ahead(struct ck_conn *conn, const char *id, uint64_t *ret_ahead, struct ck_error *err) {
    static const char sql[] =
        "SELECT count(*) FROM job, (SELECT run_at AS at, id AS own FROM job WHERE id = :id AND state = 'queued') "
        "WHERE state = 'queued' AND (run_at, id) < (at, own)";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    ck_stmt_text(&stmt, ":id", id);
    r = ck_stmt_step(&stmt, err);
    if (r < 0)
        return r;
    *ret_ahead = (uint64_t)sqlite3_column_int64(stmt.stmt, 0);
    return 0;
}

int ck_sqlite_job_ahead(struct ck_sqlite *store, const char *id, uint64_t *ret_ahead, struct ck_error *err) {
    struct ck_conn *conn;
    uint64_t ahead = 0;
    int r;

    r = ck_sqlite_read(store, "count the jobs ahead", &conn, err);
    if (r < 0)
        return r;
    r = read_ahead(conn, id, &ahead, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_ahead = ahead;
    return 0;
}

/* A retried job waits since the retry, one that was handed back with run_at 0 since it was made. */
static int read_counts(struct ck_conn *conn, struct ck_queue_counts *ret_counts, struct ck_error *err) {
    static const char sql[] = "SELECT count(*), min(max(run_at, created_at)), "
                              "(SELECT count(*) FROM job WHERE state = 'running') FROM job WHERE state = 'queued'";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r = ck_stmt_step(&stmt, err);

    if (r < 0)
        return r;
    *ret_counts = (struct ck_queue_counts){
        .queued = (uint64_t)sqlite3_column_int64(stmt.stmt, 0),
        .running = (uint64_t)sqlite3_column_int64(stmt.stmt, 2),
        .oldest_queued_at = sqlite3_column_int64(stmt.stmt, 1),
    };
    return 0;
}

int ck_sqlite_job_counts(struct ck_sqlite *store, struct ck_queue_counts *ret_counts, struct ck_error *err) {
    struct ck_queue_counts counts = {0};
    struct ck_conn *conn;
    int r;

    r = ck_sqlite_read(store, "count the jobs", &conn, err);
    if (r < 0)
        return r;
    r = read_counts(conn, &counts, err);
    r = ck_sqlite_end(store, conn, r, err);
    if (r < 0)
        return r;
    *ret_counts = counts;
    return 0;
}
