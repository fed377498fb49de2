/* server/exchange.h: one request and its answer.
 *
 * The way of an upload:
 *   head      first callback: who calls, route, options, limits, space: what is refused here is refused before its body
 * is sent body      further callbacks: bytes into a nameless file, hashed behind; a late refusal swallows a bounded
 * rest waiting   the connection is suspended: the digest is completed (hasher), then a worker converts (loop) answer
 * the last callback: file, zip or problem A client that leaves at any point ends in ck_exchange_free(), directly or
 * through the loop's look at the socket. */
#ifndef CK_SERVER_EXCHANGE_H
#define CK_SERVER_EXCHANGE_H

#include <microhttpd.h>

#include "api/convert.h"
#include "api/routes.h"
#include "server/daemon.h"

enum ck_phase {
    CK_PHASE_HEAD,    /* no callback yet */
    CK_PHASE_ANSWER,  /* the answer is known: it is queued when the body is over */
    CK_PHASE_BODY,    /* an upload comes */
    CK_PHASE_WAITING, /* digest and job */
    CK_PHASE_QUEUED,  /* answered */
};

struct ck_exchange {
    struct ck_daemon *daemon;
    struct MHD_Connection *connection;
    int socket;
    char *path;        /* raw; owned, query points into it */
    const char *query; /* raw */
    char id[64];
    const char *method;
    const struct ck_route *route; /* NULL if refused before */
    char allow[64];
    enum ck_phase phase;
    int64_t started; /* ms */

    struct ck_error err; /* the refusal, if any */
    struct ck_convert convert;
    struct ck_body_terms terms;
    struct ck_upload *upload;
    struct ck_job job;
    uint64_t received;  /* bytes of the body */
    uint64_t discarded; /* of them after the refusal */
    uint64_t expected;  /* still counted in daemon->expected */
    bool sniffed, admitted, open;
    atomic_bool suspended, stalled, answered_raw;
    atomic_llong last_byte; /* ms */

    int status; /* for the log */
    uint64_t sent;

    struct ck_exchange *previous, *next; /* in http's list of uploads */
    bool listed;
};

/* uri: path and query as sent. NULL when out of memory. */
struct ck_exchange *ck_exchange_new(struct ck_daemon *daemon, const char *uri);

/* libmicrohttpd's access handler. */
enum MHD_Result ck_exchange_handle(struct ck_exchange *exchange, struct MHD_Connection *connection, const char *method,
                                   const char *bytes, size_t *n_bytes);

/* Tells a client that went silent, and closes its connection. Only while it is in http's list, under that list's lock.
 */
void ck_exchange_stalled(struct ck_exchange *exchange);

/* The connection has ended, or its answer was sent: log, give everything back. */
void ck_exchange_free(struct ck_exchange *exchange);

#endif
