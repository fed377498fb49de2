/* mlx/shapes.h: what the shapes of one layer's tensors say. All take the plan's model for the views. */
#ifndef CK_MLX_SHAPES_H
#define CK_MLX_SHAPES_H

#include "core/mlx/layout.h"

/* The view of a tensor, or NULL for CK_NO_INDEX. */
const struct ck_view *ck_layer_view(const struct ck_plan *plan, uint32_t tensor);

/* Length of a bias vector; -1 without a bias, or if it is no vector. */
int64_t ck_layer_bias_length(const struct ck_plan *plan, const struct ck_layer *layer);

bool ck_shape_equal(const struct ck_view *a, const struct ck_view *b);

/* True if every dimension behind the first two is 1. */
bool ck_kernel_is_one(const struct ck_view *weight);

/* True if the kernel is 2 x 2 or 2 x 2 x 2: an up-sampling by two, as a rule (in one dimension it is as often a causal convolution). */
bool ck_kernel_is_two(const struct ck_view *weight);

/* True if a dimension behind the first two is even: usual for transposed convolutions (2, 4), rare for ordinary ones. */
bool ck_kernel_has_even(const struct ck_view *weight);

/* The readings that a weight [d0, d1, k...] and its bias allow: an ordinary convolution [out, in / groups, k...] with bias [d0], or a transposed
 * one [in, out / groups, k...] with bias [d1 * groups]. */
struct ck_readings {
    bool    ordinary, transposed;
    int64_t groups; /* of the transposed reading; 1 without a bias */
};

struct ck_readings ck_layer_readings(const struct ck_plan *plan, const struct ck_layer *layer);

/* Features of a norm layer; 0 if the layer is none. */
int64_t ck_layer_norm_features(const struct ck_plan *plan, const struct ck_layer *layer);

/* Channels that a decided convolution or a norm gives on, and those that a decided convolution takes; 0 if they cannot be told. */
int64_t ck_layer_channels_out(const struct ck_plan *plan, const struct ck_layer *layer);
int64_t ck_layer_channels_in(const struct ck_plan *plan, const struct ck_layer *layer);

#endif
