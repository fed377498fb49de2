/* server/events.h: the loop of the main thread: signals, timers, worker processes, and the end.
 *
 * SIGTERM or SIGINT drains: not ready at once, nothing new is taken or started, what runs may finish within --shutdown-grace, the
 * rest is queued again for the next start and its waiting clients get 503. A second signal ends everything now. SIGHUP reads the keys anew. */
#ifndef CK_SERVER_EVENTS_H
#define CK_SERVER_EVENTS_H

#include <uv.h>

#include "server/daemon.h"

struct ck_events {
    struct ck_daemon *daemon;
    uv_loop_t loop;
    uv_signal_t term, interrupt, hangup;
    uv_timer_t tick, drain, janitor;
    uv_work_t cleaning;
    bool cleaning_busy;
    int64_t deadline; /* ms; of the grace, then of the last answers */
    bool ended;       /* the grace is over: jobs were ended */
};

/* Makes the loop, its handles and daemon->scheduler. Returns 0 or CK_E_IO. */
int ck_events_init(struct ck_events *events, struct ck_daemon *daemon, struct ck_error *err);

/* Returns when the daemon is drained: no connection is suspended and none will be. */
void ck_events_run(struct ck_events *events);

/* Closes the handles and frees daemon->scheduler. */
void ck_events_release(struct ck_events *events);

#endif
