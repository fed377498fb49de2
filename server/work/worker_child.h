/* server/work/worker_child.h: one worker process: start, talk, watch, judge. Loop's thread only. */
#ifndef CK_SERVER_WORK_WORKER_CHILD_H
#define CK_SERVER_WORK_WORKER_CHILD_H

#include "server/disk/data_dir.h"
#include "server/work/run.h"
#include "server/settings.h"

/* Starts a process for the job; ended(run, ctx) is called later, with the outcome in the run and every descriptor but
 * the result's closed. Returns 0, or CK_E_IO, CK_E_STORAGE_FULL, CK_E_OUT_OF_MEMORY, and then ended() is not called. */
int ck_child_start(uv_loop_t *loop, const struct ck_settings *settings, const struct ck_data_dir *data,
                   struct ck_run *run, void (*ended)(struct ck_run *run, void *ctx), void *ctx, struct ck_error *err);

/* Kills the process; the outcome will be this error. The first reason wins. */
void ck_child_kill(struct ck_child *child, int code, const char *message);

#endif
