/* model/join.h: one model out of several: the constants beside a state dict, a checkpoint inside an archive. */
#ifndef CK_MODEL_JOIN_H
#define CK_MODEL_JOIN_H

#include "core/model/model.h"

enum ck_join {
    CK_JOIN_WEIGHTS,   /* they are part of the state dict */
    CK_JOIN_CONSTANTS, /* they have names in it, but persistent is false */
    CK_JOIN_OUTSIDE,   /* they are listed outside of it */
};

/* Appends storages, tensors and findings of part to model, with `prefix` in front of names and paths. Everything is
 * copied, so part may be freed; its modules are not taken. Tensors outside part's own state dict stay outside, with
 * `prefix`, too. Aliases are found anew. Returns 0; CK_E_TENSOR_LIMIT (tensors, model_memory); CK_E_OUT_OF_MEMORY. */
int ck_model_join(struct ck_model *model, const struct ck_model *part, const char *prefix, enum ck_join how,
                  const struct ck_limits *limits, struct ck_error *err);

/* The same without the search for aliases, for many parts: ck_find_aliases() (assemble.h) is due at the end. */
int ck_model_append(struct ck_model *model, const struct ck_model *part, const char *prefix, enum ck_join how,
                    const struct ck_limits *limits, struct ck_error *err);

#endif
