#include "api/results.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/conditions.h"
#include "api/job_json.h"
#include "api/names.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/repr_digest.h"
#include "api/submit.h"
#include "core/base/json_write.h"

static const char *const no_parameters[] = {NULL};
static const char *const digest_parameter[] = {"digest", NULL};
/* What a job wrote instead of a report, the best first. */
static const char *const reports[] = {"report.json", "analysis.json", "plan.json", NULL};

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
}

/* The entity tag of what `name` stands for: the file of that name, or the zip. */
static int etag_of(const struct ck_job_row *row, const char *name, char ret_etag[static CK_ETAG_SIZE],
                   struct ck_error *err) {
    _cleanup_(ck_freep) char *text = NULL;
    int n = asprintf(&text, "%s/%s", row->cache_key, name);

    if (n < 0) {
        text = NULL;
        return no_memory(err);
    }
    return ck_etag_of(text, (size_t)n, ret_etag, err);
}

/* ---- jobs and their files ---- */

char *ck_results_folder(const struct ck_job_row *row) {
    bool convert = strcmp(row->kind, ck_job_kind_name(CK_JOB_CONVERT)) == 0;
    const char *stem = row->stem ? row->stem : "model", *quant = row->quant ? row->quant : "";
    char *folder;
    int n = convert ? asprintf(&folder, "%s.%s%s%s", stem, row->target, quant[0] ? "-" : "", quant)
                    : asprintf(&folder, "%s.analysis", stem);

    return n < 0 ? NULL : folder;
}

/* 0 if the job's files may be looked at. */
static int check_state(const struct ck_job_row *row, struct ck_error *err) {
    if (!ck_job_state_finished(row->state))
        return ck_error_set(err, CK_E_JOB_NOT_FINISHED, NULL, "the job %s is %s", row->id,
                            ck_job_state_name(row->state));
    if (row->state == CK_STATE_EXPIRED)
        return ck_error_set(err, CK_E_RESULTS_EXPIRED, NULL, "the results of the job %s were removed", row->id);
    return 0;
}

static int no_such_file(const struct ck_job_row *row, const char *name, struct ck_error *err) {
    _cleanup_(ck_freep) const char **names = calloc(row->n_files + 1, sizeof(*names));
    const char *near = NULL;

    for (size_t i = 0; names && i < row->n_files; i++)
        names[i] = row->files[i].name;
    if (names)
        near = ck_nearest(name, names);
    ck_error_set(err, CK_E_RESULT_NOT_FOUND, name, "the job %s has no result %.128s", row->id, name);
    if (near)
        ck_error_set_hint(err, "did you mean %s?", near);
    return CK_E_RESULT_NOT_FOUND;
}

static int find_file(const struct ck_job_row *row, const char *name, const struct ck_job_file **ret_file,
                     struct ck_error *err) {
    for (size_t i = 0; i < row->n_files; i++) {
        if (strcmp(row->files[i].name, name) == 0) {
            *ret_file = &row->files[i];
            return 0;
        }
    }
    return no_such_file(row, name, err);
}

static int open_file(const struct ck_ports *ports, const struct ck_job_row *row, const struct ck_job_file *file,
                     int *ret_fd, struct ck_error *err) {
    _cleanup_(ck_closep) int fd = -1;
    struct ck_error failure = {0};
    uint64_t bytes = 0;
    int r = ports->blobs->open_result(ports->blobs, row->id, file->name, &fd, &bytes, &failure);

    /* The row that we hold lists it: it was removed since. */
    if (r == CK_E_RESULT_NOT_FOUND)
        return ck_error_set(err, CK_E_RESULTS_EXPIRED, file->name, "the results of the job %s were removed", row->id);
    if (r < 0) {
        if (err->code == 0)
            *err = failure;
        return r;
    }
    if (bytes != file->bytes)
        return ck_error_set(err, CK_E_IO, file->name, "%s has %" PRIu64 " bytes, not the %" PRIu64 " that were written",
                            file->name, bytes, file->bytes);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* ---- conditions ---- */

/* Conditions and ranges are defined for GET; an answer to PUT or POST is the whole. */
static bool is_get(const struct ck_request *request) {
    return strcmp(request->method, "GET") == 0;
}

static bool is_known_to_client(const struct ck_request *request, const char *etag) {
    return (is_get(request) || strcmp(request->method, "HEAD") == 0) && ck_none_match(request, etag);
}

static int range_of(const struct ck_request *request, const char *etag, uint64_t total, struct ck_range *ret_range,
                    struct ck_error *err) {
    if (is_get(request))
        return ck_range_parse(request, etag, total, ret_range, err);
    *ret_range = (struct ck_range){.length = total};
    return 0;
}

/* total: of what the range was asked of; counts for CK_E_RANGE_NOT_SATISFIABLE alone. */
static void reply_problem(const struct ck_request *request, const struct ck_error *err, bool download,
                          const char *job_id, uint64_t total, struct ck_reply *ret_reply) {
    ck_problem_reply_job(err, request->id, download, job_id, ret_reply);
    if (err->code == CK_E_RANGE_NOT_SATISFIABLE)
        ck_reply_header(ret_reply, "Content-Range", "bytes */%" PRIu64, total);
}

static void reply_headers(struct ck_reply *reply, const char *etag, const char *disposition) {
    ck_reply_header(reply, "ETag", "%s", etag);
    ck_reply_header(reply, "Cache-Control", "private, no-cache");
    ck_reply_header(reply, "Content-Disposition", "%s", disposition);
}

static void reply_not_modified(struct ck_reply *reply, const char *etag) {
    ck_reply_not_modified(reply, etag);
    ck_reply_header(reply, "Cache-Control", "private, no-cache");
}

/* ---- one file ---- */

struct asked {
    const char *name, *disposition; /* disposition NULL: an attachment of that name */
    bool digest;                    /* Repr-Digest is wanted */
    bool download;                  /* a problem is an attachment, too */
};

static int file_reply(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                      const struct ck_job_file *file, const struct asked *asked, const char *etag,
                      struct ck_reply *ret_reply, struct ck_error *err) {
    _cleanup_(ck_freep) char *attachment = asked->disposition ? NULL : ck_disposition(file->name);
    _cleanup_(ck_closep) int fd = -1;
    uint8_t digest[CK_SHA256_BYTES];
    struct ck_range range;
    int r;

    if (!asked->disposition && !attachment)
        return no_memory(err);
    r = range_of(request, etag, file->bytes, &range, err);
    if (r < 0)
        return r;
    r = open_file(ports, row, file, &fd, err);
    if (r < 0)
        return r;
    r = asked->digest ? ck_repr_digest_of(fd, file->name, digest, err) : 0;
    if (r < 0)
        return r;
    ck_reply_init(ret_reply, 200, ck_media_type(file->name));
    reply_headers(ret_reply, etag, asked->disposition ? asked->disposition : attachment);
    if (asked->digest)
        ck_repr_digest_add(ret_reply, digest);
    ck_range_apply(ret_reply, &range, file->bytes);
    ck_reply_file(ret_reply, TAKE_FD(fd), range.offset, range.length);
    return 0;
}

static void answer_file(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                        const struct asked *asked, struct ck_reply *ret_reply) {
    const struct ck_job_file *file = NULL;
    struct ck_error err = {0};
    char etag[CK_ETAG_SIZE];
    int r = check_state(row, &err);

    if (r == 0)
        r = find_file(row, asked->name, &file, &err);
    if (r == 0)
        r = etag_of(row, asked->name, etag, &err);
    if (r == 0 && is_known_to_client(request, etag)) {
        reply_not_modified(ret_reply, etag);
        return;
    }
    if (r == 0)
        r = file_reply(request, ports, row, file, asked, etag, ret_reply, &err);
    if (r < 0)
        reply_problem(request, &err, asked->download, row->id, file ? file->bytes : 0, ret_reply);
}

void ck_results_reply_file(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                           const char *name, const char *disposition, struct ck_reply *ret_reply) {
    const struct asked asked = {name, disposition, .digest = ck_repr_digest_wanted(request), .download = true};

    answer_file(request, ports, row, &asked, ret_reply);
}

/* ---- all files ---- */

/* The files of a zip, opened and named, until the reply takes them. */
struct bundle {
    struct ck_zip_file *files; /* names are owned */
    size_t n;
    struct ck_zip_layout layout;
};

static void bundle_release(struct bundle *bundle) {
    for (size_t i = 0; i < bundle->n; i++) {
        free((char *)bundle->files[i].name);
        ck_closep(&bundle->files[i].fd);
    }
    free(bundle->files);
    ck_zip_layout_release(&bundle->layout);
}

/* Names the job's files and lays the zip out; no file is open yet, so a list can tell its length. */
static int bundle_init(struct bundle *bundle, const struct ck_job_row *row, const char *folder, struct ck_error *err) {
    bundle->files = calloc(row->n_files + 1, sizeof(*bundle->files));
    if (!bundle->files)
        return no_memory(err);
    for (; bundle->n < row->n_files; bundle->n++) {
        const struct ck_job_file *file = &row->files[bundle->n];
        char *name;

        if (asprintf(&name, "%s/%s", folder, file->name) < 0)
            return no_memory(err);
        bundle->files[bundle->n] =
            (struct ck_zip_file){.name = name, .fd = -1, .bytes = file->bytes, .crc32 = file->crc32};
    }
    return ck_zip_layout_make(bundle->files, bundle->n, &bundle->layout, err);
}

/* Opens the files and lays the zip out again, around their descriptors. */
static int bundle_open(struct bundle *bundle, const struct ck_ports *ports, const struct ck_job_row *row,
                       struct ck_error *err) {
    for (size_t i = 0; i < bundle->n; i++) {
        int r = open_file(ports, row, &row->files[i], &bundle->files[i].fd, err);

        if (r < 0)
            return r;
    }
    ck_zip_layout_release(&bundle->layout);
    return ck_zip_layout_make(bundle->files, bundle->n, &bundle->layout, err);
}

/* Gives layout and descriptors to the reply, or releases it. */
static int bundle_give(struct bundle *bundle, const struct ck_range *range, struct ck_reply *reply,
                       struct ck_error *err) {
    int *fds = reallocarray(NULL, bundle->n, sizeof(*fds));

    if (!fds) {
        ck_reply_release(reply);
        return no_memory(err);
    }
    for (size_t i = 0; i < bundle->n; i++)
        fds[i] = TAKE_FD(bundle->files[i].fd);
    ck_reply_zip(reply, &bundle->layout, fds, bundle->n, range->offset, range->length);
    return 0;
}

/* FOLDER.zip. Owned by the caller; NULL when out of memory. */
static char *zip_name(const char *folder) {
    char *name;

    return asprintf(&name, "%s.zip", folder) < 0 ? NULL : name;
}

static int zip_reply(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                     const char *folder, const char *etag, uint64_t *ret_total, struct ck_reply *ret_reply,
                     struct ck_error *err) {
    _cleanup_(bundle_release) struct bundle bundle = {0};
    _cleanup_(ck_freep) char *name = zip_name(folder), *attachment = name ? ck_disposition(name) : NULL;
    struct ck_range range;
    int r;

    if (!attachment)
        return no_memory(err);
    if (row->n_files == 0)
        return ck_error_set(err, CK_E_RESULT_NOT_FOUND, NULL, "the job %s has no results: it is %s", row->id,
                            ck_job_state_name(row->state));
    r = bundle_init(&bundle, row, folder, err);
    if (r < 0)
        return r;
    *ret_total = bundle.layout.length;
    r = range_of(request, etag, *ret_total, &range, err);
    if (r < 0)
        return r;
    r = bundle_open(&bundle, ports, row, err);
    if (r < 0)
        return r;
    ck_reply_init(ret_reply, 200, "application/zip");
    reply_headers(ret_reply, etag, attachment);
    ck_range_apply(ret_reply, &range, *ret_total);
    return bundle_give(&bundle, &range, ret_reply, err);
}

void ck_results_reply_zip(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                          struct ck_reply *ret_reply) {
    _cleanup_(ck_freep) char *folder = ck_results_folder(row);
    struct ck_error err = {0};
    uint64_t total = 0;
    char etag[CK_ETAG_SIZE];
    int r = check_state(row, &err);

    if (r == 0 && !folder)
        r = no_memory(&err);
    if (r == 0)
        r = etag_of(row, folder, etag, &err);
    if (r == 0 && is_known_to_client(request, etag)) {
        reply_not_modified(ret_reply, etag);
        return;
    }
    if (r == 0)
        r = zip_reply(request, ports, row, folder, etag, &total, ret_reply, &err);
    if (r < 0)
        reply_problem(request, &err, true, row->id, total, ret_reply);
}

/* ---- the list ---- */

static int write_file(struct ck_json *json, const struct ck_ports *ports, const struct ck_job_row *row,
                      const struct ck_job_file *file, bool digest, struct ck_error *err) {
    _cleanup_(ck_closep) int fd = -1;
    uint8_t sum[CK_SHA256_BYTES];
    char text[sizeof("sha256:") + 64] = "", href[256];
    int r = 0;

    if (digest) {
        r = open_file(ports, row, file, &fd, err);
        r = r < 0 ? r : ck_repr_digest_of(fd, file->name, sum, err);
    }
    if (r < 0)
        return r;
    ck_json_object_begin(json);
    ck_json_key_string(json, "name", file->name);
    ck_json_key_u64(json, "bytes", file->bytes);
    snprintf(text, sizeof(text), "%08" PRIx32, file->crc32);
    ck_json_key_string(json, "crc32", text);
    ck_json_key_string(json, "media_type", ck_media_type(file->name));
    snprintf(href, sizeof(href), "/v1/jobs/%s/results/%s", row->id, file->name);
    ck_json_key_string(json, "href", href);
    if (digest) {
        memcpy(text, "sha256:", 7);
        ck_digest_hex(sum, text + 7);
        ck_json_key_string(json, "digest", text);
    }
    ck_json_object_end(json);
    return 0;
}

static int write_zip(struct ck_json *json, const struct ck_job_row *row, struct ck_error *err) {
    _cleanup_(bundle_release) struct bundle bundle = {0};
    _cleanup_(ck_freep) char *folder = ck_results_folder(row), *name = folder ? zip_name(folder) : NULL;
    char href[128];
    int r;

    if (!name)
        return no_memory(err);
    r = bundle_init(&bundle, row, folder, err);
    if (r < 0)
        return r;
    snprintf(href, sizeof(href), "/v1/jobs/%s/results.zip", row->id);
    ck_json_object_begin(json);
    ck_json_key_string(json, "href", href);
    ck_json_key_string(json, "name", name);
    ck_json_key_u64(json, "bytes", bundle.layout.length);
    ck_json_object_end(json);
    return 0;
}

static int write_list(struct ck_json *json, const struct ck_ports *ports, const struct ck_job_row *row, bool digest,
                      struct ck_error *err) {
    int r = 0;

    ck_json_object_begin(json);
    ck_json_key_string(json, "job", row->id);
    ck_json_key(json, "results");
    ck_json_array_begin(json);
    for (size_t i = 0; r == 0 && i < row->n_files; i++)
        r = write_file(json, ports, row, &row->files[i], digest, err);
    if (r < 0)
        return r;
    ck_json_array_end(json);
    ck_json_key(json, "zip");
    if (row->n_files > 0)
        r = write_zip(json, row, err);
    else
        ck_json_null(json);
    ck_json_object_end(json);
    ck_json_newline(json);
    return r;
}

static int list_reply(const struct ck_ports *ports, const struct ck_job_row *row, bool digest,
                      struct ck_reply *ret_reply, struct ck_error *err) {
    struct ck_json json;
    int r;

    ck_reply_init(ret_reply, 200, "application/json");
    ck_reply_header(ret_reply, "Cache-Control", "private, no-cache");
    ck_json_init(&json, ck_json_sink_buffer, &ret_reply->body, err);
    r = write_list(&json, ports, row, digest, err);
    if (r == 0)
        r = ck_json_finish(&json);
    if (r < 0)
        ck_reply_release(ret_reply);
    return r;
}

/* ---- routes ---- */

/* What all four begin with. Returns 0, or the reply is the problem. */
static int begin(const struct ck_request *request, const struct ck_ports *ports, const char *const *parameters,
                 bool download, bool *ret_digest, struct ck_job_row *ret_row, struct ck_reply *ret_reply) {
    _cleanup_(ck_query_release) struct ck_query query = {0};
    struct ck_error err = {0};
    int r = ck_query_parse(request->query, &query, &err);

    if (r == 0)
        r = ck_query_check(&query, parameters, NULL, &err);
    if (r == 0)
        r = ck_query_bool(&query, "digest", ret_digest, &err);
    if (r == 0)
        r = ports->store->job_get(ports->store, CK_TENANT, request->params[0], ret_row, &err);
    if (r < 0)
        ck_problem_reply(&err, request->id, download, ret_reply);
    return r;
}

void ck_answer_results(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_error err = {0};
    bool digest = false;
    int r;

    if (begin(request, ports, digest_parameter, false, &digest, &row, ret_reply) < 0)
        return;
    r = check_state(&row, &err);
    if (r == 0)
        r = list_reply(ports, &row, digest, ret_reply, &err);
    if (r < 0)
        ck_problem_reply_job(&err, request->id, false, row.id, ret_reply);
}

void ck_answer_result(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct asked asked = {.name = request->params[1], .digest = ck_repr_digest_wanted(request), .download = true};

    if (begin(request, ports, digest_parameter, true, &asked.digest, &row, ret_reply) == 0)
        answer_file(request, ports, &row, &asked, ret_reply);
}

void ck_answer_report(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct asked asked = {.name = reports[0], .disposition = "inline"};

    if (begin(request, ports, no_parameters, false, &asked.digest, &row, ret_reply) < 0)
        return;
    for (const char *const *name = reports; *name; name++) {
        if (ck_job_has_file(&row, *name)) {
            asked.name = *name;
            break;
        }
    }
    answer_file(request, ports, &row, &asked, ret_reply);
}

void ck_answer_results_zip(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    bool digest = false;

    if (begin(request, ports, no_parameters, true, &digest, &row, ret_reply) == 0)
        ck_results_reply_zip(request, ports, &row, ret_reply);
}
