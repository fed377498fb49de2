#include "server/respond.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/version.h"
#include "core/output/zip_layout.h"

#define ZIP_BLOCK (512u << 10)

static void add_headers(struct MHD_Response *response, const struct ck_reply *reply, const char *request_id) {
    for (size_t i = 0; i < reply->n_headers; i++)
        MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
    MHD_add_response_header(response, "X-Request-Id", request_id);
    MHD_add_response_header(response, "X-Ckptd-Version", ck_version());
}

static enum MHD_Result queue(struct MHD_Connection *connection, struct MHD_Response *response,
                             const struct ck_reply *reply, const char *request_id) {
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    add_headers(response, reply, request_id);
    result = MHD_queue_response(connection, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result ck_respond(struct MHD_Connection *connection, const struct ck_reply *reply, const char *request_id) {
    if (reply->broken)
        return MHD_NO;
    return queue(connection,
                 MHD_create_response_from_buffer(reply->body.length, (void *)(uintptr_t)ck_buffer_text(&reply->body),
                                                 MHD_RESPMEM_MUST_COPY),
                 reply, request_id);
}

enum MHD_Result ck_respond_file(struct MHD_Connection *connection, const struct ck_reply *reply, const char *request_id,
                                int fd, uint64_t bytes) {
    struct MHD_Response *response = reply->broken ? NULL : MHD_create_response_from_fd64(bytes, fd);

    if (!response) {
        close(fd);
        return MHD_NO;
    }
    return queue(connection, response, reply, request_id);
}

struct zip_body {
    struct ck_zip_layout layout;
    struct ck_job files; /* only the outcome is used */
};

static ssize_t read_zip(void *ctx, uint64_t position, char *buffer, size_t n) {
    struct zip_body *body = ctx;
    struct ck_error err = {0};
    ssize_t got = ck_zip_layout_read(&body->layout, position, buffer, n, &err);

    return got > 0 ? got : got == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void free_zip(void *ctx) {
    struct zip_body *body = ctx;

    ck_zip_layout_release(&body->layout);
    ck_job_outcome_release(&body->files);
    free(body);
}

static int lay_out(struct zip_body *body, const char *folder, const struct ck_job *job, struct ck_error *err) {
    size_t n = job->result.n_files;
    _cleanup_(ck_freep) struct ck_zip_file *files = calloc(n, sizeof(*files));
    _cleanup_(ck_freep) char *names = NULL;
    size_t room = strlen(folder) + 1 + sizeof(job->result.files[0].name) + 1;

    names = calloc(n, room);
    if (!files || !names)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
    for (size_t i = 0; i < n; i++) {
        snprintf(names + i * room, room, "%s/%s", folder, job->result.files[i].name);
        files[i] = (struct ck_zip_file){
            .name = names + i * room,
            .fd = job->files[i],
            .bytes = job->result.files[i].bytes,
            .crc32 = job->result.files[i].crc32,
        };
    }
    return ck_zip_layout_make(files, n, &body->layout, err);
}

int ck_respond_zip(struct MHD_Connection *connection, const struct ck_reply *reply, const char *request_id,
                   const char *folder, struct ck_job *job, enum MHD_Result *ret_result, uint64_t *ret_bytes,
                   struct ck_error *err) {
    struct zip_body *body = calloc(1, sizeof(*body));
    struct MHD_Response *response = NULL;
    int r;

    if (!body)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
    r = lay_out(body, folder, job, err);
    if (r == 0) {
        *ret_bytes = body->layout.length;
        response = MHD_create_response_from_callback(body->layout.length, ZIP_BLOCK, read_zip, body, free_zip);
        if (!response || reply->broken)
            r = ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
    }
    if (r < 0) {
        if (response)
            MHD_destroy_response(response); /* frees the body */
        else
            free_zip(body);
        return r;
    }
    body->files.files = TAKE_PTR(job->files);
    body->files.result = job->result;
    job->result = (struct ck_job_result){0};
    *ret_result = queue(connection, response, reply, request_id);
    return 0;
}

void ck_respond_raw(int fd, const struct ck_reply *reply, const char *request_id) {
    _cleanup_(ck_buffer_release) struct ck_buffer text = {0};
    bool ok;

    ck_buffer_init(&text, CK_REPLY_BODY_MAX + 8192);
    ok = !reply->broken && ck_buffer_printf(&text, "HTTP/1.1 %d %s\r\n", reply->status,
                                            MHD_get_reason_phrase_for((unsigned)reply->status));
    for (size_t i = 0; i < reply->n_headers && ok; i++)
        ok = ck_buffer_printf(&text, "%s: %s\r\n", reply->headers[i].name, reply->headers[i].value);
    ok = ok && ck_buffer_printf(&text, "X-Request-Id: %s\r\nX-Ckptd-Version: %s\r\n", request_id, ck_version()) &&
         ck_buffer_printf(&text, "Content-Length: %zu\r\nConnection: close\r\n\r\n", reply->body.length) &&
         ck_buffer_add(&text, ck_buffer_text(&reply->body), reply->body.length);
    /* Nothing was sent on this connection yet, so the socket has room for a short text. What does not fit is lost with
     * the connection. */
    if (ok)
        (void)!send(fd, ck_buffer_text(&text), text.length, MSG_DONTWAIT | MSG_NOSIGNAL);
}
