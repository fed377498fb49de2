/* mlx/evidence.h: decides, from shapes, neighbours and names, what the layers are that no class and no option names. */
#ifndef CK_MLX_EVIDENCE_H
#define CK_MLX_EVIDENCE_H

#include "core/mlx/neighbours.h"
#include "core/mlx/shapes.h"

/* Fills row and evidence of every layer that has none, or leaves it undecided (convolution-like) or without a row (no layer weight).
 * quantizing: a matrix without bias may be a Linear's or an Embedding's, which matters only then and is assumed.
 * Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_evidence_decide(struct ck_plan *plan, struct ck_layout *layout, bool quantizing, struct ck_error *err);

/* ---- the steps, for evidence*.c; each returns 0 or CK_E_OUT_OF_MEMORY ---- */

struct ck_family {
    const struct ck_layer_row *row; /* what its members are; NULL: none is decided */
    const struct ck_layer     *example;
    bool                       contradicted;
};

struct ck_evidence_work {
    struct ck_plan      *plan;
    struct ck_layout    *layout;
    bool                 quantizing;
    bool                 assuming; /* names were used already: what rests on them is assumed, too */
    struct ck_neighbours neighbours;
    struct ck_family    *families; /* room for three for each layer */
    uint32_t             n_families;
};

/* Decides a layer. detail: for people, NULL is "out of memory" (so that a failed printf needs no check of its own). */
int ck_evidence_set(struct ck_layer *layer, const struct ck_layer_row *row, enum ck_evidence_kind kind, const char *why, const char *detail,
                    struct ck_error *err);

#define DETAIL(...) ck_arena_printf(&w->plan->arena, __VA_ARGS__)

/* Convolution-like, and nothing has decided it yet. */
static inline bool ck_evidence_is_open(const struct ck_layer *layer) {
    return !layer->evidence.why && layer->undecided;
}

static inline const struct ck_view *ck_evidence_weight(const struct ck_evidence_work *w, const struct ck_layer *layer) {
    return ck_layer_view(w->plan, layer->weight);
}

int ck_evidence_alone(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err);

/* By the norm layer behind, by the channels of two open neighbours, by the channels around. For open layers. */
int ck_evidence_norm(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err);
int ck_evidence_pair(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err);
int ck_evidence_flow(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err);

/* tail: families of the last two names of the path only; what they say is weaker, and counts as assumed. */
int ck_evidence_family(struct ck_evidence_work *w, bool tail, struct ck_error *err);

/* Square matrices with a bias: Linear or transformers' Conv1D. */
int ck_evidence_squares(struct ck_evidence_work *w, struct ck_error *err);

#endif
