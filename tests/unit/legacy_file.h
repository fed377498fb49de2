/* Builds the legacy stream of torch.save, and the tar of torch 0.1, by hand for tests. Pickles are written with torch_file.h. */
#ifndef LEGACY_FILE_H
#define LEGACY_FILE_H

#include "tests/unit/tar_file.h"
#include "tests/unit/torch_file.h"

#define LF_MAGIC "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19."

struct legacy_file {
    struct torch_file object; /* its pickle, without STOP */
    struct torch_file keys;   /* the fifth pickle, without STOP: a list that is still open */
    struct ck_buffer blocks;
    struct ck_buffer stream;
    const char *magic, *protocol, *sys_info; /* whole pickles; set by lf_init() */
    size_t magic_length, protocol_length, sys_info_length;
};

static inline void lf_init(struct legacy_file *f) {
    *f = (struct legacy_file){.magic = LF_MAGIC,
                              .magic_length = sizeof(LF_MAGIC) - 1,
                              .protocol = "\x80\x02M\xE9\x03.",
                              .protocol_length = 6,
                              .sys_info = "\x80\x02}q\0.",
                              .sys_info_length = 6};
    tf_init(&f->object);
    tf_init(&f->keys);
    tf_op(&f->keys, "](");
    ck_buffer_init(&f->blocks, SIZE_MAX);
    ck_buffer_init(&f->stream, SIZE_MAX);
}

static inline void lf_release(struct legacy_file *f) {
    tf_release(&f->object);
    tf_release(&f->keys);
    ck_buffer_release(&f->blocks);
    ck_buffer_release(&f->stream);
}

/* The persistent id of a storage; view_size < 0: no view. */
static inline void lf_storage(struct legacy_file *f, const char *class_, const char *key, int64_t numel, int64_t view_offset,
                              int64_t view_size) {
    struct torch_file *o = &f->object;

    tf_op(o, "(");
    tf_text(o, "storage");
    tf_global(o, "torch", class_);
    tf_text(o, key);
    tf_text(o, "cpu");
    tf_int(o, numel);
    if (view_size < 0) {
        tf_op(o, "N");
    } else {
        tf_op(o, "(");
        tf_text(o, "view");
        tf_int(o, view_offset);
        tf_int(o, view_size);
        tf_op(o, "t");
    }
    tf_op(o, "tQ");
}

/* _rebuild_tensor_v2 of a vector around the storage that `storage` writes. */
#define lf_vector(f, offset, n, stride, storage)                                                                       \
    do {                                                                                                               \
        tf_global(&(f)->object, "torch._utils", "_rebuild_tensor_v2");                                                 \
        tf_op(&(f)->object, "(");                                                                                      \
        storage;                                                                                                       \
        tf_int(&(f)->object, offset);                                                                                  \
        tf_ints(&(f)->object, 1, (const int64_t[]){n});                                                                \
        tf_ints(&(f)->object, 1, (const int64_t[]){stride});                                                           \
        tf_raw(&(f)->object, "\x89", 1);                                                                               \
        tf_hooks(&(f)->object);                                                                                        \
        tf_op(&(f)->object, "tR");                                                                                     \
    } while (0)

/* The next block: its key in the list, its number of elements, its bytes. */
static inline void lf_block(struct legacy_file *f, const char *key, int64_t numel, const void *bytes, size_t n) {
    tf_text(&f->keys, key);
    if (!ck_buffer_add(&f->blocks, &numel, sizeof(numel)) || !ck_buffer_add(&f->blocks, bytes, n))
        abort();
}

static inline void lf_append(struct legacy_file *f, const void *bytes, size_t n) {
    if (!ck_buffer_add(&f->stream, bytes, n))
        abort();
}

/* The whole file, in memory that belongs to f. Call once. */
static inline struct ck_source lf_finish(struct legacy_file *f) {
    tf_op(&f->object, ".");
    tf_op(&f->keys, "e.");
    lf_append(f, f->magic, f->magic_length);
    lf_append(f, f->protocol, f->protocol_length);
    lf_append(f, f->sys_info, f->sys_info_length);
    lf_append(f, f->object.pickle.data, f->object.pickle.length);
    lf_append(f, f->keys.pickle.data, f->keys.pickle.length);
    lf_append(f, ck_buffer_text(&f->blocks), f->blocks.length);
    return ck_source_from_memory(f->stream.data, f->stream.length);
}

static inline struct opened lf_open_source(const struct ck_source *source) {
    struct ck_model_options options = {0};
    struct opened o = {0};

    o.r = ck_model_open(source, &ck_limits_default, &options, &o.model, &o.err);
    return o;
}

static inline struct opened lf_open(struct legacy_file *f) {
    struct ck_source source = lf_finish(f);

    return lf_open_source(&source);
}

/* ---- torch 0.1's tar ---- */

struct torch_tar {
    struct torch_file storages, tensors, object; /* the entries, pickle and raw bytes mixed; `object` without STOP */
    struct ck_buffer tar;
};

static inline void tt_init(struct torch_tar *t) {
    *t = (struct torch_tar){0};
    ck_buffer_init(&t->tar, SIZE_MAX);
    tf_init(&t->storages);
    tf_init(&t->tensors);
    tf_init(&t->object);
}

static inline void tt_release(struct torch_tar *t) {
    tf_release(&t->storages);
    tf_release(&t->tensors);
    tf_release(&t->object);
    ck_buffer_release(&t->tar);
}

/* The number at the front of an entry. */
static inline void tt_count(struct torch_file *entry, int64_t n) {
    tf_int(entry, n);
    tf_op(entry, ".");
}

static inline void tt_storage(struct torch_tar *t, int64_t key, const char *class_, int64_t numel, const void *bytes, size_t n) {
    tf_raw(&t->storages, "\x80\x02(", 3);
    tf_int(&t->storages, key);
    tf_text(&t->storages, "cpu");
    tf_global(&t->storages, "torch", class_);
    tf_op(&t->storages, "t.");
    tf_raw(&t->storages, &numel, sizeof(numel));
    tf_raw(&t->storages, bytes, n);
}

/* The list of views; n of four numbers each. */
static inline void tt_views(struct torch_tar *t, unsigned n, int64_t (*views)[4]) {
    tf_raw(&t->storages, "\x80\x02](", 4);
    for (unsigned i = 0; i < n; i++)
        tf_ints(&t->storages, 4, views[i]);
    tf_op(&t->storages, "e.");
}

static inline void tt_tensor(struct torch_tar *t, int64_t key, int64_t storage, uint32_t rank, const int64_t *sizes,
                             const int64_t *strides, int64_t offset) {
    uint32_t dims[2] = {rank, 0xFFFFFFFF}; /* the second half was never meaningful */

    tf_raw(&t->tensors, "\x80\x02(", 3);
    tf_int(&t->tensors, key);
    tf_int(&t->tensors, storage);
    tf_global(&t->tensors, "torch", "FloatTensor");
    tf_op(&t->tensors, "t.");
    tf_raw(&t->tensors, dims, sizeof(dims));
    tf_raw(&t->tensors, sizes, rank * sizeof(*sizes));
    tf_raw(&t->tensors, strides, rank * sizeof(*strides));
    tf_raw(&t->tensors, &offset, sizeof(offset));
}

/* A persistent id in the object: the text of a key, as Python 2 wrote it. */
static inline void tt_id(struct torch_tar *t, const char *key) {
    tf_text(&t->object, key);
    tf_op(&t->object, "Q");
}

static inline struct ck_source tt_finish(struct torch_tar *t) {
    tf_op(&t->object, ".");
    tar_add(&t->tar, "storages", '0', t->storages.pickle.data, t->storages.pickle.length);
    tar_add(&t->tar, "tensors", '0', t->tensors.pickle.data, t->tensors.pickle.length);
    tar_add(&t->tar, "pickle", '0', t->object.pickle.data, t->object.pickle.length);
    tar_end(&t->tar);
    return tar_source(&t->tar);
}

static inline struct opened tt_open(struct torch_tar *t) {
    struct ck_source source = tt_finish(t);

    return lf_open_source(&source);
}

#endif
