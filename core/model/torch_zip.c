#include "core/model/torch_zip.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/container/zip.h"
#include "core/model/assemble.h"
#include "core/model/memory.h"
#include "core/model/names.h"
#include "core/model/zip_forms.h"
#include "core/pickle/machine.h"

/* Entries beside the model's that are looked into for findings. */
#define STRANGERS_MAX 16

/* An open archive and where its parts are. */
struct torch_zip {
    struct ck_zip zip;
    const struct ck_zip_entry *pickle;
    const char *place; /* "archive/data/", in the model's arena */
    bool swap;
};

static void torch_zip_release(struct torch_zip *file) {
    ck_zip_release(&file->zip);
}

static const char *last_component(const char *name) {
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

/* The one entry called data.pkl in any folder. blind: without regard to case, as torch looks names up. */
static int find_pickle(const struct ck_zip *zip, bool blind, const struct ck_zip_entry **ret_entry,
                       struct ck_error *err) {
    const struct ck_zip_entry *found = NULL;

    for (uint32_t i = 0; i < zip->count; i++) {
        const char *last = last_component(zip->entries[i].name);

        if ((blind ? strcasecmp : strcmp)(last, "data.pkl") != 0)
            continue;
        if (found)
            return ck_error_set(err, CK_E_ARCHIVE_UNSAFE, zip->entries[i].name,
                                "the archive has two pickles, %.200s and %.200s; readers may differ in which they take",
                                found->name, zip->entries[i].name);
        found = &zip->entries[i];
    }
    *ret_entry = found;
    return 0;
}

static int locate_pickle(struct torch_zip *file, struct ck_model *model, struct ck_error *err) {
    int r;

    r = ck_zip_refuse_known(&file->zip, err);
    if (r == 0)
        r = find_pickle(&file->zip, false, &file->pickle, err);
    if (r < 0 || file->pickle)
        return r;
    r = find_pickle(&file->zip, true, &file->pickle, err);
    if (r < 0)
        return r;
    if (!file->pickle)
        return ck_zip_refuse(&file->zip, err);
    ck_findings_add(&model->findings, CK_FINDING_STRUCTURE, file->pickle->name, 0, "", "",
                    "torch finds this entry only because it ignores the case of names", false);
    return 0;
}

/* An entry beside data.pkl. NULL if there is none, or no memory for its name. */
static const struct ck_zip_entry *find_beside(const struct torch_zip *file, struct ck_arena *arena, const char *name) {
    int prefix = (int)(last_component(file->pickle->name) - file->pickle->name);
    const char *full = ck_arena_printf(arena, "%.*s%s", prefix, file->pickle->name, name);

    return full ? ck_zip_find(&file->zip, full) : NULL;
}

static int read_byteorder(struct torch_zip *file, struct ck_model *model, struct ck_error *err) {
    const struct ck_zip_entry *entry = find_beside(file, &model->arena, "byteorder");
    _cleanup_(ck_freep) void *memory = NULL;
    struct ck_source bytes;
    char word[8] = "";
    int r;

    if (!entry)
        return 0;
    r = ck_zip_read(&file->zip, entry, sizeof(word) - 1, &bytes, &memory, err);
    if (r == 0)
        r = ck_source_read(&bytes, 0, word, (size_t)bytes.length, err);
    if (r < 0)
        return r;
    word[strcspn(word, "\r\n ")] = 0;
    file->swap = strcmp(word, "big") == 0;
    if (!file->swap && strcmp(word, "little") != 0)
        return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, entry->name, "its byte order is neither little nor big");
    return 0;
}

static bool find_record(void *ctx, const char *key, struct ck_storage *ret_storage) {
    const struct torch_zip *file = ctx;
    _cleanup_(ck_freep) char *name = NULL;
    const struct ck_zip_entry *entry;

    if (asprintf(&name, "%s%s", file->place, key) < 0) {
        name = NULL;
        return false;
    }
    entry = ck_zip_find(&file->zip, name);
    if (!entry || ck_source_part(&file->zip.source, entry->offset, entry->packed, &ret_storage->source, NULL) < 0)
        return false;
    ret_storage->swap = file->swap;
    ret_storage->deflated = !entry->stored;
    return true;
}

/* True for an entry that the model has no use for and that begins like a pickle, or is called one. */
static bool is_stranger(const struct torch_zip *file, const struct ck_rebuild *rebuild,
                        const struct ck_zip_entry *entry) {
    size_t place = strlen(file->place), length = strlen(entry->name);
    uint8_t head[2] = {0};
    uint32_t storage;

    if (entry == file->pickle || (strncmp(entry->name, file->place, place) == 0 &&
                                  ck_strmap_get(&rebuild->by_key, entry->name + place, &storage)))
        return false;
    if (length > 4 && strcasecmp(entry->name + length - 4, ".pkl") == 0)
        return true;
    return entry->stored && entry->size > sizeof(head) &&
           ck_source_read(&file->zip.source, entry->offset, head, sizeof(head), NULL) == 0 && head[0] == 0x80 &&
           head[1] >= 2 && head[1] <= 5;
}

/* A second pickle in an entry that nothing refers to is a known way to carry a payload past a scanner: say what it
 * would do. */
static void scan_strangers(const struct torch_zip *file, const struct ck_rebuild *rebuild, struct ck_model *model) {
    unsigned scanned = 0;

    for (uint32_t i = 0; i < file->zip.count && scanned < STRANGERS_MAX; i++) {
        const struct ck_zip_entry *entry = &file->zip.entries[i];
        _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
        _cleanup_(ck_freep) void *memory = NULL;
        struct ck_source bytes;

        if (!is_stranger(file, rebuild, entry))
            continue;
        scanned++;
        if (ck_zip_read(&file->zip, entry, rebuild->limits->pickle_bytes, &bytes, &memory, NULL) == 0 &&
            ck_pickle_run(&bytes, entry->name, rebuild->limits, &model->findings, &pickle, NULL) == 0)
            ck_findings_add(&model->findings, CK_FINDING_STRUCTURE, entry->name, 0, "", "",
                            "the entry is a pickle that nothing refers to", false);
    }
}

int ck_model_from_graph(struct ck_model *model, struct ck_rebuild *rebuild, const char *entry,
                        const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_walk_release) struct ck_walk walk = {0};
    _cleanup_(ck_arena_release) struct ck_arena paths_arena;
    struct ck_choice choice;
    const char **paths;
    int r;

    ck_arena_init(&paths_arena, (size_t)rebuild->limits->model_memory);
    r = ck_walk_run(rebuild, entry, &model->findings, &walk, err);
    if (r < 0)
        return r;
    paths = ck_node_paths(&walk, &paths_arena);
    if (!paths)
        return ck_model_memory_spent(rebuild->limits, err);
    r = ck_choose(&walk, paths, options, &model->arena, &choice, err);
    return r < 0 ? r : ck_assemble(&walk, paths, &choice, model, err);
}

static int index_pickle(struct torch_zip *file, struct ck_model *model, const struct ck_source *bytes,
                        const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
    _cleanup_(ck_rebuild_release) struct ck_rebuild rebuild = {0};
    int prefix = (int)(last_component(file->pickle->name) - file->pickle->name), r;

    file->place = ck_arena_printf(&model->arena, "%.*sdata/", prefix, file->pickle->name);
    if (!file->place)
        return ck_model_memory_spent(limits, err);
    r = ck_pickle_run(bytes, file->pickle->name, limits, &model->findings, &pickle, err);
    if (r < 0)
        return r;
    r = ck_rebuild_init(&rebuild, &pickle, limits, &model->arena, find_record, file, file->place, err);
    if (r < 0)
        return r;
    r = ck_model_from_graph(model, &rebuild, file->pickle->name, options, err);
    scan_strangers(file, &rebuild, model);
    return r;
}

int ck_torch_zip_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                       const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(torch_zip_release) struct torch_zip file = {0};
    _cleanup_(ck_freep) void *memory = NULL;
    struct ck_source bytes;
    int r;

    r = ck_zip_open(source, limits, &model->findings, &file.zip, err);
    if (r == 0)
        r = locate_pickle(&file, model, err);
    if (r == 0)
        r = read_byteorder(&file, model, err);
    if (r == 0)
        r = ck_zip_read(&file.zip, file.pickle, limits->pickle_bytes, &bytes, &memory, err);
    return r < 0 ? r : index_pickle(&file, model, &bytes, limits, options, err);
}
