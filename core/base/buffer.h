/* base/buffer.h: a growing byte buffer that was told its maximum when it was made. */
#ifndef CK_BASE_BUFFER_H
#define CK_BASE_BUFFER_H

#include "core/base/macros.h"

struct ck_buffer {
    char  *data;   /* NULL while empty; always followed by a NUL otherwise */
    size_t length; /* bytes, without the NUL */
    size_t capacity, limit;
};

void ck_buffer_init(struct ck_buffer *buffer, size_t limit);

/* Appends; false when the limit or memory is exhausted, and then nothing was appended. */
bool ck_buffer_add(struct ck_buffer *buffer, const void *bytes, size_t n);
bool ck_buffer_add_text(struct ck_buffer *buffer, const char *text);
bool ck_buffer_printf(struct ck_buffer *buffer, const char *format, ...) _printf_(2, 3);

/* The text so far, never NULL. Borrowed until the next change. */
const char *ck_buffer_text(const struct ck_buffer *buffer);

void ck_buffer_release(struct ck_buffer *buffer);

#endif
