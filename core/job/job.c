#include "core/job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "core/job/analysis.h"
#include "core/job/report.h"
#include "core/job/target.h"
#include "core/output/safetensors_write.h"
#include "core/tensor/execute.h"

struct run {
    const struct ck_spec *spec;
    const struct ck_limits *limits;
    struct ck_pool *pool;
    const struct ck_progress *progress;
    const struct ck_job_sink *sink;
    struct ck_scratch scratch;
    struct ck_model *model;
    struct ck_plan plan;
    struct ck_out_file *files;
    struct ck_task *tasks;
    uint32_t n_tasks;
    struct ck_job_result result;
};

static void run_release(struct run *run) {
    ck_plan_release(&run->plan);
    ck_model_free(run->model);
    free(run->files);
    free(run->tasks);
    ck_job_result_release(&run->result);
}

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
}

static int read_model(struct run *run, const struct ck_job_input *input, struct ck_error *err) {
    struct ck_model_options options = {.scratch = run->sink->scratch_fd >= 0 ? &run->scratch : NULL};
    struct ck_source source;
    int r;

    ck_progress_report(run->progress, CK_STAGE_read, 0, 0);
    if (ck_spec_get(run->spec, "state_dict")[0])
        options.state_dict = ck_spec_get(run->spec, "state_dict");
    if (ck_spec_get(run->spec, "member")[0])
        options.member = ck_spec_get(run->spec, "member");
    r = ck_source_from_fd(input->fd, &source, err);
    if (r < 0)
        return r;
    r = ck_model_open(&source, run->limits, &options, &run->model, err);
    if (r == CK_E_NO_TENSORS && run->model && ck_findings_count(&run->model->findings, CK_FINDING_DANGEROUS) > 0)
        ck_error_set_hint(err, "do not load this file: its pickle names what runs code or reaches the system (see "
                               "findings in report.json)");
    return r;
}

static int make_plan(struct run *run, struct ck_error *err) {
    ck_progress_report(run->progress, CK_STAGE_plan, 0, 0);
    return ck_target_plan(&run->plan, run->model, run->spec, run->limits, err);
}

/* Blocks are reserved first: the disk is found full before any work, and tiles are written faster. */
static int preallocate(int fd, const char *name, uint64_t bytes, struct ck_error *err) {
    if (bytes == 0 || fallocate(fd, 0, 0, (off_t)bytes) == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return ck_error_set_errno(err, errno, name, "reserve space for the result");
    if (ftruncate(fd, (off_t)bytes) < 0)
        return ck_error_set_errno(err, errno, name, "set the size of the result");
    return 0;
}

static int add_result_file(struct run *run, const char *name, uint64_t bytes, uint32_t crc32_value,
                           struct ck_error *err) {
    struct ck_job_file *files = realloc(run->result.files, (run->result.n_files + 1) * sizeof(*files));

    if (!files)
        return no_memory(err);
    run->result.files = files;
    files[run->result.n_files] = (struct ck_job_file){.bytes = bytes, .crc32 = crc32_value};
    snprintf(files[run->result.n_files].name, sizeof(files->name), "%s", name);
    run->result.n_files++;
    return 0;
}

static int create_files(struct run *run, struct ck_error *err) {
    run->files = calloc((size_t)run->plan.n_files + 1, sizeof(*run->files));
    if (!run->files)
        return no_memory(err);
    for (uint32_t i = 0; i < run->plan.n_files; i++) {
        const struct ck_plan_file *file = &run->plan.files[i];
        int r = run->sink->create(run->sink->ctx, file->name, &run->files[i].fd, err);

        if (r < 0)
            return r;
        run->files[i].bytes = file->bytes;
        r = preallocate(run->files[i].fd, file->name, file->bytes, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static struct ck_channel_values channel_values(const struct ck_model *model, const struct ck_view *view,
                                               uint32_t index) {
    const struct ck_storage *storage = &model->storages[index];

    return (struct ck_channel_values){storage->source, storage->swap, view->dtype, view->offset};
}

static struct ck_dequantize make_dequantize(const struct ck_model *model, const struct ck_plan_item *item) {
    const struct ck_quantizer *q = item->quantizer;
    struct ck_dequantize dequantize = {.scheme = CK_QSCHEME_NONE};

    if (!q)
        return dequantize;
    dequantize.scheme = q->scheme;
    dequantize.scale = q->scale;
    dequantize.zero_point = q->zero_point;
    if (q->scheme == CK_QSCHEME_TENSOR)
        return dequantize;
    dequantize.scales = channel_values(model, &q->scales, q->scales_storage);
    dequantize.zero_points = channel_values(model, &q->zero_points, q->zero_points_storage);
    dequantize.channel = item->channel;
    return dequantize;
}

/* The storage that an item's view lies in, or NULL: it has no bytes at all. */
static const struct ck_storage *storage_of(const struct run *run, const struct ck_plan_item *item) {
    uint32_t index = run->model->tensors[item->source].storage;

    if (item->storage)
        return item->storage;
    return index == CK_NO_INDEX ? NULL : &run->model->storages[index];
}

static bool has_task(const struct run *run, const struct ck_plan_item *item) {
    return storage_of(run, item) && ck_view_numel(&item->view) > 0;
}

static void make_task(const struct run *run, const struct ck_plan_item *item, struct ck_task *task) {
    const struct ck_storage *storage = storage_of(run, item);

    *task = (struct ck_task){
        .storage = storage->source,
        .swap = storage->swap,
        .view = item->view,
        .dequantize = make_dequantize(run->model, item),
        .conj = item->conj,
        .neg = item->neg,
        .dtype = item->dtype,
        .affine = item->affine,
        .out = {item->out[0].file, item->out[0].offset},
        .name = run->model->tensors[item->source].name,
    };
    if (item->affine.bits > 0) {
        task->scales = (struct ck_place){item->out[1].file, item->out[1].offset};
        task->biases = (struct ck_place){item->out[2].file, item->out[2].offset};
    }
}

static int make_tasks(struct run *run, struct ck_error *err) {
    run->tasks = calloc((size_t)run->plan.n_items + 1, sizeof(*run->tasks));
    if (!run->tasks)
        return no_memory(err);
    for (uint32_t i = 0; i < run->plan.n_items; i++)
        if (has_task(run, &run->plan.items[i]))
            make_task(run, &run->plan.items[i], &run->tasks[run->n_tasks++]);
    return 0;
}

static int write_files(struct run *run, struct ck_execution *execution, struct ck_error *err) {
    int r;

    for (uint32_t i = 0; i < run->plan.n_files; i++) {
        r = ck_execution_write(execution, (struct ck_place){i, 0}, run->plan.files[i].header,
                               run->plan.files[i].header_bytes, err);
        if (r < 0)
            return r;
    }
    r = ck_execute(execution, run->tasks, run->n_tasks, run->pool, run->progress, err);
    if (r < 0)
        return r;
    return ck_execution_crc(execution, err);
}

static int verify_files(const struct run *run, struct ck_error *err) {
    ck_progress_report(run->progress, CK_STAGE_verify, 0, 0);
    for (uint32_t i = 0; i < run->plan.n_files; i++) {
        int r = ck_safetensors_verify(&run->plan, i, run->files[i].fd, err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* What the tiles counted goes back into the plan, for the report. */
static void collect_outcome(struct run *run) {
    uint32_t task = 0;

    for (uint32_t i = 0; i < run->plan.n_items; i++) {
        struct ck_plan_item *item = &run->plan.items[i];

        if (!has_task(run, item))
            continue;
        item->overflowed = run->tasks[task].overflowed;
        item->non_finite_groups = run->tasks[task].non_finite_groups;
        run->result.overflowed += item->overflowed;
        if (item->overflowed > 0)
            ck_plan_add_warning(&run->plan, "%llu values of '%.200s' became infinite as %s",
                                (unsigned long long)item->overflowed, item->out[0].name,
                                ck_dtype_row(item->dtype)->torch);
        if (item->non_finite_groups > 0)
            ck_plan_add_warning(&run->plan, "%llu quantized groups of '%.200s' hold a NaN or an infinity",
                                (unsigned long long)item->non_finite_groups, item->out[0].name);
        task++;
    }
}

static void count_plan(struct run *run) {
    for (uint32_t i = 0; i < run->plan.n_items; i++)
        run->result.tensors += run->plan.items[i].n_out;
    run->result.assumed = run->plan.assumed;
    run->result.dropped = run->plan.n_dropped;
    run->result.aliases = run->plan.n_aliases;
}

static int write_model(struct run *run, struct ck_error *err) {
    _cleanup_(ck_execution_release) struct ck_execution execution = {0};
    int r;

    r = create_files(run, err);
    if (r < 0)
        return r;
    r = make_tasks(run, err);
    if (r < 0)
        return r;
    ck_execution_init(&execution, run->files, run->plan.n_files);
    r = write_files(run, &execution, err);
    if (r < 0)
        return r;
    r = verify_files(run, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < run->plan.n_files; i++) {
        r = add_result_file(run, run->plan.files[i].name, run->files[i].bytes, run->files[i].crc32, err);
        if (r < 0)
            return r;
    }
    collect_outcome(run);
    return 0;
}

/* ---- documents: the JSON files of a result ---- */

struct document {
    const char *name;
    int fd;
    uint64_t bytes;
    uLong crc;
    struct ck_json json;
};

static int document_bytes(void *ctx, const char *bytes, size_t n, struct ck_error *err) {
    struct document *document = ctx;

    document->bytes += n;
    document->crc = crc32_z(document->crc, (const Bytef *)bytes, n);
    return ck_json_sink_fd(&document->fd, bytes, n, err);
}

static int document_begin(const struct run *run, const char *name, struct document *document, struct ck_error *err) {
    document->name = name;
    document->bytes = 0;
    document->crc = crc32_z(0, NULL, 0);
    ck_json_init(&document->json, document_bytes, document, err);
    return run->sink->create(run->sink->ctx, name, &document->fd, err);
}

static int document_end(struct run *run, struct document *document, struct ck_error *err) {
    int r = ck_json_finish(&document->json);

    if (r < 0)
        return r;
    return add_result_file(run, document->name, document->bytes, (uint32_t)document->crc, err);
}

static int write_report(struct run *run, const char *name, const struct ck_error *refusal, struct ck_error *err) {
    struct document document;
    int r;

    r = document_begin(run, name, &document, err);
    if (r < 0)
        return r;
    ck_report_write(&document.json, run->spec, run->model, &run->plan, refusal);
    return document_end(run, &document, err);
}

/* ---- the kinds of jobs, once the model is read ---- */

static int convert(struct run *run, struct ck_error *err) {
    int r;

    r = make_plan(run, err);
    if (r < 0)
        return r;
    r = write_model(run, err);
    if (r < 0)
        return r;
    count_plan(run);
    return write_report(run, "report.json", NULL, err);
}

/* The plan is the answer, also one that refuses. */
static int dry_run(struct run *run, struct ck_error *err) {
    struct ck_error refusal = {0};
    int r;

    r = make_plan(run, &refusal);
    if (r < 0 && !ck_is_refusal(r)) {
        *err = refusal;
        return r;
    }
    count_plan(run);
    return write_report(run, "plan.json", r < 0 ? &refusal : NULL, err);
}

static int analyze(struct run *run, struct ck_error *err) {
    struct document document;
    int r;

    ck_progress_report(run->progress, CK_STAGE_plan, 0, 0);
    r = document_begin(run, "analysis.json", &document, err);
    if (r < 0)
        return r;
    r = ck_analysis_write(&document.json, run->spec, run->model, run->limits, run->progress, err);
    if (r < 0)
        return r;
    return document_end(run, &document, err);
}

static int run_kind(struct run *run, const struct ck_job_input *input, struct ck_error *err) {
    int r;

    r = read_model(run, input, err);
    if (r < 0)
        return r;
    if (run->spec->kind == CK_JOB_ANALYZE)
        return analyze(run, err);
    return run->spec->dry_run ? dry_run(run, err) : convert(run, err);
}

int ck_job_run(const struct ck_spec *spec, const struct ck_job_input *inputs, size_t n_inputs,
               const struct ck_limits *limits, struct ck_pool *pool, const struct ck_progress *progress,
               const struct ck_job_sink *sink, struct ck_job_result *ret_result, struct ck_error *err) {
    _cleanup_(run_release) struct run run = {
        .spec = spec,
        .limits = limits,
        .pool = pool,
        .progress = progress,
        .sink = sink,
        .scratch = {.fd = sink->scratch_fd, .limit = limits->unpacked_bytes},
    };
    struct ck_error own = {0};
    int r;

    if (n_inputs != 1)
        return ck_error_set(err, CK_E_BAD_REQUEST, NULL, "one input file is converted, not %zu", n_inputs);
    if (!err)
        err = &own;
    r = run_kind(&run, &inputs[0], err);
    if (r < 0 && (!ck_is_refusal(r) || run.result.n_files > 0))
        return r;
    /* The refusal is what the caller must hear, whatever becomes of its report. */
    if (r < 0 && write_report(&run, "report.json", err, NULL) < 0)
        return r;
    *ret_result = run.result;
    run.result = (struct ck_job_result){0};
    return r;
}

void ck_job_result_release(struct ck_job_result *result) {
    free(result->files);
    *result = (struct ck_job_result){0};
}
