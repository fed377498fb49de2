#include "server/keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "core/job/options.h"
#include "server/text_file.h"

#define ALL_SCOPES ((1u << CK_SCOPE_N_) - 1)

static const char *const scope_names[] = {
#define X(name, what) #name,
    CK_SCOPES(X) NULL
#undef X
};

struct set {
    struct ck_key *rows;
    size_t n;
    mode_t mode; /* of the file */
};

struct ck_keys {
    char *path;
    pthread_rwlock_t lock; /* guards set */
    struct set set;
};

bool ck_key_may(const struct ck_key *key, enum ck_scope scope) {
    return (key->scopes >> scope & 1) != 0;
}

bool ck_key_name_is_valid(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strspn(name, allowed);

    return n > 0 && n <= CK_KEY_NAME_MAX && name[n] == 0;
}

bool ck_scopes_parse(const char *text, unsigned *ret_scopes, const char **ret_wrong) {
    unsigned scopes = 0;

    for (;;) {
        size_t n = strcspn(text, ","), i = 0;

        while (scope_names[i] && (strlen(scope_names[i]) != n || strncmp(scope_names[i], text, n) != 0))
            i++;
        if (!scope_names[i]) {
            if (ret_wrong)
                *ret_wrong = text;
            return false;
        }
        scopes |= 1u << i;
        if (!text[n])
            break;
        text += n + 1;
    }
    *ret_scopes = scopes;
    return true;
}

static int nibble(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_digest(const char *text, uint8_t digest[static 32]) {
    if (strlen(text) != 64)
        return false;
    for (int i = 0; i < 32; i++) {
        int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* The texts of a line are never in a message, but for the name: somebody may have pasted the key itself. */
static int bad_line(const char *path, unsigned line, const char *what, struct ck_error *err) {
    ck_error_set(err, CK_E_BAD_OPTION, "keys_file", "%.200s:%u: %s", path, line, what);
    ck_error_set_hint(err, "a line is NAME SHA256 [SCOPE,...], and ckptd key NAME prints one");
    return CK_E_BAD_OPTION;
}

static int parse_line(char *line, const char *path, unsigned number, struct ck_key *ret_key, struct ck_error *err) {
    char *rest = line, *name = strsep(&rest, " \t"), *digest, *scopes;
    struct ck_key key = {.scopes = ALL_SCOPES};

    if (!ck_key_name_is_valid(name))
        return bad_line(path, number, "a name is 1 to 64 of A-Z a-z 0-9 . _ -", err);
    rest += rest ? strspn(rest, " \t") : 0;
    digest = strsep(&rest, " \t");
    if (!digest || !parse_digest(digest, key.digest))
        return bad_line(path, number, "the second word is not a SHA-256 of 64 lower-case hex digits", err);
    rest += rest ? strspn(rest, " \t") : 0;
    scopes = strsep(&rest, " \t");
    if (scopes && scopes[0] != '#' && !ck_scopes_parse(scopes, &key.scopes, NULL))
        return bad_line(path, number, "a scope is one of read, submit, delete, metrics; commas stand between them",
                        err);
    if (scopes && scopes[0] != '#' && rest && rest[strspn(rest, " \t")] != '#')
        return bad_line(path, number, "there is more than a name, a digest and scopes", err);
    memcpy(key.name, name, strlen(name) + 1);
    *ret_key = key;
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct ck_key *)a)->name, ((const struct ck_key *)b)->name);
}

static int by_digest(const void *a, const void *b) {
    return memcmp(((const struct ck_key *)a)->digest, ((const struct ck_key *)b)->digest, 32);
}

static int check_unique(const char *path, struct set *set, struct ck_error *err) {
    if (set->n == 0)
        return 0;
    qsort(set->rows, set->n, sizeof(*set->rows), by_digest);
    for (size_t i = 1; i < set->n; i++)
        if (by_digest(&set->rows[i - 1], &set->rows[i]) == 0)
            return ck_error_set(err, CK_E_BAD_OPTION, "keys_file", "%.200s: %s and %s have the same digest", path,
                                set->rows[i - 1].name, set->rows[i].name);
    qsort(set->rows, set->n, sizeof(*set->rows), by_name);
    for (size_t i = 1; i < set->n; i++)
        if (by_name(&set->rows[i - 1], &set->rows[i]) == 0)
            return ck_error_set(err, CK_E_BAD_OPTION, "keys_file", "%.200s: the name %s is given twice", path,
                                set->rows[i].name);
    return 0;
}

static int add_key(struct set *set, const struct ck_key *key, size_t *room) {
    if (set->n == *room) {
        size_t more = *room ? *room * 2 : 16;
        struct ck_key *rows = reallocarray(set->rows, more, sizeof(*rows));

        if (!rows)
            return CK_E_OUT_OF_MEMORY;
        set->rows = rows;
        *room = more;
    }
    set->rows[set->n++] = *key;
    return 0;
}

static void set_release(struct set *set) {
    free(set->rows);
    *set = (struct set){0};
}

static int set_read(const char *path, struct set *ret_set, struct ck_error *err) {
    _cleanup_(ck_text_file_release) struct ck_text_file file = {0};
    _cleanup_(set_release) struct set set = {0};
    size_t room = 0;
    char *line;
    int r;

    r = ck_text_file_read(path, CK_KEYS_BYTES, "keys-file", &file, err);
    if (r < 0)
        return r;
    while ((line = ck_text_file_line(&file)) != NULL) {
        struct ck_key key;

        if (set.n == CK_KEYS_MAX)
            return ck_error_set(err, CK_E_BAD_OPTION, "keys_file", "%.200s:%u: more than %d keys", path, file.line,
                                CK_KEYS_MAX);
        r = parse_line(line, path, file.line, &key, err);
        if (r < 0)
            return r;
        if (add_key(&set, &key, &room) < 0)
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    }
    r = check_unique(path, &set, err);
    if (r < 0)
        return r;
    set.mode = file.mode;
    *ret_set = set;
    set = (struct set){0};
    return 0;
}

int ck_keys_read(const char *path, struct ck_keys **ret_keys, struct ck_error *err) {
    struct ck_keys *keys;
    int r;

    keys = calloc(1, sizeof(*keys));
    if (!keys)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    pthread_rwlock_init(&keys->lock, NULL);
    keys->path = strdup(path);
    r = keys->path ? set_read(path, &keys->set, err) : ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    if (r < 0) {
        ck_keys_free(keys);
        return r;
    }
    *ret_keys = keys;
    return 0;
}

int ck_keys_reload(struct ck_keys *keys, struct ck_error *err) {
    _cleanup_(set_release) struct set set = {0};
    struct set old;
    int r;

    r = set_read(keys->path, &set, err);
    if (r < 0)
        return r;
    pthread_rwlock_wrlock(&keys->lock);
    old = keys->set;
    keys->set = set;
    pthread_rwlock_unlock(&keys->lock);
    set = old;
    return 0;
}

/* The key in the headers, or NULL. The scheme's case does not count (RFC 9110, 11.1). */
static const char *presented(const char *authorization, const char *x_api_key) {
    if (!authorization)
        return x_api_key;
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    return authorization + 7 + strspn(authorization + 7, " ");
}

bool ck_keys_find(struct ck_keys *keys, const char *authorization, const char *x_api_key, struct ck_key *ret_key) {
    const char *text = presented(authorization, x_api_key);
    size_t n = text ? strnlen(text, CK_KEY_TEXT_MAX + 1) : 0;
    uint8_t digest[32];
    bool found = false;

    if (n == 0 || n > CK_KEY_TEXT_MAX || EVP_Digest(text, n, digest, NULL, EVP_sha256(), NULL) != 1)
        return false;
    pthread_rwlock_rdlock(&keys->lock);
    for (size_t i = 0; i < keys->set.n; i++) {
        if (CRYPTO_memcmp(keys->set.rows[i].digest, digest, sizeof(digest)) == 0) {
            *ret_key = keys->set.rows[i];
            found = true;
        }
    }
    pthread_rwlock_unlock(&keys->lock);
    return found;
}

size_t ck_keys_count(struct ck_keys *keys) {
    size_t n;

    pthread_rwlock_rdlock(&keys->lock);
    n = keys->set.n;
    pthread_rwlock_unlock(&keys->lock);
    return n;
}

const char *ck_keys_note(struct ck_keys *keys) {
    mode_t mode;

    pthread_rwlock_rdlock(&keys->lock);
    mode = keys->set.mode;
    pthread_rwlock_unlock(&keys->lock);
    /* Reading it opens no door: it holds digests, and mounted secrets are often readable by a group. */
    return mode & 022 ? "other users can write the file of keys; chmod go-w" : NULL;
}

void ck_keys_free(struct ck_keys *keys) {
    if (!keys)
        return;
    set_release(&keys->set);
    pthread_rwlock_destroy(&keys->lock);
    free(keys->path);
    free(keys);
}
