/* base/json_read.h: a pull reader for JSON (RFC 8259) over a source. Headers grow with the tensors, so they never exist
 * as a tree.
 *
 * The reader validates everything: grammar, UTF-8 (no overlong forms, no surrogates), escapes, surrogate pairs, one
 * value and nothing but white space behind it. It does not look for duplicate keys: the caller knows which matter.
 * Memory: a window of 64 KiB plus the longest string (at most string_limit). Not for use from several threads at once.
 *
 *     while ((r = ck_json_next(&reader, &event, err)) == 0 && event != CK_JSON_END)
 *         ... */
#ifndef CK_BASE_JSON_READ_H
#define CK_BASE_JSON_READ_H

#include "core/base/buffer.h"
#include "core/base/source.h"

#define CK_JSON_READ_DEPTH_MAX 64 /* nested objects and arrays: one bit of `in_object` each */

enum ck_json_event {
    CK_JSON_OBJECT_BEGIN,
    CK_JSON_OBJECT_END,
    CK_JSON_ARRAY_BEGIN,
    CK_JSON_ARRAY_END,
    CK_JSON_KEY,    /* text, length */
    CK_JSON_STRING, /* text, length */
    CK_JSON_NUMBER, /* text, length; is_u64 and u64 */
    CK_JSON_TRUE,
    CK_JSON_FALSE,
    CK_JSON_NULL,
    CK_JSON_END, /* the document is complete; stays so */
};

struct ck_json_reader {
    /* Of the last event. Read only. */
    const char
        *text;     /* NUL-terminated UTF-8 with escapes decoded; borrowed until the next call; NULL for other events */
    size_t length; /* bytes of text; differs from strlen(text) when the string holds \u0000 */
    bool is_u64;   /* the number is written as a plain non-negative integer that fits */
    uint64_t u64;
    uint64_t offset; /* of the first byte of the event, in the source */

    /* Private. */
    struct ck_source source;
    int bad;    /* the code for malformed text */
    int status; /* sticky */
    unsigned depth;
    uint64_t in_object; /* bit d: level d is an object */
    uint8_t expect;
    struct ck_buffer buffer;
    unsigned char *window; /* 64 KiB, owned */
    size_t at, filled;
    uint64_t window_offset;
};

/* string_limit: most bytes of one decoded string, key or number. bad: the code of every complaint about the text, such
 * as CK_E_HEADER_CORRUPT; messages end with the byte where it is wrong. source is copied. Returns 0 or
 * CK_E_OUT_OF_MEMORY. */
int ck_json_reader_init(struct ck_json_reader *reader, const struct ck_source *source, size_t string_limit, int bad,
                        struct ck_error *err);

/* The next event. Returns 0; the code `bad` (also for a string beyond the limit, nesting beyond CK_JSON_READ_DEPTH_MAX
 * and a text that ends too early); CK_E_OUT_OF_MEMORY; the errors of ck_source_read(). After an error every call
 * returns it again. */
int ck_json_next(struct ck_json_reader *reader, enum ck_json_event *ret_event, struct ck_error *err);

/* Reads over one whole value: the one that comes next, after a key or inside an array. Errors as above, and `bad` if no
 * value comes. */
int ck_json_skip(struct ck_json_reader *reader, struct ck_error *err);

/* "an object", "a string", "the end of an array" ...: for messages. Static storage. */
const char *ck_json_event_name(enum ck_json_event event);

/* Accepts a zeroed reader. */
void ck_json_reader_release(struct ck_json_reader *reader);

#endif
