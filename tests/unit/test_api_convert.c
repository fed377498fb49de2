/* api/convert, api/analyze, api/order, api/submit, api/conclude: one command makes a job, waits for it, and answers
 * with what it made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/analyze.h"
#include "api/convert.h"
#include "core/base/version.h"
#include "fake_client.h"

#define OUTCOME "{\"tensors\":3,\"assumed\":2,\"dropped\":0,\"aliases\":0,\"overflowed\":0}"

static struct fake fake;

static int setup(_unused_ void **state) {
    fake_init(&fake);
    return 0;
}

static int teardown(_unused_ void **state) {
    fake_release(&fake);
    return 0;
}

static void put(struct client *client, const char *path, const char *query) {
    client_init(client, &fake, "PUT", path, query);
    client_file(client, "", NULL, 7);
}

static void form(struct client *client, const char *path) {
    client_init(client, &fake, "POST", path, "");
}

static int convert(struct client *client) {
    bool as_form = strcmp(client->request.path, "/v1/convert") == 0;

    return client_send(client, as_form ? ck_head_convert_form : ck_head_convert, ck_answer_convert);
}

/* The job that the waiting client made ends well, with these files. */
static const char *succeed(const char *first, const char *second) {
    struct ck_job_row *row = fake_last_job(&fake);

    fake_start(&fake, row->id);
    fake_add_result(&fake, row->id, first, "first");
    if (second)
        fake_add_result(&fake, row->id, second, "{}");
    fake_end(&fake, row->id, CK_STATE_SUCCEEDED, OUTCOME, NULL);
    return row->id;
}

static void assert_log(const char *expected) {
    assert_string_equal(fake.log, expected);
    fake.log[0] = 0;
}

static void assert_problem(struct client *client, int status, const char *code, const char *text) {
    const char *detail = client_member(client, "detail"), *hint = client_member(client, "hint");

    assert_int_equal(client->reply.status, status);
    assert_string_equal(client_member(client, "code"), code);
    if (!strstr(detail, text) && !strstr(hint, text))
        fail_msg("'%s' is neither in '%s' nor in '%s'", text, detail, hint);
    assert_string_equal(client_answer_header(client, "Content-Disposition"),
                        "attachment; filename=\"ckptd-error.json\"");
}

/* ---- the one command ---- */

static void a_conversion_waits_for_its_zip(_unused_ void **state) {
    struct client client;
    char location[64];
    const struct ck_job_row *row;

    put(&client, "/v1/convert/mlx/q4/net.pt", "dtype=float16");
    assert_int_equal(convert(&client), 0);
    assert_true(client.reply.wait.until_finished);
    assert_int_equal(client.reply.wait.seconds, 300);
    assert_false(client.reply.wait.cancel_when_gone);
    row = fake_last_job(&fake);
    assert_string_equal(client.reply.wait.job, row->id);
    assert_int_equal(client.reply.wait.version, row->version);
    assert_string_equal(row->spec,
                        "{\"kind\":\"convert\",\"options\":{\"dtype\":\"float16\"},\"quant\":\"q4\",\"to\":\"mlx\"}");
    assert_string_equal(row->stem, "net");
    assert_string_equal(row->inputs[0].name, "net.pt");
    assert_string_equal(row->inputs[0].role, "model");
    assert_int_equal(row->inputs[0].bytes, 1007);
    assert_string_equal(row->request_id, "request-1");
    assert_string_equal(row->converter, ck_version());
    assert_string_equal(row->labels, "{}");
    assert_int_equal(row->max_attempts, 5);
    assert_int_equal(row->created_at, FAKE_NOW);
    assert_false(row->durable);
    /* The answer owes no sync: it is the result. */
    assert_log("adopt put create changed");
    assert_int_equal(fake.adopted, 0);

    succeed("model.safetensors", "report.json");
    assert_int_equal(client_resume(&client), 200);
    assert_int_equal(client.reply.kind, CK_REPLY_ZIP);
    assert_string_equal(client_answer_header(&client, "Content-Type"), "application/zip");
    assert_string_equal(client_answer_header(&client, "Content-Disposition"),
                        "attachment; filename=\"net.mlx-q4.zip\"");
    assert_string_equal(client_answer_header(&client, "X-Ckptd-Assumed"), "2");
    assert_string_equal(client_answer_header(&client, "X-Job-Id"), row->id);
    snprintf(location, sizeof(location), "/v1/jobs/%s", row->id);
    assert_string_equal(client_answer_header(&client, "Location"), location);
    assert_int_equal(strlen(client_answer_header(&client, "ETag")), 66);
    assert_string_equal(client_answer_header(&client, "Preference-Applied"), "");
    assert_log("");
    client_release(&client);
}

static void one_file_of_safetensors_comes_bare(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/safetensors/net.pt", "");
    assert_int_equal(convert(&client), 0);
    succeed("model.safetensors", "report.json");
    assert_int_equal(client_resume(&client), 200);
    assert_int_equal(client.reply.kind, CK_REPLY_FILE);
    assert_string_equal(client_text(&client), "first");
    assert_string_equal(client_answer_header(&client, "Content-Type"), "application/octet-stream");
    assert_string_equal(client_answer_header(&client, "Content-Disposition"),
                        "attachment; filename=\"net.safetensors\"");
    client_release(&client);

    put(&client, "/v1/convert/safetensors/net.pt", "max_shard_size=2048");
    assert_int_equal(convert(&client), 0);
    succeed("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
    assert_int_equal(client_resume(&client), 200);
    assert_int_equal(client.reply.kind, CK_REPLY_ZIP);
    client_release(&client);
}

static void a_dry_run_is_waited_for_whatever_prefer_says(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "dry_run=true");
    client_header(&client, "Prefer", "respond-async");
    assert_int_equal(convert(&client), 0);
    assert_non_null(strstr(fake_last_job(&fake)->spec, "\"dry_run\":true"));
    succeed("plan.json", NULL);
    assert_int_equal(client_resume(&client), 200);
    assert_string_equal(client_text(&client), "first");
    assert_string_equal(client_answer_header(&client, "Content-Type"), "application/json");
    assert_string_equal(client_answer_header(&client, "Content-Disposition"), "inline; filename=\"net.mlx.plan.json\"");
    assert_string_equal(client_answer_header(&client, "Preference-Applied"), "");
    client_release(&client);
}

static void a_failed_job_answers_with_its_problem(_unused_ void **state) {
    struct client client;
    const struct ck_job_row *row;

    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    row = fake_last_job(&fake);
    fake_start(&fake, row->id);
    fake_end(&fake, row->id, CK_STATE_FAILED, NULL,
             "{\"code\":\"ambiguous_layout\",\"title\":\"t\",\"detail\":\"the layout of up.weight is open\","
             "\"where\":\"up.weight\",\"hint\":\"say layers=\",\"questions\":[{\"tensor\":\"up.weight\"}]}");
    assert_int_equal(client_resume(&client), 422);
    assert_problem(&client, 422, "ambiguous_layout", "the layout of up.weight is open");
    assert_string_equal(client_member(&client, "hint"), "say layers=");
    assert_string_equal(client_member(&client, "where"), "up.weight");
    assert_string_equal(client_member(&client, "questions.0.tensor"), "up.weight");
    assert_string_equal(client_member(&client, "job"), row->id);
    assert_string_equal(client_answer_header(&client, "X-Job-Id"), row->id);
    assert_non_null(strstr(client_answer_header(&client, "Location"), row->id));
    client_release(&client);
}

static int end_with(enum ck_job_state how, const char *reason, const char *error, struct client *client) {
    put(client, "/v1/convert/mlx/net.pt", "fresh");
    assert_int_equal(convert(client), 0);
    fake_last_job(&fake)->reason = fake_text(reason);
    fake_end(&fake, fake_last_job(&fake)->id, how, NULL, error);
    return client_resume(client);
}

static void every_other_end_is_a_problem_too(_unused_ void **state) {
    struct client client;

    assert_int_equal(end_with(CK_STATE_CANCELLED, "cancelled", NULL, &client), 409);
    assert_problem(&client, 409, "cancelled", "was cancelled");
    client_release(&client);
    assert_int_equal(end_with(CK_STATE_DEAD, "worker_crashed", NULL, &client), 422);
    assert_problem(&client, 422, "worker_crashed", "is dead");
    client_release(&client);
    assert_int_equal(end_with(CK_STATE_DEAD, "attempts", NULL, &client), 503);
    assert_problem(&client, 503, "attempts_exhausted", "lost each time");
    client_release(&client);
    assert_int_equal(end_with(CK_STATE_EXPIRED, NULL, NULL, &client), 410);
    assert_problem(&client, 410, "results_expired", "were removed");
    client_release(&client);
    assert_int_equal(end_with(CK_STATE_FAILED, NULL, "no JSON", &client), 500);
    assert_problem(&client, 500, "internal", "does not say");
    client_release(&client);
}

static void a_wait_that_was_too_short_becomes_a_202_with_a_safe_input(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    fake.log[0] = 0;
    assert_int_equal(client_resume(&client), 202);
    assert_log("sync put-durable");
    assert_true(fake.blob[0].file_durable && fake.blob[0].row_durable);
    assert_string_equal(client_member(&client, "id"), fake_last_job(&fake)->id);
    assert_string_equal(client_member(&client, "state"), "queued");
    assert_string_equal(client_answer_header(&client, "Content-Disposition"),
                        "attachment; filename=\"net.mlx.job.json\"");
    assert_string_equal(client_answer_header(&client, "Retry-After"), "2");
    assert_non_null(strstr(client_answer_header(&client, "Location"), fake_last_job(&fake)->id));
    client_release(&client);
}

static void a_202_is_not_promised_for_an_input_that_cannot_be_synced(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    fake.fail = "sync";
    fake.fail_code = CK_E_STORAGE_FULL;
    assert_int_equal(client_resume(&client), 507);
    assert_string_equal(client_member(&client, "job"), fake_last_job(&fake)->id);
    client_release(&client);
}

static void a_drain_tells_the_waiting_where_the_job_will_be(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    fake.some_health.draining = true;
    assert_int_equal(client_resume(&client), 503);
    assert_problem(&client, 503, "draining", "goes on when it is back");
    assert_string_equal(client_answer_header(&client, "Retry-After"), "10");
    assert_non_null(strstr(client_answer_header(&client, "Location"), fake_last_job(&fake)->id));
    assert_int_equal(fake_last_job(&fake)->state, CK_STATE_QUEUED);
    client_release(&client);
    /* One that has ended is answered all the same. */
    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    succeed("model.safetensors", NULL);
    assert_int_equal(client_resume(&client), 200);
    client_release(&client);
}

static void respond_async_stores_first_and_promises_then(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "");
    client_header(&client, "Prefer", "respond-async");
    assert_int_equal(convert(&client), 202);
    assert_int_equal(strncmp(fake.log, "adopt-durable put-durable create-durable changed",
                             strlen("adopt-durable put-durable create-durable changed")),
                     0);
    assert_true(fake_last_job(&fake)->durable);
    assert_null(strstr(fake.log, "sync"));
    assert_string_equal(client_answer_header(&client, "Preference-Applied"), "respond-async");
    assert_string_equal(client_answer_header(&client, "Content-Type"), "application/json");
    assert_string_equal(client_member(&client, "state"), "queued");
    client_release(&client);
}

static void a_throw_away_daemon_syncs_nothing(_unused_ void **state) {
    struct client client;

    fake.ports.terms.durable = false;
    put(&client, "/v1/convert/mlx/net.pt", "");
    client_header(&client, "Prefer", "respond-async");
    assert_int_equal(convert(&client), 202);
    assert_log("adopt put create changed");
    client_release(&client);
}

static void assert_wait(const char *prefer, uint64_t most, int64_t seconds, const char *applied) {
    struct client client;
    int status;

    fake.ports.terms.max_sync_wait = most;
    put(&client, "/v1/convert/mlx/net.pt", "fresh=true");
    if (prefer[0])
        client_header(&client, "Prefer", prefer);
    status = convert(&client);
    if (seconds < 0) {
        assert_int_equal(status, 202);
    } else {
        assert_int_equal(status, 0);
        assert_int_equal(client.reply.wait.seconds, seconds);
        assert_int_equal(client_resume(&client), 202);
    }
    assert_string_equal(client_answer_header(&client, "Preference-Applied"), applied);
    client_release(&client);
}

static void prefer_wait_is_capped_by_the_daemon(_unused_ void **state) {
    assert_wait("", 300, 300, "");
    assert_wait("", 0, 0, ""); /* without end */
    assert_wait("wait=10", 300, 10, "wait=10");
    assert_wait("wait=300", 300, 300, "wait=300");
    assert_wait("wait=301", 300, 300, "wait=300");
    assert_wait("wait=99999", 0, 99999, "wait=99999");
    assert_wait("wait=0", 300, -1, "wait=0");
    assert_wait("wait=0", 0, -1, "wait=0");
    assert_wait("respond-async", 300, -1, "respond-async");
    assert_wait("respond-async, wait=10", 300, 10, "wait=10");
}

static void the_client_may_take_its_job_along(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "cancel_on_disconnect=true");
    assert_int_equal(convert(&client), 0);
    assert_true(client.reply.wait.cancel_when_gone);
    client_release(&client);
    put(&client, "/v1/convert/mlx/net.pt", "cancel_on_disconnect=maybe");
    assert_int_equal(convert(&client), 400);
    assert_string_equal(client_member(&client, "where"), "cancel_on_disconnect");
    client_release(&client);
}

static void an_empty_file_makes_no_job(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "");
    client.files[0].bytes = 0;
    assert_int_equal(convert(&client), 422);
    assert_problem(&client, 422, "empty_file", "no bytes");
    assert_log("");
    client_release(&client);
}

static void a_file_whose_row_fails_is_given_back(_unused_ void **state) {
    struct client client;

    fake.fail = "put";
    fake.fail_code = CK_E_STORE_UNAVAILABLE;
    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 503);
    assert_log("adopt put remove");
    assert_int_equal(fake.adopted, 0);
    assert_int_equal(fake.blob_hits, 0);
    client_release(&client);
}

/* ---- cache ---- */

static void the_same_again_comes_from_cache(_unused_ void **state) {
    struct client client;
    char first[CK_JOB_ID_SIZE], etag[80];
    const struct ck_job_row *row;

    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    snprintf(first, sizeof(first), "%s", succeed("model.safetensors", "report.json"));
    assert_int_equal(client_resume(&client), 200);
    snprintf(etag, sizeof(etag), "%s", client_answer_header(&client, "ETag"));
    client_release(&client);
    assert_int_equal(fake.cache_hits, 0);
    assert_int_equal(fake.blob_hits, 0);

    fake.clock += 5000;
    fake.log[0] = 0;
    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 200);
    assert_log("adopt put link create");
    assert_string_equal(client_answer_header(&client, "ETag"), etag);
    assert_string_equal(client_answer_header(&client, "X-Ckptd-Assumed"), "2");
    row = fake_last_job(&fake);
    assert_string_not_equal(row->id, first);
    assert_string_equal(row->cached_from, first);
    assert_string_equal(row->reason, "cached");
    assert_string_equal(row->outcome, OUTCOME);
    assert_int_equal(row->state, CK_STATE_SUCCEEDED);
    assert_int_equal(row->n_files, 2);
    assert_int_equal(row->created_at, FAKE_NOW + 5000);
    assert_int_equal(row->finished_at, row->created_at);
    assert_int_equal(row->expires_at, row->created_at + 3600 * 1000);
    assert_int_equal(fake_count_results(&fake, row->id), 2);
    assert_int_equal(fake.cache_hits, 1);
    assert_int_equal(fake.blob_hits, 1);
    assert_int_equal(fake.changed, 1);
    client_release(&client);

    put(&client, "/v1/convert/mlx/net.pt", "fresh=true");
    assert_int_equal(convert(&client), 0);
    assert_true(fake_last_job(&fake)->fresh);
    client_release(&client);
    put(&client, "/v1/convert/mlx/q4/net.pt", "");
    assert_int_equal(convert(&client), 0);
    client_release(&client);
    assert_int_equal(fake.cache_hits, 1);
}

static void respond_async_is_answered_with_the_job_even_from_cache(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    succeed("model.safetensors", NULL);
    client_release(&client);
    put(&client, "/v1/convert/mlx/net.pt", "");
    client_header(&client, "Prefer", "respond-async");
    assert_int_equal(convert(&client), 202);
    assert_string_equal(client_member(&client, "state"), "succeeded");
    assert_string_equal(client_answer_header(&client, "Retry-After"), "");
    client_release(&client);
}

static void results_that_are_gone_are_made_again(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    fake_remove_results(&fake.blobs, succeed("model.safetensors", NULL));
    client_release(&client);
    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    assert_int_equal(fake_last_job(&fake)->state, CK_STATE_QUEUED);
    assert_int_equal(fake.cache_hits, 0);
    client_release(&client);
}

static void links_without_a_row_are_removed(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 0);
    succeed("model.safetensors", NULL);
    client_release(&client);
    fake.log[0] = 0;
    fake.fail = "create";
    fake.fail_code = CK_E_STORAGE_FULL;
    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 507);
    assert_log("adopt put link create remove-results");
    client_release(&client);
    fake.fail = "cached";
    fake.fail_code = CK_E_STORE_UNAVAILABLE;
    put(&client, "/v1/convert/mlx/net.pt", "");
    assert_int_equal(convert(&client), 503);
    client_release(&client);
}

/* ---- forms ---- */

static void a_form_says_everything_in_any_order(_unused_ void **state) {
    struct client client;
    const struct ck_job_row *row;

    form(&client, "/v1/convert");
    client_field(&client, "dtype", "float16");
    client_field(&client, "options", "{\"layers\":{\"a\":\"Conv2d\"}}");
    client_field(&client, "labels", "{\"team\":\"x\"}");
    client_file(&client, "file", "net.pt", 9);
    client_field(&client, "quant", "q8");
    client_field(&client, "fresh", "true");
    client_field(&client, "cancel_on_disconnect", "1");
    client_field(&client, "to", "mlx");
    assert_int_equal(convert(&client), 0);
    assert_true(client.reply.wait.cancel_when_gone);
    row = fake_last_job(&fake);
    assert_string_equal(row->spec, "{\"kind\":\"convert\",\"options\":{\"dtype\":\"float16\",\"layers\":\"a:Conv2d\"},"
                                   "\"quant\":\"q8\",\"to\":\"mlx\"}");
    assert_string_equal(row->labels, "{\"team\":\"x\"}");
    assert_string_equal(row->stem, "net");
    assert_true(row->fresh);
    client_release(&client);
}

static void a_form_may_name_a_stored_file(_unused_ void **state) {
    static const char hex[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    struct client client;
    char digest[80];

    snprintf(digest, sizeof(digest), "sha256:%s", hex);
    form(&client, "/v1/convert");
    client_field(&client, "to", "mlx");
    client_field(&client, "digest", digest);
    assert_int_equal(convert(&client), 422);
    assert_problem(&client, 422, "input_not_found", hex);
    client_release(&client);

    fake_add_blob(&fake, hex, "0123456789", false);
    form(&client, "/v1/convert");
    client_field(&client, "to", "mlx");
    client_field(&client, "digest", digest);
    client_field(&client, "name", "stored.pt");
    assert_int_equal(convert(&client), 0);
    assert_string_equal(fake_last_job(&fake)->stem, "stored");
    assert_int_equal(fake_last_job(&fake)->inputs[0].bytes, 10);
    assert_log("create changed");
    client_release(&client);

    form(&client, "/v1/convert");
    client_header(&client, "Prefer", "respond-async");
    client_field(&client, "to", "mlx");
    client_field(&client, "digest", digest);
    assert_int_equal(convert(&client), 202);
    assert_log("sync put-durable create-durable changed");
    client_release(&client);

    /* The row is there, the file is not. */
    fake_find_blob(&fake, hex)->file = false;
    form(&client, "/v1/convert");
    client_field(&client, "to", "mlx");
    client_field(&client, "digest", digest);
    assert_int_equal(convert(&client), 422);
    client_release(&client);
}

static void assert_form(const char *name, const char *value, const char *code, const char *text) {
    struct client client;

    form(&client, "/v1/convert");
    client_field(&client, "to", "mlx");
    client_file(&client, "file", "net.pt", 9);
    client_field(&client, name, value);
    assert_int_equal(convert(&client), 400);
    assert_problem(&client, 400, code, text);
    assert_log("");
    client_release(&client);
}

static void a_form_is_held_to_its_fields(_unused_ void **state) {
    struct client client;

    assert_form("quantt", "q4", "bad_option", "did you mean 'quant'?");
    assert_form("to", "mlx", "bad_option", "twice");
    assert_form("file", "net.pt", "bad_option", "with the @");
    assert_form("quant", "q44", "unsupported_quant", "q4");
    assert_form("fresh", "perhaps", "bad_option", "true");
    assert_form("digest", "sha256:12", "bad_request", "64");
    assert_form("digest", "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "bad_option",
                "one of them");
    assert_form("labels", "[1]", "bad_json", "an object");
    assert_form("options", "{\"dtype\":1}", "bad_option", "float16");
    assert_form("options", "dtype=float16", "bad_json", "not JSON");
    assert_form("name", "", "bad_request", "1 to 255");

    form(&client, "/v1/convert");
    client_file(&client, "file", "net.pt", 9);
    assert_int_equal(convert(&client), 400);
    assert_problem(&client, 400, "unsupported_target", "-F to=mlx");
    client_release(&client);

    form(&client, "/v1/convert");
    client_field(&client, "to", "mlx");
    assert_int_equal(convert(&client), 400);
    assert_problem(&client, 400, "missing_file", "neither");
    client_release(&client);

    form(&client, "/v1/convert");
    client_field(&client, "to", "mlx");
    client_file(&client, "model", "net.pt", 9);
    assert_int_equal(convert(&client), 400);
    assert_problem(&client, 400, "bad_option", "file=@FILE");
    client_release(&client);

    form(&client, "/v1/convert");
    client_field(&client, "to", "mlx");
    client_file(&client, "file", "a.pt", 9);
    client_file(&client, "file", "b.pt", 8);
    assert_int_equal(convert(&client), 413);
    assert_problem(&client, 413, "too_many_files", "2 files");
    client_release(&client);
}

static void query_and_form_are_one_specification(_unused_ void **state) {
    struct client client;

    form(&client, "/v1/convert");
    client.request.query = "dtype=float16&fresh";
    client_field(&client, "to", "mlx");
    client_file(&client, "file", "a.pt", 9);
    assert_int_equal(convert(&client), 0);
    assert_non_null(strstr(fake_last_job(&fake)->spec, "\"dtype\":\"float16\""));
    assert_true(fake_last_job(&fake)->fresh);
    client_release(&client);

    form(&client, "/v1/convert");
    client.request.query = "dtype=float16";
    client_field(&client, "to", "mlx");
    client_field(&client, "dtype", "float32");
    client_file(&client, "file", "a.pt", 9);
    assert_int_equal(convert(&client), 400);
    assert_problem(&client, 400, "bad_option", "query and in the form");
    client_release(&client);

    /* Names are checked on the head already. */
    form(&client, "/v1/convert");
    client.request.query = "dtipe=float16";
    assert_int_equal(convert(&client), 400);
    client_release(&client);
}

static void a_form_on_the_path_of_a_target_is_as_good(_unused_ void **state) {
    struct client client;

    form(&client, "/v1/convert/mlx/q4/");
    client_file(&client, "file", "net.pt", 9);
    client_field(&client, "assume", "never");
    assert_int_equal(convert(&client), 0);
    assert_string_equal(fake_last_job(&fake)->quant, "q4");
    assert_string_equal(fake_last_job(&fake)->stem, "net");
    assert_non_null(strstr(fake_last_job(&fake)->spec, "\"assume\":\"never\""));
    client_release(&client);

    form(&client, "/v1/convert/mlx/q4/");
    client_file(&client, "file", "net.pt", 9);
    client_field(&client, "to", "mlx");
    assert_int_equal(convert(&client), 400);
    assert_problem(&client, 400, "bad_option", "the path names target");
    client_release(&client);
}

/* ---- analyses ---- */

static int analyze(struct client *client) {
    return client_send(client, ck_head_analyze, ck_answer_analyze);
}

static void an_analysis_answers_with_its_document(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/analyze/net.pt", "tensors=false");
    client.request.params[0] = "net.pt";
    assert_int_equal(analyze(&client), 0);
    assert_string_equal(fake_last_job(&fake)->kind, "analyze");
    assert_string_equal(fake_last_job(&fake)->target, "");
    assert_non_null(strstr(fake_last_job(&fake)->spec, "\"tensors\":\"false\""));
    succeed("analysis.json", NULL);
    assert_int_equal(client_resume(&client), 200);
    assert_string_equal(client_text(&client), "first");
    assert_string_equal(client_answer_header(&client, "Content-Type"), "application/json");
    assert_string_equal(client_answer_header(&client, "Content-Disposition"), "inline; filename=\"net.analysis.json\"");
    assert_non_null(strstr(client_answer_header(&client, "Location"), fake_last_job(&fake)->id));
    assert_string_equal(client_answer_header(&client, "X-Job-Id"), fake_last_job(&fake)->id);
    client_release(&client);

    put(&client, "/v1/analyze/net.pt", "tensors=false");
    client.request.params[0] = "net.pt";
    assert_int_equal(analyze(&client), 200);
    assert_int_equal(fake.cache_hits, 1);
    client_release(&client);
}

static void an_analysis_may_be_a_form_or_json(_unused_ void **state) {
    static const char hex[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    struct client client;
    char body[200];

    form(&client, "/v1/analyze");
    client_file(&client, "file", "a/net.pt", 9);
    client_field(&client, "state_dict", "model");
    assert_int_equal(analyze(&client), 0);
    assert_string_equal(fake_last_job(&fake)->stem, "net");
    client_release(&client);

    fake_add_blob(&fake, hex, "0123456789", true);
    snprintf(body, sizeof(body), "{\"digest\":\"sha256:%s\",\"name\":\"b.pt\",\"options\":{\"state_dict\":\"x\"}}",
             hex);
    form(&client, "/v1/analyze");
    client.request.query = "tensors=false";
    client_body(&client, body);
    assert_int_equal(analyze(&client), 0);
    assert_string_equal(fake_last_job(&fake)->spec, "{\"kind\":\"analyze\",\"options\":{\"state_dict\":\"x\","
                                                    "\"tensors\":\"false\"},\"quant\":\"\",\"to\":\"\"}");
    client_release(&client);

    form(&client, "/v1/analyze");
    client.request.query = "state_dict=y";
    client_body(&client, body);
    assert_int_equal(analyze(&client), 400);
    assert_problem(&client, 400, "bad_option", "given twice");
    client_release(&client);
}

static void an_analysis_has_no_target_and_no_dry_run(_unused_ void **state) {
    struct client client;

    put(&client, "/v1/analyze", "dry_run=true");
    assert_int_equal(analyze(&client), 400);
    assert_string_equal(client_member(&client, "where"), "dry_run");
    client_release(&client);
    form(&client, "/v1/analyze");
    client_file(&client, "file", "net.pt", 9);
    client_field(&client, "to", "mlx");
    assert_int_equal(analyze(&client), 400);
    assert_problem(&client, 400, "bad_option", "no field");
    client_release(&client);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_conversion_waits_for_its_zip),
        TEST(one_file_of_safetensors_comes_bare),
        TEST(a_dry_run_is_waited_for_whatever_prefer_says),
        TEST(a_failed_job_answers_with_its_problem),
        TEST(every_other_end_is_a_problem_too),
        TEST(a_wait_that_was_too_short_becomes_a_202_with_a_safe_input),
        TEST(a_202_is_not_promised_for_an_input_that_cannot_be_synced),
        TEST(a_drain_tells_the_waiting_where_the_job_will_be),
        TEST(respond_async_stores_first_and_promises_then),
        TEST(a_throw_away_daemon_syncs_nothing),
        TEST(prefer_wait_is_capped_by_the_daemon),
        TEST(the_client_may_take_its_job_along),
        TEST(an_empty_file_makes_no_job),
        TEST(a_file_whose_row_fails_is_given_back),
        TEST(the_same_again_comes_from_cache),
        TEST(respond_async_is_answered_with_the_job_even_from_cache),
        TEST(results_that_are_gone_are_made_again),
        TEST(links_without_a_row_are_removed),
        TEST(a_form_says_everything_in_any_order),
        TEST(a_form_may_name_a_stored_file),
        TEST(a_form_is_held_to_its_fields),
        TEST(query_and_form_are_one_specification),
        TEST(a_form_on_the_path_of_a_target_is_as_good),
        TEST(an_analysis_answers_with_its_document),
        TEST(an_analysis_may_be_a_form_or_json),
        TEST(an_analysis_has_no_target_and_no_dry_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
