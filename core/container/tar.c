#include "core/container/tar.h"

#include <inttypes.h>
#include <string.h>

/* A pax header of Python or GNU tar is below 1 KiB; one with many attributes (ACLs) a few. */
#define PAX_BYTES_MAX CK_MIB

/* Bytes behind the end mark that are looked at; writers pad with zeros to 10 KiB, or to the block size of a tape. */
#define TAIL_BYTES_MAX CK_MIB

/* A header block. Source: POSIX.1-2017 pax, table "ustar Header Block". */
struct header {
    char name[100];
    char mode[8], uid[8], gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[8]; /* "ustar\0" "00", "ustar  \0" of GNU, anything before POSIX */
    char owner[32], group[32], major[8], minor[8];
    char prefix[155]; /* POSIX only */
    char pad[12];
};

_Static_assert(sizeof(struct header) == CK_TAR_BLOCK, "a header is one block");

/* What the extended headers said about the entry that follows them. */
struct pending {
    const char *name, *link; /* NULL: not said */
    uint64_t size;
    bool has_size, sparse, any;
};

struct reader {
    struct ck_tar *tar;
    const struct ck_limits *limits;
    struct ck_findings *findings;
    struct ck_error *err;
    uint64_t at; /* of the header, or of the next one */
    struct header header;
    struct pending pending;
};

/* ---- words of one header ---- */

static int corrupt(struct reader *rd, const char *what) {
    return ck_error_set(rd->err, CK_E_ARCHIVE_CORRUPT, NULL,
                        "the tar archive is damaged: the header at byte %" PRIu64 " %s", rd->at, what);
}

static int unsafe(struct reader *rd, const char *name, const char *what) {
    return ck_error_set(rd->err, CK_E_ARCHIVE_UNSAFE, name,
                        "the tar archive can be read in two ways: at byte %" PRIu64 " %s", rd->at, what);
}

static int memory_spent(struct reader *rd) {
    return ck_error_set(rd->err, CK_E_TENSOR_LIMIT, NULL,
                        "the names in the tar archive need more than %" PRIu64 " bytes (--limit-model-memory)",
                        rd->limits->model_memory);
}

static void note(struct reader *rd, const char *name, const char *sentence) {
    ck_findings_add(rd->findings, CK_FINDING_STRUCTURE, name, rd->at, "", "", sentence, false);
}

static bool is_zero(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Octal digits with blanks in front and a blank or NUL behind; an empty field is 0. */
static bool read_octal(const char *field, size_t n, uint64_t *ret_value) {
    uint64_t value = 0;
    size_t i = 0;

    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0'); /* at most 12 digits: 36 bits */
    if (i < n && field[i] != ' ' && field[i] != 0)
        return false;
    *ret_value = value;
    return true;
}

/* Octal, or base 256 if the first bit is set (GNU, star). */
static bool read_size(const char *field, size_t n, uint64_t *ret_value) {
    const uint8_t *bytes = (const uint8_t *)field;
    uint64_t value = 0;

    if (!(bytes[0] & 0x80))
        return read_octal(field, n, ret_value);
    if (bytes[0] != 0x80 || !is_zero(bytes + 1, n - 9))
        return false; /* negative, or beyond 64 bits */
    for (size_t i = n - 8; i < n; i++)
        value = value << 8 | bytes[i];
    *ret_value = value;
    return value <= INT64_MAX;
}

bool ck_tar_is_header(const uint8_t block[CK_TAR_BLOCK]) {
    const size_t start = offsetof(struct header, checksum), end = start + sizeof(((struct header *)0)->checksum);
    uint64_t told, plain = 0;
    int64_t with_signs = 0; /* as some old writers summed */

    if (is_zero(block, CK_TAR_BLOCK) || !read_octal((const char *)block + start, end - start, &told))
        return false;
    for (size_t i = 0; i < CK_TAR_BLOCK; i++) {
        uint8_t byte = i >= start && i < end ? ' ' : block[i];

        plain += byte;
        with_signs += (int8_t)byte;
    }
    return told == plain || (int64_t)told == with_signs;
}

/* ---- names ---- */

static const char *strip(char *name) {
    size_t n = strlen(name);

    while (n > 0 && name[n - 1] == '/')
        name[--n] = 0;
    while (name[0] == '.' && name[1] == '/')
        for (name += 2; *name == '/';)
            name++;
    return strcmp(name, ".") == 0 ? "" : name;
}

static bool leads_out(const char *name) {
    if (name[0] == '/')
        return true;
    for (const char *p = name; (p = strstr(p, "..")) != NULL; p += 2)
        if ((p == name || p[-1] == '/') && (p[2] == 0 || p[2] == '/'))
            return true;
    return false;
}

/* The name in the header itself. */
static char *header_name(struct reader *rd) {
    const struct header *h = &rd->header;
    int prefix = memcmp(h->magic, "ustar", 6) == 0 ? (int)strnlen(h->prefix, sizeof(h->prefix)) : 0;

    return ck_arena_printf(&rd->tar->arena, "%.*s%s%.*s", prefix, h->prefix, prefix > 0 ? "/" : "",
                           (int)strnlen(h->name, sizeof(h->name)), h->name);
}

static int read_names(struct reader *rd, struct ck_tar_entry *entry) {
    const struct header *h = &rd->header;
    char *name = rd->pending.name ? ck_arena_strdup(&rd->tar->arena, rd->pending.name) : header_name(rd);
    const char *link = rd->pending.link;

    if (!link)
        link = ck_arena_printf(&rd->tar->arena, "%.*s", (int)strnlen(h->link, sizeof(h->link)), h->link);
    if (!name || !link)
        return memory_spent(rd);
    /* Before POSIX a folder was a file of that name. */
    if (entry->kind == CK_TAR_FILE && name[0] && name[strlen(name) - 1] == '/')
        entry->kind = CK_TAR_FOLDER;
    entry->name = strip(name);
    entry->link = entry->kind == CK_TAR_LINK ? link : "";
    return 0;
}

/* ---- extended headers ---- */

static int set_name(struct reader *rd, const char **slot, const char *bytes, size_t n) {
    if (*slot)
        return unsafe(rd, NULL, "an entry has two long names");
    if (n > CK_TAR_NAME_MAX)
        return corrupt(rd, "has a name of more than 4096 bytes");
    if (memchr(bytes, 0, n))
        return unsafe(rd, NULL, "a name holds a NUL byte");
    *slot = ck_arena_copy(&rd->tar->arena, bytes, n);
    return *slot ? 0 : memory_spent(rd);
}

static bool is_key(const char *key, size_t n, const char *word) {
    return n == strlen(word) && memcmp(key, word, n) == 0;
}

static int set_size(struct reader *rd, const char *digits, size_t n) {
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        if (digits[i] < '0' || digits[i] > '9' || !ck_mul_u64(value, 10, &value) ||
            !ck_add_u64(value, (uint64_t)(digits[i] - '0'), &value) || value > INT64_MAX)
            return corrupt(rd, "has a pax record whose size is no number");
    if (n == 0)
        return corrupt(rd, "has a pax record whose size is no number");
    rd->pending.size = value;
    rd->pending.has_size = true;
    return 0;
}

static int apply_record(struct reader *rd, const char *key, size_t key_n, const char *value, size_t n) {
    if (is_key(key, key_n, "path"))
        return set_name(rd, &rd->pending.name, value, n);
    if (is_key(key, key_n, "linkpath"))
        return set_name(rd, &rd->pending.link, value, n);
    if (is_key(key, key_n, "size"))
        return rd->pending.has_size ? unsafe(rd, NULL, "an entry has two sizes") : set_size(rd, value, n);
    if (key_n > 11 && memcmp(key, "GNU.sparse.", 11) == 0)
        rd->pending.sparse = true;
    return 0;
}

/* Records "LENGTH KEY=VALUE\n"; the length counts all of its record. */
static int read_records(struct reader *rd, const char *text, size_t n) {
    int r = 0;

    while (r == 0 && n > 0) {
        const char *equals;
        size_t length = 0, i = 0;

        while (i < n && i < 8 && text[i] >= '0' && text[i] <= '9')
            length = length * 10 + (size_t)(text[i++] - '0');
        if (i == 0 || i >= n || text[i] != ' ' || length <= i + 1 || length > n || text[length - 1] != '\n')
            return corrupt(rd, "has a pax record of a wrong length");
        i++;
        equals = memchr(text + i, '=', length - 1 - i);
        if (!equals)
            return corrupt(rd, "has a pax record without a value");
        r = apply_record(rd, text + i, (size_t)(equals - text) - i, equals + 1,
                         (size_t)(text + length - 1 - (equals + 1)));
        text += length;
        n -= length;
    }
    return r;
}

/* A global header speaks of every entry that follows; what it may say that matters here, no writer puts there. */
static int read_global(struct reader *rd, const char *text, size_t n) {
    struct pending before = rd->pending;
    int r;

    rd->pending = (struct pending){0};
    r = read_records(rd, text, n);
    if (r < 0)
        return r;
    if (rd->pending.name || rd->pending.link || rd->pending.has_size || rd->pending.sparse)
        return unsafe(rd, NULL, "a global header names an entry");
    rd->pending = before;
    return 0;
}

static int read_extension(struct reader *rd, uint64_t offset, uint64_t size) {
    _cleanup_(ck_freep) char *text = NULL;
    int r;

    if (size > PAX_BYTES_MAX)
        return corrupt(rd, "is an extended header of more than 1 MiB");
    text = malloc((size_t)size + 1);
    if (!text)
        return ck_error_set(rd->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the tar archive");
    r = ck_source_read(&rd->tar->source, offset, text, (size_t)size, rd->err);
    if (r < 0)
        return r;
    rd->pending.any = rd->pending.any || rd->header.type != 'g';
    switch (rd->header.type) {
    case 'x':
        return read_records(rd, text, (size_t)size);
    case 'g':
        return read_global(rd, text, (size_t)size);
    case 'L':
        return set_name(rd, &rd->pending.name, text, strnlen(text, (size_t)size));
    default:
        return set_name(rd, &rd->pending.link, text, strnlen(text, (size_t)size));
    }
}

/* ---- entries ---- */

static bool is_extension(char type) {
    return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

static enum ck_tar_kind kind_of(const struct reader *rd) {
    switch (rd->header.type) {
    case 0:
    case '0':
    case '7':
        return rd->pending.sparse ? CK_TAR_OTHER : CK_TAR_FILE;
    case '5':
        return CK_TAR_FOLDER;
    case '1':
    case '2':
        return CK_TAR_LINK;
    default:
        return CK_TAR_OTHER;
    }
}

/* Readers differ in whether these kinds have contents when their size says so. */
static bool must_be_empty(char type) {
    return type >= '1' && type <= '6';
}

/* Where the contents lie. They must be there in full; the padding behind them may be missing at the end of the file. */
static int locate(struct reader *rd, uint64_t size, uint64_t *ret_offset, uint64_t *ret_next) {
    uint64_t offset = rd->at + CK_TAR_BLOCK, left = rd->tar->source.length - offset;

    if (size > left)
        return ck_error_set(rd->err, CK_E_TRUNCATED, NULL,
                            "the tar archive is cut off: the entry at byte %" PRIu64 " has %" PRIu64 " bytes, %" PRIu64
                            " are there",
                            rd->at, size, left);
    *ret_offset = offset;
    *ret_next = offset + CK_MIN(left, (size + CK_TAR_BLOCK - 1) / CK_TAR_BLOCK * CK_TAR_BLOCK);
    return 0;
}

static int remember(struct reader *rd, const struct ck_tar_entry *entry) {
    struct ck_tar *tar = rd->tar;
    uint32_t *slot;

    if (tar->count >= rd->limits->tar_entries)
        return ck_error_set(rd->err, CK_E_TENSOR_LIMIT, NULL,
                            "the tar archive has more than %" PRIu64 " entries (--limit-tar-entries)",
                            rd->limits->tar_entries);
    if (tar->count == tar->capacity) {
        uint32_t more = tar->capacity > UINT32_MAX / 2 ? UINT32_MAX : CK_MAX(tar->capacity * 2, 16u);
        void *bigger = reallocarray(tar->entries, more, sizeof(*tar->entries));

        if (!bigger || more == tar->count)
            return ck_error_set(rd->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the tar archive");
        tar->entries = bigger;
        tar->capacity = more;
    }
    if (entry->kind != CK_TAR_FOLDER) {
        slot = ck_strmap_slot(&tar->by_name, entry->name, UINT32_MAX);
        if (!slot)
            return ck_error_set(rd->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the tar archive");
        if (*slot != UINT32_MAX)
            return unsafe(rd, entry->name, "a name comes for the second time; readers differ in which they take");
        *slot = tar->count;
    }
    tar->entries[tar->count++] = *entry;
    return 0;
}

static void note_oddities(struct reader *rd, const struct ck_tar_entry *entry) {
    if (leads_out(entry->name))
        note(rd, entry->name, "the name leads out of the folder that the archive is unpacked in");
    if (entry->kind == CK_TAR_LINK)
        note(rd, entry->name, "the entry is a link, which is not followed");
    if (entry->kind == CK_TAR_OTHER)
        note(rd, entry->name, "the entry is no plain file (a device, a sparse file ...) and is not read");
}

static int read_entry(struct reader *rd, uint64_t size, uint64_t offset) {
    struct ck_tar_entry entry = {.size = size, .offset = offset, .kind = kind_of(rd)};
    int r;

    if (size > 0 && must_be_empty(rd->header.type))
        return unsafe(rd, NULL, "a folder, link or device has a size");
    r = read_names(rd, &entry);
    if (r < 0)
        return r;
    rd->pending = (struct pending){0};
    if (!entry.name[0]) /* "./" */
        return 0;
    note_oddities(rd, &entry);
    return remember(rd, &entry);
}

/* One header and what belongs to it. */
static int step(struct reader *rd) {
    bool extension = is_extension(rd->header.type);
    uint64_t size, offset = 0, next = 0;
    int r;

    if (!ck_tar_is_header((const uint8_t *)&rd->header))
        return corrupt(rd, "has a wrong checksum");
    if (!read_size(rd->header.size, sizeof(rd->header.size), &size))
        return corrupt(rd, "has a size that is no number");
    if (!extension && rd->pending.has_size && size != rd->pending.size) {
        /* The field holds 11 octal digits; beyond, writers put 0 there and the truth into the pax header. */
        if (size != 0)
            return unsafe(rd, NULL, "an entry has two sizes");
        size = rd->pending.size;
    }
    r = locate(rd, size, &offset, &next);
    if (r == 0)
        r = extension ? read_extension(rd, offset, size) : read_entry(rd, size, offset);
    rd->at = next;
    return r;
}

/* What comes behind the end mark: zeros, as a rule. */
static int look_behind(struct reader *rd) {
    uint64_t end = rd->at + CK_MIN(rd->tar->source.length - rd->at, TAIL_BYTES_MAX);
    uint8_t block[4096];
    int r;

    for (; rd->at < end; rd->at += sizeof(block)) {
        size_t n = (size_t)CK_MIN(end - rd->at, (uint64_t)sizeof(block));

        r = ck_source_read(&rd->tar->source, rd->at, block, n, rd->err);
        if (r < 0)
            return r;
        if (!is_zero(block, n)) {
            note(rd, "", "bytes follow the end of the tar archive");
            return 0;
        }
    }
    return 0;
}

static int read_all(struct reader *rd) {
    const struct ck_source *source = &rd->tar->source;
    int r = 0;

    while (r == 0 && rd->at < source->length) {
        if (source->length - rd->at < CK_TAR_BLOCK)
            return ck_error_set(rd->err, CK_E_TRUNCATED, NULL,
                                "the tar archive is cut off inside the header at byte %" PRIu64, rd->at);
        r = ck_source_read(source, rd->at, &rd->header, sizeof(rd->header), rd->err);
        if (r < 0)
            return r;
        if (is_zero((const uint8_t *)&rd->header, sizeof(rd->header)))
            return rd->pending.any ? corrupt(rd, "ends the archive behind an extended header") : look_behind(rd);
        r = step(rd);
    }
    if (r == 0 && rd->pending.any)
        return ck_error_set(rd->err, CK_E_TRUNCATED, NULL, "the tar archive is cut off behind an extended header");
    if (r == 0)
        note(rd, "", "the tar archive has no end mark; it may be cut off");
    return r;
}

int ck_tar_open(const struct ck_source *source, const struct ck_limits *limits, struct ck_findings *findings,
                struct ck_tar *ret_tar, struct ck_error *err) {
    _cleanup_(ck_tar_release) struct ck_tar tar = {.source = *source};
    struct reader rd = {.tar = &tar, .limits = limits, .findings = findings, .err = err};
    int r;

    ck_arena_init(&tar.arena, (size_t)limits->model_memory);
    r = read_all(&rd);
    if (r < 0)
        return r;
    if (tar.count == 0)
        return ck_error_set(err, CK_E_NOT_A_CHECKPOINT, NULL, "the file is a tar archive without entries");
    *ret_tar = tar;
    tar = (struct ck_tar){0};
    return 0;
}

const struct ck_tar_entry *ck_tar_find(const struct ck_tar *tar, const char *name) {
    uint32_t index;

    if (!ck_strmap_get(&tar->by_name, name, &index) || tar->entries[index].kind != CK_TAR_FILE)
        return NULL;
    return &tar->entries[index];
}

int ck_tar_part(const struct ck_tar *tar, const struct ck_tar_entry *entry, struct ck_source *ret_part,
                struct ck_error *err) {
    if (entry->kind != CK_TAR_FILE)
        return ck_error_set(err, CK_E_UNSUPPORTED_FORM, entry->name,
                            "the entry %.200s of the tar archive is no plain file", entry->name);
    return ck_source_part(&tar->source, entry->offset, entry->size, ret_part, err);
}

void ck_tar_release(struct ck_tar *tar) {
    ck_arena_release(&tar->arena);
    ck_strmap_release(&tar->by_name);
    free(tar->entries);
    *tar = (struct ck_tar){0};
}
