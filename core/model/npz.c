#include "core/model/npz.h"

#include <inttypes.h>
#include <string.h>

#include "core/container/npy.h"
#include "core/model/assemble.h"
#include "core/model/join.h"
#include "core/model/memory.h"
#include "core/model/numpy.h"
#include "core/model/plain_pickle.h"

/* Deflated members up to this size need no scratch file. */
#define SMALL 65536u

struct reader {
    struct ck_model *model;
    const struct ck_limits *limits;
    struct ck_scratch *scratch;
};

/* ---- one array ---- */

static int fault(const struct reader *reader, struct ck_tensor *tensor, int code, const char *message,
                 struct ck_error *err) {
    if (!message)
        return ck_model_memory_spent(reader->limits, err);
    tensor->error = code;
    tensor->error_message = message;
    return 0;
}

/* Adds a tensor that can hold `rank` dimensions. */
static int add_tensor(const struct reader *reader, const char *path, const char *name, uint32_t rank,
                      struct ck_tensor **ret_tensor, int64_t **ret_dims, struct ck_error *err) {
    struct ck_model *model = reader->model;
    struct ck_tensor *tensor = &model->tensors[model->n_tensors];
    int64_t *dims = ck_arena_alloc_array(&model->arena, (size_t)rank * 2, sizeof(*dims));

    if (!dims)
        return ck_model_memory_spent(reader->limits, err);
    *tensor = (struct ck_tensor){.path = path,
                                 .name = name,
                                 .view = {.dtype = CK_DTYPE_END_, .shape = dims, .stride = dims},
                                 .storage = CK_NO_INDEX,
                                 .alias_of = CK_NO_INDEX,
                                 .module = CK_NO_INDEX,
                                 .persistent = true};
    model->n_tensors++;
    *ret_tensor = tensor;
    *ret_dims = dims;
    return 0;
}

/* The elements begin at npy->offset of source. */
static int add_array(const struct reader *reader, const char *path, const char *name, const struct ck_npy *npy,
                     const struct ck_source *source, struct ck_error *err) {
    struct ck_storage storage = {.key = path, .swap = npy->type.big};
    struct ck_model *model = reader->model;
    struct ck_tensor *tensor = NULL;
    struct ck_error bounds = {0};
    int64_t *dims = NULL;
    int r;

    if (npy->rank > reader->limits->dims)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, path,
                            "the array has %u dimensions, more than %" PRIu64 " (--limit-dims)", npy->rank,
                            reader->limits->dims);
    r = add_tensor(reader, path, name, npy->rank, &tensor, &dims, err);
    if (r == 0)
        r = ck_source_part(source, npy->offset, source->length - npy->offset, &storage.source, err);
    if (r < 0)
        return r;
    memcpy(dims, npy->shape, npy->rank * sizeof(*dims));
    tensor->view.rank = npy->rank;
    tensor->view.stride = dims + npy->rank;
    if (!ck_numpy_strides(npy->rank, dims, npy->fortran, dims + npy->rank))
        return fault(reader, tensor, CK_E_TENSOR_OUT_OF_BOUNDS, "its shape has more elements than can be", err);
    tensor->view.dtype = npy->type.dtype;
    if (npy->type.dtype == CK_DTYPE_END_)
        return fault(reader, tensor, CK_E_UNSUPPORTED_DTYPE,
                     ck_arena_printf(&model->arena, "its elements are %s (numpy's kind %c)",
                                     ck_numpy_type_refusal(&npy->type), npy->type.kind),
                     err);
    r = ck_view_check(&tensor->view, storage.source.length, NULL, &bounds);
    if (r < 0)
        return fault(reader, tensor, r, ck_arena_strdup(&model->arena, bounds.message), err);
    if (ck_view_bytes(&tensor->view) < storage.source.length)
        ck_findings_add(&model->findings, CK_FINDING_STRUCTURE, path, npy->offset + ck_view_bytes(&tensor->view), "",
                        "", "bytes follow the array", false);
    tensor->storage = model->n_storages;
    model->storages[model->n_storages++] = storage;
    return 0;
}

static int reserve(const struct reader *reader, uint32_t count, struct ck_error *err) {
    struct ck_model *model = reader->model;

    if (count > reader->limits->tensors)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL, "it has more than %" PRIu64 " tensors (--limit-tensors)",
                            reader->limits->tensors);
    model->tensors = ck_arena_alloc_array(&model->arena, count, sizeof(*model->tensors));
    model->storages = ck_arena_alloc_array(&model->arena, count, sizeof(*model->storages));
    return model->tensors && model->storages ? 0 : ck_model_memory_spent(reader->limits, err);
}

/* Arrays have no paths to choose from. */
static int check_option(const struct ck_model_options *options, struct ck_error *err) {
    const char *path = options ? options->state_dict : NULL;

    if (path && path[0] && strcmp(path, ".") != 0)
        return ck_error_set(err, CK_E_STATE_DICT_NOT_FOUND, "state_dict",
                            "arrays that numpy saved are one set of weights without paths; leave the option out");
    return 0;
}

int ck_npy_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                 const struct ck_model_options *options, struct ck_error *err) {
    const struct reader reader = {.model = model, .limits = limits};
    struct ck_source rest;
    struct ck_npy npy;
    int r;

    r = ck_npy_open(source, "", &npy, err);
    if (r == 0 && npy.type.kind == 'O') {
        r = ck_source_part(source, npy.offset, source->length - npy.offset, &rest, err);
        return r < 0 ? r : ck_plain_pickle_index(model, &rest, "", limits, options, err);
    }
    if (r == 0)
        r = check_option(options, err);
    if (r == 0)
        r = reserve(&reader, 1, err);
    model->root_path = "";
    model->root_why = "the file is a single array";
    return r < 0 ? r : add_array(&reader, "", "value", &npy, source, err);
}

/* ---- a zip of them ---- */

static bool is_array(const struct ck_zip_entry *entry) {
    size_t n = strlen(entry->name);

    return n >= 4 && strcmp(entry->name + n - 4, ".npy") == 0;
}

static bool is_folder(const struct ck_zip_entry *entry) {
    size_t n = strlen(entry->name);

    return n > 0 && entry->name[n - 1] == '/';
}

/* The bytes of a member for as long as the model lives. *ret_problem: it is deflated, and there is nowhere to put it.
 */
static int open_member(const struct reader *reader, const struct ck_zip *zip, const struct ck_zip_entry *entry,
                       struct ck_source *ret_source, const char **ret_problem, struct ck_error *err) {
    _cleanup_(ck_freep) void *memory = NULL;
    char *copy;
    int r;

    *ret_problem = NULL;
    if (entry->stored)
        return ck_source_part(&zip->source, entry->offset, entry->size, ret_source, err);
    if (reader->scratch)
        return ck_zip_unpack(zip, entry, reader->scratch, ret_source, err);
    if (entry->size > SMALL) {
        *ret_problem = "it is compressed, which needs a scratch file to unpack";
        return 0;
    }
    r = ck_zip_read(zip, entry, SMALL, ret_source, &memory, err);
    if (r < 0)
        return r;
    copy = ck_arena_copy(&reader->model->arena, ret_source->memory, (size_t)ret_source->length);
    if (!copy)
        return ck_model_memory_spent(reader->limits, err);
    ret_source->memory = (const uint8_t *)copy;
    return 0;
}

/* An array of Python objects, which is read when the others are. */
struct objects {
    const char *name, *entry;
    struct ck_source source; /* its pickle */
};

/* What is wrong with one member and says nothing of the others. */
static bool is_damage(int r) {
    return r == CK_E_ARCHIVE_CORRUPT || r == CK_E_ARCHIVE_UNSAFE || r == CK_E_HEADER_CORRUPT || r == CK_E_TRUNCATED;
}

static int add_unreadable(const struct reader *reader, const char *name, const char *why, struct ck_error *err) {
    struct ck_tensor *tensor = NULL;
    int64_t *dims;
    int r;

    r = add_tensor(reader, name, name, 0, &tensor, &dims, err);
    return r < 0 ? r
                 : fault(reader, tensor, CK_E_UNSUPPORTED_TENSOR,
                         ck_arena_printf(&reader->model->arena, "it cannot be read: %.500s", why), err);
}

static int add_member(const struct reader *reader, const struct ck_zip *zip, const struct ck_zip_entry *entry,
                      struct objects *objects, uint32_t *n_objects, struct ck_error *err) {
    const char *name = ck_arena_copy(&reader->model->arena, entry->name, strlen(entry->name) - 4), *problem = NULL;
    struct ck_source source = {0};
    struct ck_error local = {0};
    struct ck_npy npy;
    int r;

    if (!name)
        return ck_model_memory_spent(reader->limits, err);
    r = open_member(reader, zip, entry, &source, &problem, &local);
    if (r == 0 && !problem)
        r = ck_npy_open(&source, entry->name, &npy, &local);
    if (problem || is_damage(r))
        return add_unreadable(reader, name, problem ? problem : local.message, err);
    if (r < 0)
        return ck_error_set(err, r, local.where, "%s", local.message);
    if (npy.type.kind != 'O')
        return add_array(reader, name, name, &npy, &source, err);
    objects[*n_objects] = (struct objects){.name = name, .entry = entry->name};
    return ck_source_part(&source, npy.offset, source.length - npy.offset, &objects[(*n_objects)++].source, err);
}

/* One of several arrays: all that it holds belongs to the set. Findings are kept also of what cannot be read. */
static int join_objects(const struct reader *reader, const struct objects *objects, struct ck_error *err) {
    const struct ck_model_options everything = {.state_dict = ".", .scratch = reader->scratch};
    _cleanup_(ck_model_freep) struct ck_model *part = NULL;
    struct ck_error local = {0};
    const char *prefix;
    int r, joined;

    r = ck_model_new(0, reader->limits, &part, err);
    if (r < 0)
        return r;
    r = ck_plain_pickle_index(part, &objects->source, objects->entry, reader->limits, &everything, &local);
    if (r < 0)
        part->n_tensors = part->n_outside = part->n_storages = 0;
    prefix = ck_arena_printf(&reader->model->arena, "%s.", objects->name);
    if (!prefix)
        return ck_model_memory_spent(reader->limits, err);
    joined = ck_model_join(reader->model, part, prefix, CK_JOIN_WEIGHTS, reader->limits, err);
    if (r < 0 && r != CK_E_NO_TENSORS && r != CK_E_STATE_DICT_NOT_FOUND)
        return ck_error_set(err, r, local.where, "%s", local.message);
    return joined;
}

static int read_members(const struct reader *reader, const struct ck_zip *zip, struct objects *objects,
                        struct ck_error *err) {
    uint32_t n_objects = 0;
    int r = 0;

    for (uint32_t i = 0; i < zip->count && r == 0; i++) {
        const struct ck_zip_entry *entry = &zip->entries[i];

        if (is_array(entry))
            r = add_member(reader, zip, entry, objects, &n_objects, err);
        else if (!is_folder(entry))
            ck_findings_add(&reader->model->findings, CK_FINDING_STRUCTURE, entry->name, 0, "", "",
                            "the entry beside the arrays is none and is left out", false);
    }
    for (uint32_t i = 0; i < n_objects && r == 0; i++)
        r = join_objects(reader, &objects[i], err);
    return r;
}

int ck_npz_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_limits *limits,
                 const struct ck_model_options *options, struct ck_error *err) {
    const struct reader reader = {.model = model, .limits = limits, .scratch = options ? options->scratch : NULL};
    _cleanup_(ck_freep) struct objects *objects = NULL;
    uint32_t count = 0;
    int r;

    model->form = "npz";
    for (uint32_t i = 0; i < zip->count; i++)
        count += is_array(&zip->entries[i]);
    r = check_option(options, err);
    if (r == 0)
        r = reserve(&reader, count, err);
    if (r < 0)
        return r;
    objects = calloc((size_t)count + 1, sizeof(*objects));
    if (!objects)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the arrays");
    model->root_path = "";
    model->root_why = "the archive maps names to arrays";
    r = read_members(&reader, zip, objects, err);
    if (r == 0 && model->n_tensors == 0)
        return ck_error_set(err, CK_E_NO_TENSORS, NULL, "the arrays in the file hold Python objects and no numbers");
    return r;
}
