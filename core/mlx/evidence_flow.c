/* Evidence 2 and 3: what stands around a convolution: the norm layer behind it, the channels that its neighbours give
 * and take.
 *
 * Neighbours in a file need not be neighbours in the network, so channels alone never make a convolution a transposed
 * one: the name must hint at it, too. */
#include "core/mlx/evidence.h"

#include <inttypes.h>

#include "core/mlx/hints.h"

/* Nobody builds a transposed convolution of kernel 1. */
static bool may_be_transposed(struct ck_evidence_work *w, const struct ck_layer *layer) {
    return (ck_hint_transposed_own(layer->path) || ck_hint_transposed_above(layer->path)) &&
           !ck_kernel_is_one(ck_evidence_weight(w, layer));
}

/* The channels fit a transposed convolution only, and so does the kernel: a name that says convolution is not enough to
 * assume an ordinary one. */
static void doubt(struct ck_evidence_work *w, struct ck_layer *layer) {
    layer->doubted = layer->doubted || ck_kernel_has_even(ck_evidence_weight(w, layer));
}

/* The layer, if its channels can be compared with those of a weight of this rank: a norm, or a convolution of as many
 * dimensions. */
static const struct ck_layer *comparable(struct ck_evidence_work *w, const struct ck_layer *layer, uint32_t rank) {
    const struct ck_view *weight = layer ? ck_evidence_weight(w, layer) : NULL;

    return layer && (!weight || weight->rank == 1 || weight->rank == rank) ? layer : NULL;
}

static int set_by_norm(struct ck_evidence_work *w, struct ck_layer *layer, const struct ck_layer *norm, bool transposed,
                       struct ck_error *err) {
    return ck_evidence_set(layer, ck_layer_conv(ck_evidence_weight(w, layer)->rank, transposed), CK_EVIDENCE_DERIVED,
                           "norm_behind",
                           DETAIL("%s has %" PRId64 " features, as dimension %d of the weight", norm->path,
                                  ck_layer_norm_features(w->plan, norm), transposed),
                           err);
}

/* A norm of as many features as dimension 0 stands behind an ordinary convolution; also behind a grouped transposed
 * one, whose name would have to say so. */
static bool fits_ordinary(struct ck_evidence_work *w, const struct ck_layer *layer, const struct ck_layer *norm) {
    const struct ck_view *weight = ck_evidence_weight(w, layer);
    int64_t features = norm ? ck_layer_norm_features(w->plan, norm) : 0, d0 = weight->shape[0], d1 = weight->shape[1];
    bool grouped = d1 > 0 && features > 0 && features % d1 == 0 && d0 % (features / d1) == 0;

    return features > 0 && features == d0 && !(grouped && ck_hint_transposed_strong(layer->path));
}

int ck_evidence_norm(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err) {
    const struct ck_layer *named = ck_neighbour_norm_by_name(&w->neighbours, layer), *behind, *before;
    const struct ck_view *weight = ck_evidence_weight(w, layer);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1], in;
    bool close, unused;

    if (weight->rank < 3 || layer->bias != CK_NO_INDEX || d0 == d1)
        return 0;
    behind = ck_neighbour_behind(&w->neighbours, layer, &close);
    before = ck_neighbour_before(&w->neighbours, layer, &unused);
    in = before ? ck_layer_channels_out(w->plan, before) : 0;
    if (fits_ordinary(w, layer, named))
        return set_by_norm(w, layer, named, false, err);
    /* The norm of the next block may also belong to what was joined to this one's output: then the layer before must
     * agree. */
    if (fits_ordinary(w, layer, behind) && (close || in == d1))
        return set_by_norm(w, layer, behind, false, err);
    if (ck_kernel_is_one(weight))
        return 0;
    if (named && ck_hint_transposed_own(layer->path) && ck_layer_norm_features(w->plan, named) == d1)
        return set_by_norm(w, layer, named, true, err);
    /* A norm that is registered behind but applied before would fit here too: then the layer before gives d1 channels.
     */
    if (behind && close && ck_layer_norm_features(w->plan, behind) == d1 && in != d1)
        return set_by_norm(w, layer, behind, true, err);
    return 0;
}

static int set_by_flow(struct ck_evidence_work *w, struct ck_layer *layer, bool transposed,
                       const struct ck_layer *other, struct ck_error *err) {
    const struct ck_view *weight = ck_evidence_weight(w, layer);

    return ck_evidence_set(layer, ck_layer_conv(weight->rank, transposed),
                           w->assuming ? CK_EVIDENCE_ASSUMED : CK_EVIDENCE_DERIVED, "channel_flow",
                           DETAIL("%" PRId64 " channels in, %" PRId64 " out: only so does it fit %s",
                                  weight->shape[transposed ? 0 : 1], weight->shape[transposed ? 1 : 0], other->path),
                           err);
}

/* Two open siblings, one after the other: if only one pair of readings lets the first give what the second takes, it is
 * theirs. */
int ck_evidence_pair(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err) {
    bool close, transposed = false, other_transposed = false;
    struct ck_layer *other = ck_neighbour_behind(&w->neighbours, layer, &close);
    const struct ck_view *a = ck_evidence_weight(w, layer), *b;
    struct ck_readings read_a, read_b;
    int fits = 0, r;

    if (!other || !close || !ck_evidence_is_open(other))
        return 0;
    b = ck_evidence_weight(w, other);
    if (a->rank < 3 || a->rank != b->rank)
        return 0;
    read_a = ck_layer_readings(w->plan, layer);
    read_b = ck_layer_readings(w->plan, other);
    for (int i = 0; i < 4; i++) {
        bool ta = i & 1, tb = i & 2;

        if (!(ta ? read_a.transposed : read_a.ordinary) || !(tb ? read_b.transposed : read_b.ordinary) ||
            a->shape[ta ? 1 : 0] != b->shape[tb ? 0 : 1])
            continue;
        fits++;
        transposed = ta;
        other_transposed = tb;
    }
    if (fits == 1 && transposed)
        doubt(w, layer);
    if (fits == 1 && other_transposed)
        doubt(w, other);
    if (fits != 1 || (transposed && !may_be_transposed(w, layer)) || (other_transposed && !may_be_transposed(w, other)))
        return 0;
    r = set_by_flow(w, layer, transposed, other, err);
    return r < 0 ? r : set_by_flow(w, other, other_transposed, layer, err);
}

int ck_evidence_flow(struct ck_evidence_work *w, struct ck_layer *layer, struct ck_error *err) {
    bool close_before, close_behind, ordinary, transposed;
    const struct ck_view *weight = ck_evidence_weight(w, layer);
    const struct ck_layer *before =
        comparable(w, ck_neighbour_before(&w->neighbours, layer, &close_before), weight->rank);
    const struct ck_layer *behind =
        comparable(w, ck_neighbour_behind(&w->neighbours, layer, &close_behind), weight->rank);
    int64_t d0 = weight->shape[0], d1 = weight->shape[1], in, out;
    struct ck_readings r;

    if (weight->rank < 3 || d0 == d1)
        return 0;
    in = before ? ck_layer_channels_out(w->plan, before) : 0;
    out = behind ? ck_layer_channels_in(w->plan, behind) : 0;
    if (out == 0 && behind)
        out = ck_layer_norm_features(w->plan, behind);
    /* A sibling counts alone; layers of other blocks, which may be joined by a concatenation, only when both sides are
     * known. */
    if (!(in != 0 && close_before) && !(out != 0 && close_behind) && (in == 0 || out == 0))
        return 0;
    r = ck_layer_readings(w->plan, layer);
    /* One channel in each group: depthwise, which takes and gives d0 channels under either name. */
    ordinary = r.ordinary && (in == 0 || in == d1 || (d1 == 1 && in == d0)) && (out == 0 || out == d0);
    transposed = r.transposed && (in == 0 || in == d0) && (out == 0 || out == d1);
    if (ordinary == transposed)
        return 0;
    if (ordinary && !(out == 0 && may_be_transposed(w, layer)))
        return set_by_flow(w, layer, false, in ? before : behind, err);
    if (transposed)
        doubt(w, layer);
    if (transposed && may_be_transposed(w, layer))
        return set_by_flow(w, layer, true, in ? before : behind, err);
    return 0;
}
