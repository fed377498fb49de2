#include "core/output/safetensors_write.h"

#include "core/base/buffer.h"
#include "core/base/json_write.h"

#include <string.h>

/* Length field and JSON together. MLX takes headers below 100,000,000 bytes (mlx/io/safetensors.cpp), the reference
 * reader up to 100,000,000; with the 8 bytes in front and the padding to 8 this is the largest that both take. */
#define HEADER_MAX 100000000u

/* One file that is being laid out: the plan's items first .. end-1. */
struct shard {
    uint32_t first, end;
    uint64_t bytes; /* of its tensors */
};

/* What one call works with. */
struct layout {
    struct ck_plan *plan;
    struct shard *shards;
    uint32_t n_shards;
    uint64_t bytes; /* of all tensors */
};

static void layout_release(struct layout *layout) {
    free(layout->shards);
}

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the headers of the output");
}

static uint64_t item_bytes(const struct ck_plan_item *item) {
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < item->n_out; i++)
        bytes += item->out[i].bytes;
    return bytes;
}

/* In the plan's order; a file takes items until the next would exceed the limit. An item larger than the limit has a
 * file of its own. */
static int cut_shards(struct layout *layout, uint64_t max_bytes, struct ck_error *err) {
    const struct ck_plan *plan = layout->plan;
    struct shard *shard;

    layout->shards = calloc((size_t)plan->n_items + 1, sizeof(*layout->shards));
    if (!layout->shards)
        return no_memory(err);
    layout->n_shards = 1;
    shard = layout->shards;
    for (uint32_t i = 0; i < plan->n_items; i++) {
        uint64_t bytes = item_bytes(&plan->items[i]);

        if (shard->bytes > 0 && (bytes > max_bytes || shard->bytes > max_bytes - bytes)) {
            *++shard = (struct shard){.first = i};
            layout->n_shards++;
        }
        shard->end = i + 1;
        shard->bytes += bytes;
        layout->bytes += bytes;
    }
    return 0;
}

/* Bytes of one element; 0 for a word that is no dtype. */
static unsigned element_size(const struct ck_out_tensor *tensor) {
    enum ck_dtype dtype;

    return ck_dtype_from_safetensors(tensor->dtype, &dtype) ? ck_dtype_row(dtype)->size : 0;
}

static int check_dtypes(const struct ck_plan *plan, struct ck_error *err) {
    for (uint32_t i = 0; i < plan->n_items; i++)
        for (uint32_t k = 0; k < plan->items[i].n_out; k++)
            if (element_size(&plan->items[i].out[k]) == 0)
                return ck_error_set(err, CK_E_INTERNAL, plan->items[i].out[k].name,
                                    "the tensor was planned with the dtype %s, which safetensors does not have",
                                    plan->items[i].out[k].dtype);
    return 0;
}

static void put_metadata(struct ck_json *json, const struct ck_plan *plan) {
    if (plan->n_metadata == 0)
        return;
    ck_json_key(json, "__metadata__");
    ck_json_object_begin(json);
    for (uint32_t i = 0; i < plan->n_metadata; i++)
        ck_json_key_string(json, plan->metadata[2 * i], plan->metadata[2 * i + 1]);
    ck_json_object_end(json);
}

/* begin: in the data section. */
static void put_tensor(struct ck_json *json, const struct ck_out_tensor *tensor, uint64_t begin) {
    ck_json_key(json, tensor->name);
    ck_json_object_begin(json);
    ck_json_key_string(json, "dtype", tensor->dtype);
    ck_json_key_ints(json, "shape", tensor->shape, tensor->rank);
    ck_json_key(json, "data_offsets");
    ck_json_array_begin(json);
    ck_json_u64(json, begin);
    ck_json_u64(json, begin + tensor->bytes);
    ck_json_array_end(json);
    ck_json_object_end(json);
}

/* The tensors whose elements have `size` bytes; *at is the next free byte of the data section. */
static void put_tensors_of_size(struct ck_json *json, struct ck_plan *plan, const struct shard *shard, unsigned size,
                                uint32_t file, uint64_t *at) {
    for (uint32_t i = shard->first; i < shard->end; i++) {
        struct ck_plan_item *item = &plan->items[i];

        for (uint32_t k = 0; k < item->n_out; k++) {
            struct ck_out_tensor *tensor = &item->out[k];

            if (element_size(tensor) != size)
                continue;
            put_tensor(json, tensor, *at);
            tensor->file = file;
            tensor->offset = *at;
            *at += tensor->bytes;
        }
    }
}

static int header_sink(void *ctx, const char *bytes, size_t n, struct ck_error *err) {
    struct ck_buffer *buffer = ctx;

    if (n > buffer->limit - buffer->length)
        return ck_error_set(err, CK_E_OUTPUT_LIMIT, NULL,
                            "the header of an output file would exceed %u bytes, more than its readers take",
                            HEADER_MAX);
    return ck_buffer_add(buffer, bytes, n) ? 0 : no_memory(err);
}

/* Fills buffer with the length field and the padded JSON. The tensors' offsets are set, relative to the data section.
 */
static int make_header(struct ck_plan *plan, const struct shard *shard, uint32_t file, struct ck_buffer *buffer,
                       struct ck_error *err) {
    struct ck_json json;
    uint64_t at = 0, length;
    int r;

    ck_json_init(&json, header_sink, buffer, err);
    if (!ck_buffer_add(buffer, "\0\0\0\0\0\0\0\0", 8))
        return no_memory(err);
    ck_json_object_begin(&json);
    put_metadata(&json, plan);
    for (unsigned size = 16; size > 0; size /= 2)
        put_tensors_of_size(&json, plan, shard, size, file, &at);
    ck_json_object_end(&json);
    r = ck_json_finish(&json);
    if (r < 0)
        return r;
    if (at != shard->bytes)
        return ck_error_set(err, CK_E_INTERNAL, NULL,
                            "a tensor was planned with a dtype that safetensors does not have");
    /* HEADER_MAX is a multiple of 8, so the padding always fits. */
    if (!ck_buffer_add(buffer, "        ", (8 - buffer->length % 8) % 8))
        return no_memory(err);
    length = buffer->length - 8;
    for (int i = 0; i < 8; i++)
        buffer->data[i] = (char)(length >> 8 * i & 0xFF);
    return 0;
}

/* Appends a file to the plan; text becomes its header, copied into the arena. */
static int add_file(struct ck_plan *plan, const char *name, const struct ck_buffer *text, uint64_t data_bytes,
                    struct ck_error *err) {
    struct ck_plan_file *file = ck_plan_add_file(plan);
    char *copy = ck_arena_copy(&plan->arena, ck_buffer_text(text), text->length);

    if (!file || !copy || !name)
        return no_memory(err);
    *file = (struct ck_plan_file){
        .name = name,
        .bytes = text->length + data_bytes,
        .header = copy,
        .header_bytes = text->length,
    };
    return 0;
}

static const char *shard_name(const struct layout *layout, uint32_t index) {
    if (layout->n_shards == 1)
        return ck_arena_strdup(&layout->plan->arena, "model.safetensors");
    return ck_arena_printf(&layout->plan->arena, "model-%05u-of-%05u.safetensors", index + 1, layout->n_shards);
}

static int add_shard(const struct layout *layout, uint32_t index, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer header = {0};
    const struct shard *shard = &layout->shards[index];
    struct ck_plan *plan = layout->plan;
    int r;

    ck_buffer_init(&header, HEADER_MAX);
    r = make_header(plan, shard, plan->n_files, &header, err);
    if (r < 0)
        return r;
    for (uint32_t i = shard->first; i < shard->end; i++)
        for (uint32_t k = 0; k < plan->items[i].n_out; k++)
            plan->items[i].out[k].offset += header.length;
    return add_file(plan, shard_name(layout, index), &header, shard->bytes, err);
}

static int compare_names(const void *a, const void *b) {
    const struct ck_out_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* All tensors by name. Owned by the caller. */
static const struct ck_out_tensor **sorted_tensors(const struct ck_plan *plan, size_t *ret_count) {
    const struct ck_out_tensor **tensors =
        reallocarray(NULL, (size_t)plan->n_items * 3 + 1, sizeof(struct ck_out_tensor *));
    size_t count = 0;

    if (!tensors)
        return NULL;
    for (uint32_t i = 0; i < plan->n_items; i++)
        for (uint32_t k = 0; k < plan->items[i].n_out; k++)
            tensors[count++] = &plan->items[i].out[k];
    qsort(tensors, count, sizeof(*tensors), compare_names);
    *ret_count = count;
    return tensors;
}

static bool add_quoted(struct ck_buffer *text, const char *name) {
    struct ck_json json;

    ck_json_init(&json, ck_json_sink_buffer, text, NULL);
    ck_json_string(&json, name);
    return ck_json_finish(&json) == 0;
}

/* As Python's json.dump(indent=4) writes it, which is what mlx-lm and transformers do. */
static bool put_index(const struct layout *layout, const struct ck_out_tensor *const *tensors, size_t count,
                      struct ck_buffer *text) {
    bool ok =
        ck_buffer_printf(text, "{\n    \"metadata\": {\n        \"total_size\": %llu\n    },\n    \"weight_map\": {",
                         (unsigned long long)layout->bytes);

    for (size_t i = 0; ok && i < count; i++)
        ok = ck_buffer_add_text(text, i == 0 ? "\n        " : ",\n        ") && add_quoted(text, tensors[i]->name) &&
             ck_buffer_printf(text, ": \"%s\"", layout->plan->files[tensors[i]->file].name);
    return ok && ck_buffer_add_text(text, count == 0 ? "}\n}" : "\n    }\n}");
}

static int add_index(const struct layout *layout, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer text = {0};
    _cleanup_(ck_freep) const struct ck_out_tensor **tensors = NULL;
    size_t count = 0;

    /* Each name is in a header that was bounded already, so this is bounded by their number and limit. */
    ck_buffer_init(&text, SIZE_MAX / 2);
    tensors = sorted_tensors(layout->plan, &count);
    if (!tensors || !put_index(layout, tensors, count, &text))
        return no_memory(err);
    return add_file(layout->plan, "model.safetensors.index.json", &text, 0, err);
}

int ck_safetensors_layout(struct ck_plan *plan, uint64_t max_shard_bytes, struct ck_error *err) {
    _cleanup_(layout_release) struct layout layout = {.plan = plan};
    int r;

    r = check_dtypes(plan, err);
    if (r < 0)
        return r;
    r = cut_shards(&layout, max_shard_bytes, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < layout.n_shards; i++) {
        r = add_shard(&layout, i, err);
        if (r < 0)
            return r;
    }
    return layout.n_shards > 1 ? add_index(&layout, err) : 0;
}
