/* api/body_head.h: what a request's head says about its body, held against what the route takes. */
#ifndef CK_API_BODY_HEAD_H
#define CK_API_BODY_HEAD_H

#include "api/routes.h"

/* The headers as sent. Each may be NULL. */
struct ck_body_head {
    const char *content_length, *transfer_encoding, *content_type, *content_encoding, *content_range;
    const char *repr_digest, *content_digest;
};

/* How the bytes are to be read. */
enum ck_body_way {
    CK_WAY_NONE, /* swallowed */
    CK_WAY_JSON,
    CK_WAY_RAW,  /* the body is the file */
    CK_WAY_FORM, /* multipart/form-data */
};

struct ck_body_terms {
    enum ck_body_way way;
    bool     length_known;
    uint64_t length; /* bytes of the message, if known */
    uint64_t most;   /* bytes that are taken at most: max_json or max_upload */
    bool     digest_given;
    uint8_t  digest[CK_SHA256_BYTES]; /* sha-256 that the body must have; with FORM: its one file */
};

/* Returns 0; CK_E_BAD_REQUEST for an encoding, a part, a malformed length or digest; CK_E_UNSUPPORTED_MEDIA; CK_E_BODY_TOO_LARGE naming --max-upload or
 * --max-json. */
int ck_body_head_parse(const struct ck_body_head *head, enum ck_body body, const struct ck_terms *limits, struct ck_body_terms *ret_terms,
                       struct ck_error *err);

#endif
