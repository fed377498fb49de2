#include "api/blobs.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/conditions.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/repr_digest.h"
#include "api/submit.h"
#include "core/base/json_write.h"

#define DIGEST_PREFIX "sha256:"
#define DIGEST_BYTES  (sizeof(DIGEST_PREFIX) - 1 + 64)

/* ---- digests and names ---- */

static int parse_digest(const char *text, char ret_hex[static 65], struct ck_error *err) {
    if (ck_digest_parse(text, ret_hex))
        return 0;
    return ck_error_set(err, CK_E_BAD_REQUEST, text,
                        "'%.100s' is no digest: one is " DIGEST_PREFIX " and 64 hexadecimal digits", text);
}

/* A digest, or what was meant as one; anything else is a file's name. */
static bool means_digest(const char *param) {
    return strncasecmp(param, DIGEST_PREFIX, sizeof(DIGEST_PREFIX) - 1) == 0;
}

static void add_repr_digest(struct ck_reply *reply, const char *hex) {
    uint8_t digest[CK_SHA256_BYTES];
    size_t n = 0;

    if (OPENSSL_hexstr2buf_ex(digest, sizeof(digest), &n, hex, 0) && n == sizeof(digest))
        ck_repr_digest_add(reply, digest);
    else
        reply->broken = true;
}

static void reply_stored(struct ck_reply *reply, int status, const char *hex, uint64_t bytes, const char *name) {
    struct ck_error failure = {0};
    char digest[DIGEST_BYTES + 1];
    struct ck_json json;

    memcpy(digest, DIGEST_PREFIX, sizeof(DIGEST_PREFIX) - 1);
    memcpy(digest + sizeof(DIGEST_PREFIX) - 1, hex, 65);
    ck_reply_init(reply, status, "application/json");
    ck_reply_header(reply, "Location", "/v1/blobs/%s", digest);
    ck_reply_header(reply, "ETag", "\"%s\"", digest);
    add_repr_digest(reply, hex);
    ck_json_init(&json, ck_json_sink_buffer, &reply->body, &failure);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "digest", digest);
    ck_json_key_u64(&json, "bytes", bytes);
    if (name && name[0])
        ck_json_key_string(&json, "name", name);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    if (ck_json_finish(&json) < 0)
        reply->broken = true;
}

/* ---- POST, PUT ---- */

/* The one file of the request. */
static int one_file(const struct ck_request *request, const struct ck_received **ret_file, struct ck_error *err) {
    const struct ck_received *file = request->files;

    if (request->n_fields > 0)
        return ck_error_set(err, CK_E_BAD_OPTION, request->fields[0].name,
                            "the form has a field %.100s: this path takes one file and nothing else",
                            request->fields[0].name);
    if (request->n_files == 0)
        return ck_error_set(err, CK_E_MISSING_FILE, NULL, "no file came with the request");
    if (request->n_files > 1)
        return ck_error_set(err, CK_E_TOO_MANY_FILES, NULL, "the form has %zu files: this path takes one",
                            request->n_files);
    if (file->field[0] && strcmp(file->field, "file") != 0)
        return ck_error_set(err, CK_E_BAD_OPTION, file->field, "the form's file must be in the field file, not %.100s",
                            file->field);
    *ret_file = file;
    return 0;
}

/* expected: the digest that the body must have, or NULL. path_name: the name that curl appended, or NULL. */
static int store_file(const struct ck_request *request, const struct ck_ports *ports, const char *expected,
                      const char *path_name, struct ck_reply *ret_reply, struct ck_error *err) {
    const struct ck_received *file = NULL;
    bool is_new = false;
    char hex[65];
    int r = one_file(request, &file, err);

    if (r < 0)
        return r;
    ck_digest_hex(file->digest, hex);
    if (expected && strcmp(expected, hex) != 0)
        return ck_error_set(err, CK_E_DIGEST_MISMATCH, NULL,
                            "the body has the digest " DIGEST_PREFIX "%s, the path names " DIGEST_PREFIX "%s", hex,
                            expected);
    r = ck_take_file(ports, file, ports->terms.durable, &is_new, err);
    if (r < 0)
        return r;
    reply_stored(ret_reply, is_new ? 201 : 200, hex, file->bytes, file->name ? file->name : path_name);
    return 0;
}

int ck_head_blob_post(struct ck_request *request, _unused_ const struct ck_ports *ports, struct ck_error *err) {
    return ck_query_none(request->query, err);
}

void ck_answer_blob_post(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_error err = {0};

    if (store_file(request, ports, NULL, NULL, ret_reply, &err) < 0)
        ck_problem_reply(&err, request->id, false, ret_reply);
}

int ck_head_blob_put(struct ck_request *request, const struct ck_ports *ports, struct ck_error *err) {
    char hex[65];
    int r = ck_query_none(request->query, err);

    if (r == 0 && !means_digest(request->params[0]))
        return ck_input_name_check("path", request->params[0], err);
    if (r < 0)
        return r;
    r = parse_digest(request->params[0], hex, err);
    if (r < 0)
        return r;
    if (ports->blobs->exists(ports->blobs, hex, ports->terms.durable)) {
        request->answer_early = true;
        ports->touch_blob(ports->ctx, hex);
        ports->count_blob_hit(ports->ctx);
    }
    return 0;
}

/* The blob is here and no body was read: its size is all that is missing. */
static int answer_known(const struct ck_ports *ports, const char *hex, struct ck_reply *ret_reply,
                        struct ck_error *err) {
    _cleanup_(ck_closep) int fd = -1;
    uint64_t bytes = 0;
    int r = ports->blobs->open(ports->blobs, hex, &fd, &bytes, err);

    if (r < 0)
        return r;
    reply_stored(ret_reply, 200, hex, bytes, NULL);
    return 0;
}

void ck_answer_blob_put(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    const char *param = request->params[0];
    struct ck_error err = {0};
    char hex[65];
    int r;

    if (!means_digest(param)) {
        r = store_file(request, ports, NULL, param, ret_reply, &err);
    } else {
        r = parse_digest(param, hex, &err);
        if (r == 0 && request->answer_early)
            r = answer_known(ports, hex, ret_reply, &err);
        else if (r == 0)
            r = store_file(request, ports, hex, NULL, ret_reply, &err);
    }
    if (r < 0)
        ck_problem_reply(&err, request->id, false, ret_reply);
}

/* ---- GET ---- */

static int open_blob(const struct ck_ports *ports, const char *hex, uint64_t expected, int *ret_fd,
                     struct ck_error *err) {
    _cleanup_(ck_closep) int fd = -1;
    uint64_t bytes = 0;
    int r = ports->blobs->open(ports->blobs, hex, &fd, &bytes, err);

    if (r < 0)
        return r;
    if (bytes != expected)
        return ck_error_set(err, CK_E_IO, NULL,
                            "the file of the blob has %" PRIu64 " bytes, not the %" PRIu64 " that were stored", bytes,
                            expected);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static void blob_headers(struct ck_reply *reply, const char *etag, const char *hex) {
    ck_reply_header(reply, "ETag", "%s", etag);
    ck_reply_header(reply, "Cache-Control", "private, immutable");
    ck_reply_header(reply, "Content-Disposition", "attachment; filename=\"sha256-%s\"", hex);
    add_repr_digest(reply, hex);
}

/* ret_total: the size, as soon as it is known. */
static int blob_reply(const struct ck_request *request, const struct ck_ports *ports, const char *hex,
                      uint64_t *ret_total, struct ck_reply *ret_reply, struct ck_error *err) {
    bool head = strcmp(request->method, "HEAD") == 0, durable;
    _cleanup_(ck_closep) int fd = -1;
    char etag[DIGEST_BYTES + 3];
    struct ck_range range = {0};
    int r = ports->store->blob_get(ports->store, CK_TENANT, hex, ret_total, &durable, err);

    if (r < 0)
        return r;
    ports->touch_blob(ports->ctx, hex);
    snprintf(etag, sizeof(etag), "\"" DIGEST_PREFIX "%s\"", hex);
    if (ck_none_match(request, etag)) {
        ck_reply_not_modified(ret_reply, etag);
        ck_reply_header(ret_reply, "Cache-Control", "private, immutable");
        return 0;
    }
    range.length = *ret_total;
    r = head ? 0 : ck_range_parse(request, etag, *ret_total, &range, err);
    if (r < 0)
        return r;
    r = open_blob(ports, hex, *ret_total, &fd, err);
    if (r < 0)
        return r;
    ck_reply_init(ret_reply, 200, "application/octet-stream");
    blob_headers(ret_reply, etag, hex);
    ck_range_apply(ret_reply, &range, *ret_total);
    ck_reply_file(ret_reply, TAKE_FD(fd), range.offset, range.length);
    return 0;
}

void ck_answer_blob(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_error err = {0};
    uint64_t total = 0;
    char hex[65];
    int r = ck_query_none(request->query, &err);

    if (r == 0)
        r = parse_digest(request->params[0], hex, &err);
    if (r == 0)
        r = blob_reply(request, ports, hex, &total, ret_reply, &err);
    if (r == 0)
        return;
    ck_problem_reply(&err, request->id, true, ret_reply);
    if (r == CK_E_RANGE_NOT_SATISFIABLE)
        ck_reply_header(ret_reply, "Content-Range", "bytes */%" PRIu64, total);
}

/* ---- DELETE ---- */

void ck_answer_blob_delete(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_error err = {0};
    char hex[65];
    int r = ck_query_none(request->query, &err);

    if (r == 0)
        r = parse_digest(request->params[0], hex, &err);
    if (r == 0)
        r = ports->store->blob_delete(ports->store, CK_TENANT, hex, &err);
    if (r < 0) {
        ck_problem_reply(&err, request->id, false, ret_reply);
        return;
    }
    ports->blobs->remove(ports->blobs, hex);
    ck_reply_init(ret_reply, 204, NULL);
}
