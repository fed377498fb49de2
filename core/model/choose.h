/* model/choose.h: which part of a checkpoint is the set of weights.
 *
 * The rules, in order (the conventions of Lightning, timm, fairseq, Whisper, MMCV, YOLO, the ESRGAN family, DeepSpeed
 * ...):
 *   1. the option state_dict=PATH, a dotted path; "" or "." is the root
 *   2. a module object, or a mapping (or list) of which at least half of the entries are tensors
 *      (or the tuples of torch's quantized layers)
 *   3. a usual key, in the order of the table in choose.c; keys without tensors below are passed over; of two modules
 * `model` and `ema`, the latter (ultralytics). Parts (generator, encoder, student ...) are no whole: beside another set
 * of weights they are asked about, unless one is the moving average of the other (G_ema beside G)
 *   4. otherwise the subtree with the most bytes, optimizer state, schedulers and the like left out
 *   5. two that are equally good (within a factor of ten) are asked about
 * Arrays of numpy do not count beside tensors, and those that are attributes of objects only with the option; inside
 * what was chosen the former are taken along, too.
 * Below a chosen key, mappings in mappings are taken as nested names ("encoder.layer_0.weight"); only an unmistakable
 * wrapper (state_dict, model_state_dict, model_state, or an only child) is entered. So are, at the root, mappings named
 * like layers. */
#ifndef CK_MODEL_CHOOSE_H
#define CK_MODEL_CHOOSE_H

#include "core/model/walk.h"

struct ck_choice {
    uint32_t node;   /* CK_NO_INDEX: the root is a tensor */
    const char *why; /* as root_why of struct ck_model; in the arena or static */
    bool everything; /* asked for by the option: optimizer state right below it is not left out */
};

/* paths: ck_node_paths(). The sizes in walk are counted again as the rules need them. Returns 0; CK_E_NO_TENSORS
 * (says what there is instead); CK_E_AMBIGUOUS_STATE_DICT and CK_E_STATE_DICT_NOT_FOUND, with the candidates in the
 * message and, as a JSON array of paths, in err->details; CK_E_TENSOR_LIMIT (model_memory); CK_E_OUT_OF_MEMORY. */
int ck_choose(struct ck_walk *walk, const char *const *paths, const struct ck_model_options *options,
              struct ck_arena *arena, struct ck_choice *ret_choice, struct ck_error *err);

/* The other sets of weights beside the chosen one, by the rules 2 and 3: at most CK_ALTERNATIVES_MAX paths as the option
 * takes them, in arena. Returns 0; CK_E_TENSOR_LIMIT (model_memory); CK_E_OUT_OF_MEMORY. */
#define CK_ALTERNATIVES_MAX 100
int ck_choose_alternatives(const struct ck_walk *walk, const char *const *paths, const struct ck_choice *choice,
                           struct ck_arena *arena, const char ***ret_paths, uint32_t *ret_n, struct ck_error *err);

/* True for a node that holds optimizer state and the like, by its key or its content. */
bool ck_choose_excludes(const struct ck_walk *walk, uint32_t node);

#endif
