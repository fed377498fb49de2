/* Job options: the table, the parser, the normal form. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "core/job/options.h"

static int set(const char *name, const char *value, struct ck_error *err) {
    struct ck_spec spec;
    int r;

    assert_int_equal(ck_spec_init(&spec, "mlx", NULL, NULL), 0);
    memset(err, 0, sizeof(*err));
    r = ck_spec_set(&spec, name, value, err);
    ck_spec_release(&spec);
    return r;
}

static void unknown_words_get_the_nearest_one(void **state) {
    struct ck_error err = {0};
    struct ck_spec spec;

    (void)state;
    assert_int_equal(ck_spec_init(&spec, "mxl", NULL, &err), CK_E_UNSUPPORTED_TARGET);
    assert_non_null(strstr(ck_error_hint(&err), "'mlx'"));
    memset(&err, 0, sizeof(err));
    assert_int_equal(ck_spec_init(&spec, "mlx", "q4-g46", &err), CK_E_UNSUPPORTED_QUANT);
    assert_non_null(strstr(ck_error_hint(&err), "'q4-g64'"));
    assert_int_equal(set("layer", "a:b", &err), CK_E_BAD_OPTION);
    assert_non_null(strstr(ck_error_hint(&err), "'layers'"));
    assert_int_equal(set("assume", "nevr", &err), CK_E_BAD_OPTION);
    assert_non_null(strstr(ck_error_hint(&err), "'never'"));
    assert_string_equal(err.where, "assume");
}

static void every_affine_width_and_group_is_known(void **state) {
    static const char *const names[] = {"q2", "q3", "q4", "q5", "q6", "q8"};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++) {
        struct ck_spec spec;

        assert_int_equal(ck_spec_init(&spec, "mlx", names[i], NULL), 0);
        assert_int_equal(spec.affine.bits, names[i][1] - '0');
        assert_int_equal(spec.affine.group, 64);
        ck_spec_release(&spec);
    }
    struct ck_spec spec;
    assert_int_equal(ck_spec_init(&spec, "mlx", "q8-g128", NULL), 0);
    assert_int_equal(spec.affine.group, 128);
    ck_spec_release(&spec);
    assert_int_equal(ck_spec_init(&spec, "mlx", "q7", NULL), CK_E_UNSUPPORTED_QUANT);
    assert_int_equal(ck_spec_init(&spec, "safetensors", "q4", NULL), CK_E_UNSUPPORTED_QUANT);
}

static void one_specification_has_one_normal_form(void **state) {
    struct ck_spec a, b;
    char *text_a, *text_b;

    (void)state;
    assert_int_equal(ck_spec_init(&a, "mlx", "q4-g64", NULL), 0);
    assert_int_equal(ck_spec_set(&a, "dtype", "float16", NULL), 0);
    assert_int_equal(ck_spec_set(&a, "assume", "convention", NULL), 0); /* the default says nothing */
    assert_int_equal(ck_spec_init(&b, "mlx", "q4", NULL), 0);
    assert_int_equal(ck_spec_set(&b, "dtype", "float16", NULL), 0);
    text_a = ck_spec_normalised(&a);
    text_b = ck_spec_normalised(&b);
    assert_string_equal(text_a, text_b);
    assert_string_equal(text_a,
                        "{\"kind\":\"convert\",\"options\":{\"dtype\":\"float16\"},\"quant\":\"q4\",\"to\":\"mlx\"}");
    free(text_a);
    free(text_b);
    ck_spec_release(&a);
    ck_spec_release(&b);
}

/* The normal form is part of the cache key: a plan or an analysis must not be served as a model. */
static void kinds_and_dry_runs_have_normal_forms_of_their_own(void **state) {
    _cleanup_(ck_spec_release) struct ck_spec dry = {0}, analysis = {0};
    _cleanup_(ck_freep) char *text = NULL, *analysis_text = NULL;

    (void)state;
    assert_int_equal(ck_spec_init(&dry, "mlx", NULL, NULL), 0);
    dry.dry_run = true;
    text = ck_spec_normalised(&dry);
    assert_string_equal(text, "{\"dry_run\":true,\"kind\":\"convert\",\"options\":{},\"quant\":\"\",\"to\":\"mlx\"}");
    assert_int_equal(ck_spec_init_analyze(&analysis, NULL), 0);
    assert_int_equal(ck_spec_set(&analysis, "tensors", "false", NULL), 0);
    analysis_text = ck_spec_normalised(&analysis);
    assert_string_equal(analysis_text,
                        "{\"kind\":\"analyze\",\"options\":{\"tensors\":\"false\"},\"quant\":\"\",\"to\":\"\"}");
}

static void a_kind_of_job_is_known_by_its_word(void **state) {
    enum ck_job_kind kind = CK_JOB_KIND_END_;

    (void)state;
    assert_true(ck_job_kind_from_name("analyze", &kind));
    assert_int_equal(kind, CK_JOB_ANALYZE);
    assert_string_equal(ck_job_kind_name(CK_JOB_CONVERT), "convert");
    assert_false(ck_job_kind_from_name("analyse", &kind));
    assert_false(ck_job_kind_from_name("", &kind));
    assert_int_equal(kind, CK_JOB_ANALYZE);
}

static void an_analysis_takes_what_any_target_takes(void **state) {
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};

    (void)state;
    assert_int_equal(ck_spec_init_analyze(&spec, NULL), 0);
    assert_string_equal(spec.target, "");
    assert_string_equal(spec.quant, "");
    assert_int_equal(ck_spec_set(&spec, "layers", "up:Conv2d", NULL), 0);
    assert_int_equal(ck_spec_set(&spec, "max_shard_size", "2048", NULL), 0);
    assert_int_equal(spec.max_shard_bytes, 2048);
    assert_int_equal(ck_spec_set(&spec, "tensors", "no", NULL), CK_E_BAD_OPTION);
    assert_string_equal(ck_spec_get(&spec, "tensors"), "true");
}

static void an_option_of_analyses_is_refused_by_a_conversion(void **state) {
    static const char *const targets[] = {"mlx", "safetensors"};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(targets); i++) {
        _cleanup_(ck_spec_release) struct ck_spec spec = {0};
        struct ck_error err = {0};

        assert_int_equal(ck_spec_init(&spec, targets[i], NULL, NULL), 0);
        assert_int_equal(ck_spec_set(&spec, "tensors", "true", &err), CK_E_BAD_OPTION);
        assert_string_equal(err.message, "option tensors is for the job analyze, not for convert");
        assert_string_equal(err.where, "tensors");
    }
}

static void pairs_split_at_the_last_colon(void **state) {
    struct ck_spec spec;

    (void)state;
    assert_int_equal(ck_spec_init(&spec, "mlx", NULL, NULL), 0);
    assert_int_equal(ck_spec_set(&spec, "layers", "up.*:ConvTranspose2d,a:b.c:Linear", NULL), 0);
    assert_int_equal(spec.layers.count, 2);
    assert_string_equal(spec.layers.items[0].pattern, "up.*");
    assert_string_equal(spec.layers.items[1].pattern, "a:b.c");
    assert_string_equal(spec.layers.items[1].word, "Linear");
    ck_spec_release(&spec);
}

static void bad_values_are_refused(void **state) {
    struct ck_error err;

    (void)state;
    assert_int_equal(set("layers", "conv", &err), CK_E_BAD_OPTION);
    assert_int_equal(set("layers", "conv:", &err), CK_E_BAD_OPTION);
    assert_int_equal(set("layers", "", &err), CK_E_BAD_OPTION);
    assert_int_equal(set("dtype", "float64", &err), CK_E_BAD_OPTION);
    assert_int_equal(set("max_shard_size", "1024", &err), 0);
    assert_int_equal(set("max_shard_size", "1023", &err), CK_E_BAD_OPTION);
    assert_int_equal(set("max_shard_size", "5368709120", &err), 0);
    assert_int_equal(set("max_shard_size", "5368709121", &err), CK_E_BAD_OPTION);
    assert_int_equal(set("max_shard_size", "-1", &err), CK_E_BAD_OPTION);
    assert_int_equal(set("max_shard_size", "99999999999999999999999", &err), CK_E_BAD_OPTION);
}

static void what_becomes_of_odd_tensors_is_a_choice(void **state) {
    static const struct {
        const char *target, *name, *value;
        int r;
    } cases[] = {{"mlx", "quantized", "keep", 0},
                 {"safetensors", "quantized", "dequantize", 0},
                 {"mlx", "quantized", "int8", CK_E_BAD_OPTION},
                 {"mlx", "skip_bad", "true", 0},
                 {"safetensors", "skip_bad", "yes", CK_E_BAD_OPTION},
                 {"safetensors", "untie", "true", 0},
                 {"mlx", "untie", "true", CK_E_BAD_OPTION},
                 {"mlx", "on_findings", "dangerous", 0},
                 {"safetensors", "on_findings", "any", 0},
                 {"safetensors", "on_findings", "refuse", CK_E_BAD_OPTION}};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++) {
        _cleanup_(ck_spec_release) struct ck_spec spec = {0};

        assert_int_equal(ck_spec_init(&spec, cases[i].target, NULL, NULL), 0);
        assert_int_equal(ck_spec_set(&spec, cases[i].name, cases[i].value, NULL), cases[i].r);
        if (cases[i].r == 0)
            assert_string_equal(ck_spec_get(&spec, cases[i].name), cases[i].value);
    }
}

static void an_option_given_twice_or_to_the_wrong_target_is_refused(void **state) {
    struct ck_spec spec;

    (void)state;
    assert_int_equal(ck_spec_init(&spec, "safetensors", NULL, NULL), 0);
    assert_int_equal(ck_spec_set(&spec, "state_dict", "a", NULL), 0);
    assert_int_equal(ck_spec_set(&spec, "state_dict", "b", NULL), CK_E_BAD_OPTION);
    assert_int_equal(ck_spec_set(&spec, "layers", "a:Conv2d", NULL), CK_E_BAD_OPTION);
    ck_spec_release(&spec);
}

/* count pairs "a:b,a:b,..." */
static int set_pairs(size_t count, struct ck_error *err) {
    char *text = calloc(count, 4);
    int r;

    for (size_t i = 0; i < count; i++)
        memcpy(text + 4 * i, i + 1 < count ? "a:b," : "a:b", i + 1 < count ? 4 : 3);
    r = set("rules", text, err);
    free(text);
    return r;
}

static void pairs_and_text_are_bounded(void **state) {
    static char text[CK_OPTION_TEXT_MAX + 2];
    struct ck_error err;

    (void)state;
    assert_int_equal(set_pairs(CK_PAIRS_MAX, &err), 0);
    assert_int_equal(set_pairs(CK_PAIRS_MAX + 1, &err), CK_E_BAD_OPTION);
    memset(text, 'x', CK_OPTION_TEXT_MAX);
    assert_int_equal(set("state_dict", text, &err), 0);
    text[CK_OPTION_TEXT_MAX] = 'x';
    assert_int_equal(set("state_dict", text, &err), CK_E_BAD_OPTION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_words_get_the_nearest_one),
        cmocka_unit_test(every_affine_width_and_group_is_known),
        cmocka_unit_test(one_specification_has_one_normal_form),
        cmocka_unit_test(kinds_and_dry_runs_have_normal_forms_of_their_own),
        cmocka_unit_test(a_kind_of_job_is_known_by_its_word),
        cmocka_unit_test(an_analysis_takes_what_any_target_takes),
        cmocka_unit_test(an_option_of_analyses_is_refused_by_a_conversion),
        cmocka_unit_test(pairs_split_at_the_last_colon),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(what_becomes_of_odd_tensors_is_a_choice),
        cmocka_unit_test(an_option_given_twice_or_to_the_wrong_target_is_refused),
        cmocka_unit_test(pairs_and_text_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
