#include "api/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void ck_reply_init(struct ck_reply *reply, int status, const char *content_type) {
    *reply = (struct ck_reply){.status = status};
    ck_buffer_init(&reply->body, CK_REPLY_BODY_MAX);
    if (content_type)
        ck_reply_header(reply, "Content-Type", "%s", content_type);
}

void ck_reply_static(struct ck_reply *reply, const char *bytes, size_t n) {
    reply->kind = CK_REPLY_STATIC;
    reply->bytes = bytes;
    reply->length = n;
}

void ck_reply_file(struct ck_reply *reply, int fd, uint64_t offset, uint64_t length) {
    reply->kind = CK_REPLY_FILE;
    reply->fd = fd;
    reply->offset = offset;
    reply->length = length;
}

void ck_reply_zip(struct ck_reply *reply, struct ck_zip_layout *zip, int *files, size_t n_files, uint64_t offset,
                  uint64_t length) {
    reply->kind = CK_REPLY_ZIP;
    reply->zip = *zip;
    *zip = (struct ck_zip_layout){0};
    reply->zip_files = files;
    reply->n_zip_files = n_files;
    reply->offset = offset;
    reply->length = length;
}

void ck_reply_wait_for(struct ck_reply *reply, const struct ck_reply_wait *wait) {
    reply->kind = CK_REPLY_WAIT;
    reply->wait = *wait;
}

void ck_reply_header(struct ck_reply *reply, const char *name, const char *format, ...) {
    va_list args;
    char *value = NULL;
    int n;

    if (reply->n_headers == CK_REPLY_HEADERS_MAX) {
        reply->broken = true;
        return;
    }
    va_start(args, format);
    n = vasprintf(&value, format, args);
    va_end(args);
    if (n < 0) {
        reply->broken = true;
        return;
    }
    for (char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '_';
    reply->headers[reply->n_headers++] = (struct ck_reply_header){.name = name, .value = value};
}

void ck_reply_printf(struct ck_reply *reply, const char *format, ...) {
    va_list args;
    char *text = NULL;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0 || !ck_buffer_add(&reply->body, text, (size_t)n))
        reply->broken = true;
    if (n >= 0)
        free(text);
}

const char *ck_reply_find(const struct ck_reply *reply, const char *name) {
    for (size_t i = 0; i < reply->n_headers; i++)
        if (strcasecmp(reply->headers[i].name, name) == 0)
            return reply->headers[i].value;
    return NULL;
}

uint64_t ck_reply_length(const struct ck_reply *reply) {
    switch (reply->kind) {
    case CK_REPLY_TEXT:
        return reply->body.length;
    case CK_REPLY_STATIC:
    case CK_REPLY_FILE:
    case CK_REPLY_ZIP:
        return reply->length;
    case CK_REPLY_WAIT:
        break;
    }
    return 0;
}

void ck_reply_release(struct ck_reply *reply) {
    if (reply->kind == CK_REPLY_FILE)
        ck_closep(&reply->fd);
    for (size_t i = 0; i < reply->n_zip_files; i++)
        ck_closep(&reply->zip_files[i]);
    free(reply->zip_files);
    ck_zip_layout_release(&reply->zip);
    for (size_t i = 0; i < reply->n_headers; i++)
        free(reply->headers[i].value);
    ck_buffer_release(&reply->body);
    *reply = (struct ck_reply){0};
}
