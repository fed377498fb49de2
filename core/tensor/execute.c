#include "core/tensor/execute.h"

#include "core/tensor/bytes.h"
#include "core/tensor/cast.h"
#include "core/tensor/gather.h"

#include <errno.h>
#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define PROGRESS_STEP ((uint64_t)16 << 20)

_Static_assert(2 * CK_TILE_BUFFER <= CK_TILE_MEMORY, "a thread has two buffers");

/* One range of an output file that is written by one task or one call. CRCs are linear: the CRC-32 of the range is the
 * exclusive or of its pieces' CRCs, each moved (crc32_combine with 0) over the bytes behind it; so the order of writing
 * does not matter and nothing is kept for each piece. */
struct ck_crc_run {
    uint32_t file, crc;
    uint64_t offset, length, written;
};

void ck_execution_init(struct ck_execution *execution, struct ck_out_file *files, size_t n_files) {
    *execution = (struct ck_execution){.files = files, .n_files = n_files};
}

void ck_execution_release(struct ck_execution *execution) {
    free(execution->runs);
    *execution = (struct ck_execution){0};
}

static int reserve_runs(struct ck_execution *execution, size_t more, struct ck_error *err) {
    size_t need = execution->n_runs + more, capacity = CK_MAX(need, execution->runs_capacity * 2);
    struct ck_crc_run *runs;

    if (need <= execution->runs_capacity)
        return 0;
    runs = reallocarray(execution->runs, capacity, sizeof(*runs));
    if (!runs)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the checksums of %zu tensors", need);
    execution->runs = runs;
    execution->runs_capacity = capacity;
    return 0;
}

static bool place_is_inside(const struct ck_execution *execution, struct ck_place place, uint64_t bytes) {
    return place.file < execution->n_files && place.offset <= execution->files[place.file].bytes &&
           bytes <= execution->files[place.file].bytes - place.offset;
}

static int write_all(int fd, uint64_t offset, const void *bytes, size_t n, struct ck_error *err) {
    const char *next = bytes;

    while (n > 0) {
        ssize_t done = pwrite(fd, next, n, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return ck_error_set_errno(err, done < 0 ? errno : EIO, NULL, "write the output");
        next += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

int ck_execution_write(struct ck_execution *execution, struct ck_place place, const void *bytes, size_t n,
                       struct ck_error *err) {
    int r;

    if (!place_is_inside(execution, place, n))
        return ck_error_set(err, CK_E_INTERNAL, NULL, "bytes were planned outside of an output file");
    r = reserve_runs(execution, 1, err);
    if (r < 0)
        return r;
    r = write_all(execution->files[place.file].fd, place.offset, bytes, n, err);
    if (r < 0)
        return r;
    execution->runs[execution->n_runs++] = (struct ck_crc_run){
        .file = place.file,
        .crc = libdeflate_crc32(0, bytes, n),
        .offset = place.offset,
        .length = n,
        .written = n,
    };
    return 0;
}

/* The bytes of the outputs of a task: elements or codes, scales, biases. */
struct outputs {
    unsigned count; /* 1 or 3 */
    struct ck_place places[3];
    uint64_t bytes[3];
};

/* What `elements` elements (whole groups, if quantized) become in output `part`. */
static uint64_t part_bytes(const struct ck_task *task, unsigned part, uint64_t elements) {
    uint64_t size = ck_dtype_row(task->dtype)->size;

    if (task->affine.bits == 0)
        return elements * size;
    return part == 0 ? elements / 8 * task->affine.bits : elements / task->affine.group * size;
}

static struct outputs outputs_of(const struct ck_task *task) {
    struct outputs outputs = {
        .count = task->affine.bits ? 3 : 1,
        .places = {task->out, task->scales, task->biases},
    };

    for (unsigned i = 0; i < outputs.count; i++)
        outputs.bytes[i] = part_bytes(task, i, ck_view_numel(&task->view));
    return outputs;
}

static bool affine_fits(const struct ck_task *task) {
    struct ck_affine affine = task->affine;
    bool known = (affine.bits >= 2 && affine.bits <= 6) || affine.bits == 8;

    return known && (affine.group == 32 || affine.group == 64 || affine.group == 128) &&
           ck_dtype_is_real(task->dtype) && task->dtype != CK_F64 && task->view.rank > 0 &&
           task->view.shape[task->view.rank - 1] % affine.group == 0;
}

/* What the cast begins with. */
static enum ck_dtype dtype_read(const struct ck_task *task) {
    return task->dequantize.scheme == CK_QSCHEME_NONE ? task->view.dtype : CK_F32;
}

static bool packed_fits(const struct ck_task *task) {
    return ck_dtype_row(task->view.dtype)->per == 1 ||
           (task->dequantize.scheme != CK_QSCHEME_NONE && task->view.offset == 0 && ck_view_is_contiguous(&task->view));
}

/* The planner has checked all of this; a mistake of its must not become a write to a wrong place. */
static int check_task(const struct ck_execution *execution, const struct ck_task *task, struct ck_error *err) {
    bool cast = task->dtype != dtype_read(task);
    struct outputs outputs;
    int r;

    if (!packed_fits(task))
        return ck_error_set(err, CK_E_UNSUPPORTED_DTYPE, task->name, "tensors of dtype %s are not converted",
                            ck_dtype_row(task->view.dtype)->torch);
    if (task->dequantize.scheme != CK_QSCHEME_NONE && !ck_dequantize_fits(&task->dequantize, task->view.dtype))
        return ck_error_set(err, CK_E_UNSUPPORTED_TENSOR, task->name,
                            "it has scales for more than %u channels along an inner dimension", CK_CHANNELS_MAX);
    if (cast && !(ck_dtype_is_real(task->dtype) && ck_dtype_is_real(dtype_read(task))))
        return ck_error_set(err, CK_E_INTERNAL, task->name, "a cast was planned that does not exist");
    if ((task->neg && !ck_can_negate(dtype_read(task))) ||
        (task->conj && ck_dtype_row(dtype_read(task))->kind != CK_COMPLEX))
        return ck_error_set(err, CK_E_INTERNAL, task->name, "a change of signs was planned that does not exist");
    if (task->affine.bits != 0 && !affine_fits(task))
        return ck_error_set(err, CK_E_INTERNAL, task->name, "a quantization was planned that does not exist");
    r = ck_view_check(&task->view, task->storage.length, task->name, err);
    if (r < 0)
        return r;
    outputs = outputs_of(task);
    for (unsigned i = 0; i < outputs.count; i++)
        if (!place_is_inside(execution, outputs.places[i], outputs.bytes[i]))
            return ck_error_set(err, CK_E_INTERNAL, task->name, "the tensor was planned outside of its output file");
    return 0;
}

/* What all threads share. */
struct run {
    struct ck_execution *execution;
    struct ck_task *tasks;
    size_t n_tasks;
    const struct ck_progress *progress;
    atomic_bool stop; /* a thread failed: the others end with the tile that they have */

    pthread_mutex_t cursor_lock;
    size_t next_task;
    size_t next_run; /* of that task */
    uint64_t next_tile;
    struct ck_tiling tiling; /* of that task */

    pthread_mutex_t progress_lock;
    uint64_t done, reported, total;
};

/* What one thread works with. */
struct worker {
    struct run *run;
    struct ck_error *err;
    size_t task_index, run_index;
    struct ck_task *task;
    struct outputs outputs;
    uint64_t tile;
    struct ck_tiling tiling;
    struct ck_box box;
    char *buffers[2];            /* CK_TILE_BUFFER bytes each; the stages of a tile go back and forth between them */
    struct ck_channels channels; /* of the task */
};

static void tile_task(struct run *run) {
    const struct ck_task *task = &run->tasks[run->next_task];
    size_t size = CK_MAX(ck_dtype_row(task->dtype)->size, ck_dtype_row(dtype_read(task))->size);

    ck_tiling_init(&run->tiling, &task->view, size, task->affine.bits ? task->affine.group : 1);
    run->next_tile = 0;
}

/* Takes the next tile of the run; false if there is none. */
static bool take_tile(struct worker *worker) {
    struct run *run = worker->run;
    bool taken;

    pthread_mutex_lock(&run->cursor_lock);
    while (run->next_task < run->n_tasks && run->next_tile == run->tiling.tiles) {
        run->next_run += run->tasks[run->next_task].affine.bits ? 3 : 1;
        if (++run->next_task < run->n_tasks)
            tile_task(run);
    }
    taken = run->next_task < run->n_tasks;
    if (taken) {
        worker->tile = run->next_tile++;
        if (worker->task_index != run->next_task) {
            worker->task_index = run->next_task;
            worker->run_index = run->next_run;
            worker->tiling = run->tiling;
            worker->channels.count = 0;
        }
    }
    pthread_mutex_unlock(&run->cursor_lock);
    if (taken) {
        worker->task = &run->tasks[worker->task_index];
        worker->outputs = outputs_of(worker->task);
    }
    return taken;
}

static void add_progress(struct run *run, uint64_t bytes) {
    pthread_mutex_lock(&run->progress_lock);
    run->done += bytes;
    if (run->done - run->reported >= PROGRESS_STEP) {
        run->reported = run->done;
        ck_progress_report(run->progress, CK_STAGE_write, run->done, run->total);
    }
    pthread_mutex_unlock(&run->progress_lock);
}

static int gather(struct worker *worker, char *raw, char *dense) {
    const struct ck_task *task = worker->task;
    const struct ck_box *box = &worker->box;

    if (ck_dtype_row(task->view.dtype)->per == 1)
        return ck_gather_box(&task->storage, &worker->tiling, box, raw, dense, worker->err);
    return ck_unpack(&task->storage, task->view.dtype, box->source, (size_t)box->elements, (uint8_t *)raw,
                     (uint8_t *)dense, worker->err);
}

static void swap_pointers(char **a, char **b) {
    char *c = *a;

    *a = *b;
    *b = c;
}

/* Brings the tile to its final bytes. ret_parts: one for each output of the task, in the worker's buffers. */
static int make_tile(struct worker *worker, const char **ret_parts) {
    const struct ck_box *box = &worker->box;
    struct ck_task *task = worker->task;
    size_t n = (size_t)box->elements, size = ck_dtype_row(task->dtype)->size;
    char *now = worker->buffers[1], *other = worker->buffers[0];
    int r;

    r = gather(worker, other, now);
    if (r < 0)
        return r;
    if (task->swap)
        ck_swap_bytes(now, n * worker->tiling.size, ck_dtype_row(task->view.dtype)->unit);
    if (task->dequantize.scheme != CK_QSCHEME_NONE) {
        r = ck_dequantize_box(&task->dequantize, task->view.dtype, &worker->tiling, box, now, (float *)(void *)other,
                              &worker->channels, worker->err);
        if (r < 0)
            return r;
        swap_pointers(&now, &other);
    }
    if (task->conj)
        ck_conjugate(task->view.dtype, now, n);
    if (task->neg)
        ck_negate(dtype_read(task), now, n);
    if (task->dtype != dtype_read(task)) {
        uint64_t overflowed = ck_cast(dtype_read(task), now, task->dtype, other, n);

        __atomic_fetch_add(&task->overflowed, overflowed, __ATOMIC_RELAXED);
        swap_pointers(&now, &other);
    }
    ret_parts[0] = now;
    if (task->affine.bits) {
        size_t groups = n / task->affine.group;
        char *scales = other + n / 8 * task->affine.bits, *biases = scales + groups * size;
        uint64_t odd = ck_affine_quantize(task->affine, task->dtype, now, groups, other, scales, biases);

        __atomic_fetch_add(&task->non_finite_groups, odd, __ATOMIC_RELAXED);
        ret_parts[0] = other;
        ret_parts[1] = scales;
        ret_parts[2] = biases;
    }
    return 0;
}

/* The CRC of the pieces of one tile, which lie with gaps in one range, as if the rest were zeros that do not count. */
struct crc_fold {
    uint64_t end;  /* of the last piece, in the range */
    uint64_t step; /* that `shift` is for */
    uLong crc, shift;
    bool any;
};

static void crc_fold_add(struct crc_fold *fold, uint64_t offset, const void *bytes, size_t n) {
    uLong crc = libdeflate_crc32(0, bytes, n);

    if (fold->any) {
        uint64_t step = offset + n - fold->end;

        if (step != fold->step) {
            fold->step = step;
            fold->shift = crc32_combine_gen((z_off_t)step);
        }
        crc = crc32_combine_op(fold->crc, crc, fold->shift);
    }
    fold->any = true;
    fold->crc = crc;
    fold->end = offset + n;
}

/* Writes one output of the tile, piece by piece, and adds it to the CRC of its range. */
static int write_part(struct worker *worker, unsigned part, const char *bytes) {
    struct ck_execution *execution = worker->run->execution;
    struct ck_crc_run *range = &execution->runs[worker->run_index + part];
    struct ck_place place = worker->outputs.places[part];
    const struct ck_box *box = &worker->box;
    size_t piece = (size_t)part_bytes(worker->task, part, box->piece);
    struct crc_fold fold = {0};
    int r;

    for (uint64_t i = 0; i < box->pieces; i++, bytes += piece) {
        uint64_t offset = part_bytes(worker->task, part, ck_box_piece_offset(&worker->tiling, box, i));

        r = write_all(execution->files[place.file].fd, place.offset + offset, bytes, piece, worker->err);
        if (r < 0)
            return r;
        crc_fold_add(&fold, offset, bytes, piece);
    }
    __atomic_fetch_xor(&range->crc, (uint32_t)crc32_combine(fold.crc, 0, (z_off_t)(range->length - fold.end)),
                       __ATOMIC_RELAXED);
    __atomic_fetch_add(&range->written, box->pieces * piece, __ATOMIC_RELAXED);
    add_progress(worker->run, box->pieces * piece);
    return 0;
}

static int do_tile(struct worker *worker) {
    const char *parts[3];
    int r;

    ck_tiling_box(&worker->tiling, worker->tile, &worker->box);
    r = make_tile(worker, parts);
    for (unsigned i = 0; r == 0 && i < worker->outputs.count; i++)
        r = write_part(worker, i, parts[i]);
    return r;
}

static int work(void *ctx, _unused_ unsigned thread, struct ck_error *err) {
    _cleanup_(ck_freep) char *buffers = malloc(2 * CK_TILE_BUFFER);
    _cleanup_(ck_freep) struct worker *worker = calloc(1, sizeof(*worker));
    struct run *run = ctx;
    int r = 0;

    if (!buffers || !worker) {
        atomic_store(&run->stop, true);
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for a tile");
    }
    worker->run = run;
    worker->err = err;
    worker->task_index = SIZE_MAX;
    worker->buffers[0] = buffers;
    worker->buffers[1] = buffers + CK_TILE_BUFFER;
    while (r == 0 && !atomic_load(&run->stop)) {
        r = ck_progress_check(run->progress, err);
        if (r < 0 || !take_tile(worker))
            break;
        r = do_tile(worker);
        if (r < 0 && err && err->where[0] == 0 && worker->task->name)
            snprintf(err->where, sizeof(err->where), "%s", worker->task->name);
    }
    if (r < 0)
        atomic_store(&run->stop, true);
    ck_channels_release(&worker->channels);
    return r;
}

/* Checks the tasks, and makes the ranges whose CRCs the threads fill. */
static int prepare(struct run *run, struct ck_error *err) {
    struct ck_execution *execution = run->execution;
    int r;

    for (size_t i = 0; i < run->n_tasks; i++) {
        struct ck_task *task = &run->tasks[i];
        struct outputs outputs;

        r = check_task(execution, task, err);
        if (r < 0)
            return r;
        outputs = outputs_of(task);
        r = reserve_runs(execution, outputs.count, err);
        if (r < 0)
            return r;
        for (unsigned k = 0; k < outputs.count; k++) {
            execution->runs[execution->n_runs++] = (struct ck_crc_run){
                .file = outputs.places[k].file,
                .offset = outputs.places[k].offset,
                .length = outputs.bytes[k],
            };
            run->total += outputs.bytes[k];
        }
        task->overflowed = task->non_finite_groups = 0;
    }
    return 0;
}

int ck_execute(struct ck_execution *execution, struct ck_task *tasks, size_t n_tasks, struct ck_pool *pool,
               const struct ck_progress *progress, struct ck_error *err) {
    struct run run = {
        .execution = execution,
        .tasks = tasks,
        .n_tasks = n_tasks,
        .progress = progress,
        .next_run = execution->n_runs,
        .cursor_lock = PTHREAD_MUTEX_INITIALIZER,
        .progress_lock = PTHREAD_MUTEX_INITIALIZER,
    };
    int r;

    r = prepare(&run, err);
    if (r < 0)
        return r;
    ck_progress_report(progress, CK_STAGE_write, 0, run.total);
    if (n_tasks > 0) {
        tile_task(&run);
        r = ck_pool_run(pool, work, &run, err);
    }
    pthread_mutex_destroy(&run.cursor_lock);
    pthread_mutex_destroy(&run.progress_lock);
    if (r < 0)
        return r;
    ck_progress_report(progress, CK_STAGE_write, run.done, run.total);
    return 0;
}

static int compare_runs(const void *a, const void *b) {
    const struct ck_crc_run *x = a, *y = b;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    /* An empty range comes before the one that begins at the same place. */
    return x->length < y->length ? -1 : x->length > y->length;
}

int ck_execution_crc(struct ck_execution *execution, struct ck_error *err) {
    const struct ck_crc_run *range = execution->runs, *end = range + execution->n_runs;

    if (execution->n_runs > 1)
        qsort(execution->runs, execution->n_runs, sizeof(*execution->runs), compare_runs);
    for (size_t file = 0; file < execution->n_files; file++) {
        uint64_t covered = 0;
        uLong crc = 0;

        for (; range < end && range->file == file; range++) {
            if (range->offset != covered || range->written != range->length)
                break;
            covered += range->length;
            crc = crc32_combine(crc, range->crc, (z_off_t)range->length);
        }
        if ((range < end && range->file == file) || covered != execution->files[file].bytes)
            return ck_error_set(err, CK_E_INTERNAL, NULL,
                                "output file %zu was written to byte %llu of %llu, then with a hole or an overlap",
                                file, (unsigned long long)covered, (unsigned long long)execution->files[file].bytes);
        execution->files[file].crc32 = (uint32_t)crc;
    }
    return 0;
}
