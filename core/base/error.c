#include "core/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct ck_error_row rows[] = {
#define X(name, class_, http, retry, title, hint)                                                                      \
    [CK_ENUM_##name] = {#name, CK_CLASS_##class_, http, retry, title, hint},
    CK_ERRORS(X)
#undef X
};

static char lower_names[CK_ENUM_END_][32];
static struct ck_error_row lower_rows[CK_ENUM_END_];

/* The list spells names in capitals because the enum needs them; clients see lower case. Done once before main: no lock
 * needed. */
__attribute__((constructor)) static void lower_init(void) {
    for (int i = 1; i < CK_ENUM_END_; i++) {
        for (size_t k = 0; rows[i].name[k] && k + 1 < sizeof(lower_names[i]); k++) {
            char c = rows[i].name[k];

            lower_names[i][k] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
        lower_rows[i] = rows[i];
        lower_rows[i].name = lower_names[i];
    }
}

/* A cut in the middle of a UTF-8 sequence would make the problem document invalid JSON: drop the torn tail. */
static void trim_torn_utf8(char *text) {
    size_t n = strlen(text), start = n;
    unsigned char lead;
    size_t want;

    while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return;
    lead = (unsigned char)text[start - 1];
    want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (n - (start - 1) < want)
        text[start - 1] = 0;
}

int ck_error_set(struct ck_error *err, int code, const char *where, const char *format, ...) {
    va_list args;

    if (!err || err->code != 0)
        return code;
    err->code = code;
    err->hint[0] = err->details[0] = 0;
    va_start(args, format);
    vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    snprintf(err->where, sizeof(err->where), "%s", where ? where : "");
    trim_torn_utf8(err->message);
    trim_torn_utf8(err->where);
    return code;
}

int ck_error_set_errno(struct ck_error *err, int errno_value, const char *where, const char *doing) {
    int code = errno_value == ENOSPC || errno_value == EDQUOT ? CK_E_STORAGE_FULL
               : errno_value == ENOMEM                        ? CK_E_OUT_OF_MEMORY
                                                              : CK_E_IO;
    char text[128];

    return ck_error_set(err, code, where, "cannot %s: %s", doing, strerror_r(errno_value, text, sizeof(text)));
}

void ck_error_set_hint(struct ck_error *err, const char *format, ...) {
    va_list args;

    if (!err || err->code == 0)
        return;
    va_start(args, format);
    vsnprintf(err->hint, sizeof(err->hint), format, args);
    va_end(args);
    trim_torn_utf8(err->hint);
}

const struct ck_error_row *ck_error_row(int code) {
    if (code >= 0 || -code >= CK_ENUM_END_)
        code = CK_E_INTERNAL;
    return &lower_rows[-code];
}

int ck_error_by_name(const char *name) {
    for (int i = 1; i < CK_ENUM_END_; i++)
        if (strcmp(lower_rows[i].name, name) == 0)
            return -i;
    return 0;
}

const char *ck_error_hint(const struct ck_error *err) {
    return err->hint[0] ? err->hint : ck_error_row(err->code)->hint;
}
