/* tensor/tile.h: cuts a view into boxes (tiles) that can be read, converted and written with bounded memory.
 *
 * The view's dimensions are first collapsed (length 1 dropped, neighbours joined where one stride walks both). A tile
 * is then a box: a range of each dimension. Wherever the source allows it, tiles are contiguous in the output: outer
 * dimensions fixed, one ranged, inner ones whole. Where that would mean reading crumbs (a transposed matrix whose rows
 * are long in both directions), a tile is a block of both: longer runs to read for several shorter pieces to write.
 *
 * Reading: the dimensions with the smallest strides form a run, which is read whole with its gaps; the others are
 * walked run by run. */
#ifndef CK_TENSOR_TILE_H
#define CK_TENSOR_TILE_H

#include "core/tensor/view.h"

/* Bytes that one tile may have: as it is read (runs with their gaps), as dense source elements, and as output elements.
 */
#define CK_TILE_BUFFER ((size_t)4 << 20)

struct ck_tiling {
    uint32_t rank;                /* 1 .. CK_RANK_MAX */
    uint32_t size;                /* bytes of one source element */
    uint64_t offset;              /* of the first element, in elements */
    uint64_t n[CK_RANK_MAX];      /* length of each dimension, outermost first */
    uint64_t stride[CK_RANK_MAX]; /* in the source, in elements */
    uint64_t count[CK_RANK_MAX];  /* of a tile; the last one along a dimension may be shorter */
    uint8_t order[CK_RANK_MAX];   /* dimensions by ascending stride */
    uint64_t tiles;               /* 0 for an empty view */
};

/* One tile. */
struct ck_box {
    uint32_t rank;
    uint64_t lo[CK_RANK_MAX], count[CK_RANK_MAX];
    uint64_t elements;
    uint64_t source; /* its first element in the source, in elements */
    uint64_t piece;  /* elements that lie together in the output; elements = piece * pieces */
    uint64_t pieces;
    uint32_t piece_rank; /* dimensions 0 .. piece_rank-1 count the pieces */
};

/* How a box is read: `runs` runs of `span` elements; element (i0, i1, ...) is then at sum i[k] * raw_stride[k] of the
 * raw elements, which lie run behind run. */
struct ck_reading {
    uint64_t span, runs, raw; /* raw = span * runs, in elements */
    uint64_t raw_stride[CK_RANK_MAX];
    uint8_t outer[CK_RANK_MAX]; /* dimensions that are walked run by run, the smallest stride first */
    uint32_t n_outer;
};

/* For a checked view of whole-byte elements. out_size: bytes of one output element (before quantization); unit: tiles
 * begin and end at multiples of this many elements along the last dimension (the quantization group), else 1. */
void ck_tiling_init(struct ck_tiling *tiling, const struct ck_view *view, size_t out_size, uint32_t unit);

/* Tile `index`, 0 .. tiles-1. */
void ck_tiling_box(const struct ck_tiling *tiling, uint64_t index, struct ck_box *ret_box);

/* Where piece i of a box begins in the output, in elements. Pieces ascend. */
uint64_t ck_box_piece_offset(const struct ck_tiling *tiling, const struct ck_box *box, uint64_t i);

/* How to read the box of these counts. */
void ck_tiling_reading(const struct ck_tiling *tiling, const uint64_t *count, struct ck_reading *ret_reading);

#endif
