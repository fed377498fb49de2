/* The job store: pages of jobs, and the indexes that statements need. */
#include "tests/unit/store.h"

/* ---- pages ---- */

struct page {
    unsigned n;
    unsigned ids[512];
    struct ck_store *store;
};

static int collect(void *ctx, const struct ck_job_row *row) {
    struct page *page = ctx;
    char *rest;

    page->ids[page->n++] = (unsigned)strtoul(row->id, &rest, 16);
    return page->n == 500 ? -1 : 0;
}

static struct page list(struct ck_store *store, const struct ck_job_filter *filter) {
    struct page page = {0};

    OK(store->job_list(store, filter, collect, &page, &err));
    return page;
}

static void make_labelled(struct ck_store *store, unsigned n) {
    struct ck_job_source source;
    struct ck_job_row row = new_row(n, 1, T0 + n, &source);

    row.target = n % 2 ? "mlx" : "safetensors";
    row.labels = n % 3 ? "{\"team\":\"a.b\\\"c\",\"run\":\"7\"}" : "{\"team\":\"x\",\"$.team\":\"y\"}";
    if (n % 5 == 0)
        row.kind = "analyze";
    OK(store->job_create(store, &row, &err));
}

/* Walks in pages of 7 while jobs come in, and finds each of those that were there once. */
static void walk(bool oldest_first) {
    struct ck_store *store = open_store(false, "boot");
    struct ck_job_filter filter = {.tenant = "", .limit = 7, .oldest_first = oldest_first};
    unsigned seen[512] = {0}, last = oldest_first ? 0 : 512, newest = 100;
    char cursor[CK_JOB_ID_SIZE];
    struct page page;

    put_blob(store, 1, true, T0);
    for (unsigned n = 1; n <= newest; n++)
        make_labelled(store, n);
    do {
        page = list(store, &filter);
        for (unsigned i = 0; i < page.n; i++) {
            assert_int_equal(seen[page.ids[i]]++, 0);
            assert_true(oldest_first ? page.ids[i] > last : page.ids[i] < last);
            last = page.ids[i];
        }
        snprintf(cursor, sizeof(cursor), "%s", id_of(last));
        filter.cursor = cursor;
        if (newest < 130)
            make_labelled(store, ++newest);
    } while (page.n == 7);
    for (unsigned n = 1; n <= 100; n++)
        assert_int_equal(seen[n], 1);
    ck_store_sqlite_close(store);
}

static void pages_are_complete_while_jobs_come_in(_unused_ void **state) {
    walk(false);
}

static void pages_from_the_oldest_on_are_complete_too(_unused_ void **state) {
    walk(true);
}

#define COUNT(...) (list(store, &(struct ck_job_filter){.tenant = "", .limit = 200, __VA_ARGS__}).n)

static void filters_select_by_value(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct ck_job_row row;

    put_blob(store, 1, true, T0);
    for (unsigned n = 1; n <= 30; n++)
        make_labelled(store, n);
    OK(store->job_cancel(store, "", id_of(4), T0 + 40, &row, &err));
    ck_job_row_release(&row);
    claim(store, 1, T0 + 50);
    assert_int_equal(COUNT(.states = 0), 30);
    assert_int_equal(COUNT(.states = 1u << CK_STATE_QUEUED), 28);
    assert_int_equal(COUNT(.states = 1u << CK_STATE_CANCELLED | 1u << CK_STATE_RUNNING), 2);
    assert_int_equal(COUNT(.states = 1u << CK_STATE_DEAD), 0);
    assert_int_equal(COUNT(.kind = "analyze"), 6);
    assert_int_equal(COUNT(.target = "mlx"), 15);
    assert_int_equal(COUNT(.target = "mlx", .kind = "analyze"), 3);
    assert_int_equal(COUNT(.label_key = "team", .label_value = "x"), 10);
    assert_int_equal(COUNT(.label_key = "team", .label_value = "a.b\"c"), 20);
    assert_int_equal(COUNT(.label_key = "$.team", .label_value = "y"), 10);
    assert_int_equal(COUNT(.label_key = "run", .label_value = "7"), 20);
    assert_int_equal(COUNT(.label_key = "run", .label_value = "8"), 0);
    assert_int_equal(COUNT(.label_key = "run"), 20);
    assert_int_equal(COUNT(.created_after = T0 + 10), 20);
    assert_int_equal(COUNT(.created_before = T0 + 10), 9);
    assert_int_equal(COUNT(.created_after = T0 + 10, .created_before = T0 + 13), 2);
    assert_int_equal(list(store, &(struct ck_job_filter){.tenant = "b", .limit = 200}).n, 0);
    assert_int_equal(list(store, &(struct ck_job_filter){.tenant = "", .limit = 0}).n, 0);
    ck_store_sqlite_close(store);
}

static int refuse_second(void *ctx, _unused_ const struct ck_job_row *row) {
    struct page *page = ctx;
    uint64_t ahead;

    /* The list's own connection is free again. */
    OK(page->store->job_ahead(page->store, row->id, &ahead, &err));
    return ++page->n == 2 ? CK_E_CLIENT_GONE : 0;
}

static void the_receiver_of_a_page_may_call_the_store_and_end_it(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct page page = {.store = store};
    struct ck_job_filter filter = {.tenant = "", .limit = 10};
    struct ck_error err = {0};

    put_blob(store, 1, true, T0);
    for (unsigned n = 1; n <= 5; n++)
        create(store, n, T0);
    assert_int_equal(store->job_list(store, &filter, refuse_second, &page, &err), CK_E_CLIENT_GONE);
    assert_int_equal(page.n, 2);
    ck_store_sqlite_close(store);
}

/* ---- plans ---- */

static void assert_plan(struct ck_store *store, const char *sql, const char *index) {
    sqlite3 *db = ck_sqlite(store)->writer.db;
    sqlite3_stmt *stmt;
    char text[8192], plan[4096] = "";

    snprintf(text, sizeof(text), "EXPLAIN QUERY PLAN %s", sql);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        size_t used = strlen(plan);

        snprintf(plan + used, sizeof(plan) - used, "%s\n", (const char *)sqlite3_column_text(stmt, 3));
    }
    sqlite3_finalize(stmt);
    if (!strstr(plan, index) || strstr(plan, "SCAN job\n") || strstr(plan, "SCAN blob\n") ||
        strstr(plan, "TEMP B-TREE FOR ORDER BY"))
        fail_msg("no %s in the plan of %.60s...:\n%s", index, sql, plan);
    if (getenv("PLANS"))
        print_message("%.50s...\n%s\n", sql, plan);
}

static void every_hot_statement_uses_its_index(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");

    assert_plan(store, ck_sql_claim, "SEARCH job USING COVERING INDEX job_queue (run_at<?)");
    assert_plan(store, ck_sql_list_newest, "SEARCH job USING INDEX job_list (tenant=? AND id<?)");
    assert_plan(store, ck_sql_list_oldest, "SEARCH job USING INDEX job_list (tenant=? AND id>?)");
    assert_plan(store, ck_sql_cached, "SEARCH job USING INDEX job_cache (tenant=? AND cache_key=?)");
    assert_plan(store, ck_sql_expired, "SEARCH job USING INDEX job_expiry (expires_at<?)");
    assert_plan(store, ck_sql_oldest_results, "INDEX job_finished (finished_at<?)");
    assert_plan(store, ck_sql_old_jobs, "INDEX job_finished (finished_at<?)");
    assert_plan(store, ck_sql_old_blobs, "INDEX blob_used (last_used_at<?)");
    ck_store_sqlite_close(store);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(pages_are_complete_while_jobs_come_in),
        TEST(pages_from_the_oldest_on_are_complete_too),
        TEST(filters_select_by_value),
        TEST(the_receiver_of_a_page_may_call_the_store_and_end_it),
        TEST(every_hot_statement_uses_its_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
