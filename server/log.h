/* server/log.h: one JSON object a line on stderr, written by one write(2), so that lines of several threads never mix.
 *
 *     CK_LOG(INFO, "listening", CK_LOG_TEXT("address", text), CK_LOG_NUMBER("port", port));
 *
 * Every line begins with ts (RFC 3339, UTC, milliseconds), level and msg; the fields of the call follow.
 *
 * No bodies, no file names of clients, no secrets. */
#ifndef CK_SERVER_LOG_H
#define CK_SERVER_LOG_H

#include "core/base/error.h"

enum ck_log_level { CK_LOG_DEBUG, CK_LOG_INFO, CK_LOG_WARNING, CK_LOG_ERROR };

struct ck_log_field {
    const char *key;
    const char *text; /* NULL: the number counts */
    uint64_t number;
};

#define CK_LOG_TEXT(key, text)     ((struct ck_log_field){(key), (text), 0})
#define CK_LOG_NUMBER(key, number) ((struct ck_log_field){(key), NULL, (number)})

/* Lines below this level are not written. Set before threads start. */
void ck_log_set_level(enum ck_log_level level);

/* The level with that name, or INFO. */
enum ck_log_level ck_log_level_by_name(const char *name);

void ck_log_write(enum ck_log_level level, const char *message, const struct ck_log_field *fields, size_t n);

#define CK_LOG(level, message, ...)                                                                                    \
    ck_log_write(CK_LOG_##level, message, (const struct ck_log_field[]){__VA_ARGS__},                                  \
                 sizeof((const struct ck_log_field[]){__VA_ARGS__}) / sizeof(struct ck_log_field))

/* The message, code and place of an error. */
void ck_log_error(enum ck_log_level level, const char *message, const struct ck_error *err);

#endif
