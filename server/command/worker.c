/* ckptd worker: one job in a process of its own. It reads its order from stdin, gets its files as open descriptors,
 * locks itself in and only then looks at the stranger's bytes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/pool.h"
#include "server/command/commands.h"
#include "server/work/protocol.h"
#include "server/work/sandbox.h"
#include "server/work/worker_fault.h"

#define PROGRESS_INTERVAL_NS 250000000
#define THREAD_STACK         (4ull << 20)

struct worker {
    struct ck_order order;
    size_t outputs_used;
    enum ck_stage stage; /* of the last progress line */
    bool reported;
    int64_t reported_at; /* CLOCK_MONOTONIC */
};

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool write_all(const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, bytes, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

/* A daemon that does not listen any more is gone, and nobody wants the rest. */
static void say(int composed, const struct ck_buffer *line) {
    if (composed < 0 || !write_all(ck_buffer_text(line), line->length))
        _exit(1);
}

static void report_progress(void *ctx, enum ck_stage stage, uint64_t done, uint64_t total) {
    _cleanup_(ck_buffer_release) struct ck_buffer line = {0};
    struct worker *worker = ctx;
    int64_t now = now_ns();

    if (worker->reported && stage == worker->stage && now - worker->reported_at < PROGRESS_INTERVAL_NS)
        return;
    worker->reported = true;
    worker->stage = stage;
    worker->reported_at = now;
    ck_buffer_init(&line, CK_EVENT_MAX);
    say(ck_event_write_progress(stage, done, total, &line), &line);
}

static int create_output(void *ctx, const char *name, int *ret_fd, struct ck_error *err) {
    struct worker *worker = ctx;

    if (worker->outputs_used == worker->order.outputs)
        return ck_error_set(err, CK_E_TOO_MANY_OUTPUT_FILES, name, "the result needs more than %llu files",
                            (unsigned long long)worker->order.outputs);
    *ret_fd = CK_WORKER_FD_OUTPUT + (int)worker->outputs_used++;
    return 0;
}

static int read_order(struct ck_order *ret_order, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer text = {0};
    char part[4096];

    ck_buffer_init(&text, CK_ORDER_MAX);
    for (;;) {
        ssize_t n = read(STDIN_FILENO, part, sizeof(part));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ck_error_set_errno(err, errno, NULL, "read the order");
        if (n == 0)
            break;
        if (!ck_buffer_add(&text, part, (size_t)n))
            return ck_error_set(err, CK_E_INTERNAL, NULL, "the order is too long");
    }
    return ck_order_read(ck_buffer_text(&text), text.length, ret_order, err);
}

/* Everything that opens, allocates for good or makes a thread happens here, before the filter. */
static int prepare(const struct ck_order *order, struct ck_pool **ret_pool, struct ck_error *err) {
    struct rlimit stack = {.rlim_cur = THREAD_STACK, .rlim_max = RLIM_INFINITY};
    char threads[24];
    struct stat input;
    uint64_t file_limit;
    int r;

    /* Whatever else slipped through the start is none of a worker's business. */
    close_range(CK_WORKER_FD_OUTPUT + (unsigned)order->outputs, ~0u, 0);
    if (fstat(CK_WORKER_FD_INPUT, &input) < 0)
        return ck_error_set_errno(err, errno, NULL, "look at the input");
    if (!ck_mul_u64((uint64_t)input.st_size, order->limits.output_ratio, &file_limit) ||
        !ck_add_u64(file_limit, 64 * CK_MIB, &file_limit))
        file_limit = INT64_MAX;
    file_limit = CK_MAX(file_limit, order->limits.unpacked_bytes);
    /* Stacks are private memory: 64 threads of 8 MiB would take half of the worker's limit. */
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur > THREAD_STACK) {
        stack.rlim_cur = THREAD_STACK;
        setrlimit(RLIMIT_STACK, &stack);
    }
    /* Times in archives go through mktime(), which would open the time zone's file. */
    setenv("TZ", "UTC0", 1);
    tzset();
    snprintf(threads, sizeof(threads), "%llu", (unsigned long long)order->threads);
    setenv("UV_THREADPOOL_SIZE", threads, 1);
    r = ck_sandbox_limit(order->memory, order->cpu, file_limit, err);
    if (r < 0)
        return r;
    return ck_pool_new((unsigned)order->threads, ret_pool, err);
}

static int run(struct worker *worker, const char *fault, struct ck_job_result *ret_result, struct ck_error *err) {
    _cleanup_(ck_pool_freep) struct ck_pool *pool = NULL;
    const struct ck_progress progress = {.report = report_progress, .ctx = worker};
    const struct ck_job_sink sink = {.create = create_output, .ctx = worker, .scratch_fd = CK_WORKER_FD_SCRATCH};
    struct ck_job_input input = {.role = "model", .fd = CK_WORKER_FD_INPUT};
    int r;

    r = read_order(&worker->order, err);
    if (r < 0)
        return r;
    input.name = worker->order.input_name;
    r = prepare(&worker->order, &pool, err);
    if (r < 0)
        return r;
    r = ck_sandbox_close(err);
    if (r < 0)
        return r;
    report_progress(worker, CK_STAGE_read, 0, 0);
    ck_worker_fault_apply(fault, input.name, err);
    if (err->code < 0)
        return err->code;
    return ck_job_run(worker->order.spec, &input, 1, &worker->order.limits, pool, &progress, &sink, ret_result, err);
}

int ck_cmd_worker(_unused_ int argc, _unused_ char **argv) {
    static struct worker worker;
    _cleanup_(ck_buffer_release) struct ck_buffer line = {0};
    _cleanup_(ck_job_result_release) struct ck_job_result result = {0};
    const char *fault = getenv("CKPTD_WORKER_FAULT");
    struct ck_error err = {0};
    int r;

    ck_buffer_init(&line, CK_EVENT_MAX);
    r = ck_sandbox_begin(&err);
    if (r == 0)
        r = run(&worker, fault, &result, &err);
    if (r < 0)
        say(ck_event_write_error(&err, &result, &line), &line);
    else
        say(ck_event_write_done(&result, &line), &line);
    ck_order_release(&worker.order);
    return r < 0 ? 3 : 0;
}
