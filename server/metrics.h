/* server/metrics.h: the one table of metrics, and the registry of the process (one for all, like the log).
 *
 *     CK_METRIC_ADD(http_requests_total, 1, route, method, code);
 *     CK_METRIC_SET(workers_busy, busy);
 *     CK_METRIC_OBSERVE(job_stage_duration_seconds, seconds, stage, target);
 *
 * Any thread may call them at any time: a known label set costs a hash and an atomic addition, a new one a lock. A wrong
 * number of labels, or the wrong verb for a type, does not compile. Label values come from closed lists (a route's
 * template, never a path); all the same they are bounded: a value is cut after 120 bytes, what is not printable ASCII
 * becomes "?", and beyond CK_METRIC_SERIES_MAX label sets of one metric all new ones share the one whose values are
 * "other". Series are never removed. A sample is dropped when memory is short, and so is one that is no number, except
 * from a gauge that is set.
 *
 * Names follow the Prometheus conventions: base units, _total for counters. */
#ifndef CK_SERVER_METRICS_H
#define CK_SERVER_METRICS_H

#include "core/base/buffer.h"

#define CK_METRIC_SERIES_MAX 2000
#define CK_METRIC_LABELS_MAX 4

/* name: without the ckptd_ before it; n: number of labels; buckets: a family below, for histograms. */
#define CK_METRICS(X)                                                                                                                               \
    /* name                          type       n  labels                        buckets what */                                                    \
    X(build_info,                    GAUGE,     3, "version,commit,engine",      NONE,   "Always 1; the labels say what is running.")               \
    X(http_requests_total,           COUNTER,   3, "route,method,code",          NONE,   "Requests that were answered.")                            \
    X(http_request_duration_seconds, HISTOGRAM, 2, "route,method",               HTTP,   "Time from the head of a request to the end of its answer.") \
    X(http_requests_in_flight,       GAUGE,     0, "",                           NONE,   "Requests that are being served.")                         \
    X(upload_bytes_total,            COUNTER,   1, "kind",                       NONE,   "Bytes of bodies that were received.")                     \
    X(download_bytes_total,          COUNTER,   1, "kind",                       NONE,   "Bytes of files that were sent.")                          \
    X(uploads_active,                GAUGE,     0, "",                           NONE,   "Uploads that are being received.")                        \
    X(uploads_finished_total,        COUNTER,   1, "protocol",                   NONE,   "Uploads that were received whole.")                       \
    X(blob_dedup_hits_total,         COUNTER,   0, "",                           NONE,   "Uploads whose bytes were stored already.")                \
    X(result_cache_hits_total,       COUNTER,   0, "",                           NONE,   "Jobs that were answered with a result made before.")      \
    X(jobs_total,                    COUNTER,   4, "kind,target,outcome,reason", NONE,   "Jobs that ended.")                                        \
    X(job_stage_duration_seconds,    HISTOGRAM, 2, "stage,target",               JOB,    "Time that a job spent in one stage.")                     \
    X(job_queue_wait_seconds,        HISTOGRAM, 1, "queue",                      JOB,    "Time from the creation of a job to its start.")           \
    X(jobs_queued,                   GAUGE,     1, "queue",                      NONE,   "Jobs that wait for a worker.")                            \
    X(jobs_running,                  GAUGE,     1, "queue",                      NONE,   "Jobs that a worker has.")                                 \
    X(oldest_queued_job_age_seconds, GAUGE,     1, "queue",                      NONE,   "Age of the job that waits longest; scale by it.")         \
    X(workers,                       GAUGE,     0, "",                           NONE,   "Workers that may run at the same time.")                  \
    X(workers_busy,                  GAUGE,     0, "",                           NONE,   "Workers that run.")                                       \
    X(worker_exits_total,            COUNTER,   1, "cause",                      NONE,   "Workers that ended: ok, refused, timeout, oom, signal or cancelled.") \
    X(leases_expired_total,          COUNTER,   0, "",                           NONE,   "Running jobs that gave no sign of life and were taken back.") \
    X(stale_completions_total,       COUNTER,   0, "",                           NONE,   "Results of workers that had lost their job.")             \
    X(storage_bytes,                 GAUGE,     1, "kind",                       NONE,   "Bytes that are stored.")                                  \
    X(storage_free_bytes,            GAUGE,     0, "",                           NONE,   "Bytes that are free under the data directory.")           \
    X(gc_deleted_bytes_total,        COUNTER,   1, "kind",                       NONE,   "Bytes that were deleted because they were kept long enough.") \
    X(store_query_duration_seconds,  HISTOGRAM, 1, "op",                         STORE,  "Time of one operation of the store.")                     \
    X(store_errors_total,            COUNTER,   1, "op",                         NONE,   "Operations of the store that failed.")

/* Upper bounds in seconds. HTTP: those of OpenTelemetry's semantic conventions. JOB: 10 ms to 4 h. */
#define CK_METRIC_BUCKETS_NONE  0.0
#define CK_METRIC_BUCKETS_HTTP  0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10
#define CK_METRIC_BUCKETS_JOB   0.01, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400
#define CK_METRIC_BUCKETS_STORE 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10

enum ck_metric {
#define X(name, type, n, labels, buckets, what) CK_METRIC_##name,
    CK_METRICS(X)
#undef X
    CK_METRIC_N_
};

enum ck_metric_type { CK_METRIC_COUNTER, CK_METRIC_GAUGE, CK_METRIC_HISTOGRAM };

struct ck_metric_row {
    const char *name; /* with ckptd_ or process_ */
    enum ck_metric_type type;
    unsigned n_labels;
    const char *labels; /* names, commas between them */
    const double *buckets; /* upper bounds; NULL if it is no histogram */
    size_t n_buckets;
    const char *what;
};

/* By enum ck_metric, then those of the process; the rows end with a NULL name. */
extern const struct ck_metric_row ck_metric_rows[];

/* For the macros below. labels: n values, NULL is "". */
void ck_metric_add(enum ck_metric metric, double value, const char *const *labels);
void ck_metric_set(enum ck_metric metric, double value, const char *const *labels);
void ck_metric_observe(enum ck_metric metric, double value, const char *const *labels);

enum {
#define X(name, type, n, labels, buckets, what) CK_METRIC_N_##name = n, CK_METRIC_TYPE_##name = CK_METRIC_##type,
    CK_METRICS(X)
#undef X
};

#define CK_METRIC_CALL_(call, allowed, name, value, ...)                                                               \
    do {                                                                                                               \
        _Static_assert(sizeof((const char *const[]){__VA_ARGS__}) == CK_METRIC_N_##name * sizeof(char *), "labels");   \
        _Static_assert(allowed, "this verb is for another type of metric");                                            \
        call(CK_METRIC_##name, (double)(value), (const char *const[]){__VA_ARGS__});                                   \
    } while (0)
#define CK_METRIC_ADD(name, value, ...)                                                                                \
    CK_METRIC_CALL_(ck_metric_add, (int)CK_METRIC_TYPE_##name != (int)CK_METRIC_HISTOGRAM, name, value, __VA_ARGS__)
#define CK_METRIC_SET(name, value, ...)                                                                                \
    CK_METRIC_CALL_(ck_metric_set, (int)CK_METRIC_TYPE_##name == (int)CK_METRIC_GAUGE, name, value, __VA_ARGS__)
#define CK_METRIC_OBSERVE(name, value, ...)                                                                            \
    CK_METRIC_CALL_(ck_metric_observe, (int)CK_METRIC_TYPE_##name == (int)CK_METRIC_HISTOGRAM, name, value, __VA_ARGS__)

enum ck_metrics_format {
    CK_METRICS_PROMETHEUS, /* text 0.0.4 */
    CK_METRICS_OPENMETRICS /* 1.0.0 */
};

/* The Content-Type of a format. */
const char *ck_metrics_content_type(enum ck_metrics_format format);

/* Appends all metrics and the process_* set (read from /proc now). False when the buffer's limit or memory is
 * exhausted. */
bool ck_metrics_render(enum ck_metrics_format format, struct ck_buffer *buffer);

#endif
