/* The job store: blobs, retention, and the start after a stop or a crash. */
#include "tests/unit/store.h"

static const struct ck_job_file files[] = {{"report.json", 10, 1}};

/* ---- blobs ---- */

static void a_blob_is_made_once_and_becomes_durable_for_good(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    bool is_new = false, durable = true;
    uint64_t bytes = 0;

    FAILS(store->blob_get(store, "", digest_of(1), &bytes, &durable, &err), CK_E_BLOB_NOT_FOUND);
    FAILS(store->blob_touch(store, "", digest_of(1), T0, &err), CK_E_BLOB_NOT_FOUND);
    FAILS(store->blob_delete(store, "", digest_of(1), &err), CK_E_BLOB_NOT_FOUND);
    OK(store->blob_put(store, "", digest_of(1), 1ull << 40, false, T0, &is_new, &err));
    assert_true(is_new);
    OK(store->blob_get(store, "", digest_of(1), &bytes, &durable, &err));
    assert_int_equal(bytes, 1ull << 40);
    assert_false(durable);
    OK(store->blob_put(store, "", digest_of(1), 1ull << 40, true, T0 + 1, &is_new, &err));
    assert_false(is_new);
    OK(store->blob_put(store, "", digest_of(1), 1ull << 40, false, T0 + 2, &is_new, &err));
    OK(store->blob_get(store, "", digest_of(1), &bytes, &durable, &err));
    assert_true(durable);
    FAILS(store->blob_get(store, "b", digest_of(1), &bytes, &durable, &err), CK_E_BLOB_NOT_FOUND);
    OK(store->blob_delete(store, "", digest_of(1), &err));
    FAILS(store->blob_get(store, "", digest_of(1), &bytes, &durable, &err), CK_E_BLOB_NOT_FOUND);
    ck_store_sqlite_close(store);
}

static void a_blob_that_a_job_waits_for_is_kept(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct ck_job_end how = {.state = CK_STATE_FAILED, .reason = "pickle_corrupt", .error = "{}"};
    struct ck_error refusal = {0};
    uint64_t token;

    put_blob(store, 1, true, T0);
    create(store, 1, T0);
    assert_int_equal(store->blob_delete(store, "", digest_of(1), &refusal), CK_E_BLOB_IN_USE);
    assert_non_null(strstr(refusal.message, id_of(1)));
    token = claim(store, 1, T0);
    FAILS(store->blob_delete(store, "", digest_of(1), &err), CK_E_BLOB_IN_USE);
    assert_true(end(store, 1, token, T0, &how));
    OK(store->blob_delete(store, "", digest_of(1), &err));
    ck_store_sqlite_close(store);
}

/* ---- retention ---- */

struct gone {
    unsigned n;
    char keys[64][CK_DIGEST_SIZE];
};

static void note(void *ctx, const char *key) {
    struct gone *gone = ctx;

    snprintf(gone->keys[gone->n++], CK_DIGEST_SIZE, "%s", key);
}

static void finish(struct ck_store *store, unsigned n, int64_t now, int64_t expires_at) {
    struct ck_job_end how = {.state = CK_STATE_SUCCEEDED, .files = files, .n_files = 1, .expires_at = expires_at};

    create(store, n, T0);
    assert_true(end(store, n, claim(store, n, T0), now, &how));
}

static void results_expire_in_their_order_and_only_when_it_is_time(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct gone gone = {0};
    struct ck_job_row row = {0};

    put_blob(store, 1, true, T0);
    finish(store, 1, T0 + 3, T0 + 30);
    finish(store, 2, T0 + 2, T0 + 20);
    finish(store, 3, T0 + 1, T0 + 31);
    finish(store, 4, T0 + 4, 0); /* never */
    OK(store->expire_results(store, T0 + 19, 10, note, &gone, &err));
    assert_int_equal(gone.n, 0);
    OK(store->expire_results(store, T0 + 30, 1, note, &gone, &err));
    assert_int_equal(gone.n, 1);
    assert_string_equal(gone.keys[0], id_of(2));
    OK(store->expire_results(store, T0 + 30, 10, note, &gone, &err));
    assert_int_equal(gone.n, 2);
    assert_string_equal(gone.keys[1], id_of(1));
    row = get(store, 1);
    assert_int_equal(row.state, CK_STATE_EXPIRED);
    assert_string_equal(row.reason, "expired");
    assert_int_equal(row.n_files, 0);
    assert_int_equal(row.version, 4);
    assert_int_equal(row.finished_at, T0 + 3);
    ck_job_row_release(&row);
    FAILS(store->job_cached(store, "", digest_of(1001), &row, &err), CK_E_JOB_NOT_FOUND);
    OK(store->expire_oldest(store, 1, note, &gone, &err));
    assert_string_equal(gone.keys[2], id_of(3));
    OK(store->expire_oldest(store, 9, note, &gone, &err));
    assert_int_equal(gone.n, 4);
    OK(store->job_retry(store, "", id_of(1), T0 + 40, &row, &err));
    ck_job_row_release(&row);
    ck_store_sqlite_close(store);
}

static void old_records_are_forgotten_with_their_references(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct gone gone = {0};

    put_blob(store, 1, true, T0);
    finish(store, 1, T0 + 1, 0);
    finish(store, 2, T0 + 2, 0);
    create(store, 3, T0);
    OK(store->forget_jobs(store, T0 + 2, 10, note, &gone, &err));
    assert_int_equal(gone.n, 1);
    assert_string_equal(gone.keys[0], id_of(1));
    OK(store->forget_jobs(store, T0 + 1000, 10, note, &gone, &err));
    assert_int_equal(gone.n, 2);
    assert_state(store, 3, CK_STATE_QUEUED, NULL);
    create(store, 1, T0);
    ck_store_sqlite_close(store);
}

static void unused_blobs_are_forgotten_and_needed_ones_kept(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct ck_job_end how = {.state = CK_STATE_FAILED, .error = "{}"};
    struct gone gone = {0};
    uint64_t token;

    put_blob(store, 1, true, T0);
    put_blob(store, 2, true, T0 + 1);
    put_blob(store, 3, true, T0 + 2);
    create(store, 1, T0);
    OK(store->blob_touch(store, "", digest_of(3), T0 + 10, &err));
    OK(store->forget_blobs(store, T0 + 10, 10, note, &gone, &err));
    assert_int_equal(gone.n, 1);
    assert_string_equal(gone.keys[0], digest_of(2));
    token = claim(store, 1, T0);
    OK(store->forget_blobs(store, T0 + 1000, 10, note, &gone, &err));
    assert_int_equal(gone.n, 2);
    assert_string_equal(gone.keys[1], digest_of(3));
    /* A run is a use: a retry shall find its input for the whole of --input-ttl. */
    assert_true(end(store, 1, token, T0 + 1000, &how));
    OK(store->forget_blobs(store, T0 + 1000, 10, note, &gone, &err));
    assert_int_equal(gone.n, 2);
    OK(store->forget_blobs(store, T0 + 1001, 10, note, &gone, &err));
    assert_int_equal(gone.n, 3);
    ck_store_sqlite_close(store);
}

/* ---- the start ---- */

static void a_restart_voids_leases(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot-1");
    struct ck_job_end how = {.state = CK_STATE_SUCCEEDED};
    struct ck_store_recovery recovery = {0};
    struct ck_job_source source;
    struct ck_job_row row;
    uint64_t tokens[4];

    put_blob(store, 1, true, T0);
    create(store, 1, T0);
    row = new_row(2, 1, T0 + 1, &source);
    row.max_attempts = 1;
    OK(store->job_create(store, &row, &err));
    create(store, 3, T0 + 2);
    create(store, 4, T0 + 3);
    for (unsigned n = 1; n <= 3; n++)
        tokens[n] = claim(store, n, T0 + 3);
    OK(store->job_cancel(store, "", id_of(3), T0 + 4, &row, &err));
    ck_job_row_release(&row);
    ck_store_sqlite_close(store);

    store = open_store(false, "boot-1");
    assert_false(ck_store_sqlite_rebooted(store));
    OK(ck_store_sqlite_recover(store, T0 + 10, &recovery, &err));
    assert_int_equal(recovery.requeued, 1);
    assert_int_equal(recovery.dead, 1);
    assert_int_equal(recovery.cancelled, 1);
    assert_int_equal(recovery.rerun + recovery.lost, 0);
    assert_state(store, 1, CK_STATE_QUEUED, "recovered");
    assert_state(store, 2, CK_STATE_DEAD, "attempts");
    assert_state(store, 3, CK_STATE_CANCELLED, "cancelled");
    row = get(store, 1);
    assert_int_equal(row.attempt, 1);
    assert_int_equal(row.lease_token, tokens[1] + 1);
    ck_job_row_release(&row);
    assert_false(end(store, 1, tokens[1], T0 + 10, &how));
    claim(store, 1, T0 + 10); /* before 4: it keeps its place */
    ck_store_sqlite_close(store);
}

static void make_results(struct ck_store *store) {
    struct ck_job_end how = {.state = CK_STATE_SUCCEEDED, .files = files, .n_files = 1, .outcome = "{}"};
    struct ck_job_source source;
    struct ck_job_row row;

    put_blob(store, 1, true, T0);
    put_blob(store, 2, false, T0);
    for (unsigned n = 1; n <= 3; n++) {
        row = new_row(n, n == 2 ? 2 : 1, T0, &source);
        OK(store->job_create(store, &row, &err));
        how.durable = n == 3;
        assert_true(end(store, n, claim(store, n, T0), T0 + 1, &how));
    }
}

struct blobs {
    struct ck_store *store;
    unsigned n, unsafe;
};

static int drop_unsafe(void *ctx, const char *digest, uint64_t bytes, bool durable) {
    struct blobs *blobs = ctx;

    assert_true(bytes == 101 || bytes == 102);
    blobs->n++;
    if (durable)
        return 0;
    blobs->unsafe++;
    OK(ck_store_sqlite_drop_blob(blobs->store, digest, &err));
    return 0;
}

static void a_crash_of_the_machine_makes_unsafe_results_again(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot-1");
    struct ck_store_recovery recovery = {0};
    struct blobs blobs;
    struct ck_job_row row;

    OK(ck_store_sqlite_recover(store, T0, &recovery, &err));
    make_results(store);
    ck_store_sqlite_close(store);

    store = open_store(false, "boot-2");
    assert_true(ck_store_sqlite_rebooted(store));
    blobs = (struct blobs){.store = store};
    OK(ck_store_sqlite_each_blob(store, drop_unsafe, &blobs, &err));
    assert_int_equal(blobs.n, 2);
    assert_int_equal(blobs.unsafe, 1);
    OK(ck_store_sqlite_recover(store, T0 + 9, &recovery, &err));
    assert_int_equal(recovery.rerun, 1);
    assert_int_equal(recovery.lost, 1);
    row = get(store, 1);
    assert_int_equal(row.state, CK_STATE_QUEUED);
    assert_string_equal(row.reason, "recovered");
    assert_int_equal(row.n_files, 0);
    assert_int_equal(row.attempt, 0);
    ck_job_row_release(&row);
    row = get(store, 2);
    assert_int_equal(row.state, CK_STATE_FAILED);
    assert_string_equal(row.reason, "input_not_found");
    assert_non_null(strstr(row.error, "\"code\":\"input_not_found\""));
    assert_int_equal(row.n_files, 0);
    ck_job_row_release(&row);
    assert_state(store, 3, CK_STATE_SUCCEEDED, NULL);
    assert_false(ck_store_sqlite_rebooted(store));
    ck_store_sqlite_close(store);

    store = open_store(false, "boot-2");
    assert_false(ck_store_sqlite_rebooted(store));
    ck_store_sqlite_close(store);
    store = open_store(false, ""); /* unknown is never the same */
    assert_true(ck_store_sqlite_rebooted(store));
    ck_store_sqlite_close(store);
}

static void a_restart_of_the_daemon_alone_keeps_unsafe_results(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot-1");
    struct ck_store_recovery recovery = {0};

    OK(ck_store_sqlite_recover(store, T0, &recovery, &err));
    make_results(store);
    ck_store_sqlite_close(store);
    store = open_store(false, "boot-1");
    OK(ck_store_sqlite_recover(store, T0, &recovery, &err));
    assert_int_equal(recovery.rerun + recovery.lost, 0);
    assert_state(store, 1, CK_STATE_SUCCEEDED, NULL);
    ck_store_sqlite_close(store);
}

static void a_job_whose_files_are_gone_runs_again_or_fails(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct ck_job_end failed = {.state = CK_STATE_FAILED, .error = "{\"code\":\"x\"}", .files = files, .n_files = 1};
    struct ck_job_row row;

    make_results(store);
    create(store, 4, T0);
    assert_true(end(store, 4, claim(store, 4, T0), T0 + 1, &failed));
    OK(ck_store_sqlite_lose_results(store, id_of(3), T0 + 5, &err)); /* durable or not */
    OK(store->blob_delete(store, "", digest_of(2), &err));
    OK(ck_store_sqlite_lose_results(store, id_of(2), T0 + 5, &err));
    OK(ck_store_sqlite_lose_results(store, id_of(4), T0 + 5, &err));
    assert_state(store, 1, CK_STATE_SUCCEEDED, NULL);
    assert_state(store, 2, CK_STATE_FAILED, "input_not_found");
    assert_state(store, 3, CK_STATE_QUEUED, "recovered");
    row = get(store, 4);
    assert_int_equal(row.state, CK_STATE_FAILED);
    assert_string_equal(row.error, "{\"code\":\"x\"}");
    assert_int_equal(row.n_files, 0);
    ck_job_row_release(&row);
    claim(store, 3, T0 + 5);
    ck_store_sqlite_close(store);
}

static void a_clock_that_was_wrong_holds_no_job_after_a_restart(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct ck_store_recovery recovery;

    put_blob(store, 1, true, T0);
    create(store, 1, T0 + 86400000);
    OK(ck_store_sqlite_recover(store, T0, &recovery, &err));
    claim(store, 1, T0);
    ck_store_sqlite_close(store);
}

static int count_job(void *ctx, const char *id) {
    unsigned *last = ctx, n = (unsigned)strtoul(id, NULL, 16);

    assert_int_equal(n, *last + 2);
    *last = n;
    return 0;
}

static int stop(_unused_ void *ctx, _unused_ const char *id) {
    return CK_E_CANCELLED;
}

static void all_jobs_with_files_are_walked_beyond_one_batch(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    unsigned last = 0;

    put_blob(store, 1, true, T0);
    for (unsigned n = 1; n <= 1030; n++)
        if (n % 2)
            create(store, n, T0 + 999);
        else
            finish(store, n, T0 + 1, 0);
    OK(ck_store_sqlite_each_job_with_files(store, count_job, &last, &err));
    assert_int_equal(last, 1030);
    assert_int_equal(ck_store_sqlite_each_job_with_files(store, stop, NULL, NULL), CK_E_CANCELLED);
    ck_store_sqlite_close(store);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_blob_is_made_once_and_becomes_durable_for_good),
        TEST(a_blob_that_a_job_waits_for_is_kept),
        TEST(results_expire_in_their_order_and_only_when_it_is_time),
        TEST(old_records_are_forgotten_with_their_references),
        TEST(unused_blobs_are_forgotten_and_needed_ones_kept),
        TEST(a_restart_voids_leases),
        TEST(a_crash_of_the_machine_makes_unsafe_results_again),
        TEST(a_restart_of_the_daemon_alone_keeps_unsafe_results),
        TEST(a_job_whose_files_are_gone_runs_again_or_fails),
        TEST(a_clock_that_was_wrong_holds_no_job_after_a_restart),
        TEST(all_jobs_with_files_are_walked_beyond_one_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
