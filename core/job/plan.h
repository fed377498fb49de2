/* job/plan.h: what will be written, tensor by tensor, before anything is. A target (mlx/plan.h ...) fills it; the
 * executor, the writer, the report and a dry run read it. */
#ifndef CK_JOB_PLAN_H
#define CK_JOB_PLAN_H

#include "core/base/arena.h"
#include "core/model/model.h"
#include "core/tensor/affine.h"

/* The closed table of steps: name, and the step that undoes it (NULL: lossy). */
#define CK_STEPS(X)                                                                                                    \
    X(PERMUTE, "permute", "permute")      /* axes: output axis i is input axis axes[i] */                              \
    X(SPLIT, "split", "concat")           /* part `index` of `of` equal parts along axis 0 */                          \
    X(REGROUP, "regroup", "ungroup")      /* grouped transposed convolution: [g*i, o, k...] -> [g*o, k..., i] */       \
    X(DEQUANTIZE, "dequantize_affine", NULL) /* the quantizer of torch: see tensor/dequantize.h */                     \
    X(CONJUGATE, "conjugate", "conjugate")   /* torch's conj bit */                                                    \
    X(NEGATE, "negate", "negate")            /* torch's neg bit */                                                     \
    X(CAST, "cast", NULL)                 /* dtype */                                                                  \
    X(QUANTIZE, "quantize", "dequantize") /* affine */

enum ck_step_op {
#define X(name, text, inverse) CK_STEP_##name,
    CK_STEPS(X) CK_STEP_END_
#undef X
};

struct ck_step {
    enum ck_step_op op;
    union {
        struct {
            uint32_t rank;
            uint8_t axes[8];
        } permute;
        struct {
            uint32_t index, of;
        } split;
        struct {
            uint32_t groups;
        } regroup;
        enum ck_dtype cast;
        struct ck_affine quantize;
    };
};

#define CK_ITEM_STEPS_MAX 4

enum ck_evidence_kind { CK_EVIDENCE_KNOWN, CK_EVIDENCE_DERIVED, CK_EVIDENCE_ASSUMED };

/* "known", "derived", "assumed". */
const char *ck_evidence_kind_name(enum ck_evidence_kind kind);

struct ck_evidence {
    enum ck_evidence_kind kind;
    const char *why; /* one word for programs: "class", "option_layers", "bias_length", "norm_behind", "family" ... */
    const char *detail; /* for people, with the neighbour's name and numbers; may be NULL */
};

/* One tensor of an output file. */
struct ck_out_tensor {
    const char *name;
    const char *dtype; /* safetensors' word */
    uint32_t rank;
    const int64_t *shape;
    uint32_t file;   /* index into files */
    uint64_t offset; /* of its first byte in the file */
    uint64_t bytes;
};

/* One source tensor, or one part of it, on its way: source -> steps -> one tensor (or codes, scales and biases). */
struct ck_plan_item {
    uint32_t source;   /* index into model->tensors */
    const char *layer; /* "Conv2d", "Linear", "parameter", "buffer": what it was taken for */
    const char *rule;  /* the matrix's word: "conv2d", "identity", ... */
    struct ck_evidence evidence;
    struct ck_step steps[CK_ITEM_STEPS_MAX];
    uint32_t n_steps;
    struct ck_view view;     /* of the source's storage, in output order: what the steps before cast come to */
    const struct ck_quantizer *quantizer; /* set: the codes are dequantized before the cast; NULL: the view is taken as it is */
    struct ck_view channel; /* with a quantizer per channel: as in struct ck_dequantize */
    bool conj, neg;         /* lazy bits of the source, to be resolved */
    const struct ck_storage *storage; /* where the view lies, if not in the storage of the source; NULL: there */
    enum ck_dtype dtype;     /* after the cast */
    struct ck_affine affine; /* bits 0: not quantized */
    const char
        *left_alone; /* with a quantization: why this one keeps its floats; NULL if it is quantized or none was asked */
    struct ck_out_tensor out[3]; /* the tensor; or codes, scales, biases */
    uint32_t n_out;
    uint64_t overflowed, non_finite_groups; /* outcome */
};

/* A source tensor that is not written, and why. */
struct ck_plan_note {
    uint32_t source;
    int code;                      /* refused: CK_E_*; dropped: 0 */
    const char *why;               /* dropped: one word ("counter", "non_persistent", "option_rules", "outside" ...) */
    const char *message;           /* one sentence */
    const char *const *candidates; /* refused for ambiguity: the layer classes it may be, NULL-terminated; else NULL */
};

struct ck_plan_alias {
    uint32_t source, of;        /* indices into model->tensors */
    const char *name, *of_name; /* output names */
};

struct ck_plan_rename {
    const char *from, *to,
        *why; /* state-dict name to output name; why: "prefix_module", "prefix_orig_mod", "mlx_name", "attention" */
};

struct ck_plan_file {
    const char *name;
    uint64_t bytes;     /* whole file */
    const char *header; /* what comes before the tensors (safetensors: length and JSON) or the whole text; borrowed from
                           the arena */
    uint64_t header_bytes;
};

struct ck_plan {
    struct ck_arena arena;
    const struct ck_model *model; /* borrowed */
    const char *const *names;     /* by source tensor: what options and answers call it; NULL: as in the state dict */
    struct ck_plan_item *items;
    uint32_t n_items;
    struct ck_plan_note *dropped, *refused;
    uint32_t n_dropped, n_refused;
    struct ck_plan_alias *aliases;
    uint32_t n_aliases;
    struct ck_plan_rename *renames;
    uint32_t n_renames;
    struct ck_plan_file *files;
    uint32_t n_files;
    uint32_t assumed; /* items whose evidence is assumed */
    const char **warnings;
    uint32_t n_warnings;
    const char **metadata; /* strings for the output file's header: key, value ... */
    uint32_t n_metadata;
};

/* A zeroed plan with its arena; release accepts it at any stage. */
void ck_plan_init(struct ck_plan *plan, const struct ck_model *model, const struct ck_limits *limits);
void ck_plan_release(struct ck_plan *plan);

/* What options and answers call a source tensor. */
const char *ck_plan_name(const struct ck_plan *plan, uint32_t tensor);

/* Appends a zeroed element to one of the plan's arrays (growing by doubling in the arena); NULL when out of memory. The
 * pointer is valid until the next append to the same array. */
struct ck_plan_item *ck_plan_add_item(struct ck_plan *plan);
struct ck_plan_note *ck_plan_add_dropped(struct ck_plan *plan);
struct ck_plan_note *ck_plan_add_refused(struct ck_plan *plan);
struct ck_plan_alias *ck_plan_add_alias(struct ck_plan *plan);
struct ck_plan_rename *ck_plan_add_rename(struct ck_plan *plan);
struct ck_plan_file *ck_plan_add_file(struct ck_plan *plan);
bool ck_plan_add_warning(struct ck_plan *plan, const char *format, ...) _printf_(2, 3);
bool ck_plan_add_metadata(struct ck_plan *plan, const char *key, const char *value);

/* Splitting, quantizing and kept codes make names of their own, which the file may have already. Returns 0; CK_E_NAME_CLASH;
 * CK_E_OUT_OF_MEMORY. */
int ck_plan_check_names(const struct ck_plan *plan, struct ck_error *err);

/* Notes a source tensor that is left out, or one that cannot be written: members as in struct ck_plan_note, whose texts
 * are borrowed. A NULL message of a refusal is "out of memory", so that a failed printf needs no check of its own.
 * Return 0 or CK_E_OUT_OF_MEMORY. */
int ck_plan_drop(struct ck_plan *plan, uint32_t tensor, const char *why, const char *message, struct ck_error *err);
int ck_plan_refuse(struct ck_plan *plan, uint32_t tensor, int code, const char *const *candidates, const char *message,
                   struct ck_error *err);

#endif
