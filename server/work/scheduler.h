/* server/work/scheduler.h: claims queued jobs from the store, runs each in a worker process, publishes what it made, and ends the claim.
 *
 * It lives on the loop's thread; what blocks (store, disk) runs on libuv's pool and comes back. One claim is under way at a time. A job is
 * claimed only while a worker is free, and started only while its memory fits the budget; until then it is held, leased.
 *
 * What becomes of a run:
 *   result, refusal               succeeded, failed: for good
 *   crash, memory limit           queued again; dead at the second time (crash_count)
 *   killed by a stranger          queued again, later each time; dead when the attempts are used up
 *   disk full, no process         a job that was promised (durable) is tried again later; a client that waits is told at once
 *   cancel asked for              cancelled
 *   end of the grace              queued again, not counted
 * A store that does not answer keeps a finished run waiting here, its lease alive, until it does. */
#ifndef CK_SERVER_WORK_SCHEDULER_H
#define CK_SERVER_WORK_SCHEDULER_H

#include "server/daemon.h"
#include "server/work/run.h"

#define CK_CRASHES_MAX 2

int ck_scheduler_new(uv_loop_t *loop, struct ck_daemon *daemon, struct ck_scheduler **ret_scheduler, struct ck_error *err);

/* From any thread: something may be claimed, and that job, if it runs here, may be cancelled. job may be NULL. */
void ck_scheduler_look(struct ck_scheduler *scheduler, const char *job);

/* From any thread: how far a job is. False if it does not run here. */
bool ck_scheduler_live(struct ck_scheduler *scheduler, const char *job, struct ck_job_live *ret_live);

/* From any thread: the sentence about the last start of a worker that failed, or NULL if it succeeded. Static storage. */
const char *ck_scheduler_trouble(const struct ck_scheduler *scheduler);

/* From any thread: workers that run now. */
unsigned ck_scheduler_busy(const struct ck_scheduler *scheduler);

/* Once a second. */
void ck_scheduler_tick(struct ck_scheduler *scheduler);

/* Claims nothing any more. */
void ck_scheduler_drain(struct ck_scheduler *scheduler);

/* Kills what runs; the jobs are queued again for the next start. */
void ck_scheduler_end(struct ck_scheduler *scheduler);

/* True if nothing runs and nothing waits to be written to the store. */
bool ck_scheduler_idle(const struct ck_scheduler *scheduler);

/* Closes its handles; the caller runs the loop until they are closed, then frees. */
void ck_scheduler_close(struct ck_scheduler *scheduler);
void ck_scheduler_free(struct ck_scheduler *scheduler);

/* From worker_child.c: the worker reported. */
void ck_scheduler_progress(struct ck_run *run, enum ck_stage stage, uint64_t done, uint64_t total);

#endif
