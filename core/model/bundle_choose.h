/* model/bundle_choose.h: what lies in an archive of files, and which of it is the model. The rules are in bundle.h. */
#ifndef CK_MODEL_BUNDLE_CHOOSE_H
#define CK_MODEL_BUNDLE_CHOOSE_H

#include "core/base/strmap.h"
#include "core/container/tar.h"
#include "core/container/zip.h"
#include "core/model/model.h"

struct ck_bundle_file {
    const char *name; /* in the archive's arena */
    uint64_t size;
    const struct ck_zip_entry *zip; /* or */
    const struct ck_tar_entry *tar;
};

/* What can be chosen: a file, or a set of shards. */
struct ck_bundle_unit {
    const char *name; /* of the file, or of the set: "model-*-of-00003.bin" */
    uint32_t file;    /* the first */
    uint32_t shards;  /* files in the set; 0 for a file alone */
    uint64_t bytes;
    bool aside;       /* not to be chosen, but by the option */
};

struct ck_bundle {
    const struct ck_zip *zip; /* or */
    const struct ck_tar *tar;
    struct ck_model *model;
    const struct ck_limits *limits;
    const struct ck_model_options *options;
    struct ck_error *err;
    struct ck_bundle_file *files; /* no folders, links, litter */
    uint32_t n_files;
    struct ck_strmap by_name;     /* of files */
    struct ck_bundle_unit *units;
    uint32_t n_units, units_capacity;
    struct ck_strmap sets;        /* name of a set to its unit */
    struct ck_arena names;        /* of sets: the model's own arena goes when a member takes its place */
    struct ck_bundle_unit asked;  /* the file that the option names */
};

/* Lists files and units and chooses one. The caller has set zip or tar, model, limits, options and err, and zeroed the rest. *ret_rest: what the
 * option member says about the inside of the file, or NULL. Errors as in bundle.h. */
int ck_bundle_choose(struct ck_bundle *b, const struct ck_bundle_unit **ret_unit, const char **ret_rest);

/* The file of exactly this name, or NULL. */
const struct ck_bundle_file *ck_bundle_find(const struct ck_bundle *b, const char *name);

/* The name of the set that this is a shard of; "" for no shard. In the arena `names`; NULL if that is spent. */
const char *ck_bundle_set(struct ck_bundle *b, const char *name);

/* True for the weights in a zip of Stable Baselines 2: an npz without an ending, beside the names of its arrays. */
bool ck_bundle_is_parameters(const struct ck_bundle *b, const char *name);

/* "zip" or "tar". Static storage. */
static inline const char *ck_bundle_kind(const struct ck_bundle *b) {
    return b->zip ? "zip" : "tar";
}

/* Frees all but what was borrowed. */
void ck_bundle_release(struct ck_bundle *b);

#endif
