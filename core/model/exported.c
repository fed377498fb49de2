#include "core/model/exported.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_write.h"
#include "core/base/strmap.h"
#include "core/model/assemble.h"
#include "core/model/join.h"
#include "core/model/memory.h"
#include "core/model/payload_config.h"
#include "core/model/zip_records.h"

struct reader {
    struct ck_model *model;
    const struct ck_zip *zip;
    const struct ck_limits *limits;
    const struct ck_model_options *options; /* may be NULL */
    const char *prefix;                     /* "model/", or "" */
    bool swap;
};

static int memory_spent(const struct reader *reader, struct ck_error *err) {
    return ck_model_memory_spent(reader->limits, err);
}

static const struct ck_zip_entry *find(const struct reader *reader, const char *folder, const char *name,
                                       const char *ending) {
    const struct ck_zip_part parts[] = {
        {reader->prefix, strlen(reader->prefix)},
        {folder, strlen(folder)},
        {name, strlen(name)},
        {ending, strlen(ending)},
    };

    return ck_zip_find_parts(reader->zip, parts, CK_ARRAY_LEN(parts));
}

/* ---- a torch.save zip inside ---- */

static int unpack(const struct reader *reader, const struct ck_zip_entry *entry, struct ck_source *ret_source,
                  struct ck_error *err) {
    struct ck_scratch *scratch = reader->options ? reader->options->scratch : NULL;

    if (entry->stored)
        return ck_source_part(&reader->zip->source, entry->offset, entry->size, ret_source, err);
    if (scratch)
        return ck_zip_unpack(reader->zip, entry, scratch, ret_source, err);
    return ck_error_set(err, CK_E_UNSUPPORTED_FORM, entry->name,
                        "the weights are stored compressed, and there is no room to unpack them");
}

/* *ret_part: NULL if it holds no tensors. */
static int open_inside(const struct reader *reader, const struct ck_zip_entry *entry, struct ck_model **ret_part,
                       struct ck_error *err) {
    unsigned depth = reader->options ? reader->options->depth + 1 : 1;
    struct ck_model_options options = {
        .state_dict = ".", .scratch = reader->options ? reader->options->scratch : NULL, .depth = depth};
    _cleanup_(ck_model_freep) struct ck_model *part = NULL;
    struct ck_error problem = {0};
    struct ck_source source;
    int r;

    if (depth > reader->limits->nesting)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, entry->name,
                            "it is an archive inside %u others, more than --limit-nesting", depth);
    r = unpack(reader, entry, &source, err);
    if (r < 0)
        return r;
    r = ck_model_open(&source, reader->limits, &options, &part, &problem);
    if (r == CK_E_NO_TENSORS)
        return 0;
    if (r < 0)
        return ck_error_set(err, r, entry->name, "%.200s: %.700s", entry->name, problem.message);
    *ret_part = TAKE_PTR(part);
    return 0;
}

static int join_inside(const struct reader *reader, const struct ck_zip_entry *entry, enum ck_join how,
                       struct ck_error *err) {
    _cleanup_(ck_model_freep) struct ck_model *part = NULL;
    int r = open_inside(reader, entry, &part, err);

    return r < 0 || !part ? r : ck_model_join(reader->model, part, "", how, reader->limits, err);
}

/* ---- raw storages and their configuration ---- */

/* The tensors of one configuration, collected before they are joined to the model. */
struct payloads {
    const struct reader *reader;
    const char *folder; /* "data/weights/" */
    struct ck_zip_records records;
    struct ck_model *part;
    struct ck_strmap names;   /* of the tensors so far */
    struct ck_strmap by_path; /* path_name to the storage, or CK_NO_INDEX: no such entry */
    uint32_t tensors_capacity, storages_capacity;
    struct ck_tensor *tensors;   /* owned */
    struct ck_storage *storages; /* owned */
};

static void payloads_release(struct payloads *p) {
    ck_strmap_release(&p->names);
    ck_strmap_release(&p->by_path);
    free(p->tensors);
    free(p->storages);
    ck_model_free(p->part);
}

static int fault(const struct payloads *p, struct ck_tensor *tensor, int code, const char *message,
                 struct ck_error *err) {
    if (!message)
        return memory_spent(p->reader, err);
    tensor->error = code;
    tensor->error_message = message;
    return 0;
}

static int add_storage(struct payloads *p, const struct ck_storage *storage, uint32_t *ret_index,
                       struct ck_error *err) {
    if (!ck_grow((void **)&p->storages, p->part->n_storages, &p->storages_capacity, sizeof(*storage)))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the storages");
    *ret_index = p->part->n_storages++;
    p->storages[*ret_index] = *storage;
    return 0;
}

/* The storage in the file `path`, which several tensors may share. */
static int find_storage(struct payloads *p, const char *path, uint32_t *ret_index, struct ck_error *err) {
    struct ck_storage storage = {0};
    int r = 0;

    if (ck_strmap_get(&p->by_path, path, ret_index))
        return 0;
    storage.key = ck_arena_strdup(&p->part->arena, path);
    if (!storage.key)
        return memory_spent(p->reader, err);
    *ret_index = CK_NO_INDEX;
    if (ck_zip_records_find(&p->records, path, &storage))
        r = add_storage(p, &storage, ret_index, err);
    if (r == 0 && !ck_strmap_set(&p->by_path, storage.key, *ret_index))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the storages");
    return r;
}

static int check_place(const struct payloads *p, const char *path, struct ck_tensor *tensor, struct ck_error *err) {
    const struct ck_storage *storage = tensor->storage != CK_NO_INDEX ? &p->storages[tensor->storage] : NULL;
    struct ck_arena *arena = &p->part->arena;
    struct ck_error bounds = {0};
    int r;

    if (!storage)
        return fault(p, tensor, CK_E_TENSOR_OUT_OF_BOUNDS,
                     ck_arena_printf(arena, "its storage %.200s%.200s is missing from the file", p->folder, path), err);
    if (storage->deflated || storage->unreadable)
        return fault(p, tensor, CK_E_UNSUPPORTED_TENSOR,
                     ck_arena_printf(arena, "its storage %.200s%.200s cannot be unpacked: %.300s", p->folder, path,
                                     storage->deflated ? "there is no room for it" : storage->unreadable),
                     err);
    r = ck_view_check(&tensor->view, storage->source.length, NULL, &bounds);
    if (r < 0)
        return fault(p, tensor, r, ck_arena_printf(arena, "%s (%.200s%.200s)", bounds.message, p->folder, path), err);
    return 0;
}

static int describe(struct payloads *p, const struct ck_payload *payload, struct ck_tensor *tensor,
                    struct ck_error *err) {
    struct ck_arena *arena = &p->part->arena;
    size_t rank = payload->n_sizes;
    int64_t *dims = ck_arena_alloc_array(arena, rank * 2, sizeof(*dims));
    const char *problem = payload->problem;
    int r;

    if (!dims)
        return memory_spent(p->reader, err);
    tensor->view = (struct ck_view){.dtype = CK_DTYPE_END_, .shape = dims, .stride = dims + rank};
    if (!problem && !payload->described)
        problem = "it has no tensor_meta";
    if (!problem && payload->n_sizes != payload->n_strides)
        problem = "sizes and strides differ in length";
    if (problem)
        return fault(p, tensor, CK_E_UNSUPPORTED_TENSOR,
                     ck_arena_printf(arena, "its description is malformed: %s", problem), err);
    memcpy(dims, payload->sizes, rank * sizeof(*dims));
    memcpy(dims + rank, payload->strides, rank * sizeof(*dims));
    tensor->view.rank = payload->n_sizes;
    tensor->view.offset = payload->offset;
    if (ck_payload_layout(payload->layout))
        return fault(p, tensor, CK_E_UNSUPPORTED_TENSOR,
                     ck_arena_printf(arena, "its layout is %s", ck_payload_layout(payload->layout)), err);
    if (!ck_payload_dtype(payload->dtype, &tensor->view.dtype))
        return fault(p, tensor, CK_E_UNSUPPORTED_DTYPE,
                     ck_arena_printf(arena, "its dtype has the number %" PRIu64 ", which is not known", payload->dtype),
                     err);
    r = find_storage(p, payload->path, &tensor->storage, err);
    return r < 0 ? r : check_place(p, payload->path, tensor, err);
}

/* The one tensor of a torch.save zip, with its storage. */
static int copy_value(struct payloads *p, const struct ck_model *inside, struct ck_tensor *tensor,
                      struct ck_error *err) {
    const struct ck_tensor *value = &inside->tensors[0];
    struct ck_storage storage = inside->storages[value->storage];
    size_t rank = value->view.rank;
    int64_t *dims = ck_arena_alloc_array(&p->part->arena, rank * 2, sizeof(*dims));

    storage.key = tensor->name;
    if (storage.source.memory)
        storage.source.memory =
            (const uint8_t *)ck_arena_copy(&p->part->arena, storage.source.memory, (size_t)storage.source.length);
    if (!dims || (storage.source.fd < 0 && !storage.source.memory))
        return memory_spent(p->reader, err);
    memcpy(dims, value->view.shape, rank * sizeof(*dims));
    memcpy(dims + rank, value->view.stride, rank * sizeof(*dims));
    tensor->conj = value->conj;
    tensor->neg = value->neg;
    tensor->view = value->view;
    tensor->conj = value->conj;
    tensor->neg = value->neg;
    tensor->view.shape = dims;
    tensor->view.stride = dims + rank;
    return add_storage(p, &storage, &tensor->storage, err);
}

/* A tensor subclass, or an object: whatever torch.save made of it. */
static int add_pickled(struct payloads *p, const struct ck_payload *payload, const struct ck_zip_entry *entry,
                       struct ck_tensor *tensor, bool *ret_is_tensor, struct ck_error *err) {
    _cleanup_(ck_model_freep) struct ck_model *inside = NULL;
    struct ck_arena *arena = &p->part->arena;
    struct ck_error problem = {0};
    int r = open_inside(p->reader, entry, &inside, &problem);

    *ret_is_tensor = r < 0 || inside;
    /* The fault of this machine, not of the tensor. */
    if (r < 0 && (ck_error_row(r)->class_ == CK_CLASS_server || r == CK_E_TENSOR_LIMIT))
        return ck_error_set(err, r, entry->name, "%s", problem.message);
    if (r < 0)
        return fault(p, tensor, CK_E_UNSUPPORTED_TENSOR, ck_arena_strdup(arena, problem.message), err);
    if (!inside)
        return 0;
    if (inside->n_tensors != 1 || strcmp(inside->tensors[0].path, "") != 0)
        return fault(
            p, tensor, CK_E_UNSUPPORTED_TENSOR,
            ck_arena_printf(arena, "%.200s%.200s holds something else than one tensor", p->folder, payload->path), err);
    if (inside->tensors[0].error)
        return fault(p, tensor, inside->tensors[0].error, ck_arena_strdup(arena, inside->tensors[0].error_message),
                     err);
    if (inside->tensors[0].quantizer)
        return fault(p, tensor, CK_E_UNSUPPORTED_TENSOR,
                     ck_arena_strdup(arena, "it is quantized by torch, which is not read inside an exported program"),
                     err);
    return copy_value(p, inside, tensor, err);
}

static int add_payload(void *ctx, const struct ck_payload *payload, struct ck_error *err) {
    static const int64_t no_dims[1];
    struct payloads *p = ctx;
    const char *name = ck_arena_strdup(&p->part->arena, payload->name);
    struct ck_tensor tensor = {.path = name,
                               .name = name,
                               .view = {.dtype = CK_DTYPE_END_, .shape = no_dims, .stride = no_dims},
                               .storage = CK_NO_INDEX,
                               .alias_of = CK_NO_INDEX,
                               .module = CK_NO_INDEX,
                               .parameter = payload->parameter,
                               .persistent = true};
    const struct ck_zip_entry *entry = payload->pickled ? find(p->reader, p->folder, payload->path, "") : NULL;
    bool is_tensor = true;
    uint32_t twin;
    int r;

    if (!name)
        return memory_spent(p->reader, err);
    if (ck_strmap_get(&p->names, name, &twin))
        return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, name, "'%.200s' occurs twice in %.200s", name, p->folder);
    if (!ck_strmap_set(&p->names, name, 0))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the names");
    if (p->part->n_tensors >= p->reader->limits->tensors)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL, "it has more than %" PRIu64 " tensors (--limit-tensors)",
                            p->reader->limits->tensors);
    r = entry ? add_pickled(p, payload, entry, &tensor, &is_tensor, err) : describe(p, payload, &tensor, err);
    if (r < 0)
        return r;
    if (!is_tensor) {
        ck_findings_add(&p->part->findings, CK_FINDING_STRUCTURE, entry->name, 0, "", "",
                        "a constant of the program is an object without tensors and is left out", false);
        return 0;
    }
    if (!ck_grow((void **)&p->tensors, p->part->n_tensors, &p->tensors_capacity, sizeof(tensor)))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the tensors");
    p->tensors[p->part->n_tensors++] = tensor;
    return 0;
}

static int join_config(const struct reader *reader, const struct ck_zip_entry *entry, const char *folder,
                       enum ck_join how, struct ck_error *err) {
    _cleanup_(payloads_release) struct payloads p = {.reader = reader, .folder = folder};
    _cleanup_(ck_freep) void *memory = NULL;
    struct ck_source bytes;
    int r;

    r = ck_model_new(0, reader->limits, &p.part, err);
    if (r < 0)
        return r;
    p.records = (struct ck_zip_records){.zip = reader->zip,
                                        .scratch = reader->options ? reader->options->scratch : NULL,
                                        .arena = &p.part->arena,
                                        .place = ck_arena_printf(&p.part->arena, "%s%s", reader->prefix, folder),
                                        .swap = reader->swap};
    if (!p.records.place)
        return memory_spent(reader, err);
    r = ck_zip_read(reader->zip, entry, reader->limits->header_bytes, &bytes, &memory, err);
    if (r == 0)
        r = ck_payload_config_read(&bytes, entry->name, reader->limits, add_payload, &p, err);
    r = ck_zip_records_result(&p.records, r, err);
    if (r < 0)
        return r;
    p.part->tensors = p.tensors;
    p.part->storages = p.storages;
    return ck_model_join(reader->model, p.part, "", how, reader->limits, err);
}

/* ---- which program ---- */

#define FOLDER_WEIGHTS   "data/weights/"
#define FOLDER_CONSTANTS "data/constants/"

/* "model/models/NAME.json": NAME, in the arena; NULL if the entry is no program, or with *ret_spent no memory. */
static const char *program_name(const struct reader *reader, const char *entry, bool *ret_spent) {
    size_t prefix = strlen(reader->prefix), n = strlen(entry);
    const char *name = entry + prefix + 7;

    if (n <= prefix + 12 || strncmp(entry, reader->prefix, prefix) != 0 || strncmp(entry + prefix, "models/", 7) != 0 ||
        strcmp(entry + n - 5, ".json") != 0 || strchr(name, '/'))
        return NULL;
    name = ck_arena_copy(&reader->model->arena, name, n - prefix - 12);
    *ret_spent = !name;
    return name;
}

static int refuse_program(const struct reader *reader, int code, const char *what, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer list, details;
    struct ck_json json;

    ck_buffer_init(&list, sizeof(err->message) - 200);
    ck_buffer_init(&details, sizeof(err->details) - 1);
    ck_json_init(&json, ck_json_sink_buffer, &details, NULL);
    ck_json_array_begin(&json);
    for (uint32_t i = 0; i < reader->zip->count; i++) {
        bool spent = false;
        const char *name = program_name(reader, reader->zip->entries[i].name, &spent);

        if (!name || 6 * strlen(name) + 3 + details.length >= sizeof(err->details) - 1 ||
            !ck_buffer_printf(&list, "%s%.200s", list.length > 0 ? ", " : "", name))
            continue;
        ck_json_string(&json, name);
    }
    ck_json_array_end(&json);
    ck_json_finish(&json);
    ck_error_set(err, code, "state_dict", "%s: %s", what, ck_buffer_text(&list));
    ck_error_set_hint(err, "name one with the option state_dict=NAME");
    snprintf(err->details, sizeof(err->details), "%s", ck_buffer_text(&details));
    return code;
}

/* The program that the option names, or the only one; "model" if there is none. */
static int choose_program(const struct reader *reader, const char **ret_name, struct ck_error *err) {
    const char *wanted = reader->options ? reader->options->state_dict : NULL;
    uint32_t programs = 0;

    *ret_name = "model";
    if (wanted && (!wanted[0] || strcmp(wanted, ".") == 0))
        wanted = NULL;
    for (uint32_t i = 0; i < reader->zip->count; i++) {
        bool spent = false;
        const char *name = program_name(reader, reader->zip->entries[i].name, &spent);

        if (spent)
            return memory_spent(reader, err);
        if (!name || (wanted && strcmp(wanted, name) != 0))
            continue;
        *ret_name = name;
        programs++;
    }
    if (wanted && programs == 0)
        return refuse_program(reader, CK_E_STATE_DICT_NOT_FOUND, "the archive has no such program; it has these", err);
    return programs > 1 ? refuse_program(reader, CK_E_AMBIGUOUS_STATE_DICT, "the archive holds several programs", err)
                        : 0;
}

/* ---- the whole ---- */

/* The forms of one set of tensors, the newest first; whichever is there. */
static int join_set(const struct reader *reader, const char *folder, const char *program, const char *config,
                    const char *old_name, enum ck_join how, struct ck_error *err) {
    static const char *const endings[] = {".pt", ".json"};
    const struct ck_zip_entry *entry = find(reader, folder, program, config);

    if (entry)
        return join_config(reader, entry, folder, how, err);
    entry = find(reader, folder, program, ".pt");
    for (size_t i = 0; !entry && i < CK_ARRAY_LEN(endings); i++)
        entry = find(reader, "", old_name, endings[i]);
    return entry && entry->size > 0 ? join_inside(reader, entry, how, err) : 0;
}

static void report_code(const struct reader *reader) {
    for (uint32_t i = 0; i < reader->zip->count; i++) {
        const char *name = reader->zip->entries[i].name;
        size_t n = strlen(name);

        if (n > 3 && strcmp(name + n - 3, ".so") == 0)
            ck_findings_add(&reader->model->findings, CK_FINDING_DANGEROUS, name, 0, "", "",
                            "the archive carries machine code, which loading it would run", false);
    }
}

int ck_exported_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_zip_entry *mark,
                      const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err) {
    struct reader reader = {.model = model, .zip = zip, .limits = limits, .options = options};
    const char *program;
    enum ck_join how;
    int r;

    model->form = "pt2";
    model->root_path = "";
    model->root_why = "the state dict of the exported program";
    reader.prefix = ck_arena_copy(&model->arena, mark->name, ck_zip_folder(mark->name));
    if (!reader.prefix)
        return ck_model_memory_spent(limits, err);
    report_code(&reader);
    r = choose_program(&reader, &program, err);
    if (r == 0)
        r = ck_zip_byteorder(zip, mark->name, ck_zip_folder(mark->name), &reader.swap, err);
    if (r == 0)
        r = join_set(&reader, FOLDER_WEIGHTS, program, "_weights_config.json", "serialized_state_dict", CK_JOIN_WEIGHTS,
                     err);
    how = model->n_tensors > 0 ? CK_JOIN_CONSTANTS : CK_JOIN_WEIGHTS;
    if (r == 0)
        r = join_set(&reader, FOLDER_CONSTANTS, program, "_constants_config.json", "serialized_constants", how, err);
    if (r < 0 || model->n_tensors > 0)
        return r;
    ck_error_set(err, CK_E_NO_TENSORS, NULL, "the exported program holds no weights");
    ck_error_set_hint(err, "it was exported without parameters, or its weights were taken out; send the checkpoint");
    return CK_E_NO_TENSORS;
}
