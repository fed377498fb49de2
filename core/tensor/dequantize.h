/* tensor/dequantize.h: from the codes of a tensor that torch quantized to the floats that its .dequantize() gives, bit
 * for bit (torch 2.13 on x86-64).
 *
 *   per tensor            float(int32(code) - int32(zero_point)) * float(scale); the difference wraps
 *   per channel           float(double(float(code) - float(zero_point[c])) * scale[c])
 *   per channel, floats   (float(code) - zero_point[c]) * float(scale[c])
 *
 * Source: aten/src/ATen/native/quantized/AffineQuantizer.cpp and cpu/kernels/QuantizedOpKernels.cpp. Packed types
 * (quint4x2, quint2x4) have the first element in the lowest bits of a byte, and no gap between rows. */
#ifndef CK_TENSOR_DEQUANTIZE_H
#define CK_TENSOR_DEQUANTIZE_H

#include "core/base/source.h"
#include "core/tensor/tile.h"

enum ck_qscheme {
    CK_QSCHEME_NONE,
    CK_QSCHEME_TENSOR,
    CK_QSCHEME_CHANNEL,
    CK_QSCHEME_CHANNEL_FLOAT, /* zero points are floats */
};

/* "per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams". Static storage. */
const char *ck_qscheme_name(enum ck_qscheme scheme);

/* One number for each channel, densely. */
struct ck_channel_values {
    struct ck_source storage;
    bool swap;           /* big endian */
    enum ck_dtype dtype; /* scales: F64, F32; zero points: these, I64, I32 */
    uint64_t offset;     /* of the first, in elements */
};

struct ck_dequantize {
    enum ck_qscheme scheme;
    double scale; /* per tensor */
    int32_t zero_point;
    struct ck_channel_values scales, zero_points; /* per channel */
    struct ck_view channel; /* per channel: shape of the task's view; strides say how far a step moves in the channels; dtype
                               does not matter */
};

/* Channels whose numbers a thread holds at a time. Enough for any tile of rows; along an inner dimension no layer has as
 * many. */
#define CK_CHANNELS_MAX 262144u

/* True if the codes are of a quantized dtype and, per channel, every tile can be done within CK_CHANNELS_MAX. */
bool ck_dequantize_fits(const struct ck_dequantize *dequantize, enum ck_dtype codes);

/* What one thread keeps between tiles: the numbers of the channels that its last tile needed. Zeroed at first. */
struct ck_channels {
    uint64_t first, count;
    double *scales; /* owned */
    float *zero_points;
};

/* Dequantizes the tile: box->elements codes (packed ones unpacked to a byte each, ck_unpack()) become floats. The buffers
 * do not overlap. Returns 0; what ck_source_read() returns; CK_E_OUT_OF_MEMORY; CK_E_TENSOR_LIMIT. */
int ck_dequantize_box(const struct ck_dequantize *dequantize, enum ck_dtype codes_dtype, const struct ck_tiling *tiling,
                      const struct ck_box *box, const void *codes, float *out, struct ck_channels *channels,
                      struct ck_error *err);

/* Reads n elements of a packed dtype from the first-th on, as a byte each. raw has room for n / 2 + 2 bytes. */
int ck_unpack(const struct ck_source *storage, enum ck_dtype dtype, uint64_t first, size_t n, uint8_t *raw, uint8_t *out,
              struct ck_error *err);

void ck_channels_release(struct ck_channels *channels);

#endif
