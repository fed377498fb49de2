#include "core/container/npy.h"

#include <string.h>

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6u

/* What is left of the text. */
struct text {
    const char *at, *end;
};

static void skip_blank(struct text *text) {
    while (text->at < text->end && strchr(" \t\r\n", *text->at) && *text->at)
        text->at++;
}

/* Skips blanks, then this one character. */
static bool take(struct text *text, char c) {
    skip_blank(text);
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

/* A quoted text without escapes. */
static bool take_string(struct text *text, const char **ret_start, size_t *ret_length) {
    const char *end;
    char quote;

    skip_blank(text);
    if (text->at == text->end || (*text->at != '\'' && *text->at != '"'))
        return false;
    quote = *text->at++;
    end = memchr(text->at, quote, (size_t)(text->end - text->at));
    if (!end || memchr(text->at, '\\', (size_t)(end - text->at)))
        return false;
    *ret_start = text->at;
    *ret_length = (size_t)(end - text->at);
    text->at = end + 1;
    return true;
}

static bool take_word(struct text *text, const char *word) {
    size_t n = strlen(word);

    skip_blank(text);
    if ((size_t)(text->end - text->at) < n || memcmp(text->at, word, n) != 0)
        return false;
    text->at += n;
    return true;
}

static bool take_bool(struct text *text, bool *ret_value) {
    *ret_value = take_word(text, "True");
    return *ret_value || take_word(text, "False");
}

/* A size; Python 2 wrote an L behind it. */
static bool take_size(struct text *text, int64_t *ret_value) {
    const char *start;
    int64_t value = 0;

    skip_blank(text);
    for (start = text->at; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text->at - '0', &value))
            return false;
    if (text->at == start)
        return false;
    if (text->at < text->end && *text->at == 'L')
        text->at++;
    *ret_value = value;
    return true;
}

static bool take_shape(struct text *text, struct ck_npy *npy) {
    npy->rank = 0;
    if (!take(text, '('))
        return false;
    while (!take(text, ')')) {
        if (npy->rank == CK_RANK_MAX || !take_size(text, &npy->shape[npy->rank]))
            return false;
        npy->rank++;
        if (!take(text, ','))
            return take(text, ')');
    }
    return true;
}

/* The list of the fields of a structured array, whatever is in it: up to the bracket that closes it. */
static bool skip_nested(struct text *text) {
    size_t depth = 0, length;
    const char *start;

    do {
        skip_blank(text);
        if (text->at == text->end)
            return false;
        if (*text->at == '\'' || *text->at == '"') {
            if (!take_string(text, &start, &length))
                return false;
            continue;
        }
        depth += *text->at == '[' || *text->at == '(';
        if (*text->at == ']' || *text->at == ')')
            depth--;
        text->at++;
    } while (depth > 0);
    return true;
}

static bool take_type(struct text *text, struct ck_npy *npy) {
    const char *start;
    size_t length;

    skip_blank(text);
    if (text->at < text->end && (*text->at == '[' || *text->at == '(')) {
        npy->type = (struct ck_numpy_type){.kind = 'V', .dtype = CK_DTYPE_END_};
        return skip_nested(text);
    }
    return take_string(text, &start, &length) && ck_numpy_type_parse(start, length, &npy->type);
}

enum { HAS_TYPE = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

static bool take_member(struct text *text, struct ck_npy *npy, unsigned *seen) {
    unsigned which;
    const char *key;
    size_t length;
    bool ok;

    if (!take_string(text, &key, &length) || !take(text, ':'))
        return false;
    if (length == 5 && memcmp(key, "descr", 5) == 0) {
        which = HAS_TYPE;
        ok = take_type(text, npy);
    } else if (length == 13 && memcmp(key, "fortran_order", 13) == 0) {
        which = HAS_ORDER;
        ok = take_bool(text, &npy->fortran);
    } else if (length == 5 && memcmp(key, "shape", 5) == 0) {
        which = HAS_SHAPE;
        ok = take_shape(text, npy);
    } else {
        return false;
    }
    /* A key that comes twice has two readings. */
    if (!ok || *seen & which)
        return false;
    *seen |= which;
    return true;
}

static bool parse(struct text *text, struct ck_npy *npy) {
    unsigned seen = 0;

    if (!take(text, '{'))
        return false;
    while (!take(text, '}')) {
        if (!take_member(text, npy, &seen))
            return false;
        if (!take(text, ',') && (skip_blank(text), text->at == text->end || *text->at != '}'))
            return false;
    }
    skip_blank(text);
    return seen == HAS_ALL && text->at == text->end;
}

bool ck_npy_recognise(const struct ck_source *source) {
    char magic[MAGIC_BYTES];

    return ck_source_read(source, 0, magic, sizeof(magic), NULL) == 0 && memcmp(magic, MAGIC, sizeof(magic)) == 0;
}

static int corrupt(const char *entry, const char *what, struct ck_error *err) {
    return ck_error_set(err, CK_E_HEADER_CORRUPT, entry, "the header of the NumPy array is damaged: %s", what);
}

int ck_npy_open(const struct ck_source *source, const char *entry, struct ck_npy *ret_npy, struct ck_error *err) {
    char text[CK_NPY_HEADER_MAX];
    struct ck_npy npy = {0};
    uint8_t head[12] = {0};
    uint64_t length;
    int r;

    r = ck_source_read(source, 0, head, 10, err);
    if (r == 0 && head[MAGIC_BYTES] > 1)
        r = ck_source_read(source, 10, head + 10, 2, err);
    if (r < 0)
        return r;
    if (memcmp(head, MAGIC, MAGIC_BYTES) != 0 || head[MAGIC_BYTES] < 1 || head[MAGIC_BYTES] > 3)
        return corrupt(entry, "it does not begin with \\x93NUMPY and a version from 1 to 3", err);
    length = (uint64_t)head[8] | (uint64_t)head[9] << 8 | (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
    npy.offset = (head[MAGIC_BYTES] > 1 ? 12 : 10) + length;
    if (length > sizeof(text))
        return corrupt(entry, "its text has more than 65536 bytes", err);
    r = ck_source_read(source, npy.offset - length, text, (size_t)length, err);
    if (r < 0)
        return r;
    if (!parse(&(struct text){text, text + length}, &npy))
        return corrupt(entry, "its text is no dict of 'descr', 'fortran_order' and 'shape'", err);
    *ret_npy = npy;
    return 0;
}
