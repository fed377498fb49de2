/* api/spec, api/submit: the JSON of a job, its limits, and the key of its results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/submit.h"

#define HEX    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define INPUTS "\"inputs\":[{\"digest\":\"sha256:" HEX "\"}]"

static int parse(const char *body, struct ck_submission *submission, struct ck_error *err) {
    *submission = (struct ck_submission){0};
    *err = (struct ck_error){0};
    return ck_submission_parse(body, strlen(body), submission, err);
}

static void assert_refused(const char *body, int code, const char *where, const char *text) {
    struct ck_submission submission;
    struct ck_error err;

    assert_int_equal(parse(body, &submission, &err), code);
    assert_string_equal(err.where, where);
    if (!strstr(err.message, text) && !strstr(err.hint, text))
        fail_msg("'%s' is neither in '%s' nor in '%s'", text, err.message, err.hint);
    assert_null(submission.spec.target);
    assert_null(submission.input.name);
}

static void assert_option(const char *options, const char *name, const char *expected) {
    struct ck_submission submission;
    struct ck_error err;
    char body[512];

    snprintf(body, sizeof(body), "{" INPUTS ",\"to\":\"mlx\",\"options\":%s}", options);
    if (parse(body, &submission, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(ck_spec_get(&submission.spec, name), expected);
    ck_submission_release(&submission);
}

static void a_whole_specification_is_read(_unused_ void **state) {
    struct ck_submission submission;
    struct ck_error err;

    assert_int_equal(parse("{\"dry_run\":true,\"fresh\":true,\"labels\":{\"team\":\"\\u00e9\",\"a/b\":\"\"},"
                           "\"options\":{\"dtype\":\"float16\"},\"quant\":\"q4-g64\",\"to\":\"mlx\",\"inputs\":"
                           "[{\"role\":\"model\",\"name\":\"m.pt\",\"digest\":\"sha256:" HEX
                           "\"}],\"kind\":\"convert\"}",
                           &submission, &err),
                     0);
    assert_int_equal(submission.spec.kind, CK_JOB_CONVERT);
    assert_string_equal(submission.spec.target, "mlx");
    assert_string_equal(submission.spec.quant, "q4");
    assert_string_equal(ck_spec_get(&submission.spec, "dtype"), "float16");
    assert_string_equal(submission.input.name, "m.pt");
    assert_string_equal(submission.input.digest, HEX);
    assert_string_equal(submission.labels, "{\"a/b\":\"\",\"team\":\"\xC3\xA9\"}");
    assert_true(submission.fresh && submission.spec.dry_run);
    ck_submission_release(&submission);
}

static void what_may_be_absent_has_its_default(_unused_ void **state) {
    struct ck_submission submission;
    struct ck_error err;

    assert_int_equal(parse("{\"to\":\"safetensors\"," INPUTS "}", &submission, &err), 0);
    assert_string_equal(submission.spec.quant, "");
    assert_null(submission.input.name);
    assert_null(submission.labels);
    assert_false(submission.fresh || submission.spec.dry_run);
    ck_submission_release(&submission);
    assert_int_equal(parse("{\"kind\":\"analyze\",\"to\":\"\",\"quant\":\"\"," INPUTS "}", &submission, &err), 0);
    assert_int_equal(submission.spec.kind, CK_JOB_ANALYZE);
    ck_submission_release(&submission);
}

static void options_may_be_texts_numbers_and_truths(_unused_ void **state) {
    struct ck_submission submission;
    struct ck_error err;

    assert_option("{\"max_shard_size\":4096}", "max_shard_size", "4096");
    assert_option("{\"max_shard_size\":\"4096\"}", "max_shard_size", "4096");
    assert_option("{\"state_dict\":true}", "state_dict", "true");
    assert_option("{\"layers\":\"a:Conv2d,b:Linear\"}", "layers", "a:Conv2d,b:Linear");
    /* Neither sorted nor hashed: the first pattern that fits wins. */
    assert_option("{\"layers\":{\"z.*\":\"Conv2d\",\"b:1\":\"Linear\",\"*\":\"Embedding\",\"a\":\"Conv1d\"}}", "layers",
                  "z.*:Conv2d,b:1:Linear,*:Embedding,a:Conv1d");
    assert_option("{\"rules\":{\"*.scale\":\"identity\"}}", "rules", "*.scale:identity");
    assert_int_equal(parse("{\"kind\":\"analyze\",\"options\":{\"tensors\":false}," INPUTS "}", &submission, &err), 0);
    assert_string_equal(ck_spec_get(&submission.spec, "tensors"), "false");
    ck_submission_release(&submission);
}

static void wrong_options_name_their_place(_unused_ void **state) {
    static const struct {
        const char *options, *where, *text;
        int code;
    } wrong[] = {
        {"{\"dtipe\":\"float16\"}", "/options/dtipe", "dtype", CK_E_BAD_OPTION},
        {"{\"dtype\":\"float61\"}", "/options/dtype", "float16", CK_E_BAD_OPTION},
        {"{\"tensors\":true}", "/options/tensors", "analyze", CK_E_BAD_OPTION},
        {"{\"max_shard_size\":1023}", "/options/max_shard_size", "1024", CK_E_BAD_OPTION},
        {"{\"max_shard_size\":1.5}", "/options/max_shard_size", "1.5", CK_E_BAD_OPTION},
        {"{\"dtype\":null}", "/options/dtype", "null", CK_E_BAD_JSON},
        {"{\"dtype\":{\"a\":\"b\"}}", "/options/dtype", "an object", CK_E_BAD_JSON},
        {"{\"layers\":[\"a:Conv2d\"]}", "/options/layers", "a text or an object", CK_E_BAD_JSON},
        {"{\"layers\":{}}", "/options/layers", "empty", CK_E_BAD_OPTION},
        {"{\"layers\":{\"a/b~c\":1}}", "/options/layers/a~1b~0c", "a text", CK_E_BAD_JSON},
        {"{\"layers\":{\"a,b\":\"Conv2d\"}}", "/options/layers/a,b", "comma", CK_E_BAD_OPTION},
        {"{\"layers\":{\"a\":\"Conv2d:x\"}}", "/options/layers/a", "colon", CK_E_BAD_OPTION},
        {"[]", "/options", "an object, not a list", CK_E_BAD_JSON},
    };
    char body[512];

    for (size_t i = 0; i < CK_ARRAY_LEN(wrong); i++) {
        snprintf(body, sizeof(body), "{" INPUTS ",\"to\":\"mlx\",\"options\":%s}", wrong[i].options);
        assert_refused(body, wrong[i].code, wrong[i].where, wrong[i].text);
    }
}

static void an_unknown_member_is_told_the_nearest(_unused_ void **state) {
    assert_refused("{\"to\":\"mlx\",\"option\":{}," INPUTS "}", CK_E_UNKNOWN_MEMBER, "/option", "options");
    assert_refused("{\"to\":\"mlx\",\"q~/\":{}," INPUTS "}", CK_E_UNKNOWN_MEMBER, "/q~0~1", "there are: kind, to");
    assert_refused("{\"to\":\"mlx\",\"inputs\":[{\"digset\":\"x\"}]}", CK_E_UNKNOWN_MEMBER, "/inputs/0/digset",
                   "digest");
}

static void what_is_no_such_document_is_refused(_unused_ void **state) {
    assert_refused("", CK_E_BAD_JSON, "", "empty");
    assert_refused("{", CK_E_BAD_JSON, "", "line 1");
    assert_refused("[]", CK_E_BAD_JSON, "", "an object, not a list");
    assert_refused("\"x\"", CK_E_BAD_JSON, "", "an object, not a text");
    assert_refused("{\"to\":\"mlx\",\"to\":\"mlx\"," INPUTS "}", CK_E_BAD_JSON, "", "duplicate");
    assert_refused("{\"to\":\"mlx\"," INPUTS "} x", CK_E_BAD_JSON, "", "end of file");
    assert_refused("{\"to\":\"mlx\",\"labels\":{\"a\":\"\\u0000\"}," INPUTS "}", CK_E_BAD_JSON, "", "line 1");
    assert_refused("{\"to\":1," INPUTS "}", CK_E_BAD_JSON, "/to", "a text, not a number");
    assert_refused("{" INPUTS "}", CK_E_BAD_JSON, "/to", "needs the member to");
    assert_refused("{\"to\":\"mlxx\"," INPUTS "}", CK_E_UNSUPPORTED_TARGET, "/to", "mlx");
    assert_refused("{\"to\":\"mlx\",\"quant\":\"q44\"," INPUTS "}", CK_E_UNSUPPORTED_QUANT, "/quant", "q4");
    assert_refused("{\"to\":\"mlx\",\"fresh\":1," INPUTS "}", CK_E_BAD_JSON, "/fresh", "true or false");
    assert_refused("{\"to\":\"mlx\",\"dry_run\":\"yes\"," INPUTS "}", CK_E_BAD_JSON, "/dry_run", "true or false");
    assert_refused("{\"kind\":\"portability\"," INPUTS "}", CK_E_BAD_JSON, "/kind", "convert, analyze");
    assert_refused("{\"kind\":\"analyse\"," INPUTS "}", CK_E_BAD_JSON, "/kind", "did you mean 'analyze'?");
    assert_refused("{\"kind\":\"analyze\",\"to\":\"mlx\"," INPUTS "}", CK_E_BAD_JSON, "/to", "no target");
    assert_refused("{\"kind\":\"analyze\",\"dry_run\":true," INPUTS "}", CK_E_BAD_OPTION, "/dry_run", "dry run");
}

static void exactly_one_input_of_role_model_is_taken(_unused_ void **state) {
    static const char one[] = "{\"digest\":\"sha256:" HEX "\"}";
    char body[1024];

    assert_refused("{\"to\":\"mlx\"}", CK_E_BAD_JSON, "/inputs", "needs the member inputs");
    assert_refused("{\"to\":\"mlx\",\"inputs\":[]}", CK_E_BAD_JSON, "/inputs", "exactly one");
    snprintf(body, sizeof(body), "{\"to\":\"mlx\",\"inputs\":[%s,%s]}", one, one);
    assert_refused(body, CK_E_BAD_JSON, "/inputs", "2 files");
    assert_refused("{\"to\":\"mlx\",\"inputs\":{}}", CK_E_BAD_JSON, "/inputs", "a list");
    assert_refused("{\"to\":\"mlx\",\"inputs\":[1]}", CK_E_BAD_JSON, "/inputs/0", "an object");
    assert_refused("{\"to\":\"mlx\",\"inputs\":[{}]}", CK_E_BAD_JSON, "/inputs/0/digest", "digest");
    assert_refused("{\"to\":\"mlx\",\"inputs\":[{\"digest\":\"" HEX "\"}]}", CK_E_BAD_REQUEST, "/inputs/0/digest",
                   "sha256:");
    assert_refused("{\"to\":\"mlx\",\"inputs\":[{\"role\":\"source\",\"digest\":\"sha256:" HEX "\"}]}", CK_E_BAD_JSON,
                   "/inputs/0/role", "model");
    assert_refused("{\"to\":\"mlx\",\"inputs\":[{\"name\":\"a\\nb\",\"digest\":\"sha256:" HEX "\"}]}", CK_E_BAD_REQUEST,
                   "/inputs/0/name", "control");
}

/* A body with a name of that many bytes. */
static int name_of(size_t bytes) {
    struct ck_submission submission;
    struct ck_error err;
    char body[1024], name[400] = "";
    int r;

    memset(name, 'n', bytes);
    snprintf(body, sizeof(body), "{\"to\":\"mlx\",\"inputs\":[{\"name\":\"%s\",\"digest\":\"sha256:" HEX "\"}]}", name);
    r = parse(body, &submission, &err);
    ck_submission_release(&submission);
    return r;
}

static void a_name_is_measured_at_its_limit(_unused_ void **state) {
    assert_int_equal(name_of(0), CK_E_BAD_REQUEST);
    assert_int_equal(name_of(1), 0);
    assert_int_equal(name_of(CK_INPUT_NAME_MAX), 0);
    assert_int_equal(name_of(CK_INPUT_NAME_MAX + 1), CK_E_BAD_REQUEST);
}

/* So many labels, each with key and value of that many bytes. */
static int labels_of(unsigned n, size_t key, size_t value, const char *letter) {
    struct ck_submission submission = {0};
    struct ck_error err = {0};
    char text[32768] = "{";
    size_t used = 1;
    int r;

    for (unsigned i = 0; i < n; i++) {
        char name[256], content[512] = "";

        snprintf(name, sizeof(name), "%0*u", (int)key, i);
        for (size_t k = 0; k < value; k++)
            strcat(content, letter);
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\"%.*s\":\"%s\"", i ? "," : "", (int)key, name,
                                 content);
    }
    snprintf(text + used, sizeof(text) - used, "}");
    r = ck_submission_labels(&submission, "labels", text, &err);
    if (r < 0)
        assert_memory_equal(err.where, "labels", 6);
    ck_submission_release(&submission);
    return r;
}

static void labels_are_measured_at_their_limits(_unused_ void **state) {
    struct ck_submission submission = {0};
    struct ck_error err = {0};

    assert_int_equal(labels_of(CK_LABELS_MAX, 4, 4, "x"), 0);
    assert_int_equal(labels_of(CK_LABELS_MAX + 1, 4, 4, "x"), CK_E_BAD_JSON);
    assert_int_equal(labels_of(1, CK_LABEL_KEY_MAX, 1, "x"), 0);
    assert_int_equal(labels_of(1, CK_LABEL_KEY_MAX + 1, 1, "x"), CK_E_BAD_JSON);
    assert_int_equal(labels_of(1, 1, CK_LABEL_VALUE_MAX, "x"), 0);
    assert_int_equal(labels_of(1, 1, CK_LABEL_VALUE_MAX + 1, "x"), CK_E_BAD_JSON);
    assert_int_equal(labels_of(1, 1, 1, "\\u001f"), CK_E_BAD_JSON);
    assert_int_equal(labels_of(1, 1, 1, "\\u007f"), CK_E_BAD_JSON);
    assert_int_equal(ck_submission_labels(&submission, "labels", "{\"a b\":\"\"}", &err), CK_E_BAD_JSON);
    err = (struct ck_error){0};
    assert_int_equal(ck_submission_labels(&submission, "labels", "{\"\":\"\"}", &err), CK_E_BAD_JSON);
    err = (struct ck_error){0};
    assert_int_equal(ck_submission_labels(&submission, "labels", "{\"a\":1}", &err), CK_E_BAD_JSON);
    assert_string_equal(err.where, "labels/a");
    assert_false(ck_label_key_ok("a\"b") || ck_label_key_ok(""));
    assert_true(ck_label_key_ok("A-z_0.9/x"));
}

static void layers_beyond_the_limit_of_an_option_are_refused(_unused_ void **state) {
    struct ck_submission submission = {0};
    struct ck_error err = {0};
    static char text[CK_OPTION_TEXT_MAX + 100];
    int n = snprintf(text, sizeof(text), "{\"layers\":{\"");

    assert_int_equal(ck_spec_init(&submission.spec, "mlx", NULL, &err), 0);
    memset(text + n, 'a', CK_OPTION_TEXT_MAX - 6);
    snprintf(text + n + CK_OPTION_TEXT_MAX - 6, 100, "\":\"Linear\"}}");
    assert_int_equal(ck_submission_options(&submission, "options", text, &err), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "65536"));
    ck_submission_release(&submission);
}

static void an_analysis_is_asked_for_by_digest(_unused_ void **state) {
    static const char body[] = "{\"digest\":\"sha256:" HEX "\",\"name\":\"m.pt\",\"options\":{\"tensors\":false}}";
    struct ck_submission submission = {0};
    struct ck_error err = {0};

    assert_int_equal(ck_analysis_parse(body, strlen(body), &submission, &err), 0);
    assert_int_equal(submission.spec.kind, CK_JOB_ANALYZE);
    assert_string_equal(submission.input.digest, HEX);
    ck_submission_release(&submission);
    assert_int_equal(ck_analysis_parse("{}", 2, &submission, &err), CK_E_BAD_JSON);
    assert_string_equal(err.where, "/digest");
    err = (struct ck_error){0};
    assert_int_equal(ck_analysis_parse("{\"to\":\"mlx\"}", 12, &submission, &err), CK_E_UNKNOWN_MEMBER);
}

static void key_of(const struct ck_submission *submission, char key[static CK_DIGEST_SIZE]) {
    char *spec = ck_spec_normalised(&submission->spec);
    struct ck_error err = {0};

    assert_int_equal(ck_cache_key("model", submission->input.digest, spec, key, &err), 0);
    free(spec);
}

static void assert_key(const char *body, const char *other, bool equal) {
    struct ck_submission a, b;
    char key_a[CK_DIGEST_SIZE], key_b[CK_DIGEST_SIZE];
    struct ck_error err;

    assert_int_equal(parse(body, &a, &err), 0);
    assert_int_equal(parse(other, &b, &err), 0);
    key_of(&a, key_a);
    key_of(&b, key_b);
    assert_int_equal(strlen(key_a), 64);
    assert_int_equal(strcmp(key_a, key_b) == 0, equal);
    ck_submission_release(&a);
    ck_submission_release(&b);
}

static void the_key_is_what_the_result_depends_on(_unused_ void **state) {
    static const char base[] = "{\"to\":\"mlx\"," INPUTS "}";

    assert_key(base, "{\"to\":\"mlx\",\"quant\":\"none\",\"fresh\":true,\"labels\":{\"a\":\"b\"}," INPUTS "}", true);
    assert_key(
        base,
        "{\"to\":\"mlx\",\"options\":{\"dtype\":\"keep\"},\"inputs\":[{\"name\":\"other.pt\",\"digest\":\"sha256:" HEX
        "\"}]}",
        true);
    assert_key(base, "{\"to\":\"mlx\",\"options\":{\"dtype\":\"float16\"}," INPUTS "}", false);
    assert_key(base, "{\"to\":\"mlx\",\"quant\":\"q4\"," INPUTS "}", false);
    assert_key(base, "{\"to\":\"mlx\",\"dry_run\":true," INPUTS "}", false);
    assert_key(base, "{\"kind\":\"analyze\"," INPUTS "}", false);
    assert_key(base,
               "{\"to\":\"mlx\",\"inputs\":[{\"digest\":\"sha256:"
               "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}]}",
               false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_specification_is_read),
        cmocka_unit_test(what_may_be_absent_has_its_default),
        cmocka_unit_test(options_may_be_texts_numbers_and_truths),
        cmocka_unit_test(wrong_options_name_their_place),
        cmocka_unit_test(an_unknown_member_is_told_the_nearest),
        cmocka_unit_test(what_is_no_such_document_is_refused),
        cmocka_unit_test(exactly_one_input_of_role_model_is_taken),
        cmocka_unit_test(a_name_is_measured_at_its_limit),
        cmocka_unit_test(labels_are_measured_at_their_limits),
        cmocka_unit_test(layers_beyond_the_limit_of_an_option_are_refused),
        cmocka_unit_test(an_analysis_is_asked_for_by_digest),
        cmocka_unit_test(the_key_is_what_the_result_depends_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
