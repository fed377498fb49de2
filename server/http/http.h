/* server/http/http.h: libmicrohttpd: epoll threads, limits, the list of running uploads. */
#ifndef CK_SERVER_HTTP_HTTP_H
#define CK_SERVER_HTTP_HTTP_H

#include "server/daemon.h"

struct ck_exchange;

/* Serves daemon->listen, whose socket it takes, and sets daemon->http before the first request. Returns 0 or CK_E_IO.
 */
int ck_http_start(struct ck_daemon *daemon, struct ck_error *err);

/* Once a second: ends uploads that are silent for too long or whose client is gone. */
void ck_http_tick(struct ck_http *http);

/* Uploads that are coming in, for ck_http_tick(). */
void ck_http_list(struct ck_http *http, struct ck_exchange *exchange);
void ck_http_unlist(struct ck_http *http, struct ck_exchange *exchange);

/* Ends all connections. None may be suspended. Accepts NULL. */
void ck_http_stop(struct ck_http *http);

#endif
