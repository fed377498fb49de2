/* fake_ports.h: a job store, bytes, a clock and ids in memory, for tests of handlers.
 *
 *     struct fake fake;
 *     fake_init(&fake);
 *     ... handler(&request, &fake.ports, &reply) ...
 *     fake_release(&fake);
 *
 * The fields are open: a test sets the clock, ends jobs, makes calls fail, and reads what happened. `log` has one word for every call that
 * changes something, in order: "adopt-durable put-durable create changed". Not thread-safe. */
#ifndef FAKE_PORTS_H
#define FAKE_PORTS_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "api/ports.h"

#define FAKE_JOBS    256
#define FAKE_BLOBS   32
#define FAKE_RESULTS 64
#define FAKE_NOW     INT64_C(1772366400123) /* 2026-03-01T12:00:00.123Z */

struct fake_blob {
    char     digest[CK_DIGEST_SIZE];
    uint64_t bytes;
    bool     file, file_durable;      /* what ck_blobs knows */
    bool     row, row_durable;        /* what ck_store knows */
    int64_t  used_at;
    char    *text; /* contents, NUL-terminated */
};

struct fake_result {
    char  job[CK_JOB_ID_SIZE], name[128];
    char *text;
};

struct fake {
    struct ck_ports    ports;
    struct ck_store    store;
    struct ck_blobs    blobs;
    struct ck_job_row  jobs[FAKE_JOBS]; /* in order of creation; id "" where one was deleted */
    size_t             n_jobs;
    struct fake_blob   blob[FAKE_BLOBS];
    struct fake_result results[FAKE_RESULTS];
    int64_t            clock;
    unsigned           ids;
    struct ck_health   some_health;
    char               live_job[CK_JOB_ID_SIZE]; /* the one that runs here */
    struct ck_job_live some_live;
    unsigned           changed, cache_hits, blob_hits, touched;
    int                adopted; /* adopt() without settle() */
    const char        *fail; /* name of the call that fails: "create", "get", "cached", "link", "adopt", "sync", "ahead" ..., or NULL */
    int                fail_code;
    char               log[4096];
};

/* ---- helpers ---- */

static inline struct fake *fake_of_store(struct ck_store *store) {
    return (struct fake *)((char *)store - offsetof(struct fake, store));
}

static inline struct fake *fake_of_blobs(struct ck_blobs *blobs) {
    return (struct fake *)((char *)blobs - offsetof(struct fake, blobs));
}

static inline void fake_log(struct fake *fake, const char *word) {
    size_t used = strlen(fake->log);

    snprintf(fake->log + used, sizeof(fake->log) - used, "%s%s", used ? " " : "", word);
}

static inline int fake_fails(struct fake *fake, const char *call, struct ck_error *err) {
    if (!fake->fail || strcmp(fake->fail, call) != 0)
        return 0;
    return ck_error_set(err, fake->fail_code, NULL, "the test made %s fail", call);
}

static inline char *fake_text(const char *text) {
    return text ? strdup(text) : NULL;
}

/* A deep copy. */
static inline struct ck_job_row fake_copy(const struct ck_job_row *row) {
    struct ck_job_row copy = *row;

#define FAKE_TEXTS(X)                                                                                                                              \
    X(tenant) X(kind) X(target) X(quant) X(spec) X(labels) X(stem) X(reason) X(outcome) X(error) X(request_id) X(trace_id) X(caller) X(converter)
#define X(name) copy.name = fake_text(row->name);
    FAKE_TEXTS(X)
#undef X
    copy.inputs = calloc(row->n_inputs + 1, sizeof(*copy.inputs));
    for (size_t i = 0; i < row->n_inputs; i++) {
        copy.inputs[i] = row->inputs[i];
        copy.inputs[i].role = fake_text(row->inputs[i].role);
        copy.inputs[i].name = fake_text(row->inputs[i].name);
    }
    copy.files = calloc(row->n_files + 1, sizeof(*copy.files));
    if (row->n_files > 0)
        memcpy(copy.files, row->files, row->n_files * sizeof(*copy.files));
    return copy;
}

static inline struct ck_job_row *fake_job(struct fake *fake, const char *id) {
    for (size_t i = 0; i < fake->n_jobs; i++)
        if (id[0] && strcmp(fake->jobs[i].id, id) == 0)
            return &fake->jobs[i];
    return NULL;
}

static inline struct ck_job_row *fake_last_job(struct fake *fake) {
    return fake->n_jobs > 0 ? &fake->jobs[fake->n_jobs - 1] : NULL;
}

static inline struct fake_blob *fake_find_blob(struct fake *fake, const char *digest) {
    for (size_t i = 0; i < FAKE_BLOBS; i++)
        if (fake->blob[i].digest[0] && strcmp(fake->blob[i].digest, digest) == 0)
            return &fake->blob[i];
    return NULL;
}

static inline struct fake_blob *fake_make_blob(struct fake *fake, const char *digest) {
    struct fake_blob *blob = fake_find_blob(fake, digest);

    for (size_t i = 0; !blob && i < FAKE_BLOBS; i++)
        if (!fake->blob[i].digest[0])
            blob = &fake->blob[i];
    if (!blob)
        abort();
    snprintf(blob->digest, sizeof(blob->digest), "%s", digest);
    return blob;
}

/* A blob that is there, file and row. */
static inline void fake_add_blob(struct fake *fake, const char *digest, const char *text, bool durable) {
    struct fake_blob *blob = fake_make_blob(fake, digest);

    free(blob->text);
    blob->text = fake_text(text);
    blob->bytes = strlen(text);
    blob->file = blob->row = true;
    blob->file_durable = blob->row_durable = durable;
    blob->used_at = fake->clock;
}

/* A file of jobs/ID/, in the bytes and in the job's row. */
static inline void fake_add_result(struct fake *fake, const char *job, const char *name, const char *text) {
    struct ck_job_row *row = fake_job(fake, job);
    size_t i = 0;

    while (i < FAKE_RESULTS && fake->results[i].text)
        i++;
    if (i == FAKE_RESULTS)
        abort();
    snprintf(fake->results[i].job, sizeof(fake->results[i].job), "%s", job);
    snprintf(fake->results[i].name, sizeof(fake->results[i].name), "%s", name);
    fake->results[i].text = fake_text(text);
    if (row) {
        row->files = realloc(row->files, (row->n_files + 1) * sizeof(*row->files));
        row->files[row->n_files] = (struct ck_job_file){.bytes = strlen(text), .crc32 = 0x00c0ffee};
        snprintf(row->files[row->n_files].name, sizeof(row->files[row->n_files].name), "%s", name);
        row->n_files++;
    }
}

static inline unsigned fake_count_results(const struct fake *fake, const char *job) {
    unsigned n = 0;

    for (size_t i = 0; i < FAKE_RESULTS; i++)
        n += fake->results[i].text && strcmp(fake->results[i].job, job) == 0;
    return n;
}

/* What a worker does: queued -> running -> an end. outcome and error: JSON or NULL. */
static inline void fake_start(struct fake *fake, const char *id) {
    struct ck_job_row *row = fake_job(fake, id);

    row->state = CK_STATE_RUNNING;
    row->version++;
    row->attempt++;
    row->lease_token++;
    row->started_at = fake->clock;
}

static inline void fake_end(struct fake *fake, const char *id, enum ck_job_state state, const char *outcome, const char *error) {
    struct ck_job_row *row = fake_job(fake, id);

    row->state = state;
    row->version++;
    row->finished_at = fake->clock;
    row->outcome = fake_text(outcome);
    row->error = fake_text(error);
}

/* ---- the store ---- */

static inline int fake_job_create(struct ck_store *store, const struct ck_job_row *row, struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    int r = fake_fails(fake, "create", err);

    fake_log(fake, row->durable ? "create-durable" : "create");
    if (r < 0)
        return r;
    for (size_t i = 0; i < row->n_inputs; i++) {
        struct fake_blob *blob = fake_find_blob(fake, row->inputs[i].digest);

        if (!blob || !blob->row)
            return ck_error_set(err, CK_E_INPUT_NOT_FOUND, row->inputs[i].digest, "there is no blob sha256:%s", row->inputs[i].digest);
    }
    if (fake->n_jobs == FAKE_JOBS)
        abort();
    fake->jobs[fake->n_jobs] = fake_copy(row);
    fake->jobs[fake->n_jobs++].version = 1;
    return 0;
}

static inline int fake_job_get(struct ck_store *store, _unused_ const char *tenant, const char *id, struct ck_job_row *ret_row, struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    const struct ck_job_row *row = fake_job(fake, id);
    int r = fake_fails(fake, "get", err);

    if (r < 0)
        return r;
    if (!row)
        return ck_error_set(err, CK_E_JOB_NOT_FOUND, NULL, "there is no job %.64s", id);
    *ret_row = fake_copy(row);
    return 0;
}

static inline bool fake_has_label(const struct ck_job_row *row, const char *key, const char *value) {
    char text[512];

    snprintf(text, sizeof(text), "\"%s\":\"%s\"", key, value);
    return row->labels && strstr(row->labels, text);
}

static inline bool fake_fits(const struct ck_job_filter *filter, const struct ck_job_row *row) {
    return row->id[0] && (!filter->states || (filter->states & (1u << row->state))) && (!filter->kind || strcmp(filter->kind, row->kind) == 0) &&
           (!filter->target || strcmp(filter->target, row->target) == 0) &&
           (!filter->label_key || fake_has_label(row, filter->label_key, filter->label_value)) &&
           (!filter->created_after || row->created_at > filter->created_after) &&
           (!filter->created_before || row->created_at < filter->created_before) &&
           (!filter->cursor || (filter->oldest_first ? strcmp(row->id, filter->cursor) > 0 : strcmp(row->id, filter->cursor) < 0));
}

static inline int fake_job_list(struct ck_store *store, const struct ck_job_filter *filter, int (*each)(void *ctx, const struct ck_job_row *row), void *ctx,
                                struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    int r = fake_fails(fake, "list", err);
    unsigned given = 0;

    for (size_t i = 0; r == 0 && i < fake->n_jobs && given < filter->limit; i++) {
        const struct ck_job_row *row = &fake->jobs[filter->oldest_first ? i : fake->n_jobs - 1 - i];

        if (!fake_fits(filter, row))
            continue;
        given++;
        r = each(ctx, row);
    }
    return r;
}

static inline int fake_job_ahead(struct ck_store *store, const char *id, uint64_t *ret_ahead, struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    int r = fake_fails(fake, "ahead", err);

    if (r < 0)
        return r;
    *ret_ahead = 0;
    for (size_t i = 0; i < fake->n_jobs && strcmp(fake->jobs[i].id, id) != 0; i++)
        *ret_ahead += fake->jobs[i].id[0] && fake->jobs[i].state == CK_STATE_QUEUED;
    return 0;
}

static inline int fake_job_counts(struct ck_store *store, struct ck_queue_counts *ret_counts, struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    int r = fake_fails(fake, "counts", err);

    if (r < 0)
        return r;
    *ret_counts = (struct ck_queue_counts){0};
    for (size_t i = 0; i < fake->n_jobs; i++) {
        ret_counts->queued += fake->jobs[i].id[0] && fake->jobs[i].state == CK_STATE_QUEUED;
        ret_counts->running += fake->jobs[i].id[0] && fake->jobs[i].state == CK_STATE_RUNNING;
    }
    return 0;
}

static inline int fake_job_cancel(struct ck_store *store, _unused_ const char *tenant, const char *id, int64_t now, struct ck_job_row *ret_row,
                                  struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    struct ck_job_row *row = fake_job(fake, id);
    int r = fake_fails(fake, "cancel", err);

    fake_log(fake, "cancel");
    if (r < 0)
        return r;
    if (!row)
        return ck_error_set(err, CK_E_JOB_NOT_FOUND, NULL, "there is no job %.64s", id);
    if (ck_job_state_finished(row->state) && row->state != CK_STATE_CANCELLED)
        return ck_error_set(err, CK_E_JOB_FINISHED, NULL, "job %.64s is %s", id, ck_job_state_name(row->state));
    if (row->state == CK_STATE_QUEUED) {
        row->state = CK_STATE_CANCELLED;
        row->finished_at = now;
        row->version++;
    } else if (row->state == CK_STATE_RUNNING && !row->cancel_requested_at) {
        row->cancel_requested_at = now;
        row->version++;
    }
    *ret_row = fake_copy(row);
    return 0;
}

static inline int fake_job_retry(struct ck_store *store, _unused_ const char *tenant, const char *id, _unused_ int64_t now, struct ck_job_row *ret_row,
                                 struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    struct ck_job_row *row = fake_job(fake, id);
    int r = fake_fails(fake, "retry", err);

    fake_log(fake, "retry");
    if (r < 0)
        return r;
    if (!row)
        return ck_error_set(err, CK_E_JOB_NOT_FOUND, NULL, "there is no job %.64s", id);
    if (!ck_job_state_finished(row->state) || row->state == CK_STATE_SUCCEEDED)
        return ck_error_set(err, CK_E_JOB_NOT_RETRYABLE, NULL, "job %.64s is %s", id, ck_job_state_name(row->state));
    row->state = CK_STATE_QUEUED;
    row->attempt = row->crash_count = 0;
    row->started_at = row->finished_at = row->expires_at = row->cancel_requested_at = 0;
    ck_freep(&row->error);
    ck_freep(&row->reason);
    row->n_files = 0;
    row->version++;
    *ret_row = fake_copy(row);
    return 0;
}

static inline int fake_job_delete(struct ck_store *store, _unused_ const char *tenant, const char *id, struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    struct ck_job_row *row = fake_job(fake, id);
    int r = fake_fails(fake, "delete", err);

    fake_log(fake, "delete");
    if (r < 0)
        return r;
    if (!row)
        return ck_error_set(err, CK_E_JOB_NOT_FOUND, NULL, "there is no job %.64s", id);
    if (!ck_job_state_finished(row->state))
        return ck_error_set(err, CK_E_JOB_NOT_FINISHED, NULL, "job %.64s is %s", id, ck_job_state_name(row->state));
    ck_job_row_release(row);
    *row = (struct ck_job_row){0};
    return 0;
}

static inline int fake_job_cached(struct ck_store *store, _unused_ const char *tenant, const char *cache_key, struct ck_job_row *ret_row,
                                  struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    int r = fake_fails(fake, "cached", err);

    for (size_t i = fake->n_jobs; r == 0 && i > 0; i--) {
        const struct ck_job_row *row = &fake->jobs[i - 1];

        if (row->id[0] && row->state == CK_STATE_SUCCEEDED && strcmp(row->cache_key, cache_key) == 0) {
            *ret_row = fake_copy(row);
            return 0;
        }
    }
    return r < 0 ? r : ck_error_set(err, CK_E_JOB_NOT_FOUND, NULL, "there is no job with that key");
}

static inline int fake_blob_put(struct ck_store *store, _unused_ const char *tenant, const char *digest, uint64_t bytes, bool durable, int64_t now,
                                bool *ret_new, struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    int r = fake_fails(fake, "put", err);
    struct fake_blob *blob;

    fake_log(fake, durable ? "put-durable" : "put");
    if (r < 0)
        return r;
    blob = fake_make_blob(fake, digest);
    *ret_new = !blob->row;
    blob->row = true;
    blob->row_durable |= durable;
    blob->bytes = bytes;
    blob->used_at = now;
    return 0;
}

static inline int fake_blob_get(struct ck_store *store, _unused_ const char *tenant, const char *digest, uint64_t *ret_bytes, bool *ret_durable,
                                struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    const struct fake_blob *blob = fake_find_blob(fake, digest);
    int r = fake_fails(fake, "blob_get", err);

    if (r < 0)
        return r;
    if (!blob || !blob->row)
        return ck_error_set(err, CK_E_BLOB_NOT_FOUND, NULL, "there is no blob sha256:%.64s", digest);
    *ret_bytes = blob->bytes;
    *ret_durable = blob->row_durable;
    return 0;
}

static inline int fake_blob_touch(struct ck_store *store, _unused_ const char *tenant, const char *digest, int64_t now, struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    struct fake_blob *blob = fake_find_blob(fake, digest);
    int r = fake_fails(fake, "touch", err);

    if (r == 0 && blob)
        blob->used_at = now;
    return r;
}

static inline int fake_blob_delete(struct ck_store *store, _unused_ const char *tenant, const char *digest, struct ck_error *err) {
    struct fake *fake = fake_of_store(store);
    struct fake_blob *blob = fake_find_blob(fake, digest);
    int r = fake_fails(fake, "blob_delete", err);

    fake_log(fake, "blob-delete");
    if (r < 0)
        return r;
    if (!blob || !blob->row)
        return ck_error_set(err, CK_E_BLOB_NOT_FOUND, NULL, "there is no blob sha256:%.64s", digest);
    for (size_t i = 0; i < fake->n_jobs; i++)
        for (size_t k = 0; fake->jobs[i].id[0] && !ck_job_state_finished(fake->jobs[i].state) && k < fake->jobs[i].n_inputs; k++)
            if (strcmp(fake->jobs[i].inputs[k].digest, digest) == 0)
                return ck_error_set(err, CK_E_BLOB_IN_USE, NULL, "job %s needs it", fake->jobs[i].id);
    blob->row = false;
    return 0;
}

/* ---- the bytes ---- */

static inline void fake_hex(const uint8_t digest[static CK_SHA256_BYTES], char ret_hex[static CK_DIGEST_SIZE]) {
    for (size_t i = 0; i < CK_SHA256_BYTES; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}

/* spool, if it is not NULL, is the text of the file. */
static inline int fake_adopt(struct ck_blobs *blobs, const struct ck_received *file, bool durable, struct ck_error *err) {
    struct fake *fake = fake_of_blobs(blobs);
    int r = fake_fails(fake, "adopt", err);
    char hex[CK_DIGEST_SIZE];
    struct fake_blob *blob;

    fake_log(fake, durable ? "adopt-durable" : "adopt");
    if (r < 0)
        return r;
    fake_hex(file->digest, hex);
    blob = fake_make_blob(fake, hex);
    if (!blob->file && file->spool) {
        free(blob->text);
        blob->text = fake_text(file->spool);
    }
    blob->bytes = file->bytes;
    blob->file = true;
    blob->file_durable |= durable;
    fake->adopted++;
    return 0;
}

static inline void fake_settle(struct ck_blobs *blobs, _unused_ const char *digest) {
    fake_of_blobs(blobs)->adopted--;
}

static inline int fake_sync(struct ck_blobs *blobs, const char *digest, struct ck_error *err) {
    struct fake *fake = fake_of_blobs(blobs);
    struct fake_blob *blob = fake_find_blob(fake, digest);
    int r = fake_fails(fake, "sync", err);

    fake_log(fake, "sync");
    if (r < 0)
        return r;
    if (!blob || !blob->file)
        return ck_error_set(err, CK_E_BLOB_NOT_FOUND, NULL, "there is no blob sha256:%.64s", digest);
    blob->file_durable = true;
    return 0;
}

static inline bool fake_exists(struct ck_blobs *blobs, const char *digest, bool synced) {
    const struct fake_blob *blob = fake_find_blob(fake_of_blobs(blobs), digest);

    return blob && blob->file && (!synced || blob->file_durable);
}

static inline int fake_open_text(const char *text, int *ret_fd, uint64_t *ret_bytes) {
    int fd = memfd_create("fake", MFD_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    *ret_fd = fd;
    *ret_bytes = strlen(text);
    return 0;
}

static inline int fake_open(struct ck_blobs *blobs, const char *digest, int *ret_fd, uint64_t *ret_bytes, struct ck_error *err) {
    struct fake *fake = fake_of_blobs(blobs);
    const struct fake_blob *blob = fake_find_blob(fake, digest);
    int r = fake_fails(fake, "open", err);

    if (r < 0)
        return r;
    if (!blob || !blob->file)
        return ck_error_set(err, CK_E_BLOB_NOT_FOUND, NULL, "there is no blob sha256:%.64s", digest);
    return fake_open_text(blob->text ? blob->text : "", ret_fd, ret_bytes);
}

static inline void fake_remove(struct ck_blobs *blobs, const char *digest) {
    struct fake_blob *blob = fake_find_blob(fake_of_blobs(blobs), digest);

    fake_log(fake_of_blobs(blobs), "remove");
    if (blob && !blob->row)
        blob->file = false;
}

static inline int fake_open_result(struct ck_blobs *blobs, const char *job, const char *name, int *ret_fd, uint64_t *ret_bytes, struct ck_error *err) {
    struct fake *fake = fake_of_blobs(blobs);
    int r = fake_fails(fake, "open_result", err);

    for (size_t i = 0; r == 0 && i < FAKE_RESULTS; i++)
        if (fake->results[i].text && strcmp(fake->results[i].job, job) == 0 && strcmp(fake->results[i].name, name) == 0)
            return fake_open_text(fake->results[i].text, ret_fd, ret_bytes);
    return r < 0 ? r : ck_error_set(err, CK_E_RESULT_NOT_FOUND, name, "job %.64s has no file %.100s", job, name);
}

static inline int fake_link_results(struct ck_blobs *blobs, const char *from, const char *to, struct ck_error *err) {
    struct fake *fake = fake_of_blobs(blobs);
    int r = fake_fails(fake, "link", err);

    fake_log(fake, "link");
    if (r < 0)
        return r;
    if (fake_count_results(fake, from) == 0)
        return ck_error_set(err, CK_E_RESULT_NOT_FOUND, NULL, "the results of job %.64s are gone", from);
    for (size_t i = 0; i < FAKE_RESULTS; i++)
        if (fake->results[i].text && strcmp(fake->results[i].job, from) == 0)
            fake_add_result(fake, to, fake->results[i].name, fake->results[i].text);
    return 0;
}

static inline void fake_remove_results(struct ck_blobs *blobs, const char *job) {
    struct fake *fake = fake_of_blobs(blobs);

    fake_log(fake, "remove-results");
    for (size_t i = 0; i < FAKE_RESULTS; i++)
        if (strcmp(fake->results[i].job, job) == 0)
            ck_freep(&fake->results[i].text);
}

/* ---- the rest of the process ---- */

static inline int64_t fake_now(void *ctx) {
    return ((struct fake *)ctx)->clock;
}

/* Sorts by time of creation, as real ones do. */
static inline void fake_new_id(void *ctx, char ret_id[CK_JOB_ID_SIZE]) {
    snprintf(ret_id, CK_JOB_ID_SIZE, "0195f000-0000-7000-8000-%012x", ++((struct fake *)ctx)->ids);
}

static inline void fake_health(void *ctx, struct ck_health *ret_health) {
    *ret_health = ((struct fake *)ctx)->some_health;
}

static inline bool fake_live(void *ctx, const char *job, struct ck_job_live *ret_live) {
    const struct fake *fake = ctx;

    if (!fake->live_job[0] || strcmp(fake->live_job, job) != 0)
        return false;
    *ret_live = fake->some_live;
    return true;
}

static inline void fake_changed(void *ctx, _unused_ const char *job) {
    fake_log(ctx, "changed");
    ((struct fake *)ctx)->changed++;
}

static inline void fake_touch(void *ctx, _unused_ const char *digest) {
    ((struct fake *)ctx)->touched++;
}

static inline void fake_count_cache_hit(void *ctx) {
    ((struct fake *)ctx)->cache_hits++;
}

static inline void fake_count_blob_hit(void *ctx) {
    ((struct fake *)ctx)->blob_hits++;
}

static inline void fake_metrics(_unused_ void *ctx, bool open, struct ck_buffer *buffer) {
    ck_buffer_printf(buffer, "fake_metrics 1\n%s", open ? "# EOF\n" : "");
}

static inline void fake_init(struct fake *fake) {
    *fake = (struct fake){
        .clock = FAKE_NOW,
        .some_health = {.free_bytes = 1u << 30, .need_bytes = 1u << 20, .workers_ok = true, .store_ok = true, .started = true},
        .store = {.job_create = fake_job_create,
                  .job_get = fake_job_get,
                  .job_list = fake_job_list,
                  .job_ahead = fake_job_ahead,
                  .job_counts = fake_job_counts,
                  .job_cancel = fake_job_cancel,
                  .job_retry = fake_job_retry,
                  .job_delete = fake_job_delete,
                  .job_cached = fake_job_cached,
                  .blob_put = fake_blob_put,
                  .blob_get = fake_blob_get,
                  .blob_touch = fake_blob_touch,
                  .blob_delete = fake_blob_delete},
        .blobs = {.adopt = fake_adopt,
                  .settle = fake_settle,
                  .sync = fake_sync,
                  .exists = fake_exists,
                  .open = fake_open,
                  .remove = fake_remove,
                  .open_result = fake_open_result,
                  .link_results = fake_link_results,
                  .remove_results = fake_remove_results},
    };
    fake->ports = (struct ck_ports){
        .ctx = fake,
        .store = &fake->store,
        .blobs = &fake->blobs,
        .terms = {.max_upload = 1u << 20, .max_json = 1u << 16, .max_files = 8, .max_wait = 120, .max_sync_wait = 300, .queue = 10, .workers = 2,
                  .result_ttl = 3600, .input_ttl = 7200, .record_ttl = 86400, .max_attempts = 5, .durable = true, .limits = ck_limits_default},
        .build_json = "{\"commit\":\"abc\"}",
        .now = fake_now,
        .new_id = fake_new_id,
        .health = fake_health,
        .live = fake_live,
        .changed = fake_changed,
        .touch_blob = fake_touch,
        .count_cache_hit = fake_count_cache_hit,
        .count_blob_hit = fake_count_blob_hit,
        .metrics = fake_metrics,
    };
}

static inline void fake_release(struct fake *fake) {
    for (size_t i = 0; i < fake->n_jobs; i++)
        ck_job_row_release(&fake->jobs[i]);
    for (size_t i = 0; i < FAKE_BLOBS; i++)
        free(fake->blob[i].text);
    for (size_t i = 0; i < FAKE_RESULTS; i++)
        free(fake->results[i].text);
}

#endif
