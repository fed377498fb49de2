/* Exported programs (.pt2) of every generation, and torch.package: where the weights lie and what they are called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include "torch_file.h"

#define META(dtype, sizes, strides, offset)                                                                            \
    "{\"dtype\":" dtype ",\"sizes\":[" sizes "],\"strides\":[" strides "],\"storage_offset\":{\"as_int\":" offset      \
    "},\"layout\":7,\"requires_grad\":true,\"device\":{\"type\":\"cpu\",\"index\":null}}"
#define N(n) "{\"as_int\":" n "}"
#define WEIGHT(name, path, meta)                                                                                       \
    "\"" name "\":{\"path_name\":\"" path "\",\"is_param\":true,\"use_pickle\":false,\"tensor_meta\":" meta "}"

static void begin(struct torch_file *f) {
    tf_init(f);
    f->pickle_name = NULL;
    tf_add_entry(f, "p/archive_format", "pt2", 3, false);
    tf_add_entry(f, "p/models/model.json", "{}", 2, false);
}

static void add_text(struct torch_file *f, const char *name, const char *text) {
    tf_add_entry(f, name, text, strlen(text), false);
}

static void add_floats(struct torch_file *f, const char *name, unsigned n) {
    float values[64];

    for (unsigned i = 0; i < n; i++)
        values[i] = (float)i;
    tf_add_entry(f, name, values, n * sizeof(*values), false);
}

#define CONFIG "p/data/weights/model_weights_config.json"

static void expect_names(const struct opened *o, const char *names) {
    char text[512] = "";

    if (o->r < 0)
        fail_msg("%s", o->err.message);
    for (uint32_t i = 0; i < o->model->n_tensors; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? " " : "", o->model->tensors[i].name);
    assert_string_equal(text, names);
}

static float value_at(const struct ck_model *model, const struct ck_tensor *tensor) {
    float value;

    assert_int_equal(tensor->error, 0);
    assert_int_equal(ck_source_read(&model->storages[tensor->storage].source, tensor->view.offset * 4, &value, 4, NULL),
                     0);
    return value;
}

/* ---- raw storages ---- */

static void views_and_ties_of_raw_storages_are_kept(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    begin(&f);
    add_floats(&f, "p/data/weights/weight_0", 10);
    add_text(&f, CONFIG,
             "{\"config\":{" WEIGHT("a.weight", "weight_0", META("7", N("3"), N("1"), "2")) "," WEIGHT(
                 "b", "weight_0", META("7", N("2") "," N("3"), N("1") "," N("2"), "4")) "," //
             WEIGHT("tied", "weight_0", META("7", N("3"), N("1"), "2")) "," WEIGHT("scalar", "weight_0",
                                                                                   META("7", "", "", "0")) "}}");
    o = tf_open(&f);
    expect_names(&o, "a.weight b tied scalar");
    assert_string_equal(o.model->form, "pt2");
    assert_int_equal(o.model->n_storages, 1);
    assert_true(value_at(o.model, &o.model->tensors[0]) == 2);
    assert_int_equal(o.model->tensors[1].view.stride[1], 2);
    assert_true(value_at(o.model, &o.model->tensors[1]) == 4);
    assert_int_equal(o.model->tensors[2].alias_of, 0);
    assert_int_equal(o.model->tensors[3].view.rank, 0);
    assert_true(o.model->tensors[0].parameter && o.model->tensors[0].persistent);
}

static void constants_are_no_part_of_the_state_dict_unless_alone(void **state) {
    static const char constants[] = "{\"config\":{" WEIGHT("c", "tensor_0", META("7", N("2"), N("1"), "0")) "}}";

    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(opened_release) struct opened o = {0};

        begin(&f);
        add_floats(&f, "p/data/weights/weight_0", 2);
        add_floats(&f, "p/data/constants/tensor_0", 2);
        add_text(&f, CONFIG,
                 alone ? "{\"config\":{}}"
                       : "{\"config\":{" WEIGHT("w", "weight_0", META("7", N("2"), N("1"), "0")) "}}");
        add_text(&f, "p/data/constants/model_constants_config.json", constants);
        o = tf_open(&f);
        expect_names(&o, alone ? "c" : "w c");
        assert_int_equal(o.model->tensors[o.model->n_tensors - 1].persistent, alone);
    }
}

static void expect_fault(const char *config, int code, const char *part) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    begin(&f);
    add_floats(&f, "p/data/weights/weight_0", 2);
    add_text(&f, CONFIG, config);
    o = tf_open(&f);
    if (o.r < 0)
        fail_msg("%s", o.err.message);
    assert_int_equal(o.model->tensors[0].error, code);
    if (!strstr(o.model->tensors[0].error_message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, o.model->tensors[0].error_message);
}

static void what_is_wrong_with_one_tensor_is_its_own_fault(void **state) {
    (void)state;
    expect_fault("{\"config\":{" WEIGHT("w", "weight_1", META("7", N("2"), N("1"), "0")) "}}",
                 CK_E_TENSOR_OUT_OF_BOUNDS, "weight_1 is missing");
    expect_fault("{\"config\":{" WEIGHT("w", "weight_0", META("7", N("2"), N("1"), "1")) "}}",
                 CK_E_TENSOR_OUT_OF_BOUNDS, "which has 8");
    expect_fault("{\"config\":{" WEIGHT("w", "weight_0", META("99", N("2"), N("1"), "0")) "}}", CK_E_UNSUPPORTED_DTYPE,
                 "99");
    expect_fault("{\"config\":{" WEIGHT("w", "weight_0", META("7", N("2"), "", "0")) "}}", CK_E_UNSUPPORTED_TENSOR,
                 "differ in length");
    expect_fault("{\"config\":{" WEIGHT("w", "weight_0", META("7", "{\"as_expr\":{}}", N("1"), "0")) "}}",
                 CK_E_UNSUPPORTED_TENSOR, "not an integer");
    expect_fault("{\"config\":{" WEIGHT("w", "weight_0", META("7", N("-1"), N("1"), "0")) "}}", CK_E_UNSUPPORTED_TENSOR,
                 "natural number");
    expect_fault("{\"config\":{" WEIGHT("w", "weight_0", "null") "}}", CK_E_UNSUPPORTED_TENSOR, "tensor_meta");
    expect_fault("{\"config\":{" WEIGHT("w", "weight_0",
                                        "{\"dtype\":7,\"layout\":1,\"sizes\":[],\"strides\":[],\"storage_offset\":"
                                        "{\"as_int\":0}}") "}}",
                 CK_E_UNSUPPORTED_TENSOR, "sparse COO");
}

static void expect_error(const char *config, int code, const char *part) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    begin(&f);
    add_floats(&f, "p/data/weights/weight_0", 2);
    add_text(&f, CONFIG, config);
    o = tf_open(&f);
    assert_int_equal(o.r, code);
    if (!strstr(o.err.message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, o.err.message);
}

static void a_malformed_configuration_is_refused_with_its_place(void **state) {
    static const char good[] = "{\"config\":{" WEIGHT("w", "weight_0", META("7", N("2"), N("1"), "0")) "}}";
    char cut[sizeof(good)];

    (void)state;
    expect_error("[]", CK_E_ARCHIVE_CORRUPT, "byte 0");
    expect_error("{\"config\":[]}", CK_E_ARCHIVE_CORRUPT, "an object is expected");
    expect_error("{\"config\":{\"w\":{}}}", CK_E_ARCHIVE_CORRUPT, "no path_name");
    expect_error("{\"config\":{\"w\":{\"path_name\":3}}}", CK_E_ARCHIVE_CORRUPT, "a string is expected");
    expect_error("{\"config\":{\"w\":{\"path_name\":\"a\\u0000b\"}}}", CK_E_ARCHIVE_CORRUPT, "zero byte");
    expect_error("{\"config\":{" WEIGHT("w", "weight_0", "null") "," WEIGHT("w", "weight_0", "null") "}}",
                 CK_E_ARCHIVE_UNSAFE, "twice");
    expect_error("{\"config\":{}} x", CK_E_ARCHIVE_CORRUPT, "");
    for (size_t n = 0; n < sizeof(good) - 1; n++) {
        snprintf(cut, sizeof(cut), "%.*s", (int)n, good);
        expect_error(cut, CK_E_ARCHIVE_CORRUPT, "");
    }
}

static void dimensions_are_limited(void **state) {
    char text[4096], sizes[2048] = "";

    (void)state;
    for (int n = 0; n < 65; n++)
        snprintf(sizes + strlen(sizes), sizeof(sizes) - strlen(sizes), "%s{\"as_int\":1}", n > 0 ? "," : "");
    snprintf(text, sizeof(text),
             "{\"config\":{\"w\":{\"path_name\":\"weight_0\",\"tensor_meta\":{\"dtype\":7,\"sizes\":[%s],"
             "\"strides\":[],\"storage_offset\":{\"as_int\":0}}}}}",
             sizes);
    expect_error(text, CK_E_TENSOR_LIMIT, "--limit-dims");
}

static void a_program_without_weights_says_so(void **state) {
    (void)state;
    expect_error("{\"config\":{}}", CK_E_NO_TENSORS, "exported program");
}

static void several_programs_are_asked_about(void **state) {
    static const char *const wanted[] = {NULL, "b", "c"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(opened_release) struct opened o = {0};

        begin(&f);
        add_text(&f, "p/models/b.json", "{}");
        add_floats(&f, "p/data/weights/weight_0", 2);
        add_text(&f, CONFIG, "{\"config\":{" WEIGHT("w", "weight_0", META("7", N("2"), N("1"), "0")) "}}");
        add_text(&f, "p/data/weights/b_weights_config.json",
                 "{\"config\":{" WEIGHT("v", "weight_0", META("7", N("1"), N("1"), "1")) "}}");
        o = tf_open_with(&f, &ck_limits_default, wanted[i]);
        if (i == 1) {
            expect_names(&o, "v");
            continue;
        }
        assert_int_equal(o.r, i == 0 ? CK_E_AMBIGUOUS_STATE_DICT : CK_E_STATE_DICT_NOT_FOUND);
        assert_string_equal(o.err.details, "[\"model\",\"b\"]");
    }
}

static void machine_code_is_reported(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    begin(&f);
    add_text(&f, "p/data/aotinductor/model/x.so", "\177ELF");
    o = tf_open(&f);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS), 1);
}

/* ---- torch.save zips inside ---- */

/* What torch.save writes of `tree`; its storage "0" has 64 float32. */
static void add_saved(struct torch_file *f, const char *name, const char *tree) {
    struct torch_file inner;
    struct ck_source bytes;

    tf_init(&inner);
    tf_tree(&inner, tree);
    add_floats(&inner, "archive/data/0", 64);
    bytes = tf_finish(&inner);
    tf_add_entry(f, name, bytes.memory, (size_t)bytes.length, false);
    tf_release(&inner);
}

static void older_programs_hold_torch_zips_under_any_name(void **state) {
    static const char *const weights[] = {"serialized_state_dict.json", "serialized_state_dict.pt",
                                          "p/data/weights/model.pt"},
                             *const constants[] = {"serialized_constants.json", "serialized_constants.pt",
                                                   "p/data/constants/model.pt"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(opened_release) struct opened o = {0};

        tf_init(&f);
        f.pickle_name = NULL;
        add_text(&f, i < 2 ? "serialized_exported_program.json" : "p/archive_format", "{}");
        add_saved(&f, weights[i], "{model.weight:T,optimizer.x:T9}");
        add_saved(&f, constants[i], "{lifted:T2}");
        o = tf_open(&f);
        expect_names(&o, "model.weight optimizer.x lifted");
        assert_true(o.model->tensors[0].persistent && !o.model->tensors[2].persistent);
        assert_true(value_at(o.model, &o.model->tensors[2]) == 0);
        assert_int_equal(o.model->n_storages, 2);
    }
}

static void a_pickled_payload_is_one_tensor_or_none(void **state) {
    static const struct {
        const char *tree, *names;
        int error;
    } rows[] = {{"T", "w k", 0}, {"{a:T}", "w k", CK_E_UNSUPPORTED_TENSOR}, {"'object'", "w", 0}};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++) {
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(opened_release) struct opened o = {0};

        begin(&f);
        add_floats(&f, "p/data/weights/weight_0", 2);
        add_saved(&f, "p/data/weights/weight_1", rows[i].tree);
        add_text(&f, CONFIG,
                 "{\"config\":{" WEIGHT(
                     "w", "weight_0",
                     META("7", N("2"), N("1"),
                          "0")) ",\"k\":{\"path_name\":"
                                "\"weight_1\",\"use_pickle\":true,\"is_param\":false,\"tensor_meta\":null}}}");
        o = tf_open(&f);
        expect_names(&o, rows[i].names);
        if (o.model->n_tensors == 2)
            assert_int_equal(o.model->tensors[1].error, rows[i].error);
        else
            assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE), 1);
    }
}

static void archives_inside_are_counted(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};
    struct ck_limits limits = ck_limits_default;

    (void)state;
    limits.nesting = 0;
    tf_init(&f);
    f.pickle_name = NULL;
    add_text(&f, "serialized_exported_program.json", "{}");
    add_saved(&f, "serialized_state_dict.pt", "{w:T}");
    o = tf_open_with(&f, &limits, NULL);
    assert_int_equal(o.r, CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-nesting"));
}

/* ---- torch.package ---- */

static void package_begin(struct torch_file *f, const char *name, const char *tree) {
    tf_init(f);
    tf_tree(f, tree);
    f->pickle_name = name;
    add_text(f, "p/.data/extern_modules", "torch.nn\n");
    add_floats(f, "p/.data/0.storage", 64);
}

static void add_pickle(struct torch_file *f, const char *name, const char *tree) {
    struct torch_file other;

    tf_init(&other);
    tf_tree(&other, tree);
    tf_op(&other, ".");
    tf_add_entry(f, name, other.pickle.data, other.pickle.length, false);
    tf_release(&other);
}

static void the_one_pickle_with_tensors_is_taken_from_a_package(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    package_begin(&f, "p/model/model.pkl", "{state_dict:{w:T}}");
    add_pickle(&f, "p/model/config.pkl", "{a:5}");
    add_text(&f, "p/model/notes.pkl", "no pickle");
    o = tf_open(&f);
    expect_names(&o, "w");
    assert_string_equal(o.model->form, "torch-package");
    assert_string_equal(o.model->member, "model/model.pkl");
    assert_true(value_at(o.model, &o.model->tensors[0]) == 0);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE), 1);
}

static void several_pickles_with_tensors_are_asked_about(void **state) {
    static const char *const wanted[] = {NULL, "b.pkl", "a.pkl:x", "c.pkl"}, *const names[] = {NULL, "v", "w", NULL};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(wanted); i++) {
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(opened_release) struct opened o = {0};

        package_begin(&f, "p/a.pkl", "{x:{w:T},y:{z:T}}");
        add_pickle(&f, "p/b.pkl", "{v:T}");
        o = tf_open_with(&f, &ck_limits_default, wanted[i]);
        if (names[i]) {
            expect_names(&o, names[i]);
            continue;
        }
        assert_int_equal(o.r, wanted[i] ? CK_E_STATE_DICT_NOT_FOUND : CK_E_AMBIGUOUS_STATE_DICT);
        assert_string_equal(o.err.details, "[\"b.pkl\",\"a.pkl\"]");
    }
}

static void a_script_module_in_a_package_is_read_with_its_code(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    package_begin(&f, "p/.data/ts_code/0/data.pkl", "__torch__.Net{training:N,w:T}");
    add_pickle(&f, "p/.data/ts_code/0/constants.pkl", "()");
    add_text(&f, "p/.data/ts_code/code/__torch__.py",
             "class Net(Module):\n  __parameters__ = [\"w\", ]\n"
             "  n : Final[int] = 3\n");
    o = tf_open(&f);
    expect_names(&o, "w");
    assert_true(o.model->tensors[0].parameter);
    assert_int_equal(ck_module_attribute(&o.model->modules[0], "n")->integer, 3);
}

static void a_graph_module_in_a_package_is_a_module(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tf_init(&f);
    tf_op(&f, "(");
    tf_text(&f, "reduce_package");
    tf_int(&f, 12345);
    tf_global(&f, "torch.fx.graph_module", "reduce_package_graph_module");
    tf_tree(&f, "({_parameters:{w:T},_buffers:{},_modules:{}},'name')");
    tf_op(&f, "tQ");
    f.pickle_name = "p/m.pkl";
    add_text(&f, "p/.data/extern_modules", "");
    add_floats(&f, "p/.data/0.storage", 64);
    o = tf_open(&f);
    expect_names(&o, "w");
    assert_true(o.model->tensors[0].parameter);
    assert_string_equal(o.model->modules[0].class_, "torch.fx.graph_module.GraphModule");
}

static void a_package_without_tensors_says_so(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    package_begin(&f, "p/a.pkl", "{x:5}");
    o = tf_open(&f);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_and_ties_of_raw_storages_are_kept),
        cmocka_unit_test(constants_are_no_part_of_the_state_dict_unless_alone),
        cmocka_unit_test(what_is_wrong_with_one_tensor_is_its_own_fault),
        cmocka_unit_test(a_malformed_configuration_is_refused_with_its_place),
        cmocka_unit_test(dimensions_are_limited),
        cmocka_unit_test(a_program_without_weights_says_so),
        cmocka_unit_test(several_programs_are_asked_about),
        cmocka_unit_test(machine_code_is_reported),
        cmocka_unit_test(older_programs_hold_torch_zips_under_any_name),
        cmocka_unit_test(a_pickled_payload_is_one_tensor_or_none),
        cmocka_unit_test(archives_inside_are_counted),
        cmocka_unit_test(the_one_pickle_with_tensors_is_taken_from_a_package),
        cmocka_unit_test(several_pickles_with_tensors_are_asked_about),
        cmocka_unit_test(a_script_module_in_a_package_is_read_with_its_code),
        cmocka_unit_test(a_graph_module_in_a_package_is_a_module),
        cmocka_unit_test(a_package_without_tensors_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
