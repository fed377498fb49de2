#include "core/container/safetensors.h"

#include "core/base/json_read.h"

#include <string.h>

/* Metadata can be long (training tools store whole captions lists and thumbnails); real values stay below a quarter of
 * this. */
#define STRING_LIMIT ((size_t)16 << 20)

/* What the format names and core/tensor/dtype.h does not: bits of one element. */
static const struct {
    const char *name;
    unsigned bits;
} foreign_dtypes[] = {{"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}};

/* The state of one reading. `out` is complete enough to be released at any time. */
struct header {
    const struct ck_limits *limits;
    struct ck_safetensors out;
    struct ck_json_reader json;
    size_t entries_capacity, metadata_capacity;
    bool metadata_seen;
    uint64_t data_bytes; /* of the data section, as far as the file goes */
};

/* One tensor's object while it is read. */
struct fields {
    bool has_dtype, has_shape, has_offsets;
    unsigned bits; /* of one element */
    uint64_t begin, end;
};

static void header_release(struct header *header) {
    ck_json_reader_release(&header->json);
    ck_safetensors_release(&header->out);
}

static int corrupt(struct ck_error *err, const char *where, const char *what) {
    return ck_error_set(err, CK_E_HEADER_CORRUPT, where, "the safetensors header is damaged: %s", what);
}

/* Why the arena did not give `need` bytes (its padding of at most 31 bytes counts too). */
static int no_memory(const struct header *header, size_t need, struct ck_error *err) {
    if (need + 31 > header->out.arena.limit - header->out.arena.used)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "the description of the tensors needs more than %llu bytes (--limit-model-memory)",
                            (unsigned long long)header->limits->model_memory);
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the safetensors header");
}

/* Room for one more element in a heap array. */
static int grow(void **array, size_t *capacity, size_t count, size_t element, struct ck_error *err) {
    size_t more = *capacity ? *capacity * 2 : 64;
    void *bigger;

    if (count < *capacity)
        return 0;
    bigger = reallocarray(*array, more, element);
    if (!bigger)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the safetensors header");
    *array = bigger;
    *capacity = more;
    return 0;
}

/* The next event, which must be `want`. */
static int expect(struct header *header, enum ck_json_event want, const char *where, const char *what,
                  struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    int r;

    r = ck_json_next(&header->json, &event, err);
    if (r < 0)
        return r;
    if (event != want)
        return ck_error_set(err, CK_E_HEADER_CORRUPT, where,
                            "the safetensors header is damaged: %s must be %s, not %s (byte %llu of the header)", what,
                            ck_json_event_name(want), ck_json_event_name(event),
                            (unsigned long long)header->json.offset);
    return 0;
}

/* Compares the reader's text whole: a NUL inside it must not hide a tail. */
static bool text_is(const struct header *header, const char *text) {
    return header->json.length == strlen(text) && memcmp(header->json.text, text, header->json.length) == 0;
}

/* A copy of the reader's text, which must be a C string. */
static int copy_text(struct header *header, const char *what, const char **ret_text, struct ck_error *err) {
    const char *text;

    if (memchr(header->json.text, 0, header->json.length))
        return ck_error_set(err, CK_E_HEADER_CORRUPT, header->json.text,
                            "the safetensors header is damaged: %s holds a NUL byte", what);
    text = ck_arena_copy(&header->out.arena, header->json.text, header->json.length);
    if (!text)
        return no_memory(header, header->json.length, err);
    *ret_text = text;
    return 0;
}

static int read_dtype(struct header *header, struct ck_safetensors_entry *entry, struct fields *fields,
                      struct ck_error *err) {
    enum ck_dtype dtype;
    int r;

    r = expect(header, CK_JSON_STRING, entry->name, "dtype", err);
    if (r < 0)
        return r;
    if (!memchr(header->json.text, 0, header->json.length) && ck_dtype_from_safetensors(header->json.text, &dtype)) {
        entry->dtype = dtype;
        fields->bits = ck_dtype_row(dtype)->size * 8u;
        return 0;
    }
    for (size_t i = 0; i < CK_ARRAY_LEN(foreign_dtypes); i++) {
        if (!text_is(header, foreign_dtypes[i].name))
            continue;
        fields->bits = foreign_dtypes[i].bits;
        entry->error = ck_arena_printf(&header->out.arena, "tensors of dtype %s are not read", foreign_dtypes[i].name);
        return entry->error ? 0 : no_memory(header, 64, err);
    }
    return ck_error_set(err, CK_E_HEADER_CORRUPT, entry->name,
                        "the safetensors header is damaged: \"%.32s\" is no dtype of the format", header->json.text);
}

/* An array of plain integers. Returns their number, at most `most`, or a negative code; one more than `most` if there
 * are more. */
static int64_t read_integers(struct header *header, const char *where, const char *what, uint64_t *values,
                             uint32_t most, struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    uint32_t n = 0;
    int r;

    r = expect(header, CK_JSON_ARRAY_BEGIN, where, what, err);
    if (r < 0)
        return r;
    for (;;) {
        r = ck_json_next(&header->json, &event, err);
        if (r < 0)
            return r;
        if (event == CK_JSON_ARRAY_END)
            return n;
        if (event != CK_JSON_NUMBER || !header->json.is_u64)
            return ck_error_set(err, CK_E_HEADER_CORRUPT, where,
                                "the safetensors header is damaged: %s holds %s that is no plain integer below 2^64",
                                what, ck_json_event_name(event));
        if (n == most)
            return (int64_t)most + 1;
        values[n++] = header->json.u64;
    }
}

#define DIMS_MOST 1024u /* of the setting: the dimensions are collected on the stack */

static int read_shape(struct header *header, struct ck_safetensors_entry *entry, struct ck_error *err) {
    uint64_t dims[DIMS_MOST];
    uint32_t most = (uint32_t)CK_MIN(header->limits->dims, DIMS_MOST);
    int64_t *shape, n;

    n = read_integers(header, entry->name, "shape", dims, most, err);
    if (n < 0)
        return (int)n;
    if (n > most)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, entry->name,
                            "the tensor has more than %u dimensions (--limit-dims)", most);
    shape = ck_arena_alloc_array(&header->out.arena, (size_t)n, sizeof(*shape));
    if (!shape)
        return no_memory(header, (size_t)n * sizeof(*shape), err);
    for (int64_t i = 0; i < n; i++) {
        if (dims[i] > INT64_MAX)
            return corrupt(err, entry->name, "a dimension is 2^63 or more");
        shape[i] = (int64_t)dims[i];
    }
    entry->shape = shape;
    entry->rank = (uint32_t)n;
    return 0;
}

static int read_offsets(struct header *header, const struct ck_safetensors_entry *entry, struct fields *fields,
                        struct ck_error *err) {
    uint64_t offsets[2] = {0};
    int64_t n;

    n = read_integers(header, entry->name, "data_offsets", offsets, 2, err);
    if (n < 0)
        return (int)n;
    if (n != 2)
        return corrupt(err, entry->name, "data_offsets must be two numbers, begin and end");
    if (offsets[0] > offsets[1])
        return corrupt(err, entry->name, "data_offsets end before they begin");
    fields->begin = offsets[0];
    fields->end = offsets[1];
    return 0;
}

/* The key that was just read, with its value. Fields that the format does not know are passed over, as the reference
 * reader does. */
static int read_field(struct header *header, struct ck_safetensors_entry *entry, struct fields *fields,
                      struct ck_error *err) {
    bool *seen = text_is(header, "dtype")          ? &fields->has_dtype
                 : text_is(header, "shape")        ? &fields->has_shape
                 : text_is(header, "data_offsets") ? &fields->has_offsets
                                                   : NULL;

    if (!seen)
        return ck_json_skip(&header->json, err);
    if (*seen)
        return ck_error_set(err, CK_E_HEADER_CORRUPT, entry->name,
                            "the safetensors header is damaged: the tensor has the field %s twice", header->json.text);
    *seen = true;
    if (seen == &fields->has_dtype)
        return read_dtype(header, entry, fields, err);
    if (seen == &fields->has_shape)
        return read_shape(header, entry, err);
    return read_offsets(header, entry, fields, err);
}

/* data_offsets must say what dtype and shape say. */
static int check_size(const struct ck_safetensors_entry *entry, const struct fields *fields, struct ck_error *err) {
    uint64_t elements = 1, bits = 0;

    for (uint32_t i = 0; i < entry->rank; i++)
        if (!ck_mul_u64(elements, (uint64_t)entry->shape[i], &elements))
            return corrupt(err, entry->name, "the number of elements exceeds 64 bits");
    if (!ck_mul_u64(elements, fields->bits, &bits))
        return corrupt(err, entry->name, "the number of bytes exceeds 64 bits");
    if (bits % 8 != 0)
        return corrupt(err, entry->name, "the tensor does not fill its last byte");
    if (bits / 8 != fields->end - fields->begin)
        return ck_error_set(
            err, CK_E_HEADER_CORRUPT, entry->name,
            "the safetensors header is damaged: dtype and shape need %llu bytes, data_offsets give %llu",
            (unsigned long long)(bits / 8), (unsigned long long)(fields->end - fields->begin));
    return 0;
}

static int read_fields(struct header *header, struct ck_safetensors_entry *entry, struct fields *fields,
                       struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    int r;

    r = expect(header, CK_JSON_OBJECT_BEGIN, entry->name, "a tensor", err);
    if (r < 0)
        return r;
    for (;;) {
        r = ck_json_next(&header->json, &event, err);
        if (r < 0)
            return r;
        if (event == CK_JSON_OBJECT_END)
            return 0;
        r = read_field(header, entry, fields, err);
        if (r < 0)
            return r;
    }
}

/* The tensor whose name was just read. offset is relative to the data section until check_layout(). */
static int read_tensor(struct header *header, struct ck_error *err) {
    struct ck_safetensors *out = &header->out;
    struct ck_safetensors_entry entry = {.dtype = CK_DTYPE_END_};
    struct fields fields = {0};
    int r;

    if (out->count >= header->limits->tensors)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL, "the file has more than %llu tensors (--limit-tensors)",
                            (unsigned long long)header->limits->tensors);
    r = copy_text(header, "the name of a tensor", &entry.name, err);
    if (r < 0)
        return r;
    r = read_fields(header, &entry, &fields, err);
    if (r < 0)
        return r;
    if (!fields.has_dtype || !fields.has_shape || !fields.has_offsets)
        return corrupt(err, entry.name, "the tensor lacks one of dtype, shape and data_offsets");
    r = check_size(&entry, &fields, err);
    if (r < 0)
        return r;
    r = grow((void **)&out->entries, &header->entries_capacity, out->count, sizeof(entry), err);
    if (r < 0)
        return r;
    entry.offset = fields.begin;
    entry.bytes = fields.end - fields.begin;
    out->entries[out->count++] = entry;
    return 0;
}

static int read_pair(struct header *header, struct ck_error *err) {
    struct ck_safetensors *out = &header->out;
    struct ck_safetensors_pair pair = {0};
    int r;

    r = copy_text(header, "a metadata key", &pair.key, err);
    if (r < 0)
        return r;
    r = expect(header, CK_JSON_STRING, pair.key, "metadata", err);
    if (r < 0)
        return r;
    r = copy_text(header, "a metadata value", &pair.value, err);
    if (r < 0)
        return r;
    /* No setting of its own: more pairs than tensors may be is no metadata. */
    if (out->n_metadata >= header->limits->tensors)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL, "the file has more than %llu metadata keys (--limit-tensors)",
                            (unsigned long long)header->limits->tensors);
    r = grow((void **)&out->metadata, &header->metadata_capacity, out->n_metadata, sizeof(pair), err);
    if (r < 0)
        return r;
    out->metadata[out->n_metadata++] = pair;
    return 0;
}

static int read_metadata(struct header *header, struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    int r;

    if (header->metadata_seen)
        return corrupt(err, "__metadata__", "the key __metadata__ comes twice");
    header->metadata_seen = true;
    r = ck_json_next(&header->json, &event, err);
    if (r < 0)
        return r;
    /* mx.save_safetensors writes null where it has no metadata. */
    if (event == CK_JSON_NULL)
        return 0;
    if (event != CK_JSON_OBJECT_BEGIN)
        return corrupt(err, "__metadata__", "__metadata__ must be an object of texts");
    for (;;) {
        r = ck_json_next(&header->json, &event, err);
        if (r < 0)
            return r;
        if (event == CK_JSON_OBJECT_END)
            return 0;
        r = read_pair(header, err);
        if (r < 0)
            return r;
    }
}

static int read_json(struct header *header, struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    int r;

    r = expect(header, CK_JSON_OBJECT_BEGIN, NULL, "the header", err);
    if (r < 0)
        return r;
    for (;;) {
        r = ck_json_next(&header->json, &event, err);
        if (r < 0)
            return r;
        if (event == CK_JSON_OBJECT_END)
            return expect(header, CK_JSON_END, NULL, "what follows the tensors", err);
        r = text_is(header, "__metadata__") ? read_metadata(header, err) : read_tensor(header, err);
        if (r < 0)
            return r;
    }
}

static int compare_places(const void *a, const void *b) {
    const struct ck_safetensors_entry *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Back to back from 0 to the end of the file. Afterwards the offsets count from the start of the source. */
static int check_layout(struct header *header, struct ck_error *err) {
    struct ck_safetensors *out = &header->out;
    uint64_t end = 0;

    if (out->count > 0)
        qsort(out->entries, out->count, sizeof(*out->entries), compare_places);
    for (uint32_t i = 0; i < out->count; i++) {
        struct ck_safetensors_entry *entry = &out->entries[i];

        if (entry->offset != end)
            return ck_error_set(
                err, CK_E_HEADER_CORRUPT, entry->name,
                "the safetensors header is damaged: the tensor begins at byte %llu of the data, %s byte "
                "%llu where the one before it ends",
                (unsigned long long)entry->offset, entry->offset < end ? "before" : "behind", (unsigned long long)end);
        end = entry->offset + entry->bytes;
    }
    if (end > header->data_bytes)
        return ck_error_set(err, CK_E_TRUNCATED, NULL,
                            "the file is cut off: its tensors need %llu bytes, %llu are there, %llu are missing",
                            (unsigned long long)end, (unsigned long long)header->data_bytes,
                            (unsigned long long)(end - header->data_bytes));
    if (end < header->data_bytes)
        return ck_error_set(err, CK_E_HEADER_CORRUPT, NULL,
                            "the safetensors header is damaged: %llu bytes behind the last tensor belong to none",
                            (unsigned long long)(header->data_bytes - end));
    for (uint32_t i = 0; i < out->count; i++)
        out->entries[i].offset += out->data_start;
    return 0;
}

static int compare_entry_names(const void *a, const void *b, void *entries) {
    const struct ck_safetensors_entry *all = entries;

    return strcmp(all[*(const uint32_t *)a].name, all[*(const uint32_t *)b].name);
}

static int check_names(struct ck_safetensors *out, struct ck_error *err) {
    out->by_name = calloc(CK_MAX(out->count, 1u), sizeof(*out->by_name));
    if (!out->by_name)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the safetensors header");
    for (uint32_t i = 0; i < out->count; i++)
        out->by_name[i] = i;
    qsort_r(out->by_name, out->count, sizeof(*out->by_name), compare_entry_names, out->entries);
    for (uint32_t i = 1; i < out->count; i++)
        if (compare_entry_names(&out->by_name[i - 1], &out->by_name[i], out->entries) == 0)
            return corrupt(err, out->entries[out->by_name[i]].name, "two tensors have this name");
    return 0;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_metadata_keys(const struct ck_safetensors *out, struct ck_error *err) {
    _cleanup_(ck_freep) const char **keys = calloc(CK_MAX(out->n_metadata, 1u), sizeof(*keys));

    if (!keys)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the safetensors header");
    for (uint32_t i = 0; i < out->n_metadata; i++)
        keys[i] = out->metadata[i].key;
    qsort(keys, out->n_metadata, sizeof(*keys), compare_keys);
    for (uint32_t i = 1; i < out->n_metadata; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            return corrupt(err, keys[i], "__metadata__ has this key twice");
    return 0;
}

/* The length field: what it leaves for the header and the data. */
static int read_length(const struct ck_source *source, const struct ck_limits *limits, uint64_t *ret_length,
                       struct ck_error *err) {
    uint8_t bytes[8];
    uint64_t length = 0;
    int r;

    if (source->length == 0)
        return ck_error_set(err, CK_E_EMPTY_FILE, NULL, "the file is empty");
    if (source->length < sizeof(bytes))
        return ck_error_set(err, CK_E_TRUNCATED, NULL, "the file has %llu bytes, too few for a safetensors header",
                            (unsigned long long)source->length);
    r = ck_source_read(source, 0, bytes, sizeof(bytes), err);
    if (r < 0)
        return r;
    for (size_t i = sizeof(bytes); i-- > 0;)
        length = length << 8 | bytes[i];
    if (length > source->length - sizeof(bytes))
        return ck_error_set(
            err, CK_E_TRUNCATED, NULL,
            "the safetensors header should have %llu bytes, but the file ends after %llu of them: %llu are "
            "missing",
            (unsigned long long)length, (unsigned long long)(source->length - sizeof(bytes)),
            (unsigned long long)(length - (source->length - sizeof(bytes))));
    if (length > limits->header_bytes)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "the safetensors header has %llu bytes, more than %llu (--limit-header-bytes)",
                            (unsigned long long)length, (unsigned long long)limits->header_bytes);
    *ret_length = length;
    return 0;
}

/* The format wants the object at once, without leading white space, so that files can be told by their ninth byte. */
static int check_first_byte(const struct ck_source *json, struct ck_error *err) {
    char first;
    int r;

    if (json->length == 0)
        return corrupt(err, NULL, "it has no byte");
    r = ck_source_read(json, 0, &first, 1, err);
    if (r < 0)
        return r;
    return first == '{' ? 0 : corrupt(err, NULL, "it does not begin with {");
}

int ck_safetensors_open(const struct ck_source *source, const struct ck_limits *limits, struct ck_safetensors *ret,
                        struct ck_error *err) {
    _cleanup_(header_release) struct header header = {.limits = limits};
    struct ck_source json;
    uint64_t length = 0;
    int r;

    r = read_length(source, limits, &length, err);
    if (r < 0)
        return r;
    r = ck_source_part(source, 8, length, &json, err);
    if (r < 0)
        return r;
    r = check_first_byte(&json, err);
    if (r < 0)
        return r;
    ck_arena_init(&header.out.arena, (size_t)CK_MIN(limits->model_memory, SIZE_MAX));
    header.out.data_start = 8 + length;
    header.data_bytes = source->length - header.out.data_start;
    r = ck_json_reader_init(&header.json, &json, STRING_LIMIT, CK_E_HEADER_CORRUPT, err);
    if (r < 0)
        return r;
    r = read_json(&header, err);
    if (r < 0)
        return r;
    r = check_layout(&header, err);
    if (r < 0)
        return r;
    r = check_names(&header.out, err);
    if (r < 0)
        return r;
    r = check_metadata_keys(&header.out, err);
    if (r < 0)
        return r;
    *ret = header.out;
    header.out = (struct ck_safetensors){0};
    return 0;
}

const struct ck_safetensors_entry *ck_safetensors_find(const struct ck_safetensors *file, const char *name) {
    uint32_t low = 0, high = file->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct ck_safetensors_entry *entry = &file->entries[file->by_name[middle]];
        int order = strcmp(name, entry->name);

        if (order == 0)
            return entry;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *ck_safetensors_metadata(const struct ck_safetensors *file, const char *key) {
    for (uint32_t i = 0; i < file->n_metadata; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    return NULL;
}

void ck_safetensors_release(struct ck_safetensors *file) {
    ck_arena_release(&file->arena);
    free(file->entries);
    free(file->by_name);
    free(file->metadata);
    *file = (struct ck_safetensors){0};
}
