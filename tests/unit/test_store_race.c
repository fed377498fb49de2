/* The job store among threads and processes, and a process that is killed while it writes. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/store.h"

#define QUEUE 400

static struct ck_store *filled(void) {
    struct ck_store *store = open_store(false, "boot");

    put_blob(store, 1, true, T0);
    for (unsigned n = 0; n < QUEUE; n++)
        create(store, n, T0);
    return store;
}

/* ---- claims ---- */

struct claimer {
    struct ck_store *store;
    unsigned claims[QUEUE]; /* by job */
    int failed;
};

/* Takes jobs until there is none, and ends every other one. */
static void *claim_all(void *arg) {
    struct claimer *claimer = arg;
    struct ck_store *store = claimer->store;
    struct ck_job_end how = {.state = CK_STATE_SUCCEEDED};
    struct ck_error err = {0};
    bool claimed = true, stale = false;

    while (claimed) {
        struct ck_job_row row = {0};
        unsigned n;

        if (store->job_claim(store, "w", T0, LEASE, &claimed, &row, &err) < 0)
            claimer->failed = err.code;
        if (claimer->failed || !claimed)
            break;
        n = (unsigned)strtoul(row.id, NULL, 16);
        claimer->claims[n]++;
        if (n % 2 && (store->job_end(store, row.id, row.lease_token, T0, &how, &stale, NULL, &err) < 0 || stale))
            claimer->failed = stale ? -1 : err.code;
        ck_job_row_release(&row);
    }
    return NULL;
}

static void four_threads_claim_every_job_once(_unused_ void **state) {
    struct ck_store *store = filled();
    struct claimer claimers[4] = {0};
    struct ck_queue_counts counts;
    pthread_t threads[4];

    for (int i = 0; i < 4; i++) {
        claimers[i].store = store;
        pthread_create(&threads[i], NULL, claim_all, &claimers[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (unsigned n = 0; n < QUEUE; n++) {
        unsigned claims = 0;

        for (int i = 0; i < 4; i++) {
            assert_int_equal(claimers[i].failed, 0);
            claims += claimers[i].claims[n];
        }
        assert_int_equal(claims, 1);
    }
    OK(store->job_counts(store, &counts, &err));
    assert_int_equal(counts.queued, 0);
    assert_int_equal(counts.running, QUEUE / 2);
    ck_store_sqlite_close(store);
}

static pid_t fork_claimer(int to) {
    pid_t child = fork();

    if (child == 0) {
        struct claimer claimer = {.store = open_store(false, "boot")};

        claim_all(&claimer);
        ck_store_sqlite_close(claimer.store);
        if (claimer.failed || write(to, claimer.claims, sizeof(claimer.claims)) != sizeof(claimer.claims))
            _exit(1);
        _exit(0);
    }
    return child;
}

static void two_processes_claim_every_job_once(_unused_ void **state) {
    unsigned claims[2][QUEUE];
    pid_t children[2];
    int pipes[2][2], status;

    ck_store_sqlite_close(filled());
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        children[i] = fork_claimer(pipes[i][1]);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
        assert_int_equal(read(pipes[i][0], claims[i], sizeof(claims[i])), sizeof(claims[i]));
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    for (unsigned n = 0; n < QUEUE; n++)
        assert_int_equal(claims[0][n] + claims[1][n], 1);
}

/* ---- readers ---- */

struct reader {
    struct ck_store *store;
    bool *stop;
    unsigned pages;
    int failed;
};

static int check_row(void *ctx, const struct ck_job_row *row) {
    struct reader *reader = ctx;

    /* One snapshot: never a row without its input. */
    if (row->n_inputs != 1 || row->inputs[0].bytes != 101)
        reader->failed = 1;
    return 0;
}

static void *read_pages(void *arg) {
    struct reader *reader = arg;
    struct ck_job_filter filter = {.tenant = "", .limit = 50};
    struct ck_error err = {0};

    while (!__atomic_load_n(reader->stop, __ATOMIC_ACQUIRE)) {
        if (reader->store->job_list(reader->store, &filter, check_row, reader, &err) < 0)
            reader->failed = err.code;
        reader->pages++;
    }
    return NULL;
}

static void more_readers_than_connections_see_whole_jobs_while_one_writes(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct reader readers[6] = {0};
    pthread_t threads[6];
    bool stop = false;

    put_blob(store, 1, true, T0);
    for (int i = 0; i < 6; i++) {
        readers[i] = (struct reader){.store = store, .stop = &stop};
        pthread_create(&threads[i], NULL, read_pages, &readers[i]);
    }
    for (unsigned n = 0; n < 1000; n++) {
        struct ck_job_row row;

        create(store, n, T0);
        if (n % 3)
            continue;
        OK(store->job_cancel(store, "", id_of(n), T0, &row, &err));
        ck_job_row_release(&row);
        OK(store->job_delete(store, "", id_of(n), &err));
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].failed, 0);
        assert_true(readers[i].pages > 0);
    }
    ck_store_sqlite_close(store);
}

/* ---- kill -9 ---- */

/* Creates, claims and ends jobs from `first` on; tells the number of each job that was acknowledged. */
static void write_for_ever(unsigned first, int to) {
    struct ck_store *store = open_store(true, "boot");
    struct ck_job_file file = {"report.json", 1, 2};
    struct ck_job_end how = {.state = CK_STATE_SUCCEEDED, .files = &file, .n_files = 1, .outcome = "{}"};

    for (unsigned n = first;; n++) {
        uint64_t token;

        put_blob(store, n, true, T0);
        create(store, n, T0);
        if (write(to, &n, sizeof(n)) != sizeof(n))
            _exit(1);
        token = claim(store, n, T0);
        if (n % 4)
            end(store, n, token, T0, &how);
    }
}

static unsigned run_and_kill(unsigned first, int ms) {
    struct timespec pause = {0, ms * 1000000L};
    unsigned last = first, told;
    int pipes[2], status;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        close(pipes[0]);
        write_for_ever(first, pipes[1]);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &told, sizeof(told)), sizeof(told));
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    do
        last = told + 1;
    while (read(pipes[0], &told, sizeof(told)) == sizeof(told));
    close(pipes[0]);
    return last;
}

static void a_killed_writer_leaves_every_acknowledged_job_whole(_unused_ void **state) {
    unsigned next = 1;

    {
        struct ck_store *store = open_store(true, "boot");

        put_blob(store, 1, true, T0);
        ck_store_sqlite_close(store);
    }
    for (int round = 0; round < 12; round++) {
        unsigned first = next;
        struct ck_store_recovery recovery;
        struct ck_store *store;

        next = run_and_kill(first, 1 + round * 3);
        store = open_store(true, "boot"); /* checks the whole file */
        for (unsigned n = first; n < next; n++) {
            struct ck_job_row row = get(store, n);

            assert_int_equal(row.n_inputs, 1);
            assert_int_equal(row.n_files, row.state == CK_STATE_SUCCEEDED);
            ck_job_row_release(&row);
        }
        OK(ck_store_sqlite_recover(store, T0, &recovery, &err));
        assert_int_equal(recovery.dead + recovery.cancelled, 0);
        /* Those that run again would be claimed first by the next writer. */
        for (uint64_t left = 1; left > 0;) {
            struct ck_job_row row = {0};
            struct ck_job_end how = {.state = CK_STATE_FAILED, .error = "{}"};
            bool claimed, stale;

            OK(store->job_claim(store, "w", T0, LEASE, &claimed, &row, &err));
            left = claimed;
            if (claimed)
                OK(store->job_end(store, row.id, row.lease_token, T0, &how, &stale, NULL, &err));
            ck_job_row_release(&row);
        }
        /* One more may be there that was not acknowledged. */
        next++;
        ck_store_sqlite_close(store);
    }
    assert_true(next > 30);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(four_threads_claim_every_job_once),
        TEST(two_processes_claim_every_job_once),
        TEST(more_readers_than_connections_see_whole_jobs_while_one_writes),
        TEST(a_killed_writer_leaves_every_acknowledged_job_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
