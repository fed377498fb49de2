#include "core/model/rebuild.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/model/memory.h"
#include "core/model/nested.h"
#include "core/model/numpy.h"
#include "core/model/quantizer.h"
#include "core/tensor/bytes.h"

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
    const char *refusal; /* of REFUSED: completes "it is ..."; behind the comma, what to do */
};

static const struct rebuild_row rows[] = {
    {"_rebuild_tensor_v2", DENSE, 4, 0, 6, false, NULL},
    {"_rebuild_parameter", WRAPPED, 1, 0, 0, true, NULL},
    {"_rebuild_tensor_v3", DENSE, 7, 6, 7, false, NULL},
    {"_rebuild_tensor", DENSE, 4, 0, 0, false, NULL},
    {"_rebuild_parameter_with_state", WRAPPED, 1, 0, 0, true, NULL},
    {"Parameter", WRAPPED, 1, 0, 0, true, NULL},
    {"Buffer", WRAPPED, 1, 0, 0, false, NULL},
    {"Variable", WRAPPED, 1, 0, 0, false, NULL}, /* torch.autograd.variable, up to 0.3 */
    {"_rebuild_from_type_v2", TYPED, 3, 0, 0, false, NULL},
    {"_rebuild_from_type", TYPED, 3, 0, 0, false, NULL},
    {"_rebuild_device_tensor_from_cpu_tensor", WRAPPED, 1, 1, 0, false, NULL},
    {"_rebuild_qtensor", QUANTIZED, 5, 0, 0, false, NULL},
    {"_rebuild_meta_tensor_no_storage", META, 3, 0, 0, false, NULL},
    {"_rebuild_sparse_tensor", REFUSED, 0, 0, 0, false, "a sparse tensor, call .to_dense() before saving"},
    {"_rebuild_sparse_csr_tensor", REFUSED, 0, 0, 0, false, "a sparse tensor, call .to_dense() before saving"},
    {"_rebuild_nested_tensor", REFUSED, 0, 0, 0, false,
     "a nested tensor of rows that differ in length, call .unbind() or .to_padded_tensor() before saving"},
    {"_rebuild_wrapper_subclass", REFUSED, 0, 0, 0, false,
     "a wrapper around other tensors, call .dequantize() (torchao) or .full_tensor() (DTensor) before saving"},
    {"_rebuild_device_tensor_from_numpy", WRAPPED, 1, 1, 0, false, NULL},
    {"_rebuild_xla_tensor", WRAPPED, 1, 1, 0, false, NULL},
    {"UninitializedParameter", REFUSED, 0, 0, 0, false, "a parameter that was never initialised"},
    {"UninitializedBuffer", REFUSED, 0, 0, 0, false, "a buffer that was never initialised"},
};

/* torch adds rebuild functions: one that we do not know is still a tensor, and must not vanish. */
static const struct rebuild_row unknown_row = {"", REFUSED, 0, 0, 0, false, NULL};

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
    free(rebuild->nested);
    ck_strmap_release(&rebuild->by_key);
    ck_strmap_release(&rebuild->dtypes);
    *rebuild = (struct ck_rebuild){0};
}

int ck_rebuild_note_dtypes(struct ck_rebuild *rebuild, struct ck_error *err) {
    struct ck_storage_id id;
    uint32_t dtype;

    for (ck_ref ref = 0; ref < rebuild->pickle->count; ref++) {
        const char *key;

        if (!ck_storage_id_is(rebuild->pickle, ref) || ck_storage_id_parse(rebuild->pickle, ref, &id) ||
            ck_strmap_get(&rebuild->dtypes, id.key, &dtype))
            continue;
        key = ck_arena_strdup(rebuild->arena, id.key);
        if (!key)
            return ck_model_memory_spent(rebuild->limits, err);
        if (!ck_strmap_set(&rebuild->dtypes, key, (uint32_t)id.dtype))
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the storages");
    }
    return 0;
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
    const struct ck_value *value;

    ck_pickle_wrapped_class(pickle, callee, &callee);
    value = ck_pickle_get(pickle, callee);
    if (value->kind != CK_VALUE_GLOBAL || !is_torch(value->global.module))
        return NULL;
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, value->global.name) == 0)
            return &rows[i];
    return strncmp(value->global.name, "_rebuild_", 9) == 0 ? &unknown_row : NULL;
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

/* The lazy bits of {"conj": True, "neg": True}. */
static int read_flags(const struct ck_rebuild *rebuild, ck_ref metadata, struct ck_rebuilt *tensor,
                      struct ck_error *err) {
    enum ck_dtype dtype = tensor->view.dtype;

    tensor->conj = has_flag(rebuild->pickle, metadata, "conj");
    tensor->neg = has_flag(rebuild->pickle, metadata, "neg");
    if ((tensor->conj && ck_dtype_row(dtype)->kind != CK_COMPLEX) || (tensor->neg && !ck_can_negate(dtype)))
        return malformed(rebuild, tensor, "its dtype can have no conj or neg bit", err);
    return 0;
}

static int check_place(const struct ck_rebuild *rebuild, const struct ck_storage_id *id, struct ck_rebuilt *tensor,
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
    if (storage->unreadable)
        return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
                     ck_arena_printf(rebuild->arena, "its storage %.200s%.200s cannot be unpacked: %.300s",
                                     rebuild->place, id->key, storage->unreadable),
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

/* The tensor's storage is a part of the one in the file: checks it against that part, then counts its offset from the
 * start of the whole. */
static int narrow(const struct ck_rebuild *rebuild, const struct ck_storage_id *id, struct ck_rebuilt *tensor,
                  struct ck_error *err) {
    uint64_t unit = ck_dtype_row(id->dtype)->size, step = ck_dtype_row(tensor->view.dtype)->size, start, bytes, moved;
    struct ck_error bounds = {0};
    int r;

    if (id->view_offset < 0 || id->view_size < 0 || step == 0 || ck_dtype_row(tensor->view.dtype)->per > 1 ||
        !ck_mul_u64((uint64_t)id->view_offset, unit, &start) || !ck_mul_u64((uint64_t)id->view_size, unit, &bytes) ||
        start % step != 0 || !ck_add_u64(tensor->view.offset, start / step, &moved))
        return malformed(rebuild, tensor, "the view on its storage has impossible numbers", err);
    r = ck_view_check(&tensor->view, bytes, NULL, &bounds);
    if (r < 0)
        return fault(rebuild, tensor, r,
                     ck_arena_printf(rebuild->arena, "%s (a view on the storage %.200s%.200s)", bounds.message,
                                     rebuild->place, id->key),
                     err);
    tensor->view.offset = moved;
    return 0;
}

/* torch takes a part that reaches beyond its storage as it is told; no writer makes one. */
static void note_long_view(const struct ck_rebuild *rebuild, const struct ck_storage_id *id,
                           const struct ck_rebuilt *tensor) {
    uint64_t length, end;

    if (tensor->error != 0 || tensor->storage == CK_NO_INDEX || id->dtype == CK_DTYPE_END_)
        return;
    length = rebuild->storages[tensor->storage].source.length;
    end = ck_add_saturated((uint64_t)id->view_offset, (uint64_t)id->view_size);
    if (end > length / ck_dtype_row(id->dtype)->size)
        ck_findings_add(rebuild->findings, CK_FINDING_STRUCTURE, rebuild->entry, 0, "", "",
                        "a view on a storage reaches beyond its end", false);
}

int ck_rebuild_place(struct ck_rebuild *rebuild, const struct ck_storage_id *id, struct ck_rebuilt *tensor,
                     struct ck_error *err) {
    int r;

    r = find_storage(rebuild, id->key, &tensor->storage, err);
    if (r == 0 && id->view && tensor->error == 0)
        r = narrow(rebuild, id, tensor, err);
    if (r == 0 && id->view)
        note_long_view(rebuild, id, tensor);
    return r < 0 ? r : check_place(rebuild, id, tensor, err);
}

/* The id of a storage in the file, or of one in a stream of its own. */
static int parse_storage(struct ck_rebuild *rebuild, ck_ref storage, struct ck_storage_id *ret_id,
                         struct ck_rebuilt *tensor, struct ck_error *err) {
    const char *problem = NULL;
    int r;

    if (!ck_nested_is(rebuild->pickle, storage)) {
        problem = ck_storage_id_parse(rebuild->pickle, storage, ret_id);
        return problem ? malformed(rebuild, tensor, problem, err) : 0;
    }
    r = ck_nested_open(rebuild, storage, ret_id, &problem, err);
    if (r < 0 || !problem)
        return r;
    return fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
                 ck_arena_printf(rebuild->arena, "its storage is a stream inside a byte string, %s", problem), err);
}

/* An UntypedStorage has no dtype of its own: its tensors name theirs. Of an empty one nothing can be misread. */
static int check_dtype(const struct ck_rebuild *rebuild, const struct ck_storage_id *id, struct ck_rebuilt *tensor,
                       struct ck_error *err) {
    uint32_t first;

    if (id->untyped || id->numel == 0 || id->dtype == CK_DTYPE_END_ ||
        !ck_strmap_get(&rebuild->dtypes, id->key, &first) || first == (uint32_t)id->dtype)
        return 0;
    return fault(
        rebuild, tensor, CK_E_UNSUPPORTED_TENSOR,
        ck_arena_printf(rebuild->arena,
                        "its storage %.200s%.200s is a %.200s here and another class before, which torch would "
                        "take",
                        rebuild->place, id->key, id->class_),
        err);
}

/* storage, offset, size, stride: dense tensors and the quantized ones. */
static int read_dense(struct ck_rebuild *rebuild, const struct rebuild_row *row, ck_ref arguments,
                      struct ck_rebuilt *tensor, struct ck_error *err) {
    const struct ck_pickle *pickle = rebuild->pickle;
    ck_ref storage, offset, size, stride, extra;
    const struct ck_value *first;
    struct ck_storage_id id;
    int r;

    ck_pickle_argument(pickle, arguments, 0, &storage);
    ck_pickle_argument(pickle, arguments, 1, &offset);
    ck_pickle_argument(pickle, arguments, 2, &size);
    ck_pickle_argument(pickle, arguments, 3, &stride);
    r = read_shape(rebuild, size, stride, tensor, err);
    if (r < 0 || tensor->error != 0)
        return r;
    r = parse_storage(rebuild, storage, &id, tensor, err);
    if (r == 0 && tensor->error == 0)
        r = check_dtype(rebuild, &id, tensor, err);
    if (r < 0 || tensor->error != 0)
        return r;
    first = ck_pickle_get(pickle, offset);
    if (first->kind != CK_VALUE_INT)
        return malformed(rebuild, tensor, "its offset is no 64-bit integer", err);
    if (first->integer < 0)
        return fault(rebuild, tensor, CK_E_TENSOR_OUT_OF_BOUNDS,
                     ck_arena_printf(rebuild->arena, "its offset is %" PRId64, first->integer), err);
    tensor->view.offset = (uint64_t)first->integer;
    tensor->view.dtype = id.dtype;
    if (row->dtype > 0) {
        ck_pickle_argument(pickle, arguments, row->dtype, &extra);
        r = read_dtype(rebuild, extra, tensor, err);
    } else if (id.dtype == CK_DTYPE_END_) {
        r = fault(rebuild, tensor, CK_E_UNSUPPORTED_DTYPE,
                  ck_arena_printf(rebuild->arena, "its storage is a %.200s, which is not supported", id.class_), err);
    }
    if (r < 0)
        return r;
    if (row->metadata > 0 && ck_pickle_argument(pickle, arguments, row->metadata, &extra))
        r = read_flags(rebuild, extra, tensor, err);
    return r < 0 ? r : ck_rebuild_place(rebuild, &id, tensor, err);
}

static int read_quantized(struct ck_rebuild *rebuild, const struct rebuild_row *row, ck_ref arguments,
                          struct ck_rebuilt *tensor, struct ck_error *err) {
    const char *problem = NULL;
    int r = read_dense(rebuild, row, arguments, tensor, err);

    if (r < 0 || tensor->error != 0)
        return r;
    r = ck_quantizer_read(rebuild, arguments, tensor, &problem, err);
    return r < 0 || !problem ? r : fault(rebuild, tensor, CK_E_UNSUPPORTED_TENSOR, problem, err);
}

int ck_rebuild_plain(struct ck_rebuild *rebuild, ck_ref ref, struct ck_rebuilt *ret_tensor, struct ck_error *err) {
    const struct ck_value *call = ck_pickle_get(rebuild->pickle, ref);
    const struct rebuild_row *row = call->kind == CK_VALUE_CALL ? recognise(rebuild->pickle, call->call.callee) : NULL;
    ck_ref last;

    *ret_tensor = (struct ck_rebuilt){.view = {.dtype = CK_DTYPE_END_, .shape = no_dims, .stride = no_dims},
                                      .storage = CK_NO_INDEX};
    if (!row || row->kind != DENSE ||
        !ck_pickle_argument(rebuild->pickle, call->call.arguments, row->least - 1u, &last))
        return malformed(rebuild, ret_tensor, "it is no plain tensor", err);
    return read_dense(rebuild, row, call->call.arguments, ret_tensor, err);
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

/* The class or layout that a refused call names first: " (DTensor)", " (torch.sparse_coo)", or nothing. */
static const char *kind_of(const struct ck_rebuild *rebuild, ck_ref arguments) {
    const struct ck_pickle *pickle = rebuild->pickle;
    const struct ck_value *value;
    ck_ref first;

    if (!ck_pickle_argument(pickle, arguments, 0, &first))
        return "";
    value = ck_pickle_get(pickle, first);
    if (value->kind == CK_VALUE_CALL && ck_pickle_argument(pickle, value->call.arguments, 0, &first))
        value = ck_pickle_get(pickle, first);
    if (value->kind == CK_VALUE_GLOBAL)
        return ck_arena_printf(rebuild->arena, " (%.200s)", value->global.name);
    if (value->kind == CK_VALUE_TEXT && value->bytes.data)
        return ck_arena_printf(rebuild->arena, " (%.200s)", (const char *)value->bytes.data);
    return "";
}

static int refuse(const struct ck_rebuild *rebuild, const struct rebuild_row *row, ck_ref callee, ck_ref arguments,
                  struct ck_rebuilt *tensor, struct ck_error *err) {
    const char *message, *kind = kind_of(rebuild, arguments);
    int n = row->refusal ? (int)strcspn(row->refusal, ",") : 0;
    const struct ck_value *value;

    ck_pickle_wrapped_class(rebuild->pickle, callee, &callee);
    value = ck_pickle_get(rebuild->pickle, callee);
    if (!kind)
        return ck_model_memory_spent(rebuild->limits, err);
    message = row->refusal ? ck_arena_printf(rebuild->arena, "it is %.*s%s%s", n, row->refusal, kind, row->refusal + n)
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
    bool found = false;
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
            r = row->kind == DENSE ? read_dense(rebuild, row, arguments, tensor, err)
                                   : read_quantized(rebuild, row, arguments, tensor, err);
            return r < 0 ? r : check_cast(rebuild, cast, tensor, err);
        case META:
            return read_meta(rebuild, arguments, tensor, err);
        case REFUSED:
            return refuse(rebuild, row, callee, arguments, tensor, err);
        case WRAPPED:
            if (row->dtype > 0)
                ck_pickle_argument(pickle, arguments, row->dtype, &cast);
            ck_pickle_argument(pickle, arguments, 0, &inner);
            call = ck_pickle_get(pickle, inner);
            if (call->kind == CK_VALUE_PERSISTENT && rebuild->find_tensor) {
                r = rebuild->find_tensor(rebuild->find_ctx, rebuild, inner, tensor, &found, err);
                return r < 0 || found ? r : malformed(rebuild, tensor, "it wraps something else than a tensor", err);
            }
            if (call->kind != CK_VALUE_CALL)
                return malformed(rebuild, tensor, "it wraps something else than a tensor", err);
            r = ck_numpy_rebuild(rebuild, inner, tensor, &found, err);
            if (r < 0 || found)
                return r < 0 ? r : check_cast(rebuild, cast, tensor, err);
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

static int interpret_call(struct ck_rebuild *rebuild, ck_ref ref, struct ck_rebuilt *tensor, bool *ret_is_tensor,
                          struct ck_error *err) {
    int r = interpret(rebuild, ref, tensor, ret_is_tensor, err);

    return r < 0 || *ret_is_tensor ? r : ck_numpy_rebuild(rebuild, ref, tensor, ret_is_tensor, err);
}

int ck_rebuild_add_storage(struct ck_rebuild *rebuild, const struct ck_storage *storage, uint32_t *ret_index,
                           struct ck_error *err) {
    if (!ck_grow((void **)&rebuild->storages, rebuild->n_storages, &rebuild->storages_capacity, sizeof(*storage)))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the storages");
    rebuild->storages[rebuild->n_storages] = *storage;
    *ret_index = rebuild->n_storages++;
    return 0;
}

int ck_rebuild_tensor(struct ck_rebuild *rebuild, ck_ref ref, uint32_t *ret_index, struct ck_error *err) {
    struct ck_rebuilt tensor = {.view = {.dtype = CK_DTYPE_END_, .shape = no_dims, .stride = no_dims},
                                .storage = CK_NO_INDEX};
    uint32_t *memo = &rebuild->memo[ref];
    bool is_tensor = false;
    int r = 0;

    if (*memo == 0 && ck_pickle_get(rebuild->pickle, ref)->kind == CK_VALUE_CALL)
        r = interpret_call(rebuild, ref, &tensor, &is_tensor, err);
    else if (*memo == 0 && rebuild->find_tensor && ck_pickle_get(rebuild->pickle, ref)->kind == CK_VALUE_PERSISTENT)
        r = rebuild->find_tensor(rebuild->find_ctx, rebuild, ref, &tensor, &is_tensor, err);
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
