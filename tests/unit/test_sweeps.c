/* Two sweeps over one small file of each form. Cut off at every byte, it is refused, or every tensor that is still
 * delivered is the one of the whole file. With the n-th allocation failing, for every n, it is refused as out of
 * memory, or read as ever, and nothing is leaked.
 *
 * The linker sends the allocations of this test and of the library through __wrap_*(); those of other libraries stay.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "tests/unit/gzip_file.h"
#include "tests/unit/legacy_file.h"

/* ---- allocations ---- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *text);
int __real_vasprintf(char **ret_text, const char *format, va_list args);
void __real_free(void *p);

static uint64_t countdown; /* 0: nothing fails; 1: the next one */
static bool failed;
static int64_t live;

static bool fails(void) {
    if (countdown == 0 || --countdown > 0)
        return false;
    failed = true;
    return true;
}

static void *counted(void *p) {
    live += p != NULL;
    return p;
}

void *__wrap_malloc(size_t n) {
    return fails() ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_reallocarray(void *p, size_t n, size_t size) {
    void *moved = fails() ? NULL : __real_reallocarray(p, n, size);

    live += !p && moved;
    return moved;
}

void *__wrap_realloc(void *p, size_t n) {
    return __wrap_reallocarray(p, n, 1);
}

char *__wrap_strdup(const char *text) {
    return fails() ? NULL : counted(__real_strdup(text));
}

int __wrap_vasprintf(char **ret_text, const char *format, va_list args) {
    int n = fails() ? -1 : __real_vasprintf(ret_text, format, args);

    live += n >= 0;
    return n;
}

int __wrap_asprintf(char **ret_text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **ret_text, const char *format, ...) {
    va_list args;
    int n;

    va_start(args, format);
    n = __wrap_vasprintf(ret_text, format, args);
    va_end(args);
    return n;
}

/* The same with _FORTIFY_SOURCE. */
int __wrap___vasprintf_chk(char **ret_text, int flag, const char *format, va_list args);
int __wrap___vasprintf_chk(char **ret_text, int flag, const char *format, va_list args) {
    (void)flag;
    return __wrap_vasprintf(ret_text, format, args);
}

int __wrap___asprintf_chk(char **ret_text, int flag, const char *format, ...) __attribute__((format(printf, 3, 4)));
int __wrap___asprintf_chk(char **ret_text, int flag, const char *format, ...) {
    va_list args;
    int n;

    (void)flag;
    va_start(args, format);
    n = __wrap_vasprintf(ret_text, format, args);
    va_end(args);
    return n;
}

void __wrap_free(void *p) {
    live -= p != NULL;
    __real_free(p);
}

/* ---- files ---- */

enum kind { WHOLE, TAGGED, OBJECT, STREAM, GZIPPED, BUNDLED };

/* From the corpora of the fuzz targets. TAGGED: a byte for the target stands in front. OBJECT: a pickle that goes into
 * a torch zip. STREAM: a legacy stream without its first three pickles. GZIPPED, BUNDLED: a TAGGED one in gzip, in a
 * zip of files. */
static const struct sample {
    const char *path;
    enum kind kind;
} samples[] = {
    {"fuzz_model/file_zip", TAGGED},
    {"fuzz_model/file_zip", GZIPPED},
    {"fuzz_model/file_zip", BUNDLED},
    {"fuzz_model/file_exported", TAGGED},
    {"fuzz_model/file_exported_old", TAGGED},
    {"fuzz_model/file_package", TAGGED},
    {"fuzz_model/file_safetensors", TAGGED},
    {"fuzz_model/file_script", TAGGED},
    {"fuzz_model/file_script_deflated", TAGGED},
    {"fuzz_model/kinds", OBJECT},
    {"fuzz_model/module", OBJECT},
    {"fuzz_model/training", OBJECT},
    {"fuzz_model/state_dict_p4", OBJECT},
    {"fuzz_legacy/flat_p2", STREAM},
    {"fuzz_legacy/flat_p4", STREAM},
    {"fuzz_legacy/views", STREAM},
    {"fuzz_legacy/untyped", STREAM},
    {"fuzz_npy/fortran", WHOLE},
    {"fuzz_npy/objects", WHOLE},
    {"fuzz_npy/v2", WHOLE},
    {"fuzz_plain/arrays_p0", WHOLE},
    {"fuzz_plain/arrays_p2", WHOLE},
    {"fuzz_plain/arrays_p5", WHOLE},
    {"fuzz_plain/joblib", WHOLE},
    {"fuzz_plain/nested_p4", WHOLE},
    {"fuzz_plain/nested_unused_zip", WHOLE},
    {"fuzz_plain/several", WHOLE},
    {"fuzz_plain/python2_p0", WHOLE},
    {"fuzz_tar/torch_2", WHOLE},
};

static void read_file(const char *path, struct ck_buffer *bytes) {
    char full[256], part[4096];
    FILE *file;
    size_t n;

    snprintf(full, sizeof(full), "tests/fuzz/corpus/%s", path);
    file = fopen(full, "rb");
    if (!file)
        fail_msg("cannot open %s", full);
    while ((n = fread(part, 1, sizeof(part), file)) > 0)
        assert_true(ck_buffer_add(bytes, part, n));
    fclose(file);
}

static void make_zip(struct ck_buffer *out, const struct ck_buffer *bytes, bool bundle) {
    static const uint8_t record[64] = {1, 2, 3};
    struct ck_source source;
    struct torch_file f;

    tf_init(&f);
    if (bundle) {
        f.pickle_name = NULL;
        tf_add_entry(&f, "m/config.json", "{}", 2, false);
        tf_add_entry(&f, "m/model.pt", bytes->data + 1, bytes->length - 1, false);
    } else {
        f.pickle.length = 0;
        /* tf_finish() writes STOP itself. */
        tf_raw(&f, bytes->data, bytes->length - 1);
        tf_record(&f, "0", record, sizeof(record));
        tf_record(&f, "1", record, sizeof(record));
    }
    source = tf_finish(&f);
    assert_true(ck_buffer_add(out, source.memory, source.length));
    tf_release(&f);
}

static void make_stream(struct ck_buffer *out, const struct ck_buffer *bytes) {
    struct legacy_file f;

    lf_init(&f);
    lf_append(&f, f.magic, f.magic_length);
    lf_append(&f, f.protocol, f.protocol_length);
    lf_append(&f, f.sys_info, f.sys_info_length);
    lf_append(&f, bytes->data, bytes->length);
    assert_true(ck_buffer_add(out, f.stream.data, f.stream.length));
    lf_release(&f);
}

static void make(const struct sample *sample, struct ck_buffer *out) {
    struct ck_buffer bytes;

    ck_buffer_init(&bytes, SIZE_MAX);
    ck_buffer_init(out, SIZE_MAX);
    read_file(sample->path, &bytes);
    switch (sample->kind) {
    case WHOLE:
        assert_true(ck_buffer_add(out, bytes.data, bytes.length));
        break;
    case TAGGED:
        assert_true(ck_buffer_add(out, bytes.data + 1, bytes.length - 1));
        break;
    case GZIPPED:
        gzip_add(out, bytes.data + 1, bytes.length - 1);
        break;
    case STREAM:
        make_stream(out, &bytes);
        break;
    case OBJECT:
    case BUNDLED:
        make_zip(out, &bytes, sample->kind == BUNDLED);
    }
    ck_buffer_release(&bytes);
}

/* ---- reading and comparing ---- */

static struct opened open_bytes(const void *bytes, size_t n) {
    static struct ck_scratch scratch;
    struct ck_source source = ck_source_from_memory(bytes, n);
    struct ck_model_options options = {.scratch = &scratch};
    struct opened o = {0};

    if (scratch.limit == 0)
        scratch = (struct ck_scratch){.fd = memfd_create("scratch", MFD_CLOEXEC), .limit = 64 * CK_MIB};
    scratch.used = 0;
    o.r = ck_model_open(&source, &ck_limits_default, &options, &o.model, &o.err);
    return o;
}

/* The elements in the order of the shape, from `element` on. Returns a sum that depends on their order. */
static uint64_t sum(const struct ck_storage *storage, const struct ck_view *view, uint32_t dim, uint64_t element) {
    const struct ck_dtype_row *row = ck_dtype_row(view->dtype);
    uint64_t total = 17;
    uint8_t bytes[16] = {0};

    if (dim < view->rank) {
        for (int64_t i = 0; i < view->shape[dim]; i++)
            total = total * 1000003 + sum(storage, view, dim + 1, element + (uint64_t)(i * view->stride[dim]));
        return total;
    }
    if (ck_source_read(&storage->source, element * row->size / row->per, bytes, row->size, NULL) < 0)
        fail_msg("an element cannot be read");
    for (size_t i = 0; i < row->size; i++)
        total = total * 257 + bytes[i];
    return total;
}

static bool is_same(const struct ck_model *a, const struct ck_tensor *x, const struct ck_model *b,
                    const struct ck_tensor *y) {
    if (x->view.dtype != y->view.dtype || x->view.rank != y->view.rank ||
        memcmp(x->view.shape, y->view.shape, x->view.rank * sizeof(*x->view.shape)) != 0)
        return false;
    if (x->error || y->error)
        return x->error == y->error;
    return sum(&a->storages[x->storage], &x->view, 0, x->view.offset) ==
           sum(&b->storages[y->storage], &y->view, 0, y->view.offset);
}

static bool has_same(const struct ck_model *whole, const struct ck_model *part, const struct ck_tensor *tensor) {
    for (uint32_t i = 0; i < whole->n_tensors; i++)
        if (strcmp(whole->tensors[i].path, tensor->path) == 0 && is_same(whole, &whole->tensors[i], part, tensor))
            return true;
    for (uint32_t i = 0; i < whole->n_outside; i++)
        if (strcmp(whole->outside[i].path, tensor->path) == 0 && is_same(whole, &whole->outside[i], part, tensor))
            return true;
    return false;
}

/* Returns how many tensors came without an error. */
static uint32_t check_against(const struct sample *sample, const struct ck_model *whole, const struct ck_model *part,
                              size_t at) {
    uint32_t good = 0;

    for (uint32_t i = 0; i < part->n_tensors; i++) {
        if (part->tensors[i].error)
            continue;
        good++;
        if (!has_same(whole, part, &part->tensors[i]))
            fail_msg("%s at %zu: %s is not the tensor of the whole file", sample->path, at, part->tensors[i].path);
    }
    return good;
}

static uint32_t count_good(const struct ck_model *model) {
    uint32_t good = 0;

    for (uint32_t i = 0; i < model->n_tensors; i++)
        good += !model->tensors[i].error;
    return good;
}

/* ---- the sweeps ---- */

static void cut(const struct sample *sample, const struct ck_buffer *bytes, const struct ck_model *whole, size_t n) {
    /* A block of exactly that size, so that a sanitizer sees the first byte read past its end. */
    uint8_t *part = malloc(n > 0 ? n : 1);
    struct opened o;

    assert_non_null(part);
    if (n > 0)
        memcpy(part, bytes->data, n);
    o = open_bytes(part, n);
    assert_int_equal(o.r, o.err.code);
    if (o.r < 0) {
        assert_true(o.err.message[0] != 0);
        assert_int_not_equal(o.r, CK_E_INTERNAL);
    } else if (check_against(sample, whole, o.model, n) < count_good(whole)) {
        /* Fewer than there were: each that is missing is one with an error, or the file is called odd. */
        if (o.model->n_tensors < whole->n_tensors && ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE) == 0)
            fail_msg("%s cut at %zu of %zu: %u of %u tensors, and nothing is said", sample->path, n, bytes->length,
                     o.model->n_tensors, whole->n_tensors);
    }
    opened_release(&o);
    free(part);
}

static void a_file_that_is_cut_anywhere_gives_an_error_or_the_same_tensors(void **state) {
    size_t cuts = 0;

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(samples); i++) {
        struct ck_buffer bytes;
        struct opened whole;

        make(&samples[i], &bytes);
        whole = open_bytes(bytes.data, bytes.length);
        if (whole.r < 0)
            fail_msg("%s: %s", samples[i].path, whole.err.message);
        for (size_t n = 0; n < bytes.length; n++, cuts++)
            cut(&samples[i], &bytes, whole.model, n);
        opened_release(&whole);
        ck_buffer_release(&bytes);
    }
    print_message("%zu files, %zu cuts\n", CK_ARRAY_LEN(samples), cuts);
}

/* An arena does not tell malloc's no from its own limit. */
static bool is_about_memory(int code) {
    return code == CK_E_OUT_OF_MEMORY || code == CK_E_TENSOR_LIMIT;
}

static void check_starved(const struct sample *sample, const struct opened *o, const struct ck_model *whole,
                          uint64_t n) {
    if (o->r < 0 && !is_about_memory(o->r))
        fail_msg("%s, allocation %llu: %s", sample->path, (unsigned long long)n, o->err.message);
    if (o->r < 0 || check_against(sample, whole, o->model, n) == count_good(whole))
        return;
    for (uint32_t i = 0; i < o->model->n_tensors; i++)
        if (o->model->tensors[i].error && !has_same(whole, o->model, &o->model->tensors[i]))
            fail_msg("%s, allocation %llu: %s: %s", sample->path, (unsigned long long)n, o->model->tensors[i].path,
                     o->model->tensors[i].error_message);
    fail_msg("%s, allocation %llu: a tensor is missing, and nothing is said", sample->path, (unsigned long long)n);
}

/* Returns false once the file is read without reaching the n-th allocation. */
static bool starve(const struct sample *sample, const struct ck_buffer *bytes, const struct ck_model *whole,
                   uint64_t n) {
    int64_t before = live;
    struct opened o;

    failed = false;
    countdown = n;
    o = open_bytes(bytes->data, bytes->length);
    countdown = 0;
    check_starved(sample, &o, whole, n);
    opened_release(&o);
    if (live != before)
        fail_msg("%s, allocation %llu: %lld blocks are leaked", sample->path, (unsigned long long)n,
                 (long long)(live - before));
    return failed;
}

static void a_file_that_is_read_without_memory_says_so_and_leaks_nothing(void **state) {
    uint64_t failures = 0;

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(samples); i++) {
        struct ck_buffer bytes;
        struct opened whole;
        uint64_t n = 1;

        make(&samples[i], &bytes);
        whole = open_bytes(bytes.data, bytes.length);
        assert_int_equal(whole.r, 0);
        while (starve(&samples[i], &bytes, whole.model, n))
            n++;
        failures += n - 1;
        opened_release(&whole);
        ck_buffer_release(&bytes);
    }
    print_message("%zu files, %llu failed allocations\n", CK_ARRAY_LEN(samples), (unsigned long long)failures);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_cut_anywhere_gives_an_error_or_the_same_tensors),
        cmocka_unit_test(a_file_that_is_read_without_memory_says_so_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
