/* Evidence 1: what a layer's own tensors decide: the names of its parameters, the length of its bias. */
#include "core/mlx/evidence.h"

#include <inttypes.h>
#include <string.h>

#include "core/mlx/hints.h"

static int decide_attention(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err) {
    return ck_evidence_set(layer, ck_layer_by_word("MultiheadAttention"), CK_EVIDENCE_DERIVED, "packed_attention",
                           DETAIL("it owns %s", w->layout->leaves[layer->in_proj]), err);
}

static bool owns_leaf_beginning(const struct ck_evidence_work *w, const struct ck_layer *layer, const char *beginning) {
    for (uint32_t i = 0; i < layer->n; i++)
        if (strncmp(w->layout->leaves[w->layout->order[layer->first + i]], beginning, strlen(beginning)) == 0)
            return true;
    return false;
}

static int decide_matrix(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_view *weight = ck_evidence_weight(w, layer);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1], bias = ck_layer_bias_length(w->plan, layer);
    const struct ck_view *bias_view = ck_layer_view(w->plan, layer->bias);

    if (ck_shape_equal(weight, bias_view) || (!bias_view && ck_hint_norm_alone(layer->path)))
        return 0; /* element-wise affine over two dimensions */
    if (bias == d0 && d0 != d1)
        return ck_evidence_set(layer, ck_layer_by_word("Linear"), CK_EVIDENCE_DERIVED, "bias_length",
                               DETAIL("bias has %" PRId64 " elements, as the weight has rows", bias), err);
    if (bias == d1 && d0 != d1)
        return ck_evidence_set(layer, ck_layer_by_word("Conv1D"), CK_EVIDENCE_DERIVED, "bias_length",
                               DETAIL("bias has %" PRId64 " elements, as the weight has columns", bias), err);
    if (bias == d0) {
        layer->undecided = true; /* square: Linear or transformers' Conv1D; decided with its siblings */
        return 0;
    }
    if (bias_view)
        return 0;
    if (!w->quantizing)
        return ck_evidence_set(layer, ck_layer_by_word(ck_hint_embedding(layer->path) ? "Embedding" : "Linear"),
                               CK_EVIDENCE_DERIVED, "same_bytes", "Linear and Embedding keep the layout alike", err);
    if (ck_hint_embedding(layer->path))
        return ck_evidence_set(layer, ck_layer_by_word("Embedding"), CK_EVIDENCE_ASSUMED, "name",
                               "the name says embedding", err);
    return ck_evidence_set(layer, ck_layer_by_word("Linear"), CK_EVIDENCE_ASSUMED, "convention",
                           "a matrix called weight", err);
}

static int decide_conv(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_view *weight = ck_evidence_weight(w, layer), *bias = ck_layer_view(w->plan, layer->bias);
    const struct ck_layer_row *ordinary = ck_layer_conv(weight->rank, false),
                              *transposed = ck_layer_conv(weight->rank, true);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1];
    struct ck_readings r = ck_layer_readings(w->plan, layer);
    bool named;

    if (ck_shape_equal(weight, bias) || (!bias && ck_hint_norm_alone(layer->path)))
        return 0; /* element-wise affine over several dimensions */
    if (!ordinary || (bias && bias->rank != 1)) {
        layer->undecided = true;
        return 0;
    }
    if (weight->rank == 3 && r.ordinary && ck_hint_bilinear(layer->path))
        return ck_evidence_set(layer, ck_layer_by_word("Bilinear"), CK_EVIDENCE_ASSUMED, "name",
                               "the name says bilinear", err);
    if (d1 == 1 && (bias ? r.ordinary : d0 == 1))
        return ck_evidence_set(layer, ordinary, CK_EVIDENCE_DERIVED, "same_bytes",
                               "one channel in each group: both layouts are equal", err);
    /* A bias of d0 also fits a transposed convolution of d0 / d1 groups: rare, so the name must say it, and "up" alone
     * only with an even kernel. */
    named =
        ck_hint_transposed_strong(layer->path) || (ck_hint_transposed_own(layer->path) && ck_kernel_has_even(weight));
    if (r.ordinary && d0 != d1 && bias && !(r.transposed && named))
        return ck_evidence_set(layer, ordinary, CK_EVIDENCE_DERIVED, "bias_length",
                               DETAIL("bias has %" PRId64 " elements, as dimension 0 of the weight", d0), err);
    if (r.transposed && !r.ordinary)
        return ck_evidence_set(layer, transposed, CK_EVIDENCE_DERIVED, "bias_length",
                               DETAIL("bias has %" PRId64 " elements: dimension 1 of the weight times %" PRId64
                                      " group%s",
                                      bias->shape[0], r.groups, r.groups == 1 ? "" : "s"),
                               err);
    layer->undecided = true;
    return 0;
}

int ck_evidence_alone(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_view *weight = ck_evidence_weight(w, layer);

    if (layer->in_proj != CK_NO_INDEX)
        return decide_attention(w, layer, err);
    if (owns_leaf_beginning(w, layer, "weight_ih") && owns_leaf_beginning(w, layer, "weight_hh")) {
        layer->label = "recurrent";
        return ck_evidence_set(layer, ck_layer_by_word("LSTM"), CK_EVIDENCE_DERIVED, "recurrent_names",
                               "it owns weight_ih and weight_hh", err);
    }
    if (layer->running_mean != CK_NO_INDEX) {
        layer->label = "BatchNorm";
        return ck_evidence_set(layer, ck_layer_by_word("BatchNorm2d"), CK_EVIDENCE_DERIVED, "running_statistics",
                               "it owns running_mean", err);
    }
    if (!weight || weight->rank < 2 || weight->rank > 5)
        return 0;
    if (weight->rank == 2 && layer->module != CK_NO_INDEX)
        return 0; /* its class is known, and is neither Linear nor Embedding */
    return weight->rank == 2 ? decide_matrix(w, layer, err) : decide_conv(w, layer, err);
}
