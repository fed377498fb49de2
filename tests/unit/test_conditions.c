/* api/conditions.c: conditions, ranges, representations and preferences of a request's head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "api/conditions.h"

#define ETAG "\"abc\""

/* The headers of a request: name, value, name, value, NULL. */
static const char *header(void *ctx, const char *name) {
    for (const char *const *h = ctx; *h; h += 2)
        if (strcasecmp(h[0], name) == 0)
            return h[1];
    return NULL;
}

static struct ck_request request_with(const char **headers) {
    return (struct ck_request){.method = "GET", .query = "", .header = header, .header_ctx = headers};
}

static bool none_match(const char *value, const char *etag) {
    const char *headers[] = {"If-None-Match", value, NULL};
    struct ck_request request = request_with(headers);

    return ck_none_match(&request, etag);
}

static void an_etag_is_found_in_lists_and_compared_weakly(_unused_ void **state) {
    const char *none[] = {NULL};
    struct ck_request bare = request_with(none);

    assert_true(none_match("\"abc\"", ETAG));
    assert_true(none_match("W/\"abc\"", ETAG));
    assert_true(none_match("\"abc\"", "W/\"abc\""));
    assert_true(none_match(" \"x\" ,W/\"y\",, \t\"abc\" ", ETAG));
    assert_true(none_match("*", ETAG));
    assert_true(none_match("\"a,b\", \"abc\"", ETAG));
    assert_true(none_match("\"a\\\", \"abc\"", ETAG));
    assert_false(ck_none_match(&bare, ETAG));
}

static void other_and_malformed_etags_do_not_match(_unused_ void **state) {
    static const char *const others[] = {"",          "\"ab\"",   "\"abcd\"",   "abc",     "\"ABC\"",
                                         "w/\"abc\"", "\"abc",    "\"x,abc\"",  "W/",      "\"",
                                         "\"*\"",     "*, \"x\"", "W/ \"abc\"", "x\"abc\""};

    for (size_t i = 0; i < CK_ARRAY_LEN(others); i++)
        assert_false(none_match(others[i], ETAG));
}

struct seen {
    int code;
    struct ck_range range;
};

static struct seen range_of(const char *range, const char *if_range, uint64_t total) {
    const char *headers[] = {"Range", range, if_range ? "If-Range" : NULL, if_range, NULL};
    struct ck_request request = request_with(headers);
    struct seen seen = {.range = {77, 77, false}};
    struct ck_error err = {0};

    seen.code = ck_range_parse(&request, ETAG, total, &seen.range, &err);
    assert_int_equal(seen.code, err.code);
    return seen;
}

static void assert_part(const char *range, uint64_t total, uint64_t offset, uint64_t length) {
    struct seen seen = range_of(range, NULL, total);

    assert_int_equal(seen.code, 0);
    assert_true(seen.range.partial);
    assert_int_equal(seen.range.offset, offset);
    assert_int_equal(seen.range.length, length);
}

static void assert_whole(const char *range, const char *if_range, uint64_t total) {
    struct seen seen = range_of(range, if_range, total);

    assert_int_equal(seen.code, 0);
    assert_false(seen.range.partial);
    assert_int_equal(seen.range.offset, 0);
    assert_int_equal(seen.range.length, total);
}

static void one_range_is_honoured_in_each_of_its_forms(_unused_ void **state) {
    assert_part("bytes=0-", 10, 0, 10);
    assert_part("bytes=0-0", 10, 0, 1);
    assert_part("bytes=9-", 10, 9, 1);
    assert_part("bytes=2-4", 10, 2, 3);
    assert_part("bytes=5-9999999999", 10, 5, 5);
    assert_part("bytes=5-99999999999999999999999", 10, 5, 5);
    assert_part("bytes=5-18446744073709551615", 10, 5, 5);
    assert_part("bytes=-5", 10, 5, 5);
    assert_part("bytes=-10", 10, 0, 10);
    assert_part("bytes=-11", 10, 0, 10);
    assert_part("bytes=-99999999999999999999999", 10, 0, 10);
    assert_part("Bytes= 1-2 ", 10, 1, 2);
    assert_part("bytes=18446744073709551614-", UINT64_MAX, UINT64_MAX - 1, 1);
}

static void a_range_beyond_the_end_is_not_satisfiable_and_nothing_is_returned(_unused_ void **state) {
    static const char *const beyond[] = {"bytes=10-", "bytes=10-20", "bytes=99999999999999999999999-", "bytes=-0"};

    for (size_t i = 0; i < CK_ARRAY_LEN(beyond); i++) {
        struct seen seen = range_of(beyond[i], NULL, 10);

        assert_int_equal(seen.code, CK_E_RANGE_NOT_SATISFIABLE);
        assert_int_equal(seen.range.offset, 77);
    }
}

static void an_empty_file_has_no_first_byte_but_a_last_part(_unused_ void **state) {
    assert_int_equal(range_of("bytes=0-", NULL, 0).code, CK_E_RANGE_NOT_SATISFIABLE);
    assert_int_equal(range_of("bytes=-0", NULL, 0).code, CK_E_RANGE_NOT_SATISFIABLE);
    assert_whole("bytes=-5", NULL, 0);
    assert_whole("lines=0-1", NULL, 0);
}

static void what_is_no_single_range_of_bytes_means_the_whole(_unused_ void **state) {
    static const char *const others[] = {
        "",           "bytes",       "bytes=",        "bytes=-",   "bytes=--5",     "bytes=5-4",
        "bytes=a-5",  "bytes=5-x",   "bytes=5",       "items=0-5", "bytes=0-1,3-4", "bytes=0-1,",
        "bytes=+1-2", "bytes=1 - 2", "bytes=\"0-1\"", "bytes 0-5", "bytes=0x1-2"};

    for (size_t i = 0; i < CK_ARRAY_LEN(others); i++)
        assert_whole(others[i], NULL, 10);
}

static void if_range_needs_the_very_etag(_unused_ void **state) {
    const char *headers[] = {"Range", "bytes=1-2", "If-Range", "W/" ETAG, NULL};
    struct ck_request request = request_with(headers);
    struct ck_range range = {0};

    assert_true(range_of("bytes=1-2", ETAG, 10).range.partial);
    assert_true(range_of("bytes=1-2", " " ETAG " ", 10).range.partial);
    assert_whole("bytes=1-2", "W/" ETAG, 10);
    assert_whole("bytes=1-2", "\"abd\"", 10);
    assert_whole("bytes=1-2", "*", 10);
    assert_whole("bytes=1-2", "", 10);
    assert_whole("bytes=1-2", "Wed, 21 Oct 2015 07:28:00 GMT", 10);
    assert_whole("bytes=20-", "\"abd\"", 10);
    /* A weak etag equals nothing strongly, itself included. */
    assert_int_equal(ck_range_parse(&request, "W/" ETAG, 10, &range, NULL), 0);
    assert_false(range.partial);
}

static void a_head_describes_the_whole(_unused_ void **state) {
    const char *headers[] = {"Range", "bytes=1-2", NULL};
    struct ck_request request = request_with(headers);
    struct ck_range range = {0};

    request.method = "HEAD";
    assert_int_equal(ck_range_parse(&request, ETAG, 10, &range, NULL), 0);
    assert_false(range.partial);
    assert_int_equal(range.length, 10);
}

static void a_part_says_which_it_is(_unused_ void **state) {
    _cleanup_(ck_reply_release) struct ck_reply part = {0}, all = {0};

    ck_reply_init(&part, 500, NULL);
    ck_range_apply(&part, &(struct ck_range){.offset = 5, .length = 5, .partial = true}, 10);
    assert_int_equal(part.status, 206);
    assert_string_equal(ck_reply_find(&part, "Content-Range"), "bytes 5-9/10");
    assert_string_equal(ck_reply_find(&part, "Accept-Ranges"), "bytes");
    ck_reply_init(&all, 500, NULL);
    ck_range_apply(&all, &(struct ck_range){.length = 10}, 10);
    assert_int_equal(all.status, 200);
    assert_null(ck_reply_find(&all, "Content-Range"));
    assert_string_equal(ck_reply_find(&all, "Accept-Ranges"), "bytes");
}

static const char *const offered[] = {"application/json", "text/csv", "text/markdown; charset=utf-8", NULL};

static int choose(const char *accept) {
    const char *headers[] = {"Accept", accept, NULL};
    struct ck_request request = request_with(headers);

    return ck_accept_choose(&request, offered);
}

static void without_a_wish_the_default_is_sent(_unused_ void **state) {
    const char *none[] = {NULL};
    struct ck_request request = request_with(none);

    assert_int_equal(ck_accept_choose(&request, offered), 0);
    assert_int_equal(choose(""), 0);
    assert_int_equal(choose("*/*"), 0);
    assert_int_equal(choose("nonsense"), 0);
}

static void the_most_liked_type_wins_and_the_first_among_equals(_unused_ void **state) {
    assert_int_equal(choose("text/csv"), 1);
    assert_int_equal(choose("TEXT/Markdown"), 2);
    assert_int_equal(choose("text/csv;q=0.5, application/json;q=0.4"), 1);
    assert_int_equal(choose("text/csv;q=0.5, application/json;q=0.501"), 0);
    assert_int_equal(choose("text/markdown, text/csv"), 1);
    assert_int_equal(choose("text/*"), 1);
    assert_int_equal(choose("text/html, application/xhtml+xml, */*;q=0.8"), 0);
    assert_int_equal(choose("text/csv; charset=utf-8; header=present"), 1);
    assert_int_equal(choose("text/markdown ; Q=1.000 , application/json;q=0.999"), 2);
}

static void the_more_specific_range_decides_whatever_its_place(_unused_ void **state) {
    assert_int_equal(choose("*/*, application/json;q=0.1"), 1);
    assert_int_equal(choose("application/json;q=0.1, */*"), 1);
    assert_int_equal(choose("text/*;q=0.9, text/csv;q=0.2, */*;q=0.5"), 2);
    assert_int_equal(choose("text/*;q=0.3, */*;q=0.2, text/markdown;q=0.1"), 1);
}

static void a_weight_of_zero_excludes(_unused_ void **state) {
    assert_int_equal(choose("application/json;q=0"), -1);
    assert_int_equal(choose("*/*, application/json;q=0"), 1);
    assert_int_equal(choose("*/*;q=0, text/markdown;q=0.001"), 2);
    assert_int_equal(choose("*/*;q=0.000"), -1);
    assert_int_equal(choose("text/*, text/csv;q=0."), 2);
}

static void nothing_that_is_offered_is_acceptable(_unused_ void **state) {
    assert_int_equal(choose("text/html"), -1);
    assert_int_equal(choose("image/*, application/xml"), -1);
    assert_int_equal(choose("text/cs, text/csvx, tex/*, application/jso*"), -1);
}

static void malformed_pieces_of_accept_are_skipped(_unused_ void **state) {
    assert_int_equal(choose("text/csv;q=2, text/markdown"), 2);
    assert_int_equal(choose("text/csv;q=x, text/markdown;q=0.1"), 2);
    assert_int_equal(choose("text/csv;q=1.001, text/markdown;q=0.1"), 2);
    assert_int_equal(choose("text/csv;q=0.1234, text/markdown;q=0.1"), 2);
    assert_int_equal(choose(",,;;,text/csv,"), 1);
    assert_int_equal(choose("text/csv;a=\"x,application/json;q=1\\\"\";q=0.5"), 1);
    assert_int_equal(choose("text/csv;a=\"never closed, text/markdown"), 1);
}

static struct ck_prefer prefer(const char *value) {
    const char *headers[] = {value ? "Prefer" : NULL, value, NULL};
    struct ck_request request = request_with(headers);
    struct ck_prefer result = {.async = true, .wait = 99};

    ck_prefer_parse(&request, &result);
    return result;
}

static void preferences_are_read(_unused_ void **state) {
    assert_false(prefer(NULL).async);
    assert_int_equal(prefer(NULL).wait, -1);
    assert_true(prefer("respond-async").async);
    assert_int_equal(prefer("respond-async").wait, -1);
    assert_true(prefer("handling=lenient, Respond-Async; x=1, WAIT=10").async);
    assert_int_equal(prefer("handling=lenient, Respond-Async; x=1, WAIT=10").wait, 10);
    assert_int_equal(prefer("wait = \"7\"").wait, 7);
    assert_int_equal(prefer("wait=0").wait, 0);
    assert_int_equal(prefer("foo=\"respond-async, wait=5\"").wait, -1);
    assert_false(prefer("foo=\"respond-async, wait=5\"").async);
}

static void the_first_wait_counts_and_strange_ones_do_not(_unused_ void **state) {
    assert_int_equal(prefer("wait=3, wait=9").wait, 3);
    assert_int_equal(prefer("wait=x, wait=9").wait, -1);
    assert_int_equal(prefer("wait").wait, -1);
    assert_int_equal(prefer("wait=-3").wait, -1);
    assert_int_equal(prefer("wait=3s").wait, -1);
    assert_int_equal(prefer("wait=2147483647").wait, 2147483647);
    assert_int_equal(prefer("wait=2147483648").wait, 2147483647);
    assert_int_equal(prefer("wait=99999999999999999999999999").wait, 2147483647);
}

static void hostile_lengths_end(_unused_ void **state) {
    enum { MOST = 1 << 20 };
    static const char fills[] = {',', '"', '*', '/', ';', '=', '-', '9', 'W', ' ', '\\'};
    _cleanup_(ck_freep) char *text = malloc(MOST + 1);

    assert_non_null(text);
    text[MOST] = 0;
    for (size_t i = 0; i < sizeof(fills); i++) {
        memset(text, fills[i], MOST);
        none_match(text, ETAG);
        choose(text);
        prefer(text);
        range_of(text, text, 10);
    }
}

static void not_modified_carries_the_etag_and_no_body(_unused_ void **state) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};

    ck_reply_not_modified(&reply, ETAG);
    assert_int_equal(reply.status, 304);
    assert_string_equal(ck_reply_find(&reply, "ETag"), ETAG);
    assert_null(ck_reply_find(&reply, "Content-Type"));
    assert_int_equal(reply.body.length, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_etag_is_found_in_lists_and_compared_weakly),
        cmocka_unit_test(other_and_malformed_etags_do_not_match),
        cmocka_unit_test(one_range_is_honoured_in_each_of_its_forms),
        cmocka_unit_test(a_range_beyond_the_end_is_not_satisfiable_and_nothing_is_returned),
        cmocka_unit_test(an_empty_file_has_no_first_byte_but_a_last_part),
        cmocka_unit_test(what_is_no_single_range_of_bytes_means_the_whole),
        cmocka_unit_test(if_range_needs_the_very_etag),
        cmocka_unit_test(a_head_describes_the_whole),
        cmocka_unit_test(a_part_says_which_it_is),
        cmocka_unit_test(without_a_wish_the_default_is_sent),
        cmocka_unit_test(the_most_liked_type_wins_and_the_first_among_equals),
        cmocka_unit_test(the_more_specific_range_decides_whatever_its_place),
        cmocka_unit_test(a_weight_of_zero_excludes),
        cmocka_unit_test(nothing_that_is_offered_is_acceptable),
        cmocka_unit_test(malformed_pieces_of_accept_are_skipped),
        cmocka_unit_test(preferences_are_read),
        cmocka_unit_test(the_first_wait_counts_and_strange_ones_do_not),
        cmocka_unit_test(hostile_lengths_end),
        cmocka_unit_test(not_modified_carries_the_etag_and_no_body),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
