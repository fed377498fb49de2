#include "core/container/zip.h"

#include "core/container/zip_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zip.h>
#include <zlib.h>

/* ------------------------------------------------------------------------------------- libzip's source */

/* libzip does not tell where a payload lies, but it must read it from somewhere: this source remembers from where. It
 * reads ahead a page, because libzip reads local headers in small pieces and a hundred thousand of them otherwise cost
 * half a million calls. */
struct watched {
    const struct ck_source *source;
    uint64_t position;    /* of the next read */
    uint64_t last_read;   /* where the last read that gave bytes began */
    struct ck_error *err; /* borrowed; takes the reason of a failed read */
    int status;           /* 0, or the code of the first failed read */
    zip_error_t error;
    uint64_t ahead_offset;
    size_t ahead_length;
    uint8_t ahead[4096];
};

/* n bytes at the position, which are there. */
static int read_bytes(struct watched *watched, uint8_t *data, size_t n) {
    uint64_t left = watched->source->length - watched->position;
    bool inside;
    int r;

    if (n >= sizeof(watched->ahead))
        return ck_source_read(watched->source, watched->position, data, n, watched->err);
    inside = watched->position >= watched->ahead_offset &&
             watched->position - watched->ahead_offset + n <= watched->ahead_length;
    if (!inside) {
        size_t more = (size_t)CK_MIN(left, (uint64_t)sizeof(watched->ahead));

        watched->ahead_length = 0;
        r = ck_source_read(watched->source, watched->position, watched->ahead, more, watched->err);
        if (r < 0)
            return r;
        watched->ahead_offset = watched->position;
        watched->ahead_length = more;
    }
    memcpy(data, watched->ahead + (watched->position - watched->ahead_offset), n);
    return 0;
}

static zip_int64_t watched_read(struct watched *watched, void *data, zip_uint64_t length) {
    uint64_t left = watched->source->length - watched->position;
    size_t n = (size_t)CK_MIN(left, length);

    if (n == 0)
        return 0;
    watched->status = read_bytes(watched, data, n);
    if (watched->status < 0) {
        zip_error_set(&watched->error, ZIP_ER_READ, 0);
        return -1;
    }
    watched->last_read = watched->position;
    watched->position += n;
    return (zip_int64_t)n;
}

static zip_int64_t watched_seek(struct watched *watched, void *data, zip_uint64_t length) {
    zip_int64_t position =
        zip_source_seek_compute_offset(watched->position, watched->source->length, data, length, &watched->error);

    if (position < 0)
        return -1;
    watched->position = (uint64_t)position;
    return 0;
}

static zip_int64_t watched_stat(const struct watched *watched, void *data) {
    zip_stat_t *stat = data;

    zip_stat_init(stat);
    stat->size = watched->source->length;
    stat->valid |= ZIP_STAT_SIZE;
    return sizeof(*stat);
}

static zip_int64_t watched_call(void *ctx, void *data, zip_uint64_t length, zip_source_cmd_t command) {
    struct watched *watched = ctx;

    switch (command) {
    case ZIP_SOURCE_OPEN:
        watched->position = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return watched_read(watched, data, length);
    case ZIP_SOURCE_SEEK:
        return watched_seek(watched, data, length);
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)watched->position;
    case ZIP_SOURCE_STAT:
        return watched_stat(watched, data);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&watched->error, data, length);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_SUPPORTS, -1);
    default:
        zip_error_set(&watched->error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

static void discard(zip_t **archive) {
    if (*archive)
        zip_discard(*archive);
}

static void file_close(zip_file_t **file) {
    if (*file)
        zip_fclose(*file);
}

/* What libzip could not do. If the source could not be read, err already says so. */
static int libzip_error(const struct watched *watched, zip_error_t *error, const char *where, struct ck_error *err) {
    int code = zip_error_code_zip(error) == ZIP_ER_MEMORY ? CK_E_OUT_OF_MEMORY : CK_E_ARCHIVE_CORRUPT;

    if (watched->status < 0)
        return watched->status;
    return ck_error_set(err, code, where, "the archive is damaged: %s", zip_error_strerror(error));
}

/* watched must outlive the archive. */
static int libzip_open(struct watched *watched, zip_t **ret_archive, struct ck_error *err) {
    zip_error_t error;
    zip_source_t *source;
    zip_t *archive;
    int r = 0;

    zip_error_init(&error);
    zip_error_init(&watched->error);
    source = zip_source_function_create(watched_call, watched, &error);
    if (!source)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory to open the archive");
    archive = zip_open_from_source(source, ZIP_RDONLY, &error);
    if (archive) {
        *ret_archive = archive;
    } else {
        r = libzip_error(watched, &error, NULL, err);
        zip_source_free(source);
    }
    zip_error_fini(&error);
    return r;
}

/* ------------------------------------------------------------------------------------------- the table */

static int disagree(const char *name, const char *what, struct ck_error *err) {
    return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, name, "the entry can be read in two ways: %s", what);
}

/* Where libzip reads the payload: the file offset of the first byte that it gives. */
static int locate_payload(zip_t *archive, struct watched *watched, uint64_t index, const struct ck_zip_raw *raw,
                          struct ck_error *err) {
    _cleanup_(file_close) zip_file_t *file = NULL;
    char byte;

    /* ZIP_FL_ENCRYPTED reads the bytes of marked entries as they are; without it libzip asks for a password. */
    file = zip_fopen_index(archive, index, ZIP_FL_COMPRESSED | (raw->encrypted ? ZIP_FL_ENCRYPTED : 0));
    if (!file)
        return libzip_error(watched, zip_get_error(archive), raw->name, err);
    /* An empty payload is read from nowhere. */
    if (raw->packed == 0)
        return 0;
    if (zip_fread(file, &byte, 1) != 1)
        return libzip_error(watched, zip_file_get_error(file), raw->name, err);
    if (watched->last_read != raw->payload)
        return disagree(raw->name, "its payload begins at two places", err);
    return 0;
}

static int add_entry(zip_t *archive, struct watched *watched, const struct ck_zip_raw *raw, struct ck_zip *zip,
                     struct ck_error *err) {
    zip_stat_t stat;
    const char *name = zip_get_name(archive, zip->count, ZIP_FL_ENC_RAW);
    int r;

    if (!name || zip_stat_index(archive, zip->count, ZIP_FL_ENC_RAW, &stat) < 0)
        return libzip_error(watched, zip_get_error(archive), raw->name, err);
    if (strcmp(name, raw->name) != 0)
        return disagree(raw->name, "it has two names", err);
    if (stat.size != raw->size || stat.comp_size != raw->packed || stat.comp_method != raw->method)
        return disagree(raw->name, "it has two sizes or methods", err);
    r = locate_payload(archive, watched, zip->count, raw, err);
    if (r < 0)
        return r;
    zip->entries[zip->count++] = (struct ck_zip_entry){
        .name = raw->name,
        .size = raw->size,
        .packed = raw->packed,
        .offset = raw->payload,
        .stored = raw->method == 0,
        .encrypted = raw->encrypted,
    };
    return 0;
}

/* The checker knows what is there; libzip must see the same, entry by entry. */
static int enumerate(const struct ck_zip_raws *raws, struct ck_zip *zip, struct ck_error *err) {
    struct watched watched = {.source = &zip->source, .err = err};
    _cleanup_(discard) zip_t *archive = NULL;
    int r;

    r = libzip_open(&watched, &archive, err);
    if (r < 0)
        return r;
    if (zip_get_num_entries(archive, 0) != (zip_int64_t)raws->count)
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, NULL,
                            "the archive can be read in two ways: with %" PRIu32 " entries or with %" PRId64,
                            raws->count, (int64_t)zip_get_num_entries(archive, 0));
    zip->entries = ck_arena_alloc_array(&zip->arena, raws->count, sizeof(*zip->entries));
    zip->by_name = ck_arena_alloc_array(&zip->arena, raws->count, sizeof(*zip->by_name));
    if (!zip->entries || !zip->by_name)
        return ck_zip_no_memory(&zip->arena, raws->count * sizeof(*zip->entries), err);
    for (uint32_t i = 0; i < raws->count; i++) {
        r = add_entry(archive, &watched, &raws->items[i], zip, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int compare_names(const void *a, const void *b, void *entries) {
    const struct ck_zip_entry *all = entries;

    return strcmp(all[*(const uint32_t *)a].name, all[*(const uint32_t *)b].name);
}

static int sort_names(struct ck_zip *zip, struct ck_error *err) {
    for (uint32_t i = 0; i < zip->count; i++)
        zip->by_name[i] = i;
    qsort_r(zip->by_name, zip->count, sizeof(*zip->by_name), compare_names, zip->entries);
    for (uint32_t i = 1; i < zip->count; i++)
        if (compare_names(&zip->by_name[i - 1], &zip->by_name[i], zip->entries) == 0)
            return ck_error_set(
                err, CK_E_ARCHIVE_UNSAFE, zip->entries[zip->by_name[i]].name,
                "the archive has two entries of this name: some readers take the first, others the last");
    return 0;
}

int ck_zip_open(const struct ck_source *source, const struct ck_limits *limits, struct ck_findings *findings,
                struct ck_zip *ret_zip, struct ck_error *err) {
    _cleanup_(ck_zip_release) struct ck_zip zip = {.source = *source};
    _cleanup_(ck_zip_raws_release) struct ck_zip_raws raws = {0};
    int r;

    ck_arena_init(&zip.arena, (size_t)CK_MIN(limits->model_memory, SIZE_MAX));
    r = ck_zip_check(source, limits, &zip.arena, findings, &raws, err);
    if (r < 0)
        return r;
    if (raws.count == 0)
        return ck_error_set(err, CK_E_NOT_A_CHECKPOINT, NULL, "the zip archive is empty: it has no entries");
    r = enumerate(&raws, &zip, err);
    if (r < 0)
        return r;
    r = sort_names(&zip, err);
    if (r < 0)
        return r;
    *ret_zip = zip;
    zip = (struct ck_zip){0};
    return 0;
}

/* As strcmp() of the parts, one behind the other, with name. */
static int compare_parts(const struct ck_zip_part *parts, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++) {
        int order = strncmp(parts[i].text, name, parts[i].length);

        if (order != 0)
            return order;
        name += parts[i].length;
    }
    return *name ? -1 : 0;
}

const struct ck_zip_entry *ck_zip_find(const struct ck_zip *zip, const char *name) {
    return ck_zip_find_parts(zip, &(struct ck_zip_part){name, strlen(name)}, 1);
}

const struct ck_zip_entry *ck_zip_find_parts(const struct ck_zip *zip, const struct ck_zip_part *parts, size_t n) {
    uint32_t low = 0, high = zip->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct ck_zip_entry *entry = &zip->entries[zip->by_name[middle]];
        int order = compare_parts(parts, n, entry->name);

        if (order == 0)
            return entry;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

void ck_zip_release(struct ck_zip *zip) {
    ck_arena_release(&zip->arena);
    *zip = (struct ck_zip){0};
}

/* -------------------------------------------------------------------------------------------- payloads */

#define RATIO_MOST    200u
#define RATIO_BELOW   ((uint64_t)1 << 20) /* small entries may have any ratio */
#define RATIO_DEFLATE 1032u               /* more than this deflate cannot reach */
#define UNPACK_WINDOW ((size_t)256 << 10)

/* zlib on the payload itself: libzip would read the whole directory again for each entry. */
struct inflater {
    const struct ck_zip *zip;
    const struct ck_zip_entry *entry;
    z_stream z;
    bool ended;
    uint64_t at; /* packed bytes taken */
    uint8_t packed[16384];
};

static void inflater_release(struct inflater *inflater) {
    inflateEnd(&inflater->z);
}

static int inflater_init(struct inflater *inflater, const struct ck_zip *zip, const struct ck_zip_entry *entry,
                         struct ck_error *err) {
    inflater->zip = zip;
    inflater->entry = entry;
    inflater->ended = false;
    inflater->at = 0;
    inflater->z = (z_stream){0};
    if (inflateInit2(&inflater->z, -MAX_WBITS) != Z_OK)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, entry->name, "no memory to unpack the entry");
    return 0;
}

static int refill(struct inflater *inflater, struct ck_error *err) {
    size_t n = (size_t)CK_MIN(inflater->entry->packed - inflater->at, (uint64_t)sizeof(inflater->packed));
    int r = ck_source_read(&inflater->zip->source, inflater->entry->offset + inflater->at, inflater->packed, n, err);

    if (r < 0)
        return r;
    inflater->at += n;
    inflater->z.next_in = inflater->packed;
    inflater->z.avail_in = (uInt)n;
    return 0;
}

/* Fills the room, or less at the end of the entry. */
static int inflate_some(struct inflater *inflater, uint8_t *room, size_t n, size_t *ret_n, struct ck_error *err) {
    z_stream *z = &inflater->z;
    int r;

    z->next_out = room;
    z->avail_out = (uInt)n;
    while (z->avail_out > 0 && !inflater->ended) {
        if (z->avail_in == 0 && inflater->at == inflater->entry->packed)
            break;
        r = z->avail_in == 0 ? refill(inflater, err) : 0;
        if (r < 0)
            return r;
        r = inflate(z, Z_NO_FLUSH);
        inflater->ended = r == Z_STREAM_END;
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
            return ck_error_set(err, r == Z_MEM_ERROR ? CK_E_OUT_OF_MEMORY : CK_E_ARCHIVE_CORRUPT,
                                inflater->entry->name, "the archive is damaged: the entry cannot be unpacked (%s)",
                                z->msg ? z->msg : "zlib gives no reason");
    }
    *ret_n = n - z->avail_out;
    return 0;
}

static int ends_early(const struct ck_zip_entry *entry, uint64_t done, struct ck_error *err) {
    return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, entry->name,
                        "the entry should unpack to %llu bytes, but ends after %llu", (unsigned long long)entry->size,
                        (unsigned long long)done);
}

static int goes_on(const struct ck_zip_entry *entry, struct ck_error *err) {
    return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, entry->name, "the entry unpacks to more than its %llu bytes",
                        (unsigned long long)entry->size);
}

/* Reads exactly entry->size bytes. A wrong CRC is no failure: torch does not check it, and writers may leave it 0. */
static int inflate_entry(const struct ck_zip *zip, const struct ck_zip_entry *entry, uint8_t *bytes,
                         struct ck_error *err) {
    _cleanup_(inflater_release) struct inflater inflater = {0};
    uint64_t done = 0;
    uint8_t beyond;
    size_t n;
    int r;

    r = inflater_init(&inflater, zip, entry, err);
    while (r == 0 && done < entry->size) {
        r = inflate_some(&inflater, bytes + done, (size_t)CK_MIN(entry->size - done, (uint64_t)1 << 30), &n, err);
        if (r == 0 && n == 0)
            return ends_early(entry, done, err);
        done += r == 0 ? n : 0;
    }
    if (r == 0)
        r = inflate_some(&inflater, &beyond, 1, &n, err);
    return r == 0 && n > 0 ? goes_on(entry, err) : r;
}

static int check_inflation(const struct ck_zip_entry *entry, unsigned most, struct ck_error *err) {
    if (entry->encrypted)
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, entry->name,
                            "the entry is marked as encrypted and compressed: it is not read");
    if (entry->size > RATIO_BELOW && entry->size / most > entry->packed)
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, entry->name,
                            "the entry would unpack from %llu to %llu bytes, more than %u to 1",
                            (unsigned long long)entry->packed, (unsigned long long)entry->size, most);
    return 0;
}

int ck_zip_read(const struct ck_zip *zip, const struct ck_zip_entry *entry, uint64_t limit, struct ck_source *ret_bytes,
                void **ret_memory, struct ck_error *err) {
    _cleanup_(ck_freep) uint8_t *memory = NULL;
    int r;

    if (entry->size > limit)
        return ck_error_set(err, CK_E_PICKLE_LIMIT, entry->name, "the entry has %llu bytes, more than %llu",
                            (unsigned long long)entry->size, (unsigned long long)limit);
    if (entry->stored) {
        r = ck_source_part(&zip->source, entry->offset, entry->size, ret_bytes, err);
        if (r == 0)
            *ret_memory = NULL;
        return r;
    }
    r = check_inflation(entry, RATIO_MOST, err);
    if (r < 0)
        return r;
    memory = malloc((size_t)entry->size + 1);
    if (!memory)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, entry->name, "no memory to unpack %llu bytes",
                            (unsigned long long)entry->size);
    r = inflate_entry(zip, entry, memory, err);
    if (r < 0)
        return r;
    *ret_bytes = ck_source_from_memory(memory, (size_t)entry->size);
    *ret_memory = TAKE_PTR(memory);
    return 0;
}

/* Appends what the entry unpacks to, window by window. */
static int inflate_to(const struct ck_zip *zip, const struct ck_zip_entry *entry, struct ck_scratch *scratch,
                      struct ck_error *err) {
    _cleanup_(inflater_release) struct inflater inflater = {0};
    _cleanup_(ck_freep) uint8_t *window = malloc(UNPACK_WINDOW);
    uint64_t done = 0;
    size_t n = 0;
    int r;

    if (!window)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, entry->name, "no memory to unpack the entry");
    r = inflater_init(&inflater, zip, entry, err);
    do {
        if (r == 0)
            r = inflate_some(&inflater, window, UNPACK_WINDOW, &n, err);
        if (r == 0 && n > entry->size - done)
            return goes_on(entry, err);
        if (r == 0)
            r = ck_scratch_add(scratch, window, n, err);
        done += n;
    } while (r == 0 && n > 0);
    return r == 0 && done < entry->size ? ends_early(entry, done, err) : r;
}

int ck_zip_unpack(const struct ck_zip *zip, const struct ck_zip_entry *entry, struct ck_scratch *scratch,
                  struct ck_source *ret_bytes, struct ck_error *err) {
    uint64_t start = scratch->used;
    int r;

    if (entry->stored)
        return ck_source_part(&zip->source, entry->offset, entry->size, ret_bytes, err);
    r = check_inflation(entry, RATIO_DEFLATE, err);
    if (r == 0)
        r = inflate_to(zip, entry, scratch, err);
    if (r < 0) {
        scratch->used = start; /* the next one may have the room */
        return r;
    }
    *ret_bytes = ck_scratch_since(scratch, start);
    return 0;
}
