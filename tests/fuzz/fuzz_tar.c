/* The tar reader, and torch 0.1's tar, on arbitrary bytes. The first byte says what the rest is: 'E' the entries
 * storages, tensors and pickle, the first two with their lengths (u16) in front; anything else begins a tar, whose
 * checksums are made right first. */
#include <stdio.h>

#include "core/container/tar.h"
#include "tests/fuzz/check_model.h"
#include "tests/unit/legacy_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tar(const struct ck_source *source) {
    struct ck_limits limits = ck_limits_default;
    struct ck_findings findings;
    struct ck_tar tar = {0};
    struct ck_error err = {0};
    int r;

    limits.model_memory = 4 * CK_MIB;
    ck_findings_init(&findings);
    r = ck_tar_open(source, &limits, &findings, &tar, &err);
    check(r == err.code && (r < 0) == (tar.count == 0) && (r == 0 || (!tar.entries && err.message[0])));
    for (uint32_t i = 0; i < tar.count; i++) {
        const struct ck_tar_entry *entry = &tar.entries[i];
        struct ck_source part;

        check(entry->name[0] && entry->link && strlen(entry->name) <= CK_TAR_NAME_MAX);
        check(entry->offset <= source->length && entry->size <= source->length - entry->offset);
        check((ck_tar_part(&tar, entry, &part, NULL) == 0) == (entry->kind == CK_TAR_FILE));
        check(entry->kind != CK_TAR_FILE || ck_tar_find(&tar, entry->name) == entry);
    }
    ck_tar_release(&tar);
    ck_findings_release(&findings);
}

static void open_entries(const uint8_t *data, size_t size) {
    static const char *const names[] = {"storages", "tensors", "pickle"};
    struct ck_buffer tar;
    struct ck_source source;

    ck_buffer_init(&tar, SIZE_MAX);
    for (size_t i = 0; i < 3; i++) {
        size_t n = size;

        if (i < 2 && size >= 2) {
            n = (size_t)data[0] | (size_t)data[1] << 8;
            data += 2;
            size -= 2;
            n = CK_MIN(n, size);
        }
        tar_add(&tar, names[i], '0', data, n);
        data += n;
        size -= n;
    }
    tar_end(&tar);
    source = tar_source(&tar);
    open_and_check(&source, NULL);
    ck_buffer_release(&tar);
}

static void open_tar(const uint8_t *data, size_t size) {
    uint8_t *bytes = calloc(1, size + 1);
    struct ck_source source;

    memcpy(bytes, data, size);
    source = ck_source_from_memory(bytes, size);
    for (size_t at = 0; size >= 512 && at <= size - 512; at += 512)
        if (memcmp(bytes + at + 257, "ustar", 5) == 0)
            tar_sum((struct tar_header *)(void *)(bytes + at));
    check_tar(&source);
    open_and_check(&source, NULL);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 0 && data[0] == 'E')
        open_entries(data + 1, size - 1);
    else
        open_tar(data, size);
    return 0;
}
