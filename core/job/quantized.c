#include "core/job/quantized.h"

#include <stdio.h>
#include <string.h>

#include "core/job/refusal.h"

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the plan of the model needs too much memory");
}

static bool is_packed(const struct ck_tensor *tensor) {
    return ck_dtype_row(tensor->view.dtype)->per > 1;
}

bool ck_keeps_codes(const struct ck_spec *spec, const struct ck_tensor *tensor) {
    return tensor->quantizer && strcmp(ck_spec_get(spec, "quantized"), "keep") == 0;
}

/* Of unpacked codes, and of the bytes of packed ones. */
static enum ck_dtype code_dtype(enum ck_dtype dtype) {
    return dtype == CK_QI8 ? CK_I8 : dtype == CK_QI32 ? CK_I32 : CK_U8;
}

enum ck_dtype ck_taken_dtype(const struct ck_spec *spec, const struct ck_tensor *tensor) {
    return ck_keeps_codes(spec, tensor) ? code_dtype(tensor->view.dtype) : ck_tensor_dtype(tensor);
}

/* The view's dimensions, with a step of one channel along the axis. */
static bool make_channel(struct ck_plan *plan, const struct ck_tensor *tensor, struct ck_view *ret_channel) {
    int64_t *steps = ck_arena_alloc_array(&plan->arena, tensor->view.rank, sizeof(*steps));

    if (!steps)
        return false;
    memset(steps, 0, tensor->view.rank * sizeof(*steps));
    steps[tensor->quantizer->axis] = 1;
    *ret_channel = tensor->view;
    ret_channel->stride = steps;
    ret_channel->offset = 0;
    return true;
}

static bool flatten(struct ck_plan *plan, struct ck_view *view) {
    int64_t *dims = ck_arena_alloc_array(&plan->arena, 2, sizeof(*dims));

    if (!dims)
        return false;
    dims[0] = (int64_t)ck_view_bytes(view);
    dims[1] = 1;
    *view = (struct ck_view){.dtype = CK_U8, .rank = 1, .shape = dims, .stride = dims + 1};
    return true;
}

static void add_step(struct ck_plan_item *item, enum ck_step_op op) {
    item->steps[item->n_steps++] = (struct ck_step){.op = op};
}

int ck_item_take(struct ck_plan *plan, struct ck_plan_item *item, const struct ck_spec *spec, struct ck_error *err) {
    const struct ck_tensor *tensor = &plan->model->tensors[item->source];

    item->view = tensor->view;
    item->conj = tensor->conj;
    item->neg = tensor->neg;
    if (item->conj)
        add_step(item, CK_STEP_CONJUGATE);
    if (item->neg)
        add_step(item, CK_STEP_NEGATE);
    if (!tensor->quantizer)
        return 0;
    if (ck_keeps_codes(spec, tensor) && is_packed(tensor))
        return flatten(plan, &item->view) ? 0 : no_memory(err);
    if (tensor->quantizer->scheme != CK_QSCHEME_TENSOR && !make_channel(plan, tensor, &item->channel))
        return no_memory(err);
    if (ck_keeps_codes(spec, tensor)) {
        item->view.dtype = code_dtype(tensor->view.dtype);
        return 0;
    }
    item->quantizer = tensor->quantizer;
    add_step(item, CK_STEP_DEQUANTIZE);
    return 0;
}

int ck_item_take_quantizer(struct ck_plan *plan, struct ck_plan_item *item, bool zero_point, struct ck_error *err) {
    static const int64_t no_dims[1];
    const struct ck_quantizer *q = plan->model->tensors[item->source].quantizer;
    int64_t whole = q->zero_point;
    struct ck_storage *storage;
    void *number;

    if (q->scheme != CK_QSCHEME_TENSOR) {
        item->view = zero_point ? q->zero_points : q->scales;
        item->storage = &plan->model->storages[zero_point ? q->zero_points_storage : q->scales_storage];
        return 0;
    }
    storage = ck_arena_alloc(&plan->arena, sizeof(*storage));
    number = ck_arena_copy(&plan->arena, zero_point ? (const void *)&whole : &q->scale, 8);
    if (!storage || !number)
        return no_memory(err);
    *storage = (struct ck_storage){.source = ck_source_from_memory(number, 8)};
    item->view = (struct ck_view){.dtype = zero_point ? CK_I64 : CK_F64, .shape = no_dims, .stride = no_dims};
    item->storage = storage;
    return 0;
}

static bool add_metadata(struct ck_plan *plan, const char *name, const char *leaf, const char *value) {
    const char *key = ck_arena_printf(&plan->arena, "%s.%s", name, leaf);

    return key && ck_plan_add_metadata(plan, key, value);
}

int ck_plan_describe_codes(struct ck_plan *plan, const struct ck_plan_item *item, const char *name,
                           struct ck_error *err) {
    const struct ck_tensor *tensor = &plan->model->tensors[item->source];
    uint32_t axis = tensor->quantizer->axis;
    char text[256], shape[200];

    for (uint32_t i = 0; i < item->channel.rank; i++)
        if (item->channel.stride[i] > 0)
            axis = i;
    snprintf(text, sizeof(text), "%u", axis);
    if (tensor->quantizer->scheme != CK_QSCHEME_TENSOR && !add_metadata(plan, name, "axis", text))
        return no_memory(err);
    if (!is_packed(tensor))
        return 0;
    snprintf(text, sizeof(text), "%s %s", ck_dtype_row(tensor->view.dtype)->torch,
             ck_shape_text(&tensor->view, shape, sizeof(shape)));
    return add_metadata(plan, name, "packed", text) ? 0 : no_memory(err);
}

int ck_plan_cannot(struct ck_plan *plan, const struct ck_spec *spec, uint32_t tensor, int code, const char *message,
                   struct ck_error *err) {
    if (!message || strcmp(ck_spec_get(spec, "skip_bad"), "true") != 0)
        return ck_plan_refuse(plan, tensor, code, NULL, message, err);
    return ck_plan_drop(plan, tensor, ck_error_row(code)->name, message, err);
}
