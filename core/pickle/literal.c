#include "core/pickle/literal.h"

#include <string.h>
#include <strings.h>

#define LIMBS          (CK_LITERAL_BIG_MAX / 8)
#define CHUNK_DIGITS   18u
#define CODE_POINT_MAX 0x10FFFFu

int64_t ck_literal_long(const uint8_t *bytes, size_t n) {
    uint64_t value = n > 0 && (bytes[n - 1] & 0x80) ? UINT64_MAX : 0;

    for (size_t i = n; i > 0; i--)
        value = value << 8 | bytes[i - 1];
    return (int64_t)value;
}

size_t ck_literal_long_trim(const uint8_t *bytes, size_t n) {
    while (n > 1 && ((bytes[n - 1] == 0 && !(bytes[n - 2] & 0x80)) || (bytes[n - 1] == 0xFF && (bytes[n - 2] & 0x80))))
        n--;
    return n;
}

/* limbs = limbs * factor + add */
static void multiply_add(uint64_t *limbs, size_t *count, uint64_t factor, uint64_t add) {
    unsigned __int128 carry = add;

    for (size_t i = 0; i < *count; i++) {
        carry += (unsigned __int128)limbs[i] * factor;
        limbs[i] = (uint64_t)carry;
        carry >>= 64;
    }
    if (carry > 0)
        limbs[(*count)++] = (uint64_t)carry;
}

static void negate(uint8_t *bytes, size_t n) {
    unsigned carry = 1;

    for (size_t i = 0; i < n; i++) {
        carry += (uint8_t)~bytes[i];
        bytes[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

static void store_big(const uint64_t *limbs, size_t count, bool negative, struct ck_literal_int *ret_int) {
    /* One more byte leaves room for the sign. */
    size_t n = count * 8 + 1;

    for (size_t i = 0; i + 1 < n; i++)
        ret_int->bytes[i] = (uint8_t)(limbs[i / 8] >> (i % 8 * 8));
    ret_int->bytes[n - 1] = 0;
    if (negative)
        negate(ret_int->bytes, n);
    ret_int->length = ck_literal_long_trim(ret_int->bytes, n);
    ret_int->big = ret_int->length > 8;
    ret_int->value = ret_int->big ? 0 : ck_literal_long(ret_int->bytes, ret_int->length);
}

bool ck_literal_int(const char *text, size_t n, struct ck_literal_int *ret_int) {
    bool negative = n > 0 && text[0] == '-';
    uint64_t limbs[LIMBS] = {0};
    size_t count = 0;

    if (n > 0 && (text[0] == '-' || text[0] == '+')) {
        text++;
        n--;
    }
    /* Readers differ on what a leading zero means (octal, or an error). */
    if (n == 0 || n > CK_LITERAL_DIGITS_MAX || (n > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < n;) {
        uint64_t chunk = 0, factor = 1;

        for (size_t k = 0; k < CHUNK_DIGITS && i < n; k++, i++) {
            if (text[i] < '0' || text[i] > '9')
                return false;
            chunk = chunk * 10 + (uint64_t)(text[i] - '0');
            factor *= 10;
        }
        multiply_add(limbs, &count, factor, chunk);
    }
    store_big(limbs, count, negative, ret_int);
    return true;
}

bool ck_literal_float(const char *text, size_t n, double *ret_value) {
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    bool word = strcasecmp(digits, "inf") == 0 || strcasecmp(digits, "infinity") == 0 || strcasecmp(digits, "nan") == 0;
    double value;
    char *end;

    /* strtod alone would take hexadecimal and blanks. */
    if (n == 0 || (!word && strspn(text, "0123456789+-.eE") != n))
        return false;
    value = strtod(text, &end);
    if (end != text + n)
        return false;
    *ret_value = value;
    return true;
}

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Up to three octal digits at in[0..n); returns how many. */
static size_t octal(const uint8_t *in, size_t n, uint8_t *ret_byte) {
    unsigned value = 0;
    size_t used = 0;

    while (used < 3 && used < n && in[used] >= '0' && in[used] <= '7')
        value = value * 8 + (unsigned)(in[used++] - '0');
    *ret_byte = (uint8_t)value;
    return used;
}

/* What stands behind a backslash, at in[0..n), n at least 1. Writes one byte, or two for an unknown escape, which
 * Python keeps with its backslash. Returns the bytes read, 0 if malformed. */
static size_t unescape(const uint8_t *in, size_t n, uint8_t **out) {
    static const char letters[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    const char *letter = in[0] ? strchr(letters, in[0]) : NULL;
    uint8_t other = in[0];

    if (letter) {
        *(*out)++ = (uint8_t)values[letter - letters];
        return 1;
    }
    if (in[0] == 'x') {
        int high = n > 1 ? hex_digit(in[1]) : -1, low = n > 2 ? hex_digit(in[2]) : -1;

        if (high < 0 || low < 0)
            return 0;
        *(*out)++ = (uint8_t)(high * 16 + low);
        return 3;
    }
    if (in[0] >= '0' && in[0] <= '7') {
        size_t used = octal(in, n, *out);

        (*out)++;
        return used;
    }
    *(*out)++ = '\\';
    *(*out)++ = other;
    return 1;
}

size_t ck_literal_string(uint8_t *text, size_t n, uint8_t **ret_start) {
    uint8_t *out = text + 1, *start = out;
    size_t i = 1, end = n - 1;

    if (n < 2 || (text[0] != '\'' && text[0] != '"') || text[n - 1] != text[0])
        return SIZE_MAX;
    while (i < end) {
        size_t used;

        if (text[i] != '\\') {
            *out++ = text[i++];
            continue;
        }
        used = i + 1 < end ? unescape(text + i + 1, end - i - 1, &out) : 0;
        if (used == 0)
            return SIZE_MAX;
        i += 1 + used;
    }
    *ret_start = start;
    return (size_t)(out - start);
}

static void put_utf8(uint32_t c, uint8_t **out) {
    uint8_t *p = *out;

    if (c < 0x80) {
        *p++ = (uint8_t)c;
    } else if (c < 0x800) {
        *p++ = (uint8_t)(0xC0 | c >> 6);
        *p++ = (uint8_t)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *p++ = (uint8_t)(0xE0 | c >> 12);
        *p++ = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        *p++ = (uint8_t)(0x80 | (c & 0x3F));
    } else {
        *p++ = (uint8_t)(0xF0 | c >> 18);
        *p++ = (uint8_t)(0x80 | (c >> 12 & 0x3F));
        *p++ = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        *p++ = (uint8_t)(0x80 | (c & 0x3F));
    }
    *out = p;
}

/* The code point of `digits` hexadecimal digits; above CODE_POINT_MAX if malformed. */
static uint32_t code_point(const uint8_t *in, size_t n, size_t digits) {
    uint32_t value = 0;

    if (n < digits)
        return UINT32_MAX;
    for (size_t i = 0; i < digits; i++) {
        int digit = hex_digit(in[i]);

        if (digit < 0 || value > CODE_POINT_MAX)
            return UINT32_MAX;
        value = value * 16 + (uint32_t)digit;
    }
    return value;
}

size_t ck_literal_unicode(const uint8_t *in, size_t n, uint8_t *out) {
    uint8_t *start = out;
    size_t i = 0;

    while (i < n) {
        size_t digits = in[i] == '\\' && i + 1 < n ? (in[i + 1] == 'u' ? 4u : in[i + 1] == 'U' ? 8u : 0u) : 0;
        uint32_t c;

        if (digits > 0) {
            c = code_point(in + i + 2, n - i - 2, digits);
            if (c > CODE_POINT_MAX)
                return SIZE_MAX;
            i += 2 + digits;
            put_utf8(c, &out);
            continue;
        }
        /* A backslash takes the next byte with it, so that a second backslash never begins an escape. */
        if (in[i] == '\\' && i + 1 < n) {
            *out++ = '\\';
            i++;
        }
        c = in[i++];
        put_utf8(c, &out);
    }
    return (size_t)(out - start);
}
