/* server/keys.h: the keys that clients may present, from the file of --keys-file.
 *
 * One key a line: NAME SHA256 [SCOPE[,SCOPE...]]. NAME is 1 to 64 of [A-Za-z0-9._-] and stands in logs; SHA256 is the
 * digest of the key's text in lower-case hex, so the file holds nothing that opens a door; without scopes a key may do
 * everything. Blank lines and lines that begin with # say nothing. At most 10,000 keys; a name or digest that comes
 * twice is an error.
 *
 * A client sends `Authorization: Bearer KEY` or `X-API-Key: KEY`. */
#ifndef CK_SERVER_KEYS_H
#define CK_SERVER_KEYS_H

#include "api/scope.h"
#include "core/base/error.h"

#define CK_KEYS_MAX     10000
#define CK_KEY_NAME_MAX 64                /* bytes of a name, without the NUL */
#define CK_KEY_TEXT_MAX 512               /* bytes of a key as a client sends it */
#define CK_KEYS_BYTES   (2 * 1024 * 1024) /* of the file */

struct ck_key {
    char name[CK_KEY_NAME_MAX + 1];
    uint8_t digest[32];
    unsigned scopes; /* 1 << enum ck_scope */
};

/* The set in use: shared by all threads, replaced as a whole. */
struct ck_keys;

/* Reads a file. Returns 0, or CK_E_BAD_OPTION with the file, the line and what is wrong. */
int ck_keys_read(const char *path, struct ck_keys **ret_keys, struct ck_error *err);

/* Reads the same file again. When it is bad the old keys stay and the error is returned. Thread-safe: a lookup sees the
 * old set or the new one. */
int ck_keys_reload(struct ck_keys *keys, struct ck_error *err);

/* Looks up what a client sent; both headers may be NULL, and Authorization counts when it is there. Takes the same time
 * wherever the key stands. True and a copy of the row if the key is known; false too when a header is malformed. */
bool ck_keys_find(struct ck_keys *keys, const char *authorization, const char *x_api_key, struct ck_key *ret_key);

bool ck_key_may(const struct ck_key *key, enum ck_scope scope);

/* Number of keys. */
size_t ck_keys_count(struct ck_keys *keys);

/* What the log should say about the file, or NULL: it can be written by others. Static storage. */
const char *ck_keys_note(struct ck_keys *keys);

/* "read,delete" as bits; false for an unknown or empty word. ret_wrong: that word (a tail of text), if not NULL. */
bool ck_scopes_parse(const char *text, unsigned *ret_scopes, const char **ret_wrong);

bool ck_key_name_is_valid(const char *name);

void ck_keys_free(struct ck_keys *keys);
static inline void ck_keys_freep(struct ck_keys **keys) {
    ck_keys_free(*keys);
}

#endif
