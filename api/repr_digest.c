#include "api/repr_digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/blob_store.h"

#define HASH_BLOCK (1u << 20)

static int hash_fd(EVP_MD_CTX *sha, int fd, const char *name, struct ck_error *err) {
    _cleanup_(ck_freep) char *block = malloc(HASH_BLOCK);
    uint64_t at = 0;
    ssize_t n;

    if (!block)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the digest of %s", name);
    while ((n = pread(fd, block, HASH_BLOCK, (off_t)at)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ck_error_set_errno(err, errno, name, "read a result");
        if (!EVP_DigestUpdate(sha, block, (size_t)n))
            return ck_error_set(err, CK_E_INTERNAL, NULL, "the sha256 of %s cannot be computed", name);
        at += (uint64_t)n;
    }
    return 0;
}

static void free_sha(EVP_MD_CTX **sha) {
    EVP_MD_CTX_free(*sha);
}

int ck_repr_digest_of(int fd, const char *name, uint8_t ret_digest[static CK_SHA256_BYTES], struct ck_error *err) {
    _cleanup_(free_sha) EVP_MD_CTX *sha = EVP_MD_CTX_new();
    int r;

    if (!sha || !EVP_DigestInit_ex(sha, EVP_sha256(), NULL))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the digest of %s", name);
    r = hash_fd(sha, fd, name, err);
    if (r < 0)
        return r;
    EVP_DigestFinal_ex(sha, ret_digest, NULL);
    return 0;
}

/* RFC 9530: "sha-256=9, sha-512=1": a preference from 0 (not wanted) to 10. */
bool ck_repr_digest_wanted(const struct ck_request *request) {
    const char *item = ck_request_header(request, "Want-Repr-Digest");

    for (; item && *item; item += strcspn(item, ","), item += *item == ',') {
        item += strspn(item, " \t");
        if (strncasecmp(item, "sha-256=", 8) == 0 && item[8] >= '1' && item[8] <= '9')
            return true;
    }
    return false;
}

void ck_repr_digest_add(struct ck_reply *reply, const uint8_t digest[static CK_SHA256_BYTES]) {
    unsigned char base64[4 * ((CK_SHA256_BYTES + 2) / 3) + 1];

    EVP_EncodeBlock(base64, digest, CK_SHA256_BYTES);
    ck_reply_header(reply, "Repr-Digest", "sha-256=:%s:", (const char *)base64);
}

int ck_etag_of(const void *bytes, size_t n, char ret_etag[static CK_ETAG_SIZE], struct ck_error *err) {
    uint8_t digest[CK_SHA256_BYTES];
    char hex[65];

    if (!EVP_Digest(bytes, n, digest, NULL, EVP_sha256(), NULL))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
    ck_digest_hex(digest, hex);
    snprintf(ret_etag, CK_ETAG_SIZE, "\"%s\"", hex);
    return 0;
}
