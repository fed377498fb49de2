/* model/model.h: one description for a model from any checkpoint. Nothing here holds a weight: tensors are views of storages, and a
 * storage is a range of the input file. Memory depends on the number of tensors, never on their size. */
#ifndef CK_MODEL_MODEL_H
#define CK_MODEL_MODEL_H

#include "core/base/arena.h"
#include "core/base/limits.h"
#include "core/base/scratch.h"
#include "core/base/source.h"
#include "core/pickle/finding.h"
#include "core/tensor/dequantize.h"

struct ck_storage {
    struct ck_source source;   /* its bytes; length is what the file really holds */
    const char      *key;      /* the archive's key ("0"), for messages */
    bool             swap;     /* big endian */
    bool             deflated; /* compressed in the archive, and there was no scratch file: its tensors are refused */
    const char      *unreadable; /* NULL, or why its bytes cannot be had: its tensors are refused */
};

#define CK_NO_INDEX UINT32_MAX

/* What torch keeps with a tensor that it quantized: number = (code - zero point) * scale. */
struct ck_quantizer {
    enum ck_qscheme scheme;
    double          scale;      /* per tensor */
    int32_t         zero_point; /* per tensor */
    uint32_t        axis;       /* per channel: the dimension that has a scale for each index */
    struct ck_view  scales, zero_points; /* per channel: one dense dimension as long as the axis; F64, F32, and I64 or I32 */
    uint32_t        scales_storage, zero_points_storage;
};

struct ck_tensor {
    const char    *path;     /* from the root of the file: "state_dict.conv1.weight" */
    const char    *name;     /* in the state dict: "conv1.weight" */
    struct ck_view view;     /* checked against its storage, unless error is set */
    uint32_t       storage;  /* index; CK_NO_INDEX when error is set and there is none */
    uint32_t       alias_of; /* index of the first tensor with the same storage and an equal view, or CK_NO_INDEX */
    const struct ck_quantizer *quantizer; /* NULL: not quantized by torch */
    bool           conj, neg; /* lazy bits: the elements are the conjugates, the negatives, of those in the file */
    uint32_t       module;   /* index of the module that holds it (whole-module pickles), or CK_NO_INDEX */
    bool           parameter; /* came as a Parameter, or from _parameters; false: buffer or not known */
    bool           persistent; /* false: in _non_persistent_buffers_set, not part of a state dict */
    int            error;    /* 0, or the code of what keeps this one tensor from being read: CK_E_UNSUPPORTED_TENSOR (sparse, nested,
                                meta ...), CK_E_TENSOR_OUT_OF_BOUNDS, CK_E_UNSUPPORTED_DTYPE */
    const char    *error_message; /* with the numbers; NULL when error is 0 */
};

/* The dtype of its numbers: the view's, or F32 if that is a code. */
static inline enum ck_dtype ck_tensor_dtype(const struct ck_tensor *tensor) {
    return tensor->quantizer ? CK_F32 : tensor->view.dtype;
}

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

/* A file in an archive of files. */
struct ck_member {
    const char *name;
    uint64_t    bytes; /* unpacked */
};

#define CK_MEMBERS_MAX 1000

struct ck_model {
    struct ck_arena     arena;
    const char         *form;       /* "torch-zip", "torch-legacy", "torchscript", "pickle", "npz", "safetensors" ... */
    const char         *member;     /* the file that was taken from an archive of files ("a.zip/b.pth" from one in another), or the shards
                                       ("model-*-of-00002.safetensors"); NULL if there is no choice: the upload is the checkpoint, or gzip
                                       around it */
    const char         *archive;    /* what the upload is, if it is no checkpoint itself: "zip", "tar", "gzip", "tar.gz"; or NULL */
    struct ck_member   *members;    /* what the option member could name, the first CK_MEMBERS_MAX */
    uint32_t            n_members;
    const char         *root_path;  /* where the state dict was found: "" for the root, "state_dict", "model.ema" ... */
    const char         *root_why;   /* one phrase: "the root maps names to tensors", "the key state_dict", "the option state_dict" */
    const char        **alternatives; /* other sets of weights in the file, as option state_dict takes them */
    uint32_t            n_alternatives;
    const char         *torch_hint; /* the releases of torch that write such archives: ">=2.1, <2.7"; NULL: not known */
    bool                marked_mlx; /* safetensors metadata says format = mlx */
    const char         *foreign;    /* the framework whose layouts the weights have ("Paddle"), NULL: torch's, as far as can be told */
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
    uint32_t            storages_capacity, tensors_capacity, outside_capacity; /* room in the arrays, where join.c made them; or 0 */
};

struct ck_model_options {
    const char        *state_dict; /* dotted path of the set of weights to take, or NULL: choose by the rules of model/choose.h */
    const char        *member;     /* the file to take from an archive of files, or NULL: choose */
    struct ck_scratch *scratch;    /* for what must be unpacked; NULL: nothing can be, and such parts are refused */
    unsigned           depth;      /* archives around this one; the caller's is 0 */
};

/* Reads the description of the model in source. On failure *ret_model is still set if reading got far enough to have findings
 * (the caller frees it in either case).
 * Errors: those of sniff, zip, pickle and safetensors; CK_E_NO_TENSORS; CK_E_AMBIGUOUS_STATE_DICT (candidates in message and details);
 * CK_E_STATE_DICT_NOT_FOUND; CK_E_TENSOR_LIMIT. A fault of a single tensor is in that tensor, not an error here. */
int ck_model_open(const struct ck_source *source, const struct ck_limits *limits, const struct ck_model_options *options,
                  struct ck_model **ret_model, struct ck_error *err);

/* An empty model, for the readers of this room. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_model_new(uint64_t input_bytes, const struct ck_limits *limits, struct ck_model **ret_model, struct ck_error *err);

/* The attribute of a module, or NULL. */
const struct ck_attribute *ck_module_attribute(const struct ck_module *module, const char *name);

void ck_model_free(struct ck_model *model);
static inline void ck_model_freep(struct ck_model **model) {
    ck_model_free(*model);
    *model = NULL;
}

#endif
