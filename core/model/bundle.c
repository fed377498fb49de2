#include "core/model/bundle.h"

#include <inttypes.h>
#include <string.h>

#include "core/container/gzip.h"
#include "core/container/sniff.h"
#include "core/model/bundle_choose.h"
#include "core/model/inside.h"
#include "core/model/memory.h"
#include "core/model/shards.h"

/* An index of shards has a line for each tensor. */
#define INDEX_BYTES_MAX (256 * CK_MIB)

static int open_file(struct ck_bundle *b, const struct ck_bundle_file *file, struct ck_source *ret_bytes) {
    struct ck_scratch *scratch = b->options ? b->options->scratch : NULL;

    if (file->tar)
        return ck_tar_part(b->tar, file->tar, ret_bytes, b->err);
    if (file->zip->stored)
        return ck_source_part(&b->zip->source, file->zip->offset, file->zip->size, ret_bytes, b->err);
    if (!scratch)
        return ck_error_set(b->err, CK_E_UNSUPPORTED_FORM, file->name,
                            "%.200s is compressed in the archive, and there is no file to unpack it into", file->name);
    if (ck_unpacks_too_far(file->zip->packed, file->zip->size, b->limits))
        return ck_error_set(b->err, CK_E_TENSOR_LIMIT, file->name,
                            "%.200s would unpack from %" PRIu64 " to %" PRIu64 " bytes, more than %" PRIu64
                            " to 1 (--limit-unpacked-ratio)",
                            file->name, file->zip->packed, file->zip->size, b->limits->unpacked_ratio);
    return ck_zip_unpack(b->zip, file->zip, scratch, ret_bytes, b->err);
}

static int read_file(struct ck_bundle *b, const struct ck_bundle_unit *unit, const char *rest) {
    const struct ck_bundle_file *file = &b->files[unit->file];
    struct ck_source bytes;
    int r = open_file(b, file, &bytes);

    return r < 0 ? r : ck_inside_enter(b->model, &bytes, file->name, rest, b->limits, b->options, b->err);
}

/* STEM.SUFFIX.index.json beside the shards; the name stays NULL if there is none. */
static int open_index(struct ck_bundle *b, const struct ck_bundle_unit *unit, struct ck_shard *ret_index) {
    const char *first = b->files[unit->file].name;
    struct ck_shard_name parts = {0};
    const struct ck_bundle_file *file;
    const char *name;

    ck_shard_parse(first, &parts);
    name = ck_arena_printf(&b->names, "%.*s%s.index.json", (int)parts.stem, first, parts.suffix);
    if (!name)
        return ck_model_memory_spent(b->limits, b->err);
    file = ck_bundle_find(b, name);
    if (!file)
        return 0;
    if (file->size > INDEX_BYTES_MAX)
        return ck_error_set(b->err, CK_E_HEADER_CORRUPT, name, "the index %.200s has %" PRIu64 " bytes", name,
                            file->size);
    ret_index->name = name;
    return open_file(b, file, &ret_index->source);
}

static int open_shards(struct ck_bundle *b, const struct ck_bundle_unit *unit, struct ck_shard *shards,
                       uint32_t *ret_n) {
    uint32_t n = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < b->n_files; i++) {
        const char *set = ck_bundle_set(b, b->files[i].name);

        if (!set)
            return ck_model_memory_spent(b->limits, b->err);
        if (strcmp(set, unit->name) != 0 || n == unit->shards)
            continue;
        shards[n].name = b->files[i].name;
        r = open_file(b, &b->files[i], &shards[n++].source);
    }
    *ret_n = n;
    return r;
}

static int read_shards(struct ck_bundle *b, const struct ck_bundle_unit *unit) {
    _cleanup_(ck_freep) struct ck_shard *shards = calloc(unit->shards, sizeof(*shards));
    struct ck_shard index = {0};
    uint32_t n = 0;
    int r;

    if (!shards)
        return ck_error_set(b->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the shards");
    r = open_shards(b, unit, shards, &n);
    if (r == 0)
        r = open_index(b, unit, &index);
    return r < 0 ? r : ck_shards_index(b->model, shards, n, index.name ? &index : NULL, b->limits, b->options, b->err);
}

/* For the reader of a report: what was taken, and what there was. The model's arena may be another one by now. */
static int describe(struct ck_bundle *b, const char *taken) {
    struct ck_model *model = b->model;
    uint32_t n = CK_MIN(b->n_units, (uint32_t)CK_MEMBERS_MAX);

    model->archive = ck_bundle_kind(b);
    model->member = model->member ? ck_arena_printf(&model->arena, "%s/%s", taken, model->member)
                                  : ck_arena_strdup(&model->arena, taken);
    model->members = ck_arena_alloc_array(&model->arena, n, sizeof(*model->members));
    if (!model->member || !model->members)
        return ck_model_memory_spent(b->limits, b->err);
    for (uint32_t i = 0; i < n; i++) {
        model->members[i] =
            (struct ck_member){.name = ck_arena_strdup(&model->arena, b->units[i].name), .bytes = b->units[i].bytes};
        if (!model->members[i].name)
            return ck_model_memory_spent(b->limits, b->err);
    }
    model->n_members = n;
    return 0;
}

static int read_unit(struct ck_bundle *b, const struct ck_bundle_unit *unit, const char *rest) {
    int r = unit->shards > 0 ? read_shards(b, unit) : read_file(b, unit, rest);

    if (r == 0 && ck_bundle_is_parameters(b, unit->name)) {
        b->model->foreign = "TensorFlow";
        ck_findings_add(&b->model->findings, CK_FINDING_STRUCTURE, unit->name, 0, "", "",
                        "weights of TensorFlow (Stable Baselines 2): kernels lie in its order, the output last", false);
    }
    return r < 0 ? r : describe(b, unit->name);
}

static int index_bundle(struct ck_bundle *b) {
    const struct ck_bundle_unit *unit = NULL;
    const char *rest = NULL;
    int r = ck_inside_check_nesting(b->limits, b->options, b->err);

    b->model->form = ck_bundle_kind(b);
    if (r == 0)
        r = ck_bundle_choose(b, &unit, &rest);
    return r < 0 ? r : read_unit(b, unit, rest);
}

int ck_bundle_index_zip(struct ck_model *model, const struct ck_zip *zip, const struct ck_limits *limits,
                        const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_bundle_release) struct ck_bundle b = {
        .zip = zip, .model = model, .limits = limits, .options = options, .err = err};

    return index_bundle(&b);
}

int ck_bundle_index_tar(struct ck_model *model, const struct ck_tar *tar, const struct ck_limits *limits,
                        const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_bundle_release) struct ck_bundle b = {
        .tar = tar, .model = model, .limits = limits, .options = options, .err = err};

    return index_bundle(&b);
}

/* ---- gzip ---- */

static bool holds_tar(const struct ck_source *bytes) {
    size_t n = (size_t)CK_MIN(bytes->length, (uint64_t)CK_SNIFF_BYTES);
    struct ck_error ignored = {0};
    uint8_t head[CK_SNIFF_BYTES];

    return ck_source_read(bytes, 0, head, n, &ignored) == 0 &&
           ck_sniff(head, n, bytes->length, &ignored) == CK_FORM_TAR;
}

int ck_gzip_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                  const struct ck_model_options *options, struct ck_error *err) {
    struct ck_model_options own = options ? *options : (struct ck_model_options){0};
    const char *member = ck_inside_member_asked(options) ? options->member : NULL;
    struct ck_source bytes;
    int r = ck_inside_check_nesting(limits, options, err);

    if (r == 0 && !own.scratch)
        return ck_error_set(err, CK_E_UNSUPPORTED_FORM, NULL,
                            "the file is compressed with gzip, and there is no file to unpack it into");
    if (r == 0)
        r = ck_gzip_unpack(source, limits, &model->findings, own.scratch, &bytes, err);
    if (r < 0)
        return r;
    if (holds_tar(&bytes))
        own.depth--; /* the two are one archive; opening adds one again */
    r = ck_inside_enter(model, &bytes, "", member, limits, &own, err);
    if (r == 0)
        model->archive = model->archive && strcmp(model->archive, "tar") == 0 ? "tar.gz" : "gzip";
    return r;
}
