/* model/nested.h: torch.storage._load_from_bytes(b"..."): a whole torch.save stream for one storage, inside a byte
 * string. That is what pickle.dump makes of a tensor without torch.save.
 *
 * Source: torch/storage.py (TypedStorage.__reduce__: always the legacy stream, whose root is the storage). */
#ifndef CK_MODEL_NESTED_H
#define CK_MODEL_NESTED_H

#include "core/model/rebuild.h"

/* True for a CALL of torch.storage._load_from_bytes. */
bool ck_nested_is(const struct ck_pickle *pickle, ck_ref ref);

/* Opens the stream, once for each byte string, and adds its storage to the rebuild's under a key of its own, which
 * *ret_id names. *ret_problem: NULL, or why it cannot be read: a phrase, static or in the arena. limits.nesting
 * bounds it together with the archives around it. Returns 0; the errors of ck_pickled_bytes(); CK_E_OUT_OF_MEMORY. */
int ck_nested_open(struct ck_rebuild *rebuild, ck_ref ref, struct ck_storage_id *ret_id, const char **ret_problem,
                   struct ck_error *err);

#endif
