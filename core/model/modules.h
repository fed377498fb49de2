/* model/modules.h: objects of torch.nn.Module in a pickle, told by what they hold and not by their class: a class may
 * be the user's own, or be built inside the stream (dill).
 *
 * Source: torch/nn/modules/module.py: _parameters, _buffers, _modules and _non_persistent_buffers_set in the instance's
 * __dict__; _save_to_state_dict() and state_dict() for the order. A torch.fx GraphModule has its __dict__ as the first
 * argument of its reduce function (torch/fx/graph_module.py). */
#ifndef CK_MODEL_MODULES_H
#define CK_MODEL_MODULES_H

#include "core/model/model.h"
#include "core/pickle/value.h"

/* The places in a module's __dict__ that a state dict is made of; CK_REF_NONE where there is none. */
struct ck_module_state {
    ck_ref attributes; /* the __dict__ itself: a mapping */
    ck_ref parameters, buffers, modules, non_persistent;
};

/* False if the value is no module. */
bool ck_module_recognise(const struct ck_pickle *pickle, ck_ref ref, struct ck_module_state *ret_state);

/* True for the keys of a module's __dict__ that hold its tensors and submodules. */
bool ck_module_is_structural(const struct ck_pickle *pickle, ck_ref key);

/* The mapping of an object's attributes: its state, or the second half of (None, slots). False if it has none. */
bool ck_object_attributes(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_attributes);

/* The qualified name of the class of a CALL: "torch.nn.modules.conv.Conv2d"; "unknown" if the class is computed. In the
 * arena; NULL if that is full. */
const char *ck_object_class(const struct ck_pickle *pickle, ck_ref ref, struct ck_arena *arena);

/* Fills attributes with the plain entries of the module's __dict__. Returns 0, or CK_E_TENSOR_LIMIT (model_memory). */
int ck_module_read_attributes(const struct ck_pickle *pickle, ck_ref ref, const struct ck_limits *limits,
                              struct ck_arena *arena, struct ck_module *module, struct ck_error *err);

#endif
