/* container/tar.h: reading a tar archive: entries by name, with the place of each one's bytes in the file.
 *
 * Nothing is unpacked or copied: an entry of a tar is a plain range of it. How to use it:
 *
 *     _cleanup_(ck_tar_release) struct ck_tar tar = {0};
 *     r = ck_tar_open(source, limits, &model->findings, &tar, err);
 *     entry = ck_tar_find(&tar, "model_weights.ckpt");           or go through tar.entries[0 .. tar.count)
 *     r = ck_tar_part(&tar, entry, &bytes, err);                 bytes: a source, good as long as tar's own source
 *
 * For a .tar.gz unpack into the scratch file first and give ck_tar_open() that range.
 *
 * Read are ustar, pax (path, size, linkpath), GNU (long names, sizes in base 256) and the headers of tars before POSIX.
 * Sources: POSIX.1-2017 pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar's manual, "Basic Tar Format";
 * CPython's Lib/tarfile.py for what torch's loader sees. Names are look-up keys, never paths of a file system. */
#ifndef CK_CONTAINER_TAR_H
#define CK_CONTAINER_TAR_H

#include "core/base/arena.h"
#include "core/base/limits.h"
#include "core/base/source.h"
#include "core/base/strmap.h"
#include "core/pickle/finding.h"

#define CK_TAR_BLOCK    512u
#define CK_TAR_NAME_MAX 4096u /* bytes of a name; longer ones are refused */

enum ck_tar_kind {
    CK_TAR_FILE,
    CK_TAR_FOLDER,
    CK_TAR_LINK,  /* hard or symbolic: never followed */
    CK_TAR_OTHER, /* a device, a pipe, a sparse file ...: never read */
};

struct ck_tar_entry {
    const char      *name;   /* NUL-terminated, in the arena; without "./" in front and "/" behind */
    const char      *link;   /* of a link: where it leads to; "" otherwise */
    uint64_t         size;   /* bytes */
    uint64_t         offset; /* of the first of them in the source */
    enum ck_tar_kind kind;
};

struct ck_tar {
    struct ck_arena      arena;
    struct ck_source     source; /* of what it was opened with: its fd or memory is borrowed */
    struct ck_tar_entry *entries; /* owned, in the order of the file */
    uint32_t             count, capacity;
    struct ck_strmap     by_name; /* everything but folders */
};

/* True if the block is the header of an entry: its checksum is right. A block of zeros is none. */
bool ck_tar_is_header(const uint8_t block[CK_TAR_BLOCK]);

/* Reads all headers and no contents. Links, devices, names with ".." and absolute names, a missing end mark and bytes behind it become
 * findings (class structure, entry = name). Returns 0; CK_E_NOT_A_CHECKPOINT (no entries); CK_E_TRUNCATED (cut off: says where);
 * CK_E_ARCHIVE_CORRUPT (checksum, numbers); CK_E_ARCHIVE_UNSAFE (two readings: a name twice, two long names for one entry, a size
 * where there can be no contents); CK_E_TENSOR_LIMIT naming the setting (tar_entries, model_memory); CK_E_OUT_OF_MEMORY; CK_E_IO. */
int ck_tar_open(const struct ck_source *source, const struct ck_limits *limits, struct ck_findings *findings, struct ck_tar *ret_tar,
                struct ck_error *err);

/* The file of exactly this name, or NULL. */
const struct ck_tar_entry *ck_tar_find(const struct ck_tar *tar, const char *name);

/* The bytes of a file. Returns 0, or CK_E_UNSUPPORTED_FORM for what is no plain file. */
int ck_tar_part(const struct ck_tar *tar, const struct ck_tar_entry *entry, struct ck_source *ret_part, struct ck_error *err);

/* Accepts a zeroed struct. */
void ck_tar_release(struct ck_tar *tar);

#endif
