/* TorchScript archives: names, roles, hyperparameters, constants, and what a hostile one may not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/mman.h>

#include "core/model/torchscript_code.h"
#include "torch_file.h"

#define CODE(text) "archive/code/__torch__.py", text, sizeof(text) - 1

/* An archive: data.pkl from a tree, with an empty constants.pkl unless one is given; storage "0" has 64 float32. */
struct script {
    struct torch_file f, constants;
    struct opened o;
};

static void script_begin(struct script *s, const char *tree, const char *constants) {
    static const float zeros[64];

    *s = (struct script){0};
    tf_init(&s->f);
    if (tree)
        tf_tree(&s->f, tree);
    tf_record(&s->f, "0", zeros, sizeof(zeros));
    tf_init(&s->constants);
    tf_tree(&s->constants, constants ? constants : "()");
    tf_op(&s->constants, ".");
    tf_add_entry(&s->f, "archive/constants.pkl", s->constants.pickle.data, s->constants.pickle.length, false);
    if (constants)
        tf_add_entry(&s->f, "archive/constants/0", zeros, sizeof(zeros), false);
}

static const struct ck_model *script_open(struct script *s) {
    s->o = tf_open(&s->f);
    if (s->o.r < 0)
        fail_msg("%s", s->o.err.message);
    return s->o.model;
}

static void script_end(struct script *s) {
    opened_release(&s->o);
    tf_release(&s->f);
    tf_release(&s->constants);
}

static void expect_names(const struct ck_model *model, const char *names) {
    char text[512] = "";

    for (uint32_t i = 0; i < model->n_tensors; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? " " : "", model->tensors[i].name);
    assert_string_equal(text, names);
}

/* NAME(list,): a call of torch.jit._pickle around what `tree` describes. */
static void add_wrapped(struct torch_file *f, const char *function, const char *tree) {
    tf_global(f, "torch.jit._pickle", function);
    tf_op(f, "(");
    tf_tree(f, tree);
    tf_op(f, "tR");
}

/* ---- names and modules ---- */

static void names_are_attributes_joined_by_dots(void **state) {
    _cleanup_(script_end) struct script s;
    const struct ck_model *model;

    (void)state;
    script_begin(&s,
                 "__torch__.Net{training:5,scale:T1,body:__torch__.torch.nn.modules.container.Sequential{0:"
                 "__torch__.torch.nn.modules.conv.___torch_mangle_12.Conv2d{weight:T,bias:N}}}",
                 NULL);
    model = script_open(&s);
    assert_string_equal(model->form, "torchscript");
    expect_names(model, "scale body.0.weight");
    assert_int_equal(model->n_modules, 3);
    assert_string_equal(model->modules[0].class_, "Net");
    assert_string_equal(model->modules[1].class_, "torch.nn.modules.container.Sequential");
    assert_string_equal(model->modules[2].class_, "torch.nn.modules.conv.Conv2d");
    assert_string_equal(model->modules[2].path, "body.0");
    assert_int_equal(model->tensors[1].module, 2);
}

static void hyperparameters_come_from_the_source(void **state) {
    static const char text[] = "class Conv2d(Module):\n"
                               "  __parameters__ = [\"weight\", ]\n"
                               "  __buffers__ = []\n"
                               "  weight : Tensor\n"
                               "  stride : Final[Tuple[int, int]] = (2, 1)\n"
                               "  padding : Final[str] = \"same\"\n"
                               "  eps : Final[float] = 1.0000000000000001e-05\n"
                               "  groups : Final[int] = 4\n"
                               "  affine : Final[bool] = True\n"
                               "  max_norm : Final[NoneType] = None\n"
                               "  def forward(self: __torch__.Conv2d,\n"
                               "    x: Tensor) -> Tensor:\n"
                               "    dilation : Final[int] = 3\n"
                               "    return x\n";
    _cleanup_(script_end) struct script s;
    const struct ck_module *module;

    (void)state;
    script_begin(&s, "__torch__.torch.nn.modules.conv.___torch_mangle_3.Conv2d{training:N,weight:T}", NULL);
    tf_add_entry(&s.f, "archive/code/__torch__/torch/nn/modules/conv/___torch_mangle_3.py", text, sizeof(text) - 1,
                 true);
    module = &script_open(&s)->modules[0];
    assert_int_equal(ck_module_attribute(module, "stride")->ints.items[0], 2);
    assert_int_equal(ck_module_attribute(module, "stride")->ints.items[1], 1);
    assert_string_equal(ck_module_attribute(module, "padding")->text, "same");
    assert_true(ck_module_attribute(module, "eps")->real == 1e-5);
    assert_int_equal(ck_module_attribute(module, "groups")->integer, 4);
    assert_true(ck_module_attribute(module, "affine")->boolean);
    assert_int_equal(ck_module_attribute(module, "max_norm")->kind, CK_ATTRIBUTE_NONE);
    assert_int_equal(ck_module_attribute(module, "training")->kind, CK_ATTRIBUTE_NONE);
    assert_null(ck_module_attribute(module, "dilation"));
    assert_null(ck_module_attribute(module, "weight"));
    assert_true(s.o.model->tensors[0].parameter);
}

static void the_source_tells_parameters_buffers_and_plain_tensors_apart(void **state) {
    _cleanup_(script_end) struct script s;
    const struct ck_model *model;

    (void)state;
    script_begin(&s, "__torch__.Net{training:N,w:T,b:T2,plain:T3,other:__torch__.Unknown{w:T5}}", NULL);
    tf_add_entry(&s.f, CODE("class Net(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = [\"b\", ]\n"), false);
    model = script_open(&s);
    expect_names(model, "w b plain other.w");
    assert_true(model->tensors[0].parameter && model->tensors[0].persistent);
    assert_true(!model->tensors[1].parameter && model->tensors[1].persistent);
    assert_true(!model->tensors[2].parameter && !model->tensors[2].persistent);
    assert_true(!model->tensors[3].parameter && model->tensors[3].persistent);
}

static void before_1_6_whatever_is_no_parameter_is_a_buffer(void **state) {
    _cleanup_(script_end) struct script s;
    const struct ck_model *model;

    (void)state;
    script_begin(&s, "__torch__.Net{training:N,w:T,mean:T2}", NULL);
    tf_add_entry(&s.f, CODE("class Net(Module):\n  __parameters__ = [\"w\", ]\n  w : Tensor\n"), false);
    model = script_open(&s);
    assert_true(model->tensors[0].parameter && model->tensors[0].persistent);
    assert_true(!model->tensors[1].parameter && model->tensors[1].persistent);
}

static void the_flat_weights_of_an_lstm_are_outside_the_state_dict(void **state) {
    _cleanup_(script_end) struct script s;
    const struct ck_model *model;

    (void)state;
    script_begin(&s, NULL, NULL);
    tf_global(&s.f, "__torch__.torch.nn.modules.rnn", "LSTM");
    tf_op(&s.f, ")\x81}(");
    tf_text(&s.f, "weight_ih_l0");
    tf_tree(&s.f, "T");
    tf_text(&s.f, "_flat_weights");
    add_wrapped(&s.f, "build_tensorlist", "[T,T9]");
    tf_text(&s.f, "state");
    add_wrapped(&s.f, "restore_type_tag", "{k:T2}");
    tf_text(&s.f, "_reversed_padding_repeated_twice");
    add_wrapped(&s.f, "build_intlist", "[1,2]");
    tf_op(&s.f, "ub");
    model = script_open(&s);
    expect_names(model, "weight_ih_l0");
    assert_int_equal(model->n_outside, 3);
    assert_string_equal(model->outside[0].path, "_flat_weights.0");
    assert_string_equal(model->outside[1].path, "_flat_weights.1");
    assert_string_equal(model->outside[2].path, "state.k");
    assert_int_equal(ck_module_attribute(&model->modules[0], "_reversed_padding_repeated_twice")->ints.items[1], 2);
}

static void a_quantized_module_names_its_tensors_by_position(void **state) {
    _cleanup_(script_end) struct script s;
    const struct ck_model *model;

    (void)state;
    script_begin(&s,
                 "__torch__.Net{training:N,conv:__torch__.Conv2d(3,4,(1,2),T,T4),fc:__torch__.Linear{_packed_params:"
                 "__torch__.torch.classes.quantized.LinearPackedParamsBase(T9,T3)}}",
                 NULL);
    tf_add_entry(&s.f,
                 CODE("class Conv2d(Module):\n  __parameters__ = []\n  __buffers__ = []\n  groups : int\n"
                      "class Linear(Module):\n  __parameters__ = []\n  __buffers__ = []\n"),
                 false);
    model = script_open(&s);
    expect_names(model, "conv.3 conv.4 fc._packed_params.0 fc._packed_params.1");
    for (uint32_t i = 0; i < 4; i++)
        assert_true(model->tensors[i].persistent);
}

static void a_submodule_can_be_named(void **state) {
    _cleanup_(script_end) struct script s;

    (void)state;
    script_begin(&s, "__torch__.Net{training:N,a:__torch__.A{w:T},b:__torch__.A{w:T5}}", "(T3)");
    s.o = tf_open_with(&s.f, &ck_limits_default, "b");
    assert_int_equal(s.o.r, 0);
    expect_names(s.o.model, "w");
    assert_int_equal(s.o.model->tensors[0].view.shape[0], 5);
    assert_int_equal(s.o.model->n_outside, 2);
    assert_string_equal(s.o.model->outside[1].path, "constants.0");
}

/* ---- constants ---- */

static void a_frozen_module_gives_its_constants(void **state) {
    _cleanup_(script_end) struct script s;
    const struct ck_model *model;

    (void)state;
    script_begin(&s, "__torch__.Net{mobile_optimized:5}", "(T,5,(T2,T3))");
    tf_add_entry(&s.f, "archive/bytecode.pkl", "\x80\x02).", 4, false);
    model = script_open(&s);
    assert_string_equal(model->form, "torchscript-mobile");
    expect_names(model, "constants.0 constants.2.0 constants.2.1");
    assert_string_equal(model->tensors[1].path, "constants.2.0");
    for (uint32_t i = 0; i < 3; i++)
        assert_true(model->tensors[i].persistent && model->tensors[i].error == 0);
}

/* torch.jit.freeze leaves some parameters where they are (an attention's in_proj_weight): what is left of the weights
 * must not be dropped as mere constants. */
static void a_module_that_is_frozen_in_part_keeps_all_weights(void **state) {
    _cleanup_(script_end) struct script s;

    (void)state;
    script_begin(&s, "__torch__.Net{w:T}", "(T9)");
    tf_add_entry(&s.f, CODE("class Net(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = []\n"), false);
    expect_names(script_open(&s), "w constants.0");
    assert_true(s.o.model->tensors[1].persistent);
}

static void constants_beside_parameters_are_no_weights(void **state) {
    _cleanup_(script_end) struct script s;

    (void)state;
    script_begin(&s, "__torch__.Net{training:N,w:T}", "(T9)");
    tf_add_entry(&s.f, CODE("class Net(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = []\n"), false);
    expect_names(script_open(&s), "w constants.0");
    assert_true(s.o.model->tensors[0].persistent);
    assert_false(s.o.model->tensors[1].persistent);
    assert_int_equal(s.o.model->tensors[1].alias_of, CK_NO_INDEX);
}

static void a_key_may_have_the_ending_of_its_record(void **state) {
    _cleanup_(script_end) struct script s;
    struct torch_file c;

    (void)state;
    script_begin(&s, "__torch__.Net{}", NULL);
    s.f.n_entries--;
    ck_buffer_release(&s.f.entries[s.f.n_entries].data);
    tf_init(&c);
    tf_op(&c, "(");
    tf_vector(&c, "77.storage", 2);
    tf_op(&c, "t.");
    tf_add_entry(&s.f, "archive/constants.pkl", c.pickle.data, c.pickle.length, false);
    tf_add_entry(&s.f, "archive/constants/77.storage", "\0\0\x80\x3f\0\0\0\x40", 8, false);
    tf_release(&c);
    expect_names(script_open(&s), "constants.0");
    assert_int_equal(s.o.model->storages[s.o.model->tensors[0].storage].source.length, 8);
}

static void a_module_without_tensors_says_so(void **state) {
    _cleanup_(script_end) struct script s;

    (void)state;
    script_begin(&s, "__torch__.Module{training:N}", NULL);
    s.o = tf_open(&s.f);
    assert_int_equal(s.o.r, CK_E_NO_TENSORS);
    assert_non_null(strstr(s.o.err.message, "TorchScript"));
}

/* ---- compressed parts ---- */

static void a_deflated_storage_is_unpacked_into_the_scratch_file(void **state) {
    static const float values[4] = {1, 2, 3, 4};
    struct ck_scratch scratch = {.fd = memfd_create("scratch", MFD_CLOEXEC), .limit = 1000};
    struct ck_model_options options = {.scratch = &scratch};
    _cleanup_(tf_release) struct torch_file f;
    struct ck_model *model = NULL;
    struct ck_error err = {0};
    struct ck_source source;
    float found[4];

    (void)state;
    tf_init(&f);
    tf_tree(&f, "{w:T}");
    tf_add_entry(&f, "archive/data/0", values, sizeof(values), true);
    source = tf_finish(&f);
    assert_int_equal(ck_model_open(&source, &ck_limits_default, &options, &model, &err), 0);
    assert_int_equal(model->tensors[0].error, 0);
    assert_int_equal(ck_source_read(&model->storages[0].source, 0, found, sizeof(found), NULL), 0);
    assert_memory_equal(found, values, sizeof(values));
    assert_int_equal(scratch.used, 16);
    ck_model_free(model);
    /* One byte less than it needs. */
    scratch.used = 0;
    scratch.limit = 15;
    assert_int_equal(ck_model_open(&source, &ck_limits_default, &options, &model, &err), CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(err.message, "--limit-unpacked-bytes"));
    ck_model_free(model);
    err = (struct ck_error){0};
    assert_int_equal(ck_model_open(&source, &ck_limits_default, NULL, &model, &err), 0);
    assert_int_equal(model->tensors[0].error, CK_E_UNSUPPORTED_TENSOR);
    ck_model_free(model);
    close(scratch.fd);
}

static void a_damaged_deflated_storage_is_the_fault_of_its_tensor(void **state) {
    struct ck_scratch scratch = {.fd = memfd_create("scratch", MFD_CLOEXEC), .limit = 100000};
    struct ck_model_options options = {.scratch = &scratch};
    _cleanup_(tf_release) struct torch_file f;
    struct ck_model *model = NULL;
    uint8_t noise[256], *payload;
    struct ck_error err = {0};
    struct ck_source source;

    (void)state;
    for (unsigned i = 0; i < sizeof(noise); i++)
        noise[i] = (uint8_t)(i * 7);
    tf_init(&f);
    tf_tree(&f, "{w:T,v:T}");
    tf_add_entry(&f, "archive/data/0", noise, sizeof(noise), true);
    source = tf_finish(&f);
    payload = (uint8_t *)f.zip.data + 30 + strlen("archive/data/0");
    payload[0] = 0x07; /* a block of the type that does not exist */
    assert_int_equal(ck_model_open(&source, &ck_limits_default, &options, &model, &err), 0);
    assert_int_equal(model->tensors[0].error, CK_E_UNSUPPORTED_TENSOR);
    assert_non_null(strstr(model->tensors[0].error_message, "cannot be unpacked"));
    assert_int_equal(scratch.used, 0);
    ck_model_free(model);
    close(scratch.fd);
}

static void source_that_cannot_be_read_costs_no_weights(void **state) {
    static const char text[] = "class Net(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = []\n";
    _cleanup_(script_end) struct script s;
    struct ck_source source;
    uint8_t *payload;

    (void)state;
    script_begin(&s, "__torch__.Net{training:N,w:T}", NULL);
    tf_add_entry(&s.f, "archive/code/__torch__.py", text, sizeof(text) - 1, true);
    source = tf_finish(&s.f);
    payload = memmem(s.f.zip.data, s.f.zip.length, "archive/code/__torch__.py", 25);
    payload[25] = 0x07;
    s.o.r = ck_model_open(&source, &ck_limits_default, NULL, &s.o.model, &s.o.err);
    assert_int_equal(s.o.r, 0);
    expect_names(s.o.model, "w");
    assert_true(s.o.model->tensors[0].persistent && !s.o.model->tensors[0].parameter);
    assert_int_equal(ck_findings_count(&s.o.model->findings, CK_FINDING_STRUCTURE), 1);
}

/* ---- hostile files ---- */

static void every_shortened_file_is_refused(void **state) {
    _cleanup_(script_end) struct script s;
    struct ck_source source;

    (void)state;
    script_begin(&s, "__torch__.Net{training:N,w:T}", "(T9)");
    tf_add_entry(&s.f, CODE("class Net(Module):\n  __parameters__ = [\"w\", ]\n  a : Final[int] = 3\n"), true);
    source = tf_finish(&s.f);
    for (uint64_t n = 0; n < source.length; n++) {
        struct ck_source cut = ck_source_from_memory(source.memory, n);
        struct ck_model *model = NULL;
        struct ck_error err = {0};

        assert_true(ck_model_open(&cut, &ck_limits_default, NULL, &model, &err) < 0);
        ck_model_free(model);
    }
}

static void a_ring_of_wrappers_ends(void **state) {
    _cleanup_(script_end) struct script s;

    (void)state;
    script_begin(&s, NULL, NULL);
    tf_global(&s.f, "__torch__", "Net");
    tf_op(&s.f, ")\x81}(");
    tf_text(&s.f, "w");
    tf_tree(&s.f, "T");
    tf_text(&s.f, "ring");
    tf_global(&s.f, "torch.jit._pickle", "build_intlist");
    tf_op(&s.f, "]");
    tf_put(&s.f, 7);
    tf_op(&s.f, "R");
    tf_put(&s.f, 8);
    tf_op(&s.f, "0");
    tf_get(&s.f, 7);
    tf_get(&s.f, 8);
    tf_op(&s.f, "a0");
    tf_get(&s.f, 8);
    tf_op(&s.f, "ub");
    expect_names(script_open(&s), "w");
}

static void two_data_pickles_are_refused(void **state) {
    _cleanup_(script_end) struct script s;

    (void)state;
    script_begin(&s, "__torch__.Net{training:N,w:T}", NULL);
    tf_add_entry(&s.f, "other/data.pkl", "\x80\x02N.", 4, false);
    s.o = tf_open(&s.f);
    assert_int_equal(s.o.r, CK_E_ARCHIVE_UNSAFE);
}

/* ---- the scanner ---- */

struct scanned {
    struct ck_arena arena;
    struct ck_script_code code;
};

static void scan(struct scanned *s, const char *text) {
    struct ck_error err = {0};

    ck_arena_init(&s->arena, 1 << 20);
    ck_script_code_init(&s->code, &s->arena);
    assert_int_equal(ck_script_code_add(&s->code, "__torch__", text, strlen(text), &err), 0);
}

static void scanned_release(struct scanned *s) {
    ck_script_code_release(&s->code);
    ck_arena_release(&s->arena);
}

static const struct ck_attribute *final_of(const struct scanned *s, const char *class_, const char *name) {
    const struct ck_script_class *found = ck_script_code_find(&s->code, class_);

    assert_non_null(found);
    for (uint32_t i = 0; i < found->n_finals; i++)
        if (strcmp(found->finals[i].name, name) == 0)
            return &found->finals[i];
    return NULL;
}

static void values_of_every_kind_are_read(void **state) {
    _cleanup_(scanned_release) struct scanned s;

    (void)state;
    scan(&s, "class A(Module):\r\n"
             "  i : Final[int] = -9223372036854775808\r\n"
             "  f : Final[float] = 2.\n"
             "  g : Final[float] = -1e3\n"
             "  t : Final[str] = \"a\\\"b\\\\\\n\\101]\"\n"
             "  l : Final[List[int]] = [1, -2, 3]\n"
             "  o : Final[Tuple[int]] = (7,)\n"
             "  n : Final[Dict[str, List[int]]] = {\"a\": [1]}\n"
             "  m : Final[List[float]] = [1., 2.]\n"
             "  big : Final[int] = 9223372036854775808\n"
             "  empty : Final[Tuple[]] = ()\n"
             "  no : Final[float] = float('inf')\n"
             "  nan : Final[float] = nan\n"
             "  half : Final[str] = \"open\n"
             "  word : Final[bool] = Falsehood\n"
             "  more : Final[Tuple[int, int]] = (1, 2) + (3,)\n");
    assert_true(final_of(&s, "__torch__.A", "i")->integer == INT64_MIN);
    assert_true(final_of(&s, "__torch__.A", "f")->real == 2);
    assert_true(final_of(&s, "__torch__.A", "g")->real == -1000);
    assert_string_equal(final_of(&s, "__torch__.A", "t")->text, "a\"b\\\nA]");
    assert_int_equal(final_of(&s, "__torch__.A", "l")->ints.count, 3);
    assert_int_equal(final_of(&s, "__torch__.A", "l")->ints.items[1], -2);
    assert_int_equal(final_of(&s, "__torch__.A", "o")->ints.count, 1);
    assert_int_equal(final_of(&s, "__torch__.A", "big")->kind, CK_ATTRIBUTE_FLOAT);
    assert_null(final_of(&s, "__torch__.A", "n"));
    assert_null(final_of(&s, "__torch__.A", "m"));
    assert_null(final_of(&s, "__torch__.A", "empty"));
    assert_null(final_of(&s, "__torch__.A", "no"));
    assert_null(final_of(&s, "__torch__.A", "nan"));
    assert_null(final_of(&s, "__torch__.A", "half"));
    assert_null(final_of(&s, "__torch__.A", "word"));
    assert_null(final_of(&s, "__torch__.A", "more"));
}

static void each_class_has_its_own_lines(void **state) {
    _cleanup_(scanned_release) struct scanned s;

    (void)state;
    scan(&s, "def free(x: int) -> int:\n"
             "  a : Final[int] = 1\n"
             "class A(Module):\n"
             "  __parameters__ = [\"0\", \"a.b\", ]\n"
             "  a : Final[int] = 2\n"
             "class B:\n"
             "  a : Final[int] = 3\n"
             "  def f(self) -> int:\n"
             "    return 1\n"
             "  b : Final[int] = 4\n");
    assert_int_equal(s.code.n_classes, 2);
    assert_int_equal(final_of(&s, "__torch__.A", "a")->integer, 2);
    assert_int_equal(final_of(&s, "__torch__.B", "a")->integer, 3);
    assert_null(final_of(&s, "__torch__.B", "b"));
    assert_int_equal(ck_script_role(ck_script_code_find(&s.code, "__torch__.A"), "a.b"), CK_SCRIPT_PARAMETER);
    assert_int_equal(ck_script_role(ck_script_code_find(&s.code, "__torch__.A"), "c"), CK_SCRIPT_BUFFER);
    assert_int_equal(ck_script_role(ck_script_code_find(&s.code, "__torch__.B"), "c"), CK_SCRIPT_PLAIN);
    assert_null(ck_script_code_find(&s.code, "__torch__.C"));
}

/* The groups of a transposed convolution without a bias stand nowhere else, and decide its layout. */
static void a_traced_convolution_is_known_by_its_call(void **state) {
    _cleanup_(scanned_release) struct scanned s;

    (void)state;
    scan(&s, "class ConvTranspose2d(Module):\n"
             "  __parameters__ = [\"weight\", ]\n"
             "  weight : Tensor\n"
             "  def forward(self: __torch__.ConvTranspose2d,\n"
             "    x: Tensor) -> Tensor:\n"
             "    weight = self.weight\n"
             "    return torch._convolution(x, weight, None, [2, 2], [0, 1], [1, 1], True, [0, 0], 4, False, False)\n"
             "class Other(Module):\n"
             "  def forward(self) -> Tensor:\n"
             "    y = torch._convolution(x, kernel, None, [2, 2], [0, 0], [1, 1], True, [0, 0], 4, False, False)\n"
             "class Same(Module):\n"
             "  def forward(self) -> Tensor:\n"
             "    y = torch._convolution_mode(f(x, [1]), weight, bias, [1], \"same\", [1], 3)\n"
             "    z = torch._convolution_mode(f(x, [1]), weight, bias, [1], \"same\", [1], 2)\n"
             "def free(x: Tensor) -> Tensor:\n"
             "  return torch._convolution(x, weight, None, [2], [0], [1], True, [0], 4, False, False)\n");
    assert_int_equal(final_of(&s, "__torch__.ConvTranspose2d", "groups")->integer, 4);
    assert_true(final_of(&s, "__torch__.ConvTranspose2d", "transposed")->boolean);
    assert_int_equal(final_of(&s, "__torch__.ConvTranspose2d", "padding")->ints.items[1], 1);
    assert_null(final_of(&s, "__torch__.Other", "groups"));
    assert_string_equal(final_of(&s, "__torch__.Same", "padding")->text, "same");
    assert_int_equal(final_of(&s, "__torch__.Same", "groups")->kind, CK_ATTRIBUTE_NONE);
}

static void a_full_arena_is_out_of_memory(void **state) {
    static const char text[] = "class A(Module):\n  t : Final[str] = \"0123456789012345678901234567890123456789\"\n";
    struct ck_error err = {0};
    struct scanned s;

    (void)state;
    for (size_t limit = 0; limit < 400; limit += 16) {
        int r;

        ck_arena_init(&s.arena, limit);
        ck_script_code_init(&s.code, &s.arena);
        r = ck_script_code_add(&s.code, "__torch__", text, sizeof(text) - 1, &err);
        assert_true(r == CK_E_OUT_OF_MEMORY || (r == 0 && s.code.classes[0].n_finals == 1));
        scanned_release(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_attributes_joined_by_dots),
        cmocka_unit_test(hyperparameters_come_from_the_source),
        cmocka_unit_test(the_source_tells_parameters_buffers_and_plain_tensors_apart),
        cmocka_unit_test(before_1_6_whatever_is_no_parameter_is_a_buffer),
        cmocka_unit_test(the_flat_weights_of_an_lstm_are_outside_the_state_dict),
        cmocka_unit_test(a_quantized_module_names_its_tensors_by_position),
        cmocka_unit_test(a_submodule_can_be_named),
        cmocka_unit_test(a_frozen_module_gives_its_constants),
        cmocka_unit_test(a_module_that_is_frozen_in_part_keeps_all_weights),
        cmocka_unit_test(constants_beside_parameters_are_no_weights),
        cmocka_unit_test(a_key_may_have_the_ending_of_its_record),
        cmocka_unit_test(a_module_without_tensors_says_so),
        cmocka_unit_test(a_deflated_storage_is_unpacked_into_the_scratch_file),
        cmocka_unit_test(a_damaged_deflated_storage_is_the_fault_of_its_tensor),
        cmocka_unit_test(source_that_cannot_be_read_costs_no_weights),
        cmocka_unit_test(every_shortened_file_is_refused),
        cmocka_unit_test(a_ring_of_wrappers_ends),
        cmocka_unit_test(two_data_pickles_are_refused),
        cmocka_unit_test(values_of_every_kind_are_read),
        cmocka_unit_test(each_class_has_its_own_lines),
        cmocka_unit_test(a_traced_convolution_is_known_by_its_call),
        cmocka_unit_test(a_full_arena_is_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
