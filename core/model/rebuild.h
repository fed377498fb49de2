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
#include "core/model/storage_id.h"
#include "core/pickle/value.h"

/* Looks up the bytes of a storage. False if the file has none under this key; ret_storage->key is set by the caller. */
typedef bool (*ck_storage_find_fn)(void *ctx, const char *key, struct ck_storage *ret_storage);

/* One tensor node, before it has a name. */
struct ck_rebuilt {
    struct ck_view view; /* shape and stride are never NULL; dtype CK_DTYPE_END_ where it is not known */
    uint32_t storage;    /* index into storages, or CK_NO_INDEX */
    bool parameter;
    bool array; /* numpy's */
    bool conj, neg;
    const struct ck_quantizer *quantizer; /* in the model's arena, or NULL */
    int error;  /* as in struct ck_tensor */
    const char *error_message;
};

struct ck_rebuild;

/* Tells whether a persistent id is itself a tensor (torch 0.1's tar), and fills shape, strides, offset and place of it.
 * *ret_found false: it is none. Returns 0 or what ck_rebuild_tensor() may return. */
typedef int (*ck_tensor_find_fn)(void *ctx, struct ck_rebuild *rebuild, ck_ref id, struct ck_rebuilt *tensor,
                                 bool *ret_found, struct ck_error *err);

/* The storage in a torch stream of its own, inside a byte string (model/nested.h). */
struct ck_nested {
    struct ck_storage_id id; /* key and class_ are in the model's arena; the key is in by_key */
    const char *problem;     /* NULL, or why it cannot be read */
};

struct ck_rebuild {
    const struct ck_pickle *pickle; /* borrowed */
    const struct ck_limits *limits; /* borrowed */
    struct ck_arena *arena;         /* the model's: shapes, keys, messages */
    ck_storage_find_fn find;
    ck_tensor_find_fn find_tensor; /* NULL, as ck_rebuild_init() leaves it: persistent ids are storages */
    void *find_ctx;                /* of both */
    const char *place; /* what stands before a key in messages: "archive/data/" */
    uint32_t *memo;    /* for each value of the pickle: 0 not looked at, 1 no tensor, else 2 + index into tensors */
    struct ck_rebuilt *tensors;
    uint32_t n_tensors, tensors_capacity;
    struct ck_storage *storages;
    uint32_t n_storages, storages_capacity;
    struct ck_strmap by_key; /* key -> storage, or CK_NO_INDEX: no such record */
    struct ck_strmap dtypes; /* key -> dtype of the first id with it; see ck_rebuild_note_dtypes() */

    /* For arrays and nested streams. */
    struct ck_scratch *scratch;   /* borrowed, or NULL */
    struct ck_findings *findings; /* borrowed; set by ck_walk_run() */
    const char *entry;            /* borrowed: of the findings; set by ck_walk_run() */
    unsigned depth;               /* archives around this pickle */
    bool passing;                 /* the pickle's source will be gone when the model is read: bytes are copied */
    bool stream;                  /* the root maps the pickles of a stream; the first of them has no name */
    uint64_t copied;              /* bytes of the pickle that were copied or transcoded */
    struct ck_nested *nested;
    uint32_t n_nested, nested_capacity;
};

/* pickle, limits, arena and place are borrowed. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_rebuild_init(struct ck_rebuild *rebuild, const struct ck_pickle *pickle, const struct ck_limits *limits,
                    struct ck_arena *arena, ck_storage_find_fn find, void *find_ctx, const char *place,
                    struct ck_error *err);

/* For files that torch.load reads: it makes a storage of the first id with its key, in the order of the stream, and gives
 * it to every later id, dtype included. A tensor whose id names another dtype is from now on refused, since torch would
 * read it differently; torch.save never writes one. Returns 0; CK_E_TENSOR_LIMIT (model_memory); CK_E_OUT_OF_MEMORY. */
int ck_rebuild_note_dtypes(struct ck_rebuild *rebuild, struct ck_error *err);

/* If the value is a tensor, sets *ret_index to its place in rebuild->tensors, else to CK_NO_INDEX. The same value gives
 * the same index. A tensor that cannot be read is one with `error` set. Returns 0; CK_E_TENSOR_LIMIT (dims,
 * model_memory); CK_E_OUT_OF_MEMORY. */
int ck_rebuild_tensor(struct ck_rebuild *rebuild, ck_ref ref, uint32_t *ret_index, struct ck_error *err);

/* A tensor that lies in a storage as it is: what _rebuild_tensor_v2 and the like make, with no wrapper around it. Anything
 * else is a fault in the tensor. Returns what ck_rebuild_tensor() may return. */
int ck_rebuild_plain(struct ck_rebuild *rebuild, ck_ref ref, struct ck_rebuilt *ret_tensor, struct ck_error *err);

/* The last step of a tensor whose view is filled: finds its storage and checks that the view lies inside, and inside the
 * part of it that the id speaks of. A fault goes into the tensor. Returns 0; CK_E_TENSOR_LIMIT (model_memory);
 * CK_E_OUT_OF_MEMORY. */
int ck_rebuild_place(struct ck_rebuild *rebuild, const struct ck_storage_id *id, struct ck_rebuilt *tensor,
                     struct ck_error *err);

/* Appends a storage that no key names. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_rebuild_add_storage(struct ck_rebuild *rebuild, const struct ck_storage *storage, uint32_t *ret_index,
                           struct ck_error *err);

/* Accepts a zeroed struct. */
void ck_rebuild_release(struct ck_rebuild *rebuild);

#endif
