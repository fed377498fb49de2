/* mlx/items.h: from one source tensor and its rule to the item of the plan: steps, view, dtype, quantization. */
#ifndef CK_MLX_ITEMS_H
#define CK_MLX_ITEMS_H

#include "core/job/options.h"
#include "core/job/plan.h"
#include "core/matrix/layers.h"

/* Takes the source (job/quantized.h) and appends the steps of the rule to both. groups > 1 only with a transposed
 * convolution, and then divides dimension 0. *ret_shape, *ret_rank: the output's shape (merged where a regroup splits a
 * dimension), in plan->arena. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_item_apply_rule(struct ck_plan *plan, struct ck_plan_item *item, const struct ck_spec *spec, enum ck_rule rule,
                       uint32_t groups, const int64_t **ret_shape, uint32_t *ret_rank, struct ck_error *err);

/* Narrows item->view to part `index` of `of` equal parts along axis 0, and appends the step. The caller checked that
 * they are equal. */
int ck_item_split(struct ck_plan *plan, struct ck_plan_item *item, const struct ck_spec *spec, uint32_t index,
                  uint32_t of, const int64_t **ret_shape, uint32_t *ret_rank, struct ck_error *err);

/* The dtype that option dtype= (its value) makes of a tensor's, for MLX; false if MLX cannot hold it. */
bool ck_item_dtype(enum ck_dtype from, const char *option, enum ck_dtype *ret_dtype);

/* Why a tensor of this shape and dtype, owned by such a layer as its weight, is not quantized; NULL if it is. row may
 * be NULL. */
const char *ck_item_left_alone(struct ck_plan *plan, const struct ck_layer_row *row, bool is_weight, uint32_t rank,
                               const int64_t *shape, enum ck_dtype dtype, struct ck_affine affine);

/* Sets dtype, affine and out[] (names, dtypes, shapes, bytes) of the item; appends the cast and quantize steps. name:
 * of the tensor; a quantized `X.weight` gets X.scales and X.biases. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_item_finish(struct ck_plan *plan, struct ck_plan_item *item, const char *name, const int64_t *shape,
                   uint32_t rank, enum ck_dtype dtype, struct ck_affine affine, struct ck_error *err);

#endif
