#include "server/http/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "api/problem.h"
#include "server/http/exchange_head.h"
#include "server/http/http.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/http/respond.h"
#include "server/work/scheduler.h"

/* A refused body of at most this size is read, so that a client that sends without waiting for 100 Continue sees the
 * answer and keeps its connection. */
#define SMALL_BODY (1u << 20)
#define ROOM_STEP  (4u << 20)

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
    exchange->request.query = question ? question + 1 : "";
    if (question)
        *question = 0;
    CK_METRIC_ADD(http_requests_in_flight, 1);
    return exchange;
}

static const char *header(const struct ck_exchange *exchange, const char *name) {
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* ---- answers ---- */

/* curl -OJ answers a missing Content-Disposition with a puzzling write error instead of the text of the problem. */
static bool wants_download(const struct ck_exchange *exchange) {
    const char *method = exchange->request.method;

    return exchange->route ? (exchange->route->flags & CK_ROUTE_DOWNLOAD) != 0
                           : strcmp(method, "PUT") == 0 || strncmp(exchange->path, "/v1/convert", 11) == 0;
}

static void compose_problem(struct ck_exchange *exchange) {
    ck_reply_release(&exchange->reply);
    exchange->reply = (struct ck_reply){0};
    ck_problem_reply(&exchange->err, exchange->id, wants_download(exchange), &exchange->reply);
    if (exchange->allow[0])
        ck_reply_header(&exchange->reply, "Allow", "%s", exchange->allow);
}

static enum MHD_Result send_reply(struct ck_exchange *exchange) {
    struct ck_reply *reply = &exchange->reply;

    exchange->phase = CK_PHASE_QUEUED;
    exchange->status = reply->status;
    exchange->sent = strcmp(exchange->request.method, "HEAD") == 0 ? 0 : ck_reply_length(reply);
    return ck_respond(exchange->connection, reply, exchange->id);
}

static enum MHD_Result send_problem(struct ck_exchange *exchange) {
    compose_problem(exchange);
    return send_reply(exchange);
}

/* ---- suspending ---- */

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

static void resume(void *ctx) {
    struct ck_exchange *exchange = ctx;
    struct ck_daemon *daemon = exchange->daemon;

    atomic_store(&exchange->last_byte, ck_now_ms());
    atomic_store(&exchange->suspended, false);
    /* From the next line on the exchange belongs to libmicrohttpd's thread again. */
    MHD_resume_connection(exchange->connection);
    pthread_mutex_lock(&daemon->suspend_lock);
    daemon->suspended--;
    pthread_mutex_unlock(&daemon->suspend_lock);
}

/* ---- asking the handler, on a thread of the crew ---- */

static void ready(struct ck_exchange *exchange) {
    exchange->phase = CK_PHASE_READY;
    resume(exchange);
}

/* On whichever thread woke it. */
static void woken(void *ctx) {
    struct ck_exchange *exchange = ctx;

    exchange->gone = exchange->waiter.left;
    exchange->request.waited = true;
    if (exchange->gone)
        ready(exchange);
    else
        ck_crew_post(exchange->daemon->crew, &exchange->errand);
}

/* True if the job has come to what is waited for, or never will while this daemon runs. */
static bool is_over(struct ck_daemon *daemon, const struct ck_reply_wait *wait) {
    struct ck_job_row row = {0};
    struct ck_job_live live;
    bool over;

    if (atomic_load(&daemon->draining) && !ck_scheduler_live(daemon->scheduler, wait->job, &live))
        return true;
    if (daemon->store->job_get(daemon->store, "", wait->job, &row, NULL) < 0)
        return true;
    over = wait->until_finished ? ck_job_state_finished(row.state) : row.version != wait->version;
    ck_job_row_release(&row);
    return over;
}

static void begin_wait(struct ck_exchange *exchange) {
    struct ck_daemon *daemon = exchange->daemon;
    struct ck_waiter *waiter = &exchange->waiter;
    struct ck_reply_wait wait = exchange->reply.wait;
    uint64_t ticket;

    *waiter = (struct ck_waiter){
        .wait = wait,
        .deadline = wait.seconds > 0 ? ck_now_ms() + wait.seconds * 1000 : INT64_MAX,
        .socket = exchange->socket,
        .wake = woken,
        .ctx = exchange,
    };
    ticket = ck_waiters_add(&daemon->waiters, waiter, (unsigned)daemon->settings.max_waiting);
    if (!ticket) {
        woken(exchange);
        return;
    }
    /* Whoever changes the job from here on finds the waiter; what came before is seen now. The exchange may be answered
     * and gone already: only the copy of the wait and the ticket are safe. */
    if (is_over(daemon, &wait))
        ck_waiters_wake(&daemon->waiters, ticket);
}

static void ask(void *ctx) {
    struct ck_exchange *exchange = ctx;
    struct ck_request *request = &exchange->request;
    struct ck_intake *intake = &exchange->intake;

    if (intake->way != CK_WAY_NONE && !intake->files && ck_intake_files(intake, &exchange->err) < 0) {
        compose_problem(exchange);
        ready(exchange);
        return;
    }
    request->files = intake->files;
    request->n_files = intake->n_parts;
    request->fields = intake->fields;
    request->n_fields = intake->n_fields;
    request->body = ck_buffer_text(&intake->json);
    request->body_bytes = intake->json.length;
    ck_reply_release(&exchange->reply);
    exchange->reply = (struct ck_reply){0};
    exchange->route->answer(request, &exchange->daemon->ports, &exchange->reply);
    ck_exchange_hand_back(exchange);
    if (exchange->reply.kind == CK_REPLY_WAIT)
        begin_wait(exchange);
    else
        ready(exchange);
}

static void post(void *ctx) {
    struct ck_exchange *exchange = ctx;

    exchange->errand = (struct ck_errand){.run = ask, .ctx = exchange};
    ck_crew_post(exchange->daemon->crew, &exchange->errand);
}

static void count_open(struct ck_exchange *exchange) {
    if (!exchange->open)
        atomic_fetch_add(&exchange->daemon->open, 1);
    exchange->open = true;
}

static enum MHD_Result begin_asking(struct ck_exchange *exchange) {
    struct ck_reply *reply = &exchange->reply;

    if (!(exchange->route->flags & CK_ROUTE_STORE) && exchange->intake.way == CK_WAY_NONE) {
        exchange->route->answer(&exchange->request, &exchange->daemon->ports, reply);
        return send_reply(exchange);
    }
    count_open(exchange);
    exchange->phase = CK_PHASE_ASKING;
    if (!suspend(exchange)) {
        ck_error_set(&exchange->err, CK_E_DRAINING, NULL, "the daemon is shutting down");
        return send_problem(exchange);
    }
    if (exchange->intake.way == CK_WAY_NONE)
        post(exchange);
    else
        ck_intake_await(&exchange->intake);
    return MHD_YES;
}

/* ---- the head ---- */

/* The answer goes out before the body is read. Clients that look while they send stop then, the others find it when
 * they are done; what they send meanwhile is swallowed, within bounds, because a connection that is closed with unread
 * bytes takes the answer with it. */
static void answer_raw(struct ck_exchange *exchange) {
    exchange->status = exchange->reply.status;
    atomic_store(&exchange->answered_raw, true);
    ck_respond_raw(exchange->socket, &exchange->reply, exchange->id);
    ck_http_list(exchange->daemon->http, exchange); /* a client that neither leaves nor sends must not stay */
}

/* An answer in the first callback closes the connection and suppresses 100 Continue: right for a body that has not been
 * sent. One that is on its way already is swallowed: a small one before its answer, which keeps the connection, a
 * larger one behind it. */
static enum MHD_Result answer_on_head(struct ck_exchange *exchange) {
    const char *length = header(exchange, "Content-Length"), *expect = header(exchange, "Expect");
    bool chunked = header(exchange, "Transfer-Encoding") != NULL,
         has_body = chunked || (length && strcmp(length, "0") != 0);

    exchange->phase = CK_PHASE_SWALLOW;
    if (has_body && expect && strcasecmp(expect, "100-continue") == 0)
        return send_reply(exchange);
    if (has_body && (chunked || strtoull(length, NULL, 10) > SMALL_BODY))
        answer_raw(exchange);
    return MHD_YES;
}

static int begin_body(struct ck_exchange *exchange) {
    struct ck_daemon *daemon = exchange->daemon;
    struct ck_intake *intake = &exchange->intake;
    unsigned flags = exchange->route->flags;
    int r;

    *intake = (struct ck_intake){
        .daemon = daemon,
        .way = exchange->terms.way,
        .terms = &exchange->terms,
        .sniff = (flags & CK_ROUTE_JOB) != 0,
        .writeback = daemon->ports.terms.durable && !(flags & CK_ROUTE_JOB),
        .complete = post,
        .resume = resume,
        .suspend = suspend,
        .ctx = exchange,
    };
    r = ck_intake_begin(intake, exchange->connection, &exchange->err);
    if (r < 0)
        return r;
    if (intake->way != CK_WAY_JSON) {
        exchange->uploading = true;
        CK_METRIC_ADD(uploads_active, 1);
        exchange->expected = intake->reserved ? 0 : exchange->terms.length;
        atomic_fetch_add(&daemon->expected, exchange->expected);
    }
    count_open(exchange);
    ck_http_list(daemon->http, exchange);
    exchange->phase = CK_PHASE_BODY;
    return 0;
}

static enum MHD_Result handle_head(struct ck_exchange *exchange, struct MHD_Connection *connection,
                                   const char *method) {
    int r;

    exchange->connection = connection;
    exchange->request.method = method;
    exchange->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    atomic_store(&exchange->last_byte, ck_now_ms());
    ck_request_id(header(exchange, "X-Request-Id"), exchange->id);
    (void)ck_traceparent_parse(header(exchange, "traceparent"), exchange->trace_id);
    exchange->phase = CK_PHASE_SWALLOW;
    r = ck_exchange_check_head(exchange);
    if (r == 0 && exchange->request.answer_early) {
        exchange->route->answer(&exchange->request, &exchange->daemon->ports, &exchange->reply);
        return answer_on_head(exchange);
    }
    if (r == 0 && exchange->terms.way != CK_WAY_NONE)
        r = begin_body(exchange);
    if (r < 0) {
        ck_exchange_hand_back(exchange);
        compose_problem(exchange);
        return answer_on_head(exchange);
    }
    return MHD_YES;
}

/* ---- the body ---- */

/* A late refusal waits in the exchange until a bounded rest of the body has been swallowed, unless more is to come, or
 * nobody knows how much. */
static void refuse_late(struct ck_exchange *exchange) {
    uint64_t left = exchange->terms.length - CK_MIN(exchange->terms.length, exchange->intake.received);

    exchange->phase = CK_PHASE_SWALLOW;
    ck_exchange_hand_back(exchange);
    ck_intake_release(&exchange->intake);
    compose_problem(exchange);
    if (!exchange->terms.length_known || left > exchange->daemon->settings.max_discard)
        answer_raw(exchange);
}

/* A body whose length nobody announced was let in without one. */
static int watch_room(struct ck_exchange *exchange) {
    if (exchange->terms.length_known || exchange->intake.received - exchange->room_asked < ROOM_STEP)
        return 0;
    exchange->room_asked = exchange->intake.received;
    return ck_exchange_check_room(exchange);
}

static enum MHD_Result handle_bytes(struct ck_exchange *exchange, const char *bytes, size_t *n_bytes) {
    uint64_t n = *n_bytes, step;
    bool suspended;
    int r;

    atomic_store(&exchange->last_byte, ck_now_ms());
    if (exchange->phase != CK_PHASE_BODY) {
        exchange->discarded += n;
        *n_bytes = 0;
        return exchange->discarded > exchange->daemon->settings.max_discard ? MHD_NO : MHD_YES;
    }
    r = ck_intake_take(&exchange->intake, bytes, n, &suspended, &exchange->err);
    if (suspended)
        return MHD_YES; /* bytes that are not taken are offered again after the resume */
    *n_bytes = 0;
    step = CK_MIN(n, exchange->expected);
    exchange->expected -= step;
    atomic_fetch_sub(&exchange->daemon->expected, step);
    if (r == 0)
        r = watch_room(exchange);
    if (r < 0)
        refuse_late(exchange);
    return MHD_YES;
}

static enum MHD_Result handle_end(struct ck_exchange *exchange) {
    struct ck_intake *intake = &exchange->intake;

    if (ck_intake_end(intake, &exchange->err) < 0) {
        ck_exchange_hand_back(exchange);
        return send_problem(exchange);
    }
    if (exchange->uploading) {
        CK_METRIC_ADD(uploads_finished_total, 1, intake->way == CK_WAY_FORM ? "form" : "raw");
        CK_METRIC_ADD(upload_bytes_total, intake->received, "input");
    }
    return begin_asking(exchange);
}

enum MHD_Result ck_exchange_handle(struct ck_exchange *exchange, struct MHD_Connection *connection, const char *method,
                                   const char *bytes, size_t *n_bytes) {
    if (exchange->phase == CK_PHASE_HEAD)
        return handle_head(exchange, connection, method);
    if (*n_bytes > 0)
        return handle_bytes(exchange, bytes, n_bytes);
    ck_http_unlist(exchange->daemon->http, exchange); /* from here on it is not the client who is waited for */
    if (atomic_load(&exchange->answered_raw) || exchange->gone)
        return MHD_NO;
    switch (exchange->phase) {
    case CK_PHASE_SWALLOW:
        return exchange->reply.status ? send_reply(exchange) : begin_asking(exchange);
    case CK_PHASE_BODY:
        return handle_end(exchange);
    case CK_PHASE_READY:
        return send_reply(exchange);
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

/* ---- the end ---- */

static bool is_logged(const struct ck_exchange *exchange, int status) {
    const char *wanted = exchange->daemon->settings.access_log;

    return strcmp(wanted, "all") == 0 || (strcmp(wanted, "errors") == 0 && status >= 400);
}

static void log_request(const struct ck_exchange *exchange) {
    const char *route = exchange->route ? exchange->route->operation : "none", *method = exchange->request.method;
    bool quiet = exchange->route && (exchange->route->flags & CK_ROUTE_QUIET);
    /* No status: the client left before there was one. */
    int code = atomic_load(&exchange->stalled) ? CK_E_BODY_STALLED
               : exchange->status              ? exchange->reply.code
                                               : CK_E_CLIENT_GONE;
    int status = exchange->status ? exchange->status : ck_error_row(code)->http;
    double seconds = (double)(ck_now_ms() - exchange->started) / 1000;
    const char *job = ck_reply_find(&exchange->reply, "X-Job-Id");
    char text[16];

    snprintf(text, sizeof(text), "%d", status);
    if (!method)
        method = "none";
    CK_METRIC_ADD(http_requests_in_flight, -1);
    CK_METRIC_ADD(http_requests_total, 1, route, method, text);
    CK_METRIC_OBSERVE(http_request_duration_seconds, seconds, route, method);
    if (exchange->reply.kind == CK_REPLY_FILE || exchange->reply.kind == CK_REPLY_ZIP)
        CK_METRIC_ADD(download_bytes_total, exchange->sent, strcmp(route, "getBlob") == 0 ? "blob" : "result");
    if (!is_logged(exchange, status))
        return;
    ck_log_write(quiet ? CK_LOG_DEBUG : CK_LOG_INFO, "request",
                 (const struct ck_log_field[]){
                     CK_LOG_TEXT("request_id", exchange->id), CK_LOG_TEXT("trace_id", exchange->trace_id),
                     CK_LOG_TEXT("caller", exchange->key.name), CK_LOG_TEXT("route", route),
                     CK_LOG_TEXT("method", method), CK_LOG_NUMBER("status", (uint64_t)status),
                     CK_LOG_TEXT("code", code ? ck_error_row(code)->name : ""), CK_LOG_TEXT("job_id", job ? job : ""),
                     CK_LOG_NUMBER("bytes_in", exchange->intake.received + exchange->discarded),
                     CK_LOG_NUMBER("bytes_out", exchange->sent), CK_LOG_NUMBER("ms", (uint64_t)(seconds * 1000))},
                 11);
}

void ck_exchange_free(struct ck_exchange *exchange) {
    ck_http_unlist(exchange->daemon->http, exchange);
    log_request(exchange);
    ck_exchange_hand_back(exchange);
    if (exchange->uploading)
        CK_METRIC_ADD(uploads_active, -1);
    ck_intake_release(&exchange->intake);
    ck_reply_release(&exchange->reply);
    if (exchange->request.state_free)
        exchange->request.state_free(exchange->request.state);
    ck_params_release(&exchange->params);
    if (exchange->open)
        atomic_fetch_sub(&exchange->daemon->open, 1);
    free(exchange->path);
    free(exchange);
}
