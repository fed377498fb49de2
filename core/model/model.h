/* model/model.h: one description for a model from any checkpoint. Nothing here holds a weight: tensors are views of storages, and a
 * storage is a range of the input file. Memory depends on the number of tensors, never on their size. */
#ifndef CK_MODEL_MODEL_H
#define CK_MODEL_MODEL_H

#include "core/base/arena.h"
#include "core/base/limits.h"
#include "core/base/source.h"
#include "core/pickle/finding.h"
#include "core/tensor/view.h"

struct ck_storage {
    struct ck_source source;   /* its bytes; length is what the file really holds */
    const char      *key;      /* the archive's key ("0"), for messages */
    bool             swap;     /* big endian */
    bool             deflated; /* compressed in the archive: its tensors are refused until they can be inflated */
};

#define CK_NO_INDEX UINT32_MAX

struct ck_tensor {
    const char    *path;     /* from the root of the file: "state_dict.conv1.weight" */
    const char    *name;     /* in the state dict: "conv1.weight" */
    struct ck_view view;     /* checked against its storage, unless error is set */
    uint32_t       storage;  /* index; CK_NO_INDEX when error is set and there is none */
    uint32_t       alias_of; /* index of the first tensor with the same storage and an equal view, or CK_NO_INDEX */
    uint32_t       module;   /* index of the module that holds it (whole-module pickles), or CK_NO_INDEX */
    bool           parameter; /* came as a Parameter, or from _parameters; false: buffer or not known */
    bool           persistent; /* false: in _non_persistent_buffers_set, not part of a state dict */
    int            error;    /* 0, or the code of what keeps this one tensor from being read: CK_E_UNSUPPORTED_TENSOR (sparse, nested,
                                meta, conj bit ...), CK_E_TENSOR_OUT_OF_BOUNDS, CK_E_UNSUPPORTED_DTYPE */
    const char    *error_message; /* with the numbers; NULL when error is 0 */
};

/* A plain attribute of a module: what the layers' tables ask for. */
struct ck_attribute {
    const char *name; /* "kernel_size" */
    enum { CK_ATTRIBUTE_NONE, CK_ATTRIBUTE_BOOL, CK_ATTRIBUTE_INT, CK_ATTRIBUTE_FLOAT, CK_ATTRIBUTE_TEXT, CK_ATTRIBUTE_INTS } kind;
    union {
        bool        boolean;
        int64_t     integer;
        double      real;
        const char *text;
        struct {
            const int64_t *items;
            uint32_t       count;
        } ints; /* a tuple or list of integers */
    };
};

struct ck_module {
    const char          *path;   /* "layer1.0.conv1"; "" for the root module */
    const char          *class_; /* qualified: "torch.nn.modules.conv.Conv2d" */
    uint32_t             parent; /* index, or CK_NO_INDEX for the root */
    struct ck_attribute *attributes;
    uint32_t             n_attributes;
};

struct ck_model {
    struct ck_arena     arena;
    const char         *form;       /* "torch-zip", "safetensors" */
    const char         *root_path;  /* where the state dict was found: "" for the root, "state_dict", "model.ema" ... */
    const char         *root_why;   /* one phrase: "the root maps names to tensors", "the key state_dict", "the option state_dict" */
    bool                marked_mlx; /* safetensors metadata says format = mlx */
    struct ck_storage  *storages;
    uint32_t            n_storages;
    struct ck_tensor   *tensors; /* those of the chosen state dict, in its order */
    uint32_t            n_tensors;
    struct ck_tensor   *outside; /* tensors elsewhere in the file (optimizer state ...): path is set, name is NULL */
    uint32_t            n_outside;
    struct ck_module   *modules; /* empty for a plain state dict; parents before children */
    uint32_t            n_modules;
    const char        **metadata; /* safetensors' __metadata__: key, value, key, value ... */
    uint32_t            n_metadata; /* pairs */
    struct ck_findings  findings;
    uint64_t            input_bytes; /* size of the file */
};

struct ck_model_options {
    const char *state_dict; /* dotted path of the set of weights to take, or NULL: choose by the rules of model/choose.h */
};

/* Reads the description of the model in source. On failure *ret_model is still set if reading got far enough to have findings
 * (the caller frees it in either case).
 * Errors: those of sniff, zip, pickle and safetensors; CK_E_NO_TENSORS; CK_E_AMBIGUOUS_STATE_DICT (candidates in message and details);
 * CK_E_STATE_DICT_NOT_FOUND; CK_E_TENSOR_LIMIT. A fault of a single tensor is in that tensor, not an error here. */
int ck_model_open(const struct ck_source *source, const struct ck_limits *limits, const struct ck_model_options *options,
                  struct ck_model **ret_model, struct ck_error *err);

/* The attribute of a module, or NULL. */
const struct ck_attribute *ck_module_attribute(const struct ck_module *module, const char *name);

void ck_model_free(struct ck_model *model);
static inline void ck_model_freep(struct ck_model **model) {
    ck_model_free(*model);
    *model = NULL;
}

#endif
