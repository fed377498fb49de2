/* model/torchscript_code.h: what the generated source in a TorchScript archive says about its classes, by lines. Nothing
 * is executed, and no expression is understood: only the head of each class counts,
 *
 *   class Conv2d(Module):
 *     __parameters__ = ["weight", "bias", ]
 *     __buffers__ = []                                 absent before torch 1.6
 *     bias : Optional[Tensor]
 *     stride : Final[Tuple[int, int]] = (2, 2)         a hyperparameter: it is nowhere else in the file
 *
 * up to its first method. Traced modules have no Final; there, the literals of torch._convolution(x, weight, ..) in the
 * methods stand for it. Source: torch/csrc/jit/serialization/python_print.cpp (printModuleMetadata, printNamedType). */
#ifndef CK_MODEL_TORCHSCRIPT_CODE_H
#define CK_MODEL_TORCHSCRIPT_CODE_H

#include "core/base/strmap.h"
#include "core/model/model.h"

enum ck_script_role { CK_SCRIPT_PLAIN, CK_SCRIPT_PARAMETER, CK_SCRIPT_BUFFER };

struct ck_script_class {
    const char *name; /* as in the pickle: "__torch__.torch.nn.modules.conv.___torch_mangle_0.Conv2d" */
    bool is_module;   /* other classes have no part in a state dict */
    bool has_buffers; /* the class says which of its tensors are buffers; else all that are no parameters are */
    struct ck_strmap roles; /* name of an attribute to its enum ck_script_role */
    struct ck_attribute *finals; /* owned; texts and integers in the arena or static */
    uint32_t n_finals, finals_capacity;
};

struct ck_script_code {
    struct ck_arena *arena; /* borrowed */
    struct ck_script_class *classes; /* owned */
    uint32_t n_classes, classes_capacity;
    struct ck_strmap by_name;
};

/* Names, texts and integers are put into the arena, which must outlive the code. */
void ck_script_code_init(struct ck_script_code *code, struct ck_arena *arena);

/* Adds the classes of one source file. qualifier: "__torch__.torch.nn.modules.conv". Lines that are of no known form
 * are passed over. Returns 0 or CK_E_OUT_OF_MEMORY (also of the arena). */
int ck_script_code_add(struct ck_script_code *code, const char *qualifier, const char *text, size_t n,
                       struct ck_error *err);

/* The class of this name, or NULL. */
const struct ck_script_class *ck_script_code_find(const struct ck_script_code *code, const char *name);

/* What a tensor that is an attribute of this class is. */
enum ck_script_role ck_script_role(const struct ck_script_class *class_, const char *attribute);

/* Accepts a zeroed struct. */
void ck_script_code_release(struct ck_script_code *code);

#endif
