/* Builds tar archives by hand for tests, entry by entry: ustar headers whose fields a test may spoil. */
#ifndef TAR_FILE_H
#define TAR_FILE_H

#include <stdio.h>
#include <string.h>

#include "core/base/buffer.h"
#include "core/base/source.h"

struct tar_header {
    char bytes[512];
};

/* The sum that makes a header one: of all bytes, its own field counted as blanks. */
static inline void tar_sum(struct tar_header *header) {
    unsigned sum = 0;

    memset(header->bytes + 148, ' ', 8);
    for (size_t i = 0; i < sizeof(header->bytes); i++)
        sum += (uint8_t)header->bytes[i];
    snprintf(header->bytes + 148, 8, "%06o", sum);
}

static inline struct tar_header tar_header(const char *name, char type, uint64_t size) {
    struct tar_header header = {0};
    char field[16];

    memcpy(header.bytes, name, CK_MIN(strlen(name), (size_t)100));
    memcpy(header.bytes + 100, "0000644", 8);
    snprintf(field, sizeof(field), "%011llo", (unsigned long long)size);
    memcpy(header.bytes + 124, field, 12);
    memcpy(header.bytes + 136, "00000000000", 12);
    header.bytes[156] = type;
    memcpy(header.bytes + 257, "ustar\0" "00", 8);
    tar_sum(&header);
    return header;
}

static inline void tar_bytes(struct ck_buffer *tar, const void *bytes, size_t n) {
    if (!ck_buffer_add(tar, bytes, n))
        abort();
}

static inline void tar_add_header(struct ck_buffer *tar, const struct tar_header *header, const void *bytes, size_t n) {
    static const char zeros[512];

    tar_bytes(tar, header->bytes, sizeof(header->bytes));
    if (n > 0)
        tar_bytes(tar, bytes, n);
    tar_bytes(tar, zeros, (512 - n % 512) % 512);
}

static inline void tar_add(struct ck_buffer *tar, const char *name, char type, const void *bytes, size_t n) {
    struct tar_header header = tar_header(name, type, n);

    tar_add_header(tar, &header, bytes, n);
}

/* One pax record, its length counted in. */
static inline void tar_add_pax(struct ck_buffer *tar, char type, const char *key, const char *value) {
    char text[6000];
    size_t n = strlen(key) + strlen(value) + 3, length = n + 1;

    while (length != n + (size_t)snprintf(NULL, 0, "%zu", length))
        length = n + (size_t)snprintf(NULL, 0, "%zu", length);
    snprintf(text, sizeof(text), "%zu %s=%s\n", length, key, value);
    tar_add(tar, "PaxHeaders/x", type, text, length);
}

static inline void tar_end(struct ck_buffer *tar) {
    static const char zeros[1024];

    tar_bytes(tar, zeros, sizeof(zeros));
}

static inline struct ck_source tar_source(const struct ck_buffer *tar) {
    return ck_source_from_memory(ck_buffer_text(tar), tar->length);
}

#endif
