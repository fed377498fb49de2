/* Which part of a checkpoint is taken for the set of weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/torch_file.h"

/* What a file must give: the chosen root and the names in it, in order, joined by spaces. */
static void expect_option(const char *tree, const char *state_dict, const char *root, const char *names) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = tf_open_tree(&f, tree, state_dict);
    char joined[512] = "";

    if (o.r < 0)
        fail_msg("%s: %s", tree, o.err.message);
    for (uint32_t i = 0; i < o.model->n_tensors; i++) {
        const struct ck_tensor *tensor = &o.model->tensors[i];
        char path[256];

        snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%s%s", i > 0 ? " " : "", tensor->name);
        snprintf(path, sizeof(path), "%s%s%s", root, root[0] ? "." : "", tensor->name);
        assert_string_equal(tensor->path, path);
    }
    assert_string_equal(o.model->root_path, root);
    assert_string_equal(joined, names);
}

static void expect(const char *tree, const char *root, const char *names) {
    expect_option(tree, NULL, root, names);
}

static void expect_refusal(const char *tree, const char *state_dict, int code, const char *details) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = tf_open_tree(&f, tree, state_dict);

    assert_int_equal(o.r, code);
    assert_string_equal(o.err.details, details);
}

#define MODULE(members) "torch.nn.modules.linear.Linear{_parameters:{" members "},_buffers:{},_modules:{}}"

static void root_of_tensors_is_taken_with_its_other_entries(void **state) {
    (void)state;
    expect("{a.weight:T,a.bias:T}", "", "a.weight a.bias");
    expect("{a.weight:T,a.bias:T,epoch:3,_extra_state:N}", "", "a.weight a.bias");
    expect("{model:T,state_dict:T}", "", "model state_dict");
    expect("{one:T}", "", "one");
}

static void usual_keys_are_followed_in_their_order(void **state) {
    (void)state;
    expect("{state_dict:{a.w:T},epoch:3}", "state_dict", "a.w");
    expect("{model:{a.w:T},state_dict:{b.w:T}}", "state_dict", "b.w");
    expect("{ema:{a.w:T},model:{b.w:T}}", "model", "b.w");
    expect("{params:{a.w:T},params_ema:{b.w:T}}", "params_ema", "b.w");
    expect("{epoch:1,model_state_dict:{a.w:T},optimizer_state_dict:{state:{#0:{exp_avg:T}},param_groups:[]}}",
           "model_state_dict", "a.w");
    /* Even where loose tensors are in the majority. */
    expect("{state_dict:{a.w:T,b.w:T,c.w:T},mean:T,std:T}", "state_dict", "a.w b.w c.w");
}

/* matgl keeps constructor arguments under `model`; candle #2990 gave an empty result for such files. */
static void usual_key_without_tensors_is_passed_over(void **state) {
    (void)state;
    expect("{model:{units:3},net:{a.w:T}}", "net", "a.w");
    expect("{model:N,ema:{a.w:T}}", "ema", "a.w");
}

static void wrappers_in_wrappers_are_entered(void **state) {
    (void)state;
    expect("{model:{state_dict:{a.w:T},arch:'x'}}", "model.state_dict", "a.w");
    expect("{checkpoint:{model:{a.w:T},epoch:3}}", "checkpoint.model", "a.w");
    expect("{model:{module:{a.w:T}}}", "model.module", "a.w");
    expect("[{state_dict:{a.w:T}},5]", "0.state_dict", "a.w");
}

static void mappings_in_mappings_give_dotted_names(void **state) {
    (void)state;
    expect("{model:{language_model:{embedding:{weight:T},encoder:{layers.0.w:T}}}}", "model",
           "language_model.embedding.weight language_model.encoder.layers.0.w");
    expect("{state:{encoder:{layer_0:{weight:T}},decoder:{weight:T,bias:T}},config:{a:1}}", "state",
           "encoder.layer_0.weight decoder.weight decoder.bias");
    expect("{layer1:{weight:T,bias:T},layer2:{weight:T},fc:{weight:T}}", "",
           "layer1.weight layer1.bias layer2.weight fc.weight");
    expect("{a.w:T,b:{w:T}}", "", "a.w b.w");
}

static void lists_name_their_members_by_number(void **state) {
    (void)state;
    expect("[T,T,5]", "", "0 1");
    expect("(T,T)", "", "0 1");
    expect("{#7:T,#-1:T}", "", "7 -1");
}

static void optimizer_state_is_never_the_model(void **state) {
    (void)state;
    expect("{my_net:{a.w:T},optim_g:{state:{#0:{m:T9,v:T9,x:T9}}},lr_scheduler:{y:T20},rng_state:{z:T20}}", "my_net",
           "a.w");
    expect("[{a.w:T},{state:{#0:{m:T9,v:T9}},param_groups:[{lr:1}]}]", "0", "a.w");
    expect_refusal("{state:{#0:{m:T,v:T}},param_groups:[{lr:1}]}", NULL, CK_E_NO_TENSORS, "");
    expect_refusal("{optimizer:{state:{#0:{m:T}}},epoch:4}", NULL, CK_E_NO_TENSORS, "");
    /* Also right beside loose weights. */
    expect("{a.w:T,b.w:T,optimizer:{state:{#0:{m:T}}}}", "", "a.w b.w");
}

static void largest_set_is_taken_if_the_rest_is_small(void **state) {
    (void)state;
    expect("{my_weights:{a.w:T64},stats:{mean:T2,std:T2}}", "my_weights", "a.w");
    expect("{lr:1,step:2,best:T1,mine:{a.w:T9}}", "mine", "a.w");
}

static void equally_good_sets_are_asked_about(void **state) {
    (void)state;
    expect_refusal("{actor:{a.w:T},critic:{a.w:T2}}", NULL, CK_E_AMBIGUOUS_STATE_DICT, "[\"actor\",\"critic\"]");
    expect_refusal("[{a.w:T},{a.w:T}]", NULL, CK_E_AMBIGUOUS_STATE_DICT, "[\"0\",\"1\"]");
    expect_refusal("{encoder:{weight:T},decoder:{weight:T}}", NULL, CK_E_AMBIGUOUS_STATE_DICT,
                   "[\"encoder\",\"decoder\"]");
    expect_refusal("{generator:{w:T},discriminator:{w:T},epoch:3}", NULL, CK_E_AMBIGUOUS_STATE_DICT,
                   "[\"generator\",\"discriminator\"]");
    expect_refusal("{netG:{w:T},netD:{w:T}}", NULL, CK_E_AMBIGUOUS_STATE_DICT, "[\"netG\",\"netD\"]");
    expect_refusal("{run:{student:{a.w:T},teacher:{a.w:T}}}", NULL, CK_E_AMBIGUOUS_STATE_DICT,
                   "[\"run.student\",\"run.teacher\"]");
    expect_refusal("{G:" MODULE("weight:T") ",D:" MODULE("weight:T") "}", NULL, CK_E_AMBIGUOUS_STATE_DICT,
                   "[\"G\",\"D\"]");
}

static void part_that_stands_alone_is_the_model(void **state) {
    (void)state;
    expect("{encoder:{a.w:T},epoch:3,optimizer:{x:T9}}", "encoder", "a.w");
    expect("{generator:{a.w:T},iter:3}", "generator", "a.w");
}

static void average_of_a_twin_is_preferred(void **state) {
    (void)state;
    expect("{G:{a.w:T},D:{a.w:T},G_ema:{a.w:T}}", "G_ema", "a.w");
    expect("{generator:{a.w:T},discriminator:{a.w:T},generator_ema:{a.w:T}}", "generator_ema", "a.w");
    expect("{g:{a.w:T},d:{a.w:T},g_ema:{a.w:T}}", "g_ema", "a.w");
}

static void of_two_modules_the_average_is_taken(void **state) {
    (void)state;
    expect("{epoch:1,model:" MODULE("weight:T") ",ema:" MODULE("weight:T") "}", "ema", "weight");
    expect("{epoch:1,model:" MODULE("weight:T") "}", "model", "weight");
}

static void option_names_any_set(void **state) {
    (void)state;
    expect_option("{actor:{a.w:T},critic:{a.w:T2}}", "critic", "critic", "a.w");
    expect_option("{actor:{a.w:T},critic:{b.w:T2}}", "", "", "actor.a.w critic.b.w");
    expect_option("{actor:{a.w:T},critic:{b.w:T2}}", ".", "", "actor.a.w critic.b.w");
    expect_option("{a:{b:{c:{d:T}}},x:{e.f:T}}", "a.b", "a.b", "c.d");
    expect_option("{a.b:{c:T},x:{y:T}}", "a.b", "a.b", "c");
    expect_option("{optimizer:{m:T},w:{z:T}}", "optimizer", "optimizer", "m");
}

static void option_without_tensors_lists_what_there_is(void **state) {
    (void)state;
    expect_refusal("{actor:{a.w:T},critic:{a.w:T2}}", "policy", CK_E_STATE_DICT_NOT_FOUND,
                   "[\"\",\"actor\",\"critic\"]");
    expect_refusal("{m:" MODULE("weight:T") "}", "m.weight", CK_E_STATE_DICT_NOT_FOUND, "[\"\",\"m\"]");
    expect_refusal("T", "model", CK_E_STATE_DICT_NOT_FOUND, "");
}

static void tensors_elsewhere_are_listed_outside(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o =
        tf_open_tree(&f, "{state_dict:{a.w:T},optimizer:{state:{#3:{m:T,v:T}}},mean:T}", NULL);

    (void)state;
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_outside, 3);
    assert_string_equal(o.model->outside[0].path, "optimizer.state.3.m");
    assert_string_equal(o.model->outside[2].path, "mean");
    assert_null(o.model->outside[0].name);
    assert_string_equal(o.model->root_why, "the key state_dict");
}

static void files_without_tensors_are_refused(void **state) {
    (void)state;
    expect_refusal("{epoch:3,name:'x'}", NULL, CK_E_NO_TENSORS, "");
    expect_refusal("5", NULL, CK_E_NO_TENSORS, "");
    expect_refusal("[[],{},N]", NULL, CK_E_NO_TENSORS, "");
}

/* Python keeps the later value; a reader that keeps the earlier one would show other weights than torch loads. */
static void key_that_comes_twice_has_its_later_value(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = tf_open_tree(&f, "{w:T3,b:T2,w:T5}", NULL);
    _cleanup_(tf_release) struct torch_file g;
    _cleanup_(opened_release) struct opened p = tf_open_tree(&g, "{model:{a.w:T},model:{b.w:T},w:5,w:T}", NULL);

    (void)state;
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 2);
    assert_int_equal(tf_find(o.model, "w")->view.shape[0], 5);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE), 1);
    assert_int_equal(p.r, 0);
    assert_non_null(tf_find(p.model, "b.w"));
    assert_null(tf_find(p.model, "a.w"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_of_tensors_is_taken_with_its_other_entries),
        cmocka_unit_test(usual_keys_are_followed_in_their_order),
        cmocka_unit_test(usual_key_without_tensors_is_passed_over),
        cmocka_unit_test(wrappers_in_wrappers_are_entered),
        cmocka_unit_test(mappings_in_mappings_give_dotted_names),
        cmocka_unit_test(lists_name_their_members_by_number),
        cmocka_unit_test(optimizer_state_is_never_the_model),
        cmocka_unit_test(largest_set_is_taken_if_the_rest_is_small),
        cmocka_unit_test(equally_good_sets_are_asked_about),
        cmocka_unit_test(part_that_stands_alone_is_the_model),
        cmocka_unit_test(average_of_a_twin_is_preferred),
        cmocka_unit_test(of_two_modules_the_average_is_taken),
        cmocka_unit_test(option_names_any_set),
        cmocka_unit_test(option_without_tensors_lists_what_there_is),
        cmocka_unit_test(tensors_elsewhere_are_listed_outside),
        cmocka_unit_test(files_without_tensors_are_refused),
        cmocka_unit_test(key_that_comes_twice_has_its_later_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
