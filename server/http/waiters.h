/* server/http/waiters.h: requests that wait for a job: their connections are suspended, this list wakes them. All functions are thread-safe.
 *
 * A change that happens before the wait begins is not lost: whoever adds a waiter looks at the job once more afterwards (exchange.c). */
#ifndef CK_SERVER_HTTP_WAITERS_H
#define CK_SERVER_HTTP_WAITERS_H

#include <pthread.h>

#include "api/reply.h"

struct ck_waiter {
    struct ck_reply_wait wait;
    int64_t deadline; /* ms of CLOCK_MONOTONIC; INT64_MAX: none */
    int socket;       /* of the client */
    bool left;        /* why it was woken: the client is gone */
    /* Called once, on the thread that woke it, after it was taken out of the list. */
    void (*wake)(void *ctx);
    void *ctx;
    uint64_t ticket; /* the list's */
    struct ck_waiter *previous, *next;
};

struct ck_waiters {
    pthread_mutex_t lock;
    struct ck_waiter *first;
    unsigned n;
    uint64_t tickets;
};

void ck_waiters_init(struct ck_waiters *waiters);

/* Returns a ticket, or 0 if `most` wait already. From here on the waiter may be woken, and gone. */
uint64_t ck_waiters_add(struct ck_waiters *waiters, struct ck_waiter *waiter, unsigned most);

/* Wakes the one with that ticket, if nobody else did. */
void ck_waiters_wake(struct ck_waiters *waiters, uint64_t ticket);

/* Wakes who waits for the job: for its end, or for any change. */
void ck_waiters_changed(struct ck_waiters *waiters, const char *job, bool finished);

/* Once a second: wakes those whose time is over or whose client is gone; gone(ctx, job) is called for the latter's jobs if they asked for it. */
void ck_waiters_tick(struct ck_waiters *waiters, int64_t now_ms, void (*gone)(void *ctx, const char *job), void *ctx);

/* Wakes all whose job is not kept(ctx, job); kept NULL: all. */
void ck_waiters_wake_all(struct ck_waiters *waiters, bool (*kept)(void *ctx, const char *job), void *ctx);

void ck_waiters_release(struct ck_waiters *waiters); /* nobody may wait any more */

#endif
