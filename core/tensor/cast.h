/* tensor/cast.h: conversions between F64, F32, F16 and BF16, equal to MLX 0.32.4's on the CPU.
 *
 * All round to nearest, ties to even, subnormals included. Evidence: ../golden tests (mlx-casts.safetensors).
 *   f32 -> bf16: any NaN becomes 0x7FC0.   f32 -> f16: |x| >= 65520 becomes inf; NaN becomes sign | 0x7D00.
 *   f16 <-> bf16 goes through f32.         f64 -> f32: the hardware's rounding; f64 -> 16 bits goes through f32, as
 * torch and MLX do. */
#ifndef CK_TENSOR_CAST_H
#define CK_TENSOR_CAST_H

#include "core/tensor/dtype.h"

float ck_f16_to_f32(uint16_t bits);
float ck_bf16_to_f32(uint16_t bits);
uint16_t ck_f32_to_f16(float value);
uint16_t ck_f32_to_bf16(float value);

/* Casts n elements from `in` (dtype from) to `out` (dtype to); both ck_dtype_is_real(). The buffers do not overlap and
 * may be unaligned. Equal types are copied bit for bit. Returns how many finite values became infinite. */
uint64_t ck_cast(enum ck_dtype from, const void *in, enum ck_dtype to, void *out, size_t n);

#endif
