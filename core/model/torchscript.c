#include "core/model/torchscript.h"

#include <string.h>

#include "core/model/assemble.h"
#include "core/model/join.h"
#include "core/model/memory.h"
#include "core/model/names.h"
#include "core/model/torch_zip.h"
#include "core/model/torchscript_code.h"
#include "core/model/zip_records.h"
#include "core/model/nested_scan.h"
#include "core/pickle/machine.h"

struct reader {
    struct ck_model *model;
    const struct ck_zip *zip;
    const struct ck_script_parts *parts;
    const struct ck_limits *limits;
    const struct ck_model_options *options; /* may be NULL */
};

static int memory_spent(const struct reader *reader, struct ck_error *err) {
    return ck_model_memory_spent(reader->limits, err);
}

/* ---- the source ---- */

/* "code/__torch__/torch/nn/modules/conv.py" -> "__torch__.torch.nn.modules.conv"; NULL if the entry is no source, or
 * with *ret_spent no memory. */
static const char *qualifier_of(const struct reader *reader, const char *name, bool *ret_spent) {
    size_t place = strlen(reader->parts->code_place), n = strlen(name);
    char *text;

    if (n < place + 3 || strncmp(name, reader->parts->code_place, place) != 0 || strcmp(name + n - 3, ".py") != 0)
        return NULL;
    text = ck_arena_copy(&reader->model->arena, name + place, n - place - 3);
    *ret_spent = !text;
    for (char *p = text; p && *p; p++)
        if (*p == '/')
            *p = '.';
    return text;
}

/* What is wrong with a source file costs its hyperparameters, not the weights. *left: bytes that all sources may have.
 */
static int read_source(const struct reader *reader, const struct ck_zip_entry *entry, const char *qualifier,
                       uint64_t *left, struct ck_script_code *code, struct ck_error *err) {
    _cleanup_(ck_freep) void *memory = NULL;
    struct ck_source bytes;
    int r = ck_zip_read(reader->zip, entry, *left, &bytes, &memory, NULL);

    if (r == 0 && !memory) {
        memory = malloc((size_t)bytes.length + 1);
        if (!memory)
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, entry->name, "no memory for the TorchScript code");
        r = ck_source_read(&bytes, 0, memory, (size_t)bytes.length, NULL);
    }
    if (r == 0) {
        *left -= bytes.length;
        return ck_script_code_add(code, qualifier, memory, (size_t)bytes.length, err);
    }
    ck_findings_add(&reader->model->findings, CK_FINDING_STRUCTURE, entry->name, 0, "", "",
                    "the source of these classes cannot be read: their hyperparameters are not known", false);
    return 0;
}

static int read_code(const struct reader *reader, struct ck_script_code *code, struct ck_error *err) {
    uint64_t left = reader->limits->pickle_bytes;

    for (uint32_t i = 0; i < reader->zip->count; i++) {
        bool spent = false;
        const char *qualifier = qualifier_of(reader, reader->zip->entries[i].name, &spent);
        int r;

        if (spent)
            return memory_spent(reader, err);
        r = qualifier ? read_source(reader, &reader->zip->entries[i], qualifier, &left, code, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- a pickle ---- */

/* A module at the root is taken whole, also when its weights are constants; anything else is chosen from as usual. */
static int take_graph(const struct reader *reader, struct ck_model *model, struct ck_rebuild *rebuild,
                      const char *entry, const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_walk_release) struct ck_walk walk = {0};
    _cleanup_(ck_arena_release) struct ck_arena paths_arena;
    struct ck_choice choice = {.why = "the root is a module"};
    const char **paths;
    int r;

    ck_arena_init(&paths_arena, (size_t)reader->limits->model_memory);
    r = ck_walk_run(rebuild, entry, &model->findings, &walk, err);
    if (r < 0)
        return r;
    paths = ck_node_paths(&walk, &paths_arena);
    if (!paths)
        return memory_spent(reader, err);
    if (walk.n_nodes == 0 || walk.nodes[0].kind != CK_NODE_MODULE || (options && options->state_dict))
        r = ck_choose(&walk, paths, options, &model->arena, &choice, err);
    return r < 0 ? r : ck_assemble(&walk, paths, &choice, model, err);
}

static int read_pickle(const struct reader *reader, const struct ck_zip_entry *entry, const char *place,
                       struct ck_model *model, const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
    _cleanup_(ck_rebuild_release) struct ck_rebuild rebuild = {0};
    _cleanup_(ck_freep) void *memory = NULL;
    struct ck_zip_records records = {.zip = reader->zip,
                                     .scratch = reader->options ? reader->options->scratch : NULL,
                                     .arena = &model->arena,
                                     .place = place,
                                     .swap = reader->parts->swap};
    struct ck_source bytes;
    int r;

    r = ck_zip_read(reader->zip, entry, reader->limits->pickle_bytes, &bytes, &memory, err);
    if (r == 0)
        r = ck_pickle_run(&bytes, entry->name, reader->limits, &model->findings, &pickle, err);
    if (r == 0)
        ck_nested_scan(&pickle, entry->name, reader->limits, options, &model->findings);
    if (r == 0)
        r = ck_rebuild_init(&rebuild, &pickle, reader->limits, &model->arena, ck_zip_records_find, &records, place,
                            err);
    if (r == 0)
        r = take_graph(reader, model, &rebuild, entry->name, options, err);
    return ck_zip_records_result(&records, r, err);
}

/* ---- what the source says about the modules ---- */

/* "__torch__.torch.nn.modules.conv.___torch_mangle_0.Conv2d" -> "torch.nn.modules.conv.Conv2d". */
static const char *plain_class(struct ck_arena *arena, const char *name) {
    char *plain = ck_arena_strdup(arena, name), *out = plain;

    if (!plain || strncmp(name, "__torch__.", 10) != 0)
        return plain;
    for (const char *p = name + 10; *p;) {
        size_t n = strcspn(p, "."), mangled = strncmp(p, "___torch_mangle_", 16) == 0 ? 16 : 0;

        mangled += mangled > 0 ? strspn(p + mangled, "0123456789") : 0;
        if (mangled != n || n <= 16) {
            if (out > plain)
                *out++ = '.';
            memcpy(out, p, n);
            out += n;
        }
        p += n + (p[n] == '.');
    }
    *out = 0;
    return plain;
}

static int add_finals(const struct reader *reader, const struct ck_script_class *class_, struct ck_module *module,
                      struct ck_error *err) {
    struct ck_attribute *attributes;

    if (class_->n_finals == 0)
        return 0;
    attributes = ck_arena_alloc_array(&reader->model->arena, (size_t)module->n_attributes + class_->n_finals,
                                      sizeof(*attributes));
    if (!attributes)
        return memory_spent(reader, err);
    if (module->n_attributes > 0)
        memcpy(attributes, module->attributes, module->n_attributes * sizeof(*attributes));
    memcpy(attributes + module->n_attributes, class_->finals, class_->n_finals * sizeof(*attributes));
    module->attributes = attributes;
    module->n_attributes += class_->n_finals;
    return 0;
}

/* Names of positions in a tuple, or of what lies deeper, are declared by no class. */
static bool is_declared(const char *attribute) {
    return !strchr(attribute, '.') && attribute[strspn(attribute, "0123456789")] != 0;
}

static void set_role(struct ck_tensor *tensor, const struct ck_module *module, const struct ck_script_class *class_) {
    size_t path = strlen(module->path);
    const char *attribute = tensor->name + path + (path > 0);
    enum ck_script_role role = ck_script_role(class_, attribute);

    tensor->parameter = role == CK_SCRIPT_PARAMETER;
    if (role == CK_SCRIPT_PLAIN && is_declared(attribute))
        tensor->persistent = false;
}

static int apply_code(const struct reader *reader, const struct ck_script_code *code, struct ck_error *err) {
    struct ck_model *model = reader->model;
    int r = 0;

    for (uint32_t i = 0; i < model->n_tensors; i++) {
        struct ck_tensor *tensor = &model->tensors[i];
        const struct ck_module *module = tensor->module != CK_NO_INDEX ? &model->modules[tensor->module] : NULL;
        const struct ck_script_class *class_ = module ? ck_script_code_find(code, module->class_) : NULL;

        if (class_)
            set_role(tensor, module, class_);
    }
    for (uint32_t i = 0; r == 0 && i < model->n_modules; i++) {
        struct ck_module *module = &model->modules[i];
        const struct ck_script_class *class_ = ck_script_code_find(code, module->class_);

        r = class_ ? add_finals(reader, class_, module, err) : 0;
        module->class_ = plain_class(&model->arena, module->class_);
        if (r == 0 && !module->class_)
            r = memory_spent(reader, err);
    }
    return r;
}

/* ---- constants ---- */

/* A frozen module has lost its `training`, and some of its weights may still be parameters: the rest are constants. */
static bool is_frozen(const struct ck_model *model) {
    return model->n_modules == 0 || !ck_module_attribute(&model->modules[0], "training");
}

static enum ck_join role_of_constants(const struct reader *reader) {
    const char *path = reader->options ? reader->options->state_dict : NULL;

    if (path && path[0] && strcmp(path, ".") != 0)
        return CK_JOIN_OUTSIDE;
    for (uint32_t i = 0; i < reader->model->n_tensors && !is_frozen(reader->model); i++)
        if (reader->model->tensors[i].parameter)
            return CK_JOIN_CONSTANTS;
    return CK_JOIN_WEIGHTS;
}

static int read_constants(const struct reader *reader, struct ck_error *err) {
    static const struct ck_model_options everything = {.state_dict = "."};
    _cleanup_(ck_model_freep) struct ck_model *part = NULL;
    struct ck_error problem = {0};
    int r;

    if (!reader->parts->constants)
        return 0;
    r = ck_model_new(0, reader->limits, &part, err);
    if (r < 0)
        return r;
    r = read_pickle(reader, reader->parts->constants, reader->parts->constants_place, part, &everything, &problem);
    if (r < 0 && r != CK_E_NO_TENSORS) {
        *err = problem;
        return r;
    }
    return ck_model_join(reader->model, part, "constants.", role_of_constants(reader), reader->limits, err);
}

/* ---- the whole ---- */

int ck_torchscript_read(struct ck_model *model, const struct ck_zip *zip, const struct ck_script_parts *parts,
                        const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err) {
    const struct reader reader = {.model = model, .zip = zip, .parts = parts, .limits = limits, .options = options};
    _cleanup_(ck_script_code_release) struct ck_script_code code;
    int r;

    ck_script_code_init(&code, &model->arena);
    r = read_pickle(&reader, parts->data, parts->data_place, model, options, err);
    if (r == 0)
        r = read_code(&reader, &code, err);
    if (r == 0)
        r = apply_code(&reader, &code, err);
    if (r == 0)
        r = read_constants(&reader, err);
    if (r == 0 && model->n_tensors == 0)
        r = ck_error_set(err, CK_E_NO_TENSORS, NULL, "the TorchScript module holds no tensors");
    return r;
}

int ck_torchscript_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_limits *limits,
                         const struct ck_model_options *options, struct ck_error *err) {
    struct ck_script_parts parts = {0};
    int prefix, r;

    model->form = "torchscript";
    r = ck_torch_zip_find(zip, "data.pkl", model, &parts.data, err);
    if (r == 0)
        r = ck_torch_zip_find(zip, "constants.pkl", model, &parts.constants, err);
    if (r < 0)
        return r;
    if (!parts.data)
        return ck_error_set(err, CK_E_ARCHIVE_CORRUPT, NULL,
                            "the file is a TorchScript archive without its data.pkl: the save failed half-way");
    if (ck_zip_beside(zip, parts.data, "bytecode.pkl"))
        model->form = "torchscript-mobile";
    prefix = (int)ck_zip_folder(parts.data->name);
    parts.data_place = ck_arena_printf(&model->arena, "%.*sdata/", prefix, parts.data->name);
    parts.constants_place = ck_arena_printf(&model->arena, "%.*sconstants/", prefix, parts.data->name);
    parts.code_place = ck_arena_printf(&model->arena, "%.*scode/", prefix, parts.data->name);
    if (!parts.data_place || !parts.constants_place || !parts.code_place)
        return ck_model_memory_spent(limits, err);
    r = ck_zip_byteorder(zip, parts.data->name, (size_t)prefix, &parts.swap, err);
    return r < 0 ? r : ck_torchscript_read(model, zip, &parts, limits, options, err);
}
