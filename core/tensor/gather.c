#include "core/tensor/gather.h"

#include <string.h>

/* A copy in memory with its dimensions collapsed; strides in bytes. */
struct copy {
    uint32_t rank;
    size_t size;
    size_t n[CK_RANK_MAX], in[CK_RANK_MAX], out[CK_RANK_MAX];
};

static void collapse(struct copy *copy, size_t size, uint32_t rank, const uint64_t *count, const uint64_t *stride) {
    size_t dense = size;

    copy->size = size;
    copy->rank = 0;
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t last = copy->rank - 1;

        if (count[k] == 1)
            continue;
        if (copy->rank > 0 && copy->in[last] == stride[k] * size * count[k]) {
            copy->n[last] *= count[k];
            copy->in[last] = stride[k] * size;
            continue;
        }
        copy->n[copy->rank] = count[k];
        copy->in[copy->rank++] = stride[k] * size;
    }
    for (uint32_t k = copy->rank; k-- > 0;) {
        copy->out[k] = dense;
        dense *= copy->n[k];
    }
}

/* A short contiguous last dimension is one larger element: complex halves, pairs of a kernel of width 2. */
static void widen(struct copy *copy) {
    size_t bytes;

    if (copy->rank == 0 || copy->in[copy->rank - 1] != copy->size)
        return;
    bytes = copy->n[copy->rank - 1] * copy->size;
    if (bytes <= 16 && (bytes & (bytes - 1)) == 0) {
        copy->size = bytes;
        copy->rank--;
    }
}

struct element16 {
    uint64_t half[2];
};

/* Lines of a block: at 64 or more bytes each, both sides' cache lines are used whole while they are in the first-level
 * cache. */
#define BLOCK 32

/* For each element size: out[i * size] = in[i * step]; and the same for `lines` lines of n elements, blocked so that a
 * step along a line, which may be a cache miss, is shared by the neighbouring lines. The fixed number of lines lets the
 * compiler keep them apart in registers. */
#define KERNELS(type)                                                                                                  \
    static inline void move_##type(char *out, const char *in) {                                                        \
        type element;                                                                                                  \
                                                                                                                       \
        memcpy(&element, in, sizeof(element));                                                                         \
        memcpy(out, &element, sizeof(element));                                                                        \
    }                                                                                                                  \
                                                                                                                       \
    static void line_##type(char *restrict out, const char *restrict in, size_t n, size_t step) {                      \
        for (size_t i = 0; i < n; i++)                                                                                 \
            move_##type(out + i * sizeof(type), in + i * step);                                                        \
    }                                                                                                                  \
                                                                                                                       \
    static void block_##type(char *restrict out, const char *restrict in, size_t n, size_t step, size_t lines,         \
                             size_t out_line, size_t in_line) {                                                        \
        size_t line = 0;                                                                                               \
                                                                                                                       \
        for (; line + 4 <= lines; line += 4, out += 4 * out_line, in += 4 * in_line)                                   \
            for (size_t i = 0; i < n; i++) {                                                                           \
                move_##type(out + i * sizeof(type), in + i * step);                                                    \
                move_##type(out + out_line + i * sizeof(type), in + in_line + i * step);                               \
                move_##type(out + 2 * out_line + i * sizeof(type), in + 2 * in_line + i * step);                       \
                move_##type(out + 3 * out_line + i * sizeof(type), in + 3 * in_line + i * step);                       \
            }                                                                                                          \
        for (; line < lines; line++, out += out_line, in += in_line)                                                   \
            line_##type(out, in, n, step);                                                                             \
    }                                                                                                                  \
                                                                                                                       \
    static void transpose_##type(char *restrict out, const char *restrict in, size_t n, size_t step, size_t lines,     \
                                 size_t out_line, size_t in_line) {                                                    \
        for (size_t line = 0; line < lines; line += BLOCK)                                                             \
            for (size_t i = 0; i < n; i += BLOCK)                                                                      \
                block_##type(out + line * out_line + i * sizeof(type), in + line * in_line + i * step,                 \
                             CK_MIN(n - i, (size_t)BLOCK), step, CK_MIN(lines - line, (size_t)BLOCK), out_line,        \
                             in_line);                                                                                 \
    }

typedef struct element16 element16;
KERNELS(uint8_t)
KERNELS(uint16_t)
KERNELS(uint32_t)
KERNELS(uint64_t)
KERNELS(element16)

typedef void (*transpose_fn)(char *restrict out, const char *restrict in, size_t n, size_t step, size_t lines,
                             size_t out_line, size_t in_line);

static transpose_fn transpose_of(size_t size) {
    return size == 1   ? transpose_uint8_t
           : size == 2 ? transpose_uint16_t
           : size == 4 ? transpose_uint32_t
           : size == 8 ? transpose_uint64_t
                       : transpose_element16;
}

/* The dimension, other than the last, whose neighbours are nearest to each other in the source; the last itself if it
 * is already the nearest. */
static uint32_t nearest_dimension(const struct copy *copy) {
    uint32_t nearest = copy->rank - 1;

    for (uint32_t k = 0; k + 1 < copy->rank; k++)
        if (copy->in[k] > 0 && copy->in[k] < copy->in[nearest])
            nearest = k;
    return nearest;
}

/* Takes dimension k out. */
static void drop_dimension(struct copy *copy, uint32_t k) {
    copy->rank--;
    for (; k < copy->rank; k++) {
        copy->n[k] = copy->n[k + 1];
        copy->in[k] = copy->in[k + 1];
        copy->out[k] = copy->out[k + 1];
    }
}

/* The next index of the remaining dimensions, the last one fastest; moves both offsets. False after the last. */
static bool next_index(const struct copy *copy, size_t *index, size_t *in, size_t *out) {
    for (uint32_t k = copy->rank; k-- > 0;) {
        *in += copy->in[k];
        *out += copy->out[k];
        if (++index[k] < copy->n[k])
            return true;
        index[k] = 0;
        *in -= copy->in[k] * copy->n[k];
        *out -= copy->out[k] * copy->n[k];
    }
    return false;
}

/* Last dimension contiguous on both sides. */
static void copy_rows(struct copy *copy, char *out, const char *in) {
    size_t index[CK_RANK_MAX] = {0}, in_at = 0, out_at = 0, bytes = copy->n[copy->rank - 1] * copy->size;

    copy->rank--;
    do
        memcpy(out + out_at, in + in_at, bytes);
    while (next_index(copy, index, &in_at, &out_at));
}

/* Last dimension scattered in the source: it is transposed with the dimension that is nearest there. */
static void copy_transposed(struct copy *copy, char *out, const char *in) {
    uint32_t last = copy->rank - 1, other = nearest_dimension(copy);
    size_t index[CK_RANK_MAX] = {0}, in_at = 0, out_at = 0, n = copy->n[last], step = copy->in[last];
    size_t lines = 1, out_line = 0, in_line = 0;
    transpose_fn transpose = transpose_of(copy->size);

    drop_dimension(copy, last);
    if (other != last) {
        lines = copy->n[other];
        out_line = copy->out[other];
        in_line = copy->in[other];
        drop_dimension(copy, other);
    }
    do
        transpose(out + out_at, in + in_at, n, step, lines, out_line, in_line);
    while (next_index(copy, index, &in_at, &out_at));
}

void ck_permute(void *out, const void *in, size_t size, uint32_t rank, const uint64_t *count, const uint64_t *stride) {
    struct copy copy;

    collapse(&copy, size, rank, count, stride);
    widen(&copy);
    if (copy.rank == 0)
        memcpy(out, in, copy.size);
    else if (copy.in[copy.rank - 1] == copy.size)
        copy_rows(&copy, out, in);
    else
        copy_transposed(&copy, out, in);
}

/* True if the raw elements are already the dense ones. */
static bool is_dense(const struct ck_box *box, const struct ck_reading *reading) {
    uint64_t dense = 1;

    for (uint32_t k = box->rank; k-- > 0;) {
        if (box->count[k] != 1 && reading->raw_stride[k] != dense)
            return false;
        dense *= box->count[k];
    }
    return true;
}

static int read_runs(const struct ck_source *storage, const struct ck_tiling *tiling, const struct ck_box *box,
                     const struct ck_reading *reading, char *raw, struct ck_error *err) {
    uint64_t index[CK_RANK_MAX] = {0}, at = box->source;
    size_t bytes = (size_t)reading->span * tiling->size;

    for (uint64_t run = 0; run < reading->runs; run++) {
        int r = ck_source_read(storage, at * tiling->size, raw, bytes, err);

        if (r < 0)
            return r;
        raw += bytes;
        for (uint32_t i = 0; i < reading->n_outer; i++) {
            uint32_t k = reading->outer[i];

            at += tiling->stride[k];
            if (++index[i] < box->count[k])
                break;
            at -= tiling->stride[k] * box->count[k];
            index[i] = 0;
        }
    }
    return 0;
}

int ck_gather_box(const struct ck_source *storage, const struct ck_tiling *tiling, const struct ck_box *box, void *raw,
                  void *dense, struct ck_error *err) {
    struct ck_reading reading;
    int r;

    ck_tiling_reading(tiling, box->count, &reading);
    if (is_dense(box, &reading))
        return read_runs(storage, tiling, box, &reading, dense, err);
    r = read_runs(storage, tiling, box, &reading, raw, err);
    if (r < 0)
        return r;
    ck_permute(dense, raw, tiling->size, box->rank, box->count, reading.raw_stride);
    return 0;
}
