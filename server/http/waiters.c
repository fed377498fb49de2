#include "server/http/waiters.h"

#include <string.h>

#include "server/http/peer.h"

void ck_waiters_init(struct ck_waiters *waiters) {
    *waiters = (struct ck_waiters){0};
    pthread_mutex_init(&waiters->lock, NULL);
}

void ck_waiters_release(struct ck_waiters *waiters) {
    pthread_mutex_destroy(&waiters->lock);
}

uint64_t ck_waiters_add(struct ck_waiters *waiters, struct ck_waiter *waiter, unsigned most) {
    uint64_t ticket = 0;

    pthread_mutex_lock(&waiters->lock);
    if (waiters->n < most) {
        ticket = waiter->ticket = ++waiters->tickets;
        waiter->previous = NULL;
        waiter->next = waiters->first;
        if (waiters->first)
            waiters->first->previous = waiter;
        waiters->first = waiter;
        waiters->n++;
    }
    pthread_mutex_unlock(&waiters->lock);
    return ticket;
}

static void unlink_one(struct ck_waiters *waiters, struct ck_waiter *waiter) {
    if (waiter->previous)
        waiter->previous->next = waiter->next;
    else
        waiters->first = waiter->next;
    if (waiter->next)
        waiter->next->previous = waiter->previous;
    waiters->n--;
}

/* wake() may free the waiter, so each is called without the lock and after its place in the list was given up. */
static void wake_chain(struct ck_waiter *chain) {
    while (chain) {
        struct ck_waiter *waiter = chain;

        chain = waiter->next;
        waiter->wake(waiter->ctx);
    }
}

static void move_to_chain(struct ck_waiters *waiters, struct ck_waiter *waiter, struct ck_waiter **chain) {
    unlink_one(waiters, waiter);
    waiter->next = *chain;
    *chain = waiter;
}

void ck_waiters_wake(struct ck_waiters *waiters, uint64_t ticket) {
    struct ck_waiter *waiter;

    pthread_mutex_lock(&waiters->lock);
    for (waiter = waiters->first; waiter && waiter->ticket != ticket;)
        waiter = waiter->next;
    if (waiter)
        unlink_one(waiters, waiter);
    pthread_mutex_unlock(&waiters->lock);
    if (waiter)
        waiter->wake(waiter->ctx);
}

void ck_waiters_changed(struct ck_waiters *waiters, const char *job, bool finished) {
    struct ck_waiter *chain = NULL, *next;

    pthread_mutex_lock(&waiters->lock);
    for (struct ck_waiter *waiter = waiters->first; waiter; waiter = next) {
        next = waiter->next;
        if ((finished || !waiter->wait.until_finished) && strcmp(waiter->wait.job, job) == 0)
            move_to_chain(waiters, waiter, &chain);
    }
    pthread_mutex_unlock(&waiters->lock);
    wake_chain(chain);
}

void ck_waiters_tick(struct ck_waiters *waiters, int64_t now_ms, void (*gone)(void *ctx, const char *job), void *ctx) {
    struct ck_waiter *chain = NULL, *next;

    pthread_mutex_lock(&waiters->lock);
    for (struct ck_waiter *waiter = waiters->first; waiter; waiter = next) {
        bool left = ck_peer_is_gone(waiter->socket);

        next = waiter->next;
        if (!left && now_ms < waiter->deadline)
            continue;
        waiter->left = left;
        if (left && waiter->wait.cancel_when_gone)
            gone(ctx, waiter->wait.job);
        move_to_chain(waiters, waiter, &chain);
    }
    pthread_mutex_unlock(&waiters->lock);
    wake_chain(chain);
}

void ck_waiters_wake_all(struct ck_waiters *waiters, bool (*kept)(void *ctx, const char *job), void *ctx) {
    struct ck_waiter *chain = NULL, *next;

    pthread_mutex_lock(&waiters->lock);
    for (struct ck_waiter *waiter = waiters->first; waiter; waiter = next) {
        next = waiter->next;
        if (!kept || !kept(ctx, waiter->wait.job))
            move_to_chain(waiters, waiter, &chain);
    }
    pthread_mutex_unlock(&waiters->lock);
    wake_chain(chain);
}
