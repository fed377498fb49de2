/* The job store for whoever runs jobs: claims, leases, ends. */
#include "tests/unit/store.h"

static const struct ck_job_file two_files[] = {{"model.safetensors", 4096, 0xDEADBEEF}, {"report.json", 0, 0}};
static const char outcome[] = "{\"tensors\":3,\"assumed\":0,\"dropped\":0,\"aliases\":1,\"overflowed\":0}";

static struct ck_job_end success(int64_t expires_at) {
    return (struct ck_job_end){.state = CK_STATE_SUCCEEDED,
                               .outcome = outcome,
                               .files = two_files,
                               .n_files = 2,
                               .durable = true,
                               .expires_at = expires_at};
}

static struct ck_store *store_with_blob(void) {
    struct ck_store *store = open_store(false, "boot");

    put_blob(store, 1, true, T0);
    return store;
}

static void jobs_are_claimed_in_the_order_they_came(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_queue_counts counts;
    struct ck_job_row row;
    bool claimed = true;
    uint64_t ahead;

    create(store, 2, T0 + 5);
    create(store, 3, T0 + 5);
    create(store, 1, T0 + 9);
    OK(store->job_ahead(store, id_of(1), &ahead, &err));
    assert_int_equal(ahead, 2);
    OK(store->job_ahead(store, id_of(2), &ahead, &err));
    assert_int_equal(ahead, 0);
    OK(store->job_counts(store, &counts, &err));
    assert_int_equal(counts.queued, 3);
    assert_int_equal(counts.running, 0);
    assert_int_equal(counts.oldest_queued_at, T0 + 5);
    assert_int_equal(claim(store, 2, T0 + 10), 1);
    assert_int_equal(claim(store, 3, T0 + 10), 1);
    OK(store->job_claim(store, "w", T0 + 8, LEASE, &claimed, &row, &err));
    assert_false(claimed); /* the third is not due yet */
    OK(store->job_ahead(store, id_of(2), &ahead, &err));
    assert_int_equal(ahead, 0);
    OK(store->job_counts(store, &counts, &err));
    assert_int_equal(counts.queued, 1);
    assert_int_equal(counts.running, 2);
    assert_int_equal(counts.oldest_queued_at, T0 + 9);
    claim(store, 1, T0 + 9);
    OK(store->job_counts(store, &counts, &err));
    assert_int_equal(counts.oldest_queued_at, 0);
    row = get(store, 2);
    assert_int_equal(row.attempt, 1);
    assert_int_equal(row.version, 2);
    assert_int_equal(row.started_at, T0 + 10);
    ck_job_row_release(&row);
    ck_store_sqlite_close(store);
}

static void a_finished_claim_keeps_what_it_made(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end how = success(T0 + 5000);
    struct ck_job_row row = {0};
    bool stale = true;
    uint64_t token;

    create(store, 1, T0);
    token = claim(store, 1, T0 + 1);
    OK(store->job_end(store, id_of(1), token, T0 + 2, &how, &stale, &row, &err));
    assert_false(stale);
    assert_int_equal(row.state, CK_STATE_SUCCEEDED);
    assert_int_equal(row.version, 3);
    assert_int_equal(row.started_at, T0 + 1);
    assert_int_equal(row.finished_at, T0 + 2);
    assert_int_equal(row.expires_at, T0 + 5000);
    assert_string_equal(row.outcome, outcome);
    assert_memory_equal(row.files, two_files, sizeof(two_files));
    assert_true(row.durable);
    ck_job_row_release(&row);
    ck_store_sqlite_close(store);
}

static void a_failed_claim_keeps_its_error_and_its_report(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end how = {.state = CK_STATE_DEAD,
                             .reason = "worker_crashed",
                             .error = "{\"code\":\"worker_crashed\"}",
                             .files = two_files + 1,
                             .n_files = 1,
                             .crashed = true};
    struct ck_job_row row;

    create(store, 1, T0);
    assert_true(end(store, 1, claim(store, 1, T0), T0, &how));
    row = get(store, 1);
    assert_int_equal(row.state, CK_STATE_DEAD);
    assert_string_equal(row.reason, "worker_crashed");
    assert_string_equal(row.error, "{\"code\":\"worker_crashed\"}");
    assert_int_equal(row.crash_count, 1);
    assert_int_equal(row.n_files, 1);
    assert_string_equal(row.files[0].name, "report.json");
    assert_int_equal(row.expires_at, 0);
    ck_job_row_release(&row);
    ck_store_sqlite_close(store);
}

static void a_stale_token_changes_nothing(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end how = success(0), back = {.state = CK_STATE_QUEUED, .crashed = true};
    struct ck_job_row before, after, untouched = {0};
    uint64_t old, reaped, token;
    bool stale = false, lost = false, asked = true;

    create(store, 1, T0);
    old = claim(store, 1, T0);
    OK(store->jobs_reap(store, T0 + LEASE, &reaped, &err));
    assert_int_equal(reaped, 0); /* at the limit it holds */
    OK(store->jobs_reap(store, T0 + LEASE + 1, &reaped, &err));
    assert_int_equal(reaped, 1);
    assert_state(store, 1, CK_STATE_QUEUED, "lease_expired");
    assert_false(end(store, 1, old, T0 + LEASE + 2, &how)); /* nobody's claim */
    token = claim(store, 1, T0 + LEASE + 2);
    assert_true(token > old);
    before = get(store, 1);
    OK(store->job_end(store, id_of(1), old, T0 + LEASE + 3, &how, &stale, &untouched, &err));
    assert_true(stale);
    assert_null(untouched.tenant);
    assert_false(end(store, 1, old, T0 + LEASE + 3, &back));
    OK(store->job_renew(store, id_of(1), old, T0 + LEASE + 3, LEASE, &lost, &asked, &err));
    assert_true(lost);
    assert_false(asked);
    after = get(store, 1);
    assert_int_equal(after.version, before.version);
    assert_int_equal(after.state, CK_STATE_RUNNING);
    assert_int_equal(after.crash_count, 0);
    OK(store->job_renew(store, id_of(1), token, T0 + 2 * LEASE, LEASE, &lost, &asked, &err));
    assert_false(lost);
    OK(store->jobs_reap(store, T0 + 3 * LEASE, &reaped, &err));
    assert_int_equal(reaped, 0);
    assert_true(end(store, 1, token, T0 + LEASE + 4, &how));
    assert_false(end(store, 1, token, T0 + LEASE + 4, &how));
    ck_job_row_release(&before);
    ck_job_row_release(&after);
    ck_store_sqlite_close(store);
}

static void a_drained_job_has_lost_no_attempt_and_waits_for_its_time(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end back = {.state = CK_STATE_QUEUED, .reason = "drained", .forgive = true, .run_at = T0 + 100};
    struct ck_job_row row;
    bool claimed = true;

    create(store, 1, T0);
    assert_true(end(store, 1, claim(store, 1, T0), T0, &back));
    row = get(store, 1);
    assert_int_equal(row.state, CK_STATE_QUEUED);
    assert_string_equal(row.reason, "drained");
    assert_int_equal(row.attempt, 0);
    assert_int_equal(row.started_at, 0);
    ck_job_row_release(&row);
    OK(store->job_claim(store, "w", T0 + 99, LEASE, &claimed, &row, &err));
    assert_false(claimed);
    claim(store, 1, T0 + 100);
    assert_state(store, 1, CK_STATE_RUNNING, NULL);
    ck_store_sqlite_close(store);
}

static void the_last_attempt_handed_back_is_the_end(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end back = {.state = CK_STATE_QUEUED, .reason = "worker_killed", .expires_at = T0 + 9};
    struct ck_job_row row;

    create(store, 1, T0);
    for (int i = 0; i < 4; i++) {
        assert_true(end(store, 1, claim(store, 1, T0), T0, &back));
        assert_state(store, 1, CK_STATE_QUEUED, "worker_killed");
    }
    assert_true(end(store, 1, claim(store, 1, T0), T0 + 8, &back));
    row = get(store, 1);
    assert_int_equal(row.state, CK_STATE_DEAD);
    assert_string_equal(row.reason, "attempts");
    assert_int_equal(row.attempt, 5);
    assert_int_equal(row.crash_count, 0);
    assert_int_equal(row.finished_at, T0 + 8);
    assert_int_equal(row.expires_at, T0 + 9);
    assert_non_null(strstr(row.error, "\"code\":\"attempts_exhausted\""));
    assert_non_null(strstr(row.error, "\"title\":\"every attempt at the job was lost\""));
    assert_non_null(strstr(row.error, "last: worker_killed"));
    assert_non_null(strstr(row.error, "\"hint\":"));
    ck_job_row_release(&row);
    ck_store_sqlite_close(store);
}

static void reaping_kills_at_the_last_attempt_and_heeds_a_cancel(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_source source;
    struct ck_job_row once = new_row(1, 1, T0, &source), row;
    uint64_t reaped;

    once.max_attempts = 1;
    OK(store->job_create(store, &once, &err));
    create(store, 2, T0 + 1);
    claim(store, 1, T0 + 1);
    claim(store, 2, T0 + 1);
    OK(store->job_cancel(store, "", id_of(2), T0 + 2, &row, &err));
    ck_job_row_release(&row);
    OK(store->jobs_reap(store, T0 + 2 * LEASE, &reaped, &err));
    assert_int_equal(reaped, 2);
    assert_state(store, 1, CK_STATE_DEAD, "attempts");
    assert_state(store, 2, CK_STATE_CANCELLED, "cancelled");
    ck_store_sqlite_close(store);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(jobs_are_claimed_in_the_order_they_came),
        TEST(a_finished_claim_keeps_what_it_made),
        TEST(a_failed_claim_keeps_its_error_and_its_report),
        TEST(a_stale_token_changes_nothing),
        TEST(a_drained_job_has_lost_no_attempt_and_waits_for_its_time),
        TEST(the_last_attempt_handed_back_is_the_end),
        TEST(reaping_kills_at_the_last_attempt_and_heeds_a_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
