/* api/routes: which row a request belongs to, and what is said when it belongs to none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/routes.h"

static const struct ck_route *route;
static struct ck_params params;
static char allow[64];
static struct ck_error err;

static int find(const char *method, const char *path) {
    int r;

    ck_params_release(&params);
    err = (struct ck_error){0};
    route = NULL;
    r = ck_route_find(method, path, &route, &params, allow, &err);
    assert_int_equal(r, err.code);
    assert_int_equal(route != NULL, r == 0);
    assert_true(r == 0 || params.n == 0);
    return r;
}

static void assert_route(const char *method, const char *path, const char *operation, const char *first,
                         const char *second) {
    assert_int_equal(find(method, path), 0);
    assert_string_equal(route->operation, operation);
    assert_int_equal(params.n, (first != NULL) + (second != NULL));
    if (first)
        assert_string_equal(params.values[0], first);
    if (second)
        assert_string_equal(params.values[1], second);
    ck_params_release(&params);
}

static void every_row_finds_itself(_unused_ void **state) {
    for (const struct ck_route *row = ck_routes; row->method; row++) {
        char path[256] = "";
        size_t used = 0;

        /* "{id}" becomes "x". */
        for (const char *c = row->pattern; *c; c++) {
            path[used++] = *c == '{' ? 'x' : *c;
            if (*c == '{')
                c = strchr(c, '}');
        }
        path[used] = 0;
        assert_int_equal(find(row->method, path), 0);
        assert_ptr_equal(route, row);
        assert_non_null(row->answer);
        assert_true(row->what[0] != 0);
    }
    ck_params_release(&params);
}

static void operation_ids_differ(_unused_ void **state) {
    for (const struct ck_route *a = ck_routes; a->method; a++)
        for (const struct ck_route *b = a + 1; b->method; b++)
            assert_string_not_equal(a->operation, b->operation);
}

static void parts_are_decoded(_unused_ void **state) {
    assert_route("GET", "/v1/jobs/ab-1", "getJob", "ab-1", NULL);
    assert_route("HEAD", "/v1/jobs/ab-1/results/a%20b+c", "getResult", "ab-1", "a b+c");
    assert_route("GET", "/v1/jobs/ab-1/results/..%2Fx", "getResult", "ab-1", "../x");
    assert_route("GET", "/v1/jobs/ab-1/results.zip", "getResultsZip", "ab-1", NULL);
    assert_route("GET", "/v1/blobs/sha256%3Aab", "getBlob", "sha256:ab", NULL);
    assert_int_equal(find("PUT", "/v1/convert/mlx/q4/n%C3%A9t.pt"), 0);
    assert_string_equal(route->operation, "putConvertNamed");
    assert_int_equal(params.n, 3);
    assert_string_equal(params.values[2], "n\xC3\xA9t.pt");
    assert_int_equal(find("GET", "/v1/jobs/%zz"), CK_E_BAD_REQUEST);
    assert_int_equal(find("GET", "/v1/jobs/a%00b"), CK_E_BAD_REQUEST);
    assert_int_equal(find("GET", "/v1/jobs/a/results/%"), CK_E_BAD_REQUEST);
}

static void a_trailing_slash_is_tolerated_where_curl_needs_one(_unused_ void **state) {
    assert_route("PUT", "/v1/convert/mlx/", "putConvert", "mlx", NULL);
    assert_route("PUT", "/v1/convert/mlx/q4/", "putConvertQuant", "mlx", "q4");
    assert_route("POST", "/v1/convert/", "postConvertForm", NULL, NULL);
    assert_route("PUT", "/v1/analyze/", "putAnalyze", NULL, NULL);
    assert_route("POST", "/v1/blobs/", "postBlob", NULL, NULL);
    assert_int_equal(find("GET", "/v1/jobs/"), CK_E_NOT_FOUND);
    assert_non_null(strstr(err.hint, "/v1/jobs?"));
    assert_int_equal(find("GET", "/livez/"), CK_E_NOT_FOUND);
}

static void parts_are_never_empty(_unused_ void **state) {
    assert_int_equal(find("PUT", "/v1/convert//net.pt"), CK_E_NOT_FOUND);
    assert_int_equal(find("PUT", "/v1/convert/mlx//"), CK_E_NOT_FOUND);
    assert_int_equal(find("GET", "/v1/jobs//results"), CK_E_NOT_FOUND);
    assert_int_equal(find("GET", "//"), CK_E_NOT_FOUND);
    assert_int_equal(find("GET", ""), CK_E_NOT_FOUND);
    assert_int_equal(find("GET", "*"), CK_E_NOT_FOUND);
    assert_int_equal(find("GET", "livez"), CK_E_NOT_FOUND);
}

static void other_methods_are_told_which_there_are(_unused_ void **state) {
    assert_int_equal(find("GET", "/v1/convert/mlx"), CK_E_METHOD_NOT_ALLOWED);
    assert_string_equal(allow, "PUT, POST");
    assert_int_equal(find("PATCH", "/v1/blobs/x"), CK_E_METHOD_NOT_ALLOWED);
    assert_string_equal(allow, "GET, HEAD, PUT, DELETE");
    assert_int_equal(find("PUT", "/v1/jobs"), CK_E_METHOD_NOT_ALLOWED);
    assert_string_equal(allow, "POST, GET, HEAD");
    assert_int_equal(find("get", "/livez"), CK_E_METHOD_NOT_ALLOWED);
    assert_string_equal(allow, "GET, HEAD");
    assert_int_equal(find("GET", "/v1/nothing"), CK_E_NOT_FOUND);
    assert_string_equal(allow, "");
}

static void assert_near(const char *path, const char *hint) {
    assert_int_equal(find("GET", path), CK_E_NOT_FOUND);
    if (hint)
        assert_non_null(strstr(err.hint, hint));
    else
        assert_string_equal(err.hint, "");
}

static void the_nearest_path_is_offered(_unused_ void **state) {
    assert_near("/v1/covert/mlx", "did you mean /v1/convert/{to}?");
    assert_near("/v2/jobs", "did you mean /v1/jobs?");
    assert_near("/v1/jobs/ab/result", "did you mean /v1/jobs/{id}/results?");
    assert_near("/v1/jobs/ab/results/x/y", "did you mean /v1/jobs/{id}/results/{name}?");
    assert_near("/metric", "did you mean /metrics?");
    assert_near("/readyz/space", "did you mean /readyz?");
    assert_near("/entirely/else", NULL);
}

static void long_paths_are_just_not_found(_unused_ void **state) {
    char *path = malloc(100002);

    for (size_t i = 0; i < 100000; i += 2)
        memcpy(path + i, "/a", 2);
    path[100000] = 0;
    assert_int_equal(find("GET", path), CK_E_NOT_FOUND);
    memset(path + 1, 'a', 99999);
    assert_int_equal(find("GET", path), CK_E_NOT_FOUND);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_finds_itself),
        cmocka_unit_test(operation_ids_differ),
        cmocka_unit_test(parts_are_decoded),
        cmocka_unit_test(a_trailing_slash_is_tolerated_where_curl_needs_one),
        cmocka_unit_test(parts_are_never_empty),
        cmocka_unit_test(other_methods_are_told_which_there_are),
        cmocka_unit_test(the_nearest_path_is_offered),
        cmocka_unit_test(long_paths_are_just_not_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
