/* job/options.h: the kinds of jobs, the one table of job options, and the parsed form of a job's specification.
 *
 * Query parameters, CLI flags (`_` becomes `-`), the worker protocol, error messages and the README's table come from
 * CK_JOB_OPTIONS. */
#ifndef CK_JOB_OPTIONS_H
#define CK_JOB_OPTIONS_H

#include "core/base/error.h"
#include "core/tensor/affine.h"

/* convert writes a model for a target; analyze says what a file holds and what each target would make of it. */
#define CK_JOB_KINDS(X)                                                                                                \
    /* NAME     word */                                                                                                \
    X(CONVERT, "convert")                                                                                              \
    X(ANALYZE, "analyze")

enum ck_job_kind {
#define X(name, word) CK_JOB_##name,
    CK_JOB_KINDS(X) CK_JOB_KIND_END_
#undef X
};

/* "convert", "analyze". Static storage. */
const char *ck_job_kind_name(enum ck_job_kind kind);

/* The kind of a word; false if there is none. */
bool ck_job_kind_from_name(const char *name, enum ck_job_kind *ret_kind);

/* type: a word of the enum below; values: the closed list for CHOICE, else what the value looks like; target: the one
 * target that takes the option, "" for all, or "analyze" for jobs of that kind alone. An analysis plans every target, so it takes
 * every target's options and gives each target its own. */
#define CK_JOB_OPTIONS(X)                                                                                                                            \
    /* name           type    values                           default       target what */                                                         \
    X(layers,         PAIRS,  "PATTERN:CLASS,...",             "",           "mlx", "names the layer class of modules, by path, glob or class name: conv1:Conv2d,up.*:ConvTranspose2d (/4 behind it: 4 groups)") \
    X(rules,          PAIRS,  "PATTERN:RULE,...",              "",           "",    "forces the rule of single tensors, by name or glob: *.scale:identity; drop leaves a tensor out") \
    X(assume,         CHOICE, "convention,never",              "convention", "mlx", "never: refuse where a layer could only be assumed")                  \
    X(dtype,          CHOICE, "keep,float32,float16,bfloat16", "keep",       "mlx", "type of floating-point tensors; keep: as they are, float64 becomes float32") \
    X(input_layout,   CHOICE, "auto,torch,mlx",                "auto",       "mlx", "auto refuses a file that is marked as MLX already, or is another framework's; mlx keeps its layout, torch converts it all the same") \
    X(state_dict,     TEXT,   "PATH",                          "",           "",    "dotted path of the set of weights to take, when the file holds several")     \
    X(member,         TEXT,   "PATH",                          "",           "",    "the file to take, when the upload is an archive (zip, tar) that holds several")          \
    X(quantized,      CHOICE, "dequantize,keep",               "dequantize", "",   "tensors that torch quantized: dequantize writes the floats they stand for; keep writes their integers, with NAME.scale and NAME.zero_point") \
    X(skip_bad,       CHOICE, "true,false",                    "false",      "",   "true leaves out tensors that cannot be read or that the target cannot hold, and lists them as dropped; false refuses the file") \
    X(untie,          CHOICE, "true,false",                    "false",      "safetensors", "true writes tied tensors under each of their names; false writes them once, and the metadata has the other names") \
    X(on_findings,    CHOICE, "report,dangerous,any",          "report",     "",   "refuses a file whose pickle names what runs code (dangerous), or anything else than tensors and containers (any)") \
    X(max_shard_size, BYTES,  "1024..5368709120",              "5368709120", "",    "largest size of one weights file, in bytes")                                 \
    X(tensors,        CHOICE, "true,false",                    "true",       "analyze", "false leaves the list of tensors out of the analysis")

enum ck_option_type { CK_OPTION_PAIRS, CK_OPTION_CHOICE, CK_OPTION_TEXT, CK_OPTION_BYTES };

struct ck_option_row {
    const char *name;
    enum ck_option_type type;
    const char *values, *value_default, *target, *what;
};

/* The rows, ending with a NULL name. */
extern const struct ck_option_row ck_job_options[];

/* True if a job of this kind takes the option; target counts for CK_JOB_CONVERT alone, "" there means some target. */
bool ck_option_fits(const struct ck_option_row *row, enum ck_job_kind kind, const char *target);

/* The targets and, per target, the quantization names, each list ending with NULL. NULL for an unknown target. */
extern const char *const ck_targets[];
const char *const *ck_target_quants(const char *target);

/* The word of a list (ending with NULL) that is nearest to `word` by edit distance, or NULL if none is near. For "did
 * you mean". */
const char *ck_nearest(const char *word, const char *const *list);

/* One `PATTERN:WORD` of layers= or rules=. */
struct ck_pair {
    const char *pattern, *word;
};

struct ck_pairs {
    struct ck_pair *items;
    size_t count;
};

#define CK_PAIRS_MAX       1000  /* pairs in one option */
#define CK_OPTION_TEXT_MAX 65536 /* bytes of one option's value */

/* A job's specification, parsed and checked. */
struct ck_spec {
    enum ck_job_kind kind;
    bool dry_run;                  /* convert only, set by the caller after ck_spec_init(): plan, and write plan.json alone */
    char *target;                  /* one of ck_targets, "" for an analysis; owned */
    char *quant;                   /* normalised name ("q4", "q4-g32"), "" for none; owned */
    struct ck_affine affine;       /* of quant; bits 0 for none */
    char *values[16];              /* by row of ck_job_options: the text given, or NULL; owned */
    struct ck_pairs layers, rules; /* parsed; point into `pairs_memory` */
    char *pairs_memory[2];
    uint64_t max_shard_bytes;
};

/* A conversion: target and quantization by name ("" or NULL quant: none). Returns 0; CK_E_UNSUPPORTED_TARGET,
 * CK_E_UNSUPPORTED_QUANT, with the nearest name; CK_E_OUT_OF_MEMORY. On failure the spec is zeroed. */
int ck_spec_init(struct ck_spec *spec, const char *target, const char *quant, struct ck_error *err);

/* An analysis. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_spec_init_analyze(struct ck_spec *spec, struct ck_error *err);

/* Sets one option from its text. Returns 0 or CK_E_BAD_OPTION (unknown name with the nearest one, bad value with those
 * allowed, given twice, not for this kind of job or this target). */
int ck_spec_set(struct ck_spec *spec, const char *name, const char *value, struct ck_error *err);

/* The value of an option by name: what was given, or the default. Never NULL for a row's name. */
const char *ck_spec_get(const struct ck_spec *spec, const char *name);

/* The first pair whose pattern fits the name, or NULL. used: one flag for each pair, set for the one that is returned. */
const struct ck_pair *ck_pairs_find(const struct ck_pairs *pairs, const char *name, bool *used);

/* CK_E_BAD_RULE for a pair whose flag is not set: a pattern that fits nothing is a typing error. */
int ck_pairs_check_used(const struct ck_pairs *pairs, const bool *used, const char *option, struct ck_error *err);

/* The specification as one line of JSON with sorted members and without defaults: the part of the cache key that is not
 * the input: {"dry_run":true,"kind":"convert","options":{..},"quant":"q4","to":"mlx"}, dry_run only if it is set.
 * Owned by the caller; NULL when out of memory. */
char *ck_spec_normalised(const struct ck_spec *spec);

void ck_spec_release(struct ck_spec *spec);

#endif
