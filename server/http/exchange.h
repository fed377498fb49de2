/* server/http/exchange.h: one request and its answer: the meeting of libmicrohttpd's callbacks with the handlers of api/.
 *
 * The way of a request:
 *   head     first callback: who calls, route, key, length, queue, space, the route's own look: what is refused here is refused before its
 *            body is sent
 *   body     further callbacks: server/http/intake.h takes it; a late refusal swallows a bounded rest
 *   asking   the connection is suspended; a thread of the crew calls the route's handler, which may block. Handlers that cannot block are
 *            called in the callback.
 *   waiting  the handler waits for a job: server/http/waiters.h wakes, the handler is called again
 *   ready    the connection is resumed; the last callback queues the answer
 * A client that leaves at any point ends in ck_exchange_free(), directly or through the loop's look at the socket. */
#ifndef CK_SERVER_HTTP_EXCHANGE_H
#define CK_SERVER_HTTP_EXCHANGE_H

#include <microhttpd.h>

#include "api/routes.h"
#include "server/daemon.h"
#include "server/http/intake.h"
#include "server/http/request_id.h"

enum ck_phase {
    CK_PHASE_HEAD,    /* no callback yet */
    CK_PHASE_SWALLOW, /* the answer is known: it is queued when the body is over */
    CK_PHASE_BODY,
    CK_PHASE_ASKING,
    CK_PHASE_READY,
    CK_PHASE_QUEUED,
};

struct ck_exchange {
    struct ck_daemon *daemon;
    struct MHD_Connection *connection;
    int socket;
    char *path; /* raw; owned, request.query points into it */
    char id[CK_REQUEST_ID_MAX], trace_id[CK_TRACE_ID_MAX];
    struct ck_key key; /* name "" if none is asked for */
    const struct ck_route *route; /* NULL if refused before */
    struct ck_params params;
    struct ck_request request;
    char allow[64];
    enum ck_phase phase;
    int64_t started; /* ms */

    struct ck_error err; /* the refusal, if any */
    struct ck_body_terms terms;
    struct ck_intake intake;
    struct ck_reply reply;
    struct ck_errand errand;
    struct ck_waiter waiter;
    uint64_t discarded; /* bytes of the body after a refusal */
    uint64_t expected;  /* still counted in daemon->expected */
    uint64_t room_asked; /* bytes of a body of unknown length at the last look for room */
    bool admitted, open, gone, uploading;
    atomic_bool suspended, stalled, answered_raw;
    atomic_llong last_byte; /* ms */

    int status; /* for log and metrics; 0: the client left before there was one */
    uint64_t sent;

    struct ck_exchange *previous, *next; /* in http's list of bodies that come in */
    bool listed;
};

/* uri: path and query as sent. NULL when out of memory. */
struct ck_exchange *ck_exchange_new(struct ck_daemon *daemon, const char *uri);

/* libmicrohttpd's access handler. */
enum MHD_Result ck_exchange_handle(struct ck_exchange *exchange, struct MHD_Connection *connection, const char *method,
                                   const char *bytes, size_t *n_bytes);

/* Tells a client that went silent, and closes its connection. Only while it is in http's list, under that list's lock. */
void ck_exchange_stalled(struct ck_exchange *exchange);

/* The connection has ended, or its answer was sent: log, count, give everything back. */
void ck_exchange_free(struct ck_exchange *exchange);

#endif
