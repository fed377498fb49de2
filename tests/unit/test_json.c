/* The pull reader and the writer: what one writes, the other reads back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/base/json_read.h"
#include "core/base/json_write.h"

/* One event as a short text: { } [ ] k:name s:text n:text t f 0 . */
static void note(struct ck_buffer *trace, const struct ck_json_reader *reader, enum ck_json_event event) {
    static const char letters[] = "{}[]ksntf0.";

    ck_buffer_printf(trace, "%s%c", trace->length ? " " : "", letters[event]);
    if (event == CK_JSON_KEY || event == CK_JSON_STRING || event == CK_JSON_NUMBER)
        ck_buffer_printf(trace, ":%s", reader->text);
    else
        assert_null(reader->text);
}

/* Reads to the end or the first error; the trace is of the events before. */
static int trace_of(const char *json, size_t n, size_t string_limit, struct ck_buffer *trace, struct ck_error *err) {
    struct ck_source source = ck_source_from_memory(json, n);
    _cleanup_(ck_json_reader_release) struct ck_json_reader reader;
    enum ck_json_event event = CK_JSON_NULL;
    int r;

    ck_buffer_init(trace, 1 << 20);
    assert_int_equal(ck_json_reader_init(&reader, &source, string_limit, CK_E_HEADER_CORRUPT, err), 0);
    do {
        r = ck_json_next(&reader, &event, err);
        if (r == 0)
            note(trace, &reader, event);
    } while (r == 0 && event != CK_JSON_END);
    /* An error stays. */
    assert_int_equal(ck_json_next(&reader, &event, err), r);
    return r;
}

static void assert_reads(const char *json, const char *expected) {
    _cleanup_(ck_buffer_release) struct ck_buffer trace;
    struct ck_error err = {0};

    if (trace_of(json, strlen(json), 1000, &trace, &err) < 0)
        fail_msg("%s: %s", json, err.message);
    assert_string_equal(ck_buffer_text(&trace), expected);
}

static void assert_bad_n(const char *json, size_t n, const char *words) {
    _cleanup_(ck_buffer_release) struct ck_buffer trace;
    struct ck_error err = {0};

    if (trace_of(json, n, 1000, &trace, &err) != CK_E_HEADER_CORRUPT)
        fail_msg("%s was read as %s", json, ck_buffer_text(&trace));
    if (!strstr(err.message, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", json, err.message, words);
}

static void assert_bad(const char *json, const char *words) {
    assert_bad_n(json, strlen(json), words);
}

static void every_kind_of_value_is_an_event(void **state) {
    (void)state;
    assert_reads("{}", "{ } .");
    assert_reads("[]", "[ ] .");
    assert_reads("null", "0 .");
    assert_reads("\"\"", "s: .");
    assert_reads(" {\"a\" : [1, -2.5e+3, true,false , null, \"x\", {}] ,\n\"b\":\t{\"c\":{}}}\r\n",
                 "{ k:a [ n:1 n:-2.5e+3 t f 0 s:x { } ] k:b { k:c { } } } .");
    assert_reads("[[],[[]],{\"\":0}]", "[ [ ] [ [ ] ] { k: n:0 } ] .");
}

static void broken_grammar_is_refused_with_its_place(void **state) {
    (void)state;
    assert_bad("", "ends too early, at byte 0");
    assert_bad("{", "ends too early, at byte 1");
    assert_bad("{\"a\"", "ends too early");
    assert_bad("{\"a\":", "ends too early");
    assert_bad("{\"a\":1", "ends too early");
    assert_bad("[1,", "ends too early");
    assert_bad("{\"a\":1,}", "a key is missing, at byte 7");
    assert_bad("[1,]", "a value is missing, at byte 3");
    assert_bad("[,1]", "a value is missing, at byte 1");
    assert_bad("[1 2]", "a comma or a closing bracket is missing, at byte 3");
    assert_bad("{\"a\" 1}", "a colon is missing");
    assert_bad("{1:2}", "a key is missing");
    assert_bad("{\"a\":}", "a value is missing");
    assert_bad("[}", "a value is missing");
    assert_bad("{]", "a key is missing");
    assert_bad("[1}", "comma or a closing");
    assert_bad("{} {}", "something follows its end, at byte 3");
    assert_bad_n("{}\0", 3, "something follows its end, at byte 2");
    assert_bad("tru", "ends too early");
    assert_bad("trux", "none of the JSON values");
    assert_bad("nul", "ends too early");
    assert_bad("True", "a value is missing");
    assert_bad("\xEF\xBB\xBF{}", "a value is missing, at byte 0");
    assert_bad("// no comments", "a value is missing");
    assert_bad("'a'", "a value is missing");
}

static void numbers_follow_the_grammar(void **state) {
    static const char *const good[] = {"0",   "-0",   "10",       "0.5",
                                       "1e5", "1E-5", "-0.0e+00", "123456789012345678901234567890"};
    static const char *const wrong[] = {"01",   "-",  "+1",   ".5",  "1.",       "1e", "1e+",
                                        "0x10", "-a", "1.e5", "NaN", "Infinity", "00"};
    char expected[64];

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(good); i++) {
        snprintf(expected, sizeof(expected), "n:%s .", good[i]);
        assert_reads(good[i], expected);
    }
    for (size_t i = 0; i < CK_ARRAY_LEN(wrong); i++)
        assert_bad(wrong[i], "");
}

static void assert_u64(const char *json, bool is_u64, uint64_t value) {
    struct ck_source source = ck_source_from_memory(json, strlen(json));
    _cleanup_(ck_json_reader_release) struct ck_json_reader reader;
    struct ck_error err = {0};
    enum ck_json_event event;

    assert_int_equal(ck_json_reader_init(&reader, &source, 100, CK_E_HEADER_CORRUPT, &err), 0);
    assert_int_equal(ck_json_next(&reader, &event, &err), 0);
    assert_int_equal(event, CK_JSON_NUMBER);
    assert_int_equal(reader.is_u64, is_u64);
    assert_int_equal(reader.u64, value);
}

static void plain_integers_come_as_u64_up_to_the_last_one(void **state) {
    (void)state;
    assert_u64("0", true, 0);
    assert_u64("18446744073709551615", true, UINT64_MAX);
    assert_u64("18446744073709551616", false, 0);
    assert_u64("99999999999999999999999999", false, 0);
    assert_u64("-1", false, 0);
    assert_u64("-0", false, 0);
    assert_u64("1.0", false, 0);
    assert_u64("1e3", false, 0);
}

static void escapes_are_decoded(void **state) {
    (void)state;
    assert_reads("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s:\"\\/\b\f\n\r\t .");
    assert_reads("\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "s:A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 .");
    assert_reads("{\"k\\u0065y\":1}", "{ k:key n:1 } .");
    assert_bad("\"\\x\"", "an escape is unknown");
    assert_bad("\"\\u12g4\"", "four hexadecimal digits, at byte 5");
    assert_bad("\"\\ud83d\"", "half of a surrogate pair, at byte 1");
    assert_bad("\"\\ud83dx\"", "half of a surrogate pair");
    assert_bad("\"\\ud83d\\n\"", "half of a surrogate pair");
    assert_bad("\"\\ud83d\\u0041\"", "half of a surrogate pair");
    assert_bad("\"\\ude00\"", "half of a surrogate pair");
    assert_bad("\"\\", "ends too early");
    assert_bad("\"\\u00", "ends too early");
    assert_bad("\"abc", "ends too early");
    assert_bad("\"a\nb\"", "a control character, at byte 2");
    assert_bad_n("\"a\0b\"", 5, "a control character");
    assert_bad("\"\x1F\"", "a control character");
}

static void nul_escape_counts_in_the_length(void **state) {
    struct ck_source source = ck_source_from_memory("\"a\\u0000b\"", 10);
    _cleanup_(ck_json_reader_release) struct ck_json_reader reader;
    struct ck_error err = {0};
    enum ck_json_event event;

    (void)state;
    assert_int_equal(ck_json_reader_init(&reader, &source, 100, CK_E_HEADER_CORRUPT, &err), 0);
    assert_int_equal(ck_json_next(&reader, &event, &err), 0);
    assert_int_equal(reader.length, 3);
    assert_memory_equal(reader.text, "a\0b", 4);
}

static void text_that_is_not_utf8_is_refused(void **state) {
    static const char *const good[] = {"\xC2\x80",     "\xDF\xBF",         "\xE0\xA0\x80",     "\xED\x9F\xBF",
                                       "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "\x7F"};
    static const char *const wrong[] = {"\x80",
                                        "\xC0\x80",
                                        "\xC1\xBF",
                                        "\xC2",
                                        "\xE0\x9F\xBF",
                                        "\xED\xA0\x80",
                                        "\xED\xBF\xBF",
                                        "\xE2\x82",
                                        "\xE2\x28\xA1",
                                        "\xF0\x8F\xBF\xBF",
                                        "\xF4\x90\x80\x80",
                                        "\xF5\x80\x80\x80",
                                        "\xFF",
                                        "\xFE"};
    char json[16], expected[16];

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(good); i++) {
        snprintf(json, sizeof(json), "\"%s\"", good[i]);
        snprintf(expected, sizeof(expected), "s:%s .", good[i]);
        assert_reads(json, expected);
    }
    for (size_t i = 0; i < CK_ARRAY_LEN(wrong); i++) {
        snprintf(json, sizeof(json), "\"%s\"", wrong[i]);
        assert_bad(json, "not UTF-8");
    }
}

static void string_limit_holds_at_and_one_past(void **state) {
    static const char *const at[] = {"\"12345\"", "{\"12345\":1}", "12345", "\"123\xC3\xA9\"", "\"\\u00e9\\n45\""};
    static const char *const past[] = {"\"123456\"", "{\"123456\":1}", "123456", "\"1234\xC3\xA9\"",
                                       "\"\\u00e9\\n456\""};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(at); i++) {
        _cleanup_(ck_buffer_release) struct ck_buffer one, two;
        struct ck_error err = {0};

        assert_int_equal(trace_of(at[i], strlen(at[i]), 5, &one, &err), 0);
        assert_int_equal(trace_of(past[i], strlen(past[i]), 5, &two, &err), CK_E_HEADER_CORRUPT);
        assert_non_null(strstr(err.message, "more than 5 bytes"));
    }
}

static void depth_limit_holds_at_and_one_past(void **state) {
    char json[2 * (CK_JSON_READ_DEPTH_MAX + 1) + 1];
    _cleanup_(ck_buffer_release) struct ck_buffer trace;
    struct ck_error err = {0};

    (void)state;
    memset(json, '[', CK_JSON_READ_DEPTH_MAX);
    memset(json + CK_JSON_READ_DEPTH_MAX, ']', CK_JSON_READ_DEPTH_MAX);
    assert_int_equal(trace_of(json, 2 * CK_JSON_READ_DEPTH_MAX, 10, &trace, &err), 0);
    memset(json, '[', CK_JSON_READ_DEPTH_MAX + 1);
    memset(json + CK_JSON_READ_DEPTH_MAX + 1, ']', CK_JSON_READ_DEPTH_MAX + 1);
    assert_bad_n(json, sizeof(json) - 1, "nested too deeply, at byte 64");
}

/* Every token is cut by the end of the 64 KiB window at every place. */
static void window_borders_are_invisible(void **state) {
    static const char tail[] = "{\"k\\u00e9y\":[12345,true,\"\xE2\x82\xAC\\ud83d\\ude00\"]}";
    size_t length = (64 << 10) + sizeof(tail);
    _cleanup_(ck_freep) char *json = malloc(length);

    (void)state;
    for (size_t cut = 0; cut < sizeof(tail); cut++) {
        size_t pad = (64 << 10) - cut;
        _cleanup_(ck_buffer_release) struct ck_buffer trace;
        struct ck_error err = {0};

        memset(json, ' ', pad);
        memcpy(json + pad, tail, sizeof(tail) - 1);
        assert_int_equal(trace_of(json, pad + sizeof(tail) - 1, 100, &trace, &err), 0);
        assert_string_equal(ck_buffer_text(&trace), "{ k:k\xC3\xA9y [ n:12345 t s:\xE2\x82\xAC\xF0\x9F\x98\x80 ] } .");
    }
}

static void skip_reads_over_one_whole_value(void **state) {
    static const char json[] = "{\"a\":{\"b\":[1,{\"c\":2}],\"d\":{}},\"e\":\"x\",\"f\":[],\"g\":7}";
    struct ck_source source = ck_source_from_memory(json, sizeof(json) - 1);
    _cleanup_(ck_json_reader_release) struct ck_json_reader reader;
    struct ck_error err = {0};
    enum ck_json_event event;

    (void)state;
    assert_int_equal(ck_json_reader_init(&reader, &source, 100, CK_E_HEADER_CORRUPT, &err), 0);
    assert_int_equal(ck_json_next(&reader, &event, &err), 0);
    for (const char *key = "aef"; *key; key++) {
        assert_int_equal(ck_json_next(&reader, &event, &err), 0);
        assert_int_equal(event, CK_JSON_KEY);
        assert_int_equal(reader.text[0], *key);
        assert_int_equal(ck_json_skip(&reader, &err), 0);
    }
    assert_int_equal(ck_json_next(&reader, &event, &err), 0);
    assert_string_equal(reader.text, "g");
    assert_int_equal(ck_json_next(&reader, &event, &err), 0);
    assert_int_equal(reader.u64, 7);
    assert_int_equal(ck_json_skip(&reader, &err), CK_E_HEADER_CORRUPT);
}

/* A file that shrinks while it is read gives the source's error, not a complaint about the grammar. */
static void failed_read_is_told_as_such(void **state) {
    _cleanup_(ck_closep) int fd = memfd_create("json", MFD_CLOEXEC);
    struct ck_source source = {.fd = fd, .length = 100};
    _cleanup_(ck_json_reader_release) struct ck_json_reader reader;
    struct ck_error err = {0};
    enum ck_json_event event;

    (void)state;
    assert_int_equal(write(fd, "[1,2", 4), 4);
    assert_int_equal(ck_json_reader_init(&reader, &source, 100, CK_E_HEADER_CORRUPT, &err), 0);
    assert_int_equal(ck_json_next(&reader, &event, &err), CK_E_TRUNCATED);
    assert_non_null(strstr(err.message, "became shorter"));
}

/* ------------------------------------------------------------------------------------------ the writer */

static void written(struct ck_buffer *buffer, void (*write_it)(struct ck_json *)) {
    struct ck_error err = {0};
    struct ck_json json;

    ck_buffer_init(buffer, 1 << 20);
    ck_json_init(&json, ck_json_sink_buffer, buffer, &err);
    write_it(&json);
    assert_int_equal(ck_json_finish(&json), 0);
}

static void write_everything(struct ck_json *json) {
    ck_json_object_begin(json);
    ck_json_key_string(json, "text", "a\"b\\c\n\x01\xC3\xA9");
    ck_json_key_string(json, "none", NULL);
    ck_json_key_u64(json, "big", UINT64_MAX);
    ck_json_key(json, "list");
    ck_json_array_begin(json);
    ck_json_i64(json, INT64_MIN);
    ck_json_bool(json, true);
    ck_json_null(json);
    ck_json_array_begin(json);
    ck_json_array_end(json);
    ck_json_raw(json, "{\"raw\":1}");
    ck_json_array_end(json);
    ck_json_key_bool(json, "no", false);
    ck_json_key(json, "inner");
    ck_json_object_begin(json);
    ck_json_object_end(json);
    ck_json_object_end(json);
    ck_json_newline(json);
}

static void writer_puts_commas_colons_and_escapes(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer;

    (void)state;
    written(&buffer, write_everything);
    assert_string_equal(ck_buffer_text(&buffer),
                        "{\"text\":\"a\\\"b\\\\c\\u000a\\u0001\xC3\xA9\",\"none\":null,\"big\":18446744073709551615,"
                        "\"list\":[-9223372036854775808,true,null,[],{\"raw\":1}],\"no\":false,\"inner\":{}}\n");
}

static void what_the_writer_writes_the_reader_reads(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer;

    (void)state;
    written(&buffer, write_everything);
    assert_reads(ck_buffer_text(&buffer),
                 "{ k:text s:a\"b\\c\n\x01\xC3\xA9 k:none 0 k:big n:18446744073709551615 "
                 "k:list [ n:-9223372036854775808 t 0 [ ] { k:raw n:1 } ] k:no f k:inner { } } .");
}

static void write_broken_text(struct ck_json *json) {
    ck_json_string_n(json, "\xFF\xC3(\xED\xA0\x80\xF0\x9F\x98\0", 10);
}

static void bytes_that_are_not_utf8_are_written_as_escapes(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer;

    (void)state;
    written(&buffer, write_broken_text);
    assert_string_equal(ck_buffer_text(&buffer),
                        "\"\\u00ff\\u00c3(\\u00ed\\u00a0\\u0080\\u00f0\\u009f\\u0098\\u0000\"");
}

static void write_doubles(struct ck_json *json) {
    ck_json_array_begin(json);
    ck_json_double(json, 0.1);
    ck_json_double(json, 1e300);
    ck_json_double(json, 1.0 / 3);
    ck_json_double(json, -0.0);
    ck_json_double(json, (double)NAN);
    ck_json_double(json, (double)INFINITY);
    ck_json_array_end(json);
}

static void doubles_are_short_and_read_back_equal(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer;

    (void)state;
    written(&buffer, write_doubles);
    assert_string_equal(ck_buffer_text(&buffer), "[0.1,1e+300,0.3333333333333333,-0,null,null]");
}

static void long_documents_pass_through_the_writers_buffer(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer;
    _cleanup_(ck_freep) char *text = malloc(100001);
    struct ck_error err = {0};
    struct ck_json json;

    (void)state;
    memset(text, 'x', 100000);
    text[100000] = 0;
    ck_buffer_init(&buffer, 1 << 20);
    ck_json_init(&json, ck_json_sink_buffer, &buffer, &err);
    ck_json_string(&json, text);
    assert_int_equal(ck_json_finish(&json), 0);
    assert_int_equal(buffer.length, 100002);
    assert_memory_equal(buffer.data + 1, text, 100000);
}

static void writer_fails_once_when_its_sink_is_full(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer;
    struct ck_error err = {0};
    struct ck_json json;

    (void)state;
    ck_buffer_init(&buffer, 5);
    ck_json_init(&json, ck_json_sink_buffer, &buffer, &err);
    ck_json_string(&json, "123456");
    assert_int_equal(ck_json_finish(&json), CK_E_OUT_OF_MEMORY);
    assert_int_equal(err.code, CK_E_OUT_OF_MEMORY);
    assert_int_equal(ck_json_finish(&json), CK_E_OUT_OF_MEMORY);
}

static void writer_refuses_to_nest_beyond_its_depth(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer;

    (void)state;
    ck_buffer_init(&buffer, 1 << 20);
    for (unsigned depth = CK_JSON_DEPTH_MAX; depth <= CK_JSON_DEPTH_MAX + 1; depth++) {
        struct ck_error err = {0};
        struct ck_json json;

        ck_json_init(&json, ck_json_sink_buffer, &buffer, &err);
        for (unsigned i = 0; i < depth; i++)
            ck_json_array_begin(&json);
        for (unsigned i = 0; i < depth; i++)
            ck_json_array_end(&json);
        assert_int_equal(ck_json_finish(&json), depth > CK_JSON_DEPTH_MAX ? CK_E_INTERNAL : 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_an_event),
        cmocka_unit_test(broken_grammar_is_refused_with_its_place),
        cmocka_unit_test(numbers_follow_the_grammar),
        cmocka_unit_test(plain_integers_come_as_u64_up_to_the_last_one),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(nul_escape_counts_in_the_length),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(string_limit_holds_at_and_one_past),
        cmocka_unit_test(depth_limit_holds_at_and_one_past),
        cmocka_unit_test(window_borders_are_invisible),
        cmocka_unit_test(skip_reads_over_one_whole_value),
        cmocka_unit_test(failed_read_is_told_as_such),
        cmocka_unit_test(writer_puts_commas_colons_and_escapes),
        cmocka_unit_test(what_the_writer_writes_the_reader_reads),
        cmocka_unit_test(bytes_that_are_not_utf8_are_written_as_escapes),
        cmocka_unit_test(doubles_are_short_and_read_back_equal),
        cmocka_unit_test(long_documents_pass_through_the_writers_buffer),
        cmocka_unit_test(writer_fails_once_when_its_sink_is_full),
        cmocka_unit_test(writer_refuses_to_nest_beyond_its_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
