/* model/shards.h: one model whose tensors were saved in several files: model-00001-of-00003.safetensors ... and, beside them,
 * model.safetensors.index.json with {"weight_map": {TENSOR: FILE}}.
 *
 * Source: huggingface_hub's save_torch_state_dict and transformers' modeling_utils (SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_INDEX_NAME). */
#ifndef CK_MODEL_SHARDS_H
#define CK_MODEL_SHARDS_H

#include "core/model/model.h"

/* The parts of STEM-NUMBER-of-COUNT.SUFFIX. */
struct ck_shard_name {
    size_t      stem;   /* bytes of the name up to the dash before the number; folders included */
    uint32_t    number; /* from 1 */
    uint32_t    count;
    const char *of;     /* "-of-00003.safetensors": in the name */
    const char *suffix; /* ".safetensors": in the name */
};

/* False if the name is not of that form (at most 9 digits each). */
bool ck_shard_parse(const char *name, struct ck_shard_name *ret_parts);

struct ck_shard {
    const char      *name; /* borrowed; what follows the last slash is what the index calls it */
    struct ck_source source;
};

/* Fills the model from all shards, in the order of their numbers; sorts `shards`. index: its name and its text, or NULL if there is none.
 * Every number from 1 to the count must be there once; every tensor must lie in the shard that the index says, no
 * tensor in two, and none may be missing on either side: else CK_E_SHARDS_MISMATCH naming shard and tensor. Other errors: those of
 * ck_model_open() for a shard; CK_E_HEADER_CORRUPT (the index is no such JSON); CK_E_TENSOR_LIMIT; CK_E_OUT_OF_MEMORY. */
int ck_shards_index(struct ck_model *model, struct ck_shard *shards, uint32_t n, const struct ck_shard *index,
                    const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err);

#endif
