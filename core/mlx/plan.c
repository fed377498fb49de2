#include "core/mlx/plan.h"

#include <stdio.h>
#include <string.h>

#include "core/base/version.h"
#include "core/job/quantized.h"
#include "core/job/refusal.h"
#include "core/mlx/items.h"
#include "core/mlx/layout.h"
#include "core/mlx/names.h"

struct work {
    struct ck_plan *plan;
    const struct ck_spec *spec;
    struct ck_layout layout;
    const char **names; /* clean names by tensor */
    bool keep_layout;   /* the input is in MLX layout already */
    bool never_assume;
    bool *rule_used;         /* by item of spec->rules */
    const char **item_names; /* clean output name by item, before the MLX map */
    uint32_t *first_item;    /* by tensor: its first item, or CK_NO_INDEX */
    uint32_t *alias_item;    /* by item: the item that it repeats, or CK_NO_INDEX */
    size_t capacity;         /* of item_names and alias_item */
};

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the plan of the model needs too much memory");
}

/* ---- what is left out ---- */

/* Buffers that MLX modules do not have: they are computed, or serve training only. Dropping needs the last name and the
 * kind. */
static const struct {
    const char *leaf;
    bool integer; /* only if it is of an integer type, or a scalar */
    const char *why, *message;
} dropped_leaves[] = {
    {"num_batches_tracked", true, "counter", "a counter that only training uses"},
    {"position_ids", true, "computed_buffer", "the positions 0, 1, 2 ...: computed, not learned"},
    {"inv_freq", false, "computed_buffer", "rotary frequencies: computed, not learned"},
    {"masked_bias", false, "computed_buffer", "the constant that masks attention scores"},
    {"n_averaged", true, "counter", "a counter of weight averaging"},
};

/* True if the tensor is in the list of what MLX does not hold. */
static bool is_dropped_leaf(const struct work *w, uint32_t tensor, const char **ret_why, const char **ret_message) {
    const struct ck_tensor *t = &w->plan->model->tensors[tensor];
    const char *leaf = w->layout.leaves[tensor];

    for (size_t i = 0; i < CK_ARRAY_LEN(dropped_leaves); i++) {
        if (strcmp(leaf, dropped_leaves[i].leaf) != 0)
            continue;
        if (dropped_leaves[i].integer && ck_dtype_row(t->view.dtype)->kind != CK_INTEGER)
            continue;
        *ret_why = dropped_leaves[i].why;
        *ret_message = dropped_leaves[i].message;
        return true;
    }
    return false;
}

/* ---- what has no equal ---- */

static bool layer_owns(const struct work *w, const struct ck_layer *layer, const char *leaf) {
    for (uint32_t i = 0; i < layer->n; i++)
        if (strcmp(w->layout.leaves[w->layout.order[layer->first + i]], leaf) == 0)
            return true;
    return false;
}

/* The sentence for a tensor of a layer that MLX has no equal of, or NULL. */
static const char *without_equal(struct work *w, const struct ck_layer *layer, uint32_t tensor) {
    const char *leaf = w->layout.leaves[tensor];

    if (layer->row && layer->row->kind == CK_LAYER_RECURRENT)
        return "recurrent layers are not converted: MLX names, splits and adds their weights differently";
    if (layer->row && strncmp(layer->row->name, "InstanceNorm", 12) == 0 && strncmp(leaf, "running_", 8) == 0)
        return "MLX's InstanceNorm has no running statistics, and without them it gives other values";
    if (layer->in_proj != CK_NO_INDEX && (strcmp(leaf, "bias_k") == 0 || strcmp(leaf, "bias_v") == 0))
        return "MLX's MultiHeadAttention has no bias_k and bias_v";
    if (strstr(w->names[tensor], "parametrizations."))
        return "a parametrized weight: call torch.nn.utils.parametrize.remove_parametrizations() before saving";
    if ((strcmp(leaf, "weight_g") == 0 && layer_owns(w, layer, "weight_v")) ||
        (strcmp(leaf, "weight_v") == 0 && layer_owns(w, layer, "weight_g")))
        return "a weight-normalized weight: call torch.nn.utils.remove_weight_norm() before saving";
    if (strcmp(leaf, "weight_orig") == 0 && (layer_owns(w, layer, "weight_u") || layer_owns(w, layer, "weight_mask")))
        return "a spectrally normalized or pruned weight: make it permanent before saving";
    return NULL;
}

/* ---- items ---- */

static int add_item(struct work *w, uint32_t tensor, const char *clean_name, struct ck_plan_item **ret_item,
                    struct ck_error *err) {
    struct ck_plan_item *item = ck_plan_add_item(w->plan);
    uint32_t index = w->plan->n_items - 1;

    if (!item || !clean_name)
        return no_memory(err);
    if (index >= w->capacity) {
        size_t capacity = CK_MAX(w->capacity * 2, (size_t)256);
        const char **names = ck_arena_alloc_array(&w->plan->arena, capacity, sizeof(*names));
        uint32_t *aliases = ck_arena_alloc_array(&w->plan->arena, capacity, sizeof(*aliases));

        if (!names || !aliases)
            return no_memory(err);
        if (w->capacity > 0) {
            memcpy(names, w->item_names, w->capacity * sizeof(*names));
            memcpy(aliases, w->alias_item, w->capacity * sizeof(*aliases));
        }
        w->item_names = names;
        w->alias_item = aliases;
        w->capacity = capacity;
    }
    item->source = tensor;
    w->item_names[index] = clean_name;
    w->alias_item[index] = CK_NO_INDEX;
    if (w->first_item[tensor] == CK_NO_INDEX)
        w->first_item[tensor] = index;
    *ret_item = item;
    return 0;
}

static const char *label_of(const struct ck_layer *layer) {
    return layer->label ? layer->label : layer->row ? layer->row->name : "parameter";
}

/* The evidence of a tensor that no layout rule moves. */
static struct ck_evidence plain_evidence(const struct ck_layer *layer, bool is_weight, uint32_t rank) {
    if (layer->evidence.why && (is_weight || layer->evidence.kind == CK_EVIDENCE_KNOWN))
        return layer->evidence;
    if (rank <= 1)
        return (struct ck_evidence){CK_EVIDENCE_DERIVED, "one_dimension", "a vector has one layout"};
    return (struct ck_evidence){CK_EVIDENCE_DERIVED, "no_layer_weight",
                                "a parameter or buffer of its module, not the weight of a layer"};
}

/* The numbers beside kept codes; MLX has no float64. */
static int add_quantizer(struct work *w, uint32_t tensor, const char *name, struct ck_error *err) {
    for (int i = 0; i < 2; i++) {
        struct ck_plan_item *item;
        int r = add_item(w, tensor, ck_arena_printf(&w->plan->arena, "%s.%s", name, i == 0 ? "scale" : "zero_point"),
                         &item, err);

        if (r < 0)
            return r;
        item->layer = "parameter";
        item->rule = ck_rule_row(CK_RULE_IDENTITY)->name;
        item->evidence = (struct ck_evidence){CK_EVIDENCE_KNOWN, "option_quantized", NULL};
        r = ck_item_take_quantizer(w->plan, item, i == 1, err);
        if (r >= 0)
            r = ck_item_finish(w->plan, item, w->item_names[item - w->plan->items], item->view.shape, item->view.rank,
                               item->view.dtype == CK_F64 ? CK_F32 : item->view.dtype, (struct ck_affine){0}, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Codes keep their shape, or their axis moves with it; what splits or packs them has no such form. */
static const char *codes_cannot_move(const struct work *w, const struct ck_plan_item *item) {
    const struct ck_tensor *t = &w->plan->model->tensors[item->source];
    bool packed = ck_dtype_row(t->view.dtype)->per > 1,
         moved = !ck_view_is_contiguous(&item->view) || item->view.offset;

    if (!t->quantizer)
        return NULL;
    if (packed && (moved || strcmp(item->rule, ck_rule_row(CK_RULE_IDENTITY)->name) != 0))
        return "its packed codes cannot be brought into MLX's layout: rules=PATTERN:identity leaves them as they are";
    for (uint32_t i = 0; ck_keeps_codes(w->spec, t) && i < item->n_steps; i++)
        if (item->steps[i].op == CK_STEP_SPLIT || item->steps[i].op == CK_STEP_REGROUP)
            return "its codes cannot be split: leave out quantized=keep";
    return NULL;
}

/* Quantization and dtype, then the outputs; the item's view and rule are set. */
static int finish(struct work *w, struct ck_plan_item *item, const struct ck_layer_row *row, bool is_weight,
                  const int64_t *shape, uint32_t rank, struct ck_error *err) {
    const struct ck_tensor *t = &w->plan->model->tensors[item->source];
    const char *name = w->item_names[item - w->plan->items], *cannot = codes_cannot_move(w, item);
    struct ck_affine affine = w->spec->affine;
    enum ck_dtype dtype = CK_F32;
    int r;

    if (cannot)
        return ck_plan_refuse(w->plan, item->source, CK_E_UNSUPPORTED_TENSOR, NULL, cannot, err);
    ck_item_dtype(ck_taken_dtype(w->spec, t), ck_spec_get(w->spec, "dtype"), &dtype);
    if (affine.bits > 0) {
        item->left_alone = ck_item_left_alone(w->plan, row, is_weight, rank, shape, dtype, affine);
        if (item->left_alone)
            affine = (struct ck_affine){0};
    }
    r = ck_item_finish(w->plan, item, name, shape, rank, dtype, affine, err);
    if (r < 0 || !ck_keeps_codes(w->spec, t))
        return r;
    return add_quantizer(w, item->source, name, err);
}

/* The attention's packed tensors become parts with names of their own. */
static const struct {
    const char *leaf;
    uint32_t of; /* parts along axis 0 */
    const char *parts[3];
} attention_leaves[] = {
    {"in_proj_weight", 3, {"query_proj.weight", "key_proj.weight", "value_proj.weight"}},
    {"in_proj_bias", 3, {"query_proj.bias", "key_proj.bias", "value_proj.bias"}},
    {"q_proj_weight", 1, {"query_proj.weight"}},
    {"k_proj_weight", 1, {"key_proj.weight"}},
    {"v_proj_weight", 1, {"value_proj.weight"}},
};

static int plan_attention(struct work *w, const struct ck_layer *layer, uint32_t tensor, size_t row,
                          struct ck_error *err) {
    const struct ck_tensor *t = &w->plan->model->tensors[tensor];
    uint32_t of = attention_leaves[row].of;
    const char *joint = layer->path[0] ? "." : "";

    if (t->view.rank < 1 || t->view.rank > 2 || t->view.shape[0] % of != 0)
        return ck_plan_refuse(w->plan, tensor, CK_E_UNSUPPORTED_LAYER, NULL,
                              "a packed projection that does not divide into query, key and value", err);
    for (uint32_t i = 0; i < of; i++) {
        const char *name =
            ck_arena_printf(&w->plan->arena, "%s%s%s", layer->path, joint, attention_leaves[row].parts[i]);
        struct ck_plan_rename *rename = ck_plan_add_rename(w->plan);
        struct ck_plan_item *item;
        const int64_t *shape;
        uint32_t rank;
        int r;

        if (!rename)
            return no_memory(err);
        *rename = (struct ck_plan_rename){.from = w->names[tensor], .to = name, .why = "attention"};
        r = add_item(w, tensor, name, &item, err);
        if (r < 0)
            return r;
        item->layer = "MultiheadAttention";
        item->evidence = layer->evidence;
        if (of > 1)
            r = ck_item_split(w->plan, item, w->spec, i, of, &shape, &rank, err);
        else
            r = ck_item_apply_rule(w->plan, item, w->spec, CK_RULE_IDENTITY, 1, &shape, &rank, err);
        if (r >= 0)
            r = finish(w, item, layer->row, t->view.rank == 2, shape, rank, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int plan_with_rule(struct work *w, const struct ck_layer *layer, uint32_t tensor, enum ck_rule rule,
                          struct ck_evidence evidence, struct ck_error *err) {
    bool is_weight = strcmp(w->layout.leaves[tensor], "weight") == 0;
    uint32_t groups = is_weight && ck_rule_is_transposed_conv(rule) ? ck_layer_groups(w->plan, layer) : 1;
    struct ck_plan_item *item;
    const int64_t *shape;
    uint32_t rank;
    int r;

    r = add_item(w, tensor, w->names[tensor], &item, err);
    if (r < 0)
        return r;
    item->layer = label_of(layer);
    item->evidence = evidence;
    r = ck_item_apply_rule(w->plan, item, w->spec, rule, groups, &shape, &rank, err);
    if (r < 0)
        return r;
    return finish(w, item, layer->row, is_weight, shape, rank, err);
}

static const char *const matrix_candidates[] = {"Linear", "Conv1D", NULL};

static const char *const *conv_candidates(uint32_t rank) {
    static const char *const conv[3][3] = {
        {"Conv1d", "ConvTranspose1d", NULL}, {"Conv2d", "ConvTranspose2d", NULL}, {"Conv3d", "ConvTranspose3d", NULL}};

    return rank == 2 ? matrix_candidates : conv[CK_MIN(CK_MAX(rank, 3u), 5u) - 3];
}

static int ask(struct work *w, const struct ck_layer *layer, uint32_t tensor, struct ck_error *err) {
    const struct ck_view *view = &w->plan->model->tensors[tensor].view;
    const char *const *candidates = conv_candidates(view->rank);
    /* Without a bias no shape tells the groups of a transposed convolution, and one is not always right. */
    bool groups = view->rank > 2 && layer->bias == CK_NO_INDEX && view->shape[0] != view->shape[1];

    return ck_plan_refuse(w->plan, tensor, CK_E_AMBIGUOUS_LAYOUT, candidates,
                          ck_arena_printf(&w->plan->arena,
                                          "may be the weight of a %s or of a %s, and their layouts differ%s%s%s",
                                          candidates[0], candidates[1], groups ? " (with N groups write " : "",
                                          groups ? candidates[1] : "", groups ? "/N)" : ""),
                          err);
}

static int plan_forced(struct work *w, const struct ck_layer *layer, uint32_t tensor, const struct ck_pair *forced,
                       struct ck_error *err) {
    struct ck_evidence evidence = {CK_EVIDENCE_KNOWN, "option_rules", NULL};
    const struct ck_tensor *t = &w->plan->model->tensors[tensor];
    enum ck_rule rule;

    if (!ck_rule_from_word(forced->word, &rule))
        return ck_plan_drop(w->plan, tensor, "option_rules", "the option rules says so", err);
    if (ck_rule_row(rule)->rank > 0 && ck_rule_row(rule)->rank != t->view.rank)
        return ck_error_set(err, CK_E_BAD_RULE, w->names[tensor], "rule %s is for %u dimensions, but '%.200s' has %u",
                            forced->word, ck_rule_row(rule)->rank, w->names[tensor], t->view.rank);
    return plan_with_rule(w, layer, tensor, rule, evidence, err);
}

/* True if the tensor cannot be written whatever its layer is; then *ret_code is what refusing it returned. */
static bool cannot_be_written(struct work *w, uint32_t tensor, int *ret_code, struct ck_error *err) {
    const struct ck_tensor *t = &w->plan->model->tensors[tensor];
    const char *message = NULL;
    enum ck_dtype dtype;
    int code = 0;

    if (t->error) {
        code = t->error;
        message = t->error_message;
    } else if (!ck_item_dtype(ck_taken_dtype(w->spec, t), ck_spec_get(w->spec, "dtype"), &dtype)) {
        code = CK_E_UNSUPPORTED_DTYPE;
        message = ck_arena_printf(&w->plan->arena, "MLX has no %s", ck_dtype_row(t->view.dtype)->torch);
    } else {
        for (uint32_t i = 0; i < t->view.rank; i++)
            if (t->view.shape[i] > INT32_MAX) {
                code = CK_E_UNSUPPORTED_TENSOR;
                message = "MLX's dimensions are below 2^31";
            }
    }
    if (code == 0)
        return false;
    *ret_code = ck_plan_cannot(w->plan, w->spec, tensor, code, message, err);
    return true;
}

static int plan_tensor(struct work *w, uint32_t tensor, struct ck_error *err) {
    const struct ck_tensor *t = &w->plan->model->tensors[tensor];
    struct ck_layer *layer = &w->layout.layers[w->layout.layer_of[tensor]];
    bool is_weight = strcmp(w->layout.leaves[tensor], "weight") == 0;
    const struct ck_pair *forced = ck_pairs_find(&w->spec->rules, w->names[tensor], w->rule_used);
    const char *why, *message;
    int r;

    if (forced && strcmp(forced->word, "drop") == 0)
        return plan_forced(w, layer, tensor, forced, err);
    if (!t->persistent)
        return ck_plan_drop(w->plan, tensor, "non_persistent",
                            "a buffer, constant or plain tensor that is no part of the state dict", err);
    if (!forced && is_dropped_leaf(w, tensor, &why, &message))
        return ck_plan_drop(w->plan, tensor, why, message, err);
    if (cannot_be_written(w, tensor, &r, err))
        return r;
    if (forced)
        return plan_forced(w, layer, tensor, forced, err);
    if (w->keep_layout)
        return plan_with_rule(w, layer, tensor, CK_RULE_IDENTITY,
                              (struct ck_evidence){CK_EVIDENCE_KNOWN, "option_input_layout", NULL}, err);
    message = without_equal(w, layer, tensor);
    if (message)
        return ck_plan_refuse(w->plan, tensor, CK_E_UNSUPPORTED_LAYER, NULL, message, err);
    if (layer->row && layer->row->kind == CK_LAYER_ATTENTION)
        for (size_t i = 0; i < CK_ARRAY_LEN(attention_leaves); i++)
            if (strcmp(w->layout.leaves[tensor], attention_leaves[i].leaf) == 0)
                return plan_attention(w, layer, tensor, i, err);
    if (is_weight && layer->undecided)
        return ask(w, layer, tensor, err);
    if (is_weight && layer->row) {
        if (layer->evidence.kind == CK_EVIDENCE_ASSUMED && w->never_assume)
            return ck_plan_refuse(w->plan, tensor, CK_E_ASSUMPTION_REFUSED, conv_candidates(t->view.rank),
                                  ck_arena_printf(&w->plan->arena, "would be assumed to be a %s: %s", layer->row->name,
                                                  layer->evidence.detail),
                                  err);
        return plan_with_rule(w, layer, tensor,
                              layer->row->rule == CK_RULE_ATTENTION ? CK_RULE_IDENTITY : layer->row->rule,
                              plain_evidence(layer, true, t->view.rank), err);
    }
    return plan_with_rule(w, layer, tensor, CK_RULE_IDENTITY, plain_evidence(layer, is_weight, t->view.rank), err);
}

/* ---- tied weights ---- */

static bool items_equal(const struct ck_plan_item *a, const struct ck_plan_item *b) {
    return a->n_out > 0 && a->n_out == b->n_out && strcmp(a->rule, b->rule) == 0 && a->affine.bits == b->affine.bits &&
           a->affine.group == b->affine.group && a->dtype == b->dtype && a->n_steps == b->n_steps &&
           memcmp(a->out[0].shape, b->out[0].shape, a->out[0].rank * sizeof(int64_t)) == 0;
}

/* Items that would write what an earlier item writes are marked; a pair that is tied but differs in its treatment is
 * written twice. */
static void mark_aliases(struct work *w) {
    const struct ck_model *model = w->plan->model;

    for (uint32_t i = 0; i < model->n_tensors; i++) {
        uint32_t own = w->first_item[i], first = model->tensors[i].alias_of;

        if (own == CK_NO_INDEX || first == CK_NO_INDEX)
            continue;
        if (w->first_item[first] == CK_NO_INDEX) {
            w->first_item[first] = own; /* the first of the tie was dropped: this one stands for it */
            continue;
        }
        for (uint32_t k = 0; own + k < w->plan->n_items && w->plan->items[own + k].source == i; k++) {
            uint32_t other = w->first_item[first] + k;

            if (w->plan->items[other].source == w->plan->items[w->first_item[first]].source &&
                items_equal(&w->plan->items[own + k], &w->plan->items[other]))
                w->alias_item[own + k] = other;
        }
    }
}

static int move_aliases(struct work *w, const char *const *mapped, struct ck_error *err) {
    struct ck_plan *plan = w->plan;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < plan->n_items; i++) {
        if (w->alias_item[i] != CK_NO_INDEX) {
            struct ck_plan_alias *alias = ck_plan_add_alias(plan);

            if (!alias)
                return no_memory(err);
            *alias = (struct ck_plan_alias){plan->items[i].source, plan->model->tensors[plan->items[i].source].alias_of,
                                            mapped[i], mapped[w->alias_item[i]]};
            continue;
        }
        if (plan->items[i].evidence.kind == CK_EVIDENCE_ASSUMED)
            plan->assumed++;
        plan->items[kept++] = plan->items[i];
    }
    plan->n_items = kept;
    return 0;
}

/* ---- the whole ---- */

/* The out tensors were named with clean names; now they get the names that MLX can hold. */
static int rename_items(struct work *w, const char *const *mapped, struct ck_error *err) {
    for (uint32_t i = 0; i < w->plan->n_items; i++) {
        struct ck_plan_item *item = &w->plan->items[i];

        if (mapped[i] == w->item_names[i])
            continue;
        item->out[0].name = mapped[i];
        for (uint32_t k = 1; k < item->n_out; k++) {
            item->out[k].name = ck_arena_printf(&w->plan->arena, "%.*s%s", (int)(strlen(mapped[i]) - strlen("weight")),
                                                mapped[i], k == 1 ? "scales" : "biases");
            if (!item->out[k].name)
                return no_memory(err);
        }
    }
    return 0;
}

static int check_rule_words(const struct ck_spec *spec, struct ck_error *err) {
    for (size_t i = 0; i < spec->rules.count; i++) {
        const char *word = spec->rules.items[i].word, *nearest;
        enum ck_rule rule;

        if (strcmp(word, "drop") == 0 || ck_rule_from_word(word, &rule))
            continue;
        nearest = ck_nearest(word, ck_rule_words);
        ck_error_set(err, CK_E_BAD_RULE, "rules", "'%.100s' in option rules is no rule", word);
        if (nearest)
            ck_error_set_hint(err, "did you mean '%s'?", nearest);
        return CK_E_BAD_RULE;
    }
    return 0;
}

static int add_metadata(struct work *w, struct ck_error *err) {
    struct ck_plan *plan = w->plan;
    char quant[96];
    bool ok;

    ok = ck_plan_add_metadata(plan, "format", "mlx") && ck_plan_add_metadata(plan, "ckptd.version", ck_version()) &&
         ck_plan_add_metadata(plan, "ckptd.source_form", plan->model->form);
    if (ok && w->spec->affine.bits > 0) {
        snprintf(quant, sizeof(quant), "{\"mode\":\"affine\",\"bits\":%u,\"group_size\":%u}", w->spec->affine.bits,
                 w->spec->affine.group);
        ok = ck_plan_add_metadata(plan, "ckptd.quantization", quant);
    }
    if (!ok)
        return no_memory(err);
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const struct ck_plan_item *item = &plan->items[i];
        int r;

        if (!ck_keeps_codes(w->spec, &plan->model->tensors[item->source]) || item->storage)
            continue;
        r = ck_plan_describe_codes(plan, item, item->out[0].name, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int prepare(struct work *w, struct ck_error *err) {
    const struct ck_model *model = w->plan->model;
    const char *input_layout = ck_spec_get(w->spec, "input_layout");
    int r;

    if (model->marked_mlx && strcmp(input_layout, "auto") == 0)
        return ck_error_set(err, CK_E_ALREADY_CONVERTED, NULL,
                            "the file's metadata says format = mlx: its weights are in MLX layout already");
    if (model->foreign && strcmp(input_layout, "auto") == 0)
        return ck_error_set(err, CK_E_FOREIGN_LAYOUT, NULL,
                            "the weights are %s's, whose layers keep theirs in another order than torch's",
                            model->foreign);
    w->keep_layout = strcmp(input_layout, "mlx") == 0;
    w->never_assume = strcmp(ck_spec_get(w->spec, "assume"), "never") == 0;
    w->rule_used = ck_arena_alloc_array(&w->plan->arena, w->spec->rules.count, sizeof(*w->rule_used));
    w->first_item = ck_arena_alloc_array(&w->plan->arena, (size_t)model->n_tensors + 1, sizeof(*w->first_item));
    if (!w->rule_used || !w->first_item)
        return no_memory(err);
    for (uint32_t i = 0; i < model->n_tensors; i++)
        w->first_item[i] = CK_NO_INDEX;
    r = check_rule_words(w->spec, err);
    if (r < 0)
        return r;
    r = ck_names_strip(w->plan, &w->names, err);
    if (r < 0)
        return r;
    w->plan->names = w->names;
    return ck_layout_make(w->plan, w->names, w->spec, &w->layout, err);
}

int ck_mlx_plan(struct ck_plan *plan, const struct ck_spec *spec, struct ck_error *err) {
    struct work w = {.plan = plan, .spec = spec};
    const char **mapped;
    int r;

    r = prepare(&w, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < plan->model->n_tensors; i++) {
        r = plan_tensor(&w, i, err);
        if (r < 0)
            return r;
    }
    r = ck_pairs_check_used(&spec->rules, w.rule_used, "rules", err);
    if (r < 0)
        return r;
    mark_aliases(&w);
    r = ck_names_map(plan, w.item_names, plan->n_items, &mapped, err);
    if (r < 0)
        return r;
    r = rename_items(&w, mapped, err);
    if (r < 0)
        return r;
    r = move_aliases(&w, mapped, err);
    if (r < 0)
        return r;
    r = ck_plan_check_names(plan, err);
    if (r < 0)
        return r;
    r = ck_refusal(plan, err);
    return r < 0 ? r : add_metadata(&w, err);
}
