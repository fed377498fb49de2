/* server/janitor against a small model of the store and of the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/disk/janitor.h"
#include "server/log.h"

#define BLOBS_MAX  200
#define JOBS_MAX   200
#define INPUT_TTL  1000000
#define RECORD_TTL 5000000

struct blob {
    char digest[CK_DIGEST_SIZE];
    bool row, file;
    uint64_t bytes;
    int64_t used;
};

struct job {
    char id[CK_JOB_ID_SIZE];
    bool row, files;
    enum ck_job_state state;
    uint64_t bytes;
    int64_t expires, finished;
    struct blob *input;
};

static struct model {
    struct ck_store store;
    struct ck_blobs blobs;
    struct blob blob[BLOBS_MAX];
    struct job job[JOBS_MAX];
    size_t n_blobs, n_jobs;
    bool in_store;      /* a function of the store is running */
    unsigned most_seen; /* largest step that was asked for */
    int failure;        /* what the next forget_blobs returns */
} model;

/* ---- the model of the store ---- */

static bool unfinished_job_needs(const struct blob *blob) {
    for (size_t i = 0; i < model.n_jobs; i++)
        if (model.job[i].row && model.job[i].input == blob && !ck_job_state_finished(model.job[i].state))
            return true;
    return false;
}

/* Removes what is due, in order of `age`, as the port says. */
#define SWEEP(type, items, n_items, due, age, act, name)                                                               \
    model.in_store = true;                                                                                             \
    model.most_seen = CK_MAX(model.most_seen, most);                                                                   \
    for (unsigned done = 0; done < most; done++) {                                                                     \
        struct type *oldest = NULL;                                                                                    \
        for (size_t i = 0; i < (n_items); i++) {                                                                       \
            struct type *it = &(items)[i];                                                                             \
            if ((due) && (!oldest || it->age < oldest->age))                                                           \
                oldest = it;                                                                                           \
        }                                                                                                              \
        if (!oldest)                                                                                                   \
            break;                                                                                                     \
        oldest->act;                                                                                                   \
        gone(ctx, oldest->name);                                                                                       \
    }                                                                                                                  \
    model.in_store = false;                                                                                            \
    return 0

static int expire_results(_unused_ struct ck_store *store, int64_t now, unsigned most,
                          void (*gone)(void *ctx, const char *id), void *ctx, _unused_ struct ck_error *err) {
    SWEEP(job, model.job, model.n_jobs, it->row && it->state == CK_STATE_SUCCEEDED && it->expires <= now, expires,
          state = CK_STATE_EXPIRED, id);
}

static int expire_oldest(_unused_ struct ck_store *store, unsigned most, void (*gone)(void *ctx, const char *id),
                         void *ctx, _unused_ struct ck_error *err) {
    SWEEP(job, model.job, model.n_jobs, it->row && it->state == CK_STATE_SUCCEEDED, finished, state = CK_STATE_EXPIRED,
          id);
}

static int forget_jobs(_unused_ struct ck_store *store, int64_t before, unsigned most,
                       void (*gone)(void *ctx, const char *id), void *ctx, _unused_ struct ck_error *err) {
    SWEEP(job, model.job, model.n_jobs, it->row && ck_job_state_finished(it->state) && it->finished < before, finished,
          row = false, id);
}

static int forget_blobs(_unused_ struct ck_store *store, int64_t before, unsigned most,
                        void (*gone)(void *ctx, const char *digest), void *ctx, struct ck_error *err) {
    if (model.failure)
        return ck_error_set(err, model.failure, NULL, "the store is ill");
    SWEEP(blob, model.blob, model.n_blobs, it->row && it->used < before && !unfinished_job_needs(it), used, row = false,
          digest);
}

/* ---- the model of the disk ---- */

static struct blob *blob_of(const char *digest) {
    return &model.blob[strtoul(digest, NULL, 16)];
}

static struct job *job_of(const char *id) {
    return &model.job[strtoul(id, NULL, 16)];
}

static void remove_blob(_unused_ struct ck_blobs *blobs, const char *digest) {
    assert_false(model.in_store);
    assert_false(blob_of(digest)->row);
    blob_of(digest)->file = false;
}

static void remove_results(_unused_ struct ck_blobs *blobs, const char *id) {
    assert_false(model.in_store);
    assert_true(!job_of(id)->row || job_of(id)->state == CK_STATE_EXPIRED);
    job_of(id)->files = false;
}

static int usage(_unused_ struct ck_blobs *blobs, uint64_t *ret_blob_bytes, uint64_t *ret_result_bytes,
                 _unused_ struct ck_error *err) {
    *ret_blob_bytes = *ret_result_bytes = 0;
    for (size_t i = 0; i < model.n_blobs; i++)
        *ret_blob_bytes += model.blob[i].file ? model.blob[i].bytes : 0;
    for (size_t i = 0; i < model.n_jobs; i++)
        *ret_result_bytes += model.job[i].files ? model.job[i].bytes : 0;
    return 0;
}

static uint64_t blob_bytes(_unused_ struct ck_blobs *blobs, const char *digest) {
    return blob_of(digest)->file ? blob_of(digest)->bytes : 0;
}

static uint64_t result_bytes(_unused_ struct ck_blobs *blobs, const char *id) {
    return job_of(id)->files ? job_of(id)->bytes : 0;
}

static struct blob *add_blob(uint64_t bytes, int64_t used) {
    struct blob *blob = &model.blob[model.n_blobs];

    *blob = (struct blob){.row = true, .file = true, .bytes = bytes, .used = used};
    snprintf(blob->digest, sizeof(blob->digest), "%064zx", model.n_blobs++);
    return blob;
}

static struct job *add_job(enum ck_job_state state, struct blob *input, uint64_t bytes, int64_t finished,
                           int64_t expires) {
    struct job *job = &model.job[model.n_jobs];

    *job = (struct job){.row = true,
                        .files = state == CK_STATE_SUCCEEDED,
                        .state = state,
                        .bytes = bytes,
                        .expires = expires,
                        .finished = finished,
                        .input = input};
    snprintf(job->id, sizeof(job->id), "%08zx-0000-7000-8000-000000000000", model.n_jobs++);
    return job;
}

static struct ck_janitor fresh(void) {
    model = (struct model){
        .store = {.expire_results = expire_results,
                  .expire_oldest = expire_oldest,
                  .forget_jobs = forget_jobs,
                  .forget_blobs = forget_blobs},
        .blobs = {.remove = remove_blob, .remove_results = remove_results},
    };
    return (struct ck_janitor){.store = &model.store,
                               .blobs = &model.blobs,
                               .input_ttl = INPUT_TTL,
                               .record_ttl = RECORD_TTL,
                               .usage = usage,
                               .blob_bytes = blob_bytes,
                               .result_bytes = result_bytes};
}

static struct ck_janitor_result run(const struct ck_janitor *janitor, int64_t now) {
    struct ck_janitor_result result;
    struct ck_error err = {0};

    if (ck_janitor_run(janitor, now, &result, &err) < 0)
        fail_msg("%s", err.message);
    return result;
}

/* ---- what it promises ---- */

static void each_thing_goes_when_its_time_is_over_and_not_before(_unused_ void **state) {
    struct ck_janitor janitor = fresh();
    int64_t now = 10000000;
    struct blob *old = add_blob(10, now - INPUT_TTL - 1), *young = add_blob(20, now - INPUT_TTL);
    struct job *over = add_job(CK_STATE_SUCCEEDED, young, 30, now - 100, now);
    struct job *fine = add_job(CK_STATE_SUCCEEDED, young, 40, now - 100, now + 1);
    struct job *ancient = add_job(CK_STATE_FAILED, old, 0, now - RECORD_TTL - 1, 0);
    struct job *recent = add_job(CK_STATE_FAILED, old, 0, now - RECORD_TTL, 0);
    struct ck_janitor_result result = run(&janitor, now);

    assert_false(old->row || old->file);
    assert_true(young->row && young->file);
    assert_true(over->row && over->state == CK_STATE_EXPIRED && !over->files);
    assert_true(fine->state == CK_STATE_SUCCEEDED && fine->files);
    assert_false(ancient->row);
    assert_true(recent->row);
    assert_int_equal(result.blobs.count, 1);
    assert_int_equal(result.blobs.bytes, 10);
    assert_int_equal(result.results.count, 1);
    assert_int_equal(result.results.bytes, 30);
    assert_int_equal(result.records.count, 1);
    assert_int_equal(result.blob_bytes, 20);
    assert_int_equal(result.result_bytes, 40);
    assert_false(result.too_full);
    result = run(&janitor, now);
    assert_int_equal(result.blobs.count + result.results.count + result.records.count, 0);
}

static void a_record_takes_its_results_with_it(_unused_ void **state) {
    struct ck_janitor janitor = fresh();
    int64_t now = 10000000;
    struct job *job = add_job(CK_STATE_SUCCEEDED, NULL, 7, now - RECORD_TTL - 1, now + 1000000);
    struct ck_janitor_result result = run(&janitor, now);

    assert_false(job->row || job->files);
    assert_int_equal(result.records.bytes, 7);
    assert_int_equal(result.results.count, 0);
}

static void an_input_of_an_unfinished_job_stays_however_old(_unused_ void **state) {
    struct ck_janitor janitor = fresh();
    struct blob *queued = add_blob(100, 1), *running = add_blob(100, 1), *ended = add_blob(100, 1);
    struct ck_janitor_result result;

    add_job(CK_STATE_QUEUED, queued, 0, 0, 0);
    add_job(CK_STATE_RUNNING, running, 0, 0, 0);
    add_job(CK_STATE_CANCELLED, ended, 0, 10000000, 0);
    janitor.max_data = 1;
    result = run(&janitor, 10000000);
    assert_true(queued->file && running->file);
    assert_false(ended->file);
    assert_true(result.too_full);
    assert_int_equal(result.blob_bytes, 200);
}

static void many_overdue_things_go_in_small_steps(_unused_ void **state) {
    struct ck_janitor janitor = fresh();
    struct ck_janitor_result result;

    for (int i = 0; i < BLOBS_MAX; i++)
        add_blob(1, i);
    result = run(&janitor, 10000000);
    assert_int_equal(result.blobs.count, BLOBS_MAX);
    assert_int_equal(result.blob_bytes, 0);
    assert_true(model.most_seen <= 64);
}

static void room_is_made_of_the_longest_unused_inputs_then_of_the_oldest_results_and_no_more(_unused_ void **state) {
    struct ck_janitor janitor = fresh();
    int64_t now = 10000000;
    struct blob *second = add_blob(100, now - 80000), *first = add_blob(100, now - 90000);
    struct job *newer = add_job(CK_STATE_SUCCEEDED, NULL, 100, now - 10, now + 1000);
    struct job *older = add_job(CK_STATE_SUCCEEDED, NULL, 100, now - 20, now + 1000);
    struct ck_janitor_result result;

    janitor.max_data = 400;
    assert_int_equal(run(&janitor, now).blobs.count, 0);
    janitor.max_data = 399;
    result = run(&janitor, now);
    assert_true(!first->file && second->file && older->files && newer->files);
    assert_int_equal(result.blobs.bytes, 100);
    assert_false(result.too_full);
    janitor.max_data = 100;
    result = run(&janitor, now);
    assert_true(!second->file && !older->files && newer->files);
    assert_int_equal(older->state, CK_STATE_EXPIRED);
    assert_true(older->row);
    assert_int_equal(result.blob_bytes + result.result_bytes, 100);
}

/* POST /v1/blobs, then POST /v1/jobs: between the two no job refers to the blob. */
static void a_blob_that_was_used_just_now_is_not_taken_to_make_room(_unused_ void **state) {
    struct ck_janitor janitor = fresh();
    int64_t now = 10000000;
    struct blob *just_now = add_blob(100, now - CK_JANITOR_GRACE_MS),
                *before = add_blob(100, now - CK_JANITOR_GRACE_MS - 1);

    janitor.max_data = 1;
    assert_true(run(&janitor, now).too_full);
    assert_true(just_now->file);
    assert_false(before->file);
}

static void an_ill_store_ends_the_pass_and_takes_no_file(_unused_ void **state) {
    struct ck_janitor janitor = fresh();
    int64_t now = 10000000;
    struct blob *old = add_blob(10, 1);
    struct job *over = add_job(CK_STATE_SUCCEEDED, NULL, 5, now - 1, now);
    struct ck_janitor_result result;
    struct ck_error err = {0};

    model.failure = CK_E_STORE_UNAVAILABLE;
    assert_int_equal(ck_janitor_run(&janitor, now, &result, &err), CK_E_STORE_UNAVAILABLE);
    assert_int_equal(result.results.count, 1);
    assert_false(over->files);
    assert_true(old->row && old->file);
}

static void a_pass_that_is_to_stop_ends_after_its_step(_unused_ void **state) {
    struct ck_janitor janitor = fresh();
    atomic_bool stop = true;

    for (int i = 0; i < BLOBS_MAX; i++)
        add_blob(1, i);
    janitor.stop = &stop;
    assert_int_equal(run(&janitor, 10000000).blobs.count, 64);
}

/* ---- anything at all ---- */

static uint64_t seed = 1;

static int64_t below(int64_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static void fill(int64_t now) {
    int64_t blobs = 1 + below(40), jobs = below(60);

    for (int64_t i = 0; i < blobs; i++)
        add_blob((uint64_t)below(1000), now - below(2 * INPUT_TTL));
    for (int64_t i = 0; i < jobs; i++)
        add_job((enum ck_job_state)below(CK_STATE_END_), &model.blob[below(blobs)], (uint64_t)below(1000),
                now - below(2 * RECORD_TTL), now - below(2000) + 1000);
}

static bool may_be_evicted(int64_t now) {
    for (size_t i = 0; i < model.n_blobs; i++)
        if (model.blob[i].row && model.blob[i].used < now - CK_JANITOR_GRACE_MS &&
            !unfinished_job_needs(&model.blob[i]))
            return true;
    for (size_t i = 0; i < model.n_jobs; i++)
        if (model.job[i].row && model.job[i].state == CK_STATE_SUCCEEDED)
            return true;
    return false;
}

static void assert_rows_and_files_agree(int64_t now) {
    for (size_t i = 0; i < model.n_blobs; i++) {
        const struct blob *blob = &model.blob[i];

        assert_int_equal(blob->row, blob->file);
        assert_true(blob->file || !unfinished_job_needs(blob));
        assert_true(!blob->row || blob->used >= now - INPUT_TTL || unfinished_job_needs(blob));
    }
    for (size_t i = 0; i < model.n_jobs; i++) {
        const struct job *job = &model.job[i];

        assert_int_equal(job->row && job->state == CK_STATE_SUCCEEDED, job->files);
        assert_true(job->row || ck_job_state_finished(job->state));
        assert_true(!job->files || job->expires > now);
    }
}

static void whatever_there_is_nothing_needed_goes_and_nothing_overdue_stays(_unused_ void **state) {
    for (int round = 0; round < 500; round++) {
        struct ck_janitor janitor = fresh();
        int64_t now = 100000000 + below(1000);
        struct ck_janitor_result result;

        fill(now);
        janitor.max_data = below(2) ? (uint64_t)below(20000) + 1 : 0;
        result = run(&janitor, now);
        assert_rows_and_files_agree(now);
        assert_int_equal(result.too_full,
                         janitor.max_data > 0 && result.blob_bytes + result.result_bytes > janitor.max_data);
        assert_false(result.too_full && may_be_evicted(now));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thing_goes_when_its_time_is_over_and_not_before),
        cmocka_unit_test(a_record_takes_its_results_with_it),
        cmocka_unit_test(an_input_of_an_unfinished_job_stays_however_old),
        cmocka_unit_test(many_overdue_things_go_in_small_steps),
        cmocka_unit_test(room_is_made_of_the_longest_unused_inputs_then_of_the_oldest_results_and_no_more),
        cmocka_unit_test(a_blob_that_was_used_just_now_is_not_taken_to_make_room),
        cmocka_unit_test(an_ill_store_ends_the_pass_and_takes_no_file),
        cmocka_unit_test(a_pass_that_is_to_stop_ends_after_its_step),
        cmocka_unit_test(whatever_there_is_nothing_needed_goes_and_nothing_overdue_stays),
    };

    ck_log_set_level(CK_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
