#include "server/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "api/guard.h"
#include "api/problem.h"
#include "core/container/sniff.h"
#include "server/http.h"
#include "server/log.h"
#include "server/request_id.h"
#include "server/respond.h"

/* A refused body of at most this size is read, so that a client that sends without waiting for 100 Continue sees the
 * answer and keeps its connection. */
#define SMALL_BODY (1u << 20)

int64_t ck_now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct ck_exchange *ck_exchange_new(struct ck_daemon *daemon, const char *uri) {
    struct ck_exchange *exchange = calloc(1, sizeof(*exchange));
    char *question;

    if (!exchange)
        return NULL;
    exchange->daemon = daemon;
    exchange->started = ck_now_ms();
    exchange->path = strdup(uri);
    if (!exchange->path) {
        free(exchange);
        return NULL;
    }
    question = strchr(exchange->path, '?');
    exchange->query = question ? question + 1 : "";
    if (question)
        *question = 0;
    return exchange;
}

static const char *header(const struct ck_exchange *exchange, const char *name) {
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* ---- answers ---- */

static bool wants_download(const struct ck_exchange *exchange) {
    return strncmp(exchange->path, CK_CONVERT_PREFIX, sizeof(CK_CONVERT_PREFIX) - 2) == 0 ||
           strcmp(exchange->method, "PUT") == 0 || strcmp(exchange->method, "POST") == 0;
}

static void compose_problem(const struct ck_exchange *exchange, struct ck_reply *reply) {
    ck_problem_reply(&exchange->err, exchange->id, wants_download(exchange), reply);
    if (exchange->allow[0])
        ck_reply_header(reply, "Allow", "%s", exchange->allow);
}

static enum MHD_Result answer_problem(struct ck_exchange *exchange) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};

    compose_problem(exchange, &reply);
    exchange->phase = CK_PHASE_QUEUED;
    exchange->status = reply.status;
    exchange->sent = reply.body.length;
    return ck_respond(exchange->connection, &reply, exchange->id);
}

static enum MHD_Result answer_route(struct ck_exchange *exchange) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};
    const struct ck_request request = {
        .method = exchange->method,
        .path = exchange->path,
        .query = exchange->query,
        .host = header(exchange, "Host"),
        .id = exchange->id,
    };

    exchange->route->answer(&request, &exchange->daemon->ports, &reply);
    exchange->phase = CK_PHASE_QUEUED;
    exchange->status = reply.status;
    exchange->sent = reply.body.length;
    return ck_respond(exchange->connection, &reply, exchange->id);
}

/* The one weights file of a faithful safetensors result, or -1: several of them need the zip. */
static int bare_file(const struct ck_exchange *exchange) {
    const struct ck_job_result *result = &exchange->job.result;
    static const char suffix[] = ".safetensors";
    int found = -1;

    if (strcmp(exchange->convert.spec.target, "safetensors") != 0)
        return -1;
    for (size_t i = 0; i < result->n_files; i++) {
        size_t n = strlen(result->files[i].name);

        if (n < sizeof(suffix) || strcmp(result->files[i].name + n - (sizeof(suffix) - 1), suffix) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

static enum MHD_Result answer_result(struct ck_exchange *exchange) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};
    struct ck_job *job = &exchange->job;
    int bare = bare_file(exchange), r;
    enum MHD_Result result = MHD_NO;

    r = ck_convert_reply(&exchange->convert, exchange->upload->digest, job->result.assumed, bare >= 0, &reply,
                         &exchange->err);
    if (r == 0 && bare >= 0) {
        exchange->sent = job->result.files[bare].bytes;
        result = ck_respond_file(exchange->connection, &reply, exchange->id, TAKE_FD(job->files[bare]), exchange->sent);
    } else if (r == 0) {
        r = ck_respond_zip(exchange->connection, &reply, exchange->id, exchange->convert.folder, job, &result,
                           &exchange->sent, &exchange->err);
    }
    if (r < 0)
        return answer_problem(exchange);
    exchange->phase = CK_PHASE_QUEUED;
    exchange->status = reply.status;
    return result;
}

/* ---- the head ---- */

static int check_room(struct ck_exchange *exchange) {
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
    ck_error_set(&exchange->err, CK_E_STORAGE_FULL, NULL,
                 "the upload needs %" PRIu64 " MiB, %" PRIu64 " MiB are free under the data directory, %" PRIu64
                 " MiB are awaited by other uploads and %" PRIu64 " MiB stay free (--min-free)",
                 exchange->terms.length >> 20, free_bytes >> 20, expected >> 20, settings->min_free >> 20);
    return CK_E_STORAGE_FULL;
}

/* Counts the conversion in, or refuses it. */
static int admit(struct ck_exchange *exchange) {
    struct ck_daemon *daemon = exchange->daemon;
    uint64_t most = daemon->settings.workers + daemon->settings.queue;

    if (atomic_fetch_add(&daemon->admitted, 1) >= most) {
        atomic_fetch_sub(&daemon->admitted, 1);
        return ck_error_set(&exchange->err, CK_E_QUEUE_FULL, NULL,
                            "%" PRIu64 " conversions run and %" PRIu64 " may wait (--queue); all places are taken",
                            daemon->settings.workers, daemon->settings.queue);
    }
    exchange->admitted = true;
    return 0;
}

static void hand_back_admission(struct ck_exchange *exchange) {
    if (exchange->admitted)
        atomic_fetch_sub(&exchange->daemon->admitted, 1);
    exchange->admitted = false;
    atomic_fetch_sub(&exchange->daemon->expected, exchange->expected);
    exchange->expected = 0;
}

static int check_conversion(struct ck_exchange *exchange) {
    const struct ck_body_head head = {
        .content_length = header(exchange, "Content-Length"),
        .transfer_encoding = header(exchange, "Transfer-Encoding"),
        .content_type = header(exchange, "Content-Type"),
        .content_encoding = header(exchange, "Content-Encoding"),
        .content_range = header(exchange, "Content-Range"),
        .repr_digest = header(exchange, "Repr-Digest"),
        .content_digest = header(exchange, "Content-Digest"),
    };
    int r;

    if (atomic_load(&exchange->daemon->draining))
        return ck_error_set(&exchange->err, CK_E_DRAINING, NULL, "the daemon is shutting down and takes nothing new");
    r = ck_convert_parse(exchange->path, exchange->query, &exchange->convert, &exchange->err);
    if (r == 0)
        r = ck_body_head_parse(&head, exchange->daemon->settings.max_upload, &exchange->terms, &exchange->err);
    if (r == 0 && exchange->terms.length_known && exchange->terms.length == 0)
        r = ck_error_set(&exchange->err, CK_E_EMPTY_FILE, NULL, "the request has no body");
    if (r == 0)
        r = check_room(exchange);
    if (r == 0)
        r = admit(exchange);
    return r;
}

static void upload_ready(void *ctx, bool digested);

static int begin_upload(struct ck_exchange *exchange) {
    struct ck_daemon *daemon = exchange->daemon;
    _cleanup_(ck_closep) int fd = -1;
    int r;

    r = ck_data_dir_temporary(&daemon->data, &fd, &exchange->err);
    if (r == 0)
        r = ck_upload_new(daemon->hasher, fd, upload_ready, exchange, &exchange->upload, &exchange->err);
    if (r < 0)
        return r;
    (void)TAKE_FD(fd);
    exchange->expected = exchange->terms.length;
    atomic_fetch_add(&daemon->expected, exchange->expected);
    exchange->open = true;
    atomic_fetch_add(&daemon->open, 1);
    ck_http_list(daemon->http, exchange);
    exchange->phase = CK_PHASE_BODY;
    return 0;
}

struct repeated {
    const char *name; /* the header that is given twice, or NULL */
    unsigned hosts, lengths, encodings;
};

static enum MHD_Result count_header(void *ctx, _unused_ enum MHD_ValueKind kind, const char *name,
                                    _unused_ const char *value) {
    struct repeated *repeated = ctx;
    unsigned *count = strcasecmp(name, "Host") == 0                ? &repeated->hosts
                      : strcasecmp(name, "Content-Length") == 0    ? &repeated->lengths
                      : strcasecmp(name, "Transfer-Encoding") == 0 ? &repeated->encodings
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

static int check_head(struct ck_exchange *exchange) {
    const struct ck_listen *listen = &exchange->daemon->listen;
    int r;

    r = check_repeated(exchange);
    if (r < 0)
        return r;
    r = ck_guard_check(header(exchange, "Host"), header(exchange, "Origin"), listen->host, listen->loopback,
                       &exchange->err);
    if (r == 0)
        r = ck_route_find(exchange->method, exchange->path, &exchange->route, exchange->allow, &exchange->err);
    if (r == 0 && !exchange->route->answer) {
        r = check_conversion(exchange);
        if (r == 0)
            r = begin_upload(exchange);
    }
    return r;
}

/* The answer goes out before the body is read. Clients that look while they send stop then, the others find it when
 * they are done; what they send meanwhile is swallowed, within bounds, because a connection that is closed with unread
 * bytes takes the answer with it. */
static void answer_early(struct ck_exchange *exchange) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};

    compose_problem(exchange, &reply);
    exchange->status = reply.status;
    atomic_store(&exchange->answered_raw, true);
    ck_respond_raw(exchange->socket, &reply, exchange->id);
    ck_http_list(exchange->daemon->http, exchange); /* a client that neither leaves nor sends must not stay */
}

/* A refusal in the first callback closes the connection and suppresses 100 Continue: right for a body that has not been
 * sent. One that is on its way already is swallowed: a small one before its answer, which keeps the connection, a
 * larger one behind it. */
static enum MHD_Result refuse_on_head(struct ck_exchange *exchange) {
    const char *length = header(exchange, "Content-Length"), *expect = header(exchange, "Expect");
    bool chunked = header(exchange, "Transfer-Encoding") != NULL,
         has_body = chunked || (length && strcmp(length, "0") != 0);

    if (has_body && expect && strcasecmp(expect, "100-continue") == 0)
        return answer_problem(exchange);
    if (has_body && (chunked || strtoull(length, NULL, 10) > SMALL_BODY))
        answer_early(exchange);
    return MHD_YES;
}

static enum MHD_Result handle_head(struct ck_exchange *exchange, struct MHD_Connection *connection,
                                   const char *method) {
    exchange->connection = connection;
    exchange->method = method;
    exchange->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    exchange->phase = CK_PHASE_ANSWER;
    atomic_store(&exchange->last_byte, ck_now_ms());
    ck_request_id(header(exchange, "X-Request-Id"), exchange->id);
    if (check_head(exchange) < 0) {
        hand_back_admission(exchange);
        return refuse_on_head(exchange);
    }
    return MHD_YES;
}

/* ---- the body ---- */

/* A late refusal waits in the exchange until a bounded rest of the body has been swallowed, unless more is to come, or
 * nobody knows how much. */
static void refuse_late(struct ck_exchange *exchange) {
    uint64_t left = exchange->terms.length - exchange->received;

    exchange->phase = CK_PHASE_ANSWER;
    hand_back_admission(exchange);
    if (exchange->upload)
        ck_upload_abandon(TAKE_PTR(exchange->upload));
    if (!exchange->terms.length_known || left > exchange->daemon->settings.max_discard)
        answer_early(exchange);
}

static int sniff(struct ck_exchange *exchange) {
    char bytes[CK_SNIFF_BYTES];
    ssize_t n = pread(exchange->upload->fd, bytes, sizeof(bytes), 0);
    uint64_t length = exchange->terms.length_known ? exchange->terms.length : 0;

    exchange->sniffed = true;
    if (n <= 0)
        return 0; /* the worker will say what is wrong with it */
    (void)ck_sniff(bytes, (size_t)n, length, &exchange->err);
    return exchange->err.code;
}

static bool suspend(void *ctx) {
    struct ck_exchange *exchange = ctx;
    struct ck_daemon *daemon = exchange->daemon;
    bool ok;

    pthread_mutex_lock(&daemon->suspend_lock);
    ok = !daemon->closing;
    if (ok) {
        daemon->suspended++;
        atomic_store(&exchange->suspended, true);
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&daemon->suspend_lock);
    return ok;
}

static void resume(struct ck_exchange *exchange) {
    struct ck_daemon *daemon = exchange->daemon;

    atomic_store(&exchange->last_byte, ck_now_ms());
    atomic_store(&exchange->suspended, false);
    /* From the next line on the exchange belongs to libmicrohttpd's thread again. */
    MHD_resume_connection(exchange->connection);
    pthread_mutex_lock(&daemon->suspend_lock);
    daemon->suspended--;
    pthread_mutex_unlock(&daemon->suspend_lock);
}

static int take_bytes(struct ck_exchange *exchange, const char *bytes, size_t n) {
    const struct ck_settings *settings = &exchange->daemon->settings;
    uint64_t step = CK_MIN((uint64_t)n, exchange->expected);
    int r;

    atomic_store(&exchange->last_byte, ck_now_ms());
    exchange->expected -= step;
    atomic_fetch_sub(&exchange->daemon->expected, step);
    if (exchange->received + n > settings->max_upload) {
        exchange->received += n;
        return ck_error_set(&exchange->err, CK_E_BODY_TOO_LARGE, NULL,
                            "the upload has more than the %" PRIu64 " bytes that this server takes (--max-upload)",
                            settings->max_upload);
    }
    exchange->received += n;
    r = ck_upload_write(exchange->upload, bytes, n, &exchange->err);
    if (r == 0 && !exchange->sniffed && exchange->received >= CK_SNIFF_BYTES)
        r = sniff(exchange);
    return r;
}

static enum MHD_Result handle_bytes(struct ck_exchange *exchange, const char *bytes, size_t *n_bytes) {
    size_t n = *n_bytes;

    if (exchange->phase != CK_PHASE_BODY) {
        exchange->received += n;
        exchange->discarded += n;
        atomic_store(&exchange->last_byte, ck_now_ms());
        *n_bytes = 0;
        return exchange->discarded > exchange->daemon->settings.max_discard ? MHD_NO : MHD_YES;
    }
    /* Bytes that are not taken are offered again after the resume. */
    if (ck_upload_throttle(exchange->upload, suspend))
        return MHD_YES;
    *n_bytes = 0;
    if (take_bytes(exchange, bytes, n) < 0)
        refuse_late(exchange);
    return MHD_YES;
}

/* ---- digest and job ---- */

static void job_finished(void *ctx) {
    struct ck_exchange *exchange = ctx;

    if (exchange->job.err.code)
        exchange->err = exchange->job.err;
    resume(exchange);
}

static int check_digest(struct ck_exchange *exchange) {
    const struct ck_upload *upload = exchange->upload;

    if (upload->read_error)
        return ck_error_set_errno(&exchange->err, upload->read_error, NULL, "read the upload back");
    if (exchange->terms.digest_given && memcmp(exchange->terms.digest, upload->digest, sizeof(upload->digest)) != 0)
        return ck_error_set(&exchange->err, CK_E_DIGEST_MISMATCH, NULL,
                            "the %" PRIu64 " bytes that arrived have another sha-256 than the request's head says",
                            exchange->received);
    return 0;
}

/* On a hasher thread, the connection suspended, the upload's lock held. */
static void upload_ready(void *ctx, bool digested) {
    struct ck_exchange *exchange = ctx;

    if (!digested || check_digest(exchange) < 0) {
        resume(exchange);
        return;
    }
    exchange->job = (struct ck_job){
        .id = exchange->id,
        .spec = &exchange->convert.spec,
        .input_name = exchange->convert.name,
        .input_fd = exchange->upload->fd,
        .input_bytes = exchange->received,
        .client_fd = exchange->socket,
        .finished = job_finished,
        .ctx = exchange,
    };
    ck_workers_submit(exchange->daemon->workers, &exchange->job);
}

static enum MHD_Result handle_end(struct ck_exchange *exchange) {
    if (!exchange->sniffed && exchange->received > 0)
        (void)sniff(exchange);
    else if (exchange->received == 0)
        ck_error_set(&exchange->err, CK_E_EMPTY_FILE, NULL, "the body is empty");
    exchange->phase = CK_PHASE_WAITING;
    if (exchange->err.code)
        return answer_problem(exchange);
    if (!ck_upload_finish(exchange->upload, suspend)) {
        ck_error_set(&exchange->err, CK_E_DRAINING, NULL, "the daemon was shut down before the job began");
        return answer_problem(exchange);
    }
    return MHD_YES;
}

static enum MHD_Result handle_outcome(struct ck_exchange *exchange) {
    hand_back_admission(exchange);
    if (exchange->err.code == CK_E_CANCELLED) {
        exchange->status = ck_error_row(CK_E_CANCELLED)->http;
        return MHD_NO; /* nobody is there to read an answer */
    }
    return exchange->err.code ? answer_problem(exchange) : answer_result(exchange);
}

enum MHD_Result ck_exchange_handle(struct ck_exchange *exchange, struct MHD_Connection *connection, const char *method,
                                   const char *bytes, size_t *n_bytes) {
    if (exchange->phase == CK_PHASE_HEAD)
        return handle_head(exchange, connection, method);
    if (*n_bytes > 0)
        return handle_bytes(exchange, bytes, n_bytes);
    ck_http_unlist(exchange->daemon->http, exchange); /* from here on it is not the client who is waited for */
    if (atomic_load(&exchange->answered_raw))
        return MHD_NO;
    switch (exchange->phase) {
    case CK_PHASE_ANSWER:
        return exchange->err.code ? answer_problem(exchange) : answer_route(exchange);
    case CK_PHASE_BODY:
        return handle_end(exchange);
    case CK_PHASE_WAITING:
        return handle_outcome(exchange);
    default:
        return MHD_NO;
    }
}

void ck_exchange_stalled(struct ck_exchange *exchange) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};
    struct ck_error err = {0};

    ck_error_set(&err, CK_E_BODY_STALLED, NULL, "no byte of the upload came for %" PRIu64 " s (--upload-timeout)",
                 exchange->daemon->settings.upload_timeout);
    ck_problem_reply(&err, exchange->id, true, &reply);
    if (!atomic_load(&exchange->answered_raw))
        ck_respond_raw(exchange->socket, &reply, exchange->id);
    /* The library's thread sees the end of the stream and takes the connection down. */
    shutdown(exchange->socket, SHUT_RDWR);
    atomic_store(&exchange->last_byte, INT64_MAX);
    atomic_store(&exchange->stalled, true);
}

static void log_request(const struct ck_exchange *exchange) {
    const char *route = exchange->route ? exchange->route->operation : "none";
    /* No status: the client left before there was one. */
    int code = atomic_load(&exchange->stalled) ? CK_E_BODY_STALLED
               : exchange->status              ? exchange->err.code
                                               : CK_E_CANCELLED;
    int status = exchange->status ? exchange->status : ck_error_row(code)->http;

    CK_LOG(INFO, "request", CK_LOG_TEXT("request_id", exchange->id), CK_LOG_TEXT("route", route),
           CK_LOG_TEXT("method", exchange->method ? exchange->method : ""), CK_LOG_NUMBER("status", (uint64_t)status),
           CK_LOG_TEXT("code", code ? ck_error_row(code)->name : ""), CK_LOG_NUMBER("bytes_in", exchange->received),
           CK_LOG_NUMBER("bytes_out", exchange->sent),
           CK_LOG_NUMBER("ms", (uint64_t)(ck_now_ms() - exchange->started)));
}

void ck_exchange_free(struct ck_exchange *exchange) {
    ck_http_unlist(exchange->daemon->http, exchange);
    log_request(exchange);
    hand_back_admission(exchange);
    ck_upload_abandon(exchange->upload);
    ck_job_outcome_release(&exchange->job);
    ck_convert_release(&exchange->convert);
    if (exchange->open)
        atomic_fetch_sub(&exchange->daemon->open, 1);
    free(exchange->path);
    free(exchange);
}
