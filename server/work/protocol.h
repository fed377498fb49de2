/* server/work/protocol.h: what the daemon and a worker process say to each other.
 *
 * The daemon writes one order on the worker's stdin, one JSON object on one line:
 *   {"v":1,"job":ID,"spec":{"kind":K,"dry_run":true,"inputs":[{"role":"model","name":N}],"to":T,"quant":Q,
 *    "options":{NAME:TEXT}},
 *    "limits":{"memory":B,"cpu":S,NAME OF core/base/limits.h:N},"threads":N,"outputs":N}
 * kind is a word of CK_JOB_KINDS; an analysis has to and quant "" and no dry_run; dry_run may be left out.
 * The worker answers with lines of at most 64 KiB on its stdout:
 *   {"event":"progress","stage":S,"done":B,"total":B}
 *   {"event":"done","files":[{"name","bytes","crc32"}],"tensors","assumed","dropped","aliases","overflowed"}
 *   {"event":"error","code","where","detail","hint","details":JSON,"files":[..]}   files: the report of a refusal, or none
 * Descriptor 3 is the input, 4 an empty file for what must be unpacked; 5 .. 4 + outputs are the output files, which
 * `files` lists in the order of the descriptors.
 *
 * A worker has read a stranger's file: what it says is checked like a stranger's request. */
#ifndef CK_SERVER_WORK_PROTOCOL_H
#define CK_SERVER_WORK_PROTOCOL_H

#include "core/base/buffer.h"
#include "core/base/progress.h"
#include "core/job/job.h"

#define CK_PROTOCOL_VERSION   1
#define CK_ORDER_MAX          (1u << 20) /* bytes */
#define CK_EVENT_MAX          65536      /* bytes of one line, newline included */
#define CK_WORKER_FD_INPUT    3
#define CK_WORKER_FD_SCRATCH  4
#define CK_WORKER_FD_OUTPUT   5
#define CK_WORKER_OUTPUTS_MAX 128

struct ck_order {
    char job[64];
    const struct ck_spec *spec; /* borrowed when written */
    struct ck_spec spec_memory; /* owned when read; spec points to it */
    const char *input_name;     /* borrowed when written */
    char *input_name_memory;    /* owned when read */
    struct ck_limits limits;
    uint64_t memory, cpu; /* bytes, seconds */
    uint64_t threads, outputs;
};

/* Appends the line, newline included. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_order_write(const struct ck_order *order, struct ck_buffer *buffer, struct ck_error *err);

/* Returns 0, CK_E_INTERNAL if the text is no order (also an analysis with a target, or a dry run of one), the errors of
 * ck_spec_init() and ck_spec_set(). */
int ck_order_read(const char *text, size_t n, struct ck_order *ret_order, struct ck_error *err);

/* Accepts a zeroed order. An order that was read must not be moved: spec points into it. */
void ck_order_release(struct ck_order *order);

enum ck_event_kind { CK_EVENT_PROGRESS, CK_EVENT_DONE, CK_EVENT_ERROR };

struct ck_event {
    enum ck_event_kind kind;
    enum ck_stage stage; /* progress */
    uint64_t done, total;
    struct ck_job_result result; /* done, error; owned, taken with TAKE_PTR(result.files) */
    struct ck_error error;       /* error */
};

/* The worker's side: append one line. Returns 0 or CK_E_OUT_OF_MEMORY (longer than CK_EVENT_MAX). */
int ck_event_write_progress(enum ck_stage stage, uint64_t done, uint64_t total, struct ck_buffer *buffer);
int ck_event_write_done(const struct ck_job_result *result, struct ck_buffer *buffer);
int ck_event_write_error(const struct ck_error *error, const struct ck_job_result *result, struct ck_buffer *buffer);

/* The daemon's side: one line, without its newline. At most `outputs` files are believed, with names of [A-Za-z0-9._-]
 * that are no ".." and differ. Codes must be of the classes that a document or a disk can cause. Returns 0 or
 * CK_E_WORKER_CRASHED. ret_event is at least released by ck_event_release() afterwards. */
int ck_event_read(const char *line, size_t n, size_t outputs, struct ck_event *ret_event, struct ck_error *err);

void ck_event_release(struct ck_event *event);

#endif
