/* Makes gzip members for tests. */
#ifndef GZIP_FILE_H
#define GZIP_FILE_H

#include <string.h>
#include <zlib.h>

#include "core/base/buffer.h"

/* Appends one member that holds n bytes. */
static inline void gzip_add(struct ck_buffer *gzip, const void *bytes, size_t n) {
    size_t capacity = n + n / 100 + 1024;
    unsigned char *packed = malloc(capacity);
    z_stream z = {0};

    if (!packed || deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = packed;
    z.avail_out = (uInt)capacity;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END || !ck_buffer_add(gzip, packed, capacity - z.avail_out))
        abort();
    deflateEnd(&z);
    free(packed);
}

#endif
