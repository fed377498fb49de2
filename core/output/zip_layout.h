/* output/zip_layout.h: the zip that holds a result, as a list of segments: it is streamed from the result files and
 * never written.
 *
 * Entries are stored; local headers carry sizes and CRC-32 (known from the writing pass); ZIP64 fields only where a
 * size or offset needs them. Names are flagged as UTF-8, times are 1980-01-01, modes 0644, so the bytes depend on names
 * and contents alone. The length is known in advance. */
#ifndef CK_OUTPUT_ZIP_LAYOUT_H
#define CK_OUTPUT_ZIP_LAYOUT_H

#include "core/base/error.h"

#include <sys/types.h>

struct ck_zip_file {
    const char *name; /* with folder: "resnet.mlx/model.safetensors"; UTF-8 */
    int fd;           /* borrowed */
    uint64_t bytes;
    uint32_t crc32;
};

struct ck_zip_segment {
    uint64_t start; /* position in the zip */
    uint64_t length;
    const char *bytes; /* header bytes, owned by the layout; NULL: the segment is the whole of file fd */
    int fd;
};

struct ck_zip_layout {
    struct ck_zip_segment *segments; /* owned, in order, without gaps */
    size_t count;
    uint64_t length; /* of the whole zip */
    char *memory;    /* owned: all headers */
};

/* Returns 0, CK_E_OUT_OF_MEMORY, or CK_E_INTERNAL for a name beyond 65,535 bytes. files and their names need not
 * outlive the call; descriptors must stay open while it is read. */
int ck_zip_layout_make(const struct ck_zip_file *files, size_t n, struct ck_zip_layout *ret_layout,
                       struct ck_error *err);

/* Reads up to n bytes at position of the zip: the number read (0 only at the end, or for n = 0), or a negative
 * code: CK_E_IO, also when a file became shorter. May be called from several threads. */
ssize_t ck_zip_layout_read(const struct ck_zip_layout *layout, uint64_t position, void *buffer, size_t n,
                           struct ck_error *err);

void ck_zip_layout_release(struct ck_zip_layout *layout);

#endif
