#include "core/model/torch_zip.h"

#include <string.h>
#include <strings.h>

#include "core/model/assemble.h"
#include "core/model/memory.h"
#include "core/model/names.h"
#include "core/model/nested_scan.h"
#include "core/model/zip_records.h"
#include "core/pickle/machine.h"

/* Entries beside the model's that are looked into for findings. */
#define STRANGERS_MAX 16

/* The one entry of this name in any folder. blind: without regard to case, as torch looks names up. */
static int find_named(const struct ck_zip *zip, const char *name, bool blind, const struct ck_zip_entry **ret_entry,
                      struct ck_error *err) {
    const struct ck_zip_entry *found = NULL;

    for (uint32_t i = 0; i < zip->count; i++) {
        if ((blind ? strcasecmp : strcmp)(ck_zip_last(zip->entries[i].name), name) != 0)
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

int ck_torch_zip_find(const struct ck_zip *zip, const char *name, struct ck_model *model,
                      const struct ck_zip_entry **ret_entry, struct ck_error *err) {
    int r = find_named(zip, name, false, ret_entry, err);

    if (r < 0 || *ret_entry)
        return r;
    r = find_named(zip, name, true, ret_entry, err);
    if (r == 0 && *ret_entry)
        ck_findings_add(&model->findings, CK_FINDING_STRUCTURE, (*ret_entry)->name, 0, "", "",
                        "torch finds this entry only because it ignores the case of names", false);
    return r;
}

/* True for an entry that the model has no use for and that begins like a pickle, or is called one. */
static bool is_stranger(const struct ck_zip_records *records, const struct ck_rebuild *rebuild,
                        const struct ck_zip_entry *pickle, const struct ck_zip_entry *entry) {
    size_t place = strlen(records->place);
    uint32_t storage;

    if (entry == pickle || (strncmp(entry->name, records->place, place) == 0 &&
                            ck_strmap_get(&rebuild->by_key, entry->name + place, &storage)))
        return false;
    return ck_zip_is_pickle(records->zip, entry);
}

/* A second pickle in an entry that nothing refers to is a known way to carry a payload past a scanner: say what it
 * would do. */
static void scan_strangers(const struct ck_zip_records *records, const struct ck_rebuild *rebuild,
                           const struct ck_zip_entry *own, const struct ck_model_options *options,
                           struct ck_model *model) {
    unsigned scanned = 0;

    for (uint32_t i = 0; i < records->zip->count && scanned < STRANGERS_MAX; i++) {
        const struct ck_zip_entry *entry = &records->zip->entries[i];
        _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
        _cleanup_(ck_freep) void *memory = NULL;
        struct ck_source bytes;

        if (!is_stranger(records, rebuild, own, entry))
            continue;
        scanned++;
        if (ck_zip_read(records->zip, entry, rebuild->limits->pickle_bytes, &bytes, &memory, NULL) < 0 ||
            ck_pickle_run(&bytes, entry->name, rebuild->limits, &model->findings, &pickle, NULL) < 0)
            continue;
        ck_findings_add(&model->findings, CK_FINDING_STRUCTURE, entry->name, 0, "", "",
                        "the entry is a pickle that nothing refers to", false);
        ck_nested_scan(&pickle, entry->name, rebuild->limits, options, &model->findings);
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
    rebuild->scratch = options ? options->scratch : NULL;
    rebuild->depth = options ? options->depth : 0;
    r = ck_walk_run(rebuild, entry, &model->findings, &walk, err);
    if (r < 0)
        return r;
    paths = ck_node_paths(&walk, &paths_arena);
    if (!paths)
        return ck_model_memory_spent(rebuild->limits, err);
    r = ck_choose(&walk, paths, options, &model->arena, &choice, err);
    if (r == 0)
        r = ck_choose_alternatives(&walk, paths, &choice, &model->arena, &model->alternatives, &model->n_alternatives,
                                   err);
    return r < 0 ? r : ck_assemble(&walk, paths, &choice, model, err);
}

static int index_pickle(const struct ck_zip *zip, const struct ck_zip_entry *entry, struct ck_model *model,
                        const struct ck_source *bytes, const struct ck_limits *limits,
                        const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
    _cleanup_(ck_rebuild_release) struct ck_rebuild rebuild = {0};
    int prefix = (int)ck_zip_folder(entry->name), r;
    struct ck_zip_records records = {
        .zip = zip,
        .scratch = options ? options->scratch : NULL,
        .arena = &model->arena,
        .place = ck_arena_printf(&model->arena, "%.*sdata/", prefix, entry->name),
    };

    if (!records.place)
        return ck_model_memory_spent(limits, err);
    r = ck_zip_byteorder(zip, entry->name, ck_zip_folder(entry->name), &records.swap, err);
    if (r == 0)
        r = ck_pickle_run(bytes, entry->name, limits, &model->findings, &pickle, err);
    if (r < 0)
        return r;
    ck_nested_scan(&pickle, entry->name, limits, options, &model->findings);
    r = ck_rebuild_init(&rebuild, &pickle, limits, &model->arena, ck_zip_records_find, &records, records.place, err);
    if (r < 0)
        return r;
    rebuild.passing = !entry->stored;
    r = ck_rebuild_note_dtypes(&rebuild, err);
    if (r < 0)
        return r;
    r = ck_model_from_graph(model, &rebuild, entry->name, options, err);
    scan_strangers(&records, &rebuild, entry, options, model);
    return ck_zip_records_result(&records, r, err);
}

/* torch 2.1 and 2.7 added entries; other writers leave all of them out. */
static const char *torch_hint(const struct ck_zip *zip, const struct ck_zip_entry *entry) {
    if (ck_zip_beside(zip, entry, ".format_version") || ck_zip_beside(zip, entry, ".storage_alignment"))
        return ">=2.7";
    if (ck_zip_beside(zip, entry, "byteorder") || ck_zip_beside(zip, entry, ".data/serialization_id"))
        return ">=2.1, <2.7";
    return ck_zip_beside(zip, entry, "version") ? ">=1.6, <2.1" : NULL;
}

int ck_torch_zip_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_limits *limits,
                       const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_freep) void *memory = NULL;
    const struct ck_zip_entry *entry;
    struct ck_source bytes;
    int r;

    r = ck_torch_zip_find(zip, "data.pkl", model, &entry, err);
    if (r == 0)
        r = ck_zip_read(zip, entry, limits->pickle_bytes, &bytes, &memory, err);
    if (r < 0)
        return r;
    model->torch_hint = torch_hint(zip, entry);
    return index_pickle(zip, entry, model, &bytes, limits, options, err);
}
