#include "core/mlx/shapes.h"

#include <string.h>

#include "core/mlx/hints.h"

const struct ck_view *ck_layer_view(const struct ck_plan *plan, uint32_t tensor) {
    return tensor == CK_NO_INDEX ? NULL : &plan->model->tensors[tensor].view;
}

int64_t ck_layer_bias_length(const struct ck_plan *plan, const struct ck_layer *layer) {
    const struct ck_view *bias = ck_layer_view(plan, layer->bias);

    return bias && bias->rank == 1 ? bias->shape[0] : -1;
}

bool ck_shape_equal(const struct ck_view *a, const struct ck_view *b) {
    return a && b && a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof(*a->shape)) == 0;
}

static bool kernel_is(const struct ck_view *weight, int64_t size) {
    for (uint32_t i = 2; i < weight->rank; i++)
        if (weight->shape[i] != size)
            return false;
    return true;
}

bool ck_kernel_is_one(const struct ck_view *weight) {
    return kernel_is(weight, 1);
}

bool ck_kernel_is_two(const struct ck_view *weight) {
    return weight->rank > 3 && kernel_is(weight, 2);
}

bool ck_kernel_has_even(const struct ck_view *weight) {
    for (uint32_t i = 2; i < weight->rank; i++)
        if (weight->shape[i] % 2 == 0)
            return true;
    return false;
}

struct ck_readings ck_layer_readings(const struct ck_plan *plan, const struct ck_layer *layer) {
    const struct ck_view *weight = ck_layer_view(plan, layer->weight);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1], bias = ck_layer_bias_length(plan, layer);
    struct ck_readings r = {.groups = 1};

    if (bias < 0) {
        r.ordinary = r.transposed = true;
        return r;
    }
    r.ordinary = bias == d0;
    if (d1 > 0 && bias > 0 && bias % d1 == 0 && d0 % (bias / d1) == 0) {
        r.transposed = true;
        r.groups = bias / d1;
    }
    return r;
}

int64_t ck_layer_norm_features(const struct ck_plan *plan, const struct ck_layer *layer) {
    const struct ck_view *weight = ck_layer_view(plan, layer->weight), *mean = ck_layer_view(plan, layer->running_mean);

    if (mean)
        return mean->rank == 1 ? mean->shape[0] : 0;
    if (!weight || weight->rank != 1)
        return 0;
    if (ck_layer_bias_length(plan, layer) == weight->shape[0] ||
        (layer->bias == CK_NO_INDEX && ck_hint_norm(layer->path)))
        return weight->shape[0];
    return 0;
}

int64_t ck_layer_channels_out(const struct ck_plan *plan, const struct ck_layer *layer) {
    const struct ck_view *weight = ck_layer_view(plan, layer->weight);

    if (layer->row && layer->row->kind == CK_LAYER_CONV && weight)
        return weight->shape[0];
    if (layer->row && layer->row->kind == CK_LAYER_CONV_TRANSPOSE && weight)
        return weight->shape[1] * (int64_t)ck_layer_groups(plan, layer);
    return ck_layer_norm_features(plan, layer);
}

int64_t ck_layer_channels_in(const struct ck_plan *plan, const struct ck_layer *layer) {
    const struct ck_view *weight = ck_layer_view(plan, layer->weight);

    if (layer->row && layer->row->kind == CK_LAYER_CONV_TRANSPOSE && weight)
        return weight->shape[0];
    if (layer->row && layer->row->kind == CK_LAYER_CONV && weight && weight->shape[1] > 1)
        return weight->shape[1];
    return 0;
}
