/* api/: replies and problems, and the pages that people, probes and programs read: help, health, metrics, capabilities,
 * the contract. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/capabilities.h"
#include "api/health.h"
#include "api/help.h"
#include "api/openapi.h"
#include "api/problem.h"
#include "api/routes.h"
#include "core/job/options.h"
#include "fake_ports.h"

static struct fake fake;
static struct ck_reply reply;
static struct ck_request request;

/* One header of the request. */
static struct { const char *name, *value; } sent;

static const char *header(_unused_ void *ctx, const char *name) {
    return sent.name && strcmp(sent.name, name) == 0 ? sent.value : NULL;
}

static int setup(_unused_ void **state) {
    fake_init(&fake);
    sent.name = NULL;
    request = (struct ck_request){.method = "GET", .path = "", .query = "", .id = "id-1", .header = header};
    return 0;
}

static int teardown(_unused_ void **state) {
    ck_reply_release(&reply);
    fake_release(&fake);
    return 0;
}

static void call(ck_answer_fn answer, const char *query) {
    ck_reply_release(&reply);
    request.query = query;
    answer(&request, &fake.ports, &reply);
    assert_false(reply.broken);
}

static const char *text(void) {
    return ck_buffer_text(&reply.body);
}

static json_t *json_of(const char *bytes, size_t n) {
    json_t *json = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(json);
    return json;
}

static void assert_header(const char *name, const char *value) {
    const char *found = ck_reply_find(&reply, name);

    assert_non_null(found);
    assert_string_equal(found, value);
}

/* ---- replies ---- */

static void a_header_cannot_add_a_line(_unused_ void **state) {
    ck_reply_init(&reply, 200, NULL);
    ck_reply_header(&reply, "X-Test", "a%sb", "\r\nX-Evil: 1");
    assert_string_equal(ck_reply_find(&reply, "X-Test"), "a__X-Evil: 1b");
}

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

static int some_fd(void) {
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void a_reply_closes_the_files_that_it_owns(_unused_ void **state) {
    int fd = some_fd(), *fds = calloc(2, sizeof(*fds));
    struct ck_zip_layout layout = {0};
    struct ck_error err = {0};

    ck_reply_init(&reply, 200, NULL);
    ck_reply_file(&reply, fd, 2, 5);
    assert_int_equal(ck_reply_length(&reply), 5);
    ck_reply_release(&reply);
    assert_false(is_open(fd));
    fds[0] = some_fd();
    fds[1] = some_fd();
    fd = fds[1];
    assert_int_equal(
        ck_zip_layout_make((struct ck_zip_file[]){{.name = "a", .fd = fds[0], .bytes = 1}}, 1, &layout, &err), 0);
    ck_reply_init(&reply, 200, NULL);
    ck_reply_zip(&reply, &layout, fds, 2, 0, 7);
    assert_null(layout.segments);
    assert_int_equal(ck_reply_length(&reply), 7);
    ck_reply_release(&reply);
    assert_false(is_open(fd));
    /* A released one may be released again. Descriptor 0 is not its own. */
    ck_reply_release(&reply);
}

static void a_wait_has_no_body(_unused_ void **state) {
    const struct ck_reply_wait wait = {.job = "x", .until_finished = true, .seconds = 3};

    ck_reply_init(&reply, 200, NULL);
    ck_reply_printf(&reply, "text");
    ck_reply_wait_for(&reply, &wait);
    assert_int_equal(reply.kind, CK_REPLY_WAIT);
    assert_int_equal(reply.wait.seconds, 3);
    assert_int_equal(ck_reply_length(&reply), 0);
}

/* ---- problems ---- */

static void a_problem_says_what_where_and_what_to_do(_unused_ void **state) {
    struct ck_error err = {0};
    json_t *document;

    ck_error_set(&err, CK_E_AMBIGUOUS_LAYOUT, "up.weight", "the layout of \"%s\" is open", "up\xFF.weight");
    snprintf(err.details, sizeof(err.details), "[{\"tensor\":\"up.weight\"}]");
    ck_problem_reply(&err, "id-1", true, &reply);
    document = json_of(text(), reply.body.length);
    assert_int_equal(reply.status, 422);
    assert_int_equal(reply.code, CK_E_AMBIGUOUS_LAYOUT);
    assert_header("content-type", "application/problem+json");
    assert_header("Content-Disposition", "attachment; filename=\"ckptd-error.json\"");
    assert_null(ck_reply_find(&reply, "Location"));
    assert_string_equal(json_string_value(json_object_get(document, "code")), "ambiguous_layout");
    assert_string_equal(json_string_value(json_object_get(document, "type")), "urn:ckptd:error:ambiguous_layout");
    assert_string_equal(json_string_value(json_object_get(document, "where")), "up.weight");
    assert_string_equal(json_string_value(json_object_get(document, "request_id")), "id-1");
    assert_int_equal(json_integer_value(json_object_get(document, "status")), 422);
    assert_true(json_is_false(json_object_get(document, "retryable")));
    assert_int_equal(json_array_size(json_object_get(document, "questions")), 1);
    assert_null(json_object_get(document, "job"));
    json_decref(document);
}

static void a_problem_of_a_job_leads_to_it(_unused_ void **state) {
    struct ck_error err = {0};
    json_t *document;

    ck_error_set(&err, CK_E_WORKER_OOM, NULL, "x");
    ck_problem_reply_job(&err, "id-1", false, "job-1", &reply);
    document = json_of(text(), reply.body.length);
    assert_string_equal(json_string_value(json_object_get(document, "job")), "job-1");
    assert_header("Location", "/v1/jobs/job-1");
    json_decref(document);
}

static void come_back_problems_say_when(_unused_ void **state) {
    for (int i = 1; i < CK_ENUM_END_; i++) {
        const struct ck_error_row *row = ck_error_row(-i);
        struct ck_error err = {0};

        ck_error_set(&err, -i, NULL, "x");
        ck_reply_release(&reply);
        ck_problem_reply(&err, "id", false, &reply);
        assert_false(reply.broken);
        assert_int_equal(reply.status, row->http);
        assert_int_equal(reply.code, -i);
        assert_null(ck_reply_find(&reply, "Content-Disposition"));
        assert_int_equal(ck_reply_find(&reply, "Retry-After") != NULL,
                         row->http == 429 || row->http == 503 || row->http == 507);
        assert_int_equal(ck_reply_find(&reply, "WWW-Authenticate") != NULL, row->http == 401);
    }
}

static void an_error_survives_the_job_record(_unused_ void **state) {
    for (int i = 1; i < CK_ENUM_END_; i++) {
        struct ck_error err = {0}, back = {.code = CK_E_IO};
        char *json;

        ck_error_set(&err, -i, i % 2 ? "a\"b\\c\n" : NULL, "m\xC3\xA9ssage %d", i);
        if (i % 3)
            ck_error_set_hint(&err, "do this");
        if (i % 5 == 0)
            snprintf(err.details, sizeof(err.details), "[{\"tensor\":\"up\",\"shape\":[1,2]}]");
        json = ck_problem_members_json(&err);
        assert_non_null(json);
        assert_null(strchr(json, '\n'));
        ck_problem_from_json(json, &back);
        assert_int_equal(back.code, err.code);
        assert_string_equal(back.message, err.message);
        assert_string_equal(back.where, err.where);
        assert_string_equal(ck_error_hint(&back), ck_error_hint(&err));
        assert_string_equal(back.details, err.details);
        free(json);
    }
}

static void the_largest_error_survives_too(_unused_ void **state) {
    struct ck_error err = {.code = CK_E_IO}, back;
    char *json;

    memset(err.message, '\x01', sizeof(err.message) - 1);
    memset(err.where, 'w', sizeof(err.where) - 1);
    memset(err.hint, '"', sizeof(err.hint) - 1);
    memset(err.details, '1', sizeof(err.details) - 1);
    err.details[0] = '"';
    err.details[sizeof(err.details) - 2] = '"';
    json = ck_problem_members_json(&err);
    assert_non_null(json);
    ck_problem_from_json(json, &back);
    assert_memory_equal(&back, &err, sizeof(err));
    free(json);
}

static void a_record_that_says_nothing_is_an_internal_error(_unused_ void **state) {
    static const char *const bad[] = {NULL, "", "{", "[]", "null", "{\"code\":\"no_such\"}", "{\"code\":7}"};

    for (size_t i = 0; i < CK_ARRAY_LEN(bad); i++) {
        struct ck_error back = {0};

        ck_problem_from_json(bad[i], &back);
        assert_int_equal(back.code, CK_E_INTERNAL);
        assert_true(back.message[0] != 0);
    }
}

/* ---- health ---- */

static void readiness_needs_all_checks(_unused_ void **state) {
    const struct ck_health good = fake.some_health;

    call(ck_answer_readyz, "");
    assert_int_equal(reply.status, 200);
    assert_string_equal(text(), "ok\n");
    assert_header("Cache-Control", "no-store");
    call(ck_answer_readyz, "verbose");
    assert_string_equal(text(), "[+] draining: ok\n[+] space: ok\n[+] workers: ok\n[+] store: ok\nok\n");
    fake.some_health.need_bytes = good.free_bytes;
    call(ck_answer_readyz, "");
    assert_int_equal(reply.status, 200);
    fake.some_health.need_bytes = good.free_bytes + 1;
    call(ck_answer_readyz, "");
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(text(), "[-] space: "));
    assert_non_null(ck_reply_find(&reply, "Retry-After"));
    fake.some_health = good;
    fake.some_health.draining = true;
    call(ck_answer_readyz, "");
    assert_string_equal(text(), "[-] draining: the daemon is shutting down\nnot ready\n");
    fake.some_health = good;
    fake.some_health.workers_ok = false;
    fake.some_health.workers_why = "stuck";
    call(ck_answer_readyz, "");
    assert_string_equal(text(), "[-] workers: stuck\nnot ready\n");
    fake.some_health = good;
    fake.some_health.store_ok = false;
    snprintf(fake.some_health.store_why, sizeof(fake.some_health.store_why), "100%% %%s locked");
    call(ck_answer_readyz, "verbose=false");
    assert_int_equal(reply.status, 503);
    assert_string_equal(text(), "[-] store: 100% %s locked\nnot ready\n");
}

static void the_process_lives_whatever_else_is_wrong(_unused_ void **state) {
    fake.some_health = (struct ck_health){.draining = true};
    call(ck_answer_livez, "");
    assert_int_equal(reply.status, 200);
    call(ck_answer_startupz, "");
    assert_int_equal(reply.status, 503);
    fake.some_health.started = true;
    call(ck_answer_startupz, "");
    assert_int_equal(reply.status, 200);
}

static void unknown_parameters_are_refused_everywhere(_unused_ void **state) {
    static const ck_answer_fn all[] = {ck_answer_livez,        ck_answer_readyz,       ck_answer_startupz,
                                       ck_answer_version,      ck_answer_metrics,      ck_answer_help,
                                       ck_answer_openapi_yaml, ck_answer_openapi_json, ck_answer_capabilities};

    for (size_t i = 0; i < CK_ARRAY_LEN(all); i++) {
        call(all[i], "verbos");
        assert_int_equal(reply.status, 400);
        assert_int_equal(reply.code, CK_E_BAD_OPTION);
    }
}

static void metrics_come_as_the_scraper_likes_them(_unused_ void **state) {
    call(ck_answer_metrics, "");
    assert_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    assert_string_equal(text(), "fake_metrics 1\n");
    sent.name = "Accept";
    sent.value = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    call(ck_answer_metrics, "");
    assert_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert_string_equal(text(), "fake_metrics 1\n# EOF\n");
    sent.value = "application/json";
    call(ck_answer_metrics, "");
    assert_int_equal(reply.status, 200);
    assert_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
}

static void the_version_is_json(_unused_ void **state) {
    json_t *json;

    call(ck_answer_version, "");
    json = json_of(text(), reply.body.length);
    assert_string_equal(json_string_value(json_object_get(json, "name")), "ckptd");
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "build"), "commit")), "abc");
    json_decref(json);
}

/* ---- help ---- */

static void help_lists_every_path_target_and_option(_unused_ void **state) {
    request.host = "box:8080";
    call(ck_answer_help, "");
    assert_header("Content-Type", "text/plain; charset=utf-8");
    assert_non_null(strstr(text(), "curl -fOJT model.pt http://box:8080/v1/convert/mlx/q4/"));
    for (const struct ck_route *route = ck_routes; route->method; route++)
        assert_non_null(strstr(text(), route->pattern));
    for (const struct ck_option_row *row = ck_job_options; row->name; row++)
        assert_non_null(strstr(text(), row->what));
    assert_null(strstr(text(), "Bearer"));
    fake.ports.terms.keys = true;
    call(ck_answer_help, "");
    assert_non_null(strstr(text(), "Authorization: Bearer"));
}

static void browsers_get_a_page_that_loads_nothing(_unused_ void **state) {
    sent.name = "Accept";
    sent.value = "text/html,application/xhtml+xml,*/*;q=0.8";
    request.host = "box:8080";
    call(ck_answer_help, "");
    assert_header("Content-Type", "text/html; charset=utf-8");
    assert_non_null(strstr(ck_reply_find(&reply, "Content-Security-Policy"), "default-src 'none'"));
    assert_non_null(strstr(text(), "http://box:8080/v1/convert/mlx/"));
    assert_non_null(strstr(text(), "-&gt; model.mlx.zip"));
    assert_non_null(strstr(text(), "<a href=\"/readyz?verbose\">"));
    assert_null(strstr(text(), "<script"));
    sent.value = "*/*";
    call(ck_answer_help, "");
    assert_header("Content-Type", "text/plain; charset=utf-8");
}

static void a_host_that_is_none_is_not_shown(_unused_ void **state) {
    static const char *const bad[] = {"a<script>", "a b", "a\"b", "", "a%00"};

    for (size_t i = 0; i < CK_ARRAY_LEN(bad); i++) {
        request.host = bad[i];
        call(ck_answer_help, "");
        assert_non_null(strstr(text(), "http://HOST:PORT/v1/"));
    }
}

/* ---- capabilities, contract ---- */

static void every_form_that_is_read_is_listed(_unused_ void **state) {
    static const char *const forms[] = {"torch-zip",  "torch-legacy",  "tar",    "torchscript", "torchscript-mobile",
                                        "pt2",        "torch-package", "pickle", "npy",         "npz",
                                        "safetensors"};
    json_t *json, *list;

    call(ck_answer_capabilities, "");
    json = json_of(text(), reply.body.length);
    list = json_object_get(json, "forms");
    assert_int_equal(json_array_size(list), CK_ARRAY_LEN(forms));
    for (size_t i = 0; i < CK_ARRAY_LEN(forms); i++)
        assert_string_equal(json_string_value(json_array_get(list, i)), forms[i]);
    json_decref(json);
}

static void capabilities_come_from_the_tables(_unused_ void **state) {
    json_t *json, *properties, *limit;
    char etag[80];

    fake.ports.terms.keys = true;
    call(ck_answer_capabilities, "");
    json = json_of(text(), reply.body.length);
    properties = json_object_get(json_object_get(json, "options"), "properties");
    for (const struct ck_option_row *row = ck_job_options; row->name; row++)
        assert_string_equal(json_string_value(json_object_get(json_object_get(properties, row->name), "description")),
                            row->what);
    assert_true(json_is_true(json_object_get(json_object_get(properties, "tensors"), "default")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(properties, "max_shard_size"), "minimum")),
                     1024);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(properties, "max_shard_size"), "maximum")),
                     5368709120);
    assert_int_equal(json_array_size(json_object_get(json_object_get(properties, "dtype"), "enum")), 4);
    assert_string_equal(json_string_value(json_object_get(json, "auth")), "bearer");
    limit = json_object_get(json_object_get(json, "limits"), "max_sync_wait");
    assert_int_equal(json_integer_value(json_object_get(limit, "value")), 300);
    assert_string_equal(json_string_value(json_object_get(limit, "setting")), "--max-sync-wait");
    limit = json_object_get(json_object_get(json, "file_limits"), "pickle_bytes");
    assert_string_equal(json_string_value(json_object_get(limit, "setting")), "--limit-pickle-bytes");
    for (size_t i = 0; ck_targets[i]; i++)
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(json_object_get(json, "targets"), i), "name")),
            ck_targets[i]);
    json_decref(json);
    snprintf(etag, sizeof(etag), "%s", ck_reply_find(&reply, "ETag"));
    sent.name = "If-None-Match";
    sent.value = etag;
    call(ck_answer_capabilities, "");
    assert_int_equal(reply.status, 304);
    fake.ports.terms.max_upload++;
    call(ck_answer_capabilities, "");
    assert_int_equal(reply.status, 200);
}

static void the_contract_is_part_of_the_binary(_unused_ void **state) {
    char etag[80];
    json_t *json;
    size_t n = 0;
    const char *yaml = ck_openapi_yaml(&n);

    assert_true(n > 0 && memcmp(yaml, "openapi: ", 9) == 0);
    call(ck_answer_openapi_yaml, "");
    assert_header("Content-Type", "application/yaml");
    assert_int_equal(reply.kind, CK_REPLY_STATIC);
    assert_int_equal(reply.length, n);
    call(ck_answer_openapi_json, "");
    assert_header("Content-Type", "application/json");
    assert_header("Cache-Control", "no-cache");
    json = json_of(reply.bytes, reply.length);
    assert_int_equal(strncmp(json_string_value(json_object_get(json, "openapi")), "3.1.", 4), 0);
    json_decref(json);
    snprintf(etag, sizeof(etag), "%s", ck_reply_find(&reply, "ETag"));
    sent.name = "If-None-Match";
    sent.value = etag;
    call(ck_answer_openapi_json, "");
    assert_int_equal(reply.status, 304);
    assert_header("Cache-Control", "no-cache");
    call(ck_answer_openapi_yaml, "");
    assert_int_equal(reply.status, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_header_cannot_add_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reply_closes_the_files_that_it_owns, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_has_no_body, setup, teardown),
        cmocka_unit_test_setup_teardown(a_problem_says_what_where_and_what_to_do, setup, teardown),
        cmocka_unit_test_setup_teardown(a_problem_of_a_job_leads_to_it, setup, teardown),
        cmocka_unit_test_setup_teardown(come_back_problems_say_when, setup, teardown),
        cmocka_unit_test(an_error_survives_the_job_record),
        cmocka_unit_test(the_largest_error_survives_too),
        cmocka_unit_test(a_record_that_says_nothing_is_an_internal_error),
        cmocka_unit_test_setup_teardown(readiness_needs_all_checks, setup, teardown),
        cmocka_unit_test_setup_teardown(the_process_lives_whatever_else_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_parameters_are_refused_everywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(metrics_come_as_the_scraper_likes_them, setup, teardown),
        cmocka_unit_test_setup_teardown(the_version_is_json, setup, teardown),
        cmocka_unit_test_setup_teardown(help_lists_every_path_target_and_option, setup, teardown),
        cmocka_unit_test_setup_teardown(browsers_get_a_page_that_loads_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_host_that_is_none_is_not_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(capabilities_come_from_the_tables, setup, teardown),
        cmocka_unit_test_setup_teardown(every_form_that_is_read_is_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_contract_is_part_of_the_binary, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
