/* fake_client.h: one request against the handlers of a route, and its answer, for tests without sockets.
 *
 *     struct client client;
 *     client_init(&client, &fake, "PUT", "/v1/convert/mlx/", "");
 *     client_header(&client, "Prefer", "respond-async");
 *     client_file(&client, "", "net.pt", 7);
 *     assert_int_equal(client_send(&client, ck_head_convert, ck_answer_convert), 202);
 *     ... client.reply, client_json(&client) ...
 *     client_release(&client); */
#ifndef FAKE_CLIENT_H
#define FAKE_CLIENT_H

#include <jansson.h>
#include <strings.h>

#include "api/problem.h"
#include "api/routes.h"
#include "fake_ports.h"

struct client {
    struct fake       *fake;
    struct ck_request  request;
    struct ck_reply    reply;
    json_t            *json; /* the body, once client_json() was asked */
    const char        *headers[16];
    size_t             n_headers;
    struct ck_received files[4];
    struct ck_field    fields[16];
    ck_answer_fn       answer;
};

static inline const char *client_find_header(void *ctx, const char *name) {
    const struct client *client = ctx;

    for (size_t i = 0; i < client->n_headers; i += 2)
        if (strcasecmp(client->headers[i], name) == 0)
            return client->headers[i + 1];
    return NULL;
}

static inline void client_init(struct client *client, struct fake *fake, const char *method, const char *path, const char *query) {
    *client = (struct client){.fake = fake};
    client->request = (struct ck_request){.method = method, .path = path, .query = query, .id = "request-1", .trace_id = "", .caller = "",
                                          .body = "", .header = client_find_header, .header_ctx = client};
}

static inline void client_header(struct client *client, const char *name, const char *value) {
    client->headers[client->n_headers++] = name;
    client->headers[client->n_headers++] = value;
}

/* A file whose digest is 32 times the byte. */
static inline void client_file(struct client *client, const char *field, const char *name, uint8_t byte) {
    struct ck_received *file = &client->files[client->request.n_files++];

    *file = (struct ck_received){.field = field, .name = name, .bytes = 1000u + byte};
    memset(file->digest, byte, sizeof(file->digest));
    client->request.files = client->files;
}

static inline void client_field(struct client *client, const char *name, const char *value) {
    client->fields[client->request.n_fields++] = (struct ck_field){.name = name, .value = value};
    client->request.fields = client->fields;
}

static inline void client_body(struct client *client, const char *body) {
    client->request.body = body;
    client->request.body_bytes = strlen(body);
}

/* Sends it. Returns the status; 0 if the handler wants to wait. */
static inline int client_send(struct client *client, ck_head_fn head, ck_answer_fn answer) {
    struct ck_error err = {0};

    client->answer = answer;
    if (head && head(&client->request, &client->fake->ports, &err) < 0)
        ck_problem_reply(&err, client->request.id, false, &client->reply);
    else
        answer(&client->request, &client->fake->ports, &client->reply);
    return client->reply.kind == CK_REPLY_WAIT ? 0 : client->reply.status;
}

/* The wait is over. */
static inline int client_resume(struct client *client) {
    json_decref(client->json);
    client->json = NULL;
    ck_reply_release(&client->reply);
    client->request.waited = true;
    return client_send(client, NULL, client->answer);
}

static inline const char *client_answer_header(const struct client *client, const char *name) {
    const char *value = ck_reply_find(&client->reply, name);

    return value ? value : "";
}

/* The body as text: composed, or read from its file. In memory of this function. */
static inline const char *client_text(struct client *client) {
    static char text[65536];
    ssize_t n;

    if (client->reply.kind != CK_REPLY_FILE)
        return ck_buffer_text(&client->reply.body);
    n = pread(client->reply.fd, text, sizeof(text) - 1, (off_t)client->reply.offset);
    text[n > 0 ? n : 0] = 0;
    return text;
}

/* The body as JSON. Borrowed; NULL if it is none. */
static inline const json_t *client_json(struct client *client) {
    if (!client->json)
        client->json = json_loads(client_text(client), 0, NULL);
    return client->json;
}

/* A text of the body, "a.b" for members of members, or "". */
static inline const char *client_member(struct client *client, const char *path) {
    const json_t *json = client_json(client);
    char part[64];
    const char *text;

    while (*path) {
        size_t n = strcspn(path, ".");

        snprintf(part, sizeof(part), "%.*s", (int)n, path);
        json = json_is_array(json) ? json_array_get(json, strtoul(part, NULL, 10)) : json_object_get(json, part);
        path += n + (path[n] == '.');
    }
    text = json_string_value(json);
    return text ? text : "";
}

static inline void client_release(struct client *client) {
    json_decref(client->json);
    ck_reply_release(&client->reply);
    if (client->request.state_free && client->request.state)
        client->request.state_free(client->request.state);
}

#endif
