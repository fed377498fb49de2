/* State dicts that are only names and shapes, planned for the target mlx: for test_mlx_*.c, which include cmocka before. */
#ifndef CK_TESTS_STATE_DICT_H
#define CK_TESTS_STATE_DICT_H

#include "core/mlx/plan.h"

#define TENSORS_MAX 40

struct tensor {
    const char *name;
    int64_t shape[6]; /* ends with 0 */
    const char *rule; /* expected; NULL: not checked */
    const char *kind; /* expected evidence; NULL: not checked */
};

/* A model in memory: contiguous float32 tensors, each with a storage of its own. */
static inline struct ck_model *model_of(const struct tensor *tensors) {
    struct ck_model *model = calloc(1, sizeof(*model));
    uint32_t n = 0;

    while (tensors[n].name)
        n++;
    ck_arena_init(&model->arena, SIZE_MAX);
    ck_findings_init(&model->findings);
    model->form = "torch-zip";
    model->root_path = "";
    model->root_why = "";
    model->input_bytes = 1 << 20;
    model->n_tensors = model->n_storages = n;
    model->tensors = ck_arena_alloc_array(&model->arena, n, sizeof(*model->tensors));
    model->storages = ck_arena_alloc_array(&model->arena, n, sizeof(*model->storages));
    for (uint32_t i = 0; i < n; i++) {
        struct ck_tensor *t = &model->tensors[i];
        int64_t *stride = ck_arena_alloc_array(&model->arena, 8, sizeof(*stride));
        uint32_t rank = 0;

        while (rank < 6 && tensors[i].shape[rank] > 0)
            rank++;
        for (uint32_t k = rank; k-- > 0;)
            stride[k] = k + 1 == rank ? 1 : stride[k + 1] * tensors[i].shape[k + 1];
        *t = (struct ck_tensor){
            .path = tensors[i].name,
            .name = tensors[i].name,
            .view = {.dtype = CK_F32, .rank = rank, .shape = tensors[i].shape, .stride = stride},
            .storage = i,
            .alias_of = CK_NO_INDEX,
            .module = CK_NO_INDEX,
            .persistent = true,
        };
    }
    return model;
}

static inline void model_drop(struct ck_model *model) {
    ck_arena_release(&model->arena);
    ck_findings_release(&model->findings);
    free(model);
}

struct outcome {
    struct ck_model *model;
    struct ck_plan plan;
    struct ck_error err;
    int status;
};

static inline void plan_of(struct outcome *o, const struct tensor *tensors, const char *quant, const char *options[][2]) {
    struct ck_spec spec;

    memset(o, 0, sizeof(*o));
    o->model = model_of(tensors);
    ck_plan_init(&o->plan, o->model, &ck_limits_default);
    assert_int_equal(ck_spec_init(&spec, "mlx", quant, NULL), 0);
    for (size_t i = 0; options && options[i][0]; i++)
        assert_int_equal(ck_spec_set(&spec, options[i][0], options[i][1], NULL), 0);
    o->status = ck_mlx_plan(&o->plan, &spec, &o->err);
    ck_spec_release(&spec);
}

static inline void drop(struct outcome *o) {
    ck_plan_release(&o->plan);
    model_drop(o->model);
}

static inline const struct ck_plan_item *item_of(const struct ck_plan *plan, const char *source) {
    for (uint32_t i = 0; i < plan->n_items; i++)
        if (strcmp(plan->model->tensors[plan->items[i].source].name, source) == 0)
            return &plan->items[i];
    return NULL;
}

static inline void expect(const struct tensor *tensors, uint32_t assumed) {
    struct outcome o;

    plan_of(&o, tensors, NULL, NULL);
    if (o.status < 0)
        print_error("%s: %s\n", ck_error_row(o.status)->name, o.err.message);
    assert_int_equal(o.status, 0);
    for (size_t i = 0; tensors[i].name; i++) {
        const struct ck_plan_item *item = item_of(&o.plan, tensors[i].name);

        if (!tensors[i].rule)
            continue;
        assert_non_null(item);
        if (strcmp(item->rule, tensors[i].rule) != 0 ||
            strcmp(ck_evidence_kind_name(item->evidence.kind), tensors[i].kind) != 0)
            print_error("%s: %s, %s by %s\n", tensors[i].name, item->rule, ck_evidence_kind_name(item->evidence.kind),
                        item->evidence.why);
        assert_string_equal(item->rule, tensors[i].rule);
        if (tensors[i].kind)
            assert_string_equal(ck_evidence_kind_name(item->evidence.kind), tensors[i].kind);
    }
    assert_int_equal(o.plan.assumed, assumed);
    drop(&o);
}

static inline void refused(const struct tensor *tensors, const char *options[][2], int code, uint32_t n) {
    struct outcome o;

    plan_of(&o, tensors, NULL, options);
    assert_int_equal(o.status, code);
    assert_int_equal(o.err.code, code);
    if (n > 0)
        assert_int_equal(o.plan.n_refused, n);
    drop(&o);
}

#endif
