/* tensor/view.h: where the elements of one tensor lie inside one storage.
 *
 * A view never owns bytes. All arithmetic is checked: a view that passed ck_view_check() can be walked
 * without further bounds tests. Source of the rules: torch's _rebuild_tensor_v2 (offset, size, stride in elements). */
#ifndef CK_TENSOR_VIEW_H
#define CK_TENSOR_VIEW_H

#include "core/base/error.h"
#include "core/tensor/dtype.h"

#define CK_RANK_MAX 64 /* torch's own bound */

struct ck_view {
    enum ck_dtype  dtype;
    uint32_t       rank;           /* 0 .. CK_RANK_MAX */
    const int64_t *shape, *stride; /* rank entries, borrowed from the owner's arena; stride in elements, never negative */
    uint64_t       offset;         /* first element, in elements from the start of the storage */
};

/* Checks rank, signs, overflow, and that every element lies inside storage_bytes (sub-byte types: `per` elements in a byte).
 * An empty view needs no storage. Returns 0, or CK_E_TENSOR_OUT_OF_BOUNDS with the last byte needed and the bytes there are. */
int ck_view_check(const struct ck_view *view, uint64_t storage_bytes, const char *tensor, struct ck_error *err);

/* Number of elements; 0 if a dimension is 0. Only for a checked view. */
uint64_t ck_view_numel(const struct ck_view *view);

/* Bytes of the elements laid out densely. Only for a checked view. */
uint64_t ck_view_bytes(const struct ck_view *view);

/* True if rows are adjacent in memory in the order of the shape, so that a copy needs no gather. Strides of dimensions of length 1
 * do not matter. Rank 0 and empty views are contiguous. */
bool ck_view_is_contiguous(const struct ck_view *view);

/* True if both have the same dtype, offset, shape and strides (strides of dimensions of length 1 do not matter). */
bool ck_view_equal(const struct ck_view *a, const struct ck_view *b);

#endif
