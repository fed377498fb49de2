#include "core/mlx/evidence.h"

#include <string.h>

#include "core/mlx/hints.h"

/* The order of the work, because each part may rest on the ones before:
 *   1. layers that their own tensors decide (names of parameters, bias length, equal bytes under every reading);
 *   2. the norm layer behind a convolution;
 *   3. families of what is decided so far; channel flow; families again;
 *   4. names; channel flow from what they say: all of it assumed, the rest left undecided. */

int ck_evidence_set(struct ck_layer *layer, const struct ck_layer_row *row, enum ck_evidence_kind kind, const char *why,
                    const char *detail, struct ck_error *err) {
    if (!detail)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the evidence of the model needs too much memory");
    layer->row = row;
    layer->undecided = false;
    layer->evidence = (struct ck_evidence){kind, why, detail[0] ? detail : NULL};
    return 0;
}

/* The name says convolution, and neither it nor the kernel hints at a transposed one. */
static int decide_by_name(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_view *weight = ck_evidence_weight(w, layer);
    const struct ck_layer_row *ordinary = ck_layer_conv(weight->rank, false);

    if (weight->rank < 3 || !ordinary || !ck_layer_readings(w->plan, layer).ordinary)
        return 0;
    /* Nobody builds a transposed convolution of kernel 1, but nothing in the file proves it. */
    if (ck_kernel_is_one(weight) && !ck_hint_transposed_strong(layer->path))
        return ck_evidence_set(layer, ordinary, CK_EVIDENCE_ASSUMED, "pointwise", "every kernel dimension is 1", err);
    if (ck_hint_conv(layer->path) && !ck_hint_transposed_own(layer->path) && !ck_hint_transposed_above(layer->path) &&
        !layer->doubted && !ck_kernel_is_two(weight))
        return ck_evidence_set(layer, ordinary, CK_EVIDENCE_ASSUMED, "name", "the name says convolution", err);
    return 0;
}

/* A file with ordinary convolutions of this rank and without the least sign of a transposed one: what is still open is
 * one of them. */
static int decide_by_file(struct ck_evidence_work *w, struct ck_error *err) {
    const struct ck_layer *example[6] = {NULL};

    for (uint32_t i = 0; i < w->layout->n_layers; i++) {
        const struct ck_layer *layer = &w->layout->layers[i];
        const struct ck_view *weight = ck_evidence_weight(w, layer);

        if (!weight || weight->rank < 3 || weight->rank > 5)
            continue;
        if ((layer->row && layer->row->kind == CK_LAYER_CONV_TRANSPOSE) || layer->doubted ||
            ck_hint_transposed_own(layer->path) || ck_hint_transposed_above(layer->path))
            return 0;
        if (layer->row && layer->row->kind == CK_LAYER_CONV && layer->evidence.kind != CK_EVIDENCE_ASSUMED &&
            strcmp(layer->evidence.why, "same_bytes") != 0)
            example[weight->rank] = layer;
    }
    for (uint32_t i = 0; i < w->layout->n_layers; i++) {
        struct ck_layer *layer = &w->layout->layers[i];
        uint32_t rank = ck_evidence_is_open(layer) ? ck_evidence_weight(w, layer)->rank : 0;
        int r;

        if (rank < 3 || rank > 5 || !example[rank] || ck_kernel_has_even(ck_evidence_weight(w, layer)) ||
            !ck_layer_readings(w->plan, layer).ordinary)
            continue;
        r = ck_evidence_set(layer, ck_layer_conv(rank, false), CK_EVIDENCE_ASSUMED, "file",
                            ck_arena_printf(&w->plan->arena,
                                            "the file has ordinary convolutions (%s) and no sign of a transposed one",
                                            example[rank]->path),
                            err);
        if (r < 0)
            return r;
    }
    return 0;
}

typedef int (*step_fn)(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err);

static int each_open(struct ck_evidence_work *w, step_fn step, struct ck_error *err) {
    for (uint32_t i = 0; i < w->layout->n_layers; i++) {
        struct ck_layer *layer = &w->layout->layers[i];
        int r = ck_evidence_is_open(layer) ? step(w, layer, err) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

static int decide_all(struct ck_evidence_work *w, struct ck_error *err) {
    int r = 0;

    for (uint32_t i = 0; i < w->layout->n_layers && r >= 0; i++)
        if (!w->layout->layers[i].evidence.why)
            r = ck_evidence_alone(w, &w->layout->layers[i], err);
    if (r >= 0)
        r = each_open(w, ck_evidence_norm, err);
    if (r >= 0)
        r = ck_evidence_family(w, false, err);
    if (r >= 0)
        r = ck_evidence_squares(w, err);
    if (r >= 0)
        r = each_open(w, ck_evidence_pair, err);
    if (r >= 0)
        r = each_open(w, ck_evidence_flow, err);
    if (r >= 0)
        r = ck_evidence_family(w, false, err);
    w->assuming = true;
    if (r >= 0)
        r = each_open(w, decide_by_name, err);
    if (r >= 0)
        r = each_open(w, ck_evidence_flow, err);
    if (r >= 0)
        r = ck_evidence_family(w, true, err);
    if (r >= 0)
        r = decide_by_file(w, err);
    return r;
}

int ck_evidence_decide(struct ck_plan *plan, struct ck_layout *layout, bool quantizing, struct ck_error *err) {
    struct ck_evidence_work w = {.plan = plan, .layout = layout, .quantizing = quantizing};
    int r;

    /* A square matrix is a member of up to three families. */
    w.families = ck_arena_alloc_array(&plan->arena, (size_t)layout->n_layers * 3 + 1, sizeof(*w.families));
    if (!w.families)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the families of the model need too much memory");
    r = ck_neighbours_init(&w.neighbours, plan, layout, err);
    if (r < 0)
        return r;
    r = decide_all(&w, err);
    ck_neighbours_release(&w.neighbours);
    return r;
}
