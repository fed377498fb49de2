#include "core/model/join.h"

#include <inttypes.h>
#include <string.h>

#include "core/model/assemble.h"
#include "core/model/memory.h"
#include "core/model/quantizer.h"

struct joiner {
    struct ck_model *model;
    const struct ck_limits *limits;
    const char *prefix;
    uint32_t first_storage; /* where those of the part begin */
};

static int memory_spent(const struct joiner *j, struct ck_error *err) {
    return ck_model_memory_spent(j->limits, err);
}

/* The array with room for more behind its elements. It doubles when it moves, since the arena keeps what it moves from:
 * hundreds of shards would add up. */
static void *extend(struct ck_model *model, void *array, uint32_t count, uint32_t more, uint32_t *capacity,
                    size_t size) {
    size_t room = CK_MAX((size_t)count + more, 2 * (size_t)count);
    void *larger;

    if (array && *capacity >= count && *capacity - count >= more)
        return array;
    larger = room <= UINT32_MAX ? ck_arena_alloc_array(&model->arena, room, size) : NULL;
    if (!larger)
        return NULL;
    if (count > 0)
        memcpy(larger, array, count * size);
    *capacity = (uint32_t)room;
    return larger;
}

static int add_storages(const struct joiner *j, const struct ck_model *part, struct ck_error *err) {
    struct ck_model *model = j->model;
    struct ck_storage *storages = extend(model, model->storages, model->n_storages, part->n_storages,
                                         &model->storages_capacity, sizeof(*storages));

    if (!storages)
        return memory_spent(j, err);
    model->storages = storages;
    for (uint32_t i = 0; i < part->n_storages; i++) {
        struct ck_storage *storage = &storages[model->n_storages];

        *storage = part->storages[i];
        storage->key = ck_arena_strdup(&model->arena, part->storages[i].key);
        if (storage->source.memory) {
            void *bytes = ck_arena_copy(&model->arena, storage->source.memory, (size_t)storage->source.length);

            if (!bytes)
                return memory_spent(j, err);
            storage->source.memory = bytes;
        }
        if (storage->unreadable)
            storage->unreadable = ck_arena_strdup(&model->arena, storage->unreadable);
        if (!storage->key || (part->storages[i].unreadable && !storage->unreadable))
            return memory_spent(j, err);
        model->n_storages++;
    }
    return 0;
}

static bool copy_text(struct ck_arena *arena, const char *prefix, const char **text) {
    *text = *text ? ck_arena_printf(arena, "%s%s", prefix, *text) : NULL;
    return *text != NULL;
}

static bool copy_view(struct ck_arena *arena, struct ck_view *view) {
    size_t rank = view->rank;
    int64_t *dims = ck_arena_alloc_array(arena, rank * 2, sizeof(*dims));

    if (dims && rank > 0) {
        memcpy(dims, view->shape, rank * sizeof(*dims));
        memcpy(dims + rank, view->stride, rank * sizeof(*dims));
    }
    view->shape = dims;
    view->stride = dims ? dims + rank : NULL;
    return dims != NULL;
}

static uint32_t shifted(const struct joiner *j, uint32_t storage) {
    return storage == CK_NO_INDEX ? storage : storage + j->first_storage;
}

static int copy_tensor(const struct joiner *j, const struct ck_tensor *from, bool named, struct ck_tensor *to,
                       struct ck_error *err) {
    struct ck_arena *arena = &j->model->arena;

    *to = *from;
    to->module = to->alias_of = CK_NO_INDEX;
    to->storage = shifted(j, to->storage);
    if (!named)
        to->name = NULL;
    if (to->quantizer)
        to->quantizer = ck_quantizer_copy(to->quantizer, j->first_storage, arena);
    if (!copy_view(arena, &to->view) || (from->quantizer && !to->quantizer) ||
        !copy_text(arena, j->prefix, &to->path) || (to->name && !copy_text(arena, j->prefix, &to->name)) ||
        (to->error_message && !copy_text(arena, "", &to->error_message)))
        return memory_spent(j, err);
    return 0;
}

static int add_tensors(const struct joiner *j, const struct ck_tensor *tensors, uint32_t n, enum ck_join how,
                       struct ck_error *err) {
    bool named = how != CK_JOIN_OUTSIDE;
    struct ck_model *model = j->model;
    struct ck_tensor **array = named ? &model->tensors : &model->outside, *larger;
    uint32_t *count = named ? &model->n_tensors : &model->n_outside;
    uint32_t *capacity = named ? &model->tensors_capacity : &model->outside_capacity;
    int r;

    if ((uint64_t)*count + n > j->limits->tensors)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL, "it has more than %" PRIu64 " tensors (--limit-tensors)",
                            j->limits->tensors);
    larger = extend(model, *array, *count, n, capacity, sizeof(*larger));
    if (!larger)
        return memory_spent(j, err);
    *array = larger;
    for (uint32_t i = 0; i < n; i++) {
        r = copy_tensor(j, &tensors[i], named, &larger[*count], err);
        if (r < 0)
            return r;
        larger[*count].persistent = larger[*count].persistent && how == CK_JOIN_WEIGHTS;
        ++*count;
    }
    return 0;
}

static void add_findings(struct ck_model *model, const struct ck_model *part) {
    for (size_t i = 0; i < part->findings.count; i++) {
        const struct ck_finding *f = &part->findings.items[i];

        ck_findings_add(&model->findings, f->class_, f->entry, f->offset, f->opcode, f->module, f->name, f->called);
    }
    model->findings.dropped += part->findings.dropped;
    model->findings.truncated = model->findings.truncated || part->findings.truncated;
}

int ck_model_append(struct ck_model *model, const struct ck_model *part, const char *prefix, enum ck_join how,
                    const struct ck_limits *limits, struct ck_error *err) {
    const struct joiner j = {.model = model, .limits = limits, .prefix = prefix, .first_storage = model->n_storages};
    int r;

    add_findings(model, part);
    r = add_storages(&j, part, err);
    if (r == 0)
        r = add_tensors(&j, part->tensors, part->n_tensors, how, err);
    if (r == 0)
        r = add_tensors(&j, part->outside, part->n_outside, CK_JOIN_OUTSIDE, err);
    return r;
}

int ck_model_join(struct ck_model *model, const struct ck_model *part, const char *prefix, enum ck_join how,
                  const struct ck_limits *limits, struct ck_error *err) {
    int r = ck_model_append(model, part, prefix, how, limits, err);

    return r < 0 ? r : ck_find_aliases(model, err);
}
