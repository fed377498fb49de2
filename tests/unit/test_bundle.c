/* Archives of files: which member is taken, how deep, shards, and what hostile ones may cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "core/model/shards.h"
#include "tests/unit/gzip_file.h"
#include "tests/unit/tar_file.h"
#include "tests/unit/torch_file.h"

/* A checkpoint of one tensor `name` with `n` values, all `value`. The buffer is the caller's. */
static struct ck_buffer checkpoint(const char *name, int64_t n, float value) {
    struct ck_buffer bytes;
    struct torch_file f;
    float values[16];

    tf_init(&f);
    tf_op(&f, "}");
    tf_text(&f, name);
    tf_vector(&f, "0", n);
    tf_op(&f, "s");
    for (size_t i = 0; i < CK_ARRAY_LEN(values); i++)
        values[i] = value;
    tf_record(&f, "0", values, (size_t)n * sizeof(float));
    tf_finish(&f);
    ck_buffer_init(&bytes, SIZE_MAX);
    ck_buffer_add(&bytes, f.zip.data, f.zip.length);
    tf_release(&f);
    return bytes;
}

/* A zip of files, or a tar: add, then open. */
struct box {
    struct torch_file zip;
    struct ck_buffer bytes;
};

static void box_init(struct box *box) {
    *box = (struct box){0};
    tf_init(&box->zip);
    box->zip.pickle_name = NULL;
    ck_buffer_init(&box->bytes, SIZE_MAX);
}

static void box_release(struct box *box) {
    tf_release(&box->zip);
    ck_buffer_release(&box->bytes);
}

static void box_add(struct box *box, const char *name, const void *bytes, size_t n) {
    tf_add_entry(&box->zip, name, bytes, n, true);
}

static void box_add_text(struct box *box, const char *name, const char *text) {
    box_add(box, name, text, strlen(text));
}

/* A checkpoint whose one value tells which it is. */
static void box_add_model(struct box *box, const char *name, float value) {
    _cleanup_(ck_buffer_release) struct ck_buffer model = checkpoint("w", 1, value);

    box_add(box, name, model.data, model.length);
}

static struct ck_source box_zip(struct box *box) {
    return tf_finish(&box->zip);
}

static struct ck_source box_tar(struct box *box) {
    for (unsigned i = 0; i < box->zip.n_entries; i++)
        tar_add(&box->bytes, box->zip.entries[i].name, '0', ck_buffer_text(&box->zip.entries[i].data),
                box->zip.entries[i].data.length);
    tar_end(&box->bytes);
    return tar_source(&box->bytes);
}

struct read {
    struct ck_scratch scratch;
    struct ck_model *model;
    struct ck_error err;
    int r;
};

static struct read read_with(const struct ck_source *source, const char *member, const struct ck_limits *limits) {
    struct read read = {.scratch = {.fd = memfd_create("test", MFD_CLOEXEC), .limit = limits->unpacked_bytes}};
    struct ck_model_options options = {.member = member, .scratch = &read.scratch};

    assert_true(read.scratch.fd >= 0);
    read.r = ck_model_open(source, limits, &options, &read.model, &read.err);
    return read;
}

static void read_release(struct read *read) {
    ck_model_free(read->model);
    ck_closep(&read->scratch.fd);
}

static float first_value(const struct read *read) {
    const struct ck_tensor *tensor = &read->model->tensors[0];
    float value;

    assert_int_equal(
        ck_source_read(&read->model->storages[tensor->storage].source, tensor->view.offset * 4, &value, 4, NULL), 0);
    return value;
}

static void assert_takes_member(const struct ck_source *source, const char *option, const char *member, float value) {
    _cleanup_(read_release) struct read read = read_with(source, option, &ck_limits_default);

    if (read.r < 0)
        fail_msg("%s", read.err.message);
    assert_string_equal(read.model->member, member);
    assert_string_equal(read.model->form, "torch-zip");
    assert_int_equal(read.model->input_bytes, source->length);
    assert_true(first_value(&read) == value);
}

static void assert_refused_with(const struct ck_source *source, const char *option, const struct ck_limits *limits,
                                int code, const char *words) {
    _cleanup_(read_release) struct read read = read_with(source, option, limits);

    if (read.r != code || !strstr(read.err.message, words))
        fail_msg("%d, \"%s\" does not say \"%s\"", read.r, read.err.message, words);
}

static void assert_refused(const struct ck_source *source, const char *option, int code, const char *words) {
    assert_refused_with(source, option, &ck_limits_default, code, words);
}

/* Of a zip with these names, each a checkpoint whose value is its place: the one that is taken, or NULL for a question.
 */
static void assert_chosen(const char *const *names, const char *chosen) {
    _cleanup_(box_release) struct box box;
    struct ck_source source;
    float value = 0;

    box_init(&box);
    for (unsigned i = 0; names[i]; i++) {
        box_add_model(&box, names[i], (float)i);
        if (chosen && strcmp(names[i], chosen) == 0)
            value = (float)i;
    }
    source = box_zip(&box);
    if (chosen)
        assert_takes_member(&source, NULL, chosen, value);
    else
        assert_refused(&source, NULL, CK_E_AMBIGUOUS_MEMBER, names[0]);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the choice ---- */

static void the_only_checkpoint_is_taken(void **state) {
    (void)state;
    assert_chosen(NAMES("run/best.pth", "run/notes.txt"), "run/best.pth");
    assert_chosen(NAMES("best", "__MACOSX/._best", "._best.pth"), "best");
    assert_chosen(NAMES("a.txt", "model/1/model.pt", "b.json"), "model/1/model.pt");
}

static void known_bundles_have_their_file(void **state) {
    (void)state;
    assert_chosen(
        NAMES("data", "policy.optimizer.pth", "pytorch_variables.pth", "policy.pth", "_stable_baselines3_version"),
        "policy.pth");
    assert_chosen(NAMES("pytorch_variables.pth", "actor.optimizer.pth", "ent_coef_optimizer.pth", "policy.pth"),
                  "policy.pth");
    assert_chosen(NAMES("x/pytorch_model.bin", "x/model.safetensors", "x/optimizer.pt"), "x/model.safetensors");
    assert_chosen(NAMES("x/pytorch_model.bin", "x/training_args.bin", "x/rng_state.pth", "x/scheduler.pt"),
                  "x/pytorch_model.bin");
    assert_chosen(NAMES("MAR-INF/MANIFEST.json", "resnet.pth", "model.py"), "resnet.pth");
    assert_chosen(NAMES("optimizer.pt"), "optimizer.pt");
}

static void several_equal_ones_are_asked_about(void **state) {
    (void)state;
    assert_chosen(NAMES("a.pth", "b.pth"), NULL);
    assert_chosen(NAMES("unet/diffusion_pytorch_model.bin", "text_encoder/model.safetensors"), NULL);
    assert_chosen(NAMES("model.safetensors", "2_Dense/model.safetensors"), NULL);
    assert_chosen(NAMES("optimizer.pt", "scheduler.pt"), NULL);
}

static void question_lists_the_members(void **state) {
    _cleanup_(box_release) struct box box;
    _cleanup_(read_release) struct read read = {0};
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add_model(&box, "a\"1.pth", 1);
    box_add_model(&box, "b.pth", 2);
    box_add_model(&box, "optimizer.pt", 3);
    source = box_zip(&box);
    read = read_with(&source, NULL, &ck_limits_default);
    assert_int_equal(read.r, CK_E_AMBIGUOUS_MEMBER);
    assert_string_equal(read.err.details, "[\"a\\\"1.pth\",\"b.pth\"]");
    assert_non_null(strstr(ck_error_hint(&read.err), "member=PATH"));
}

static void details_of_many_members_are_still_json(void **state) {
    _cleanup_(box_release) struct box box;
    _cleanup_(read_release) struct read read = {0};
    struct ck_source source;
    char name[96];

    (void)state;
    box_init(&box);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "%02u-%080u.pth", i % 100, 0u);
        box_add_model(&box, name, 1);
    }
    source = box_zip(&box);
    read = read_with(&source, NULL, &ck_limits_default);
    assert_int_equal(read.r, CK_E_AMBIGUOUS_MEMBER);
    assert_int_equal(read.err.details[strlen(read.err.details) - 1], ']');
    assert_non_null(strstr(read.err.message, " ..."));
}

static void archive_without_a_checkpoint_says_what_it_holds(void **state) {
    _cleanup_(box_release) struct box box;
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add_text(&box, "readme.md", "hello");
    box_add_text(&box, "config.json", "{}");
    source = box_zip(&box);
    assert_refused(&source, NULL, CK_E_UNSUPPORTED_FORM, "readme.md (5 bytes), config.json (2 bytes)");
    source = box_tar(&box);
    assert_refused(&source, NULL, CK_E_UNSUPPORTED_FORM, "the tar archive holds no checkpoint, only: readme.md");
}

static void empty_member_is_named(void **state) {
    _cleanup_(box_release) struct box box;
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add_text(&box, "MAR-INF/MANIFEST.json", "{}");
    box_add_text(&box, "model.pt", "");
    source = box_zip(&box);
    assert_refused(&source, NULL, CK_E_EMPTY_FILE, "in model.pt: ");
}

/* ---- the option ---- */

static void option_takes_any_file_by_its_exact_name(void **state) {
    _cleanup_(box_release) struct box box;
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add_model(&box, "a.pth", 1);
    box_add_model(&box, "run/b.pth", 2);
    box_add_model(&box, "weights", 3);
    box_add_model(&box, "../c.pth", 4);
    source = box_zip(&box);
    assert_takes_member(&source, "run/b.pth", "run/b.pth", 2);
    assert_takes_member(&source, "weights", "weights", 3);
    assert_takes_member(&source, "../c.pth", "../c.pth", 4);
    assert_refused(&source, "../a.pth", CK_E_MEMBER_NOT_FOUND, "../a.pth");
    assert_refused(&source, "./a.pth", CK_E_MEMBER_NOT_FOUND, "./a.pth");
    assert_refused(&source, "A.pth", CK_E_MEMBER_NOT_FOUND, "A.pth");
    assert_refused(&source, "/etc/passwd", CK_E_MEMBER_NOT_FOUND, "/etc/passwd");
    assert_refused(&source, "run", CK_E_MEMBER_NOT_FOUND, "run/b.pth");
    assert_refused(&source, "a.pth/x", CK_E_MEMBER_NOT_FOUND, "in a.pth: there is no x");
}

static void option_for_a_plain_checkpoint_is_refused(void **state) {
    static const uint8_t safetensors[] = "\2\0\0\0\0\0\0\0{}";
    _cleanup_(ck_buffer_release) struct ck_buffer model = checkpoint("w", 1, 1);
    struct ck_source source = ck_source_from_memory(model.data, model.length);

    (void)state;
    assert_refused(&source, "w", CK_E_MEMBER_NOT_FOUND, "checkpoint itself");
    source = ck_source_from_memory(safetensors, sizeof(safetensors) - 1);
    assert_refused(&source, "w", CK_E_MEMBER_NOT_FOUND, "checkpoint itself");
}

/* ---- archives in archives ---- */

static void tar_and_gzip_are_read_like_a_zip(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX}, model = checkpoint("w", 1, 7);
    _cleanup_(read_release) struct read read = {0};
    _cleanup_(box_release) struct box box;
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add_text(&box, "model_config.yaml", "a: 1");
    box_add_model(&box, "model_weights.ckpt", 5);
    source = box_tar(&box);
    assert_takes_member(&source, NULL, "model_weights.ckpt", 5);
    gzip_add(&gzip, source.memory, source.length);
    source = ck_source_from_memory(gzip.data, gzip.length);
    assert_takes_member(&source, NULL, "model_weights.ckpt", 5);
    gzip.length = 0;
    gzip_add(&gzip, model.data, model.length);
    source = ck_source_from_memory(gzip.data, gzip.length);
    read = read_with(&source, NULL, &ck_limits_default);
    assert_int_equal(read.r, 0);
    assert_string_equal(read.model->archive, "gzip");
    assert_null(read.model->member);
    assert_true(first_value(&read) == 7);
}

/* A zip that holds a zip that ... a checkpoint; `levels` zips. */
static struct ck_buffer nested(unsigned levels) {
    struct ck_buffer bytes = checkpoint("w", 1, 9);
    char name[16] = "m.pt";

    for (unsigned i = 0; i < levels; i++) {
        _cleanup_(box_release) struct box box;
        struct ck_source source;

        box_init(&box);
        box_add(&box, name, bytes.data, bytes.length);
        source = box_zip(&box);
        bytes.length = 0;
        ck_buffer_add(&bytes, source.memory, source.length);
        snprintf(name, sizeof(name), "%u.zip", i);
    }
    return bytes;
}

static void nesting_stops_at_its_limit(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer three = nested(3), four = nested(4);
    struct ck_source source = ck_source_from_memory(three.data, three.length);

    (void)state;
    assert_takes_member(&source, NULL, "1.zip/0.zip/m.pt", 9);
    assert_takes_member(&source, "1.zip/0.zip", "1.zip/0.zip/m.pt", 9);
    assert_takes_member(&source, "1.zip/0.zip/m.pt", "1.zip/0.zip/m.pt", 9);
    assert_refused(&source, "1.zip/x", CK_E_MEMBER_NOT_FOUND, "in 1.zip: the zip archive has no file");
    source = ck_source_from_memory(four.data, four.length);
    assert_refused(&source, NULL, CK_E_TENSOR_LIMIT, "--limit-nesting");
}

static void tar_in_gzip_is_one_archive(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX}, twice = {.limit = SIZE_MAX};
    struct ck_limits limits = ck_limits_default;
    _cleanup_(box_release) struct box box;
    _cleanup_(read_release) struct read read = {0};
    struct ck_source source;

    (void)state;
    limits.nesting = 1;
    box_init(&box);
    box_add_model(&box, "m.pt", 5);
    source = box_tar(&box);
    gzip_add(&gzip, source.memory, source.length);
    source = ck_source_from_memory(gzip.data, gzip.length);
    read = read_with(&source, NULL, &limits);
    assert_int_equal(read.r, 0);
    assert_string_equal(read.model->archive, "tar.gz");
    gzip_add(&twice, gzip.data, gzip.length);
    source = ck_source_from_memory(twice.data, twice.length);
    assert_refused_with(&source, NULL, &limits, CK_E_TENSOR_LIMIT, "more than 1 archives");
    limits.nesting = 0;
    source = ck_source_from_memory(gzip.data, gzip.length);
    assert_refused_with(&source, NULL, &limits, CK_E_TENSOR_LIMIT, "--limit-nesting");
}

static void gzip_in_gzip_in_gzip_ends(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};
    struct ck_source source;

    (void)state;
    gzip_add(&gzip, "\x1f\x8b\x08", 3);
    for (int i = 0; i < 10; i++) {
        struct ck_buffer outer = {.limit = SIZE_MAX};

        gzip_add(&outer, gzip.data, gzip.length);
        ck_buffer_release(&gzip);
        gzip = outer;
    }
    source = ck_source_from_memory(gzip.data, gzip.length);
    assert_refused(&source, NULL, CK_E_TENSOR_LIMIT, "--limit-nesting");
}

static void stored_members_need_no_scratch_file(void **state) {
    _cleanup_(ck_model_freep) struct ck_model *model = NULL;
    _cleanup_(box_release) struct box box;
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add_model(&box, "m.pt", 5);
    box.zip.entries[0].deflated = false;
    source = box_zip(&box);
    assert_int_equal(ck_model_open(&source, &ck_limits_default, NULL, &model, NULL), 0);
    assert_string_equal(model->member, "m.pt");
}

static void compressed_members_need_the_scratch_file(void **state) {
    _cleanup_(box_release) struct box box;
    _cleanup_(ck_model_freep) struct ck_model *model = NULL;
    struct ck_error err = {0};
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add_model(&box, "m.pt", 5);
    source = box_zip(&box);
    assert_int_equal(ck_model_open(&source, &ck_limits_default, NULL, &model, &err), CK_E_UNSUPPORTED_FORM);
    assert_non_null(strstr(err.message, "m.pt is compressed"));
}

static void bomb_is_refused_before_it_is_unpacked(void **state) {
    size_t n = 70u << 20;
    _cleanup_(ck_freep) char *zeros = calloc(1, n);
    struct ck_limits limits = ck_limits_default;
    _cleanup_(box_release) struct box box;
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add(&box, "m.pt", zeros, n);
    source = box_zip(&box);
    assert_refused(&source, NULL, CK_E_TENSOR_LIMIT, "--limit-unpacked-ratio");
    limits.unpacked_ratio = 2000;
    limits.unpacked_bytes = n - 1;
    assert_refused_with(&source, NULL, &limits, CK_E_TENSOR_LIMIT, "--limit-unpacked-bytes");
}

/* ---- what the report says ---- */

static void findings_name_the_member(void **state) {
    _cleanup_(box_release) struct box box;
    _cleanup_(read_release) struct read read = {0};
    struct ck_source source;
    struct torch_file f;
    bool found = false;

    (void)state;
    tf_init(&f);
    tf_op(&f, "}");
    tf_text(&f, "w");
    tf_vector(&f, "0", 1);
    tf_op(&f, "s");
    tf_global(&f, "posix", "system");
    tf_op(&f, "0");
    tf_record(&f, "0", "\0\0\0\0", 4);
    tf_finish(&f);
    box_init(&box);
    box_add(&box, "m.pt", f.zip.data, f.zip.length);
    tf_release(&f);
    source = box_zip(&box);
    read = read_with(&source, NULL, &ck_limits_default);
    assert_int_equal(read.r, 0);
    for (size_t i = 0; i < read.model->findings.count; i++)
        found = found || (read.model->findings.items[i].class_ == CK_FINDING_DANGEROUS &&
                          strcmp(read.model->findings.items[i].entry, "m.pt > archive/data.pkl") == 0);
    assert_true(found);
}

static void members_are_listed(void **state) {
    _cleanup_(box_release) struct box box;
    _cleanup_(read_release) struct read read = {0};
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add_model(&box, "policy.pth", 1);
    box_add_text(&box, "policy.optimizer.pth", "12345");
    box_add_text(&box, "readme", "x");
    source = box_zip(&box);
    read = read_with(&source, NULL, &ck_limits_default);
    assert_int_equal(read.r, 0);
    assert_string_equal(read.model->archive, "zip");
    assert_int_equal(read.model->n_members, 2);
    assert_string_equal(read.model->members[1].name, "policy.optimizer.pth");
    assert_int_equal(read.model->members[1].bytes, 5);
}

/* ---- shards ---- */

static void shard_names_are_told(void **state) {
    static const struct {
        const char *name;
        size_t stem;
        uint32_t number, count;
        const char *suffix;
    } good[] = {
        {"model-00001-of-00002.safetensors", 5, 1, 2, ".safetensors"},
        {"a/pytorch_model-00010-of-00012.bin", 15, 10, 12, ".bin"},
        {"x-of-y-1-of-1", 6, 1, 1, ""},
        {"m-999999999-of-999999999.pt", 1, 999999999, 999999999, ".pt"},
    };
    static const char *const bad[] = {"model.bin",      "m-0-of-2.bin",         "m-1-of-0.bin",         "m-of-2.bin",
                                      "-of-",           "m-1-of-2x.bin",        "m--of-2.bin",          "m1-of-2.bin",
                                      "a-1-of-2/m.bin", "m-1234567890-of-2.pt", "m-1-of-1234567890.pt", ""};
    struct ck_shard_name parts;

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(good); i++) {
        assert_true(ck_shard_parse(good[i].name, &parts));
        assert_int_equal(parts.stem, good[i].stem);
        assert_int_equal(parts.number, good[i].number);
        assert_int_equal(parts.count, good[i].count);
        assert_string_equal(parts.suffix, good[i].suffix);
    }
    for (size_t i = 0; i < CK_ARRAY_LEN(bad); i++)
        if (ck_shard_parse(bad[i], &parts))
            fail_msg("%s", bad[i]);
}

/* Two shards, each with a tensor of its own name, and an index unless NULL. */
static struct read read_shards(struct box *box, const char *first, const char *second, const char *index) {
    _cleanup_(ck_buffer_release) struct ck_buffer a = checkpoint("a.weight", 1, 1), b = checkpoint("b.weight", 2, 2);
    struct ck_source source;

    box_init(box);
    box_add(box, second, b.data, b.length);
    box_add(box, first, a.data, a.length);
    if (index)
        box_add_text(box, "r/model.bin.index.json", index);
    source = box_zip(box);
    return read_with(&source, NULL, &ck_limits_default);
}

#define FIRST  "r/model-00001-of-00002.bin"
#define SECOND "r/model-00002-of-00002.bin"

static void shards_are_one_model(void **state) {
    static const char *const indices[] = {
        NULL,
        "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a.weight\":\"model-00001-of-00002.bin\","
        "\"b.weight\":\"model-00002-of-00002.bin\"}}",
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(indices); i++) {
        _cleanup_(box_release) struct box box;
        _cleanup_(read_release) struct read read = read_shards(&box, FIRST, SECOND, indices[i]);

        if (read.r < 0)
            fail_msg("%s", read.err.message);
        assert_string_equal(read.model->member, "r/model-*-of-00002.bin");
        assert_int_equal(read.model->n_tensors, 2);
        assert_string_equal(read.model->tensors[0].name, "a.weight");
        assert_string_equal(read.model->tensors[1].name, "b.weight");
        assert_true(first_value(&read) == 1);
        assert_int_equal(read.model->tensors[1].view.shape[0], 2);
    }
}

static void shards_that_do_not_fit_are_refused_by_name(void **state) {
    static const struct {
        const char *first, *second, *index, *words;
    } rows[] = {
        {FIRST, "r/model-00002-of-00003.bin", NULL, "r/model-"},
        {FIRST, "r/x.txt", NULL, "shard 2 of 2 is missing"},
        {"r/x.txt", SECOND, NULL, "shard 1 of 2 is missing"},
        {FIRST, "r/model-1-of-00002.bin", NULL, "twice"},
        {FIRST, "r/model-00003-of-00002.bin", NULL, "shard 2 of 2 is missing"},
        {FIRST, SECOND, "{\"weight_map\":{\"a.weight\":\"model-00001-of-00002.bin\"}}", "does not name"},
        {FIRST, SECOND,
         "{\"weight_map\":{\"a.weight\":\"model-00001-of-00002.bin\",\"b.weight\":\"model-00001-of-00002.bin\"}}",
         "another shard"},
        {FIRST, SECOND,
         "{\"weight_map\":{\"a.weight\":\"model-00001-of-00002.bin\",\"b.weight\":\"model-00002-of-00002.bin\","
         "\"c\":\"model-00002-of-00002.bin\"}}",
         "lacks a tensor that the index names: c"},
        {FIRST, SECOND, "{\"weight_map\":{\"a.weight\":\"model-00003-of-00002.bin\"}}",
         "names a shard that is missing"},
        {FIRST, SECOND,
         "{\"weight_map\":{\"a.weight\":\"model-00001-of-00002.bin\",\"a.weight\":\"model-00001-of-00002.bin\"}}",
         "twice"},
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++) {
        _cleanup_(box_release) struct box box;
        _cleanup_(read_release) struct read read = read_shards(&box, rows[i].first, rows[i].second, rows[i].index);
        int code = i == 0 ? CK_E_AMBIGUOUS_MEMBER : CK_E_SHARDS_MISMATCH;

        if (read.r != code || !strstr(read.err.message, rows[i].words))
            fail_msg("%zu: %d, \"%s\" does not say \"%s\"", i, read.r, read.err.message, rows[i].words);
    }
}

static void damaged_index_is_refused(void **state) {
    static const char *const rows[] = {"",
                                       "{",
                                       "[]",
                                       "{}",
                                       "{\"weight_map\":[]}",
                                       "{\"weight_map\":{\"a.weight\":1}}",
                                       "{\"weight_map\":{\"a\\u0000b\":\"x\"}}",
                                       "{\"weight_map\":{},\"weight_map\":{}}",
                                       "{\"weight_map\":{}} x"};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++) {
        _cleanup_(box_release) struct box box;
        _cleanup_(read_release) struct read read = read_shards(&box, FIRST, SECOND, rows[i]);

        if (read.r != CK_E_HEADER_CORRUPT || !strstr(read.err.message, "in r/model.bin.index.json: "))
            fail_msg("%zu: %d, \"%s\"", i, read.r, read.err.message);
    }
}

static void tensor_in_two_shards_is_refused(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer model = checkpoint("w", 1, 1);
    _cleanup_(box_release) struct box box;
    struct ck_source source;

    (void)state;
    box_init(&box);
    box_add(&box, FIRST, model.data, model.length);
    box_add(&box, SECOND, model.data, model.length);
    source = box_zip(&box);
    assert_refused(&source, NULL, CK_E_SHARDS_MISMATCH, "lies in two shards");
    assert_takes_member(&source, SECOND, SECOND, 1);
    assert_refused(&source, "r/model-*-of-00002.bin", CK_E_SHARDS_MISMATCH, "lies in two shards");
}

/* ---- damage ---- */

static void archive_cut_off_at_any_byte_is_refused(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer gzip = {.limit = SIZE_MAX};
    _cleanup_(box_release) struct box box;
    struct ck_source zip, tar;

    (void)state;
    box_init(&box);
    box_add_model(&box, "m.pt", 5);
    zip = box_zip(&box);
    for (uint64_t n = 0; n < zip.length; n++) {
        struct ck_source part = ck_source_from_memory(zip.memory, n);
        _cleanup_(read_release) struct read read = read_with(&part, NULL, &ck_limits_default);

        assert_true(read.r < 0);
    }
    tar = box_tar(&box);
    gzip_add(&gzip, tar.memory, tar.length);
    for (size_t n = 0; n < gzip.length; n++) {
        struct ck_source part = ck_source_from_memory(gzip.data, n);
        _cleanup_(read_release) struct read read = read_with(&part, NULL, &ck_limits_default);

        assert_true(read.r < 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_checkpoint_is_taken),
        cmocka_unit_test(known_bundles_have_their_file),
        cmocka_unit_test(several_equal_ones_are_asked_about),
        cmocka_unit_test(question_lists_the_members),
        cmocka_unit_test(details_of_many_members_are_still_json),
        cmocka_unit_test(archive_without_a_checkpoint_says_what_it_holds),
        cmocka_unit_test(empty_member_is_named),
        cmocka_unit_test(option_takes_any_file_by_its_exact_name),
        cmocka_unit_test(option_for_a_plain_checkpoint_is_refused),
        cmocka_unit_test(tar_and_gzip_are_read_like_a_zip),
        cmocka_unit_test(nesting_stops_at_its_limit),
        cmocka_unit_test(tar_in_gzip_is_one_archive),
        cmocka_unit_test(gzip_in_gzip_in_gzip_ends),
        cmocka_unit_test(stored_members_need_no_scratch_file),
        cmocka_unit_test(compressed_members_need_the_scratch_file),
        cmocka_unit_test(bomb_is_refused_before_it_is_unpacked),
        cmocka_unit_test(findings_name_the_member),
        cmocka_unit_test(members_are_listed),
        cmocka_unit_test(shard_names_are_told),
        cmocka_unit_test(shards_are_one_model),
        cmocka_unit_test(shards_that_do_not_fit_are_refused_by_name),
        cmocka_unit_test(damaged_index_is_refused),
        cmocka_unit_test(tensor_in_two_shards_is_refused),
        cmocka_unit_test(archive_cut_off_at_any_byte_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
