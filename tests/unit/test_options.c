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
    assert_string_equal(text_a, "{\"options\":{\"dtype\":\"float16\"},\"quant\":\"q4\",\"to\":\"mlx\"}");
    free(text_a);
    free(text_b);
    ck_spec_release(&a);
    ck_spec_release(&b);
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
        cmocka_unit_test(pairs_split_at_the_last_colon),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(an_option_given_twice_or_to_the_wrong_target_is_refused),
        cmocka_unit_test(pairs_and_text_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
