/* tensor/cast_loops.h: the loops of the casts, written so that the compiler turns them into vector code.
 *
 * Included by cast.c (any CPU) and cast_avx2.c (the same text, compiled for AVX2): one source, so both give the same
 * bits. Arithmetic follows mlx/types/fp16.h and bf16.h of MLX 0.32.4, which is Maratyszcza's FP16 with MLX's own NaNs.
 * Each loop returns how many finite values it made infinite. */
#ifndef CK_TENSOR_CAST_LOOPS_H
#define CK_TENSOR_CAST_LOOPS_H

#include "core/tensor/cast.h"

#include <string.h>

typedef uint64_t (*ck_cast_loop_fn)(const void *restrict in, void *restrict out, size_t n);

/* n elements each; nothing need be aligned. */
struct ck_cast_loops {
    ck_cast_loop_fn f64_to_f32, f16_to_f32, bf16_to_f32; /* NULL is never an entry */
    ck_cast_loop_fn f32_to_f64, f32_to_f16, f32_to_bf16;
};

extern const struct ck_cast_loops ck_cast_loops_plain;
#if defined(__x86_64__)
extern const struct ck_cast_loops ck_cast_loops_avx2;
#endif

static inline uint32_t f32_bits(float value) {
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float f32_from_bits(uint32_t bits) {
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Both ways of decoding are computed and one is chosen: no branch, so a loop of it becomes vector code. The
 * multiplication also makes signalling NaNs quiet, as MLX's does. */
static inline float f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = (uint32_t)(half & 0x7FFFu);
    float normal = f32_from_bits((magnitude << 13) + (0xE0u << 23)) * f32_from_bits(0x07800000u);
    float subnormal = f32_from_bits(magnitude | 126u << 23) - 0.5f;

    /* Masks, because gcc does not vectorise a choice between floats. */
    uint32_t small = 0u - (uint32_t)(magnitude < 0x0400u);

    return f32_from_bits((f32_bits(subnormal) & small) | (f32_bits(normal) & ~small) | sign);
}

static inline float bf16_to_f32(uint16_t bits) {
    return f32_from_bits((uint32_t)bits << 16);
}

/* The addition does the rounding: the magic number puts the last bit of the half at the last bit of the float. The two
 * multiplications push what is too large to infinity. */
static inline uint16_t f32_to_f16(float value) {
    uint32_t bits = f32_bits(value), sign = bits >> 16 & 0x8000u, exponent = bits & 0x7F800000u;
    uint32_t nan = 0u - (uint32_t)((bits & 0x7FFFFFFFu) > 0x7F800000u);
    float magnitude = f32_from_bits(bits & 0x7FFFFFFFu), rounded;

    exponent = exponent < 0x38800000u ? 0x38800000u : exponent;
    rounded = f32_from_bits(exponent + (15u << 23)) + magnitude * 0x1p112f * 0x1p-110f;
    bits = (f32_bits(rounded) >> 13 & 0x7C00u) + (f32_bits(rounded) & 0x0FFFu);
    return (uint16_t)(sign | (0x7D00u & nan) | (bits & ~nan));
}

static inline uint16_t f32_to_bf16(float value) {
    uint32_t bits = f32_bits(value), nan = 0u - (uint32_t)((bits & 0x7FFFFFFFu) > 0x7F800000u);

    return (uint16_t)((0x7FC0u & nan) | ((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16 & ~nan));
}

#define LOAD(type, address, i)                                                                                         \
    ({                                                                                                                 \
        type loaded_;                                                                                                  \
        memcpy(&loaded_, (const char *)(address) + (i) * sizeof(type), sizeof(type));                                  \
        loaded_;                                                                                                       \
    })
#define STORE(type, address, i, value)                                                                                 \
    do {                                                                                                               \
        type stored_ = (value);                                                                                        \
        memcpy((char *)(address) + (i) * sizeof(type), &stored_, sizeof(type));                                        \
    } while (0)

static _unused_ uint64_t loop_f64_to_f32(const void *restrict in, void *restrict out, size_t n) {
    uint64_t overflowed = 0;

    for (size_t i = 0; i < n; i++) {
        double value = LOAD(double, in, i);
        float narrow = (float)value;

        overflowed +=
            (uint64_t)(__builtin_fabs(value) <= __DBL_MAX__) & (uint64_t)(__builtin_fabsf(narrow) > __FLT_MAX__);
        STORE(float, out, i, narrow);
    }
    return overflowed;
}

static _unused_ uint64_t loop_f16_to_f32(const void *restrict in, void *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++)
        STORE(float, out, i, f16_to_f32(LOAD(uint16_t, in, i)));
    return 0;
}

static _unused_ uint64_t loop_bf16_to_f32(const void *restrict in, void *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++)
        STORE(float, out, i, bf16_to_f32(LOAD(uint16_t, in, i)));
    return 0;
}

static _unused_ uint64_t loop_f32_to_f64(const void *restrict in, void *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++)
        STORE(double, out, i, (double)LOAD(float, in, i));
    return 0;
}

/* A finite magnitude is below 0x7F800000; its result is infinite if it is at least `limit`. */
#define OVERFLOWED(value, limit) (((f32_bits(value) & 0x7FFFFFFFu) - (limit)) < 0x7F800000u - (limit))

static _unused_ uint64_t loop_f32_to_f16(const void *restrict in, void *restrict out, size_t n) {
    uint32_t overflowed = 0;

    for (size_t i = 0; i < n; i++) {
        float value = LOAD(float, in, i);

        overflowed += (uint32_t)OVERFLOWED(value, 0x477FF000u); /* 65520 */
        STORE(uint16_t, out, i, f32_to_f16(value));
    }
    return overflowed;
}

static _unused_ uint64_t loop_f32_to_bf16(const void *restrict in, void *restrict out, size_t n) {
    uint32_t overflowed = 0;

    for (size_t i = 0; i < n; i++) {
        float value = LOAD(float, in, i);

        overflowed += (uint32_t)OVERFLOWED(value, 0x7F7F8000u); /* the middle between the largest bfloat16 and 2^128 */
        STORE(uint16_t, out, i, f32_to_bf16(value));
    }
    return overflowed;
}

#define CK_CAST_LOOPS                                                                                                  \
    {                                                                                                                  \
        .f64_to_f32 = loop_f64_to_f32, .f16_to_f32 = loop_f16_to_f32, .bf16_to_f32 = loop_bf16_to_f32,                 \
        .f32_to_f64 = loop_f32_to_f64, .f32_to_f16 = loop_f32_to_f16, .f32_to_bf16 = loop_f32_to_bf16,                 \
    }

#endif
