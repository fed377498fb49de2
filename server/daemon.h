/* server/daemon.h: what the parts of a running daemon share, and how they are made, in this order, and taken down in the
 * opposite one.
 *
 * Threads: the loop's (main: signals, timers, workers, scheduler), libuv's pool (the scheduler's and janitor's looks at
 * store and disk), libmicrohttpd's epoll threads, the hashers, the crew (requests that touch the store). A request is
 * touched by one of them at a time: an epoll thread owns it until it suspends the connection; hashers and crew own it
 * until one of them resumes. */
#ifndef CK_SERVER_DAEMON_H
#define CK_SERVER_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/ports.h"
#include "server/crew.h"
#include "server/disk/data_dir.h"
#include "server/keys.h"
#include "server/http/listen.h"
#include "server/settings.h"
#include "server/disk/upload.h"
#include "server/http/waiters.h"

struct ck_http;
struct ck_scheduler;

struct ck_daemon {
    struct ck_settings settings;
    struct ck_keys *keys; /* NULL: none are asked for */
    struct ck_data_dir data;
    struct ck_store *store;
    struct ck_blobs *blobs;
    struct ck_listen listen;
    struct ck_hasher *hasher;
    struct ck_crew *crew;
    struct ck_waiters waiters;
    struct ck_scheduler *scheduler;
    struct ck_http *http;
    struct ck_ports ports;

    atomic_bool draining;
    atomic_uint admitted;   /* requests that will make a job and have not yet */
    atomic_uint open;       /* requests with an upload or a wait whose answer is not sent yet: a drain waits for them */
    atomic_ullong expected; /* bytes that running uploads have announced and not sent yet */
    atomic_llong loop_seen; /* when the loop last turned, ms of CLOCK_MONOTONIC */

    pthread_mutex_t count_lock;  /* held while jobs are counted, so that no older count replaces a newer one */
    pthread_mutex_t look_lock;   /* guards the last look at store and disk */
    struct ck_queue_counts counts;
    bool store_ok;
    char store_why[256];
    uint64_t free_bytes, total_bytes;

    pthread_mutex_t suspend_lock; /* guards the two below */
    unsigned suspended;           /* connections; none may be left when libmicrohttpd stops */
    bool closing;                 /* nobody may suspend any more */
};

struct ck_events;

/* Makes and starts every part, in the order of the members; daemon->settings is set, the rest zeroed but listen.fd and data.lock, which are -1.
 * Leftovers of an earlier process are cleared before anything is served. On failure ck_daemon_close() takes down what there is. */
int ck_daemon_open(struct ck_daemon *daemon, struct ck_events *events, struct ck_error *err);
void ck_daemon_close(struct ck_daemon *daemon, struct ck_events *events);

/* ms of CLOCK_MONOTONIC. */
int64_t ck_now_ms(void);

/* ms since 1970. */
int64_t ck_clock_ms(void);

/* Fills daemon->ports from everything else. */
void ck_ports_make(struct ck_daemon *daemon);

/* Counts queued and running jobs for whoever admits the next: after a job was made, and when one has ended, before that is told. Blocks. */
int ck_daemon_count(struct ck_daemon *daemon, struct ck_error *err);

/* Looks at store and disk and keeps what it saw. Blocks. */
void ck_daemon_look(struct ck_daemon *daemon);

/* One pass of the janitor, with its log line and metrics. Blocks. */
void ck_daemon_clean(struct ck_daemon *daemon);

#endif
