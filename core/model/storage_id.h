/* model/storage_id.h: how a pickle of torch names the storage of a tensor.
 *
 *   ('storage', class, key, location, numel)          zip
 *   ('storage', class, key, location, numel, view)    legacy stream; view: None or (view_key, offset, size), in elements
 *   the first of these as a plain tuple               the tars that burn's tests hold
 *   "('storage', <class 'torch.FloatStorage'>, ..)"   protocol 0, which has no tuples in persistent ids: their repr()
 *
 * Source: persistent_id() and persistent_load() in torch/serialization.py. Only torch's own releases up to 0.4 wrote
 * views. The key may be an int; what follows the members above is ignored. */
#ifndef CK_MODEL_STORAGE_ID_H
#define CK_MODEL_STORAGE_ID_H

#include "core/pickle/value.h"
#include "core/tensor/dtype.h"

#define CK_STORAGE_ID_TEXT 96u

struct ck_storage_id {
    const char   *key;    /* in the pickle's arena, or in text: do not copy the struct */
    const char   *class_; /* "FloatStorage"; the same */
    enum ck_dtype dtype;  /* CK_DTYPE_END_: a class that is not known */
    bool          untyped; /* an UntypedStorage: dtype is CK_U8, and the tensor's comes from elsewhere */
    int64_t       numel;  /* as told; -1: not told */
    bool          view;   /* the tensor's storage is a part of this one */
    int64_t       view_offset, view_size; /* in elements of dtype; not checked */
    char          text[CK_STORAGE_ID_TEXT];
};

/* True for a persistent id that begins with 'storage', in any of the forms but the plain tuple, well formed or not. */
bool ck_storage_id_is(const struct ck_pickle *pickle, ck_ref ref);

/* Takes an id apart. Returns NULL, or what is wrong with it: completes "its description is malformed: ". Static text. */
const char *ck_storage_id_parse(const struct ck_pickle *pickle, ck_ref ref, struct ck_storage_id *ret_id);

/* The dtype of a storage class by its names ("torch.cuda", "FloatStorage"); CK_DTYPE_END_ if there is none. */
enum ck_dtype ck_storage_class_dtype(const char *module, const char *name, bool *ret_untyped);

#endif
