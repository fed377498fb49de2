#include "core/job/faithful.h"

#include "core/base/version.h"
#include "core/job/refusal.h"

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the plan of the model needs too much memory");
}

static int refuse(struct ck_plan *plan, uint32_t tensor, int code, const char *message, struct ck_error *err) {
    struct ck_plan_note *note = message ? ck_plan_add_refused(plan) : NULL;

    if (!note)
        return no_memory(err);
    *note = (struct ck_plan_note){.source = tensor, .code = code, .message = message};
    return 0;
}

static int drop(struct ck_plan *plan, uint32_t tensor, struct ck_error *err) {
    struct ck_plan_note *note = ck_plan_add_dropped(plan);

    if (!note)
        return no_memory(err);
    *note = (struct ck_plan_note){
        .source = tensor, .why = "non_persistent", .message = "a buffer that is no part of the state dict"};
    return 0;
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

int ck_faithful_plan(struct ck_plan *plan, _unused_ const struct ck_spec *spec, struct ck_error *err) {
    const struct ck_model *model = plan->model;
    const char **names = ck_arena_alloc_array(&plan->arena, model->n_tensors, sizeof(*names));
    uint32_t *kept = ck_arena_alloc_array(&plan->arena, model->n_tensors, sizeof(*kept));
    int r = 0;

    if (!names || !kept || !ck_plan_add_metadata(plan, "format", "pt") ||
        !ck_plan_add_metadata(plan, "ckptd.version", ck_version()))
        return no_memory(err);
    for (uint32_t i = 0; i < model->n_tensors && r >= 0; i++) {
        const struct ck_tensor *t = &model->tensors[i];
        uint32_t first = t->alias_of == CK_NO_INDEX ? i : t->alias_of;

        names[i] = t->name;
        kept[i] = CK_NO_INDEX;
        if (!t->persistent)
            r = drop(plan, i, err);
        else if (t->error)
            r = refuse(plan, i, t->error, t->error_message, err);
        else if (!ck_dtype_row(t->view.dtype)->safetensors)
            r = refuse(plan, i, CK_E_UNSUPPORTED_DTYPE,
                       ck_arena_printf(&plan->arena, "safetensors has no %s", ck_dtype_row(t->view.dtype)->torch), err);
        else if (kept[first] != CK_NO_INDEX && first != i)
            r = alias(plan, i, kept[first], err);
        else {
            kept[first] = i;
            r = write_as_is(plan, i, err);
        }
    }
    return r < 0 ? r : ck_refusal(plan, names, err);
}
