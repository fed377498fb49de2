/* api/repr_digest.h: digests of whole representations, in RFC 9530's words, and entity tags made of one. */
#ifndef CK_API_REPR_DIGEST_H
#define CK_API_REPR_DIGEST_H

#include "api/reply.h"
#include "api/request.h"

/* True if the header Want-Repr-Digest lists sha-256 with a preference above 0. */
bool ck_repr_digest_wanted(const struct ck_request *request);

/* Adds "Repr-Digest: sha-256=:BASE64:". */
void ck_repr_digest_add(struct ck_reply *reply, const uint8_t digest[static CK_SHA256_BYTES]);

/* sha256 of a whole file, from its first byte. name is for errors. Returns 0, CK_E_IO, CK_E_OUT_OF_MEMORY. */
int ck_repr_digest_of(int fd, const char *name, uint8_t ret_digest[static CK_SHA256_BYTES], struct ck_error *err);

#define CK_ETAG_SIZE 67 /* 64 hex digits, two quotes and NUL */

/* A strong entity tag: the sha256 of n bytes. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_etag_of(const void *bytes, size_t n, char ret_etag[static CK_ETAG_SIZE], struct ck_error *err);

#endif
