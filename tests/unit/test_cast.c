/* Casts against the values that MLX gives, and the vector loops against the plain ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "core/tensor/cast_loops.h"
#include "core/tensor/cpu.h"
#include "tests/unit/golden.h"

static void check_golden(const struct golden *golden, enum ck_dtype from, const char *input, enum ck_dtype to,
                         const char *output) {
    size_t in_bytes = 0, out_bytes = 0, n;
    const void *in = golden_tensor(golden, input, &in_bytes, NULL),
               *want = golden_tensor(golden, output, &out_bytes, NULL);
    char *out;

    assert_non_null(in);
    assert_non_null(want);
    n = in_bytes / ck_dtype_row(from)->size;
    assert_int_equal(out_bytes, n * ck_dtype_row(to)->size);
    out = malloc(out_bytes);
    assert_non_null(out);
    ck_cast(from, in, to, out, n);
    assert_memory_equal(out, want, out_bytes);
    free(out);
}

static void casts_equal_mlx_bit_for_bit(_unused_ void **state) {
    struct golden golden;

    if (!golden_open("mlx-casts.safetensors", &golden)) {
        skip();
        return;
    }
    check_golden(&golden, CK_F32, "f32/input", CK_F16, "f32/to-f16");
    check_golden(&golden, CK_F32, "f32/input", CK_BF16, "f32/to-bf16");
    check_golden(&golden, CK_F16, "f16/input", CK_BF16, "f16/to-bf16");
    check_golden(&golden, CK_BF16, "bf16/input", CK_F16, "bf16/to-f16");
    golden_close(&golden);
}

static void nans_become_mlxs_nans(_unused_ void **state) {
    uint32_t nans[] = {0x7FC00001u, 0xFFC00000u, 0x7F800001u, 0xFF812345u};

    for (size_t i = 0; i < CK_ARRAY_LEN(nans); i++) {
        float value = f32_from_bits(nans[i]);

        assert_int_equal(ck_f32_to_bf16(value), 0x7FC0);
        assert_int_equal(ck_f32_to_f16(value), (nans[i] >> 16 & 0x8000) | 0x7D00);
    }
    /* A signalling NaN becomes quiet on the way to 32 bits from a half, and stays as it is from a bfloat16. */
    assert_int_equal(f32_bits(ck_f16_to_f32(0x7C01)), 0x7FC02000);
    assert_int_equal(f32_bits(ck_f16_to_f32(0xFE00)), 0xFFC00000);
    assert_int_equal(f32_bits(ck_bf16_to_f32(0x7F81)), 0x7F810000);
}

static void halves_round_to_even_at_every_edge(_unused_ void **state) {
    assert_int_equal(ck_f32_to_f16(65519.996f), 0x7BFF);
    assert_int_equal(ck_f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(ck_f32_to_f16(-65520.0f), 0xFC00);
    assert_int_equal(ck_f32_to_f16(INFINITY), 0x7C00);
    assert_int_equal(ck_f32_to_f16(0x1p-24f), 0x0001);
    assert_int_equal(ck_f32_to_f16(0x1p-25f), 0x0000);
    assert_int_equal(ck_f32_to_f16(0x1.000002p-25f), 0x0001);
    assert_int_equal(ck_f32_to_f16(0x1.8p-24f), 0x0002);
    assert_int_equal(ck_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(ck_f32_to_f16(1 + 0x1p-11f), 0x3C00);
    assert_int_equal(ck_f32_to_f16(1 + 0x3p-11f), 0x3C02);
    assert_int_equal(ck_f32_to_bf16(1 + 0x1p-8f), 0x3F80);
    assert_int_equal(ck_f32_to_bf16(1 + 0x3p-8f), 0x3F82);
    assert_int_equal(ck_f32_to_bf16(3.4e38f), 0x7F80);
}

static void every_half_survives_the_way_through_f32(_unused_ void **state) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        bool f16_nan = (bits & 0x7FFF) > 0x7C00, bf16_nan = (bits & 0x7FFF) > 0x7F80;

        if (!f16_nan) {
            double want = ldexp(bits & 0x3FF, -24);

            if ((bits & 0x7C00) == 0x7C00)
                want = INFINITY;
            else if (bits & 0x7C00)
                want = ldexp(1024 + (bits & 0x3FF), (int)(bits >> 10 & 31) - 25);
            assert_true((double)fabsf(ck_f16_to_f32((uint16_t)bits)) == want);
            assert_int_equal(ck_f32_to_f16(ck_f16_to_f32((uint16_t)bits)), bits);
        }
        if (!bf16_nan)
            assert_int_equal(ck_f32_to_bf16(ck_bf16_to_f32((uint16_t)bits)), bits);
    }
}

static void doubles_reach_sixteen_bits_through_f32(_unused_ void **state) {
    /* Rounded once, the last bits would win over the tie; rounded by way of f32 they are gone before. */
    double in[] = {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40, 1e-40, 1e300, -INFINITY};
    uint16_t f16[5], bf16[5];
    float f32[5];
    double back[5];

    assert_int_equal(ck_cast(CK_F64, in, CK_F16, f16, 5), 1);
    assert_int_equal(ck_cast(CK_F64, in, CK_BF16, bf16, 5), 1);
    assert_int_equal(ck_cast(CK_F64, in, CK_F32, f32, 5), 1);
    assert_int_equal(ck_cast(CK_F32, f32, CK_F64, back, 5), 0);
    assert_int_equal(f16[0], 0x3C00);
    assert_int_equal(bf16[1], 0x3F80);
    assert_int_equal(bf16[2], 0x0001);
    assert_true(f32[2] == (float)1e-40);
    assert_true(back[2] == (double)(float)1e-40);
    assert_int_equal(f16[3], 0x7C00);
    assert_int_equal(bf16[4], 0xFF80);
}

static void only_finite_values_count_as_overflow(_unused_ void **state) {
    float in[] = {65519, 65520, -70000, INFINITY, -INFINITY, NAN, 3.4e38f, __FLT_MAX__, 0, 1e-30f};
    uint16_t out[10], wide[3] = {0x7F7F, 0x7F80, 0x4780};

    assert_int_equal(ck_cast(CK_F32, in, CK_F16, out, 10), 4);
    assert_int_equal(ck_cast(CK_F32, in, CK_BF16, out, 10), 2);
    assert_int_equal(ck_cast(CK_BF16, wide, CK_F16, out, 3), 2);
    assert_int_equal(ck_cast(CK_F32, in, CK_F32, (float[10]){0}, 10), 0);
}

static void nothing_need_be_aligned_and_nothing_behind_the_end_is_written(_unused_ void **state) {
    static char in[1 + 8 * 9000], out[1 + 8 * 9000 + 1], want[8 * 9000];
    enum ck_dtype real[] = {CK_F64, CK_F32, CK_F16, CK_BF16};
    size_t sizes[] = {0, 1, 7, 8, 9, 4095, 4096, 4097, 8193};
    uint64_t seed = 1;

    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (char)random_u64(&seed);
    for (size_t f = 0; f < 4; f++)
        for (size_t t = 0; t < 4; t++)
            for (size_t s = 0; s < CK_ARRAY_LEN(sizes); s++) {
                size_t n = sizes[s], in_size = ck_dtype_row(real[f])->size, out_size = ck_dtype_row(real[t])->size;

                memset(out, 0x5A, sizeof(out));
                ck_cast(real[f], in + 1, real[t], out + 1, n);
                for (size_t i = 0; i < n; i++)
                    ck_cast(real[f], in + 1 + i * in_size, real[t], want + i * out_size, 1);
                assert_memory_equal(out + 1, want, n * out_size);
                assert_int_equal(out[0], 0x5A);
                assert_int_equal(out[1 + n * out_size], 0x5A);
            }
}

#if defined(__x86_64__)
static void compare_loops(ck_cast_loop_fn plain, ck_cast_loop_fn vector, const void *in, size_t n, size_t out_size) {
    static char a[8 * 4099], b[8 * 4099];

    assert_int_equal(plain(in, a, n), vector(in, b, n));
    assert_memory_equal(a, b, n * out_size);
}
#endif

static void vector_loops_equal_the_plain_ones_bit_for_bit(_unused_ void **state) {
#if defined(__x86_64__)
    const struct ck_cast_loops *a = &ck_cast_loops_plain, *b = &ck_cast_loops_avx2;
    static uint64_t in[4099];
    uint64_t seed = 7;

    if (!ck_cpu_has_avx2()) {
        skip();
        return;
    }
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < CK_ARRAY_LEN(in); i++)
            in[i] = random_u64(&seed);
        compare_loops(a->f64_to_f32, b->f64_to_f32, in, 4099, 4);
        compare_loops(a->f16_to_f32, b->f16_to_f32, in, 4099, 4);
        compare_loops(a->bf16_to_f32, b->bf16_to_f32, in, 4099, 4);
        compare_loops(a->f32_to_f64, b->f32_to_f64, in, 4099, 8);
        compare_loops(a->f32_to_f16, b->f32_to_f16, in, 4099, 2);
        compare_loops(a->f32_to_bf16, b->f32_to_bf16, in, 4099, 2);
    }
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_equal_mlx_bit_for_bit),
        cmocka_unit_test(nans_become_mlxs_nans),
        cmocka_unit_test(halves_round_to_even_at_every_edge),
        cmocka_unit_test(every_half_survives_the_way_through_f32),
        cmocka_unit_test(doubles_reach_sixteen_bits_through_f32),
        cmocka_unit_test(only_finite_values_count_as_overflow),
        cmocka_unit_test(nothing_need_be_aligned_and_nothing_behind_the_end_is_written),
        cmocka_unit_test(vector_loops_equal_the_plain_ones_bit_for_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
