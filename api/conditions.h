/* api/conditions.h: what the head of a GET asks for: conditions, ranges, representations, preferences (RFC 9110, RFC 7240). */
#ifndef CK_API_CONDITIONS_H
#define CK_API_CONDITIONS_H

#include "api/reply.h"
#include "api/request.h"

/* True if If-None-Match lists the etag (with its quotes; weak comparison) or is "*". */
bool ck_none_match(const struct ck_request *request, const char *etag);

/* The part of a representation that is to be sent. */
struct ck_range {
    uint64_t offset, length;
    bool     partial; /* 206 */
};

/* One range of bytes ("bytes=A-B", "A-", "-N"), honoured if If-Range is absent or equals the etag (strong comparison; dates never match).
 * Several ranges, other units and malformed texts mean the whole, as RFC 9110 allows. Returns 0, or CK_E_RANGE_NOT_SATISFIABLE for a range
 * that begins beyond the end (the caller adds Content-Range: bytes * / total). */
int ck_range_parse(const struct ck_request *request, const char *etag, uint64_t total, struct ck_range *ret_range, struct ck_error *err);

/* Fills status (200 or 206), Accept-Ranges, Content-Range of a reply that serves `range` of `total` bytes. */
void ck_range_apply(struct ck_reply *reply, const struct ck_range *range, uint64_t total);

/* The media type of `offered` (ends with NULL; the first is the default) that Accept likes best (RFC 9110 12.5.1: q values, wildcards,
 * more specific wins). Returns its index, the default's without the header, or -1 if none is acceptable. */
int ck_accept_choose(const struct ck_request *request, const char *const *offered);

/* Prefer: respond-async, wait=N (RFC 7240). Absent: async false, wait -1. */
struct ck_prefer {
    bool    async;
    int64_t wait; /* seconds, or -1 */
};
void ck_prefer_parse(const struct ck_request *request, struct ck_prefer *ret_prefer);

/* 304 with the etag and no body. */
void ck_reply_not_modified(struct ck_reply *reply, const char *etag);

#endif
