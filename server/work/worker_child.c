#include "server/work/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/log.h"
#include "server/work/protocol.h"
#include "server/work/scheduler.h"

#define LAST_CALL_MS 1000
#define STDERR_KEPT  4096 /* bytes of what a dying worker says */

struct ck_child {
    struct ck_run *run;
    const struct ck_settings *settings;
    void (*ended)(struct ck_run *run, void *ctx);
    void *ctx;

    uv_process_t process;
    uv_pipe_t in, out, err;
    uv_timer_t silence;
    uv_write_t write;
    unsigned open_handles;

    struct ck_buffer order;
    int scratch;
    int outputs[CK_WORKER_OUTPUTS_MAX];
    size_t n_outputs;

    bool exited, out_closed, err_closed, judged;
    bool last_call; /* the silence has lasted; nothing was heard since */
    int64_t exit_status;
    int term_signal;
    struct ck_error killed_for; /* code 0: not killed by us */
    bool has_verdict;           /* a done or error event came */
    struct ck_event verdict;
    size_t line_used, stderr_used;
    char line[CK_EVENT_MAX];
    char stderr_text[STDERR_KEPT];
};

/* ---- the judgement ---- */

/* What a signal that nobody here sent means. */
static int judge_signal(const struct ck_child *child, struct ck_error *err) {
    switch (child->term_signal) {
    case SIGXCPU:
        return ck_error_set(err, CK_E_WORKER_TIMEOUT, NULL,
                            "the worker process used its %llu s of processor time (--worker-cpu)",
                            (unsigned long long)child->settings->worker_cpu);
    case SIGKILL:
        return ck_error_set(err, CK_E_WORKER_KILLED, NULL,
                            "the worker process was killed by a signal that the daemon did not send");
    case SIGSYS:
        return ck_error_set(
            err, CK_E_WORKER_CRASHED, NULL,
            "the worker process was ended by its filter: it made a system call that no conversion needs");
    default:
        return ck_error_set(err, CK_E_WORKER_CRASHED, NULL, "the worker process died of signal %d (%s)",
                            child->term_signal, strsignal(child->term_signal));
    }
}

static int check_files(const struct ck_child *child, struct ck_error *err) {
    const struct ck_job_result *result = &child->verdict.result;

    for (size_t i = 0; i < result->n_files; i++) {
        struct stat info;

        if (fstat(child->outputs[i], &info) < 0)
            return ck_error_set_errno(err, errno, result->files[i].name, "look at a result");
        if ((uint64_t)info.st_size != result->files[i].bytes)
            return ck_error_set(err, CK_E_WORKER_CRASHED, result->files[i].name,
                                "the worker process claims %llu bytes of %s, there are %lld",
                                (unsigned long long)result->files[i].bytes, result->files[i].name,
                                (long long)info.st_size);
    }
    return 0;
}

static int judge(struct ck_child *child, struct ck_error *err) {
    const struct ck_error *said = &child->verdict.error;

    if (child->killed_for.code) {
        *err = child->killed_for;
        return err->code;
    }
    if (child->has_verdict && child->verdict.kind == CK_EVENT_ERROR) {
        *err = *said;
        if (said->code == CK_E_OUT_OF_MEMORY) {
            *err = (struct ck_error){0};
            ck_error_set(err, CK_E_WORKER_OOM, said->where,
                         "the worker process reached its limit of %llu MiB (--worker-memory): %s",
                         (unsigned long long)(child->run->memory >> 20), said->message);
        }
        return err->code;
    }
    if (child->term_signal)
        return judge_signal(child, err);
    if (!child->has_verdict || child->exit_status != 0)
        return ck_error_set(err, CK_E_WORKER_CRASHED, NULL, "the worker process ended with status %lld %s",
                            (long long)child->exit_status,
                            child->has_verdict ? "after its result" : "and without a result");
    return check_files(child, err);
}

/* A refusal keeps its report; a worker that was killed or lies about its files has none. */
static bool has_report(const struct ck_child *child) {
    return !child->killed_for.code && child->has_verdict && child->verdict.kind == CK_EVENT_ERROR &&
           child->verdict.result.n_files > 0 && check_files(child, NULL) == 0;
}

static int hand_over(struct ck_child *child, struct ck_run *run) {
    size_t n = child->verdict.result.n_files;
    int *files = calloc(n, sizeof(*files));

    if (!files)
        return ck_error_set(&run->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the result");
    for (size_t i = 0; i < n; i++)
        files[i] = TAKE_FD(child->outputs[i]);
    run->files = files;
    run->result = child->verdict.result;
    child->verdict.result.files = NULL;
    return 0;
}

static void log_stderr(struct ck_child *child) {
    if (child->stderr_used == 0)
        return;
    child->stderr_text[CK_MIN(child->stderr_used, sizeof(child->stderr_text) - 1)] = 0;
    CK_LOG(WARNING, "worker stderr", CK_LOG_TEXT("job_id", child->run->row.id),
           CK_LOG_TEXT("text", child->stderr_text));
}

/* ---- handles ---- */

static void child_free(struct ck_child *child) {
    for (size_t i = 0; i < child->n_outputs; i++)
        ck_data_dir_discard(TAKE_FD(child->outputs[i]));
    ck_data_dir_discard(child->scratch);
    ck_event_release(&child->verdict);
    ck_buffer_release(&child->order);
    free(child);
}

static void on_closed(uv_handle_t *handle) {
    struct ck_child *child = handle->data;
    struct ck_run *run = child->run;
    void (*ended)(struct ck_run *, void *) = child->ended;
    void *ctx = child->ctx;

    if (--child->open_handles > 0)
        return;
    child_free(child);
    if (ended)
        ended(run, ctx);
}

static void close_handle(struct ck_child *child, uv_handle_t *handle) {
    handle->data = child;
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void close_all(struct ck_child *child) {
    close_handle(child, (uv_handle_t *)&child->process);
    close_handle(child, (uv_handle_t *)&child->in);
    close_handle(child, (uv_handle_t *)&child->out);
    close_handle(child, (uv_handle_t *)&child->err);
    close_handle(child, (uv_handle_t *)&child->silence);
}

/* The outcome is known when the process has ended and everything that it wrote was read. */
static void judge_when_over(struct ck_child *child) {
    struct ck_run *run = child->run;

    if (!child->exited || !child->out_closed || !child->err_closed || child->judged)
        return;
    child->judged = true;
    if (judge(child, &run->err) == 0 || has_report(child))
        hand_over(child, run);
    log_stderr(child);
    if (run->err.code == CK_E_WORKER_CRASHED)
        CK_LOG(WARNING, "worker crashed", CK_LOG_TEXT("job_id", run->row.id), CK_LOG_TEXT("detail", run->err.message));
    close_all(child);
}

void ck_child_kill(struct ck_child *child, int code, const char *message) {
    ck_error_set(&child->killed_for, code, NULL, "%s", message);
    if (!child->exited)
        uv_process_kill(&child->process, SIGKILL);
}

/* ---- what the process does ---- */

static void on_ended(uv_process_t *process, int64_t exit_status, int term_signal) {
    struct ck_child *child = process->data;

    child->exited = true;
    child->exit_status = exit_status;
    child->term_signal = term_signal;
    uv_timer_stop(&child->silence);
    judge_when_over(child);
}

static void on_silence(uv_timer_t *timer) {
    struct ck_child *child = timer->data;
    char message[128];

    /* A daemon that was stopped itself, or with its whole container, has not listened: what was said meanwhile is read
     * before it is called silence. */
    if (!child->last_call) {
        child->last_call = true;
        uv_timer_start(timer, on_silence, LAST_CALL_MS, child->settings->worker_silence * 1000);
        return;
    }
    snprintf(message, sizeof(message), "the worker process reported no progress for %llu s (--worker-silence)",
             (unsigned long long)child->settings->worker_silence);
    ck_child_kill(child, CK_E_WORKER_TIMEOUT, message);
}

static void on_order_written(uv_write_t *write, _unused_ int status) {
    struct ck_child *child = write->data;

    close_handle(child, (uv_handle_t *)&child->in);
}

static void take_line(struct ck_child *child, const char *line, size_t n) {
    struct ck_event event;
    struct ck_error err = {0};

    if (ck_event_read(line, n, child->n_outputs, &event, &err) < 0 ||
        (event.kind != CK_EVENT_PROGRESS && child->has_verdict)) {
        if (err.code == 0)
            ck_event_release(&event);
        ck_child_kill(child, CK_E_WORKER_CRASHED, "the worker process said something that no worker says");
        return;
    }
    child->last_call = false;
    uv_timer_again(&child->silence);
    if (event.kind == CK_EVENT_PROGRESS) {
        ck_scheduler_progress(child->run, event.stage, event.done, event.total);
        return;
    }
    child->has_verdict = true;
    child->verdict = event;
}

static void take_lines(struct ck_child *child) {
    size_t start = 0;
    char *newline;

    while (child->killed_for.code == 0 &&
           (newline = memchr(child->line + start, '\n', child->line_used - start)) != NULL) {
        size_t end = (size_t)(newline - child->line);

        take_line(child, child->line + start, end - start);
        start = end + 1;
    }
    child->line_used -= start;
    memmove(child->line, child->line + start, child->line_used);
    if (child->line_used == sizeof(child->line)) {
        ck_child_kill(child, CK_E_WORKER_CRASHED, "the worker process wrote a line that is too long");
        child->line_used = 0;
    }
}

static void give_line_room(uv_handle_t *handle, _unused_ size_t suggested, uv_buf_t *buffer) {
    struct ck_child *child = handle->data;

    *buffer = uv_buf_init(child->line + child->line_used, (unsigned)(sizeof(child->line) - child->line_used));
}

static void on_out(uv_stream_t *stream, ssize_t n, _unused_ const uv_buf_t *buffer) {
    struct ck_child *child = stream->data;

    if (n < 0) {
        child->out_closed = true;
        uv_read_stop(stream);
        judge_when_over(child);
        return;
    }
    child->line_used += (size_t)n;
    if (child->killed_for.code)
        child->line_used = 0; /* nobody listens any more, but the pipe must be emptied */
    take_lines(child);
}

/* The first bytes are kept, the rest is read and dropped. */
static void give_stderr_room(uv_handle_t *handle, _unused_ size_t suggested, uv_buf_t *buffer) {
    static char dropped[4096];
    struct ck_child *child = handle->data;
    size_t room = sizeof(child->stderr_text) - child->stderr_used;

    *buffer = room > 0 ? uv_buf_init(child->stderr_text + child->stderr_used, (unsigned)room)
                       : uv_buf_init(dropped, sizeof(dropped));
}

static void on_err(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
    struct ck_child *child = stream->data;

    if (n < 0) {
        child->err_closed = true;
        uv_read_stop(stream);
        judge_when_over(child);
        return;
    }
    if (buffer->base == child->stderr_text + child->stderr_used)
        child->stderr_used += (size_t)n;
}

/* ---- the start ---- */

static size_t outputs_for(const struct ck_run *run, const struct ck_settings *settings) {
    uint64_t bytes, files;

    if (!ck_mul_u64(run->row.inputs[0].bytes, settings->limits.output_ratio, &bytes) ||
        !ck_add_u64(bytes, 64 * CK_MIB, &bytes))
        return CK_WORKER_OUTPUTS_MAX;
    files = bytes / CK_MAX(run->spec.max_shard_bytes, 1u) + 3;
    return (size_t)CK_MIN(files, (uint64_t)CK_WORKER_OUTPUTS_MAX);
}

static int make_outputs(struct ck_child *child, const struct ck_data_dir *data, struct ck_error *err) {
    size_t n = outputs_for(child->run, child->settings);

    for (; child->n_outputs < n; child->n_outputs++) {
        int r = ck_data_dir_temporary(data, &child->outputs[child->n_outputs], err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int write_order(struct ck_child *child, struct ck_error *err) {
    struct ck_order order = {
        .spec = &child->run->spec,
        .input_name = child->run->row.inputs[0].name,
        .limits = child->settings->limits,
        .memory = child->run->memory,
        .cpu = child->settings->worker_cpu,
        .threads = child->settings->threads,
        .outputs = child->n_outputs,
    };

    snprintf(order.job, sizeof(order.job), "%s", child->run->row.id);
    ck_buffer_init(&child->order, CK_ORDER_MAX);
    return ck_order_write(&order, &child->order, err);
}

/* A worker inherits nothing but what sanitizers, loaders and the tests' faults need. */
static size_t make_environment(char **environment, size_t room) {
    static const char *const passed[] = {
        "CKPTD_WORKER_FAULT=", "LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", "LSAN_OPTIONS="};
    size_t n = 0;

    for (char **entry = environ; *entry && n + 1 < room; entry++)
        for (size_t i = 0; i < CK_ARRAY_LEN(passed); i++)
            if (strncmp(*entry, passed[i], strlen(passed[i])) == 0 && n + 1 < room)
                environment[n++] = *entry;
    environment[n] = NULL;
    return n;
}

static int spawn(struct ck_child *child, uv_loop_t *loop, struct ck_error *err) {
    static char name[] = "ckptd", command[] = "worker";
    char *arguments[] = {name, command, NULL}, *environment[16];
    uv_stdio_container_t stdio[CK_WORKER_FD_OUTPUT + CK_WORKER_OUTPUTS_MAX];
    uv_process_options_t options = {
        .file = "/proc/self/exe",
        .args = arguments,
        .env = environment,
        .exit_cb = on_ended,
        .stdio = stdio,
        .stdio_count = CK_WORKER_FD_OUTPUT + (int)child->n_outputs,
    };
    int r;

    make_environment(environment, CK_ARRAY_LEN(environment));
    stdio[0].flags = UV_CREATE_PIPE | UV_READABLE_PIPE;
    stdio[0].data.stream = (uv_stream_t *)&child->in;
    stdio[1].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
    stdio[1].data.stream = (uv_stream_t *)&child->out;
    stdio[2].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
    stdio[2].data.stream = (uv_stream_t *)&child->err;
    stdio[CK_WORKER_FD_INPUT].flags = UV_INHERIT_FD;
    stdio[CK_WORKER_FD_INPUT].data.fd = child->run->input_fd;
    stdio[CK_WORKER_FD_SCRATCH].flags = UV_INHERIT_FD;
    stdio[CK_WORKER_FD_SCRATCH].data.fd = child->scratch;
    for (size_t i = 0; i < child->n_outputs; i++) {
        stdio[CK_WORKER_FD_OUTPUT + i].flags = UV_INHERIT_FD;
        stdio[CK_WORKER_FD_OUTPUT + i].data.fd = child->outputs[i];
    }
    r = uv_spawn(loop, &child->process, &options);
    if (r < 0)
        return ck_error_set_errno(err, -r, NULL, "start a worker process");
    return 0;
}

static void open_handles(struct ck_child *child, uv_loop_t *loop) {
    uv_pipe_init(loop, &child->in, 0);
    uv_pipe_init(loop, &child->out, 0);
    uv_pipe_init(loop, &child->err, 0);
    uv_timer_init(loop, &child->silence);
    child->open_handles = 5; /* with the process */
    child->in.data = child->out.data = child->err.data = child->silence.data = child->process.data = child;
    child->write.data = child;
}

int ck_child_start(uv_loop_t *loop, const struct ck_settings *settings, const struct ck_data_dir *data,
                   struct ck_run *run, void (*ended)(struct ck_run *run, void *ctx), void *ctx, struct ck_error *err) {
    struct ck_child *child = calloc(1, sizeof(*child));
    uv_buf_t order;
    int r;

    if (!child)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for a worker process");
    child->run = run;
    child->settings = settings;
    child->scratch = -1;
    r = ck_data_dir_temporary(data, &child->scratch, err);
    if (r == 0)
        r = make_outputs(child, data, err);
    if (r == 0)
        r = write_order(child, err);
    if (r < 0) {
        child_free(child);
        return r;
    }
    open_handles(child, loop);
    r = spawn(child, loop, err);
    if (r < 0) {
        close_all(child); /* ended is still NULL: the last handle frees the child and tells nobody */
        return r;
    }
    child->ended = ended;
    child->ctx = ctx;
    run->child = child;
    uv_timer_start(&child->silence, on_silence, settings->worker_silence * 1000, settings->worker_silence * 1000);
    uv_read_start((uv_stream_t *)&child->out, give_line_room, on_out);
    uv_read_start((uv_stream_t *)&child->err, give_stderr_room, on_err);
    order = uv_buf_init(child->order.data, (unsigned)child->order.length);
    r = uv_write(&child->write, (uv_stream_t *)&child->in, &order, 1, on_order_written);
    if (r < 0)
        ck_child_kill(child, CK_E_IO, "the order could not be given to the worker process");
    return 0;
}
