#include "core/model/bundle_choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/glob.h"
#include "core/base/json_write.h"
#include "core/model/inside.h"
#include "core/model/memory.h"
#include "core/model/shards.h"

/* Files that an error lists. */
#define LISTED_MAX 20

static const char *const checkpoint_names[] = {"*.safetensors", "*.pt",  "*.pth", "*.bin",    "*.ckpt", "*.npz",
                                               "*.pkl",         "*.pt2", "*.ptl", "*.pickle", "*.th",   "*.pth.tar"};

static const char *const archive_names[] = {"*.zip", "*.tar", "*.gz", "*.tgz", "*.nemo", "*.mar"};

/* Beside a set of weights: what the training needs, not the model. Sources: Trainer of transformers, accelerate,
 * stable_baselines3/common/base_class.py (get_parameters), Lightning. */
static const char *const companion_names[] = {
    "*optimizer*.pt",    "*optimizer*.pth",       "*optimizer*.bin",  "optim.pt",           "optim.pth",
    "*scheduler*.pt",    "*scheduler*.bin",       "rng_state*.pth",   "random_states*.pkl", "scaler.pt",
    "training_args.bin", "pytorch_variables.pth", "*vecnormalize.pkl"};

/* The best first. */
static const char *const usual_names[] = {
    "policy.pth",               /* Stable-Baselines3 */
    "model_weights.ckpt",       /* NeMo */
    "model.safetensors",        /* transformers */
    "model-*-of-*.safetensors", /* the same, sharded */
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
    "diffusion_pytorch_model.safetensors", /* diffusers */
    "diffusion_pytorch_model.bin",
    "adapter_model.safetensors", /* PEFT */
    "adapter_model.bin",
};

/* Made by tools, of no use to anybody. */
static const char *const litter_names[] = {"__MACOSX/*", "._*", "*/._*"};

void ck_bundle_release(struct ck_bundle *b) {
    free(b->files);
    free(b->units);
    ck_strmap_release(&b->by_name);
    ck_strmap_release(&b->sets);
    ck_arena_release(&b->names);
}

static int out_of_memory(struct ck_bundle *b) {
    return ck_error_set(b->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the archive");
}

/* ---- names ---- */

static const char *last_part(const char *name) {
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

static bool fits(const char *name, const char *const *patterns, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ck_glob_match(patterns[i], name))
            return true;
    return false;
}

#define FITS(name, patterns) fits(name, patterns, CK_ARRAY_LEN(patterns))

const struct ck_bundle_file *ck_bundle_find(const struct ck_bundle *b, const char *name) {
    uint32_t index;

    return ck_strmap_get(&b->by_name, name, &index) ? &b->files[index] : NULL;
}

/* Stable Baselines 2: an npz without an ending, beside the names of its arrays. */
bool ck_bundle_is_parameters(const struct ck_bundle *b, const char *name) {
    _cleanup_(ck_freep) char *beside = NULL;

    if (strcmp(last_part(name), "parameters") != 0)
        return false;
    if (asprintf(&beside, "%.*sparameter_list", (int)(last_part(name) - name), name) < 0) {
        beside = NULL;
        return false;
    }
    return ck_bundle_find(b, beside);
}

static bool is_checkpoint(const struct ck_bundle *b, const char *name) {
    return FITS(name, checkpoint_names) || ck_bundle_is_parameters(b, name);
}

static bool is_archive(const struct ck_bundle *b, const char *name) {
    (void)b;
    return FITS(name, archive_names);
}

static bool is_any(const struct ck_bundle *b, const char *name) {
    (void)b;
    (void)name;
    return true;
}

/* ---- files and units ---- */

static void add_file(struct ck_bundle *b, const struct ck_bundle_file *file) {
    if (!FITS(file->name, litter_names))
        b->files[b->n_files++] = *file;
}

static int list_files(struct ck_bundle *b) {
    uint32_t count = b->zip ? b->zip->count : b->tar->count;

    b->files = calloc((size_t)count + 1, sizeof(*b->files));
    if (!b->files)
        return out_of_memory(b);
    for (uint32_t i = 0; b->zip && i < count; i++) {
        const struct ck_zip_entry *entry = &b->zip->entries[i];

        if (entry->name[0] && entry->name[strlen(entry->name) - 1] != '/')
            add_file(b, &(struct ck_bundle_file){.name = entry->name, .size = entry->size, .zip = entry});
    }
    for (uint32_t i = 0; b->tar && i < count; i++) {
        const struct ck_tar_entry *entry = &b->tar->entries[i];

        if (entry->kind == CK_TAR_FILE)
            add_file(b, &(struct ck_bundle_file){.name = entry->name, .size = entry->size, .tar = entry});
    }
    for (uint32_t i = 0; i < b->n_files; i++)
        if (!ck_strmap_set(&b->by_name, b->files[i].name, i))
            return out_of_memory(b);
    return 0;
}

/* "model-*-of-00003.bin" for one of its shards; "" for no shard. NULL without memory. */
const char *ck_bundle_set(struct ck_bundle *b, const char *name) {
    struct ck_shard_name parts;

    if (!ck_shard_parse(name, &parts))
        return "";
    return ck_arena_printf(&b->names, "%.*s-*%s", (int)parts.stem, name, parts.of);
}

static int add_unit(struct ck_bundle *b, uint32_t file) {
    const char *set = ck_bundle_set(b, b->files[file].name);
    uint64_t bytes = b->files[file].size;
    uint32_t unit;

    if (!set)
        return ck_model_memory_spent(b->limits, b->err);
    if (set[0] && ck_strmap_get(&b->sets, set, &unit)) {
        b->units[unit].shards++;
        b->units[unit].bytes = ck_add_saturated(b->units[unit].bytes, bytes);
        return 0;
    }
    if (!ck_grow((void **)&b->units, b->n_units, &b->units_capacity, sizeof(*b->units)) ||
        (set[0] && !ck_strmap_set(&b->sets, set, b->n_units)))
        return out_of_memory(b);
    b->units[b->n_units++] = (struct ck_bundle_unit){
        .name = set[0] ? set : b->files[file].name, .file = file, .shards = set[0] ? 1 : 0, .bytes = bytes};
    return 0;
}

static int add_units(struct ck_bundle *b, bool (*wanted)(const struct ck_bundle *, const char *)) {
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < b->n_files; i++)
        if (wanted(b, b->files[i].name))
            r = add_unit(b, i);
    return r;
}

static int list_units(struct ck_bundle *b) {
    int r = add_units(b, is_checkpoint);

    if (r == 0 && b->n_units == 0)
        r = add_units(b, is_archive);
    return r == 0 && b->n_units == 0 && b->n_files == 1 ? add_units(b, is_any) : r;
}

/* ---- errors that list names ---- */

/* Names as text and as a JSON array, as far as there is room. */
struct listing {
    struct ck_buffer text, json_text;
    struct ck_json json;
    size_t json_bytes;
    uint32_t shown;
    bool full;
};

static void listing_init(struct listing *list, const struct ck_error *err) {
    *list = (struct listing){.json_bytes = strlen("[]")};
    ck_buffer_init(&list->text, sizeof(err->message) - 400);
    ck_buffer_init(&list->json_text, sizeof(err->details) - 1);
    ck_json_init(&list->json, ck_json_sink_buffer, &list->json_text, NULL);
    ck_json_array_begin(&list->json);
}

static void listing_add(struct listing *list, const char *name, uint64_t bytes) {
    /* A byte of a name becomes six characters of JSON at most. */
    list->json_bytes += 6 * strlen(name) + 3;
    list->full =
        list->full || list->shown == LISTED_MAX || list->json_bytes >= list->json_text.limit ||
        !ck_buffer_printf(&list->text, "%s%.200s (%" PRIu64 " bytes)", list->shown > 0 ? ", " : "", name, bytes);
    if (list->full)
        return;
    list->shown++;
    ck_json_string(&list->json, name);
}

static int listing_refuse(struct listing *list, struct ck_bundle *b, int code, const char *sentence, const char *name) {
    ck_json_array_end(&list->json);
    ck_json_finish(&list->json);
    ck_error_set(b->err, code, code == CK_E_UNSUPPORTED_FORM ? NULL : "member", "the %s archive %s%.200s: %s%s",
                 ck_bundle_kind(b), sentence, name, list->shown > 0 ? ck_buffer_text(&list->text) : "nothing",
                 list->full ? " ..." : "");
    if (b->err->code == code && !b->err->details[0] && code != CK_E_UNSUPPORTED_FORM)
        snprintf(b->err->details, sizeof(b->err->details), "%s", ck_buffer_text(&list->json_text));
    ck_buffer_release(&list->text);
    ck_buffer_release(&list->json_text);
    return code;
}

static int refuse_files(struct ck_bundle *b, int code, const char *sentence, const char *name) {
    struct listing list;

    listing_init(&list, b->err);
    for (uint32_t i = 0; i < b->n_files; i++)
        listing_add(&list, b->files[i].name, b->files[i].size);
    return listing_refuse(&list, b, code, sentence, name);
}

static int ask(struct ck_bundle *b) {
    struct listing list;

    listing_init(&list, b->err);
    for (uint32_t i = 0; i < b->n_units; i++)
        if (!b->units[i].aside)
            listing_add(&list, b->units[i].name, b->units[i].bytes);
    return listing_refuse(&list, b, CK_E_AMBIGUOUS_MEMBER, "holds several checkpoints", "");
}

/* ---- the choice ---- */

/* Sets them aside if there is anything else. */
static void pass_over_companions(struct ck_bundle *b) {
    uint32_t others = 0;

    for (uint32_t i = 0; i < b->n_units; i++)
        others += !FITS(last_part(b->units[i].name), companion_names);
    for (uint32_t i = 0; others > 0 && i < b->n_units; i++)
        b->units[i].aside = FITS(last_part(b->units[i].name), companion_names);
}

/* The one unit whose name fits the pattern; *ret_n: how many do. */
static const struct ck_bundle_unit *find_unit(const struct ck_bundle *b, const char *pattern, uint32_t *ret_n) {
    const struct ck_bundle_unit *found = NULL;

    *ret_n = 0;
    for (uint32_t i = 0; i < b->n_units; i++)
        if (!b->units[i].aside && ck_glob_match(pattern, last_part(b->units[i].name))) {
            found = &b->units[i];
            ++*ret_n;
        }
    return *ret_n == 1 ? found : NULL;
}

/* True if every other unit lies in the folder of this one, or below it. */
static bool is_on_top(const struct ck_bundle *b, const struct ck_bundle_unit *unit) {
    size_t folder = (size_t)(last_part(unit->name) - unit->name);

    for (uint32_t i = 0; i < b->n_units; i++)
        if (!b->units[i].aside && strncmp(b->units[i].name, unit->name, folder) != 0)
            return false;
    return true;
}

static const struct ck_bundle_unit *find_best(const struct ck_bundle *b) {
    uint32_t n;
    const struct ck_bundle_unit *unit = find_unit(b, "*", &n);

    for (size_t k = 0; !unit && k < CK_ARRAY_LEN(usual_names); k++) {
        unit = find_unit(b, usual_names[k], &n);
        if (n > 0)
            return unit && is_on_top(b, unit) ? unit : NULL;
    }
    return unit;
}

static int choose(struct ck_bundle *b, const struct ck_bundle_unit **ret_unit) {
    const struct ck_bundle_unit *unit;

    if (b->n_units == 0) {
        refuse_files(b, CK_E_UNSUPPORTED_FORM, "holds no checkpoint, only", "");
        ck_error_set_hint(b->err, "send what torch.save or safetensors wrote; member=PATH takes a file of any name");
        return CK_E_UNSUPPORTED_FORM;
    }
    pass_over_companions(b);
    unit = find_best(b);
    if (!unit)
        return ask(b);
    *ret_unit = unit;
    return 0;
}

/* True if the option is this name, or begins with it as with a folder; the rest of it goes to *ret_rest. */
static bool is_asked(const char *member, const char *name, const char **ret_rest) {
    size_t n = strlen(name);

    if (n == 0 || strncmp(member, name, n) != 0 || (member[n] && member[n] != '/'))
        return false;
    *ret_rest = member[n] && member[n + 1] ? member + n + 1 : NULL;
    return true;
}

/* The unit that the option means; *ret_rest: what it says about the inside of that, or NULL. */
static int find_asked(struct ck_bundle *b, const struct ck_bundle_unit **ret_unit, const char **ret_rest) {
    const char *member = b->options->member;
    size_t best = 0;

    for (uint32_t i = 0; i < b->n_files; i++)
        if (strlen(b->files[i].name) > best && is_asked(member, b->files[i].name, ret_rest)) {
            best = strlen(b->files[i].name);
            b->asked = (struct ck_bundle_unit){.name = b->files[i].name, .file = i};
            *ret_unit = &b->asked;
        }
    for (uint32_t i = 0; best == 0 && i < b->n_units; i++)
        if (strcmp(b->units[i].name, member) == 0) {
            *ret_unit = &b->units[i];
            return 0;
        }
    return best > 0 ? 0 : refuse_files(b, CK_E_MEMBER_NOT_FOUND, "has no file of the name ", member);
}

int ck_bundle_choose(struct ck_bundle *b, const struct ck_bundle_unit **ret_unit, const char **ret_rest) {
    int r;

    ck_arena_init(&b->names, (size_t)b->limits->model_memory);
    r = list_files(b);
    if (r == 0)
        r = list_units(b);
    if (r < 0)
        return r;
    *ret_rest = NULL;
    return ck_inside_member_asked(b->options) ? find_asked(b, ret_unit, ret_rest) : choose(b, ret_unit);
}
