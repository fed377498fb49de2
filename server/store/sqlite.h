/* server/store/sqlite.h: the job store (api/store.h) in one SQLite file of the data directory.
 *
 * One process owns the file (the data directory's flock sees to it); more would still claim each job once. Connections: one that writes,
 * behind a mutex, and four that read; a reader sees the last commit and never waits for the writer. Each function is one transaction, and
 * nothing slow happens inside it: the callbacks of the port are called when it is over, so they may call the store.
 *
 * After an error the same call works again as soon as the trouble is over (space freed, lock released). Everybody waits for
 * a foreign lock 5 s at most, however many wait.
 *
 * At start:  open -> each_blob (look at what may be lost) -> drop_blob -> recover -> each_job_with_files -> lose_results -> serve. */
#ifndef CK_SERVER_STORE_SQLITE_H
#define CK_SERVER_STORE_SQLITE_H

#include "api/store.h"

/* Opens or makes the file, checks all of it (0.5 s for 200,000 jobs), and brings an older schema up to date. durable: a commit is on disk
 * when it returns (synchronous=FULL); without it a crash of the machine may lose the last ones, but not the file. boot_id: of /proc/sys/kernel/random/boot_id; "" is never
 * the same as before.
 * Errors name the file: CK_E_STORE_UNAVAILABLE (damaged, not ours to write, locked), CK_E_IO (of a newer ckptd, of another program, on a
 * file system that cannot hold it), CK_E_STORAGE_FULL, CK_E_OUT_OF_MEMORY. */
int ck_store_sqlite_open(const char *path, bool durable, const char *boot_id, struct ck_store **ret_store, struct ck_error *err);

/* NULL is fine. No call may be under way. */
void ck_store_sqlite_close(struct ck_store *store);

/* True if the file was made by this open(), or never saw a recover(). */
bool ck_store_sqlite_is_new(const struct ck_store *store);

/* True if the machine was started anew since the last recover(): what was not durable may be gone or torn. */
bool ck_store_sqlite_rebooted(const struct ck_store *store);

struct ck_store_recovery {
    uint64_t requeued;  /* were running: queued again (reason "recovered"); the attempt counts */
    uint64_t dead;      /* were running at their last attempt (reason "attempts") */
    uint64_t cancelled; /* were running, and a cancel was asked for */
    uint64_t rerun;     /* had results that were not durable, before the machine crashed: queued again (reason "recovered") */
    uint64_t lost;      /* the same, but an input is gone, too: failed (reason and error code "input_not_found") */
};

/* Voids every lease, as nobody can hold one when a daemon starts; after a reboot also does away with results that were not durable. Queued
 * jobs that were to wait longer need not: a clock that was wrong must not hold them. Then remembers the boot id. */
int ck_store_sqlite_recover(struct ck_store *store, int64_t now, struct ck_store_recovery *ret_recovery, struct ck_error *err);

/* The files of a job are not there any more: it is queued again (reason "recovered"), or failed if an input is gone, too; of a job that had failed only
 * the report is forgotten. */
int ck_store_sqlite_lose_results(struct ck_store *store, const char *id, int64_t now, struct ck_error *err);

/* Reads one row: for readyz. */
int ck_store_sqlite_check(struct ck_store *store, struct ck_error *err);

/* Every blob, in no order that means anything. A negative return of each() ends it and is returned. each() may take its time and call the store. */
int ck_store_sqlite_each_blob(struct ck_store *store, int (*each)(void *ctx, const char *digest, uint64_t bytes, bool durable), void *ctx,
                              struct ck_error *err);

/* Every job that has files in jobs/ID/, oldest first; the same terms. */
int ck_store_sqlite_each_job_with_files(struct ck_store *store, int (*each)(void *ctx, const char *id), void *ctx, struct ck_error *err);

/* Removes the row of a blob whose file is gone or damaged, whoever refers to it. One that is not there is fine. */
int ck_store_sqlite_drop_blob(struct ck_store *store, const char *digest, struct ck_error *err);

/* observe() is called after each function of the port, on the caller's thread, with the function's name ("job_get"), how long it took and what
 * it returned. Set it before there are threads. */
void ck_store_sqlite_observe(struct ck_store *store, void (*observe)(void *ctx, const char *op, double seconds, int code), void *ctx);

/* How long a locked file is waited for; 5000 ms unless set. Set it before there are threads. */
void ck_store_sqlite_busy_timeout(struct ck_store *store, int ms);

#endif
