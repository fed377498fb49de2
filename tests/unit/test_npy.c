/* Headers of .npy files: what is read, what is refused, and that no cut file is taken for a whole one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/container/npy.h"

struct npy_file {
    char bytes[1024];
    size_t length;
};

static struct npy_file npy_of(unsigned version, const char *text) {
    struct npy_file file = {.bytes = "\x93NUMPY"};
    size_t n = strlen(text), head = version == 1 ? 10 : 12;

    file.bytes[6] = (char)version;
    file.bytes[8] = (char)n;
    file.bytes[9] = (char)(n >> 8);
    memcpy(file.bytes + head, text, n);
    file.length = head + n;
    return file;
}

static int open_text(const char *text, struct ck_npy *npy, struct ck_error *err) {
    struct npy_file file = npy_of(1, text);
    struct ck_source source = ck_source_from_memory(file.bytes, file.length);

    return ck_npy_open(&source, "x.npy", npy, err);
}

static void all_three_versions_are_read(void **state) {
    (void)state;
    for (unsigned version = 1; version <= 3; version++) {
        struct npy_file file = npy_of(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }     \n");
        struct ck_source source = ck_source_from_memory(file.bytes, file.length);
        struct ck_npy npy;

        assert_true(ck_npy_recognise(&source));
        assert_int_equal(ck_npy_open(&source, "", &npy, NULL), 0);
        assert_int_equal(npy.type.dtype, CK_F32);
        assert_false(npy.type.big);
        assert_false(npy.fortran);
        assert_int_equal(npy.rank, 2);
        assert_int_equal(npy.shape[0], 3);
        assert_int_equal(npy.shape[1], 4);
        assert_int_equal(npy.offset, file.length);
    }
}

static void order_of_keys_quotes_and_python_2_sizes_do_not_matter(void **state) {
    struct ck_npy npy;

    (void)state;
    assert_int_equal(open_text("{\"shape\":(2L,1L),\"fortran_order\":True,\"descr\":\">i8\"}", &npy, NULL), 0);
    assert_true(npy.fortran && npy.type.big);
    assert_int_equal(npy.type.dtype, CK_I64);
    assert_int_equal(npy.rank, 2);
    assert_int_equal(npy.shape[0], 2);
    assert_int_equal(open_text("{'descr': '|b1', 'fortran_order': False, 'shape': ()}", &npy, NULL), 0);
    assert_int_equal(npy.rank, 0);
    assert_int_equal(npy.type.dtype, CK_BOOL);
}

static void every_type_of_numpy_has_its_dtype_or_its_reason(void **state) {
    static const struct {
        const char *text;
        enum ck_dtype dtype;
        uint64_t size;
        const char *refusal;
    } rows[] = {
        {"<f2", CK_F16, 2, ""},
        {"<f4", CK_F32, 4, ""},
        {">f8", CK_F64, 8, ""},
        {"|i1", CK_I8, 1, ""},
        {"<i2", CK_I16, 2, ""},
        {"<i4", CK_I32, 4, ""},
        {"<i8", CK_I64, 8, ""},
        {"|u1", CK_U8, 1, ""},
        {"<u2", CK_U16, 2, ""},
        {">u4", CK_U32, 4, ""},
        {"<u8", CK_U64, 8, ""},
        {"|b1", CK_BOOL, 1, ""},
        {"<c8", CK_C64, 8, ""},
        {"<c16", CK_C128, 16, ""},
        {"b1", CK_BOOL, 1, ""},
        {"=f4", CK_F32, 4, ""},
        {"<U10", CK_DTYPE_END_, 40, "text"},
        {"|S5", CK_DTYPE_END_, 5, "byte strings"},
        {"|V12", CK_DTYPE_END_, 12, "structured or raw"},
        {"|O", CK_DTYPE_END_, 0, "Python objects"},
        {"<M8[ns]", CK_DTYPE_END_, 8, "dates"},
        {"<m8[us]", CK_DTYPE_END_, 8, "spans of time"},
        {"<f16", CK_DTYPE_END_, 16, "an extended float"},
        {"<c32", CK_DTYPE_END_, 32, "an extended complex number"},
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++) {
        struct ck_numpy_type type;

        assert_true(ck_numpy_type_parse(rows[i].text, strlen(rows[i].text), &type));
        assert_int_equal(type.dtype, rows[i].dtype);
        assert_int_equal(type.size, rows[i].size);
        assert_int_equal(type.big, rows[i].text[0] == '>');
        assert_string_equal(ck_numpy_type_refusal(&type), rows[i].refusal);
    }
}

static void words_that_are_no_type_are_refused(void **state) {
    static const char *const words[] = {"",       "<",    "f",       "i3",           "b2", "u16", "x4",  "<f4 ",
                                        "f4[ns]", "<<f4", "float32", "f99999999999", "4f", "?",   "M8ns"};
    struct ck_numpy_type type;

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(words); i++)
        assert_false(ck_numpy_type_parse(words[i], strlen(words[i]), &type));
}

static void a_structured_array_is_kind_v_whatever_its_fields(void **state) {
    struct ck_npy npy;

    (void)state;
    assert_int_equal(open_text("{'descr': [('a]', '<f4', (2, 3)), ('b', [('c', '|S3')])], 'fortran_order': False, "
                               "'shape': (7,), }",
                               &npy, NULL),
                     0);
    assert_int_equal(npy.type.kind, 'V');
    assert_int_equal(npy.type.dtype, CK_DTYPE_END_);
    assert_int_equal(npy.shape[0], 7);
}

static void a_damaged_header_is_refused_with_the_entry(void **state) {
    static const char *const texts[] = {
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': 'q', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': [('a', '<f4'), 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
        "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (3,)}",
        "__import__('os').system('true')",
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(texts); i++) {
        struct ck_npy npy = {.rank = 77};
        struct ck_error err = {0};

        if (open_text(texts[i], &npy, &err) != CK_E_HEADER_CORRUPT)
            fail_msg("%s was read", texts[i]);
        assert_string_equal(err.where, "x.npy");
        assert_int_equal(npy.rank, 77);
    }
}

static void rank_is_read_up_to_64_and_no_further(void **state) {
    char text[512];

    (void)state;
    for (unsigned rank = CK_RANK_MAX; rank <= CK_RANK_MAX + 1; rank++) {
        struct ck_npy npy;
        size_t n = (size_t)snprintf(text, sizeof(text), "{'descr': '|u1', 'fortran_order': False, 'shape': (");

        for (unsigned i = 0; i < rank; i++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "1,");
        snprintf(text + n, sizeof(text) - n, ")}");
        assert_int_equal(open_text(text, &npy, NULL), rank > CK_RANK_MAX ? CK_E_HEADER_CORRUPT : 0);
    }
}

static void no_cut_header_is_taken_for_a_whole_one(void **state) {
    struct npy_file file = npy_of(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n");

    (void)state;
    for (size_t n = 0; n < file.length; n++) {
        struct ck_source source = ck_source_from_memory(file.bytes, n);
        struct ck_error err = {0};
        struct ck_npy npy;

        assert_int_equal(ck_npy_open(&source, "", &npy, &err), CK_E_TRUNCATED);
    }
}

static void other_versions_and_huge_texts_are_refused(void **state) {
    struct npy_file file = npy_of(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n");
    struct ck_source source = ck_source_from_memory(file.bytes, file.length);
    struct ck_npy npy;

    (void)state;
    for (int version = 0; version < 6; version++) {
        file.bytes[6] = (char)version;
        if (version == 0 || version > 3)
            assert_int_equal(ck_npy_open(&source, "", &npy, NULL), CK_E_HEADER_CORRUPT);
    }
    file = npy_of(2, "");
    file.bytes[10] = 1;
    file.bytes[8] = 1;
    source = ck_source_from_memory(file.bytes, sizeof(file.bytes));
    assert_int_equal(ck_npy_open(&source, "", &npy, NULL), CK_E_HEADER_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_three_versions_are_read),
        cmocka_unit_test(order_of_keys_quotes_and_python_2_sizes_do_not_matter),
        cmocka_unit_test(every_type_of_numpy_has_its_dtype_or_its_reason),
        cmocka_unit_test(words_that_are_no_type_are_refused),
        cmocka_unit_test(a_structured_array_is_kind_v_whatever_its_fields),
        cmocka_unit_test(a_damaged_header_is_refused_with_the_entry),
        cmocka_unit_test(rank_is_read_up_to_64_and_no_further),
        cmocka_unit_test(no_cut_header_is_taken_for_a_whole_one),
        cmocka_unit_test(other_versions_and_huge_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
