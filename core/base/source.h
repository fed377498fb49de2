/* base/source.h: a range of bytes that a parser reads: a part of a file, or bytes in memory.
 *
 * Every parser takes a source and nothing else, so that an archive inside an archive, or a stream inside a byte string, is just
 * a smaller source. Reads are positioned (pread): one source may be read from several threads. */
#ifndef CK_BASE_SOURCE_H
#define CK_BASE_SOURCE_H

#include "core/base/error.h"

struct ck_source {
    int            fd;     /* borrowed; -1 if the bytes are in memory */
    const uint8_t *memory; /* borrowed; NULL if the bytes are in a file */
    uint64_t       base;   /* position of the first byte in the file; 0 for memory */
    uint64_t       length; /* bytes */
};

/* The whole regular file behind fd. Returns 0 or CK_E_IO. */
int ck_source_from_fd(int fd, struct ck_source *ret_source, struct ck_error *err);

struct ck_source ck_source_from_memory(const void *bytes, size_t n);

/* The part [offset, offset + length). Returns 0, or CK_E_TRUNCATED if it does not lie inside. */
int ck_source_part(const struct ck_source *source, uint64_t offset, uint64_t length, struct ck_source *ret_part,
                   struct ck_error *err);

/* Reads exactly n bytes at offset. Returns 0; CK_E_TRUNCATED if the source, or the file behind it, ends before; CK_E_IO. */
int ck_source_read(const struct ck_source *source, uint64_t offset, void *buffer, size_t n, struct ck_error *err);

#endif
