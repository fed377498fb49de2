/* server/events.h: the loop of the main thread: signals, timers, worker processes, and the end.
 *
 * SIGTERM or SIGINT drains: not ready at once, nothing new is taken, what runs may finish within --shutdown-grace, the
 * rest is ended and answered with 503. A second signal ends everything now. */
#ifndef CK_SERVER_EVENTS_H
#define CK_SERVER_EVENTS_H

#include <uv.h>

#include "server/daemon.h"

struct ck_events {
    struct ck_daemon *daemon;
    uv_loop_t loop;
    uv_signal_t term, interrupt;
    uv_timer_t tick, drain;
    int64_t deadline; /* ms; of the grace, then of the last answers */
    bool ended;       /* the grace is over: jobs were ended */
};

/* Makes the loop, its handles and daemon->workers. Returns 0 or CK_E_IO. */
int ck_events_init(struct ck_events *events, struct ck_daemon *daemon, struct ck_error *err);

/* Returns when the daemon is drained: no connection is suspended and none will be. */
void ck_events_run(struct ck_events *events);

/* Closes the handles and frees daemon->workers. */
void ck_events_release(struct ck_events *events);

#endif
