/* The job store in trouble: a full disk, a lock, files that cannot be used. The error says what is wrong, and all works
 * again afterwards. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/store.h"

static double seconds(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- a full disk ---- */

/* Makes jobs until one is refused; returns the number of the refused one. */
static unsigned create_until_full(struct ck_store *store, unsigned first) {
    for (unsigned n = first; n < first + 20000; n++) {
        struct ck_job_source source;
        struct ck_job_row row = new_row(n, 1, T0, &source);
        struct ck_error err = {0};
        int r = store->job_create(store, &row, &err);

        if (r == 0)
            continue;
        if (r != CK_E_STORAGE_FULL)
            fail_msg("%s", err.message);
        assert_non_null(strstr(err.message, "the job store cannot make a job: "));
        return n;
    }
    fail_msg("the disk is never full");
    return 0;
}

static int count_row(void *ctx, _unused_ const struct ck_job_row *row) {
    ++*(unsigned *)ctx;
    return 0;
}

static unsigned count_jobs(struct ck_store *store) {
    struct ck_job_filter filter = {.tenant = "", .limit = 100000};
    unsigned n = 0;

    OK(store->job_list(store, &filter, count_row, &n, &err));
    return n;
}

static void a_file_at_its_limit_refuses_and_recovers(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct ck_job_row row;
    unsigned refused;

    put_blob(store, 1, true, T0);
    OK(ck_conn_exec(&ck_sqlite(store)->writer, "PRAGMA max_page_count = 60", &err));
    refused = create_until_full(store, 1);
    assert_true(refused > 10);
    assert_int_equal(count_jobs(store), refused - 1);
    OK(ck_store_sqlite_check(store, &err));
    OK(ck_conn_exec(&ck_sqlite(store)->writer, "PRAGMA max_page_count = 6000", &err));
    create(store, refused, T0);
    OK(store->job_cancel(store, "", id_of(1), T0, &row, &err));
    ck_job_row_release(&row);
    assert_int_equal(count_jobs(store), refused);
    ck_store_sqlite_close(store);
}

static void fill_up(const char *name) {
    static const char zeros[4096];
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) == sizeof(zeros))
        ;
    close(fd);
}

static struct ck_store *store_on_a_small_disk(void) {
    struct ck_store *store;

    if (mount("ckptd-test", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=12m") < 0)
        skip(); /* needs root */
    store = open_store(true, "boot");
    put_blob(store, 1, true, T0);
    create(store, 1, T0);
    return store;
}

static void a_full_disk_refuses_and_recovers_when_space_is_freed(_unused_ void **state) {
    struct ck_store *store = store_on_a_small_disk();
    char filler[128];
    unsigned refused, again;

    snprintf(filler, sizeof(filler), "%s/filler", folder);
    fill_up(filler);
    refused = create_until_full(store, 2);
    assert_int_equal(create_until_full(store, refused), refused);
    assert_int_equal(count_jobs(store), refused - 1);
    assert_int_equal(unlink(filler), 0);
    create(store, refused, T0);
    /* Until the log and the file have really used all of it. */
    again = create_until_full(store, refused + 1);
    assert_true(again > refused + 1000);
    assert_int_equal(count_jobs(store), again - 1);
    ck_store_sqlite_close(store);
    /* Closed and opened on a full disk: all that was acknowledged is there. */
    store = open_store(true, "boot");
    assert_int_equal(count_jobs(store), again - 1);
    ck_store_sqlite_close(store);
    assert_int_equal(umount(folder), 0);
}

/* ---- a lock ---- */

static sqlite3 *hold_lock(void) {
    sqlite3 *other;

    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return other;
}

static void *create_one(void *arg) {
    struct ck_store *store = arg;
    struct ck_job_source source;
    struct ck_job_row row = new_row(99, 1, T0, &source);

    return (void *)(intptr_t)store->job_create(store, &row, NULL);
}

static void a_foreign_lock_is_waited_for_and_no_longer_than_said(_unused_ void **state) {
    struct ck_store *store = open_store(false, "boot");
    struct ck_job_source source;
    struct ck_job_row row = new_row(2, 1, T0, &source);
    struct ck_error refusal = {0};
    pthread_t threads[8];
    sqlite3 *other;
    double begin;
    void *code;

    put_blob(store, 1, true, T0);
    create(store, 1, T0);
    ck_store_sqlite_busy_timeout(store, 300);
    other = hold_lock();
    begin = seconds();
    assert_int_equal(store->job_create(store, &row, &refusal), CK_E_STORE_UNAVAILABLE);
    assert_true(seconds() - begin >= 0.25);
    assert_string_equal(refusal.message, "the job store cannot make a job: database is locked");
    /* Readers do not care. */
    assert_state(store, 1, CK_STATE_QUEUED, NULL);
    OK(ck_store_sqlite_check(store, &err));
    /* Eight that wait do not wait for each other. */
    begin = seconds();
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, create_one, store);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &code);
        assert_int_equal((intptr_t)code, CK_E_STORE_UNAVAILABLE);
    }
    assert_true(seconds() - begin < 2.0);
    assert_int_equal(sqlite3_close_v2(other), SQLITE_OK);
    OK(store->job_create(store, &row, &err));
    claim(store, 1, T0);
    ck_store_sqlite_close(store);
}

/* ---- files that cannot be used ---- */

static void assert_refused(int want, const char *part, const char *hint) {
    struct ck_error err = {0};
    struct ck_store *store = NULL;
    int r = ck_store_sqlite_open(path, true, "boot", &store, &err);

    assert_null(store);
    if (r != want || !strstr(err.message, part) || !strstr(err.message, path) || !strstr(err.hint, hint))
        fail_msg("%d: %s (%s)", r, err.message, err.hint);
}

static void write_file(const void *bytes, size_t n, off_t at) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_int_equal(pwrite(fd, bytes, n, at), n);
    close(fd);
}

static void make_full_store(void) {
    struct ck_store *store = open_store(true, "boot");

    put_blob(store, 1, true, T0);
    for (unsigned n = 1; n <= 300; n++)
        create(store, n, T0);
    ck_store_sqlite_close(store);
}

static void garbage_is_refused_with_what_to_do(_unused_ void **state) {
    char garbage[8192];

    memset(garbage, 'x', sizeof(garbage));
    write_file(garbage, sizeof(garbage), 0);
    assert_refused(CK_E_STORE_UNAVAILABLE, "file is not a database", "the uploaded blobs are kept");
}

static void a_truncated_file_is_refused(_unused_ void **state) {
    struct stat st;

    make_full_store();
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2), 0);
    assert_refused(CK_E_STORE_UNAVAILABLE, "malformed", "restore the file");
    assert_int_equal(truncate(path, 700), 0);
    assert_refused(CK_E_STORE_UNAVAILABLE, "", "restore the file");
}

static void damage_anywhere_in_the_file_never_crashes(_unused_ void **state) {
    static char whole[1 << 20];
    struct ck_store *store;
    struct ck_error err;
    unsigned refused = 0;
    ssize_t n;
    int fd;

    make_full_store();
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = read(fd, whole, sizeof(whole));
    close(fd);
    assert_true(n > 100000 && n < (ssize_t)sizeof(whole));
    for (off_t at = 16; at + 64 < n; at += 1499) {
        char damage[64];

        memset(damage, (int)(at * 37), sizeof(damage));
        write_file(whole, (size_t)n, 0);
        write_file(damage, sizeof(damage), at);
        err = (struct ck_error){0};
        store = NULL;
        if (ck_store_sqlite_open(path, false, "boot", &store, &err) < 0) {
            refused++;
            continue;
        }
        (void)count_jobs(store);
        ck_store_sqlite_close(store);
    }
    /* The rest hit texts or free space. */
    assert_true(refused > 20);
}

static void a_folder_that_is_not_there_is_named(_unused_ void **state) {
    snprintf(path, sizeof(path), "%s/no/jobs.db", folder);
    assert_refused(CK_E_STORE_UNAVAILABLE, "unable to open database file (No such file or directory)", "folder");
}

/* Root may write everything, so that a child becomes nobody first. */
static void a_file_that_may_only_be_read_is_refused(_unused_ void **state) {
    int status;
    pid_t child;

    make_full_store();
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    child = fork();
    if (child == 0) {
        if (getuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(2);
        assert_refused(CK_E_STORE_UNAVAILABLE, "attempt to write a readonly database", "let the daemon's user write");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- versions ---- */

static void raw(const char *sql) {
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_newer_store_is_refused_and_left_alone(_unused_ void **state) {
    make_full_store();
    raw("PRAGMA user_version = 9");
    assert_refused(CK_E_IO, "has version 9 of the job store, and this ckptd knows versions up to 1", "newer ckptd");
    raw("PRAGMA user_version = 1");
    {
        struct ck_store *store = open_store(true, "boot");

        assert_int_equal(count_jobs(store), 300);
        ck_store_sqlite_close(store);
    }
}

static void a_file_of_another_program_is_refused_and_left_alone(_unused_ void **state) {
    raw("CREATE TABLE songs (name)");
    assert_refused(CK_E_IO, "another program", "--data");
    raw("PRAGMA user_version = 1");
    assert_refused(CK_E_IO, "another program", "--data");
    raw("SELECT name FROM songs");
}

static void upgrade(const char *const *steps, int n, int want) {
    struct ck_conn conn = {0};
    struct ck_error err = {0};

    assert_int_equal(ck_conn_open(&conn, path, "be opened", &err), 0);
    assert_int_equal(ck_schema_upgrade(&conn, path, steps, n, &err), want);
    ck_conn_close(&conn);
}

static void an_older_store_is_brought_up_to_date_in_one_step_or_not_at_all(_unused_ void **state) {
    const char *const first[] = {ck_schema_steps[0]};
    const char *const broken[] = {ck_schema_steps[0], "ALTER TABLE job ADD COLUMN a INTEGER", "CREATE TABLE job (x)"};
    const char *const good[] = {ck_schema_steps[0], "ALTER TABLE job ADD COLUMN a INTEGER",
                                "UPDATE job SET a = attempt + 1"};

    make_full_store();
    upgrade(first, 1, 0);
    upgrade(broken, 3, CK_E_INTERNAL);
    {
        struct ck_store *store = open_store(true, "boot"); /* still version 1 */

        assert_int_equal(count_jobs(store), 300);
        ck_store_sqlite_close(store);
    }
    upgrade(good, 3, 0);
    upgrade(good, 3, 0);
    raw("CREATE TABLE proof (n INTEGER NOT NULL CHECK (n = 300)); INSERT INTO proof SELECT count(*) FROM job WHERE a = "
        "1");
    assert_refused(CK_E_IO, "has version 3", "newer ckptd");
}

/* A test that failed may have left its disk. */
static int unmount_and_remove(void **state) {
    umount2(folder, MNT_DETACH);
    return remove_folder(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, unmount_and_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_file_at_its_limit_refuses_and_recovers),
        TEST(a_full_disk_refuses_and_recovers_when_space_is_freed),
        TEST(a_foreign_lock_is_waited_for_and_no_longer_than_said),
        TEST(garbage_is_refused_with_what_to_do),
        TEST(a_truncated_file_is_refused),
        TEST(damage_anywhere_in_the_file_never_crashes),
        TEST(a_folder_that_is_not_there_is_named),
        TEST(a_file_that_may_only_be_read_is_refused),
        TEST(a_newer_store_is_refused_and_left_alone),
        TEST(a_file_of_another_program_is_refused_and_left_alone),
        TEST(an_older_store_is_brought_up_to_date_in_one_step_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
