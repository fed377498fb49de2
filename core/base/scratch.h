/* base/scratch.h: a nameless file for what must be unpacked before it can be read: deflated storages, gzip, text that stands for bytes. It grows at
 * its end only; what was added is read like any other range of a file. Whoever runs a job brings the file: a worker cannot open one. */
#ifndef CK_BASE_SCRATCH_H
#define CK_BASE_SCRATCH_H

#include "core/base/source.h"

struct ck_scratch {
    int      fd;    /* borrowed, readable and writable, empty at first */
    uint64_t used;  /* bytes */
    uint64_t limit; /* bytes: limits.unpacked_bytes */
};

/* Appends n bytes. Returns 0; CK_E_TENSOR_LIMIT naming --limit-unpacked-bytes; CK_E_STORAGE_FULL; CK_E_IO. */
int ck_scratch_add(struct ck_scratch *scratch, const void *bytes, size_t n, struct ck_error *err);

/* The range [start, used) as a source; start: what `used` was before the first of its bytes. */
struct ck_source ck_scratch_since(const struct ck_scratch *scratch, uint64_t start);

#endif
