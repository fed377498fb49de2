/* server/scrub: a daemon that is killed anywhere, or a disk that is full, leaves nothing that the next start does not
 * put right. */
#include "place.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "server/disk/layout.h"
#include "server/disk/scrub.h"

/* ---- the start ---- */

static unsigned n_lost;
static char last_lost[CK_JOB_ID_SIZE];

static int lost(_unused_ void *ctx, const char *job, _unused_ struct ck_error *err) {
    n_lost++;
    snprintf(last_lost, sizeof(last_lost), "%s", job);
    return 0;
}

static bool store_is_new;

static struct ck_scrub_result scrub(bool rebooted) {
    const struct ck_scrub order = {.data = &data,
                                   .store = &store,
                                   .rebooted = rebooted,
                                   .store_is_new = store_is_new,
                                   .now = 1000,
                                   .each_blob = each_blob,
                                   .drop_blob = drop_blob,
                                   .each_job_with_files = each_job,
                                   .lost = lost};
    struct ck_scrub_result result = {0};
    struct ck_error err = {0};

    n_lost = 0;
    if (ck_scrub_blobs(&order, &result, &err) < 0 || ck_scrub_results(&order, &result, &err) < 0)
        fail_msg("%s", err.message);
    return result;
}

static void what_agrees_is_left_alone(_unused_ void **state) {
    char digest[CK_DIGEST_SIZE];
    struct ck_scrub_result result;

    store_text("abc", true, digest);
    publish(JOB_1, "12345", 2);
    put_job_row(JOB_1, CK_STATE_SUCCEEDED, 2, 5);
    result = scrub(true);
    assert_int_equal(result.blobs, 1);
    assert_int_equal(result.jobs, 1);
    assert_int_equal(result.blobs_orphaned + result.blobs_missing + result.blobs_damaged + result.jobs_orphaned +
                         result.jobs_lost + result.unexpected,
                     0);
    assert_blob(ABC, "abc");
    assert_result(JOB_1, "f1", "12345");
}

static void files_without_a_row_are_removed_and_rows_without_a_file_dropped(_unused_ void **state) {
    char kept[CK_DIGEST_SIZE], orphan[CK_DIGEST_SIZE], missing[CK_DIGEST_SIZE], cut[CK_DIGEST_SIZE];
    struct ck_scrub_result result;

    store_text("kept", true, kept);
    store_text("orphan", true, orphan);
    store_text("missing", true, missing);
    store_text("cut off", true, cut);
    drop_blob(&store, orphan, NULL);
    assert_int_equal(unlink(blob_path(missing)), 0);
    assert_int_equal(chmod(blob_path(cut), 0600), 0);
    assert_int_equal(truncate(blob_path(cut), 3), 0);
    result = scrub(false);
    assert_int_equal(result.blobs, 1);
    assert_int_equal(result.blobs_orphaned, 1);
    assert_int_equal(result.blobs_missing, 1);
    assert_int_equal(result.blobs_damaged, 1);
    assert_int_equal(rows->n_blobs, 1);
    assert_blob(kept, "kept");
    assert_no_blob(orphan, CK_E_BLOB_NOT_FOUND);
    assert_no_blob(cut, CK_E_BLOB_NOT_FOUND);
}

/* Whoever moved a damaged store away, as the message says, keeps what was uploaded. */
static void a_new_store_takes_the_blobs_that_are_there(_unused_ void **state) {
    char whole[CK_DIGEST_SIZE], torn[CK_DIGEST_SIZE];
    struct ck_scrub_result result;

    store_text("whole", true, whole);
    store_text("torn", true, torn);
    drop_blob(&store, whole, NULL);
    drop_blob(&store, torn, NULL);
    write_file(blob_path(torn), "TORN");
    store_is_new = true;
    result = scrub(false);
    store_is_new = false;
    assert_int_equal(result.blobs_adopted, 1);
    assert_int_equal(result.blobs_orphaned, 1);
    assert_blob(whole, "whole");
    assert_int_equal(rows->n_blobs, 1);
    assert_no_blob(torn, CK_E_BLOB_NOT_FOUND);
}

static void after_a_reboot_what_was_never_synced_is_read(_unused_ void **state) {
    char torn[CK_DIGEST_SIZE], whole[CK_DIGEST_SIZE], synced[CK_DIGEST_SIZE];

    store_text("torn", false, torn);
    store_text("whole", false, whole);
    store_text("synced", true, synced);
    write_file(blob_path(torn), "TORN");
    write_file(blob_path(synced), "SYNCED");
    assert_int_equal(scrub(false).blobs, 3);
    assert_int_equal(scrub(true).blobs_damaged, 1);
    assert_no_blob(torn, CK_E_BLOB_NOT_FOUND);
    assert_int_equal(find_blob(torn), rows->n_blobs);
    assert_blob(whole, "whole");
    assert_blob(synced, "SYNCED");
}

static void results_that_are_not_whole_are_reported(_unused_ void **state) {
    publish(JOB_1, "12345", 2);
    put_job_row(JOB_1, CK_STATE_SUCCEEDED, 2, 5);
    publish(JOB_2, "12345", 2);
    assert_int_equal(scrub(false).jobs_orphaned, 1);
    assert_no_result(JOB_2, "f0", CK_E_RESULT_NOT_FOUND);
    assert_int_equal(n_lost, 0);

    assert_int_equal(truncate(in_base("jobs/%s/%s", JOB_1, "f1"), 4), 0);
    assert_int_equal(scrub(false).jobs_lost, 1);
    assert_string_equal(last_lost, JOB_1);
    assert_no_result(JOB_1, "f0", CK_E_RESULT_NOT_FOUND);

    publish(JOB_1, "12345", 2);
    put_job_row(JOB_1, CK_STATE_SUCCEEDED, 3, 5);
    put_job_row(JOB_3, CK_STATE_FAILED, 1, 5);
    assert_int_equal(scrub(false).jobs_lost, 2);
    assert_string_equal(last_lost, JOB_3);
}

static void names_that_are_not_ours_are_left_alone(_unused_ void **state) {
    const char *elsewhere = in_base("blobs/sha256/%s/%s", "00", ABC);

    assert_int_equal(mkdir(in_base("blobs/sha256/%s", "00"), 0700), 0);
    write_file(elsewhere, "abc");
    write_file(in_base("blobs/sha256/%s/%s", "00", "README"), "x");
    write_file(in_base("jobs/%s", JOB_1), "a file");
    assert_int_equal(mkdir(in_base("jobs/%s", "lost+found"), 0700), 0);
    assert_int_equal(mkdir(in_base("blobs/sha256/%s", "xyz"), 0700), 0);
    assert_int_equal(scrub(true).unexpected, 5);
    assert_int_equal(access(in_base("blobs/sha256/%s/%s", "00", "README"), F_OK), 0);
    assert_int_equal(access(in_base("jobs/%s", "lost+found"), F_OK), 0);
}

/* ---- killed anywhere ---- */

static void live(bool named) {
    char digest[CK_DIGEST_SIZE];

    data.named = named;
    calls = 0;
    store_text("abc", true, digest);
    store_text("other", false, digest);
    publish(JOB_1, "12345", 2);
    put_job_row(JOB_1, CK_STATE_SUCCEEDED, 2, 5);
    publish(JOB_2, "first", 3);
    publish(JOB_2, "12345", 2);
    put_job_row(JOB_2, CK_STATE_SUCCEEDED, 2, 5);
    (void)blobs->link_results(blobs, JOB_1, JOB_3, NULL);
    put_job_row(JOB_3, CK_STATE_SUCCEEDED, 2, 5);
    put_job_row(JOB_1, CK_STATE_EXPIRED, 0, 0);
    blobs->remove_results(blobs, JOB_1);
    drop_blob(&store, ABC, NULL);
    blobs->remove(blobs, ABC);
}

/* True if it was killed. */
static bool live_until(unsigned step, bool named) {
    int status;
    pid_t child = fork();

    if (child == 0) {
        begin();
        kill_before = step;
        live(named);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGKILL);
    else
        assert_int_equal(status, 0);
    return WIFSIGNALED(status);
}

static int no_strangers(void *ctx, _unused_ int folder, const char *name) {
    (void)ctx;
    assert_true(find_job(name) < rows->n_jobs && rows->jobs[find_job(name)].n_files > 0);
    return 0;
}

static void assert_all_is_well_after_a_start(void) {
    struct ck_scrub_result result;
    int shelves, jobs;

    begin();
    result = scrub(false);
    assert_int_equal(result.blobs, rows->n_blobs);
    assert_int_equal(result.blobs_missing + result.blobs_damaged + result.jobs_lost + result.unexpected, 0);
    assert_tmp_empty();
    for (size_t i = 0; i < rows->n_blobs; i++)
        assert_blob(rows->blobs[i].digest, rows->blobs[i].bytes == 3 ? "abc" : "other");
    for (size_t i = 0; i < rows->n_jobs; i++)
        for (size_t k = 0; k < rows->jobs[i].n_files; k++)
            assert_result(rows->jobs[i].id, rows->jobs[i].files[k].name, "12345");
    assert_int_equal(ck_layout_open(&data, &shelves, &jobs, NULL), 0);
    assert_int_equal(ck_data_dir_each(jobs, no_strangers, NULL, NULL), 0);
    close(shelves);
    close(jobs);
    result = scrub(false);
    assert_int_equal(result.blobs_orphaned + result.jobs_orphaned, 0);
}

/* Takes what the last life left, so that the next begins anew. */
static void forget_all(void) {
    rows->n_blobs = rows->n_jobs = 0;
    (void)scrub(false);
    end();
}

static void a_daemon_that_is_killed_before_any_step_leaves_nothing_wrong(_unused_ void **state) {
    for (int named = 0; named < 2; named++) {
        bool killed = true;
        unsigned step;

        for (step = 1; killed; step++) {
            killed = live_until(step, named);
            assert_all_is_well_after_a_start();
            forget_all();
        }
        assert_true(step > 40);
    }
}

/* ---- a full disk ---- */

#define CHECK(what)                                                                                                    \
    do                                                                                                                 \
        if (!(what))                                                                                                   \
            _exit(__LINE__ % 250 + 1);                                                                                 \
    while (0)
#define MAY_NOT_MOUNT 251

static void live_on_a_tiny_disk(void) {
    static char chunk[65536];
    const char *name = "f0";
    struct ck_upload *upload;
    struct ck_error err = {0};
    char digest[CK_DIGEST_SIZE];
    int r = 0, fd;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", base, "tmpfs", 0, "size=2m,nr_inodes=40") < 0)
        _exit(MAY_NOT_MOUNT);
    begin();
    CHECK(begin_upload(&upload, &err) == 0);
    for (int i = 0; i < 64 && r == 0; i++)
        r = ck_upload_write(upload, chunk, sizeof(chunk), &err);
    CHECK(r == CK_E_STORAGE_FULL);
    ck_upload_abandon(upload);
    ck_hasher_free(hasher); /* no thread holds the file any more: the space is back */
    CHECK(ck_hasher_new(1, &hasher, &err) == 0);
    store_text("abc", true, digest);
    CHECK(blobs->exists(blobs, ABC, false));

    /* No inode is left for a folder. */
    for (int i = 0; i < 40 && (fd = openat(data.root, (char[]){(char)('A' + i / 26), (char)('a' + i % 26), 0},
                                           O_CREAT | O_WRONLY, 0600)) >= 0;
         i++)
        close(fd);
    err = (struct ck_error){0};
    fd = openat(data.root, "Aa", O_RDWR);
    CHECK(ck_blobs_dir_publish_results(blobs, JOB_1, &name, &fd, 1, true, &err) == CK_E_STORAGE_FULL);
    CHECK(in_tmp() == 0);
    _exit(0);
}

static void a_full_disk_is_said_to_be_full_and_leaves_nothing_half_done(_unused_ void **state) {
    int status;
    pid_t child = fork();

    if (child == 0)
        live_on_a_tiny_disk();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == MAY_NOT_MOUNT) {
        print_message("skipped: mounting a small file system needs root\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_agrees_is_left_alone),
        TEST(files_without_a_row_are_removed_and_rows_without_a_file_dropped),
        TEST(a_new_store_takes_the_blobs_that_are_there),
        TEST(after_a_reboot_what_was_never_synced_is_read),
        TEST(results_that_are_not_whole_are_reported),
        TEST(names_that_are_not_ours_are_left_alone),
        cmocka_unit_test_setup_teardown(a_daemon_that_is_killed_before_any_step_leaves_nothing_wrong, make_base,
                                        remove_base),
        cmocka_unit_test_setup_teardown(a_full_disk_is_said_to_be_full_and_leaves_nothing_half_done, make_base,
                                        remove_base),
    };

    return make_rows() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
