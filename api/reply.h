/* api/reply.h: an answer, before it meets a socket: status, headers, a short body. Results of gigabytes have no body
 * here; the server adds it. */
#ifndef CK_API_REPLY_H
#define CK_API_REPLY_H

#include "core/base/buffer.h"

#define CK_REPLY_HEADERS_MAX 16
#define CK_REPLY_BODY_MAX    65536

struct ck_reply_header {
    const char *name; /* static storage */
    char *value;      /* owned */
};

struct ck_reply {
    int status;
    struct ck_buffer body;
    struct ck_reply_header headers[CK_REPLY_HEADERS_MAX];
    size_t n_headers;
    bool broken; /* memory ran out while it was composed: it must not be sent */
};

void ck_reply_init(struct ck_reply *reply, int status, const char *content_type);

/* Adds a header; control characters in the value become '_', so that no text of a client can add a line. */
void ck_reply_header(struct ck_reply *reply, const char *name, const char *format, ...) _printf_(3, 4);

/* Appends to the body. */
void ck_reply_printf(struct ck_reply *reply, const char *format, ...) _printf_(2, 3);

/* The value of a header, or NULL. Borrowed. */
const char *ck_reply_find(const struct ck_reply *reply, const char *name);

/* Accepts a zeroed reply. */
void ck_reply_release(struct ck_reply *reply);

#endif
