#include "core/pickle/numpy.h"

#include <string.h>

#include "core/pickle/loader.h"
#include "core/pickle/state.h"

#define HAS_OBJECTS 1 /* NPY_ITEM_HASOBJECT in the flags of a dtype */

/* The classes of ml_dtypes; their older homes. */
static bool is_number_class(const char *module) {
    return strcmp(module, "ml_dtypes") == 0 || strcmp(module, "numpy") == 0 ||
           strcmp(module, "jaxlib.xla_extension") == 0 || strcmp(module, "tensorflow.python.framework.dtypes") == 0;
}

static bool type_of_class(const struct ck_value *class_, struct ck_numpy_type *ret_type) {
    enum ck_dtype dtype;

    if (!is_number_class(class_->global.module) || !ck_dtype_from_torch(class_->global.name, &dtype))
        return false;
    *ret_type = (struct ck_numpy_type){.kind = 'V', .size = ck_dtype_row(dtype)->size, .dtype = dtype};
    return true;
}

/* (version, order, subarray, names, fields, size, alignment, flags); the oldest have no version. */
static bool read_state(const struct ck_pickle *pickle, ck_ref state, struct ck_numpy_type *type, bool *ret_objects) {
    ck_ref item;
    uint32_t at = 1;

    if (!ck_pickle_argument(pickle, state, 0, &item))
        return state == CK_REF_NONE;
    if (ck_pickle_get(pickle, item)->kind == CK_VALUE_TEXT)
        at = 0;
    if (!ck_pickle_argument(pickle, state, at, &item))
        return false;
    type->big = ck_pickle_text_equal(pickle, item, ">");
    if (!type->big && !ck_pickle_text_equal(pickle, item, "<") && !ck_pickle_text_equal(pickle, item, "|") &&
        !ck_pickle_text_equal(pickle, item, "="))
        return false;
    /* An array in each element: of the shape of the outer one numpy has only a part. */
    if (ck_pickle_argument(pickle, state, at + 1, &item) && item != CK_REF_NONE)
        type->dtype = CK_DTYPE_END_;
    if (ck_pickle_argument(pickle, state, 7, &item) && ck_pickle_get(pickle, item)->kind == CK_VALUE_INT)
        *ret_objects = *ret_objects || (ck_pickle_get(pickle, item)->integer & HAS_OBJECTS) != 0;
    return true;
}

bool ck_pickle_numpy_type(const struct ck_pickle *pickle, ck_ref ref, struct ck_numpy_type *ret_type,
                          bool *ret_objects) {
    const struct ck_value *value = ck_pickle_get(pickle, ref), *name;
    struct ck_numpy_type type;
    bool objects;
    ck_ref first;

    if (value->kind != CK_VALUE_CALL || !ck_pickle_is_global(pickle, value->call.callee, "numpy", "dtype") ||
        !ck_pickle_argument(pickle, ref, 0, &first))
        return false;
    name = ck_pickle_get(pickle, first);
    if (name->kind == CK_VALUE_GLOBAL) {
        if (!type_of_class(name, &type))
            return false;
    } else if ((name->kind != CK_VALUE_TEXT && name->kind != CK_VALUE_BYTES) || !name->bytes.data ||
               !ck_numpy_type_parse((const char *)name->bytes.data, (size_t)name->bytes.length, &type)) {
        return false;
    }
    objects = type.kind == 'O';
    if (!read_state(pickle, value->call.state, &type, &objects))
        return false;
    *ret_type = type;
    *ret_objects = objects;
    return true;
}

static bool ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), e = strlen(ending);

    return n >= e && strcmp(text + n - e, ending) == 0;
}

bool ck_pickle_is_joblib(const struct ck_pickle *pickle, ck_ref ref) {
    const struct ck_value *class_;
    ck_ref global;

    if (ck_pickle_get(pickle, ref)->kind != CK_VALUE_CALL || !ck_pickle_class(pickle, ref, &global))
        return false;
    class_ = ck_pickle_get(pickle, global);
    return strcmp(class_->global.name, "NumpyArrayWrapper") == 0 &&
           (strcmp(class_->global.module, "joblib.numpy_pickle") == 0 ||
            ends_with(class_->global.module, ".joblib.numpy_pickle"));
}

/* Bytes of the array that a wrapper stands for. */
static bool array_bytes(const struct ck_machine *m, ck_ref state, uint64_t size, uint64_t *ret_bytes) {
    struct ck_pickle_walk walk;
    uint64_t bytes = size;
    bool empty = false;
    ck_ref shape, item;

    if (!ck_pickle_find(&m->graph, state, "shape", &shape) || !ck_pickle_items(&m->graph, shape, &walk))
        return false;
    while (ck_pickle_next_item(&walk, &item)) {
        const struct ck_value *dim = ck_pickle_get(&m->graph, item);

        if (dim->kind != CK_VALUE_INT || dim->integer < 0)
            return false;
        empty = empty || dim->integer == 0;
        if (!empty && !ck_mul_u64(bytes, (uint64_t)dim->integer, &bytes))
            return false;
    }
    *ret_bytes = empty ? 0 : bytes;
    return true;
}

/* joblib since 1.1 aligns the bytes: one byte with a length, then as many that mean nothing. */
static int skip_pad(struct ck_machine *m, ck_ref state) {
    uint8_t pad = 0, bytes[UINT8_MAX];
    ck_ref alignment;
    int r;

    if (!ck_pickle_find(&m->graph, state, "numpy_array_alignment_bytes", &alignment) || alignment == CK_REF_NONE)
        return 0;
    r = ck_machine_read(m, &pad, 1);
    return r < 0 ? r : ck_machine_read(m, bytes, pad);
}

/* The pickle of an array of objects: only looked at, for what it would call. */
static int skip_pickle(struct ck_machine *m, ck_ref *ret_bytes) {
    _cleanup_(ck_pickle_release) struct ck_pickle inner = {0};
    struct ck_limits limits = *m->limits;
    int r;

    if (limits.nesting == 0)
        return ck_machine_limit(m, "--limit-nesting", m->limits->nesting, "pickles in pickles");
    limits.nesting--;
    limits.pickle_bytes = m->end - m->position;
    limits.pickle_memory = m->budget - m->charged - m->graph.arena.used;
    r = ck_pickle_run_at(&m->source, m->position, m->entry, &limits, m->findings, &inner, m->err);
    if (r < 0)
        return r;
    if (ck_pickle_loads_any(&inner))
        ck_machine_note(m, CK_FINDING_STRUCTURE, "a byte string that would be loaded was not looked into");
    m->position += inner.length;
    m->end = CK_MIN(m->end + inner.length, m->source.length);
    *ret_bytes = CK_REF_NONE;
    return 0;
}

int ck_machine_read_joblib(struct ck_machine *m, ck_ref wrapper) {
    ck_ref state = m->graph.values[wrapper].call.state, dtype, bytes = CK_REF_NONE, arguments = CK_REF_NONE;
    struct ck_numpy_type type;
    uint64_t length;
    bool objects;
    int r;

    ck_machine_note(m, CK_FINDING_STRUCTURE, "bytes of an array lie between two opcodes, as joblib writes it");
    if (ck_pickle_get(&m->graph, state)->kind != CK_VALUE_DICT || !ck_pickle_find(&m->graph, state, "dtype", &dtype) ||
        !ck_pickle_numpy_type(&m->graph, dtype, &type, &objects) || !array_bytes(m, state, type.size, &length))
        return ck_machine_corrupt(m, "joblib's wrapper of an array does not tell its shape and dtype");
    if (objects) {
        r = skip_pickle(m, &bytes);
    } else {
        r = skip_pad(m, state);
        if (r == 0)
            r = ck_machine_new_bytes(m, CK_VALUE_BYTES, length, &bytes);
    }
    if (r == 0)
        r = ck_machine_new_items(m, CK_VALUE_TUPLE, &bytes, 1, &arguments);
    if (r < 0)
        return r;
    m->graph.values[wrapper].call.arguments = arguments;
    m->frame_end = 0; /* joblib's pickler ends its frame before the bytes */
    return 0;
}
