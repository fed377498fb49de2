/* model/assemble.h: from the tree of a walk and the chosen node to the arrays of struct ck_model. */
#ifndef CK_MODEL_ASSEMBLE_H
#define CK_MODEL_ASSEMBLE_H

#include "core/model/choose.h"

/* Fills storages, tensors, outside, modules, root_path and root_why. paths: ck_node_paths(). A tensor outside that is
 * the same value as one inside (the parameters in an optimizer, an LSTM's _flat_weights) is not listed again. Returns
 * 0; CK_E_TENSOR_LIMIT (model_memory); CK_E_OUT_OF_MEMORY. */
int ck_assemble(const struct ck_walk *walk, const char *const *paths, const struct ck_choice *choice,
                struct ck_model *model, struct ck_error *err);

/* Sets alias_of of all tensors: n log n comparisons. Empty and unreadable tensors are nobody's alias. Returns 0 or
 * CK_E_OUT_OF_MEMORY. */
int ck_find_aliases(struct ck_model *model, struct ck_error *err);

#endif
