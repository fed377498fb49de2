/* api/results: the list of a job's files, each file and all of them as a zip: states, ranges, conditions, names,
 * digests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/results.h"
#include "api/routes.h"
#include "fake_ports.h"

#define JOB    "0195f000-0000-7000-8000-0000000000aa"
#define KEY    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define MODEL  "0123456789"
#define REPORT "{\"status\":\"written\"}"

/* One header of the request. */
static struct { const char *name, *value; } sent;

static const char *header(_unused_ void *ctx, const char *name) {
    return sent.name && strcmp(sent.name, name) == 0 ? sent.value : NULL;
}

static struct fake fake;
static struct ck_reply reply;

static int setup(_unused_ void **state) {
    struct ck_job_row *row = &fake.jobs[0];

    fake_init(&fake);
    fake.n_jobs = 1;
    *row = (struct ck_job_row){.id = JOB,
                               .tenant = strdup(""),
                               .state = CK_STATE_SUCCEEDED,
                               .kind = strdup("convert"),
                               .target = strdup("mlx"),
                               .quant = strdup("q4"),
                               .stem = strdup("net"),
                               .cache_key = KEY};
    fake_add_result(&fake, JOB, "model.safetensors", MODEL);
    fake_add_result(&fake, JOB, "report.json", REPORT);
    sent.name = NULL;
    return 0;
}

static int teardown(_unused_ void **state) {
    ck_reply_release(&reply);
    fake_release(&fake);
    return 0;
}

static void call(ck_answer_fn answer, const char *method, const char *name, const char *query) {
    struct ck_request request = {
        .method = method, .path = "", .query = query, .id = "id-1", .params = {JOB, name}, .header = header};

    ck_reply_release(&reply);
    answer(&request, &fake.ports, &reply);
    assert_false(reply.broken);
}

static void get_model(const char *name, const char *value) {
    sent.name = name;
    sent.value = value;
    call(ck_answer_result, "GET", "model.safetensors", "");
}

static void assert_header(const char *name, const char *value) {
    const char *found = ck_reply_find(&reply, name);

    assert_non_null(found);
    assert_string_equal(found, value);
}

static json_t *body(void) {
    json_t *json = json_loadb(ck_buffer_text(&reply.body), reply.body.length, 0, NULL);

    assert_non_null(json);
    return json;
}

static void assert_problem(int status, const char *code) {
    json_t *json = body();

    assert_int_equal(reply.status, status);
    assert_string_equal(json_string_value(json_object_get(json, "code")), code);
    json_decref(json);
}

/* The bytes that are sent. */
static const char *sent_bytes(void) {
    static char text[4096];
    struct ck_error err = {0};
    ssize_t n = -1;

    assert_true(reply.length < sizeof(text));
    if (reply.kind == CK_REPLY_FILE)
        n = pread(reply.fd, text, reply.length, (off_t)reply.offset);
    else if (reply.kind == CK_REPLY_ZIP)
        n = ck_zip_layout_read(&reply.zip, reply.offset, text, reply.length, &err);
    assert_int_equal(n, reply.length);
    text[n] = 0;
    return text;
}

static void a_file_is_served_whole_with_its_names(_unused_ void **state) {
    get_model(NULL, NULL);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.kind, CK_REPLY_FILE);
    assert_string_equal(sent_bytes(), MODEL);
    assert_header("Content-Type", "application/octet-stream");
    assert_header("Accept-Ranges", "bytes");
    assert_header("Content-Disposition", "attachment; filename=\"model.safetensors\"");
    /* sha256 of KEY "/model.safetensors", by another implementation. */
    assert_header("ETag", "\"00c89ac622552cd978437a04d82794dd1b1b543cabceff65241a1d1bbcc33390\"");
    assert_null(ck_reply_find(&reply, "Repr-Digest"));
    call(ck_answer_result, "GET", "report.json", "");
    assert_header("Content-Type", "application/json");
    assert_string_equal(sent_bytes(), REPORT);
}

static void ranges_are_exact_at_their_edges(_unused_ void **state) {
    static const struct {
        const char *range, *bytes, *content_range;
    } good[] = {
        {"bytes=0-0", "0", "bytes 0-0/10"},   {"bytes=9-9", "9", "bytes 9-9/10"},
        {"bytes=9-", "9", "bytes 9-9/10"},    {"bytes=-1", "9", "bytes 9-9/10"},
        {"bytes=0-9", MODEL, "bytes 0-9/10"}, {"bytes=0-10", MODEL, "bytes 0-9/10"},
        {"bytes=-10", MODEL, "bytes 0-9/10"}, {"bytes=-11", MODEL, "bytes 0-9/10"},
        {"bytes=3-5", "345", "bytes 3-5/10"},
    };

    for (size_t i = 0; i < CK_ARRAY_LEN(good); i++) {
        get_model("Range", good[i].range);
        assert_int_equal(reply.status, 206);
        assert_header("Content-Range", good[i].content_range);
        assert_string_equal(sent_bytes(), good[i].bytes);
        assert_int_equal(ck_reply_length(&reply), strlen(good[i].bytes));
    }
    get_model("Range", "bytes=10-");
    assert_problem(416, "range_not_satisfiable");
    assert_header("Content-Range", "bytes */10");
}

static void head_and_other_methods_ignore_ranges(_unused_ void **state) {
    struct ck_request put = {.method = "PUT", .path = "", .query = "", .id = "", .header = header};

    sent.name = "Range";
    sent.value = "bytes=3-5";
    call(ck_answer_result, "HEAD", "model.safetensors", "");
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.length, 10);
    ck_reply_release(&reply);
    ck_results_reply_file(&put, &fake.ports, &fake.jobs[0], "model.safetensors", "attachment; filename=\"a\"", &reply);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.length, 10);
    assert_header("Content-Disposition", "attachment; filename=\"a\"");
    ck_reply_release(&reply);
    sent.name = "If-None-Match";
    sent.value = "*";
    ck_results_reply_zip(&put, &fake.ports, &fake.jobs[0], &reply);
    assert_int_equal(reply.status, 200);
}

static void what_the_client_has_is_not_sent_again(_unused_ void **state) {
    char etag[80];

    get_model(NULL, NULL);
    snprintf(etag, sizeof(etag), "%s", ck_reply_find(&reply, "ETag"));
    get_model("If-None-Match", etag);
    assert_int_equal(reply.status, 304);
    assert_header("ETag", etag);
    assert_int_equal(ck_reply_length(&reply), 0);
    call(ck_answer_result, "GET", "report.json", "");
    assert_int_equal(reply.status, 200);
    assert_string_not_equal(ck_reply_find(&reply, "ETag"), etag);
    call(ck_answer_results_zip, "GET", NULL, "");
    assert_int_equal(reply.status, 200);
    snprintf(etag, sizeof(etag), "%s", ck_reply_find(&reply, "ETag"));
    sent.value = etag;
    call(ck_answer_results_zip, "HEAD", NULL, "");
    assert_int_equal(reply.status, 304);
}

static void the_digest_is_of_the_whole_when_it_is_asked_for(_unused_ void **state) {
    get_model("Want-Repr-Digest", "sha-512=10, sha-256=1");
    assert_header("Repr-Digest", "sha-256=:hNiYd/DUBB77a/kaFvAkjy/Vc+avBcGflr7bn4gveII=:");
    get_model("Want-Repr-Digest", "sha-256=0");
    assert_null(ck_reply_find(&reply, "Repr-Digest"));
    sent.name = "Range";
    sent.value = "bytes=0-3";
    call(ck_answer_result, "GET", "model.safetensors", "digest=true");
    assert_int_equal(reply.status, 206);
    assert_header("Repr-Digest", "sha-256=:hNiYd/DUBB77a/kaFvAkjy/Vc+avBcGflr7bn4gveII=:");
    assert_string_equal(sent_bytes(), "0123");
}

static void the_zip_holds_every_file_in_one_folder(_unused_ void **state) {
    char whole[4096];

    call(ck_answer_results_zip, "GET", NULL, "");
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.kind, CK_REPLY_ZIP);
    assert_int_equal(reply.n_zip_files, 2);
    assert_header("Content-Type", "application/zip");
    assert_header("Content-Disposition", "attachment; filename=\"net.mlx-q4.zip\"");
    memcpy(whole, sent_bytes(), sizeof(whole));
    assert_memory_equal(whole, "PK\3\4", 4);
    assert_memory_equal(whole + 30, "net.mlx-q4/model.safetensors" MODEL, 28 + 10);
    sent.name = "Range";
    sent.value = "bytes=58-67";
    call(ck_answer_results_zip, "GET", NULL, "");
    assert_int_equal(reply.status, 206);
    assert_string_equal(sent_bytes(), MODEL);
    sent.value = "bytes=-1";
    call(ck_answer_results_zip, "GET", NULL, "");
    assert_int_equal(reply.offset, reply.zip.length - 1);
    sent.value = "bytes=100000-";
    call(ck_answer_results_zip, "GET", NULL, "");
    assert_problem(416, "range_not_satisfiable");
}

static void assert_folder(const char *kind, const char *target, const char *quant, const char *expected) {
    struct ck_job_row row = {.kind = (char *)(uintptr_t)kind,
                             .target = (char *)(uintptr_t)target,
                             .quant = (char *)(uintptr_t)quant,
                             .stem = (char *)(uintptr_t) "a"};
    char *folder = ck_results_folder(&row);

    assert_string_equal(folder, expected);
    free(folder);
}

static void folders_say_what_was_made(_unused_ void **state) {
    assert_folder("convert", "mlx", "", "a.mlx");
    assert_folder("convert", "mlx", "q4-g32", "a.mlx-q4-g32");
    assert_folder("analyze", "", "", "a.analysis");
}

static void the_list_names_files_and_zip(_unused_ void **state) {
    json_t *json, *first;
    uint64_t zip;

    call(ck_answer_results_zip, "HEAD", NULL, "");
    zip = reply.length;
    call(ck_answer_results, "GET", NULL, "");
    assert_int_equal(reply.status, 200);
    json = body();
    first = json_array_get(json_object_get(json, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(json, "job")), JOB);
    assert_int_equal(json_array_size(json_object_get(json, "results")), 2);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "model.safetensors");
    assert_int_equal(json_integer_value(json_object_get(first, "bytes")), 10);
    assert_string_equal(json_string_value(json_object_get(first, "crc32")), "00c0ffee");
    assert_string_equal(json_string_value(json_object_get(first, "href")),
                        "/v1/jobs/" JOB "/results/model.safetensors");
    assert_null(json_object_get(first, "digest"));
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "zip"), "name")), "net.mlx-q4.zip");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "zip"), "bytes")), zip);
    json_decref(json);
    call(ck_answer_results, "GET", NULL, "digest=true");
    json = body();
    first = json_array_get(json_object_get(json, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "digest")),
                        "sha256:84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
    json_decref(json);
}

static void a_failed_job_lists_its_report_alone(_unused_ void **state) {
    struct ck_job_row *row = &fake.jobs[0];
    json_t *json;

    row->state = CK_STATE_FAILED;
    row->files[0] = row->files[1];
    row->n_files = 1;
    call(ck_answer_results, "GET", NULL, "");
    json = body();
    assert_int_equal(json_array_size(json_object_get(json, "results")), 1);
    json_decref(json);
    call(ck_answer_report, "GET", NULL, "");
    assert_int_equal(reply.status, 200);
    assert_header("Content-Disposition", "inline");
    assert_string_equal(sent_bytes(), REPORT);
    row->n_files = 0;
    call(ck_answer_results, "GET", NULL, "");
    json = body();
    assert_true(json_is_null(json_object_get(json, "zip")));
    json_decref(json);
    call(ck_answer_results_zip, "GET", NULL, "");
    assert_problem(404, "result_not_found");
    call(ck_answer_report, "GET", NULL, "");
    assert_problem(404, "result_not_found");
}

static void every_state_answers_as_it_should(_unused_ void **state) {
    static const ck_answer_fn all[] = {ck_answer_results, ck_answer_result, ck_answer_report, ck_answer_results_zip};

    for (size_t i = 0; i < CK_ARRAY_LEN(all); i++) {
        fake.jobs[0].state = CK_STATE_RUNNING;
        call(all[i], "GET", "model.safetensors", "");
        assert_problem(409, "job_not_finished");
        assert_header("Location", "/v1/jobs/" JOB);
        fake.jobs[0].state = CK_STATE_EXPIRED;
        call(all[i], "GET", "model.safetensors", "");
        assert_problem(410, "results_expired");
        call(all[i], "GET", "model.safetensors", "digests=1");
        assert_problem(400, "bad_option");
        fake.fail = "get";
        fake.fail_code = CK_E_STORE_UNAVAILABLE;
        call(all[i], "GET", "model.safetensors", "");
        assert_problem(503, "store_unavailable");
        assert_non_null(ck_reply_find(&reply, "Retry-After"));
        fake.fail = NULL;
    }
}

static void names_that_the_job_does_not_list_are_never_opened(_unused_ void **state) {
    static const char *const names[] = {"model.safetensor", "../model.safetensors", "/etc/passwd", "."};

    fake.fail = "open_result";
    fake.fail_code = CK_E_IO;
    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++) {
        call(ck_answer_result, "GET", names[i], "");
        assert_problem(404, "result_not_found");
        assert_header("Content-Disposition", "attachment; filename=\"ckptd-error.json\"");
    }
    call(ck_answer_result, "GET", names[0], "");
    assert_non_null(strstr(ck_buffer_text(&reply.body), "did you mean model.safetensors?"));
}

static void files_that_went_meanwhile_or_changed_are_no_answer(_unused_ void **state) {
    fake.jobs[0].files[0].bytes = 11;
    get_model(NULL, NULL);
    assert_problem(500, "io");
    call(ck_answer_results_zip, "GET", NULL, "");
    assert_problem(500, "io");
    fake_remove_results(&fake.blobs, JOB);
    get_model(NULL, NULL);
    assert_problem(410, "results_expired");
    call(ck_answer_results_zip, "GET", NULL, "");
    assert_problem(410, "results_expired");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_served_whole_with_its_names, setup, teardown),
        cmocka_unit_test_setup_teardown(ranges_are_exact_at_their_edges, setup, teardown),
        cmocka_unit_test_setup_teardown(head_and_other_methods_ignore_ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_client_has_is_not_sent_again, setup, teardown),
        cmocka_unit_test_setup_teardown(the_digest_is_of_the_whole_when_it_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(the_zip_holds_every_file_in_one_folder, setup, teardown),
        cmocka_unit_test(folders_say_what_was_made),
        cmocka_unit_test_setup_teardown(the_list_names_files_and_zip, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_job_lists_its_report_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(every_state_answers_as_it_should, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_the_job_does_not_list_are_never_opened, setup, teardown),
        cmocka_unit_test_setup_teardown(files_that_went_meanwhile_or_changed_are_no_answer, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
