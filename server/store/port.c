#include <time.h>

#include "server/store/inner.h"

static double seconds_now(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void report(const struct ck_sqlite *store, const char *op, double begin, int code) {
    if (store->observe)
        store->observe(store->observe_ctx, op, seconds_now() - begin, code);
}

/* The body of a function of the port: the real one, with its time taken. */
#define WATCHED(op, ...)                                                                                               \
    struct ck_sqlite *store = ck_sqlite(port);                                                                         \
    double begin = seconds_now();                                                                                      \
    int r = ck_sqlite_##op(store, __VA_ARGS__);                                                                        \
                                                                                                                       \
    report(store, #op, begin, r);                                                                                      \
    return r

static int job_create(struct ck_store *port, const struct ck_job_row *row, struct ck_error *err) {
    WATCHED(job_create, row, err);
}

static int job_get(struct ck_store *port, const char *tenant, const char *id, struct ck_job_row *ret_row,
                   struct ck_error *err) {
    WATCHED(job_get, tenant, id, ret_row, err);
}

static int job_list(struct ck_store *port, const struct ck_job_filter *filter,
                    int (*each)(void *ctx, const struct ck_job_row *row), void *ctx, struct ck_error *err) {
    WATCHED(job_list, filter, each, ctx, err);
}

static int job_ahead(struct ck_store *port, const char *id, uint64_t *ret_ahead, struct ck_error *err) {
    WATCHED(job_ahead, id, ret_ahead, err);
}

static int job_counts(struct ck_store *port, struct ck_queue_counts *ret_counts, struct ck_error *err) {
    WATCHED(job_counts, ret_counts, err);
}

static int job_cancel(struct ck_store *port, const char *tenant, const char *id, int64_t now,
                      struct ck_job_row *ret_row, struct ck_error *err) {
    WATCHED(job_cancel, tenant, id, now, ret_row, err);
}

static int job_retry(struct ck_store *port, const char *tenant, const char *id, int64_t now, struct ck_job_row *ret_row,
                     struct ck_error *err) {
    WATCHED(job_retry, tenant, id, now, ret_row, err);
}

static int job_delete(struct ck_store *port, const char *tenant, const char *id, struct ck_error *err) {
    WATCHED(job_delete, tenant, id, err);
}

static int job_cached(struct ck_store *port, const char *tenant, const char *cache_key, struct ck_job_row *ret_row,
                      struct ck_error *err) {
    WATCHED(job_cached, tenant, cache_key, ret_row, err);
}

static int job_claim(struct ck_store *port, const char *owner, int64_t now, int64_t lease_ms, bool *ret_claimed,
                     struct ck_job_row *ret_row, struct ck_error *err) {
    WATCHED(job_claim, owner, now, lease_ms, ret_claimed, ret_row, err);
}

static int job_renew(struct ck_store *port, const char *id, uint64_t token, int64_t now, int64_t lease_ms,
                     bool *ret_lost, bool *ret_cancel, struct ck_error *err) {
    WATCHED(job_renew, id, token, now, lease_ms, ret_lost, ret_cancel, err);
}

static int job_end(struct ck_store *port, const char *id, uint64_t token, int64_t now, const struct ck_job_end *end,
                   bool *ret_stale, struct ck_job_row *ret_row, struct ck_error *err) {
    WATCHED(job_end, id, token, now, end, ret_stale, ret_row, err);
}

static int jobs_reap(struct ck_store *port, int64_t now, uint64_t *ret_reaped, struct ck_error *err) {
    WATCHED(jobs_reap, now, ret_reaped, err);
}

static int blob_put(struct ck_store *port, const char *tenant, const char *digest, uint64_t bytes, bool durable,
                    int64_t now, bool *ret_new, struct ck_error *err) {
    WATCHED(blob_put, tenant, digest, bytes, durable, now, ret_new, err);
}

static int blob_get(struct ck_store *port, const char *tenant, const char *digest, uint64_t *ret_bytes,
                    bool *ret_durable, struct ck_error *err) {
    WATCHED(blob_get, tenant, digest, ret_bytes, ret_durable, err);
}

static int blob_touch(struct ck_store *port, const char *tenant, const char *digest, int64_t now,
                      struct ck_error *err) {
    WATCHED(blob_touch, tenant, digest, now, err);
}

static int blob_delete(struct ck_store *port, const char *tenant, const char *digest, struct ck_error *err) {
    WATCHED(blob_delete, tenant, digest, err);
}

static int expire_results(struct ck_store *port, int64_t now, unsigned most, void (*gone)(void *ctx, const char *id),
                          void *ctx, struct ck_error *err) {
    WATCHED(expire_results, now, most, gone, ctx, err);
}

static int expire_oldest(struct ck_store *port, unsigned most, void (*gone)(void *ctx, const char *id), void *ctx,
                         struct ck_error *err) {
    WATCHED(expire_oldest, most, gone, ctx, err);
}

static int forget_jobs(struct ck_store *port, int64_t before, unsigned most, void (*gone)(void *ctx, const char *id),
                       void *ctx, struct ck_error *err) {
    WATCHED(forget_jobs, before, most, gone, ctx, err);
}

static int forget_blobs(struct ck_store *port, int64_t before, unsigned most,
                        void (*gone)(void *ctx, const char *digest), void *ctx, struct ck_error *err) {
    WATCHED(forget_blobs, before, most, gone, ctx, err);
}

const struct ck_store ck_sqlite_port = {
    .job_create = job_create,
    .job_get = job_get,
    .job_list = job_list,
    .job_ahead = job_ahead,
    .job_counts = job_counts,
    .job_cancel = job_cancel,
    .job_retry = job_retry,
    .job_delete = job_delete,
    .job_cached = job_cached,
    .job_claim = job_claim,
    .job_renew = job_renew,
    .job_end = job_end,
    .jobs_reap = jobs_reap,
    .blob_put = blob_put,
    .blob_get = blob_get,
    .blob_touch = blob_touch,
    .blob_delete = blob_delete,
    .expire_results = expire_results,
    .expire_oldest = expire_oldest,
    .forget_jobs = forget_jobs,
    .forget_blobs = forget_blobs,
};
