/* Affine quantization against the bytes of mx.quantize, and the AVX2 version against the plain one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/tensor/affine_group.h"
#include "core/tensor/cpu.h"
#include "tests/unit/golden.h"

typedef uint64_t (*quantize_fn)(struct ck_affine, enum ck_dtype, const void *, size_t, void *, void *, void *);

static const uint8_t all_bits[] = {2, 3, 4, 5, 6, 8};
static const uint16_t all_groups[] = {32, 64, 128};
static const enum ck_dtype all_dtypes[] = {CK_F32, CK_F16, CK_BF16};

/* One tensor of the golden files at one width and group size. */
static void check_kind(const struct golden *golden, enum ck_dtype dtype, const char *kind, struct ck_affine affine,
                       quantize_fn quantize) {
    size_t in_bytes = 0, bytes[3] = {0}, groups;
    char name[128], codes[4096], scales[256], biases[256];
    const char *parts[] = {"weight", "scales", "biases"};
    char *outs[] = {codes, scales, biases};
    const void *in;

    snprintf(name, sizeof(name), "%s/input", kind);
    in = golden_tensor(golden, name, &in_bytes, NULL);
    assert_non_null(in);
    groups = in_bytes / ck_dtype_row(dtype)->size / affine.group;
    quantize(affine, dtype, in, groups, codes, scales, biases);
    for (int i = 0; i < 3; i++) {
        const void *want;

        snprintf(name, sizeof(name), "%s/affine-b%u-g%u/%s", kind, affine.bits, affine.group, parts[i]);
        want = golden_tensor(golden, name, &bytes[i], NULL);
        assert_non_null(want);
        if (memcmp(outs[i], want, bytes[i]) != 0)
            fail_msg("%s differs", name);
    }
    assert_int_equal(bytes[0], groups * affine.group * affine.bits / 8);
}

static void check_golden(const char *file, enum ck_dtype dtype, quantize_fn quantize) {
    struct golden golden;
    unsigned kinds = 0;
    const char *name;
    json_t *entry;

    if (!golden_open(file, &golden)) {
        skip();
        return;
    }
    json_object_foreach(golden.header, name, entry) {
        const char *slash = strstr(name, "/input");
        char kind[64];

        if (!slash)
            continue;
        snprintf(kind, sizeof(kind), "%.*s", (int)(slash - name), name);
        for (size_t b = 0; b < CK_ARRAY_LEN(all_bits); b++)
            for (size_t g = 0; g < CK_ARRAY_LEN(all_groups); g++)
                check_kind(&golden, dtype, kind, (struct ck_affine){all_bits[b], all_groups[g]}, quantize);
        kinds++;
    }
    assert_int_equal(kinds, 20);
    golden_close(&golden);
}

static void plain_f32_equals_mlx_for_every_kind(_unused_ void **state) {
    check_golden("mlx-quant-f32.safetensors", CK_F32, ck_affine_quantize_plain);
}

static void plain_f16_equals_mlx_for_every_kind(_unused_ void **state) {
    check_golden("mlx-quant-f16.safetensors", CK_F16, ck_affine_quantize_plain);
}

static void plain_bf16_equals_mlx_for_every_kind(_unused_ void **state) {
    check_golden("mlx-quant-bf16.safetensors", CK_BF16, ck_affine_quantize_plain);
}

static void dispatched_version_equals_mlx_for_every_kind(_unused_ void **state) {
    check_golden("mlx-quant-f32.safetensors", CK_F32, ck_affine_quantize);
    check_golden("mlx-quant-f16.safetensors", CK_F16, ck_affine_quantize);
    check_golden("mlx-quant-bf16.safetensors", CK_BF16, ck_affine_quantize);
}

/* Measured with MLX 0.32.4 on the CPU: the row w[i] = f32(((37 i + 11) mod 64 - 31) / 97.0), one group of 64. */
static const struct {
    uint8_t bits;
    enum ck_dtype dtype;
    uint32_t scale, bias;
    const char *codes;
} vectors[] = {
    {2, CK_F32, 0xbe28e83f, 0x3ea8e83f, "37de8977ee8d77e29d78e3de7827deb8"},
    {3, CK_F32, 0xbda8e83f, 0x3ea8e83f, "56c3cf2a7839fcae869f55f0728a5d0e3fabe1e714bc1c7e"},
    {4, CK_F32, 0xbd28e83f, 0x3ea8e83f, "4d1af8c6a3715e2cf9d6b4826f3c1ae8c592704e2bf8d6a4815e3c0ae7b4926f"},
    {5, CK_F32, 0xbca8e83f, 0x3ea8e83f,
     "1ad501fdc28606c7d525f2378dec809e6543c5e30a1709dc469644cff4a1027685cd0c8e274be467"},
    {6, CK_F32, 0xbc28e83f, 0x3ea8e83f,
     "f4a316e06ec5cc2974f8e426e4afd5d06a84fc2537e8e0e5d4ab94c06647ec21f6d8eca4c4a757f06206dc2db5c8e867"},
    {8, CK_F32, 0xbb264f03, 0x3ea8e83f,
     "d33dab1482f059c7319e0876e44dbb2592ff6ad741af1886f45dcb35a20c7ae851bf2996006edb45b31c8af862cf39a7107eec55c32d9a047"
     "2df49b7208efc66"},
    {2, CK_F16, 0xb147, 0x3547, "37de8977ee8d77e29d78e3de7827deb8"},
    {3, CK_F16, 0xad47, 0x3547, "57c3cf297839fcae869f55f0728a5d0e3fabe1e714bc1c7e"},
    {4, CK_F16, 0xa947, 0x3547, "4d1bf8c5a3705e2bf9d6b4816f3d1ae8c592704e2bf8d6a3815f3c0ae7b5926f"},
    {5, CK_F16, 0xa547, 0x3547, "fa5401fdca6606c7d32df2b78dec807e6543c3eb0a9709da4676c4cff4a9027685cb046ea74be46f"},
    {6, CK_F16, 0xa147, 0x3547,
     "f4a316e06ec5cc2974f8e426e4afd5d06a84fc2537e8e0e5d4ab94c06647ec21f6d8eca4c4a757f06206dc2db5c8e867"},
    {8, CK_F16, 0x9932, 0x3547,
     "d33dab1482f059c7319e0876e44dbb2592ff6ad741af1886f45dcb35a20c7ae851bf2996006edb45b31c8af862cf39a7107eec55c32d9a047"
     "2df49b7208efc66"},
    {2, CK_BF16, 0xbe29, 0x3ea9, "37de8977ee8d77e29d78e3de7827deb9"},
    {3, CK_BF16, 0xbda9, 0x3ea9, "56c3cf2a7839fcae869f55f0738a5d0d3fabe0e714bc1c7e"},
    {4, CK_BF16, 0xbd29, 0x3ea9, "4d1af8c6a3715e2cf9d7b4826f3c1ae8c593704d2bf8d6a4815e3c09e7b4926f"},
    {5, CK_BF16, 0xbca9, 0x3ea9, "1a5501fdc28686c7d525f2b78dea809e6543c5e3ea1609dc4e9644cff4a102f685cb048e274be267"},
    {6, CK_BF16, 0xbc29, 0x3ea9,
     "f4a316e06ec5cc2974f8e426e4afd5d06a84fc2537e8e0e5d4ab94c06647ec21f6d8eca4c4a757f06206dc2db5c8e867"},
    {8, CK_BF16, 0xbb28, 0x3ea9,
     "d23da91481ee59c5309d0875e24db92491fe69d640ad1885f25dca34a10c79e651bd2895006dda45b11c89f661ce38a5107dea55c22c99047"
     "1de49b5208dfa65"},
};

static void known_row_gives_the_known_codes(_unused_ void **state) {
    float row[64];

    for (int i = 0; i < 64; i++)
        row[i] = (float)(((37 * i + 11) % 64 - 31) / 97.0);
    for (size_t v = 0; v < CK_ARRAY_LEN(vectors); v++) {
        char in[256], text[2 * 64 + 1] = "";
        uint32_t scale = 0, bias = 0;
        uint8_t codes[64];

        ck_cast(CK_F32, row, vectors[v].dtype, in, 64);
        assert_int_equal(
            ck_affine_quantize((struct ck_affine){vectors[v].bits, 64}, vectors[v].dtype, in, 1, codes, &scale, &bias),
            0);
        assert_int_equal(scale, vectors[v].scale);
        assert_int_equal(bias, vectors[v].bias);
        for (size_t i = 0; i < vectors[v].bits * 8u; i++)
            snprintf(text + 2 * i, 3, "%02x", codes[i]);
        assert_string_equal(text, vectors[v].codes);
    }
}

static void zero_group_has_a_scale_of_minus_1e_7(_unused_ void **state) {
    float zeros[32] = {0}, scale, bias;
    uint8_t codes[16];

    assert_int_equal(ck_affine_quantize((struct ck_affine){4, 32}, CK_F32, zeros, 1, codes, &scale, &bias), 0);
    assert_true(scale == -1e-7f);
    assert_true(bias == 0);
    for (int i = 0; i < 16; i++)
        assert_int_equal(codes[i], 0);
}

static void groups_with_a_nan_or_an_infinity_are_counted(_unused_ void **state) {
    quantize_fn versions[] = {ck_affine_quantize_plain, ck_affine_quantize};
    float in[4 * 32] = {0}, scale[4], bias[4];
    uint8_t codes[4 * 16];

    in[5] = __builtin_nanf("");
    in[32 + 31] = -__builtin_inff();
    in[96] = __FLT_MAX__;
    for (int i = 0; i < 2; i++)
        assert_int_equal(versions[i]((struct ck_affine){4, 32}, CK_F32, in, 4, codes, scale, bias), 2);
}

/* Bit patterns of several kinds, so that ordinary groups, ties, subnormals, infinities and NaNs all occur. */
static void fill(uint8_t *in, enum ck_dtype dtype, size_t n, unsigned kind, uint64_t *seed) {
    for (size_t i = 0; i < n; i++) {
        uint64_t r = random_u64(seed);
        float value = kind == 1   ? (float)((double)(int64_t)r * 0x1p-68)
                      : kind == 2 ? (float)((int)(r % 33) - 16) * 0.5f
                                  : (float)((double)(int64_t)r * 1e-26);
        uint16_t half = dtype == CK_F16 ? ck_f32_to_f16(value) : ck_f32_to_bf16(value);

        if (kind == 0)
            memcpy(in + i * ck_dtype_row(dtype)->size, &r, ck_dtype_row(dtype)->size);
        else if (dtype == CK_F32)
            memcpy(in + i * 4, &value, 4);
        else
            memcpy(in + i * 2, &half, 2);
    }
}

static void avx2_equals_plain_bit_for_bit(_unused_ void **state) {
#if defined(__x86_64__)
    enum { GROUPS = 37, SPARE = 64 };
    static uint8_t in[GROUPS * 128 * 4 + 1];
    static uint8_t a[3][GROUPS * 128 + SPARE], b[3][GROUPS * 128 + SPARE];
    uint64_t seed = 11;

    if (!ck_cpu_has_avx2()) {
        skip();
        return;
    }
    for (unsigned round = 0; round < 40; round++)
        for (size_t d = 0; d < CK_ARRAY_LEN(all_dtypes); d++)
            for (size_t k = 0; k < CK_ARRAY_LEN(all_bits) * CK_ARRAY_LEN(all_groups); k++) {
                struct ck_affine affine = {all_bits[k % 6], all_groups[k / 6]};
                size_t groups = 1 + random_u64(&seed) % GROUPS;

                fill(in + 1, all_dtypes[d], groups * affine.group, round % 4, &seed);
                memset(a, 0xA5, sizeof(a));
                memset(b, 0xA5, sizeof(b));
                assert_int_equal(
                    ck_affine_quantize_plain(affine, all_dtypes[d], in + 1, groups, a[0] + 1, a[1] + 1, a[2] + 1),
                    ck_affine_quantize_avx2(affine, all_dtypes[d], in + 1, groups, b[0] + 1, b[1] + 1, b[2] + 1));
                /* Whole buffers: not a byte behind the end may differ either. */
                assert_memory_equal(a, b, sizeof(a));
            }
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_f32_equals_mlx_for_every_kind),
        cmocka_unit_test(plain_f16_equals_mlx_for_every_kind),
        cmocka_unit_test(plain_bf16_equals_mlx_for_every_kind),
        cmocka_unit_test(dispatched_version_equals_mlx_for_every_kind),
        cmocka_unit_test(known_row_gives_the_known_codes),
        cmocka_unit_test(zero_group_has_a_scale_of_minus_1e_7),
        cmocka_unit_test(groups_with_a_nan_or_an_infinity_are_counted),
        cmocka_unit_test(avx2_equals_plain_bit_for_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
