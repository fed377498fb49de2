#include "core/model/quantizer.h"

#include <inttypes.h>
#include <string.h>

#include "core/model/memory.h"

/* What one call works with. */
struct reading {
    struct ck_rebuild *rebuild;
    const struct ck_rebuilt *tensor;
    struct ck_quantizer *quantizer;
    const char *problem; /* NULL, or why the tensor cannot be read */
};

static int problem(struct reading *reading, const char *message, struct ck_error *err) {
    if (!message)
        return ck_model_memory_spent(reading->rebuild->limits, err);
    if (!reading->problem)
        reading->problem = message;
    return 0;
}

static int malformed(struct reading *reading, const char *what, struct ck_error *err) {
    return problem(reading, ck_arena_printf(reading->rebuild->arena, "its quantizer is malformed: %s", what), err);
}

static bool read_real(const struct ck_value *value, double *ret_real) {
    if (value->kind != CK_VALUE_FLOAT && value->kind != CK_VALUE_INT)
        return false;
    *ret_real = value->kind == CK_VALUE_FLOAT ? value->real : (double)value->integer;
    return true;
}

static int read_per_tensor(struct reading *reading, ck_ref parameters, struct ck_error *err) {
    const struct ck_pickle *pickle = reading->rebuild->pickle;
    const struct ck_value *zero_point;
    ck_ref scale, zero;

    if (!ck_pickle_argument(pickle, parameters, 1, &scale) || !ck_pickle_argument(pickle, parameters, 2, &zero))
        return malformed(reading, "scale or zero point are missing", err);
    zero_point = ck_pickle_get(pickle, zero);
    if (!read_real(ck_pickle_get(pickle, scale), &reading->quantizer->scale))
        return malformed(reading, "its scale is no number", err);
    if (zero_point->kind != CK_VALUE_INT || zero_point->integer < INT32_MIN || zero_point->integer > INT32_MAX)
        return malformed(reading, "its zero point is no 32-bit integer", err);
    reading->quantizer->scheme = CK_QSCHEME_TENSOR;
    reading->quantizer->zero_point = (int32_t)zero_point->integer;
    return 0;
}

/* A list of numbers becomes a storage in memory: integers if all are, else doubles. */
static int read_list(struct reading *reading, ck_ref list, struct ck_view *view, uint32_t *ret_storage,
                     struct ck_error *err) {
    struct ck_rebuild *rebuild = reading->rebuild;
    const struct ck_value *value = ck_pickle_get(rebuild->pickle, list);
    uint32_t n = value->list.count;
    int64_t *numbers = ck_arena_alloc_array(rebuild->arena, (size_t)n + 2, sizeof(*numbers));
    struct ck_storage storage = {.key = "scales or zero points in the pickle"};

    if (!numbers)
        return ck_model_memory_spent(rebuild->limits, err);
    view->dtype = CK_I64;
    for (uint32_t i = 0; i < n; i++) {
        const struct ck_value *item = ck_pickle_get(rebuild->pickle, value->list.items[i]);

        if (item->kind == CK_VALUE_FLOAT)
            view->dtype = CK_F64;
        else if (item->kind != CK_VALUE_INT)
            return malformed(reading, "a scale or zero point is no number", err);
        numbers[i + 2] = item->integer;
    }
    for (uint32_t i = 0; view->dtype == CK_F64 && i < n; i++) {
        double real = 0;

        read_real(ck_pickle_get(rebuild->pickle, value->list.items[i]), &real);
        memcpy(&numbers[i + 2], &real, sizeof(real));
    }
    numbers[0] = n;
    numbers[1] = 1;
    view->rank = 1;
    view->shape = numbers;
    view->stride = numbers + 1;
    storage.source = ck_source_from_memory(numbers + 2, n * sizeof(*numbers));
    return ck_rebuild_add_storage(rebuild, &storage, ret_storage, err);
}

/* scales or zero points. */
static int read_channels(struct reading *reading, ck_ref ref, const char *what, bool integers, struct ck_view *view,
                         uint32_t *ret_storage, struct ck_error *err) {
    struct ck_rebuild *rebuild = reading->rebuild;
    struct ck_rebuilt values;
    int r;

    if (ck_pickle_get(rebuild->pickle, ref)->kind == CK_VALUE_LIST)
        return read_list(reading, ref, view, ret_storage, err);
    r = ck_rebuild_plain(rebuild, ref, &values, err);
    if (r < 0)
        return r;
    if (values.error)
        return problem(reading, ck_arena_printf(rebuild->arena, "its %s: %s", what, values.error_message), err);
    if (values.neg || (values.view.dtype != CK_F64 && values.view.dtype != CK_F32 &&
                       !(integers && (values.view.dtype == CK_I64 || values.view.dtype == CK_I32))))
        return problem(reading,
                       ck_arena_printf(rebuild->arena, "its %s are of %s, which is not supported", what,
                                       ck_dtype_row(values.view.dtype)->torch),
                       err);
    *view = values.view;
    *ret_storage = values.storage;
    return 0;
}

static bool covers(const struct ck_view *values, int64_t channels) {
    return values->rank == 1 && values->shape[0] == channels && ck_view_is_contiguous(values);
}

static int read_per_channel(struct reading *reading, ck_ref parameters, struct ck_error *err) {
    const struct ck_pickle *pickle = reading->rebuild->pickle;
    struct ck_quantizer *q = reading->quantizer;
    const struct ck_view *view = &reading->tensor->view;
    const struct ck_value *dimension;
    ck_ref scales, zero_points, axis;
    int r;

    if (!ck_pickle_argument(pickle, parameters, 1, &scales) ||
        !ck_pickle_argument(pickle, parameters, 2, &zero_points) || !ck_pickle_argument(pickle, parameters, 3, &axis))
        return malformed(reading, "scales, zero points or axis are missing", err);
    dimension = ck_pickle_get(pickle, axis);
    if (dimension->kind != CK_VALUE_INT || dimension->integer < 0 || dimension->integer >= view->rank)
        return malformed(reading, "its axis is no dimension of the tensor", err);
    q->axis = (uint32_t)dimension->integer;
    r = read_channels(reading, scales, "scales", false, &q->scales, &q->scales_storage, err);
    if (r == 0 && !reading->problem)
        r = read_channels(reading, zero_points, "zero points", true, &q->zero_points, &q->zero_points_storage, err);
    if (r < 0 || reading->problem)
        return r;
    if (!covers(&q->scales, view->shape[q->axis]) || !covers(&q->zero_points, view->shape[q->axis]))
        return malformed(reading, "it has not one scale and one zero point for each channel", err);
    q->scheme = ck_dtype_is_real(q->zero_points.dtype) ? CK_QSCHEME_CHANNEL_FLOAT : CK_QSCHEME_CHANNEL;
    return 0;
}

static int read_scheme(struct reading *reading, ck_ref parameters, struct ck_error *err) {
    const struct ck_pickle *pickle = reading->rebuild->pickle;
    const struct ck_value *name;
    ck_ref scheme;

    if (ck_pickle_get(pickle, parameters)->kind != CK_VALUE_TUPLE ||
        !ck_pickle_argument(pickle, parameters, 0, &scheme))
        return malformed(reading, "it is no tuple", err);
    name = ck_pickle_get(pickle, scheme);
    if (name->kind != CK_VALUE_GLOBAL || strcmp(name->global.module, "torch") != 0)
        return malformed(reading, "its scheme is none of torch", err);
    if (strcmp(name->global.name, "per_tensor_affine") == 0)
        return read_per_tensor(reading, parameters, err);
    if (strcmp(name->global.name, "per_channel_affine") == 0 ||
        strcmp(name->global.name, "per_channel_affine_float_qparams") == 0)
        return read_per_channel(reading, parameters, err);
    return problem(reading,
                   ck_arena_printf(reading->rebuild->arena,
                                   "it is quantized by the scheme torch.%.200s, which is not "
                                   "supported",
                                   name->global.name),
                   err);
}

/* A packed tensor has no gaps, whatever torch's strides say of elements that share bytes. */
static int check_codes(struct reading *reading, struct ck_error *err) {
    const struct ck_view *view = &reading->tensor->view;

    if (ck_dtype_row(view->dtype)->kind != CK_QUANTIZED)
        return malformed(reading, "the storage holds no quantized codes", err);
    if (ck_dtype_row(view->dtype)->per > 1 && (view->offset != 0 || !ck_view_is_contiguous(view)))
        return problem(reading,
                       ck_arena_printf(reading->rebuild->arena,
                                       "it is a part of a packed tensor (%s), or a transposed one: call "
                                       ".contiguous() before saving",
                                       ck_dtype_row(view->dtype)->torch),
                       err);
    return 0;
}

int ck_quantizer_read(struct ck_rebuild *rebuild, ck_ref arguments, struct ck_rebuilt *tensor, const char **ret_problem,
                      struct ck_error *err) {
    struct ck_quantizer *quantizer = ck_arena_alloc(rebuild->arena, sizeof(*quantizer));
    struct reading reading = {.rebuild = rebuild, .tensor = tensor, .quantizer = quantizer};
    ck_ref parameters;
    int r;

    if (!quantizer)
        return ck_model_memory_spent(rebuild->limits, err);
    *quantizer = (struct ck_quantizer){0};
    ck_pickle_argument(rebuild->pickle, arguments, 4, &parameters);
    r = check_codes(&reading, err);
    if (r == 0 && !reading.problem)
        r = read_scheme(&reading, parameters, err);
    if (r < 0)
        return r;
    if (reading.problem)
        *ret_problem = reading.problem;
    else
        tensor->quantizer = quantizer;
    return 0;
}

static bool copy_view(struct ck_view *view, struct ck_arena *arena) {
    int64_t *dims = ck_arena_alloc_array(arena, (size_t)view->rank * 2 + 1, sizeof(*dims));

    if (!dims)
        return false;
    for (uint32_t i = 0; i < view->rank; i++) {
        dims[i] = view->shape[i];
        dims[view->rank + i] = view->stride[i];
    }
    view->shape = dims;
    view->stride = dims + view->rank;
    return true;
}

const struct ck_quantizer *ck_quantizer_copy(const struct ck_quantizer *quantizer, uint32_t moved,
                                             struct ck_arena *arena) {
    struct ck_quantizer *copy = ck_arena_alloc(arena, sizeof(*copy));

    if (!copy)
        return NULL;
    *copy = *quantizer;
    copy->scales_storage += moved;
    copy->zero_points_storage += moved;
    return copy_view(&copy->scales, arena) && copy_view(&copy->zero_points, arena) ? copy : NULL;
}

bool ck_quantizer_equal(const struct ck_quantizer *a, const struct ck_quantizer *b) {
    if (a == b || !a || !b)
        return a == b;
    if (a->scheme != b->scheme)
        return false;
    if (a->scheme == CK_QSCHEME_TENSOR)
        return memcmp(&a->scale, &b->scale, sizeof(a->scale)) == 0 && a->zero_point == b->zero_point;
    return a->axis == b->axis && a->scales_storage == b->scales_storage &&
           a->zero_points_storage == b->zero_points_storage && ck_view_equal(&a->scales, &b->scales) &&
           ck_view_equal(&a->zero_points, &b->zero_points);
}
