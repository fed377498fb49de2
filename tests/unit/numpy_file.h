/* Builds pickles of numpy arrays by hand, opcode by opcode, for tests. On top of torch_file.h. */
#ifndef NUMPY_FILE_H
#define NUMPY_FILE_H

#include "tests/unit/torch_file.h"

/* BINBYTES of protocol 3. */
static inline void nf_bytes(struct torch_file *f, const void *bytes, size_t n) {
    uint32_t length = (uint32_t)n;

    tf_op(f, "B");
    tf_raw(f, &length, 4);
    tf_raw(f, bytes, n);
}

/* dtype('f4', False, True) with the state (3, order, None, None, None, -1, -1, 0) */
static inline void nf_dtype(struct torch_file *f, const char *type, const char *order) {
    tf_global(f, "numpy", "dtype");
    tf_text(f, type);
    tf_op(f, "\x89\x88\x87R(");
    tf_int(f, 3);
    tf_text(f, order);
    tf_op(f, "NNN");
    tf_int(f, -1);
    tf_int(f, -1);
    tf_int(f, 0);
    tf_op(f, "tb");
}

/* _reconstruct(ndarray, (0,), b'b') and the state up to the data: (1, shape, dtype, fortran, */
static inline void nf_begin(struct torch_file *f, const char *type, const char *order, unsigned rank,
                            const int64_t *shape, bool fortran) {
    tf_global(f, "numpy.core.multiarray", "_reconstruct");
    tf_global(f, "numpy", "ndarray");
    tf_ints(f, 1, (const int64_t[]){0});
    nf_bytes(f, "b", 1);
    tf_op(f, "\x87R(");
    tf_int(f, 1);
    tf_ints(f, rank, shape);
    nf_dtype(f, type, order);
    tf_op(f, fortran ? "\x88" : "\x89");
}

static inline void nf_end(struct torch_file *f) {
    tf_op(f, "tb");
}

static inline void nf_array(struct torch_file *f, const char *type, const char *order, unsigned rank,
                            const int64_t *shape, bool fortran, const void *data, size_t n) {
    nf_begin(f, type, order, rank, shape, fortran);
    nf_bytes(f, data, n);
    nf_end(f);
}

/* A vector of n float32 that count from `first`. */
static inline void nf_vector(struct torch_file *f, float first, unsigned n) {
    float *values = malloc(n * sizeof(*values) + 1);

    for (unsigned i = 0; i < n; i++)
        values[i] = first + (float)i;
    nf_array(f, "f4", "<", 1, (const int64_t[]){n}, false, values, n * sizeof(*values));
    free(values);
}

/* The bytes of f->pickle as a whole file; they belong to f. */
static inline struct opened nf_open(struct torch_file *f, const struct ck_limits *limits,
                                    const struct ck_model_options *options) {
    struct ck_source source = ck_source_from_memory(f->pickle.data, f->pickle.length);
    struct opened o = {0};

    o.r = ck_model_open(&source, limits, options, &o.model, &o.err);
    return o;
}

/* Ends the pickle and opens it. */
static inline struct opened nf_open_plain(struct torch_file *f, const char *state_dict) {
    tf_op(f, ".");
    return nf_open(f, &ck_limits_default, &(struct ck_model_options){.state_dict = state_dict});
}

static inline void nf_read(const struct ck_model *model, const struct ck_tensor *tensor, void *bytes, size_t n) {
    if (ck_source_read(&model->storages[tensor->storage].source, 0, bytes, n, NULL) < 0)
        abort();
}

static inline const struct ck_tensor *nf_outside(const struct ck_model *model, const char *path) {
    for (uint32_t i = 0; i < model->n_outside; i++)
        if (strcmp(model->outside[i].path, path) == 0)
            return &model->outside[i];
    return NULL;
}

static inline bool nf_has_finding(const struct ck_model *model, const char *words) {
    for (size_t i = 0; i < model->findings.count; i++)
        if (strstr(model->findings.items[i].name, words))
            return true;
    return false;
}

#endif
