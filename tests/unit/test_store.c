/* The job store, each function by value. */
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

/* ---- making ---- */

static void a_job_reads_back_as_it_was_made(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_source sources[2];
    struct ck_job_row row = new_row(7, 1, T0 + 1, &sources[0]), back;

    put_blob(store, 2, false, T0);
    sources[1] = (struct ck_job_source){.role = "source", .name = "n\xC3\xA4h \"x\".py", .bytes = 99999};
    snprintf(sources[1].digest, sizeof(sources[1].digest), "%s", digest_of(2));
    row.n_inputs = 2;
    row.labels = "{\"team\":\"vision\"}";
    row.fresh = row.durable = true;
    row.request_id = "req-1";
    row.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    row.caller = "ci";
    row.version = 77;
    OK(store->job_create(store, &row, &err));
    back = get(store, 7);
    assert_string_equal(back.id, id_of(7));
    assert_string_equal(back.tenant, "");
    assert_int_equal(back.state, CK_STATE_QUEUED);
    assert_int_equal(back.version, 1);
    assert_string_equal(back.kind, "convert");
    assert_string_equal(back.target, "mlx");
    assert_string_equal(back.quant, "q4");
    assert_string_equal(back.spec, row.spec);
    assert_string_equal(back.labels, row.labels);
    assert_string_equal(back.stem, "net");
    assert_string_equal(back.cache_key, row.cache_key);
    assert_true(back.fresh);
    assert_true(back.durable);
    assert_null(back.reason);
    assert_null(back.outcome);
    assert_null(back.error);
    assert_int_equal(back.attempt, 0);
    assert_int_equal(back.max_attempts, 5);
    assert_int_equal(back.crash_count, 0);
    assert_int_equal(back.lease_token, 0);
    assert_int_equal(back.created_at, T0 + 1);
    assert_int_equal(back.started_at, 0);
    assert_int_equal(back.finished_at, 0);
    assert_int_equal(back.expires_at, 0);
    assert_int_equal(back.cancel_requested_at, 0);
    assert_int_equal(back.n_files, 0);
    assert_string_equal(back.request_id, "req-1");
    assert_string_equal(back.trace_id, row.trace_id);
    assert_string_equal(back.caller, "ci");
    assert_string_equal(back.cached_from, "");
    assert_string_equal(back.converter, "1.0");
    assert_int_equal(back.n_inputs, 2);
    assert_string_equal(back.inputs[0].role, "model");
    assert_string_equal(back.inputs[0].name, "net.pt");
    assert_string_equal(back.inputs[0].digest, digest_of(1));
    assert_int_equal(back.inputs[0].bytes, 101);
    assert_string_equal(back.inputs[1].name, "n\xC3\xA4h \"x\".py");
    /* The blob's own size, whatever the row said. */
    assert_int_equal(back.inputs[1].bytes, 102);
    ck_job_row_release(&back);
    ck_store_sqlite_close(store);
}

static void a_job_outlives_the_process(_unused_ void **state) {
    struct ck_store *store = store_with_blob();

    create(store, 1, T0);
    ck_store_sqlite_close(store);
    store = open_store(true, "boot");
    assert_state(store, 1, CK_STATE_QUEUED, NULL);
    ck_store_sqlite_close(store);
}

static void a_job_over_an_unknown_blob_is_refused_and_leaves_no_row(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_source sources[2], other;
    struct ck_job_row row = new_row(1, 1, T0, &sources[0]), gone = {0};
    struct ck_error refusal = {0};

    new_row(1, 9, T0, &sources[1]);
    row.n_inputs = 2;
    assert_int_equal(store->job_create(store, &row, &refusal), CK_E_INPUT_NOT_FOUND);
    assert_non_null(strstr(refusal.message, digest_of(9)));
    FAILS(store->job_get(store, "", id_of(1), &gone, &err), CK_E_JOB_NOT_FOUND);
    /* Another tenant's blob is none of ours. */
    row = new_row(2, 1, T0, &other);
    row.tenant = "b";
    FAILS(store->job_create(store, &row, &err), CK_E_INPUT_NOT_FOUND);
    ck_store_sqlite_close(store);
}

static void a_cached_job_is_born_finished(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_source source;
    struct ck_job_row row = new_row(2, 1, T0, &source), back;
    bool claimed = true;

    row.state = CK_STATE_SUCCEEDED;
    row.reason = "cached";
    row.started_at = row.finished_at = T0;
    row.expires_at = T0 + 1000;
    row.files = (struct ck_job_file *)(uintptr_t)two_files;
    row.n_files = 2;
    row.outcome = (char *)(uintptr_t)outcome;
    snprintf(row.cached_from, sizeof(row.cached_from), "%s", id_of(1));
    OK(store->job_create(store, &row, &err));
    back = get(store, 2);
    assert_int_equal(back.state, CK_STATE_SUCCEEDED);
    assert_string_equal(back.cached_from, id_of(1));
    assert_string_equal(back.outcome, outcome);
    assert_int_equal(back.expires_at, T0 + 1000);
    assert_int_equal(back.n_files, 2);
    assert_memory_equal(back.files, two_files, sizeof(two_files));
    ck_job_row_release(&back);
    OK(store->job_claim(store, "w", T0 + 1, LEASE, &claimed, &back, &err));
    assert_false(claimed);
    ck_store_sqlite_close(store);
}

static void a_row_that_makes_no_sense_is_refused(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_source source;
    struct ck_job_row row = new_row(1, 1, T0, &source);

    row.state = CK_STATE_RUNNING;
    FAILS(store->job_create(store, &row, &err), CK_E_INTERNAL);
    row.state = CK_STATE_SUCCEEDED; /* without finished_at */
    FAILS(store->job_create(store, &row, &err), CK_E_INTERNAL);
    row.state = CK_STATE_QUEUED;
    row.labels = NULL;
    FAILS(store->job_create(store, &row, &err), CK_E_INTERNAL);
    row.labels = "{}";
    OK(store->job_create(store, &row, &err));
    FAILS(store->job_create(store, &row, &err), CK_E_INTERNAL); /* the id is taken */
    ck_store_sqlite_close(store);
}

static void jobs_of_another_tenant_are_not_there(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_row row = {0};

    create(store, 1, T0);
    FAILS(store->job_get(store, "b", id_of(1), &row, &err), CK_E_JOB_NOT_FOUND);
    FAILS(store->job_cancel(store, "b", id_of(1), T0, &row, &err), CK_E_JOB_NOT_FOUND);
    FAILS(store->job_retry(store, "b", id_of(1), T0, &row, &err), CK_E_JOB_NOT_FOUND);
    FAILS(store->job_delete(store, "b", id_of(1), &err), CK_E_JOB_NOT_FOUND);
    assert_null(row.tenant);
    ck_store_sqlite_close(store);
}

/* ---- cancel, retry, delete ---- */

static void a_queued_job_is_cancelled_at_once_and_a_running_one_is_asked(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end back = {.state = CK_STATE_QUEUED, .reason = "drained", .forgive = true}, how = success(0);
    struct ck_job_row row = {0};
    bool lost, asked = false;
    uint64_t token;

    create(store, 1, T0);
    create(store, 2, T0 + 1);
    create(store, 3, T0 + 2);
    OK(store->job_cancel(store, "", id_of(1), T0 + 3, &row, &err));
    assert_int_equal(row.state, CK_STATE_CANCELLED);
    assert_int_equal(row.finished_at, T0 + 3);
    assert_int_equal(row.version, 2);
    ck_job_row_release(&row);
    OK(store->job_cancel(store, "", id_of(1), T0 + 9, &row, &err));
    assert_int_equal(row.finished_at, T0 + 3);
    ck_job_row_release(&row);
    token = claim(store, 2, T0 + 3);
    OK(store->job_cancel(store, "", id_of(2), T0 + 4, &row, &err));
    assert_int_equal(row.state, CK_STATE_RUNNING);
    assert_int_equal(row.cancel_requested_at, T0 + 4);
    assert_int_equal(row.version, 3);
    ck_job_row_release(&row);
    OK(store->job_cancel(store, "", id_of(2), T0 + 5, &row, &err));
    assert_int_equal(row.cancel_requested_at, T0 + 4);
    assert_int_equal(row.version, 3);
    ck_job_row_release(&row);
    OK(store->job_renew(store, id_of(2), token, T0 + 5, LEASE, &lost, &asked, &err));
    assert_true(asked && !lost);
    assert_true(end(store, 2, token, T0 + 6, &back));
    assert_state(store, 2, CK_STATE_CANCELLED, "cancelled");
    assert_true(end(store, 3, claim(store, 3, T0 + 6), T0 + 6, &how));
    FAILS(store->job_cancel(store, "", id_of(3), T0 + 7, &row, &err), CK_E_JOB_FINISHED);
    ck_store_sqlite_close(store);
}

static void a_retried_job_starts_anew_if_its_input_is_there(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end dead = {.state = CK_STATE_DEAD,
                              .reason = "worker_crashed",
                              .error = "{}",
                              .crashed = true,
                              .files = two_files,
                              .n_files = 2,
                              .expires_at = T0 + 50};
    struct ck_job_row row = {0};
    struct ck_error refusal = {0};
    uint64_t token;

    create(store, 1, T0);
    FAILS(store->job_retry(store, "", id_of(1), T0, &row, &err), CK_E_JOB_NOT_RETRYABLE);
    token = claim(store, 1, T0);
    FAILS(store->job_retry(store, "", id_of(1), T0, &row, &err), CK_E_JOB_NOT_RETRYABLE);
    assert_true(end(store, 1, token, T0, &dead));
    OK(store->job_retry(store, "", id_of(1), T0 + 10, &row, &err));
    assert_int_equal(row.state, CK_STATE_QUEUED);
    assert_int_equal(row.attempt, 0);
    assert_int_equal(row.crash_count, 0);
    assert_int_equal(row.n_files, 0);
    assert_int_equal(row.finished_at, 0);
    assert_int_equal(row.expires_at, 0);
    assert_int_equal(row.created_at, T0);
    assert_null(row.error);
    assert_null(row.reason);
    ck_job_row_release(&row);
    assert_true(claim(store, 1, T0 + 10) > token);
    assert_true(end(store, 1, token + 1, T0 + 11, &dead));
    OK(ck_store_sqlite_drop_blob(store, digest_of(1), &err));
    assert_int_equal(store->job_retry(store, "", id_of(1), T0 + 12, &row, &refusal), CK_E_INPUT_NOT_FOUND);
    assert_non_null(strstr(refusal.message, digest_of(1)));
    assert_state(store, 1, CK_STATE_DEAD, "worker_crashed");
    ck_store_sqlite_close(store);
}

static void only_a_finished_job_can_be_deleted(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end how = success(0);
    struct ck_job_row row = {0};
    uint64_t token;

    create(store, 1, T0);
    FAILS(store->job_delete(store, "", id_of(1), &err), CK_E_JOB_NOT_FINISHED);
    token = claim(store, 1, T0);
    FAILS(store->job_delete(store, "", id_of(1), &err), CK_E_JOB_NOT_FINISHED);
    assert_true(end(store, 1, token, T0, &how));
    OK(store->job_delete(store, "", id_of(1), &err));
    FAILS(store->job_get(store, "", id_of(1), &row, &err), CK_E_JOB_NOT_FOUND);
    FAILS(store->job_delete(store, "", id_of(1), &err), CK_E_JOB_NOT_FOUND);
    create(store, 1, T0); /* its references are gone, too, so the id is free */
    ck_store_sqlite_close(store);
}

static void the_newest_result_that_is_there_answers_from_cache(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_end how = success(T0 + 10), later = success(T0 + 100);
    struct ck_job_source source;
    struct ck_job_row row;

    for (unsigned n = 1; n <= 3; n++) {
        row = new_row(n, 1, T0 + n, &source);
        snprintf(row.cache_key, sizeof(row.cache_key), "%s", digest_of(500));
        OK(store->job_create(store, &row, &err));
    }
    row = (struct ck_job_row){0};
    FAILS(store->job_cached(store, "", digest_of(500), &row, &err), CK_E_JOB_NOT_FOUND);
    assert_true(end(store, 1, claim(store, 1, T0 + 9), T0 + 5, &later));
    assert_true(end(store, 2, claim(store, 2, T0 + 9), T0 + 6, &how));
    OK(store->job_cached(store, "", digest_of(500), &row, &err));
    assert_string_equal(row.id, id_of(2));
    assert_int_equal(row.n_files, 2);
    ck_job_row_release(&row);
    FAILS(store->job_cached(store, "b", digest_of(500), &row, &err), CK_E_JOB_NOT_FOUND);
    ck_store_sqlite_close(store);
}

/* ---- small things ---- */

static void names_of_states_are_read_back(_unused_ void **state) {
    enum ck_job_state back = CK_STATE_END_;

    for (int i = 0; i < CK_STATE_END_; i++) {
        assert_true(ck_job_state_parse(ck_job_state_name((enum ck_job_state)i), &back));
        assert_int_equal(back, i);
    }
    assert_false(ck_job_state_parse("Queued", &back));
    assert_false(ck_job_state_finished(CK_STATE_RUNNING));
    assert_true(ck_job_state_finished(CK_STATE_EXPIRED));
}

static int seen_calls;

static void see(void *ctx, const char *op, double seconds, int code) {
    seen_calls++;
    assert_string_equal(op, "job_get");
    assert_true(seconds >= 0 && seconds < 60);
    *(int *)ctx = code;
}

static void every_call_is_seen_with_its_outcome(_unused_ void **state) {
    struct ck_store *store = store_with_blob();
    struct ck_job_row row = {0};
    int code = 1;

    create(store, 1, T0);
    ck_store_sqlite_observe(store, see, &code);
    OK(store->job_get(store, "", id_of(1), &row, &err));
    assert_int_equal(code, 0);
    ck_job_row_release(&row);
    FAILS(store->job_get(store, "", "x' OR 1=1 --", &row, &err), CK_E_JOB_NOT_FOUND);
    assert_int_equal(code, CK_E_JOB_NOT_FOUND);
    assert_int_equal(seen_calls, 2);
    OK(ck_store_sqlite_check(store, &err));
    ck_store_sqlite_close(store);
    ck_store_sqlite_close(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_job_reads_back_as_it_was_made),
        TEST(a_job_outlives_the_process),
        TEST(a_job_over_an_unknown_blob_is_refused_and_leaves_no_row),
        TEST(a_cached_job_is_born_finished),
        TEST(a_row_that_makes_no_sense_is_refused),
        TEST(jobs_of_another_tenant_are_not_there),
        TEST(a_queued_job_is_cancelled_at_once_and_a_running_one_is_asked),
        TEST(a_retried_job_starts_anew_if_its_input_is_there),
        TEST(only_a_finished_job_can_be_deleted),
        TEST(the_newest_result_that_is_there_answers_from_cache),
        TEST(names_of_states_are_read_back),
        TEST(every_call_is_seen_with_its_outcome),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
