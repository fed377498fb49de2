/* server/settings: the table, the order of flags, environment, file and default, the file's form, what is printed and
 * what is checked; the memory that a control group allows. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "server/machine.h"
#include "server/settings.h"

static char folder[] = "/tmp/ckptd-settings-XXXXXX";
static struct ck_settings now;
static struct ck_error err;
static enum ck_settings_action action;

/* Reads with these flags into `now`; the error is in `err`. */
#define READ(...) read_flags((const char *const[]){"serve", ##__VA_ARGS__, NULL})

static int read_flags(const char *const *argv) {
    int argc = 0;

    while (argv[argc])
        argc++;
    ck_settings_release(&now);
    err = (struct ck_error){0};
    action = CK_SETTINGS_RUN;
    return ck_settings_read(argc, (char **)(uintptr_t)argv, &now, &action, &err);
}

/* A file of the test's folder with that text. Static storage, one for each name. */
static const char *file_of(const char *name, const char *text, size_t n) {
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % CK_ARRAY_LEN(paths)];
    FILE *file;

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    fclose(file);
    return path;
}

static int read_file(const char *text) {
    return READ("--config", file_of("config", text, strlen(text)));
}

static uint64_t value_of(const struct ck_setting_row *row) {
    return *(const uint64_t *)(const void *)((const char *)&now + row->offset);
}

static bool is_number(const struct ck_setting_row *row) {
    return row->type == CK_SETTING_COUNT || row->type == CK_SETTING_SIZE || row->type == CK_SETTING_SECONDS;
}

/* ---- values ---- */

static void sizes_have_units_and_no_overflow(_unused_ void **state) {
    uint64_t n = 0;

    assert_true(ck_size_parse("0", &n) && n == 0);
    assert_true(ck_size_parse("300", &n) && n == 300);
    assert_true(ck_size_parse("64K", &n) && n == 65536);
    assert_true(ck_size_parse("64KiB", &n) && n == 65536);
    assert_true(ck_size_parse("2g", &n) && n == 2ull << 30);
    assert_true(ck_size_parse("18446744073709551615", &n) && n == UINT64_MAX);
    assert_false(ck_size_parse("18446744073709551616", &n));
    assert_false(ck_size_parse("16777216T", &n));
    assert_false(ck_size_parse("", &n));
    assert_false(ck_size_parse("-1", &n));
    assert_false(ck_size_parse("1.5G", &n));
    assert_false(ck_size_parse("1Gx", &n));
    assert_false(ck_size_parse(" 1", &n));
}

static int set(const struct ck_setting_row *row, uint64_t value) {
    char name[CK_SETTING_NAME_MAX], flag[128];

    snprintf(flag, sizeof(flag), "%s=%" PRIu64, ck_setting_flag(row, name), value);
    /* The budget is compared with the size of a worker. */
    return READ("--worker-memory=64M", flag);
}

static void every_number_is_taken_at_its_bounds_and_refused_beyond(_unused_ void **state) {
    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++) {
        if (!is_number(row))
            continue;
        assert_int_equal(set(row, row->least), 0);
        assert_int_equal(value_of(row), row->least);
        assert_int_equal(now.origins[row - ck_setting_rows], CK_ORIGIN_FLAG);
        assert_int_equal(set(row, row->most), 0);
        assert_int_equal(value_of(row), row->most);
        assert_int_equal(set(row, row->most + 1), CK_E_BAD_OPTION);
        assert_string_equal(err.where, row->field);
        if (row->least > 0)
            assert_int_equal(set(row, row->least - 1), CK_E_BAD_OPTION);
    }
    assert_int_equal(READ("--queue=-1"), CK_E_BAD_OPTION);
    assert_int_equal(READ("--queue=1K"), CK_E_BAD_OPTION);
    assert_int_equal(READ("--queue=auto"), CK_E_BAD_OPTION);
    assert_int_equal(READ("--queue="), CK_E_BAD_OPTION);
    assert_int_equal(READ("--workers=auto"), 0);
}

static void every_word_of_a_choice_is_taken_and_no_other(_unused_ void **state) {
    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++) {
        char name[CK_SETTING_NAME_MAX], flag[128], words[128];

        if (row->type != CK_SETTING_CHOICE)
            continue;
        ck_setting_flag(row, name);
        snprintf(words, sizeof(words), "%s", row->argument);
        for (char *at = words, *word; (word = strsep(&at, ",")) != NULL;) {
            assert_int_equal(READ(name, word), 0);
            assert_string_equal(*(char **)(void *)((char *)&now + row->offset), word);
            word[0] = (char)(word[0] - 'a' + 'A');
            assert_int_equal(READ(name, word), CK_E_BAD_OPTION);
        }
        assert_int_equal(READ(name, ""), CK_E_BAD_OPTION);
        assert_int_equal(READ(name, row->argument), CK_E_BAD_OPTION);
        snprintf(flag, sizeof(flag), "%sx", row->text);
        assert_int_equal(READ(name, flag), CK_E_BAD_OPTION);
        assert_non_null(strstr(err.message, row->argument));
    }
}

static void switches_know_both_words(_unused_ void **state) {
    assert_true(READ() == 0 && now.insecure == 0);
    assert_true(READ("--insecure") == 0 && now.insecure == 1);
    assert_true(READ("--insecure=no") == 0 && now.insecure == 0);
    assert_true(READ("--insecure=TRUE") == 0 && now.insecure == 1);
    assert_int_equal(READ("--insecure=maybe"), CK_E_BAD_OPTION);
}

static void texts_may_be_empty_if_their_default_is(_unused_ void **state) {
    assert_true(READ("--keys-file=") == 0 && now.keys_file[0] == 0);
    assert_int_equal(READ("--data="), CK_E_BAD_OPTION);
    assert_int_equal(READ("--listen", ""), CK_E_BAD_OPTION);
    assert_int_equal(READ("--data=a\nb"), CK_E_BAD_OPTION);
    assert_true(READ("--data=\xC3\xA9") == 0 && strcmp(now.data, "\xC3\xA9") == 0);
}

static void texts_are_owned(_unused_ void **state) {
    char flag[] = "--data=here";

    assert_int_equal(READ(flag), 0);
    memset(flag, 'x', sizeof(flag) - 1);
    assert_string_equal(now.data, "here");
    ck_settings_release(&now);
    assert_null(now.data);
    ck_settings_release(&now);
}

static void every_limit_of_the_core_is_a_flag(_unused_ void **state) {
#define X(name, value, what)                                                                                           \
    assert_int_equal(READ("--limit-" #name "=5"), 0);                                                                  \
    assert_int_equal(now.limits.name, 5);                                                                              \
    assert_int_equal(now.origins[CK_SETTING_limit_##name], CK_ORIGIN_FLAG);
    CK_LIMITS(X)
#undef X
    assert_int_equal(READ("--limit-zip-entries=5"), 0);
    assert_int_equal(READ("--limit-zip-entries=0"), CK_E_BAD_OPTION);
}

static void a_budget_holds_at_least_one_worker(_unused_ void **state) {
    assert_int_equal(READ("--worker-memory=1T"), 0);
    assert_int_equal(now.memory_budget, 1ull << 40);
    assert_int_equal(READ("--worker-memory=1T", "--memory-budget=auto"), 0);
    assert_int_equal(READ("--worker-memory=128M", "--memory-budget=128M"), 0);
    assert_int_equal(READ("--worker-memory=128M", "--memory-budget=134217727"), CK_E_BAD_OPTION);
    assert_string_equal(err.where, "memory_budget");
}

/* ---- flags ---- */

static void unknown_flags_name_the_nearest(_unused_ void **state) {
    assert_int_equal(READ("--max-uplod=1"), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.hint, "--max-upload"));
    assert_int_equal(READ("serve"), CK_E_BAD_OPTION);
    assert_int_equal(READ("--queue"), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "needs a value"));
    assert_int_equal(READ("--max_upload=1M"), 0);
}

static void actions_are_told_apart(_unused_ void **state) {
    assert_true(READ() == 0 && action == CK_SETTINGS_RUN);
    assert_true(READ("--print-config") == 0 && action == CK_SETTINGS_PRINT);
    assert_true(READ("--queue", "7", "--check-config") == 0 && action == CK_SETTINGS_CHECK && now.queue == 7);
    assert_int_equal(READ("--print-config", "--check-config"), CK_E_BAD_OPTION);
    assert_true(READ("--nonsense", "--help") == 0 && action == CK_SETTINGS_HELP);
}

/* ---- order ---- */

static void flags_win_over_the_environment_and_that_over_the_file(_unused_ void **state) {
    const char *path = file_of("order", "queue 1\nmax_files 1\nmax-json = 2048\n", 36);

    assert_int_equal(READ("--config", path), 0);
    assert_true(now.queue == 1 && now.max_files == 1 && now.max_json == 2048);
    setenv("CKPTD_QUEUE", "2", 1);
    setenv("CKPTD_MAX_FILES", "2", 1);
    setenv("CKPTD_SERVICE_PORT", "tcp://10.0.0.1", 1);
    assert_int_equal(READ("--config", path, "--queue", "3"), 0);
    unsetenv("CKPTD_QUEUE");
    unsetenv("CKPTD_MAX_FILES");
    unsetenv("CKPTD_SERVICE_PORT");
    assert_true(now.queue == 3 && now.max_files == 2 && now.max_json == 2048 && now.max_wait == 120);
    assert_int_equal(now.origins[CK_SETTING_queue], CK_ORIGIN_FLAG);
    assert_int_equal(now.origins[CK_SETTING_max_files], CK_ORIGIN_ENVIRONMENT);
    assert_int_equal(now.origins[CK_SETTING_max_json], CK_ORIGIN_FILE);
    assert_int_equal(now.origins[CK_SETTING_max_wait], CK_ORIGIN_DEFAULT);
    assert_string_equal(now.listen, "127.0.0.1:8080");
    assert_true(now.workers >= 1 && now.threads >= 1 && now.memory_budget >= now.worker_memory);
    assert_int_equal(now.limits.tensors, ck_limits_default.tensors);
}

static void the_environment_names_the_file_and_a_flag_another(_unused_ void **state) {
    const char *one = file_of("one", "queue 1\n", 8), *two = file_of("two", "queue 2\n", 8);

    setenv("CKPTD_CONFIG", one, 1);
    assert_true(READ() == 0 && now.queue == 1);
    assert_true(READ("--config", two) == 0 && now.queue == 2);
    assert_string_equal(now.config, two);
    assert_true(READ("--config=") == 0 && now.queue == 1000);
    setenv("CKPTD_CONFIG", "", 1);
    assert_true(READ() == 0 && now.queue == 1000);
    unsetenv("CKPTD_CONFIG");
}

static void a_variable_like_a_setting_is_a_typing_error(_unused_ void **state) {
    setenv("CKPTD_MAX_UPLOD", "1", 1);
    assert_int_equal(READ(), CK_E_BAD_OPTION);
    unsetenv("CKPTD_MAX_UPLOD");
    assert_non_null(strstr(err.hint, "CKPTD_MAX_UPLOAD"));
}

/* ---- the file ---- */

static void the_file_has_comments_quotes_and_both_spellings(_unused_ void **state) {
    assert_int_equal(read_file("# first\n\n  \t\r\n"
                               "max-upload = 3G   # of a client\r\n"
                               "\tmax_files\t9\n"
                               "queue=8\n"
                               "insecure yes\n"
                               "data = \"a # b \\\" \\\\ \" # quoted\n"
                               "keys_file = \"\"\n"
                               "limit-tensors 12\n"
                               "listen = [::1]:80#1"),
                     0);
    assert_int_equal(now.max_upload, 3ull << 30);
    assert_true(now.max_files == 9 && now.queue == 8 && now.insecure == 1 && now.limits.tensors == 12);
    assert_string_equal(now.data, "a # b \" \\ ");
    assert_string_equal(now.keys_file, "");
    assert_string_equal(now.listen, "[::1]:80#1");
    assert_int_equal(read_file(""), 0);
}

static void assert_bad_line(const char *text, const char *place, const char *what) {
    assert_int_equal(read_file(text), CK_E_BAD_OPTION);
    if (!strstr(err.message, place) || !strstr(err.message, what))
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", err.message, place, what);
}

static void errors_of_the_file_name_the_line(_unused_ void **state) {
    assert_bad_line("queue 1\n\nquue 2\n", "config:3", "unknown setting \"quue\"");
    assert_non_null(strstr(err.hint, "queue"));
    assert_bad_line("queue 1\n# x\nmax_files 2\nqueue 1\n", "config:4", "stands in line 1 already");
    assert_bad_line("max-json 1M\nmax_json 1M", "config:2", "line 1");
    assert_bad_line("queue many", "config:1: queue", "a whole number, not \"many\"");
    assert_bad_line("queue", "config:1", "needs a value: N");
    assert_bad_line("queue =", "config:1", "needs a value");
    assert_bad_line("data = # nothing", "config:1", "needs a value");
    assert_bad_line("data = \"open", "config:1", "quotes");
    assert_bad_line("data = \"a\" b", "config:1", "quotes");
    assert_bad_line("data = \"\"", "config:1", "empty");
    assert_bad_line("data = a\tb", "config:1", "control character");
    assert_bad_line("= 5", "config:1", "unknown setting");
    assert_bad_line("config = other", "config:1", "names no other");
    assert_bad_line("[serve]", "config:1", "unknown setting");
}

static void files_are_bounded_texts(_unused_ void **state) {
    size_t most = CK_SETTINGS_FILE_MAX;
    char *text = malloc(most + 1);

    assert_non_null(text);
    memset(text, '#', most + 1);
    assert_int_equal(READ("--config", file_of("most", text, most)), 0);
    assert_int_equal(READ("--config", file_of("more", text, most + 1)), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "larger than 1048576 bytes"));
    free(text);
    assert_int_equal(READ("--config", file_of("nul", "queue 1\n\0", 9)), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "NUL"));
    assert_int_equal(READ("--config", "/nowhere/at/all"), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    assert_int_equal(READ("--config", folder), CK_E_BAD_OPTION);
}

/* ---- what is printed ---- */

static char *print(void) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    ck_settings_print(&now, out);
    fclose(out);
    return text;
}

static void what_is_printed_reads_back_equal(_unused_ void **state) {
    _cleanup_(ck_freep) char *text = NULL;
    struct ck_settings before;

    setenv("CKPTD_MAX_FILES", "3", 1);
    assert_int_equal(READ("--config", file_of("some", "queue 5", 7), "--data", " a \"b\" \\ # c", "--max-upload=1025",
                          "--max-data=1536M", "--keys-file=k # x", "--insecure", "--access-log=errors",
                          "--limit-tensors=7", "--workers=3"),
                     0);
    unsetenv("CKPTD_MAX_FILES");
    text = print();
    assert_non_null(strstr(text, "\nqueue = 5 # file\n"));
    assert_non_null(strstr(text, "\nmax_files = 3 # environment\n"));
    assert_non_null(strstr(text, "\nmax_data = 1536M # flag\n"));
    assert_non_null(strstr(text, "\nmax_json = 1M # default\n"));
    before = now;
    now = (struct ck_settings){0};
    assert_int_equal(read_file(text), 0);
    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++) {
        const char *was = (const char *)&before + row->offset, *is = (const char *)&now + row->offset;

        if (row == &ck_setting_rows[CK_SETTING_config])
            continue;
        if (row->type == CK_SETTING_TEXT || row->type == CK_SETTING_CHOICE)
            assert_string_equal(*(char *const *)(const void *)was, *(char *const *)(const void *)is);
        else
            assert_memory_equal(was, is, sizeof(uint64_t));
    }
    ck_settings_release(&before);
}

/* A platform prints settings into its logs: whoever adds a row for a secret has to mask it first. */
static void no_setting_is_a_secret(_unused_ void **state) {
    static const char *const words[] = {"secret", "password", "token", "key"};

    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++)
        for (size_t i = 0; i < CK_ARRAY_LEN(words); i++)
            if (strstr(row->field, words[i]) && strcmp(row->field, "keys_file") != 0)
                fail_msg("%s may hold a secret", row->field);
}

/* ---- what is checked ---- */

static void an_address_needs_keys_or_a_word(_unused_ void **state) {
    const char *keys = file_of("keys", "# nobody yet\n", 13);

    assert_int_equal(READ("--data", folder), 0);
    assert_int_equal(ck_settings_check(&now, &err), 0);
    assert_int_equal(READ("--data", folder, "--listen=0.0.0.0:8080"), 0);
    assert_int_equal(ck_settings_check(&now, &err), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "--keys-file"));
    assert_int_equal(READ("--data", folder, "--listen=0.0.0.0:8080", "--insecure"), 0);
    assert_int_equal(ck_settings_check(&now, &err), 0);
    assert_int_equal(READ("--data", folder, "--listen=[::]:8080", "--keys-file", keys), 0);
    assert_int_equal(ck_settings_check(&now, &err), 0);
    assert_int_equal(READ("--data", folder, "--listen=127.0.0.1:65536"), 0);
    assert_int_equal(ck_settings_check(&now, &err), CK_E_BAD_OPTION);
    assert_int_equal(READ("--data", folder, "--listen=::1:80"), 0);
    assert_int_equal(ck_settings_check(&now, &err), CK_E_BAD_OPTION);
}

static void keys_and_data_are_looked_at(_unused_ void **state) {
    char inside[128], deep[128];

    snprintf(inside, sizeof(inside), "%s/new", folder);
    snprintf(deep, sizeof(deep), "%s/new/new", folder);
    assert_int_equal(READ("--data", inside), 0);
    assert_int_equal(ck_settings_check(&now, &err), 0);
    assert_int_not_equal(access(inside, F_OK), 0);
    assert_int_equal(READ("--data", deep), 0);
    assert_int_equal(ck_settings_check(&now, &err), CK_E_BAD_OPTION);
    assert_int_equal(READ("--data", file_of("plain", "", 0)), 0);
    assert_int_equal(ck_settings_check(&now, &err), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "is not a directory"));
    assert_int_equal(READ("--data", folder, "--keys-file=/nowhere/keys"), 0);
    assert_int_equal(ck_settings_check(&now, &err), CK_E_BAD_OPTION);
    assert_int_equal(READ("--data", folder, "--keys-file", file_of("bad", "alice\n", 6)), 0);
    assert_int_equal(ck_settings_check(&now, &err), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "bad:1"));
}

/* ---- memory ---- */

static void put(const char *path, const char *text) {
    char whole[256], *slash;
    FILE *file;

    snprintf(whole, sizeof(whole), "%s/%s", folder, path);
    slash = whole + strlen(folder);
    while ((slash = strchr(slash + 1, '/')) != NULL) {
        *slash = 0;
        mkdir(whole, 0700);
        *slash = '/';
    }
    file = fopen(whole, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_smallest_limit_of_the_groups_counts(_unused_ void **state) {
    uint64_t machine = ck_machine_memory("/nowhere");

    assert_true(machine > 64 * CK_MIB);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_int_equal(ck_machine_memory(folder), machine);
    put("sys/fs/cgroup/a/memory.max", "4194304\n");
    assert_int_equal(ck_machine_memory(folder), 4194304);
    put("sys/fs/cgroup/a/b/memory.max", "2097152\n");
    assert_int_equal(ck_machine_memory(folder), 2097152);
    put("proc/self/cgroup", "0::/outside/of/the/container\n");
    put("sys/fs/cgroup/memory.max", "1048576\n");
    assert_int_equal(ck_machine_memory(folder), 1048576);
    put("sys/fs/cgroup/memory.max", "18446744073709551615\n");
    assert_int_equal(ck_machine_memory(folder), machine);
    put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\nnonsense\n");
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "3145728\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(ck_machine_memory(folder), 3145728);
}

static void a_quota_of_processor_time_counts_as_processors(_unused_ void **state) {
    uint64_t machine = ck_machine_processors("/nowhere");

    assert_true(machine >= 1);
    put("proc/self/cgroup", "0::/q\n");
    put("sys/fs/cgroup/q/cpu.max", "max 100000\n");
    assert_int_equal(ck_machine_processors(folder), machine);
    put("sys/fs/cgroup/q/cpu.max", "100000 100000\n");
    assert_int_equal(ck_machine_processors(folder), 1);
    put("sys/fs/cgroup/q/cpu.max", "100001 100000\n");
    assert_int_equal(ck_machine_processors(folder), CK_MIN(machine, 2u));
    put("sys/fs/cgroup/q/cpu.max", "1000 100000\n");
    assert_int_equal(ck_machine_processors(folder), 1);
    put("proc/self/cgroup", "3:cpu,cpuacct:/x\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ck_machine_processors(folder), 1);
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(ck_machine_processors(folder), machine);
}

static int make_folder(_unused_ void **state) {
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(_unused_ void **state) {
    char command[128];

    ck_settings_release(&now);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_units_and_no_overflow),
        cmocka_unit_test(every_number_is_taken_at_its_bounds_and_refused_beyond),
        cmocka_unit_test(every_word_of_a_choice_is_taken_and_no_other),
        cmocka_unit_test(switches_know_both_words),
        cmocka_unit_test(texts_may_be_empty_if_their_default_is),
        cmocka_unit_test(texts_are_owned),
        cmocka_unit_test(every_limit_of_the_core_is_a_flag),
        cmocka_unit_test(a_budget_holds_at_least_one_worker),
        cmocka_unit_test(unknown_flags_name_the_nearest),
        cmocka_unit_test(actions_are_told_apart),
        cmocka_unit_test(flags_win_over_the_environment_and_that_over_the_file),
        cmocka_unit_test(the_environment_names_the_file_and_a_flag_another),
        cmocka_unit_test(a_variable_like_a_setting_is_a_typing_error),
        cmocka_unit_test(the_file_has_comments_quotes_and_both_spellings),
        cmocka_unit_test(errors_of_the_file_name_the_line),
        cmocka_unit_test(files_are_bounded_texts),
        cmocka_unit_test(what_is_printed_reads_back_equal),
        cmocka_unit_test(no_setting_is_a_secret),
        cmocka_unit_test(an_address_needs_keys_or_a_word),
        cmocka_unit_test(keys_and_data_are_looked_at),
        cmocka_unit_test(the_smallest_limit_of_the_groups_counts),
        cmocka_unit_test(a_quota_of_processor_time_counts_as_processors),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
