/* The core's one entry: analyses and dry runs, by the values in the documents that they write. Conversions are tested
 * over HTTP and in test_execute.c, test_mlx_*.c, test_safetensors_write.c. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include <jansson.h>

#include "core/job/job.h"
#include "core/job/target.h"
#include "tests/unit/torch_file.h"

/* ---- running a job in memory ---- */

#define FILES_MAX 4

struct run {
    int fds[FILES_MAX];
    char names[FILES_MAX][128];
    int n_files;
    bool cancelled;
    struct ck_job_result result;
    struct ck_error err;
    int r;
    json_t *document; /* the last file, parsed */
    char *text;       /* its bytes */
};

static int create(void *ctx, const char *name, int *ret_fd, struct ck_error *err) {
    struct run *run = ctx;

    (void)err;
    assert_true(run->n_files < FILES_MAX);
    *ret_fd = run->fds[run->n_files] = memfd_create("test", MFD_CLOEXEC);
    assert_true(*ret_fd >= 0);
    snprintf(run->names[run->n_files++], sizeof(run->names[0]), "%s", name);
    return 0;
}

static bool is_cancelled(void *ctx) {
    return ((struct run *)ctx)->cancelled;
}

/* What the result says about its last file is true of its bytes. */
static void read_document(struct run *run) {
    const struct ck_job_file *file = &run->result.files[run->result.n_files - 1];
    json_error_t error;

    assert_string_equal(file->name, run->names[run->n_files - 1]);
    run->text = calloc(file->bytes + 1, 1);
    assert_int_equal(pread(run->fds[run->n_files - 1], run->text, file->bytes + 1, 0), file->bytes);
    assert_int_equal(crc32(0, (const Bytef *)run->text, (uInt)file->bytes), file->crc32);
    run->document = json_loads(run->text, JSON_REJECT_DUPLICATES, &error);
    if (!run->document)
        print_error("%s at byte %d of %s\n", error.text, error.position, run->text);
    assert_non_null(run->document);
}

/* bytes: of the input. */
static void run_job(struct run *run, const struct ck_spec *spec, const void *bytes, size_t n, const char *name) {
    struct ck_job_sink sink = {create, run, -1};
    struct ck_progress progress = {.cancelled = is_cancelled, .ctx = run};
    struct ck_job_input input = {"model", name, memfd_create("input", MFD_CLOEXEC)};
    _cleanup_(ck_pool_freep) struct ck_pool *pool = NULL;

    if (spec->kind == CK_JOB_CONVERT && !spec->dry_run)
        assert_int_equal(ck_pool_new(1, &pool, NULL), 0);
    assert_int_equal(write(input.fd, bytes, n), n);
    run->r = ck_job_run(spec, &input, 1, &ck_limits_default, pool, &progress, &sink, &run->result, &run->err);
    assert_int_equal(run->r, run->err.code);
    close(input.fd);
    if (run->result.n_files > 0)
        read_document(run);
}

static void run_release(struct run *run) {
    for (int i = 0; i < run->n_files; i++)
        close(run->fds[i]);
    ck_job_result_release(&run->result);
    json_decref(run->document);
    free(run->text);
}

/* options: name, value, ... NULL. target NULL: an analysis. */
static void make_spec(struct ck_spec *spec, const char *target, bool dry_run, const char *const *options) {
    assert_int_equal(target ? ck_spec_init(spec, target, NULL, NULL) : ck_spec_init_analyze(spec, NULL), 0);
    spec->dry_run = dry_run;
    for (; options && options[0]; options += 2)
        assert_int_equal(ck_spec_set(spec, options[0], options[1], NULL), 0);
}

static void run_torch(struct run *run, struct torch_file *f, const char *target, bool dry_run,
                      const char *const *options) {
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};

    if (f->zip.length == 0)
        tf_finish(f);
    make_spec(&spec, target, dry_run, options);
    run_job(run, &spec, f->zip.data, f->zip.length, "model.pt");
}

static void analyze_tree(struct run *run, const char *tree, const char *const *options) {
    _cleanup_(tf_release) struct torch_file f;
    static const float zeros[64];

    tf_init(&f);
    tf_tree(&f, tree);
    tf_record(&f, "0", zeros, sizeof(zeros));
    run_torch(run, &f, NULL, false, options);
}

/* {"up.weight": a square convolution or its transpose, "fc.weight", "fc.bias"} */
static void ambiguous_file(struct torch_file *f) {
    static const float zeros[200];

    tf_init(f);
    tf_op(f, "}(");
    tf_text(f, "up.weight");
    tf_view(f, "FloatStorage", "0", 0, 4, (const int64_t[]){4, 4, 3, 3}, (const int64_t[]){36, 9, 3, 1});
    tf_text(f, "fc.weight");
    tf_view(f, "FloatStorage", "1", 0, 2, (const int64_t[]){2, 4}, (const int64_t[]){4, 1});
    tf_text(f, "fc.bias");
    tf_vector(f, "2", 2);
    tf_op(f, "u");
    tf_record(f, "0", zeros, 576);
    tf_record(f, "1", zeros, 32);
    tf_record(f, "2", zeros, 8);
}

/* ---- looking into a document ---- */

/* The value at a path such as "targets.mlx.questions.0.tensor"; a member whose name holds dots cannot be reached. */
static json_t *at(json_t *value, const char *path) {
    char text[200], *rest = text, *word;

    snprintf(text, sizeof(text), "%s", path);
    while ((word = strsep(&rest, ".")) != NULL)
        value = json_is_array(value) ? json_array_get(value, strtoul(word, NULL, 10)) : json_object_get(value, word);
    return value;
}

/* The value at the path is what the JSON text says. */
static void expect(json_t *document, const char *path, const char *text) {
    json_t *found = at(document, path), *wanted = json_loads(text, JSON_DECODE_ANY, NULL);

    assert_non_null(wanted);
    if (!found || !json_equal(found, wanted)) {
        char *is = found ? json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY) : strdup("missing");

        print_error("%s is %s, not %s\n", path, is, text);
        free(is);
    }
    assert_true(found && json_equal(found, wanted));
    json_decref(wanted);
}

static json_t *by_name(json_t *array, const char *key, const char *name) {
    json_t *item;
    size_t i;

    json_array_foreach(array, i, item) {
        const char *text = json_string_value(json_object_get(item, key));

        if (text && strcmp(text, name) == 0)
            return item;
    }
    return NULL;
}

/* ---- analyses ---- */

/* state_dict: w [2,3] float32, its transpose, a tie of w, two halves with a stride, one that lies outside its storage,
 * one whose dtype nobody knows; opt: a tensor elsewhere. */
static void many_kinds(struct torch_file *f) {
    static const float zeros[64];

    tf_init(f);
    tf_op(f, "}(");
    tf_text(f, "state_dict");
    tf_op(f, "}(");
    tf_text(f, "a.w");
    tf_view(f, "FloatStorage", "0", 0, 2, (const int64_t[]){2, 3}, (const int64_t[]){3, 1});
    tf_text(f, "a.t");
    tf_view(f, "FloatStorage", "0", 0, 2, (const int64_t[]){3, 2}, (const int64_t[]){1, 3});
    tf_text(f, "b.tied");
    tf_view(f, "FloatStorage", "0", 0, 2, (const int64_t[]){2, 3}, (const int64_t[]){3, 1});
    tf_text(f, "b.half");
    tf_view(f, "HalfStorage", "1", 1, 1, (const int64_t[]){2}, (const int64_t[]){4});
    tf_text(f, "c.far");
    tf_view(f, "FloatStorage", "0", 60, 1, (const int64_t[]){5}, (const int64_t[]){1});
    tf_text(f, "c.odd");
    tf_view(f, "StrangeStorage", "0", 0, 1, (const int64_t[]){5}, (const int64_t[]){1});
    tf_op(f, "u");
    tf_text(f, "optimizer");
    tf_op(f, "}(");
    tf_text(f, "step");
    tf_vector(f, "0", 1);
    tf_op(f, "uu");
    tf_record(f, "0", zeros, 256);
    tf_record(f, "1", zeros, 64);
}

static void an_analysis_has_every_tensor_with_dtype_strides_tie_and_error(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};
    json_t *d;

    (void)state;
    many_kinds(&f);
    run_torch(&run, &f, NULL, false, NULL);
    assert_int_equal(run.r, 0);
    assert_int_equal(run.result.n_files, 1);
    assert_string_equal(run.result.files[0].name, "analysis.json");
    assert_int_equal(run.n_files, 1);
    d = run.document;
    expect(d, "form", "\"torch-zip\"");
    assert_int_equal(json_integer_value(at(d, "bytes")), f.zip.length);
    expect(d, "state_dict", "{\"alternatives\":[],\"path\":\"state_dict\",\"why\":\"the key state_dict\"}");
    expect(d, "tensors.0",
           "{\"path\":\"state_dict.a.w\",\"name\":\"a.w\",\"dtype\":\"float32\",\"shape\":[2,3],"
           "\"strides\":[3,1],\"bytes\":24,\"alias_of\":null,\"error\":null}");
    expect(d, "tensors.1.strides", "[1,3]");
    expect(d, "tensors.1.alias_of", "null");
    expect(d, "tensors.2.alias_of", "\"a.w\"");
    expect(d, "tensors.3.dtype", "\"float16\"");
    expect(d, "tensors.3.strides", "[4]");
    expect(d, "tensors.3.bytes", "4");
    expect(d, "tensors.4.error.code", "\"tensor_out_of_bounds\"");
    expect(d, "tensors.4.shape", "[5]");
    expect(d, "tensors.4.bytes", "null");
    expect(d, "tensors.5.dtype", "null");
    expect(d, "tensors.5.bytes", "null");
    assert_non_null(strstr(json_string_value(at(d, "tensors.5.error.message")), "StrangeStorage"));
    expect(d, "tensors.6.path", "\"optimizer.step\"");
    expect(d, "tensors.6.name", "null");
    assert_int_equal(json_array_size(at(d, "tensors")), 7);
    expect(d, "modules", "[]");
    assert_null(at(d, "metadata"));
}

/* tensors = aliases + errors + those by dtype. */
static void totals_count_ties_once_and_leave_out_what_cannot_be_read(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    many_kinds(&f);
    run_torch(&run, &f, NULL, false, NULL);
    expect(run.document, "totals",
           "{\"tensors\":6,\"parameters\":14,\"bytes\":52,\"aliases\":1,\"errors\":2,\"outside\":1,"
           "\"dtypes\":{\"float16\":{\"tensors\":1,\"elements\":2,\"bytes\":4},"
           "\"float32\":{\"tensors\":2,\"elements\":12,\"bytes\":48}}}");
}

static void a_tensor_that_cannot_be_read_is_a_violation_of_every_target(void **state) {
    static const char *const targets[] = {"targets.mlx", "targets.safetensors"};
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    many_kinds(&f);
    run_torch(&run, &f, NULL, false, NULL);
    for (size_t i = 0; i < CK_ARRAY_LEN(targets); i++) {
        json_t *target = at(run.document, targets[i]), *violation;

        expect(target, "supported", "false");
        expect(target, "questions", "[]");
        assert_int_equal(json_array_size(at(target, "violations")), 2);
        violation = by_name(at(target, "violations"), "where", "c.far");
        expect(violation, "rule", "\"tensor_out_of_bounds\"");
        assert_non_null(strstr(json_string_value(at(violation, "message")), "archive/data/0"));
        assert_string_equal(json_string_value(at(violation, "hint")), ck_error_row(CK_E_TENSOR_OUT_OF_BOUNDS)->hint);
        expect(target, "coverage.bytes", "[52,52]");
    }
    expect(run.document, "targets.mlx.coverage.layers", "[2,3]"); /* a, b; not c */
    expect(run.document, "targets.safetensors.coverage.layers", "[4,6]");
}

static void an_ambiguous_layer_is_a_question_and_its_answer_makes_the_target_supported(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run asked = {0}, answered = {0};

    (void)state;
    ambiguous_file(&f);
    run_torch(&asked, &f, NULL, false, NULL);
    assert_int_equal(asked.r, 0);
    expect(asked.document, "targets.mlx.supported", "false");
    expect(asked.document, "targets.mlx.violations", "[]");
    assert_int_equal(json_array_size(at(asked.document, "targets.mlx.questions")), 1);
    expect(asked.document, "targets.mlx.questions.0.tensor", "\"up.weight\"");
    expect(asked.document, "targets.mlx.questions.0.shape", "[4,4,3,3]");
    expect(asked.document, "targets.mlx.questions.0.candidates", "[\"Conv2d\",\"ConvTranspose2d\"]");
    expect(asked.document, "targets.mlx.questions.0.option", "\"layers=up:Conv2d\"");
    expect(asked.document, "targets.mlx.coverage", "{\"layers\":[1,2],\"bytes\":[40,616]}");
    expect(
        asked.document, "targets.safetensors",
        "{\"supported\":true,\"coverage\":{\"layers\":[3,3],\"bytes\":[616,616]},\"violations\":[],\"questions\":[]}");

    run_torch(&answered, &f, NULL, false, (const char *const[]){"layers", "up:ConvTranspose2d", NULL});
    expect(answered.document, "targets.mlx.supported", "true");
    expect(answered.document, "targets.mlx.questions", "[]");
    expect(answered.document, "targets.mlx.coverage", "{\"layers\":[2,2],\"bytes\":[616,616]}");
}

static void an_option_that_fits_nothing_refuses_the_whole_target(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    ambiguous_file(&f);
    run_torch(&run, &f, NULL, false, (const char *const[]){"layers", "down:Conv2d", NULL});
    assert_int_equal(run.r, 0);
    expect(run.document, "targets.mlx.violations.0.rule", "\"bad_rule\"");
    expect(run.document, "targets.mlx.coverage", "{\"layers\":[0,2],\"bytes\":[0,616]}");
    expect(run.document, "targets.safetensors.supported", "true"); /* knows no layers= */
}

static void the_list_of_tensors_can_be_left_out(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    ambiguous_file(&f);
    run_torch(&run, &f, NULL, false, (const char *const[]){"tensors", "false", NULL});
    assert_int_equal(run.r, 0);
    assert_null(at(run.document, "tensors"));
    expect(run.document, "totals.tensors", "3");
}

static void a_whole_module_shows_its_modules_and_plain_attributes(void **state) {
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    analyze_tree(&run,
                 "user.Net{training:1,note:'hi',odd:{},training:0,_parameters:{},_buffers:{},_modules:{fc:"
                 "torch.nn.modules.linear.Linear{in_features:4,kernel:(3,3),gone:N,_parameters:{bias:T},_buffers:{},"
                 "_modules:{}}}}",
                 NULL);
    assert_int_equal(run.r, 0);
    expect(run.document, "modules.0.path", "\"\"");
    expect(run.document, "modules.0.class", "\"user.Net\"");
    expect(run.document, "modules.0.attributes", "{\"note\":\"hi\",\"training\":0}"); /* set twice: the last counts */
    expect(run.document, "modules.1",
           "{\"path\":\"fc\",\"class\":\"torch.nn.modules.linear.Linear\",\"attributes\":"
           "{\"in_features\":4,\"kernel\":[3,3],\"gone\":null}}");
    expect(run.document, "tensors.0.name", "\"fc.bias\"");
    expect(run.document, "targets.mlx.coverage.layers", "[1,1]");
    expect(run.document, "findings.0.module", "\"user\"");
    expect(run.document, "findings.0.class", "\"unknown\"");
}

static void a_safetensors_file_shows_its_metadata_and_one_in_mlx_layout_is_said_to_be(void **state) {
    static const char header[] = "{\"__metadata__\":{\"format\":\"mlx\",\"by\":\"me\"},"
                                 "\"w\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}";
    _cleanup_(run_release) struct run run = {0};
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};
    char file[8 + sizeof(header) - 1 + 8] = {0};

    (void)state;
    file[0] = sizeof(header) - 1;
    memcpy(file + 8, header, sizeof(header) - 1);
    make_spec(&spec, NULL, false, NULL);
    run_job(&run, &spec, file, sizeof(file), "w.safetensors");
    assert_int_equal(run.r, 0);
    expect(run.document, "form", "\"safetensors\"");
    expect(run.document, "metadata", "{\"format\":\"mlx\",\"by\":\"me\"}");
    expect(run.document, "tensors",
           "[{\"path\":\"w\",\"name\":\"w\",\"dtype\":\"bfloat16\",\"shape\":[2,2],"
           "\"strides\":[2,1],\"bytes\":8,\"alias_of\":null,\"error\":null}]");
    expect(run.document, "targets.mlx.supported", "false");
    expect(run.document, "targets.mlx.violations.0.rule", "\"already_converted\"");
    expect(run.document, "targets.mlx.violations.0.where", "\"\"");
    expect(run.document, "targets.mlx.coverage", "{\"layers\":[0,1],\"bytes\":[0,8]}");
    expect(run.document, "targets.safetensors.supported", "true");
}

static void the_same_file_under_another_name_gives_the_same_bytes(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};
    _cleanup_(run_release) struct run one = {0}, two = {0};

    (void)state;
    many_kinds(&f);
    tf_finish(&f);
    make_spec(&spec, NULL, false, NULL);
    run_job(&one, &spec, f.zip.data, f.zip.length, "one.pt");
    run_job(&two, &spec, f.zip.data, f.zip.length, "two.bin");
    assert_int_equal(one.result.files[0].crc32, two.result.files[0].crc32);
    assert_string_equal(one.text, two.text);
}

/* The candidates stand in the error; what the pickle names is kept in its report. */
static void two_equal_state_dicts_are_refused_with_their_paths(void **state) {
    _cleanup_(run_release) struct run run = {0};
    json_t *candidates;

    (void)state;
    analyze_tree(&run, "{one:{a.weight:T},two:{a.weight:T9},note:os.system{x:N}}", NULL);
    assert_int_equal(run.r, CK_E_AMBIGUOUS_STATE_DICT);
    candidates = json_loads(run.err.details, 0, NULL);
    expect(candidates, "0", "\"one\"");
    expect(candidates, "1", "\"two\"");
    json_decref(candidates);
    assert_int_equal(run.result.n_files, 1);
    assert_string_equal(run.result.files[0].name, "report.json");
    expect(run.document, "status", "\"refused\"");
    expect(run.document, "spec.kind", "\"analyze\"");
    expect(run.document, "findings.0.class", "\"dangerous\"");
}

static void the_option_state_dict_chooses_what_is_analyzed(void **state) {
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    analyze_tree(&run, "{one:{a.weight:T},two:{a.weight:T9}}", (const char *const[]){"state_dict", "two", NULL});
    assert_int_equal(run.r, 0);
    expect(run.document, "state_dict.path", "\"two\"");
    expect(run.document, "totals.parameters", "9");
    expect(run.document, "totals.outside", "1");
}

static void a_file_that_is_no_checkpoint_is_refused(void **state) {
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    make_spec(&spec, NULL, false, NULL);
    run_job(&run, &spec, "hello, world", 12, "x.pt");
    assert_int_equal(run.r, CK_E_NOT_A_CHECKPOINT);
    assert_int_equal(run.n_files, 1);
    assert_string_equal(run.result.files[0].name, "report.json");
    expect(run.document, "error.code", "\"not_a_checkpoint\"");
}

static void an_analysis_names_the_other_sets_of_weights(void **state) {
    static const char *const options[] = {"state_dict", "a.net", NULL};
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    analyze_tree(&run, "{a:{net:{c.w:T,c.b:T},other:{d.w:T}},best:{e.w:T},optimizer:{x.w:T},epoch:5}", options);
    assert_int_equal(run.r, 0);
    expect(run.document, "state_dict.path", "\"a.net\"");
    expect(run.document, "state_dict.alternatives", "[\"a.other\",\"best\"]");
    expect(run.document, "hints.torch", "null");
}

static void tuples_of_quantized_layers_belong_to_the_state_dict(void **state) {
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    analyze_tree(&run, "{scale:T1,zero_point:T1,p.dtype:N,q.dtype:N,p._packed_params:(T9,T)}", NULL);
    assert_int_equal(run.r, 0);
    expect(run.document, "state_dict.path", "\"\"");
    expect(run.document, "tensors.2.name", "\"p._packed_params.0\"");
    expect(run.document, "tensors.3.name", "\"p._packed_params.1\"");
}

static void skip_bad_leaves_out_what_cannot_be_read_and_says_why(void **state) {
    static const char *const options[] = {"skip_bad", "true", NULL};
    static const char *const targets[] = {"safetensors", "mlx"};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(targets); i++) {
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(run_release) struct run run = {0};

        many_kinds(&f);
        run_torch(&run, &f, targets[i], false, options);
        assert_int_equal(run.r, 0);
        assert_int_equal(run.result.dropped, 2);
        expect(run.document, "dropped.0.from", "\"c.far\"");
        expect(run.document, "dropped.0.why", "\"tensor_out_of_bounds\"");
        expect(run.document, "dropped.1.from", "\"c.odd\"");
        expect(run.document, "dropped.1.why", "\"unsupported_dtype\"");
        expect(run.document, "refused", "[]");
    }
}

static void skip_bad_with_nothing_left_is_an_error(void **state) {
    static const char *const options[] = {"skip_bad", "true", NULL};
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    tf_init(&f);
    tf_tree(&f, "{w:T99}");
    tf_record(&f, "0", "", 0);
    run_torch(&run, &f, "safetensors", false, options);
    assert_int_equal(run.r, CK_E_NO_TENSORS);
    expect(run.document, "dropped.0.why", "\"tensor_out_of_bounds\"");
}

static void untie_writes_a_tie_under_each_name(void **state) {
    static const char *const options[] = {"skip_bad", "true", "untie", "true", NULL};
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    many_kinds(&f);
    run_torch(&run, &f, "safetensors", false, options);
    assert_int_equal(run.r, 0);
    assert_int_equal(run.result.tensors, 4);
    assert_int_equal(run.result.aliases, 0);
    expect(run.document, "aliases", "[]");
    expect(run.document, "tensors.2.out", "\"b.tied\"");
}

static void on_findings_refuses_what_it_says(void **state) {
    static const struct {
        const char *tree, *option;
        int r;
    } cases[] = {{"{w:T,x:os.system{}}", "report", 0},
                 {"{w:T,x:os.system{}}", "dangerous", CK_E_FINDINGS_REFUSED},
                 {"{w:T,x:os.system{}}", "any", CK_E_FINDINGS_REFUSED},
                 {"{w:T,x:my.Config{}}", "dangerous", 0},
                 {"{w:T,x:my.Config{}}", "any", CK_E_FINDINGS_REFUSED},
                 {"{w:T}", "any", 0}};
    static const float zeros[64];

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(cases) * 2; i++) {
        const char *options[] = {"on_findings", cases[i / 2].option, NULL};
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(run_release) struct run run = {0};

        tf_init(&f);
        tf_tree(&f, cases[i / 2].tree);
        tf_record(&f, "0", zeros, sizeof(zeros));
        run_torch(&run, &f, i % 2 ? "mlx" : "safetensors", false, options);
        assert_int_equal(run.r, cases[i / 2].r);
        if (run.r == 0)
            continue;
        assert_non_null(strstr(run.err.message, i / 2 < 4 ? "os.system" : "my.Config"));
        assert_string_equal(run.err.where, "archive/data.pkl");
        expect(run.document, "error.code", "\"findings_refused\"");
    }
}

static void a_cancelled_analysis_gives_nothing(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {.cancelled = true};

    (void)state;
    ambiguous_file(&f);
    run_torch(&run, &f, NULL, false, NULL);
    assert_int_equal(run.r, CK_E_CANCELLED);
    assert_int_equal(run.result.n_files, 0);
}

/* ---- dry runs ---- */

static void a_dry_run_writes_the_plan_that_the_conversion_then_follows(void **state) {
    static const char *const options[] = {"layers", "up:ConvTranspose2d", NULL};
    static const char *const same[] = {"files", "tensors", "dropped", "refused", "aliases", "renamed", "source"};
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run dry = {0}, wet = {0};

    (void)state;
    ambiguous_file(&f);
    run_torch(&dry, &f, "mlx", true, options);
    assert_int_equal(dry.r, 0);
    assert_int_equal(dry.n_files, 1);
    assert_int_equal(dry.result.n_files, 1);
    assert_string_equal(dry.result.files[0].name, "plan.json");
    assert_int_equal(dry.result.tensors, 3);
    expect(dry.document, "status", "\"planned\"");
    expect(dry.document, "spec.dry_run", "true");
    assert_null(at(dry.document, "summary.overflowed"));

    run_torch(&wet, &f, "mlx", false, options);
    assert_int_equal(wet.r, 0);
    assert_int_equal(wet.result.n_files, 2);
    expect(wet.document, "status", "\"written\"");
    expect(wet.document, "summary.overflowed", "0");
    for (size_t i = 0; i < CK_ARRAY_LEN(same); i++)
        assert_true(json_equal(at(dry.document, same[i]), at(wet.document, same[i])));
    assert_int_equal(json_array_size(at(dry.document, "tensors")), 3);
    assert_int_equal(json_integer_value(at(dry.document, "files.0.bytes")), wet.result.files[0].bytes);
}

static void a_plan_that_refuses_is_a_successful_dry_run(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    ambiguous_file(&f);
    run_torch(&run, &f, "mlx", true, NULL);
    assert_int_equal(run.r, 0);
    assert_int_equal(run.n_files, 1);
    assert_string_equal(run.result.files[0].name, "plan.json");
    expect(run.document, "status", "\"refused\"");
    expect(run.document, "error.code", "\"ambiguous_layout\"");
    expect(run.document, "error.questions.0.tensor", "\"up.weight\"");
    expect(run.document, "refused.0.from", "\"up.weight\"");
    expect(run.document, "summary.refused", "1");
    assert_int_equal(json_array_size(at(run.document, "tensors")), 2); /* fc is planned all the same */
}

static void a_refusal_of_the_whole_is_an_answer_of_a_dry_run_too(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    ambiguous_file(&f);
    run_torch(&run, &f, "safetensors", true, (const char *const[]){"rules", "*:drop", NULL});
    assert_int_equal(run.r, 0);
    expect(run.document, "status", "\"refused\"");
    expect(run.document, "error.code", "\"no_tensors\"");
}

static void a_dry_run_of_an_unreadable_file_is_refused_as_ever(void **state) {
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};
    _cleanup_(run_release) struct run run = {0};

    (void)state;
    make_spec(&spec, "mlx", true, NULL);
    run_job(&run, &spec, "", 0, "x.pt");
    assert_int_equal(run.r, CK_E_EMPTY_FILE);
    assert_string_equal(run.result.files[0].name, "report.json");
    expect(run.document, "error.code", "\"empty_file\"");
}

/* ---- tables ---- */

static void every_target_word_has_its_planner(void **state) {
    size_t n = 0;

    (void)state;
    for (; ck_targets[n]; n++)
        assert_string_equal(ck_target_table[n].name, ck_targets[n]);
    assert_null(ck_target_table[n].name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_analysis_has_every_tensor_with_dtype_strides_tie_and_error),
        cmocka_unit_test(totals_count_ties_once_and_leave_out_what_cannot_be_read),
        cmocka_unit_test(a_tensor_that_cannot_be_read_is_a_violation_of_every_target),
        cmocka_unit_test(an_ambiguous_layer_is_a_question_and_its_answer_makes_the_target_supported),
        cmocka_unit_test(an_option_that_fits_nothing_refuses_the_whole_target),
        cmocka_unit_test(the_list_of_tensors_can_be_left_out),
        cmocka_unit_test(a_whole_module_shows_its_modules_and_plain_attributes),
        cmocka_unit_test(a_safetensors_file_shows_its_metadata_and_one_in_mlx_layout_is_said_to_be),
        cmocka_unit_test(the_same_file_under_another_name_gives_the_same_bytes),
        cmocka_unit_test(two_equal_state_dicts_are_refused_with_their_paths),
        cmocka_unit_test(the_option_state_dict_chooses_what_is_analyzed),
        cmocka_unit_test(a_file_that_is_no_checkpoint_is_refused),
        cmocka_unit_test(an_analysis_names_the_other_sets_of_weights),
        cmocka_unit_test(tuples_of_quantized_layers_belong_to_the_state_dict),
        cmocka_unit_test(skip_bad_leaves_out_what_cannot_be_read_and_says_why),
        cmocka_unit_test(skip_bad_with_nothing_left_is_an_error),
        cmocka_unit_test(untie_writes_a_tie_under_each_name),
        cmocka_unit_test(on_findings_refuses_what_it_says),
        cmocka_unit_test(a_cancelled_analysis_gives_nothing),
        cmocka_unit_test(a_dry_run_writes_the_plan_that_the_conversion_then_follows),
        cmocka_unit_test(a_plan_that_refuses_is_a_successful_dry_run),
        cmocka_unit_test(a_refusal_of_the_whole_is_an_answer_of_a_dry_run_too),
        cmocka_unit_test(a_dry_run_of_an_unreadable_file_is_refused_as_ever),
        cmocka_unit_test(every_target_word_has_its_planner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
