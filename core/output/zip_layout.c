#include "core/output/zip_layout.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* PKWARE APPNOTE 6.3.9: local header 4.3.7, central header 4.3.12, end records 4.3.14 to 4.3.16, ZIP64 field 4.5.3. */
#define LOCAL_BYTES     30u
#define CENTRAL_BYTES   46u
#define END_BYTES       22u
#define END64_BYTES     (56u + 20u)
#define FIELD64_MAX     28u /* id, length, two sizes, offset */
#define UTF8_NAMES      0x0800u
#define DATE_1980_01_01 0x0021u
#define MADE_BY_UNIX    (3u << 8)
#define REGULAR_0644    (0100644u << 16)
#define MAX32           0xFFFFFFFFu
#define MAX16           0xFFFFu

/* Writes little-endian fields one after another into memory that was measured before. */
static void put(char **at, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++, value >>= 8)
        *(*at)++ = (char)(value & 0xFF);
}

static void put_bytes(char **at, const char *bytes, size_t n) {
    memcpy(*at, bytes, n);
    *at += n;
}

static unsigned version_needed(bool zip64) {
    return zip64 ? 45 : 20;
}

/* From the version to the 32-bit sizes: what local and central headers have in common. */
static void put_common(char **at, const struct ck_zip_file *file, bool zip64) {
    bool large = file->bytes >= MAX32;

    put(at, version_needed(zip64), 2);
    put(at, UTF8_NAMES, 2);
    put(at, 0, 2); /* stored */
    put(at, 0, 2); /* 00:00:00 */
    put(at, DATE_1980_01_01, 2);
    put(at, file->crc32, 4);
    put(at, large ? MAX32 : file->bytes, 4);
    put(at, large ? MAX32 : file->bytes, 4);
    put(at, strlen(file->name), 2);
}

static void put_local(char **at, const struct ck_zip_file *file) {
    bool large = file->bytes >= MAX32;

    put(at, 0x04034B50, 4);
    put_common(at, file, large);
    put(at, large ? 20 : 0, 2);
    put_bytes(at, file->name, strlen(file->name));
    if (!large)
        return;
    put(at, 1, 2);
    put(at, 16, 2);
    put(at, file->bytes, 8);
    put(at, file->bytes, 8);
}

/* offset: of the local header. Only the fields that do not fit 32 bits are in the ZIP64 field. */
static void put_central(char **at, const struct ck_zip_file *file, uint64_t offset) {
    bool large = file->bytes >= MAX32, far = offset >= MAX32;
    unsigned field = (large ? 16u : 0u) + (far ? 8u : 0u);

    put(at, 0x02014B50, 4);
    put(at, MADE_BY_UNIX | version_needed(large || far), 2);
    put_common(at, file, large || far);
    put(at, field ? field + 4 : 0, 2);
    put(at, 0, 2 + 2 + 2); /* comment, disk, internal attributes */
    put(at, REGULAR_0644, 4);
    put(at, far ? MAX32 : offset, 4);
    put_bytes(at, file->name, strlen(file->name));
    if (field) {
        put(at, 1, 2);
        put(at, field, 2);
    }
    if (large) {
        put(at, file->bytes, 8);
        put(at, file->bytes, 8);
    }
    if (far)
        put(at, offset, 8);
}

/* start, length: of the central directory. */
static void put_end(char **at, uint64_t entries, uint64_t start, uint64_t length) {
    if (entries >= MAX16 || start >= MAX32 || length >= MAX32) {
        put(at, 0x06064B50, 4);
        put(at, 44, 8); /* bytes that follow */
        put(at, MADE_BY_UNIX | 45, 2);
        put(at, 45, 2);
        put(at, 0, 4 + 4); /* disks */
        put(at, entries, 8);
        put(at, entries, 8);
        put(at, length, 8);
        put(at, start, 8);
        put(at, 0x07064B50, 4);
        put(at, 0, 4);
        put(at, start + length, 8);
        put(at, 1, 4);
    }
    put(at, 0x06054B50, 4);
    put(at, 0, 2 + 2);
    put(at, CK_MIN(entries, MAX16), 2);
    put(at, CK_MIN(entries, MAX16), 2);
    put(at, CK_MIN(length, MAX32), 4);
    put(at, CK_MIN(start, MAX32), 4);
    put(at, 0, 2);
}

/* Most that all headers can take; false if a name is longer than the format allows or the sum overflows. */
static bool measure(const struct ck_zip_file *files, size_t n, size_t *ret_bytes) {
    size_t bytes = END64_BYTES + END_BYTES;
    uint64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        size_t name = strlen(files[i].name);

        if (name > MAX16 || !ck_add_u64(total, files[i].bytes, &total) || total > INT64_MAX / 2)
            return false;
        bytes += LOCAL_BYTES + CENTRAL_BYTES + 2 * (name + FIELD64_MAX);
    }
    *ret_bytes = bytes;
    return true;
}

static void add_segment(struct ck_zip_layout *layout, const char *bytes, int fd, uint64_t length) {
    if (length == 0)
        return;
    layout->segments[layout->count++] = (struct ck_zip_segment){
        .start = layout->length,
        .length = length,
        .bytes = bytes,
        .fd = fd,
    };
    layout->length += length;
}

static void fill(struct ck_zip_layout *layout, const struct ck_zip_file *files, size_t n, uint64_t *offsets) {
    char *at = layout->memory, *begin;
    uint64_t start;

    for (size_t i = 0; i < n; i++) {
        offsets[i] = layout->length;
        begin = at;
        put_local(&at, &files[i]);
        add_segment(layout, begin, -1, (uint64_t)(at - begin));
        add_segment(layout, NULL, files[i].fd, files[i].bytes);
    }
    start = layout->length;
    begin = at;
    for (size_t i = 0; i < n; i++)
        put_central(&at, &files[i], offsets[i]);
    put_end(&at, n, start, (uint64_t)(at - begin));
    add_segment(layout, begin, -1, (uint64_t)(at - begin));
}

int ck_zip_layout_make(const struct ck_zip_file *files, size_t n, struct ck_zip_layout *ret_layout,
                       struct ck_error *err) {
    _cleanup_(ck_zip_layout_release) struct ck_zip_layout layout = {0};
    _cleanup_(ck_freep) uint64_t *offsets = NULL;
    size_t bytes;

    if (!measure(files, n, &bytes))
        return ck_error_set(err, CK_E_INTERNAL, NULL, "the names or sizes of the result do not fit a zip");
    layout.memory = malloc(bytes);
    layout.segments = reallocarray(NULL, 2 * n + 1, sizeof(*layout.segments));
    offsets = reallocarray(NULL, n + 1, sizeof(*offsets));
    if (!layout.memory || !layout.segments || !offsets)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the headers of %zu files", n);
    fill(&layout, files, n, offsets);
    *ret_layout = layout;
    layout = (struct ck_zip_layout){0};
    return 0;
}

/* The last segment that begins at or before position. */
static size_t find_segment(const struct ck_zip_layout *layout, uint64_t position) {
    size_t low = 0, high = layout->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (layout->segments[middle].start <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Reads a part of one segment: at least one byte, at most n. */
static ssize_t read_segment(const struct ck_zip_segment *segment, uint64_t offset, char *buffer, size_t n,
                            struct ck_error *err) {
    ssize_t got;

    n = (size_t)CK_MIN((uint64_t)n, segment->length - offset);
    if (segment->bytes) {
        memcpy(buffer, segment->bytes + offset, n);
        return (ssize_t)n;
    }
    do
        got = pread(segment->fd, buffer, n, (off_t)offset);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return ck_error_set_errno(err, errno, NULL, "read the result");
    if (got == 0)
        return ck_error_set(err, CK_E_IO, NULL, "a file of the result became shorter");
    return got;
}

ssize_t ck_zip_layout_read(const struct ck_zip_layout *layout, uint64_t position, void *buffer, size_t n,
                           struct ck_error *err) {
    size_t done = 0, i;

    if (n == 0 || position >= layout->length)
        return 0;
    n = CK_MIN(n, (size_t)SSIZE_MAX);
    for (i = find_segment(layout, position); done < n && i < layout->count;) {
        const struct ck_zip_segment *segment = &layout->segments[i];
        uint64_t offset = position + done - segment->start;
        ssize_t got = read_segment(segment, offset, (char *)buffer + done, n - done, err);

        if (got < 0)
            return got;
        done += (size_t)got;
        if (offset + (uint64_t)got == segment->length)
            i++;
    }
    return (ssize_t)done;
}

void ck_zip_layout_release(struct ck_zip_layout *layout) {
    free(layout->segments);
    free(layout->memory);
    *layout = (struct ck_zip_layout){0};
}
