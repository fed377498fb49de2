/* Unpacking gzip: members, damage at every byte, and the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "core/container/gzip.h"
#include "tests/unit/gzip_file.h"

struct unpacked {
    struct ck_scratch scratch;
    struct ck_source bytes;
    struct ck_findings findings;
    struct ck_error err;
    int r;
};

static struct unpacked unpack_with(const struct ck_buffer *gzip, const struct ck_limits *limits) {
    struct ck_source source = ck_source_from_memory(ck_buffer_text(gzip), gzip->length);
    struct unpacked u = {.scratch = {.fd = memfd_create("test", MFD_CLOEXEC), .limit = limits->unpacked_bytes}};

    assert_true(u.scratch.fd >= 0);
    ck_findings_init(&u.findings);
    assert_int_equal(ck_scratch_add(&u.scratch, "before", 6, NULL), 0);
    u.r = ck_gzip_unpack(&source, limits, &u.findings, &u.scratch, &u.bytes, &u.err);
    return u;
}

static void unpacked_release(struct unpacked *u) {
    ck_closep(&u->scratch.fd);
    ck_findings_release(&u->findings);
}

static void assert_unpacks_to(const struct ck_buffer *gzip, const char *text, size_t findings) {
    _cleanup_(unpacked_release) struct unpacked u = unpack_with(gzip, &ck_limits_default);
    char bytes[64] = "";

    assert_int_equal(u.r, 0);
    assert_int_equal(u.bytes.length, strlen(text));
    assert_int_equal(ck_source_read(&u.bytes, 0, bytes, strlen(text), NULL), 0);
    assert_string_equal(bytes, text);
    assert_int_equal(u.scratch.used, 6 + strlen(text));
    assert_int_equal(u.findings.count, findings);
}

static void assert_refused_with(const struct ck_buffer *gzip, const struct ck_limits *limits, int code,
                                const char *words) {
    _cleanup_(unpacked_release) struct unpacked u = unpack_with(gzip, limits);

    if (u.r != code || u.err.code != code || !strstr(u.err.message, words))
        fail_msg("%d, \"%s\" does not say \"%s\"", u.r, u.err.message, words);
    assert_int_equal(u.scratch.used, 6);
}

static void assert_refused(const struct ck_buffer *gzip, int code, const char *words) {
    assert_refused_with(gzip, &ck_limits_default, code, words);
}

static void assert_unpacks_within(const struct ck_buffer *gzip, const struct ck_limits *limits) {
    _cleanup_(unpacked_release) struct unpacked u = unpack_with(gzip, limits);

    assert_int_equal(u.r, 0);
}

static void one_member_is_unpacked(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};

    (void)state;
    gzip_add(&gzip, "weights", 7);
    assert_unpacks_to(&gzip, "weights", 0);
}

static void members_one_after_another_are_one_file(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};

    (void)state;
    gzip_add(&gzip, "wei", 3);
    gzip_add(&gzip, "", 0);
    gzip_add(&gzip, "ghts", 4);
    assert_unpacks_to(&gzip, "weights", 0);
}

static void zeros_behind_are_filling_and_other_bytes_a_finding(void **state) {
    static const char zeros[40000];
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};

    (void)state;
    gzip_add(&gzip, "weights", 7);
    ck_buffer_add(&gzip, zeros, sizeof(zeros));
    assert_unpacks_to(&gzip, "weights", 0);
    ck_buffer_add(&gzip, "x", 1);
    assert_unpacks_to(&gzip, "weights", 1);
}

static void file_cut_off_at_any_byte_is_refused(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};

    (void)state;
    gzip_add(&gzip, "weights and biases", 18);
    for (size_t n = gzip.length; n-- > 0;) {
        gzip.length = n;
        assert_refused(&gzip, CK_E_TRUNCATED, "cut off");
    }
}

static void second_member_that_is_cut_off_is_refused(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};

    (void)state;
    gzip_add(&gzip, "weights", 7);
    gzip_add(&gzip, "weights", 7);
    gzip.length--;
    assert_refused(&gzip, CK_E_TRUNCATED, "cut off");
}

static void wrong_crc_length_or_header_is_refused(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};

    (void)state;
    gzip_add(&gzip, "weights", 7);
    gzip.data[gzip.length - 8] ^= 1;
    assert_refused(&gzip, CK_E_ARCHIVE_CORRUPT, "incorrect data check");
    gzip.data[gzip.length - 8] ^= 1;
    gzip.data[gzip.length - 1] ^= 1;
    assert_refused(&gzip, CK_E_ARCHIVE_CORRUPT, "incorrect length check");
    gzip.data[gzip.length - 1] ^= 1;
    gzip.data[2] = 9;
    assert_refused(&gzip, CK_E_ARCHIVE_CORRUPT, "unknown compression method");
}

static void unpacked_bytes_stop_at_their_limit(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};
    struct ck_limits limits = ck_limits_default;

    (void)state;
    gzip_add(&gzip, "weights", 7);
    limits.unpacked_bytes = 6 + 7;
    assert_unpacks_within(&gzip, &limits);
    limits.unpacked_bytes = 6 + 6;
    assert_refused_with(&gzip, &limits, CK_E_TENSOR_LIMIT, "--limit-unpacked-bytes");
}

static void ratio_counts_beyond_64_mib(void **state) {
    struct ck_limits limits = ck_limits_default;

    (void)state;
    assert_false(ck_unpacks_too_far(1, 64 * CK_MIB, &limits));
    assert_true(ck_unpacks_too_far(1, 64 * CK_MIB + 1, &limits));
    assert_false(ck_unpacks_too_far(CK_MIB, 200 * CK_MIB, &limits));
    assert_false(ck_unpacks_too_far(CK_MIB, 200 * CK_MIB + 199, &limits));
    assert_true(ck_unpacks_too_far(CK_MIB, 200 * CK_MIB + 200, &limits));
    limits.unpacked_ratio = 0;
    assert_true(ck_unpacks_too_far(CK_MIB, 200 * CK_MIB, &limits));
}

static void bomb_is_refused_before_it_is_unpacked(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};
    size_t n = 70u << 20;
    _cleanup_(ck_freep) char *zeros = calloc(1, n);

    (void)state;
    gzip_add(&gzip, zeros, n);
    assert_refused(&gzip, CK_E_TENSOR_LIMIT, "--limit-unpacked-ratio");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_member_is_unpacked),
        cmocka_unit_test(members_one_after_another_are_one_file),
        cmocka_unit_test(zeros_behind_are_filling_and_other_bytes_a_finding),
        cmocka_unit_test(file_cut_off_at_any_byte_is_refused),
        cmocka_unit_test(second_member_that_is_cut_off_is_refused),
        cmocka_unit_test(wrong_crc_length_or_header_is_refused),
        cmocka_unit_test(unpacked_bytes_stop_at_their_limit),
        cmocka_unit_test(ratio_counts_beyond_64_mib),
        cmocka_unit_test(bomb_is_refused_before_it_is_unpacked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
