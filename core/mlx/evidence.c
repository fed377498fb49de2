#include "core/mlx/evidence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/strmap.h"
#include "core/mlx/hints.h"

/* The order of the work, because each part may rest on the ones before:
 *   1. layers that their own tensors decide (names of parameters, bias length, equal bytes under every reading);
 *   2. the norm layer behind a convolution;
 *   3. families of what is decided so far; channel flow; families again;
 *   4. names: assumed, or left undecided. */

struct family {
    const struct ck_layer_row *row; /* what its members are */
    const struct ck_layer *example;
    bool contradicted;
};

struct work {
    struct ck_plan *plan;
    struct ck_layout *layout;
    bool quantizing;
    struct family *families;
    uint32_t n_families;
};

static const struct ck_view *view_of(const struct work *w, uint32_t tensor) {
    return tensor == CK_NO_INDEX ? NULL : &w->plan->model->tensors[tensor].view;
}

static const struct ck_view *weight_of(const struct work *w, const struct ck_layer *layer) {
    return view_of(w, layer->weight);
}

/* Length of a bias vector, or -1. */
static int64_t bias_length(const struct work *w, const struct ck_layer *layer) {
    const struct ck_view *bias = view_of(w, layer->bias);

    return bias && bias->rank == 1 ? bias->shape[0] : -1;
}

static bool same_shape(const struct ck_view *a, const struct ck_view *b) {
    return a && b && a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof(*a->shape)) == 0;
}

static int decide(struct work *w, struct ck_layer *layer, const struct ck_layer_row *row, enum ck_evidence_kind kind,
                  const char *why, const char *detail, struct ck_error *err) {
    if (!detail)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the evidence of the model needs too much memory");
    layer->row = row;
    layer->undecided = false;
    layer->evidence = (struct ck_evidence){kind, why, detail[0] ? detail : NULL};
    (void)w;
    return 0;
}

#define DETAIL(...) ck_arena_printf(&w->plan->arena, __VA_ARGS__)

/* ---- 1. what a layer's own tensors decide ---- */

static bool is_convlike(const struct ck_layer *layer) {
    return !layer->evidence.why && layer->undecided;
}

static int decide_attention(struct work *w, struct ck_layer *layer, struct ck_error *err) {
    return decide(w, layer, ck_layer_by_word("MultiheadAttention"), CK_EVIDENCE_DERIVED, "packed_attention",
                  DETAIL("it owns %s", w->layout->leaves[layer->in_proj]), err);
}

static bool owns_leaf_beginning(const struct work *w, const struct ck_layer *layer, const char *beginning) {
    for (uint32_t i = 0; i < layer->n; i++)
        if (strncmp(w->layout->leaves[w->layout->order[layer->first + i]], beginning, strlen(beginning)) == 0)
            return true;
    return false;
}

static int decide_matrix(struct work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_view *weight = weight_of(w, layer);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1], bias = bias_length(w, layer);
    const struct ck_view *bias_view = view_of(w, layer->bias);

    if (same_shape(weight, bias_view) || (!bias_view && ck_hint_norm(layer->path)))
        return 0; /* element-wise affine over two dimensions */
    if (bias == d0 && d0 != d1)
        return decide(w, layer, ck_layer_by_word("Linear"), CK_EVIDENCE_DERIVED, "bias_length",
                      DETAIL("bias has %" PRId64 " elements, as the weight has rows", bias), err);
    if (bias == d1 && d0 != d1)
        return decide(w, layer, ck_layer_by_word("Conv1D"), CK_EVIDENCE_DERIVED, "bias_length",
                      DETAIL("bias has %" PRId64 " elements, as the weight has columns", bias), err);
    if (bias == d0) {
        layer->undecided = true; /* square: Linear or transformers' Conv1D; decided with its siblings */
        return 0;
    }
    if (bias_view)
        return 0;
    if (!w->quantizing)
        return decide(w, layer, ck_layer_by_word(ck_hint_embedding(layer->path) ? "Embedding" : "Linear"),
                      CK_EVIDENCE_DERIVED, "same_bytes", "Linear and Embedding keep the layout alike", err);
    if (ck_hint_embedding(layer->path))
        return decide(w, layer, ck_layer_by_word("Embedding"), CK_EVIDENCE_ASSUMED, "name", "the name says embedding",
                      err);
    return decide(w, layer, ck_layer_by_word("Linear"), CK_EVIDENCE_ASSUMED, "convention", "a matrix called weight",
                  err);
}

/* Readings that the shapes of a weight [d0, d1, k...] and its bias allow. */
struct readings {
    bool ordinary, transposed;
    int64_t groups; /* of the transposed reading */
};

static struct readings readings_of(const struct work *w, const struct ck_layer *layer) {
    const struct ck_view *weight = weight_of(w, layer);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1], bias = bias_length(w, layer);
    struct readings r = {.groups = 1};

    if (bias < 0) {
        r.ordinary = r.transposed = true;
        return r;
    }
    r.ordinary = bias == d0;
    if (d1 > 0 && bias % d1 == 0 && bias > 0 && d0 % (bias / d1) == 0) {
        r.transposed = true;
        r.groups = bias / d1;
    }
    return r;
}

static bool kernel_is_one(const struct ck_view *weight) {
    for (uint32_t i = 2; i < weight->rank; i++)
        if (weight->shape[i] != 1)
            return false;
    return true;
}

static int decide_conv(struct work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_view *weight = weight_of(w, layer), *bias = view_of(w, layer->bias);
    const struct ck_layer_row *ordinary = ck_layer_conv(weight->rank, false),
                              *transposed = ck_layer_conv(weight->rank, true);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1];
    struct readings r = readings_of(w, layer);

    if (same_shape(weight, bias) || (!bias && ck_hint_norm(layer->path)))
        return 0; /* element-wise affine over several dimensions */
    if (!ordinary || (bias && bias->rank != 1)) {
        layer->undecided = true;
        return 0;
    }
    if (d1 == 1 && (bias ? r.ordinary : d0 == 1))
        return decide(w, layer, ordinary, CK_EVIDENCE_DERIVED, "same_bytes",
                      "one channel in each group: both layouts are equal", err);
    if (r.ordinary && d0 != d1 && bias && !(r.transposed && ck_hint_transposed_own(layer->path)))
        return decide(w, layer, ordinary, CK_EVIDENCE_DERIVED, "bias_length",
                      DETAIL("bias has %" PRId64 " elements, as dimension 0 of the weight", d0), err);
    if (r.transposed && !r.ordinary)
        return decide(w, layer, transposed, CK_EVIDENCE_DERIVED, "bias_length",
                      DETAIL("bias has %" PRId64 " elements: dimension 1 of the weight times %" PRId64 " group%s",
                             bias->shape[0], r.groups, r.groups == 1 ? "" : "s"),
                      err);
    layer->undecided = true;
    return 0;
}

static int decide_alone(struct work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_view *weight = weight_of(w, layer);

    if (layer->in_proj != CK_NO_INDEX)
        return decide_attention(w, layer, err);
    if (owns_leaf_beginning(w, layer, "weight_ih") && owns_leaf_beginning(w, layer, "weight_hh")) {
        layer->label = "recurrent";
        return decide(w, layer, ck_layer_by_word("LSTM"), CK_EVIDENCE_DERIVED, "recurrent_names",
                      "it owns weight_ih and weight_hh", err);
    }
    if (layer->running_mean != CK_NO_INDEX) {
        layer->label = "BatchNorm";
        return decide(w, layer, ck_layer_by_word("BatchNorm2d"), CK_EVIDENCE_DERIVED, "running_statistics",
                      "it owns running_mean", err);
    }
    if (!weight || weight->rank < 2 || weight->rank > 5)
        return 0;
    if (weight->rank == 2 && layer->module != CK_NO_INDEX)
        return 0; /* its class is known, and is neither Linear nor Embedding */
    return weight->rank == 2 ? decide_matrix(w, layer, err) : decide_conv(w, layer, err);
}

/* ---- 2. the norm layer behind ---- */

/* Features of a norm layer; 0 if it is none. */
static int64_t norm_features(const struct work *w, const struct ck_layer *layer) {
    const struct ck_view *weight = weight_of(w, layer), *mean = view_of(w, layer->running_mean);

    if (mean)
        return mean->rank == 1 ? mean->shape[0] : 0;
    if (!weight || weight->rank != 1)
        return 0;
    if (bias_length(w, layer) == weight->shape[0] || (layer->bias == CK_NO_INDEX && ck_hint_norm(layer->path)))
        return weight->shape[0];
    return 0;
}

static bool same_parent(const char *a, const char *b) {
    const char *dot_a = strrchr(a, '.'), *dot_b = strrchr(b, '.');
    size_t n = dot_a ? (size_t)(dot_a - a) : 0;

    return n == (dot_b ? (size_t)(dot_b - b) : 0) && strncmp(a, b, n) == 0;
}

/* Channels that a decided layer gives on; 0 if it has none or they cannot be told. */
static int64_t channels_out(const struct work *w, const struct ck_layer *layer) {
    const struct ck_view *weight = weight_of(w, layer);

    if (layer->row && layer->row->kind == CK_LAYER_CONV && weight)
        return weight->shape[0];
    if (layer->row && layer->row->kind == CK_LAYER_CONV_TRANSPOSE && weight)
        return weight->shape[1] * (int64_t)ck_layer_groups(w->plan, layer);
    return norm_features(w, layer);
}

/* Channels that a decided convolution takes; 0 if they cannot be told. */
static int64_t channels_in(const struct work *w, const struct ck_layer *layer) {
    const struct ck_view *weight = weight_of(w, layer);

    if (layer->row && layer->row->kind == CK_LAYER_CONV_TRANSPOSE && weight)
        return weight->shape[0];
    if (layer->row && layer->row->kind == CK_LAYER_CONV && weight && weight->shape[1] > 1)
        return weight->shape[1];
    return 0;
}

static int decide_by_norm(struct work *w, uint32_t index, struct ck_error *err) {
    struct ck_layer *layer = &w->layout->layers[index];
    const struct ck_layer *next = index + 1 < w->layout->n_layers ? layer + 1 : NULL;
    const struct ck_view *weight = weight_of(w, layer);
    int64_t features, d0 = weight->shape[0], d1 = weight->shape[1];
    bool grouped;

    if (weight->rank < 3 || !next || layer->bias != CK_NO_INDEX || d0 == d1)
        return 0;
    features = norm_features(w, next);
    grouped = d1 > 0 && features % d1 == 0 && features > 0 && d0 % (features / d1) == 0;
    if (features == d0 && !(grouped && ck_hint_transposed_own(layer->path)))
        return decide(w, layer, ck_layer_conv(weight->rank, false), CK_EVIDENCE_DERIVED, "norm_behind",
                      DETAIL("%s has %" PRId64 " features, as dimension 0 of the weight", next->path, features), err);
    /* A norm that is registered behind but applied before would fit here too: then the layer before gives d1 channels.
     */
    if (features == d1 && same_parent(layer->path, next->path) && !(index > 0 && channels_out(w, layer - 1) == d1))
        return decide(w, layer, ck_layer_conv(weight->rank, true), CK_EVIDENCE_DERIVED, "norm_behind",
                      DETAIL("%s has %" PRId64 " features, as dimension 1 of the weight", next->path, features), err);
    return 0;
}

/* ---- 3. families and flow ---- */

static int find_family(struct work *w, struct ck_strmap *map, uint32_t rank, const char *path,
                       struct family **ret_family, struct ck_error *err) {
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
        w->families[index] = (struct family){0};
    }
    *ret_family = &w->families[index];
    return 0;
}

static void join_family(struct family *family, const struct ck_layer *layer) {
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
static bool reading_allowed(const struct work *w, const struct ck_layer *layer, const struct ck_layer_row *row) {
    const struct ck_view *weight = weight_of(w, layer);
    struct readings r;

    if (row->rank != weight->rank)
        return false;
    if (weight->rank == 2)
        return true;
    r = readings_of(w, layer);
    return row->kind == CK_LAYER_CONV ? r.ordinary : r.transposed;
}

/* tail: families of the last two names of the path only; what they say is weaker, and counts as assumed. */
static int decide_by_family(struct work *w, bool tail, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap map = {0};
    struct ck_layout *layout = w->layout;
    struct family *family;
    int r;

    w->n_families = 0;
    for (uint32_t i = 0; i < layout->n_layers; i++) {
        const struct ck_layer *layer = &layout->layers[i];

        if (!layer->evidence.why || layer->weight == CK_NO_INDEX || !is_matrix_or_conv(layer) ||
            layer->evidence.kind == CK_EVIDENCE_ASSUMED || strcmp(layer->evidence.why, "same_bytes") == 0)
            continue;
        r = find_family(w, &map, weight_of(w, layer)->rank, tail ? ck_hint_tail(layer->path) : layer->path, &family,
                        err);
        if (r < 0)
            return r;
        join_family(family, layer);
    }
    for (uint32_t i = 0; i < layout->n_layers; i++) {
        struct ck_layer *layer = &layout->layers[i];

        if (!is_convlike(layer))
            continue;
        r = find_family(w, &map, weight_of(w, layer)->rank, tail ? ck_hint_tail(layer->path) : layer->path, &family,
                        err);
        if (r < 0)
            return r;
        if (!family->row || family->contradicted || !reading_allowed(w, layer, family->row))
            continue;
        r = decide(w, layer, family->row, tail ? CK_EVIDENCE_ASSUMED : CK_EVIDENCE_DERIVED,
                   tail ? "like_named" : "family", DETAIL("like %s", family->example->path), err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Two undecided siblings, one after the other: if only one pair of readings lets the first give what the second takes,
 * it is theirs. */
static int decide_pair(struct work *w, uint32_t index, struct ck_error *err) {
    struct ck_layer *a = &w->layout->layers[index], *b = a + 1;
    const struct ck_view *weight_a = weight_of(w, a), *weight_b;
    struct readings read_a, read_b;
    int fits = 0, r;
    bool a_transposed = false, b_transposed = false;

    if (index + 1 >= w->layout->n_layers || !is_convlike(b) || !same_parent(a->path, b->path))
        return 0;
    weight_b = weight_of(w, b);
    if (weight_a->rank < 3 || weight_a->rank != weight_b->rank)
        return 0;
    read_a = readings_of(w, a);
    read_b = readings_of(w, b);
    for (int i = 0; i < 4; i++) {
        bool ta = i & 1, tb = i & 2;

        if (!(ta ? read_a.transposed : read_a.ordinary) || !(tb ? read_b.transposed : read_b.ordinary) ||
            weight_a->shape[ta ? 1 : 0] != weight_b->shape[tb ? 0 : 1])
            continue;
        fits++;
        a_transposed = ta;
        b_transposed = tb;
    }
    if (fits != 1)
        return 0;
    r = decide(w, a, ck_layer_conv(weight_a->rank, a_transposed), CK_EVIDENCE_DERIVED, "channel_flow",
               DETAIL("only so does it give what %s takes", b->path), err);
    if (r < 0)
        return r;
    return decide(w, b, ck_layer_conv(weight_b->rank, b_transposed), CK_EVIDENCE_DERIVED, "channel_flow",
                  DETAIL("only so does it take what %s gives", a->path), err);
}

static int decide_by_flow(struct work *w, uint32_t index, struct ck_error *err) {
    struct ck_layer *layer = &w->layout->layers[index];
    const struct ck_layer *before = index > 0 ? layer - 1 : NULL,
                          *behind = index + 1 < w->layout->n_layers ? layer + 1 : NULL;
    const struct ck_view *weight = weight_of(w, layer);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1], in = before ? channels_out(w, before) : 0,
            out = behind ? channels_in(w, behind) : 0;
    bool hinted = ck_hint_transposed_own(layer->path) || ck_hint_transposed_above(layer->path);
    struct readings r = readings_of(w, layer);
    bool ordinary, transposed;

    if (weight->rank < 3 || d0 == d1 || (in == 0 && out == 0))
        return 0;
    if (out == 0 && behind)
        out = norm_features(w, behind);
    /* One channel in each group: depthwise, which takes and gives d0 channels under either name. */
    ordinary = r.ordinary && (in == 0 || in == d1 || (d1 == 1 && in == d0)) && (out == 0 || out == d0);
    transposed = r.transposed && (in == 0 || in == d0) && (out == 0 || out == d1);
    if (ordinary == transposed)
        return 0;
    if (ordinary && !(in == d1 && out == 0 && hinted))
        return decide(w, layer, ck_layer_conv(weight->rank, false), CK_EVIDENCE_DERIVED, "channel_flow",
                      DETAIL("%" PRId64 " channels in, %" PRId64 " out, as its neighbours have", d1, d0), err);
    /* Neighbours in the file need not be neighbours in the network: a transposed reading wants a second sign. */
    if (transposed && (hinted || (in == d0 && out == d1) ||
                       (in == d0 && before && same_parent(before->path, layer->path) && !ck_hint_conv(layer->path))))
        return decide(w, layer, ck_layer_conv(weight->rank, true), CK_EVIDENCE_DERIVED, "channel_flow",
                      DETAIL("%" PRId64 " channels in, %" PRId64 " out, as its neighbours have", d0, d1), err);
    return 0;
}

/* Ranks that no tensor has keep the families of the square matrices apart from those of paths. */
enum { BY_PARENT = 1000, BY_TAIL, BY_HF_NAME };

static int square_family(struct work *w, struct ck_strmap *map, const struct ck_layer *layer, uint32_t kind,
                         struct family **ret_family, struct ck_error *err) {
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
static int decide_square_matrices(struct work *w, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap map = {0};
    struct ck_layout *layout = w->layout;
    struct family *family;
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

        if (!is_convlike(layer) || weight_of(w, layer)->rank != 2)
            continue;
        for (uint32_t kind = BY_PARENT; kind <= BY_HF_NAME && !layer->evidence.why; kind++) {
            if (kind == BY_HF_NAME && !ck_hint_conv1d_hf(layer->path))
                continue;
            r = square_family(w, &map, layer, kind, &family, err);
            if (r < 0)
                return r;
            if (family->row && !family->contradicted)
                r = decide(w, layer, family->row, CK_EVIDENCE_DERIVED, "family",
                           DETAIL("like %s", family->example->path), err);
            else
                doubt = doubt || family->contradicted;
            if (r < 0)
                return r;
        }
        if (layer->evidence.why || doubt)
            continue;
        r = decide(w, layer, ck_layer_by_word("Linear"), CK_EVIDENCE_DERIVED, "only_reading",
                   "nothing near it is a transposed matrix, and its name is none of theirs", err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- 4. names ---- */

static int decide_by_name(struct work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_view *weight = weight_of(w, layer);
    const struct ck_layer_row *ordinary = ck_layer_conv(weight->rank, false);
    bool own = ck_hint_transposed_own(layer->path), above = ck_hint_transposed_above(layer->path);

    if (weight->rank < 3 || !ordinary || !readings_of(w, layer).ordinary || own)
        return 0;
    if (ck_hint_conv(layer->path) && !above)
        return decide(w, layer, ordinary, CK_EVIDENCE_ASSUMED, "name", "the name says convolution", err);
    /* Nobody builds a transposed convolution of kernel 1, but nothing in the file proves it. */
    if (kernel_is_one(weight) && (weight->shape[0] > 1 && weight->shape[1] > 1))
        return decide(w, layer, ordinary, CK_EVIDENCE_ASSUMED, "pointwise", "every kernel dimension is 1", err);
    return 0;
}

/* Calls fn for each undecided layer. */
static int each_undecided(struct work *w, int (*fn)(struct work *, uint32_t, struct ck_error *), struct ck_error *err) {
    for (uint32_t i = 0; i < w->layout->n_layers; i++) {
        int r = is_convlike(&w->layout->layers[i]) ? fn(w, i, err) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

static int name_step(struct work *w, uint32_t index, struct ck_error *err) {
    return decide_by_name(w, &w->layout->layers[index], err);
}

int ck_evidence_decide(struct ck_plan *plan, struct ck_layout *layout, bool quantizing, struct ck_error *err) {
    struct work w = {.plan = plan, .layout = layout, .quantizing = quantizing};
    int r = 0;

    /* A square matrix is a member of up to three families. */
    w.families = ck_arena_alloc_array(&plan->arena, (size_t)layout->n_layers * 3 + 1, sizeof(*w.families));
    if (!w.families)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the families of the model need too much memory");
    for (uint32_t i = 0; i < layout->n_layers && r >= 0; i++)
        if (!layout->layers[i].evidence.why)
            r = decide_alone(&w, &layout->layers[i], err);
    if (r >= 0)
        r = each_undecided(&w, decide_by_norm, err);
    if (r >= 0)
        r = decide_by_family(&w, false, err);
    if (r >= 0)
        r = decide_square_matrices(&w, err);
    if (r >= 0)
        r = each_undecided(&w, decide_pair, err);
    if (r >= 0)
        r = each_undecided(&w, decide_by_flow, err);
    if (r >= 0)
        r = decide_by_family(&w, false, err);
    if (r >= 0)
        r = each_undecided(&w, name_step, err);
    if (r >= 0)
        r = decide_by_family(&w, true, err);
    return r;
}
