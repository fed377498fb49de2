/* base/json_write.h: a streaming JSON writer (RFC 8259). Reports and headers grow with the tensors, so they never exist as a tree.
 *
 * The writer puts commas and colons; the caller keeps begin and end paired. Text that is not valid UTF-8 (names in checkpoints may
 * be anything) is written byte by byte as \u00XX escapes, so the output is always valid. Errors are sticky: check
 * ck_json_finish() once at the end. */
#ifndef CK_BASE_JSON_WRITE_H
#define CK_BASE_JSON_WRITE_H

#include "core/base/buffer.h"
#include "core/base/error.h"

#define CK_JSON_DEPTH_MAX 64

/* Takes n bytes of finished text. Returns 0 or a negative code. */
typedef int (*ck_json_sink_fn)(void *ctx, const char *bytes, size_t n, struct ck_error *err);

struct ck_json {
    ck_json_sink_fn sink;
    void           *ctx;
    struct ck_error *err;              /* borrowed; filled by the first failure */
    int              status;           /* 0 or the first failure */
    unsigned         depth;
    bool             comma[CK_JSON_DEPTH_MAX + 1]; /* a value was already written at this depth */
    bool             after_key;
    bool             newline; /* the next value begins on a new line */
    size_t           used;
    char             bytes[16384]; /* text not yet given to the sink */
};

void ck_json_init(struct ck_json *json, ck_json_sink_fn sink, void *ctx, struct ck_error *err);

/* A sink for a bounded buffer: ctx is a struct ck_buffer. */
int ck_json_sink_buffer(void *ctx, const char *bytes, size_t n, struct ck_error *err);

/* A sink that appends to a file: ctx is an int * descriptor. */
int ck_json_sink_fd(void *ctx, const char *bytes, size_t n, struct ck_error *err);

void ck_json_object_begin(struct ck_json *json);
void ck_json_object_end(struct ck_json *json);
void ck_json_array_begin(struct ck_json *json);
void ck_json_array_end(struct ck_json *json);
void ck_json_key(struct ck_json *json, const char *key);
void ck_json_string(struct ck_json *json, const char *text); /* NULL is written as null */
void ck_json_string_n(struct ck_json *json, const char *text, size_t n);
void ck_json_u64(struct ck_json *json, uint64_t value);
void ck_json_i64(struct ck_json *json, int64_t value);
void ck_json_double(struct ck_json *json, double value); /* shortest text that reads back equal; not finite: null */
void ck_json_bool(struct ck_json *json, bool value);
void ck_json_null(struct ck_json *json);
void ck_json_raw(struct ck_json *json, const char *json_text); /* one complete value, trusted */
void ck_json_newline(struct ck_json *json); /* the next value (or the end) begins on a new line, for people */

/* Shorthands for a key with its value. */
void ck_json_key_string(struct ck_json *json, const char *key, const char *text);
void ck_json_key_u64(struct ck_json *json, const char *key, uint64_t value);
void ck_json_key_bool(struct ck_json *json, const char *key, bool value);
void ck_json_key_ints(struct ck_json *json, const char *key, const int64_t *items, size_t n); /* an array: shapes, strides */

/* Gives the rest to the sink. Returns 0 or the first failure. */
int ck_json_finish(struct ck_json *json);

#endif
