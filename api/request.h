/* api/request.h: one request as the handlers see it: no socket, no library of HTTP. */
#ifndef CK_API_REQUEST_H
#define CK_API_REQUEST_H

#include "core/base/error.h"

#define CK_SHA256_BYTES 32

/* One file that came with the request, complete, with its digest: a raw body, or a part of a form. Its bytes lie in a nameless file
 * until a handler makes a blob of it (api/blob_store.h). */
struct ck_received {
    const char *field; /* name of the form's field; "" for a raw body */
    const char *name;  /* file name that the client gave, or NULL */
    uint64_t    bytes;
    uint8_t     digest[CK_SHA256_BYTES];
    void       *spool; /* the server's handle of the file, for ck_blobs.adopt */
};

/* One field of a form that is not a file. */
struct ck_field {
    const char *name, *value;
};


#define CK_PARAMS_MAX 3

struct ck_request {
    const char *method;
    const char *path;     /* as sent, without the query, not decoded */
    const char *query;    /* as sent, without '?'; "" if there is none */
    const char *host;     /* the Host header, or NULL */
    const char *id;       /* request id */
    const char *trace_id; /* of traceparent, 32 hex digits, or "" */
    const char *caller;   /* name of the key, or "" */
    const char *params[CK_PARAMS_MAX]; /* what the pattern's {...} stand for, decoded, in order; NULL beyond */

    const char *(*header)(void *ctx, const char *name); /* a header's value or NULL; borrowed for the request's life */
    void *header_ctx;

    /* Complete when answer() is called; empty in head(). */
    const char               *body; /* of a route that takes JSON: NUL-terminated */
    size_t                    body_bytes;
    const struct ck_received *files;
    size_t                    n_files;
    const struct ck_field    *fields;
    size_t                    n_fields;

    /* What a handler keeps between head() and its answer, and between two answers when it waits. */
    void *state;
    void (*state_free)(void *state);
    bool answer_early; /* set by head(): the answer is known, nobody needs the body; answer() is called at once and must not block */
    bool waited; /* the wait that the last reply asked for is over: by time, by a drain, or because what was waited for came */
};

/* The header, or NULL. */
static inline const char *ck_request_header(const struct ck_request *request, const char *name) {
    return request->header ? request->header(request->header_ctx, name) : NULL;
}

#endif
