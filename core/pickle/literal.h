/* pickle/literal.h: the text forms of protocol 0: decimal numbers, Python 2 string literals, raw-unicode-escape.
 *
 * Source: CPython's Modules/_pickle.c (load_int, load_long, load_string, load_unicode), Objects/bytesobject.c
 * (_PyBytes_DecodeEscape), Objects/unicodeobject.c (_PyUnicode_DecodeRawUnicodeEscapeStateful). */
#ifndef CK_PICKLE_LITERAL_H
#define CK_PICKLE_LITERAL_H

#include "core/base/macros.h"

/* Python itself refuses longer ones (sys.int_info.default_max_str_digits): the conversion is quadratic. */
#define CK_LITERAL_DIGITS_MAX 4300u
#define CK_LITERAL_BIG_MAX    1800u /* bytes that hold any number of that many digits */

struct ck_literal_int {
    bool big;
    int64_t value;                     /* if not big */
    uint8_t bytes[CK_LITERAL_BIG_MAX]; /* if big: little-endian two's complement, as short as it can be */
    size_t length;
};

/* An optional sign and digits, no leading zeros, nothing else. False if malformed or too long. */
bool ck_literal_int(const char *text, size_t n, struct ck_literal_int *ret_int);

/* A decimal floating point number as Python's float() takes it, without blanks and underscores. False if malformed.
 * text[n] must be 0. */
bool ck_literal_float(const char *text, size_t n, double *ret_value);

/* A quoted Python 2 literal ('..' or ".."), unescaped in place. Returns the bytes, or SIZE_MAX if malformed. *ret_start
 * is where they begin. */
size_t ck_literal_string(uint8_t *text, size_t n, uint8_t **ret_start);

/* Raw-unicode-escape to UTF-8 (lone surrogates as three bytes). in[n] must lie at out + n or later: the result may take
 * up to 2 n bytes, and then overwrites what was read already. Returns the bytes written, or SIZE_MAX if malformed. */
size_t ck_literal_unicode(const uint8_t *in, size_t n, uint8_t *out);

/* Little-endian two's complement of up to 8 bytes; 0 bytes are 0. */
int64_t ck_literal_long(const uint8_t *bytes, size_t n);

/* The length without redundant sign bytes. */
size_t ck_literal_long_trim(const uint8_t *bytes, size_t n);

#endif
