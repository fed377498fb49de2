#include "core/model/shards.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/json_read.h"
#include "core/base/strmap.h"
#include "core/model/assemble.h"
#include "core/model/inside.h"
#include "core/model/join.h"
#include "core/model/memory.h"

/* A name of a tensor in an index; torch's own are far shorter. */
#define NAME_MAX_BYTES 65536

struct set {
    struct ck_model *model;
    struct ck_shard *shards;
    uint32_t n;
    const struct ck_limits *limits;
    const struct ck_model_options *options;
    struct ck_error *err;
    struct ck_strmap tensors; /* name to the shard that has it */
    struct ck_strmap mapped;  /* what the index says: the same */
    struct ck_strmap files;   /* last part of a shard's name to its index */
    const char **names;       /* what the index names, in its order */
    uint32_t n_names, names_capacity;
};

static void set_release(struct set *s) {
    ck_strmap_release(&s->tensors);
    ck_strmap_release(&s->mapped);
    ck_strmap_release(&s->files);
    free(s->names);
}

/* ---- names ---- */

/* The number in digits at *text, which is moved behind them. 0 for none, and for one of more than 9 digits. */
static uint32_t read_number(const char **text) {
    const char *p = *text;
    uint32_t value = 0;

    while (*p >= '0' && *p <= '9' && p - *text < 9)
        value = value * 10 + (uint32_t)(*p++ - '0');
    *text = p;
    return *p >= '0' && *p <= '9' ? 0 : value;
}

static const char *last_part(const char *name) {
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

bool ck_shard_parse(const char *name, struct ck_shard_name *ret_parts) {
    struct ck_shard_name parts = {0};
    const char *last = last_part(name), *p = NULL, *digits;

    for (const char *of = last; (of = strstr(of, "-of-")) != NULL; of++)
        p = of;
    if (!p)
        return false;
    parts.of = p;
    for (digits = p; digits > last && digits[-1] >= '0' && digits[-1] <= '9';)
        digits--;
    if (digits == p || digits == last || digits[-1] != '-')
        return false;
    parts.stem = (size_t)(digits - 1 - name);
    parts.number = read_number(&digits);
    parts.suffix = p + strlen("-of-");
    parts.count = read_number(&parts.suffix);
    if (digits != p || parts.number == 0 || parts.count == 0 || (*parts.suffix && *parts.suffix != '.'))
        return false;
    *ret_parts = parts;
    return true;
}

static int compare_numbers(const void *a, const void *b) {
    const struct ck_shard *left = a, *right = b;
    struct ck_shard_name x = {0}, y = {0};

    ck_shard_parse(left->name, &x);
    ck_shard_parse(right->name, &y);
    return x.number != y.number ? (x.number < y.number ? -1 : 1) : strcmp(left->name, right->name);
}

static int mismatch(struct set *s, const char *where, const char *sentence, const char *first, const char *second) {
    return ck_error_set(s->err, CK_E_SHARDS_MISMATCH, where, "%s: %.200s%s%.200s", sentence, first, second ? ", " : "",
                        second ? second : "");
}

static int out_of_memory(struct set *s) {
    return ck_error_set(s->err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the shards");
}

static int check_number(struct set *s, uint32_t i) {
    const char *name = s->shards[i].name;
    struct ck_shard_name first, parts;

    if (!ck_shard_parse(name, &parts) || !ck_shard_parse(s->shards[0].name, &first))
        return mismatch(s, name, "the name does not say which shard it is", name, NULL);
    if (parts.count != first.count)
        return mismatch(s, name, "two shards are of different sets", s->shards[0].name, name);
    if (i > 0 && parts.number == i)
        return mismatch(s, name, "a shard is there twice", s->shards[i - 1].name, name);
    if (parts.number != i + 1)
        return ck_error_set(s->err, CK_E_SHARDS_MISMATCH, name, "shard %" PRIu32 " of %" PRIu32 " is missing", i + 1,
                            first.count);
    return 0;
}

static int check_numbers(struct set *s) {
    struct ck_shard_name last = {0};
    int r = 0;

    qsort(s->shards, s->n, sizeof(*s->shards), compare_numbers);
    for (uint32_t i = 0; r == 0 && i < s->n; i++) {
        r = check_number(s, i);
        if (r == 0 && !ck_strmap_set(&s->files, last_part(s->shards[i].name), i))
            r = out_of_memory(s);
    }
    if (r < 0)
        return r;
    ck_shard_parse(s->shards[s->n - 1].name, &last);
    if (last.count > s->n)
        return ck_error_set(s->err, CK_E_SHARDS_MISMATCH, s->shards[s->n - 1].name,
                            "shard %" PRIu32 " of %" PRIu32 " is missing", s->n + 1, last.count);
    if (last.count < s->n)
        return mismatch(s, s->shards[s->n - 1].name, "there are more shards than the names say",
                        s->shards[s->n - 1].name, NULL);
    return 0;
}

/* ---- the index ---- */

static int add_mapping(struct set *s, const char *tensor, const char *file) {
    uint32_t shard, before;
    char *name;

    if (!ck_strmap_get(&s->files, file, &shard))
        return mismatch(s, tensor, "the index names a shard that is missing", file, NULL);
    if (ck_strmap_get(&s->mapped, tensor, &before))
        return mismatch(s, tensor, "the index names a tensor twice", tensor, NULL);
    if (s->n_names >= s->limits->tensors)
        return ck_error_set(s->err, CK_E_TENSOR_LIMIT, NULL,
                            "the index has more than %" PRIu64 " tensors (--limit-tensors)", s->limits->tensors);
    name = ck_arena_strdup(&s->model->arena, tensor);
    if (!name)
        return ck_model_memory_spent(s->limits, s->err);
    if (!ck_grow((void **)&s->names, s->n_names, &s->names_capacity, sizeof(*s->names)) ||
        !ck_strmap_set(&s->mapped, name, shard))
        return out_of_memory(s);
    s->names[s->n_names++] = name;
    return 0;
}

static int expect(struct set *s, struct ck_json_reader *reader, enum ck_json_event wanted, const char *what) {
    enum ck_json_event event;
    int r = ck_json_next(reader, &event, s->err);

    if (r == 0 && (event != wanted || (reader->text && strlen(reader->text) != reader->length)))
        return ck_error_set(s->err, CK_E_HEADER_CORRUPT, NULL, "the index of the shards has %s where %s belongs",
                            ck_json_event_name(event), what);
    return r;
}

static int read_map(struct set *s, struct ck_json_reader *reader) {
    enum ck_json_event event;
    int r = expect(s, reader, CK_JSON_OBJECT_BEGIN, "the object weight_map");

    while (r == 0 && (r = ck_json_next(reader, &event, s->err)) == 0 && event == CK_JSON_KEY) {
        _cleanup_(ck_freep) char *tensor = strdup(reader->text);

        if (!tensor)
            return out_of_memory(s);
        if (strlen(tensor) != reader->length)
            return ck_error_set(s->err, CK_E_HEADER_CORRUPT, NULL, "the index of the shards has a NUL in a name");
        r = expect(s, reader, CK_JSON_STRING, "the name of a shard");
        if (r == 0)
            r = add_mapping(s, tensor, reader->text);
    }
    return r;
}

static int read_weight_map(struct set *s, const struct ck_source *index) {
    _cleanup_(ck_json_reader_release) struct ck_json_reader reader = {0};
    enum ck_json_event event;
    bool found = false;
    int r = ck_json_reader_init(&reader, index, NAME_MAX_BYTES, CK_E_HEADER_CORRUPT, s->err);

    if (r == 0)
        r = expect(s, &reader, CK_JSON_OBJECT_BEGIN, "an object");
    while (r == 0 && (r = ck_json_next(&reader, &event, s->err)) == 0 && event == CK_JSON_KEY) {
        bool is_map = strcmp(reader.text, "weight_map") == 0;

        if (is_map && found)
            return ck_error_set(s->err, CK_E_HEADER_CORRUPT, NULL, "the index of the shards has two weight_map");
        found = found || is_map;
        r = is_map ? read_map(s, &reader) : ck_json_skip(&reader, s->err);
    }
    if (r == 0)
        r = ck_json_next(&reader, &event, s->err);
    return r == 0 && !found
               ? ck_error_set(s->err, CK_E_HEADER_CORRUPT, NULL, "the index of the shards has no weight_map")
               : r;
}

static int read_index(struct set *s, const struct ck_shard *index) {
    int r = read_weight_map(s, &index->source);

    if (r < 0)
        ck_inside_name_error(s->err, index->name);
    return r;
}

/* ---- tensors ---- */

static int check_tensor(struct set *s, const char *name, uint32_t shard, bool indexed) {
    const char *file = s->shards[shard].name;
    uint32_t other;

    if (ck_strmap_get(&s->tensors, name, &other))
        return mismatch(s, name, "a tensor lies in two shards", s->shards[other].name, file);
    if (!ck_strmap_set(&s->tensors, name, shard))
        return out_of_memory(s);
    if (!indexed)
        return 0;
    if (!ck_strmap_get(&s->mapped, name, &other))
        return mismatch(s, name, "the index does not name a tensor of the shards", name, file);
    if (other != shard)
        return mismatch(s, name, "the index puts a tensor into another shard", name, s->shards[other].name);
    return 0;
}

static int add_shard(struct set *s, uint32_t i, bool indexed) {
    _cleanup_(ck_model_freep) struct ck_model *part = NULL;
    struct ck_model *model = s->model;
    uint32_t first = model->n_tensors;
    int r;

    r = ck_inside_open(&s->shards[i].source, s->shards[i].name, NULL, s->limits, s->options, &part, s->err);
    if (r < 0)
        return r;
    r = ck_model_append(model, part, "", CK_JOIN_WEIGHTS, s->limits, s->err);
    for (uint32_t k = first; r == 0 && k < model->n_tensors; k++)
        r = check_tensor(s, model->tensors[k].name, i, indexed);
    if (r < 0)
        return r;
    if (i == 0) {
        model->form = part->form; /* static */
        model->root_why = "the shards are parts of one set of weights";
        model->root_path = ck_arena_strdup(&model->arena, part->root_path);
    }
    model->marked_mlx = model->marked_mlx || part->marked_mlx;
    return model->root_path ? 0 : ck_model_memory_spent(s->limits, s->err);
}

static int check_rest(struct set *s) {
    for (uint32_t i = 0; i < s->n_names; i++) {
        uint32_t shard;

        if (ck_strmap_get(&s->tensors, s->names[i], &shard))
            continue;
        ck_strmap_get(&s->mapped, s->names[i], &shard);
        return mismatch(s, s->names[i], "a shard lacks a tensor that the index names", s->names[i],
                        s->shards[shard].name);
    }
    return 0;
}

int ck_shards_index(struct ck_model *model, struct ck_shard *shards, uint32_t n, const struct ck_shard *index,
                    const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(set_release) struct set s = {
        .model = model, .shards = shards, .n = n, .limits = limits, .options = options, .err = err};
    int r = check_numbers(&s);

    if (r == 0 && index)
        r = read_index(&s, index);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = add_shard(&s, i, index != NULL);
    if (r == 0 && index)
        r = check_rest(&s);
    return r < 0 ? r : ck_find_aliases(model, err);
}
