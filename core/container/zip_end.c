#include "core/container/zip_end.h"

#include <string.h>

#define END_BYTES       22u
#define LOCATOR_BYTES   20u
#define END64_BYTES     56u
#define TAIL_MOST       (END_BYTES + 0xFFFFu)
#define CENTRAL_MINIMUM 46u

#define SENTINEL16 0xFFFFu
#define SENTINEL32 0xFFFFFFFFu

/* The fields of an end record, classic or ZIP64. */
struct end {
    uint64_t at; /* where the record begins in the source */
    uint64_t disk, directory_disk, disk_entries, entries, size, offset;
};

static struct end parse_end(const uint8_t *p, uint64_t at) {
    return (struct end){
        .at = at,
        .disk = ck_zip_u16(p + 4),
        .directory_disk = ck_zip_u16(p + 6),
        .disk_entries = ck_zip_u16(p + 8),
        .entries = ck_zip_u16(p + 10),
        .size = ck_zip_u32(p + 12),
        .offset = ck_zip_u32(p + 16),
    };
}

static struct end parse_end64(const uint8_t *p, uint64_t at) {
    return (struct end){
        .at = at,
        .disk = ck_zip_u32(p + 16),
        .directory_disk = ck_zip_u32(p + 20),
        .disk_entries = ck_zip_u64(p + 24),
        .entries = ck_zip_u64(p + 32),
        .size = ck_zip_u64(p + 40),
        .offset = ck_zip_u64(p + 48),
    };
}

/* A directory that could be meant: before its record, with room for its entries, or with ZIP64 saying more. */
static bool is_plausible(const struct end *end) {
    if (end->offset == SENTINEL32 || end->size == SENTINEL32 || end->entries == SENTINEL16)
        return true;
    return end->offset + end->size <= end->at && end->entries * CENTRAL_MINIMUM <= end->size;
}

static int no_end(const struct ck_source *source, struct ck_error *err) {
    return ck_error_set(err, CK_E_TRUNCATED, NULL,
                        "the archive is cut off: its directory is missing; %llu bytes are there",
                        (unsigned long long)source->length);
}

static int two_ends(struct ck_error *err, uint64_t one, uint64_t two) {
    return ck_error_set(
        err, CK_E_ARCHIVE_UNSAFE, NULL,
        "the archive has two end records, at bytes %llu and %llu: readers differ in which one they take",
        (unsigned long long)one, (unsigned long long)two);
}

/* Scans the last 64 KiB backward. The last record must be the one, with a comment that ends where the file does: some
 * readers take the last signature, others the first whose comment fits. */
static int find_end(const struct ck_source *source, struct end *ret_end, struct ck_error *err) {
    size_t n = (size_t)CK_MIN(source->length, (uint64_t)TAIL_MOST);
    _cleanup_(ck_freep) uint8_t *tail = malloc(n + 1);
    uint64_t base = source->length - n, last_end = 0;
    bool found = false, seen = false;
    struct end end = {0};
    int r;

    if (!tail)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory to look for the archive's directory");
    r = ck_source_read(source, base, tail, n, err);
    if (r < 0)
        return r;
    for (size_t i = n < END_BYTES ? 0 : n - END_BYTES + 1; i-- > 0;) {
        bool reaches;
        struct end candidate;

        if (memcmp(tail + i, "PK\5\6", 4) != 0)
            continue;
        reaches = i + END_BYTES + ck_zip_u16(tail + i + 20) == n;
        candidate = parse_end(tail + i, base + i);
        /* Inside a stored zip the inner end record stands before the outer one: harmless unless its comment ends
         * exactly here. */
        if (reaches && seen && (is_plausible(&candidate) || !found))
            return two_ends(err, candidate.at, found ? end.at : last_end);
        if (reaches && !found) {
            end = candidate;
            found = true;
        }
        if (!seen)
            last_end = candidate.at;
        seen = true;
    }
    if (found) {
        *ret_end = end;
        return 0;
    }
    if (!seen)
        return no_end(source, err);
    return ck_error_set(
        err, CK_E_ARCHIVE_CORRUPT, NULL,
        "the archive's last end record is at byte %llu, but its comment does not end at byte %llu where the "
        "file does: something is missing, or was appended",
        (unsigned long long)last_end, (unsigned long long)source->length);
}

static bool agrees(uint64_t classic, uint64_t sentinel, uint64_t wide) {
    return classic == sentinel || classic == wide;
}

/* The ZIP64 record that the locator names, if there is a locator before the classic record. Some readers use it always,
 * some only where the classic one holds a sentinel; so both must say the same. */
static int apply_zip64(const struct ck_source *source, struct end *end, struct ck_error *err) {
    uint8_t locator[LOCATOR_BYTES], record[END64_BYTES];
    struct end classic = *end, wide;
    uint64_t at, limit;
    int r;

    if (end->at < LOCATOR_BYTES)
        return 0;
    limit = end->at - LOCATOR_BYTES;
    r = ck_source_read(source, limit, locator, sizeof(locator), err);
    if (r < 0)
        return r;
    if (memcmp(locator, "PK\6\7", 4) != 0)
        return 0;
    at = ck_zip_u64(locator + 8);
    if (limit < END64_BYTES || at > limit - END64_BYTES)
        return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, NULL,
                            "the archive's ZIP64 locator points to byte %llu, where no record can be",
                            (unsigned long long)at);
    r = ck_source_read(source, at, record, sizeof(record), err);
    if (r < 0)
        return r;
    if (memcmp(record, "PK\6\6", 4) != 0 || ck_zip_u64(record + 4) != limit - at - 12)
        return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, NULL,
                            "the archive's ZIP64 locator points to byte %llu, but the record there does not end at the "
                            "locator",
                            (unsigned long long)at);
    wide = parse_end64(record, at);
    if (!agrees(classic.entries, SENTINEL16, wide.entries) ||
        !agrees(classic.disk_entries, SENTINEL16, wide.disk_entries) || !agrees(classic.size, SENTINEL32, wide.size) ||
        !agrees(classic.offset, SENTINEL32, wide.offset) || !agrees(classic.disk, SENTINEL16, wide.disk) ||
        !agrees(classic.directory_disk, SENTINEL16, wide.directory_disk) || ck_zip_u32(locator + 4) != wide.disk)
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, NULL,
                            "the archive's two end records (classic and ZIP64) disagree");
    *end = wide;
    return 0;
}

static int check_directory(const struct end *end, const struct ck_limits *limits, struct ck_error *err) {
    if (end->disk != 0 || end->directory_disk != 0 || end->disk_entries != end->entries)
        return ck_error_set(err, CK_E_UNSUPPORTED_FORM, NULL, "the archive is one of several disks");
    if (end->offset > end->at || end->size > end->at - end->offset)
        return ck_error_set(
            err, CK_E_ARCHIVE_CORRUPT, NULL,
            "the archive's directory (%llu bytes at byte %llu) does not lie before its end record at byte "
            "%llu",
            (unsigned long long)end->size, (unsigned long long)end->offset, (unsigned long long)end->at);
    if (end->offset + end->size != end->at)
        return ck_error_set(
            err, CK_E_ARCHIVE_UNSAFE, NULL,
            "%llu bytes lie between the archive's directory and its end record: some readers shift every "
            "entry by as much",
            (unsigned long long)(end->at - end->offset - end->size));
    if (end->entries > limits->zip_entries)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "the archive has %llu entries, more than %llu (--limit-zip-entries)",
                            (unsigned long long)end->entries, (unsigned long long)limits->zip_entries);
    if (end->size > limits->zip_directory)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "the archive's directory has %llu bytes, more than %llu (--limit-zip-directory)",
                            (unsigned long long)end->size, (unsigned long long)limits->zip_directory);
    /* Division: a ZIP64 count times 46 could wrap if the limit was raised that far. */
    if (end->entries > end->size / CENTRAL_MINIMUM)
        return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, NULL,
                            "the archive claims %llu entries, but its directory has only %llu bytes",
                            (unsigned long long)end->entries, (unsigned long long)end->size);
    return 0;
}

int ck_zip_find_directory(const struct ck_source *source, const struct ck_limits *limits,
                          struct ck_zip_directory *ret_directory, struct ck_error *err) {
    struct end end = {0};
    int r;

    r = find_end(source, &end, err);
    if (r < 0)
        return r;
    r = apply_zip64(source, &end, err);
    if (r < 0)
        return r;
    r = check_directory(&end, limits, err);
    if (r < 0)
        return r;
    *ret_directory = (struct ck_zip_directory){.offset = end.offset, .size = end.size, .entries = end.entries};
    return 0;
}
