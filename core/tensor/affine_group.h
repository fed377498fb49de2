/* tensor/affine_group.h: what the plain and the AVX2 quantizer share: the numbers of one group. For affine*.c only. */
#ifndef CK_TENSOR_AFFINE_GROUP_H
#define CK_TENSOR_AFFINE_GROUP_H

#include "core/tensor/affine.h"
#include "core/tensor/cast.h"

#include <math.h>
#include <string.h>

#define CK_AFFINE_GROUP_MAX 128

struct ck_affine_params {
    float scale, bias; /* unrounded: codes come from these */
};

/* Scale and bias of a group with maximum mx and minimum mn (-inf and inf if every element is a NaN); n = 2^bits - 1. */
static inline struct ck_affine_params ck_affine_params(float mx, float mn, float n) {
    bool negative_side = fabsf(mn) > fabsf(mx);
    float edge = negative_side ? mn : mx, range = (mx - mn) / n, q0;
    float scale = range < 1e-7f ? 1e-7f : range;

    if (!negative_side)
        scale = -scale;
    q0 = rintf(edge / scale);
    if (q0 == 0)
        return (struct ck_affine_params){scale, 0};
    scale = edge / q0;
    /* The sign of inf / inf is the CPU's choice; x86 sets it, and MLX's bytes are x86's. */
    if (isnan(scale))
        scale = copysignf(NAN, -1);
    return (struct ck_affine_params){scale, edge};
}

/* Stores value as element i of an array of dtype. */
static inline void ck_affine_store(enum ck_dtype dtype, void *array, size_t i, float value) {
    uint16_t half;

    if (dtype == CK_F32) {
        memcpy((char *)array + i * 4, &value, 4);
        return;
    }
    half = dtype == CK_F16 ? ck_f32_to_f16(value) : ck_f32_to_bf16(value);
    memcpy((char *)array + i * 2, &half, 2);
}

/* Same contract as ck_affine_quantize(); only on a CPU with AVX2. */
#if defined(__x86_64__)
uint64_t ck_affine_quantize_avx2(struct ck_affine affine, enum ck_dtype dtype, const void *in, size_t groups,
                                 void *codes, void *scales, void *biases);
#endif

#endif
