/* server/data_dir: lock, schema, temporary files with and without a name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "server/disk/data_dir.h"

static char base[64], path[128];

static int make_base(_unused_ void **state) {
    snprintf(base, sizeof(base), "/tmp/ckptd-data-XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(path, sizeof(path), "%s/data", base);
    return 0;
}

static int remove_base(_unused_ void **state) {
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", base);
    return system(command);
}

static void put(const char *name, const char *text) {
    char full[256];
    FILE *file;

    snprintf(full, sizeof(full), "%s/%s", path, name);
    file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_text(const char *name, const char *text) {
    char full[256], got[128] = "";
    FILE *file;

    snprintf(full, sizeof(full), "%s/%s", path, name);
    file = fopen(full, "r");
    assert_non_null(file);
    got[fread(got, 1, sizeof(got) - 1, file)] = 0;
    fclose(file);
    assert_string_equal(got, text);
}

static mode_t mode_of(const char *name) {
    char full[256];
    struct stat info;

    snprintf(full, sizeof(full), "%s/%s", path, name);
    assert_int_equal(lstat(full, &info), 0);
    return info.st_mode & 07777;
}

static int count_one(void *ctx, _unused_ int folder, _unused_ const char *name) {
    ++*(unsigned *)ctx;
    return 0;
}

static unsigned names_in(int folder) {
    unsigned n = 0;

    assert_int_equal(ck_data_dir_each(folder, count_one, &n, NULL), 0);
    return n;
}

static struct ck_data_dir opened(void) {
    struct ck_data_dir dir;
    struct ck_error err = {0};

    if (ck_data_dir_open(path, &dir, &err) < 0)
        fail_msg("%s", err.message);
    return dir;
}

static struct ck_error refused(int code) {
    struct ck_data_dir dir;
    struct ck_error err = {0};

    assert_int_equal(ck_data_dir_open(path, &dir, &err), code);
    return err;
}

static void a_new_directory_is_for_its_owner_only(_unused_ void **state) {
    struct ck_data_dir dir = opened();
    char pid[32];

    snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    assert_text("lock", pid);
    assert_text("version", "2\n");
    assert_int_equal(mode_of("."), 0700);
    assert_int_equal(mode_of("tmp"), 0700);
    assert_int_equal(mode_of("lock"), 0600);
    assert_int_equal(mode_of("version"), 0600);
    ck_data_dir_release(&dir);
    ck_data_dir_release(&dir);
}

static void a_directory_serves_one_daemon_at_a_time(_unused_ void **state) {
    struct ck_data_dir dir = opened();
    struct ck_error err = refused(CK_E_IO);
    char process[64];

    snprintf(process, sizeof(process), "process %ld", (long)getpid());
    assert_non_null(strstr(err.message, process));
    ck_data_dir_release(&dir);
    dir = opened();
    ck_data_dir_release(&dir);
}

static void schema_1_is_brought_up_to_date_and_a_newer_one_is_refused_with_both_numbers(_unused_ void **state) {
    struct ck_data_dir dir = opened();
    struct ck_error err;

    ck_data_dir_release(&dir);
    put("version", "1\n");
    dir = opened();
    assert_text("version", "2\n");
    ck_data_dir_release(&dir);
    put("version", "");
    dir = opened();
    assert_text("version", "2\n");
    ck_data_dir_release(&dir);
    put("version", "3\n");
    err = refused(CK_E_IO);
    assert_non_null(strstr(err.message, "schema 3, this ckptd knows 2"));
    assert_text("version", "3\n");
    put("version", "2x\n");
    err = refused(CK_E_IO);
    assert_non_null(strstr(err.message, "\"2x\""));
    put("version", "-1\n");
    refused(CK_E_IO);
}

static void a_newer_directory_is_not_touched(_unused_ void **state) {
    struct ck_data_dir dir = opened();

    ck_data_dir_release(&dir);
    put("tmp/kept", "x");
    put("version", "4000000000\n");
    refused(CK_E_IO);
    assert_text("tmp/kept", "x");
}

static void tmp_is_emptied_at_start_with_folders_and_all(_unused_ void **state) {
    struct ck_data_dir dir = opened();

    assert_int_equal(mkdirat(dir.tmp, "stage", 0700), 0);
    put("tmp/stage/a", "x");
    put("tmp/stage/b", "x");
    put("tmp/c", "x");
    put("kept", "kept");
    assert_int_equal(symlinkat("../kept", dir.tmp, "link"), 0);
    ck_data_dir_release(&dir);
    dir = opened();
    assert_int_equal(names_in(dir.tmp), 0);
    assert_text("kept", "kept");
    ck_data_dir_release(&dir);
}

static void links_in_place_of_folders_are_refused(_unused_ void **state) {
    struct ck_data_dir dir = opened();
    char full[256];

    ck_data_dir_release(&dir);
    snprintf(full, sizeof(full), "%s/tmp", path);
    assert_int_equal(rmdir(full), 0);
    assert_int_equal(symlink("/", full), 0);
    refused(CK_E_IO);
}

static void a_file_or_a_foreign_directory_is_refused(_unused_ void **state) {
    char full[256];
    int status;
    pid_t child;

    snprintf(full, sizeof(full), "%s", path);
    close(open(full, O_CREAT | O_WRONLY, 0600));
    assert_non_null(strstr(refused(CK_E_IO).message, "is not a directory"));
    unlink(full);
    assert_int_equal(mkdir(full, 0500), 0);
    child = fork();
    if (child == 0) {
        struct ck_data_dir dir;

        if (geteuid() == 0 && setuid(65534) < 0)
            _exit(9);
        _exit(ck_data_dir_open(path, &dir, NULL) == CK_E_IO ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- temporary files ---- */

static void publish_and_discard(bool named) {
    struct ck_data_dir dir = opened();
    struct ck_error err = {0};
    int fd, gone, second;
    bool existed;

    dir.named = named;
    assert_int_equal(ck_data_dir_temporary(&dir, &fd, &err), 0);
    assert_int_equal(ck_data_dir_temporary(&dir, &gone, &err), 0);
    assert_int_equal(ck_data_dir_temporary(&dir, &second, &err), 0);
    assert_int_equal(names_in(dir.tmp), named ? 3 : 0);
    assert_int_equal(write(fd, "hello", 5), 5);
    assert_int_equal(write(second, "other", 5), 5);

    ck_data_dir_discard(gone);
    assert_int_equal(names_in(dir.tmp), named ? 2 : 0);

    assert_int_equal(ck_data_dir_publish(fd, dir.root, "file", true, &existed, &err), 0);
    assert_false(existed);
    assert_int_equal(ck_data_dir_publish(second, dir.root, "file", false, &existed, &err), 0);
    assert_true(existed);
    assert_int_equal(names_in(dir.tmp), 0);
    ck_data_dir_discard(fd);
    ck_data_dir_discard(second);
    ck_data_dir_discard(-1);
    assert_text("file", "hello");
    assert_int_equal(mode_of("file"), 0600);
    ck_data_dir_release(&dir);
}

static void a_temporary_file_is_published_once_or_leaves_nothing(_unused_ void **state) {
    publish_and_discard(false);
}

static void the_same_holds_where_temporary_files_need_names(_unused_ void **state) {
    publish_and_discard(true);
}

static void a_discarded_descriptor_of_another_file_removes_nothing(_unused_ void **state) {
    struct ck_data_dir dir = opened();

    put("mine", "x");
    ck_data_dir_discard(openat(dir.root, "mine", O_RDONLY));
    assert_text("mine", "x");
    ck_data_dir_release(&dir);
}

static void publishing_into_a_folder_that_is_gone_fails(_unused_ void **state) {
    struct ck_data_dir dir = opened();
    struct ck_error err = {0};
    int folder, fd;
    bool existed;

    assert_int_equal(ck_data_dir_folder(dir.root, "f", &folder, &err), 0);
    assert_int_equal(unlinkat(dir.root, "f", AT_REMOVEDIR), 0);
    assert_int_equal(ck_data_dir_temporary(&dir, &fd, &err), 0);
    assert_int_equal(ck_data_dir_publish(fd, folder, "x", false, &existed, &err), CK_E_IO);
    ck_data_dir_discard(fd);
    close(folder);
    ck_data_dir_release(&dir);
}

static void the_port_is_written_and_removed(_unused_ void **state) {
    struct ck_data_dir dir = opened();
    uint64_t free_bytes, total;

    ck_data_dir_set_port(&dir, 65535);
    assert_text("port", "65535\n");
    ck_data_dir_set_port(&dir, 0);
    assert_int_equal(faccessat(dir.root, "port", F_OK, 0), -1);
    assert_int_equal(ck_data_dir_space(&dir, &free_bytes, &total, NULL), 0);
    assert_true(free_bytes <= total && total > 0);
    ck_data_dir_release(&dir);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_base, remove_base)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_new_directory_is_for_its_owner_only),
        TEST(a_directory_serves_one_daemon_at_a_time),
        TEST(schema_1_is_brought_up_to_date_and_a_newer_one_is_refused_with_both_numbers),
        TEST(a_newer_directory_is_not_touched),
        TEST(tmp_is_emptied_at_start_with_folders_and_all),
        TEST(links_in_place_of_folders_are_refused),
        TEST(a_file_or_a_foreign_directory_is_refused),
        TEST(a_temporary_file_is_published_once_or_leaves_nothing),
        TEST(the_same_holds_where_temporary_files_need_names),
        TEST(a_discarded_descriptor_of_another_file_removes_nothing),
        TEST(publishing_into_a_folder_that_is_gone_fails),
        TEST(the_port_is_written_and_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
