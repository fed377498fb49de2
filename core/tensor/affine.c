#include "core/tensor/affine.h"

#include "core/tensor/affine_group.h"
#include "core/tensor/cpu.h"

struct extent {
    float mx, mn;
    bool finite;
};

/* A NaN never wins a comparison, so it is neither maximum nor minimum. */
static struct extent group_extent(const float *w, size_t group) {
    struct extent extent = {-INFINITY, INFINITY, true};

    for (size_t i = 0; i < group; i++) {
        if (w[i] > extent.mx)
            extent.mx = w[i];
        if (w[i] < extent.mn)
            extent.mn = w[i];
        if (!isfinite(w[i]))
            extent.finite = false;
    }
    return extent;
}

/* A true division: w * (1 / scale) rounds differently. A NaN becomes 0. */
static unsigned code_of(float w, struct ck_affine_params params, float n) {
    float q = rintf((w - params.bias) / params.scale);

    return q > 0 ? (unsigned)(q < n ? q : n) : 0;
}

/* Appends the codes to a little-endian bit stream; group * bits is a multiple of 32, so every group begins on a byte.
 */
static void pack_group(const float *w, size_t group, struct ck_affine_params params, unsigned bits, uint8_t *out) {
    float n = (float)((1u << bits) - 1);
    unsigned held = 0, count = 0;

    for (size_t i = 0; i < group; i++) {
        held |= code_of(w[i], params, n) << count;
        for (count += bits; count >= 8; count -= 8, held >>= 8)
            *out++ = (uint8_t)held;
    }
}

uint64_t ck_affine_quantize_plain(struct ck_affine affine, enum ck_dtype dtype, const void *in, size_t groups,
                                  void *codes, void *scales, void *biases) {
    size_t group = affine.group, in_bytes = group * ck_dtype_row(dtype)->size, code_bytes = group * affine.bits / 8;
    uint64_t non_finite = 0;
    float w[CK_AFFINE_GROUP_MAX];

    for (size_t g = 0; g < groups; g++) {
        struct ck_affine_params params;
        struct extent extent;

        ck_cast(dtype, (const char *)in + g * in_bytes, CK_F32, w, group);
        extent = group_extent(w, group);
        params = ck_affine_params(extent.mx, extent.mn, (float)((1u << affine.bits) - 1));
        pack_group(w, group, params, affine.bits, (uint8_t *)codes + g * code_bytes);
        ck_affine_store(dtype, scales, g, params.scale);
        ck_affine_store(dtype, biases, g, params.bias);
        non_finite += !extent.finite;
    }
    return non_finite;
}

uint64_t ck_affine_quantize(struct ck_affine affine, enum ck_dtype dtype, const void *in, size_t groups, void *codes,
                            void *scales, void *biases) {
#if defined(__x86_64__)
    if (ck_cpu_has_avx2())
        return ck_affine_quantize_avx2(affine, dtype, in, groups, codes, scales, biases);
#endif
    return ck_affine_quantize_plain(affine, dtype, in, groups, codes, scales, biases);
}
