/* Builds torch.save files by hand for tests: a pickle opcode by opcode, and a zip around it. */
#ifndef TORCH_FILE_H
#define TORCH_FILE_H

#include <stdarg.h>
#include <string.h>
#include <zlib.h>

#include "core/base/buffer.h"
#include "core/base/source.h"
#include "core/model/model.h"

struct torch_entry {
    char name[96];
    struct ck_buffer data;
    bool deflated;
};

struct torch_file {
    struct ck_buffer pickle; /* without STOP */
    struct torch_entry entries[64];
    unsigned n_entries;
    const char *pickle_name; /* "archive/data.pkl" unless set */
    bool deflate_pickle;
    struct ck_buffer zip;
};

static inline void tf_raw(struct torch_file *f, const void *bytes, size_t n) {
    if (!ck_buffer_add(&f->pickle, bytes, n))
        abort();
}

/* Opcodes without arguments, as text: "}" EMPTY_DICT, "(" MARK, "s" SETITEM, "u" SETITEMS, "R" REDUCE, "b" BUILD, "N"
 * None ... */
static inline void tf_op(struct torch_file *f, const char *opcodes) {
    tf_raw(f, opcodes, strlen(opcodes));
}

static inline void tf_init(struct torch_file *f) {
    *f = (struct torch_file){.pickle_name = "archive/data.pkl"};
    ck_buffer_init(&f->pickle, SIZE_MAX);
    ck_buffer_init(&f->zip, SIZE_MAX);
    tf_raw(f, "\x80\x02", 2);
}

static inline void tf_release(struct torch_file *f) {
    ck_buffer_release(&f->pickle);
    ck_buffer_release(&f->zip);
    for (unsigned i = 0; i < f->n_entries; i++)
        ck_buffer_release(&f->entries[i].data);
}

static inline void tf_text_n(struct torch_file *f, const char *text, size_t length) {
    uint32_t n = (uint32_t)length;

    tf_op(f, "X");
    tf_raw(f, &n, 4);
    tf_raw(f, text, n);
}

static inline void tf_text(struct torch_file *f, const char *text) {
    tf_text_n(f, text, strlen(text));
}

static inline void tf_int(struct torch_file *f, int64_t value) {
    int32_t small = (int32_t)value;

    if (small == value) {
        tf_op(f, "J");
        tf_raw(f, &small, 4);
        return;
    }
    tf_raw(f, "\x8a\x08", 2);
    tf_raw(f, &value, 8);
}

static inline void tf_float(struct torch_file *f, double value) {
    unsigned char bytes[9] = {'G'};
    uint64_t bits;

    memcpy(&bits, &value, 8);
    for (int i = 0; i < 8; i++)
        bytes[1 + i] = (unsigned char)(bits >> (56 - 8 * i));
    tf_raw(f, bytes, 9);
}

static inline void tf_global(struct torch_file *f, const char *module, const char *name) {
    tf_op(f, "c");
    tf_op(f, module);
    tf_op(f, "\n");
    tf_op(f, name);
    tf_op(f, "\n");
}

static inline void tf_put(struct torch_file *f, uint8_t slot) {
    tf_op(f, "q");
    tf_raw(f, &slot, 1);
}

static inline void tf_get(struct torch_file *f, uint8_t slot) {
    tf_op(f, "h");
    tf_raw(f, &slot, 1);
}

/* A tuple of n ints. */
static inline void tf_ints(struct torch_file *f, unsigned n, const int64_t *items) {
    tf_op(f, "(");
    for (unsigned i = 0; i < n; i++)
        tf_int(f, items[i]);
    tf_op(f, "t");
}

static inline void tf_storage(struct torch_file *f, const char *class_, const char *key, int64_t numel) {
    tf_op(f, "(");
    tf_text(f, "storage");
    tf_global(f, "torch", class_);
    tf_text(f, key);
    tf_text(f, "cpu");
    tf_int(f, numel);
    tf_op(f, "tQ");
}

static inline void tf_hooks(struct torch_file *f) {
    tf_global(f, "collections", "OrderedDict");
    tf_op(f, ")R");
}

/* _rebuild_tensor_v2(storage, offset, size, stride, False, OrderedDict()) */
static inline void tf_view(struct torch_file *f, const char *class_, const char *key, int64_t offset, unsigned rank,
                           const int64_t *shape, const int64_t *stride) {
    tf_global(f, "torch._utils", "_rebuild_tensor_v2");
    tf_op(f, "(");
    tf_storage(f, class_, key, 1000);
    tf_int(f, offset);
    tf_ints(f, rank, shape);
    tf_ints(f, rank, stride);
    tf_raw(f, "\x89", 1);
    tf_hooks(f);
    tf_op(f, "tR");
}

/* A vector of n float32 at the start of a storage. */
static inline void tf_vector(struct torch_file *f, const char *key, int64_t n) {
    tf_view(f, "FloatStorage", key, 0, 1, &n, (const int64_t[]){1});
}

static inline void tf_add_entry(struct torch_file *f, const char *name, const void *bytes, size_t n, bool deflated) {
    struct torch_entry *entry = &f->entries[f->n_entries++];

    snprintf(entry->name, sizeof(entry->name), "%s", name);
    ck_buffer_init(&entry->data, SIZE_MAX);
    if (!ck_buffer_add(&entry->data, bytes, n))
        abort();
    entry->deflated = deflated;
}

/* archive/data/KEY */
static inline void tf_record(struct torch_file *f, const char *key, const void *bytes, size_t n) {
    char name[96];

    snprintf(name, sizeof(name), "archive/data/%s", key);
    tf_add_entry(f, name, bytes, n, false);
}

static inline void tf_put_number(struct ck_buffer *out, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(i < 8 ? value >> (8 * i) : 0);

        if (!ck_buffer_add(out, &byte, 1))
            abort();
    }
}

/* A local header (central false) or a central one. */
static inline void tf_header(struct ck_buffer *out, bool central, const struct torch_entry *entry, size_t packed,
                             uint64_t offset) {
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)ck_buffer_text(&entry->data), (uInt)entry->data.length);

    tf_put_number(out, central ? 0x02014b50 : 0x04034b50, 4);
    tf_put_number(out, 20, central ? 4 : 2);
    tf_put_number(out, 0, 2);
    tf_put_number(out, entry->deflated ? 8 : 0, 2);
    tf_put_number(out, 0x00210000, 4); /* 1 January 1980 */
    tf_put_number(out, crc, 4);
    tf_put_number(out, packed, 4);
    tf_put_number(out, entry->data.length, 4);
    tf_put_number(out, strlen(entry->name), 2);
    tf_put_number(out, 0, 2);
    if (central) {
        tf_put_number(out, 0, 10);
        tf_put_number(out, offset, 4);
    }
    ck_buffer_add_text(out, entry->name);
}

static inline size_t tf_deflate(const struct ck_buffer *data, unsigned char *out, size_t capacity) {
    z_stream z = {0};

    deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)(uintptr_t)ck_buffer_text(data);
    z.avail_in = (uInt)data->length;
    z.next_out = out;
    z.avail_out = (uInt)capacity;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

/* The whole file, in memory that belongs to f. Call once. */
static inline struct ck_source tf_finish(struct torch_file *f) {
    struct ck_buffer central;
    size_t start;

    ck_buffer_init(&central, SIZE_MAX);
    if (f->pickle_name) {
        tf_op(f, ".");
        tf_add_entry(f, f->pickle_name, f->pickle.data, f->pickle.length, f->deflate_pickle);
    }
    for (unsigned i = 0; i < f->n_entries; i++) {
        struct torch_entry *entry = &f->entries[i];
        size_t capacity = entry->data.length + entry->data.length / 8 + 1024, packed = entry->data.length;
        unsigned char *bytes = malloc(capacity);

        if (entry->deflated)
            packed = tf_deflate(&entry->data, bytes, capacity);
        else if (packed > 0)
            memcpy(bytes, entry->data.data, packed);
        tf_header(&central, true, entry, packed, f->zip.length);
        tf_header(&f->zip, false, entry, packed, 0);
        ck_buffer_add(&f->zip, bytes, packed);
        free(bytes);
    }
    start = f->zip.length;
    ck_buffer_add(&f->zip, ck_buffer_text(&central), central.length);
    tf_put_number(&f->zip, 0x06054b50, 4);
    tf_put_number(&f->zip, 0, 4);
    tf_put_number(&f->zip, f->n_entries, 2);
    tf_put_number(&f->zip, f->n_entries, 2);
    tf_put_number(&f->zip, central.length, 4);
    tf_put_number(&f->zip, start, 4);
    tf_put_number(&f->zip, 0, 2);
    ck_buffer_release(&central);
    return ck_source_from_memory(f->zip.data, f->zip.length);
}

/* Emits a value that is written as text, and returns what follows it:
 *   T or T9        a vector of 4 (or 9) float32 of the storage "0"
 *   5  N           an int, None
 *   'text'         text
 *   {key:value,..} a dict; keys are text up to the colon, or a number written #5
 *   [v,..] (v,..)  a list, a tuple
 *   C.name{..}     an object of the class `name` in module C (dots allowed), its state set by BUILD; also C.name(..)
 *   =3 value       value, remembered in slot 3;  @3  the value of slot 3 */
static inline const char *tf_tree(struct torch_file *f, const char *text) {
    char word[96], *dot, *end;
    size_t n;

    switch (*text) {
    case 'T':
        n = strtoul(text + 1, &end, 10);
        tf_vector(f, "0", end > text + 1 ? (int64_t)n : 4);
        return end;
    case 'N':
        tf_op(f, "N");
        return text + 1;
    case '\'':
        n = strcspn(text + 1, "'");
        tf_text_n(f, text + 1, n);
        return text + n + 2;
    case '=':
        n = strtoul(text + 1, &end, 10);
        end = (char *)(uintptr_t)tf_tree(f, end + 1);
        tf_put(f, (uint8_t)n);
        return end;
    case '@':
        tf_get(f, (uint8_t)strtoul(text + 1, &end, 10));
        return end;
    case '[':
    case '(':
        tf_op(f, *text == '[' ? "](" : "(");
        for (dot = NULL, end = (char *)(uintptr_t)text + 1; *end != ']' && *end != ')';)
            end = (char *)(uintptr_t)tf_tree(f, end) + 0, end += *end == ',';
        tf_op(f, *text == '[' ? "e" : "t");
        return end + 1;
    case '{':
        tf_op(f, "}(");
        for (text++; *text != '}'; text += *text == ',') {
            n = strcspn(text, ":");
            if (*text == '#')
                tf_int(f, strtol(text + 1, NULL, 10));
            else
                tf_text_n(f, text, n);
            text = tf_tree(f, text + n + 1);
        }
        tf_op(f, "u");
        return text + 1;
    default:
        if (*text == '-' || (*text >= '0' && *text <= '9')) {
            tf_int(f, strtol(text, &end, 10));
            return end;
        }
        n = strcspn(text, "{(");
        snprintf(word, sizeof(word), "%.*s", (int)n, text);
        dot = strrchr(word, '.');
        *dot = 0;
        tf_global(f, word, dot + 1);
        tf_op(f, ")\x81");
        text = tf_tree(f, text + n);
        tf_op(f, "b");
        return text;
    }
}

/* A finished and opened file. */
struct opened {
    struct ck_model *model; /* NULL if it failed before there was one */
    struct ck_error err;
    int r;
};

static inline void opened_release(struct opened *o) {
    ck_model_free(o->model);
    o->model = NULL;
}

static inline struct opened tf_open_with(struct torch_file *f, const struct ck_limits *limits, const char *state_dict) {
    struct ck_model_options options = {.state_dict = state_dict};
    struct ck_source source = tf_finish(f);
    struct opened o = {0};

    o.r = ck_model_open(&source, limits, &options, &o.model, &o.err);
    return o;
}

static inline struct opened tf_open(struct torch_file *f) {
    return tf_open_with(f, &ck_limits_default, NULL);
}

static inline const struct ck_tensor *tf_find(const struct ck_model *model, const char *name) {
    for (uint32_t i = 0; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i].name, name) == 0)
            return &model->tensors[i];
    return NULL;
}

/* A file whose root is the value that `tree` describes; its storage "0" has 64 float32. */
static inline struct opened tf_open_tree(struct torch_file *f, const char *tree, const char *state_dict) {
    static const float zeros[64];

    tf_init(f);
    tf_tree(f, tree);
    tf_record(f, "0", zeros, sizeof(zeros));
    return tf_open_with(f, &ck_limits_default, state_dict);
}

#endif
