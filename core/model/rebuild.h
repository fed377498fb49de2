/* model/rebuild.h: what torch's rebuild functions would have made: call nodes of the pickle graph -> tensors and
 * storages.
 *
 * Sources: torch/_utils.py (_rebuild_*), torch/_tensor.py (_rebuild_from_type_v2), torch/nn/parameter.py (Parameter),
 * and persistent_load() in torch/serialization.py for ('storage', class, key, location, numel). Nothing is called: a
 * row of a table says which argument means what, and every argument's type is checked. A node is interpreted once,
 * after the pickle has ended, so what a file does to the arguments later in its stream cannot change a tensor between
 * two looks. */
#ifndef CK_MODEL_REBUILD_H
#define CK_MODEL_REBUILD_H

#include "core/base/strmap.h"
#include "core/model/model.h"
#include "core/pickle/value.h"

/* Looks up the bytes of a storage. False if the file has none under this key; ret_storage->key is set by the caller. */
typedef bool (*ck_storage_find_fn)(void *ctx, const char *key, struct ck_storage *ret_storage);

/* One tensor node, before it has a name. */
struct ck_rebuilt {
    struct ck_view view; /* shape and stride are never NULL; dtype CK_DTYPE_END_ where it is not known */
    uint32_t storage;    /* index into storages, or CK_NO_INDEX */
    bool parameter;
    int error; /* as in struct ck_tensor */
    const char *error_message;
};

struct ck_rebuild {
    const struct ck_pickle *pickle; /* borrowed */
    const struct ck_limits *limits; /* borrowed */
    struct ck_arena *arena;         /* the model's: shapes, keys, messages */
    ck_storage_find_fn find;
    void *find_ctx;
    const char *place; /* what stands before a key in messages: "archive/data/" */
    uint32_t *memo;    /* for each value of the pickle: 0 not looked at, 1 no tensor, else 2 + index into tensors */
    struct ck_rebuilt *tensors;
    uint32_t n_tensors, tensors_capacity;
    struct ck_storage *storages;
    uint32_t n_storages, storages_capacity;
    struct ck_strmap by_key; /* key -> storage, or CK_NO_INDEX: no such record */
};

/* pickle, limits, arena and place are borrowed. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_rebuild_init(struct ck_rebuild *rebuild, const struct ck_pickle *pickle, const struct ck_limits *limits,
                    struct ck_arena *arena, ck_storage_find_fn find, void *find_ctx, const char *place,
                    struct ck_error *err);

/* If the value is a tensor, sets *ret_index to its place in rebuild->tensors, else to CK_NO_INDEX. The same value gives
 * the same index. A tensor that cannot be read is one with `error` set. Returns 0; CK_E_TENSOR_LIMIT (dims,
 * model_memory); CK_E_OUT_OF_MEMORY. */
int ck_rebuild_tensor(struct ck_rebuild *rebuild, ck_ref ref, uint32_t *ret_index, struct ck_error *err);

/* Accepts a zeroed struct. */
void ck_rebuild_release(struct ck_rebuild *rebuild);

#endif
