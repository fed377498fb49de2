/* model/modules.h: objects of torch.nn.Module in a pickle, told by what they hold and not by their class: a class may
 * be the user's own, or be built inside the stream (dill).
 *
 * Source: torch/nn/modules/module.py: _parameters, _buffers, _modules and _non_persistent_buffers_set in the instance's
 * __dict__; _save_to_state_dict() and state_dict() for the order. A torch.fx GraphModule has its __dict__ as the first
 * argument of its reduce function (torch/fx/graph_module.py).
 *
 * A TorchScript module has neither: its tensors and submodules are plain attributes of its state, and it is told by its
 * class, which torch.jit.save puts below __torch__ (torch/csrc/jit/serialization/pickler.cpp). The state of a quantized
 * one is a tuple. Typed lists come wrapped in calls of torch.jit._pickle. */
#ifndef CK_MODEL_MODULES_H
#define CK_MODEL_MODULES_H

#include "core/model/model.h"
#include "core/pickle/value.h"

/* The places in a module's __dict__ that a state dict is made of; CK_REF_NONE where there is none. */
struct ck_module_state {
    ck_ref attributes; /* the __dict__ itself: a mapping */
    ck_ref parameters, buffers, modules, non_persistent;
    bool script; /* of TorchScript: attributes holds all there is, and may be a tuple */
};

/* False if the value is no module. */
bool ck_module_recognise(const struct ck_pickle *pickle, ck_ref ref, struct ck_module_state *ret_state);

/* The value inside calls of torch.jit._pickle (build_intlist, build_tensorlist, restore_type_tag ...); any other value is
 * returned as it is. */
ck_ref ck_script_value(const struct ck_pickle *pickle, ck_ref ref);

/* What a C++ object of TorchScript was made of, when Python's pickle holds it: torch.ScriptObject, whose state is (that,
 * the name of the class). A quantized layer has its weights in one, and its state dict names them after the attribute
 * that holds it: the attribute `_packed_params` of a module is part of that module's state dict. Source: THPScriptObject's
 * __getstate__ in torch/csrc/jit/python/script_init.cpp, LinearPackedParams in torch/ao/nn/quantized/modules/linear.py. */
bool ck_script_object(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_state);

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
