#include "api/jobs.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/convert.h"
#include "api/job_json.h"
#include "api/order.h"
#include "api/problem.h"
#include "api/submit.h"

static void reply_error(const struct ck_request *request, const struct ck_error *err, struct ck_reply *ret_reply) {
    /* The id is the client's text: only a job that is there has a place to point at. */
    bool there = err->code == CK_E_JOB_FINISHED || err->code == CK_E_JOB_NOT_FINISHED ||
                 err->code == CK_E_JOB_NOT_RETRYABLE || err->code == CK_E_INPUT_NOT_FOUND;

    ck_problem_reply_job(err, request->id, false, there ? request->params[0] : NULL, ret_reply);
}

static int get_job(const struct ck_request *request, const struct ck_ports *ports, struct ck_job_row *ret_row,
                   struct ck_error *err) {
    return ports->store->job_get(ports->store, CK_TENANT, request->params[0], ret_row, err);
}

/* ---- create ---- */

int ck_head_job_create(struct ck_request *request, _unused_ const struct ck_ports *ports, struct ck_error *err) {
    struct ck_order *order;

    return ck_order_begin(request, CK_JOB_CONVERT, &order, err);
}

/* Unlike the one command, a job is not waited for unless that is asked for, and then its record is the answer. */
static void job_wish(const struct ck_order *order, const struct ck_terms *terms, struct ck_wish *ret_wish,
                     char applied[static CK_APPLIED_SIZE]) {
    int64_t seconds = CK_MIN(order->prefer.wait, (int64_t)terms->max_wait);

    *ret_wish = (struct ck_wish){.wait = seconds > 0, .cancel_when_gone = order->cancel_when_gone};
    if (seconds > 0) {
        ret_wish->seconds = seconds;
        snprintf(applied, CK_APPLIED_SIZE, "wait=%" PRId64, seconds);
    } else {
        snprintf(applied, CK_APPLIED_SIZE, "respond-async");
    }
    if (seconds > 0 || order->prefer.async)
        ret_wish->applied = applied;
}

void ck_answer_job_create(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_order *order = request->state;
    char applied[CK_APPLIED_SIZE];
    struct ck_error err = {0};
    struct ck_wish wish;

    if (!order->job[0] && ck_order_take_json(order, request, ck_submission_parse, &err) < 0) {
        ck_problem_reply(&err, request->id, false, ret_reply);
        return;
    }
    if (order->submission.spec.dry_run) {
        ck_order_wish(order, &ports->terms, &wish, applied);
        wish.success = ck_convert_success;
    } else {
        job_wish(order, &ports->terms, &wish, applied);
    }
    ck_order_answer(order, request, ports, &wish, ret_reply);
}

/* ---- one job ---- */

static int wait_seconds(const struct ck_request *request, const struct ck_ports *ports, uint64_t *ret_seconds,
                        struct ck_error *err) {
    static const char *const known[] = {"wait", NULL};
    _cleanup_(ck_query_release) struct ck_query query = {0};
    int r = ck_query_parse(request->query, &query, err);

    if (r == 0)
        r = ck_query_check(&query, known, NULL, err);
    if (r < 0)
        return r;
    r = ck_query_number(&query, "wait", 0, ports->terms.max_wait, ret_seconds, err);
    if (r < 0)
        ck_error_set_hint(err, "give wait a whole number from 0 to %" PRIu64 " (--max-wait)", ports->terms.max_wait);
    return r;
}

static void ask_to_wait(const struct ck_job_row *row, uint64_t seconds, bool until_finished,
                        struct ck_reply *ret_reply) {
    struct ck_reply_wait wait = {
        .until_finished = until_finished, .version = row->version, .seconds = (int64_t)seconds};

    memcpy(wait.job, row->id, sizeof(wait.job));
    ck_reply_init(ret_reply, 202, NULL);
    ck_reply_wait_for(ret_reply, &wait);
}

static void reply_one(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                      uint64_t seconds, struct ck_reply *ret_reply) {
    bool conditional = ck_request_header(request, "If-None-Match") != NULL, known;
    struct ck_job_live live;
    bool running = row->state == CK_STATE_RUNNING && ports->live(ports->ctx, row->id, &live);
    char etag[CK_JOB_ETAG_SIZE];

    ck_job_etag(row, running ? &live : NULL, etag);
    known = conditional && ck_none_match(request, etag);
    if (seconds > 0 && !request->waited && !ck_job_state_finished(row->state) && (known || !conditional))
        ask_to_wait(row, seconds, !conditional, ret_reply);
    else if (known)
        ck_reply_not_modified(ret_reply, etag);
    else
        ck_job_reply(ports, row, 200, ret_reply);
}

void ck_answer_job(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_error err = {0};
    uint64_t seconds = 0;
    int r = wait_seconds(request, ports, &seconds, &err);

    if (r == 0)
        r = get_job(request, ports, &row, &err);
    if (r < 0)
        reply_error(request, &err, ret_reply);
    else
        reply_one(request, ports, &row, seconds, ret_reply);
}

/* ---- delete ---- */

/* Record first: a record without results is a lie, results without a record are swept away. */
static int forget(const struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply,
                  struct ck_error *err) {
    int r = ports->store->job_delete(ports->store, CK_TENANT, request->params[0], err);

    if (r < 0)
        return r;
    ports->blobs->remove_results(ports->blobs, request->params[0]);
    ck_reply_init(ret_reply, 204, NULL);
    return 0;
}

/* Brings the job towards its end. *row is how it is afterwards; one that ended on its own meanwhile is fine. */
static int cancel_first(const struct ck_request *request, const struct ck_ports *ports, struct ck_job_row *row,
                        struct ck_error *err) {
    struct ck_job_row after = {0};
    struct ck_error failure = {0};
    int r =
        ports->store->job_cancel(ports->store, CK_TENANT, request->params[0], ports->now(ports->ctx), &after, &failure);

    if (r == CK_E_JOB_FINISHED)
        r = get_job(request, ports, &after, err);
    else if (r < 0)
        *err = failure;
    else
        ports->changed(ports->ctx, after.id);
    if (r < 0)
        return r;
    ck_job_row_release(row);
    *row = after;
    return 0;
}

static int delete_job(const struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply,
                      struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    int r = get_job(request, ports, &row, err);

    if (r == 0 && !ck_job_state_finished(row.state) && !request->waited)
        r = cancel_first(request, ports, &row, err);
    if (r < 0)
        return r;
    if (ck_job_state_finished(row.state))
        return forget(request, ports, ret_reply, err);
    if (request->waited) {
        ck_error_set(err, CK_E_JOB_NOT_FINISHED, NULL, "job %s is asked to stop and has not ended within %d seconds",
                     row.id, CK_DELETE_WAIT);
        ck_error_set_hint(err, "delete it again a little later");
        return CK_E_JOB_NOT_FINISHED;
    }
    ask_to_wait(&row, CK_DELETE_WAIT, true, ret_reply);
    return 0;
}

void ck_answer_job_delete(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_error err = {0};
    int r = ck_query_none(request->query, &err);

    if (r == 0)
        r = delete_job(request, ports, ret_reply, &err);
    if (r < 0)
        reply_error(request, &err, ret_reply);
}

/* ---- cancel and retry ---- */

static void json_release(json_t **json) {
    json_decref(*json);
}

/* The body, if there is one: an object with at most the one member, of the one value. member NULL: none. */
static int check_body(const struct ck_request *request, const char *member, const char *value, struct ck_error *err) {
    _cleanup_(json_release) json_t *object = NULL;
    const char *key, *text;
    json_t *item;

    if (request->body_bytes == 0)
        return 0;
    object = json_loadb(request->body, request->body_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object))
        return ck_error_set(err, CK_E_BAD_JSON, NULL, "the body must be empty or a JSON object");
    json_object_foreach(object, key, item) {
        if (!member)
            return ck_error_set(err, CK_E_UNKNOWN_MEMBER, key, "the member '%.100s' is unknown; there are none", key);
        if (strcmp(key, member) != 0)
            return ck_error_set(err, CK_E_UNKNOWN_MEMBER, key, "the member '%.100s' is unknown; there is: %s", key,
                                member);
        text = json_string_value(item);
        if (!text || strcmp(text, value) != 0)
            return ck_error_set(err, CK_E_BAD_JSON, key, "the member %s must be \"%s\"", member, value);
    }
    return 0;
}

static int check_request(const struct ck_request *request, const char *member, const char *value,
                         struct ck_error *err) {
    int r = ck_query_none(request->query, err);

    return r < 0 ? r : check_body(request, member, value, err);
}

static void reply_changed(const struct ck_ports *ports, const struct ck_job_row *row, int status,
                          struct ck_reply *ret_reply) {
    ports->changed(ports->ctx, row->id);
    ck_job_reply(ports, row, status, ret_reply);
    ck_reply_header(ret_reply, "Location", "/v1/jobs/%s", row->id);
}

void ck_answer_job_cancel(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_error err = {0};
    int r = check_request(request, NULL, NULL, &err);

    if (r == 0)
        r = ports->store->job_cancel(ports->store, CK_TENANT, request->params[0], ports->now(ports->ctx), &row, &err);
    if (r < 0)
        reply_error(request, &err, ret_reply);
    else
        reply_changed(ports, &row, row.state == CK_STATE_CANCELLED ? 200 : 202, ret_reply);
}

void ck_answer_job_retry(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_error err = {0};
    int r = check_request(request, "from", "start", &err);

    if (r == 0)
        r = ports->store->job_retry(ports->store, CK_TENANT, request->params[0], ports->now(ports->ctx), &row, &err);
    if (r < 0) {
        reply_error(request, &err, ret_reply);
        return;
    }
    /* The report of the attempt before; nothing that the new one has made (api/blob_store.h). */
    ports->blobs->remove_results(ports->blobs, row.id);
    reply_changed(ports, &row, 202, ret_reply);
}
