#include "core/base/json_write.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void ck_json_init(struct ck_json *json, ck_json_sink_fn sink, void *ctx, struct ck_error *err) {
    memset(json, 0, offsetof(struct ck_json, bytes));
    json->sink = sink;
    json->ctx = ctx;
    json->err = err;
}

int ck_json_sink_buffer(void *ctx, const char *bytes, size_t n, struct ck_error *err) {
    if (!ck_buffer_add(ctx, bytes, n))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "a JSON document exceeds its bound");
    return 0;
}

int ck_json_sink_fd(void *ctx, const char *bytes, size_t n, struct ck_error *err) {
    int fd = *(int *)ctx;

    while (n > 0) {
        ssize_t done = write(fd, bytes, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return ck_error_set_errno(err, errno, NULL, "write a JSON document");
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

static void flush(struct ck_json *json) {
    if (json->status == 0 && json->used > 0)
        json->status = json->sink(json->ctx, json->bytes, json->used, json->err);
    json->used = 0;
}

static void put(struct ck_json *json, const char *bytes, size_t n) {
    while (n > 0) {
        size_t room = sizeof(json->bytes) - json->used, part = CK_MIN(room, n);

        memcpy(json->bytes + json->used, bytes, part);
        json->used += part;
        bytes += part;
        n -= part;
        if (json->used == sizeof(json->bytes))
            flush(json);
    }
}

static void put_newline(struct ck_json *json) {
    if (json->newline)
        put(json, "\n", 1);
    json->newline = false;
}

static void before_value(struct ck_json *json) {
    if (json->after_key) {
        json->after_key = false;
    } else {
        if (json->comma[json->depth])
            put(json, ",", 1);
        put_newline(json);
    }
    json->comma[json->depth] = true;
}

static void open_level(struct ck_json *json, const char *bracket) {
    before_value(json);
    put(json, bracket, 1);
    if (json->depth == CK_JSON_DEPTH_MAX) {
        if (json->status == 0)
            json->status = ck_error_set(json->err, CK_E_INTERNAL, NULL, "JSON nested too deeply");
        return;
    }
    json->comma[++json->depth] = false;
}

static void close_level(struct ck_json *json, const char *bracket) {
    put(json, bracket, 1);
    if (json->depth > 0)
        json->depth--;
}

void ck_json_object_begin(struct ck_json *json) {
    open_level(json, "{");
}

void ck_json_object_end(struct ck_json *json) {
    close_level(json, "}");
}

void ck_json_array_begin(struct ck_json *json) {
    open_level(json, "[");
}

void ck_json_array_end(struct ck_json *json) {
    close_level(json, "]");
}

/* Length of the valid UTF-8 sequence at text (no surrogates, no overlong forms, at most U+10FFFF), or 0. */
static size_t utf8_sequence(const unsigned char *text, size_t n) {
    size_t length;
    uint32_t code;

    if (text[0] < 0x80)
        return 1;
    if (text[0] < 0xC2 || text[0] > 0xF4)
        return 0;
    length = text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : 4;
    if (n < length)
        return 0;
    code = text[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3Fu);
    }
    if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000) || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    return length;
}

static void put_quoted(struct ck_json *json, const char *text, size_t n) {
    size_t i = 0;

    put(json, "\"", 1);
    while (i < n) {
        unsigned char c = (unsigned char)text[i];
        size_t length = utf8_sequence((const unsigned char *)text + i, n - i);

        if (c == '"' || c == '\\') {
            put(json, (char[]){'\\', (char)c}, 2);
            i++;
        } else if (c < 0x20 || length == 0) {
            char escape[8];

            snprintf(escape, sizeof(escape), "\\u%04x", c);
            put(json, escape, 6);
            i++;
        } else {
            put(json, text + i, length);
            i += length;
        }
    }
    put(json, "\"", 1);
}

void ck_json_key(struct ck_json *json, const char *key) {
    before_value(json);
    put_quoted(json, key, strlen(key));
    put(json, ":", 1);
    json->after_key = true;
}

void ck_json_string_n(struct ck_json *json, const char *text, size_t n) {
    before_value(json);
    put_quoted(json, text, n);
}

void ck_json_string(struct ck_json *json, const char *text) {
    if (text)
        ck_json_string_n(json, text, strlen(text));
    else
        ck_json_null(json);
}

static void put_value(struct ck_json *json, const char *text) {
    before_value(json);
    put(json, text, strlen(text));
}

void ck_json_u64(struct ck_json *json, uint64_t value) {
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    put_value(json, text);
}

void ck_json_i64(struct ck_json *json, int64_t value) {
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, value);
    put_value(json, text);
}

void ck_json_double(struct ck_json *json, double value) {
    char text[40];

    if (!isfinite(value)) {
        ck_json_null(json);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    put_value(json, text);
}

void ck_json_bool(struct ck_json *json, bool value) {
    put_value(json, value ? "true" : "false");
}

void ck_json_null(struct ck_json *json) {
    put_value(json, "null");
}

void ck_json_raw(struct ck_json *json, const char *json_text) {
    put_value(json, json_text);
}

void ck_json_newline(struct ck_json *json) {
    json->newline = true;
}

void ck_json_key_string(struct ck_json *json, const char *key, const char *text) {
    ck_json_key(json, key);
    ck_json_string(json, text);
}

void ck_json_key_u64(struct ck_json *json, const char *key, uint64_t value) {
    ck_json_key(json, key);
    ck_json_u64(json, value);
}

void ck_json_key_bool(struct ck_json *json, const char *key, bool value) {
    ck_json_key(json, key);
    ck_json_bool(json, value);
}

void ck_json_key_ints(struct ck_json *json, const char *key, const int64_t *items, size_t n) {
    ck_json_key(json, key);
    ck_json_array_begin(json);
    for (size_t i = 0; i < n; i++)
        ck_json_i64(json, items[i]);
    ck_json_array_end(json);
}

int ck_json_finish(struct ck_json *json) {
    put_newline(json);
    flush(json);
    return json->status;
}
