#include "core/model/torch_tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/container/tar.h"
#include "core/model/bundle.h"
#include "core/model/inside.h"
#include "core/model/memory.h"
#include "core/model/rebuild.h"
#include "core/model/torch_zip.h"
#include "core/model/nested_scan.h"
#include "core/pickle/machine.h"

#define NUMBER_TEXT 24u

/* A storage, or a view on one. */
struct block {
    const char *key; /* of the storage itself, in the model's arena */
    enum ck_dtype dtype;
    uint64_t offset, numel;  /* the view's part of the storage, in elements */
    struct ck_source source; /* of the whole storage */
    bool view;
};

struct tensor {
    uint32_t block, rank;
    const int64_t *dims; /* sizes, then strides */
    uint64_t offset;
};

struct file {
    struct ck_tar tar;
    const struct ck_limits *limits;
    const struct ck_model_options *options;
    struct ck_model *model;
    struct ck_error *err;
    struct block *blocks;
    uint32_t n_blocks, blocks_capacity;
    struct tensor *tensors;
    uint32_t n_tensors, tensors_capacity;
    struct ck_strmap block_by_key, tensor_by_key;
};

/* An entry that is read from its front to its end. */
struct cursor {
    const char *entry;
    struct ck_source source;
    uint64_t at;
};

static void file_release(struct file *f) {
    ck_tar_release(&f->tar);
    ck_strmap_release(&f->block_by_key);
    ck_strmap_release(&f->tensor_by_key);
    free(f->blocks);
    free(f->tensors);
}

static int corrupt(struct file *f, const struct cursor *c, const char *what) {
    return ck_error_set(f->err, CK_E_ARCHIVE_CORRUPT, c->entry, "the entry %s is damaged: at byte %" PRIu64 " %s",
                        c->entry, c->at, what);
}

static int out_of_memory(struct file *f) {
    return ck_error_set(f->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the tensors");
}

/* ---- cursors ---- */

static int next_pickle(struct file *f, struct cursor *c, struct ck_pickle *ret_pickle) {
    int r = ck_pickle_run_at(&c->source, c->at, c->entry, f->limits, &f->model->findings, ret_pickle, f->err);

    if (r < 0)
        return r;
    ck_nested_scan(ret_pickle, c->entry, f->limits, f->options, &f->model->findings);
    c->at += ret_pickle->length;
    return 0;
}

static int next_bytes(struct file *f, struct cursor *c, void *bytes, size_t n) {
    uint64_t left = c->source.length - c->at;
    int r;

    if (n > left)
        return ck_error_set(f->err, CK_E_TRUNCATED, c->entry,
                            "the entry %s is cut off: %zu bytes are needed at byte %" PRIu64 ", %" PRIu64 " present",
                            c->entry, n, c->at, left);
    r = ck_source_read(&c->source, c->at, bytes, n, f->err);
    c->at += n;
    return r;
}

static int next_count(struct file *f, struct cursor *c, uint64_t *ret_count) {
    _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
    const struct ck_value *root;
    int r;

    r = next_pickle(f, c, &pickle);
    if (r < 0)
        return r;
    root = ck_pickle_get(&pickle, pickle.root);
    if (root->kind != CK_VALUE_INT || root->integer < 0)
        return corrupt(f, c, "there is no number of parts");
    if ((uint64_t)root->integer > f->limits->tensors)
        return ck_error_set(f->err, CK_E_TENSOR_LIMIT, c->entry,
                            "it has %" PRId64 " %s, more than %" PRIu64 " (--limit-tensors)", root->integer, c->entry,
                            f->limits->tensors);
    *ret_count = (uint64_t)root->integer;
    return 0;
}

/* Keys are numbers or their text; both as text. NULL if the value is neither. */
static const char *key_text(const struct ck_pickle *pickle, ck_ref ref, char number[NUMBER_TEXT]) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    if (value->kind == CK_VALUE_INT) {
        snprintf(number, NUMBER_TEXT, "%" PRId64, value->integer);
        return number;
    }
    if (value->kind != CK_VALUE_TEXT || !value->bytes.data ||
        strlen((const char *)value->bytes.data) != value->bytes.length)
        return NULL;
    return (const char *)value->bytes.data;
}

/* The index-th member of the tuple that is the root of a pickle. */
static const char *member_key(const struct ck_pickle *pickle, ck_ref tuple, uint32_t index, char number[NUMBER_TEXT]) {
    ck_ref item;

    return ck_pickle_get(pickle, tuple)->kind != CK_VALUE_CALL && ck_pickle_argument(pickle, tuple, index, &item)
               ? key_text(pickle, item, number)
               : NULL;
}

/* Enters a key in a map; it must be new. The copy in the model's arena outlives the pickle. */
static int add_key(struct file *f, const struct cursor *c, struct ck_strmap *map, const char *key, uint32_t index,
                   const char **ret_key) {
    uint32_t before;

    if (ck_strmap_get(map, key, &before))
        return corrupt(f, c, "a key comes for the second time");
    key = ck_arena_strdup(&f->model->arena, key);
    if (!key)
        return ck_model_memory_spent(f->limits, f->err);
    if (!ck_strmap_set(map, key, index))
        return out_of_memory(f);
    *ret_key = key;
    return 0;
}

/* ---- storages ---- */

static int add_block(struct file *f, const struct cursor *c, const char *key, const struct block *block) {
    const char *copy;
    int r;

    if (!ck_grow((void **)&f->blocks, f->n_blocks, &f->blocks_capacity, sizeof(*f->blocks)))
        return out_of_memory(f);
    r = add_key(f, c, &f->block_by_key, key, f->n_blocks, &copy);
    if (r < 0)
        return r;
    f->blocks[f->n_blocks] = *block;
    if (!block->view)
        f->blocks[f->n_blocks].key = copy;
    f->n_blocks++;
    return 0;
}

static int read_class(struct file *f, const struct cursor *c, const struct ck_pickle *pickle, const char *key,
                      enum ck_dtype *ret_dtype) {
    const struct ck_value *class_;
    bool untyped;
    ck_ref ref;

    if (!ck_pickle_argument(pickle, pickle->root, 2, &ref))
        return corrupt(f, c, "a storage has no class");
    class_ = ck_pickle_get(pickle, ref);
    if (class_->kind != CK_VALUE_GLOBAL)
        return corrupt(f, c, "a storage has no class");
    *ret_dtype = ck_storage_class_dtype(class_->global.module, class_->global.name, &untyped);
    if (*ret_dtype != CK_DTYPE_END_)
        return 0;
    return ck_error_set(
        f->err, CK_E_UNSUPPORTED_DTYPE, c->entry,
        "the storage %.200s is a %.200s, whose size of an element is not known, so no storage behind it "
        "can be found",
        key, class_->global.name);
}

/* The i-th of n. */
static int read_elements(struct file *f, struct cursor *c, uint64_t i, uint64_t n, struct block *block) {
    uint64_t left = c->source.length - c->at, bytes, there;
    int64_t numel = 0;
    int r;

    if (left >= sizeof(numel)) {
        r = next_bytes(f, c, &numel, sizeof(numel));
        if (r < 0)
            return r;
    }
    if (numel < 0 || !ck_mul_u64((uint64_t)numel, ck_dtype_row(block->dtype)->size, &bytes))
        return corrupt(f, c, "a storage has an impossible number of elements");
    there = c->source.length - c->at;
    if (left < sizeof(numel) || bytes > there)
        return ck_error_set(f->err, CK_E_TRUNCATED, c->entry,
                            "the entry %s is cut off: storage %" PRIu64 " of %" PRIu64 " needs %" PRIu64
                            " bytes at byte %" PRIu64 ", %" PRIu64 " present",
                            c->entry, i + 1, n, left < sizeof(numel) ? sizeof(numel) : bytes, c->at, there);
    block->numel = (uint64_t)numel;
    r = ck_source_part(&c->source, c->at, bytes, &block->source, f->err);
    c->at += bytes;
    return r;
}

static int read_storage(struct file *f, struct cursor *c, uint64_t i, uint64_t n) {
    _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
    struct block block = {0};
    char number[NUMBER_TEXT];
    const char *key;
    int r;

    r = next_pickle(f, c, &pickle);
    if (r < 0)
        return r;
    key = member_key(&pickle, pickle.root, 0, number);
    if (!key)
        return corrupt(f, c, "a storage has no key");
    r = read_class(f, c, &pickle, key, &block.dtype);
    if (r == 0)
        r = read_elements(f, c, i, n, &block);
    return r < 0 ? r : add_block(f, c, key, &block);
}

static int read_view(struct file *f, const struct cursor *c, const struct ck_pickle *views, ck_ref view) {
    char number[NUMBER_TEXT], root_number[NUMBER_TEXT];
    const char *key = member_key(views, view, 0, number), *root = member_key(views, view, 1, root_number);
    const struct ck_value *offset, *size;
    uint32_t index;
    struct block block;
    ck_ref ref;

    if (!key || !root || !ck_pickle_argument(views, view, 3, &ref))
        return corrupt(f, c, "a view is no tuple (key, storage, offset, size)");
    size = ck_pickle_get(views, ref);
    ck_pickle_argument(views, view, 2, &ref);
    offset = ck_pickle_get(views, ref);
    if (!ck_strmap_get(&f->block_by_key, root, &index))
        return corrupt(f, c, "a view is on a storage that is not there");
    block = f->blocks[index];
    if (offset->kind != CK_VALUE_INT || size->kind != CK_VALUE_INT || offset->integer < 0 || size->integer < 0 ||
        (uint64_t)offset->integer > block.numel || (uint64_t)size->integer > block.numel - (uint64_t)offset->integer)
        return corrupt(f, c, "a view lies outside of its storage");
    block.view = true;
    block.offset += (uint64_t)offset->integer;
    block.numel = (uint64_t)size->integer;
    return add_block(f, c, key, &block);
}

static int read_views(struct file *f, struct cursor *c) {
    _cleanup_(ck_pickle_release) struct ck_pickle views = {0};
    const struct ck_value *list;
    int r;

    r = next_pickle(f, c, &views);
    if (r < 0)
        return r;
    list = ck_pickle_get(&views, views.root);
    if (list->kind != CK_VALUE_LIST)
        return corrupt(f, c, "there is no list of views");
    for (uint32_t i = 0; r == 0 && i < list->list.count; i++)
        r = f->n_blocks >= f->limits->tensors
                ? ck_error_set(f->err, CK_E_TENSOR_LIMIT, c->entry,
                               "it has more than %" PRIu64 " storages and views (--limit-tensors)", f->limits->tensors)
                : read_view(f, c, &views, list->list.items[i]);
    return r;
}

static void note_rest(struct file *f, const struct cursor *c) {
    if (c->at < c->source.length)
        ck_findings_add(&f->model->findings, CK_FINDING_STRUCTURE, c->entry, c->at, "", "",
                        "bytes follow the last part of the entry", false);
}

static int read_storages(struct file *f, struct cursor *c) {
    uint64_t n;
    int r;

    r = next_count(f, c, &n);
    for (uint64_t i = 0; r == 0 && i < n; i++)
        r = read_storage(f, c, i, n);
    if (r == 0 && c->at < c->source.length)
        r = read_views(f, c);
    if (r == 0)
        note_rest(f, c);
    return r;
}

/* ---- tensors ---- */

static int read_dims(struct file *f, struct cursor *c, struct tensor *tensor) {
    uint8_t rank[8];
    int64_t *dims, offset;
    int32_t n;
    int r;

    r = next_bytes(f, c, rank, sizeof(rank));
    if (r < 0)
        return r;
    memcpy(&n, rank, sizeof(n)); /* the other half is not used, as in torch */
    if (n < 0 || n > CK_RANK_MAX)
        return corrupt(f, c, "a tensor has an impossible number of dimensions");
    if ((uint64_t)n > f->limits->dims)
        return ck_error_set(f->err, CK_E_TENSOR_LIMIT, c->entry,
                            "a tensor has %" PRId32 " dimensions, more than %" PRIu64 " (--limit-dims)", n,
                            f->limits->dims);
    dims = ck_arena_alloc_array(&f->model->arena, (size_t)n * 2, sizeof(*dims));
    if (!dims)
        return ck_model_memory_spent(f->limits, f->err);
    r = next_bytes(f, c, dims, (size_t)n * 2 * sizeof(*dims));
    if (r == 0)
        r = next_bytes(f, c, &offset, sizeof(offset));
    if (r < 0)
        return r;
    if (offset < 0)
        return corrupt(f, c, "a tensor has a negative offset");
    tensor->rank = (uint32_t)n;
    tensor->dims = dims;
    tensor->offset = (uint64_t)offset;
    return 0;
}

static int read_tensor(struct file *f, struct cursor *c) {
    _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
    char number[NUMBER_TEXT], storage_number[NUMBER_TEXT];
    const char *key, *storage, *copy;
    struct tensor tensor = {0};
    int r;

    r = next_pickle(f, c, &pickle);
    if (r < 0)
        return r;
    key = member_key(&pickle, pickle.root, 0, number);
    storage = member_key(&pickle, pickle.root, 1, storage_number);
    if (!key || !storage)
        return corrupt(f, c, "a tensor has no key");
    if (!ck_strmap_get(&f->block_by_key, storage, &tensor.block))
        return corrupt(f, c, "a tensor is on a storage that is not there");
    r = read_dims(f, c, &tensor);
    if (r < 0)
        return r;
    if (!ck_grow((void **)&f->tensors, f->n_tensors, &f->tensors_capacity, sizeof(*f->tensors)))
        return out_of_memory(f);
    f->tensors[f->n_tensors] = tensor;
    return add_key(f, c, &f->tensor_by_key, key, f->n_tensors++, &copy);
}

static int read_tensors(struct file *f, struct cursor *c) {
    uint64_t n;
    int r;

    r = next_count(f, c, &n);
    for (uint64_t i = 0; r == 0 && i < n; i++)
        r = read_tensor(f, c);
    if (r == 0)
        note_rest(f, c);
    return r;
}

/* ---- the object ---- */

static bool find_storage(void *ctx, const char *key, struct ck_storage *ret_storage) {
    const struct file *f = ctx;
    uint32_t index;

    if (!ck_strmap_get(&f->block_by_key, key, &index))
        return false;
    ret_storage->source = f->blocks[index].source;
    return true;
}

static int unreadable(struct file *f, struct ck_rebuilt *tensor, const char *message) {
    if (!message)
        return ck_model_memory_spent(f->limits, f->err);
    tensor->error = CK_E_UNSUPPORTED_TENSOR;
    tensor->error_message = message;
    return 0;
}

static int find_tensor(void *ctx, struct ck_rebuild *rebuild, ck_ref id, struct ck_rebuilt *tensor, bool *ret_found,
                       struct ck_error *err) {
    struct file *f = ctx;
    const struct tensor *row;
    const struct block *block;
    struct ck_storage_id place = {.class_ = "storage"};
    char number[NUMBER_TEXT];
    const char *key = key_text(rebuild->pickle, ck_pickle_get(rebuild->pickle, id)->list.items[0], number);
    uint32_t index;

    *ret_found = key != NULL;
    if (!key)
        return 0;
    if (!ck_strmap_get(&f->tensor_by_key, key, &index))
        return unreadable(f, tensor,
                          ck_arena_printf(&f->model->arena,
                                          ck_strmap_get(&f->block_by_key, key, &index)
                                              ? "it is the bare storage %.200s, without a tensor around it"
                                              : "its key %.200s is missing from the entry tensors",
                                          key));
    row = &f->tensors[index];
    block = &f->blocks[row->block];
    place.key = block->key;
    place.dtype = block->dtype;
    place.view = block->view;
    place.view_offset = (int64_t)block->offset;
    place.view_size = (int64_t)block->numel;
    tensor->view = (struct ck_view){.dtype = block->dtype,
                                    .rank = row->rank,
                                    .shape = row->dims,
                                    .stride = row->dims + row->rank,
                                    .offset = row->offset};
    return ck_rebuild_place(rebuild, &place, tensor, err);
}

/* A tuple in the pickle repeats what `storages` says of the class; if it does not agree, one of them is wrong. */
static int check_classes(struct file *f, const struct ck_pickle *pickle) {
    for (ck_ref ref = 0; ref < pickle->count; ref++) {
        struct ck_storage_id id;
        uint32_t index;

        if (ck_pickle_get(pickle, ref)->kind == CK_VALUE_TUPLE && !ck_storage_id_parse(pickle, ref, &id) &&
            ck_strmap_get(&f->block_by_key, id.key, &index) && f->blocks[index].dtype != id.dtype)
            return ck_error_set(f->err, CK_E_ARCHIVE_CORRUPT, "pickle",
                                "the storage %.200s is a %.200s in the entry pickle and another in the entry storages",
                                id.key, id.class_);
    }
    return 0;
}

static int open_entry(struct file *f, const char *name, struct cursor *ret_cursor) {
    *ret_cursor = (struct cursor){.entry = name};
    return ck_tar_part(&f->tar, ck_tar_find(&f->tar, name), &ret_cursor->source, f->err);
}

/* Before the other entries: what it would call is worth knowing also if they are damaged. */
static int read_object(struct file *f, struct ck_pickle *ret_pickle) {
    struct cursor c;
    int r;

    r = open_entry(f, "pickle", &c);
    if (r == 0)
        r = ck_pickle_run(&c.source, c.entry, f->limits, &f->model->findings, ret_pickle, f->err);
    if (r == 0)
        ck_nested_scan(ret_pickle, c.entry, f->limits, f->options, &f->model->findings);
    return r;
}

static int read_parts(struct file *f) {
    struct cursor c;
    int r;

    r = open_entry(f, "storages", &c);
    if (r == 0)
        r = read_storages(f, &c);
    if (r < 0 || !ck_tar_find(&f->tar, "tensors"))
        return r;
    r = open_entry(f, "tensors", &c);
    return r < 0 ? r : read_tensors(f, &c);
}

int ck_torch_tar_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                       const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(file_release) struct file f = {.limits = limits, .options = options, .model = model, .err = err};
    _cleanup_(ck_pickle_release) struct ck_pickle object = {0};
    _cleanup_(ck_rebuild_release) struct ck_rebuild rebuild = {0};
    int r;

    r = ck_tar_open(source, limits, &model->findings, &f.tar, err);
    if (r < 0)
        return r;
    if (!ck_tar_find(&f.tar, "pickle") || !ck_tar_find(&f.tar, "storages"))
        return ck_bundle_index_tar(model, &f.tar, limits, options, err);
    r = ck_inside_refuse_member(options, err);
    if (r < 0)
        return r;
    r = read_object(&f, &object);
    if (r == 0)
        r = read_parts(&f);
    if (r == 0)
        r = check_classes(&f, &object);
    if (r == 0)
        r = ck_rebuild_init(&rebuild, &object, limits, &model->arena, find_storage, &f, "", err);
    if (r < 0)
        return r;
    rebuild.find_tensor = find_tensor;
    return ck_model_from_graph(model, &rebuild, "pickle", options, err);
}
