#include "core/tensor/tile.h"

#include "core/tensor/execute.h"

#include <string.h>

/* A gap between two runs that costs about as much to read as the system call that would spare it. */
#define GAP_BYTES 2048u
/* Runs and pieces of this length cost more to copy than to ask for. Quantized pieces shrink before they are written. */
#define RUN_BYTES             4096u
#define PIECE_BYTES           4096u
#define PIECE_BYTES_QUANTIZED 16384u

static uint64_t mul_saturated(uint64_t a, uint64_t b) {
    uint64_t product;

    return ck_mul_u64(a, b, &product) ? product : UINT64_MAX;
}

static void collapse(struct ck_tiling *tiling, const struct ck_view *view) {
    uint32_t rank = 0;

    for (uint32_t k = 0; k < view->rank; k++) {
        uint64_t n = (uint64_t)view->shape[k], stride = (uint64_t)view->stride[k];

        if (n == 1)
            continue;
        if (rank > 0 && tiling->stride[rank - 1] == mul_saturated(stride, n)) {
            tiling->n[rank - 1] *= n;
            tiling->stride[rank - 1] = stride;
        } else {
            tiling->n[rank] = n;
            tiling->stride[rank++] = stride;
        }
    }
    if (rank == 0) {
        tiling->n[0] = 1;
        tiling->stride[0] = 1;
        rank = 1;
    }
    tiling->rank = rank;
}

static void sort_by_stride(struct ck_tiling *tiling) {
    for (uint32_t k = 0; k < tiling->rank; k++) {
        uint32_t at = k;

        for (; at > 0 && tiling->stride[tiling->order[at - 1]] > tiling->stride[k]; at--)
            tiling->order[at] = tiling->order[at - 1];
        tiling->order[at] = (uint8_t)k;
    }
}

void ck_tiling_reading(const struct ck_tiling *tiling, const uint64_t *count, struct ck_reading *ret_reading) {
    struct ck_reading *reading = ret_reading;
    bool in_run = true;

    reading->span = reading->runs = 1;
    reading->n_outer = 0;
    for (uint32_t i = 0; i < tiling->rank; i++) {
        uint32_t k = tiling->order[i];
        uint64_t stride = tiling->stride[k];

        if (count[k] == 1 || stride == 0) {
            reading->raw_stride[k] = 0;
            continue;
        }
        if (stride > reading->span && stride - reading->span > GAP_BYTES / tiling->size)
            in_run = false;
        if (in_run) {
            reading->raw_stride[k] = stride;
            reading->span += (count[k] - 1) * stride;
        } else {
            reading->raw_stride[k] = mul_saturated(reading->span, reading->runs);
            reading->outer[reading->n_outer++] = (uint8_t)k;
            reading->runs = mul_saturated(reading->runs, count[k]);
        }
    }
    reading->raw = mul_saturated(reading->span, reading->runs);
}

/* What the choice of a tile works with. */
struct choice {
    struct ck_tiling *tiling;
    uint64_t soft, hard; /* elements of a tile: wanted, and possible */
    uint64_t raw;        /* elements that may be read for one */
    uint64_t unit;       /* of the last dimension */
};

static uint64_t elements_of(const struct ck_tiling *tiling) {
    uint64_t elements = 1;

    for (uint32_t k = 0; k < tiling->rank; k++)
        elements = mul_saturated(elements, tiling->count[k]);
    return elements;
}

static bool fits(const struct choice *choice) {
    struct ck_reading reading;

    if (elements_of(choice->tiling) > choice->hard)
        return false;
    ck_tiling_reading(choice->tiling, choice->tiling->count, &reading);
    return reading.raw <= choice->raw;
}

static uint64_t round_down(const struct choice *choice, uint32_t k, uint64_t count) {
    uint64_t unit = k + 1 == choice->tiling->rank ? choice->unit : 1;

    return CK_MAX(count / unit * unit, unit);
}

/* Extends dimension k to at most `want`, as far as the tile still fits; never makes it shorter. Returns true if it is
 * whole. */
static bool grow(const struct choice *choice, uint32_t k, uint64_t want) {
    struct ck_tiling *tiling = choice->tiling;
    uint64_t before = tiling->count[k], others = elements_of(tiling) / before;

    want = CK_MIN(CK_MIN(want, choice->hard / others), tiling->n[k]);
    want = round_down(choice, k, want);
    while (want > before) {
        tiling->count[k] = want;
        if (fits(choice))
            return want == tiling->n[k];
        want = round_down(choice, k, want / 2);
    }
    tiling->count[k] = before;
    return before == tiling->n[k];
}

static void start(const struct choice *choice) {
    struct ck_tiling *tiling = choice->tiling;

    for (uint32_t k = 0; k < tiling->rank; k++)
        tiling->count[k] = 1;
    tiling->count[tiling->rank - 1] = choice->unit;
}

/* From the innermost dimension outwards until the tile has `elements`. */
static void grow_in_output_order(const struct choice *choice, uint64_t elements) {
    struct ck_tiling *tiling = choice->tiling;

    for (uint32_t k = tiling->rank; k-- > 0;) {
        uint64_t others = elements_of(tiling) / tiling->count[k];

        if (!grow(choice, k, CK_MAX(elements / others, 1)))
            break;
    }
}

/* From the smallest stride upwards until a run has `elements` useful ones. */
static void grow_in_source_order(const struct choice *choice, uint64_t elements) {
    struct ck_tiling *tiling = choice->tiling;
    uint64_t useful = 1;

    for (uint32_t i = 0; i < tiling->rank && useful < elements; i++) {
        uint32_t k = tiling->order[i];

        if (tiling->stride[k] == 0)
            continue;
        if (!grow(choice, k, (elements + useful - 1) / useful))
            break;
        useful *= tiling->count[k];
    }
}

/* The contiguous tile is good if it is feasible and does not read crumbs. */
static bool contiguous_tile(const struct choice *choice) {
    struct ck_tiling *tiling = choice->tiling;
    uint64_t inner = 1;
    struct ck_reading reading;

    start(choice);
    for (uint32_t k = tiling->rank; k-- > 0;) {
        tiling->count[k] = CK_MIN(tiling->n[k], round_down(choice, k, choice->soft / inner));
        if (tiling->count[k] < tiling->n[k])
            break;
        inner *= tiling->n[k];
    }
    if (!fits(choice))
        return false;
    ck_tiling_reading(tiling, tiling->count, &reading);
    return reading.runs == 1 || elements_of(tiling) / reading.runs * tiling->size >= RUN_BYTES;
}

static void block_tile(const struct choice *choice, uint64_t piece) {
    start(choice);
    grow_in_output_order(choice, piece);
    grow_in_source_order(choice, RUN_BYTES / choice->tiling->size);
    grow_in_output_order(choice, choice->soft);
}

/* Equal tiles along each dimension instead of whole ones and a small rest; never longer than before. */
static void balance(const struct choice *choice) {
    struct ck_tiling *tiling = choice->tiling;

    tiling->tiles = 1;
    for (uint32_t k = 0; k < tiling->rank; k++) {
        uint64_t unit = k + 1 == tiling->rank ? choice->unit : 1, units = tiling->n[k] / unit;
        uint64_t blocks = (tiling->n[k] + tiling->count[k] - 1) / tiling->count[k];

        tiling->count[k] = (units + blocks - 1) / blocks * unit;
        tiling->tiles *= (tiling->n[k] + tiling->count[k] - 1) / tiling->count[k];
    }
}

void ck_tiling_init(struct ck_tiling *tiling, const struct ck_view *view, size_t out_size, uint32_t unit) {
    struct choice choice = {.tiling = tiling, .unit = unit};

    tiling->size = ck_dtype_row(view->dtype)->size;
    tiling->offset = view->offset;
    tiling->tiles = 0;
    if (ck_view_numel(view) == 0) {
        tiling->rank = 0;
        return;
    }
    collapse(tiling, view);
    sort_by_stride(tiling);
    choice.soft = CK_TILE_BYTES / out_size;
    choice.hard = CK_TILE_BUFFER / CK_MAX((size_t)tiling->size, out_size);
    choice.raw = CK_TILE_BUFFER / tiling->size;
    if (!contiguous_tile(&choice))
        block_tile(&choice, (unit > 1 ? PIECE_BYTES_QUANTIZED : PIECE_BYTES) / out_size);
    balance(&choice);
}

/* Splits a box into what lies together in the output: whole inner dimensions and one range. */
static void find_pieces(const struct ck_tiling *tiling, struct ck_box *box) {
    uint32_t k = tiling->rank;

    box->piece = 1;
    while (k > 0) {
        box->piece *= box->count[--k];
        if (box->count[k] < tiling->n[k])
            break;
    }
    box->piece_rank = k;
    box->pieces = box->elements / box->piece;
}

void ck_tiling_box(const struct ck_tiling *tiling, uint64_t index, struct ck_box *ret_box) {
    struct ck_box *box = ret_box;

    box->rank = tiling->rank;
    box->elements = 1;
    box->source = tiling->offset;
    for (uint32_t k = tiling->rank; k-- > 0;) {
        uint64_t blocks = (tiling->n[k] + tiling->count[k] - 1) / tiling->count[k];

        box->lo[k] = index % blocks * tiling->count[k];
        box->count[k] = CK_MIN(tiling->count[k], tiling->n[k] - box->lo[k]);
        box->elements *= box->count[k];
        box->source += box->lo[k] * tiling->stride[k];
        index /= blocks;
    }
    find_pieces(tiling, box);
}

uint64_t ck_box_piece_offset(const struct ck_tiling *tiling, const struct ck_box *box, uint64_t i) {
    uint64_t offset = 0, inner = 1;

    for (uint32_t k = tiling->rank; k-- > 0;) {
        uint64_t at = box->lo[k];

        if (k < box->piece_rank) {
            at += i % box->count[k];
            i /= box->count[k];
        }
        offset += at * inner;
        inner *= tiling->n[k];
    }
    return offset;
}
