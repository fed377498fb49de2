#include "server/work/protocol.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_write.h"
#include "core/job/spec_json.h"

static void decref(json_t **value) {
    json_decref(*value);
}

/* ---- the order ---- */

static void write_spec(const struct ck_order *order, struct ck_json *json) {
    ck_json_key(json, "spec");
    ck_json_object_begin(json);
    ck_json_key_string(json, "kind", ck_job_kind_name(order->spec->kind));
    if (order->spec->dry_run)
        ck_json_key_bool(json, "dry_run", true);
    ck_json_key(json, "inputs");
    ck_json_array_begin(json);
    ck_json_object_begin(json);
    ck_json_key_string(json, "role", "model");
    ck_json_key_string(json, "name", order->input_name);
    ck_json_object_end(json);
    ck_json_array_end(json);
    ck_json_key_string(json, "to", order->spec->target);
    ck_json_key_string(json, "quant", order->spec->quant);
    ck_json_key(json, "options");
    ck_json_object_begin(json);
    for (size_t i = 0; ck_job_options[i].name; i++)
        if (order->spec->values[i])
            ck_json_key_string(json, ck_job_options[i].name, order->spec->values[i]);
    ck_json_object_end(json);
    ck_json_object_end(json);
}

int ck_order_write(const struct ck_order *order, struct ck_buffer *buffer, struct ck_error *err) {
    struct ck_json json;

    ck_json_init(&json, ck_json_sink_buffer, buffer, err);
    ck_json_object_begin(&json);
    ck_json_key_u64(&json, "v", CK_PROTOCOL_VERSION);
    ck_json_key_string(&json, "job", order->job);
    write_spec(order, &json);
    ck_json_key(&json, "limits");
    ck_json_object_begin(&json);
    ck_json_key_u64(&json, "memory", order->memory);
    ck_json_key_u64(&json, "cpu", order->cpu);
#define X(name, value, what) ck_json_key_u64(&json, #name, order->limits.name);
    CK_LIMITS(X)
#undef X
    ck_json_object_end(&json);
    ck_json_key_u64(&json, "threads", order->threads);
    ck_json_key_u64(&json, "outputs", order->outputs);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    return ck_json_finish(&json);
}

static bool get_u64(const json_t *object, const char *key, uint64_t *ret_value) {
    const json_t *value = json_object_get(object, key);

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *ret_value = (uint64_t)json_integer_value(value);
    return true;
}

static bool get_text(const json_t *object, const char *key, char *text, size_t size) {
    const char *value = json_string_value(json_object_get(object, key));

    if (!value || strlen(value) >= size)
        return false;
    memcpy(text, value, strlen(value) + 1);
    return true;
}

static int bad_order(struct ck_error *err) {
    return ck_error_set(err, CK_E_INTERNAL, NULL, "the worker was given no valid order");
}

static int read_spec(const json_t *object, struct ck_order *order, struct ck_error *err) {
    const json_t *input = json_array_get(json_object_get(object, "inputs"), 0);
    const char *name = json_string_value(json_object_get(input, "name"));

    if (!name)
        return bad_order(err);
    order->input_name = order->input_name_memory = strdup(name);
    if (!order->input_name)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the order");
    order->spec = &order->spec_memory;
    return ck_spec_from_json(object, &order->spec_memory, err);
}

static bool read_limits(const json_t *object, struct ck_order *order) {
    bool ok = get_u64(object, "memory", &order->memory) && get_u64(object, "cpu", &order->cpu);

#define X(name, value, what) ok = ok && get_u64(object, #name, &order->limits.name);
    CK_LIMITS(X)
#undef X
    return ok;
}

int ck_order_read(const char *text, size_t n, struct ck_order *ret_order, struct ck_error *err) {
    _cleanup_(decref) json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    uint64_t version;
    int r;

    *ret_order = (struct ck_order){0};
    if (!root || !get_u64(root, "v", &version) || version != CK_PROTOCOL_VERSION ||
        !get_text(root, "job", ret_order->job, sizeof(ret_order->job)) ||
        !read_limits(json_object_get(root, "limits"), ret_order) || !get_u64(root, "threads", &ret_order->threads) ||
        !get_u64(root, "outputs", &ret_order->outputs) || ret_order->outputs > CK_WORKER_OUTPUTS_MAX ||
        ret_order->threads < 1)
        return bad_order(err);
    r = read_spec(json_object_get(root, "spec"), ret_order, err);
    if (r < 0)
        ck_order_release(ret_order);
    return r;
}

void ck_order_release(struct ck_order *order) {
    ck_spec_release(&order->spec_memory);
    free(order->input_name_memory);
    *order = (struct ck_order){0};
}

/* ---- events, as the worker writes them ---- */

int ck_event_write_progress(enum ck_stage stage, uint64_t done, uint64_t total, struct ck_buffer *buffer) {
    struct ck_json json;

    ck_json_init(&json, ck_json_sink_buffer, buffer, NULL);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "event", "progress");
    ck_json_key_string(&json, "stage", ck_stage_name(stage));
    ck_json_key_u64(&json, "done", done);
    ck_json_key_u64(&json, "total", total);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    return ck_json_finish(&json);
}

static void write_files(const struct ck_job_result *result, struct ck_json *json) {
    ck_json_key(json, "files");
    ck_json_array_begin(json);
    for (size_t i = 0; i < result->n_files; i++) {
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", result->files[i].name);
        ck_json_key_u64(json, "bytes", result->files[i].bytes);
        ck_json_key_u64(json, "crc32", result->files[i].crc32);
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
}

int ck_event_write_done(const struct ck_job_result *result, struct ck_buffer *buffer) {
    struct ck_json json;

    ck_json_init(&json, ck_json_sink_buffer, buffer, NULL);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "event", "done");
    write_files(result, &json);
    ck_json_key_u64(&json, "tensors", result->tensors);
    ck_json_key_u64(&json, "assumed", result->assumed);
    ck_json_key_u64(&json, "dropped", result->dropped);
    ck_json_key_u64(&json, "aliases", result->aliases);
    ck_json_key_u64(&json, "overflowed", CK_MIN(result->overflowed, (uint64_t)INT64_MAX));
    ck_json_object_end(&json);
    ck_json_newline(&json);
    return ck_json_finish(&json);
}

int ck_event_write_error(const struct ck_error *error, const struct ck_job_result *result, struct ck_buffer *buffer) {
    _cleanup_(decref) json_t *details = error->details[0] ? json_loads(error->details, JSON_DECODE_ANY, NULL) : NULL;
    struct ck_json json;

    ck_json_init(&json, ck_json_sink_buffer, buffer, NULL);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "event", "error");
    ck_json_key_string(&json, "code", ck_error_row(error->code)->name);
    ck_json_key_string(&json, "where", error->where);
    ck_json_key_string(&json, "detail", error->message);
    ck_json_key_string(&json, "hint", error->hint);
    /* Text that was cut at its bound is no JSON any more, and would spoil the line. */
    if (details) {
        ck_json_key(&json, "details");
        ck_json_raw(&json, error->details);
    }
    write_files(result, &json);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    return ck_json_finish(&json);
}

/* ---- events, as the daemon believes them ---- */

static bool is_file_name(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    return name[0] && name[0] != '.' && strspn(name, allowed) == strlen(name);
}

static bool read_file(const json_t *object, struct ck_job_file *file) {
    uint64_t crc;

    if (!get_text(object, "name", file->name, sizeof(file->name)) || !is_file_name(file->name) ||
        !get_u64(object, "bytes", &file->bytes) || !get_u64(object, "crc32", &crc) || crc > UINT32_MAX)
        return false;
    file->crc32 = (uint32_t)crc;
    return true;
}

static bool read_files(const json_t *array, size_t outputs, struct ck_job_result *result) {
    size_t n = json_array_size(array);

    if (n > outputs || !json_is_array(array))
        return false;
    result->files = calloc(n + 1, sizeof(*result->files));
    if (!result->files)
        return false;
    for (; result->n_files < n; result->n_files++) {
        struct ck_job_file *file = &result->files[result->n_files];

        if (!read_file(json_array_get(array, result->n_files), file))
            return false;
        for (size_t i = 0; i < result->n_files; i++)
            if (strcmp(result->files[i].name, file->name) == 0)
                return false;
    }
    return true;
}

static bool get_u32(const json_t *object, const char *key, uint32_t *ret_value) {
    uint64_t value;

    if (!get_u64(object, key, &value) || value > UINT32_MAX)
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

static bool read_done(const json_t *root, size_t outputs, struct ck_job_result *result) {
    return read_files(json_object_get(root, "files"), outputs, result) && result->n_files > 0 &&
           get_u32(root, "tensors", &result->tensors) && get_u32(root, "assumed", &result->assumed) &&
           get_u32(root, "dropped", &result->dropped) && get_u32(root, "aliases", &result->aliases) &&
           get_u64(root, "overflowed", &result->overflowed);
}

/* A worker has no say about connections, queues or the daemon itself. */
static bool may_report(int code) {
    switch (ck_error_row(code)->class_) {
    case CK_CLASS_document:
    case CK_CLASS_limit:
    case CK_CLASS_server:
        return true;
    case CK_CLASS_request:
        return code == CK_E_BAD_OPTION || code == CK_E_BAD_RULE || code == CK_E_UNSUPPORTED_TARGET ||
               code == CK_E_UNSUPPORTED_QUANT;
    default:
        return false;
    }
}

/* Cuts what is too long: a hostile name grows when its bytes are escaped, and must not turn a refusal into a crash. */
static bool copy_text(const json_t *object, const char *key, char *text, size_t size) {
    const char *value = json_string_value(json_object_get(object, key));

    if (value)
        snprintf(text, size, "%s", value);
    return value != NULL;
}

static bool read_error(const json_t *root, struct ck_error *error) {
    const char *name = json_string_value(json_object_get(root, "code"));
    const json_t *details = json_object_get(root, "details");
    int code = name ? ck_error_by_name(name) : 0;

    if (code == 0 || !may_report(code) || !copy_text(root, "where", error->where, sizeof(error->where)) ||
        !copy_text(root, "detail", error->message, sizeof(error->message)) ||
        !copy_text(root, "hint", error->hint, sizeof(error->hint)))
        return false;
    error->code = code;
    if (details) {
        size_t n = json_dumpb(details, error->details, sizeof(error->details) - 1, JSON_COMPACT | JSON_ENCODE_ANY);

        error->details[n < sizeof(error->details) ? n : 0] = 0;
    }
    return true;
}

static bool read_progress(const json_t *root, struct ck_event *event) {
    const char *stage = json_string_value(json_object_get(root, "stage"));

    for (int i = 0; stage && i < CK_STAGE_END_; i++) {
        if (strcmp(stage, ck_stage_name((enum ck_stage)i)) == 0) {
            event->stage = (enum ck_stage)i;
            return get_u64(root, "done", &event->done) && get_u64(root, "total", &event->total);
        }
    }
    return false;
}

int ck_event_read(const char *line, size_t n, size_t outputs, struct ck_event *ret_event, struct ck_error *err) {
    _cleanup_(decref) json_t *root = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
    const char *kind = json_string_value(json_object_get(root, "event"));
    bool ok = false;

    *ret_event = (struct ck_event){0};
    if (kind && strcmp(kind, "progress") == 0) {
        ret_event->kind = CK_EVENT_PROGRESS;
        ok = read_progress(root, ret_event);
    } else if (kind && strcmp(kind, "done") == 0) {
        ret_event->kind = CK_EVENT_DONE;
        ok = read_done(root, outputs, &ret_event->result);
    } else if (kind && strcmp(kind, "error") == 0) {
        ret_event->kind = CK_EVENT_ERROR;
        ok = read_error(root, &ret_event->error) &&
             read_files(json_object_get(root, "files"), outputs, &ret_event->result);
    }
    if (ok)
        return 0;
    ck_event_release(ret_event);
    return ck_error_set(err, CK_E_WORKER_CRASHED, NULL, "the worker process said something that no worker says");
}

void ck_event_release(struct ck_event *event) {
    free(event->result.files);
    event->result = (struct ck_job_result){0};
}
