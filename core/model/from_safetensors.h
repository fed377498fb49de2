/* model/from_safetensors.h: a safetensors file as a model: each tensor is its own storage, names are taken as they are.
 */
#ifndef CK_MODEL_FROM_SAFETENSORS_H
#define CK_MODEL_FROM_SAFETENSORS_H

#include "core/model/model.h"

/* Fills the model. The option state_dict can only name the root. Errors: those of ck_safetensors_open();
 * CK_E_NO_TENSORS; CK_E_STATE_DICT_NOT_FOUND; CK_E_TENSOR_LIMIT (model_memory). */
int ck_safetensors_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                         const struct ck_model_options *options, struct ck_error *err);

#endif
