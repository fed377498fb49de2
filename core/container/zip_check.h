/* container/zip_check.h: judges the raw structure of a zip: what readers of zips disagree about is refused here, before
 * libzip looks.
 *
 * Own arithmetic only: end records, ZIP64 records, central directory, local headers. libzip then enumerates the same
 * archive, and core/container/zip.c compares the two. Rules: PKWARE APPNOTE 4.3.6 to 4.3.16 and 4.5.3. */
#ifndef CK_CONTAINER_ZIP_CHECK_H
#define CK_CONTAINER_ZIP_CHECK_H

#include "core/base/arena.h"
#include "core/base/limits.h"
#include "core/base/source.h"
#include "core/pickle/finding.h"

struct ck_zip_raw {
    const char *name; /* NUL-terminated, in the arena */
    uint64_t local;   /* offset of the local header in the source */
    uint64_t payload; /* offset of the payload: behind the local name and extra fields */
    uint64_t size, packed;
    uint16_t method; /* 0 or 8 */
    bool encrypted;  /* a flag of encryption in the central or the local header */
};

struct ck_zip_raws {
    struct ck_zip_raw *items; /* owned; in the order of the central directory */
    uint32_t count;
};

/* Checks everything and lists the entries; names go to the arena. Errors: those of ck_zip_open(). */
int ck_zip_check(const struct ck_source *source, const struct ck_limits *limits, struct ck_arena *arena,
                 struct ck_findings *findings, struct ck_zip_raws *ret_raws, struct ck_error *err);

/* Why the arena did not give `need` bytes: CK_E_TENSOR_LIMIT naming limits.model_memory, or CK_E_OUT_OF_MEMORY. */
int ck_zip_no_memory(const struct ck_arena *arena, size_t need, struct ck_error *err);

void ck_zip_raws_release(struct ck_zip_raws *raws);

#endif
