#include "api/problem.h"

#include <stdio.h>

#include "core/base/json_write.h"

static void write_document(const struct ck_error *err, const char *request_id, struct ck_reply *reply) {
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
    ck_json_key_string(&json, "detail", err->message[0] ? err->message : row->title);
    ck_json_key_string(&json, "code", row->name);
    if (err->where[0])
        ck_json_key_string(&json, "where", err->where);
    ck_json_key_string(&json, "hint", ck_error_hint(err));
    ck_json_key_bool(&json, "retryable", row->retryable);
    if (request_id && request_id[0])
        ck_json_key_string(&json, "request_id", request_id);
    if (err->details[0]) {
        ck_json_key(&json, "questions");
        ck_json_raw(&json, err->details);
    }
    ck_json_object_end(&json);
    ck_json_newline(&json);
    if (ck_json_finish(&json) < 0)
        reply->broken = true;
}

void ck_problem_reply(const struct ck_error *err, const char *request_id, bool download, struct ck_reply *ret_reply) {
    const struct ck_error_row *row = ck_error_row(err->code);

    ck_reply_init(ret_reply, row->http, "application/problem+json");
    ck_reply_header(ret_reply, "Cache-Control", "no-store");
    if (download)
        ck_reply_header(ret_reply, "Content-Disposition", "attachment; filename=\"ckptd-error.json\"");
    if (row->http == 429)
        ck_reply_header(ret_reply, "Retry-After", "%d", CK_RETRY_QUEUE_FULL);
    if (row->http == 503)
        ck_reply_header(ret_reply, "Retry-After", "%d", CK_RETRY_DRAINING);
    write_document(err, request_id, ret_reply);
}
