#include "core/container/zip_check.h"

#include "core/container/zip_end.h"

#include <string.h>

#define CENTRAL_BYTES 46u
#define LOCAL_BYTES   30u
#define NAME_MOST     4096u
#define WINDOW_BYTES  ((size_t)256 << 10) /* one central header is at most 46 + 3 * 65,535 bytes */

#define FLAG_DESCRIPTOR 0x0008u
#define FLAG_ENCRYPTED                                                                                                 \
    0x2061u /* encryption, patched data, strong encryption, masked headers: what scanners stumble over */

#define EXTERNAL_ATTRIBUTES 38u /* in a central header */
#define DOS_FOLDER          0x10u

#define EXTRA_ZIP64        0x0001u
#define EXTRA_UNICODE_PATH 0x7075u

#define SENTINEL32 0xFFFFFFFFu

/* One check of one archive. */
struct check {
    const struct ck_source *source;
    const struct ck_limits *limits;
    struct ck_arena *arena;
    struct ck_findings *findings;
    struct ck_zip_directory directory;
    struct ck_zip_raws raws;
    uint8_t *window; /* of the central directory */
    size_t at, filled;
    uint64_t next; /* offset of the first directory byte that is not in the window yet */
};

/* A central header as it lies in the window. */
struct central {
    const uint8_t *head, *name, *extra;
    uint16_t flags, name_length, extra_length;
};

void ck_zip_raws_release(struct ck_zip_raws *raws) {
    free(raws->items);
    *raws = (struct ck_zip_raws){0};
}

int ck_zip_no_memory(const struct ck_arena *arena, size_t need, struct ck_error *err) {
    /* 31: what the arena may add for alignment and a NUL. */
    if (need + 31 > arena->limit - arena->used)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "the description of the archive needs more than %zu bytes (--limit-model-memory)",
                            arena->limit);
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the archive's directory");
}

static void check_release(struct check *check) {
    ck_zip_raws_release(&check->raws);
    free(check->window);
}

static void finding(struct check *check, const char *entry, const char *sentence) {
    ck_findings_add(check->findings, CK_FINDING_STRUCTURE, entry, 0, "", "", sentence, false);
}

static int corrupt(struct ck_error *err, const char *where, const char *what) {
    return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, where, "the archive is damaged: %s", what);
}

/* ----------------------------------------------------------------------------------- central directory */

/* Makes the next `need` bytes of the directory available at check->at. */
static int fill(struct check *check, size_t need, struct ck_error *err) {
    uint64_t end = check->directory.offset + check->directory.size;
    size_t kept = check->filled - check->at, more;
    int r;

    if (kept >= need)
        return 0;
    if (need - kept > end - check->next)
        return corrupt(err, NULL, "its directory ends inside an entry");
    memmove(check->window, check->window + check->at, kept);
    more = (size_t)CK_MIN(end - check->next, (uint64_t)(WINDOW_BYTES - kept));
    r = ck_source_read(check->source, check->next, check->window + kept, more, err);
    if (r < 0)
        return r;
    check->next += more;
    check->at = 0;
    check->filled = kept + more;
    return 0;
}

static int next_central(struct check *check, struct central *ret_central, struct ck_error *err) {
    const uint8_t *head;
    size_t total;
    int r;

    r = fill(check, CENTRAL_BYTES, err);
    if (r < 0)
        return r;
    head = check->window + check->at;
    if (memcmp(head, "PK\1\2", 4) != 0)
        return corrupt(err, NULL, "an entry of its directory does not begin with the signature");
    total = CENTRAL_BYTES + (size_t)ck_zip_u16(head + 28) + ck_zip_u16(head + 30) + ck_zip_u16(head + 32);
    r = fill(check, total, err);
    if (r < 0)
        return r;
    head = check->window + check->at;
    check->at += total;
    *ret_central = (struct central){
        .head = head,
        .name = head + CENTRAL_BYTES,
        .extra = head + CENTRAL_BYTES + ck_zip_u16(head + 28),
        .flags = ck_zip_u16(head + 8),
        .name_length = ck_zip_u16(head + 28),
        .extra_length = ck_zip_u16(head + 30),
    };
    return 0;
}

/* The body of the first extra field of this kind, or NULL. */
static const uint8_t *find_extra(const struct central *central, uint16_t kind, size_t *ret_length) {
    size_t at = 0, n = central->extra_length;

    while (n - at >= 4) {
        const uint8_t *field = central->extra + at;
        size_t length = ck_zip_u16(field + 2);

        if (length > n - at - 4)
            return NULL;
        if (ck_zip_u16(field) == kind) {
            *ret_length = length;
            return field + 4;
        }
        at += 4 + length;
    }
    return NULL;
}

/* APPNOTE 4.5.3: of size, packed size, offset and disk only those stand in the ZIP64 field whose own field is full, in
 * this order. */
static int read_sizes(const struct central *central, struct ck_zip_raw *raw, struct ck_error *err) {
    size_t left = 0;
    const uint8_t *wide = find_extra(central, EXTRA_ZIP64, &left);
    uint64_t *const fields[] = {&raw->size, &raw->packed, &raw->local};

    raw->size = ck_zip_u32(central->head + 24);
    raw->packed = ck_zip_u32(central->head + 20);
    raw->local = ck_zip_u32(central->head + 42);
    for (size_t i = 0; i < CK_ARRAY_LEN(fields); i++) {
        if (*fields[i] != SENTINEL32 || !wide)
            continue;
        if (left < 8)
            return corrupt(err, raw->name, "the ZIP64 sizes of an entry are incomplete");
        *fields[i] = ck_zip_u64(wide);
        wide += 8;
        left -= 8;
    }
    return 0;
}

static int copy_name(struct check *check, const struct central *central, const char **ret_name, struct ck_error *err) {
    const char *name;

    if (central->name_length == 0)
        return corrupt(err, NULL, "an entry has no name");
    if (central->name_length > NAME_MOST)
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, NULL,
                            "the archive has an entry whose name has %u bytes, more than %u", central->name_length,
                            NAME_MOST);
    if (memchr(central->name, 0, central->name_length))
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, NULL,
                            "the archive has an entry with a NUL byte in its name: some readers end the name there");
    name = ck_arena_copy(check->arena, central->name, central->name_length);
    if (!name)
        return ck_zip_no_memory(check->arena, central->name_length, err);
    *ret_name = name;
    return 0;
}

static bool climbs(const char *name) {
    size_t n = strlen(name);

    return strcmp(name, "..") == 0 || strncmp(name, "../", 3) == 0 || strstr(name, "/../") != NULL ||
           (n >= 3 && strcmp(name + n - 3, "/..") == 0);
}

static bool is_absolute(const char *name) {
    return name[0] == '/' || (((name[0] | 32) >= 'a' && (name[0] | 32) <= 'z') && name[1] == ':');
}

/* The extra field that some readers take the name from: version, CRC of the other name, name (APPNOTE 4.6.9). */
static bool has_second_name(const struct central *central) {
    size_t length = 0;
    const uint8_t *body = find_extra(central, EXTRA_UNICODE_PATH, &length);

    return body && (length != 5u + central->name_length || memcmp(body + 5, central->name, central->name_length) != 0);
}

/* Names are look-up keys, never paths, so these harm nothing here; another tool that unpacks the file may be fooled. */
static void judge_name(struct check *check, const struct central *central, const char *name) {
    if (climbs(name))
        finding(check, name, "the entry's name climbs out of its folder (..)");
    if (is_absolute(name))
        finding(check, name, "the entry's name is an absolute path");
    if (strchr(name, '\\'))
        finding(check, name, "the entry's name has a backslash");
    if (has_second_name(central))
        finding(check, name, "the entry has another name in an extra field (Unicode path)");
}

/* --------------------------------------------------------------------------------------- local headers */

/* torch leaves sizes 0 with a descriptor behind the payload: only a local size that says something can contradict. */
static void judge_local_sizes(struct check *check, const struct ck_zip_raw *raw, const uint8_t *local) {
    uint32_t packed = ck_zip_u32(local + 18), size = ck_zip_u32(local + 22);

    if ((packed != 0 && packed != SENTINEL32 && packed != raw->packed) ||
        (size != 0 && size != SENTINEL32 && size != raw->size))
        finding(check, raw->name, "the sizes in the local header differ from the directory's, which is taken");
}

/* The local header must be what the directory says; where the payload begins depends on it alone. */
static int check_local(struct check *check, const struct central *central, struct ck_zip_raw *raw,
                       struct ck_error *err) {
    uint8_t local[LOCAL_BYTES + NAME_MOST];
    size_t wanted = LOCAL_BYTES + (size_t)central->name_length;
    uint64_t limit = check->directory.offset, behind;
    uint16_t name_length;
    int r;

    if (raw->local > limit || limit - raw->local < wanted)
        wanted = LOCAL_BYTES;
    if (raw->local > limit || limit - raw->local < wanted)
        return ck_error_set(
            err, CK_E_ARCHIVE_CORRUPT, raw->name,
            "the archive is damaged: the entry should begin at byte %llu, but the entries end at byte %llu",
            (unsigned long long)raw->local, (unsigned long long)limit);
    r = ck_source_read(check->source, raw->local, local, wanted, err);
    if (r < 0)
        return r;
    if (memcmp(local, "PK\3\4", 4) != 0)
        return corrupt(err, raw->name, "no local header is where the directory says");
    if (ck_zip_u16(local + 8) != raw->method)
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, raw->name,
                            "the directory gives the entry compression method %u, its local header %u", raw->method,
                            ck_zip_u16(local + 8));
    name_length = ck_zip_u16(local + 26);
    if (name_length != central->name_length || wanted == LOCAL_BYTES ||
        memcmp(local + LOCAL_BYTES, central->name, name_length) != 0)
        finding(check, raw->name, "the name in the local header differs from the directory's, which is taken");
    if (((ck_zip_u16(local + 6) | central->flags) & FLAG_ENCRYPTED) != 0) {
        raw->encrypted = true;
        finding(check, raw->name, "the entry is marked as encrypted");
    }
    judge_local_sizes(check, raw, local);
    raw->payload = raw->local + LOCAL_BYTES + name_length + ck_zip_u16(local + 28);
    if (!ck_add_u64(raw->payload, raw->packed, &behind) || behind > limit)
        return ck_error_set(
            err, CK_E_ARCHIVE_CORRUPT, raw->name,
            "the archive is damaged: the entry needs %llu bytes from byte %llu on, but the entries end at "
            "byte %llu",
            (unsigned long long)raw->packed, (unsigned long long)raw->payload, (unsigned long long)limit);
    return 0;
}

static int check_method(const struct ck_zip_raw *raw, struct ck_error *err) {
    if (raw->method != 0 && raw->method != 8)
        return ck_error_set(err, CK_E_UNSUPPORTED_FORM, raw->name,
                            "the entry is compressed with method %u; only stored (0) and deflated (8) ones are read",
                            raw->method);
    if (raw->method == 0 && raw->packed != raw->size)
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, raw->name,
                            "the entry is stored without compression, but has two sizes: %llu bytes and %llu packed",
                            (unsigned long long)raw->size, (unsigned long long)raw->packed);
    return 0;
}

static int check_entry(struct check *check, struct ck_error *err) {
    struct ck_zip_raw raw = {0};
    struct central central = {0};
    int r;

    r = next_central(check, &central, err);
    if (r < 0)
        return r;
    r = copy_name(check, &central, &raw.name, err);
    if (r < 0)
        return r;
    raw.method = ck_zip_u16(central.head + 10);
    r = read_sizes(&central, &raw, err);
    if (r < 0)
        return r;
    r = check_method(&raw, err);
    if (r < 0)
        return r;
    r = check_local(check, &central, &raw, err);
    if (r < 0)
        return r;
    judge_name(check, &central, raw.name);
    /* torch's miniz takes such an entry for a folder and reads nothing of it, whatever its name. */
    if ((central.head[EXTERNAL_ATTRIBUTES] & DOS_FOLDER) != 0 && raw.size > 0)
        finding(check, raw.name, "the entry is marked as a folder, but has bytes, which are taken");
    check->raws.items[check->raws.count++] = raw;
    return 0;
}

/* -------------------------------------------------------------------------------------------- overlaps */

static int compare_local(const void *a, const void *b) {
    const struct ck_zip_raw *x = *(const struct ck_zip_raw *const *)a, *y = *(const struct ck_zip_raw *const *)b;

    return x->local < y->local ? -1 : x->local > y->local;
}

/* Overlap bombs share one payload among many entries. Bytes that no entry owns may be a hidden entry: a data descriptor
 * has at most 24 bytes, so what is longer is told. */
static int check_overlaps(struct check *check, struct ck_error *err) {
    uint32_t n = check->raws.count;
    _cleanup_(ck_freep) const struct ck_zip_raw **order = calloc(CK_MAX(n, 1u), sizeof(const struct ck_zip_raw *));
    uint64_t end = 0, unowned = 0;

    if (!order)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the archive's directory");
    for (uint32_t i = 0; i < n; i++)
        order[i] = &check->raws.items[i];
    qsort(order, n, sizeof(*order), compare_local);
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->local < end)
            return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, order[i]->name,
                                "the entry begins at byte %llu, inside the entry %.200s that ends at byte %llu",
                                (unsigned long long)order[i]->local, order[i - 1]->name, (unsigned long long)end);
        if (order[i]->local - end > (i == 0 ? 0u : 24u))
            unowned++;
        end = order[i]->payload + order[i]->packed;
    }
    if (unowned > 0 || check->directory.offset - end > 24)
        finding(check, "", "the archive has bytes between its entries that no entry owns");
    return 0;
}

int ck_zip_check(const struct ck_source *source, const struct ck_limits *limits, struct ck_arena *arena,
                 struct ck_findings *findings, struct ck_zip_raws *ret_raws, struct ck_error *err) {
    _cleanup_(check_release) struct check check = {
        .source = source, .limits = limits, .arena = arena, .findings = findings};
    int r;

    r = ck_zip_find_directory(source, limits, &check.directory, err);
    if (r < 0)
        return r;
    check.next = check.directory.offset;
    check.window = malloc(WINDOW_BYTES);
    check.raws.items = calloc(CK_MAX((size_t)check.directory.entries, (size_t)1), sizeof(*check.raws.items));
    if (!check.window || !check.raws.items)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the archive's directory");
    for (uint64_t i = 0; i < check.directory.entries; i++) {
        r = check_entry(&check, err);
        if (r < 0)
            return r;
    }
    if (check.at != check.filled || check.next != check.directory.offset + check.directory.size)
        return ck_error_set(
            err, CK_E_ARCHIVE_UNSAFE, NULL,
            "the archive's directory goes on behind its last entry: readers differ in what they see there");
    r = check_overlaps(&check, err);
    if (r < 0)
        return r;
    *ret_raws = check.raws;
    check.raws = (struct ck_zip_raws){0};
    return 0;
}
