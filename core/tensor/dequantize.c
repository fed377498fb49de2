#include "core/tensor/dequantize.h"

#include <byteswap.h>
#include <string.h>

static const char *const scheme_names[] = {
    [CK_QSCHEME_NONE] = "none",
    [CK_QSCHEME_TENSOR] = "per_tensor_affine",
    [CK_QSCHEME_CHANNEL] = "per_channel_affine",
    [CK_QSCHEME_CHANNEL_FLOAT] = "per_channel_affine_float_qparams",
};

const char *ck_qscheme_name(enum ck_qscheme scheme) {
    return scheme_names[scheme];
}

/* ---- which channel ---- */

/* The dimensions of the output with the step of each in the channels; neighbours that one step walks are joined. */
struct steps {
    uint32_t rank;
    uint64_t n[CK_RANK_MAX], step[CK_RANK_MAX];
};

static void find_steps(const struct ck_view *channel, struct steps *steps) {
    steps->rank = 0;
    for (uint32_t k = 0; k < channel->rank; k++) {
        uint64_t n = (uint64_t)channel->shape[k], step = (uint64_t)channel->stride[k];

        if (n == 1)
            continue;
        if (steps->rank > 0 && steps->step[steps->rank - 1] == step * n) {
            steps->n[steps->rank - 1] *= n;
            steps->step[steps->rank - 1] = step;
        } else {
            steps->n[steps->rank] = n;
            steps->step[steps->rank++] = step;
        }
    }
    if (steps->rank == 0) {
        steps->n[0] = 1;
        steps->step[0] = 0;
        steps->rank = 1;
    }
}

/* Elements from `at` (in the output's order) on that lie in one line of the last dimension. */
struct segment {
    uint64_t channel, step, n;
};

static struct segment segment_at(const struct ck_view *channel, const struct steps *steps, uint64_t at, uint64_t n) {
    uint32_t last = steps->rank - 1;
    uint64_t index = at % steps->n[last];
    struct segment segment = {.channel = channel->offset + index * steps->step[last],
                              .step = steps->step[last],
                              .n = CK_MIN(n, steps->n[last] - index)};

    at /= steps->n[last];
    for (uint32_t k = last; k-- > 0; at /= steps->n[k])
        segment.channel += at % steps->n[k] * steps->step[k];
    return segment;
}

bool ck_dequantize_fits(const struct ck_dequantize *dequantize, enum ck_dtype codes) {
    const struct ck_view *channel = &dequantize->channel;
    uint64_t channels = 1;
    struct steps steps;

    if (ck_dtype_row(codes)->kind != CK_QUANTIZED || codes == CK_DTYPE_END_)
        return false;
    if (dequantize->scheme == CK_QSCHEME_TENSOR || ck_view_numel(channel) == 0)
        return true;
    find_steps(channel, &steps);
    for (uint32_t k = 0; k < steps.rank; k++)
        channels += (steps.n[k] - 1) * steps.step[k];
    /* Where the channels are the outermost dimension, a tile has no more of them than elements. */
    return channels <= CK_CHANNELS_MAX || (steps.step[0] == 1 && (steps.rank == 1 || steps.step[1] == 0));
}

/* ---- the numbers of the channels ---- */

void ck_channels_release(struct ck_channels *channels) {
    free(channels->scales);
    free(channels->zero_points);
    *channels = (struct ck_channels){0};
}

static double number_at(enum ck_dtype dtype, bool swap, const uint8_t *bytes) {
    union {
        uint32_t u32;
        uint64_t u64;
        float f32;
        double f64;
    } value = {0};

    if (ck_dtype_row(dtype)->size == 8) {
        memcpy(&value.u64, bytes, 8);
        value.u64 = swap ? bswap_64(value.u64) : value.u64;
        return dtype == CK_F64 ? value.f64 : (double)(int64_t)value.u64;
    }
    memcpy(&value.u32, bytes, 4);
    value.u32 = swap ? bswap_32(value.u32) : value.u32;
    return dtype == CK_F32 ? (double)value.f32 : (double)(int32_t)value.u32;
}

/* Reads `n` numbers into scales or, if that is NULL, zero_points. */
static int read_numbers(const struct ck_channel_values *values, uint64_t first, size_t n, double *scales,
                        float *zero_points, struct ck_error *err) {
    uint8_t bytes[4096];
    size_t size = ck_dtype_row(values->dtype)->size, most = sizeof(bytes) / size;

    for (size_t done = 0; done < n;) {
        size_t part = CK_MIN(n - done, most);
        int r = ck_source_read(&values->storage, (values->offset + first + done) * size, bytes, part * size, err);

        if (r < 0)
            return r;
        for (size_t i = 0; i < part; i++) {
            double number = number_at(values->dtype, values->swap, bytes + i * size);

            if (scales)
                scales[done + i] = number;
            else
                zero_points[done + i] = (float)number;
        }
        done += part;
    }
    return 0;
}

static int load_channels(const struct ck_dequantize *dequantize, uint64_t first, uint64_t last,
                         struct ck_channels *channels, struct ck_error *err) {
    uint64_t count = last - first + 1;
    int r;

    if (channels->count > 0 && first >= channels->first && last < channels->first + channels->count)
        return 0;
    if (count > CK_CHANNELS_MAX)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "a part of it needs the scales of %llu channels, more than %u", (unsigned long long)count,
                            CK_CHANNELS_MAX);
    if (!channels->scales)
        channels->scales = malloc(CK_CHANNELS_MAX * sizeof(*channels->scales));
    if (!channels->zero_points)
        channels->zero_points = malloc(CK_CHANNELS_MAX * sizeof(*channels->zero_points));
    if (!channels->scales || !channels->zero_points)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the scales of the channels");
    channels->count = 0;
    r = read_numbers(&dequantize->scales, first, (size_t)count, channels->scales, NULL, err);
    if (r == 0)
        r = read_numbers(&dequantize->zero_points, first, (size_t)count, NULL, channels->zero_points, err);
    if (r < 0)
        return r;
    channels->first = first;
    channels->count = count;
    return 0;
}

/* ---- the codes ---- */

static int32_t code_at(enum ck_dtype dtype, const uint8_t *codes, size_t i) {
    int32_t code;

    if (dtype == CK_QI32) {
        memcpy(&code, codes + i * 4, 4);
        return code;
    }
    return dtype == CK_QI8 ? (int8_t)codes[i] : codes[i];
}

static void by_tensor(const struct ck_dequantize *dequantize, enum ck_dtype dtype, const uint8_t *codes, size_t n,
                      float *out) {
    uint32_t zero_point = (uint32_t)dequantize->zero_point;
    float scale = (float)dequantize->scale;

    for (size_t i = 0; i < n; i++)
        out[i] = scale * (float)(int32_t)((uint32_t)code_at(dtype, codes, i) - zero_point);
}

static void by_channel(enum ck_qscheme scheme, enum ck_dtype dtype, const struct segment *segment,
                       const struct ck_channels *channels, const uint8_t *codes, float *out) {
    uint64_t c = segment->channel - channels->first;

    for (size_t i = 0; i < segment->n; i++, c += segment->step) {
        float from_zero = (float)code_at(dtype, codes, i) - channels->zero_points[c];

        if (scheme == CK_QSCHEME_CHANNEL)
            out[i] = (float)((double)from_zero * channels->scales[c]);
        else
            out[i] = from_zero * (float)channels->scales[c];
    }
}

/* One piece of a tile, which begins at element `at` of the output. */
static int piece_by_channel(const struct ck_dequantize *dequantize, enum ck_dtype dtype, const struct steps *steps,
                            uint64_t at, uint64_t n, const uint8_t *codes, float *out, struct ck_channels *channels,
                            struct ck_error *err) {
    size_t size = ck_dtype_row(dtype)->size;

    while (n > 0) {
        struct segment segment = segment_at(&dequantize->channel, steps, at, n);
        int r =
            load_channels(dequantize, segment.channel, segment.channel + (segment.n - 1) * segment.step, channels, err);

        if (r < 0)
            return r;
        by_channel(dequantize->scheme, dtype, &segment, channels, codes, out);
        at += segment.n;
        n -= segment.n;
        codes += segment.n * size;
        out += segment.n;
    }
    return 0;
}

/* Loads what the whole tile needs, where that is possible, so that its segments need not. */
static int load_box(const struct ck_dequantize *dequantize, const struct steps *steps, const struct ck_tiling *tiling,
                    const struct ck_box *box, struct ck_channels *channels, struct ck_error *err) {
    uint64_t first = dequantize->channel.offset, last = first, begin, end;

    for (uint32_t k = 0; k < steps->rank; k++)
        last += (steps->n[k] - 1) * steps->step[k];
    if (last - first >= CK_CHANNELS_MAX) {
        begin = ck_box_piece_offset(tiling, box, 0);
        end = ck_box_piece_offset(tiling, box, box->pieces - 1) + box->piece - 1;
        first = segment_at(&dequantize->channel, steps, begin, 1).channel;
        last = segment_at(&dequantize->channel, steps, end, 1).channel;
    }
    return load_channels(dequantize, first, last, channels, err);
}

int ck_dequantize_box(const struct ck_dequantize *dequantize, enum ck_dtype codes_dtype, const struct ck_tiling *tiling,
                      const struct ck_box *box, const void *codes, float *out, struct ck_channels *channels,
                      struct ck_error *err) {
    size_t size = ck_dtype_row(codes_dtype)->size;
    const uint8_t *at = codes;
    struct steps steps;
    int r;

    if (dequantize->scheme == CK_QSCHEME_TENSOR) {
        by_tensor(dequantize, codes_dtype, codes, (size_t)box->elements, out);
        return 0;
    }
    find_steps(&dequantize->channel, &steps);
    r = load_box(dequantize, &steps, tiling, box, channels, err);
    for (uint64_t i = 0; r == 0 && i < box->pieces; i++, at += box->piece * size, out += box->piece)
        r = piece_by_channel(dequantize, codes_dtype, &steps, ck_box_piece_offset(tiling, box, i), box->piece, at, out,
                             channels, err);
    return r;
}

int ck_unpack(const struct ck_source *storage, enum ck_dtype dtype, uint64_t first, size_t n, uint8_t *raw,
              uint8_t *out, struct ck_error *err) {
    unsigned per = ck_dtype_row(dtype)->per, bits = 8 / per, mask = (1u << bits) - 1;
    uint64_t begin = first / per, end = (first + n - 1) / per + 1;
    int r = ck_source_read(storage, begin, raw, (size_t)(end - begin), err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = first + i - begin * per;

        out[i] = (uint8_t)((unsigned)raw[at / per] >> (at % per * bits) & mask);
    }
    return 0;
}
