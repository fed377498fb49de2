/* container/zip.h: reading a zip archive: entries by name, with the place of each stored payload in the file.
 *
 * libzip enumerates, zlib inflates. A checker of our own judges the raw structure that libzip is too kind to: several end
 * records, local headers that differ from central ones, overlaps, duplicate names, flags, bounds. Rules: PKWARE
 * APPNOTE 4.3; what torch's writer does is in caffe2/serialize/inline_container.cc (local sizes and CRC are zero; local
 * extra pads the payload to 64 bytes; an entry beyond 4 GiB may have an 8-byte local ZIP64 extra). CRCs are not
 * verified: torch itself does not, and may write 0. */
#ifndef CK_CONTAINER_ZIP_H
#define CK_CONTAINER_ZIP_H

#include "core/base/arena.h"
#include "core/base/limits.h"
#include "core/base/scratch.h"
#include "core/pickle/finding.h"

struct ck_zip_entry {
    const char *name; /* NUL-terminated, in the arena; names with a NUL byte are refused */
    uint64_t size;    /* uncompressed bytes */
    uint64_t packed;  /* bytes in the archive */
    uint64_t offset;  /* of the payload in the source */
    bool stored;      /* method 0: the payload is the data */
    bool encrypted;   /* marked so (a finding). A stored payload is taken as plain, as torch does; a deflated one is not
                         read */
};

struct ck_zip {
    struct ck_arena arena;
    struct ck_source source; /* borrowed */
    struct ck_zip_entry
        *entries; /* in the order of the central directory; directories (names ending in '/') included */
    uint32_t count;
    uint32_t *by_name; /* indices sorted by name, for ck_zip_find() */
};

/* Reads the whole directory into the table and closes libzip's own. libzip and the checker must agree on every entry.
 * Tricks that do not stop the reading become findings (class structure, entry = name). Returns 0; CK_E_NOT_A_CHECKPOINT
 * (a zip without entries); CK_E_ARCHIVE_CORRUPT or CK_E_TRUNCATED (cut off: says how); CK_E_ARCHIVE_UNSAFE (two
 * readings); CK_E_UNSUPPORTED_FORM (a method other than stored and deflated, several disks); CK_E_TENSOR_LIMIT naming
 * the setting; CK_E_OUT_OF_MEMORY; CK_E_IO. */
int ck_zip_open(const struct ck_source *source, const struct ck_limits *limits, struct ck_findings *findings,
                struct ck_zip *ret_zip, struct ck_error *err);

/* The entry with exactly this name, or NULL. */
const struct ck_zip_entry *ck_zip_find(const struct ck_zip *zip, const char *name);

/* The same for a name in parts, which hold no zero byte. Nothing is allocated: a want of memory must not look like a missing entry. */
struct ck_zip_part {
    const char *text;
    size_t      length; /* bytes */
};
const struct ck_zip_entry *ck_zip_find_parts(const struct ck_zip *zip, const struct ck_zip_part *parts, size_t n);

/* The bytes of a small entry: for a stored one a part of the source; a deflated one is inflated into *ret_memory (owned
 * by the caller, free(); NULL otherwise). Of either kind at most limit bytes,
 * CK_E_PICKLE_LIMIT beyond. A deflated one above 200:1 beyond 1 MiB, or marked as encrypted, is refused as
 * CK_E_ARCHIVE_UNSAFE; one that is not what it says as CK_E_ARCHIVE_CORRUPT. */
int ck_zip_read(const struct ck_zip *zip, const struct ck_zip_entry *entry, uint64_t limit, struct ck_source *ret_bytes,
                void **ret_memory, struct ck_error *err);

/* The bytes of an entry of any size: for a stored one a part of the source; a deflated one is inflated into the scratch
 * file, in windows of 256 KiB, and is a part of that. CK_E_ARCHIVE_UNSAFE if it is marked as encrypted, or says that it
 * unpacks to more than deflate can make of it (1032:1); CK_E_ARCHIVE_CORRUPT if it is not what it says; the errors of
 * ck_scratch_add(). After an error the scratch file is as long as before. */
int ck_zip_unpack(const struct ck_zip *zip, const struct ck_zip_entry *entry, struct ck_scratch *scratch,
                  struct ck_source *ret_bytes, struct ck_error *err);

/* Accepts a zeroed struct. */
void ck_zip_release(struct ck_zip *zip);

#endif
