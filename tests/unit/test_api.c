/* api/: paths, names, dispositions, digests, who may call. No sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/body_head.h"
#include "api/convert.h"
#include "api/guard.h"
#include "api/names.h"

/* The head of a conversion: the order that it leaves in the request, or the refusal. */
static int parse(const char *path, const char *query, struct ck_request *request) {
    struct ck_error err = {0};
    int r;

    *request = (struct ck_request){.method = "PUT", .path = path, .query = query};
    r = ck_head_convert(request, NULL, &err);
    assert_int_equal(r, err.code);
    return r;
}

static void assert_named(const char *path, const char *quant, const char *name) {
    struct ck_request request;
    const struct ck_order *order;

    assert_int_equal(parse(path, "", &request), 0);
    order = request.state;
    assert_string_equal(order->submission.spec.quant, quant);
    if (name)
        assert_string_equal(order->submission.input.name, name);
    else
        assert_null(order->submission.input.name);
    request.state_free(request.state);
}

static void every_shape_of_the_path_is_understood(_unused_ void **state) {
    assert_named("/v1/convert/mlx", "", NULL);
    assert_named("/v1/convert/mlx/", "", NULL);
    assert_named("/v1/convert/mlx/net.pt", "", "net.pt");
    assert_named("/v1/convert/mlx/q4", "q4", NULL);
    assert_named("/v1/convert/mlx/q4/", "q4", NULL);
    assert_named("/v1/convert/mlx/q4-g32/net.pt", "q4-g32", "net.pt");
    assert_named("/v1/convert/mlx/none/net", "", "net");
    assert_named("/v1/convert/safetensors/a%20b.bin", "", "a b.bin");
}

static int refusal(const char *path, const char *query) {
    struct ck_request request;
    int r = parse(path, query, &request);

    request.state_free(request.state);
    return r;
}

static void wrong_paths_are_refused(_unused_ void **state) {
    assert_int_equal(refusal("/v1/convert", ""), CK_E_UNSUPPORTED_TARGET);
    assert_int_equal(refusal("/v1/convert/", ""), CK_E_UNSUPPORTED_TARGET);
    assert_int_equal(refusal("/v1/convert/gguf/", ""), CK_E_UNSUPPORTED_TARGET);
    assert_int_equal(refusal("/v1/convert/mlx/q44/", ""), CK_E_UNSUPPORTED_QUANT);
    assert_int_equal(refusal("/v1/convert/mlx/net", ""), CK_E_UNSUPPORTED_QUANT);
    assert_int_equal(refusal("/v1/convert/mlx/q44/net.pt", ""), CK_E_UNSUPPORTED_QUANT);
    assert_int_equal(refusal("/v1/convert/mlx/q4/a/net.pt", ""), CK_E_NOT_FOUND);
    assert_int_equal(refusal("/v1/convert/mlx//net.pt", ""), CK_E_BAD_REQUEST);
    assert_int_equal(refusal("/v1/convert/mlx/%00.pt", ""), CK_E_BAD_REQUEST);
    assert_int_equal(refusal("/v1/convert/mlx/a%0Ab.pt", ""), CK_E_BAD_REQUEST);
}

static void options_are_decoded_and_checked(_unused_ void **state) {
    struct ck_request request;
    const struct ck_order *order;

    assert_int_equal(parse("/v1/convert/mlx/", "layers=conv1%3AConv2d%2Cup.*:ConvTranspose2d&&dtype=float16", &request),
                     0);
    order = request.state;
    assert_string_equal(ck_spec_get(&order->submission.spec, "layers"), "conv1:Conv2d,up.*:ConvTranspose2d");
    assert_string_equal(ck_spec_get(&order->submission.spec, "dtype"), "float16");
    request.state_free(request.state);
    assert_int_equal(refusal("/v1/convert/mlx/", "layer=x"), CK_E_BAD_OPTION);
    assert_int_equal(refusal("/v1/convert/mlx/", "dtype"), CK_E_BAD_OPTION);
    assert_int_equal(refusal("/v1/convert/mlx/", "dtype=%zz"), CK_E_BAD_REQUEST);
}

static void escapes_are_decoded_or_refused(_unused_ void **state) {
    static const char *const broken[] = {"%", "%4", "a%4", "%g0", "%0g", "%00"};
    struct ck_error err = {0};
    char *text = NULL;

    assert_int_equal(ck_percent_decode("a%2Fb+%41", 9, false, &text, &err), 0);
    assert_string_equal(text, "a/b+A");
    free(text);
    assert_int_equal(ck_percent_decode("a+b", 3, true, &text, &err), 0);
    assert_string_equal(text, "a b");
    free(text);
    assert_int_equal(ck_percent_decode("%41%42", 3, true, &text, &err), 0);
    assert_string_equal(text, "A");
    free(text);
    for (size_t i = 0; i < CK_ARRAY_LEN(broken); i++) {
        err = (struct ck_error){0};
        assert_int_equal(ck_percent_decode(broken[i], strlen(broken[i]), false, &text, &err), CK_E_BAD_REQUEST);
    }
}

static void assert_stem(const char *name, const char *expected) {
    char *stem = ck_stem(name);

    assert_string_equal(stem, expected);
    free(stem);
}

static void stems_are_safe_file_names(_unused_ void **state) {
    assert_stem("resnet.pt", "resnet");
    assert_stem("model.tar.PTH", "model");
    assert_stem("v1.5.safetensors", "v1.5");
    assert_stem("a.pt.zip.bin.ckpt", "a");
    assert_stem("plain", "plain");
    assert_stem(".pt", "model");
    assert_stem("", "model");
    assert_stem("...", "_");
    assert_stem("../../etc/passwd.pt", "passwd");
    assert_stem("..\\..\\boot.pt", "boot");
    assert_stem("..", "_");
    assert_stem(".hidden.pt", "_hidden");
    assert_stem("a\nb\x7F:c|d.pt", "a_b__c_d");
    assert_stem("n\xC3\xA9t.pt", "n\xC3\xA9t");
    assert_stem("broken\xC3.pt", "broken_");
    assert_stem("\xED\xA0\x80.pt", "___");
    assert_stem("folder/", "folder_");
}

static void a_stem_is_cut_on_a_character_border(_unused_ void **state) {
    char name[3 * CK_STEM_MAX + 8], *stem;

    for (size_t i = 0; i < CK_STEM_MAX; i++)
        memcpy(name + 3 * i, "\xE2\x82\xAC", 4);
    stem = ck_stem(name);
    assert_int_equal(strlen(stem), CK_STEM_MAX / 3 * 3);
    free(stem);
    memset(name, 'a', CK_STEM_MAX);
    name[CK_STEM_MAX] = 0;
    assert_stem(name, name);
    name[CK_STEM_MAX] = 'b';
    name[CK_STEM_MAX + 1] = 0;
    stem = ck_stem(name);
    assert_int_equal(strlen(stem), CK_STEM_MAX);
    free(stem);
}

static void assert_disposition(const char *name, const char *expected) {
    char *text = ck_disposition(name);

    assert_string_equal(text, expected);
    free(text);
}

static void dispositions_carry_both_forms_of_a_name(_unused_ void **state) {
    assert_disposition("resnet.mlx.zip", "attachment; filename=\"resnet.mlx.zip\"");
    assert_disposition("a b.zip", "attachment; filename=\"a b.zip\"");
    assert_disposition("n\xC3\xA9t.zip", "attachment; filename=\"n__t.zip\"; filename*=UTF-8''n%C3%A9t.zip");
    assert_disposition("a\"b%.zip", "attachment; filename=\"a_b_.zip\"; filename*=UTF-8''a%22b%25.zip");
}

static int head_refusal(struct ck_body_head head, uint64_t most) {
    const struct ck_terms limits = {.max_upload = most, .max_json = 100};
    struct ck_body_terms terms = {0};
    struct ck_error err = {0};

    return ck_body_head_parse(&head, CK_BODY_FILE, &limits, &terms, &err);
}

/* How a body is read, or the refusal. */
static int way(enum ck_body body, const char *type, enum ck_body_way *ret_way) {
    const struct ck_body_head head = {.content_length = "5", .content_type = type};
    const struct ck_terms limits = {.max_upload = 10, .max_json = 5};
    struct ck_body_terms terms = {0};
    struct ck_error err = {0};
    int r = ck_body_head_parse(&head, body, &limits, &terms, &err);

    *ret_way = terms.way;
    return r;
}

static void assert_way(enum ck_body body, const char *type, enum ck_body_way expected) {
    enum ck_body_way got;

    assert_int_equal(way(body, type, &got), 0);
    assert_int_equal(got, expected);
}

static int way_refusal(enum ck_body body, const char *type) {
    enum ck_body_way ignored;

    return way(body, type, &ignored);
}

#define CURL_FORM "multipart/form-data; boundary=----------------x"

static void the_media_type_decides_how_a_body_is_read(_unused_ void **state) {
    assert_way(CK_BODY_NONE, "text/html", CK_WAY_NONE);
    assert_way(CK_BODY_JSON, NULL, CK_WAY_JSON);
    assert_way(CK_BODY_JSON, "Application/JSON; charset=utf-8", CK_WAY_JSON);
    assert_way(CK_BODY_JSON, "application/x-www-form-urlencoded", CK_WAY_JSON);
    assert_way(CK_BODY_FILE, NULL, CK_WAY_RAW);
    assert_way(CK_BODY_FILE, "application/x-www-form-urlencoded", CK_WAY_RAW);
    assert_way(CK_BODY_FILE, "application/json", CK_WAY_RAW);
    assert_way(CK_BODY_FILE, CURL_FORM, CK_WAY_FORM);
    assert_way(CK_BODY_FORM, CURL_FORM, CK_WAY_FORM);
    assert_way(CK_BODY_EITHER, "application/json", CK_WAY_JSON);
    assert_way(CK_BODY_EITHER, CURL_FORM, CK_WAY_FORM);
    assert_way(CK_BODY_EITHER, NULL, CK_WAY_RAW);
    assert_int_equal(way_refusal(CK_BODY_JSON, "text/plain"), CK_E_UNSUPPORTED_MEDIA);
    assert_int_equal(way_refusal(CK_BODY_JSON, CURL_FORM), CK_E_UNSUPPORTED_MEDIA);
    assert_int_equal(way_refusal(CK_BODY_FORM, NULL), CK_E_UNSUPPORTED_MEDIA);
    assert_int_equal(way_refusal(CK_BODY_FORM, "application/json"), CK_E_UNSUPPORTED_MEDIA);
    assert_int_equal(way_refusal(CK_BODY_FILE, "multipart/mixed; boundary=x"), CK_E_UNSUPPORTED_MEDIA);
    assert_int_equal(way_refusal(CK_BODY_FILE, "multipart/form-data"), CK_E_BAD_REQUEST);
}

static void each_way_has_its_limit(_unused_ void **state) {
    const struct ck_terms limits = {.max_upload = 10, .max_json = 5};
    struct ck_body_head head = {.content_length = "6"};
    struct ck_body_terms terms = {0};
    struct ck_error err = {0};

    assert_int_equal(ck_body_head_parse(&head, CK_BODY_FILE, &limits, &terms, &err), 0);
    assert_int_equal(terms.most, 10);
    assert_int_equal(ck_body_head_parse(&head, CK_BODY_JSON, &limits, &terms, &err), CK_E_BODY_TOO_LARGE);
    assert_non_null(strstr(err.message, "--max-json"));
    assert_string_equal(ck_error_hint(&err), "raise --max-json");
    head.content_length = "5";
    err = (struct ck_error){0};
    assert_int_equal(ck_body_head_parse(&head, CK_BODY_JSON, &limits, &terms, &err), 0);
    assert_int_equal(terms.most, 5);
}

static void the_length_is_checked_at_the_limit(_unused_ void **state) {
    struct ck_body_head head = {.content_length = "1000"};

    assert_int_equal(head_refusal(head, 1000), 0);
    assert_int_equal(head_refusal(head, 999), CK_E_BODY_TOO_LARGE);
    head.content_length = "99999999999999999999";
    assert_int_equal(head_refusal(head, UINT64_MAX), CK_E_BAD_REQUEST);
    head.content_length = "-1";
    assert_int_equal(head_refusal(head, 1000), CK_E_BAD_REQUEST);
    head = (struct ck_body_head){.content_length = "5", .transfer_encoding = "chunked"};
    assert_int_equal(head_refusal(head, 1000), CK_E_BAD_REQUEST);
    head = (struct ck_body_head){.content_length = "5", .content_range = "bytes 0-4/9"};
    assert_int_equal(head_refusal(head, 1000), CK_E_BAD_REQUEST);
    head = (struct ck_body_head){.content_length = "5", .content_encoding = "gzip"};
    assert_int_equal(head_refusal(head, 1000), CK_E_BAD_REQUEST);
}

#define ABC "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="

static void the_digest_of_a_dictionary_is_read(_unused_ void **state) {
    struct ck_body_head head = {.content_length = "3", .repr_digest = "sha-512=:AAAA:, sha-256=:" ABC ": "};
    const struct ck_terms limits = {.max_upload = 10, .max_json = 10};
    struct ck_body_terms terms = {0};
    struct ck_error err = {0};

    assert_int_equal(ck_body_head_parse(&head, CK_BODY_FILE, &limits, &terms, &err), 0);
    assert_true(terms.digest_given && terms.length_known && terms.length == 3);
    assert_int_equal(terms.digest[0], 0xba);
    assert_int_equal(terms.digest[31], 0xad);
    head.content_digest = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
    assert_int_equal(head_refusal(head, 10), CK_E_BAD_REQUEST);
    head.content_digest = "md5=:AAAA:";
    assert_int_equal(head_refusal(head, 10), 0);
    /* Nobody would compare it. */
    head.content_type = CURL_FORM;
    assert_int_equal(head_refusal(head, 10), CK_E_BAD_REQUEST);
}

static void malformed_digests_are_refused(_unused_ void **state) {
    static const char *const bad[] = {"sha-256=" ABC,
                                      "sha-256=::",
                                      "sha-256=:" ABC,
                                      "sha-256=:" ABC "=:",
                                      "sha-256=:"
                                      "!ngWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:",
                                      "sha-256=",
                                      "sha-256=:",
                                      "sha-256=:,"};

    for (size_t i = 0; i < CK_ARRAY_LEN(bad); i++)
        assert_int_equal(head_refusal((struct ck_body_head){.content_length = "3", .repr_digest = bad[i]}, 10),
                         CK_E_BAD_REQUEST);
}

static int guard(const char *host, const char *origin, bool loopback) {
    struct ck_error err = {0};

    return ck_guard_check(host, origin, "box.local", loopback, &err);
}

static void a_web_page_cannot_call_the_machine_it_is_shown_on(_unused_ void **state) {
    assert_int_equal(guard("127.0.0.1:8080", NULL, true), 0);
    assert_int_equal(guard("[::1]:8080", NULL, true), 0);
    assert_int_equal(guard("box.local:8080", NULL, true), 0);
    assert_int_equal(guard(NULL, NULL, true), 0);
    assert_int_equal(guard("evil.example", NULL, true), CK_E_FORBIDDEN);
    assert_int_equal(guard("evil.example", NULL, false), 0);
    assert_int_equal(guard("1.127.0.0.1", NULL, true), CK_E_FORBIDDEN);
    assert_int_equal(guard("localhost:80", "http://localhost", true), 0);
    assert_int_equal(guard("localhost", "http://LOCALHOST:80", true), 0);
    assert_int_equal(guard("localhost:443", "https://localhost", true), 0);
    assert_int_equal(guard("localhost:8080", "http://localhost:8081", true), CK_E_FORBIDDEN);
    assert_int_equal(guard("localhost:8080", "null", true), CK_E_FORBIDDEN);
    assert_int_equal(guard("localhost:8080", "http://evil.example", false), CK_E_FORBIDDEN);
    assert_int_equal(guard(NULL, "http://localhost", true), CK_E_FORBIDDEN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_of_the_path_is_understood),
        cmocka_unit_test(wrong_paths_are_refused),
        cmocka_unit_test(options_are_decoded_and_checked),
        cmocka_unit_test(escapes_are_decoded_or_refused),
        cmocka_unit_test(stems_are_safe_file_names),
        cmocka_unit_test(a_stem_is_cut_on_a_character_border),
        cmocka_unit_test(dispositions_carry_both_forms_of_a_name),
        cmocka_unit_test(the_length_is_checked_at_the_limit),
        cmocka_unit_test(the_media_type_decides_how_a_body_is_read),
        cmocka_unit_test(each_way_has_its_limit),
        cmocka_unit_test(the_digest_of_a_dictionary_is_read),
        cmocka_unit_test(malformed_digests_are_refused),
        cmocka_unit_test(a_web_page_cannot_call_the_machine_it_is_shown_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
