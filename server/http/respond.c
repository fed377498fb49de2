#include "server/http/respond.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/version.h"

#define ZIP_BLOCK (512u << 10) /* as fast as larger ones; 128 KiB is slower */

struct zip_body {
    struct ck_zip_layout layout;
    uint64_t offset; /* of the range in the zip */
    int *files;
    size_t n_files;
};

static ssize_t read_zip(void *ctx, uint64_t position, char *buffer, size_t n) {
    struct zip_body *body = ctx;
    struct ck_error err = {0};
    ssize_t got = ck_zip_layout_read(&body->layout, body->offset + position, buffer, n, &err);

    return got > 0 ? got : got == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void free_zip(void *ctx) {
    struct zip_body *body = ctx;

    ck_zip_layout_release(&body->layout);
    for (size_t i = 0; i < body->n_files; i++)
        close(body->files[i]);
    free(body->files);
    free(body);
}

static struct MHD_Response *zip_response(struct ck_reply *reply) {
    struct zip_body *body = calloc(1, sizeof(*body));
    struct MHD_Response *response;

    if (!body)
        return NULL;
    *body = (struct zip_body){
        .layout = reply->zip, .offset = reply->offset, .files = reply->zip_files, .n_files = reply->n_zip_files};
    reply->zip = (struct ck_zip_layout){0};
    reply->zip_files = NULL;
    reply->n_zip_files = 0;
    response = MHD_create_response_from_callback(reply->length, ZIP_BLOCK, read_zip, body, free_zip);
    if (!response)
        free_zip(body);
    return response;
}

static struct MHD_Response *file_response(struct ck_reply *reply) {
    int fd = reply->fd;
    struct MHD_Response *response = MHD_create_response_from_fd_at_offset64(reply->length, fd, reply->offset);

    if (response)
        reply->fd = -1;
    return response;
}

static struct MHD_Response *text_response(struct ck_reply *reply) {
    struct MHD_Response *response;

    if (reply->body.length == 0)
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    response = MHD_create_response_from_buffer(reply->body.length, reply->body.data, MHD_RESPMEM_MUST_FREE);
    if (response)
        reply->body = (struct ck_buffer){0};
    return response;
}

static struct MHD_Response *make_response(struct ck_reply *reply) {
    switch (reply->kind) {
    case CK_REPLY_STATIC:
        return MHD_create_response_from_buffer(reply->length, (void *)(uintptr_t)(reply->bytes + reply->offset),
                                               MHD_RESPMEM_PERSISTENT);
    case CK_REPLY_FILE:
        return file_response(reply);
    case CK_REPLY_ZIP:
        return zip_response(reply);
    default:
        return text_response(reply);
    }
}

enum MHD_Result ck_respond(struct MHD_Connection *connection, struct ck_reply *reply, const char *request_id) {
    struct MHD_Response *response = reply->broken ? NULL : make_response(reply);
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    for (size_t i = 0; i < reply->n_headers; i++)
        MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
    MHD_add_response_header(response, "X-Request-Id", request_id);
    MHD_add_response_header(response, "X-Ckptd-Version", ck_version());
    result = MHD_queue_response(connection, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return result;
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
