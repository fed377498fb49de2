#include "api/problem.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_write.h"

static const char *detail_of(const struct ck_error *err) {
    return err->message[0] ? err->message : ck_error_row(err->code)->title;
}

static void write_questions(struct ck_json *json, const struct ck_error *err) {
    if (!err->details[0])
        return;
    ck_json_key(json, "questions");
    ck_json_raw(json, err->details);
}

static void write_document(const struct ck_error *err, const char *request_id, const char *job_id,
                           struct ck_reply *reply) {
    const struct ck_error_row *row = ck_error_row(err->code);
    struct ck_error failure = {0};
    struct ck_json json;
    char type[64];

    snprintf(type, sizeof(type), "urn:ckptd:error:%s", row->name);
    ck_json_init(&json, ck_json_sink_buffer, &reply->body, &failure);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "type", type);
    ck_json_key_string(&json, "title", row->title);
    ck_json_key_u64(&json, "status", (uint64_t)row->http);
    ck_json_key_string(&json, "detail", detail_of(err));
    ck_json_key_string(&json, "code", row->name);
    if (err->where[0])
        ck_json_key_string(&json, "where", err->where);
    ck_json_key_string(&json, "hint", ck_error_hint(err));
    ck_json_key_bool(&json, "retryable", row->retryable);
    if (request_id && request_id[0])
        ck_json_key_string(&json, "request_id", request_id);
    if (job_id)
        ck_json_key_string(&json, "job", job_id);
    write_questions(&json, err);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    if (ck_json_finish(&json) < 0)
        reply->broken = true;
}

void ck_problem_reply_job(const struct ck_error *err, const char *request_id, bool download, const char *job_id,
                          struct ck_reply *ret_reply) {
    const struct ck_error_row *row = ck_error_row(err->code);

    ck_reply_init(ret_reply, row->http, "application/problem+json");
    ret_reply->code = err->code;
    ck_reply_header(ret_reply, "Cache-Control", "no-store");
    if (download)
        ck_reply_header(ret_reply, "Content-Disposition", "attachment; filename=\"ckptd-error.json\"");
    if (row->http == 401)
        ck_reply_header(ret_reply, "WWW-Authenticate", "Bearer");
    if (row->http == 429)
        ck_reply_header(ret_reply, "Retry-After", "%d", CK_RETRY_QUEUE_FULL);
    if (row->http == 503 || row->http == 507)
        ck_reply_header(ret_reply, "Retry-After", "%d", CK_RETRY_DRAINING);
    if (job_id)
        ck_reply_header(ret_reply, "Location", "/v1/jobs/%s", job_id);
    write_document(err, request_id, job_id, ret_reply);
}

void ck_problem_reply(const struct ck_error *err, const char *request_id, bool download, struct ck_reply *ret_reply) {
    ck_problem_reply_job(err, request_id, download, NULL, ret_reply);
}

char *ck_problem_members_json(const struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer text = {0};
    const struct ck_error_row *row = ck_error_row(err->code);
    struct ck_error failure = {0};
    struct ck_json json;

    /* Six times what an error holds, should every byte need an escape. */
    ck_buffer_init(&text, 6 * sizeof(*err));
    ck_json_init(&json, ck_json_sink_buffer, &text, &failure);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "code", row->name);
    ck_json_key_string(&json, "title", row->title);
    ck_json_key_string(&json, "detail", detail_of(err));
    if (err->where[0])
        ck_json_key_string(&json, "where", err->where);
    ck_json_key_string(&json, "hint", ck_error_hint(err));
    write_questions(&json, err);
    ck_json_object_end(&json);
    return ck_json_finish(&json) < 0 ? NULL : TAKE_PTR(text.data);
}

static const char *member(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void read_questions(const json_t *questions, struct ck_error *err) {
    _cleanup_(ck_freep) char *text = questions ? json_dumps(questions, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    /* Half a JSON value would be worse than none. */
    if (text && strlen(text) < sizeof(err->details))
        memcpy(err->details, text, strlen(text) + 1);
}

void ck_problem_from_json(const char *json, struct ck_error *ret_err) {
    json_t *object = json ? json_loads(json, JSON_ALLOW_NUL, NULL) : NULL;
    int code = ck_error_by_name(member(object, "code"));

    *ret_err = (struct ck_error){0};
    if (code == 0) {
        ck_error_set(ret_err, CK_E_INTERNAL, NULL, "the record of the job does not say what went wrong");
    } else {
        ck_error_set(ret_err, code, member(object, "where"), "%s", member(object, "detail"));
        if (member(object, "hint")[0])
            ck_error_set_hint(ret_err, "%s", member(object, "hint"));
        read_questions(json_object_get(object, "questions"), ret_err);
    }
    json_decref(object);
}
