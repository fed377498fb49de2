#include "core/base/json_read.h"
#include "core/base/json_write.h"
#include "core/container/safetensors.h"
#include "core/output/safetensors_write.h"

#include <string.h>

#define COMPARE_BYTES ((size_t)64 << 10)

/* The plan was bounded when it was made; its own file must not fail here because a limit was raised there. */
static const struct ck_limits no_limits = {
#define X(name, value, what) .name = UINT64_MAX / 4,
    CK_LIMITS(X)
#undef X
};

static int differs(const struct ck_plan_file *file, const char *tensor, const char *what, struct ck_error *err) {
    return ck_error_set(err, CK_E_VERIFY_FAILED, tensor ? tensor : file->name, "%s: %s is not what was planned",
                        file->name, what);
}

static int compare_header(const struct ck_plan_file *file, const struct ck_source *source, struct ck_error *err) {
    _cleanup_(ck_freep) char *part = malloc(COMPARE_BYTES);

    if (!part)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, file->name, "no memory to compare the header");
    for (uint64_t at = 0; at < file->header_bytes;) {
        size_t n = (size_t)CK_MIN((uint64_t)COMPARE_BYTES, file->header_bytes - at);
        int r = ck_source_read(source, at, part, n, err);

        if (r < 0)
            return r;
        if (memcmp(part, file->header + at, n) != 0)
            return differs(file, NULL, "the header", err);
        at += n;
    }
    return 0;
}

/* A name as readers see it: bytes that are no UTF-8 were written as escapes, so they come back as other characters. */
static int find_as_read(const struct ck_safetensors *read, const char *name,
                        const struct ck_safetensors_entry **ret_entry, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer text = {0};
    _cleanup_(ck_json_reader_release) struct ck_json_reader reader = {0};
    struct ck_source source;
    enum ck_json_event event;
    struct ck_json json;
    int r;

    ck_buffer_init(&text, SIZE_MAX / 2);
    ck_json_init(&json, ck_json_sink_buffer, &text, err);
    ck_json_string(&json, name);
    r = ck_json_finish(&json);
    if (r < 0)
        return r;
    source = ck_source_from_memory(text.data, text.length);
    r = ck_json_reader_init(&reader, &source, text.length, CK_E_VERIFY_FAILED, err);
    if (r < 0)
        return r;
    r = ck_json_next(&reader, &event, err);
    if (r < 0)
        return r;
    *ret_entry = ck_safetensors_find(read, reader.text);
    return 0;
}

static int compare_tensor(const struct ck_plan_file *file, const struct ck_out_tensor *tensor,
                          const struct ck_safetensors *read, struct ck_error *err) {
    const struct ck_safetensors_entry *entry = ck_safetensors_find(read, tensor->name);

    if (!entry) {
        int r = find_as_read(read, tensor->name, &entry, err);

        if (r < 0)
            return r;
    }
    if (!entry)
        return differs(file, tensor->name, "a name", err);
    if (entry->error || strcmp(ck_dtype_row(entry->dtype)->safetensors, tensor->dtype) != 0)
        return differs(file, tensor->name, "the dtype of a tensor", err);
    if (entry->rank != tensor->rank ||
        (tensor->rank > 0 && memcmp(entry->shape, tensor->shape, tensor->rank * sizeof(*tensor->shape)) != 0))
        return differs(file, tensor->name, "the shape of a tensor", err);
    if (entry->offset != tensor->offset || entry->bytes != tensor->bytes)
        return differs(file, tensor->name, "the place of a tensor", err);
    return 0;
}

static int compare_tensors(const struct ck_plan *plan, uint32_t index, const struct ck_safetensors *read,
                           struct ck_error *err) {
    const struct ck_plan_file *file = &plan->files[index];
    uint32_t count = 0;
    int r;

    for (uint32_t i = 0; i < plan->n_items; i++) {
        for (uint32_t k = 0; k < plan->items[i].n_out; k++) {
            if (plan->items[i].out[k].file != index)
                continue;
            r = compare_tensor(file, &plan->items[i].out[k], read, err);
            if (r < 0)
                return r;
            count++;
        }
    }
    return count == read->count ? 0 : differs(file, NULL, "the number of tensors", err);
}

/* A complaint of the reader about our own file is a failed verification; disk and memory are not. */
static int open_again(const struct ck_plan_file *file, const struct ck_source *source, struct ck_safetensors *ret,
                      struct ck_error *err) {
    struct ck_error why = {0};
    int r = ck_safetensors_open(source, &no_limits, ret, &why);

    if (r == 0)
        return 0;
    if (r == CK_E_IO || r == CK_E_OUT_OF_MEMORY)
        return ck_error_set(err, r, file->name, "%s", why.message);
    return ck_error_set(err, CK_E_VERIFY_FAILED, why.where[0] ? why.where : file->name, "%s cannot be read: %s",
                        file->name, why.message);
}

static bool is_safetensors(const char *name) {
    const char *dot = strrchr(name, '.');

    return dot && strcmp(dot, ".safetensors") == 0;
}

int ck_safetensors_verify(const struct ck_plan *plan, uint32_t index, int fd, struct ck_error *err) {
    _cleanup_(ck_safetensors_release) struct ck_safetensors read = {0};
    const struct ck_plan_file *file = &plan->files[index];
    struct ck_source source;
    int r;

    r = ck_source_from_fd(fd, &source, err);
    if (r < 0)
        return r;
    if (source.length != file->bytes)
        return differs(file, NULL, "the size of the file", err);
    r = compare_header(file, &source, err);
    if (r < 0 || !is_safetensors(file->name))
        return r;
    r = open_again(file, &source, &read, err);
    if (r < 0)
        return r;
    return compare_tensors(plan, index, &read, err);
}
