/* tensor/execute.h: the tiled executor. It turns one list of tasks into bytes at fixed offsets of the output files.
 *
 * A task reads one view of one storage and writes its elements densely, in the order of the view's shape, after an
 * optional byte swap, dequantization, sign change, cast and affine quantization, in this order. Every layout rule (permute, split, grouped transposed convolution)
 * is a view with other strides, so the executor knows nothing of layers.
 *
 * Work is cut into tiles of about CK_TILE_BYTES of output that lie contiguously in the file; threads take tiles until
 * none is left. Reads are pread, writes are pwrite. Memory per thread: at most CK_TILE_MEMORY, whatever the view (a
 * view whose rows lie far apart is gathered run by run; overlapping and broadcast strides are legal). */
#ifndef CK_TENSOR_EXECUTE_H
#define CK_TENSOR_EXECUTE_H

#include "core/base/pool.h"
#include "core/base/progress.h"
#include "core/base/source.h"
#include "core/tensor/affine.h"
#include "core/tensor/dequantize.h"

#define CK_TILE_BYTES  ((size_t)1 << 20)
#define CK_TILE_MEMORY ((size_t)8 << 20)

struct ck_place {
    uint32_t file;   /* index into the files of the run */
    uint64_t offset; /* of the first byte */
};

struct ck_task {
    struct ck_source storage;       /* the bytes of the whole storage; already checked with ck_view_check() */
    bool swap;                      /* the storage is big endian */
    struct ck_view view;            /* source dtype; shape in output order, strides into the storage */
    struct ck_dequantize dequantize; /* scheme CK_QSCHEME_NONE: none; otherwise the view's dtype is a quantized one, a packed one's
                                        view is contiguous from element 0, and the cast is from F32 */
    bool conj, neg;                 /* bits to resolve: conj of complex numbers, neg of what ck_can_negate() takes */
    enum ck_dtype dtype;            /* output dtype (before quantization); equal to the view's, or both real */
    struct ck_affine affine;        /* bits 0: no quantization; otherwise shape[rank-1] is a multiple of group */
    struct ck_place out;            /* elements, or codes */
    struct ck_place scales, biases; /* only with affine */
    const char *name;               /* for errors, borrowed */
    /* filled by ck_execute() */
    uint64_t overflowed;        /* finite values that the cast made infinite */
    uint64_t non_finite_groups; /* quantized groups that held a NaN or an infinity */
};

/* One output file. Bytes that no task writes (the header) are the caller's; CRC-32 of every written tile is kept. */
struct ck_out_file {
    int fd;         /* borrowed, open for reading and writing, already of its final size */
    uint64_t bytes; /* its final size */
    uint32_t crc32; /* of the whole file; filled by ck_execution_crc() */
};

struct ck_crc_run; /* one written range with its CRC */

struct ck_execution {
    struct ck_out_file *files; /* borrowed */
    size_t n_files;
    struct ck_crc_run *runs; /* owned */
    size_t n_runs, runs_capacity;
};

/* files is borrowed until ck_execution_release(). */
void ck_execution_init(struct ck_execution *execution, struct ck_out_file *files, size_t n_files);

/* Writes bytes that are no tensor (header, index) and notes their CRC. */
int ck_execution_write(struct ck_execution *execution, struct ck_place place, const void *bytes, size_t n,
                       struct ck_error *err);

/* Runs all tasks; reports stage `write` with output bytes; ends early with CK_E_CANCELLED. Returns 0 or the first
 * error, whose where is the task's name. */
int ck_execute(struct ck_execution *execution, struct ck_task *tasks, size_t n_tasks, struct ck_pool *pool,
               const struct ck_progress *progress, struct ck_error *err);

/* Joins the CRCs of all ranges into files[].crc32. CK_E_INTERNAL if the ranges of a file do not cover it exactly: that
 * is a planner's bug, and the last line of defence against a hole in an output file. */
int ck_execution_crc(struct ck_execution *execution, struct ck_error *err);

void ck_execution_release(struct ck_execution *execution);

#endif
