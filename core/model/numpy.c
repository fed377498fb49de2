#include "core/model/numpy.h"

#include <inttypes.h>
#include <string.h>

#include "core/model/bytes.h"
#include "core/model/memory.h"
#include "core/pickle/numpy.h"

/* Where the parts of an array are in the graph. */
struct array {
    ck_ref shape, dtype, data;
    ck_ref axes; /* of _frombuffer: the order in which the axes lie in memory, or CK_REF_NONE */
    bool fortran;
    const char *problem; /* it is an array, but of this kind: completes "it is " */
};

static bool is_numpy(const struct ck_pickle *pickle, ck_ref ref, const char *part, const char *name) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    const char *module;

    if (value->kind != CK_VALUE_GLOBAL || strcmp(value->global.name, name) != 0)
        return false;
    module = value->global.module;
    if (strncmp(module, "numpy.", 6) != 0)
        return false;
    module += module[6] == '_' ? 7 : 6;
    return strncmp(module, "core.", 5) == 0 && strcmp(module + 5, part) == 0;
}

static bool is_reconstruct(const struct ck_pickle *pickle, ck_ref ref) {
    return is_numpy(pickle, ref, "multiarray", "_reconstruct");
}

static bool is_true(const struct ck_pickle *pickle, ck_ref ref) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    return (value->kind == CK_VALUE_BOOL || value->kind == CK_VALUE_INT) && value->integer != 0;
}

/* (version, shape, dtype, is_fortran, bytes); the oldest have no version. */
static void read_state(const struct ck_pickle *pickle, ck_ref state, struct array *array) {
    const struct ck_value *value = ck_pickle_get(pickle, state);
    const ck_ref *items = value->list.items;

    if (value->kind != CK_VALUE_TUPLE || value->list.count < 4 || value->list.count > 5) {
        array->problem = state == CK_REF_NONE ? "a numpy array without content"
                                              : "a numpy array of a class with a content of its own";
        return;
    }
    items += value->list.count - 4;
    array->shape = items[0];
    array->dtype = items[1];
    array->fortran = is_true(pickle, items[2]);
    array->data = items[3];
}

static void read_buffer(const struct ck_pickle *pickle, ck_ref ref, struct array *array) {
    ck_ref order;

    if (!ck_pickle_argument(pickle, ref, 0, &array->data) || !ck_pickle_argument(pickle, ref, 1, &array->dtype) ||
        !ck_pickle_argument(pickle, ref, 2, &array->shape) || !ck_pickle_argument(pickle, ref, 3, &order)) {
        array->problem = "a numpy array without content";
        return;
    }
    array->fortran = ck_pickle_text_equal(pickle, order, "F");
    if (ck_pickle_text_equal(pickle, order, "K"))
        ck_pickle_argument(pickle, ref, 4, &array->axes);
    else if (!array->fortran && !ck_pickle_text_equal(pickle, order, "C"))
        array->problem = "a numpy array in an order that is not known";
}

static void read_joblib(const struct ck_pickle *pickle, ck_ref ref, struct array *array) {
    ck_ref state = ck_pickle_get(pickle, ref)->call.state, order;

    if (!ck_pickle_find(pickle, state, "shape", &array->shape) ||
        !ck_pickle_find(pickle, state, "dtype", &array->dtype) || !ck_pickle_argument(pickle, ref, 0, &array->data)) {
        array->problem = "an array of joblib without content";
        return;
    }
    array->fortran = ck_pickle_find(pickle, state, "order", &order) && ck_pickle_text_equal(pickle, order, "F");
}

static bool has_module(const struct ck_pickle *pickle, ck_ref ref, const char *ending) {
    const char *module = ck_pickle_get(pickle, ref)->global.module;
    size_t n = strlen(module), e = strlen(ending);

    return n >= e && strcmp(module + n - e, ending) == 0;
}

/* False if the value is no array. */
static bool find_array(const struct ck_pickle *pickle, ck_ref ref, struct array *array) {
    const struct ck_value *call = ck_pickle_get(pickle, ref);
    ck_ref class_, inner;

    if (call->kind != CK_VALUE_CALL || !ck_pickle_class(pickle, ref, &class_))
        return false;
    if (is_reconstruct(pickle, class_)) {
        read_state(pickle, call->call.state, array);
    } else if (is_numpy(pickle, class_, "numeric", "_frombuffer")) {
        read_buffer(pickle, ref, array);
    } else if (ck_pickle_is_joblib(pickle, ref)) {
        read_joblib(pickle, ref, array);
    } else if (has_module(pickle, class_, "joblib.numpy_pickle")) {
        array->problem = "an array that joblib before 0.10 put into a file of its own";
    } else if (ck_pickle_is_global(pickle, class_, "numpy.ma.core", "_mareconstruct")) {
        array->problem = "a masked numpy array";
    } else if (strncmp(ck_pickle_get(pickle, class_)->global.module, "jax.", 4) == 0 &&
               ck_pickle_argument(pickle, ref, 0, &inner) && is_reconstruct(pickle, inner) &&
               ck_pickle_argument(pickle, ref, 2, &inner)) {
        read_state(pickle, inner, array);
    } else {
        return false;
    }
    return true;
}

bool ck_numpy_objects(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_items) {
    struct ck_numpy_type type;
    struct array array = {0};
    bool objects;

    if (!find_array(pickle, ref, &array) || array.problem || ck_pickle_get(pickle, array.data)->kind != CK_VALUE_LIST ||
        !ck_pickle_numpy_type(pickle, array.dtype, &type, &objects) || !objects)
        return false;
    *ret_items = array.data;
    return true;
}

/* The array exists but cannot be read. */
static int fault(const struct ck_rebuild *rebuild, struct ck_rebuilt *tensor, int code, const char *message,
                 struct ck_error *err) {
    if (!message)
        return ck_model_memory_spent(rebuild->limits, err);
    tensor->error = code;
    tensor->error_message = message;
    return 0;
}

static int malformed(const struct ck_rebuild *rebuild, struct ck_rebuilt *tensor, const char *what,
                     struct ck_error *err) {
    return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
                 ck_arena_printf(rebuild->arena, "its description is malformed: %s", what), err);
}

/* The integers of a tuple or list; NULL with *ret_bad if it holds anything else. */
static int64_t *read_ints(const struct ck_rebuild *rebuild, ck_ref ref, uint32_t room, uint64_t *ret_count,
                          bool *ret_bad) {
    struct ck_pickle_walk walk;
    int64_t *items = NULL;
    ck_ref item;

    *ret_bad = !ck_pickle_items(rebuild->pickle, ref, &walk);
    *ret_count = *ret_bad ? 0 : (uint64_t)walk.count[0] + walk.count[1];
    if (*ret_bad || *ret_count > CK_RANK_MAX)
        return NULL;
    items = ck_arena_alloc_array(rebuild->arena, (size_t)*ret_count * room, sizeof(*items));
    for (uint32_t i = 0; items && ck_pickle_next_item(&walk, &item); i++) {
        const struct ck_value *value = ck_pickle_get(rebuild->pickle, item);

        *ret_bad = *ret_bad || value->kind != CK_VALUE_INT || value->integer < 0;
        items[i] = value->kind == CK_VALUE_INT ? value->integer : 0;
    }
    return items;
}

bool ck_numpy_strides(uint32_t rank, const int64_t *shape, bool fortran, int64_t *stride) {
    int64_t step = 1;

    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = fortran ? i : rank - 1 - i;

        stride[at] = step;
        if (__builtin_mul_overflow(step, CK_MAX(shape[at], (int64_t)1), &step))
            return false;
    }
    return true;
}

/* The bytes are those of an array of `shape` in C order, whose axes then were moved: axis i of the result is axis
 * axes[i] of that. */
static bool move_axes(const struct ck_rebuild *rebuild, ck_ref ref, struct ck_view *view, int64_t *dims) {
    int64_t shape[CK_RANK_MAX], stride[CK_RANK_MAX], *axes;
    uint64_t count, seen = 0;
    bool bad;

    axes = read_ints(rebuild, ref, 1, &count, &bad);
    if (!axes || bad || count != view->rank)
        return false;
    memcpy(shape, dims, view->rank * sizeof(*shape));
    memcpy(stride, dims + view->rank, view->rank * sizeof(*stride));
    for (uint32_t i = 0; i < view->rank; i++) {
        if (axes[i] >= (int64_t)view->rank || (seen >> axes[i] & 1))
            return false;
        seen |= UINT64_C(1) << axes[i];
        dims[i] = shape[axes[i]];
        dims[view->rank + i] = stride[axes[i]];
    }
    return true;
}

static int read_shape(const struct ck_rebuild *rebuild, const struct array *array, struct ck_rebuilt *tensor,
                      struct ck_error *err) {
    uint64_t rank;
    int64_t *dims;
    bool bad;

    dims = read_ints(rebuild, array->shape, 2, &rank, &bad);
    if (rank > rebuild->limits->dims)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "an array has %" PRIu64 " dimensions, more than %" PRIu64 " (--limit-dims)", rank,
                            rebuild->limits->dims);
    if (bad || rank > CK_RANK_MAX)
        return malformed(rebuild, tensor, "its shape is no tuple of sizes", err);
    if (!dims)
        return ck_model_memory_spent(rebuild->limits, err);
    tensor->view.rank = (uint32_t)rank;
    if (!ck_numpy_strides((uint32_t)rank, dims, array->fortran, dims + rank))
        return malformed(rebuild, tensor, "its shape has more elements than can be", err);
    if (array->axes != CK_REF_NONE && !move_axes(rebuild, array->axes, &tensor->view, dims)) {
        tensor->view.rank = 0;
        return malformed(rebuild, tensor, "its axes are no permutation", err);
    }
    tensor->view.shape = dims;
    tensor->view.stride = dims + rank;
    return 0;
}

static int read_type(const struct ck_rebuild *rebuild, const struct array *array, struct ck_rebuilt *tensor,
                     struct ck_numpy_type *ret_type, struct ck_error *err) {
    bool objects;

    if (!ck_pickle_numpy_type(rebuild->pickle, array->dtype, ret_type, &objects))
        return fault(rebuild, tensor, CK_E_UNSUPPORTED_DTYPE,
                     ck_arena_strdup(rebuild->arena, "its dtype is none that is known of numpy"), err);
    tensor->view.dtype = ret_type->dtype;
    if (ret_type->dtype != CK_DTYPE_END_)
        return 0;
    return fault(rebuild, tensor, CK_E_UNSUPPORTED_DTYPE,
                 ck_arena_printf(rebuild->arena, "its elements are %s (numpy's kind %c, %" PRIu64 " bytes each)",
                                 ck_numpy_type_refusal(ret_type), ret_type->kind, ret_type->size),
                 err);
}

static int read_data(struct ck_rebuild *rebuild, const struct array *array, const struct ck_numpy_type *type,
                     struct ck_rebuilt *tensor, struct ck_error *err) {
    struct ck_storage storage = {.swap = type->big, .key = "(numpy array)"};
    struct ck_error bounds = {0};
    const char *problem;
    uint64_t bytes;
    int r;

    r = ck_pickled_bytes(rebuild, array->data, &storage.source, &problem, err);
    if (r < 0)
        return r;
    if (problem)
        return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR, ck_arena_printf(rebuild->arena, "its bytes %s", problem),
                     err);
    r = ck_view_check(&tensor->view, storage.source.length, NULL, &bounds);
    if (r < 0)
        return fault(rebuild, tensor, r, ck_arena_strdup(rebuild->arena, bounds.message), err);
    bytes = ck_view_bytes(&tensor->view);
    if (bytes != storage.source.length)
        return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
                     ck_arena_printf(rebuild->arena, "its shape needs %" PRIu64 " bytes, and it has %" PRIu64, bytes,
                                     storage.source.length),
                     err);
    return ck_rebuild_add_storage(rebuild, &storage, &tensor->storage, err);
}

int ck_numpy_rebuild(struct ck_rebuild *rebuild, ck_ref ref, struct ck_rebuilt *tensor, bool *ret_is_array,
                     struct ck_error *err) {
    struct ck_numpy_type type;
    struct array array = {0};
    ck_ref items;
    int r;

    *ret_is_array = find_array(rebuild->pickle, ref, &array) && !ck_numpy_objects(rebuild->pickle, ref, &items);
    if (!*ret_is_array)
        return 0;
    tensor->array = true;
    if (array.problem)
        return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
                     ck_arena_printf(rebuild->arena, "it is %s", array.problem), err);
    r = read_shape(rebuild, &array, tensor, err);
    if (r == 0 && tensor->error == 0)
        r = read_type(rebuild, &array, tensor, &type, err);
    if (r == 0 && tensor->error == 0)
        r = read_data(rebuild, &array, &type, tensor, err);
    return r;
}
