#include "server/daemon.h"

#include <stdio.h>
#include <string.h>

#include "core/base/version.h"
#include "server/disk/blobs_dir.h"
#include "server/events.h"
#include "server/http/http.h"
#include "server/disk/janitor.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/work/sandbox.h"
#include "server/disk/scrub.h"
#include "server/store/sqlite.h"

static void read_boot_id(char *text, size_t size) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    text[0] = 0;
    if (file && fgets(text, (int)size, file))
        text[strcspn(text, "\n")] = 0;
    if (file)
        fclose(file);
}

static void observe_store(_unused_ void *ctx, const char *op, double seconds, int code) {
    CK_METRIC_OBSERVE(store_query_duration_seconds, seconds, op);
    if (code == CK_E_STORE_UNAVAILABLE || code == CK_E_STORAGE_FULL || code == CK_E_OUT_OF_MEMORY)
        CK_METRIC_ADD(store_errors_total, 1, op);
}

static int open_store(struct ck_daemon *daemon, struct ck_error *err) {
    bool durable = strcmp(daemon->settings.durability, "full") == 0;
    _cleanup_(ck_freep) char *path = NULL;
    char boot_id[64];
    int r;

    if (asprintf(&path, "%s/store.sqlite", daemon->settings.data) < 0)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    read_boot_id(boot_id, sizeof(boot_id));
    r = ck_store_sqlite_open(path, durable, boot_id, &daemon->store, err);
    if (r < 0)
        return r;
    ck_store_sqlite_observe(daemon->store, observe_store, daemon);
    return ck_blobs_dir_new(&daemon->data, daemon->store, durable, &daemon->blobs, err);
}

static int lost(void *ctx, const char *job, struct ck_error *err) {
    struct ck_daemon *daemon = ctx;

    return ck_store_sqlite_lose_results(daemon->store, job, ck_clock_ms(), err);
}

/* What an earlier process left behind: half-made files, leases that nobody holds. */
static int recover(struct ck_daemon *daemon, struct ck_error *err) {
    const struct ck_scrub scrub = {
        .data = &daemon->data,
        .store = daemon->store,
        .rebooted = ck_store_sqlite_rebooted(daemon->store),
        .store_is_new = ck_store_sqlite_is_new(daemon->store),
        .now = ck_clock_ms(),
        .each_blob = ck_store_sqlite_each_blob,
        .drop_blob = ck_store_sqlite_drop_blob,
        .each_job_with_files = ck_store_sqlite_each_job_with_files,
        .lost = lost,
        .ctx = daemon,
    };
    struct ck_store_recovery recovery = {0};
    struct ck_scrub_result result = {0};
    int r;

    r = ck_scrub_blobs(&scrub, &result, err);
    if (r == 0)
        r = ck_store_sqlite_recover(daemon->store, ck_clock_ms(), &recovery, err);
    if (r == 0)
        r = ck_scrub_results(&scrub, &result, err);
    if (r == 0)
        CK_LOG(INFO, "recovered", CK_LOG_NUMBER("requeued", recovery.requeued), CK_LOG_NUMBER("dead", recovery.dead),
               CK_LOG_NUMBER("cancelled", recovery.cancelled), CK_LOG_NUMBER("rerun", recovery.rerun),
               CK_LOG_NUMBER("lost", recovery.lost));
    return r;
}

static int read_keys(struct ck_daemon *daemon, struct ck_error *err) {
    const char *note;
    int r;

    if (!daemon->settings.keys_file[0])
        return 0;
    r = ck_keys_read(daemon->settings.keys_file, &daemon->keys, err);
    if (r < 0)
        return r;
    if (ck_keys_count(daemon->keys) == 0)
        CK_LOG(WARNING, "the keys file holds no key: nobody can call", CK_LOG_TEXT("file", daemon->settings.keys_file));
    note = ck_keys_note(daemon->keys);
    if (note)
        CK_LOG(WARNING, note, CK_LOG_TEXT("file", daemon->settings.keys_file));
    return 0;
}

int ck_daemon_open(struct ck_daemon *daemon, struct ck_events *events, struct ck_error *err) {
    int r;

    pthread_mutex_init(&daemon->suspend_lock, NULL);
    pthread_mutex_init(&daemon->count_lock, NULL);
    pthread_mutex_init(&daemon->look_lock, NULL);
    ck_waiters_init(&daemon->waiters);
    r = ck_sandbox_check(err);
    if (r == 0)
        r = read_keys(daemon, err);
    if (r == 0)
        r = ck_listen_open(daemon->settings.listen, daemon->keys || daemon->settings.insecure, &daemon->listen, err);
    if (r == 0)
        r = ck_data_dir_open(daemon->settings.data, &daemon->data, err);
    if (r == 0)
        r = open_store(daemon, err);
    if (r == 0)
        r = recover(daemon, err);
    if (r == 0)
        r = ck_hasher_new((unsigned)daemon->settings.hash_threads, &daemon->hasher, err);
    if (r == 0)
        r = ck_crew_new((unsigned)daemon->settings.store_threads, &daemon->crew, err);
    if (r == 0)
        r = ck_events_init(events, daemon, err);
    if (r < 0)
        return r;
    ck_ports_make(daemon);
    ck_daemon_look(daemon);
    return ck_http_start(daemon, err);
}

void ck_daemon_close(struct ck_daemon *daemon, struct ck_events *events) {
    ck_http_stop(daemon->http);
    ck_crew_free(daemon->crew);
    ck_events_release(events);
    ck_hasher_free(daemon->hasher);
    ck_blobs_dir_free(daemon->blobs);
    ck_store_sqlite_close(daemon->store);
    if (daemon->data.path)
        ck_data_dir_set_port(&daemon->data, 0);
    ck_data_dir_release(&daemon->data);
    ck_closep(&daemon->listen.fd);
    ck_keys_free(daemon->keys);
    ck_waiters_release(&daemon->waiters);
    pthread_mutex_destroy(&daemon->look_lock);
    pthread_mutex_destroy(&daemon->count_lock);
    pthread_mutex_destroy(&daemon->suspend_lock);
}

int ck_daemon_count(struct ck_daemon *daemon, struct ck_error *err) {
    struct ck_queue_counts counts;
    int r;

    pthread_mutex_lock(&daemon->count_lock);
    r = daemon->store->job_counts(daemon->store, &counts, err);
    if (r == 0) {
        pthread_mutex_lock(&daemon->look_lock);
        daemon->counts = counts;
        pthread_mutex_unlock(&daemon->look_lock);
    }
    pthread_mutex_unlock(&daemon->count_lock);
    return r;
}

void ck_daemon_look(struct ck_daemon *daemon) {
    uint64_t free_bytes = 0, total = 0;
    struct ck_error err = {0};
    bool ok;

    ok = ck_store_sqlite_check(daemon->store, &err) == 0 && ck_daemon_count(daemon, &err) == 0;
    (void)ck_data_dir_space(&daemon->data, &free_bytes, &total, NULL);
    pthread_mutex_lock(&daemon->look_lock);
    if (!ok && daemon->store_ok)
        ck_log_error(CK_LOG_ERROR, "the store does not answer", &err);
    if (ok && !daemon->store_ok)
        CK_LOG(INFO, "the store answers");
    daemon->store_ok = ok;
    snprintf(daemon->store_why, sizeof(daemon->store_why), "%.250s", err.message);
    daemon->free_bytes = free_bytes;
    daemon->total_bytes = total;
    pthread_mutex_unlock(&daemon->look_lock);
}

void ck_daemon_clean(struct ck_daemon *daemon) {
    const struct ck_janitor janitor = {
        .store = daemon->store,
        .blobs = daemon->blobs,
        .input_ttl = (int64_t)daemon->settings.input_ttl * 1000,
        .record_ttl = (int64_t)daemon->settings.record_ttl * 1000,
        .max_data = daemon->settings.max_data,
        .stop = &daemon->draining,
        .usage = ck_blobs_dir_usage,
        .blob_bytes = ck_blobs_dir_blob_bytes,
        .result_bytes = ck_blobs_dir_result_bytes,
    };
    struct ck_janitor_result result = {0};
    struct ck_error err = {0};

    int r = ck_janitor_run(&janitor, ck_clock_ms(), &result, &err);

    if (r < 0)
        ck_log_error(CK_LOG_ERROR, "the janitor could not do its work", &err);
    CK_METRIC_ADD(gc_deleted_bytes_total, result.blobs.bytes, "blob");
    CK_METRIC_ADD(gc_deleted_bytes_total, result.results.bytes, "result");
    CK_METRIC_ADD(gc_deleted_bytes_total, result.records.bytes, "record");
    if (r < 0)
        return;
    CK_METRIC_SET(storage_bytes, result.blob_bytes, "blob");
    CK_METRIC_SET(storage_bytes, result.result_bytes, "result");
}
