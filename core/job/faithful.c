#include "core/job/faithful.h"

#include <string.h>

#include "core/base/version.h"
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

static int write_as_is(struct ck_plan *plan, uint32_t tensor, struct ck_error *err) {
    const struct ck_tensor *t = &plan->model->tensors[tensor];
    struct ck_plan_item *item = ck_plan_add_item(plan);

    if (!item)
        return no_memory(err);
    *item = (struct ck_plan_item){
        .source = tensor,
        .layer = "parameter",
        .rule = "identity",
        .evidence = {CK_EVIDENCE_KNOWN, "faithful", NULL},
        .view = t->view,
        .dtype = t->view.dtype,
        .n_out = 1,
    };
    item->out[0] = (struct ck_out_tensor){
        .name = t->name,
        .dtype = ck_dtype_row(t->view.dtype)->safetensors,
        .rank = t->view.rank,
        .shape = t->view.shape,
        .bytes = ck_view_bytes(&t->view),
    };
    return 0;
}

struct work {
    struct ck_plan *plan;
    const struct ck_spec *spec;
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

    if (forced && strcmp(forced->word, "drop") == 0)
        return ck_plan_drop(w->plan, tensor, "option_rules", "the option rules says so", err);
    if (!t->persistent)
        return ck_plan_drop(w->plan, tensor, "non_persistent", "a buffer that is no part of the state dict", err);
    if (t->error)
        return ck_plan_refuse(w->plan, tensor, t->error, NULL, t->error_message, err);
    if (!ck_dtype_row(t->view.dtype)->safetensors)
        return ck_plan_refuse(
            w->plan, tensor, CK_E_UNSUPPORTED_DTYPE, NULL,
            ck_arena_printf(&w->plan->arena, "safetensors has no %s", ck_dtype_row(t->view.dtype)->torch), err);
    if (first != tensor && w->kept[first] != CK_NO_INDEX)
        return alias(w->plan, tensor, w->kept[first], err);
    w->kept[first] = tensor;
    return write_as_is(w->plan, tensor, err);
}

int ck_faithful_plan(struct ck_plan *plan, const struct ck_spec *spec, struct ck_error *err) {
    const struct ck_model *model = plan->model;
    struct work w = {
        .plan = plan,
        .spec = spec,
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
    return r < 0 ? r : ck_refusal(plan, err);
}
