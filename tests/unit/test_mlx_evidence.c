/* What the layers of a state dict are taken for, and on what evidence. Each case is a small model as its author would
 * name it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "state_dict.h"

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

static void bias_k_of_another_attention_is_a_parameter(void **state) {
    const struct tensor tensors[] = {{"self_attn.bias_v", {8, 128}, "identity", "derived"}, {0}};

    (void)state;
    expect(tensors, 0);
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
        cmocka_unit_test(a_file_sorted_by_name_gives_no_neighbours_by_order),
        cmocka_unit_test(a_norm_word_in_the_name_of_a_convolution_makes_it_no_norm),
        cmocka_unit_test(a_family_of_both_kinds_decides_and_assumes_nothing),
        cmocka_unit_test(an_even_kernel_is_no_relative_of_an_odd_one),
        cmocka_unit_test(channels_that_contradict_the_name_forbid_an_assumption),
        cmocka_unit_test(parallel_convolutions_are_no_transposed_ones),
        cmocka_unit_test(the_norm_of_the_next_block_decides_nothing_alone),
        cmocka_unit_test(what_is_open_in_a_file_of_ordinary_convolutions_is_one),
        cmocka_unit_test(bias_k_of_another_attention_is_a_parameter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
