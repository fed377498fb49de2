/* server/blobs_dir and server/upload on a real directory: bytes go in, come out, go away, whoever else is at it. */
#include "place.h"

/* ---- digests ---- */

static void digests_are_read_in_any_case_and_in_one_form(_unused_ void **state) {
    char hex[CK_DIGEST_SIZE] = "untouched";
    uint8_t bytes[CK_SHA256_BYTES] = {0x01, 0xAB, [31] = 0xF0};

    assert_false(ck_digest_parse(NULL, hex));
    assert_false(ck_digest_parse("", hex));
    assert_false(ck_digest_parse(ABC, hex));
    assert_false(ck_digest_parse("SHA256:" ABC, hex));
    assert_false(ck_digest_parse("sha256:" ABC "0", hex));
    assert_false(ck_digest_parse("sha256:a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hex));
    assert_false(ck_digest_parse("sha256:ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hex));
    assert_string_equal(hex, "untouched");
    assert_true(ck_digest_parse("sha256:BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015AD", hex));
    assert_string_equal(hex, ABC);
    ck_digest_hex(bytes, hex);
    assert_string_equal(hex, "01ab0000000000000000000000000000000000000000000000000000000000f0");
}

/* ---- blobs ---- */

static void an_upload_becomes_the_blob_of_its_digest(_unused_ void **state) {
    char digest[CK_DIGEST_SIZE];
    struct stat info;

    assert_no_blob(ABC, CK_E_BLOB_NOT_FOUND);
    store_text("abc", true, digest);
    assert_string_equal(digest, ABC);
    assert_true(blobs->exists(blobs, ABC, false));
    assert_blob(ABC, "abc");
    assert_int_equal(stat(blob_path(ABC), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0400);
    assert_true(blobs->exists(blobs, ABC, true));
    assert_int_equal(blobs->sync(blobs, ABC, NULL), 0);
    assert_tmp_empty();
}

static void the_same_bytes_are_stored_once(_unused_ void **state) {
    char digest[CK_DIGEST_SIZE];
    struct stat first, second;

    store_text("abc", false, digest);
    assert_false(blobs->exists(blobs, ABC, true));
    assert_int_equal(stat(blob_path(ABC), &first), 0);
    store_text("abc", true, digest);
    assert_int_equal(stat(blob_path(ABC), &second), 0);
    assert_int_equal(first.st_ino, second.st_ino);
    assert_int_equal(second.st_nlink, 1);
}

static void adopt_traced(bool durable, const char *calls_wanted) {
    struct ck_received file = received("abc");

    begin_trace();
    assert_int_equal(blobs->adopt(blobs, &file, durable, NULL), 0);
    assert_string_equal(trace, calls_wanted);
    blobs->settle(blobs, ABC);
    ck_upload_abandon(file.spool);
}

static void durable_means_bytes_before_the_name_and_the_folder_after_it(_unused_ void **state) {
    adopt_traced(false, "ml");
    adopt_traced(false, "m");
    adopt_traced(true, "mdss"); /* the first may never have been synced, nor its folder in the folder above */
    blobs->remove(blobs, ABC);
    adopt_traced(true, "mdls");
    begin_trace();
    assert_int_equal(blobs->sync(blobs, ABC, NULL), 0);
    assert_string_equal(trace, "ds");
}

static void names_that_are_no_digests_are_not_found(_unused_ void **state) {
    static const char *const names[] = {"", ".", "../../version", "abc", (ABC "0"), "BA7816BF", ("sha256:" ABC)};

    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++) {
        assert_no_blob(names[i], CK_E_BLOB_NOT_FOUND);
        assert_int_equal(blobs->sync(blobs, names[i], NULL), CK_E_BLOB_NOT_FOUND);
        blobs->remove(blobs, names[i]);
    }
    assert_int_equal(access(in_base("version"), F_OK), 0);
}

static void a_blob_that_a_crash_cut_off_is_replaced(_unused_ void **state) {
    char digest[CK_DIGEST_SIZE];

    assert_int_equal(mkdir(in_base("blobs/sha256/%s", "ba"), 0700), 0);
    write_file(blob_path(ABC), "a");
    store_text("abc", true, digest);
    assert_blob(ABC, "abc");
}

static void an_upload_that_is_given_up_leaves_nothing(_unused_ void **state) {
    struct ck_received file;

    for (int named = 0; named < 2; named++) {
        data.named = named;
        file = received("given up");
        assert_int_equal(in_tmp(), named);
        ck_upload_abandon(file.spool);
        assert_tmp_empty();
    }
}

static void without_nameless_files_uploads_work_the_same(_unused_ void **state) {
    char digest[CK_DIGEST_SIZE];

    data.named = true;
    store_text("abc", true, digest);
    assert_blob(ABC, "abc");
    assert_tmp_empty();
    store_text("abc", true, digest);
    assert_tmp_empty();
    assert_blob(ABC, "abc");
}

/* The digest comes from bytes that a second thread reads back while a third has them written. */
static void a_large_upload_with_write_back_has_the_digest_of_its_bytes(_unused_ void **state) {
    static char chunk[65536];
    uint8_t sum[CK_SHA256_BYTES];
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    struct ck_upload *upload;
    struct ck_received file;
    struct ck_error err = {0};

    assert_int_equal(EVP_DigestInit_ex(sha, EVP_sha256(), NULL), 1);
    assert_int_equal(begin_upload(&upload, &err), 0);
    ck_upload_set_writeback(upload, true);
    for (unsigned i = 0; i < 600; i++) {
        memset(chunk, (int)i, sizeof(chunk));
        assert_int_equal(ck_upload_write(upload, chunk, sizeof(chunk) - i, &err), 0);
        EVP_DigestUpdate(sha, chunk, sizeof(chunk) - i);
        if (ck_upload_throttle(upload, suspend))
            wait_ready();
    }
    file = finish_upload(upload);
    EVP_DigestFinal_ex(sha, sum, NULL);
    EVP_MD_CTX_free(sha);
    assert_memory_equal(file.digest, sum, sizeof(sum));
    assert_int_equal(file.bytes, 600 * 65536 - 600 * 599 / 2);
    ck_upload_abandon(upload);
}

/* ---- who removes what while others store it ---- */

static void a_blob_with_a_row_is_never_removed(_unused_ void **state) {
    char digest[CK_DIGEST_SIZE];

    store_text("abc", false, digest);
    blobs->remove(blobs, ABC);
    assert_blob(ABC, "abc");
    drop_blob(&store, ABC, NULL);
    blobs->remove(blobs, ABC);
    blobs->remove(blobs, ABC);
    assert_no_blob(ABC, CK_E_BLOB_NOT_FOUND);
    assert_tmp_empty();
}

/* The janitor had removed the row before the upload found the file. */
static void a_blob_that_is_about_to_get_its_row_is_not_removed(_unused_ void **state) {
    struct ck_received file = received("abc"), again = received("abc");

    assert_int_equal(blobs->adopt(blobs, &file, false, NULL), 0);
    assert_int_equal(blobs->adopt(blobs, &again, false, NULL), 0);
    blobs->remove(blobs, ABC);
    assert_true(blobs->exists(blobs, ABC, false));
    blobs->settle(blobs, ABC);
    blobs->remove(blobs, ABC);
    assert_true(blobs->exists(blobs, ABC, false));
    blobs->settle(blobs, ABC);
    blobs->remove(blobs, ABC);
    assert_false(blobs->exists(blobs, ABC, false));
    ck_upload_abandon(file.spool);
    ck_upload_abandon(again.spool);
}

static void *remove_all_the_time(void *ctx) {
    atomic_bool *stop = ctx;

    while (!atomic_load(stop)) {
        drop_blob(&store, ABC, NULL);
        blobs->remove(blobs, ABC);
    }
    return NULL;
}

static void a_row_always_has_its_file_whoever_removes_meanwhile(_unused_ void **state) {
    for (int round = 0; round < 50; round++) {
        atomic_bool stop = false;
        pthread_t janitor;
        char digest[CK_DIGEST_SIZE];

        assert_int_equal(pthread_create(&janitor, NULL, remove_all_the_time, &stop), 0);
        for (int i = 0; i < 10; i++)
            store_text("abc", false, digest);
        atomic_store(&stop, true);
        store_text("abc", false, digest);
        pthread_join(janitor, NULL);
        assert_int_equal(find_blob(ABC) < rows->n_blobs, blobs->exists(blobs, ABC, false));
    }
}

/* ---- results ---- */

static void results_appear_together_and_replace_those_of_an_earlier_attempt(_unused_ void **state) {
    for (int named = 0; named < 2; named++) {
        data.named = named;
        publish(JOB_1, "first", 3);
        assert_result(JOB_1, "f2", "first");
        publish(JOB_1, "second", 2);
        assert_result(JOB_1, "f0", "second");
        assert_no_result(JOB_1, "f2", CK_E_RESULT_NOT_FOUND);
        assert_tmp_empty();
    }
}

static void durable_results_are_on_the_disk_before_they_appear(_unused_ void **state) {
    begin_trace();
    publish(JOB_1, "x", 2);
    assert_string_equal(trace, "mdldl"
                               "srrusu"); /* their folder; aside with an earlier one; the name; then jobs/ */
    begin_trace();
    assert_int_equal(blobs->link_results(blobs, JOB_1, JOB_2, NULL), 0);
    assert_string_equal(trace, "mll"
                               "srrusu");
}

static void results_with_bad_names_are_not_published(_unused_ void **state) {
    static const char *const bad[] = {"", ".", "..", ".hidden", "a/b", "../x", "a b", "n\xC3\xA4"};
    char longest[129], too_long[130];
    const char *name = longest;
    struct ck_error err = {0};
    int fd;

    memset(longest, 'x', sizeof(longest));
    longest[127] = 0;
    memset(too_long, 'x', sizeof(too_long));
    too_long[128] = 0;
    assert_int_equal(ck_data_dir_temporary(&data, &fd, &err), 0);
    assert_int_equal(ck_blobs_dir_publish_results(blobs, JOB_1, &name, &fd, 1, false, &err), 0);
    assert_result(JOB_1, longest, "");
    name = too_long;
    assert_int_equal(ck_blobs_dir_publish_results(blobs, JOB_2, &name, &fd, 1, false, &err), CK_E_INTERNAL);
    for (size_t i = 0; i < CK_ARRAY_LEN(bad); i++) {
        assert_int_equal(ck_blobs_dir_publish_results(blobs, JOB_2, &bad[i], &fd, 1, false, NULL), CK_E_INTERNAL);
        assert_no_result(JOB_1, bad[i], CK_E_RESULT_NOT_FOUND);
    }
    name = "good";
    assert_int_equal(ck_blobs_dir_publish_results(blobs, "../tmp", &name, &fd, 1, false, NULL), CK_E_INTERNAL);
    assert_int_equal(
        ck_blobs_dir_publish_results(blobs, JOB_2, (const char *const[]){"a", "a"}, (int[]){fd, fd}, 2, false, NULL),
        CK_E_INTERNAL);
    assert_int_not_equal(access(in_base("jobs/%s", JOB_2), F_OK), 0);
    assert_tmp_empty();
    ck_data_dir_discard(fd);
}

static void cached_results_are_links_that_outlive_the_first_job(_unused_ void **state) {
    struct ck_error err = {0};

    publish(JOB_1, "shared", 2);
    assert_int_equal(blobs->link_results(blobs, JOB_1, JOB_2, &err), 0);
    assert_result(JOB_2, "f1", "shared");
    blobs->remove_results(blobs, JOB_1);
    assert_no_result(JOB_1, "f1", CK_E_RESULT_NOT_FOUND);
    assert_result(JOB_2, "f1", "shared");
    assert_int_equal(blobs->link_results(blobs, JOB_1, JOB_3, &err), CK_E_RESULT_NOT_FOUND);
    assert_int_equal(blobs->link_results(blobs, "nonsense", JOB_3, NULL), CK_E_RESULT_NOT_FOUND);
    assert_int_equal(blobs->link_results(blobs, JOB_2, "../x", NULL), CK_E_INTERNAL);
    assert_int_not_equal(access(in_base("jobs/%s", JOB_3), F_OK), 0);
    assert_tmp_empty();
}

static void results_stay_while_the_store_wants_them(_unused_ void **state) {
    static const struct {
        enum ck_job_state state;
        size_t n_files;
        bool stays;
    } cases[] = {
        {CK_STATE_RUNNING, 0, true}, {CK_STATE_SUCCEEDED, 2, true}, {CK_STATE_FAILED, 1, true},
        {CK_STATE_FAILED, 0, false}, {CK_STATE_EXPIRED, 2, false},  {CK_STATE_QUEUED, 0, false},
    };

    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++) {
        publish(JOB_1, "x", 2);
        put_job_row(JOB_1, cases[i].state, cases[i].n_files, 1);
        blobs->remove_results(blobs, JOB_1);
        if (cases[i].stays)
            assert_result(JOB_1, "f0", "x");
        else
            assert_no_result(JOB_1, "f0", CK_E_RESULT_NOT_FOUND);
    }
    blobs->remove_results(blobs, JOB_1);
    blobs->remove_results(blobs, "../tmp");
    assert_tmp_empty();
}

static void usage_counts_a_file_with_two_names_once(_unused_ void **state) {
    static char text[40961];
    uint64_t in_blobs, in_results, linked;
    char digest[CK_DIGEST_SIZE];

    memset(text, 'x', sizeof(text) - 1);
    assert_int_equal(ck_blobs_dir_usage(blobs, &in_blobs, &in_results, NULL), 0);
    assert_int_equal(in_blobs, 0);
    assert_int_equal(in_results, 0);
    store_text(text, true, digest);
    publish(JOB_1, text, 2);
    assert_int_equal(ck_blobs_dir_usage(blobs, &in_blobs, &in_results, NULL), 0);
    assert_int_equal(in_blobs, 40960);
    assert_int_equal(in_results, 2 * 40960);
    assert_int_equal(ck_blobs_dir_blob_bytes(blobs, digest), 40960);
    assert_int_equal(ck_blobs_dir_blob_bytes(blobs, ABC), 0);
    assert_int_equal(ck_blobs_dir_result_bytes(blobs, JOB_1), 2 * 40960);
    assert_int_equal(blobs->link_results(blobs, JOB_1, JOB_2, NULL), 0);
    assert_int_equal(ck_blobs_dir_usage(blobs, &in_blobs, &linked, NULL), 0);
    assert_int_equal(linked, in_results);
    assert_int_equal(ck_blobs_dir_result_bytes(blobs, JOB_2), 40960);
}

/* ---- links that somebody planted ---- */

static void a_link_in_place_of_a_blob_is_not_followed(_unused_ void **state) {
    char digest[CK_DIGEST_SIZE], secret[512];

    snprintf(secret, sizeof(secret), "%s/secret", base);
    write_file(secret, "abc");
    assert_int_equal(mkdir(in_base("blobs/sha256/%s", "ba"), 0700), 0);
    assert_int_equal(symlink(secret, blob_path(ABC)), 0);
    assert_no_blob(ABC, CK_E_IO);
    store_text("abc", true, digest);
    assert_blob(ABC, "abc");
    drop_blob(&store, ABC, NULL);
    blobs->remove(blobs, ABC);
    assert_int_equal(access(secret, F_OK), 0);
}

static void a_link_in_place_of_a_shelf_is_not_followed(_unused_ void **state) {
    const char *shelf = in_base("blobs/sha256/%s", "ba");
    struct ck_received file = received("abc");
    struct ck_error err = {0};

    assert_int_equal(symlink("/tmp", shelf), 0);
    assert_no_blob(ABC, CK_E_IO);
    assert_int_equal(blobs->adopt(blobs, &file, false, &err), CK_E_IO);
    ck_upload_abandon(file.spool);
}

static void links_in_place_of_results_are_not_followed(_unused_ void **state) {
    char secret[512];

    snprintf(secret, sizeof(secret), "%s/secret", base);
    write_file(secret, "secret");
    publish(JOB_1, "x", 1);
    assert_int_equal(symlink(secret, in_base("jobs/%s/%s", JOB_1, "planted")), 0);
    assert_no_result(JOB_1, "planted", CK_E_IO);
    assert_int_equal(mkfifo(in_base("jobs/%s/%s", JOB_1, "pipe"), 0600), 0);
    assert_no_result(JOB_1, "pipe", CK_E_IO);
    assert_int_equal(symlink(base, in_base("jobs/%s", JOB_2)), 0);
    assert_no_result(JOB_2, "secret", CK_E_IO);
    blobs->remove_results(blobs, JOB_2);
    blobs->remove_results(blobs, JOB_1);
    assert_int_equal(access(secret, F_OK), 0);
    assert_tmp_empty();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_read_in_any_case_and_in_one_form),
        TEST(an_upload_becomes_the_blob_of_its_digest),
        TEST(the_same_bytes_are_stored_once),
        TEST(durable_means_bytes_before_the_name_and_the_folder_after_it),
        TEST(names_that_are_no_digests_are_not_found),
        TEST(a_blob_that_a_crash_cut_off_is_replaced),
        TEST(an_upload_that_is_given_up_leaves_nothing),
        TEST(without_nameless_files_uploads_work_the_same),
        TEST(a_large_upload_with_write_back_has_the_digest_of_its_bytes),
        TEST(a_blob_with_a_row_is_never_removed),
        TEST(a_blob_that_is_about_to_get_its_row_is_not_removed),
        TEST(a_row_always_has_its_file_whoever_removes_meanwhile),
        TEST(results_appear_together_and_replace_those_of_an_earlier_attempt),
        TEST(durable_results_are_on_the_disk_before_they_appear),
        TEST(results_with_bad_names_are_not_published),
        TEST(cached_results_are_links_that_outlive_the_first_job),
        TEST(results_stay_while_the_store_wants_them),
        TEST(usage_counts_a_file_with_two_names_once),
        TEST(a_link_in_place_of_a_blob_is_not_followed),
        TEST(a_link_in_place_of_a_shelf_is_not_followed),
        TEST(links_in_place_of_results_are_not_followed),
    };

    return make_rows() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
