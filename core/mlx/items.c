#include "core/mlx/items.h"

#include <string.h>

#include "core/job/quantized.h"

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the plan of the model needs too much memory");
}

static const int64_t *permuted(struct ck_plan *plan, const int64_t *values, const uint8_t *axes, uint32_t rank) {
    int64_t *copy = ck_arena_alloc_array(&plan->arena, rank, sizeof(*copy));

    for (uint32_t i = 0; copy && i < rank; i++)
        copy[i] = values[axes[i]];
    return copy;
}

static bool permute(struct ck_plan *plan, struct ck_view *view, const uint8_t *axes, uint32_t rank) {
    const int64_t *shape = permuted(plan, view->shape, axes, rank), *stride = permuted(plan, view->stride, axes, rank);

    view->shape = shape;
    view->stride = stride;
    return shape && stride;
}

/* [g*i, o, k...] -> [g, o, k..., i]: the source of a grouped transposed convolution, read as MLX wants it
 * (mx.conv_transpose takes [g*o, k..., i]). */
static bool regroup(struct ck_plan *plan, struct ck_view *view, uint32_t groups) {
    uint32_t rank = view->rank + 1;
    int64_t *shape = ck_arena_alloc_array(&plan->arena, rank, sizeof(*shape));
    int64_t *stride = ck_arena_alloc_array(&plan->arena, rank, sizeof(*stride));
    int64_t inner = view->shape[0] / groups;

    if (!shape || !stride)
        return false;
    shape[0] = groups;
    stride[0] = inner * view->stride[0];
    for (uint32_t i = 1; i < view->rank; i++) {
        shape[i] = view->shape[i];
        stride[i] = view->stride[i];
    }
    shape[rank - 1] = inner;
    stride[rank - 1] = view->stride[0];
    view->shape = shape;
    view->stride = stride;
    view->rank = rank;
    return true;
}

/* The output of a regroup: its first two dimensions are one. */
static const int64_t *merge_first_two(struct ck_plan *plan, const struct ck_view *view) {
    int64_t *shape = ck_arena_alloc_array(&plan->arena, view->rank - 1, sizeof(*shape));

    if (!shape)
        return NULL;
    shape[0] = view->shape[0] * view->shape[1];
    memcpy(shape + 1, view->shape + 2, (view->rank - 2) * sizeof(*shape));
    return shape;
}

/* What is done to the view is done to the channels of its quantizer, too. */
static bool has_channels(const struct ck_plan_item *item) {
    return item->channel.rank > 0;
}

int ck_item_apply_rule(struct ck_plan *plan, struct ck_plan_item *item, const struct ck_spec *spec, enum ck_rule rule,
                       uint32_t groups, const int64_t **ret_shape, uint32_t *ret_rank, struct ck_error *err) {
    const struct ck_rule_row *row = ck_rule_row(rule);
    struct ck_step *step;
    int r;

    item->rule = row->name;
    r = ck_item_take(plan, item, spec, err);
    if (r < 0)
        return r;
    step = &item->steps[item->n_steps];
    if (groups > 1) {
        const int64_t *shape;

        *step = (struct ck_step){.op = CK_STEP_REGROUP, .regroup = {groups}};
        item->n_steps++;
        shape = regroup(plan, &item->view, groups) ? merge_first_two(plan, &item->view) : NULL;
        if (!shape || (has_channels(item) && !regroup(plan, &item->channel, groups)))
            return no_memory(err);
        *ret_shape = shape;
        *ret_rank = item->view.rank - 1;
        return 0;
    }
    if (row->rank > 0) {
        *step = (struct ck_step){.op = CK_STEP_PERMUTE, .permute = {.rank = row->rank}};
        memcpy(step->permute.axes, row->axes, row->rank);
        item->n_steps++;
        if (!permute(plan, &item->view, row->axes, row->rank) ||
            (has_channels(item) && !permute(plan, &item->channel, row->axes, row->rank)))
            return no_memory(err);
    }
    *ret_shape = item->view.shape;
    *ret_rank = item->view.rank;
    return 0;
}

int ck_item_split(struct ck_plan *plan, struct ck_plan_item *item, const struct ck_spec *spec, uint32_t index,
                  uint32_t of, const int64_t **ret_shape, uint32_t *ret_rank, struct ck_error *err) {
    int64_t *shape;
    int r;

    r = ck_item_take(plan, item, spec, err);
    if (r < 0)
        return r;
    shape = ck_arena_alloc_array(&plan->arena, item->view.rank, sizeof(*shape));
    if (!shape)
        return no_memory(err);
    memcpy(shape, item->view.shape, item->view.rank * sizeof(*shape));
    shape[0] /= of;
    item->view.offset += (uint64_t)(index * shape[0] * item->view.stride[0]);
    item->view.shape = shape;
    if (has_channels(item)) {
        item->channel.offset += (uint64_t)(index * shape[0] * item->channel.stride[0]);
        item->channel.shape = shape;
    }
    item->rule = ck_rule_row(CK_RULE_ATTENTION)->name;
    item->steps[item->n_steps++] = (struct ck_step){.op = CK_STEP_SPLIT, .split = {index, of}};
    *ret_shape = shape;
    *ret_rank = item->view.rank;
    return 0;
}

bool ck_item_dtype(enum ck_dtype from, const char *option, enum ck_dtype *ret_dtype) {
    enum ck_dtype to = from;

    if (ck_dtype_is_real(from)) {
        if (strcmp(option, "keep") != 0)
            ck_dtype_from_torch(option, &to);
        else if (from == CK_F64)
            to = CK_F32;
    }
    if (!ck_dtype_row(to)->mlx)
        return false;
    *ret_dtype = to;
    return true;
}

const char *ck_item_left_alone(struct ck_plan *plan, const struct ck_layer_row *row, bool is_weight, uint32_t rank,
                               const int64_t *shape, enum ck_dtype dtype, struct ck_affine affine) {
    if (!is_weight)
        return "MLX quantizes the weights of layers only";
    if (!row)
        return "no Linear or Embedding owns it";
    if (row->kind != CK_LAYER_LINEAR && row->kind != CK_LAYER_EMBEDDING && row->kind != CK_LAYER_ATTENTION)
        return "MLX quantizes the weights of Linear and Embedding only";
    if (!ck_dtype_is_real(dtype))
        return "it is not of a floating-point type";
    if (rank != 2)
        return "it is not a matrix";
    if (shape[0] == 0 || shape[1] == 0)
        return "it is empty";
    if (shape[1] % affine.group != 0) {
        const char *reason = ck_arena_printf(&plan->arena, "its rows of %lld are no multiple of the group of %u",
                                             (long long)shape[1], affine.group);

        return reason ? reason : "its rows are no multiple of the group";
    }
    return NULL;
}

static uint64_t product(const int64_t *shape, uint32_t rank) {
    uint64_t n = 1;

    for (uint32_t i = 0; i < rank; i++)
        n *= (uint64_t)shape[i];
    return n;
}

/* Codes, scales and biases of an affine matrix [rows, columns], as mx.quantize returns them. */
static int finish_quantized(struct ck_plan *plan, struct ck_plan_item *item, const char *name, const int64_t *shape,
                            enum ck_dtype dtype, struct ck_error *err) {
    static const char *const leaves[] = {"weight", "scales", "biases"};
    int stem = (int)(strlen(name) - strlen("weight"));

    for (int i = 0; i < 3; i++) {
        struct ck_out_tensor *out = &item->out[i];
        int64_t *out_shape = ck_arena_alloc_array(&plan->arena, 2, sizeof(*out_shape));

        if (!out_shape)
            return no_memory(err);
        out_shape[0] = shape[0];
        out_shape[1] = i == 0 ? shape[1] * item->affine.bits / 32 : shape[1] / item->affine.group;
        out->name = i == 0 ? name : ck_arena_printf(&plan->arena, "%.*s%s", stem, name, leaves[i]);
        out->dtype = i == 0 ? "U32" : ck_dtype_row(dtype)->mlx;
        out->rank = 2;
        out->shape = out_shape;
        out->bytes = product(out_shape, 2) * (i == 0 ? 4u : ck_dtype_row(dtype)->size);
        if (!out->name)
            return no_memory(err);
    }
    item->n_out = 3;
    item->steps[item->n_steps++] = (struct ck_step){.op = CK_STEP_QUANTIZE, .quantize = item->affine};
    return 0;
}

int ck_item_finish(struct ck_plan *plan, struct ck_plan_item *item, const char *name, const int64_t *shape,
                   uint32_t rank, enum ck_dtype dtype, struct ck_affine affine, struct ck_error *err) {
    if (dtype != (item->quantizer ? CK_F32 : item->view.dtype))
        item->steps[item->n_steps++] = (struct ck_step){.op = CK_STEP_CAST, .cast = dtype};
    item->dtype = dtype;
    item->affine = affine;
    if (affine.bits > 0)
        return finish_quantized(plan, item, name, shape, dtype, err);
    item->out[0] = (struct ck_out_tensor){
        .name = name,
        .dtype = ck_dtype_row(dtype)->safetensors,
        .rank = rank,
        .shape = shape,
        .bytes = product(shape, rank) * ck_dtype_row(dtype)->size,
    };
    item->n_out = 1;
    return 0;
}
