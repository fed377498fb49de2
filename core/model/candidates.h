/* model/candidates.h: the parts of a checkpoint that may be the set of weights: what model/choose.c decides with. */
#ifndef CK_MODEL_CANDIDATES_H
#define CK_MODEL_CANDIDATES_H

#include "core/model/walk.h"

enum ck_key_kind {
    CK_KEY_WRAPPER, /* names a state dict and nothing else */
    CK_KEY_WHOLE,   /* the model, as a rule */
    CK_KEY_PART,    /* one of several networks */
};

struct ck_usual_key {
    const char      *key;
    enum ck_key_kind kind;
};

/* In the order of rule 3 of model/choose.h; ends with a NULL key. */
extern const struct ck_usual_key ck_usual_keys[];

struct ck_chooser {
    const struct ck_walk    *walk;
    const char *const       *paths;
    const struct ck_pickle  *pickle;
    uint32_t                *kids; /* owned: the candidates below the current node */
    uint32_t                 n_kids, kids_capacity;
};

void ck_chooser_release(struct ck_chooser *c);

/* The text of a key (of a node), or "" for keys that are no plain text. */
const char *ck_chooser_key_text(const struct ck_pickle *pickle, const struct ck_edge *edge);
const char *ck_chooser_key(const struct ck_chooser *c, uint32_t node);

/* True for {"state": .., "param_groups": ..}. */
bool ck_chooser_is_optimizer(const struct ck_chooser *c, uint32_t node);

/* True for optimizer state, schedulers, random states and the like, by key or content. */
bool ck_chooser_excludes(const struct ck_chooser *c, uint32_t node);

/* Collects the containers right below node that lead to tensors and may be weights, in c->kids. Returns 0 or
 * CK_E_OUT_OF_MEMORY. */
int ck_chooser_collect(struct ck_chooser *c, uint32_t node, struct ck_error *err);

/* The kid with this key, or CK_NO_INDEX. */
uint32_t ck_chooser_find(const struct ck_chooser *c, const char *key);

/* Rule 2 of model/choose.h, for the node whose kids are collected. */
bool ck_chooser_is_weights(const struct ck_chooser *c, uint32_t node);

#endif
