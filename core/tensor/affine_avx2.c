/* The affine quantizer for CPUs with AVX2: the arithmetic of affine.c, eight elements at a time.
 *
 * A group is widened to floats while its extent is taken, then coded 32 elements at a time. All bit widths go through
 * bytes: eight codes in eight bytes are one 64-bit lane, which three steps squeeze to 8 * bits bits. */
#if defined(__x86_64__)

#include "core/tensor/affine_group.h"

#include <immintrin.h>

static inline __attribute__((always_inline)) __m256 load8(enum ck_dtype dtype, const char *in, size_t i) {
    if (dtype == CK_F32)
        return _mm256_loadu_ps((const float *)(const void *)(in + i * 4));

    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(in + i * 2));

    if (dtype == CK_F16)
        return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

static inline float max8(__m256 v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static inline float min8(__m256 v) {
    __m128 m = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    m = _mm_min_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_min_ss(m, _mm_movehdup_ps(m)));
}

/* Eight codes as 32-bit integers. max_ps gives its second operand when the first is a NaN, so a NaN becomes 0. */
static inline __m256i code8(const float *w, __m256 scale, __m256 bias, __m256 n) {
    __m256 q = _mm256_div_ps(_mm256_sub_ps(_mm256_loadu_ps(w), bias), scale);

    q = _mm256_round_ps(q, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(q, _mm256_setzero_ps()), n));
}

/* 32 codes as bytes, in order. */
static inline __m256i code32(const float *w, __m256 scale, __m256 bias, __m256 n) {
    __m256i low = _mm256_packus_epi32(code8(w, scale, bias, n), code8(w + 8, scale, bias, n));
    __m256i high = _mm256_packus_epi32(code8(w + 16, scale, bias, n), code8(w + 24, scale, bias, n));

    /* The packs work within 128-bit halves; this puts the groups of four bytes back in order. */
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* How to squeeze bytes of `bits` bits. */
struct squeeze {
    __m256i pairs, quads; /* factors that put the second of two neighbours above the first */
    __m256i low_half;
    __m128i shift;   /* of the upper four codes of a lane */
    __m256i compact; /* the `bits` low bytes of both lanes of a half, side by side */
};

static struct squeeze squeeze_for(unsigned bits) {
    uint8_t order[32];

    for (unsigned i = 0; i < 32; i++) {
        unsigned k = i % 16;

        order[i] = (uint8_t)(k < bits ? k : k < 2 * bits ? 8 + k - bits : 0x80);
    }
    return (struct squeeze){
        .pairs = _mm256_set1_epi16((short)(1 | 1 << (bits + 8))),
        .quads = _mm256_set1_epi32(1 | 1 << (2 * bits + 16)),
        .low_half = _mm256_set1_epi64x(0xFFFFFFFF),
        .shift = _mm_cvtsi32_si128((int)(32 - 4 * bits)),
        .compact = _mm256_loadu_si256((const __m256i *)(const void *)order),
    };
}

/* Writes 4 * bits bytes, and may write up to 32 - 2 * bits more behind them. */
static inline void put32(__m256i codes, const struct squeeze *squeeze, unsigned bits, uint8_t *out) {
    __m256i lanes = _mm256_madd_epi16(_mm256_maddubs_epi16(codes, squeeze->pairs), squeeze->quads);
    __m256i upper = _mm256_srl_epi64(_mm256_andnot_si256(squeeze->low_half, lanes), squeeze->shift);

    lanes = _mm256_or_si256(_mm256_and_si256(lanes, squeeze->low_half), upper);
    lanes = _mm256_shuffle_epi8(lanes, squeeze->compact);
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(lanes));
    _mm_storeu_si128((__m128i *)(void *)(out + 2 * bits), _mm256_extracti128_si256(lanes, 1));
}

/* room: bytes that may be written at out; at least 4 * bits. */
static inline void pack32(__m256i codes, const struct squeeze *squeeze, unsigned bits, uint8_t *out, size_t room) {
    uint8_t spare[64];

    if (bits == 8) {
        _mm256_storeu_si256((__m256i *)(void *)out, codes);
    } else if (room >= 2 * bits + 16) {
        put32(codes, squeeze, bits, out);
    } else {
        put32(codes, squeeze, bits, spare);
        memcpy(out, spare, 4 * bits);
    }
}

static inline __attribute__((always_inline)) uint64_t quantize(struct ck_affine affine, enum ck_dtype dtype,
                                                               const char *in, size_t groups, uint8_t *codes,
                                                               void *scales, void *biases) {
    const size_t group = affine.group, size = dtype == CK_F32 ? 4 : 2;
    const unsigned bits = affine.bits;
    const float n = (float)((1u << bits) - 1);
    const struct squeeze squeeze = squeeze_for(bits == 8 ? 4 : bits);
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF)), largest = _mm256_set1_ps(__FLT_MAX__);
    uint8_t *end = codes + groups * group * bits / 8;
    uint64_t non_finite = 0;
    float w[CK_AFFINE_GROUP_MAX];

    for (size_t g = 0; g < groups; g++, in += group * size) {
        __m256 mx = _mm256_set1_ps(-INFINITY), mn = _mm256_set1_ps(INFINITY), odd = _mm256_setzero_ps();
        struct ck_affine_params params;

        for (size_t i = 0; i < group; i += 8) {
            __m256 v = load8(dtype, in, i);

            _mm256_storeu_ps(w + i, v);
            /* The second operand is the result when the first is a NaN. */
            mx = _mm256_max_ps(v, mx);
            mn = _mm256_min_ps(v, mn);
            odd = _mm256_or_ps(odd, _mm256_cmp_ps(_mm256_and_ps(v, no_sign), largest, _CMP_NLE_UQ));
        }
        params = ck_affine_params(max8(mx), min8(mn), n);
        for (size_t i = 0; i < group; i += 32, codes += 4 * bits)
            pack32(code32(w + i, _mm256_set1_ps(params.scale), _mm256_set1_ps(params.bias), _mm256_set1_ps(n)),
                   &squeeze, bits, codes, (size_t)(end - codes));
        ck_affine_store(dtype, scales, g, params.scale);
        ck_affine_store(dtype, biases, g, params.bias);
        non_finite += _mm256_movemask_ps(odd) != 0;
    }
    return non_finite;
}

uint64_t ck_affine_quantize_avx2(struct ck_affine affine, enum ck_dtype dtype, const void *in, size_t groups,
                                 void *codes, void *scales, void *biases) {
    if (dtype == CK_F32)
        return quantize(affine, CK_F32, in, groups, codes, scales, biases);
    if (dtype == CK_F16)
        return quantize(affine, CK_F16, in, groups, codes, scales, biases);
    return quantize(affine, CK_BF16, in, groups, codes, scales, biases);
}

#else

typedef int ck_nothing_for_this_cpu;

#endif
