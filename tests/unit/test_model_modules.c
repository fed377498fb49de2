/* Whole modules, shared and endless values, and zips that are something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/torch_file.h"

#define TREE_AND_RESULT(tree)                                                                                          \
    _cleanup_(tf_release) struct torch_file f;                                                                         \
    _cleanup_(opened_release) struct opened o = tf_open_tree(&f, tree, NULL);                                          \
    (void)state

static void expect_names(const struct ck_model *model, const char *names) {
    char joined[512] = "";

    for (uint32_t i = 0; i < model->n_tensors; i++)
        snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%s%s", i > 0 ? " " : "",
                 model->tensors[i].name);
    assert_string_equal(joined, names);
}

static const struct ck_module *find_module(const struct ck_model *model, const char *path) {
    for (uint32_t i = 0; i < model->n_modules; i++)
        if (strcmp(model->modules[i].path, path) == 0)
            return &model->modules[i];
    return NULL;
}

/* torch: a module's parameters, then its buffers, then its children; None is left out. */
static void names_are_those_of_state_dict_in_its_order(void **state) {
    TREE_AND_RESULT("user.Net{training:1,_modules:{conv:user.C{_parameters:{weight:T,bias:N},_buffers:{},_modules:{}},"
                    "drop:N},_buffers:{step:T1,none:N},_parameters:{scale:T2}}");

    assert_int_equal(o.r, 0);
    expect_names(o.model, "scale step conv.weight");
    assert_true(o.model->tensors[0].parameter);
    assert_false(o.model->tensors[1].parameter);
    assert_int_equal(o.model->tensors[0].module, 0);
    assert_int_equal(o.model->tensors[2].module, 1);
    assert_int_equal(o.model->n_modules, 2);
    assert_string_equal(o.model->modules[0].path, "");
    assert_string_equal(o.model->modules[0].class_, "user.Net");
    assert_int_equal(o.model->modules[0].parent, CK_NO_INDEX);
    assert_string_equal(o.model->modules[1].path, "conv");
    assert_string_equal(o.model->modules[1].class_, "user.C");
    assert_int_equal(o.model->modules[1].parent, 0);
    assert_string_equal(o.model->root_why, "the root is a module");
}

static void module_under_a_key_has_paths_from_there(void **state) {
    TREE_AND_RESULT(
        "{epoch:3,model:a.Net{_parameters:{},_buffers:{},_modules:{fc:b.Linear{_parameters:{weight:T},_modules:"
        "{}}}}}");

    assert_int_equal(o.r, 0);
    expect_names(o.model, "fc.weight");
    assert_string_equal(o.model->tensors[0].path, "model.fc.weight");
    assert_non_null(find_module(o.model, "fc"));
    assert_string_equal(o.model->root_path, "model");
}

static void non_persistent_buffers_are_marked(void **state) {
    TREE_AND_RESULT("a.Net{_parameters:{},_buffers:{mask:T,mean:T2},_modules:{},_non_persistent_buffers_set:['mask']}");

    assert_int_equal(o.r, 0);
    assert_false(tf_find(o.model, "mask")->persistent);
    assert_true(tf_find(o.model, "mean")->persistent);
}

static void plain_attributes_are_kept_and_others_not(void **state) {
    const struct ck_attribute *attribute;
    TREE_AND_RESULT(
        "a.Conv{kernel_size:(3,5),padding:'same',groups:2,bias:N,hooks:{a:1},mixed:(1,'x'),kernel_size:(7,5),"
        "_parameters:{w:T},_buffers:{},_modules:{}}");

    assert_int_equal(o.r, 0);
    attribute = ck_module_attribute(&o.model->modules[0], "kernel_size");
    assert_int_equal(attribute->kind, CK_ATTRIBUTE_INTS);
    assert_int_equal(attribute->ints.count, 2);
    assert_int_equal(attribute->ints.items[0], 7);
    assert_string_equal(ck_module_attribute(&o.model->modules[0], "padding")->text, "same");
    assert_int_equal(ck_module_attribute(&o.model->modules[0], "groups")->integer, 2);
    assert_int_equal(ck_module_attribute(&o.model->modules[0], "bias")->kind, CK_ATTRIBUTE_NONE);
    assert_null(ck_module_attribute(&o.model->modules[0], "hooks"));
    assert_null(ck_module_attribute(&o.model->modules[0], "mixed"));
    assert_null(ck_module_attribute(&o.model->modules[0], "absent"));
}

static void shared_submodule_has_both_its_names(void **state) {
    TREE_AND_RESULT(
        "a.Net{_parameters:{},_buffers:{},_modules:{x:=1 a.L{_parameters:{w:T},_buffers:{},_modules:{}},y:@1}}");

    assert_int_equal(o.r, 0);
    expect_names(o.model, "x.w y.w");
    assert_int_equal(o.model->tensors[0].alias_of, CK_NO_INDEX);
    assert_int_equal(o.model->tensors[1].alias_of, 0);
    assert_int_equal(o.model->n_modules, 3);
    assert_int_equal(o.model->tensors[1].module, 2);
}

/* An LSTM lists its weights a second time in _flat_weights. */
static void tensors_in_attributes_are_no_part_of_the_state_dict(void **state) {
    TREE_AND_RESULT("a.Net{_flat_weights:[=1 T,T3],_parameters:{w:@1},_buffers:{},_modules:{}}");

    assert_int_equal(o.r, 0);
    expect_names(o.model, "w");
    assert_int_equal(o.model->n_outside, 1);
    assert_string_equal(o.model->outside[0].path, "_flat_weights.1");
}

/* Quantized modules have a tuple where others have a dict. */
static void tuple_as_state_gives_positions_as_names(void **state) {
    TREE_AND_RESULT("a.Net{_parameters:{},_buffers:{},_modules:{q:torch.nn.quantized.Conv2d(3,8,T9,T)}}");

    (void)o;
    assert_int_equal(o.r, 0);
    expect_names(o.model, "q.2 q.3");
}

/* Two submodules, each held twice by the one above, twenty times over: a million names, refused in time. */
static void exponential_sharing_ends_at_a_limit(void **state) {
    char tree[8192] = "";
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};
    struct ck_limits limits = ck_limits_default;

    (void)state;
    limits.tensors = 10000;
    snprintf(tree, sizeof(tree), "{model:");
    for (int i = 0; i < 40; i++)
        snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), "{a:=%d ", i);
    snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), "{w:T}");
    for (int i = 39; i >= 0; i--)
        snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), ",b:@%d}", i);
    snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), "}");
    tf_init(&f);
    tf_tree(&f, tree);
    o = tf_open_with(&f, &limits, NULL);
    assert_int_equal(o.r, CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-tensors"));
}

static void exponential_sharing_without_tensors_costs_nothing(void **state) {
    char tree[8192] = "";
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    snprintf(tree, sizeof(tree), "{w:T,lol:");
    for (int i = 0; i < 60; i++)
        snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), "[=%d ", i);
    snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), "[5]");
    for (int i = 59; i >= 0; i--)
        snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), ",@%d,@%d]", i, i);
    snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), "}");
    o = tf_open_tree(&f, tree, NULL);
    assert_int_equal(o.r, 0);
    expect_names(o.model, "w");
}

static void steps_are_bounded(void **state) {
    struct ck_limits limits = ck_limits_default;
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tf_init(&f);
    tf_op(&f, "]");
    tf_put(&f, 0);
    tf_op(&f, "(");
    for (int i = 0; i < 2000; i++)
        tf_op(&f, "N");
    /* A list of 2000 that holds tensors, met by 2000 names. */
    tf_vector(&f, "0", 1);
    tf_op(&f, "e}(");
    for (int i = 0; i < 100; i++) {
        tf_int(&f, i);
        tf_get(&f, 0);
    }
    tf_op(&f, "u");
    limits.pickle_opcodes = 100000;
    o = tf_open_with(&f, &limits, NULL);
    assert_int_equal(o.r, CK_E_PICKLE_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-pickle-opcodes"));
}

static void cycles_are_cut(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tf_init(&f);
    tf_op(&f, "}");
    tf_put(&f, 0);
    tf_op(&f, "(");
    tf_text(&f, "self");
    tf_get(&f, 0);
    tf_text(&f, "w");
    tf_vector(&f, "0", 1);
    tf_text(&f, "list");
    tf_op(&f, "](");
    tf_get(&f, 0);
    tf_vector(&f, "0", 1);
    tf_op(&f, "eu");
    tf_record(&f, "0", "\0\0\0", 4);
    o = tf_open_with(&f, &ck_limits_default, ".");
    assert_int_equal(o.r, 0);
    expect_names(o.model, "w list.1");
}

static void nesting_at_the_limit_is_looked_into_and_one_more_is_noted(void **state) {
    struct ck_limits limits = ck_limits_default;

    (void)state;
    limits.pickle_depth = 50;
    for (int depth = 50; depth <= 51; depth++) {
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(opened_release) struct opened o = {0};

        tf_init(&f);
        for (int i = 0; i < depth; i++)
            tf_op(&f, "](");
        tf_vector(&f, "0", 1);
        for (int i = 0; i < depth; i++)
            tf_op(&f, "e");
        tf_record(&f, "0", "\0\0\0", 4);
        o = tf_open_with(&f, &limits, ".");
        assert_int_equal(o.r, depth == 50 ? 0 : CK_E_NO_TENSORS);
        assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE), depth == 50 ? 0 : 1);
    }
}

static void deep_nesting_is_no_recursion(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tf_init(&f);
    tf_op(&f, "}");
    tf_text(&f, "w");
    tf_vector(&f, "0", 1);
    tf_op(&f, "s");
    tf_text(&f, "deep");
    tf_op(&f, "]");
    for (int i = 0; i < 10000; i++)
        tf_op(&f, "\x85");
    tf_op(&f, "s");
    tf_record(&f, "0", "\0\0\0", 4);
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    expect_names(o.model, "w");
}

/* An fx graph: every node points at its neighbours and at the module. */
static void object_graphs_are_walked_once(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tf_init(&f);
    for (uint8_t i = 0; i < 100; i++) {
        tf_global(&f, "torch.fx.node", "Node");
        tf_op(&f, ")\x81");
        tf_put(&f, i);
        tf_op(&f, "0");
    }
    for (uint8_t i = 0; i < 100; i++) {
        tf_get(&f, i);
        tf_op(&f, "}(");
        for (uint8_t k = 0; k < 100; k++) {
            tf_int(&f, k);
            tf_get(&f, k);
        }
        tf_text(&f, "t");
        tf_vector(&f, "0", 1);
        tf_op(&f, "ub0");
    }
    tf_op(&f, "}(");
    tf_text(&f, "graph");
    tf_get(&f, 0);
    tf_text(&f, "state_dict");
    tf_tree(&f, "{w:T1}");
    tf_op(&f, "u");
    tf_record(&f, "0", "\0\0\0", 4);
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    expect_names(o.model, "w");
    assert_int_equal(o.model->n_outside, 100);
}

static void keys_of_every_type_are_printed(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tf_init(&f);
    tf_op(&f, "}(");
    tf_op(&f, "N");
    tf_vector(&f, "0", 1);
    tf_float(&f, 1.5);
    tf_vector(&f, "0", 1);
    tf_tree(&f, "(1,'a')");
    tf_vector(&f, "0", 1);
    tf_global(&f, "user", "Key");
    tf_vector(&f, "0", 1);
    tf_text_n(&f, "a\0b", 3);
    tf_vector(&f, "0", 1);
    tf_int(&f, 140679179748048);
    tf_vector(&f, "0", 1);
    tf_op(&f, "u");
    tf_record(&f, "0", "\0\0\0", 4);
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    expect_names(o.model, "None 1.5 (1, 'a') user.Key a\\x00b 140679179748048");
}

static void expect_form(const char *entry, const char *pickle_name, int code, const char *part) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    tf_init(&f);
    tf_tree(&f, "{w:T1}");
    f.pickle_name = pickle_name;
    tf_record(&f, "0", "\0\0\0", 4);
    if (entry)
        tf_add_entry(&f, entry, "x", 1, false);
    o = tf_open(&f);
    assert_int_equal(o.r, code);
    if (!strstr(o.err.message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, o.err.message);
    assert_true(code != CK_E_UNSUPPORTED_FORM || o.err.hint[0]);
}

static void other_zips_are_named(void **state) {
    (void)state;
    expect_form("archive/attributes.pkl", "archive/data.pkl", CK_E_UNSUPPORTED_FORM, "torch 1.0 to 1.2");
    expect_form("archive/tensors/0", NULL, CK_E_UNSUPPORTED_FORM, "torch 1.0 to 1.2");
    expect_form("archive/archive_format", NULL, CK_E_NO_TENSORS, "exported program");
    expect_form("_stable_baselines3_version", NULL, CK_E_UNSUPPORTED_FORM, "holds no checkpoint");
    expect_form("MAR-INF/MANIFEST.json", NULL, CK_E_UNSUPPORTED_FORM, "holds no checkpoint");
    expect_form("x.npy", NULL, 0, "");
    expect_form("run/best.pth", NULL, CK_E_NOT_A_CHECKPOINT, "in run/best.pth: ");
    expect_form("archive/version", NULL, CK_E_UNSUPPORTED_FORM, "half-way");
}

/* torch.save(quantize_dynamic(model)): weights in the state of a C++ object, under the name of the attribute. */
static void packed_params_are_part_of_the_state_dict(void **state) {
    TREE_AND_RESULT("q.M{_parameters:{},_buffers:{},_modules:{fc:q.P{_parameters:{},_buffers:{},_modules:{},dtype:N,"
                    "_packed_params:torch.ScriptObject((T4,T2),'__torch__.P')}}}");

    assert_int_equal(o.r, 0);
    expect_names(o.model, "fc._packed_params.0 fc._packed_params.1");
    assert_int_equal(o.model->tensors[0].view.shape[0], 4);
    assert_int_equal(o.model->tensors[1].view.shape[0], 2);
    assert_int_equal(o.model->n_outside, 0);
}

/* No (value, class name): an attribute like any other. */
static void other_states_of_such_objects_are_attributes(void **state) {
    TREE_AND_RESULT("q.M{_parameters:{w:T},_buffers:{},_modules:{},_packed_params:torch.ScriptObject((T4,T2))}");

    assert_int_equal(o.r, 0);
    expect_names(o.model, "w");
    assert_int_equal(o.model->n_outside, 2);
}

static void two_pickles_are_two_readings(void **state) {
    (void)state;
    expect_form("other/data.pkl", "archive/data.pkl", CK_E_ARCHIVE_UNSAFE, "two pickles");
}

static void prefix_may_be_anything(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};
    _cleanup_(tf_release) struct torch_file g;
    _cleanup_(opened_release) struct opened p = {0};

    (void)state;
    tf_init(&f);
    tf_tree(&f, "{w:T1}");
    f.pickle_name = "data.pkl";
    tf_add_entry(&f, "data/0", "\0\0\0", 4, false);
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->tensors[0].error, 0);
    tf_init(&g);
    tf_tree(&g, "{w:T1}");
    g.pickle_name = "a b/c.d:e/DATA.PKL";
    tf_add_entry(&g, "a b/c.d:e/data/0", "\0\0\0", 4, false);
    p = tf_open(&g);
    assert_int_equal(p.r, 0);
    assert_int_equal(p.model->tensors[0].error, 0);
    assert_int_equal(ck_findings_count(&p.model->findings, CK_FINDING_STRUCTURE), 1);
}

/* Nothing is called: a pickle that would run a command is read like any other, and reported. */
static void dangerous_globals_are_reported_and_not_run(void **state) {
    TREE_AND_RESULT("{w:T,evil:os.system{}}");

    assert_int_equal(o.r, 0);
    expect_names(o.model, "w");
    assert_true(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS) > 0);
}

static void pickle_that_nothing_refers_to_is_reported(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tf_init(&f);
    tf_tree(&f, "{w:T1}");
    tf_record(&f, "0", "\0\0\0", 4);
    tf_record(&f, "1",
              "\x80\x02"
              "cos\nsystem\nX\2\0\0\0ls\x85R.",
              23);
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE), 1);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS), 1);
}

static void findings_survive_a_broken_pickle(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tf_init(&f);
    tf_global(&f, "os", "system");
    tf_op(&f, "\xff");
    o = tf_open(&f);
    assert_int_equal(o.r, CK_E_PICKLE_CORRUPT);
    assert_non_null(o.model);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_state_dict_in_its_order),
        cmocka_unit_test(module_under_a_key_has_paths_from_there),
        cmocka_unit_test(non_persistent_buffers_are_marked),
        cmocka_unit_test(plain_attributes_are_kept_and_others_not),
        cmocka_unit_test(shared_submodule_has_both_its_names),
        cmocka_unit_test(tensors_in_attributes_are_no_part_of_the_state_dict),
        cmocka_unit_test(tuple_as_state_gives_positions_as_names),
        cmocka_unit_test(exponential_sharing_ends_at_a_limit),
        cmocka_unit_test(exponential_sharing_without_tensors_costs_nothing),
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(cycles_are_cut),
        cmocka_unit_test(nesting_at_the_limit_is_looked_into_and_one_more_is_noted),
        cmocka_unit_test(deep_nesting_is_no_recursion),
        cmocka_unit_test(object_graphs_are_walked_once),
        cmocka_unit_test(keys_of_every_type_are_printed),
        cmocka_unit_test(other_zips_are_named),
        cmocka_unit_test(packed_params_are_part_of_the_state_dict),
        cmocka_unit_test(other_states_of_such_objects_are_attributes),
        cmocka_unit_test(two_pickles_are_two_readings),
        cmocka_unit_test(prefix_may_be_anything),
        cmocka_unit_test(dangerous_globals_are_reported_and_not_run),
        cmocka_unit_test(pickle_that_nothing_refers_to_is_reported),
        cmocka_unit_test(findings_survive_a_broken_pickle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
