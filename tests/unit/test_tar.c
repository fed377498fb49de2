/* The reader of tar archives, on archives made header by header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/container/tar.h"
#include "tests/unit/tar_file.h"

struct opened {
    struct ck_tar tar;
    struct ck_findings findings;
    struct ck_error err;
    int r;
};

static struct opened open_with(const struct ck_buffer *bytes, const struct ck_limits *limits) {
    struct ck_source source = tar_source(bytes);
    struct opened o = {0};

    ck_findings_init(&o.findings);
    o.r = ck_tar_open(&source, limits, &o.findings, &o.tar, &o.err);
    return o;
}

static struct opened open_tar(const struct ck_buffer *bytes) {
    return open_with(bytes, &ck_limits_default);
}

static void opened_release(struct opened *o) {
    ck_tar_release(&o->tar);
    ck_findings_release(&o->findings);
}

static bool has_finding(const struct opened *o, const char *entry, const char *words) {
    for (size_t i = 0; i < o->findings.count; i++)
        if (strcmp(o->findings.items[i].entry, entry) == 0 && strstr(o->findings.items[i].name, words))
            return true;
    return false;
}

static void assert_file(struct opened *o, const char *name, const char *text) {
    const struct ck_tar_entry *entry = ck_tar_find(&o->tar, name);
    struct ck_source part;
    char bytes[64] = "";

    assert_non_null(entry);
    assert_int_equal(ck_tar_part(&o->tar, entry, &part, NULL), 0);
    assert_int_equal(part.length, strlen(text));
    assert_int_equal(ck_source_read(&part, 0, bytes, strlen(text), NULL), 0);
    assert_string_equal(bytes, text);
}

/* Opens, asserts code and words, and releases; the buffer is left alone. */
static void assert_refused(const struct ck_buffer *bytes, int code, const char *words) {
    _cleanup_(opened_release) struct opened o = open_tar(bytes);

    assert_int_equal(o.r, code);
    assert_int_equal(o.err.code, code);
    if (!strstr(o.err.message, words))
        fail_msg("\"%s\" lacks \"%s\"", o.err.message, words);
    assert_null(o.tar.entries);
}

static void entries_are_found_by_name_with_their_bytes(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
    _cleanup_(opened_release) struct opened o = {0};
    char block[512];

    (void)state;
    memset(block, 'x', sizeof(block));
    tar_add(&tar, "folder/", '5', "", 0);
    tar_add(&tar, "./folder/a.txt", '0', "hello", 5);
    tar_add(&tar, "full", 0, block, sizeof(block));
    tar_add(&tar, "empty", '0', "", 0);
    tar_add(&tar, "old-folder/", 0, "", 0);
    tar_add(&tar, "./", '5', "", 0);
    tar_add(&tar, "last", '7', "bye", 3);
    tar_end(&tar);
    o = open_tar(&tar);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.tar.count, 6);
    assert_int_equal(o.tar.entries[0].kind, CK_TAR_FOLDER);
    assert_string_equal(o.tar.entries[0].name, "folder");
    assert_int_equal(o.tar.entries[4].kind, CK_TAR_FOLDER);
    assert_file(&o, "folder/a.txt", "hello");
    assert_file(&o, "empty", "");
    assert_file(&o, "last", "bye");
    assert_int_equal(ck_tar_find(&o.tar, "full")->offset, 512 * 4);
    assert_null(ck_tar_find(&o.tar, "folder"));
    assert_null(ck_tar_find(&o.tar, "./folder/a.txt"));
    assert_int_equal(o.findings.count, 0);
}

static void a_prefix_of_posix_stands_before_the_name(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
    _cleanup_(opened_release) struct opened o = {0};
    struct tar_header header = tar_header("name", '0', 2);

    (void)state;
    memcpy(header.bytes + 345, "some/folder", 11);
    tar_sum(&header);
    tar_add_header(&tar, &header, "ok", 2);
    memcpy(header.bytes + 257, "ustar  ", 8); /* GNU keeps times there */
    tar_sum(&header);
    tar_add_header(&tar, &header, "go", 2);
    tar_end(&tar);
    o = open_tar(&tar);
    assert_int_equal(o.r, 0);
    assert_file(&o, "some/folder/name", "ok");
    assert_file(&o, "name", "go");
}

static void long_names_come_from_pax_and_from_gnu(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
    _cleanup_(opened_release) struct opened o = {0};
    char name[300], gnu[300];

    (void)state;
    memset(name, 'p', sizeof(name));
    name[299] = 0;
    memset(gnu, 'g', sizeof(gnu));
    gnu[299] = 0;
    tar_add_pax(&tar, 'g', "comment", "made by git");
    tar_add_pax(&tar, 'x', "path", name);
    tar_add(&tar, "short", '0', "pax", 3);
    tar_add(&tar, "././@LongLink", 'L', gnu, 300);
    tar_add(&tar, "short", '0', "gnu", 3);
    tar_add(&tar, "short", '0', "own", 3);
    tar_end(&tar);
    o = open_tar(&tar);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.tar.count, 3);
    assert_file(&o, name, "pax");
    assert_file(&o, gnu, "gnu");
    assert_file(&o, "short", "own");
}

static void a_size_may_stand_in_a_pax_record_or_in_base_256(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
    _cleanup_(opened_release) struct opened o = {0};
    struct tar_header header = tar_header("pax", '0', 0);

    (void)state;
    tar_add_pax(&tar, 'x', "size", "4");
    tar_add_header(&tar, &header, "four", 4);
    header = tar_header("gnu", '0', 0);
    memcpy(header.bytes + 124, "\x80\0\0\0\0\0\0\0\0\0\0\5", 12);
    tar_sum(&header);
    tar_add_header(&tar, &header, "fifth", 5);
    tar_end(&tar);
    o = open_tar(&tar);
    assert_int_equal(o.r, 0);
    assert_file(&o, "pax", "four");
    assert_file(&o, "gnu", "fifth");
}

static void what_two_readers_would_read_differently_is_refused(void **state) {
    struct tar_header header;

    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
        static const char *const words[] = {"second time", "second time", "two long names", "two sizes",
                                            "two sizes",   "has a size",  "global header",  "NUL"};

        tar_add(&tar, "a", '0', "1", 1);
        switch (kind) {
        case 0:
            tar_add(&tar, "a", '0', "2", 1);
            break;
        case 1:
            tar_add(&tar, "./a", '2', "", 0);
            break;
        case 2:
            tar_add_pax(&tar, 'x', "path", "b");
            tar_add(&tar, "././@LongLink", 'L', "c", 1);
            tar_add(&tar, "d", '0', "2", 1);
            break;
        case 3:
            tar_add_pax(&tar, 'x', "size", "2");
            tar_add(&tar, "d", '0', "2", 1);
            break;
        case 4:
            tar_add_pax(&tar, 'x', "size", "1");
            tar_add_pax(&tar, 'x', "size", "1");
            tar_add(&tar, "d", '0', "2", 1);
            break;
        case 5:
            tar_add(&tar, "d/", '5', "2", 1);
            break;
        case 6:
            tar_add_pax(&tar, 'g', "path", "b");
            break;
        case 7:
            tar_add(&tar, "x", 'x', "11 path=a\0b\n", 12);
            break;
        }
        tar_end(&tar);
        if (kind == 7) { /* a record of 12 bytes */
            memcpy(tar.data + 1024 + 512, "12 path=a\0b\n", 12);
            header = tar_header("x", 'x', 12);
            memcpy(tar.data + 1024, header.bytes, 512);
        }
        assert_refused(&tar, CK_E_ARCHIVE_UNSAFE, words[kind]);
    }
}

static void damaged_headers_are_refused(void **state) {
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
        struct tar_header header = tar_header("b", '0', 1);
        static const char *const words[] = {
            "checksum", "size", "size", "wrong length", "no number", "without a value", "behind an extended", "1 MiB"};

        tar_add(&tar, "a", '0', "1", 1);
        if (kind == 0)
            header.bytes[0] = 'c';
        if (kind == 1) {
            memcpy(header.bytes + 124, "0000009", 7);
            tar_sum(&header);
        }
        if (kind == 2) {
            memset(header.bytes + 124, 0xFF, 12); /* -1 in base 256 */
            tar_sum(&header);
        }
        if (kind == 3)
            tar_add(&tar, "x", 'x', "99 path=b\n", 10);
        if (kind == 4)
            tar_add_pax(&tar, 'x', "size", "1x");
        if (kind == 5)
            tar_add(&tar, "x", 'x', "7 path\n", 7);
        if (kind == 7) {
            header = tar_header("x", 'x', 1048577);
            tar_add_header(&tar, &header, "", 0);
            for (int i = 0; i < 2049; i++)
                tar_end(&tar);
        } else if (kind != 6) {
            tar_add_header(&tar, &header, "1", 1);
        } else {
            tar_add_pax(&tar, 'x', "path", "b");
        }
        tar_end(&tar);
        assert_refused(&tar, CK_E_ARCHIVE_CORRUPT, words[kind]);
    }
}

static void odd_entries_are_findings_and_are_not_read(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
    _cleanup_(opened_release) struct opened o = {0};
    struct tar_header header = tar_header("link", '2', 0);
    struct ck_source part;

    (void)state;
    memcpy(header.bytes + 157, "/etc/passwd", 11);
    tar_sum(&header);
    tar_add_header(&tar, &header, "", 0);
    tar_add(&tar, "a/../../b", '0', "1", 1);
    tar_add(&tar, "/root", '0', "1", 1);
    tar_add(&tar, "a..b/..c", '0', "1", 1);
    tar_add(&tar, "pipe", '6', "", 0);
    tar_add(&tar, "sparse", 'S', "1", 1);
    tar_add_pax(&tar, 'x', "GNU.sparse.major", "1");
    tar_add(&tar, "newer-sparse", '0', "1", 1);
    tar_end(&tar);
    tar_bytes(&tar, "more", 4);
    o = open_tar(&tar);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.tar.entries[0].kind, CK_TAR_LINK);
    assert_string_equal(o.tar.entries[0].link, "/etc/passwd");
    assert_null(ck_tar_find(&o.tar, "link"));
    assert_int_equal(ck_tar_part(&o.tar, &o.tar.entries[0], &part, NULL), CK_E_UNSUPPORTED_FORM);
    assert_true(has_finding(&o, "link", "link"));
    assert_true(has_finding(&o, "a/../../b", "leads out"));
    assert_true(has_finding(&o, "/root", "leads out"));
    assert_false(has_finding(&o, "a..b/..c", "leads out"));
    assert_true(has_finding(&o, "pipe", "no plain file"));
    assert_null(ck_tar_find(&o.tar, "sparse"));
    assert_null(ck_tar_find(&o.tar, "newer-sparse"));
    assert_true(has_finding(&o, "", "bytes follow"));
}

/* Whatever is missing, the reader says so, or has read all entries that are whole. */
static void an_archive_cut_anywhere_is_told(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
    size_t whole;

    (void)state;
    tar_add_pax(&tar, 'x', "path", "a");
    tar_add(&tar, "short", '0', "hello", 5);
    tar_add(&tar, "b", '0', "you", 3);
    tar_end(&tar);
    whole = tar.length;
    for (size_t n = 1; n < whole; n++) {
        _cleanup_(opened_release) struct opened o = {0};
        _cleanup_(ck_freep) void *exact = malloc(n);
        struct ck_source source;

        memcpy(exact, tar.data, n);
        source = ck_source_from_memory(exact, n);
        ck_findings_init(&o.findings);
        o.r = ck_tar_open(&source, &ck_limits_default, &o.findings, &o.tar, &o.err);
        if (o.r < 0)
            assert_int_equal(o.r, CK_E_TRUNCATED);
        if (n < 512 * 3 + 5)
            assert_true(o.r < 0);
        else if (o.r == 0)
            assert_int_equal(o.tar.count, n < 512 * 5 ? 1 : 2);
        if (o.r == 0 && n < whole - 1024 + 1)
            assert_true(has_finding(&o, "", "no end mark"));
    }
}

static void limits_hold_at_the_limit_and_not_one_past(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
    struct ck_limits limits = ck_limits_default;

    (void)state;
    tar_add(&tar, "a", '0', "", 0);
    tar_add(&tar, "b", '0', "", 0);
    tar_end(&tar);
    limits.tar_entries = 2;
    {
        _cleanup_(opened_release) struct opened o = open_with(&tar, &limits);
        assert_int_equal(o.r, 0);
    }
    limits.tar_entries = 1;
    {
        _cleanup_(opened_release) struct opened o = open_with(&tar, &limits);
        assert_int_equal(o.r, CK_E_TENSOR_LIMIT);
        assert_non_null(strstr(o.err.message, "--limit-tar-entries"));
    }
    limits = ck_limits_default;
    limits.model_memory = 1;
    {
        _cleanup_(opened_release) struct opened o = open_with(&tar, &limits);
        assert_int_equal(o.r, CK_E_TENSOR_LIMIT);
        assert_non_null(strstr(o.err.message, "--limit-model-memory"));
    }
}

static void a_name_of_4096_bytes_is_read_and_one_more_is_not(void **state) {
    (void)state;
    for (size_t n = 4096; n <= 4097; n++) {
        _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
        _cleanup_(opened_release) struct opened o = {0};
        char name[4098];

        memset(name, 'n', n);
        name[n] = 0;
        tar_add_pax(&tar, 'x', "path", name);
        tar_add(&tar, "x", '0', "", 0);
        tar_end(&tar);
        o = open_tar(&tar);
        assert_int_equal(o.r, n == 4096 ? 0 : CK_E_ARCHIVE_CORRUPT);
    }
}

static void an_archive_without_entries_is_no_checkpoint(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};

    (void)state;
    tar_end(&tar);
    assert_refused(&tar, CK_E_NOT_A_CHECKPOINT, "without entries");
}

static void a_header_is_told_by_its_sum_with_or_without_signs(void **state) {
    struct tar_header header = tar_header("\xC3\xA4", '0', 0);
    uint8_t zeros[512] = {0};
    unsigned sum = 0;

    (void)state;
    assert_true(ck_tar_is_header((uint8_t *)header.bytes));
    memset(header.bytes + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        sum += (unsigned)(int)(int8_t)header.bytes[i];
    snprintf(header.bytes + 148, 8, "%06o", sum);
    assert_true(ck_tar_is_header((uint8_t *)header.bytes));
    header.bytes[300]++;
    assert_false(ck_tar_is_header((uint8_t *)header.bytes));
    assert_false(ck_tar_is_header(zeros));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_by_name_with_their_bytes),
        cmocka_unit_test(a_prefix_of_posix_stands_before_the_name),
        cmocka_unit_test(long_names_come_from_pax_and_from_gnu),
        cmocka_unit_test(a_size_may_stand_in_a_pax_record_or_in_base_256),
        cmocka_unit_test(what_two_readers_would_read_differently_is_refused),
        cmocka_unit_test(damaged_headers_are_refused),
        cmocka_unit_test(odd_entries_are_findings_and_are_not_read),
        cmocka_unit_test(an_archive_cut_anywhere_is_told),
        cmocka_unit_test(limits_hold_at_the_limit_and_not_one_past),
        cmocka_unit_test(a_name_of_4096_bytes_is_read_and_one_more_is_not),
        cmocka_unit_test(an_archive_without_entries_is_no_checkpoint),
        cmocka_unit_test(a_header_is_told_by_its_sum_with_or_without_signs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
