/* The process as the handlers see it: api/ports.h over a running daemon. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/version.h"
#include "server/command/commands.h"
#include "server/daemon.h"
#include "server/metrics.h"
#include "server/http/request_id.h"
#include "server/work/scheduler.h"

#define LOOP_STUCK_MS 10000

int64_t ck_now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t ck_clock_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t port_now(_unused_ void *ctx) {
    return ck_clock_ms();
}

static void port_new_id(_unused_ void *ctx, char ret_id[CK_JOB_ID_SIZE]) {
    char id[CK_REQUEST_ID_MAX];

    ck_request_id(NULL, id);
    memcpy(ret_id, id, CK_JOB_ID_SIZE - 1);
    ret_id[CK_JOB_ID_SIZE - 1] = 0;
}

static void port_health(void *ctx, struct ck_health *ret_health) {
    struct ck_daemon *daemon = ctx;
    bool stuck = ck_now_ms() - atomic_load(&daemon->loop_seen) > LOOP_STUCK_MS;
    const char *trouble = stuck ? "the loop that starts workers is stuck" : ck_scheduler_trouble(daemon->scheduler);

    *ret_health = (struct ck_health){
        .draining = atomic_load(&daemon->draining),
        .workers_ok = !trouble,
        .workers_why = trouble,
        .started = true, /* nothing is served before */
    };
    pthread_mutex_lock(&daemon->look_lock);
    ret_health->free_bytes = daemon->free_bytes;
    ret_health->need_bytes =
        daemon->settings.min_free ? CK_MAX(daemon->settings.min_free, daemon->total_bytes / 50) : 0;
    ret_health->store_ok = daemon->store_ok;
    memcpy(ret_health->store_why, daemon->store_why, sizeof(ret_health->store_why));
    pthread_mutex_unlock(&daemon->look_lock);
}

static bool port_live(void *ctx, const char *job, struct ck_job_live *ret_live) {
    struct ck_daemon *daemon = ctx;

    return ck_scheduler_live(daemon->scheduler, job, ret_live);
}

/* True if nobody has to wait for the end of the job any more. */
static bool has_ended(struct ck_daemon *daemon, const char *job) {
    struct ck_job_row row = {0};
    bool ended = daemon->store->job_get(daemon->store, "", job, &row, NULL) < 0 || ck_job_state_finished(row.state);

    ck_job_row_release(&row);
    return ended;
}

/* On a thread of the crew, which may block. The counts are taken anew before the request gives its place in the queue
 * back, so that no job is missing from the sum that bounds the queue. */
static void port_changed(void *ctx, const char *job) {
    struct ck_daemon *daemon = ctx;

    (void)ck_daemon_count(daemon, NULL);
    ck_scheduler_look(daemon->scheduler, job);
    ck_waiters_changed(&daemon->waiters, job, has_ended(daemon, job));
}

struct touch {
    struct ck_errand errand;
    struct ck_daemon *daemon;
    char digest[CK_DIGEST_SIZE];
};

static void touch_now(void *ctx) {
    struct touch *touch = ctx;
    struct ck_store *store = touch->daemon->store;

    (void)store->blob_touch(store, "", touch->digest, ck_clock_ms(), NULL);
    free(touch);
}

static void port_touch_blob(void *ctx, const char *digest) {
    struct touch *touch = calloc(1, sizeof(*touch));

    if (!touch)
        return;
    touch->daemon = ctx;
    touch->errand = (struct ck_errand){.run = touch_now, .ctx = touch};
    snprintf(touch->digest, sizeof(touch->digest), "%s", digest);
    ck_crew_post(touch->daemon->crew, &touch->errand);
}

static void port_count_cache_hit(_unused_ void *ctx) {
    CK_METRIC_ADD(result_cache_hits_total, 1);
}

static void port_count_blob_hit(_unused_ void *ctx) {
    CK_METRIC_ADD(blob_dedup_hits_total, 1);
}

static void set_gauges(struct ck_daemon *daemon) {
    int64_t now = ck_clock_ms(), oldest;

    pthread_mutex_lock(&daemon->look_lock);
    oldest = daemon->counts.oldest_queued_at;
    CK_METRIC_SET(jobs_queued, daemon->counts.queued, "default");
    CK_METRIC_SET(jobs_running, daemon->counts.running, "default");
    CK_METRIC_SET(oldest_queued_job_age_seconds, oldest ? (double)CK_MAX(now - oldest, 0) / 1000 : 0, "default");
    CK_METRIC_SET(storage_free_bytes, daemon->free_bytes);
    pthread_mutex_unlock(&daemon->look_lock);
    CK_METRIC_SET(workers, daemon->settings.workers);
    CK_METRIC_SET(workers_busy, ck_scheduler_busy(daemon->scheduler));
}

static void port_metrics(void *ctx, bool open, struct ck_buffer *buffer) {
    set_gauges(ctx);
    (void)ck_metrics_render(open ? CK_METRICS_OPENMETRICS : CK_METRICS_PROMETHEUS, buffer);
}

/* "0.1.0+1a2b3c4d5e6f" is release and commit. */
static void set_build_info(void) {
    const char *version = ck_version(), *plus = strchr(version, '+');
    char release[64];

    snprintf(release, sizeof(release), "%.*s", plus ? (int)(plus - version) : (int)strlen(version), version);
    CK_METRIC_SET(build_info, 1, release, plus ? plus + 1 : "", "mlx " CK_MLX_VERSION);
}

void ck_ports_make(struct ck_daemon *daemon) {
    const struct ck_settings *settings = &daemon->settings;

    daemon->ports = (struct ck_ports){
        .ctx = daemon,
        .store = daemon->store,
        .blobs = daemon->blobs,
        .terms =
            {
                .max_upload = settings->max_upload,
                .max_json = settings->max_json,
                .max_files = settings->max_files,
                .max_wait = settings->max_wait,
                .max_sync_wait = settings->max_sync_wait,
                .queue = settings->queue,
                .workers = settings->workers,
                .result_ttl = settings->result_ttl,
                .input_ttl = settings->input_ttl,
                .record_ttl = settings->record_ttl,
                .max_attempts = settings->max_attempts,
                .durable = strcmp(settings->durability, "full") == 0,
                .keys = daemon->keys != NULL,
                .limits = settings->limits,
            },
        .build_json = ck_build_json(),
        .now = port_now,
        .new_id = port_new_id,
        .health = port_health,
        .live = port_live,
        .changed = port_changed,
        .touch_blob = port_touch_blob,
        .count_cache_hit = port_count_cache_hit,
        .count_blob_hit = port_count_blob_hit,
        .metrics = port_metrics,
    };
    set_build_info();
}
