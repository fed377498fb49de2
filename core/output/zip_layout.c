#include "core/output/zip_layout.h"

#include <errno.h>
#include <string.h>

/* PKWARE APPNOTE 4.3 and 4.5.3 (ZIP64). */
#define LOCAL_SIZE   30u
#define CENTRAL_SIZE 46u
#define END_SIZE     22u
#define END64_SIZE   (56u + 20u)
#define EXTRA64_MOST 28u
#define UTF8_FLAG    0x0800u
#define DATE_1980    0x0021u /* 1 January 1980 */
#define U32_MAX      0xFFFFFFFFull

struct writer {
    unsigned char *at;
};

static void put16(struct writer *w, uint64_t value) {
    *w->at++ = (unsigned char)value;
    *w->at++ = (unsigned char)(value >> 8);
}

static void put32(struct writer *w, uint64_t value) {
    put16(w, value & 0xFFFF);
    put16(w, value >> 16 & 0xFFFF);
}

static void put64(struct writer *w, uint64_t value) {
    put32(w, value & U32_MAX);
    put32(w, value >> 32);
}

/* From "version needed" to the name: the same in the local and the central header. */
static void put_common(struct writer *w, const struct ck_zip_file *file, size_t extra) {
    bool large = file->bytes >= U32_MAX;

    put16(w, extra > 0 ? 45 : 20);
    put16(w, UTF8_FLAG);
    put16(w, 0); /* stored */
    put16(w, 0);
    put16(w, DATE_1980);
    put32(w, file->crc32);
    put32(w, large ? U32_MAX : file->bytes);
    put32(w, large ? U32_MAX : file->bytes);
    put16(w, strlen(file->name));
    put16(w, extra);
}

static void put_name(struct writer *w, const char *name) {
    size_t n = strlen(name);

    memcpy(w->at, name, n);
    w->at += n;
}

static void put_local(struct writer *w, const struct ck_zip_file *file) {
    bool large = file->bytes >= U32_MAX;

    put32(w, 0x04034B50);
    put_common(w, file, large ? 20 : 0);
    put_name(w, file->name);
    if (large) {
        put16(w, 1);
        put16(w, 16);
        put64(w, file->bytes);
        put64(w, file->bytes);
    }
}

static void put_central(struct writer *w, const struct ck_zip_file *file, uint64_t offset) {
    bool large = file->bytes >= U32_MAX, far = offset >= U32_MAX;
    size_t extra = (large ? 16u : 0u) + (far ? 8u : 0u);

    put32(w, 0x02014B50);
    put16(w, 3 << 8 | 45); /* made by: Unix, so that the mode below counts */
    put_common(w, file, extra > 0 ? extra + 4 : 0);
    put16(w, 0); /* comment */
    put16(w, 0); /* disk */
    put16(w, 0);
    put32(w, 0100644ull << 16);
    put32(w, far ? U32_MAX : offset);
    put_name(w, file->name);
    if (extra > 0) {
        put16(w, 1);
        put16(w, extra);
        if (large) {
            put64(w, file->bytes);
            put64(w, file->bytes);
        }
        if (far)
            put64(w, offset);
    }
}

static void put_end(struct writer *w, size_t n, uint64_t directory, uint64_t directory_bytes) {
    bool large = n >= 0xFFFF || directory >= U32_MAX || directory_bytes >= U32_MAX;

    if (large) {
        put32(w, 0x06064B50);
        put64(w, 44);
        put16(w, 3 << 8 | 45);
        put16(w, 45);
        put32(w, 0);
        put32(w, 0);
        put64(w, n);
        put64(w, n);
        put64(w, directory_bytes);
        put64(w, directory);
        put32(w, 0x07064B50);
        put32(w, 0);
        put64(w, directory + directory_bytes);
        put32(w, 1);
    }
    put32(w, 0x06054B50);
    put16(w, 0);
    put16(w, 0);
    put16(w, CK_MIN(n, (size_t)0xFFFF));
    put16(w, CK_MIN(n, (size_t)0xFFFF));
    put32(w, CK_MIN(directory_bytes, U32_MAX));
    put32(w, CK_MIN(directory, U32_MAX));
    put16(w, 0);
}

static void add_segment(struct ck_zip_layout *layout, const char *bytes, int fd, uint64_t length) {
    layout->segments[layout->count++] = (struct ck_zip_segment){.start = layout->length, .length = length, .bytes = bytes, .fd = fd};
    layout->length += length;
}

int ck_zip_layout_make(const struct ck_zip_file *files, size_t n, struct ck_zip_layout *ret_layout, struct ck_error *err) {
    _cleanup_(ck_zip_layout_release) struct ck_zip_layout layout = {0};
    _cleanup_(ck_freep) uint64_t *offsets = calloc(n + 1, sizeof(*offsets));
    size_t memory = END_SIZE + END64_SIZE;
    struct writer w;
    char *start;

    for (size_t i = 0; i < n; i++)
        memory += LOCAL_SIZE + CENTRAL_SIZE + 2 * (strlen(files[i].name) + EXTRA64_MOST);
    layout.segments = calloc(2 * n + 1, sizeof(*layout.segments));
    layout.memory = malloc(memory);
    if (!layout.segments || !layout.memory || !offsets)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the zip of the result");
    w.at = (unsigned char *)layout.memory;
    for (size_t i = 0; i < n; i++) {
        offsets[i] = layout.length;
        start = (char *)w.at;
        put_local(&w, &files[i]);
        add_segment(&layout, start, -1, (uint64_t)((char *)w.at - start));
        add_segment(&layout, NULL, files[i].fd, files[i].bytes);
    }
    start = (char *)w.at;
    for (size_t i = 0; i < n; i++)
        put_central(&w, &files[i], offsets[i]);
    put_end(&w, n, layout.length, (uint64_t)((char *)w.at - start));
    add_segment(&layout, start, -1, (uint64_t)((char *)w.at - start));
    *ret_layout = layout;
    layout = (struct ck_zip_layout){0};
    return 0;
}

/* The segment that holds a position before the end. */
static const struct ck_zip_segment *segment_at(const struct ck_zip_layout *layout, uint64_t position) {
    size_t low = 0, high = layout->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (layout->segments[middle].start <= position)
            low = middle;
        else
            high = middle;
    }
    return &layout->segments[low];
}

static ssize_t read_segment(const struct ck_zip_segment *segment, uint64_t offset, void *buffer, size_t n, struct ck_error *err) {
    ssize_t done;

    n = (size_t)CK_MIN((uint64_t)n, segment->length - offset);
    if (segment->bytes) {
        memcpy(buffer, segment->bytes + offset, n);
        return (ssize_t)n;
    }
    do
        done = pread(segment->fd, buffer, n, (off_t)offset);
    while (done < 0 && errno == EINTR);
    if (done < 0)
        return ck_error_set_errno(err, errno, NULL, "read the result");
    if (done == 0)
        return ck_error_set(err, CK_E_IO, NULL, "a file of the result became shorter");
    return done;
}

ssize_t ck_zip_layout_read(const struct ck_zip_layout *layout, uint64_t position, void *buffer, size_t n, struct ck_error *err) {
    size_t done = 0;

    while (done < n && position < layout->length) {
        const struct ck_zip_segment *segment = segment_at(layout, position);
        ssize_t part = read_segment(segment, position - segment->start, (char *)buffer + done, n - done, err);

        if (part < 0)
            return part;
        done += (size_t)part;
        position += (uint64_t)part;
    }
    return (ssize_t)done;
}

void ck_zip_layout_release(struct ck_zip_layout *layout) {
    free(layout->segments);
    free(layout->memory);
    *layout = (struct ck_zip_layout){0};
}
