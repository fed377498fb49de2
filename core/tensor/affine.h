/* tensor/affine.h: MLX's affine quantization, bit for bit as mx.quantize of MLX 0.32.4 computes it on the CPU.
 *
 * For each group of g consecutive elements of a row, in binary32 without fused multiply-add: mx, mn = max, min; n =
 * 2^bits - 1; s = max((mx - mn) / n, 1e-7), negated unless |mn| > |mx|; edge = the end of larger magnitude; q0 =
 * rint(edge / s); if q0 != 0: s = edge / q0, b = edge, else b = 0; code = clamp(rint((w - b) / s), 0, n). Codes come
 * from the unrounded s and b; what is stored is s and b rounded to the weight's dtype. Codes form a little-endian bit
 * stream, first element in the lowest bits. Consequences worth knowing: an all-zero group has scale -1e-7 and codes 0;
 * NaN never wins a comparison and gets code 0. */
#ifndef CK_TENSOR_AFFINE_H
#define CK_TENSOR_AFFINE_H

#include "core/tensor/dtype.h"

struct ck_affine {
    uint8_t bits;   /* 2, 3, 4, 5, 6, 8 */
    uint16_t group; /* 32, 64, 128 elements */
};

/* Quantizes `groups` groups that lie one after another. in: elements of dtype (F32, F16, BF16). codes: groups * group *
 * bits / 8 bytes; scales, biases: one element of dtype per group. Nothing need be aligned. Returns the number of groups
 * with a NaN or an infinity. The implementation is chosen at run time (AVX2 with F16C where the CPU has it) and gives
 * the same bytes as the plain one. */
uint64_t ck_affine_quantize(struct ck_affine affine, enum ck_dtype dtype, const void *in, size_t groups, void *codes,
                            void *scales, void *biases);

/* The plain C implementation alone: the reference for tests and for CPUs without AVX2. */
uint64_t ck_affine_quantize_plain(struct ck_affine affine, enum ck_dtype dtype, const void *in, size_t groups,
                                  void *codes, void *scales, void *biases);

#endif
