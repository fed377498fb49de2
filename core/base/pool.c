#include "core/base/pool.h"

#include <pthread.h>
#include <uv.h>

struct task {
    uv_work_t work;
    struct ck_pool *pool;
    unsigned thread;
    int status;
    struct ck_error err;
};

struct ck_pool {
    uv_loop_t loop;
    unsigned threads;
    ck_pool_fn fn;
    void *ctx;
    struct task tasks[];
};

static void run_task(uv_work_t *work) {
    struct task *task = work->data;

    task->status = task->pool->fn(task->pool->ctx, task->thread, &task->err);
}

static void after_task(_unused_ uv_work_t *work, _unused_ int status) {
}

int ck_pool_run(struct ck_pool *pool, ck_pool_fn fn, void *ctx, struct ck_error *err) {
    pool->fn = fn;
    pool->ctx = ctx;
    for (unsigned i = 0; i < pool->threads; i++) {
        struct task *task = &pool->tasks[i];

        task->status = 0;
        task->err.code = 0;
        task->work.data = task;
        uv_queue_work(&pool->loop, &task->work, run_task, after_task);
    }
    uv_run(&pool->loop, UV_RUN_DEFAULT);
    for (unsigned i = 0; i < pool->threads; i++) {
        if (pool->tasks[i].status < 0) {
            if (err && err->code == 0)
                *err = pool->tasks[i].err;
            return pool->tasks[i].status;
        }
    }
    return 0;
}

unsigned ck_pool_threads(const struct ck_pool *pool) {
    return pool->threads;
}

/* All threads must meet here before one may leave, which proves that each of them exists. */
static int meet(void *ctx, _unused_ unsigned thread, _unused_ struct ck_error *err) {
    pthread_barrier_wait(ctx);
    return 0;
}

int ck_pool_new(unsigned threads, struct ck_pool **ret_pool, struct ck_error *err) {
    struct ck_pool *pool = calloc(1, sizeof(*pool) + threads * sizeof(struct task));
    pthread_barrier_t barrier;
    int r;

    if (!pool)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for %u threads", threads);
    r = uv_loop_init(&pool->loop);
    if (r < 0) {
        free(pool);
        return ck_error_set(err, CK_E_IO, NULL, "cannot start the event loop: %s", uv_strerror(r));
    }
    pool->threads = threads;
    for (unsigned i = 0; i < threads; i++) {
        pool->tasks[i].pool = pool;
        pool->tasks[i].thread = i;
    }
    if (pthread_barrier_init(&barrier, NULL, threads) == 0) {
        ck_pool_run(pool, meet, &barrier, NULL);
        pthread_barrier_destroy(&barrier);
    }
    *ret_pool = pool;
    return 0;
}

void ck_pool_free(struct ck_pool *pool) {
    if (!pool)
        return;
    uv_loop_close(&pool->loop);
    free(pool);
}
