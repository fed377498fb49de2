/* api/: paths, names, dispositions, digests, problems, routes, who may call. No sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/convert.h"
#include "api/guard.h"
#include "api/health.h"
#include "api/names.h"
#include "api/problem.h"
#include "api/routes.h"

static int parse(const char *path, const char *query, struct ck_convert *convert) {
    struct ck_error err = {0};
    int r = ck_convert_parse(path, query, convert, &err);

    assert_int_equal(r, err.code);
    return r;
}

static void assert_named(const char *path, const char *quant, const char *name, const char *folder) {
    struct ck_convert convert = {0};

    assert_int_equal(parse(path, "", &convert), 0);
    assert_string_equal(convert.spec.quant, quant);
    assert_string_equal(convert.name, name);
    assert_string_equal(convert.folder, folder);
    ck_convert_release(&convert);
}

static void every_shape_of_the_path_is_understood(_unused_ void **state) {
    assert_named("/v1/convert/mlx", "", "model", "model.mlx");
    assert_named("/v1/convert/mlx/", "", "model", "model.mlx");
    assert_named("/v1/convert/mlx/net.pt", "", "net.pt", "net.mlx");
    assert_named("/v1/convert/mlx/q4", "q4", "model", "model.mlx-q4");
    assert_named("/v1/convert/mlx/q4/", "q4", "model", "model.mlx-q4");
    assert_named("/v1/convert/mlx/q4-g32/net.pt", "q4-g32", "net.pt", "net.mlx-q4-g32");
    assert_named("/v1/convert/mlx/none/net", "", "net", "net.mlx");
    assert_named("/v1/convert/safetensors/a%20b.bin", "", "a b.bin", "a b.safetensors");
}

static int refusal(const char *path, const char *query) {
    struct ck_convert convert = {0};
    int r = parse(path, query, &convert);

    assert_null(convert.folder);
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
}

static void options_are_decoded_and_checked(_unused_ void **state) {
    struct ck_convert convert = {0};

    assert_int_equal(parse("/v1/convert/mlx/", "layers=conv1%3AConv2d%2Cup.*:ConvTranspose2d&&dtype=float16", &convert),
                     0);
    assert_string_equal(ck_spec_get(&convert.spec, "layers"), "conv1:Conv2d,up.*:ConvTranspose2d");
    assert_string_equal(ck_spec_get(&convert.spec, "dtype"), "float16");
    ck_convert_release(&convert);
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
    struct ck_body_terms terms = {0};
    struct ck_error err = {0};

    return ck_body_head_parse(&head, most, &terms, &err);
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
    head = (struct ck_body_head){.content_length = "5", .content_type = "multipart/form-data; boundary=x"};
    assert_int_equal(head_refusal(head, 1000), CK_E_BAD_REQUEST);
    head = (struct ck_body_head){.content_length = "5", .content_encoding = "gzip"};
    assert_int_equal(head_refusal(head, 1000), CK_E_BAD_REQUEST);
}

#define ABC "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="

static void the_digest_of_a_dictionary_is_read(_unused_ void **state) {
    struct ck_body_head head = {.content_length = "3", .repr_digest = "sha-512=:AAAA:, sha-256=:" ABC ": "};
    struct ck_body_terms terms = {0};
    struct ck_error err = {0};

    assert_int_equal(ck_body_head_parse(&head, 10, &terms, &err), 0);
    assert_true(terms.digest_given && terms.length_known && terms.length == 3);
    assert_int_equal(terms.digest[0], 0xba);
    assert_int_equal(terms.digest[31], 0xad);
    head.content_digest = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
    assert_int_equal(head_refusal(head, 10), CK_E_BAD_REQUEST);
    head.content_digest = "md5=:AAAA:";
    assert_int_equal(head_refusal(head, 10), 0);
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

static void a_problem_says_what_where_and_what_to_do(_unused_ void **state) {
    struct ck_reply reply = {0};
    struct ck_error err = {0};
    json_t *document;

    ck_error_set(&err, CK_E_AMBIGUOUS_LAYOUT, "up.weight", "the layout of \"%s\" is open", "up\xFF.weight");
    snprintf(err.details, sizeof(err.details), "[{\"tensor\":\"up.weight\"}]");
    ck_problem_reply(&err, "id-1", true, &reply);
    document = json_loadb(ck_buffer_text(&reply.body), reply.body.length, 0, NULL);
    assert_non_null(document);
    assert_int_equal(reply.status, 422);
    assert_string_equal(ck_reply_find(&reply, "content-type"), "application/problem+json");
    assert_string_equal(ck_reply_find(&reply, "Content-Disposition"), "attachment; filename=\"ckptd-error.json\"");
    assert_string_equal(json_string_value(json_object_get(document, "code")), "ambiguous_layout");
    assert_string_equal(json_string_value(json_object_get(document, "type")), "urn:ckptd:error:ambiguous_layout");
    assert_string_equal(json_string_value(json_object_get(document, "where")), "up.weight");
    assert_string_equal(json_string_value(json_object_get(document, "request_id")), "id-1");
    assert_int_equal(json_integer_value(json_object_get(document, "status")), 422);
    assert_true(json_is_false(json_object_get(document, "retryable")));
    assert_int_equal(json_array_size(json_object_get(document, "questions")), 1);
    json_decref(document);
    ck_reply_release(&reply);
}

static void come_back_problems_say_when(_unused_ void **state) {
    for (int i = 1; i < CK_ENUM_END_; i++) {
        const struct ck_error_row *row = ck_error_row(-i);
        struct ck_error err = {0};
        struct ck_reply reply = {0};

        ck_error_set(&err, -i, NULL, "x");
        ck_problem_reply(&err, "id", false, &reply);
        assert_false(reply.broken);
        assert_int_equal(reply.status, row->http);
        assert_null(ck_reply_find(&reply, "Content-Disposition"));
        assert_int_equal(ck_reply_find(&reply, "Retry-After") != NULL, row->class_ == CK_CLASS_busy);
        ck_reply_release(&reply);
    }
}

static void a_header_cannot_add_a_line(_unused_ void **state) {
    struct ck_reply reply = {0};

    ck_reply_init(&reply, 200, NULL);
    ck_reply_header(&reply, "X-Test", "a%sb", "\r\nX-Evil: 1");
    assert_string_equal(ck_reply_find(&reply, "X-Test"), "a__X-Evil: 1b");
    ck_reply_release(&reply);
}

static void routes_are_found_by_method_and_path(_unused_ void **state) {
    const struct ck_route *route = NULL;
    struct ck_error err = {0};
    char allow[64];

    assert_int_equal(ck_route_find("HEAD", "/livez", &route, allow, &err), 0);
    assert_string_equal(route->operation, "livez");
    assert_int_equal(ck_route_find("PUT", "/v1/convert/mlx/a/b/c", &route, allow, &err), 0);
    assert_string_equal(route->operation, "convertPut");
    assert_null(route->answer);
    assert_int_equal(ck_route_find("POST", "/v1/convert", &route, allow, &err), 0);
    assert_int_equal(ck_route_find("GET", "/v1/convert/mlx", &route, allow, &err), CK_E_METHOD_NOT_ALLOWED);
    assert_string_equal(allow, "PUT, POST");
    err = (struct ck_error){0};
    assert_int_equal(ck_route_find("PUT", "/v1/converts/mlx", &route, allow, &err), CK_E_NOT_FOUND);
    assert_non_null(strstr(err.hint, "/v1/convert/"));
    err = (struct ck_error){0};
    assert_int_equal(ck_route_find("GET", "/entirely/else", &route, allow, &err), CK_E_NOT_FOUND);
    assert_int_equal(ck_route_find("GET", "", &route, allow, &err), CK_E_NOT_FOUND);
    assert_int_equal(ck_route_find("GET", "*", &route, allow, &err), CK_E_NOT_FOUND);
}

static void operation_ids_differ(_unused_ void **state) {
    for (const struct ck_route *a = ck_routes; a->method; a++)
        for (const struct ck_route *b = a + 1; b->method; b++)
            assert_string_not_equal(a->operation, b->operation);
}

static void some_health(void *ctx, struct ck_health *ret_health) {
    *ret_health = *(struct ck_health *)ctx;
}

static int readiness(struct ck_health health, const char *expected) {
    const struct ck_ports ports = {.health = some_health, .ctx = &health};
    const struct ck_request request = {.method = "GET", .path = "/readyz", .query = ""};
    struct ck_reply reply = {0};
    int status;

    ck_answer_readyz(&request, &ports, &reply);
    assert_non_null(strstr(ck_buffer_text(&reply.body), expected));
    status = reply.status;
    ck_reply_release(&reply);
    return status;
}

static void readiness_needs_all_checks(_unused_ void **state) {
    struct ck_health good = {.free_bytes = 100, .need_bytes = 100, .workers_ok = true};
    struct ck_health bad = good;

    assert_int_equal(readiness(good, "ok"), 200);
    bad.need_bytes = 101;
    assert_int_equal(readiness(bad, "[-] space"), 503);
    bad = good;
    bad.draining = true;
    assert_int_equal(readiness(bad, "[-] draining"), 503);
    bad = good;
    bad.workers_ok = false;
    bad.workers_why = "stuck";
    assert_int_equal(readiness(bad, "[-] workers: stuck"), 503);
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

static void success_is_named_by_what_it_depends_on(_unused_ void **state) {
    uint8_t digest[CK_SHA256_BYTES] = {1};
    struct ck_convert convert = {0};
    struct ck_error err = {0};
    struct ck_reply one = {0}, two = {0};

    assert_int_equal(parse("/v1/convert/mlx/q4/net.pt", "", &convert), 0);
    assert_int_equal(ck_convert_reply(&convert, digest, 3, false, &one, &err), 0);
    assert_string_equal(ck_reply_find(&one, "Content-Disposition"), "attachment; filename=\"net.mlx-q4.zip\"");
    assert_string_equal(ck_reply_find(&one, "X-Ckptd-Assumed"), "3");
    digest[0] = 2;
    assert_int_equal(ck_convert_reply(&convert, digest, 3, true, &two, &err), 0);
    assert_string_not_equal(ck_reply_find(&one, "ETag"), ck_reply_find(&two, "ETag"));
    assert_string_equal(ck_reply_find(&two, "Content-Disposition"), "attachment; filename=\"net.safetensors\"");
    ck_reply_release(&one);
    ck_reply_release(&two);
    ck_convert_release(&convert);
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
        cmocka_unit_test(the_digest_of_a_dictionary_is_read),
        cmocka_unit_test(malformed_digests_are_refused),
        cmocka_unit_test(a_problem_says_what_where_and_what_to_do),
        cmocka_unit_test(come_back_problems_say_when),
        cmocka_unit_test(a_header_cannot_add_a_line),
        cmocka_unit_test(routes_are_found_by_method_and_path),
        cmocka_unit_test(operation_ids_differ),
        cmocka_unit_test(readiness_needs_all_checks),
        cmocka_unit_test(a_web_page_cannot_call_the_machine_it_is_shown_on),
        cmocka_unit_test(success_is_named_by_what_it_depends_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
