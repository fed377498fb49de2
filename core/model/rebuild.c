#include "core/model/rebuild.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/model/memory.h"

enum rebuild_kind {
    DENSE,     /* storage, offset, size, stride ... */
    QUANTIZED, /* the same, then the quantizer */
    META,      /* dtype, size, stride ... */
    WRAPPED,   /* the tensor is the first argument */
    TYPED,     /* function, type, arguments, state */
    REFUSED,
};

struct rebuild_row {
    const char *name;
    enum rebuild_kind kind;
    uint8_t least;       /* arguments that must be there */
    uint8_t dtype;       /* index of the argument that gives the dtype; 0: the storage's class gives it */
    uint8_t metadata;    /* index of the argument that may hold {conj, neg}; 0: none */
    bool parameter;      /* makes a Parameter */
    const char *refusal; /* of REFUSED: completes "it is ..." */
};

static const struct rebuild_row rows[] = {
    {"_rebuild_tensor_v2", DENSE, 4, 0, 6, false, NULL},
    {"_rebuild_parameter", WRAPPED, 1, 0, 0, true, NULL},
    {"_rebuild_tensor_v3", DENSE, 7, 6, 7, false, NULL},
    {"_rebuild_tensor", DENSE, 4, 0, 0, false, NULL},
    {"_rebuild_parameter_with_state", WRAPPED, 1, 0, 0, true, NULL},
    {"Parameter", WRAPPED, 1, 0, 0, true, NULL},
    {"Buffer", WRAPPED, 1, 0, 0, false, NULL},
    {"_rebuild_from_type_v2", TYPED, 3, 0, 0, false, NULL},
    {"_rebuild_from_type", TYPED, 3, 0, 0, false, NULL},
    {"_rebuild_device_tensor_from_cpu_tensor", WRAPPED, 1, 1, 0, false, NULL},
    {"_rebuild_qtensor", QUANTIZED, 5, 0, 0, false, NULL},
    {"_rebuild_meta_tensor_no_storage", META, 3, 0, 0, false, NULL},
    {"_rebuild_sparse_tensor", REFUSED, 0, 0, 0, false, "a sparse tensor"},
    {"_rebuild_sparse_csr_tensor", REFUSED, 0, 0, 0, false, "a sparse tensor"},
    {"_rebuild_nested_tensor", REFUSED, 0, 0, 0, false, "a nested tensor"},
    {"_rebuild_wrapper_subclass", REFUSED, 0, 0, 0, false, "a wrapper around other tensors (torchao, DTensor ...)"},
    {"_rebuild_device_tensor_from_numpy", REFUSED, 0, 0, 0, false,
     "a tensor of another device, stored as a numpy array"},
    {"_rebuild_xla_tensor", REFUSED, 0, 0, 0, false, "an XLA tensor, stored as a numpy array"},
    {"UninitializedParameter", REFUSED, 0, 0, 0, false, "a parameter that was never initialised"},
    {"UninitializedBuffer", REFUSED, 0, 0, 0, false, "a buffer that was never initialised"},
};

/* torch adds rebuild functions: one that we do not know is still a tensor, and must not vanish. */
static const struct rebuild_row unknown_row = {"", REFUSED, 0, 0, 0, false, NULL};

/* A persistent id, taken apart. */
struct storage_id {
    char name[24];       /* the key when it is a number */
    const char *key;     /* in the pickle's arena, or name */
    const char *class_;  /* "FloatStorage" */
    bool untyped;        /* bytes: the dtype comes from elsewhere */
    enum ck_dtype dtype; /* CK_DTYPE_END_: not known */
};

static const int64_t no_dims[1];

int ck_rebuild_init(struct ck_rebuild *rebuild, const struct ck_pickle *pickle, const struct ck_limits *limits,
                    struct ck_arena *arena, ck_storage_find_fn find, void *find_ctx, const char *place,
                    struct ck_error *err) {
    *rebuild = (struct ck_rebuild){
        .pickle = pickle, .limits = limits, .arena = arena, .find = find, .find_ctx = find_ctx, .place = place};
    rebuild->memo = calloc(CK_MAX(pickle->count, 1u), sizeof(*rebuild->memo));
    if (!rebuild->memo)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the tensors");
    return 0;
}

void ck_rebuild_release(struct ck_rebuild *rebuild) {
    free(rebuild->memo);
    free(rebuild->tensors);
    free(rebuild->storages);
    ck_strmap_release(&rebuild->by_key);
    *rebuild = (struct ck_rebuild){0};
}

/* The tensor exists but cannot be read. The first fault stays. */
static int fault(const struct ck_rebuild *rebuild, struct ck_rebuilt *tensor, int code, const char *message,
                 struct ck_error *err) {
    if (!message)
        return ck_model_memory_spent(rebuild->limits, err);
    if (tensor->error == 0) {
        tensor->error = code;
        tensor->error_message = message;
    }
    return 0;
}

static int malformed(const struct ck_rebuild *rebuild, struct ck_rebuilt *tensor, const char *what,
                     struct ck_error *err) {
    return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
                 ck_arena_printf(rebuild->arena, "its description is malformed: %s", what), err);
}

static bool is_torch(const char *module) {
    return strncmp(module, "torch", 5) == 0 && (module[5] == 0 || module[5] == '.');
}

static const struct rebuild_row *recognise(const struct ck_pickle *pickle, ck_ref callee) {
    const struct ck_value *value = ck_pickle_get(pickle, callee);

    if (value->kind != CK_VALUE_GLOBAL || !is_torch(value->global.module))
        return NULL;
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, value->global.name) == 0)
            return &rows[i];
    return strncmp(value->global.name, "_rebuild_", 9) == 0 ? &unknown_row : NULL;
}

static bool is_key_text(const struct ck_value *value) {
    return value->kind == CK_VALUE_TEXT && value->bytes.data &&
           strlen((const char *)value->bytes.data) == value->bytes.length;
}

/* Takes ('storage', class, key, location, numel ...) apart. location and numel do not matter: views are checked against
 * the bytes that are really there, as torch does. */
static const char *parse_storage(const struct ck_pickle *pickle, ck_ref ref, struct storage_id *ret_id) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    ck_ref id, word, class_, key;

    if (value->kind != CK_VALUE_PERSISTENT)
        return "its storage is not in the archive";
    id = value->list.items[0];
    if (ck_pickle_get(pickle, id)->kind != CK_VALUE_TUPLE || !ck_pickle_argument(pickle, id, 0, &word) ||
        !ck_pickle_text_equal(pickle, word, "storage") || !ck_pickle_argument(pickle, id, 1, &class_) ||
        !ck_pickle_argument(pickle, id, 2, &key))
        return "its storage has no key";
    value = ck_pickle_get(pickle, class_);
    if (value->kind != CK_VALUE_GLOBAL)
        return "its storage has no class";
    ret_id->class_ = value->global.name;
    ret_id->dtype = CK_DTYPE_END_;
    ret_id->untyped =
        strcmp(value->global.name, "UntypedStorage") == 0 || strcmp(value->global.name, "_UntypedStorage") == 0;
    if (ret_id->untyped)
        ret_id->dtype = CK_U8;
    else if (is_torch(value->global.module))
        ck_dtype_from_storage_class(value->global.name, &ret_id->dtype);
    value = ck_pickle_get(pickle, key);
    if (value->kind == CK_VALUE_INT)
        snprintf(ret_id->name, sizeof(ret_id->name), "%" PRId64, value->integer);
    else if (!is_key_text(value))
        return "the key of its storage is no text";
    ret_id->key = value->kind == CK_VALUE_INT ? ret_id->name : (const char *)value->bytes.data;
    return NULL;
}

/* The storage of this key: known, found now, or CK_NO_INDEX. */
static int find_storage(struct ck_rebuild *rebuild, const char *key, uint32_t *ret_index, struct ck_error *err) {
    struct ck_storage storage = {0};
    uint32_t index = CK_NO_INDEX;

    if (ck_strmap_get(&rebuild->by_key, key, ret_index))
        return 0;
    storage.key = ck_arena_strdup(rebuild->arena, key);
    if (!storage.key)
        return ck_model_memory_spent(rebuild->limits, err);
    key = storage.key;
    if (rebuild->find(rebuild->find_ctx, key, &storage)) {
        if (!ck_grow((void **)&rebuild->storages, rebuild->n_storages, &rebuild->storages_capacity, sizeof(storage)))
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the storages");
        storage.key = key;
        index = rebuild->n_storages++;
        rebuild->storages[index] = storage;
    }
    if (!ck_strmap_set(&rebuild->by_key, key, index))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the storages");
    *ret_index = index;
    return 0;
}

/* True for a tuple, a list or a torch.Size. */
static bool is_int_list(const struct ck_pickle *pickle, ck_ref ref, struct ck_pickle_walk *ret_walk) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    if (value->kind == CK_VALUE_CALL ? !ck_pickle_is_global(pickle, value->call.callee, "torch", "Size")
                                     : value->kind != CK_VALUE_TUPLE && value->kind != CK_VALUE_LIST)
        return false;
    return ck_pickle_items(pickle, ref, ret_walk);
}

static bool read_ints(struct ck_pickle_walk *walk, int64_t *items) {
    ck_ref item;

    for (uint32_t i = 0; ck_pickle_next_item(walk, &item); i++) {
        const struct ck_value *value = ck_pickle_get(walk->pickle, item);

        if (value->kind != CK_VALUE_INT)
            return false;
        items[i] = value->integer;
    }
    return true;
}

/* Fills rank, shape and stride. */
static int read_shape(const struct ck_rebuild *rebuild, ck_ref size, ck_ref stride, struct ck_rebuilt *tensor,
                      struct ck_error *err) {
    struct ck_pickle_walk sizes, strides;
    uint64_t rank;
    int64_t *dims;

    if (!is_int_list(rebuild->pickle, size, &sizes) || !is_int_list(rebuild->pickle, stride, &strides))
        return malformed(rebuild, tensor, "size or stride is no tuple", err);
    rank = (uint64_t)sizes.count[0] + sizes.count[1];
    if (rank != (uint64_t)strides.count[0] + strides.count[1])
        return malformed(rebuild, tensor, "size and stride differ in length", err);
    if (rank > rebuild->limits->dims)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "a tensor has %" PRIu64 " dimensions, more than %" PRIu64 " (--limit-dims)", rank,
                            rebuild->limits->dims);
    if (rank > CK_RANK_MAX)
        return malformed(rebuild, tensor, "it has more dimensions than torch can make", err);
    dims = ck_arena_alloc_array(rebuild->arena, (size_t)rank * 2, sizeof(*dims));
    if (!dims)
        return ck_model_memory_spent(rebuild->limits, err);
    if (!read_ints(&sizes, dims) || !read_ints(&strides, dims + rank))
        return malformed(rebuild, tensor, "size or stride holds something else than 64-bit integers", err);
    tensor->view.rank = (uint32_t)rank;
    tensor->view.shape = dims;
    tensor->view.stride = dims + rank;
    return 0;
}

/* The dtype that a global such as torch.float8_e4m3fn names. */
static int read_dtype(const struct ck_rebuild *rebuild, ck_ref ref, struct ck_rebuilt *tensor, struct ck_error *err) {
    const struct ck_value *value = ck_pickle_get(rebuild->pickle, ref);

    tensor->view.dtype = CK_DTYPE_END_;
    if (value->kind != CK_VALUE_GLOBAL || strcmp(value->global.module, "torch") != 0)
        return malformed(rebuild, tensor, "its dtype is no dtype of torch", err);
    if (ck_dtype_from_torch(value->global.name, &tensor->view.dtype))
        return 0;
    return fault(
        rebuild, tensor, CK_E_UNSUPPORTED_DTYPE,
        ck_arena_printf(rebuild->arena, "its dtype is torch.%.200s, which is not supported", value->global.name), err);
}

static bool has_flag(const struct ck_pickle *pickle, ck_ref metadata, const char *flag) {
    ck_ref value;

    return ck_pickle_find(pickle, metadata, flag, &value) && value == CK_REF_TRUE;
}

static int check_place(const struct ck_rebuild *rebuild, const struct storage_id *id, struct ck_rebuilt *tensor,
                       struct ck_error *err) {
    const struct ck_storage *storage;
    struct ck_error bounds = {0};
    int r;

    if (tensor->storage == CK_NO_INDEX)
        return fault(rebuild, tensor, CK_E_TENSOR_OUT_OF_BOUNDS,
                     ck_arena_printf(rebuild->arena, "its storage %.200s%.200s is missing from the file",
                                     rebuild->place, id->key),
                     err);
    storage = &rebuild->storages[tensor->storage];
    if (storage->deflated)
        return fault(
            rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
            ck_arena_printf(rebuild->arena, "its storage %.200s%.200s is stored compressed", rebuild->place, id->key),
            err);
    if (tensor->view.dtype == CK_DTYPE_END_)
        return 0;
    r = ck_view_check(&tensor->view, storage->source.length, NULL, &bounds);
    if (r < 0)
        return fault(rebuild, tensor, r,
                     ck_arena_printf(rebuild->arena, "%s (%.200s%.200s)", bounds.message, rebuild->place, id->key),
                     err);
    return 0;
}

/* storage, offset, size, stride: dense tensors and the quantized ones. */
static int read_dense(struct ck_rebuild *rebuild, const struct rebuild_row *row, ck_ref arguments,
                      struct ck_rebuilt *tensor, struct ck_error *err) {
    const struct ck_pickle *pickle = rebuild->pickle;
    ck_ref storage, offset, size, stride, extra;
    const struct ck_value *first;
    struct storage_id id;
    const char *problem;
    int r;

    ck_pickle_argument(pickle, arguments, 0, &storage);
    ck_pickle_argument(pickle, arguments, 1, &offset);
    ck_pickle_argument(pickle, arguments, 2, &size);
    ck_pickle_argument(pickle, arguments, 3, &stride);
    r = read_shape(rebuild, size, stride, tensor, err);
    if (r < 0 || tensor->error != 0)
        return r;
    problem = parse_storage(pickle, storage, &id);
    if (problem)
        return malformed(rebuild, tensor, problem, err);
    first = ck_pickle_get(pickle, offset);
    if (first->kind != CK_VALUE_INT)
        return malformed(rebuild, tensor, "its offset is no 64-bit integer", err);
    if (first->integer < 0)
        return fault(rebuild, tensor, CK_E_TENSOR_OUT_OF_BOUNDS,
                     ck_arena_printf(rebuild->arena, "its offset is %" PRId64, first->integer), err);
    tensor->view.offset = (uint64_t)first->integer;
    tensor->view.dtype = id.dtype;
    r = find_storage(rebuild, id.key, &tensor->storage, err);
    if (r < 0)
        return r;
    if (row->dtype > 0) {
        ck_pickle_argument(pickle, arguments, row->dtype, &extra);
        r = read_dtype(rebuild, extra, tensor, err);
    } else if (id.dtype == CK_DTYPE_END_) {
        r = fault(rebuild, tensor, CK_E_UNSUPPORTED_DTYPE,
                  ck_arena_printf(rebuild->arena, "its storage is a %.200s, which is not supported", id.class_), err);
    }
    if (r < 0)
        return r;
    if (row->metadata > 0 && ck_pickle_argument(pickle, arguments, row->metadata, &extra) &&
        (has_flag(pickle, extra, "conj") || has_flag(pickle, extra, "neg"))) {
        r = fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
                  ck_arena_strdup(rebuild->arena, "it is a lazy conjugate or negative (conj or neg bit); call "
                                                  ".resolve_conj().resolve_neg() before saving"),
                  err);
        if (r < 0)
            return r;
    }
    r = check_place(rebuild, &id, tensor, err);
    if (r < 0 || row->kind != QUANTIZED)
        return r;
    return fault(
        rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
        ck_arena_printf(rebuild->arena, "it is quantized by torch (%s)", ck_dtype_row(tensor->view.dtype)->torch), err);
}

static int read_meta(const struct ck_rebuild *rebuild, ck_ref arguments, struct ck_rebuilt *tensor,
                     struct ck_error *err) {
    ck_ref dtype, size, stride;
    int r;

    ck_pickle_argument(rebuild->pickle, arguments, 0, &dtype);
    ck_pickle_argument(rebuild->pickle, arguments, 1, &size);
    ck_pickle_argument(rebuild->pickle, arguments, 2, &stride);
    r = read_shape(rebuild, size, stride, tensor, err);
    if (r == 0 && tensor->error == 0)
        r = read_dtype(rebuild, dtype, tensor, err);
    if (r < 0)
        return r;
    return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
                 ck_arena_strdup(rebuild->arena, "it is on the meta device: the file has its shape but no data"), err);
}

static int refuse(const struct ck_rebuild *rebuild, const struct rebuild_row *row, ck_ref callee,
                  struct ck_rebuilt *tensor, struct ck_error *err) {
    const struct ck_value *value = ck_pickle_get(rebuild->pickle, callee);
    const char *message = row->refusal
                              ? ck_arena_printf(rebuild->arena, "it is %s", row->refusal)
                              : ck_arena_printf(rebuild->arena, "it is made by %.200s.%.200s, which is not known",
                                                value->global.module, value->global.name);

    return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR, message, err);
}

/* _rebuild_device_tensor_from_cpu_tensor() casts to its second argument, which is the tensor's own dtype as a rule. */
static int check_cast(const struct ck_rebuild *rebuild, ck_ref dtype, struct ck_rebuilt *tensor, struct ck_error *err) {
    struct ck_rebuilt wanted = {0};
    int r;

    if (dtype == CK_REF_NONE || tensor->error != 0)
        return 0;
    r = read_dtype(rebuild, dtype, &wanted, err);
    if (r < 0 || (wanted.error == 0 && wanted.view.dtype == tensor->view.dtype))
        return r;
    return malformed(rebuild, tensor, "torch would cast it on loading", err);
}

/* Unwraps parameters and subclasses until a storage is reached. *ret_is_tensor false: the call makes no tensor. */
static int interpret(struct ck_rebuild *rebuild, ck_ref ref, struct ck_rebuilt *tensor, bool *ret_is_tensor,
                     struct ck_error *err) {
    const struct ck_pickle *pickle = rebuild->pickle;
    const struct ck_value *call = ck_pickle_get(pickle, ref);
    ck_ref callee = call->call.callee, arguments = call->call.arguments, inner, cast = CK_REF_NONE;
    const struct rebuild_row *row = recognise(pickle, callee);
    int r;

    *ret_is_tensor = row != NULL;
    for (uint64_t depth = 0; row; depth++, row = recognise(pickle, callee)) {
        tensor->parameter = tensor->parameter || row->parameter;
        if (depth > rebuild->limits->pickle_depth)
            return malformed(rebuild, tensor, "it is wrapped too often (--limit-pickle-depth)", err);
        if (row->least > 0 && !ck_pickle_argument(pickle, arguments, row->least - 1u, &inner))
            return malformed(rebuild, tensor, "arguments are missing", err);
        switch (row->kind) {
        case DENSE:
        case QUANTIZED:
            r = read_dense(rebuild, row, arguments, tensor, err);
            return r < 0 ? r : check_cast(rebuild, cast, tensor, err);
        case META:
            return read_meta(rebuild, arguments, tensor, err);
        case REFUSED:
            return refuse(rebuild, row, callee, tensor, err);
        case WRAPPED:
            if (row->dtype > 0)
                ck_pickle_argument(pickle, arguments, row->dtype, &cast);
            ck_pickle_argument(pickle, arguments, 0, &inner);
            call = ck_pickle_get(pickle, inner);
            if (call->kind != CK_VALUE_CALL)
                return malformed(rebuild, tensor, "it wraps something else than a tensor", err);
            callee = call->call.callee;
            arguments = call->call.arguments;
            break;
        case TYPED:
            ck_pickle_argument(pickle, arguments, 1, &inner);
            if (ck_pickle_is_global(pickle, inner, "torch.nn.parameter", "Parameter"))
                tensor->parameter = true;
            ck_pickle_argument(pickle, arguments, 0, &callee);
            ck_pickle_argument(pickle, arguments, 2, &inner);
            arguments = inner;
            break;
        }
    }
    return *ret_is_tensor ? malformed(rebuild, tensor, "it wraps something else than a tensor", err) : 0;
}

int ck_rebuild_tensor(struct ck_rebuild *rebuild, ck_ref ref, uint32_t *ret_index, struct ck_error *err) {
    struct ck_rebuilt tensor = {.view = {.dtype = CK_DTYPE_END_, .shape = no_dims, .stride = no_dims},
                                .storage = CK_NO_INDEX};
    uint32_t *memo = &rebuild->memo[ref];
    bool is_tensor = false;
    int r = 0;

    if (*memo == 0 && ck_pickle_get(rebuild->pickle, ref)->kind == CK_VALUE_CALL)
        r = interpret(rebuild, ref, &tensor, &is_tensor, err);
    if (r < 0)
        return r;
    if (*memo == 0)
        *memo = 1;
    if (is_tensor) {
        if (!ck_grow((void **)&rebuild->tensors, rebuild->n_tensors, &rebuild->tensors_capacity, sizeof(tensor)))
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the tensors");
        rebuild->tensors[rebuild->n_tensors] = tensor;
        *memo = 2 + rebuild->n_tensors++;
    }
    *ret_index = *memo >= 2 ? *memo - 2 : CK_NO_INDEX;
    return 0;
}
