/* A whole conversion of a torch zip whose pickle is arbitrary: every option for odd tensors, both targets. What does
 * not crash must end in a file that ckptd reads again (stage verify), or in a refusal. The bytes are as for fuzz_model.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/job/job.h"
#include "core/job/target.h"
#include "tests/fuzz/check_model.h"
#include "tests/unit/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUT_MAX 65536u

struct outputs {
    int fds[8];
    unsigned n;
};

static int create(void *ctx, _unused_ const char *name, int *ret_fd, struct ck_error *err) {
    struct outputs *outputs = ctx;

    if (outputs->n == CK_ARRAY_LEN(outputs->fds))
        return ck_error_set(err, CK_E_IO, NULL, "too many files");
    *ret_fd = outputs->fds[outputs->n++] = memfd_create("out", 0);
    return 0;
}

/* A view may repeat its elements; what is large is not written here. */
static bool is_small(const struct ck_model *model, const struct ck_spec *spec, const struct ck_limits *limits) {
    _cleanup_(ck_plan_release) struct ck_plan plan = {0};
    struct ck_error err = {0};
    uint64_t bytes = 0;

    if (ck_target_plan(&plan, model, spec, limits, &err) < 0)
        return true;
    for (uint32_t i = 0; i < plan.n_items; i++)
        for (uint32_t k = 0; k < plan.items[i].n_out; k++)
            bytes += plan.items[i].out[k].bytes;
    return bytes <= OUTPUT_MAX;
}

static void convert(const struct ck_spec *spec, const struct ck_limits *limits, struct ck_pool *pool, int fd) {
    struct ck_job_input input = {"model", "model.pt", fd};
    struct ck_job_result result = {0};
    struct outputs outputs = {0};
    struct ck_job_sink sink = {create, &outputs, -1};
    struct ck_progress progress = {0};
    struct ck_error err = {0};
    int r = ck_job_run(spec, &input, 1, limits, pool, &progress, &sink, &result, &err);

    check(r == err.code && r != CK_E_INTERNAL && r != CK_E_VERIFY_FAILED);
    ck_job_result_release(&result);
    for (unsigned i = 0; i < outputs.n; i++)
        close(outputs.fds[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const quantized[] = {"dequantize", "keep"}, *const targets[] = {"safetensors", "mlx"};
    static uint8_t record[256] = {1, 2, 3, 0x80};
    struct ck_limits limits = ck_limits_default;
    struct ck_model_options options = {0};
    struct ck_model *model = NULL;
    static struct ck_pool *pool;
    struct ck_source source;
    struct torch_file f;
    int fd;

    if (!pool)
        check(ck_pool_new(1, &pool, NULL) == 0);
    limits.pickle_opcodes = 20000;
    limits.tensors = 2000;
    limits.model_memory = 16 * CK_MIB;
    tf_init(&f);
    f.pickle.length = 0;
    tf_raw(&f, data, size);
    tf_record(&f, "0", record, sizeof(record));
    tf_record(&f, "1", record, sizeof(record));
    source = tf_finish(&f);
    fd = memfd_create("in", 0);
    check(write(fd, f.zip.data, f.zip.length) == (ssize_t)f.zip.length);
    if (ck_model_open(&source, &limits, &options, &model, NULL) == 0) {
        check_model(model);
        for (unsigned i = 0; i < 4; i++) {
            _cleanup_(ck_spec_release) struct ck_spec spec = {0};

            check(ck_spec_init(&spec, targets[i % 2], i == 1 ? "q4-g32" : NULL, NULL) == 0);
            check(ck_spec_set(&spec, "quantized", quantized[i / 2], NULL) == 0);
            check(ck_spec_set(&spec, "skip_bad", "true", NULL) == 0);
            if (is_small(model, &spec, &limits))
                convert(&spec, &limits, pool, fd);
        }
    }
    ck_model_free(model);
    close(fd);
    tf_release(&f);
    return 0;
}
