#include "core/model/torch_package.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_write.h"
#include "core/model/memory.h"
#include "core/model/torch_zip.h"
#include "core/model/torchscript.h"
#include "core/model/zip_records.h"
#include "core/model/nested_scan.h"
#include "core/pickle/machine.h"

#define SCRIPTS ".data/ts_code/"

struct package {
    struct ck_model *model;
    const struct ck_zip *zip;
    const struct ck_limits *limits;
    const struct ck_model_options *options; /* may be NULL */
    size_t prefix;                          /* bytes of "name/" in front of every entry */
    const char *storages, *code;            /* "name/.data/", "name/.data/ts_code/code/" */
    bool swap;
    const struct ck_zip_entry **found; /* owned: the pickles with tensors */
    uint32_t n_found, found_capacity;
    struct ck_error problem; /* of the first pickle that could not be read */
};

static void package_release(struct package *package) {
    free(package->found);
}

/* The path in the package. */
static const char *resource(const struct package *package, const struct ck_zip_entry *entry) {
    return entry->name + package->prefix;
}

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), e = strlen(ending);

    return n >= e && strcmp(name + n - e, ending) == 0;
}

static bool is_script(const struct package *package, const struct ck_zip_entry *entry) {
    return strncmp(resource(package, entry), SCRIPTS, strlen(SCRIPTS)) == 0;
}

static bool is_pickle(const struct package *package, const struct ck_zip_entry *entry) {
    size_t prefix = package->prefix;

    if (strncmp(entry->name, package->storages, prefix) != 0)
        return false;
    if (is_script(package, entry))
        return strcmp(ck_zip_last(entry->name), "data.pkl") == 0;
    return strncmp(resource(package, entry), ".data/", 6) != 0 && ends_with(entry->name, ".pkl");
}

/* ---- one pickle ---- */

static int read_script(const struct package *package, const struct ck_zip_entry *entry, struct ck_model *model,
                       const struct ck_model_options *options, struct ck_error *err) {
    const struct ck_script_parts parts = {.data = entry,
                                          .constants = ck_zip_beside(package->zip, entry, "constants.pkl"),
                                          .data_place = package->storages,
                                          .constants_place = package->storages,
                                          .code_place = package->code,
                                          .swap = package->swap};

    return ck_torchscript_read(model, package->zip, &parts, package->limits, options, err);
}

static int read_pickle(const struct package *package, const struct ck_zip_entry *entry, struct ck_model *model,
                       const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
    _cleanup_(ck_rebuild_release) struct ck_rebuild rebuild = {0};
    _cleanup_(ck_freep) void *memory = NULL;
    struct ck_zip_records records = {.zip = package->zip,
                                     .scratch = options->scratch,
                                     .arena = &model->arena,
                                     .place = package->storages,
                                     .swap = package->swap};
    struct ck_source bytes;
    int r;

    r = ck_zip_read(package->zip, entry, package->limits->pickle_bytes, &bytes, &memory, err);
    if (r == 0)
        r = ck_pickle_run(&bytes, entry->name, package->limits, &model->findings, &pickle, err);
    if (r == 0)
        ck_nested_scan(&pickle, entry->name, package->limits, options, &model->findings);
    if (r == 0)
        r = ck_rebuild_init(&rebuild, &pickle, package->limits, &model->arena, ck_zip_records_find, &records,
                            package->storages, err);
    if (r == 0)
        r = ck_model_from_graph(model, &rebuild, entry->name, options, err);
    return ck_zip_records_result(&records, r, err);
}

/* path: inside the pickle, or NULL. */
static int read_entry(const struct package *package, const struct ck_zip_entry *entry, const char *path,
                      struct ck_model *model, struct ck_error *err) {
    struct ck_model_options options = {.state_dict = path,
                                       .scratch = package->options ? package->options->scratch : NULL,
                                       .depth = package->options ? package->options->depth : 0};

    return (is_script(package, entry) ? read_script : read_pickle)(package, entry, model, &options, err);
}

/* ---- which pickle ---- */

/* Nothing is unpacked for a pickle that may not be taken. */
static int look_into(struct package *package, const struct ck_zip_entry *entry, struct ck_error *err) {
    _cleanup_(ck_model_freep) struct ck_model *part = NULL;
    const struct ck_model_options options = {0};
    struct ck_error problem = {0};
    int r;

    r = ck_model_new(0, package->limits, &part, err);
    if (r < 0)
        return r;
    r = (is_script(package, entry) ? read_script : read_pickle)(package, entry, part, &options, &problem);
    if (r == CK_E_NO_TENSORS)
        return 0;
    if (r < 0 && r != CK_E_AMBIGUOUS_STATE_DICT) {
        if (package->problem.code == 0)
            package->problem = problem;
        ck_findings_add(&package->model->findings, CK_FINDING_STRUCTURE, entry->name, 0, "", "",
                        "a pickle of the package cannot be read", false);
        return 0;
    }
    if (!ck_grow((void **)&package->found, package->n_found, &package->found_capacity, sizeof(*package->found)))
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the pickles");
    package->found[package->n_found++] = entry;
    return 0;
}

static int find_pickles(struct package *package, struct ck_error *err) {
    uint64_t pickles = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < package->zip->count; i++) {
        if (!is_pickle(package, &package->zip->entries[i]))
            continue;
        if (++pickles > package->limits->pickles)
            return ck_error_set(err, CK_E_PICKLE_LIMIT, NULL,
                                "the package has more than %" PRIu64 " pickles (--limit-pickles)",
                                package->limits->pickles);
        r = look_into(package, &package->zip->entries[i], err);
    }
    return r;
}

static int refuse(const struct package *package, int code, const char *what, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer list, details;
    struct ck_json json;

    ck_buffer_init(&list, sizeof(err->message) - 200);
    ck_buffer_init(&details, sizeof(err->details) - 1);
    ck_json_init(&json, ck_json_sink_buffer, &details, NULL);
    ck_json_array_begin(&json);
    for (uint32_t i = 0; i < package->n_found; i++) {
        const char *name = resource(package, package->found[i]);

        if (6 * strlen(name) + 3 + details.length >= sizeof(err->details) - 1 ||
            !ck_buffer_printf(&list, "%s%.200s", i > 0 ? ", " : "", name))
            break;
        ck_json_string(&json, name);
    }
    ck_json_array_end(&json);
    ck_json_finish(&json);
    ck_error_set(err, code, "state_dict", "%s: %s", what, ck_buffer_text(&list));
    ck_error_set_hint(err, "name one with the option state_dict=PATH");
    snprintf(err->details, sizeof(err->details), "%s", ck_buffer_text(&details));
    return code;
}

static int no_pickle(const struct package *package, struct ck_error *err) {
    if (package->problem.code != 0) {
        *err = package->problem;
        return err->code;
    }
    return ck_error_set(err, CK_E_NO_TENSORS, NULL, "no pickle of the package holds tensors");
}

/* *ret_path: what is behind the colon of the option, or NULL. */
static int choose(const struct package *package, const struct ck_zip_entry **ret_entry, const char **ret_path,
                  struct ck_error *err) {
    const char *wanted = package->options ? package->options->state_dict : NULL;

    *ret_path = NULL;
    if (package->n_found == 0)
        return no_pickle(package, err);
    *ret_entry = package->found[0];
    if (!wanted || !wanted[0] || strcmp(wanted, ".") == 0)
        return package->n_found == 1
                   ? 0
                   : refuse(package, CK_E_AMBIGUOUS_STATE_DICT, "several pickles of the package hold tensors", err);
    for (uint32_t i = 0; i < package->n_found; i++) {
        const char *name = resource(package, package->found[i]);
        size_t n = strlen(name);

        if (strncmp(wanted, name, n) != 0 || (wanted[n] != 0 && wanted[n] != ':'))
            continue;
        *ret_entry = package->found[i];
        *ret_path = wanted[n] ? wanted + n + 1 : NULL;
        return 0;
    }
    if (package->n_found == 1) {
        *ret_path = wanted;
        return 0;
    }
    return refuse(package, CK_E_STATE_DICT_NOT_FOUND, "the package has no such pickle with tensors; it has these", err);
}

/* What the other pickles would do is worth knowing, too. */
static void scan_others(const struct package *package, const struct ck_zip_entry *taken) {
    for (uint32_t i = 0; i < package->zip->count; i++) {
        const struct ck_zip_entry *entry = &package->zip->entries[i];
        _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
        _cleanup_(ck_freep) void *memory = NULL;
        struct ck_source bytes;

        if (entry != taken && is_pickle(package, entry) && !is_script(package, entry) &&
            ck_zip_read(package->zip, entry, package->limits->pickle_bytes, &bytes, &memory, NULL) == 0 &&
            ck_pickle_run(&bytes, entry->name, package->limits, &package->model->findings, &pickle, NULL) == 0)
            ck_nested_scan(&pickle, entry->name, package->limits, package->options, &package->model->findings);
    }
}

int ck_torch_package_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_zip_entry *mark,
                           const struct ck_limits *limits, const struct ck_model_options *options,
                           struct ck_error *err) {
    _cleanup_(package_release) struct package package = {
        .model = model, .zip = zip, .limits = limits, .options = options};
    size_t place = ck_zip_folder(mark->name);
    const struct ck_zip_entry *entry = NULL;
    const char *path;
    int r;

    model->form = "torch-package";
    package.prefix = place - 6; /* ".data/" */
    package.storages = ck_arena_copy(&model->arena, mark->name, place);
    package.code = ck_arena_printf(&model->arena, "%.*s%scode/", (int)package.prefix, mark->name, SCRIPTS);
    if (!package.storages || !package.code)
        return ck_model_memory_spent(limits, err);
    r = ck_zip_byteorder(zip, mark->name, package.prefix, &package.swap, err);
    if (r == 0)
        r = find_pickles(&package, err);
    if (r == 0)
        r = choose(&package, &entry, &path, err);
    scan_others(&package, entry);
    if (r < 0)
        return r;
    model->member = ck_arena_strdup(&model->arena, resource(&package, entry));
    if (!model->member)
        return ck_model_memory_spent(limits, err);
    return read_entry(&package, entry, path, model, err);
}
