/* The job store against a model of it in plain C: 20,000 random operations, every row compared. */
#include "tests/unit/store_model.h"

#define OPERATIONS 20000

/* ---- comparing ---- */

static void compare(unsigned n) {
    const struct job *job = &jobs[n];
    struct ck_job_row row = {0};

    if (!job->there) {
        FAILS(store->job_get(store, "", id_of(n), &row, &err), CK_E_JOB_NOT_FOUND);
        return;
    }
    row = get(store, n);
    assert_string_equal(ck_job_state_name(row.state), ck_job_state_name(job->state));
    assert_int_equal(row.version, job->version);
    assert_int_equal(row.lease_token, job->token);
    assert_int_equal(row.attempt, job->attempt);
    assert_int_equal(row.crash_count, job->crashes);
    assert_int_equal(row.created_at, job->created);
    assert_int_equal(row.started_at, job->started);
    assert_int_equal(row.finished_at, job->finished);
    assert_int_equal(row.expires_at, job->expires);
    assert_int_equal(row.cancel_requested_at, job->cancel);
    assert_int_equal(row.durable, job->durable);
    assert_int_equal(row.fresh, job->fresh);
    assert_int_equal(row.n_files, job->has_file);
    assert_int_equal(row.n_inputs, 1);
    assert_string_equal(row.inputs[0].digest, digest_of(job->blob));
    if (job->reason)
        assert_string_equal(row.reason, job->reason);
    else
        assert_null(row.reason);
    ck_job_row_release(&row);
}

static int count_row(void *ctx, _unused_ const struct ck_job_row *row) {
    ++*(unsigned *)ctx;
    return 0;
}

static void compare_all(void) {
    struct ck_queue_counts counts;
    struct ck_job_filter filter = {.tenant = "", .limit = 1000};
    unsigned there = 0, queued = 0, running = 0, listed = 0;
    uint64_t bytes;
    bool durable;

    for (unsigned n = 0; n < JOBS; n++) {
        compare(n);
        there += jobs[n].there;
        queued += jobs[n].there && jobs[n].state == CK_STATE_QUEUED;
        running += jobs[n].there && jobs[n].state == CK_STATE_RUNNING;
    }
    OK(store->job_list(store, &filter, count_row, &listed, &err));
    OK(store->job_counts(store, &counts, &err));
    assert_int_equal(listed, there);
    assert_int_equal(counts.queued, queued);
    assert_int_equal(counts.running, running);
    for (unsigned b = 0; b < BLOBS; b++) {
        if (!blobs[b].there) {
            FAILS(store->blob_get(store, "", digest_of(b), &bytes, &durable, &err), CK_E_BLOB_NOT_FOUND);
            continue;
        }
        OK(store->blob_get(store, "", digest_of(b), &bytes, &durable, &err));
        assert_int_equal(durable, blobs[b].durable);
    }
}

/* ---- operations ---- */

static void do_create(void) {
    unsigned n = any(JOBS), b = any(BLOBS);
    struct ck_job_source source;
    struct ck_job_row row = new_row(n, b, now, &source);

    if (jobs[n].there)
        return;
    row.max_attempts = MAX_TRIES;
    row.fresh = any(2);
    row.durable = any(2);
    if (any(8) == 0) {
        row.state = CK_STATE_SUCCEEDED;
        row.started_at = row.finished_at = now;
        row.expires_at = now + any(500);
        row.reason = "cached";
    }
    if (!blobs[b].there) {
        FAILS(store->job_create(store, &row, &err), CK_E_INPUT_NOT_FOUND);
        return;
    }
    OK(store->job_create(store, &row, &err));
    jobs[n] = (struct job){.there = true,
                           .durable = row.durable,
                           .fresh = row.fresh,
                           .state = row.state,
                           .version = 1,
                           .blob = b,
                           .run_at = now,
                           .created = now,
                           .started = row.started_at,
                           .finished = row.finished_at,
                           .expires = row.expires_at,
                           .reason = row.reason};
    use(b);
    compare(n);
}

static void do_cancel(void) {
    unsigned n = any(JOBS);
    struct job *job = &jobs[n];
    struct ck_job_row row = {0};

    if (!job->there) {
        FAILS(store->job_cancel(store, "", id_of(n), now, &row, &err), CK_E_JOB_NOT_FOUND);
        return;
    }
    if (!unfinished(job) && job->state != CK_STATE_CANCELLED) {
        FAILS(store->job_cancel(store, "", id_of(n), now, &row, &err), CK_E_JOB_FINISHED);
        return;
    }
    OK(store->job_cancel(store, "", id_of(n), now, &row, &err));
    ck_job_row_release(&row);
    if (job->state == CK_STATE_QUEUED) {
        finish_as(job, CK_STATE_CANCELLED, "cancelled", 0);
        job->cancel = now;
    } else if (job->state == CK_STATE_RUNNING && !job->cancel) {
        job->cancel = now;
        job->version++;
    }
    compare(n);
}

static void do_retry(void) {
    unsigned n = any(JOBS);
    struct job *job = &jobs[n];
    struct ck_job_row row = {0};

    if (!job->there) {
        FAILS(store->job_retry(store, "", id_of(n), now, &row, &err), CK_E_JOB_NOT_FOUND);
        return;
    }
    if (unfinished(job) || job->state == CK_STATE_SUCCEEDED) {
        FAILS(store->job_retry(store, "", id_of(n), now, &row, &err), CK_E_JOB_NOT_RETRYABLE);
        return;
    }
    if (!blobs[job->blob].there) {
        FAILS(store->job_retry(store, "", id_of(n), now, &row, &err), CK_E_INPUT_NOT_FOUND);
        return;
    }
    OK(store->job_retry(store, "", id_of(n), now, &row, &err));
    ck_job_row_release(&row);
    start_anew(job, NULL, now);
    use(job->blob);
    compare(n);
}

static void do_delete(void) {
    unsigned n = any(JOBS);

    if (!jobs[n].there) {
        FAILS(store->job_delete(store, "", id_of(n), &err), CK_E_JOB_NOT_FOUND);
    } else if (unfinished(&jobs[n])) {
        FAILS(store->job_delete(store, "", id_of(n), &err), CK_E_JOB_NOT_FINISHED);
    } else {
        OK(store->job_delete(store, "", id_of(n), &err));
        jobs[n].there = false;
    }
    compare(n);
}

static void do_claim(void) {
    int n = first_due();
    struct ck_job_row row = {0};
    bool claimed;

    OK(store->job_claim(store, "w", now, 300, &claimed, &row, &err));
    assert_int_equal(claimed, n >= 0);
    if (n < 0)
        return;
    assert_string_equal(row.id, id_of((unsigned)n));
    ck_job_row_release(&row);
    jobs[n].state = CK_STATE_RUNNING;
    jobs[n].reason = NULL;
    jobs[n].attempt++;
    jobs[n].token++;
    jobs[n].version++;
    jobs[n].started = now;
    jobs[n].lease = now + 300;
    compare((unsigned)n);
}

/* The right token, or one that was. */
static uint64_t some_token(const struct job *job, bool *ret_right) {
    bool old = any(4) == 0 && job->token > 0;

    *ret_right = !old && job->there && job->state == CK_STATE_RUNNING;
    return old ? job->token - 1 : job->token;
}

static void do_renew(void) {
    unsigned n = any(JOBS);
    bool right, lost, cancel;
    uint64_t token = some_token(&jobs[n], &right);

    OK(store->job_renew(store, id_of(n), token, now, 300, &lost, &cancel, &err));
    assert_int_equal(lost, !right);
    if (right) {
        assert_int_equal(cancel, jobs[n].cancel != 0);
        jobs[n].lease = now + 300;
    }
    compare(n);
}

static void do_end(void) {
    static const enum ck_job_state states[] = {CK_STATE_SUCCEEDED, CK_STATE_SUCCEEDED, CK_STATE_FAILED,
                                               CK_STATE_CANCELLED, CK_STATE_DEAD,      CK_STATE_QUEUED,
                                               CK_STATE_QUEUED};
    static const struct ck_job_file file = {"report.json", 1, 2};
    unsigned n = any(JOBS);
    struct job *job = &jobs[n];
    struct ck_job_end how = {.state = states[any(CK_ARRAY_LEN(states))],
                             .reason = any(2) ? "why" : NULL,
                             .files = &file,
                             .n_files = any(2),
                             .durable = any(2),
                             .crashed = any(2),
                             .forgive = any(2),
                             .run_at = now + any(100),
                             .expires_at = any(2) ? now + any(500) : 0};
    bool right, stale;
    uint64_t token = some_token(job, &right);

    OK(store->job_end(store, id_of(n), token, now, &how, &stale, NULL, &err));
    assert_int_equal(stale, !right);
    if (right && how.state == CK_STATE_QUEUED) {
        hand_back(job, how.reason, how.run_at, how.crashed, how.forgive, how.expires_at);
    } else if (right) {
        finish_as(job, how.state, how.reason, how.expires_at);
        job->durable = how.durable;
        job->has_file = how.n_files;
        job->crashes += how.crashed;
        use(job->blob);
    }
    compare(n);
}

static void do_reap(void) {
    uint64_t reaped, want = 0;

    for (unsigned n = 0; n < JOBS; n++)
        if (jobs[n].there && jobs[n].state == CK_STATE_RUNNING && jobs[n].lease < now) {
            hand_back(&jobs[n], "lease_expired", now, false, false, 0);
            want++;
        }
    OK(store->jobs_reap(store, now, &reaped, &err));
    assert_int_equal(reaped, want);
}

static void do_recover(void) {
    struct ck_store_recovery recovery;
    uint64_t want = 0;

    for (unsigned n = 0; n < JOBS; n++) {
        if (!jobs[n].there)
            continue;
        if (jobs[n].state == CK_STATE_RUNNING) {
            hand_back(&jobs[n], "recovered", -1, false, false, 0);
            want++;
        }
        if (jobs[n].state == CK_STATE_QUEUED)
            jobs[n].run_at = CK_MIN(jobs[n].run_at, now);
    }
    OK(ck_store_sqlite_recover(store, now, &recovery, &err));
    assert_int_equal(recovery.requeued + recovery.dead + recovery.cancelled, want);
    assert_int_equal(recovery.rerun + recovery.lost, 0);
}

/* ---- retention: what may go is the model's word; which of them go first is not compared ---- */

static unsigned gone_n;
static int64_t bound;

static void job_expired(_unused_ void *ctx, const char *id) {
    struct job *job = &jobs[strtoul(id, NULL, 16)];

    assert_true(job->there && job->state == CK_STATE_SUCCEEDED);
    if (bound)
        assert_true(job->expires && job->expires <= bound);
    job->state = CK_STATE_EXPIRED;
    job->reason = "expired";
    job->has_file = false;
    job->version++;
    gone_n++;
}

static void job_forgotten(_unused_ void *ctx, const char *id) {
    struct job *job = &jobs[strtoul(id, NULL, 16)];

    assert_true(job->there && !unfinished(job) && job->finished < bound);
    job->there = false;
    gone_n++;
}

static void blob_forgotten(_unused_ void *ctx, const char *digest) {
    unsigned b = (unsigned)strtoul(digest + 56, NULL, 16);

    assert_true(blobs[b].there && blobs[b].used < bound && !in_use(b));
    blobs[b].there = false;
    gone_n++;
}

static void do_retention(void) {
    unsigned most = 1 + any(4), may = 0, what = any(4);

    gone_n = 0;
    bound = what == 0 ? now : what == 1 ? 0 : now - 400;
    for (unsigned n = 0; n < JOBS; n++) {
        const struct job *job = &jobs[n];

        may += what == 0 && job->there && job->state == CK_STATE_SUCCEEDED && job->expires && job->expires <= bound;
        may += what == 1 && job->there && job->state == CK_STATE_SUCCEEDED;
        may += what == 2 && job->there && !unfinished(job) && job->finished < bound;
    }
    for (unsigned b = 0; b < BLOBS; b++)
        may += what == 3 && blobs[b].there && blobs[b].used < bound && !in_use(b);
    if (what == 0)
        OK(store->expire_results(store, bound, most, job_expired, NULL, &err));
    else if (what == 1)
        OK(store->expire_oldest(store, most, job_expired, NULL, &err));
    else if (what == 2)
        OK(store->forget_jobs(store, bound, most, job_forgotten, NULL, &err));
    else
        OK(store->forget_blobs(store, bound, most, blob_forgotten, NULL, &err));
    assert_int_equal(gone_n, CK_MIN(most, may));
}

static void do_blob(void) {
    unsigned b = any(BLOBS);
    bool is_new, durable = any(2);

    switch (any(4)) {
    case 0:
    case 1:
        OK(store->blob_put(store, "", digest_of(b), 100, durable, now, &is_new, &err));
        assert_int_equal(is_new, !blobs[b].there);
        blobs[b] = (struct blob){true, durable || (blobs[b].there && blobs[b].durable), now};
        break;
    case 2:
        if (blobs[b].there)
            OK(store->blob_touch(store, "", digest_of(b), now, &err));
        else
            FAILS(store->blob_touch(store, "", digest_of(b), now, &err), CK_E_BLOB_NOT_FOUND);
        use(b);
        break;
    case 3:
        if (in_use(b)) {
            FAILS(store->blob_delete(store, "", digest_of(b), &err), CK_E_BLOB_IN_USE);
        } else if (!blobs[b].there) {
            FAILS(store->blob_delete(store, "", digest_of(b), &err), CK_E_BLOB_NOT_FOUND);
        } else {
            OK(store->blob_delete(store, "", digest_of(b), &err));
            blobs[b].there = false;
        }
        break;
    }
}

static void reopen(void) {
    ck_store_sqlite_close(store);
    store = open_store(false, "boot");
}

static void twenty_thousand_random_operations_end_like_the_model(_unused_ void **state) {
    const char *given = getenv("CKPTD_TEST_SEED");

    seed = given ? strtoull(given, NULL, 10) : 1;
    now = T0;
    store = open_store(false, "boot");
    for (unsigned i = 0; i < OPERATIONS; i++) {
        unsigned what = any(100);

        now += any(20);
        if (what < 20)
            do_create();
        else if (what < 40)
            do_claim();
        else if (what < 62)
            do_end();
        else if (what < 70)
            do_renew();
        else if (what < 76)
            do_cancel();
        else if (what < 82)
            do_retry();
        else if (what < 85)
            do_delete();
        else if (what < 93)
            do_blob();
        else if (what < 96)
            do_retention();
        else if (what < 99)
            do_reap();
        else
            do_recover();
        if (i % 100 == 0)
            compare_all();
        if (i % 4000 == 3999)
            reopen();
    }
    compare_all();
    ck_store_sqlite_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(twenty_thousand_random_operations_end_like_the_model, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
