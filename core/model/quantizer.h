/* model/quantizer.h: the quantizer of a tensor, as _rebuild_qtensor of torch/_utils.py takes it.
 *
 *   (torch.per_tensor_affine, scale, zero_point)
 *   (torch.per_channel_affine, scales, zero_points, axis)
 *
 * Scales and zero points are tensors of the file, or lists of numbers (torch up to 1.3). Zero points of a floating dtype mean
 * float_qparams, whatever the name: torch writes per_channel_affine for both. */
#ifndef CK_MODEL_QUANTIZER_H
#define CK_MODEL_QUANTIZER_H

#include "core/model/rebuild.h"

/* Reads argument 4 of a _rebuild_qtensor into tensor->quantizer; the tensor's view is filled and checked. *ret_problem: why
 * the tensor cannot be read (in the model's arena), else untouched. Returns what ck_rebuild_tensor() may return. */
int ck_quantizer_read(struct ck_rebuild *rebuild, ck_ref arguments, struct ck_rebuilt *tensor, const char **ret_problem,
                      struct ck_error *err);

/* A copy in another arena, with its storages' indices moved by `moved`. NULL when out of memory. */
const struct ck_quantizer *ck_quantizer_copy(const struct ck_quantizer *quantizer, uint32_t moved,
                                             struct ck_arena *arena);

/* True if both make the same numbers of the same codes; NULL is equal to NULL. */
bool ck_quantizer_equal(const struct ck_quantizer *a, const struct ck_quantizer *b);

#endif
