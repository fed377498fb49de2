#include "api/submit.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "core/base/version.h"

#define MS UINT64_C(1000)

static const char *const role_model = "model";

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the job");
}

/* ---- inputs ---- */

int ck_take_file(const struct ck_ports *ports, const struct ck_received *file, bool durable, bool *ret_new,
                 struct ck_error *err) {
    char hex[CK_DIGEST_SIZE];
    bool is_new = false;
    int r;

    if (file->bytes == 0)
        return ck_error_set(err, CK_E_EMPTY_FILE, NULL, "the file has no bytes");
    ck_digest_hex(file->digest, hex);
    r = ports->blobs->adopt(ports->blobs, file, durable, err);
    if (r < 0)
        return r;
    r = ports->store->blob_put(ports->store, CK_TENANT, hex, file->bytes, durable, ports->now(ports->ctx), &is_new,
                               err);
    ports->blobs->settle(ports->blobs, hex);
    if (r < 0) {
        ports->blobs->remove(ports->blobs, hex);
        return r;
    }
    if (!is_new)
        ports->count_blob_hit(ports->ctx);
    *ret_new = is_new;
    return 0;
}

static int not_found(const char *digest, struct ck_error *err) {
    return ck_error_set(err, CK_E_INPUT_NOT_FOUND, "digest", "there is no blob sha256:%s", digest);
}

/* The data first, then the row that says so. */
static int make_durable(const struct ck_ports *ports, const char *digest, uint64_t bytes, struct ck_error *err) {
    bool is_new;
    int r = ports->blobs->sync(ports->blobs, digest, err);

    if (r < 0)
        return r;
    return ports->store->blob_put(ports->store, CK_TENANT, digest, bytes, true, ports->now(ports->ctx), &is_new, err);
}

int ck_find_input(const struct ck_ports *ports, struct ck_submission *submission, bool durable, struct ck_error *err) {
    const char *digest = submission->input.digest;
    struct ck_error failure = {0};
    bool is_durable;
    int r = ports->store->blob_get(ports->store, CK_TENANT, digest, &submission->input.bytes, &is_durable, &failure);

    if (r == CK_E_BLOB_NOT_FOUND || (r == 0 && !ports->blobs->exists(ports->blobs, digest, false)))
        return not_found(digest, err);
    if (r < 0) {
        if (err->code == 0)
            *err = failure;
        return r;
    }
    if (durable && !is_durable)
        return make_durable(ports, digest, submission->input.bytes, err);
    return ports->store->blob_touch(ports->store, CK_TENANT, digest, ports->now(ports->ctx), err);
}

int ck_secure_inputs(const struct ck_ports *ports, const struct ck_job_row *row, struct ck_error *err) {
    for (size_t i = 0; ports->terms.durable && !row->durable && i < row->n_inputs; i++) {
        int r = make_durable(ports, row->inputs[i].digest, row->inputs[i].bytes, err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the key of results ---- */

static void sha_free(EVP_MD_CTX **sha) {
    EVP_MD_CTX_free(*sha);
}

/* With its NUL, which keeps the parts apart. */
static bool add(EVP_MD_CTX *sha, const char *text) {
    return EVP_DigestUpdate(sha, text, strlen(text) + 1) == 1;
}

int ck_cache_key(const char *role, const char *digest, const char *spec, char ret_key[static CK_DIGEST_SIZE],
                 struct ck_error *err) {
    _cleanup_(sha_free) EVP_MD_CTX *sha = EVP_MD_CTX_new();
    uint8_t sum[CK_SHA256_BYTES];

    if (!sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1 || !add(sha, role) || !add(sha, digest) ||
        !add(sha, spec) || !add(sha, ck_version()) || EVP_DigestFinal_ex(sha, sum, NULL) != 1)
        return no_memory(err);
    ck_digest_hex(sum, ret_key);
    return 0;
}

/* ---- jobs ---- */

static char *copy(const char *text, bool *failed) {
    char *result = text ? strdup(text) : NULL;

    *failed |= text && !result;
    return result;
}

static int fill_input(struct ck_job_row *row, const struct ck_submission *submission, struct ck_error *err) {
    bool failed = false;

    row->inputs = calloc(1, sizeof(*row->inputs));
    if (!row->inputs)
        return no_memory(err);
    row->n_inputs = 1;
    row->inputs[0] = submission->input;
    row->inputs[0].role = copy(role_model, &failed);
    row->inputs[0].name = copy(submission->input.name ? submission->input.name : "model", &failed);
    return failed ? no_memory(err) : 0;
}

/* A queued job, as it would be made. */
static int fill_row(struct ck_job_row *row, const struct ck_ports *ports, const struct ck_request *request,
                    const struct ck_submission *submission, bool durable, struct ck_error *err) {
    bool failed = false;
    int r = fill_input(row, submission, err);

    row->spec = ck_spec_normalised(&submission->spec);
    if (r == 0 && !row->spec)
        r = no_memory(err);
    if (r == 0)
        r = ck_cache_key(role_model, submission->input.digest, row->spec, row->cache_key, err);
    if (r < 0)
        return r;
    ports->new_id(ports->ctx, row->id);
    row->state = CK_STATE_QUEUED;
    row->created_at = ports->now(ports->ctx);
    row->max_attempts = (unsigned)ports->terms.max_attempts;
    row->fresh = submission->fresh;
    row->durable = durable;
    row->tenant = copy(CK_TENANT, &failed);
    row->kind = copy(ck_job_kind_name(submission->spec.kind), &failed);
    row->target = copy(submission->spec.target, &failed);
    row->quant = copy(submission->spec.quant, &failed);
    row->labels = copy(submission->labels ? submission->labels : "{}", &failed);
    row->stem = ck_stem(row->inputs[0].name);
    row->request_id = copy(request->id, &failed);
    row->trace_id = copy(request->trace_id, &failed);
    row->caller = copy(request->caller, &failed);
    row->converter = copy(ck_version(), &failed);
    return failed || !row->stem ? no_memory(err) : 0;
}

/* Turns the queued job into one that succeeded with the results of `old`, which are its own links to them. */
static int take_results(struct ck_job_row *row, const struct ck_ports *ports, const struct ck_job_row *old,
                        struct ck_error *err) {
    bool failed = false;

    row->files = calloc(old->n_files + 1, sizeof(*row->files));
    if (!row->files)
        return no_memory(err);
    for (size_t i = 0; i < old->n_files; i++)
        row->files[i] = old->files[i];
    row->n_files = old->n_files;
    row->outcome = copy(old->outcome, &failed);
    row->reason = copy("cached", &failed);
    if (failed)
        return no_memory(err);
    row->state = CK_STATE_SUCCEEDED;
    row->started_at = row->finished_at = row->created_at;
    row->expires_at = row->created_at + (int64_t)(ports->terms.result_ttl * MS);
    row->durable &= old->durable;
    memcpy(row->cached_from, old->id, sizeof(row->cached_from));
    return 0;
}

/* Files may be damaged or removed behind our back; nobody is to be answered with the rest of them for as long as they
 * are kept. */
static bool are_whole(struct ck_blobs *blobs, const char *job, const struct ck_job_row *row) {
    for (size_t i = 0; i < row->n_files; i++) {
        _cleanup_(ck_closep) int fd = -1;
        uint64_t bytes;

        if (blobs->open_result(blobs, job, row->files[i].name, &fd, &bytes, NULL) < 0 || bytes != row->files[i].bytes)
            return false;
    }
    return true;
}

int ck_link_cached(struct ck_blobs *blobs, const struct ck_job_row *old, const char *to, struct ck_error *err) {
    int r = blobs->link_results(blobs, old->id, to, err);

    if (r < 0 || are_whole(blobs, to, old))
        return r;
    blobs->remove_results(blobs, to);
    return ck_error_set(err, CK_E_RESULT_NOT_FOUND, NULL, "the results of job %s are not whole any more", old->id);
}

/* Looks for results to reuse. Returns 0 either way; *ret_cached tells. */
static int try_cache(struct ck_job_row *row, const struct ck_ports *ports, bool *ret_cached, struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row old = {0};
    struct ck_error failure = {0};
    int r;

    *ret_cached = false;
    r = ports->store->job_cached(ports->store, CK_TENANT, row->cache_key, &old, &failure);
    if (r == 0)
        r = ck_link_cached(ports->blobs, &old, row->id, &failure);
    /* Nothing there, or removed between the two steps: the work is done again. */
    if (r == CK_E_JOB_NOT_FOUND || r == CK_E_RESULT_NOT_FOUND)
        return 0;
    if (r < 0) {
        if (err->code == 0)
            *err = failure;
        return r;
    }
    r = take_results(row, ports, &old, err);
    if (r < 0)
        ports->blobs->remove_results(ports->blobs, row->id);
    *ret_cached = r == 0;
    return r;
}

/* The blob was there when it was taken or found; since then somebody may have deleted it. */
static int create(const struct ck_ports *ports, const struct ck_job_row *row, bool cached, struct ck_error *err) {
    int r = ports->store->job_create(ports->store, row, err);

    if (r < 0 && cached)
        ports->blobs->remove_results(ports->blobs, row->id);
    return r;
}

int ck_submit(const struct ck_ports *ports, const struct ck_request *request, const struct ck_submission *submission,
              bool durable, struct ck_job_row *ret_row, struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    bool cached = false;
    int r = fill_row(&row, ports, request, submission, durable, err);

    if (r == 0 && !submission->fresh)
        r = try_cache(&row, ports, &cached, err);
    if (r == 0)
        r = create(ports, &row, cached, err);
    if (r < 0)
        return r;
    if (cached)
        ports->count_cache_hit(ports->ctx);
    else
        ports->changed(ports->ctx, row.id);
    return ports->store->job_get(ports->store, CK_TENANT, row.id, ret_row, err);
}
