/* api/query.c: query strings are taken apart, decoded and checked whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/query.h"

static void parse(const char *text, struct ck_query *query) {
    struct ck_error err = {0};

    assert_int_equal(ck_query_parse(text, query, &err), 0);
    assert_int_equal(err.code, 0);
}

static void names_and_values_are_decoded(_unused_ void **state) {
    _cleanup_(ck_query_release) struct ck_query query = {0};

    parse("&a=b%20c&&d+e=%C3%A4+%2B&flag&x=1=2&=v&", &query);
    assert_int_equal(query.n, 5);
    assert_string_equal(ck_query_get(&query, "a"), "b c");
    assert_string_equal(ck_query_get(&query, "d e"), "\xC3\xA4 +");
    assert_string_equal(ck_query_get(&query, "flag"), "");
    assert_string_equal(ck_query_get(&query, "x"), "1=2");
    assert_string_equal(ck_query_get(&query, ""), "v");
    assert_null(ck_query_get(&query, "A"));
}

static void an_empty_query_has_no_parameters(_unused_ void **state) {
    _cleanup_(ck_query_release) struct ck_query query = {0};

    parse("", &query);
    assert_int_equal(query.n, 0);
}

static void broken_escapes_and_nul_are_refused_and_leave_the_result_alone(_unused_ void **state) {
    static const char *const bad[] = {"a=%", "a=%4", "a=%zz", "ok=1&%00=2", "a=%00"};

    for (size_t i = 0; i < CK_ARRAY_LEN(bad); i++) {
        struct ck_query query = {.n = 7};
        struct ck_error err = {0};

        assert_int_equal(ck_query_parse(bad[i], &query, &err), CK_E_BAD_REQUEST);
        assert_int_equal(err.code, CK_E_BAD_REQUEST);
        assert_int_equal(query.n, 7);
    }
}

static void sixty_four_parameters_are_taken_and_one_more_is_not(_unused_ void **state) {
    _cleanup_(ck_query_release) struct ck_query query = {0};
    struct ck_query more = {0};
    struct ck_error err = {0};
    char text[4 * (CK_QUERY_MAX + 1) + 1] = "";

    for (int i = 0; i < CK_QUERY_MAX; i++)
        memcpy(text + 4 * i, "a=b&", 5);
    parse(text, &query);
    assert_int_equal(query.n, CK_QUERY_MAX);
    memcpy(text + 4 * CK_QUERY_MAX, "a=b&", 5);
    assert_int_equal(ck_query_parse(text, &more, &err), CK_E_BAD_REQUEST);
}

static const char *const known[] = {"status", "limit", "label", NULL};
static const char *const repeatable[] = {"label", NULL};

static int check(const char *text, struct ck_error *err) {
    _cleanup_(ck_query_release) struct ck_query query = {0};

    *err = (struct ck_error){0};
    parse(text, &query);
    return ck_query_check(&query, known, repeatable, err);
}

static void an_unknown_parameter_is_named_with_the_nearest(_unused_ void **state) {
    struct ck_error err;

    assert_int_equal(check("limit=1&statsu=2", &err), CK_E_BAD_OPTION);
    assert_string_equal(err.where, "statsu");
    assert_non_null(strstr(err.message, "'statsu'"));
    assert_string_equal(err.hint, "did you mean 'status'?");
    assert_int_equal(check("wholly-different=2", &err), CK_E_BAD_OPTION);
    assert_string_equal(err.hint, "use one of status, limit, label");
}

static void a_path_without_parameters_says_so(_unused_ void **state) {
    static const char *const none[] = {NULL};
    _cleanup_(ck_query_release) struct ck_query query = {0};
    struct ck_error err = {0};

    parse("a", &query);
    assert_int_equal(ck_query_check(&query, none, NULL, &err), CK_E_BAD_OPTION);
    assert_string_equal(err.message, "'a' is unknown: this path takes no parameters");
}

static void only_repeatable_parameters_may_come_twice(_unused_ void **state) {
    struct ck_error err;

    assert_int_equal(check("label=a&limit=1&label=b", &err), 0);
    assert_int_equal(check("limit=1&label=a&limit=1", &err), CK_E_BAD_OPTION);
    assert_string_equal(err.where, "limit");
    assert_string_equal(err.message, "the parameter 'limit' came twice");
}

static int number(const char *text, uint64_t *value) {
    _cleanup_(ck_query_release) struct ck_query query = {0};
    struct ck_error err = {0};
    int r;

    parse(text, &query);
    r = ck_query_number(&query, "n", 2, 100, value, &err);
    assert_int_equal(r, err.code);
    return r;
}

static void numbers_are_whole_and_within_their_bounds(_unused_ void **state) {
    static const char *const bad[] = {"n=1",  "n=101", "n=",    "n=-5",  "n=%2B5",
                                      "n=5x", "n=+5",  "n=5.0", "n=0x5", "n=18446744073709551621"};
    uint64_t value = 42;

    assert_int_equal(number("m=1", &value), 0);
    assert_int_equal(value, 42);
    assert_int_equal(number("n=2", &value), 0);
    assert_int_equal(value, 2);
    assert_int_equal(number("n=100", &value), 0);
    assert_int_equal(value, 100);
    for (size_t i = 0; i < CK_ARRAY_LEN(bad); i++)
        assert_int_equal(number(bad[i], &value), CK_E_BAD_OPTION);
    assert_int_equal(value, 100);
}

static void the_largest_number_is_read(_unused_ void **state) {
    _cleanup_(ck_query_release) struct ck_query query = {0};
    struct ck_error err = {0};
    uint64_t value = 0;

    parse("n=18446744073709551615", &query);
    assert_int_equal(ck_query_number(&query, "n", 0, UINT64_MAX, &value, &err), 0);
    assert_true(value == UINT64_MAX);
}

static int truth(const char *text, bool *value) {
    _cleanup_(ck_query_release) struct ck_query query = {0};
    struct ck_error err = {0};

    parse(text, &query);
    return ck_query_bool(&query, "b", value, &err);
}

static void truth_has_its_words_and_no_others(_unused_ void **state) {
    static const char *const yes[] = {"b", "b=", "b=true", "b=1", "b=yes"}, *const no[] = {"b=false", "b=0", "b=no"};
    bool value;

    for (size_t i = 0; i < CK_ARRAY_LEN(yes); i++) {
        value = false;
        assert_int_equal(truth(yes[i], &value), 0);
        assert_true(value);
    }
    for (size_t i = 0; i < CK_ARRAY_LEN(no); i++) {
        value = true;
        assert_int_equal(truth(no[i], &value), 0);
        assert_false(value);
    }
    value = true;
    assert_int_equal(truth("c=0", &value), 0);
    assert_int_equal(truth("b=TRUE", &value), CK_E_BAD_OPTION);
    assert_int_equal(truth("b=2", &value), CK_E_BAD_OPTION);
    assert_true(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_values_are_decoded),
        cmocka_unit_test(an_empty_query_has_no_parameters),
        cmocka_unit_test(broken_escapes_and_nul_are_refused_and_leave_the_result_alone),
        cmocka_unit_test(sixty_four_parameters_are_taken_and_one_more_is_not),
        cmocka_unit_test(an_unknown_parameter_is_named_with_the_nearest),
        cmocka_unit_test(a_path_without_parameters_says_so),
        cmocka_unit_test(only_repeatable_parameters_may_come_twice),
        cmocka_unit_test(numbers_are_whole_and_within_their_bounds),
        cmocka_unit_test(the_largest_number_is_read),
        cmocka_unit_test(truth_has_its_words_and_no_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
