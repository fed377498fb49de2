#include "core/base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ck_buffer_init(struct ck_buffer *buffer, size_t limit) {
    *buffer = (struct ck_buffer){.limit = limit};
}

static bool reserve(struct ck_buffer *buffer, size_t more) {
    size_t need, capacity;
    char *data;

    if (more > buffer->limit || buffer->length > buffer->limit - more)
        return false;
    need = buffer->length + more + 1;
    if (need <= buffer->capacity)
        return true;
    capacity = CK_MAX(need, CK_MAX(buffer->capacity * 2, (size_t)256));
    data = realloc(buffer->data, capacity);
    if (!data)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool ck_buffer_add(struct ck_buffer *buffer, const void *bytes, size_t n) {
    if (!reserve(buffer, n))
        return false;
    if (n > 0)
        memcpy(buffer->data + buffer->length, bytes, n);
    buffer->length += n;
    buffer->data[buffer->length] = 0;
    return true;
}

bool ck_buffer_add_text(struct ck_buffer *buffer, const char *text) {
    return ck_buffer_add(buffer, text, strlen(text));
}

bool ck_buffer_printf(struct ck_buffer *buffer, const char *format, ...) {
    va_list args, again;
    bool ok = false;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && reserve(buffer, (size_t)n)) {
        vsnprintf(buffer->data + buffer->length, (size_t)n + 1, format, again);
        buffer->length += (size_t)n;
        ok = true;
    }
    va_end(again);
    va_end(args);
    return ok;
}

const char *ck_buffer_text(const struct ck_buffer *buffer) {
    return buffer->data ? buffer->data : "";
}

void ck_buffer_release(struct ck_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct ck_buffer){.limit = buffer->limit};
}
