#include "core/model/from_safetensors.h"

#include <string.h>

#include "core/container/safetensors.h"
#include "core/model/memory.h"

/* Strides of elements that lie densely in the order of the shape. Those of an empty tensor may not fit and do not
 * matter. */
static void dense_strides(uint32_t rank, const int64_t *shape, int64_t *stride) {
    int64_t step = 1;

    for (uint32_t i = rank; i-- > 0;) {
        stride[i] = step;
        if (__builtin_mul_overflow(step, CK_MAX(shape[i], (int64_t)1), &step))
            step = INT64_MAX;
    }
}

static int add_tensor(struct ck_model *model, const struct ck_source *source, const struct ck_safetensors_entry *entry,
                      const struct ck_limits *limits, struct ck_error *err) {
    struct ck_storage *storage = &model->storages[model->n_storages];
    struct ck_tensor *tensor = &model->tensors[model->n_tensors];
    int64_t *dims = ck_arena_alloc_array(&model->arena, (size_t)entry->rank * 2, sizeof(*dims));
    const char *name = ck_arena_strdup(&model->arena, entry->name);
    int r;

    if (!dims || !name)
        return ck_model_memory_spent(limits, err);
    r = ck_source_part(source, entry->offset, entry->bytes, &storage->source, err);
    if (r < 0)
        return r;
    if (entry->rank > 0)
        memcpy(dims, entry->shape, entry->rank * sizeof(*dims));
    dense_strides(entry->rank, dims, dims + entry->rank);
    storage->key = name;
    *tensor = (struct ck_tensor){
        .path = name,
        .name = name,
        .view = {.dtype = entry->dtype, .rank = entry->rank, .shape = dims, .stride = dims + entry->rank},
        .storage = model->n_storages++,
        .alias_of = CK_NO_INDEX,
        .module = CK_NO_INDEX,
        .persistent = true};
    model->n_tensors++;
    if (!entry->error)
        return ck_view_check(&tensor->view, storage->source.length, name, err);
    tensor->error = CK_E_UNSUPPORTED_DTYPE;
    tensor->error_message = ck_arena_strdup(&model->arena, entry->error);
    return tensor->error_message ? 0 : ck_model_memory_spent(limits, err);
}

static int add_metadata(struct ck_model *model, const struct ck_safetensors *file, const struct ck_limits *limits,
                        struct ck_error *err) {
    const char *format = ck_safetensors_metadata(file, "format");

    model->metadata = ck_arena_alloc_array(&model->arena, (size_t)file->n_metadata * 2, sizeof(*model->metadata));
    if (!model->metadata)
        return ck_model_memory_spent(limits, err);
    for (uint32_t i = 0; i < file->n_metadata; i++) {
        model->metadata[2 * i] = ck_arena_strdup(&model->arena, file->metadata[i].key);
        model->metadata[2 * i + 1] = ck_arena_strdup(&model->arena, file->metadata[i].value);
        if (!model->metadata[2 * i] || !model->metadata[2 * i + 1])
            return ck_model_memory_spent(limits, err);
    }
    model->n_metadata = file->n_metadata;
    model->marked_mlx = format && strcmp(format, "mlx") == 0;
    return 0;
}

int ck_safetensors_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                         const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_safetensors_release) struct ck_safetensors file = {0};
    const char *path = options ? options->state_dict : NULL;
    int r;

    r = ck_safetensors_open(source, limits, &file, err);
    if (r < 0)
        return r;
    if (file.count == 0)
        return ck_error_set(err, CK_E_NO_TENSORS, NULL, "the file holds no tensors");
    if (path && path[0] && strcmp(path, ".") != 0)
        return ck_error_set(err, CK_E_STATE_DICT_NOT_FOUND, "state_dict",
                            "a safetensors file is one set of weights and has no paths; leave the option out");
    model->root_path = "";
    model->root_why = path ? "the option state_dict" : "the root maps names to tensors";
    model->storages = ck_arena_alloc_array(&model->arena, file.count, sizeof(*model->storages));
    model->tensors = ck_arena_alloc_array(&model->arena, file.count, sizeof(*model->tensors));
    if (!model->storages || !model->tensors)
        return ck_model_memory_spent(limits, err);
    r = add_metadata(model, &file, limits, err);
    for (uint32_t i = 0; r == 0 && i < file.count; i++)
        r = add_tensor(model, source, &file.entries[i], limits, err);
    return r;
}
