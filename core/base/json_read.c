#include "core/base/json_read.h"

#include <string.h>

#define WINDOW_BYTES ((size_t)64 << 10)

/* What the grammar allows next. */
enum {
    EXPECT_VALUE,        /* after ':' or at the start */
    EXPECT_FIRST_VALUE,  /* after '[': a value or ']' */
    EXPECT_FIRST_KEY,    /* after '{': a key or '}' */
    EXPECT_COLON,        /* after a key */
    EXPECT_COMMA_OR_END, /* after a value inside a container */
    EXPECT_NOTHING,      /* after the outermost value */
};

#define NO_BYTE (-1) /* the end of the source */

int ck_json_reader_init(struct ck_json_reader *reader, const struct ck_source *source, size_t string_limit, int bad,
                        struct ck_error *err) {
    unsigned char *window = malloc(WINDOW_BYTES);

    if (!window)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory to read a JSON document");
    *reader = (struct ck_json_reader){.source = *source, .bad = bad, .window = window, .expect = EXPECT_VALUE};
    ck_buffer_init(&reader->buffer, string_limit);
    return 0;
}

void ck_json_reader_release(struct ck_json_reader *reader) {
    free(reader->window);
    ck_buffer_release(&reader->buffer);
    *reader = (struct ck_json_reader){0};
}

static uint64_t position(const struct ck_json_reader *reader) {
    return reader->window_offset + reader->at;
}

static int bad_at(struct ck_json_reader *reader, uint64_t offset, struct ck_error *err, const char *what) {
    return ck_error_set(err, reader->bad, NULL, "the JSON text is not valid: %s, at byte %llu", what,
                        (unsigned long long)offset);
}

/* The next byte without taking it, or NO_BYTE; a negative CK_E_* is told apart by reader->status. */
static int peek_slow(struct ck_json_reader *reader, struct ck_error *err) {
    uint64_t next = position(reader), left = reader->source.length - next;
    size_t n = (size_t)CK_MIN(left, (uint64_t)WINDOW_BYTES);
    int r;

    if (n == 0)
        return NO_BYTE;
    r = ck_source_read(&reader->source, next, reader->window, n, err);
    if (r < 0) {
        reader->status = r;
        return NO_BYTE;
    }
    reader->window_offset = next;
    reader->at = 0;
    reader->filled = n;
    return reader->window[0];
}

static inline int peek(struct ck_json_reader *reader, struct ck_error *err) {
    return reader->at < reader->filled ? reader->window[reader->at] : peek_slow(reader, err);
}

static inline int take(struct ck_json_reader *reader, struct ck_error *err) {
    int c = peek(reader, err);

    if (c != NO_BYTE)
        reader->at++;
    return c;
}

/* The complaint about an unexpected byte, or about the end, or the failed read behind it. */
static int unexpected(struct ck_json_reader *reader, int c, struct ck_error *err, const char *what) {
    if (reader->status < 0)
        return reader->status;
    if (c == NO_BYTE)
        return bad_at(reader, position(reader), err, "it ends too early");
    return bad_at(reader, position(reader), err, what);
}

static int store(struct ck_json_reader *reader, const void *bytes, size_t n, struct ck_error *err) {
    size_t room = reader->buffer.limit - reader->buffer.length;

    if (n > room)
        return ck_error_set(err, reader->bad, NULL, "the JSON text has a string of more than %zu bytes, at byte %llu",
                            reader->buffer.limit, (unsigned long long)reader->offset);
    if (!ck_buffer_add(&reader->buffer, bytes, n))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for a string of a JSON document");
    return 0;
}

static int store_code_point(struct ck_json_reader *reader, uint32_t code, struct ck_error *err) {
    unsigned char bytes[4];
    size_t n;

    if (code < 0x80) {
        bytes[0] = (unsigned char)code;
        n = 1;
    } else if (code < 0x800) {
        bytes[0] = (unsigned char)(0xC0 | code >> 6);
        bytes[1] = (unsigned char)(0x80 | (code & 0x3F));
        n = 2;
    } else if (code < 0x10000) {
        bytes[0] = (unsigned char)(0xE0 | code >> 12);
        bytes[1] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
        bytes[2] = (unsigned char)(0x80 | (code & 0x3F));
        n = 3;
    } else {
        bytes[0] = (unsigned char)(0xF0 | code >> 18);
        bytes[1] = (unsigned char)(0x80 | (code >> 12 & 0x3F));
        bytes[2] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
        bytes[3] = (unsigned char)(0x80 | (code & 0x3F));
        n = 4;
    }
    return store(reader, bytes, n, err);
}

/* One sequence of two to four bytes. The second byte's range excludes overlong forms, surrogates and code points beyond
 * U+10FFFF (Unicode, table 3-7). */
static int read_utf8(struct ck_json_reader *reader, struct ck_error *err) {
    unsigned char bytes[4];
    unsigned char low = 0x80, high = 0xBF;
    uint64_t start = position(reader);
    size_t n;
    int c = take(reader, err);

    if (c < 0xC2 || c > 0xF4)
        return bad_at(reader, start, err, "a string is not UTF-8");
    bytes[0] = (unsigned char)c;
    n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (c == 0xE0)
        low = 0xA0;
    if (c == 0xED)
        high = 0x9F;
    if (c == 0xF0)
        low = 0x90;
    if (c == 0xF4)
        high = 0x8F;
    for (size_t i = 1; i < n; i++) {
        c = peek(reader, err);
        if (c < low || c > high)
            return unexpected(reader, c, err, "a string is not UTF-8");
        bytes[i] = (unsigned char)c;
        reader->at++;
        low = 0x80;
        high = 0xBF;
    }
    return store(reader, bytes, n, err);
}

static int read_hex4(struct ck_json_reader *reader, uint32_t *ret_code, struct ck_error *err) {
    uint32_t code = 0;

    for (int i = 0; i < 4; i++) {
        int c = peek(reader, err);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return unexpected(reader, c, err, "an escape needs four hexadecimal digits");
        code = code << 4 | (uint32_t)digit;
        reader->at++;
    }
    *ret_code = code;
    return 0;
}

/* After "\u": one code point, from one escape or from a surrogate pair of two. */
static int read_unicode_escape(struct ck_json_reader *reader, struct ck_error *err) {
    uint64_t start = position(reader) - 2;
    uint32_t code = 0, low = 0;
    int r;

    r = read_hex4(reader, &code, err);
    if (r < 0)
        return r;
    if (code >= 0xDC00 && code <= 0xDFFF)
        return bad_at(reader, start, err, "an escape is half of a surrogate pair");
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (take(reader, err) != '\\' || take(reader, err) != 'u')
            return reader->status < 0 ? reader->status
                                      : bad_at(reader, start, err, "an escape is half of a surrogate pair");
        r = read_hex4(reader, &low, err);
        if (r < 0)
            return r;
        if (low < 0xDC00 || low > 0xDFFF)
            return bad_at(reader, start, err, "an escape is half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return store_code_point(reader, code, err);
}

static int read_escape(struct ck_json_reader *reader, struct ck_error *err) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found;
    int c = peek(reader, err);

    if (c == 'u') {
        reader->at++;
        return read_unicode_escape(reader, err);
    }
    found = c > 0 ? strchr(from, c) : NULL;
    if (!found)
        return unexpected(reader, c, err, "an escape is unknown");
    reader->at++;
    return store(reader, &to[found - from], 1, err);
}

/* The bytes of the window that need no attention: ASCII without controls, quote and backslash. */
static size_t plain_run(const struct ck_json_reader *reader) {
    size_t i = reader->at;

    while (i < reader->filled) {
        unsigned char c = reader->window[i];

        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
        i++;
    }
    return i - reader->at;
}

/* After the opening quote. */
static int read_string(struct ck_json_reader *reader, struct ck_error *err) {
    int r = 0;

    while (r == 0) {
        int c = peek(reader, err);
        size_t run = c == NO_BYTE ? 0 : plain_run(reader);

        if (run > 0) {
            r = store(reader, reader->window + reader->at, run, err);
            reader->at += run;
        } else if (c == '"') {
            reader->at++;
            break;
        } else if (c == '\\') {
            reader->at++;
            r = read_escape(reader, err);
        } else if (c >= 0x80) {
            r = read_utf8(reader, err);
        } else {
            r = unexpected(reader, c, err, "a string has a control character");
        }
    }
    return r;
}

static bool is_digit(int c) {
    return c >= '0' && c <= '9';
}

static int take_and_store(struct ck_json_reader *reader, struct ck_error *err) {
    char c = (char)take(reader, err);

    return store(reader, &c, 1, err);
}

/* One digit at least. */
static int read_digits(struct ck_json_reader *reader, struct ck_error *err) {
    int r = 0, c = peek(reader, err);

    if (!is_digit(c))
        return unexpected(reader, c, err, "a number lacks a digit");
    while (r == 0 && is_digit(peek(reader, err)))
        r = take_and_store(reader, err);
    return r < 0 ? r : reader->status;
}

static void parse_u64(struct ck_json_reader *reader) {
    uint64_t value = 0;

    for (size_t i = 0; i < reader->buffer.length; i++) {
        char c = reader->buffer.data[i];

        if (!is_digit(c) || !ck_mul_u64(value, 10, &value) || !ck_add_u64(value, (uint64_t)(c - '0'), &value))
            return;
    }
    reader->is_u64 = true;
    reader->u64 = value;
}

static int read_number(struct ck_json_reader *reader, struct ck_error *err) {
    int r = 0, c;

    if (peek(reader, err) == '-')
        r = take_and_store(reader, err);
    if (r == 0 && peek(reader, err) == '0') {
        r = take_and_store(reader, err);
        c = peek(reader, err);
        if (r == 0 && is_digit(c))
            return bad_at(reader, position(reader), err, "a number begins with 0");
    } else if (r == 0) {
        r = read_digits(reader, err);
    }
    if (r == 0 && peek(reader, err) == '.') {
        r = take_and_store(reader, err);
        if (r == 0)
            r = read_digits(reader, err);
    }
    c = peek(reader, err);
    if (r == 0 && (c == 'e' || c == 'E')) {
        r = take_and_store(reader, err);
        c = peek(reader, err);
        if (r == 0 && (c == '+' || c == '-'))
            r = take_and_store(reader, err);
        if (r == 0)
            r = read_digits(reader, err);
    }
    if (r == 0)
        parse_u64(reader);
    return r < 0 ? r : reader->status;
}

static int read_word(struct ck_json_reader *reader, const char *word, struct ck_error *err) {
    for (; *word; word++) {
        int c = peek(reader, err);

        if (c != *word)
            return unexpected(reader, c, err, "a value is none of the JSON values");
        reader->at++;
    }
    return 0;
}

static void after_value(struct ck_json_reader *reader) {
    reader->expect = reader->depth == 0 ? EXPECT_NOTHING : EXPECT_COMMA_OR_END;
}

static int open_level(struct ck_json_reader *reader, bool object, struct ck_error *err) {
    uint64_t bit;

    if (reader->depth == CK_JSON_READ_DEPTH_MAX)
        return bad_at(reader, reader->offset, err, "it is nested too deeply");
    bit = UINT64_C(1) << reader->depth++;
    reader->in_object = object ? reader->in_object | bit : reader->in_object & ~bit;
    reader->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE;
    return 0;
}

static bool inside_object(const struct ck_json_reader *reader) {
    return reader->depth > 0 && (reader->in_object >> (reader->depth - 1) & 1) != 0;
}

static void use_buffer(struct ck_json_reader *reader) {
    reader->text = ck_buffer_text(&reader->buffer);
    reader->length = reader->buffer.length;
}

static int read_value(struct ck_json_reader *reader, int c, enum ck_json_event *ret_event, struct ck_error *err) {
    int r;

    if (c == '{' || c == '[') {
        reader->at++;
        *ret_event = c == '{' ? CK_JSON_OBJECT_BEGIN : CK_JSON_ARRAY_BEGIN;
        return open_level(reader, c == '{', err);
    }
    if (c == '"') {
        reader->at++;
        *ret_event = CK_JSON_STRING;
        r = read_string(reader, err);
    } else if (c == '-' || is_digit(c)) {
        *ret_event = CK_JSON_NUMBER;
        r = read_number(reader, err);
    } else if (c == 't') {
        *ret_event = CK_JSON_TRUE;
        r = read_word(reader, "true", err);
    } else if (c == 'f') {
        *ret_event = CK_JSON_FALSE;
        r = read_word(reader, "false", err);
    } else if (c == 'n') {
        *ret_event = CK_JSON_NULL;
        r = read_word(reader, "null", err);
    } else {
        r = unexpected(reader, c, err, "a value is missing");
    }
    if (r == 0 && (*ret_event == CK_JSON_STRING || *ret_event == CK_JSON_NUMBER))
        use_buffer(reader);
    after_value(reader);
    return r;
}

static int read_key(struct ck_json_reader *reader, int c, enum ck_json_event *ret_event, struct ck_error *err) {
    int r;

    if (c != '"')
        return unexpected(reader, c, err, "a key is missing");
    reader->at++;
    r = read_string(reader, err);
    if (r < 0)
        return r;
    *ret_event = CK_JSON_KEY;
    use_buffer(reader);
    reader->expect = EXPECT_COLON;
    return 0;
}

static int skip_space(struct ck_json_reader *reader, struct ck_error *err) {
    int c = peek(reader, err);

    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        reader->at++;
        c = peek(reader, err);
    }
    return c;
}

static int close_level(struct ck_json_reader *reader, enum ck_json_event *ret_event) {
    *ret_event = inside_object(reader) ? CK_JSON_OBJECT_END : CK_JSON_ARRAY_END;
    reader->at++;
    reader->depth--;
    after_value(reader);
    return 0;
}

/* Takes the comma or colon that separates from the last event; *ret_c is the first byte behind it. */
static int read_separator(struct ck_json_reader *reader, int *ret_c, struct ck_error *err) {
    bool colon = reader->expect == EXPECT_COLON;

    if (*ret_c != (colon ? ':' : ','))
        return unexpected(reader, *ret_c, err,
                          colon ? "a colon is missing" : "a comma or a closing bracket is missing");
    reader->at++;
    *ret_c = skip_space(reader, err);
    return 0;
}

static int next_event(struct ck_json_reader *reader, enum ck_json_event *ret_event, struct ck_error *err) {
    int c = skip_space(reader, err), closing = inside_object(reader) ? '}' : ']';
    uint8_t expect = reader->expect;
    int r;

    if (reader->status < 0)
        return reader->status;
    reader->offset = position(reader);
    if (expect == EXPECT_NOTHING) {
        *ret_event = CK_JSON_END;
        return c == NO_BYTE ? 0 : bad_at(reader, reader->offset, err, "something follows its end");
    }
    if (c == closing && (expect == EXPECT_FIRST_KEY || expect == EXPECT_FIRST_VALUE || expect == EXPECT_COMMA_OR_END))
        return close_level(reader, ret_event);
    if (expect == EXPECT_COLON || expect == EXPECT_COMMA_OR_END) {
        r = read_separator(reader, &c, err);
        if (r < 0)
            return r;
        reader->offset = position(reader);
    }
    if (expect == EXPECT_FIRST_KEY || (expect == EXPECT_COMMA_OR_END && inside_object(reader)))
        return read_key(reader, c, ret_event, err);
    return read_value(reader, c, ret_event, err);
}

int ck_json_next(struct ck_json_reader *reader, enum ck_json_event *ret_event, struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    int r;

    if (reader->status < 0)
        return reader->status;
    reader->buffer.length = 0;
    if (reader->buffer.data)
        reader->buffer.data[0] = 0;
    reader->text = NULL;
    reader->length = 0;
    reader->is_u64 = false;
    reader->u64 = 0;
    r = next_event(reader, &event, err);
    if (r < 0) {
        reader->status = r;
        return r;
    }
    *ret_event = event;
    return 0;
}

int ck_json_skip(struct ck_json_reader *reader, struct ck_error *err) {
    unsigned depth = reader->depth;
    enum ck_json_event event = CK_JSON_END;
    int r;

    do {
        r = ck_json_next(reader, &event, err);
        if (r < 0)
            return r;
        if (reader->depth < depth || event == CK_JSON_END)
            return reader->status = bad_at(reader, reader->offset, err, "a value is missing");
    } while (reader->depth > depth);
    return 0;
}

const char *ck_json_event_name(enum ck_json_event event) {
    static const char *const names[] = {
        [CK_JSON_OBJECT_BEGIN] = "an object",
        [CK_JSON_OBJECT_END] = "the end of an object",
        [CK_JSON_ARRAY_BEGIN] = "an array",
        [CK_JSON_ARRAY_END] = "the end of an array",
        [CK_JSON_KEY] = "a key",
        [CK_JSON_STRING] = "a string",
        [CK_JSON_NUMBER] = "a number",
        [CK_JSON_TRUE] = "true",
        [CK_JSON_FALSE] = "false",
        [CK_JSON_NULL] = "null",
        [CK_JSON_END] = "the end of the text",
    };

    return (unsigned)event < CK_ARRAY_LEN(names) ? names[event] : "nothing";
}
