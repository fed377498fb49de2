#include "server/http/exchange_head.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "api/guard.h"

static const char *header(void *ctx, const char *name) {
    const struct ck_exchange *exchange = ctx;

    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

struct repeated {
    const char *name; /* the header that is given twice, or NULL */
    unsigned hosts, lengths, encodings, keys;
};

static enum MHD_Result count_header(void *ctx, _unused_ enum MHD_ValueKind kind, const char *name,
                                    _unused_ const char *value) {
    struct repeated *repeated = ctx;
    unsigned *count = strcasecmp(name, "Host") == 0                ? &repeated->hosts
                      : strcasecmp(name, "Content-Length") == 0    ? &repeated->lengths
                      : strcasecmp(name, "Transfer-Encoding") == 0 ? &repeated->encodings
                      : strcasecmp(name, "Authorization") == 0     ? &repeated->keys
                                                                   : NULL;

    if (count && ++*count > 1)
        repeated->name = name;
    return MHD_YES;
}

/* A proxy may go by the other one of two: that is how requests are smuggled. */
static int check_repeated(struct ck_exchange *exchange) {
    struct repeated repeated = {0};

    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, count_header, &repeated);
    if (repeated.name)
        return ck_error_set(&exchange->err, CK_E_BAD_REQUEST, repeated.name, "the header %s is given twice",
                            repeated.name);
    return 0;
}

static int check_key(struct ck_exchange *exchange) {
    struct ck_keys *keys = exchange->daemon->keys;
    const struct ck_route *route = exchange->route;

    if (!keys || (route && (route->flags & CK_ROUTE_OPEN)))
        return 0;
    if (!ck_keys_find(keys, header(exchange, "Authorization"), header(exchange, "X-API-Key"), &exchange->key)) {
        exchange->key = (struct ck_key){0};
        return ck_error_set(&exchange->err, CK_E_UNAUTHENTICATED, "Authorization",
                            "the request shows no key that this server knows");
    }
    if (route && !ck_key_may(&exchange->key, route->scope)) {
        ck_error_set(&exchange->err, CK_E_FORBIDDEN, "Authorization",
                     "the key \"%s\" does not have the scope %s that this path needs", exchange->key.name,
                     ck_scope_name(route->scope));
        ck_error_set_hint(&exchange->err, "use another key, or give this one the scope in the keys file");
        return CK_E_FORBIDDEN;
    }
    return 0;
}

/* An unknown path is told only to those who may call. */
static int find_route(struct ck_exchange *exchange, const char *method) {
    struct ck_error unknown = {0};
    int r, key;

    r = ck_route_find(method, exchange->path, &exchange->route, &exchange->params, exchange->allow, &unknown);
    key = check_key(exchange);
    if (key < 0)
        return key;
    if (r < 0)
        exchange->err = unknown;
    return r;
}

int ck_exchange_check_room(struct ck_exchange *exchange) {
    struct ck_daemon *daemon = exchange->daemon;
    const struct ck_settings *settings = &daemon->settings;
    uint64_t free_bytes, total, expected = atomic_load(&daemon->expected), need;
    int r;

    if (!ck_add_u64(exchange->terms.length, settings->min_free, &need) || !ck_add_u64(need, expected, &need))
        need = UINT64_MAX;
    r = ck_data_dir_space(&daemon->data, &free_bytes, &total, &exchange->err);
    if (r < 0)
        return r;
    if (free_bytes >= need)
        return 0;
    return ck_error_set(&exchange->err, CK_E_STORAGE_FULL, NULL,
                        "the upload needs %" PRIu64 " MiB, %" PRIu64 " MiB are free under the data directory, %" PRIu64
                        " MiB are awaited by other uploads and %" PRIu64 " MiB stay free (--min-free)",
                        exchange->terms.length >> 20, free_bytes >> 20, expected >> 20, settings->min_free >> 20);
}

/* Counts the job in, or refuses it. Requests whose job has no row yet count as well. */
static int admit(struct ck_exchange *exchange) {
    struct ck_daemon *daemon = exchange->daemon;
    uint64_t most = daemon->settings.workers + daemon->settings.queue, there;

    pthread_mutex_lock(&daemon->look_lock);
    there = daemon->counts.queued + daemon->counts.running;
    pthread_mutex_unlock(&daemon->look_lock);
    if (atomic_fetch_add(&daemon->admitted, 1) + there >= most) {
        atomic_fetch_sub(&daemon->admitted, 1);
        return ck_error_set(&exchange->err, CK_E_QUEUE_FULL, NULL,
                            "%" PRIu64 " jobs may run and %" PRIu64 " may wait (--queue); all places are taken",
                            daemon->settings.workers, daemon->settings.queue);
    }
    exchange->admitted = true;
    return 0;
}

void ck_exchange_hand_back(struct ck_exchange *exchange) {
    if (exchange->admitted)
        atomic_fetch_sub(&exchange->daemon->admitted, 1);
    exchange->admitted = false;
    atomic_fetch_sub(&exchange->daemon->expected, exchange->expected);
    exchange->expected = 0;
}

static int parse_body_head(struct ck_exchange *exchange) {
    const struct ck_body_head head = {
        .content_length = header(exchange, "Content-Length"),
        .transfer_encoding = header(exchange, "Transfer-Encoding"),
        .content_type = header(exchange, "Content-Type"),
        .content_encoding = header(exchange, "Content-Encoding"),
        .content_range = header(exchange, "Content-Range"),
        .repr_digest = header(exchange, "Repr-Digest"),
        .content_digest = header(exchange, "Content-Digest"),
    };

    return ck_body_head_parse(&head, exchange->route->body, &exchange->daemon->ports.terms, &exchange->terms,
                              &exchange->err);
}

static void fill_request(struct ck_exchange *exchange, const char *method) {
    struct ck_request *request = &exchange->request;

    request->method = method;
    request->path = exchange->path;
    request->host = header(exchange, "Host");
    request->id = exchange->id;
    request->trace_id = exchange->trace_id;
    request->caller = exchange->key.name;
    request->header = header;
    request->header_ctx = exchange;
    for (size_t i = 0; i < exchange->params.n; i++)
        request->params[i] = exchange->params.values[i];
}

static int check_load(struct ck_exchange *exchange) {
    unsigned flags = exchange->route->flags;
    bool file = exchange->terms.way == CK_WAY_RAW || exchange->terms.way == CK_WAY_FORM;
    int r = 0;

    if ((flags & (CK_ROUTE_JOB | CK_ROUTE_UPLOAD)) && atomic_load(&exchange->daemon->draining))
        return ck_error_set(&exchange->err, CK_E_DRAINING, NULL, "the daemon is shutting down and takes nothing new");
    if ((flags & CK_ROUTE_JOB) && exchange->terms.way == CK_WAY_RAW && exchange->terms.length_known &&
        exchange->terms.length == 0)
        return ck_error_set(&exchange->err, CK_E_EMPTY_FILE, NULL, "the request has no body");
    if (file)
        r = ck_exchange_check_room(exchange);
    if (r == 0 && (flags & CK_ROUTE_JOB))
        r = admit(exchange);
    return r;
}

int ck_exchange_check_head(struct ck_exchange *exchange) {
    const struct ck_listen *listen = &exchange->daemon->listen;
    const char *method = exchange->request.method;
    int r;

    r = check_repeated(exchange);
    if (r == 0)
        r = ck_guard_check(header(exchange, "Host"), header(exchange, "Origin"), listen->host, listen->loopback,
                           &exchange->err);
    if (r == 0)
        r = find_route(exchange, method);
    if (r < 0)
        return r;
    fill_request(exchange, method);
    r = parse_body_head(exchange);
    /* What the client can correct comes before what only time can. */
    if (r == 0 && exchange->route->head)
        r = exchange->route->head(&exchange->request, &exchange->daemon->ports, &exchange->err);
    if (r == 0 && !exchange->request.answer_early)
        r = check_load(exchange);
    return r;
}
