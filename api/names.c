#include "api/names.h"

#include <string.h>
#include <strings.h>

#include "core/base/buffer.h"

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int ck_percent_decode(const char *text, size_t n, bool form, char **ret_text, struct ck_error *err) {
    _cleanup_(ck_freep) char *out = malloc(n + 1);
    size_t used = 0;

    if (!out)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the request");
    for (size_t i = 0; i < n; i++) {
        int high, low;

        if (text[i] == '+' && form) {
            out[used++] = ' ';
            continue;
        }
        if (text[i] != '%') {
            out[used++] = text[i];
            continue;
        }
        high = i + 2 < n ? hex_digit(text[i + 1]) : -1;
        low = i + 2 < n ? hex_digit(text[i + 2]) : -1;
        if (high < 0 || low < 0 || (high == 0 && low == 0))
            return ck_error_set(err, CK_E_BAD_REQUEST, NULL, "the address holds a broken %%-escape");
        out[used++] = (char)(high << 4 | low);
        i += 2;
    }
    out[used] = 0;
    *ret_text = TAKE_PTR(out);
    return 0;
}

static const char *base_name(const char *name) {
    const char *base = name;

    for (const char *c = name; *c; c++)
        if ((*c == '/' || *c == '\\') && c[1])
            base = c + 1;
    return base;
}

static size_t without_suffixes(const char *name, size_t n) {
    static const char *const suffixes[] = {".pt",  ".pth", ".bin", ".ckpt", ".safetensors",
                                           ".tar", ".pkl", ".th",  ".zip",  ".model"};
    bool cut = true;

    while (cut) {
        cut = false;
        for (size_t i = 0; i < CK_ARRAY_LEN(suffixes); i++) {
            size_t length = strlen(suffixes[i]);

            if (n >= length && strncasecmp(name + n - length, suffixes[i], length) == 0) {
                n -= length;
                cut = true;
            }
        }
    }
    return n;
}

/* Bytes of the UTF-8 sequence at text, 0 if it is none. */
static size_t utf8_length(const unsigned char *text, size_t n) {
    size_t length = text[0] < 0x80 ? 1 : text[0] >= 0xC2 && text[0] < 0xE0 ? 2 : (text[0] & 0xF0) == 0xE0 ? 3 : 4;

    if (text[0] >= 0x80 && (text[0] < 0xC2 || text[0] > 0xF4))
        return 0;
    if (n < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    if (length == 3 && ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F)))
        return 0;
    if (length == 4 && ((text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F)))
        return 0;
    return length;
}

static bool is_unsafe(unsigned char c) {
    return c < 0x20 || c == 0x7F || strchr("/\\<>:\"|?*", c) != NULL;
}

char *ck_stem(const char *name) {
    const unsigned char *base = (const unsigned char *)base_name(name);
    size_t n = without_suffixes((const char *)base, strlen((const char *)base));
    char *stem = malloc(CK_STEM_MAX + 8);
    size_t used = 0;

    if (!stem)
        return NULL;
    for (size_t i = 0; i < n;) {
        size_t length = utf8_length(base + i, n - i);

        if (used + CK_MAX(length, (size_t)1) > CK_STEM_MAX)
            break;
        /* A leading dot would make the result a hidden file, or ".." a folder. */
        if (length == 0 || (length == 1 && (is_unsafe(base[i]) || (used == 0 && base[i] == '.')))) {
            stem[used++] = '_';
            i++;
            continue;
        }
        memcpy(stem + used, base + i, length);
        used += length;
        i += length;
    }
    while (used > 0 && (stem[used - 1] == ' ' || stem[used - 1] == '.'))
        used--;
    stem[used] = 0;
    if (used == 0)
        memcpy(stem, "model", sizeof("model"));
    return stem;
}

char *ck_disposition(const char *file_name) {
    _cleanup_(ck_buffer_release) struct ck_buffer text = {0};
    bool ok, ascii = true;

    ck_buffer_init(&text, 8192);
    ok = ck_buffer_add_text(&text, "attachment; filename=\"");
    for (const unsigned char *c = (const unsigned char *)file_name; *c && ok; c++) {
        bool plain = *c >= 0x20 && *c < 0x7F && *c != '"' && *c != '\\' && *c != '%';

        ascii = ascii && plain;
        ok = ck_buffer_add(&text, plain ? (const char *)c : "_", 1);
    }
    ok = ok && ck_buffer_add_text(&text, "\"");
    if (ok && !ascii) {
        ok = ck_buffer_add_text(&text, "; filename*=UTF-8''");
        for (const unsigned char *c = (const unsigned char *)file_name; *c && ok; c++) {
            bool attr_char = (*c >= '0' && *c <= '9') || ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z') ||
                             strchr("!#$&+-.^_`|~", *c) != NULL;

            ok = attr_char ? ck_buffer_add(&text, c, 1) : ck_buffer_printf(&text, "%%%02X", *c);
        }
    }
    return ok ? TAKE_PTR(text.data) : NULL;
}
