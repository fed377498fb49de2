/* Evidence 3: families: layers whose paths differ in digits only are of one kind, unless two of them contradict each
 * other. */
#include "core/mlx/evidence.h"

#include <stdio.h>
#include <string.h>

#include "core/mlx/hints.h"

/* Families are apart by rank; these, which no tensor has, keep further kinds apart. */
enum { EVEN_KERNEL = 100, BY_PARENT = 1000, BY_TAIL, BY_HF_NAME };

static int find_family(struct ck_evidence_work *w, struct ck_strmap *map, uint32_t rank, const char *path,
                       struct ck_family **ret_family, struct ck_error *err) {
    char general[4200], key[4300];
    char *copy = NULL;
    uint32_t index, *slot;

    ck_hint_generalise(path, general, sizeof(general));
    snprintf(key, sizeof(key), "%u:%s", rank, general);
    if (!ck_strmap_get(map, key, &index)) {
        copy = ck_arena_strdup(&w->plan->arena, key);
        slot = copy ? ck_strmap_slot(map, copy, w->n_families) : NULL;
        if (!slot)
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the families of the model need too much memory");
        index = w->n_families++;
        w->families[index] = (struct ck_family){0};
    }
    *ret_family = &w->families[index];
    return 0;
}

static void join_family(struct ck_family *family, const struct ck_layer *layer) {
    if (!family->row) {
        family->row = layer->row;
        family->example = layer;
    } else if (family->row != layer->row) {
        family->contradicted = true;
    }
}

static bool is_matrix_or_conv(const struct ck_layer *layer) {
    return layer->row && (layer->row->kind == CK_LAYER_CONV || layer->row->kind == CK_LAYER_CONV_TRANSPOSE ||
                          layer->row->kind == CK_LAYER_LINEAR);
}

/* True if the shapes of an undecided layer allow the row. */
static bool reading_allowed(const struct ck_evidence_work *w, const struct ck_layer *layer,
                            const struct ck_layer_row *row) {
    const struct ck_view *weight = ck_evidence_weight(w, layer);
    struct ck_readings r;

    if (row->rank != weight->rank)
        return false;
    if (weight->rank == 2)
        return true;
    r = ck_layer_readings(w->plan, layer);
    return row->kind == CK_LAYER_CONV ? r.ordinary : r.transposed;
}

static int family_of(struct ck_evidence_work *w, struct ck_strmap *map, const struct ck_layer *layer, bool tail,
                     struct ck_family **ret_family, struct ck_error *err) {
    const struct ck_view *weight = ck_evidence_weight(w, layer);

    /* The layers of one Sequential differ in digits, too; those with an even kernel are not relatives of those with an
     * odd one. */
    return find_family(w, map, weight->rank + (ck_kernel_has_even(weight) ? EVEN_KERNEL : 0),
                       tail ? ck_hint_tail(layer->path) : layer->path, ret_family, err);
}

/* A layer whose two layouts are equal (one input channel) was decided without need of its kind, so it founds no family.
 * But its bias makes it an ordinary convolution, or a depthwise one: it contradicts a family of transposed ones. */
static bool is_witness(const struct ck_layer *layer) {
    return layer->row && layer->row->kind == CK_LAYER_CONV && layer->bias != CK_NO_INDEX;
}

/* witnesses: only those, else only the others. */
static int gather(struct ck_evidence_work *w, struct ck_strmap *map, bool tail, bool witnesses, struct ck_error *err) {
    for (uint32_t i = 0; i < w->layout->n_layers; i++) {
        const struct ck_layer *layer = &w->layout->layers[i];
        struct ck_family *family;
        int r;

        if (!layer->evidence.why || layer->weight == CK_NO_INDEX || !is_matrix_or_conv(layer) ||
            layer->evidence.kind == CK_EVIDENCE_ASSUMED)
            continue;
        if ((strcmp(layer->evidence.why, "same_bytes") == 0) != witnesses || (witnesses && !is_witness(layer)))
            continue;
        r = family_of(w, map, layer, tail, &family, err);
        if (r < 0)
            return r;
        if (!witnesses || family->row)
            join_family(family, layer);
    }
    return 0;
}

/* tail: families of the last two names of the path only; what they say is weaker, and counts as assumed. */
int ck_evidence_family(struct ck_evidence_work *w, bool tail, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap map = {0};
    struct ck_layout *layout = w->layout;
    struct ck_family *family;
    int r;

    w->n_families = 0;
    r = gather(w, &map, tail, false, err);
    if (r >= 0)
        r = gather(w, &map, tail, true, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < layout->n_layers; i++) {
        struct ck_layer *layer = &layout->layers[i];

        if (!ck_evidence_is_open(layer))
            continue;
        r = family_of(w, &map, layer, tail, &family, err);
        if (r < 0)
            return r;
        layer->doubted = layer->doubted || (family->contradicted && !tail);
        if (!family->row || family->contradicted || layer->doubted || !reading_allowed(w, layer, family->row))
            continue;
        r = ck_evidence_set(layer, family->row, tail ? CK_EVIDENCE_ASSUMED : CK_EVIDENCE_DERIVED,
                            tail ? "like_named" : "family", DETAIL("like %s", family->example->path), err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int square_family(struct ck_evidence_work *w, struct ck_strmap *map, const struct ck_layer *layer, uint32_t kind,
                         struct ck_family **ret_family, struct ck_error *err) {
    char parent[4200];
    const char *key = "";

    if (kind == BY_PARENT) {
        const char *dot = strrchr(layer->path, '.');

        snprintf(parent, sizeof(parent), "%.*s", dot ? (int)(dot - layer->path) : 0, layer->path);
        key = parent;
    } else if (kind == BY_TAIL) {
        key = ck_hint_tail(layer->path);
    }
    return find_family(w, map, kind, key, ret_family, err);
}

/* A square matrix with a bias is Linear, unless its siblings or namesakes are transformers' Conv1D. */
int ck_evidence_squares(struct ck_evidence_work *w, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap map = {0};
    struct ck_layout *layout = w->layout;
    struct ck_family *family;
    int r;

    w->n_families = 0;
    for (uint32_t i = 0; i < layout->n_layers; i++) {
        const struct ck_layer *layer = &layout->layers[i];

        if (!layer->row || layer->row->kind != CK_LAYER_LINEAR || !layer->evidence.why ||
            strcmp(layer->evidence.why, "bias_length") != 0)
            continue;
        for (uint32_t kind = BY_PARENT; kind <= BY_HF_NAME; kind++) {
            if (kind == BY_HF_NAME && !ck_hint_conv1d_hf(layer->path))
                continue;
            r = square_family(w, &map, layer, kind, &family, err);
            if (r < 0)
                return r;
            join_family(family, layer);
        }
    }
    for (uint32_t i = 0; i < layout->n_layers; i++) {
        struct ck_layer *layer = &layout->layers[i];
        bool doubt = ck_hint_conv1d_hf(layer->path);

        if (!ck_evidence_is_open(layer) || ck_evidence_weight(w, layer)->rank != 2)
            continue;
        for (uint32_t kind = BY_PARENT; kind <= BY_HF_NAME && !layer->evidence.why; kind++) {
            if (kind == BY_HF_NAME && !ck_hint_conv1d_hf(layer->path))
                continue;
            r = square_family(w, &map, layer, kind, &family, err);
            if (r < 0)
                return r;
            if (family->row && !family->contradicted)
                r = ck_evidence_set(layer, family->row, CK_EVIDENCE_DERIVED, "family",
                                    DETAIL("like %s", family->example->path), err);
            else
                doubt = doubt || family->contradicted;
            if (r < 0)
                return r;
        }
        if (layer->evidence.why || doubt)
            continue;
        r = ck_evidence_set(layer, ck_layer_by_word("Linear"), CK_EVIDENCE_DERIVED, "only_reading",
                            "nothing near it is a transposed matrix, and its name is none of theirs", err);
        if (r < 0)
            return r;
    }
    return 0;
}
