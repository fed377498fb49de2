#include "core/mlx/layout.h"

#include <stdio.h>
#include <string.h>

#include "core/base/glob.h"
#include "core/base/strmap.h"
#include "core/mlx/evidence.h"

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the layers of the model need too much memory");
}

static const char *leaf_of(const char *name) {
    const char *dot = strrchr(name, '.');

    return dot ? dot + 1 : name;
}

static void note_role(struct ck_layer *layer, const char *leaf, uint32_t tensor) {
    static const char *const projections[] = {"in_proj_weight", "q_proj_weight"};

    if (strcmp(leaf, "weight") == 0)
        layer->weight = tensor;
    else if (strcmp(leaf, "bias") == 0)
        layer->bias = tensor;
    else if (strcmp(leaf, "running_mean") == 0)
        layer->running_mean = tensor;
    for (size_t i = 0; i < CK_ARRAY_LEN(projections); i++)
        if (strcmp(leaf, projections[i]) == 0)
            layer->in_proj = tensor;
}

/* The layer of each tensor, in the order of first tensors; layer_of, names and leaves are filled. */
static int find_layers(struct ck_plan *plan, struct ck_layout *layout, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap by_path = {0};
    const struct ck_model *model = plan->model;

    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const char *name = layout->names[i], *leaf = leaf_of(name);
        size_t n = leaf > name ? (size_t)(leaf - name) - 1 : 0;
        char *path = ck_arena_copy(&plan->arena, name, n);
        uint32_t *index = path ? ck_strmap_slot(&by_path, path, layout->n_layers) : NULL;
        struct ck_layer *layer;

        if (!index)
            return no_memory(err);
        layer = &layout->layers[*index];
        if (*index == layout->n_layers) {
            layout->n_layers++;
            *layer = (struct ck_layer){.path = path, .module = model->tensors[i].module};
            layer->weight = layer->bias = layer->running_mean = layer->in_proj = CK_NO_INDEX;
        }
        layer->n++;
        layout->layer_of[i] = *index;
        layout->leaves[i] = leaf;
        note_role(layer, leaf, i);
    }
    return 0;
}

static void order_tensors(const struct ck_model *model, struct ck_layout *layout) {
    uint32_t first = 0;

    for (uint32_t i = 0; i < layout->n_layers; i++) {
        layout->layers[i].first = first;
        first += layout->layers[i].n;
        layout->layers[i].n = 0;
    }
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        struct ck_layer *layer = &layout->layers[layout->layer_of[i]];

        layout->order[layer->first + layer->n++] = i;
    }
}

static const char *class_of(const struct ck_model *model, const struct ck_layer *layer) {
    return layer->module == CK_NO_INDEX ? NULL : model->modules[layer->module].class_;
}

/* A key of layers= is a path, a glob over paths, or a class name of the pickle, qualified or short. */
static bool pattern_fits(const char *pattern, const char *path, const char *class_) {
    if (ck_glob_match(pattern, path))
        return true;
    return class_ && (strcmp(pattern, class_) == 0 || strcmp(pattern, leaf_of(class_)) == 0);
}

static int unknown_class(const char *word, struct ck_error *err) {
    const char *names[64];
    const char *nearest;
    size_t n = 0;

    for (const struct ck_layer_row *row = ck_layers; row->name && n + 1 < CK_ARRAY_LEN(names); row++)
        names[n++] = row->name;
    names[n] = NULL;
    nearest = ck_nearest(word, names);
    ck_error_set(err, CK_E_BAD_RULE, "layers", "'%.100s' in option layers is no layer class", word);
    if (nearest)
        ck_error_set_hint(err, "did you mean '%s'?", nearest);
    return CK_E_BAD_RULE;
}

static int check_rank(const struct ck_plan *plan, const struct ck_layer *layer, const struct ck_layer_row *row,
                      struct ck_error *err) {
    uint32_t rank;

    if (row->rank == 0)
        return 0;
    if (layer->weight == CK_NO_INDEX)
        return ck_error_set(err, CK_E_BAD_RULE, layer->path, "option layers says %s, but '%.200s' has no weight",
                            row->name, layer->path);
    rank = plan->model->tensors[layer->weight].view.rank;
    if (rank == row->rank)
        return 0;
    return ck_error_set(err, CK_E_BAD_RULE, layer->path,
                        "option layers says %s, but the weight of '%.200s' has %u dimensions instead of %u", row->name,
                        layer->path, rank, row->rank);
}

/* "ConvTranspose2d/4": a transposed convolution of 4 groups; no shape tells them where there is no bias. */
static int parse_class(const char *word, const struct ck_layer_row **ret_row, uint32_t *ret_groups,
                       struct ck_error *err) {
    char name[128];
    const char *slash = strrchr(word, '/');
    unsigned long groups = 0;
    char *end;

    snprintf(name, sizeof(name), "%.*s", slash ? (int)CK_MIN(slash - word, 100) : 100, word);
    *ret_row = ck_layer_by_word(name);
    if (!*ret_row)
        return unknown_class(name, err);
    if (slash) {
        groups = strtoul(slash + 1, &end, 10);
        if ((*ret_row)->kind != CK_LAYER_CONV_TRANSPOSE || slash[1] < '1' || slash[1] > '9' || *end ||
            groups > INT32_MAX)
            return ck_error_set(
                err, CK_E_BAD_RULE, "layers",
                "'%.100s' in option layers: a number of groups goes behind a transposed convolution only", word);
    }
    *ret_groups = (uint32_t)groups;
    return 0;
}

static int apply_option(const struct ck_plan *plan, struct ck_layout *layout, const struct ck_pairs *pairs,
                        struct ck_error *err) {
    for (size_t p = 0; p < pairs->count; p++) {
        const struct ck_pair *pair = &pairs->items[p];
        const struct ck_layer_row *row;
        bool used = false;
        uint32_t groups = 0;
        int r;

        r = parse_class(pair->word, &row, &groups, err);
        if (r < 0)
            return r;
        for (uint32_t i = 0; i < layout->n_layers; i++) {
            struct ck_layer *layer = &layout->layers[i];

            if (!pattern_fits(pair->pattern, layer->path, class_of(plan->model, layer)))
                continue;
            /* A glob such as up.* also meets norms and activations: only layers that own a weight of the class's rank
             * are meant. */
            if (check_rank(plan, layer, row, NULL) < 0 && ck_glob_is_glob(pair->pattern))
                continue;
            r = check_rank(plan, layer, row, err);
            if (r < 0)
                return r;
            used = true;
            if (layer->evidence.why)
                continue; /* the first item that fits wins */
            if (groups > 1 && plan->model->tensors[layer->weight].view.shape[0] % groups != 0)
                return ck_error_set(err, CK_E_BAD_RULE, layer->path,
                                    "%u groups do not divide the %lld input channels of '%.200s'", groups,
                                    (long long)plan->model->tensors[layer->weight].view.shape[0], layer->path);
            layer->row = row;
            layer->groups = groups;
            layer->evidence = (struct ck_evidence){CK_EVIDENCE_KNOWN, "option_layers", NULL};
        }
        if (!used)
            return ck_error_set(err, CK_E_BAD_RULE, "layers", "'%.200s' in option layers fits no layer of the file",
                                pair->pattern);
    }
    return 0;
}

static bool attribute_is(const struct ck_module *module, const char *name, int kind) {
    const struct ck_attribute *attribute = ck_module_attribute(module, name);

    return attribute && (int)attribute->kind == kind;
}

/* A user's class that derives from a torch layer keeps its attributes; they say what it is. */
static const struct ck_layer_row *row_by_attributes(const struct ck_module *module, const struct ck_tensor *weight) {
    const struct ck_attribute *transposed = ck_module_attribute(module, "transposed");

    if (!weight)
        return NULL;
    if (transposed && transposed->kind == CK_ATTRIBUTE_BOOL && ck_module_attribute(module, "kernel_size") &&
        attribute_is(module, "in_channels", CK_ATTRIBUTE_INT) && attribute_is(module, "groups", CK_ATTRIBUTE_INT))
        return ck_layer_conv(weight->view.rank, transposed->boolean);
    if (weight->view.rank != 2)
        return NULL;
    if (attribute_is(module, "in_features", CK_ATTRIBUTE_INT) &&
        attribute_is(module, "out_features", CK_ATTRIBUTE_INT) &&
        ck_module_attribute(module, "in_features")->integer == weight->view.shape[1] &&
        ck_module_attribute(module, "out_features")->integer == weight->view.shape[0])
        return ck_layer_by_word("Linear");
    if (attribute_is(module, "num_embeddings", CK_ATTRIBUTE_INT) &&
        attribute_is(module, "embedding_dim", CK_ATTRIBUTE_INT))
        return ck_layer_by_word("Embedding");
    return NULL;
}

static void apply_classes(const struct ck_plan *plan, struct ck_layout *layout) {
    const struct ck_model *model = plan->model;

    for (uint32_t i = 0; i < layout->n_layers; i++) {
        struct ck_layer *layer = &layout->layers[i];
        const struct ck_tensor *weight = layer->weight == CK_NO_INDEX ? NULL : &model->tensors[layer->weight];
        const struct ck_module *module;
        const char *why = "class";

        if (layer->evidence.why || layer->module == CK_NO_INDEX)
            continue;
        module = &model->modules[layer->module];
        layer->row = ck_layer_by_class(module->class_);
        if (!layer->row) {
            layer->row = row_by_attributes(module, weight);
            why = "attributes";
        }
        /* A class whose weight does not have the class's rank is not that class any more (a parametrization, a user's
         * trick). */
        if (layer->row && check_rank(plan, layer, layer->row, NULL) < 0)
            layer->row = NULL;
        if (layer->row)
            layer->evidence = (struct ck_evidence){CK_EVIDENCE_KNOWN, why, module->class_};
    }
}

uint32_t ck_layer_groups(const struct ck_plan *plan, const struct ck_layer *layer) {
    const struct ck_model *model = plan->model;
    const struct ck_view *weight = &model->tensors[layer->weight].view;
    const struct ck_attribute *groups =
        layer->module == CK_NO_INDEX ? NULL : ck_module_attribute(&model->modules[layer->module], "groups");
    int64_t n = 1;

    if (layer->groups > 0)
        n = layer->groups;
    else if (groups && groups->kind == CK_ATTRIBUTE_INT)
        n = groups->integer;
    else if (layer->bias != CK_NO_INDEX && model->tensors[layer->bias].view.rank == 1 && weight->shape[1] > 0 &&
             model->tensors[layer->bias].view.shape[0] % weight->shape[1] == 0)
        n = model->tensors[layer->bias].view.shape[0] / weight->shape[1];
    return n > 0 && n <= UINT32_MAX && weight->shape[0] % n == 0 ? (uint32_t)n : 1;
}

int ck_layout_make(struct ck_plan *plan, const char **names, const struct ck_spec *spec, struct ck_layout *ret_layout,
                   struct ck_error *err) {
    const struct ck_model *model = plan->model;
    struct ck_layout layout = {.names = names};
    int r;

    layout.layers = ck_arena_alloc_array(&plan->arena, (size_t)model->n_tensors + 1, sizeof(*layout.layers));
    layout.order = ck_arena_alloc_array(&plan->arena, model->n_tensors, sizeof(*layout.order));
    layout.layer_of = ck_arena_alloc_array(&plan->arena, model->n_tensors, sizeof(*layout.layer_of));
    layout.leaves = ck_arena_alloc_array(&plan->arena, model->n_tensors, sizeof(*layout.leaves));
    if (!layout.layers || !layout.order || !layout.layer_of || !layout.leaves)
        return no_memory(err);
    r = find_layers(plan, &layout, err);
    if (r < 0)
        return r;
    order_tensors(model, &layout);
    r = apply_option(plan, &layout, &spec->layers, err);
    if (r < 0)
        return r;
    apply_classes(plan, &layout);
    r = ck_evidence_decide(plan, &layout, spec->affine.bits > 0, err);
    if (r < 0)
        return r;
    *ret_layout = layout;
    return 0;
}
