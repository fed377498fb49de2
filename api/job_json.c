#include "api/job_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/problem.h"
#include "api/submit.h"

#define JOBS "/v1/jobs/"

void ck_time_text(int64_t ms, char ret_text[static CK_TIME_SIZE]) {
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    size_t n;

    gmtime_r(&seconds, &tm);
    n = strftime(ret_text, CK_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(ret_text + n, CK_TIME_SIZE - n, ".%03dZ", (int)(ms % 1000));
}

const char *ck_media_type(const char *file_name) {
    static const struct {
        const char *suffix, *type;
    } types[] = {
        {".json", "application/json"},
        {".py", "text/x-python; charset=utf-8"},
        {".md", "text/markdown; charset=utf-8"},
        {".txt", "text/plain; charset=utf-8"},
        {".zip", "application/zip"},
    };
    const char *dot = strrchr(file_name, '.');

    for (size_t i = 0; dot && i < CK_ARRAY_LEN(types); i++)
        if (strcmp(dot, types[i].suffix) == 0)
            return types[i].type;
    return "application/octet-stream";
}

bool ck_job_has_file(const struct ck_job_row *row, const char *name) {
    for (size_t i = 0; i < row->n_files; i++)
        if (strcmp(row->files[i].name, name) == 0)
            return true;
    return false;
}

/* ---- small members ---- */

/* "" is as absent as NULL. */
static void key_text(struct ck_json *json, const char *key, const char *text) {
    ck_json_key_string(json, key, text && text[0] ? text : NULL);
}

static void key_time(struct ck_json *json, const char *key, int64_t ms) {
    char text[CK_TIME_SIZE];

    if (ms > 0)
        ck_time_text(ms, text);
    ck_json_key_string(json, key, ms > 0 ? text : NULL);
}

/* from..to in ms, as seconds; null before it began. Clocks may be set back. */
static void key_seconds(struct ck_json *json, const char *key, int64_t from, int64_t to) {
    ck_json_key(json, key);
    if (from > 0)
        ck_json_double(json, (double)CK_MAX(to - from, 0) / 1000.0);
    else
        ck_json_null(json);
}

/* JSON that the store kept. */
static void key_raw(struct ck_json *json, const char *key, const char *text) {
    ck_json_key(json, key);
    if (text)
        ck_json_raw(json, text);
    else
        ck_json_null(json);
}

static void key_href(struct ck_json *json, const char *key, const struct ck_job_row *row, const char *rest,
                     bool there) {
    char href[sizeof(JOBS) + CK_JOB_ID_SIZE + 32];

    snprintf(href, sizeof(href), JOBS "%s%s", row->id, rest);
    ck_json_key_string(json, key, there ? href : NULL);
}

/* ---- members with parts ---- */

static void write_progress(struct ck_json *json, const struct ck_job_live *live) {
    ck_json_key(json, "progress");
    if (!live) {
        ck_json_null(json);
        return;
    }
    ck_json_object_begin(json);
    ck_json_key_u64(json, "done", live->done);
    ck_json_key(json, "total");
    if (live->total > 0)
        ck_json_u64(json, live->total);
    else
        ck_json_null(json);
    ck_json_key_string(json, "unit", "bytes");
    ck_json_key(json, "fraction");
    ck_json_double(json, live->total > 0 ? (double)live->done / (double)live->total : (double)NAN);
    ck_json_key(json, "rate");
    ck_json_double(json, live->rate > 0 ? live->rate : (double)NAN);
    ck_json_key(json, "eta_s");
    ck_json_double(json, live->rate > 0 && live->total >= live->done && live->total > 0
                             ? (double)(live->total - live->done) / live->rate
                             : (double)NAN);
    ck_json_object_end(json);
}

static void write_queue(struct ck_json *json, const struct ck_ports *ports, const struct ck_job_row *row) {
    struct ck_error ignored = {0};
    uint64_t ahead;

    ck_json_key(json, "queue");
    /* A place that cannot be told is no reason to keep the job from the client. */
    if (row->state != CK_STATE_QUEUED || ports->store->job_ahead(ports->store, row->id, &ahead, &ignored) < 0) {
        ck_json_null(json);
        return;
    }
    ck_json_object_begin(json);
    ck_json_key_u64(json, "position", ahead + 1);
    ck_json_key_u64(json, "ahead", ahead);
    ck_json_object_end(json);
}

static void write_input(struct ck_json *json, const struct ck_job_source *input) {
    char digest[sizeof("sha256:") + CK_DIGEST_SIZE];

    snprintf(digest, sizeof(digest), "sha256:%s", input->digest);
    ck_json_object_begin(json);
    ck_json_key_string(json, "role", input->role);
    ck_json_key_string(json, "name", input->name);
    ck_json_key_string(json, "digest", digest);
    ck_json_key_u64(json, "bytes", input->bytes);
    ck_json_object_end(json);
}

/* What may be sent to POST /v1/jobs again. */
static void write_spec(struct ck_json *json, const struct ck_job_row *row) {
    json_t *spec = row->spec ? json_loads(row->spec, 0, NULL) : NULL;
    _cleanup_(ck_freep) char *options = json_dumps(json_object_get(spec, "options"), JSON_COMPACT);

    ck_json_key(json, "spec");
    ck_json_object_begin(json);
    ck_json_key_string(json, "kind", row->kind);
    ck_json_key_string(json, "to", row->target);
    ck_json_key_string(json, "quant", row->quant);
    ck_json_key(json, "options");
    ck_json_raw(json, options ? options : "{}");
    ck_json_key_bool(json, "dry_run", json_is_true(json_object_get(spec, "dry_run")));
    ck_json_key(json, "inputs");
    ck_json_array_begin(json);
    for (size_t i = 0; i < row->n_inputs; i++)
        write_input(json, &row->inputs[i]);
    ck_json_array_end(json);
    ck_json_object_end(json);
    json_decref(spec);
}

static void write_results(struct ck_json *json, const struct ck_job_row *row) {
    ck_json_key(json, "results");
    ck_json_array_begin(json);
    for (size_t i = 0; i < row->n_files; i++) {
        const struct ck_job_file *file = &row->files[i];
        char crc[9], href[sizeof(JOBS) + CK_JOB_ID_SIZE + sizeof("/results/") + sizeof(file->name)];

        snprintf(crc, sizeof(crc), "%08" PRIx32, file->crc32);
        snprintf(href, sizeof(href), JOBS "%s/results/%s", row->id, file->name);
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", file->name);
        ck_json_key_u64(json, "bytes", file->bytes);
        ck_json_key_string(json, "crc32", crc);
        ck_json_key_string(json, "media_type", ck_media_type(file->name));
        ck_json_key_string(json, "href", href);
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
}

static void write_times(struct ck_json *json, const struct ck_job_row *row, int64_t now) {
    int64_t end = row->finished_at > 0 ? row->finished_at : now;

    key_time(json, "created_at", row->created_at);
    key_time(json, "started_at", row->started_at);
    key_time(json, "finished_at", row->finished_at);
    key_time(json, "expires_at", row->expires_at);
    key_seconds(json, "queue_s", row->created_at, row->started_at > 0 ? row->started_at : end);
    key_seconds(json, "run_s", row->started_at, end);
}

/* ---- the job ---- */

void ck_job_json(struct ck_json *json, const struct ck_ports *ports, const struct ck_job_row *row,
                 const struct ck_job_live *live) {
    bool succeeded = row->state == CK_STATE_SUCCEEDED;

    ck_json_object_begin(json);
    ck_json_key_string(json, "id", row->id);
    key_href(json, "href", row, "", true);
    ck_json_key_string(json, "kind", row->kind);
    ck_json_key_string(json, "state", ck_job_state_name(row->state));
    key_text(json, "reason", row->reason);
    ck_json_key_string(json, "stage", live ? ck_stage_name(live->stage) : NULL);
    write_progress(json, live);
    write_queue(json, ports, row);
    ck_json_key_u64(json, "attempt", row->attempt);
    ck_json_key_u64(json, "max_attempts", row->max_attempts);
    ck_json_key_u64(json, "crash_count", row->crash_count);
    ck_json_key_bool(json, "cancel_requested", row->cancel_requested_at > 0);
    write_times(json, row, ports->now(ports->ctx));
    write_spec(json, row);
    key_raw(json, "labels", row->labels ? row->labels : "{}");
    write_results(json, row);
    key_raw(json, "outcome", row->outcome);
    key_href(json, "report_href", row, "/report", ck_job_has_file(row, "report.json"));
    key_href(json, "results_href", row, "/results", succeeded);
    key_href(json, "zip_href", row, "/results.zip", succeeded);
    key_raw(json, "error", row->error);
    key_text(json, "request_id", row->request_id);
    key_text(json, "trace_id", row->trace_id);
    key_text(json, "cached_from", row->cached_from);
    key_text(json, "version", row->converter);
    ck_json_object_end(json);
}

void ck_job_etag(const struct ck_job_row *row, const struct ck_job_live *live, char ret_etag[static CK_JOB_ETAG_SIZE]) {
    snprintf(ret_etag, CK_JOB_ETAG_SIZE, "\"%" PRIu64 ".%" PRIu64 "\"", row->version, live ? live->sequence : 0);
}

void ck_job_reply(const struct ck_ports *ports, const struct ck_job_row *row, int status, struct ck_reply *ret_reply) {
    struct ck_job_live live;
    bool running = row->state == CK_STATE_RUNNING && ports->live(ports->ctx, row->id, &live);
    char etag[CK_JOB_ETAG_SIZE];
    struct ck_error failure = {0};
    struct ck_json json;

    ck_reply_init(ret_reply, status, "application/json");
    ck_job_etag(row, running ? &live : NULL, etag);
    ck_reply_header(ret_reply, "ETag", "%s", etag);
    ck_reply_header(ret_reply, "Cache-Control", "no-cache");
    if (!ck_job_state_finished(row->state))
        ck_reply_header(ret_reply, "Retry-After", "%d", CK_RETRY_PENDING);
    ck_json_init(&json, ck_json_sink_buffer, &ret_reply->body, &failure);
    ck_job_json(&json, ports, row, running ? &live : NULL);
    ck_json_newline(&json);
    if (ck_json_finish(&json) < 0)
        ret_reply->broken = true;
}

void ck_job_row_error(const struct ck_job_row *row, struct ck_error *ret_err) {
    struct ck_error err = {0};
    int code = row->reason ? ck_error_by_name(row->reason) : 0;

    if (row->error)
        ck_problem_from_json(row->error, &err);
    else if (row->state == CK_STATE_CANCELLED)
        ck_error_set(&err, CK_E_CANCELLED, NULL, "job %s was cancelled", row->id);
    else if (row->state == CK_STATE_EXPIRED)
        ck_error_set(&err, CK_E_RESULTS_EXPIRED, NULL, "the results of job %s were removed", row->id);
    else if (code < 0)
        ck_error_set(&err, code, NULL, "job %s is %s", row->id, ck_job_state_name(row->state));
    else if (row->state == CK_STATE_DEAD)
        ck_error_set(&err, CK_E_ATTEMPTS_EXHAUSTED, NULL, "job %s was started %u times and lost each time", row->id,
                     row->attempt);
    else
        ck_problem_from_json(NULL, &err);
    *ret_err = err;
}
