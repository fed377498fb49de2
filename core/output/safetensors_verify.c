#include <string.h>

#include "core/container/safetensors.h"
#include "core/output/safetensors_write.h"

static int mismatch(const char *file, const char *name, const char *what, struct ck_error *err) {
    return ck_error_set(err, CK_E_VERIFY_FAILED, name, "in the written %s, '%.200s' has another %s than planned", file,
                        name, what);
}

static int compare(const struct ck_out_tensor *out, const struct ck_safetensors_entry *entry, const char *file,
                   struct ck_error *err) {
    if (strcmp(ck_dtype_row(entry->dtype)->safetensors, out->dtype) != 0)
        return mismatch(file, out->name, "dtype", err);
    if (entry->rank != out->rank || memcmp(entry->shape, out->shape, out->rank * sizeof(*out->shape)) != 0)
        return mismatch(file, out->name, "shape", err);
    if (entry->bytes != out->bytes || (entry->bytes > 0 && entry->offset != out->offset))
        return mismatch(file, out->name, "place", err);
    return 0;
}

static int verify_text(const struct ck_plan_file *file, const struct ck_source *source, struct ck_error *err) {
    _cleanup_(ck_freep) char *text = malloc(file->header_bytes + 1);
    int r;

    if (!text)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory to verify %s", file->name);
    r = ck_source_read(source, 0, text, file->header_bytes, err);
    if (r < 0)
        return r;
    if (memcmp(text, file->header, file->header_bytes) != 0)
        return ck_error_set(err, CK_E_VERIFY_FAILED, file->name, "%s was not written as planned", file->name);
    return 0;
}

int ck_safetensors_verify(const struct ck_plan *plan, uint32_t index, int fd, struct ck_error *err) {
    _cleanup_(ck_safetensors_release) struct ck_safetensors written = {0};
    const struct ck_plan_file *file = &plan->files[index];
    struct ck_limits limits = ck_limits_default;
    struct ck_source source;
    uint32_t n = 0;
    int r;

    r = ck_source_from_fd(fd, &source, err);
    if (r < 0)
        return r;
    if (source.length != file->bytes)
        return ck_error_set(err, CK_E_VERIFY_FAILED, file->name, "%s has %llu bytes instead of %llu", file->name,
                            (unsigned long long)source.length, (unsigned long long)file->bytes);
    if (file->bytes == file->header_bytes && file->header_bytes > 0 && file->header[0] == '{')
        return verify_text(file, &source, err);
    /* Three tensors for each quantized one: the limit on what strangers send is not meant for what we wrote. */
    limits.tensors = UINT32_MAX;
    r = ck_safetensors_open(&source, &limits, &written, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < plan->n_items; i++) {
        for (uint32_t k = 0; k < plan->items[i].n_out; k++) {
            const struct ck_out_tensor *out = &plan->items[i].out[k];
            const struct ck_safetensors_entry *entry;

            if (out->file != index)
                continue;
            n++;
            entry = ck_safetensors_find(&written, out->name);
            if (!entry)
                return mismatch(file->name, out->name, "name", err);
            r = compare(out, entry, file->name, err);
            if (r < 0)
                return r;
        }
    }
    if (n != written.count)
        return ck_error_set(err, CK_E_VERIFY_FAILED, file->name, "%s holds %u tensors instead of %u", file->name,
                            written.count, n);
    return 0;
}
