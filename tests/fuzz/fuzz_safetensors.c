/* The safetensors reader (and with it the JSON reader) on arbitrary bytes: what opens must keep its promises. */
#include "core/base/json_read.h"
#include "core/container/safetensors.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds)
        __builtin_trap();
}

static void check_file(const struct ck_safetensors *file, uint64_t length) {
    uint64_t end = file->data_start;

    for (uint32_t i = 0; i < file->count; i++) {
        const struct ck_safetensors_entry *entry = &file->entries[i];

        check(entry->offset == end && entry->bytes <= length - end && entry->shape);
        check((entry->dtype == CK_DTYPE_END_) == (entry->error != NULL));
        check(ck_safetensors_find(file, entry->name) == entry);
        for (uint32_t k = 0; k < entry->rank; k++)
            check(entry->shape[k] >= 0);
        end += entry->bytes;
    }
    check(end == length);
    for (uint32_t i = 0; i < file->n_metadata; i++)
        check(ck_safetensors_metadata(file, file->metadata[i].key) == file->metadata[i].value);
}

/* The bytes as bare JSON too, so that the grammar is reached without the length field. */
static void read_json(const struct ck_source *source) {
    struct ck_json_reader reader = {0};
    struct ck_error err = {0};
    enum ck_json_event event = CK_JSON_NULL;
    int r;

    r = ck_json_reader_init(&reader, source, 1 << 16, CK_E_HEADER_CORRUPT, &err);
    while (r == 0 && event != CK_JSON_END) {
        r = ck_json_next(&reader, &event, &err);
        check(r == err.code && reader.depth <= CK_JSON_READ_DEPTH_MAX && reader.offset <= source->length);
        check(!reader.text || reader.text[reader.length] == 0);
    }
    ck_json_reader_release(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ck_limits limits = ck_limits_default;
    struct ck_source source = ck_source_from_memory(data, size);
    struct ck_safetensors file = {0};
    struct ck_error err = {0};
    int r;

    limits.model_memory = 4 * CK_MIB;
    r = ck_safetensors_open(&source, &limits, &file, &err);
    check(r == err.code && (r == 0 || (!file.entries && err.message[0])));
    if (r == 0)
        check_file(&file, size);
    ck_safetensors_release(&file);
    read_json(&source);
    return 0;
}
