/* base/pool.h: a parallel-for on libuv's thread pool.
 *
 * The pool and its descriptors are made by ck_pool_new(); after that ck_pool_run() opens nothing and creates no thread, so it works
 * under the worker's seccomp filter. libuv reads UV_THREADPOOL_SIZE once, at first use: the program's main sets it. */
#ifndef CK_BASE_POOL_H
#define CK_BASE_POOL_H

#include "core/base/error.h"

struct ck_pool;

/* Runs on one thread until there is no work left; takes its items by an atomic counter in ctx. thread is 0 .. threads-1, for
 * per-thread buffers. A failure sets err, which belongs to this thread alone. */
typedef int (*ck_pool_fn)(void *ctx, unsigned thread, struct ck_error *err);

/* threads at least 1; all of them exist when this returns. Returns 0, CK_E_OUT_OF_MEMORY or CK_E_IO. */
int ck_pool_new(unsigned threads, struct ck_pool **ret_pool, struct ck_error *err);

unsigned ck_pool_threads(const struct ck_pool *pool);

/* Calls fn on every thread and waits for all. Returns 0, or the failure of the lowest-numbered thread that failed. */
int ck_pool_run(struct ck_pool *pool, ck_pool_fn fn, void *ctx, struct ck_error *err);

void ck_pool_free(struct ck_pool *pool);
static inline void ck_pool_freep(struct ck_pool **pool) {
    ck_pool_free(*pool);
    *pool = NULL;
}

#endif
