#include "server/disk/janitor.h"

#include <stdio.h>

#include "server/log.h"

#define STEP        64 /* rows of one transaction */
#define ROUNDS_MOST 16 /* of making room; what is not done then is for the next pass */

struct pass {
    const struct ck_janitor *janitor;
    struct ck_janitor_result *result;
    struct ck_error *err;
    char gone[STEP][CK_DIGEST_SIZE]; /* digests or ids whose rows were removed */
    unsigned n_gone;
};

typedef int forget_fn(struct ck_store *store, int64_t before, unsigned most, void (*gone)(void *ctx, const char *name),
                      void *ctx, struct ck_error *err);

static bool stopped(const struct pass *pass) {
    return pass->janitor->stop && atomic_load(pass->janitor->stop);
}

/* Only notes the name: the files go when the store is done with the rows for good. */
static void note(void *ctx, const char *name) {
    struct pass *pass = ctx;

    if (pass->n_gone < STEP)
        snprintf(pass->gone[pass->n_gone++], CK_DIGEST_SIZE, "%s", name);
}

/* Returns the bytes that were freed. */
static uint64_t remove_blobs(struct pass *pass) {
    const struct ck_janitor *janitor = pass->janitor;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < pass->n_gone; i++) {
        bytes += janitor->blob_bytes(janitor->blobs, pass->gone[i]);
        janitor->blobs->remove(janitor->blobs, pass->gone[i]);
        CK_LOG(DEBUG, "blob removed", CK_LOG_TEXT("digest", pass->gone[i]));
    }
    return bytes;
}

static uint64_t remove_results(struct pass *pass) {
    const struct ck_janitor *janitor = pass->janitor;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < pass->n_gone; i++) {
        bytes += janitor->result_bytes(janitor->blobs, pass->gone[i]);
        janitor->blobs->remove_results(janitor->blobs, pass->gone[i]);
        CK_LOG(DEBUG, "results removed", CK_LOG_TEXT("job_id", pass->gone[i]));
    }
    return bytes;
}

/* One step: rows, then their files. Returns how many there were, or a negative code. */
static int step(struct pass *pass, forget_fn *forget, int64_t before, unsigned most,
                uint64_t (*remove)(struct pass *pass), struct ck_janitor_kind *kind) {
    int r;

    pass->n_gone = 0;
    r = forget(pass->janitor->store, before, most, note, pass, pass->err);
    if (r < 0)
        return r;
    kind->bytes += remove(pass);
    kind->count += pass->n_gone;
    return (int)pass->n_gone;
}

static int sweep(struct pass *pass, forget_fn *forget, int64_t before, uint64_t (*remove)(struct pass *pass),
                 struct ck_janitor_kind *kind) {
    int n;

    do
        n = step(pass, forget, before, STEP, remove, kind);
    while (n == STEP && !stopped(pass));
    return CK_MIN(n, 0);
}

/* ---- making room ---- */

/* The port's function without a time, in the shape of the others. */
static int expire_oldest(struct ck_store *store, _unused_ int64_t before, unsigned most,
                         void (*gone)(void *ctx, const char *id), void *ctx, struct ck_error *err) {
    return store->expire_oldest(store, most, gone, ctx, err);
}

static uint64_t freed(const struct pass *pass) {
    return pass->result->blobs.bytes + pass->result->results.bytes;
}

/* Removes one after the other until `over` bytes are freed. Returns how many it removed, or a negative code. */
static int evict(struct pass *pass, uint64_t over, int64_t now) {
    uint64_t before = freed(pass);
    int count = 0, n;

    do {
        n = step(pass, pass->janitor->store->forget_blobs, now - CK_JANITOR_GRACE_MS, 1, remove_blobs,
                 &pass->result->blobs);
        if (n == 0)
            n = step(pass, expire_oldest, 0, 1, remove_results, &pass->result->results);
        if (n < 0)
            return n;
        count += n;
    } while (n > 0 && freed(pass) - before < over && !stopped(pass));
    return count;
}

/* Measures again after each round: files with several names free nothing until the last is gone, and others write
 * meanwhile. */
static int make_room(struct pass *pass, int64_t now) {
    const struct ck_janitor *janitor = pass->janitor;
    struct ck_janitor_result *result = pass->result;
    int n = 1, r;

    for (unsigned round = 0;; round++) {
        uint64_t held;

        r = janitor->usage(janitor->blobs, &result->blob_bytes, &result->result_bytes, pass->err);
        if (r < 0)
            return r;
        held = result->blob_bytes + result->result_bytes;
        result->too_full = janitor->max_data > 0 && held > janitor->max_data;
        if (!result->too_full || n == 0 || round == ROUNDS_MOST || stopped(pass))
            return 0;
        n = evict(pass, held - janitor->max_data, now);
        if (n < 0)
            return n;
    }
}

/* ---- the pass ---- */

static void say(const struct ck_janitor *janitor, const struct ck_janitor_result *result) {
    if (result->blobs.count + result->results.count + result->records.count > 0)
        CK_LOG(INFO, "janitor removed what was kept long enough", CK_LOG_NUMBER("blobs", result->blobs.count),
               CK_LOG_NUMBER("blob_bytes", result->blobs.bytes), CK_LOG_NUMBER("results", result->results.count),
               CK_LOG_NUMBER("result_bytes", result->results.bytes), CK_LOG_NUMBER("records", result->records.count),
               CK_LOG_NUMBER("record_bytes", result->records.bytes));
    if (result->too_full)
        CK_LOG(WARNING, "more is held than --max-data allows, and what is left is needed",
               CK_LOG_NUMBER("blob_bytes", result->blob_bytes), CK_LOG_NUMBER("result_bytes", result->result_bytes),
               CK_LOG_NUMBER("max_data", janitor->max_data));
}

int ck_janitor_run(const struct ck_janitor *janitor, int64_t now, struct ck_janitor_result *ret_result,
                   struct ck_error *err) {
    struct ck_janitor_result result = {0};
    struct pass pass = {.janitor = janitor, .result = &result, .err = err};
    const struct ck_store *store = janitor->store;
    int r;

    r = sweep(&pass, store->expire_results, now, remove_results, &result.results);
    if (r == 0)
        r = sweep(&pass, store->forget_jobs, now - janitor->record_ttl, remove_results, &result.records);
    if (r == 0)
        r = sweep(&pass, store->forget_blobs, now - janitor->input_ttl, remove_blobs, &result.blobs);
    if (r == 0)
        r = make_room(&pass, now);
    say(janitor, &result);
    *ret_result = result;
    return r;
}
