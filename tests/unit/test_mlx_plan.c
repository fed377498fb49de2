/* The MLX target's decisions, on state dicts that are only names and shapes. Each case is a small model as its author
 * would name it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/mlx/names.h"
#include "core/mlx/plan.h"

#define TENSORS_MAX 40

struct tensor {
    const char *name;
    int64_t shape[6]; /* ends with 0 */
    const char *rule; /* expected; NULL: not checked */
    const char *kind; /* expected evidence; NULL: not checked */
};

/* A model in memory: contiguous float32 tensors, each with a storage of its own. */
static struct ck_model *model_of(const struct tensor *tensors) {
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

static void model_drop(struct ck_model *model) {
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

static void plan_of(struct outcome *o, const struct tensor *tensors, const char *quant, const char *options[][2]) {
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

static void drop(struct outcome *o) {
    ck_plan_release(&o->plan);
    model_drop(o->model);
}

static const struct ck_plan_item *item_of(const struct ck_plan *plan, const char *source) {
    for (uint32_t i = 0; i < plan->n_items; i++)
        if (strcmp(plan->model->tensors[plan->items[i].source].name, source) == 0)
            return &plan->items[i];
    return NULL;
}

static void expect(const struct tensor *tensors, uint32_t assumed) {
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

static void refused(const struct tensor *tensors, const char *options[][2], int code, uint32_t n) {
    struct outcome o;

    plan_of(&o, tensors, NULL, options);
    assert_int_equal(o.status, code);
    assert_int_equal(o.err.code, code);
    if (n > 0)
        assert_int_equal(o.plan.n_refused, n);
    drop(&o);
}

/* ---- derived ---- */

static void bias_length_tells_ordinary_from_transposed(void **state) {
    const struct tensor tensors[] = {{"a.weight", {16, 3, 3, 3}, "conv2d", "derived"},
                                     {"a.bias", {16}, "identity", "derived"},
                                     {"b.weight", {16, 8, 4}, "conv_transpose1d", "derived"},
                                     {"b.bias", {8}, "identity", "derived"},
                                     {"c.weight", {4, 2, 3, 3, 3}, "conv_transpose3d", "derived"},
                                     {"c.bias", {2}, "identity", "derived"},
                                     {"d.weight", {12, 5, 7}, "conv1d", "derived"},
                                     {"d.bias", {12}, "identity", "derived"},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void a_resnet_needs_no_answer_and_no_assumption(void **state) {
    const struct tensor tensors[] = {{"conv1.weight", {64, 3, 7, 7}, "conv2d", "derived"},
                                     {"bn1.weight", {64}, "batch_norm", "derived"},
                                     {"bn1.bias", {64}, "identity", "derived"},
                                     {"bn1.running_mean", {64}, "identity", "derived"},
                                     {"bn1.running_var", {64}, "identity", "derived"},
                                     {"layer1.0.conv1.weight", {64, 64, 3, 3}, "conv2d", "derived"},
                                     {"layer1.0.bn1.weight", {64}, NULL, NULL},
                                     {"layer1.0.bn1.bias", {64}, NULL, NULL},
                                     {"layer1.0.bn1.running_mean", {64}, NULL, NULL},
                                     {"layer2.0.conv1.weight", {128, 64, 3, 3}, "conv2d", "derived"},
                                     {"layer2.0.bn1.weight", {128}, NULL, NULL},
                                     {"layer2.0.bn1.bias", {128}, NULL, NULL},
                                     {"layer2.0.bn1.running_mean", {128}, NULL, NULL},
                                     {"layer2.0.downsample.0.weight", {128, 64, 1, 1}, "conv2d", "derived"},
                                     {"layer2.0.downsample.1.weight", {128}, NULL, NULL},
                                     {"layer2.0.downsample.1.bias", {128}, NULL, NULL},
                                     {"layer2.0.downsample.1.running_mean", {128}, NULL, NULL},
                                     {"fc.weight", {1000, 512}, "identity", "derived"},
                                     {"fc.bias", {1000}, "identity", "derived"},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void square_convolutions_of_a_vgg_follow_their_family(void **state) {
    const struct tensor tensors[] = {{"features.0.weight", {64, 3, 3, 3}, "conv2d", "derived"},
                                     {"features.0.bias", {64}, NULL, NULL},
                                     {"features.2.weight", {64, 64, 3, 3}, "conv2d", "derived"},
                                     {"features.2.bias", {64}, NULL, NULL},
                                     {"classifier.0.weight", {64, 64}, "identity", "derived"},
                                     {"classifier.0.bias", {64}, NULL, NULL},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void a_unet_tells_its_up_convolutions_by_their_bias(void **state) {
    const struct tensor tensors[] = {{"inc.double_conv.0.weight", {64, 3, 3, 3}, "conv2d", "derived"},
                                     {"inc.double_conv.1.weight", {64}, NULL, NULL},
                                     {"inc.double_conv.1.bias", {64}, NULL, NULL},
                                     {"inc.double_conv.1.running_mean", {64}, NULL, NULL},
                                     {"inc.double_conv.3.weight", {64, 64, 3, 3}, "conv2d", "derived"},
                                     {"inc.double_conv.4.weight", {64}, NULL, NULL},
                                     {"inc.double_conv.4.bias", {64}, NULL, NULL},
                                     {"inc.double_conv.4.running_mean", {64}, NULL, NULL},
                                     {"up1.up.weight", {128, 64, 2, 2}, "conv_transpose2d", "derived"},
                                     {"up1.up.bias", {64}, NULL, NULL},
                                     {"up1.conv.double_conv.0.weight", {64, 128, 3, 3}, "conv2d", "derived"},
                                     {"up1.conv.double_conv.1.weight", {64}, NULL, NULL},
                                     {"up1.conv.double_conv.1.bias", {64}, NULL, NULL},
                                     {"up1.conv.double_conv.1.running_mean", {64}, NULL, NULL},
                                     {"up1.conv.double_conv.3.weight", {64, 64, 3, 3}, "conv2d", "derived"},
                                     {"outc.conv.weight", {2, 64, 1, 1}, "conv2d", "derived"},
                                     {"outc.conv.bias", {2}, NULL, NULL},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void a_dcgan_generator_is_transposed_by_its_norms_and_its_family(void **state) {
    const struct tensor tensors[] = {{"main.0.weight", {100, 512, 4, 4}, "conv_transpose2d", "derived"},
                                     {"main.1.weight", {512}, NULL, NULL},
                                     {"main.1.bias", {512}, NULL, NULL},
                                     {"main.1.running_mean", {512}, NULL, NULL},
                                     {"main.3.weight", {512, 256, 4, 4}, "conv_transpose2d", "derived"},
                                     {"main.4.weight", {256}, NULL, NULL},
                                     {"main.4.bias", {256}, NULL, NULL},
                                     {"main.4.running_mean", {256}, NULL, NULL},
                                     {"main.6.weight", {256, 3, 4, 4}, "conv_transpose2d", "derived"},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void depthwise_convolutions_have_one_layout(void **state) {
    const struct tensor tensors[] = {
        {"up.weight", {32, 1, 3, 3}, "conv2d", "derived"}, {"up.bias", {32}, NULL, NULL}, {0}};

    (void)state;
    expect(tensors, 0);
}

static void a_depthwise_convolution_without_norm_is_told_by_its_pointwise_one(void **state) {
    const struct tensor tensors[] = {{"rep.0.norm.weight", {32}, NULL, NULL},
                                     {"rep.0.norm.bias", {32}, NULL, NULL},
                                     {"rep.0.dw.weight", {32, 1, 3, 3}, "conv2d", "derived"},
                                     {"rep.0.pw.weight", {64, 32, 1, 1}, "conv2d", "derived"},
                                     {"rep.0.bn.weight", {64}, NULL, NULL},
                                     {"rep.0.bn.bias", {64}, NULL, NULL},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void gpt2_c_attn_tells_for_its_square_c_proj(void **state) {
    const struct tensor tensors[] = {{"h.0.attn.c_attn.weight", {8, 24}, "linear_transposed", "derived"},
                                     {"h.0.attn.c_attn.bias", {24}, NULL, NULL},
                                     {"h.0.attn.c_proj.weight", {8, 8}, "linear_transposed", "derived"},
                                     {"h.0.attn.c_proj.bias", {8}, NULL, NULL},
                                     {"h.0.attn.bias", {1, 1, 16, 16}, "identity", "derived"},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void nanogpt_c_attn_tells_that_its_c_proj_is_linear(void **state) {
    const struct tensor tensors[] = {{"h.0.attn.c_attn.weight", {24, 8}, "identity", "derived"},
                                     {"h.0.attn.c_attn.bias", {24}, NULL, NULL},
                                     {"h.0.attn.c_proj.weight", {8, 8}, "identity", "derived"},
                                     {"h.0.attn.c_proj.bias", {8}, NULL, NULL},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void parameters_that_are_no_layer_weight_pass_unchanged(void **state) {
    const struct tensor tensors[] = {{"cls_token", {1, 1, 8}, "identity", "derived"},
                                     {"pos_embed", {1, 5, 8}, "identity", "derived"},
                                     {"gamma", {1, 8, 1, 1}, "identity", "derived"},
                                     {"norm.weight", {3, 4, 5}, "identity", "derived"},
                                     {"norm.bias", {3, 4, 5}, "identity", "derived"},
                                     {"attn.bias", {1, 1, 4, 4}, "identity", "derived"},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

static void an_autoencoder_without_biases_is_told_by_channel_flow(void **state) {
    const struct tensor tensors[] = {{"encoder.0.weight", {16, 1, 3}, "conv1d", "derived"},
                                     {"encoder.2.weight", {32, 16, 3}, "conv1d", "derived"},
                                     {"decoder.0.weight", {32, 16, 3}, "conv_transpose1d", "derived"},
                                     {"decoder.2.weight", {16, 1, 3}, "conv_transpose1d", "derived"},
                                     {0}};

    (void)state;
    expect(tensors, 0);
}

/* ---- assumed, refused ---- */

static void a_square_convolution_named_conv_is_assumed_and_counted(void **state) {
    const struct tensor tensors[] = {
        {"conv.weight", {3, 3, 3, 3}, "conv2d", "assumed"}, {"conv.bias", {3}, "identity", "derived"}, {0}};

    (void)state;
    expect(tensors, 1);
    refused(tensors, (const char *[][2]){{"assume", "never"}, {NULL, NULL}}, CK_E_ASSUMPTION_REFUSED, 1);
}

static void square_transposed_convolution_without_evidence_is_asked_about(void **state) {
    static const char *const names[] = {"up.weight",
                                        "deconv1.weight",
                                        "0.weight",
                                        "decoder.conv.weight",
                                        "conv_transpose.weight",
                                        "upsample.conv_t.weight",
                                        "weight",
                                        "net.convT.weight",
                                        "tconv.weight"};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++) {
        const struct tensor tensors[] = {{names[i], {4, 4, 3, 3}, NULL, NULL}, {0}};

        refused(tensors, NULL, CK_E_AMBIGUOUS_LAYOUT, 1);
    }
}

static void the_questions_name_tensor_candidates_and_option(void **state) {
    const struct tensor tensors[] = {{"up.weight", {4, 4, 3, 3}, NULL, NULL}, {"up.bias", {4}, NULL, NULL}, {0}};
    struct outcome o;

    (void)state;
    plan_of(&o, tensors, NULL, NULL);
    assert_int_equal(o.status, CK_E_AMBIGUOUS_LAYOUT);
    assert_non_null(strstr(o.err.details, "\"tensor\":\"up.weight\""));
    assert_non_null(strstr(o.err.details, "\"candidates\":[\"Conv2d\",\"ConvTranspose2d\"]"));
    assert_non_null(strstr(o.err.details, "\"option\":\"layers=up:Conv2d\""));
    drop(&o);
}

static void an_answer_for_one_member_answers_for_its_family(void **state) {
    const struct tensor tensors[] = {
        {"ups.0.weight", {4, 4, 3, 3}, NULL, NULL}, {"ups.1.weight", {8, 8, 3, 3}, NULL, NULL}, {0}};
    struct outcome o;

    (void)state;
    plan_of(&o, tensors, NULL, (const char *[][2]){{"layers", "ups.0:ConvTranspose2d"}, {NULL, NULL}});
    assert_int_equal(o.status, 0);
    assert_string_equal(item_of(&o.plan, "ups.0.weight")->evidence.why, "option_layers");
    assert_string_equal(item_of(&o.plan, "ups.1.weight")->rule, "conv_transpose2d");
    assert_string_equal(item_of(&o.plan, "ups.1.weight")->evidence.why, "family");
    drop(&o);
}

static void options_that_fit_nothing_or_contradict_a_shape_are_errors(void **state) {
    const struct tensor tensors[] = {{"conv.weight", {4, 4, 3, 3}, NULL, NULL}, {0}};

    (void)state;
    refused(tensors, (const char *[][2]){{"layers", "cnov:Conv2d"}, {NULL, NULL}}, CK_E_BAD_RULE, 0);
    refused(tensors, (const char *[][2]){{"layers", "conv:Conv1d"}, {NULL, NULL}}, CK_E_BAD_RULE, 0);
    refused(tensors, (const char *[][2]){{"layers", "conv:Conv2D"}, {NULL, NULL}}, CK_E_BAD_RULE, 0);
    refused(tensors, (const char *[][2]){{"rules", "conv.weight:conv1d"}, {NULL, NULL}}, CK_E_BAD_RULE, 0);
    refused(tensors, (const char *[][2]){{"rules", "nothing:identity"}, {NULL, NULL}}, CK_E_BAD_RULE, 0);
    refused(tensors, (const char *[][2]){{"rules", "*:conv2"}, {NULL, NULL}}, CK_E_BAD_RULE, 0);
    refused(tensors, (const char *[][2]){{"rules", "*:drop"}, {NULL, NULL}}, CK_E_NO_TENSORS, 0);
}

static void layers_without_an_equal_are_refused_by_name(void **state) {
    const struct tensor lstm[] = {
        {"rnn.weight_ih_l0", {16, 8}, NULL, NULL}, {"rnn.weight_hh_l0", {16, 4}, NULL, NULL}, {0}};
    const struct tensor normed[] = {{"c.weight_g", {4, 1, 1}, NULL, NULL}, {"c.weight_v", {4, 4, 3}, NULL, NULL}, {0}};
    const struct tensor parametrized[] = {{"c.parametrizations.weight.original0", {4, 1, 1}, NULL, NULL}, {0}};

    (void)state;
    refused(lstm, NULL, CK_E_UNSUPPORTED_LAYER, 2);
    refused(normed, NULL, CK_E_UNSUPPORTED_LAYER, 2);
    refused(parametrized, NULL, CK_E_UNSUPPORTED_LAYER, 1);
}

/* ---- names ---- */

static void expect_names(const struct tensor *tensors, const char *const *names) {
    struct outcome o;
    uint32_t i;

    plan_of(&o, tensors, NULL, NULL);
    assert_int_equal(o.status, 0);
    for (i = 0; names[i]; i++)
        assert_string_equal(o.plan.items[i].out[0].name, names[i]);
    assert_int_equal(o.plan.n_items, i);
    drop(&o);
}

static void names_that_mlx_cannot_hold_are_mapped_without_clashes(void **state) {
    const struct tensor tensors[] = {{"_fc.weight", {2, 3}, NULL, NULL},
                                     {"fc_.weight", {2, 3}, NULL, NULL},
                                     {"attn.keys.weight", {2, 3}, NULL, NULL},
                                     {"attn.keys_", {2}, NULL, NULL},
                                     {"lambda", {2}, NULL, NULL},
                                     {"__w", {2}, NULL, NULL},
                                     {"x.0.weight", {2, 3}, NULL, NULL},
                                     {0}};
    const char *const names[] = {"fc__.weight", "fc_.weight", "attn.keys__.weight", "attn.keys_",
                                 "lambda_",     "w_",         "x.0.weight",         NULL};

    (void)state;
    expect_names(tensors, names);
}

/* "x.x.x": components of one letter. */
static int plan_deep_name(unsigned components) {
    char name[2 * CK_NAME_DEPTH + 8];
    const struct tensor tensors[] = {{name, {2}, NULL, NULL}, {0}};
    struct outcome o;
    int status;

    for (unsigned i = 0; i < components; i++)
        memcpy(name + 2 * i, "x.", 2);
    name[2 * components - 1] = 0;
    plan_of(&o, tensors, NULL, NULL);
    status = o.status;
    drop(&o);
    return status;
}

static void names_are_bounded_in_components_and_clashes(void **state) {
    static char names[110][128];
    struct tensor tensors[112] = {0};
    struct outcome o;

    (void)state;
    assert_int_equal(plan_deep_name(CK_NAME_DEPTH), 0);
    assert_int_equal(plan_deep_name(CK_NAME_DEPTH + 1), CK_E_TENSOR_LIMIT);
    /* Each of them would become a_, a__, a___ ... */
    for (size_t i = 0; i < 110; i++) {
        memset(names[i], '_', i + 1);
        names[i][i + 1] = 'a';
        tensors[i] = (struct tensor){names[i], {2}, NULL, NULL};
    }
    plan_of(&o, tensors, NULL, NULL);
    assert_int_equal(o.status, CK_E_NAME_CLASH);
    drop(&o);
    tensors[100].name = NULL;
    plan_of(&o, tensors, NULL, NULL);
    assert_int_equal(o.status, 0);
    drop(&o);
}

static void a_bare_sequential_goes_under_layers(void **state) {
    const struct tensor tensors[] = {{"0.weight", {2, 3}, NULL, NULL}, {"10.bias", {2}, NULL, NULL}, {0}};
    const char *const names[] = {"layers.0.weight", "layers.10.bias", NULL};

    (void)state;
    expect_names(tensors, names);
}

static void wrapper_prefixes_are_stripped(void **state) {
    const struct tensor tensors[] = {
        {"module._orig_mod.a.weight", {2, 3}, NULL, NULL}, {"module.b._orig_mod.bias", {2}, NULL, NULL}, {0}};
    const struct tensor partial[] = {{"module.a.weight", {2, 3}, NULL, NULL}, {"b.bias", {2}, NULL, NULL}, {0}};
    const struct tensor clash[] = {{"_orig_mod.a", {2}, NULL, NULL}, {"a", {2}, NULL, NULL}, {0}};

    (void)state;
    expect_names(tensors, (const char *const[]){"a.weight", "b.bias", NULL});
    expect_names(partial, (const char *const[]){"module.a.weight", "b.bias", NULL});
    refused(clash, NULL, CK_E_NAME_CLASH, 0);
}

static void attention_is_split_into_named_projections(void **state) {
    const struct tensor tensors[] = {{"self_attn.in_proj_weight", {12, 4}, NULL, NULL},
                                     {"self_attn.in_proj_bias", {12}, NULL, NULL},
                                     {"self_attn.out_proj.weight", {4, 4}, NULL, NULL},
                                     {"self_attn.out_proj.bias", {4}, NULL, NULL},
                                     {0}};
    const char *const names[] = {
        "self_attn.query_proj.weight", "self_attn.key_proj.weight", "self_attn.value_proj.weight",
        "self_attn.query_proj.bias",   "self_attn.key_proj.bias",   "self_attn.value_proj.bias",
        "self_attn.out_proj.weight",   "self_attn.out_proj.bias",   NULL};
    struct outcome o;

    (void)state;
    expect_names(tensors, names);
    plan_of(&o, tensors, NULL, NULL);
    assert_int_equal(o.plan.items[1].view.offset, 16);
    assert_int_equal(o.plan.items[5].view.offset, 8);
    assert_int_equal(o.plan.items[2].out[0].shape[0], 4);
    drop(&o);
}

/* ---- groups, ties, quantization ---- */

static void grouped_transposed_convolution_is_read_group_by_group(void **state) {
    /* in 8, out 12, groups 2: [8, 6, 3] -> [12, 3, 4] */
    const struct tensor tensors[] = {{"t.weight", {8, 6, 3}, NULL, NULL}, {"t.bias", {12}, NULL, NULL}, {0}};
    const struct ck_plan_item *item;
    struct outcome o;

    (void)state;
    plan_of(&o, tensors, NULL, NULL);
    assert_int_equal(o.status, 0);
    item = item_of(&o.plan, "t.weight");
    assert_string_equal(item->rule, "conv_transpose1d");
    assert_int_equal(item->out[0].rank, 3);
    assert_int_equal(item->out[0].shape[0], 12);
    assert_int_equal(item->out[0].shape[1], 3);
    assert_int_equal(item->out[0].shape[2], 4);
    assert_int_equal(item->view.rank, 4);
    assert_memory_equal(item->view.stride, ((int64_t[]){72, 3, 1, 18}), 4 * sizeof(int64_t));
    drop(&o);
}

/* safetensors sorts by name: every norm stands before the convolutions, and what comes next is no neighbour. */
static void a_file_sorted_by_name_gives_no_neighbours_by_order(void **state) {
    const struct tensor tensors[] = {{"blocks.0._bn0.running_mean", {48}, NULL, NULL},
                                     {"blocks.0._bn1.running_mean", {48}, NULL, NULL},
                                     {"blocks.0._depthwise_conv.weight", {48, 1, 3, 3}, "conv2d", "assumed"},
                                     {"blocks.0._expand_conv.weight", {48, 8, 1, 1}, "conv2d", "assumed"},
                                     {"blocks.0._project_conv.weight", {16, 48, 1, 1}, "conv2d", "assumed"},
                                     {"down.0.conv.weight", {32, 16, 3, 3}, "conv2d", "derived"},
                                     {"down.0.norm.bias", {32}, NULL, NULL},
                                     {"down.0.norm.weight", {32}, NULL, NULL},
                                     {"enc1conv1.weight", {32, 3, 3, 3}, "conv2d", "derived"},
                                     {"enc1norm1.running_mean", {32}, NULL, NULL},
                                     {"up.0.weight", {32, 16, 2, 2}, "conv_transpose2d", "derived"},
                                     {"up.1.bias", {16}, NULL, NULL},
                                     {"up.1.weight", {16}, NULL, NULL},
                                     {0}};
    struct tensor reversed[TENSORS_MAX] = {0};

    (void)state;
    expect(tensors, 3);
    for (size_t i = 0; i + 1 < CK_ARRAY_LEN(tensors); i++)
        reversed[i] = tensors[CK_ARRAY_LEN(tensors) - 2 - i];
    expect(reversed, 3);
}

/* From an attack on the evidence: each of these was converted wrongly without a word. */
static void a_norm_word_in_the_name_of_a_convolution_makes_it_no_norm(void **state) {
    const struct tensor tensors[] = {{"conv_bn.0.weight", {32, 16, 3, 3}, "conv2d", "derived"},
                                     {"conv_bn.1.weight", {32}, NULL, NULL},
                                     {"conv_bn.1.bias", {32}, NULL, NULL},
                                     {"pred_normal_conv.weight", {3, 16, 3, 3}, "conv2d", "assumed"},
                                     {0}};

    (void)state;
    expect(tensors, 1);
}

static void a_family_of_both_kinds_decides_and_assumes_nothing(void **state) {
    const struct tensor tensors[] = {{"conv1.weight", {16, 1, 3, 3}, NULL, NULL},
                                     {"conv1.bias", {16}, NULL, NULL},
                                     {"conv2.weight", {16, 16, 3, 3}, NULL, NULL},
                                     {"conv2.bias", {16}, NULL, NULL},
                                     {"conv3.weight", {16, 16, 3, 3}, NULL, NULL},
                                     {"conv3.bias", {16}, NULL, NULL},
                                     {"conv4.weight", {16, 1, 3, 3}, NULL, NULL},
                                     {"conv4.bias", {1}, NULL, NULL},
                                     {0}};

    (void)state;
    refused(tensors, NULL, CK_E_AMBIGUOUS_LAYOUT, 2);
}

static void an_even_kernel_is_no_relative_of_an_odd_one(void **state) {
    const struct tensor tensors[] = {{"net.0.weight", {16, 3, 3, 3}, "conv2d", "derived"},
                                     {"net.0.bias", {16}, NULL, NULL},
                                     {"net.2.weight", {16, 16, 3, 3}, "conv2d", "derived"},
                                     {"net.2.bias", {16}, NULL, NULL},
                                     {"net.4.weight", {16, 16, 2, 2}, "conv_transpose2d", "derived"},
                                     {"net.4.bias", {16}, NULL, NULL},
                                     {"net.6.weight", {16, 3, 2, 2}, "conv_transpose2d", "derived"},
                                     {"net.6.bias", {3}, NULL, NULL},
                                     {0}};
    const struct tensor undecided[] = {{"net.0.weight", {16, 3, 3, 3}, NULL, NULL},
                                       {"net.0.bias", {16}, NULL, NULL},
                                       {"tu.0.weight", {64, 32, 2, 2}, NULL, NULL},
                                       {0}};

    (void)state;
    expect(tensors, 0);
    refused(undecided, NULL, CK_E_AMBIGUOUS_LAYOUT, 1);
}

static void channels_that_contradict_the_name_forbid_an_assumption(void **state) {
    const struct tensor tensors[] = {{"conv1.weight", {32, 16, 2, 2}, NULL, NULL},
                                     {"conv2.weight", {16, 1, 2, 2}, NULL, NULL},
                                     {"act.weight", {1}, NULL, NULL},
                                     {0}};

    (void)state;
    refused(tensors, NULL, CK_E_AMBIGUOUS_LAYOUT, 2);
}

static void parallel_convolutions_are_no_transposed_ones(void **state) {
    const struct tensor attention[] = {{"attn.to_q.weight", {128, 64, 1, 1}, "conv2d", "assumed"},
                                       {"attn.to_kv.weight", {256, 64, 1, 1}, "conv2d", "assumed"},
                                       {0}};
    const struct tensor pyramid[] = {{"lateral_convs.0.weight", {32, 64, 3, 3}, "conv2d", "assumed"},
                                     {"lateral_convs.1.weight", {32, 128, 3, 3}, "conv2d", "assumed"},
                                     {0}};
    const struct tensor shortcut[] = {{"l2.0.shortcut.weight", {32, 16, 1, 1}, "conv2d", NULL},
                                      {"l2.0.bn1.weight", {16}, NULL, NULL},
                                      {"l2.0.bn1.bias", {16}, NULL, NULL},
                                      {"l2.0.conv1.weight", {32, 16, 3, 3}, "conv2d", NULL},
                                      {"l2.0.bn2.weight", {32}, NULL, NULL},
                                      {"l2.0.bn2.bias", {32}, NULL, NULL},
                                      {0}};
    struct outcome o;

    (void)state;
    expect(attention, 2);
    expect(pyramid, 2);
    plan_of(&o, shortcut, NULL, NULL);
    assert_int_equal(o.status, 0);
    assert_string_equal(item_of(&o.plan, "l2.0.shortcut.weight")->rule, "conv2d");
    drop(&o);
}

static void the_norm_of_the_next_block_decides_nothing_alone(void **state) {
    const struct tensor tensors[] = {
        {"net.2.weight", {64, 32, 2, 2}, NULL, NULL}, {"net.3.bn.weight", {64}, NULL, NULL},
        {"net.3.bn.bias", {64}, NULL, NULL},          {"net.3.conv.weight", {32, 64, 3, 3}, NULL, NULL},
        {"net.3.conv.bias", {32}, NULL, NULL},        {0}};
    struct outcome o;

    (void)state;
    plan_of(&o, tensors, NULL, NULL);
    if (o.status == 0)
        assert_string_equal(ck_evidence_kind_name(item_of(&o.plan, "net.2.weight")->evidence.kind), "assumed");
    drop(&o);
}

static void what_is_open_in_a_file_of_ordinary_convolutions_is_one(void **state) {
    const struct tensor tensors[] = {{"backbone.body.conv1.weight", {64, 3, 7, 7}, "conv2d", "derived"},
                                     {"backbone.body.conv1.bias", {64}, NULL, NULL},
                                     {"backbone.fpn.layer_blocks.0.0.weight", {256, 256, 3, 3}, "conv2d", "assumed"},
                                     {"backbone.fpn.layer_blocks.0.0.bias", {256}, NULL, NULL},
                                     {0}};

    (void)state;
    expect(tensors, 1);
}

static void names_made_by_quantization_and_attention_may_not_clash(void **state) {
    const struct tensor quantized[] = {{"a.weight", {4, 64}, NULL, NULL}, {"a.scales", {4}, NULL, NULL}, {0}};
    const struct tensor split[] = {
        {"a.in_proj_weight", {24, 8}, NULL, NULL}, {"a.query_proj.weight", {8, 8}, NULL, NULL}, {0}};
    struct outcome o;

    (void)state;
    plan_of(&o, quantized, "q4", NULL);
    assert_int_equal(o.status, CK_E_NAME_CLASH);
    drop(&o);
    refused(split, NULL, CK_E_NAME_CLASH, 0);
}

static void bias_k_of_another_attention_is_a_parameter(void **state) {
    const struct tensor tensors[] = {{"self_attn.bias_v", {8, 128}, "identity", "derived"}, {0}};

    (void)state;
    expect(tensors, 0);
}

static void groups_that_no_bias_tells_come_from_the_option(void **state) {
    const struct tensor tensors[] = {{"t.weight", {8, 6, 3}, NULL, NULL}, {0}};
    struct outcome o;

    (void)state;
    plan_of(&o, tensors, NULL, (const char *[][2]){{"layers", "t:ConvTranspose1d/2"}, {NULL, NULL}});
    assert_int_equal(o.status, 0);
    assert_int_equal(o.plan.items[0].out[0].shape[0], 12);
    assert_int_equal(o.plan.items[0].out[0].shape[2], 4);
    drop(&o);
    refused(tensors, (const char *[][2]){{"layers", "t:ConvTranspose1d/3"}, {NULL, NULL}}, CK_E_BAD_RULE, 0);
    refused(tensors, (const char *[][2]){{"layers", "t:Conv1d/2"}, {NULL, NULL}}, CK_E_BAD_RULE, 0);
}

static void tied_weights_are_written_once(void **state) {
    const struct tensor tensors[] = {
        {"wte.weight", {64, 64}, NULL, NULL}, {"x.bias", {64}, NULL, NULL}, {"head.weight", {64, 64}, NULL, NULL}, {0}};
    struct ck_model *model = model_of(tensors);
    struct ck_error err = {0};
    struct ck_spec spec;
    struct ck_plan plan;

    (void)state;
    model->tensors[2].alias_of = 0;
    model->tensors[2].storage = 0;
    ck_plan_init(&plan, model, &ck_limits_default);
    assert_int_equal(ck_spec_init(&spec, "mlx", "q4", NULL), 0);
    assert_int_equal(ck_mlx_plan(&plan, &spec, &err), 0);
    assert_int_equal(plan.n_items, 2);
    assert_int_equal(plan.n_aliases, 1);
    assert_string_equal(plan.aliases[0].name, "head.weight");
    assert_string_equal(plan.aliases[0].of_name, "wte.weight");
    assert_int_equal(plan.items[0].n_out, 3);
    ck_spec_release(&spec);
    ck_plan_release(&plan);
    model_drop(model);
}

static void only_matrices_of_linear_and_embedding_are_quantized(void **state) {
    const struct tensor tensors[] = {{"fc.weight", {10, 128}, NULL, NULL}, {"fc.bias", {10}, NULL, NULL},
                                     {"wte.weight", {7, 64}, NULL, NULL},  {"odd.weight", {7, 65}, NULL, NULL},
                                     {"table", {7, 64}, NULL, NULL},       {"conv.weight", {64, 32, 1, 64}, NULL, NULL},
                                     {"conv.bias", {64}, NULL, NULL},      {0}};
    struct outcome o;

    (void)state;
    plan_of(&o, tensors, "q4", NULL);
    assert_int_equal(o.status, 0);
    assert_int_equal(item_of(&o.plan, "fc.weight")->n_out, 3);
    assert_string_equal(item_of(&o.plan, "fc.weight")->out[1].name, "fc.scales");
    assert_int_equal(item_of(&o.plan, "fc.weight")->out[0].shape[1], 16);
    assert_string_equal(item_of(&o.plan, "wte.weight")->layer, "Embedding");
    assert_int_equal(item_of(&o.plan, "wte.weight")->n_out, 3);
    assert_non_null(item_of(&o.plan, "odd.weight")->left_alone);
    assert_non_null(item_of(&o.plan, "table")->left_alone);
    assert_non_null(item_of(&o.plan, "conv.weight")->left_alone);
    assert_int_equal(o.plan.assumed, 2); /* wte, odd; fc is told by its bias */
    drop(&o);
}

static void counters_are_dropped_and_said_so(void **state) {
    const struct tensor tensors[] = {{"bn.weight", {4}, NULL, NULL}, {"bn.num_batches_tracked", {0}, NULL, NULL}, {0}};
    struct ck_model *model = model_of(tensors);
    struct ck_spec spec;
    struct ck_plan plan;

    (void)state;
    model->tensors[1].view.dtype = CK_I64;
    ck_plan_init(&plan, model, &ck_limits_default);
    assert_int_equal(ck_spec_init(&spec, "mlx", NULL, NULL), 0);
    assert_int_equal(ck_mlx_plan(&plan, &spec, NULL), 0);
    assert_int_equal(plan.n_dropped, 1);
    assert_string_equal(plan.dropped[0].why, "counter");
    ck_spec_release(&spec);
    ck_plan_release(&plan);
    model_drop(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bias_length_tells_ordinary_from_transposed),
        cmocka_unit_test(a_resnet_needs_no_answer_and_no_assumption),
        cmocka_unit_test(square_convolutions_of_a_vgg_follow_their_family),
        cmocka_unit_test(a_unet_tells_its_up_convolutions_by_their_bias),
        cmocka_unit_test(a_dcgan_generator_is_transposed_by_its_norms_and_its_family),
        cmocka_unit_test(depthwise_convolutions_have_one_layout),
        cmocka_unit_test(a_depthwise_convolution_without_norm_is_told_by_its_pointwise_one),
        cmocka_unit_test(gpt2_c_attn_tells_for_its_square_c_proj),
        cmocka_unit_test(nanogpt_c_attn_tells_that_its_c_proj_is_linear),
        cmocka_unit_test(parameters_that_are_no_layer_weight_pass_unchanged),
        cmocka_unit_test(an_autoencoder_without_biases_is_told_by_channel_flow),
        cmocka_unit_test(a_square_convolution_named_conv_is_assumed_and_counted),
        cmocka_unit_test(square_transposed_convolution_without_evidence_is_asked_about),
        cmocka_unit_test(the_questions_name_tensor_candidates_and_option),
        cmocka_unit_test(an_answer_for_one_member_answers_for_its_family),
        cmocka_unit_test(options_that_fit_nothing_or_contradict_a_shape_are_errors),
        cmocka_unit_test(layers_without_an_equal_are_refused_by_name),
        cmocka_unit_test(names_that_mlx_cannot_hold_are_mapped_without_clashes),
        cmocka_unit_test(names_are_bounded_in_components_and_clashes),
        cmocka_unit_test(a_bare_sequential_goes_under_layers),
        cmocka_unit_test(wrapper_prefixes_are_stripped),
        cmocka_unit_test(attention_is_split_into_named_projections),
        cmocka_unit_test(grouped_transposed_convolution_is_read_group_by_group),
        cmocka_unit_test(a_file_sorted_by_name_gives_no_neighbours_by_order),
        cmocka_unit_test(a_norm_word_in_the_name_of_a_convolution_makes_it_no_norm),
        cmocka_unit_test(a_family_of_both_kinds_decides_and_assumes_nothing),
        cmocka_unit_test(an_even_kernel_is_no_relative_of_an_odd_one),
        cmocka_unit_test(channels_that_contradict_the_name_forbid_an_assumption),
        cmocka_unit_test(parallel_convolutions_are_no_transposed_ones),
        cmocka_unit_test(the_norm_of_the_next_block_decides_nothing_alone),
        cmocka_unit_test(what_is_open_in_a_file_of_ordinary_convolutions_is_one),
        cmocka_unit_test(names_made_by_quantization_and_attention_may_not_clash),
        cmocka_unit_test(bias_k_of_another_attention_is_a_parameter),
        cmocka_unit_test(groups_that_no_bias_tells_come_from_the_option),
        cmocka_unit_test(tied_weights_are_written_once),
        cmocka_unit_test(only_matrices_of_linear_and_embedding_are_quantized),
        cmocka_unit_test(counters_are_dropped_and_said_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
