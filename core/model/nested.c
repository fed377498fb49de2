#include "core/model/nested.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "core/container/sniff.h"
#include "core/model/bytes.h"
#include "core/model/memory.h"
#include "core/pickle/machine.h"

/* Magic, protocol, system, the storage, the list of its key: then its number of elements and its bytes. */
enum { STORAGE = 3, KEYS = 4, PICKLES = 5 };

#define ENTRY "(a stream inside a byte string)"

struct stream {
    struct ck_source source;
    struct ck_pickle pickles[PICKLES];
    uint64_t position; /* behind the last pickle */
};

static void stream_release(struct stream *stream) {
    for (unsigned i = 0; i < PICKLES; i++)
        ck_pickle_release(&stream->pickles[i]);
}

bool ck_nested_is(const struct ck_pickle *pickle, ck_ref ref) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    return value->kind == CK_VALUE_CALL &&
           ck_pickle_is_global(pickle, value->call.callee, "torch.storage", "_load_from_bytes");
}

static bool is_legacy(const struct ck_source *source) {
    uint8_t head[64];
    size_t n = (size_t)CK_MIN((uint64_t)sizeof(head), source->length);

    return ck_source_read(source, 0, head, n, NULL) == 0 && ck_sniff(head, n, 0, NULL) == CK_FORM_LEGACY;
}

/* Returns a phrase, or NULL. The findings are those of nested_scan.h. failure: the fault of this machine, not of the
 * stream. */
static const char *run_pickles(struct ck_rebuild *rebuild, struct stream *stream, struct ck_error *failure) {
    _cleanup_(ck_findings_release) struct ck_findings nobody;
    struct ck_error why = {0};

    ck_findings_init(&nobody);
    for (unsigned i = 0; i < PICKLES; i++) {
        if (ck_pickle_run_at(&stream->source, stream->position, ENTRY, rebuild->limits, &nobody, &stream->pickles[i],
                             &why) < 0) {
            if (ck_error_row(why.code)->class_ == CK_CLASS_server)
                *failure = why;
            return ck_arena_printf(rebuild->arena, "which is damaged: %.300s", why.message);
        }
        stream->position += stream->pickles[i].length;
    }
    return NULL;
}

/* The bytes behind the pickles: one storage, as many elements as its id tells. */
static const char *read_storage(const struct stream *stream, const struct ck_storage_id *id,
                                struct ck_storage *storage) {
    const struct ck_pickle *keys = &stream->pickles[KEYS];
    struct ck_pickle_walk walk;
    uint64_t bytes;
    int64_t numel;

    if (!ck_pickle_items(keys, keys->root, &walk) || walk.count[0] + walk.count[1] != 1 || id->view)
        return "which holds something else than one storage";
    if (id->dtype == CK_DTYPE_END_)
        return "whose class of storage is not known";
    if (ck_source_read(&stream->source, stream->position, &numel, sizeof(numel), NULL) < 0)
        return "which is cut off";
    numel = (int64_t)le64toh((uint64_t)numel);
    if (numel < 0 || numel != id->numel || !ck_mul_u64((uint64_t)numel, ck_dtype_row(id->dtype)->size, &bytes))
        return "whose number of elements is not the one of its description";
    if (ck_source_part(&stream->source, stream->position + sizeof(numel), bytes, &storage->source, NULL) < 0)
        return "which is cut off";
    return NULL;
}

static const char *read_stream(struct ck_rebuild *rebuild, const struct ck_source *source, struct ck_storage_id *ret_id,
                               struct ck_storage *storage, struct ck_error *failure) {
    _cleanup_(stream_release) struct stream stream = {.source = *source};
    const char *problem = NULL;

    if (rebuild->depth >= rebuild->limits->nesting)
        return "nested deeper than --limit-nesting";
    if (!is_legacy(source))
        return "which is no stream of torch.save for one storage";
    problem = run_pickles(rebuild, &stream, failure);
    if (!problem && !ck_storage_id_is(&stream.pickles[STORAGE], stream.pickles[STORAGE].root))
        problem = "which holds something else than one storage";
    if (!problem)
        problem = ck_storage_id_parse(&stream.pickles[STORAGE], stream.pickles[STORAGE].root, ret_id);
    if (!problem)
        problem = read_storage(&stream, ret_id, storage);
    /* The stream's graph goes: its texts do not outlive it. */
    ret_id->class_ = ret_id->class_ ? ck_arena_strdup(rebuild->arena, ret_id->class_) : "";
    return ret_id->class_ ? problem : "for which there is no memory";
}

static int add(struct ck_rebuild *rebuild, const char *key, struct ck_nested *nested, const struct ck_storage *storage,
               struct ck_error *err) {
    uint32_t index = CK_NO_INDEX;
    int r;

    nested->id.key = storage->key;
    if (!nested->problem) {
        r = ck_rebuild_add_storage(rebuild, storage, &index, err);
        if (r < 0)
            return r;
    }
    if (!ck_grow((void **)&rebuild->nested, rebuild->n_nested, &rebuild->nested_capacity, sizeof(*nested)) ||
        !ck_strmap_set(&rebuild->by_key, key, rebuild->n_nested) ||
        !ck_strmap_set(&rebuild->by_key, storage->key, index))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the storages");
    rebuild->nested[rebuild->n_nested++] = *nested;
    return 0;
}

static int open_new(struct ck_rebuild *rebuild, ck_ref bytes, const char *key, struct ck_error *err) {
    struct ck_storage storage = {.key = ck_arena_printf(rebuild->arena, "(stream %u)", bytes)};
    struct ck_nested nested = {0};
    struct ck_error failure = {0};
    struct ck_source source;
    int r;

    key = ck_arena_strdup(rebuild->arena, key);
    if (!storage.key || !key)
        return ck_model_memory_spent(rebuild->limits, err);
    r = ck_pickled_bytes(rebuild, bytes, &source, &nested.problem, err);
    if (r < 0)
        return r;
    if (nested.problem)
        nested.problem = ck_arena_printf(rebuild->arena, "whose bytes %s", nested.problem);
    else
        nested.problem = read_stream(rebuild, &source, &nested.id, &storage, &failure);
    if (failure.code < 0)
        return ck_error_set(err, failure.code, NULL, "%s", failure.message);
    return add(rebuild, key, &nested, &storage, err);
}

int ck_nested_open(struct ck_rebuild *rebuild, ck_ref ref, struct ck_storage_id *ret_id, const char **ret_problem,
                   struct ck_error *err) {
    uint32_t index;
    char key[32];
    ck_ref bytes;
    int r;

    if (!ck_pickle_argument(rebuild->pickle, ref, 0, &bytes)) {
        *ret_problem = "which is missing";
        return 0;
    }
    /* No key of a file looks like this, and one that did would only name the wrong storage of that file. */
    snprintf(key, sizeof(key), "\n%u", bytes);
    if (!ck_strmap_get(&rebuild->by_key, key, &index)) {
        r = open_new(rebuild, bytes, key, err);
        if (r < 0)
            return r;
        index = rebuild->n_nested - 1;
    }
    if (index >= rebuild->n_nested) {
        *ret_problem = "which a storage of the file is named like";
        return 0;
    }
    *ret_id = rebuild->nested[index].id;
    *ret_problem = rebuild->nested[index].problem;
    return 0;
}
