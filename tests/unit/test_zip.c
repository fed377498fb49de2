/* Archives are built here byte by byte, so that each can break exactly one rule. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>
#include <zlib.h>

#include "core/base/buffer.h"
#include "core/container/sniff.h"
#include "core/container/zip.h"

/* -------------------------------------------------------------------------------------------- building */

/* One entry. Zeroed fields mean: stored, sizes and name in both headers alike, right CRC, no padding. */
struct item {
    const char *name;
    const void *data;
    size_t n;
    size_t name_length; /* 0: strlen(name) */
    bool deflate;
    bool torch;                         /* local sizes and CRC zero, descriptor behind, payload padded to 64 bytes */
    uint16_t flags;                     /* more of them, in both headers */
    uint32_t crc_change;                /* is XORed onto the CRC */
    const char *local_name;             /* NULL: the same */
    int local_method, method;           /* -1 in neither: as deflate says; given as 1 + method */
    int64_t size_change, packed_change; /* added to both headers */
};

struct archive {
    struct ck_buffer bytes;
    struct ck_buffer central;
    unsigned count;
};

static void put(struct ck_buffer *buffer, uint64_t value, size_t n) {
    for (size_t i = 0; i < n; i++, value >>= 8) {
        uint8_t byte = (uint8_t)value;

        assert_true(ck_buffer_add(buffer, &byte, 1));
    }
}

static void put_bytes(struct ck_buffer *buffer, const void *bytes, size_t n) {
    assert_true(ck_buffer_add(buffer, bytes, n));
}

static size_t deflate_raw(const void *data, size_t n, uint8_t **ret_packed) {
    z_stream z = {0};
    uint8_t *packed;
    size_t most;

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
    most = deflateBound(&z, n);
    packed = malloc(most);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)n;
    z.next_out = packed;
    z.avail_out = (uInt)most;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    *ret_packed = packed;
    return most - z.avail_out;
}

static void archive_init(struct archive *archive) {
    *archive = (struct archive){0};
    ck_buffer_init(&archive->bytes, SIZE_MAX);
    ck_buffer_init(&archive->central, SIZE_MAX);
}

static void archive_release(struct archive *archive) {
    ck_buffer_release(&archive->bytes);
    ck_buffer_release(&archive->central);
}

static void put_local(struct archive *archive, const struct item *item, unsigned method, unsigned flags, uint32_t crc,
                      size_t packed, size_t size) {
    const char *name = item->local_name ? item->local_name : item->name;
    size_t length = item->name_length ? item->name_length : strlen(name);
    size_t bare = archive->bytes.length + 30 + length, pad = item->torch ? 64 - (bare + 4) % 64 : 0;

    put(&archive->bytes, 0x04034b50, 4);
    put(&archive->bytes, method ? 20 : 0, 2);
    put(&archive->bytes, flags, 2);
    put(&archive->bytes, item->local_method ? (unsigned)item->local_method - 1 : method, 2);
    put(&archive->bytes, 0, 4);
    put(&archive->bytes, item->torch ? 0 : crc, 4);
    put(&archive->bytes, item->torch ? 0 : packed, 4);
    put(&archive->bytes, item->torch ? 0 : size, 4);
    put(&archive->bytes, length, 2);
    put(&archive->bytes, item->torch ? 4 + pad : 0, 2);
    put_bytes(&archive->bytes, name, length);
    if (item->torch) {
        put(&archive->bytes, 'F' | 'B' << 8, 2);
        put(&archive->bytes, pad, 2);
        for (size_t i = 0; i < pad; i++)
            put(&archive->bytes, 'Z', 1);
    }
}

static void put_central(struct archive *archive, const struct item *item, unsigned method, unsigned flags, uint32_t crc,
                        size_t packed, size_t size, size_t local) {
    size_t length = item->name_length ? item->name_length : strlen(item->name);

    put(&archive->central, 0x02014b50, 4);
    put(&archive->central, 20, 2);
    put(&archive->central, method ? 20 : 0, 2);
    put(&archive->central, flags, 2);
    put(&archive->central, method, 2);
    put(&archive->central, 0, 4);
    put(&archive->central, crc, 4);
    put(&archive->central, packed, 4);
    put(&archive->central, size, 4);
    put(&archive->central, length, 2);
    put(&archive->central, 0, 12);
    put(&archive->central, local, 4);
    put_bytes(&archive->central, item->name, length);
    archive->count++;
}

static void archive_add(struct archive *archive, const struct item *item) {
    size_t local = archive->bytes.length, packed = item->n, size = item->n;
    const void *payload = item->data;
    uint8_t *memory = NULL;
    unsigned method = item->method ? (unsigned)item->method - 1 : item->deflate ? 8 : 0;
    unsigned flags = item->flags | (item->torch ? 0x0808u : 0);
    uint32_t crc = (uint32_t)crc32(0, item->data, (uInt)item->n) ^ item->crc_change;

    if (item->deflate) {
        packed = deflate_raw(item->data, item->n, &memory);
        payload = memory;
    }
    put_local(archive, item, method, flags, crc, packed + (size_t)item->packed_change,
              size + (size_t)item->size_change);
    if (packed > 0)
        put_bytes(&archive->bytes, payload, packed);
    if (item->torch) {
        put(&archive->bytes, 0x08074b50, 4);
        put(&archive->bytes, crc, 4);
        put(&archive->bytes, packed, 4);
        put(&archive->bytes, size, 4);
    }
    put_central(archive, item, method, flags, crc, packed + (size_t)item->packed_change,
                size + (size_t)item->size_change, local);
    free(memory);
}

static void put_end(struct ck_buffer *bytes, unsigned entries, size_t size, size_t offset, const char *comment) {
    put(bytes, 0x06054b50, 4);
    put(bytes, 0, 4);
    put(bytes, entries, 2);
    put(bytes, entries, 2);
    put(bytes, size, 4);
    put(bytes, offset, 4);
    put(bytes, strlen(comment), 2);
    put_bytes(bytes, comment, strlen(comment));
}

static void put_end64(struct ck_buffer *bytes, uint64_t entries, uint64_t size, uint64_t offset, uint64_t at) {
    put(bytes, 0x06064b50, 4);
    put(bytes, 44, 8);
    put(bytes, 0x002D001E, 4);
    put(bytes, 0, 8);
    put(bytes, entries, 8);
    put(bytes, entries, 8);
    put(bytes, size, 8);
    put(bytes, offset, 8);
    put(bytes, 0x07064b50, 4);
    put(bytes, 0, 4);
    put(bytes, at, 8);
    put(bytes, 1, 4);
}

static void archive_end(struct archive *archive, const char *comment) {
    size_t offset = archive->bytes.length;

    if (archive->central.length > 0)
        put_bytes(&archive->bytes, archive->central.data, archive->central.length);
    put_end(&archive->bytes, archive->count, archive->central.length, offset, comment);
}

/* As torch ends every archive: ZIP64 record, locator, classic record. */
static void archive_end64(struct archive *archive) {
    size_t offset = archive->bytes.length, size = archive->central.length;

    put_bytes(&archive->bytes, archive->central.data, size);
    put_end64(&archive->bytes, archive->count, size, offset, archive->bytes.length);
    put_end(&archive->bytes, archive->count, size, offset, "");
}

/* ---------------------------------------------------------------------------------------------- asking */

struct opened {
    struct ck_zip zip;
    struct ck_findings findings;
    struct ck_error err;
};

static int open_with(struct opened *opened, const void *bytes, size_t n, const struct ck_limits *limits) {
    struct ck_source source = ck_source_from_memory(bytes, n);
    int r;

    *opened = (struct opened){0};
    ck_findings_init(&opened->findings);
    r = ck_zip_open(&source, limits, &opened->findings, &opened->zip, &opened->err);
    assert_int_equal(r, opened->err.code);
    return r;
}

static int open_archive(struct opened *opened, const struct archive *archive) {
    return open_with(opened, archive->bytes.data, archive->bytes.length, &ck_limits_default);
}

static void opened_release(struct opened *opened) {
    ck_zip_release(&opened->zip);
    ck_findings_release(&opened->findings);
}

/* Opening must fail with this code and these words. */
static void assert_refused_bytes(const void *bytes, size_t n, int code, const char *words) {
    _cleanup_(opened_release) struct opened opened;

    assert_int_equal(open_with(&opened, bytes, n, &ck_limits_default), code);
    if (!strstr(opened.err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", opened.err.message, words);
    assert_null(opened.zip.entries);
}

static void assert_refused(const struct archive *archive, int code, const char *words) {
    assert_refused_bytes(archive->bytes.data, archive->bytes.length, code, words);
}

static void assert_finding(const struct opened *opened, const char *entry, const char *words) {
    for (size_t i = 0; i < opened->findings.count; i++)
        if (strcmp(opened->findings.items[i].entry, entry) == 0 && strstr(opened->findings.items[i].name, words))
            return;
    fail_msg("no finding about %s says \"%s\"", entry, words);
}

static void assert_entry_bytes(const struct ck_zip *zip, const char *name, const void *bytes, size_t n) {
    const struct ck_zip_entry *entry = ck_zip_find(zip, name);
    _cleanup_(ck_freep) void *memory = NULL;
    _cleanup_(ck_freep) uint8_t *got = malloc(n + 1);
    struct ck_error err = {0};
    struct ck_source source;

    assert_non_null(entry);
    assert_int_equal(entry->size, n);
    assert_int_equal(ck_zip_read(zip, entry, n, &source, &memory, &err), 0);
    assert_int_equal(err.code, 0);
    assert_int_equal(source.length, n);
    assert_int_equal(ck_source_read(&source, 0, got, n, &err), 0);
    assert_memory_equal(got, bytes, n);
    assert_int_equal(memory != NULL, !entry->stored);
}

static void add_simple(struct archive *archive, const char *name, const char *text) {
    archive_add(archive, &(struct item){.name = name, .data = text, .n = strlen(text)});
}

/* ------------------------------------------------------------------------------------------ what opens */

static void stored_and_deflated_entries_give_their_bytes(void **state) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;
    char many[5000];

    (void)state;
    memset(many, 'm', sizeof(many));
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "m/", .data = "", .n = 0});
    add_simple(&archive, "m/a", "hello");
    archive_add(&archive, &(struct item){.name = "m/b", .data = many, .n = sizeof(many), .deflate = true});
    archive_add(&archive, &(struct item){.name = "m/empty", .data = "", .n = 0});
    archive_end(&archive, "a comment");
    assert_int_equal(open_archive(&opened, &archive), 0);
    assert_int_equal(opened.zip.count, 4);
    assert_string_equal(opened.zip.entries[0].name, "m/");
    assert_int_equal(opened.zip.entries[1].offset, 30 + 2 + 30 + 3);
    assert_true(opened.zip.entries[1].stored);
    assert_false(opened.zip.entries[2].stored);
    assert_true(opened.zip.entries[2].packed < 100);
    assert_entry_bytes(&opened.zip, "m/a", "hello", 5);
    assert_entry_bytes(&opened.zip, "m/b", many, sizeof(many));
    assert_entry_bytes(&opened.zip, "m/empty", "", 0);
    assert_int_equal(opened.findings.count, 0);
}

static void torch_layout_with_descriptors_and_zero_local_sizes_opens_without_findings(void **state) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;

    (void)state;
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "m/data.pkl", .data = "\x80\x02}.", .n = 4, .torch = true});
    archive_add(&archive, &(struct item){.name = "m/data/0", .data = "0123456789", .n = 10, .torch = true});
    archive_add(&archive, &(struct item){.name = "m/version", .data = "3\n", .n = 2, .torch = true});
    archive_end64(&archive);
    assert_int_equal(open_archive(&opened, &archive), 0);
    assert_int_equal(opened.zip.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(opened.zip.entries[i].offset % 64, 0);
    assert_entry_bytes(&opened.zip, "m/data/0", "0123456789", 10);
    assert_int_equal(opened.findings.count, 0);
}

static void names_are_found_exactly(void **state) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;
    char name[32], text[32];

    (void)state;
    archive_init(&archive);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "a/%d", (i * 37) % 100);
        snprintf(text, sizeof(text), "content of %d", (i * 37) % 100);
        add_simple(&archive, name, text);
    }
    archive_end(&archive, "");
    assert_int_equal(open_archive(&opened, &archive), 0);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "a/%d", i);
        snprintf(text, sizeof(text), "content of %d", i);
        assert_entry_bytes(&opened.zip, name, text, strlen(text));
    }
    assert_null(ck_zip_find(&opened.zip, "a/100"));
    assert_null(ck_zip_find(&opened.zip, "A/1"));
    assert_null(ck_zip_find(&opened.zip, "a/"));
    assert_null(ck_zip_find(&opened.zip, ""));
}

static void write_at(int fd, uint64_t offset, const struct ck_buffer *bytes) {
    assert_int_equal(pwrite(fd, bytes->data, bytes->length, (off_t)offset), (ssize_t)bytes->length);
}

static void put_big_local(struct ck_buffer *bytes, const char *name, bool big, uint64_t size, uint64_t offset) {
    put(bytes, 0x04034b50, 4);
    put(bytes, 0x08080000, 4);
    put(bytes, 0, 18);
    put(bytes, strlen(name), 2);
    put(bytes, big ? 20 : 12, 2);
    put_bytes(bytes, name, strlen(name));
    put(bytes, 1, 2);
    put(bytes, big ? 16 : 8, 2);
    if (big) {
        put(bytes, size, 8);
        put(bytes, size, 8);
    } else {
        put(bytes, offset, 8);
    }
}

static void put_big_central(struct ck_buffer *bytes, const char *name, bool big, uint64_t size, uint64_t offset) {
    put(bytes, 0x02014b50, 4);
    put(bytes, 0, 2);
    put(bytes, 45, 2);
    put(bytes, 0x0808, 2);
    put(bytes, 0, 10);
    put(bytes, big ? UINT32_MAX : size, 4);
    put(bytes, big ? UINT32_MAX : size, 4);
    put(bytes, strlen(name), 2);
    put(bytes, big ? 20 : 12, 2);
    put(bytes, 0, 10);
    put(bytes, big ? offset : UINT32_MAX, 4);
    put_bytes(bytes, name, strlen(name));
    put(bytes, 1, 2);
    put(bytes, big ? 16 : 8, 2);
    if (big) {
        put(bytes, size, 8);
        put(bytes, size, 8);
    } else {
        put(bytes, offset, 8);
    }
}

/* torch's writer gives a small entry beyond 4 GiB a local ZIP64 field that holds only the offset: strict readers call
 * it corrupt. */
static void entries_beyond_4_gib_open(void **state) {
    _cleanup_(ck_closep) int fd = memfd_create("big", MFD_CLOEXEC);
    _cleanup_(ck_buffer_release) struct ck_buffer bytes;
    _cleanup_(opened_release) struct opened opened = {0};
    const uint64_t big = 5ull << 30, second = 30 + 3 + 20 + big + 24, payload = second + 30 + 3 + 12;
    uint64_t directory = payload + 5;
    struct ck_source source;
    size_t size;

    (void)state;
    assert_true(fd >= 0);
    ck_buffer_init(&bytes, 1 << 20);
    put_big_local(&bytes, "a/0", true, big, 0);
    write_at(fd, 0, &bytes);
    bytes.length = 0;
    put_big_local(&bytes, "a/1", false, 5, second);
    put_bytes(&bytes, "hello", 5);
    write_at(fd, second, &bytes);
    bytes.length = 0;
    put_big_central(&bytes, "a/0", true, big, 0);
    put_big_central(&bytes, "a/1", false, 5, second);
    size = bytes.length;
    put_end64(&bytes, 2, size, directory, directory + size);
    put_end(&bytes, 2, size, UINT32_MAX, "");
    write_at(fd, directory, &bytes);

    ck_findings_init(&opened.findings);
    assert_int_equal(ck_source_from_fd(fd, &source, &opened.err), 0);
    if (ck_zip_open(&source, &ck_limits_default, &opened.findings, &opened.zip, &opened.err) < 0)
        fail_msg("%s", opened.err.message);
    assert_int_equal(opened.zip.entries[0].size, big);
    assert_int_equal(opened.zip.entries[0].offset, 53);
    assert_int_equal(opened.zip.entries[1].offset, payload);
    assert_entry_bytes(&opened.zip, "a/1", "hello", 5);
    assert_int_equal(opened.findings.count, 0);
}

static void hundred_thousand_entries_open_within_a_second(void **state) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;
    char name[32];
    size_t offset;
    clock_t start;

    (void)state;
    archive_init(&archive);
    for (int i = 0; i < 100001; i++) {
        snprintf(name, sizeof(name), "archive/data/%d", i);
        archive_add(&archive, &(struct item){.name = name, .data = "0123456789abcdef", .n = 16});
    }
    offset = archive.bytes.length;
    put_bytes(&archive.bytes, archive.central.data, archive.central.length);
    put_end64(&archive.bytes, archive.count, archive.central.length, offset, archive.bytes.length);
    put_end(&archive.bytes, 0xFFFF, archive.central.length, offset, "");
    start = clock();
    assert_int_equal(open_archive(&opened, &archive), 0);
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(clock() - start < CLOCKS_PER_SEC);
#else
    (void)start;
#endif
    assert_int_equal(opened.zip.count, 100001);
    assert_entry_bytes(&opened.zip, "archive/data/100000", "0123456789abcdef", 16);
}

/* ----------------------------------------------------------------------------------------- end records */

static void archive_without_entries_is_named_so(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_NOT_A_CHECKPOINT, "empty");
}

static void cut_off_archive_says_how_many_bytes_are_there(void **state) {
    _cleanup_(archive_release) struct archive archive;
    char words[64];

    (void)state;
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "m/data.pkl", .data = "\x80\x02}.", .n = 4, .torch = true});
    snprintf(words, sizeof(words), "directory is missing; %zu bytes are there", archive.bytes.length);
    assert_refused(&archive, CK_E_TRUNCATED, words);
    assert_refused_bytes("PK\3\4", 4, CK_E_TRUNCATED, "4 bytes are there");
    archive_end(&archive, "");
    archive.bytes.length -= 1;
    assert_refused(&archive, CK_E_TRUNCATED, "cut off");
}

static void bytes_behind_the_end_record_are_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    archive_end(&archive, "");
    put(&archive.bytes, 0, 7);
    assert_refused(&archive, CK_E_ARCHIVE_CORRUPT, "was appended");
}

/* Python takes the last signature, others the first record whose comment fits. */
static void second_end_record_in_the_comment_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;
    size_t offset;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    offset = archive.bytes.length;
    put_bytes(&archive.bytes, archive.central.data, archive.central.length);
    put_end(&archive.bytes, 1, archive.central.length, offset, "");
    archive.bytes.data[archive.bytes.length - 2] = 22;
    put_end(&archive.bytes, 1, archive.central.length, offset, "");
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "two end records");
    /* The same with an inner record that does not reach the end itself. */
    archive.bytes.data[archive.bytes.length - 2] = 9;
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "two end records");
}

static void zip_stored_inside_a_zip_is_not_taken_for_a_second_end(void **state) {
    _cleanup_(archive_release) struct archive inner, outer;
    _cleanup_(opened_release) struct opened opened;

    (void)state;
    archive_init(&inner);
    archive_init(&outer);
    add_simple(&inner, "policy/data.pkl", "x");
    archive_end(&inner, "");
    archive_add(&outer, &(struct item){.name = "policy.pth", .data = inner.bytes.data, .n = inner.bytes.length});
    archive_end(&outer, "");
    assert_int_equal(open_archive(&opened, &outer), 0);
    assert_entry_bytes(&opened.zip, "policy.pth", inner.bytes.data, inner.bytes.length);
}

static void longest_comment_is_read_over(void **state) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;
    _cleanup_(ck_freep) char *comment = malloc(65536);

    (void)state;
    memset(comment, 'c', 65535);
    comment[65535] = 0;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    archive_end(&archive, comment);
    assert_int_equal(open_archive(&opened, &archive), 0);
}

static void gap_before_the_end_record_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;
    size_t offset;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    offset = archive.bytes.length;
    put_bytes(&archive.bytes, archive.central.data, archive.central.length);
    put(&archive.bytes, 0, 3);
    put_end(&archive.bytes, 1, archive.central.length, offset, "");
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "3 bytes lie between");
}

static void zip64_record_that_disagrees_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;
    size_t end;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    add_simple(&archive, "c", "d");
    archive_end64(&archive);
    end = archive.bytes.length - 22;
    archive.bytes.data[end + 8] = archive.bytes.data[end + 10] = 1;
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "disagree");
    archive.bytes.data[end + 8] = archive.bytes.data[end + 10] = 2;
    archive.bytes.data[end - 20 + 8]++;
    assert_refused(&archive, CK_E_ARCHIVE_CORRUPT, "ZIP64 locator");
    archive.bytes.data[end - 20 + 15] = 0x7F;
    assert_refused(&archive, CK_E_ARCHIVE_CORRUPT, "ZIP64 locator");
}

static void entry_count_that_the_directory_cannot_hold_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    archive.count = 2;
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_ARCHIVE_CORRUPT, "claims 2 entries");
}

static void directory_that_goes_on_behind_its_entries_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    add_simple(&archive, "c", "d");
    archive.count = 1;
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "goes on behind");
}

static void archive_of_several_disks_is_refused_by_name(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    archive_end(&archive, "");
    archive.bytes.data[archive.bytes.length - 22 + 4] = 1;
    assert_refused(&archive, CK_E_UNSUPPORTED_FORM, "disks");
}

/* ---------------------------------------------------------------------------------------------- limits */

static void limits_hold_at_and_one_past(void **state) {
    _cleanup_(archive_release) struct archive archive;
    struct ck_limits limits = ck_limits_default;
    struct opened opened;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    add_simple(&archive, "c", "d");
    archive_end(&archive, "");

    limits.zip_entries = 2;
    assert_int_equal(open_with(&opened, archive.bytes.data, archive.bytes.length, &limits), 0);
    opened_release(&opened);
    limits.zip_entries = 1;
    assert_int_equal(open_with(&opened, archive.bytes.data, archive.bytes.length, &limits), CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(opened.err.message, "--limit-zip-entries"));
    opened_release(&opened);

    limits = ck_limits_default;
    limits.zip_directory = archive.central.length;
    assert_int_equal(open_with(&opened, archive.bytes.data, archive.bytes.length, &limits), 0);
    opened_release(&opened);
    limits.zip_directory--;
    assert_int_equal(open_with(&opened, archive.bytes.data, archive.bytes.length, &limits), CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(opened.err.message, "--limit-zip-directory"));
    opened_release(&opened);

    limits = ck_limits_default;
    limits.model_memory = 40;
    assert_int_equal(open_with(&opened, archive.bytes.data, archive.bytes.length, &limits), CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(opened.err.message, "--limit-model-memory"));
    opened_release(&opened);
}

static void name_of_4096_bytes_is_read_and_one_more_is_refused(void **state) {
    _cleanup_(opened_release) struct opened opened;
    char name[4098];

    (void)state;
    memset(name, 'n', sizeof(name));
    for (size_t length = 4096; length <= 4097; length++) {
        _cleanup_(archive_release) struct archive archive;

        name[length] = 0;
        archive_init(&archive);
        add_simple(&archive, name, "b");
        archive_end(&archive, "");
        if (length == 4096) {
            assert_int_equal(open_archive(&opened, &archive), 0);
            assert_string_equal(opened.zip.entries[0].name, name);
        } else {
            assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "4097 bytes");
        }
        name[length] = 'n';
    }
}

/* --------------------------------------------------------------------------------------------- entries */

static void duplicate_names_are_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "m/data.pkl", "good");
    add_simple(&archive, "m/other", "x");
    add_simple(&archive, "m/data.pkl", "evil");
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "two entries of this name");
}

static void overlapping_entries_are_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;
    const struct item twin = {.name = "b", .local_name = "a"};

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "payload");
    put_central(&archive, &twin, 0, 0, 0, 7, 7, 0);
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "inside the entry");
}

static void local_name_that_differs_is_a_finding_and_the_directory_wins(void **state) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;

    (void)state;
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "data.pkl", .data = "x", .n = 1, .local_name = "datap.kl"});
    archive_add(&archive, &(struct item){.name = "b", .data = "y", .n = 1, .local_name = "longer"});
    archive_end(&archive, "");
    assert_int_equal(open_archive(&opened, &archive), 0);
    assert_finding(&opened, "data.pkl", "name in the local header differs");
    assert_finding(&opened, "b", "name in the local header differs");
    assert_entry_bytes(&opened.zip, "data.pkl", "x", 1);
    assert_entry_bytes(&opened.zip, "b", "y", 1);
}

static void local_method_that_differs_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "a", .data = "x", .n = 1, .local_method = 1 + 8});
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "method 0, its local header 8");
}

static void method_that_is_not_read_is_named(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "a", .data = "x", .n = 1, .method = 1 + 12});
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_UNSUPPORTED_FORM, "method 12");
}

static void stored_entry_with_two_sizes_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "a", .data = "xyz", .n = 3, .size_change = 1});
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "4 bytes and 3 packed");
}

static void payload_that_reaches_into_the_directory_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "a", .data = "xyz", .n = 3, .size_change = 1, .packed_change = 1});
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_ARCHIVE_CORRUPT, "the entries end at byte 34");
}

static void missing_local_header_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    archive_end(&archive, "");
    archive.bytes.data[1] = 'X';
    assert_refused(&archive, CK_E_ARCHIVE_CORRUPT, "no local header");
}

static void local_sizes_that_contradict_are_a_finding(void **state) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    archive_end(&archive, "");
    archive.bytes.data[18] = 77;
    assert_int_equal(open_archive(&opened, &archive), 0);
    assert_finding(&opened, "a", "sizes in the local header differ");
    assert_entry_bytes(&opened.zip, "a", "b", 1);
}

/* torch reads nothing of such an entry; zipfile and libzip read the bytes. */
static void bytes_of_an_entry_marked_as_a_folder_are_a_finding(void **state) {
    for (int n = 0; n < 2; n++) {
        _cleanup_(archive_release) struct archive archive;
        _cleanup_(opened_release) struct opened opened;

        (void)state;
        archive_init(&archive);
        archive_add(&archive, &(struct item){.name = "a", .data = "b", .n = (size_t)n});
        archive_end(&archive, "");
        archive.bytes.data[30 + 1 + n + 38] = 0x10; /* behind local header, name and data: the directory */
        assert_int_equal(open_archive(&opened, &archive), 0);
        if (n == 0)
            assert_int_equal(ck_findings_count(&opened.findings, CK_FINDING_STRUCTURE), 0);
        else
            assert_finding(&opened, "a", "marked as a folder");
    }
}

/* Scanners that ask libzip or zipfile for a password go blind here; torch of old read the bytes as they are. */
static void encryption_flags_are_findings_and_stored_bytes_are_read_as_plain(void **state) {
    static const uint16_t flags[] = {0x1, 0x20, 0x40, 0x2000};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(flags); i++) {
        _cleanup_(archive_release) struct archive archive;
        _cleanup_(opened_release) struct opened opened;

        archive_init(&archive);
        archive_add(&archive, &(struct item){.name = "m/data.pkl", .data = "\x80\x02N.", .n = 4, .flags = flags[i]});
        archive_end(&archive, "");
        assert_int_equal(open_archive(&opened, &archive), 0);
        assert_finding(&opened, "m/data.pkl", "encrypted");
        assert_true(opened.zip.entries[0].encrypted);
        assert_entry_bytes(&opened.zip, "m/data.pkl", "\x80\x02N.", 4);
    }
}

static void nul_in_a_name_is_refused(void **state) {
    _cleanup_(archive_release) struct archive archive;

    (void)state;
    archive_init(&archive);
    archive_add(&archive, &(struct item){.name = "data.pkl\0.txt", .name_length = 13, .data = "x", .n = 1});
    archive_end(&archive, "");
    assert_refused(&archive, CK_E_ARCHIVE_UNSAFE, "NUL byte");
}

static void names_that_would_escape_a_folder_are_findings(void **state) {
    static const struct {
        const char *name, *words; /* NULL: no finding */
    } cases[] = {{"../x", "climbs"},    {"a/../x", "climbs"},        {"a/..", "climbs"},
                 {"..", "climbs"},      {"/etc/passwd", "absolute"}, {"C:/x", "absolute"},
                 {"a\\b", "backslash"}, {"a..b/c..", NULL},          {"weight:0.25/x", NULL}};
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;
    size_t expected = 0;

    (void)state;
    archive_init(&archive);
    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++)
        add_simple(&archive, cases[i].name, "x");
    archive_end(&archive, "");
    assert_int_equal(open_archive(&opened, &archive), 0);
    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++) {
        if (!cases[i].words)
            continue;
        assert_finding(&opened, cases[i].name, cases[i].words);
        expected++;
    }
    assert_int_equal(opened.findings.count, expected);
}

static void bytes_between_entries_are_a_finding(void **state) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;

    (void)state;
    archive_init(&archive);
    add_simple(&archive, "a", "b");
    put(&archive.bytes, 0, 25);
    add_simple(&archive, "c", "d");
    archive_end(&archive, "");
    assert_int_equal(open_archive(&opened, &archive), 0);
    assert_finding(&opened, "", "no entry owns");
}

/* --------------------------------------------------------------------------------------------- reading */

/* Opens an archive of one entry "a" and reads it. Returns the code; the entry must open. */
static int read_one(const struct item *item, uint64_t limit, struct ck_error *err) {
    _cleanup_(archive_release) struct archive archive;
    _cleanup_(opened_release) struct opened opened;
    _cleanup_(ck_freep) void *memory = NULL;
    struct ck_source source;

    archive_init(&archive);
    archive_add(&archive, item);
    archive_end(&archive, "");
    if (open_archive(&opened, &archive) < 0)
        fail_msg("%s", opened.err.message);
    return ck_zip_read(&opened.zip, &opened.zip.entries[0], limit, &source, &memory, err);
}

static void read_limit_holds_at_and_one_past(void **state) {
    struct item item = {.name = "a", .data = "0123456789", .n = 10};

    (void)state;
    for (int deflated = 0; deflated < 2; deflated++) {
        struct ck_error err = {0};

        item.deflate = deflated;
        assert_int_equal(read_one(&item, 10, &err), 0);
        assert_int_equal(read_one(&item, 9, &err), CK_E_PICKLE_LIMIT);
        assert_string_equal(err.where, "a");
    }
}

static void wrong_crc_is_no_failure(void **state) {
    struct item item = {.name = "a", .data = "0123456789", .n = 10, .crc_change = 0x5A5A5A5A};
    struct ck_error err = {0};

    (void)state;
    assert_int_equal(read_one(&item, 100, &err), 0);
    item.deflate = true;
    assert_int_equal(read_one(&item, 100, &err), 0);
    assert_int_equal(err.code, 0);
}

static void deflated_entry_of_another_size_than_said_is_refused(void **state) {
    struct item item = {.name = "a", .data = "0123456789", .n = 10, .deflate = true, .size_change = 1};
    struct ck_error err = {0}, err2 = {0};

    (void)state;
    assert_int_equal(read_one(&item, 100, &err), CK_E_ARCHIVE_CORRUPT);
    assert_non_null(strstr(err.message, "11 bytes"));
    item.size_change = -1;
    assert_int_equal(read_one(&item, 100, &err2), CK_E_ARCHIVE_CORRUPT);
    assert_non_null(strstr(err2.message, "more than its 9 bytes"));
}

static void bytes_that_are_not_deflate_are_refused(void **state) {
    struct item item = {.name = "a", .data = "\xFF\xFF\xFF\xFF\xFF\xFF", .n = 6, .method = 1 + 8};
    struct ck_error err = {0};

    (void)state;
    assert_int_equal(read_one(&item, 100, &err), CK_E_ARCHIVE_CORRUPT);
    assert_string_equal(err.where, "a");
}

static void deflate_bomb_is_refused_before_it_is_unpacked(void **state) {
    _cleanup_(ck_freep) char *zeros = calloc(1, (1 << 20) + 1);
    struct item item = {.name = "a", .data = zeros, .n = 1 << 20, .deflate = true};
    struct ck_error err = {0};

    (void)state;
    assert_int_equal(read_one(&item, 1 << 30, &err), 0);
    item.n++;
    assert_int_equal(read_one(&item, 1 << 30, &err), CK_E_ARCHIVE_UNSAFE);
    assert_non_null(strstr(err.message, "200 to 1"));
}

static void deflated_entry_that_is_marked_encrypted_is_not_read(void **state) {
    struct item item = {.name = "a", .data = "0123456789", .n = 10, .deflate = true, .flags = 1};
    struct ck_error err = {0};

    (void)state;
    assert_int_equal(read_one(&item, 100, &err), CK_E_ARCHIVE_UNSAFE);
    assert_non_null(strstr(err.message, "encrypted"));
}

/* ------------------------------------------------------------------------------------ real checkpoints */

static const char *shared_files(void) {
    static char path[512];
    const char *shared = getenv("CKPTD_SHARED");

    snprintf(path, sizeof(path), "%s/checkpoints/files", shared ? shared : "../shared");
    return path;
}

/* Opens one file; returns false if it is no zip. The first byte of every local header is checked against the table's
 * offsets. */
static bool open_real(int folder, const char *name) {
    _cleanup_(ck_closep) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    _cleanup_(opened_release) struct opened opened = {0};
    char head[CK_SNIFF_BYTES];
    struct ck_source source;
    size_t n;

    assert_int_equal(ck_source_from_fd(fd, &source, &opened.err), 0);
    n = (size_t)CK_MIN(source.length, (uint64_t)sizeof(head));
    assert_int_equal(ck_source_read(&source, 0, head, n, &opened.err), 0);
    if (ck_sniff(head, n, source.length, &opened.err) != CK_FORM_ZIP)
        return false;
    ck_findings_init(&opened.findings);
    if (ck_zip_open(&source, &ck_limits_default, &opened.findings, &opened.zip, &opened.err) < 0)
        fail_msg("%s: %s", name, opened.err.message);
    assert_true(opened.zip.count > 0);
    if (strncmp(name, "hostile_", 8) == 0)
        assert_true(ck_findings_count(&opened.findings, CK_FINDING_STRUCTURE) > 0);
    else
        assert_int_equal(opened.findings.count, 0);
    for (uint32_t i = 0; i < opened.zip.count; i++) {
        _cleanup_(ck_freep) void *memory = NULL;
        struct ck_source bytes;

        if (opened.zip.entries[i].encrypted && !opened.zip.entries[i].stored)
            continue;
        assert_int_equal(ck_zip_read(&opened.zip, &opened.zip.entries[i], 64 << 20, &bytes, &memory, &opened.err), 0);
    }
    return true;
}

static void every_real_zip_opens_and_the_hostile_ones_have_findings(void **state) {
    DIR *folder = opendir(shared_files());
    struct dirent *file;
    int zips = 0;

    (void)state;
    if (!folder) {
        print_message("skipped: no real checkpoints in %s\n", shared_files());
        skip();
    }
    while ((file = readdir(folder)))
        if (file->d_name[0] != '.')
            zips += open_real(dirfd(folder), file->d_name);
    closedir(folder);
    assert_true(zips >= 41);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_and_deflated_entries_give_their_bytes),
        cmocka_unit_test(torch_layout_with_descriptors_and_zero_local_sizes_opens_without_findings),
        cmocka_unit_test(names_are_found_exactly),
        cmocka_unit_test(entries_beyond_4_gib_open),
        cmocka_unit_test(hundred_thousand_entries_open_within_a_second),
        cmocka_unit_test(archive_without_entries_is_named_so),
        cmocka_unit_test(cut_off_archive_says_how_many_bytes_are_there),
        cmocka_unit_test(bytes_behind_the_end_record_are_refused),
        cmocka_unit_test(second_end_record_in_the_comment_is_refused),
        cmocka_unit_test(zip_stored_inside_a_zip_is_not_taken_for_a_second_end),
        cmocka_unit_test(longest_comment_is_read_over),
        cmocka_unit_test(gap_before_the_end_record_is_refused),
        cmocka_unit_test(zip64_record_that_disagrees_is_refused),
        cmocka_unit_test(entry_count_that_the_directory_cannot_hold_is_refused),
        cmocka_unit_test(directory_that_goes_on_behind_its_entries_is_refused),
        cmocka_unit_test(archive_of_several_disks_is_refused_by_name),
        cmocka_unit_test(limits_hold_at_and_one_past),
        cmocka_unit_test(name_of_4096_bytes_is_read_and_one_more_is_refused),
        cmocka_unit_test(duplicate_names_are_refused),
        cmocka_unit_test(overlapping_entries_are_refused),
        cmocka_unit_test(local_name_that_differs_is_a_finding_and_the_directory_wins),
        cmocka_unit_test(local_method_that_differs_is_refused),
        cmocka_unit_test(method_that_is_not_read_is_named),
        cmocka_unit_test(stored_entry_with_two_sizes_is_refused),
        cmocka_unit_test(payload_that_reaches_into_the_directory_is_refused),
        cmocka_unit_test(missing_local_header_is_refused),
        cmocka_unit_test(local_sizes_that_contradict_are_a_finding),
        cmocka_unit_test(bytes_of_an_entry_marked_as_a_folder_are_a_finding),
        cmocka_unit_test(encryption_flags_are_findings_and_stored_bytes_are_read_as_plain),
        cmocka_unit_test(nul_in_a_name_is_refused),
        cmocka_unit_test(names_that_would_escape_a_folder_are_findings),
        cmocka_unit_test(bytes_between_entries_are_a_finding),
        cmocka_unit_test(read_limit_holds_at_and_one_past),
        cmocka_unit_test(wrong_crc_is_no_failure),
        cmocka_unit_test(deflated_entry_of_another_size_than_said_is_refused),
        cmocka_unit_test(bytes_that_are_not_deflate_are_refused),
        cmocka_unit_test(deflate_bomb_is_refused_before_it_is_unpacked),
        cmocka_unit_test(deflated_entry_that_is_marked_encrypted_is_not_read),
        cmocka_unit_test(every_real_zip_opens_and_the_hostile_ones_have_findings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
