#include "core/model/payload_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_read.h"

#define TEXT_MAX ((size_t)1 << 16) /* bytes of a name or a number */

struct reading {
    struct ck_json_reader json;
    const char *entry;
    const struct ck_limits *limits;
    struct ck_payload payload;
    char path[TEXT_MAX + 1];
};

static void reading_freep(struct reading **reading) {
    if (*reading)
        ck_json_reader_release(&(*reading)->json);
    free(*reading);
}

static int unexpected(const struct reading *reading, enum ck_json_event event, const char *wanted,
                      struct ck_error *err) {
    return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, reading->entry, "byte %" PRIu64 " holds %s, where %s is expected",
                        reading->json.offset, ck_json_event_name(event), wanted);
}

static int expect(struct reading *reading, enum ck_json_event wanted, const char *what, struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    int r = ck_json_next(&reading->json, &event, err);

    return r < 0 || event == wanted ? r : unexpected(reading, event, what, err);
}

/* The next key of an object; *ret_more false at its end. */
static int next_key(struct reading *reading, bool *ret_more, struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    int r = ck_json_next(&reading->json, &event, err);

    *ret_more = event == CK_JSON_KEY;
    return r < 0 || event == CK_JSON_KEY || event == CK_JSON_OBJECT_END ? r : unexpected(reading, event, "a key", err);
}

static bool key_is(const struct reading *reading, const char *key) {
    return strcmp(reading->json.text, key) == 0;
}

static int read_bool(struct reading *reading, bool *ret_value, struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    int r = ck_json_next(&reading->json, &event, err);

    *ret_value = event == CK_JSON_TRUE;
    return r < 0 || event == CK_JSON_TRUE || event == CK_JSON_FALSE ? r
                                                                    : unexpected(reading, event, "true or false", err);
}

static int read_u64(struct reading *reading, uint64_t *ret_value, struct ck_error *err) {
    int r = expect(reading, CK_JSON_NUMBER, "a number", err);

    if (r < 0)
        return r;
    *ret_value = reading->json.u64;
    if (!reading->json.is_u64)
        reading->payload.problem = "a number in it is no natural number";
    return 0;
}

/* {"as_int": 8}, whose { was read. The other kind is a formula. */
static int read_size(struct reading *reading, uint64_t *ret_value, struct ck_error *err) {
    bool more, known = false;
    int r;

    for (;;) {
        r = next_key(reading, &more, err);
        if (r < 0 || !more)
            break;
        known = known || key_is(reading, "as_int");
        r = key_is(reading, "as_int") ? read_u64(reading, ret_value, err) : ck_json_skip(&reading->json, err);
        if (r < 0)
            return r;
    }
    if (r == 0 && (!known || *ret_value > INT64_MAX))
        reading->payload.problem = "a size in it is not an integer";
    return r;
}

static int read_sizes(struct reading *reading, int64_t *sizes, uint32_t *ret_count, struct ck_error *err) {
    uint32_t n = 0;
    int r = expect(reading, CK_JSON_ARRAY_BEGIN, "an array", err);

    while (r == 0) {
        enum ck_json_event event = CK_JSON_END;
        uint64_t size = 0;

        r = ck_json_next(&reading->json, &event, err);
        if (r < 0 || event == CK_JSON_ARRAY_END)
            break;
        if (event != CK_JSON_OBJECT_BEGIN)
            return unexpected(reading, event, "an object", err);
        if (n >= reading->limits->dims || n >= CK_RANK_MAX)
            return ck_error_set(err, CK_E_TENSOR_LIMIT, reading->entry,
                                "'%.200s' has more than %" PRIu64 " dimensions (--limit-dims)", reading->payload.name,
                                CK_MIN(reading->limits->dims, (uint64_t)CK_RANK_MAX));
        r = read_size(reading, &size, err);
        sizes[n++] = (int64_t)CK_MIN(size, (uint64_t)INT64_MAX);
    }
    *ret_count = n;
    return r;
}

static int read_offset(struct reading *reading, struct ck_error *err) {
    int r = expect(reading, CK_JSON_OBJECT_BEGIN, "an object", err);

    return r < 0 ? r : read_size(reading, &reading->payload.offset, err);
}

static int read_meta_member(struct reading *reading, struct ck_error *err) {
    struct ck_payload *payload = &reading->payload;

    if (key_is(reading, "dtype"))
        return read_u64(reading, &payload->dtype, err);
    if (key_is(reading, "layout"))
        return read_u64(reading, &payload->layout, err);
    if (key_is(reading, "sizes"))
        return read_sizes(reading, payload->sizes, &payload->n_sizes, err);
    if (key_is(reading, "strides"))
        return read_sizes(reading, payload->strides, &payload->n_strides, err);
    if (key_is(reading, "storage_offset"))
        return read_offset(reading, err);
    return ck_json_skip(&reading->json, err);
}

/* An object, or null. */
static int read_meta(struct reading *reading, struct ck_error *err) {
    enum ck_json_event event = CK_JSON_END;
    bool more;
    int r = ck_json_next(&reading->json, &event, err);

    if (r < 0 || event == CK_JSON_NULL)
        return r;
    if (event != CK_JSON_OBJECT_BEGIN)
        return unexpected(reading, event, "an object or null", err);
    reading->payload.described = true;
    for (;;) {
        r = next_key(reading, &more, err);
        if (r < 0 || !more)
            return r;
        r = read_meta_member(reading, err);
        if (r < 0)
            return r;
    }
}

static int read_path(struct reading *reading, struct ck_error *err) {
    int r = expect(reading, CK_JSON_STRING, "a string", err);

    if (r < 0)
        return r;
    if (strlen(reading->json.text) != reading->json.length)
        return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, reading->entry, "the path of '%.200s' holds a zero byte",
                            reading->payload.name);
    memcpy(reading->path, reading->json.text, reading->json.length + 1);
    reading->payload.path = reading->path;
    return 0;
}

static int read_member(struct reading *reading, struct ck_error *err) {
    if (key_is(reading, "path_name"))
        return read_path(reading, err);
    if (key_is(reading, "is_param"))
        return read_bool(reading, &reading->payload.parameter, err);
    if (key_is(reading, "use_pickle"))
        return read_bool(reading, &reading->payload.pickled, err);
    if (key_is(reading, "tensor_meta"))
        return read_meta(reading, err);
    return ck_json_skip(&reading->json, err);
}

static int read_payload(struct reading *reading, struct ck_error *err) {
    bool more;
    int r = expect(reading, CK_JSON_OBJECT_BEGIN, "an object", err);

    while (r == 0) {
        r = next_key(reading, &more, err);
        if (r < 0 || !more)
            break;
        r = read_member(reading, err);
    }
    if (r == 0 && !reading->payload.path)
        return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, reading->entry, "'%.200s' has no path_name",
                            reading->payload.name);
    return r;
}

static int read_payloads(struct reading *reading, ck_payload_fn each, void *ctx, struct ck_error *err) {
    int r = expect(reading, CK_JSON_OBJECT_BEGIN, "an object", err);

    while (r == 0) {
        _cleanup_(ck_freep) char *name = NULL;
        bool more;

        r = next_key(reading, &more, err);
        if (r < 0 || !more)
            break;
        if (strlen(reading->json.text) != reading->json.length)
            return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, reading->entry, "the name '%.200s' holds a zero byte",
                                reading->json.text);
        name = strdup(reading->json.text);
        if (!name)
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, reading->entry, "no memory for a name");
        reading->payload = (struct ck_payload){.name = name, .layout = CK_PAYLOAD_STRIDED};
        r = read_payload(reading, err);
        if (r == 0)
            r = each(ctx, &reading->payload, err);
    }
    return r;
}

int ck_payload_config_read(const struct ck_source *source, const char *entry, const struct ck_limits *limits,
                           ck_payload_fn each, void *ctx, struct ck_error *err) {
    _cleanup_(reading_freep) struct reading *reading = calloc(1, sizeof(*reading));
    bool more;
    int r;

    if (!reading)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, entry, "no memory for the configuration");
    reading->entry = entry;
    reading->limits = limits;
    r = ck_json_reader_init(&reading->json, source, TEXT_MAX, CK_E_ARCHIVE_CORRUPT, err);
    if (r == 0)
        r = expect(reading, CK_JSON_OBJECT_BEGIN, "an object", err);
    while (r == 0) {
        r = next_key(reading, &more, err);
        if (r < 0)
            return r;
        if (!more)
            return expect(reading, CK_JSON_END, "the end", err);
        r = key_is(reading, "config") ? read_payloads(reading, each, ctx, err) : ck_json_skip(&reading->json, err);
    }
    return r;
}

static const struct {
    uint8_t number;
    enum ck_dtype dtype;
} dtypes[] = {
    {1, CK_U8},       {2, CK_I8},   {3, CK_I16},      {4, CK_I32},      {5, CK_I64},          {6, CK_F16},
    {7, CK_F32},      {8, CK_F64},  {9, CK_C32},      {10, CK_C64},     {11, CK_C128},        {12, CK_BOOL},
    {13, CK_BF16},    {28, CK_U16}, {29, CK_F8_E4M3}, {30, CK_F8_E5M2}, {31, CK_F8_E4M3FNUZ}, {32, CK_F8_E5M2FNUZ},
    {33, CK_F8_E8M0}, {34, CK_U32}, {35, CK_U64},
};

bool ck_payload_dtype(uint64_t number, enum ck_dtype *ret_dtype) {
    for (size_t i = 0; i < CK_ARRAY_LEN(dtypes); i++)
        if (dtypes[i].number == number) {
            *ret_dtype = dtypes[i].dtype;
            return true;
        }
    return false;
}

const char *ck_payload_layout(uint64_t number) {
    static const char *const names[] = {"unknown",    "sparse COO", "sparse CSR", "sparse CSC",
                                        "sparse BSR", "sparse BSC", "mkldnn"};

    if (number == CK_PAYLOAD_STRIDED)
        return NULL;
    return number < CK_ARRAY_LEN(names) ? names[number] : names[0];
}
