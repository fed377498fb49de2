#include "core/model/torch_legacy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/container/tar.h"
#include "core/model/memory.h"
#include "core/model/nested_scan.h"
#include "core/model/rebuild.h"
#include "core/model/torch_zip.h"
#include "core/pickle/machine.h"

#define PROTOCOL 1001

/* Pickles behind the object that are looked at in a file that is refused. */
#define HIDDEN_PICKLES 4

static const uint8_t magic[] = {0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19};

/* A storage: what the persistent ids say of it, then where its elements are. */
struct block {
    const char *key; /* in the object's arena or the model's */
    enum ck_dtype dtype;
    const char *class_;
    int64_t numel;
    bool listed;
    struct ck_source source;
};

struct stream {
    const struct ck_source *source;
    const struct ck_limits *limits;
    const struct ck_model_options *options;
    struct ck_model *model;
    struct ck_error *err;
    uint64_t at; /* of the next pickle or block */
    bool little_endian;
    struct ck_pickle object;
    struct block *blocks;
    uint32_t n_blocks, blocks_capacity;
    struct ck_strmap by_key; /* into blocks */
};

static void stream_release(struct stream *s) {
    ck_pickle_release(&s->object);
    ck_strmap_release(&s->by_key);
    free(s->blocks);
}

static int next_pickle(struct stream *s, struct ck_pickle *ret_pickle) {
    int r = ck_pickle_run_at(s->source, s->at, "", s->limits, &s->model->findings, ret_pickle, s->err);

    if (r < 0)
        return r;
    ck_nested_scan(ret_pickle, "", s->limits, s->options, &s->model->findings);
    s->at += ret_pickle->length;
    return 0;
}

/* ---- what comes before the object ---- */

static bool is_magic(const struct ck_pickle *pickle) {
    const struct ck_value *root = ck_pickle_get(pickle, pickle->root);

    return root->kind == CK_VALUE_BIGINT && root->bytes.data && root->bytes.length == sizeof(magic) &&
           memcmp(root->bytes.data, magic, sizeof(magic)) == 0;
}

static bool is_int(const struct ck_pickle *pickle, int64_t value) {
    const struct ck_value *root = ck_pickle_get(pickle, pickle->root);

    return root->kind == CK_VALUE_INT && root->integer == value;
}

/* Whoever hides the number hides more: torch would load what follows, too. */
static int refuse_magic(struct stream *s) {
    for (int i = 0; i < HIDDEN_PICKLES; i++) {
        _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};

        if (ck_pickle_run_at(s->source, s->at, "", s->limits, &s->model->findings, &pickle, NULL) < 0)
            break;
        ck_nested_scan(&pickle, "", s->limits, s->options, &s->model->findings);
        s->at += pickle.length;
    }
    ck_error_set(s->err, CK_E_ARCHIVE_UNSAFE, NULL,
                 "the first pickle does not hold torch's magic number but would compute it, which hides the file from "
                 "scanners; torch writes the number itself");
    ck_error_set_hint(s->err, "do not load this file: it runs code that the findings name");
    return CK_E_ARCHIVE_UNSAFE;
}

static int refuse_protocol(struct stream *s, const struct ck_pickle *pickle) {
    const struct ck_value *root = ck_pickle_get(pickle, pickle->root);

    if (root->kind != CK_VALUE_INT)
        return ck_error_set(s->err, CK_E_PICKLE_CORRUPT, NULL,
                            "the second pickle of the stream is %s, not the number of its protocol",
                            ck_value_kind_name((enum ck_value_kind)root->kind));
    return ck_error_set(s->err, CK_E_UNSUPPORTED_FORM, NULL,
                        "the stream says it has protocol %" PRId64 "; torch has only ever written %d", root->integer,
                        PROTOCOL);
}

static void read_sys_info(struct stream *s, const struct ck_pickle *pickle, uint64_t offset) {
    ck_ref value;

    s->little_endian = !ck_pickle_find(pickle, pickle->root, "little_endian", &value) || value != CK_REF_FALSE;
    if (!s->little_endian)
        ck_findings_add(&s->model->findings, CK_FINDING_STRUCTURE, "", offset, "", "",
                        "the file was written on a big-endian machine; its weights are little endian all the same",
                        false);
}

/* All four pickles are run before any is judged: what the object would call is worth knowing of a refused file, too. */
static int read_pickles(struct stream *s) {
    _cleanup_(ck_pickle_release) struct ck_pickle number = {0}, protocol = {0}, sys_info = {0};
    int r;

    r = next_pickle(s, &number);
    if (r == 0)
        r = next_pickle(s, &protocol);
    if (r == 0)
        r = next_pickle(s, &sys_info);
    if (r == 0)
        r = next_pickle(s, &s->object);
    if (r < 0)
        return r;
    if (!is_magic(&number))
        return refuse_magic(s);
    if (!is_int(&protocol, PROTOCOL))
        return refuse_protocol(s, &protocol);
    read_sys_info(s, &sys_info, number.length + protocol.length);
    return 0;
}

/* ---- storages ---- */

static int contradiction(struct stream *s, const char *key, const char *what) {
    return ck_error_set(s->err, CK_E_PICKLE_CORRUPT, NULL, "the storage %.200s %s", key, what);
}

static int out_of_memory(struct stream *s) {
    return ck_error_set(s->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the storages");
}

static int add_block(struct stream *s, const struct ck_storage_id *id) {
    struct block *block;
    const char *key = ck_arena_strdup(&s->model->arena, id->key);
    const char *class_ = ck_arena_strdup(&s->model->arena, id->class_);

    if (!key || !class_)
        return ck_model_memory_spent(s->limits, s->err);
    if (!ck_grow((void **)&s->blocks, s->n_blocks, &s->blocks_capacity, sizeof(*s->blocks)) ||
        !ck_strmap_set(&s->by_key, key, s->n_blocks))
        return out_of_memory(s);
    block = &s->blocks[s->n_blocks++];
    *block = (struct block){.key = key, .dtype = id->dtype, .class_ = class_, .numel = id->numel};
    return 0;
}

/* Takes what the persistent ids say, in the order of the stream: torch makes a storage of the first id with its key,
 * and every later one gets that storage, so that a second dtype would be another reading of the same bytes. */
static int collect_blocks(struct stream *s) {
    int r = 0;

    for (ck_ref ref = 0; r == 0 && ref < s->object.count; ref++) {
        struct ck_storage_id id;
        uint32_t index;

        if (!ck_storage_id_is(&s->object, ref) || ck_storage_id_parse(&s->object, ref, &id))
            continue;
        if (!ck_strmap_get(&s->by_key, id.key, &index))
            r = add_block(s, &id);
        else if (s->blocks[index].dtype != id.dtype && s->blocks[index].numel != 0)
            return contradiction(s, id.key, "has two dtypes in one file");
    }
    return r;
}

static const char *key_text(const struct ck_pickle *keys, ck_ref ref, char *number, size_t size) {
    const struct ck_value *value = ck_pickle_get(keys, ref);

    if (value->kind == CK_VALUE_INT) {
        snprintf(number, size, "%" PRId64, value->integer);
        return number;
    }
    if (value->kind != CK_VALUE_TEXT || !value->bytes.data ||
        strlen((const char *)value->bytes.data) != value->bytes.length)
        return NULL;
    return (const char *)value->bytes.data;
}

static int find_block(struct stream *s, const struct ck_pickle *keys, ck_ref ref, struct block **ret_block) {
    char number[24];
    const char *key = key_text(keys, ref, number, sizeof(number));
    uint32_t index;

    if (!key)
        return ck_error_set(s->err, CK_E_PICKLE_CORRUPT, NULL, "the list of storages holds %s",
                            ck_value_kind_name((enum ck_value_kind)ck_pickle_get(keys, ref)->kind));
    if (!ck_strmap_get(&s->by_key, key, &index))
        return contradiction(s, key, "is in the list of storages but in no tensor, so its size is not known");
    *ret_block = &s->blocks[index];
    if ((*ret_block)->listed)
        return contradiction(s, key, "is listed twice");
    (*ret_block)->listed = true;
    if ((*ret_block)->dtype == CK_DTYPE_END_)
        return ck_error_set(s->err, CK_E_UNSUPPORTED_DTYPE, NULL,
                            "the storage %.200s is a %.200s, whose size of an element is not known, so no storage "
                            "behind it can be found",
                            key, (*ret_block)->class_);
    return 0;
}

static int cut_off(struct stream *s, uint32_t i, uint32_t n, uint64_t need, uint64_t there) {
    return ck_error_set(s->err, CK_E_TRUNCATED, NULL,
                        "the file is cut off: storage %" PRIu32 " of %" PRIu32 " needs %" PRIu64
                        " bytes at byte %" PRIu64 ", %" PRIu64 " present",
                        i + 1, n, need, s->at, there);
}

/* The number in front of the elements must be the one of the persistent id. */
static int check_numel(struct stream *s, const struct block *block, int64_t told) {
    if (told == block->numel)
        return 0;
    if ((int64_t)__builtin_bswap64((uint64_t)told) == block->numel && !s->little_endian)
        return 0;
    return ck_error_set(s->err, CK_E_PICKLE_CORRUPT, NULL,
                        "the storage %.200s has %" PRId64 " elements in the pickle and %" PRId64 " at byte %" PRIu64,
                        block->key, block->numel, told, s->at);
}

/* The i-th of n blocks. */
static int place_block(struct stream *s, struct block *block, uint32_t i, uint32_t n) {
    uint64_t left = s->source->length - s->at, bytes;
    int64_t told;
    int r;

    if (block->numel < 0 || !ck_mul_u64((uint64_t)block->numel, ck_dtype_row(block->dtype)->size, &bytes) ||
        bytes > INT64_MAX)
        return contradiction(s, block->key, "has an impossible number of elements");
    if (left < sizeof(told) || left - sizeof(told) < bytes)
        return cut_off(s, i, n, bytes + sizeof(told), left);
    r = ck_source_read(s->source, s->at, &told, sizeof(told), s->err);
    if (r == 0)
        r = check_numel(s, block, told);
    if (r == 0)
        r = ck_source_part(s->source, s->at + sizeof(told), bytes, &block->source, s->err);
    s->at += sizeof(told) + bytes;
    return r;
}

static int place_blocks(struct stream *s) {
    _cleanup_(ck_pickle_release) struct ck_pickle keys = {0};
    const struct ck_value *list;
    int r;

    r = next_pickle(s, &keys);
    if (r < 0)
        return r;
    list = ck_pickle_get(&keys, keys.root);
    if (list->kind != CK_VALUE_LIST)
        return ck_error_set(s->err, CK_E_PICKLE_CORRUPT, NULL,
                            "the fifth pickle of the stream is %s, not the list of storages",
                            ck_value_kind_name((enum ck_value_kind)list->kind));
    for (uint32_t i = 0; r == 0 && i < list->list.count; i++) {
        struct block *block = NULL;

        r = find_block(s, &keys, list->list.items[i], &block);
        if (r == 0)
            r = place_block(s, block, i, list->list.count);
    }
    if (r == 0 && s->at < s->source->length)
        ck_findings_add(&s->model->findings, CK_FINDING_STRUCTURE, "", s->at, "", "",
                        "bytes follow the last storage of the stream", false);
    return r;
}

static bool find_storage(void *ctx, const char *key, struct ck_storage *ret_storage) {
    const struct stream *s = ctx;
    uint32_t index;

    if (!ck_strmap_get(&s->by_key, key, &index) || !s->blocks[index].listed)
        return false;
    ret_storage->source = s->blocks[index].source;
    return true;
}

/* ---- the whole ---- */

/* torch.load(weights_only=False) tries to read a tar first, so such a file would be another model there. */
static int refuse_tar(const struct ck_source *source, struct ck_error *err) {
    uint8_t block[CK_TAR_BLOCK];

    if (ck_source_read(source, 0, block, sizeof(block), NULL) < 0 || !ck_tar_is_header(block))
        return 0;
    return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, NULL,
                        "the file is a stream of pickles and a tar archive at once; readers differ in which they take");
}

bool ck_torch_legacy_recognise(const struct ck_source *source, const struct ck_limits *limits) {
    _cleanup_(ck_pickle_release) struct ck_pickle number = {0}, protocol = {0};
    struct ck_findings nobody;
    struct ck_limits few = *limits;
    bool recognised;

    few.pickle_opcodes = 64;
    few.pickle_bytes = 4096;
    ck_findings_init(&nobody);
    recognised = ck_pickle_run_at(source, 0, "", &few, &nobody, &number, NULL) == 0 &&
                 ck_pickle_run_at(source, number.length, "", &few, &nobody, &protocol, NULL) == 0 &&
                 is_int(&protocol, PROTOCOL) &&
                 (is_magic(&number) || ck_pickle_get(&number, number.root)->kind == CK_VALUE_CALL);
    ck_findings_release(&nobody);
    return recognised;
}

int ck_torch_legacy_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                          const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(stream_release) struct stream s = {
        .source = source, .limits = limits, .options = options, .model = model, .err = err};
    _cleanup_(ck_rebuild_release) struct ck_rebuild rebuild = {0};
    int r;

    r = read_pickles(&s);
    if (r == 0)
        r = refuse_tar(source, err);
    if (r == 0)
        r = collect_blocks(&s);
    if (r == 0)
        r = place_blocks(&s);
    if (r == 0)
        r = ck_rebuild_init(&rebuild, &s.object, limits, &model->arena, find_storage, &s, "", err);
    return r < 0 ? r : ck_model_from_graph(model, &rebuild, "", options, err);
}
