#include "core/model/zip_records.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *ck_zip_last(const char *name) {
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

static const struct ck_zip_entry *find_in(const struct ck_zip *zip, const char *folder, size_t n, const char *name) {
    return ck_zip_find_parts(zip, (struct ck_zip_part[]){{folder, n}, {name, strlen(name)}}, 2);
}

size_t ck_zip_folder(const char *name) {
    return (size_t)(ck_zip_last(name) - name);
}

bool ck_zip_is_object(const struct ck_zip_entry *entry) {
    return strcasecmp(ck_zip_last(entry->name), "data.pkl") == 0;
}

bool ck_zip_is_pickle(const struct ck_zip *zip, const struct ck_zip_entry *entry) {
    size_t length = strlen(entry->name);
    uint8_t head[2] = {0};

    if (length > 4 && strcasecmp(entry->name + length - 4, ".pkl") == 0)
        return true;
    return entry->stored && entry->size > sizeof(head) &&
           ck_source_read(&zip->source, entry->offset, head, sizeof(head), NULL) == 0 && head[0] == 0x80 &&
           head[1] >= 2 && head[1] <= 5;
}

const struct ck_zip_entry *ck_zip_beside(const struct ck_zip *zip, const struct ck_zip_entry *entry, const char *name) {
    return find_in(zip, entry->name, ck_zip_folder(entry->name), name);
}

int ck_zip_byteorder(const struct ck_zip *zip, const char *folder, size_t n, bool *ret_swap, struct ck_error *err) {
    const struct ck_zip_entry *entry = find_in(zip, folder, n, "byteorder");
    _cleanup_(ck_freep) void *memory = NULL;
    struct ck_source bytes;
    char word[8] = "";
    int r;

    *ret_swap = false;
    if (!entry)
        return 0;
    r = ck_zip_read(zip, entry, sizeof(word) - 1, &bytes, &memory, err);
    if (r == 0)
        r = ck_source_read(&bytes, 0, word, (size_t)bytes.length, err);
    if (r < 0)
        return r;
    word[strcspn(word, "\r\n ")] = 0;
    *ret_swap = strcmp(word, "big") == 0;
    if (!*ret_swap && strcmp(word, "little") != 0)
        return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, entry->name, "its byte order is neither little nor big");
    return 0;
}

/* True for what is wrong with the record itself and not with the disk or a limit. */
static bool is_damage(int code) {
    return code == CK_E_ARCHIVE_CORRUPT || code == CK_E_ARCHIVE_UNSAFE || code == CK_E_TRUNCATED;
}

static void unpack(struct ck_zip_records *records, const struct ck_zip_entry *entry, struct ck_storage *storage) {
    struct ck_error err = {0};

    storage->source = ck_source_from_memory("", 0);
    storage->deflated = !records->scratch || records->failure.code != 0;
    if (storage->deflated || ck_zip_unpack(records->zip, entry, records->scratch, &storage->source, &err) == 0)
        return;
    storage->unreadable = ck_arena_strdup(records->arena, err.message);
    if (!is_damage(err.code))
        records->failure = err;
    else if (!storage->unreadable)
        ck_error_set(&records->failure, CK_E_OUT_OF_MEMORY, entry->name, "no memory for a message");
}

static const struct ck_zip_entry *find_entry(const struct ck_zip_records *records, const char *key) {
    static const char *const endings[] = {"", ".storage"};

    for (size_t i = 0; i < CK_ARRAY_LEN(endings); i++) {
        const struct ck_zip_part parts[] = {
            {records->place, strlen(records->place)}, {key, strlen(key)}, {endings[i], strlen(endings[i])}};
        const struct ck_zip_entry *entry = ck_zip_find_parts(records->zip, parts, CK_ARRAY_LEN(parts));

        if (entry)
            return entry;
    }
    return NULL;
}

bool ck_zip_records_find(void *ctx, const char *key, struct ck_storage *ret_storage) {
    struct ck_zip_records *records = ctx;
    const struct ck_zip_entry *entry = find_entry(records, key);

    if (!entry)
        return false;
    ret_storage->swap = records->swap;
    if (!entry->stored) {
        unpack(records, entry, ret_storage);
        return true;
    }
    return ck_source_part(&records->zip->source, entry->offset, entry->packed, &ret_storage->source, NULL) == 0;
}

int ck_zip_records_result(const struct ck_zip_records *records, int r, struct ck_error *err) {
    if (r < 0 || records->failure.code == 0)
        return r;
    if (err && err->code == 0)
        *err = records->failure;
    return records->failure.code;
}
