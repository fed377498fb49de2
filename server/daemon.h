/* server/daemon.h: what the parts of a running daemon share. Made by cmd_serve.c, in this order, and taken down in the
 * opposite one.
 *
 * Threads: the loop's (main: signals, timers, workers), libmicrohttpd's epoll threads, the hashers. A request is
 * touched by one of them at a time: an epoll thread owns it until it suspends the connection; a hasher and then the
 * loop own it until one of them resumes. */
#ifndef CK_SERVER_DAEMON_H
#define CK_SERVER_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/ports.h"
#include "server/data_dir.h"
#include "server/listen.h"
#include "server/settings.h"
#include "server/upload.h"
#include "server/worker_pool.h"

struct ck_http;

struct ck_daemon {
    struct ck_settings settings;
    struct ck_data_dir data;
    struct ck_listen listen;
    struct ck_hasher *hasher;
    struct ck_workers *workers;
    struct ck_http *http;
    struct ck_ports ports;

    atomic_bool draining;
    atomic_uint admitted;   /* conversions that are received, wait or run: bounded by workers + queue */
    atomic_uint open;       /* conversions whose answer is not sent yet: a drain waits for them */
    atomic_ullong expected; /* bytes that running uploads have announced and not sent yet */
    atomic_llong loop_seen; /* when the loop last turned, ms of CLOCK_MONOTONIC */

    pthread_mutex_t suspend_lock; /* guards the two below */
    unsigned suspended;           /* connections; none may be left when libmicrohttpd stops */
    bool closing;                 /* nobody may suspend any more */
};

/* ms of CLOCK_MONOTONIC. */
int64_t ck_now_ms(void);

#endif
