/* Tensors that torch quantized, and its lazy bits: how their descriptions are read, which faults stay with one tensor,
 * and the numbers that come out of the executor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/tensor/bytes.h"
#include "core/tensor/execute.h"
#include "tests/unit/torch_file.h"

#define FILE_AND_RESULT                                                                                                \
    _cleanup_(tf_release) struct torch_file f;                                                                         \
    _cleanup_(opened_release) struct opened o = {0};                                                                   \
    tf_init(&f)

static const int8_t codes[6] = {-128, -1, 0, 1, 2, 127};
static const double scales[3] = {0.5, 0.25, 1e-3};
static const int64_t zero_points[3] = {0, -3, 70};

/* {"w": _rebuild_qtensor(storage "0", 0, (2, 3), (3, 1), ...; the quantizer comes next, then end_qtensor(). */
static void begin_qtensor(struct torch_file *f, const char *class_) {
    tf_op(f, "}");
    tf_text(f, "w");
    tf_global(f, "torch._utils", "_rebuild_qtensor");
    tf_op(f, "(");
    tf_storage(f, class_, "0", 6);
    tf_int(f, 0);
    tf_ints(f, 2, (const int64_t[]){2, 3});
    tf_ints(f, 2, (const int64_t[]){3, 1});
}

static const struct ck_tensor *end_qtensor(struct torch_file *f, struct opened *o) {
    tf_raw(f, "\x89", 1);
    tf_hooks(f);
    tf_op(f, "tRs");
    tf_record(f, "0", codes, sizeof(codes));
    *o = tf_open(f);
    assert_int_equal(o->r, 0);
    assert_int_equal(o->model->n_tensors, 1);
    return &o->model->tensors[0];
}

static void put_per_tensor(struct torch_file *f, double scale, int64_t zero_point) {
    tf_op(f, "(");
    tf_global(f, "torch", "per_tensor_affine");
    tf_float(f, scale);
    tf_int(f, zero_point);
    tf_op(f, "t");
}

/* n: of scales and zero points. */
static void put_per_channel(struct torch_file *f, int64_t n, int64_t axis) {
    tf_op(f, "(");
    tf_global(f, "torch", "per_channel_affine");
    tf_view(f, "DoubleStorage", "1", 0, 1, &n, (const int64_t[]){1});
    tf_view(f, "LongStorage", "2", 0, 1, &n, (const int64_t[]){1});
    tf_int(f, axis);
    tf_op(f, "t");
    tf_record(f, "1", scales, sizeof(scales));
    tf_record(f, "2", zero_points, sizeof(zero_points));
}

static void expect_fault(const struct ck_tensor *tensor, const char *part) {
    assert_int_equal(tensor->error, CK_E_UNSUPPORTED_TENSOR);
    assert_null(tensor->quantizer);
    if (!strstr(tensor->error_message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, tensor->error_message);
}

/* ---- descriptions ---- */

static void per_tensor_quantizer_has_scale_and_zero_point(_unused_ void **state) {
    const struct ck_tensor *tensor;
    FILE_AND_RESULT;

    begin_qtensor(&f, "QInt8Storage");
    put_per_tensor(&f, 0.1, INT32_MIN);
    tensor = end_qtensor(&f, &o);
    assert_int_equal(tensor->error, 0);
    assert_int_equal(tensor->view.dtype, CK_QI8);
    assert_int_equal(ck_tensor_dtype(tensor), CK_F32);
    assert_int_equal(tensor->quantizer->scheme, CK_QSCHEME_TENSOR);
    assert_true(tensor->quantizer->scale == 0.1);
    assert_int_equal(tensor->quantizer->zero_point, INT32_MIN);
}

static void per_channel_quantizer_is_two_views(_unused_ void **state) {
    const struct ck_tensor *tensor;
    FILE_AND_RESULT;

    begin_qtensor(&f, "QInt8Storage");
    put_per_channel(&f, 3, 1);
    tensor = end_qtensor(&f, &o);
    assert_int_equal(tensor->error, 0);
    assert_int_equal(tensor->quantizer->scheme, CK_QSCHEME_CHANNEL);
    assert_int_equal(tensor->quantizer->axis, 1);
    assert_int_equal(tensor->quantizer->scales.dtype, CK_F64);
    assert_int_equal(tensor->quantizer->zero_points.dtype, CK_I64);
    assert_string_equal(o.model->storages[tensor->quantizer->scales_storage].key, "1");
}

static void lists_of_numbers_are_storages_in_memory(_unused_ void **state) {
    const struct ck_quantizer *quantizer;
    double read[3];
    FILE_AND_RESULT;

    begin_qtensor(&f, "QUInt8Storage");
    tf_op(&f, "(");
    tf_global(&f, "torch", "per_channel_affine");
    tf_op(&f, "](");
    for (int i = 0; i < 3; i++)
        tf_float(&f, scales[i]);
    tf_op(&f, "e");
    tf_tree(&f, "[0,-3,70]");
    tf_int(&f, 1);
    tf_op(&f, "t");
    quantizer = end_qtensor(&f, &o)->quantizer;
    assert_non_null(quantizer);
    assert_int_equal(quantizer->scheme, CK_QSCHEME_CHANNEL);
    assert_int_equal(quantizer->scales.dtype, CK_F64);
    assert_int_equal(quantizer->zero_points.dtype, CK_I64);
    assert_int_equal(ck_source_read(&o.model->storages[quantizer->scales_storage].source, 0, read, sizeof(read), NULL),
                     0);
    assert_memory_equal(read, scales, sizeof(read));
}

static void malformed_quantizers_are_faults_of_their_tensor(_unused_ void **state) {
    static const struct {
        int64_t channels, axis;
        const char *part;
    } cases[] = {{2, 1, "for each channel"}, {3, 0, "for each channel"}, {3, 2, "axis"}, {3, -1, "axis"},
                 {4, 1, "scales"},           {3, INT64_MAX, "axis"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++) {
        FILE_AND_RESULT;

        begin_qtensor(&f, "QInt8Storage");
        put_per_channel(&f, cases[i].channels, cases[i].axis);
        expect_fault(end_qtensor(&f, &o), cases[i].part);
    }
}

static void odd_parameters_are_named(_unused_ void **state) {
    static const struct {
        const char *scheme, *scale, *zero_point, *part;
    } cases[] = {{"per_tensor_affine", "'0.5'", "0", "scale"},
                 {"per_tensor_affine", "1", "'0'", "zero point"},
                 {"per_tensor_affine", "1", "4294967296", "zero point"},
                 {"per_tensor_symmetric", "1", "0", "per_tensor_symmetric"},
                 {"per_channel_affine", "T3", "1", "axis are missing"},
                 {"float32", "1", "0", "float32"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++) {
        FILE_AND_RESULT;

        begin_qtensor(&f, "QInt8Storage");
        tf_op(&f, "(");
        tf_global(&f, "torch", cases[i].scheme);
        tf_tree(&f, cases[i].scale);
        tf_tree(&f, cases[i].zero_point);
        tf_op(&f, "t");
        expect_fault(end_qtensor(&f, &o), cases[i].part);
    }
}

/* Scales that are quantized themselves, and so on without end, would otherwise be followed down. */
static void scales_that_are_no_plain_tensors_are_not_followed(_unused_ void **state) {
    FILE_AND_RESULT;

    begin_qtensor(&f, "QInt8Storage");
    tf_op(&f, "(");
    tf_global(&f, "torch", "per_channel_affine");
    tf_global(&f, "torch._utils", "_rebuild_qtensor");
    tf_op(&f, ")R");
    tf_vector(&f, "0", 1);
    tf_int(&f, 1);
    tf_op(&f, "t");
    expect_fault(end_qtensor(&f, &o), "no plain tensor");
}

static void codes_must_be_of_a_quantized_type(_unused_ void **state) {
    FILE_AND_RESULT;

    begin_qtensor(&f, "CharStorage");
    put_per_tensor(&f, 0.1, 0);
    expect_fault(end_qtensor(&f, &o), "no quantized codes");
}

static void scales_outside_of_their_storage_are_a_fault(_unused_ void **state) {
    const struct ck_tensor *tensor;
    FILE_AND_RESULT;

    begin_qtensor(&f, "QInt8Storage");
    tf_op(&f, "(");
    tf_global(&f, "torch", "per_channel_affine");
    tf_view(&f, "DoubleStorage", "1", 1, 1, (const int64_t[]){3}, (const int64_t[]){1});
    tf_view(&f, "LongStorage", "2", 0, 1, (const int64_t[]){3}, (const int64_t[]){1});
    tf_int(&f, 1);
    tf_op(&f, "t");
    tf_record(&f, "1", scales, sizeof(scales));
    tf_record(&f, "2", zero_points, sizeof(zero_points));
    tensor = end_qtensor(&f, &o);
    expect_fault(tensor, "its scales: it needs 32 bytes");
}

/* ---- numbers ---- */

static struct ck_pool *pool;

static int setup(_unused_ void **state) {
    struct ck_error err = {0};

    return ck_pool_new(3, &pool, &err);
}

static int teardown(_unused_ void **state) {
    ck_pool_free(pool);
    return 0;
}

static int try(struct ck_task *task, void *out, size_t bytes, struct ck_error *err) {
    int fd = memfd_create("out", 0);
    struct ck_out_file file = {.fd = fd, .bytes = bytes};
    struct ck_execution execution;
    int r;

    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    ck_execution_init(&execution, &file, 1);
    r = ck_execute(&execution, task, 1, pool, NULL, err);
    if (r == 0)
        assert_int_equal(pread(fd, out, bytes, 0), bytes);
    ck_execution_release(&execution);
    close(fd);
    return r;
}

static void run(struct ck_task *task, void *out, size_t bytes) {
    struct ck_error err = {0};

    if (try(task, out, bytes, &err) < 0)
        fail_msg("%s", err.message);
}

static struct ck_channel_values values(const void *bytes, size_t n, enum ck_dtype dtype) {
    return (struct ck_channel_values){.storage = ck_source_from_memory(bytes, n), .dtype = dtype};
}

static void differences_wrap_as_those_of_int32_do(_unused_ void **state) {
    static const int32_t wide[3] = {INT32_MIN, 0, INT32_MAX};
    struct ck_task task = {
        .storage = ck_source_from_memory(wide, sizeof(wide)),
        .view = {.dtype = CK_QI32, .rank = 1, .shape = (int64_t[]){3}, .stride = (int64_t[]){1}},
        .dequantize = {.scheme = CK_QSCHEME_TENSOR, .scale = 0.1, .zero_point = 1},
        .dtype = CK_F32,
    };
    float out[3];

    run(&task, out, sizeof(out));
    assert_true(out[0] == 0.1f * 2147483648.0f);
    assert_true(out[1] == -0.1f);
    assert_true(out[2] == 0.1f * 2147483648.0f); /* 2147483646 as a float */
}

/* Each way in which a step along a dimension may move in the channels, beside a plain loop. */
static void channels_follow_every_layout(_unused_ void **state) {
    enum { A = 37, B = 41, C = 300 };
    static int8_t bytes[A * B * C];
    static double many_scales[C];
    static float many_zeros[C];
    static const int64_t steps[][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}, {3, 0, 1}, {0, 2, 1}};
    static const int64_t strides[][3] = {{B * C, C, 1}, {1, A, A * B}, {C, A * C, 1}};
    float *out = malloc(sizeof(float) * A * B * C);

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (int8_t)(i * 7919 >> 3);
    for (int i = 0; i < C; i++) {
        many_scales[i] = 1.0 / (i + 3);
        many_zeros[i] = (float)(i * 5 - 20);
    }
    for (size_t i = 0; i < CK_ARRAY_LEN(steps) * CK_ARRAY_LEN(strides) * 2; i++) {
        const int64_t *step = steps[i / 2 % CK_ARRAY_LEN(steps)], *stride = strides[i / 2 / CK_ARRAY_LEN(steps)];
        int64_t shape[3] = {A, B, C - 150};
        struct ck_view view = {.dtype = CK_QI8, .rank = 3, .shape = shape, .stride = stride};
        struct ck_task task = {
            .storage = ck_source_from_memory(bytes, sizeof(bytes)),
            .view = view,
            .dequantize = {.scheme = i % 2 ? CK_QSCHEME_CHANNEL : CK_QSCHEME_CHANNEL_FLOAT,
                           .scales = values(many_scales, sizeof(many_scales), CK_F64),
                           .zero_points = values(many_zeros, sizeof(many_zeros), CK_F32),
                           .channel = view},
            .dtype = CK_F32,
        };
        size_t at = 0;

        task.dequantize.channel.stride = step;
        run(&task, out, sizeof(float) * (size_t)(shape[0] * shape[1] * shape[2]));
        for (int64_t a = 0; a < shape[0]; a++)
            for (int64_t b = 0; b < shape[1]; b++)
                for (int64_t c = 0; c < shape[2]; c++, at++) {
                    int64_t channel = a * step[0] + b * step[1] + c * step[2];
                    float zero = (float)bytes[a * stride[0] + b * stride[1] + c * stride[2]] - many_zeros[channel];
                    float want =
                        i % 2 ? (float)((double)zero * many_scales[channel]) : zero * (float)many_scales[channel];

                    if (memcmp(&out[at], &want, sizeof(want)) != 0)
                        fail_msg("case %zu, element %zu: %g, not %g", i, at, (double)out[at], (double)want);
                }
    }
    free(out);
}

static void numbers_of_channels_come_in_four_types_and_two_byte_orders(_unused_ void **state) {
    static const uint8_t big_scale[8] = {0x3F, 0xE0}, big_zero[8] = {0, 0, 0, 0, 0, 0, 0, 2};
    static const float small_scale[1] = {0.5f};
    static const int32_t small_zero[1] = {2};
    static const int8_t code[1] = {12};
    struct ck_task task = {
        .storage = ck_source_from_memory(code, 1),
        .view = {.dtype = CK_QI8, .rank = 1, .shape = (int64_t[]){1}, .stride = (int64_t[]){1}},
        .dequantize = {.scheme = CK_QSCHEME_CHANNEL,
                       .scales = values(big_scale, 8, CK_F64),
                       .zero_points = values(big_zero, 8, CK_I64),
                       .channel = {.rank = 1, .shape = (int64_t[]){1}, .stride = (int64_t[]){1}}},
        .dtype = CK_F32,
    };
    float out;

    task.dequantize.scales.swap = task.dequantize.zero_points.swap = true;
    run(&task, &out, sizeof(out));
    assert_true(out == 5.0f);
    task.dequantize.scales = values(small_scale, sizeof(small_scale), CK_F32);
    task.dequantize.zero_points = values(small_zero, sizeof(small_zero), CK_I32);
    run(&task, &out, sizeof(out));
    assert_true(out == 5.0f);
}

static void packed_codes_begin_in_the_lowest_bits(_unused_ void **state) {
    static const uint8_t bytes[3] = {0xE4, 0x1B, 0x07};
    static const float fours[5] = {4, 14, 11, 1, 7}, twos[9] = {0, 1, 2, 3, 3, 2, 1, 0, 3};
    struct ck_task task = {
        .storage = ck_source_from_memory(bytes, sizeof(bytes)),
        .view = {.dtype = CK_QU4X2, .rank = 1, .shape = (int64_t[]){5}, .stride = (int64_t[]){1}},
        .dequantize = {.scheme = CK_QSCHEME_TENSOR, .scale = 1},
        .dtype = CK_F32,
    };
    struct ck_error err = {0};
    float out[9];

    run(&task, out, sizeof(fours));
    assert_memory_equal(out, fours, sizeof(fours));
    task.view.dtype = CK_QU2X4;
    task.view.shape = (int64_t[]){9};
    run(&task, out, sizeof(twos));
    assert_memory_equal(out, twos, sizeof(twos));
    task.view.shape = (int64_t[]){3};
    task.view.stride = (int64_t[]){2};
    assert_int_equal(try(&task, out, 12, &err), CK_E_UNSUPPORTED_DTYPE);
}

static void channels_at_the_limit_are_held_and_one_more_is_refused(_unused_ void **state) {
    int64_t shape[2] = {2, CK_CHANNELS_MAX}, step[2] = {0, 1};
    struct ck_dequantize inner = {.scheme = CK_QSCHEME_CHANNEL, .channel = {.rank = 2, .shape = shape, .stride = step}};

    assert_true(ck_dequantize_fits(&inner, CK_QI8));
    assert_false(ck_dequantize_fits(&inner, CK_I8));
    shape[1]++;
    assert_false(ck_dequantize_fits(&inner, CK_QI8));
    shape[0] = CK_CHANNELS_MAX * 4;
    step[0] = 1;
    step[1] = 0;
    assert_true(ck_dequantize_fits(&inner, CK_QI8)); /* rows: a tile has few of them */
}

static void signs_change_in_every_type(_unused_ void **state) {
    double real = 1.5;
    uint16_t half = 0x3C00;
    uint32_t complex_[4] = {0x3F800000, 0x40000000, 0x80000000, 0};
    int64_t integers[3] = {5, INT64_MIN, 0};
    uint8_t byte = 1;

    ck_negate(CK_F64, &real, 1);
    assert_true(real == -1.5);
    ck_negate(CK_F16, &half, 1);
    assert_int_equal(half, 0xBC00);
    ck_conjugate(CK_C64, complex_, 2);
    assert_memory_equal(complex_, ((uint32_t[]){0x3F800000, 0xC0000000, 0x80000000, 0x80000000}), 16);
    ck_negate(CK_C64, complex_, 2);
    assert_memory_equal(complex_, ((uint32_t[]){0xBF800000, 0x40000000, 0, 0}), 16);
    ck_negate(CK_I64, integers, 3);
    assert_memory_equal(integers, ((int64_t[]){-5, INT64_MIN, 0}), sizeof(integers));
    ck_negate(CK_U8, &byte, 1);
    assert_int_equal(byte, 255);
    assert_false(ck_can_negate(CK_BOOL));
    assert_false(ck_can_negate(CK_F8_E4M3));
    assert_false(ck_can_negate(CK_QI8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(per_tensor_quantizer_has_scale_and_zero_point),
        cmocka_unit_test(per_channel_quantizer_is_two_views),
        cmocka_unit_test(lists_of_numbers_are_storages_in_memory),
        cmocka_unit_test(malformed_quantizers_are_faults_of_their_tensor),
        cmocka_unit_test(odd_parameters_are_named),
        cmocka_unit_test(scales_that_are_no_plain_tensors_are_not_followed),
        cmocka_unit_test(codes_must_be_of_a_quantized_type),
        cmocka_unit_test(scales_outside_of_their_storage_are_a_fault),
        cmocka_unit_test(differences_wrap_as_those_of_int32_do),
        cmocka_unit_test(channels_follow_every_layout),
        cmocka_unit_test(numbers_of_channels_come_in_four_types_and_two_byte_orders),
        cmocka_unit_test(packed_codes_begin_in_the_lowest_bits),
        cmocka_unit_test(channels_at_the_limit_are_held_and_one_more_is_refused),
        cmocka_unit_test(signs_change_in_every_type),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
