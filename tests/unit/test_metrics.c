/* server/metrics: both text formats, escapes, histograms, the bound on label sets, threads. The registry is that of the
 * process, so each test has metrics of its own. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "server/metrics.h"

static struct ck_buffer text;

static const char *render(enum ck_metrics_format format) {
    ck_buffer_release(&text);
    ck_buffer_init(&text, 16 << 20);
    assert_true(ck_metrics_render(format, &text));
    return ck_buffer_text(&text);
}

/* The line must be there, whole. */
static void assert_line(const char *line) {
    const char *at = ck_buffer_text(&text);
    size_t n = strlen(line);

    while ((at = strstr(at, line)) != NULL) {
        if ((at == ck_buffer_text(&text) || at[-1] == '\n') && at[n] == '\n')
            return;
        at++;
    }
    fail_msg("no line: %s", line);
}

static size_t count_lines(const char *start) {
    size_t n = 0;

    for (const char *at = ck_buffer_text(&text); at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, start, strlen(start)) == 0)
            n++;
    return n;
}

static void a_label_set_is_a_line(_unused_ void **state) {
    const char *code = "200";

    CK_METRIC_ADD(http_requests_total, 1, "/livez", "GET", code);
    CK_METRIC_ADD(http_requests_total, 2, "/livez", "GET", "200");
    CK_METRIC_ADD(http_requests_total, 1, "/livez", "GET", "503");
    render(CK_METRICS_PROMETHEUS);
    assert_line("# HELP ckptd_http_requests_total Requests that were answered.");
    assert_line("# TYPE ckptd_http_requests_total counter");
    assert_line("ckptd_http_requests_total{route=\"/livez\",method=\"GET\",code=\"200\"} 3");
    assert_line("ckptd_http_requests_total{route=\"/livez\",method=\"GET\",code=\"503\"} 1");
    assert_null(strstr(ck_buffer_text(&text), "# EOF"));
}

static void families_of_openmetrics_lack_total_and_it_has_an_end(_unused_ void **state) {
    const char *whole;

    CK_METRIC_ADD(stale_completions_total, 1);
    whole = render(CK_METRICS_OPENMETRICS);
    assert_line("# HELP ckptd_stale_completions Results of workers that had lost their job.");
    assert_line("# TYPE ckptd_stale_completions counter");
    assert_line("ckptd_stale_completions_total 1");
    assert_line("# TYPE process_cpu_seconds counter");
    assert_string_equal(whole + text.length - 6, "# EOF\n");
    assert_non_null(strstr(ck_metrics_content_type(CK_METRICS_OPENMETRICS), "openmetrics-text; version=1.0.0"));
    assert_non_null(strstr(ck_metrics_content_type(CK_METRICS_PROMETHEUS), "version=0.0.4"));
}

static void what_has_no_labels_begins_at_zero(_unused_ void **state) {
    render(CK_METRICS_PROMETHEUS);
    assert_line("ckptd_leases_expired_total 0");
    assert_line("ckptd_http_requests_in_flight 0");
    assert_int_equal(count_lines("ckptd_gc_deleted_bytes_total"), 0);
}

static void a_gauge_goes_up_and_down(_unused_ void **state) {
    CK_METRIC_SET(workers_busy, 3);
    CK_METRIC_ADD(workers_busy, -1);
    CK_METRIC_SET(oldest_queued_job_age_seconds, 0.1, "default");
    CK_METRIC_SET(storage_free_bytes, 9007199254740991.0);
    render(CK_METRICS_PROMETHEUS);
    assert_line("ckptd_workers_busy 2");
    assert_line("ckptd_oldest_queued_job_age_seconds{queue=\"default\"} 0.1");
    assert_line("ckptd_storage_free_bytes 9007199254740991");
}

static void label_values_are_escaped_and_plain(_unused_ void **state) {
    char longest[200];

    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    CK_METRIC_ADD(worker_exits_total, 1, "a\\b\"c\nd");
    CK_METRIC_ADD(worker_exits_total, 1, "\xC3\xA9\x01");
    CK_METRIC_ADD(worker_exits_total, 1, NULL);
    CK_METRIC_ADD(worker_exits_total, 1, longest);
    render(CK_METRICS_PROMETHEUS);
    assert_line("ckptd_worker_exits_total{cause=\"a\\\\b\\\"c\\nd\"} 1");
    assert_line("ckptd_worker_exits_total{cause=\"???\"} 1");
    assert_line("ckptd_worker_exits_total{cause=\"\"} 1");
    longest[120] = 0;
    assert_non_null(strstr(ck_buffer_text(&text), longest));
    longest[120] = 'x';
    longest[121] = 0;
    assert_null(strstr(ck_buffer_text(&text), longest));
}

/* "a","bc" and "ab","c" are different. */
static void labels_do_not_run_into_each_other(_unused_ void **state) {
    CK_METRIC_ADD(jobs_total, 1, "a", "bc", "", "");
    CK_METRIC_ADD(jobs_total, 1, "ab", "c", "", "");
    render(CK_METRICS_PROMETHEUS);
    assert_line("ckptd_jobs_total{kind=\"a\",target=\"bc\",outcome=\"\",reason=\"\"} 1");
    assert_line("ckptd_jobs_total{kind=\"ab\",target=\"c\",outcome=\"\",reason=\"\"} 1");
}

static void buckets_are_cumulative_and_hold_their_bound(_unused_ void **state) {
    CK_METRIC_OBSERVE(job_queue_wait_seconds, 0, "q");
    CK_METRIC_OBSERVE(job_queue_wait_seconds, 0.1, "q");
    CK_METRIC_OBSERVE(job_queue_wait_seconds, nextafter(0.1, 1), "q");
    CK_METRIC_OBSERVE(job_queue_wait_seconds, 0.015625, "q");
    CK_METRIC_OBSERVE(job_queue_wait_seconds, 14400, "q");
    CK_METRIC_OBSERVE(job_queue_wait_seconds, 14401, "q");
    CK_METRIC_OBSERVE(job_queue_wait_seconds, NAN, "q");
    CK_METRIC_OBSERVE(job_queue_wait_seconds, INFINITY, "q");
    render(CK_METRICS_PROMETHEUS);
    assert_line("# TYPE ckptd_job_queue_wait_seconds histogram");
    assert_line("ckptd_job_queue_wait_seconds_bucket{queue=\"q\",le=\"0.01\"} 1");
    assert_line("ckptd_job_queue_wait_seconds_bucket{queue=\"q\",le=\"0.1\"} 3");
    assert_line("ckptd_job_queue_wait_seconds_bucket{queue=\"q\",le=\"1.0\"} 4");
    assert_line("ckptd_job_queue_wait_seconds_bucket{queue=\"q\",le=\"14400.0\"} 5");
    assert_line("ckptd_job_queue_wait_seconds_bucket{queue=\"q\",le=\"+Inf\"} 6");
    assert_line("ckptd_job_queue_wait_seconds_count{queue=\"q\"} 6");
    assert_non_null(strstr(ck_buffer_text(&text), "ckptd_job_queue_wait_seconds_sum{queue=\"q\"} 28801.215625\n"));
}

static void bounds_ascend(_unused_ void **state) {
    for (const struct ck_metric_row *row = ck_metric_rows; row->name; row++)
        for (size_t i = 1; i < row->n_buckets; i++)
            assert_true(row->buckets[i - 1] < row->buckets[i]);
}

static void names_follow_the_conventions(_unused_ void **state) {
    for (const struct ck_metric_row *row = ck_metric_rows; row->name; row++) {
        size_t n = strlen(row->name), labels = row->labels[0] ? 1 : 0;

        assert_int_equal(strcmp(row->name + n - 6, "_total") == 0, row->type == CK_METRIC_COUNTER);
        assert_int_equal(row->type == CK_METRIC_HISTOGRAM, row->n_buckets > 1);
        for (const char *c = row->labels; *c; c++)
            labels += *c == ',';
        assert_int_equal(labels, row->n_labels);
        assert_null(strpbrk(row->what, "\\\"\n"));
    }
}

static void beyond_2000_label_sets_there_is_other(_unused_ void **state) {
    char kind[32];

    for (int i = 0; i < CK_METRIC_SERIES_MAX + 5; i++) {
        snprintf(kind, sizeof(kind), "kind-%d", i);
        CK_METRIC_ADD(upload_bytes_total, 10, kind);
    }
    CK_METRIC_ADD(upload_bytes_total, 1, "kind-0");
    render(CK_METRICS_PROMETHEUS);
    assert_line("ckptd_upload_bytes_total{kind=\"kind-0\"} 11");
    assert_line("ckptd_upload_bytes_total{kind=\"kind-1999\"} 10");
    assert_line("ckptd_upload_bytes_total{kind=\"other\"} 50");
    assert_int_equal(count_lines("ckptd_upload_bytes_total{"), CK_METRIC_SERIES_MAX + 1);
}

static void a_full_buffer_is_told(_unused_ void **state) {
    struct ck_buffer small;

    ck_buffer_init(&small, 200);
    assert_false(ck_metrics_render(CK_METRICS_PROMETHEUS, &small));
    ck_buffer_release(&small);
}

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS  20000

static void *count(void *context) {
    char op[32];

    for (int i = 0; i < ROUNDS; i++) {
        snprintf(op, sizeof(op), "op-%d", i % 100);
        CK_METRIC_ADD(store_errors_total, 1, op);
        CK_METRIC_ADD(blob_dedup_hits_total, 1);
        CK_METRIC_OBSERVE(store_query_duration_seconds, 0.25, "claim");
    }
    return context;
}

static void no_sample_of_a_thread_is_lost(_unused_ void **state) {
    pthread_t threads[THREADS];
    char line[128];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < 20; i++)
        render(CK_METRICS_PROMETHEUS);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    render(CK_METRICS_PROMETHEUS);
    assert_int_equal(count_lines("ckptd_store_errors_total{"), 100);
    snprintf(line, sizeof(line), "ckptd_store_errors_total{op=\"op-99\"} %d", THREADS * ROUNDS / 100);
    assert_line(line);
    snprintf(line, sizeof(line), "ckptd_blob_dedup_hits_total %d", THREADS * ROUNDS);
    assert_line(line);
    snprintf(line, sizeof(line), "ckptd_store_query_duration_seconds_count{op=\"claim\"} %d", THREADS * ROUNDS);
    assert_line(line);
    snprintf(line, sizeof(line), "ckptd_store_query_duration_seconds_sum{op=\"claim\"} %d", THREADS * ROUNDS / 4);
    assert_line(line);
}

/* ---- the process ---- */

static double value_of(const char *name) {
    const char *at = strstr(ck_buffer_text(&text), name);
    char *end;
    double value;

    assert_non_null(at);
    value = strtod(at + strlen(name), &end);
    assert_int_equal(*end, '\n');
    return value;
}

static void the_process_is_measured(_unused_ void **state) {
    double fds;
    int fd;

    render(CK_METRICS_PROMETHEUS);
    assert_true(value_of("\nprocess_cpu_seconds_total ") >= 0);
    assert_true(value_of("\nprocess_resident_memory_bytes ") > 100000);
    assert_true(value_of("\nprocess_virtual_memory_bytes ") >= value_of("\nprocess_resident_memory_bytes "));
    assert_true(value_of("\nprocess_max_fds ") >= 3);
    assert_true(fabs(value_of("\nprocess_start_time_seconds ") - (double)time(NULL)) < 3600);
    fds = value_of("\nprocess_open_fds ");
    fd = dup(0);
    render(CK_METRICS_PROMETHEUS);
    assert_true(value_of("\nprocess_open_fds ") == fds + 1);
    close(fd);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_set_is_a_line),
        cmocka_unit_test(families_of_openmetrics_lack_total_and_it_has_an_end),
        cmocka_unit_test(what_has_no_labels_begins_at_zero),
        cmocka_unit_test(a_gauge_goes_up_and_down),
        cmocka_unit_test(label_values_are_escaped_and_plain),
        cmocka_unit_test(labels_do_not_run_into_each_other),
        cmocka_unit_test(buckets_are_cumulative_and_hold_their_bound),
        cmocka_unit_test(bounds_ascend),
        cmocka_unit_test(names_follow_the_conventions),
        cmocka_unit_test(beyond_2000_label_sets_there_is_other),
        cmocka_unit_test(a_full_buffer_is_told),
        cmocka_unit_test(no_sample_of_a_thread_is_lost),
        cmocka_unit_test(the_process_is_measured),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);

    /* With a format's number: the text itself, for a parser of somebody else. */
    if (argc > 1)
        fputs(render((enum ck_metrics_format)atoi(argv[1])), stdout);
    ck_buffer_release(&text);
    return r;
}
