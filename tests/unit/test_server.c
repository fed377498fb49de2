/* server/: the worker protocol (what a worker may say), request ids. No sockets, no
 * processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/work/protocol.h"
#include "server/http/request_id.h"

/* ---- what the daemon believes ---- */

static int believe(const char *line, struct ck_event *event) {
    struct ck_error err = {0};

    return ck_event_read(line, strlen(line), 2, event, &err);
}

static void assert_disbelieved(const char *line) {
    struct ck_event event;

    if (believe(line, &event) == 0)
        fail_msg("believed: %s", line);
    assert_null(event.result.files);
}

#define FILE_A  "{\"name\":\"a.bin\",\"bytes\":7,\"crc32\":4294967295}"
#define FILE_B  "{\"name\":\"report.json\",\"bytes\":0,\"crc32\":0}"
#define NUMBERS "\"tensors\":1,\"assumed\":2,\"dropped\":3,\"aliases\":4,\"overflowed\":5"

static void a_result_is_believed_with_the_files_that_there_are(_unused_ void **state) {
    struct ck_event event;

    assert_int_equal(believe("{\"event\":\"done\",\"files\":[" FILE_A "," FILE_B "]," NUMBERS "}", &event), 0);
    assert_int_equal(event.kind, CK_EVENT_DONE);
    assert_int_equal(event.result.n_files, 2);
    assert_string_equal(event.result.files[0].name, "a.bin");
    assert_int_equal(event.result.files[0].bytes, 7);
    assert_int_equal(event.result.files[0].crc32, UINT32_MAX);
    assert_int_equal(event.result.assumed, 2);
    ck_event_release(&event);
    assert_disbelieved("{\"event\":\"done\",\"files\":[" FILE_A "," FILE_B
                       ",{\"name\":\"c\",\"bytes\":1,\"crc32\":1}]," NUMBERS "}");
    assert_disbelieved("{\"event\":\"done\",\"files\":[]," NUMBERS "}");
    assert_disbelieved("{\"event\":\"done\"," NUMBERS "}");
    assert_disbelieved("{\"event\":\"done\",\"files\":[" FILE_A "," FILE_A "]," NUMBERS "}");
    assert_disbelieved("{\"event\":\"done\",\"files\":[" FILE_A "],\"tensors\":1}");
}

static void names_that_leave_the_folder_are_not_believed(_unused_ void **state) {
    static const char *const names[] = {"",       ".",   "..",        "../a", "a/b",     ".hidden",
                                        "a\\\\b", "a b", "n\\u00e9t", "a\\n", "-\\u0001"};

    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++) {
        char line[256];

        snprintf(line, sizeof(line),
                 "{\"event\":\"done\",\"files\":[{\"name\":\"%s\",\"bytes\":1,\"crc32\":1}]," NUMBERS "}", names[i]);
        assert_disbelieved(line);
    }
}

static void numbers_out_of_range_are_not_believed(_unused_ void **state) {
    assert_disbelieved("{\"event\":\"done\",\"files\":[{\"name\":\"a\",\"bytes\":-1,\"crc32\":1}]," NUMBERS "}");
    assert_disbelieved("{\"event\":\"done\",\"files\":[{\"name\":\"a\",\"bytes\":1,\"crc32\":4294967296}]," NUMBERS
                       "}");
    assert_disbelieved("{\"event\":\"done\",\"files\":[{\"name\":\"a\",\"bytes\":1.5,\"crc32\":1}]," NUMBERS "}");
    assert_disbelieved("{\"event\":\"progress\",\"stage\":\"read\",\"done\":-1,\"total\":1}");
}

static void what_is_no_event_is_not_believed(_unused_ void **state) {
    static const char *const lines[] = {"",
                                        "x",
                                        "[]",
                                        "null",
                                        "{}",
                                        "{\"event\":7}",
                                        "{\"event\":\"dance\"}",
                                        "{\"event\":\"progress\",\"stage\":\"sleep\",\"done\":0,\"total\":0}",
                                        "{\"event\":\"progress\",\"event\":\"done\"}",
                                        "{\"event\":\"error\"}"};

    for (size_t i = 0; i < CK_ARRAY_LEN(lines); i++)
        assert_disbelieved(lines[i]);
}

static void a_worker_reports_documents_and_disks_only(_unused_ void **state) {
    for (int i = 1; i < CK_ENUM_END_; i++) {
        const struct ck_error_row *row = ck_error_row(-i);
        char line[256];
        struct ck_event event;
        bool allowed = row->class_ == CK_CLASS_document || row->class_ == CK_CLASS_limit ||
                       row->class_ == CK_CLASS_server || -i == CK_E_BAD_OPTION || -i == CK_E_BAD_RULE ||
                       -i == CK_E_UNSUPPORTED_TARGET || -i == CK_E_UNSUPPORTED_QUANT;

        snprintf(line, sizeof(line),
                 "{\"event\":\"error\",\"code\":\"%s\",\"where\":\"\",\"detail\":\"d\",\"hint\":\"\",\"files\":[]}",
                 row->name);
        assert_int_equal(believe(line, &event) == 0, allowed);
        ck_event_release(&event);
    }
}

static void a_refusal_brings_its_report(_unused_ void **state) {
    static const char line[] =
        "{\"event\":\"error\",\"code\":\"no_tensors\",\"where\":\"\",\"detail\":\"d\",\"hint\":\"\",\"files\":[" FILE_B
        "]}";
    struct ck_event event;

    assert_int_equal(believe(line, &event), 0);
    assert_int_equal(event.result.n_files, 1);
    assert_string_equal(event.result.files[0].name, "report.json");
    ck_event_release(&event);
    assert_disbelieved("{\"event\":\"error\",\"code\":\"no_tensors\",\"where\":\"\",\"detail\":\"d\",\"hint\":\"\"}");
    assert_disbelieved(
        "{\"event\":\"error\",\"code\":\"no_tensors\",\"where\":\"\",\"detail\":\"d\",\"hint\":\"\",\"files\":[{}]}");
}

static void an_error_survives_the_pipe(_unused_ void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer line = {0};
    struct ck_error error = {0};
    struct ck_event event;

    ck_error_set(&error, CK_E_AMBIGUOUS_LAYOUT, "up.weight", "which layout has \"up\xFFweight\"?");
    snprintf(error.hint, sizeof(error.hint), "say it");
    snprintf(error.details, sizeof(error.details), "[{\"tensor\":\"up.weight\"}]");
    ck_buffer_init(&line, CK_EVENT_MAX);
    assert_int_equal(ck_event_write_error(&error, &(struct ck_job_result){0}, &line), 0);
    assert_int_equal(line.data[line.length - 1], '\n');
    assert_int_equal(believe(line.data, &event), 0);
    assert_int_equal(event.error.code, CK_E_AMBIGUOUS_LAYOUT);
    assert_string_equal(event.error.where, "up.weight");
    assert_string_equal(event.error.hint, "say it");
    assert_string_equal(event.error.details, error.details);
    ck_event_release(&event);
}

static void an_error_of_hostile_bytes_still_fits(_unused_ void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer line = {0};
    struct ck_error error = {.code = CK_E_PICKLE_CORRUPT};
    struct ck_event event;

    memset(error.message, 0xFF, sizeof(error.message) - 1);
    memset(error.where, 0x01, sizeof(error.where) - 1);
    memset(error.details, '[', sizeof(error.details) - 1);
    ck_buffer_init(&line, CK_EVENT_MAX);
    assert_int_equal(ck_event_write_error(&error, &(struct ck_job_result){0}, &line), 0);
    assert_int_equal(believe(line.data, &event), 0);
    assert_string_equal(event.error.details, "");
    ck_event_release(&event);
}

/* ---- the order ---- */

static void an_order_survives_the_pipe(_unused_ void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer line = {0};
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};
    _cleanup_(ck_order_release) struct ck_order read = {0};
    struct ck_order order = {.job = "job-1",
                             .spec = &spec,
                             .input_name = "m.pt",
                             .limits = ck_limits_default,
                             .memory = 1 << 30,
                             .cpu = 100,
                             .threads = 2,
                             .outputs = 128};
    struct ck_error err = {0};

    assert_int_equal(ck_spec_init(&spec, "mlx", "q4-g32", &err), 0);
    assert_int_equal(ck_spec_set(&spec, "layers", "a:Conv2d", &err), 0);
    order.limits.tensors = 77;
    ck_buffer_init(&line, CK_ORDER_MAX);
    assert_int_equal(ck_order_write(&order, &line, &err), 0);
    assert_int_equal(ck_order_read(line.data, line.length, &read, &err), 0);
    assert_string_equal(read.job, "job-1");
    assert_string_equal(read.spec->quant, "q4-g32");
    assert_string_equal(ck_spec_get(read.spec, "layers"), "a:Conv2d");
    assert_string_equal(read.input_name, "m.pt");
    assert_int_equal(read.limits.tensors, 77);
    assert_int_equal(read.outputs, 128);
    assert_int_equal(ck_order_read(line.data, line.length / 2, &order, &err), CK_E_INTERNAL);
    assert_int_equal(ck_order_read("", 0, &order, &err), CK_E_INTERNAL);
}

/* Writes the order for spec and reads it back; CK_E_INTERNAL if `from` was replaced by `to` in its text. */
static int order_of(const struct ck_spec *spec, const char *from, const char *to, struct ck_order *ret_read) {
    _cleanup_(ck_buffer_release) struct ck_buffer line = {0}, changed = {0};
    struct ck_order order = {
        .job = "j", .spec = spec, .input_name = "m.pt", .limits = ck_limits_default, .threads = 1, .outputs = 1};
    char *place;

    ck_buffer_init(&line, CK_ORDER_MAX);
    ck_buffer_init(&changed, CK_ORDER_MAX);
    assert_int_equal(ck_order_write(&order, &line, NULL), 0);
    if (!from)
        return ck_order_read(line.data, line.length, ret_read, NULL);
    place = strstr(line.data, from);
    assert_non_null(place);
    ck_buffer_printf(&changed, "%.*s%s%s", (int)(place - line.data), line.data, to, place + strlen(from));
    return ck_order_read(changed.data, changed.length, ret_read, NULL);
}

static void kind_and_dry_run_survive_the_pipe(_unused_ void **state) {
    _cleanup_(ck_spec_release) struct ck_spec analysis = {0}, dry = {0};
    _cleanup_(ck_order_release) struct ck_order read_analysis = {0}, read_dry = {0};

    assert_int_equal(ck_spec_init_analyze(&analysis, NULL), 0);
    assert_int_equal(ck_spec_set(&analysis, "tensors", "false", NULL), 0);
    assert_int_equal(order_of(&analysis, NULL, NULL, &read_analysis), 0);
    assert_int_equal(read_analysis.spec->kind, CK_JOB_ANALYZE);
    assert_string_equal(ck_spec_get(read_analysis.spec, "tensors"), "false");
    assert_string_equal(read_analysis.spec->target, "");
    assert_false(read_analysis.spec->dry_run);

    assert_int_equal(ck_spec_init(&dry, "mlx", NULL, NULL), 0);
    dry.dry_run = true;
    assert_int_equal(order_of(&dry, NULL, NULL, &read_dry), 0);
    assert_int_equal(read_dry.spec->kind, CK_JOB_CONVERT);
    assert_true(read_dry.spec->dry_run);
}

static void an_order_of_no_kind_or_of_a_kind_that_contradicts_it_is_none(_unused_ void **state) {
    static const struct {
        const char *from, *to;
    } of_analysis[] = {
        {"\"kind\":\"analyze\",", ""},          {"\"kind\":\"analyze\"", "\"kind\":\"ponder\""},
        {"\"kind\":\"analyze\"", "\"kind\":5"}, {"\"kind\":\"analyze\"", "\"kind\":\"analyze\",\"dry_run\":true"},
        {"\"to\":\"\"", "\"to\":\"mlx\""},      {"\"quant\":\"\"", "\"quant\":\"q4\""},
    };
    _cleanup_(ck_spec_release) struct ck_spec analysis = {0}, dry = {0};
    struct ck_order read;

    assert_int_equal(ck_spec_init_analyze(&analysis, NULL), 0);
    for (size_t i = 0; i < CK_ARRAY_LEN(of_analysis); i++)
        assert_int_equal(order_of(&analysis, of_analysis[i].from, of_analysis[i].to, &read), CK_E_INTERNAL);
    assert_int_equal(order_of(&analysis, "\"kind\":\"analyze\"", "\"kind\":\"convert\"", &read),
                     CK_E_UNSUPPORTED_TARGET);
    assert_int_equal(ck_spec_init(&dry, "mlx", NULL, NULL), 0);
    dry.dry_run = true;
    assert_int_equal(order_of(&dry, "\"dry_run\":true", "\"dry_run\":1", &read), CK_E_INTERNAL);
}

/* ---- request ids ---- */

static void request_ids_of_clients_are_kept_when_sane(_unused_ void **state) {
    char id[CK_REQUEST_ID_MAX], longest[CK_REQUEST_ID_MAX + 1];

    ck_request_id("a.B_1:2-3", id);
    assert_string_equal(id, "a.B_1:2-3");
    memset(longest, 'x', sizeof(longest));
    longest[CK_REQUEST_ID_MAX - 1] = 0;
    ck_request_id(longest, id);
    assert_string_equal(id, longest);
    longest[CK_REQUEST_ID_MAX - 1] = 'x';
    longest[CK_REQUEST_ID_MAX] = 0;
    ck_request_id(longest, id);
    assert_int_equal(strlen(id), 36);
    assert_int_equal(id[14], '7');
    ck_request_id("", id);
    assert_int_equal(strlen(id), 36);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_believed_with_the_files_that_there_are),
        cmocka_unit_test(names_that_leave_the_folder_are_not_believed),
        cmocka_unit_test(numbers_out_of_range_are_not_believed),
        cmocka_unit_test(what_is_no_event_is_not_believed),
        cmocka_unit_test(a_worker_reports_documents_and_disks_only),
        cmocka_unit_test(a_refusal_brings_its_report),
        cmocka_unit_test(an_error_survives_the_pipe),
        cmocka_unit_test(an_error_of_hostile_bytes_still_fits),
        cmocka_unit_test(an_order_survives_the_pipe),
        cmocka_unit_test(kind_and_dry_run_survive_the_pipe),
        cmocka_unit_test(an_order_of_no_kind_or_of_a_kind_that_contradicts_it_is_none),
        cmocka_unit_test(request_ids_of_clients_are_kept_when_sane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
