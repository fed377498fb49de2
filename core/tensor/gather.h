/* tensor/gather.h: brings the elements of one tile together: reads their runs and puts them in the order of the output.
 */
#ifndef CK_TENSOR_GATHER_H
#define CK_TENSOR_GATHER_H

#include "core/base/source.h"
#include "core/tensor/tile.h"

/* Reads the box of a tiling from its storage into `dense`, in output order. raw and dense have CK_TILE_BUFFER bytes
 * each; raw is only used when the source's order is not the output's. Returns 0 or the errors of ck_source_read(). */
int ck_gather_box(const struct ck_source *storage, const struct ck_tiling *tiling, const struct ck_box *box, void *raw,
                  void *dense, struct ck_error *err);

/* Copies a box in memory: element (i0, i1, ...) of count[] lies at the sum of i[k] * stride[k] elements of `in` and
 * goes, in row-major order, to `out`. size: 1, 2, 4, 8 or 16 bytes. Strides may be 0 or overlap; nothing need be
 * aligned. */
void ck_permute(void *out, const void *in, size_t size, uint32_t rank, const uint64_t *count, const uint64_t *stride);

#endif
