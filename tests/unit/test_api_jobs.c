/* api/jobs, api/job_json: jobs as a resource: create, look, list, wait, cancel, retry, forget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/job_json.h"
#include "api/jobs.h"
#include "core/base/version.h"
#include "fake_client.h"

#define HEX    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SPEC   "{\"to\":\"mlx\",\"inputs\":[{\"name\":\"net.pt\",\"digest\":\"sha256:" HEX "\"}]"
#define SECOND "\"labels\":{\"team\":\"b\"},\"quant\":\"q4\"}"

static struct fake fake;

static int setup(_unused_ void **state) {
    fake_init(&fake);
    fake_add_blob(&fake, HEX, "0123456789", true);
    return 0;
}

static int teardown(_unused_ void **state) {
    fake_release(&fake);
    return 0;
}

static int post(struct client *client, const char *query, const char *prefer, const char *body) {
    client_init(client, &fake, "POST", "/v1/jobs", query);
    if (prefer[0])
        client_header(client, "Prefer", prefer);
    client_body(client, body);
    return client_send(client, ck_head_job_create, ck_answer_job_create);
}

/* A queued job. */
static const char *make_job(const char *body) {
    struct client client;

    assert_int_equal(post(&client, "fresh", "", body), 202);
    client_release(&client);
    fake.log[0] = 0;
    return fake_last_job(&fake)->id;
}

static void ask(struct client *client, const char *method, const char *id, const char *query) {
    client_init(client, &fake, method, "/v1/jobs/x", query);
    client->request.params[0] = id;
}

static int get(struct client *client, const char *id, const char *query) {
    ask(client, "GET", id, query);
    return client_send(client, NULL, ck_answer_job);
}

static int status_of(const char *method, const char *id, const char *query, const char *body, ck_answer_fn answer) {
    struct client client;
    int status;

    ask(&client, method, id, query);
    client_body(&client, body);
    status = client_send(&client, NULL, answer);
    client_release(&client);
    return status;
}

static int64_t integer(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static bool is_null(struct client *client, const char *name) {
    const json_t *value = json_object_get(client_json(client), name);

    assert_non_null(value);
    return json_is_null(value);
}

/* ---- create ---- */

static void a_job_is_accepted_when_it_is_safe(_unused_ void **state) {
    struct client client;
    char location[64];

    fake.blob[0].row_durable = fake.blob[0].file_durable = false;
    assert_int_equal(post(&client, "", "", SPEC "}"), 202);
    assert_string_equal(fake.log, "sync put-durable create-durable changed");
    snprintf(location, sizeof(location), "/v1/jobs/%s", fake_last_job(&fake)->id);
    assert_string_equal(client_answer_header(&client, "Location"), location);
    assert_string_equal(client_answer_header(&client, "Retry-After"), "2");
    assert_string_equal(client_answer_header(&client, "ETag"), "\"1.0\"");
    assert_string_equal(client_answer_header(&client, "Content-Disposition"), "");
    assert_string_equal(client_answer_header(&client, "Preference-Applied"), "");
    assert_string_equal(client_member(&client, "state"), "queued");
    assert_string_equal(client_member(&client, "href"), location);
    client_release(&client);
}

static void create_waits_only_if_asked(_unused_ void **state) {
    struct client client;

    assert_int_equal(post(&client, "", "wait=10", SPEC "}"), 0);
    assert_int_equal(client.reply.wait.seconds, 10);
    assert_int_equal(client_resume(&client), 202);
    assert_string_equal(client_answer_header(&client, "Preference-Applied"), "wait=10");
    client_release(&client);

    assert_int_equal(post(&client, "", "wait=121", SPEC "}"), 0);
    assert_int_equal(client.reply.wait.seconds, 120);
    fake_end(&fake, fake_last_job(&fake)->id, CK_STATE_FAILED, NULL, "{\"code\":\"no_tensors\"}");
    assert_int_equal(client_resume(&client), 200);
    assert_string_equal(client_member(&client, "error.code"), "no_tensors");
    client_release(&client);

    assert_int_equal(post(&client, "", "respond-async", SPEC "}"), 202);
    assert_string_equal(client_answer_header(&client, "Preference-Applied"), "respond-async");
    client_release(&client);
    assert_int_equal(post(&client, "", "wait=0", SPEC "}"), 202);
    client_release(&client);
    /* 0 seconds would be a wait without end. */
    fake.ports.terms.max_wait = 0;
    assert_int_equal(post(&client, "", "wait=10", SPEC "}"), 202);
    client_release(&client);
}

static void what_is_in_cache_is_done_at_once(_unused_ void **state) {
    struct client client;
    char first[CK_JOB_ID_SIZE];

    snprintf(first, sizeof(first), "%s", make_job(SPEC "}"));
    fake_add_result(&fake, first, "model.safetensors", "x");
    fake_end(&fake, first, CK_STATE_SUCCEEDED, "{}", NULL);
    assert_int_equal(post(&client, "", "", SPEC "}"), 200);
    assert_string_equal(client_member(&client, "state"), "succeeded");
    assert_string_equal(client_member(&client, "cached_from"), first);
    assert_string_equal(client_answer_header(&client, "Retry-After"), "");
    assert_non_null(strstr(client_answer_header(&client, "Location"), fake_last_job(&fake)->id));
    client_release(&client);
    assert_int_equal(post(&client, "", "", SPEC ",\"fresh\":true}"), 202);
    client_release(&client);
    assert_int_equal(post(&client, "fresh=true", "", SPEC "}"), 202);
    client_release(&client);
    assert_int_equal(fake.cache_hits, 1);
}

static void a_dry_run_answers_with_the_plan(_unused_ void **state) {
    struct client client;

    assert_int_equal(post(&client, "dry_run=true", "", SPEC "}"), 0);
    assert_int_equal(client.reply.wait.seconds, 300);
    fake_add_result(&fake, fake_last_job(&fake)->id, "plan.json", "{\"files\":[]}");
    fake_end(&fake, fake_last_job(&fake)->id, CK_STATE_SUCCEEDED, "{\"assumed\":0}", NULL);
    assert_int_equal(client_resume(&client), 200);
    assert_string_equal(client_text(&client), "{\"files\":[]}");
    client_release(&client);
    /* As a member it is the same job. */
    assert_int_equal(post(&client, "", "", SPEC ",\"dry_run\":true}"), 200);
    assert_string_equal(client_text(&client), "{\"files\":[]}");
    client_release(&client);
    assert_int_equal(
        post(&client, "dry_run", "", "{\"kind\":\"analyze\",\"inputs\":[{\"digest\":\"sha256:" HEX "\"}]}"), 400);
    client_release(&client);
}

static void a_job_that_cannot_be_is_refused(_unused_ void **state) {
    struct client client;

    assert_int_equal(post(&client, "", "", ""), 400);
    assert_string_equal(client_member(&client, "code"), "bad_json");
    client_release(&client);
    assert_int_equal(post(&client, "drY_run=true", "", SPEC "}"), 400);
    assert_string_equal(client_member(&client, "where"), "drY_run");
    client_release(&client);
    fake.blob[0].row = false;
    assert_int_equal(post(&client, "", "", SPEC "}"), 422);
    assert_string_equal(client_member(&client, "code"), "input_not_found");
    client_release(&client);
    assert_null(fake_last_job(&fake));
}

/* ---- the JSON ---- */

static void a_queued_job_shows_all_its_members(_unused_ void **state) {
    static const char *const members[] = {
        "id",         "href",       "kind",        "state",        "reason",      "stage",
        "progress",   "queue",      "attempt",     "max_attempts", "crash_count", "cancel_requested",
        "created_at", "started_at", "finished_at", "expires_at",   "queue_s",     "run_s",
        "spec",       "labels",     "results",     "outcome",      "report_href", "results_href",
        "zip_href",   "error",      "request_id",  "trace_id",     "cached_from", "version"};
    static const char *const nulls[] = {"reason",     "stage", "progress", "started_at",  "finished_at",
                                        "expires_at", "run_s", "outcome",  "report_href", "results_href",
                                        "zip_href",   "error", "trace_id", "cached_from"};
    struct client client;
    const json_t *json;
    const char *id;

    make_job(SPEC "}");
    id = make_job(SPEC ",\"options\":{\"dtype\":\"float16\"}," SECOND);
    fake.clock += 1500;
    assert_int_equal(get(&client, id, ""), 200);
    json = client_json(&client);
    assert_non_null(json);
    for (size_t i = 0; i < CK_ARRAY_LEN(members); i++)
        if (!json_object_get(json, members[i]))
            fail_msg("%s is missing", members[i]);
    assert_int_equal(json_object_size(json), CK_ARRAY_LEN(members));
    for (size_t i = 0; i < CK_ARRAY_LEN(nulls); i++)
        assert_true(is_null(&client, nulls[i]));
    assert_string_equal(client_member(&client, "id"), id);
    assert_string_equal(client_member(&client, "kind"), "convert");
    assert_string_equal(client_member(&client, "created_at"), "2026-03-01T12:00:00.123Z");
    assert_int_equal(integer(json_object_get(json, "queue"), "position"), 2);
    assert_int_equal(integer(json_object_get(json, "queue"), "ahead"), 1);
    assert_true(json_number_value(json_object_get(json, "queue_s")) == 1.5);
    assert_string_equal(client_member(&client, "spec.to"), "mlx");
    assert_string_equal(client_member(&client, "spec.quant"), "q4");
    assert_string_equal(client_member(&client, "spec.options.dtype"), "float16");
    assert_true(json_is_false(json_object_get(json_object_get(json, "spec"), "dry_run")));
    assert_string_equal(client_member(&client, "spec.inputs.0.role"), "model");
    assert_string_equal(client_member(&client, "spec.inputs.0.name"), "net.pt");
    assert_string_equal(client_member(&client, "spec.inputs.0.digest"), "sha256:" HEX);
    assert_int_equal(integer(json_array_get(json_object_get(json_object_get(json, "spec"), "inputs"), 0), "bytes"), 10);
    assert_string_equal(client_member(&client, "labels.team"), "b");
    assert_int_equal(json_array_size(json_object_get(json, "results")), 0);
    assert_string_equal(client_member(&client, "request_id"), "request-1");
    assert_string_equal(client_member(&client, "version"), ck_version());
    assert_int_equal(integer(json, "max_attempts"), 5);
    assert_true(json_is_false(json_object_get(json, "cancel_requested")));
    client_release(&client);
}

static void a_running_job_shows_how_far_it_is(_unused_ void **state) {
    struct client client;
    const json_t *progress;
    const char *id = make_job(SPEC "}");

    fake_start(&fake, id);
    snprintf(fake.live_job, sizeof(fake.live_job), "%s", id);
    fake.some_live = (struct ck_job_live){.stage = CK_STAGE_write, .done = 25, .total = 100, .sequence = 7, .rate = 50};
    assert_int_equal(get(&client, id, ""), 200);
    assert_string_equal(client_answer_header(&client, "ETag"), "\"2.7\"");
    assert_string_equal(client_answer_header(&client, "Retry-After"), "2");
    assert_string_equal(client_member(&client, "stage"), "write");
    assert_string_equal(client_member(&client, "progress.unit"), "bytes");
    progress = json_object_get(client_json(&client), "progress");
    assert_int_equal(integer(progress, "done"), 25);
    assert_int_equal(integer(progress, "total"), 100);
    assert_true(json_number_value(json_object_get(progress, "fraction")) == 0.25);
    assert_true(json_number_value(json_object_get(progress, "rate")) == 50);
    assert_true(json_number_value(json_object_get(progress, "eta_s")) == 1.5);
    assert_true(is_null(&client, "queue"));
    client_release(&client);

    fake.some_live = (struct ck_job_live){.stage = CK_STAGE_read};
    assert_int_equal(get(&client, id, ""), 200);
    progress = json_object_get(client_json(&client), "progress");
    assert_true(json_is_null(json_object_get(progress, "total")));
    assert_true(json_is_null(json_object_get(progress, "fraction")));
    assert_true(json_is_null(json_object_get(progress, "rate")));
    assert_true(json_is_null(json_object_get(progress, "eta_s")));
    client_release(&client);
}

static void a_finished_job_shows_its_results(_unused_ void **state) {
    struct client client;
    char href[128];
    const json_t *json, *result;
    const char *id = make_job(SPEC "}");

    fake.clock += 1000;
    fake_start(&fake, id);
    fake_add_result(&fake, id, "model.safetensors", "12345");
    fake_add_result(&fake, id, "report.json", "{}");
    fake.clock += 2500;
    fake_end(&fake, id, CK_STATE_SUCCEEDED, "{\"tensors\":3}", NULL);
    fake_job(&fake, id)->expires_at = fake.clock + 3600000;
    fake.clock += 10000;
    assert_int_equal(get(&client, id, "wait=60"), 200);
    json = client_json(&client);
    assert_true(json_number_value(json_object_get(json, "queue_s")) == 1);
    assert_true(json_number_value(json_object_get(json, "run_s")) == 2.5);
    assert_string_equal(client_member(&client, "started_at"), "2026-03-01T12:00:01.123Z");
    assert_string_equal(client_member(&client, "finished_at"), "2026-03-01T12:00:03.623Z");
    assert_string_equal(client_member(&client, "expires_at"), "2026-03-01T13:00:03.623Z");
    assert_int_equal(integer(json_object_get(json, "outcome"), "tensors"), 3);
    result = json_array_get(json_object_get(json, "results"), 0);
    assert_string_equal(client_member(&client, "results.0.name"), "model.safetensors");
    assert_int_equal(integer(result, "bytes"), 5);
    assert_string_equal(client_member(&client, "results.0.crc32"), "00c0ffee");
    assert_string_equal(client_member(&client, "results.0.media_type"), "application/octet-stream");
    assert_string_equal(client_member(&client, "results.1.media_type"), "application/json");
    snprintf(href, sizeof(href), "/v1/jobs/%s/results/model.safetensors", id);
    assert_string_equal(client_member(&client, "results.0.href"), href);
    snprintf(href, sizeof(href), "/v1/jobs/%s/report", id);
    assert_string_equal(client_member(&client, "report_href"), href);
    snprintf(href, sizeof(href), "/v1/jobs/%s/results", id);
    assert_string_equal(client_member(&client, "results_href"), href);
    snprintf(href, sizeof(href), "/v1/jobs/%s/results.zip", id);
    assert_string_equal(client_member(&client, "zip_href"), href);
    assert_string_equal(client_answer_header(&client, "Retry-After"), "");
    client_release(&client);
}

static void what_a_stranger_named_stays_json(_unused_ void **state) {
    struct client client;
    const char *id = make_job(SPEC "}");
    struct ck_job_row *row = fake_job(&fake, id);

    free(row->inputs[0].name);
    row->inputs[0].name = fake_text("a\xFF\"\n.pt");
    fake.fail = "ahead";
    fake.fail_code = CK_E_STORE_UNAVAILABLE;
    assert_int_equal(get(&client, id, ""), 200);
    assert_non_null(client_json(&client));
    assert_true(is_null(&client, "queue"));
    client_release(&client);
}

/* ---- waiting ---- */

static void wait_is_for_the_end(_unused_ void **state) {
    struct client client;
    const char *id = make_job(SPEC "}");

    assert_int_equal(get(&client, id, "wait=60"), 0);
    assert_true(client.reply.wait.until_finished);
    assert_int_equal(client.reply.wait.seconds, 60);
    assert_string_equal(client.reply.wait.job, id);
    assert_int_equal(client_resume(&client), 200);
    assert_string_equal(client_member(&client, "state"), "queued");
    client_release(&client);
    assert_int_equal(get(&client, id, "wait=0"), 200);
    client_release(&client);
    assert_int_equal(get(&client, id, "wait=120"), 0);
    client_release(&client);
    assert_int_equal(get(&client, id, "wait=121"), 400);
    assert_non_null(strstr(client_member(&client, "hint"), "--max-wait"));
    client_release(&client);
    assert_int_equal(get(&client, id, "wiat=1"), 400);
    client_release(&client);
    assert_int_equal(get(&client, "no-such-job", "wait=1"), 404);
    assert_string_equal(client_member(&client, "code"), "job_not_found");
    assert_string_equal(client_answer_header(&client, "Location"), "");
    client_release(&client);
}

static int get_if_changed(struct client *client, const char *id, const char *query, const char *etag) {
    ask(client, "GET", id, query);
    client_header(client, "If-None-Match", etag);
    return client_send(client, NULL, ck_answer_job);
}

static void with_a_known_etag_the_wait_is_for_a_change(_unused_ void **state) {
    struct client client;
    const char *id = make_job(SPEC "}");

    assert_int_equal(get_if_changed(&client, id, "", "\"1.0\""), 304);
    assert_string_equal(client_answer_header(&client, "ETag"), "\"1.0\"");
    client_release(&client);
    assert_int_equal(get_if_changed(&client, id, "wait=9", "\"0.0\""), 200);
    client_release(&client);

    assert_int_equal(get_if_changed(&client, id, "wait=9", "\"1.0\""), 0);
    assert_false(client.reply.wait.until_finished);
    assert_int_equal(client.reply.wait.version, 1);
    assert_int_equal(client_resume(&client), 304);
    client_release(&client);

    assert_int_equal(get_if_changed(&client, id, "wait=9", "\"1.0\""), 0);
    fake_start(&fake, id);
    assert_int_equal(client_resume(&client), 200);
    assert_string_equal(client_answer_header(&client, "ETag"), "\"2.0\"");
    client_release(&client);

    /* An ended job changes no more: nothing to wait for. */
    fake_end(&fake, id, CK_STATE_FAILED, NULL, NULL);
    assert_int_equal(get_if_changed(&client, id, "wait=9", "\"3.0\""), 304);
    client_release(&client);
}

/* ---- cancel, retry, delete ---- */

static void cancel_says_whether_it_is_over(_unused_ void **state) {
    const char *id = make_job(SPEC "}");
    struct client client;

    assert_int_equal(status_of("POST", id, "", "", ck_answer_job_cancel), 200);
    assert_string_equal(fake.log, "cancel changed");
    assert_int_equal(status_of("POST", id, "", "{}", ck_answer_job_cancel), 200);
    id = make_job(SPEC "}");
    fake_start(&fake, id);
    ask(&client, "POST", id, "");
    assert_int_equal(client_send(&client, NULL, ck_answer_job_cancel), 202);
    assert_string_equal(client_member(&client, "state"), "running");
    assert_true(json_is_true(json_object_get(client_json(&client), "cancel_requested")));
    client_release(&client);
    fake_end(&fake, id, CK_STATE_SUCCEEDED, NULL, NULL);
    assert_int_equal(status_of("POST", id, "", "", ck_answer_job_cancel), 409);
    assert_int_equal(status_of("POST", "other", "", "", ck_answer_job_cancel), 404);
    assert_int_equal(status_of("POST", id, "x=1", "", ck_answer_job_cancel), 400);
    assert_int_equal(status_of("POST", id, "", "{\"reason\":\"x\"}", ck_answer_job_cancel), 400);
}

static void retry_starts_again_without_the_old_report(_unused_ void **state) {
    const char *id = make_job(SPEC "}");
    struct client client;

    assert_int_equal(status_of("POST", id, "", "", ck_answer_job_retry), 409);
    fake_add_result(&fake, id, "report.json", "{}");
    fake_end(&fake, id, CK_STATE_FAILED, NULL, "{}");
    fake.log[0] = 0;
    ask(&client, "POST", id, "");
    client_body(&client, "{\"from\":\"start\"}");
    assert_int_equal(client_send(&client, NULL, ck_answer_job_retry), 202);
    assert_string_equal(client_member(&client, "state"), "queued");
    assert_string_equal(client_answer_header(&client, "Retry-After"), "2");
    assert_non_null(strstr(client_answer_header(&client, "Location"), id));
    assert_string_equal(fake.log, "retry remove-results changed");
    client_release(&client);
    assert_int_equal(status_of("POST", id, "", "{\"from\":\"middle\"}", ck_answer_job_retry), 400);
    assert_int_equal(status_of("POST", id, "", "{\"form\":\"start\"}", ck_answer_job_retry), 400);
    assert_int_equal(status_of("POST", id, "", "[]", ck_answer_job_retry), 400);
    assert_int_equal(status_of("POST", id, "", "{\"from\":\"start\",\"from\":\"start\"}", ck_answer_job_retry), 400);
    assert_int_equal(status_of("POST", "other", "", "", ck_answer_job_retry), 404);
}

static void delete_forgets_what_has_ended(_unused_ void **state) {
    const char *id = make_job(SPEC "}");
    char kept[CK_JOB_ID_SIZE];

    snprintf(kept, sizeof(kept), "%s", id);
    fake_add_result(&fake, id, "model.safetensors", "x");
    fake_end(&fake, id, CK_STATE_SUCCEEDED, NULL, NULL);
    assert_int_equal(status_of("DELETE", kept, "", "", ck_answer_job_delete), 204);
    assert_string_equal(fake.log, "delete remove-results");
    assert_int_equal(fake_count_results(&fake, kept), 0);
    assert_int_equal(status_of("DELETE", kept, "", "", ck_answer_job_delete), 404);
    assert_int_equal(status_of("DELETE", kept, "force=1", "", ck_answer_job_delete), 400);
}

static void delete_cancels_first_and_waits_a_little(_unused_ void **state) {
    struct client client;
    char id[CK_JOB_ID_SIZE];

    snprintf(id, sizeof(id), "%s", make_job(SPEC "}"));
    assert_int_equal(status_of("DELETE", id, "", "", ck_answer_job_delete), 204);
    assert_string_equal(fake.log, "cancel changed delete remove-results");

    snprintf(id, sizeof(id), "%s", make_job(SPEC "}"));
    fake_start(&fake, id);
    ask(&client, "DELETE", id, "");
    assert_int_equal(client_send(&client, NULL, ck_answer_job_delete), 0);
    assert_true(client.reply.wait.until_finished);
    assert_int_equal(client.reply.wait.seconds, CK_DELETE_WAIT);
    assert_int_equal(client_resume(&client), 409);
    assert_string_equal(client_member(&client, "code"), "job_not_finished");
    client_release(&client);
    assert_non_null(fake_job(&fake, id));

    ask(&client, "DELETE", id, "");
    assert_int_equal(client_send(&client, NULL, ck_answer_job_delete), 0);
    fake_end(&fake, id, CK_STATE_CANCELLED, NULL, NULL);
    assert_int_equal(client_resume(&client), 204);
    client_release(&client);
    assert_null(fake_job(&fake, id));
}

/* ---- the list ---- */

static int list(struct client *client, const char *query) {
    client_init(client, &fake, "GET", "/v1/jobs", query);
    return client_send(client, NULL, ck_answer_job_list);
}

static size_t count(const char *query) {
    struct client client;
    size_t n;

    assert_int_equal(list(&client, query), 200);
    n = json_array_size(json_object_get(client_json(&client), "jobs"));
    client_release(&client);
    return n;
}

static void pages_follow_each_other_without_gaps(_unused_ void **state) {
    struct client client;
    char ids[5][CK_JOB_ID_SIZE], query[256], link[256];

    for (size_t i = 0; i < 5; i++)
        snprintf(ids[i], sizeof(ids[i]), "%s", make_job(SPEC "}"));
    assert_int_equal(list(&client, "limit=2&state=queued,running&state=failed&label="), 400);
    client_release(&client);
    assert_int_equal(list(&client, "limit=2&state=queued,running&state=failed"), 200);
    assert_string_equal(client_member(&client, "jobs.0.id"), ids[4]);
    assert_string_equal(client_member(&client, "jobs.1.id"), ids[3]);
    assert_int_equal(json_array_size(json_object_get(client_json(&client), "jobs")), 2);
    assert_string_equal(client_member(&client, "jobs.0.state"), "queued");
    assert_int_equal(
        integer(json_object_get(json_array_get(json_object_get(client_json(&client), "jobs"), 0), "queue"), "position"),
        5);
    snprintf(query, sizeof(query), "limit=2&cursor=%s", client_member(&client, "next_cursor"));
    snprintf(link, sizeof(link), "</v1/jobs?limit=2&state=queued%%2Crunning&state=failed&cursor=%s>; rel=\"next\"",
             client_member(&client, "next_cursor"));
    assert_string_equal(client_answer_header(&client, "Link"), link);
    client_release(&client);

    assert_int_equal(list(&client, query), 200);
    assert_string_equal(client_member(&client, "jobs.0.id"), ids[2]);
    assert_string_equal(client_member(&client, "jobs.1.id"), ids[1]);
    snprintf(query, sizeof(query), "limit=2&cursor=%s", client_member(&client, "next_cursor"));
    client_release(&client);

    assert_int_equal(list(&client, query), 200);
    assert_string_equal(client_member(&client, "jobs.0.id"), ids[0]);
    assert_int_equal(json_array_size(json_object_get(client_json(&client), "jobs")), 1);
    assert_true(is_null(&client, "next_cursor"));
    assert_string_equal(client_answer_header(&client, "Link"), "");
    client_release(&client);

    /* Exactly full is the last page, too. */
    assert_int_equal(list(&client, "limit=5&order=asc"), 200);
    assert_string_equal(client_member(&client, "jobs.0.id"), ids[0]);
    assert_true(is_null(&client, "next_cursor"));
    client_release(&client);
}

static void an_empty_list_is_a_list(_unused_ void **state) {
    struct client client;

    assert_int_equal(list(&client, ""), 200);
    assert_string_equal(client_text(&client), "{\"jobs\":[],\"next_cursor\":null}\n");
    client_release(&client);
}

static void filters_choose(_unused_ void **state) {
    char query[128];

    make_job(SPEC "}");
    fake.clock += 1000;
    fake_end(&fake, make_job(SPEC "," SECOND), CK_STATE_FAILED, NULL, NULL);
    fake.clock += 1000;
    make_job("{\"kind\":\"analyze\",\"inputs\":[{\"digest\":\"sha256:" HEX "\"}]}");
    assert_int_equal(count(""), 3);
    assert_int_equal(count("state=queued"), 2);
    assert_int_equal(count("state=failed"), 1);
    assert_int_equal(count("state=failed,queued"), 3);
    assert_int_equal(count("state=dead"), 0);
    assert_int_equal(count("kind=analyze"), 1);
    assert_int_equal(count("target=mlx"), 2);
    assert_int_equal(count("target=safetensors"), 0);
    assert_int_equal(count("label=team%3Db"), 1);
    assert_int_equal(count("label=team=c"), 0);
    assert_int_equal(count("created_after=2026-03-01T12:00:00.123Z"), 2);
    assert_int_equal(count("created_before=2026-03-01T12:00:00.123Z"), 0);
    assert_int_equal(count("created_before=2026-03-01T12:00:00.124Z"), 1);
    assert_int_equal(count("created_after=2026-03-01T14:00:00.123%2B02:00"), 2);
    assert_int_equal(count("created_after=2026-03-01T14:00:00.123+02:00"), 2);
    assert_int_equal(count("created_after=2026-03-01T11:30:00.123-00:30"), 2);
    assert_int_equal(count("created_after=2026-03-01T12:00:01Z&created_before=2026-03-01T12:00:02Z"), 1);
    snprintf(query, sizeof(query), "created_after=%lld", (long long)FAKE_NOW);
    assert_int_equal(count(query), 2);
}

static void assert_list_refused(const char *query, const char *code, const char *text) {
    struct client client;
    const char *detail, *hint;

    assert_int_equal(list(&client, query), 400);
    detail = client_member(&client, "detail");
    hint = client_member(&client, "hint");
    assert_string_equal(client_member(&client, "code"), code);
    if (!strstr(detail, text) && !strstr(hint, text))
        fail_msg("'%s' is neither in '%s' nor in '%s'", text, detail, hint);
    client_release(&client);
}

static void wrong_filters_are_refused(_unused_ void **state) {
    assert_int_equal(count("limit=1"), 0);
    assert_int_equal(count("limit=200"), 0);
    assert_list_refused("limit=0", "bad_option", "200");
    assert_list_refused("limit=201", "bad_option", "200");
    assert_list_refused("state=quued", "bad_option", "did you mean 'queued'?");
    assert_list_refused("state=", "bad_option", "queued, running");
    assert_list_refused("kind=portability", "bad_option", "convert, analyze");
    assert_list_refused("target=mxl", "bad_option", "mlx");
    assert_list_refused("order=down", "bad_option", "asc, desc");
    assert_list_refused("label=team", "bad_option", "KEY=VALUE");
    assert_list_refused("label=a%22b=c", "bad_option", "KEY=VALUE");
    assert_list_refused("labels=a=b", "bad_option", "label");
    assert_list_refused("created_after=yesterday", "bad_option", "2026-03-01T12:00:00Z");
    assert_list_refused("created_after=2026-03-01", "bad_option", "no time");
    assert_list_refused("created_after=2026-03-01T12:00:00", "bad_option", "no time");
    assert_list_refused("created_after=2026-02-30T12:00:00Z", "bad_option", "no time");
    assert_list_refused("created_after=2026-13-01T12:00:00Z", "bad_option", "no time");
    assert_list_refused("created_after=2026-03-01T24:00:00Z", "bad_option", "no time");
    assert_list_refused("created_after=2026-03-01T12:00:00%2B24:00", "bad_option", "no time");
    assert_list_refused("created_after=2026-03-01T12:00:00Zx", "bad_option", "no time");
    assert_list_refused("created_after=9999999999999999", "bad_option", "no time");
    assert_list_refused("created_after=", "bad_option", "no time");
    assert_list_refused("limit=1&limit=2", "bad_option", "twice");
}

static void a_forged_cursor_is_refused(_unused_ void **state) {
    /* base64 of j2:, of j1: with what is no id, of an id without the prefix, and cut. */
    assert_list_refused("cursor=", "bad_cursor", "no cursor");
    assert_list_refused("cursor=0195f000-0000-7000-8000-000000000001", "bad_cursor", "no cursor");
    assert_list_refused("cursor=ajI6MDE5NWYwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAx", "bad_cursor", "no cursor");
    assert_list_refused("cursor=ajE6MDE5NWYwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMCcx", "bad_cursor", "no cursor");
    assert_list_refused("cursor=ajE6MDE5NWYwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDA", "bad_cursor", "no cursor");
    assert_list_refused("cursor=%2FjE6MDE5NWYwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDA", "bad_cursor", "no cursor");
    assert_int_equal(count("cursor=ajE6MDE5NWYwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAx"), 0);
}

static void a_page_stops_where_it_would_grow_too_large(_unused_ void **state) {
    struct client client;
    char *long_label = malloc(1000001);
    size_t n;

    memset(long_label, 'x', 1000000);
    long_label[1000000] = 0;
    for (size_t i = 0; i < 12; i++) {
        struct ck_job_row *row;

        make_job(SPEC "}");
        row = fake_last_job(&fake);
        free(row->outcome);
        assert_true(asprintf(&row->outcome, "\"%s\"", long_label) > 0);
    }
    free(long_label);
    assert_int_equal(list(&client, ""), 200);
    assert_false(client.reply.broken);
    n = json_array_size(json_object_get(client_json(&client), "jobs"));
    assert_in_range(n, 4, 7);
    assert_string_not_equal(client_member(&client, "next_cursor"), "");
    client_release(&client);
}

static void a_store_that_fails_is_a_problem(_unused_ void **state) {
    struct client client;

    make_job(SPEC "}");
    fake.fail_code = CK_E_STORE_UNAVAILABLE;
    fake.fail = "list";
    assert_int_equal(list(&client, ""), 503);
    assert_string_equal(client_answer_header(&client, "Retry-After"), "10");
    client_release(&client);
    fake.fail = "get";
    assert_int_equal(list(&client, ""), 503);
    client_release(&client);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_accepted_when_it_is_safe),
        TEST(create_waits_only_if_asked),
        TEST(what_is_in_cache_is_done_at_once),
        TEST(a_dry_run_answers_with_the_plan),
        TEST(a_job_that_cannot_be_is_refused),
        TEST(a_queued_job_shows_all_its_members),
        TEST(a_running_job_shows_how_far_it_is),
        TEST(a_finished_job_shows_its_results),
        TEST(what_a_stranger_named_stays_json),
        TEST(wait_is_for_the_end),
        TEST(with_a_known_etag_the_wait_is_for_a_change),
        TEST(cancel_says_whether_it_is_over),
        TEST(retry_starts_again_without_the_old_report),
        TEST(delete_forgets_what_has_ended),
        TEST(delete_cancels_first_and_waits_a_little),
        TEST(pages_follow_each_other_without_gaps),
        TEST(an_empty_list_is_a_list),
        TEST(filters_choose),
        TEST(wrong_filters_are_refused),
        TEST(a_forged_cursor_is_refused),
        TEST(a_page_stops_where_it_would_grow_too_large),
        TEST(a_store_that_fails_is_a_problem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
