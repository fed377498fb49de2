#include "core/output/safetensors_write.h"

#include <stdio.h>
#include <string.h>

#include "core/base/json_write.h"

#define HEADER_MAX 100000000u /* what readers accept: safetensors and MLX */
#define ALIGNMENT  8u

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the output's header needs too much memory");
}

/* ---- shards ---- */

static uint64_t item_bytes(const struct ck_plan_item *item) {
    uint64_t bytes = 0;

    for (uint32_t k = 0; k < item->n_out; k++)
        bytes += item->out[k].bytes;
    return bytes;
}

/* As mlx-lm's make_shards: a new shard when the sum would exceed the limit; a larger tensor gets one of its own. Returns how many. */
static uint32_t assign_shards(struct ck_plan *plan, uint64_t max_bytes) {
    uint64_t sum = 0;
    uint32_t shard = 0;

    for (uint32_t i = 0; i < plan->n_items; i++) {
        uint64_t bytes = item_bytes(&plan->items[i]);

        if (sum > 0 && (bytes > max_bytes || sum > max_bytes - bytes)) {
            shard++;
            sum = 0;
        }
        sum += bytes;
        for (uint32_t k = 0; k < plan->items[i].n_out; k++)
            plan->items[i].out[k].file = shard;
    }
    return shard + 1;
}

/* ---- one file ---- */

/* Bytes of one element: what its alignment wants. */
static unsigned element_size(const struct ck_out_tensor *out) {
    enum ck_dtype dtype = CK_U8;

    ck_dtype_from_safetensors(out->dtype, &dtype);
    return ck_dtype_row(dtype)->size;
}

/* Calls for each tensor of a file in the order of the data: element sizes descending, then the plan's order. */
#define EACH_OUT(plan, shard, out)                                                                                     \
    for (unsigned size_ = 16; size_ > 0; size_ /= 2)                                                                   \
        for (uint32_t i_ = 0; i_ < (plan)->n_items; i_++)                                                              \
            for (struct ck_out_tensor *out = (plan)->items[i_].out; out < (plan)->items[i_].out + (plan)->items[i_].n_out; out++) \
                if (out->file == (shard) && element_size(out) == size_)

static void write_entry(struct ck_json *json, const struct ck_out_tensor *out, uint64_t start) {
    ck_json_key(json, out->name);
    ck_json_object_begin(json);
    ck_json_key_string(json, "dtype", out->dtype);
    ck_json_key(json, "shape");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < out->rank; i++)
        ck_json_i64(json, out->shape[i]);
    ck_json_array_end(json);
    ck_json_key(json, "data_offsets");
    ck_json_array_begin(json);
    ck_json_u64(json, start);
    ck_json_u64(json, start + out->bytes);
    ck_json_array_end(json);
    ck_json_object_end(json);
}

static int write_header(const struct ck_plan *plan, uint32_t shard, struct ck_buffer *header, struct ck_error *err) {
    uint64_t position = 0, length;
    struct ck_json json;
    int r;

    ck_buffer_init(header, HEADER_MAX + 64u);
    if (!ck_buffer_add(header, "\0\0\0\0\0\0\0\0", 8))
        return no_memory(err);
    ck_json_init(&json, ck_json_sink_buffer, header, NULL);
    ck_json_object_begin(&json);
    ck_json_key(&json, "__metadata__");
    ck_json_object_begin(&json);
    for (uint32_t i = 0; i < plan->n_metadata; i++)
        ck_json_key_string(&json, plan->metadata[2 * i], plan->metadata[2 * i + 1]);
    ck_json_object_end(&json);
    EACH_OUT(plan, shard, out) {
        write_entry(&json, out, position);
        position += out->bytes;
    }
    ck_json_object_end(&json);
    r = ck_json_finish(&json);
    while (r >= 0 && header->length % ALIGNMENT != 0)
        if (!ck_buffer_add(header, " ", 1))
            r = CK_E_OUTPUT_LIMIT;
    if (r < 0 || header->length - 8 > HEADER_MAX)
        return ck_error_set(err, CK_E_OUTPUT_LIMIT, NULL, "the header of the result would exceed %u bytes: too many tensors", HEADER_MAX);
    length = header->length - 8;
    for (int i = 0; i < 8; i++)
        header->data[i] = (char)(length >> (8 * i));
    position = header->length;
    EACH_OUT(plan, shard, out) {
        out->offset = position;
        position += out->bytes;
    }
    return 0;
}

static int add_file(struct ck_plan *plan, const char *name, const struct ck_buffer *text, uint64_t data_bytes, struct ck_error *err) {
    struct ck_plan_file *file = ck_plan_add_file(plan);
    char *copy = ck_arena_copy(&plan->arena, text->data, text->length);

    if (!file || !copy || !name)
        return no_memory(err);
    *file = (struct ck_plan_file){.name = name, .bytes = text->length + data_bytes, .header = copy, .header_bytes = text->length};
    return 0;
}

static int layout_shard(struct ck_plan *plan, uint32_t shard, uint32_t n, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer header = {0};
    uint64_t data = 0;
    const char *name;
    int r;

    r = write_header(plan, shard, &header, err);
    if (r < 0)
        return r;
    EACH_OUT(plan, shard, out)
        data += out->bytes;
    name = n == 1 ? "model.safetensors" : ck_arena_printf(&plan->arena, "model-%05u-of-%05u.safetensors", shard + 1, n);
    return add_file(plan, name, &header, data, err);
}

/* ---- the index ---- */

static int compare_names(const void *a, const void *b) {
    const struct ck_out_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static int add_index(struct ck_plan *plan, struct ck_error *err) {
    _cleanup_(ck_freep) struct ck_out_tensor **sorted = calloc((size_t)plan->n_items * 3 + 1, sizeof(*sorted));
    _cleanup_(ck_buffer_release) struct ck_buffer text = {.limit = SIZE_MAX / 4};
    uint64_t total = 0;
    size_t n = 0;

    if (!sorted)
        return no_memory(err);
    for (uint32_t i = 0; i < plan->n_items; i++)
        for (uint32_t k = 0; k < plan->items[i].n_out; k++) {
            sorted[n++] = &plan->items[i].out[k];
            total += plan->items[i].out[k].bytes;
        }
    qsort(sorted, n, sizeof(*sorted), compare_names);
    /* mlx-lm writes it with json.dump(indent=4): no newline at the end. */
    if (!ck_buffer_printf(&text, "{\n    \"metadata\": {\n        \"total_size\": %llu\n    },\n    \"weight_map\": {", (unsigned long long)total))
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        struct ck_json json;

        ck_buffer_add_text(&text, i > 0 ? ",\n        " : "\n        ");
        ck_json_init(&json, ck_json_sink_buffer, &text, NULL);
        ck_json_string(&json, sorted[i]->name);
        if (ck_json_finish(&json) < 0 || !ck_buffer_printf(&text, ": \"%s\"", plan->files[sorted[i]->file].name))
            return no_memory(err);
    }
    if (!ck_buffer_add_text(&text, "\n    }\n}"))
        return no_memory(err);
    return add_file(plan, "model.safetensors.index.json", &text, 0, err);
}

int ck_safetensors_layout(struct ck_plan *plan, uint64_t max_shard_bytes, struct ck_error *err) {
    uint32_t n = assign_shards(plan, max_shard_bytes);

    for (uint32_t shard = 0; shard < n; shard++) {
        int r = layout_shard(plan, shard, n, err);

        if (r < 0)
            return r;
    }
    return n > 1 ? add_index(plan, err) : 0;
}
