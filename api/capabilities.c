#include "api/capabilities.h"

#include <stdio.h>
#include <string.h>

#include "api/conditions.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/repr_digest.h"
#include "core/base/json_write.h"
#include "core/base/version.h"
#include "core/job/options.h"
#include "core/model/forms.h"

/* ---- what it makes ---- */

static void write_words(struct ck_json *json, const char *key, const char *const *words) {
    ck_json_key(json, key);
    ck_json_array_begin(json);
    for (; *words; words++)
        ck_json_string(json, *words);
    ck_json_array_end(json);
}

static void write_targets(struct ck_json *json) {
    ck_json_key(json, "targets");
    ck_json_array_begin(json);
    for (const char *const *target = ck_targets; *target; target++) {
        bool bare = strcmp(*target, "safetensors") == 0;

        ck_json_object_begin(json);
        ck_json_key_string(json, "name", *target);
        write_words(json, "quants", ck_target_quants(*target));
        ck_json_key_string(json, "media_type", bare ? "application/octet-stream" : "application/zip");
        ck_json_key_string(json, "answer",
                           bare ? "STEM.safetensors, or STEM.safetensors.zip if there are several files"
                                : "STEM.TO[-QUANT].zip");
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
}

static void write_kinds(struct ck_json *json) {
    const char *words[CK_JOB_KIND_END_ + 1] = {NULL};

    for (size_t i = 0; i < CK_JOB_KIND_END_; i++)
        words[i] = ck_job_kind_name((enum ck_job_kind)i);
    write_words(json, "kinds", words);
}

static void write_forms(struct ck_json *json) {
#define X(name, why) name,
    static const char *const forms[] = {CK_FORMS(X) NULL};
#undef X

    write_words(json, "forms", forms);
}

/* ---- options, as JSON Schema 2020-12 ---- */

static bool is_switch(const struct ck_option_row *row) {
    return row->type == CK_OPTION_CHOICE && strcmp(row->values, "true,false") == 0;
}

static void write_choice(struct ck_json *json, const struct ck_option_row *row) {
    const char *word = row->values;

    ck_json_key_string(json, "type", "string");
    ck_json_key(json, "enum");
    ck_json_array_begin(json);
    for (size_t n; *word; word += n, word += *word == ',') {
        n = strcspn(word, ",");
        ck_json_string_n(json, word, n);
    }
    ck_json_array_end(json);
}

static void write_type(struct ck_json *json, const struct ck_option_row *row) {
    switch (row->type) {
    case CK_OPTION_PAIRS:
        ck_json_key(json, "type");
        ck_json_raw(json, "[\"string\",\"object\"]");
        ck_json_key(json, "additionalProperties");
        ck_json_raw(json, "{\"type\":\"string\"}");
        break;
    case CK_OPTION_CHOICE:
        if (is_switch(row))
            ck_json_key_string(json, "type", "boolean");
        else
            write_choice(json, row);
        break;
    case CK_OPTION_TEXT:
        ck_json_key_string(json, "type", "string");
        ck_json_key_u64(json, "maxLength", CK_OPTION_TEXT_MAX);
        break;
    case CK_OPTION_BYTES:
        ck_json_key_string(json, "type", "integer");
        ck_json_key_u64(json, "minimum", strtoull(row->values, NULL, 10));
        ck_json_key_u64(json, "maximum", strtoull(strstr(row->values, "..") + 2, NULL, 10));
        break;
    }
}

static void write_default(struct ck_json *json, const struct ck_option_row *row) {
    if (!row->value_default[0])
        return;
    ck_json_key(json, "default");
    if (is_switch(row) || row->type == CK_OPTION_BYTES)
        ck_json_raw(json, row->value_default);
    else
        ck_json_string(json, row->value_default);
}

/* Which jobs take the option. */
static void write_takers(struct ck_json *json, const struct ck_option_row *row) {
    ck_json_key(json, "x-targets");
    ck_json_array_begin(json);
    for (const char *const *target = ck_targets; *target; target++)
        if (ck_option_fits(row, CK_JOB_CONVERT, *target))
            ck_json_string(json, *target);
    ck_json_array_end(json);
    ck_json_key(json, "x-kinds");
    ck_json_array_begin(json);
    for (size_t i = 0; i < CK_JOB_KIND_END_; i++)
        if (ck_option_fits(row, (enum ck_job_kind)i, ""))
            ck_json_string(json, ck_job_kind_name((enum ck_job_kind)i));
    ck_json_array_end(json);
}

static void write_options(struct ck_json *json) {
    ck_json_key(json, "options");
    ck_json_object_begin(json);
    ck_json_key_string(json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    ck_json_key_string(json, "type", "object");
    ck_json_key_bool(json, "additionalProperties", false);
    ck_json_key(json, "properties");
    ck_json_object_begin(json);
    for (const struct ck_option_row *row = ck_job_options; row->name; row++) {
        ck_json_key(json, row->name);
        ck_json_object_begin(json);
        write_type(json, row);
        write_default(json, row);
        ck_json_key_string(json, "description", row->what);
        write_takers(json, row);
        ck_json_object_end(json);
    }
    ck_json_object_end(json);
    ck_json_object_end(json);
}

/* ---- parameters of the request, as api/order.h takes them besides the options ---- */

static void write_parameter(struct ck_json *json, const char *name, const char *kinds, const char *what) {
    ck_json_object_begin(json);
    ck_json_key_string(json, "name", name);
    ck_json_key_string(json, "type", "boolean");
    ck_json_key_bool(json, "default", false);
    ck_json_key(json, "x-kinds");
    ck_json_raw(json, kinds);
    ck_json_key_string(json, "description", what);
    ck_json_object_end(json);
}

static void write_parameters(struct ck_json *json) {
    static const char both[] = "[\"convert\",\"analyze\"]", convert[] = "[\"convert\"]";

    ck_json_key(json, "parameters");
    ck_json_array_begin(json);
    write_parameter(json, "fresh", both, "do the work even if an equal job has results");
    write_parameter(json, "dry_run", convert, "plan only: the answer is the plan");
    write_parameter(json, "cancel_on_disconnect", both, "cancel the job if the client leaves before its answer");
    ck_json_array_end(json);
}

/* ---- limits ---- */

#define TERMS(X)                                                                                                       \
    X(max_upload, "bytes of one upload")                                                                               \
    X(max_json, "bytes of one JSON body")                                                                              \
    X(max_files, "files of one form")                                                                                  \
    X(max_wait, "seconds of one ?wait=")                                                                               \
    X(max_sync_wait, "seconds that the one command waits before it answers 202; 0: no limit")                          \
    X(queue, "jobs that may wait")                                                                                     \
    X(workers, "jobs that run at the same time")                                                                       \
    X(max_attempts, "starts of one job")                                                                               \
    X(result_ttl, "seconds that results are kept")                                                                     \
    X(input_ttl, "seconds that unused inputs are kept")                                                                \
    X(record_ttl, "seconds that records of ended jobs are kept")

/* The flag is the name with `-` for `_`. */
static void write_limit(struct ck_json *json, const char *name, uint64_t value, const char *what, const char *prefix) {
    char setting[64];

    snprintf(setting, sizeof(setting), "%s%s", prefix, name);
    for (char *c = setting; *c; c++)
        *c = *c == '_' ? '-' : *c;
    ck_json_key(json, name);
    ck_json_object_begin(json);
    ck_json_key_u64(json, "value", value);
    ck_json_key_string(json, "what", what);
    ck_json_key_string(json, "setting", setting);
    ck_json_object_end(json);
}

/* limits: of requests and jobs; file_limits: of what a stranger's file can make a worker do. */
static void write_limits(struct ck_json *json, const struct ck_terms *terms) {
    ck_json_key(json, "limits");
    ck_json_object_begin(json);
#define X(name, what) write_limit(json, #name, terms->name, what, "--");
    TERMS(X)
#undef X
    ck_json_object_end(json);
    ck_json_key(json, "file_limits");
    ck_json_object_begin(json);
#define X(name, value, what) write_limit(json, #name, terms->limits.name, what, "--limit-");
    CK_LIMITS(X)
#undef X
    ck_json_object_end(json);
}

/* ---- the whole ---- */

static int write_all(struct ck_buffer *buffer, const struct ck_terms *terms, struct ck_error *err) {
    struct ck_json json;

    ck_json_init(&json, ck_json_sink_buffer, buffer, err);
    ck_json_object_begin(&json);
    ck_json_key(&json, "engine");
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "name", "ckptd");
    ck_json_key_string(&json, "version", ck_version());
    ck_json_key_string(&json, "mlx", CK_MLX_VERSION);
    ck_json_object_end(&json);
    write_targets(&json);
    write_kinds(&json);
    write_forms(&json);
    write_options(&json);
    write_parameters(&json);
    write_limits(&json, terms);
    ck_json_key_string(&json, "auth", terms->keys ? "bearer" : "none");
    ck_json_key_bool(&json, "durable", terms->durable);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    return ck_json_finish(&json);
}

void ck_answer_capabilities(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    char etag[CK_ETAG_SIZE];
    struct ck_error err = {0};
    int r = ck_query_none(request->query, &err);

    ck_reply_init(ret_reply, 200, "application/json");
    if (r == 0)
        r = write_all(&ret_reply->body, &ports->terms, &err);
    if (r == 0)
        r = ck_etag_of(ck_buffer_text(&ret_reply->body), ret_reply->body.length, etag, &err);
    if (r == 0 && !ck_none_match(request, etag)) {
        ck_reply_header(ret_reply, "ETag", "%s", etag);
        ck_reply_header(ret_reply, "Cache-Control", "no-cache");
        return;
    }
    ck_reply_release(ret_reply);
    if (r < 0)
        ck_problem_reply(&err, request->id, false, ret_reply);
    else
        ck_reply_not_modified(ret_reply, etag);
}
