/* model/torchscript.h: what torch.jit.save writes (and _save_for_lite_interpreter, libtorch's torch::save): data.pkl, the
 * module as an object tree; constants.pkl, a tuple of the code's constants; code/, the generated source. Versions 1 to
 * 10 of the archive (torch 1.3 to today) differ in nothing that matters here.
 *
 * Names: attributes of the objects, joined by dots, which is what state_dict() gives. Which tensor is a parameter, a
 * buffer or neither, and the hyperparameters of a module, stand in the source only (torchscript_code.h). A tensor that
 * is neither is listed with persistent = false; lists and dicts of tensors lie outside the state dict. Class names lose
 * their "__torch__." and "___torch_mangle_N".
 *
 * A frozen or mobile-optimised module (its root has no `training`) has weights in constants.pkl: they are named
 * constants.N (constants.N.M in a prepacked tuple). Beside the parameters of any other module the same are mere
 * constants: persistent = false. */
#ifndef CK_MODEL_TORCHSCRIPT_H
#define CK_MODEL_TORCHSCRIPT_H

#include "core/container/zip.h"
#include "core/model/model.h"

/* Where the parts of one module lie in a zip. */
struct ck_script_parts {
    const struct ck_zip_entry *data, *constants; /* the pickles; constants may be NULL */
    const char *data_place, *constants_place;    /* what stands before the keys of storages; in the model's arena */
    const char *code_place;                      /* what stands before "__torch__.py" */
    bool swap;                                   /* big endian */
};

/* Fills the model from an open zip. Errors: those of ck_torch_zip_index(); CK_E_ARCHIVE_CORRUPT without a data.pkl. A
 * source file that cannot be read is a finding. */
int ck_torchscript_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_limits *limits,
                         const struct ck_model_options *options, struct ck_error *err);

/* The same of parts that lie elsewhere. */
int ck_torchscript_read(struct ck_model *model, const struct ck_zip *zip, const struct ck_script_parts *parts,
                        const struct ck_limits *limits, const struct ck_model_options *options,
                        struct ck_error *err);

#endif
