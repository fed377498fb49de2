#include "core/job/faithful.h"

#include <string.h>

#include "core/base/version.h"
#include "core/job/quantized.h"
#include "core/job/refusal.h"

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the plan of the model needs too much memory");
}

static int alias(struct ck_plan *plan, uint32_t tensor, uint32_t kept, struct ck_error *err) {
    const char *name = plan->model->tensors[tensor].name, *of = plan->model->tensors[kept].name;
    struct ck_plan_alias *entry = ck_plan_add_alias(plan);

    if (!entry || !ck_plan_add_metadata(plan, name, of))
        return no_memory(err);
    *entry = (struct ck_plan_alias){tensor, kept, name, of};
    return 0;
}

static struct ck_plan_item *add_item(struct ck_plan *plan, uint32_t tensor) {
    struct ck_plan_item *item = ck_plan_add_item(plan);

    if (item)
        *item = (struct ck_plan_item){
            .source = tensor,
            .layer = "parameter",
            .rule = "identity",
            .evidence = {CK_EVIDENCE_KNOWN, "faithful", NULL},
        };
    return item;
}

/* The item's view is set. */
static void finish(struct ck_plan_item *item, const char *name, enum ck_dtype dtype) {
    item->dtype = dtype;
    item->n_out = 1;
    item->out[0] = (struct ck_out_tensor){
        .name = name,
        .dtype = ck_dtype_row(dtype)->safetensors,
        .rank = item->view.rank,
        .shape = item->view.shape,
        .bytes = ck_view_numel(&item->view) * ck_dtype_row(dtype)->size,
    };
}

/* Beside the codes of a quantized tensor. */
static int write_quantizer(struct ck_plan *plan, uint32_t tensor, struct ck_error *err) {
    for (int i = 0; i < 2; i++) {
        const char *name =
            ck_arena_printf(&plan->arena, "%s.%s", plan->model->tensors[tensor].name, i == 0 ? "scale" : "zero_point");
        struct ck_plan_item *item = add_item(plan, tensor);
        int r;

        if (!item || !name)
            return no_memory(err);
        r = ck_item_take_quantizer(plan, item, i == 1, err);
        if (r < 0)
            return r;
        finish(item, name, item->view.dtype);
    }
    return 0;
}

static int write_tensor(struct ck_plan *plan, const struct ck_spec *spec, uint32_t tensor, struct ck_error *err) {
    const struct ck_tensor *t = &plan->model->tensors[tensor];
    struct ck_plan_item *item = add_item(plan, tensor);
    int r;

    if (!item)
        return no_memory(err);
    r = ck_item_take(plan, item, spec, err);
    if (r < 0)
        return r;
    finish(item, t->name, ck_taken_dtype(spec, t));
    if (!ck_keeps_codes(spec, t))
        return 0;
    r = ck_plan_describe_codes(plan, item, t->name, err);
    return r < 0 ? r : write_quantizer(plan, tensor, err);
}

/* Why safetensors cannot hold the tensor; NULL when out of memory. */
static const char *without_name(struct ck_plan *plan, enum ck_dtype dtype) {
    const struct ck_dtype_row *row = ck_dtype_row(dtype);

    return ck_arena_printf(&plan->arena, "safetensors has no %s%s", row->torch,
                           row->kind == CK_COMPLEX ? ": save it as complex64, or as torch.view_as_real() of it" : "");
}

struct work {
    struct ck_plan *plan;
    const struct ck_spec *spec;
    bool untie;
    uint32_t *kept; /* by tensor: the one of its ties that is written, or CK_NO_INDEX */
    bool *used;     /* by item of spec->rules */
};

/* Only two rules make sense where nothing is moved. */
static int check_rule_words(const struct ck_spec *spec, struct ck_error *err) {
    for (size_t i = 0; i < spec->rules.count; i++)
        if (strcmp(spec->rules.items[i].word, "drop") != 0 && strcmp(spec->rules.items[i].word, "identity") != 0)
            return ck_error_set(err, CK_E_BAD_RULE, "rules",
                                "the target safetensors moves nothing: its rules are drop and identity, not '%.100s'",
                                spec->rules.items[i].word);
    return 0;
}

static int plan_tensor(struct work *w, uint32_t tensor, struct ck_error *err) {
    const struct ck_tensor *t = &w->plan->model->tensors[tensor];
    uint32_t first = t->alias_of == CK_NO_INDEX ? tensor : t->alias_of;
    const struct ck_pair *forced = ck_pairs_find(&w->spec->rules, t->name, w->used);
    enum ck_dtype dtype;

    if (forced && strcmp(forced->word, "drop") == 0)
        return ck_plan_drop(w->plan, tensor, "option_rules", "the option rules says so", err);
    if (!t->persistent)
        return ck_plan_drop(w->plan, tensor, "non_persistent",
                            "a buffer, constant or plain tensor that is no part of the state dict", err);
    if (t->error)
        return ck_plan_cannot(w->plan, w->spec, tensor, t->error, t->error_message, err);
    dtype = ck_taken_dtype(w->spec, t);
    if (!ck_dtype_row(dtype)->safetensors)
        return ck_plan_cannot(w->plan, w->spec, tensor, CK_E_UNSUPPORTED_DTYPE, without_name(w->plan, dtype), err);
    if (!w->untie && first != tensor && w->kept[first] != CK_NO_INDEX)
        return alias(w->plan, tensor, w->kept[first], err);
    w->kept[first] = tensor;
    return write_tensor(w->plan, w->spec, tensor, err);
}

int ck_faithful_plan(struct ck_plan *plan, const struct ck_spec *spec, struct ck_error *err) {
    const struct ck_model *model = plan->model;
    struct work w = {
        .plan = plan,
        .spec = spec,
        .untie = strcmp(ck_spec_get(spec, "untie"), "true") == 0,
        .kept = ck_arena_alloc_array(&plan->arena, model->n_tensors, sizeof(*w.kept)),
        .used = ck_arena_alloc_array(&plan->arena, spec->rules.count, sizeof(*w.used)),
    };
    int r;

    if (!w.kept || !w.used || !ck_plan_add_metadata(plan, "format", "pt") ||
        !ck_plan_add_metadata(plan, "ckptd.version", ck_version()))
        return no_memory(err);
    r = check_rule_words(spec, err);
    for (uint32_t i = 0; i < model->n_tensors; i++)
        w.kept[i] = CK_NO_INDEX;
    for (uint32_t i = 0; i < model->n_tensors && r >= 0; i++)
        r = plan_tensor(&w, i, err);
    if (r >= 0)
        r = ck_pairs_check_used(&spec->rules, w.used, "rules", err);
    if (r >= 0)
        r = ck_plan_check_names(plan, err);
    return r < 0 ? r : ck_refusal(plan, err);
}
