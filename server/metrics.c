#include "server/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "server/process.h"

#define VALUE_MAX    120 /* bytes of a label's value */
#define KEY_MAX      (CK_METRIC_LABELS_MAX * (VALUE_MAX + 1))
#define CHAINS       256
#define BUCKETS_MOST 24

static const double buckets_NONE[] = {CK_METRIC_BUCKETS_NONE}, buckets_HTTP[] = {CK_METRIC_BUCKETS_HTTP},
                    buckets_JOB[] = {CK_METRIC_BUCKETS_JOB}, buckets_STORE[] = {CK_METRIC_BUCKETS_STORE};

#define HISTOGRAM_ONLY(type, value) (CK_METRIC_##type == CK_METRIC_HISTOGRAM ? (value) : 0)

const struct ck_metric_row ck_metric_rows[] = {
#define X(name, type, n, labels, buckets, what)                                                                        \
    {"ckptd_" #name,                                                                                                   \
     CK_METRIC_##type,                                                                                                 \
     n,                                                                                                                \
     labels,                                                                                                           \
     HISTOGRAM_ONLY(type, buckets_##buckets),                                                                          \
     HISTOGRAM_ONLY(type, CK_ARRAY_LEN(buckets_##buckets)),                                                            \
     what},
    CK_METRICS(X)
#undef X
#define X(name, type, what) {"process_" #name, CK_METRIC_##type, 0, "", NULL, 0, what},
        CK_PROCESS_METRICS(X)
#undef X
            {0},
};

#define X(name, type, n, labels, buckets, what)                                                                        \
    _Static_assert((n) <= CK_METRIC_LABELS_MAX && CK_ARRAY_LEN(buckets_##buckets) <= BUCKETS_MOST, #name);
CK_METRICS(X)
#undef X

/* One label set of one metric. Never freed, never moved. */
struct series {
    _Atomic(struct series *) next; /* in its chain */
    _Atomic double value;          /* of a histogram: the sum */
    size_t n_key;
    atomic_uint_fast64_t *counts; /* of a histogram: samples in each bucket, and above all of them */
    char key[];                   /* the labels' values, each with its NUL */
};

/* Readers follow the chains without a lock; a new series is complete before it is linked in. */
static struct {
    _Atomic(struct series *) chains[CHAINS];
    size_t n; /* guarded by lock */
} registry[CK_METRIC_N_];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t make_key(unsigned n, const char *const *labels, char key[static KEY_MAX]) {
    size_t used = 0;

    for (unsigned i = 0; i < n; i++) {
        const char *value = labels[i] ? labels[i] : "";

        for (size_t k = 0; k < VALUE_MAX && value[k]; k++)
            key[used++] = (char)((value[k] >= ' ' && value[k] <= '~') || value[k] == '\n' ? value[k] : '?');
        key[used++] = 0;
    }
    return used;
}

/* FNV-1a. */
static size_t chain_of(const char *key, size_t n) {
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)key[i]) * 1099511628211u;
    return (size_t)(hash ^ hash >> 32) % CHAINS;
}

static struct series *find(enum ck_metric metric, const char *key, size_t n) {
    struct series *series = atomic_load_explicit(&registry[metric].chains[chain_of(key, n)], memory_order_acquire);

    while (series && (series->n_key != n || memcmp(series->key, key, n) != 0))
        series = atomic_load_explicit(&series->next, memory_order_acquire);
    return series;
}

static struct series *series_new(enum ck_metric metric, const char *key, size_t n) {
    const struct ck_metric_row *row = &ck_metric_rows[metric];
    struct series *series = calloc(1, sizeof(*series) + n);

    if (series && row->n_buckets > 0) {
        series->counts = calloc(row->n_buckets + 1, sizeof(*series->counts));
        if (!series->counts) {
            free(series);
            return NULL;
        }
    }
    if (series && n > 0)
        memcpy(series->key, key, n);
    if (series)
        series->n_key = n;
    return series;
}

static struct series *insert(enum ck_metric metric, const char *key, size_t n) {
    _Atomic(struct series *) *chain = &registry[metric].chains[chain_of(key, n)];
    struct series *series = series_new(metric, key, n);

    if (!series)
        return NULL;
    atomic_store_explicit(&series->next, atomic_load_explicit(chain, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(chain, series, memory_order_release);
    registry[metric].n++;
    return series;
}

static struct series *find_or_insert(enum ck_metric metric, const char *key, size_t n) {
    static const char *const other[CK_METRIC_LABELS_MAX] = {"other", "other", "other", "other"};
    char other_key[KEY_MAX];
    struct series *series;

    pthread_mutex_lock(&lock);
    series = find(metric, key, n);
    if (!series && registry[metric].n >= CK_METRIC_SERIES_MAX) {
        key = other_key;
        n = make_key(ck_metric_rows[metric].n_labels, other, other_key);
        series = find(metric, key, n);
    }
    if (!series)
        series = insert(metric, key, n);
    pthread_mutex_unlock(&lock);
    return series;
}

static struct series *series_of(enum ck_metric metric, const char *const *labels) {
    char key[KEY_MAX];
    size_t n = make_key(ck_metric_rows[metric].n_labels, labels, key);
    struct series *series = find(metric, key, n);

    return series ? series : find_or_insert(metric, key, n);
}

static void add(_Atomic double *to, double value) {
    double old = atomic_load_explicit(to, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(to, &old, old + value, memory_order_relaxed, memory_order_relaxed))
        ;
}

void ck_metric_add(enum ck_metric metric, double value, const char *const *labels) {
    struct series *series = isfinite(value) ? series_of(metric, labels) : NULL;

    if (series)
        add(&series->value, value);
}

void ck_metric_set(enum ck_metric metric, double value, const char *const *labels) {
    struct series *series = series_of(metric, labels);

    if (series)
        atomic_store_explicit(&series->value, value, memory_order_relaxed);
}

void ck_metric_observe(enum ck_metric metric, double value, const char *const *labels) {
    const struct ck_metric_row *row = &ck_metric_rows[metric];
    struct series *series = isfinite(value) ? series_of(metric, labels) : NULL;
    size_t i = 0;

    if (!series)
        return;
    while (i < row->n_buckets && value > row->buckets[i])
        i++;
    atomic_fetch_add_explicit(&series->counts[i], 1, memory_order_relaxed);
    add(&series->value, value);
}

/* ---- the text ---- */

static const char *const type_names[] = {"counter", "gauge", "histogram"};

/* The shortest text that reads back equal; "1" stays an integer. */
static bool print_number(struct ck_buffer *buffer, double value) {
    char text[40];

    if (isnan(value))
        return ck_buffer_add_text(buffer, "NaN");
    if (isinf(value))
        return ck_buffer_add_text(buffer, value > 0 ? "+Inf" : "-Inf");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return ck_buffer_add_text(buffer, text);
}

/* Both formats escape \, " and the end of a line. */
static bool print_value(struct ck_buffer *buffer, const char *value) {
    for (; *value; value++) {
        if (!(*value == '\n'                    ? ck_buffer_add_text(buffer, "\\n")
              : *value == '\\' || *value == '"' ? ck_buffer_printf(buffer, "\\%c", *value)
                                                : ck_buffer_add(buffer, value, 1)))
            return false;
    }
    return true;
}

/* {route="/livez",method="GET"}; le: of a bucket, or NULL. */
static bool print_labels(struct ck_buffer *buffer, const struct ck_metric_row *row, const char *key, const char *le) {
    const char *name = row->labels;
    bool ok = true;

    if (row->n_labels == 0 && !le)
        return true;
    for (unsigned i = 0; i < row->n_labels; i++) {
        int n = (int)strcspn(name, ",");

        ok = ok && ck_buffer_printf(buffer, "%s%.*s=\"", i == 0 ? "{" : ",", n, name) && print_value(buffer, key) &&
             ck_buffer_add_text(buffer, "\"");
        key += strlen(key) + 1;
        name += name[n] ? n + 1 : n;
    }
    if (le)
        ok = ok && ck_buffer_printf(buffer, "%sle=\"%s\"", row->n_labels == 0 ? "{" : ",", le);
    return ok && ck_buffer_add_text(buffer, "}");
}

static bool print_sample(struct ck_buffer *buffer, const struct ck_metric_row *row, const char *suffix, const char *key,
                         const char *le, double value) {
    return ck_buffer_printf(buffer, "%s%s", row->name, suffix) && print_labels(buffer, row, key, le) &&
           ck_buffer_add_text(buffer, " ") && print_number(buffer, value) && ck_buffer_add_text(buffer, "\n");
}

/* The count is the sum of the buckets that were just read, so that the lines agree while samples come in. */
static bool print_histogram(struct ck_buffer *buffer, const struct ck_metric_row *row, struct series *series) {
    uint64_t count = 0;
    bool ok = true;
    char le[40];

    for (size_t i = 0; i <= row->n_buckets; i++) {
        count += atomic_load_explicit(&series->counts[i], memory_order_relaxed);
        if (i == row->n_buckets)
            snprintf(le, sizeof(le), "+Inf");
        else /* OpenMetrics wants 1.0, and the same label in both formats keeps queries whole */
            snprintf(le, sizeof(le), row->buckets[i] == floor(row->buckets[i]) ? "%.1f" : "%g", row->buckets[i]);
        ok = ok && print_sample(buffer, row, "_bucket", series->key, le, (double)count);
    }
    return ok && print_sample(buffer, row, "_sum", series->key, NULL, atomic_load(&series->value)) &&
           print_sample(buffer, row, "_count", series->key, NULL, (double)count);
}

static bool print_head(struct ck_buffer *buffer, const struct ck_metric_row *row, enum ck_metrics_format format) {
    int n = (int)strlen(row->name);

    /* An OpenMetrics family of counters is named without the _total of its samples. */
    if (format == CK_METRICS_OPENMETRICS && row->type == CK_METRIC_COUNTER)
        n -= (int)sizeof("_total") - 1;
    return ck_buffer_printf(buffer, "# HELP %.*s %s\n# TYPE %.*s %s\n", n, row->name, row->what, n, row->name,
                            type_names[row->type]);
}

static bool print_metric(struct ck_buffer *buffer, enum ck_metric metric) {
    const struct ck_metric_row *row = &ck_metric_rows[metric];
    bool ok = true, any = false;

    for (size_t i = 0; i < CHAINS; i++) {
        struct series *series = atomic_load_explicit(&registry[metric].chains[i], memory_order_acquire);

        for (; series; series = atomic_load_explicit(&series->next, memory_order_acquire)) {
            any = true;
            ok = ok && (series->counts ? print_histogram(buffer, row, series)
                                       : print_sample(buffer, row, "", series->key, NULL, atomic_load(&series->value)));
        }
    }
    /* A rate needs the zero before the first event. */
    if (!any && row->n_labels == 0)
        ok = ok && print_sample(buffer, row, "", "", NULL, 0);
    return ok;
}

static bool print_process(struct ck_buffer *buffer, enum ck_metrics_format format) {
    const struct ck_metric_row *row = &ck_metric_rows[CK_METRIC_N_];
    struct ck_process process;
    bool ok = true;

    ck_process_read(&process);
#define X(name, type, what)                                                                                            \
    ok = ok && print_head(buffer, row, format) && print_sample(buffer, row, "", "", NULL, process.name);               \
    row++;
    CK_PROCESS_METRICS(X)
#undef X
    return ok;
}

const char *ck_metrics_content_type(enum ck_metrics_format format) {
    return format == CK_METRICS_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                            : "text/plain; version=0.0.4; charset=utf-8";
}

bool ck_metrics_render(enum ck_metrics_format format, struct ck_buffer *buffer) {
    bool ok = true;

    for (int i = 0; i < CK_METRIC_N_ && ok; i++)
        ok = print_head(buffer, &ck_metric_rows[i], format) && print_metric(buffer, (enum ck_metric)i);
    ok = ok && print_process(buffer, format);
    if (format == CK_METRICS_OPENMETRICS)
        ok = ok && ck_buffer_add_text(buffer, "# EOF\n");
    return ok;
}
