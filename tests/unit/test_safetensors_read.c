/* Files are built here from a header's text and a number of data bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <fcntl.h>

#include <cmocka.h>

#include "core/base/buffer.h"
#include "core/container/safetensors.h"

/* The file: length field, header, data bytes of value 0. */
static void build(struct ck_buffer *file, const char *header, size_t data) {
    uint64_t n = strlen(header);

    ck_buffer_init(file, SIZE_MAX);
    for (int i = 0; i < 8; i++) {
        uint8_t byte = (uint8_t)(n >> 8 * i);

        assert_true(ck_buffer_add(file, &byte, 1));
    }
    assert_true(ck_buffer_add(file, header, n));
    for (size_t i = 0; i < data; i++)
        assert_true(ck_buffer_add(file, "", 1));
}

static int open_bytes(const void *bytes, size_t n, const struct ck_limits *limits, struct ck_safetensors *file,
                      struct ck_error *err) {
    struct ck_source source = ck_source_from_memory(bytes, n);
    int r;

    *err = (struct ck_error){0};
    memset(file, 0, sizeof(*file));
    r = ck_safetensors_open(&source, limits, file, err);
    assert_int_equal(r, err->code);
    if (r < 0)
        assert_null(file->entries);
    return r;
}

static void opens_with(const char *header, size_t data, struct ck_safetensors *file) {
    _cleanup_(ck_buffer_release) struct ck_buffer bytes;
    struct ck_error err;

    build(&bytes, header, data);
    if (open_bytes(bytes.data, bytes.length, &ck_limits_default, file, &err) < 0)
        fail_msg("%s: %s", header, err.message);
}

static void refused_limits(const char *header, size_t data, const struct ck_limits *limits, int code, const char *where,
                           const char *words) {
    _cleanup_(ck_buffer_release) struct ck_buffer bytes;
    struct ck_safetensors file;
    struct ck_error err;

    build(&bytes, header, data);
    if (open_bytes(bytes.data, bytes.length, limits, &file, &err) != code)
        fail_msg("%s: code %d, \"%s\"", header, err.code, err.message);
    if (!strstr(err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    assert_string_equal(err.where, where);
}

static void refused(const char *header, size_t data, const char *where, const char *words) {
    refused_limits(header, data, &ck_limits_default, CK_E_HEADER_CORRUPT, where, words);
}

/* ------------------------------------------------------------------------------------------ what opens */

static void tensors_come_in_the_order_of_the_data(void **state) {
    static const char header[] = "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
                                 "\"__metadata__\":{\"format\":\"pt\",\"note\":\"\"},"
                                 "\"a\":{\"data_offsets\":[0,4],\"shape\":[],\"dtype\":\"F32\"},"
                                 "\"\xC3\xBC\":{\"dtype\":\"I64\",\"shape\":[5,0],\"data_offsets\":[28,28]}}   ";
    _cleanup_(ck_safetensors_release) struct ck_safetensors file;
    uint64_t start = 8 + sizeof(header) - 1;

    (void)state;
    opens_with(header, 28, &file);
    assert_int_equal(file.data_start, start);
    assert_int_equal(file.count, 3);
    assert_string_equal(file.entries[0].name, "a");
    assert_int_equal(file.entries[0].dtype, CK_F32);
    assert_int_equal(file.entries[0].rank, 0);
    assert_non_null(file.entries[0].shape);
    assert_int_equal(file.entries[0].offset, start);
    assert_int_equal(file.entries[0].bytes, 4);
    assert_string_equal(file.entries[1].name, "b");
    assert_int_equal(file.entries[1].rank, 2);
    assert_int_equal(file.entries[1].shape[0], 2);
    assert_int_equal(file.entries[1].shape[1], 3);
    assert_int_equal(file.entries[1].offset, start + 4);
    assert_int_equal(file.entries[1].bytes, 24);
    assert_string_equal(file.entries[2].name, "\xC3\xBC");
    assert_int_equal(file.entries[2].dtype, CK_I64);
    assert_int_equal(file.entries[2].bytes, 0);
    assert_int_equal(file.n_metadata, 2);
    assert_string_equal(ck_safetensors_metadata(&file, "format"), "pt");
    assert_string_equal(ck_safetensors_metadata(&file, "note"), "");
    assert_null(ck_safetensors_metadata(&file, "a"));
    assert_ptr_equal(ck_safetensors_find(&file, "b"), &file.entries[1]);
    assert_null(ck_safetensors_find(&file, "c"));
}

static void file_without_tensors_opens(void **state) {
    _cleanup_(ck_safetensors_release) struct ck_safetensors file;

    (void)state;
    opens_with("{}", 0, &file);
    assert_int_equal(file.count, 0);
    assert_null(ck_safetensors_find(&file, "a"));
}

/* mx.save_safetensors without metadata. */
static void null_metadata_of_mlx_counts_as_none(void **state) {
    _cleanup_(ck_safetensors_release) struct ck_safetensors file;

    (void)state;
    opens_with("{\"__metadata__\":null,\"x\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3, &file);
    assert_int_equal(file.n_metadata, 0);
    assert_int_equal(file.count, 1);
}

static void unaligned_tensors_open(void **state) {
    _cleanup_(ck_safetensors_release) struct ck_safetensors file;

    (void)state;
    opens_with("{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
               "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[3,11]}}",
               11, &file);
    assert_int_equal(file.entries[1].offset, file.data_start + 3);
}

static void fields_that_the_format_does_not_know_are_passed_over(void **state) {
    _cleanup_(ck_safetensors_release) struct ck_safetensors file;

    (void)state;
    opens_with("{\"a\":{\"dtype\":\"U8\",\"extra\":{\"x\":[1,2]},\"shape\":[1],\"data_offsets\":[0,1]}}", 1, &file);
    assert_int_equal(file.entries[0].bytes, 1);
}

static void every_dtype_of_the_format_has_its_size(void **state) {
    static const struct {
        const char *name;
        unsigned bits;
        bool read;
    } dtypes[] = {{"BOOL", 8, true},    {"F4", 4, false},         {"F6_E2M3", 6, false},    {"F6_E3M2", 6, false},
                  {"U8", 8, true},      {"I8", 8, true},          {"F8_E5M2", 8, true},     {"F8_E4M3", 8, true},
                  {"F8_E8M0", 8, true}, {"F8_E4M3FNUZ", 8, true}, {"F8_E5M2FNUZ", 8, true}, {"I16", 16, true},
                  {"U16", 16, true},    {"F16", 16, true},        {"BF16", 16, true},       {"I32", 32, true},
                  {"U32", 32, true},    {"F32", 32, true},        {"C64", 64, true},        {"F64", 64, true},
                  {"I64", 64, true},    {"U64", 64, true}};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(dtypes); i++) {
        _cleanup_(ck_safetensors_release) struct ck_safetensors file;
        char header[128];

        snprintf(header, sizeof(header), "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%u]}}",
                 dtypes[i].name, dtypes[i].bits);
        opens_with(header, dtypes[i].bits, &file);
        assert_int_equal(file.entries[0].error == NULL, dtypes[i].read);
        if (dtypes[i].read)
            assert_string_equal(ck_dtype_row(file.entries[0].dtype)->safetensors, dtypes[i].name);
        else
            assert_non_null(strstr(file.entries[0].error, dtypes[i].name));
    }
}

/* ------------------------------------------------------------------------------------- what is refused */

static void short_files_say_what_is_missing(void **state) {
    struct ck_safetensors file;
    struct ck_error err;

    (void)state;
    assert_int_equal(open_bytes("", 0, &ck_limits_default, &file, &err), CK_E_EMPTY_FILE);
    assert_int_equal(open_bytes("\1\0\0", 3, &ck_limits_default, &file, &err), CK_E_TRUNCATED);
    assert_int_equal(open_bytes("\x10\0\0\0\0\0\0\0{}", 10, &ck_limits_default, &file, &err), CK_E_TRUNCATED);
    assert_non_null(strstr(err.message, "14 are missing"));
    refused_limits("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 9, &ck_limits_default,
                   CK_E_TRUNCATED, "", "need 16 bytes, 9 are there, 7 are missing");
}

static void huge_claims_are_refused_at_once(void **state) {
    _cleanup_(ck_freep) char *small = calloc(1, 1024);
    struct ck_safetensors file;
    struct ck_error err;

    (void)state;
    memcpy(small, "\0\xE4\x0B\x54\2\0\0\0{", 9);
    assert_int_equal(open_bytes(small, 1024, &ck_limits_default, &file, &err), CK_E_TRUNCATED);
    assert_non_null(strstr(err.message, "should have 10000000000 bytes"));
    memset(small, 0xFF, 8);
    assert_int_equal(open_bytes(small, 1024, &ck_limits_default, &file, &err), CK_E_TRUNCATED);
    refused_limits("{\"a\":{\"dtype\":\"U8\",\"shape\":[10000000000],\"data_offsets\":[0,10000000000]}}", 900,
                   &ck_limits_default, CK_E_TRUNCATED, "", "9999999100 are missing");
}

static void holes_overlaps_and_rests_are_refused(void **state) {
    (void)state;
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
            3, "b", "behind byte 1");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
            3, "b", "before byte 2");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "a", "behind byte 0");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 3, "", "2 bytes behind the last tensor");
    refused("{}", 1, "", "1 bytes behind the last tensor");
}

static void sizes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "a",
            "need 8 bytes, data_offsets give 4");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "a", "end before they begin");
    refused("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "a", "does not fill its last byte");
    /* 0x4000000000000001 * 4 = 4 in 64 bits. */
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4, "a",
            "bytes exceeds 64");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "a",
            "elements exceeds 64");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 0, "a",
            "elements exceeds 64");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775808,0],\"data_offsets\":[0,0]}}", 0, "a", "2^63");
}

static void fields_must_be_of_their_kind(void **state) {
    (void)state;
    refused("{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a", "\"F33\" is no dtype");
    refused("{\"a\":{\"dtype\":\"F32\\u0000\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a", "is no dtype");
    refused("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a", "dtype must be a string");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "a", "shape holds a number");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "a", "shape holds a number");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "a", "shape must be an array");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "a", "two numbers");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "a", "two numbers");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}}", 4, "a",
            "data_offsets holds a string");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a", "lacks one of");
    refused("{\"a\":[1]}", 4, "a", "a tensor must be an object");
    refused("[]", 0, "", "does not begin with {");
    refused(" {}", 0, "", "does not begin with {");
    refused("", 0, "", "it has no byte");
    refused("{} x", 0, "", "something follows its end");
    refused("{\"a\\u0000\":{}}", 0, "a", "holds a NUL");
}

static void double_keys_are_refused(void **state) {
    (void)state;
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
            2, "a", "two tensors have this name");
    refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "a", "dtype twice");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"shape\":[1]}}", 1, "a", "shape twice");
    refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__", "comes twice");
    refused("{\"__metadata__\":{\"k\":\"1\",\"l\":\"2\",\"k\":\"3\"}}", 0, "k", "twice");
}

static void metadata_is_text_to_text(void **state) {
    (void)state;
    refused("{\"__metadata__\":{\"k\":1}}", 0, "k", "must be a string, not a number");
    refused("{\"__metadata__\":{\"k\":null}}", 0, "k", "must be a string, not null");
    refused("{\"__metadata__\":[]}", 0, "__metadata__", "object of texts");
    refused("{\"__metadata__\":{\"k\":\"a\\u0000b\"}}", 0, "a", "NUL");
}

/* ---------------------------------------------------------------------------------------------- limits */

static void limits_hold_at_and_one_past(void **state) {
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1],\"data_offsets\":[0,1]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    _cleanup_(ck_buffer_release) struct ck_buffer bytes;
    struct ck_limits limits = ck_limits_default;
    struct ck_safetensors file;
    struct ck_error err;

    (void)state;
    build(&bytes, header, 2);
    limits.tensors = 2;
    limits.dims = 3;
    limits.header_bytes = sizeof(header) - 1;
    assert_int_equal(open_bytes(bytes.data, bytes.length, &limits, &file, &err), 0);
    ck_safetensors_release(&file);
    limits.tensors = 1;
    refused_limits(header, 2, &limits, CK_E_TENSOR_LIMIT, "", "--limit-tensors");
    limits.tensors = 2;
    limits.dims = 2;
    refused_limits(header, 2, &limits, CK_E_TENSOR_LIMIT, "a", "--limit-dims");
    limits.dims = 3;
    limits.header_bytes--;
    refused_limits(header, 2, &limits, CK_E_TENSOR_LIMIT, "", "--limit-header-bytes");
    limits.header_bytes++;
    limits.model_memory = 20;
    refused_limits(header, 2, &limits, CK_E_TENSOR_LIMIT, "", "--limit-model-memory");
}

static void hundred_thousand_tensors_are_read_quickly(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer header, bytes;
    _cleanup_(ck_safetensors_release) struct ck_safetensors file;
    const unsigned n = 100000;
    struct ck_error err;
    clock_t start;

    (void)state;
    ck_buffer_init(&header, SIZE_MAX);
    for (unsigned i = 0; i < n; i++)
        ck_buffer_printf(
            &header,
            "%c\"model.layers.%u.self_attn.q_proj.weight\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[%u,%u]}",
            i ? ',' : '{', i, i, i + 1);
    ck_buffer_add_text(&header, "}");
    build(&bytes, header.data, n);
    start = clock();
    assert_int_equal(open_bytes(bytes.data, bytes.length, &ck_limits_default, &file, &err), 0);
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(clock() - start < CLOCKS_PER_SEC);
#else
    (void)start;
#endif
    assert_int_equal(file.count, n);
    assert_true(file.arena.used < 32u << 20);
    assert_int_equal(ck_safetensors_find(&file, "model.layers.99999.self_attn.q_proj.weight")->offset,
                     file.data_start + n - 1);
}

/* ------------------------------------------------------------------------------------------ real files */

static void files_of_torch_and_mlx_open(void **state) {
    static const char *const files[] = {
        "checkpoints/files/burn_multi_layer.safetensors",
        "checkpoints/files/cello_mlx_weights.safetensors",
        "checkpoints/files/lora_disney.safetensors",
        "golden/mlx-casts.safetensors",
        "golden/mlx-dequant.safetensors",
        "golden/mlx-quant-bf16.safetensors",
    };
    const char *shared = getenv("CKPTD_SHARED");
    unsigned opened = 0;

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(files); i++) {
        _cleanup_(ck_closep) int fd = -1;
        _cleanup_(ck_safetensors_release) struct ck_safetensors file = {0};
        struct ck_error err = {0};
        struct ck_source source;
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", shared ? shared : "../shared", files[i]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        assert_int_equal(ck_source_from_fd(fd, &source, &err), 0);
        if (ck_safetensors_open(&source, &ck_limits_default, &file, &err) < 0)
            fail_msg("%s: %s", path, err.message);
        assert_true(file.count > 0);
        assert_int_equal(file.entries[file.count - 1].offset + file.entries[file.count - 1].bytes, source.length);
        opened++;
    }
    if (opened == 0) {
        print_message("skipped: no real files in %s\n", shared ? shared : "../shared");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_come_in_the_order_of_the_data),
        cmocka_unit_test(file_without_tensors_opens),
        cmocka_unit_test(null_metadata_of_mlx_counts_as_none),
        cmocka_unit_test(unaligned_tensors_open),
        cmocka_unit_test(fields_that_the_format_does_not_know_are_passed_over),
        cmocka_unit_test(every_dtype_of_the_format_has_its_size),
        cmocka_unit_test(short_files_say_what_is_missing),
        cmocka_unit_test(huge_claims_are_refused_at_once),
        cmocka_unit_test(holes_overlaps_and_rests_are_refused),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(fields_must_be_of_their_kind),
        cmocka_unit_test(double_keys_are_refused),
        cmocka_unit_test(metadata_is_text_to_text),
        cmocka_unit_test(limits_hold_at_and_one_past),
        cmocka_unit_test(hundred_thousand_tensors_are_read_quickly),
        cmocka_unit_test(files_of_torch_and_mlx_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
