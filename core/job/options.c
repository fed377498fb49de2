#include "core/job/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/glob.h"
#include "core/base/json_write.h"

const struct ck_option_row ck_job_options[] = {
#define X(name, type, values, value_default, target, what)                                                             \
    {#name, CK_OPTION_##type, values, value_default, target, what},
    CK_JOB_OPTIONS(X)
#undef X
        {0},
};

/* A new option that the values array has no room for must not compile. */
_Static_assert(CK_ARRAY_LEN(ck_job_options) <= CK_ARRAY_LEN(((struct ck_spec *)NULL)->values), "values[] is too short");

static const char *const kind_names[] = {
#define X(name, word) [CK_JOB_##name] = word,
    CK_JOB_KINDS(X)
#undef X
};

const char *ck_job_kind_name(enum ck_job_kind kind) {
    return kind_names[kind];
}

bool ck_job_kind_from_name(const char *name, enum ck_job_kind *ret_kind) {
    for (size_t i = 0; i < CK_ARRAY_LEN(kind_names); i++) {
        if (strcmp(name, kind_names[i]) == 0) {
            *ret_kind = (enum ck_job_kind)i;
            return true;
        }
    }
    return false;
}

bool ck_option_fits(const struct ck_option_row *row, enum ck_job_kind kind, const char *target) {
    bool analysis_only = strcmp(row->target, kind_names[CK_JOB_ANALYZE]) == 0;

    if (kind == CK_JOB_ANALYZE)
        return true;
    return !analysis_only && (!row->target[0] || !target[0] || strcmp(row->target, target) == 0);
}

const char *const ck_targets[] = {"mlx", "safetensors", NULL};

#define AFFINE_BITS(X) X(2) X(3) X(4) X(5) X(6) X(8)

static const char *const mlx_quants[] = {
#define X(bits) "q" #bits, "q" #bits "-g32", "q" #bits "-g64", "q" #bits "-g128",
    AFFINE_BITS(X)
#undef X
        NULL,
};

static const char *const no_quants[] = {NULL};

const char *const *ck_target_quants(const char *target) {
    if (strcmp(target, "mlx") == 0)
        return mlx_quants;
    return strcmp(target, "safetensors") == 0 ? no_quants : NULL;
}

/* Edit distance with adjacent swaps counted as one (optimal string alignment); words longer than the table count as far
 * away. */
static size_t distance(const char *a, const char *b) {
    enum { MOST = 32 };
    size_t na = strlen(a), nb = strlen(b), d[MOST + 1][MOST + 1];

    if (na > MOST || nb > MOST)
        return SIZE_MAX;
    for (size_t i = 0; i <= na; i++)
        d[i][0] = i;
    for (size_t k = 0; k <= nb; k++)
        d[0][k] = k;
    for (size_t i = 1; i <= na; i++) {
        for (size_t k = 1; k <= nb; k++) {
            size_t best = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);

            best = CK_MIN(best, d[i - 1][k] + 1);
            best = CK_MIN(best, d[i][k - 1] + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                best = CK_MIN(best, d[i - 2][k - 2] + 1);
            d[i][k] = best;
        }
    }
    return d[na][nb];
}

const char *ck_nearest(const char *word, const char *const *list) {
    size_t allowed = strlen(word) <= 3 ? 1 : strlen(word) <= 6 ? 2 : 3, best = SIZE_MAX;
    const char *nearest = NULL;

    for (; *list; list++) {
        size_t d = distance(word, *list);

        if (d < best && d <= allowed) {
            best = d;
            nearest = *list;
        }
    }
    return nearest;
}

/* "a, b, c" of a list that ends with NULL, cut to fit. */
static const char *join(const char *const *list, char *text, size_t size) {
    size_t used = 0;

    text[0] = 0;
    for (; *list && used < size; list++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", *list);
    return text;
}

static bool in_list(const char *word, const char *const *list) {
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* An error that offers the nearest word, or all of them. */
static int unknown_word(int code, const char *where, const char *what, const char *word, const char *const *list,
                        struct ck_error *err) {
    const char *nearest = ck_nearest(word, list);
    char words[400];

    if (!list[0])
        return ck_error_set(err, code, where, "'%.100s' is no %s; this target has none", word, what);
    ck_error_set(err, code, where, "'%.100s' is no %s; there are %s", word, what, join(list, words, sizeof(words)));
    if (nearest)
        ck_error_set_hint(err, "did you mean '%s'?", nearest);
    return code;
}

/* "q4-g64" -> bits and group; the word is already known to be in the list. */
static struct ck_affine affine_of(const char *quant) {
    const char *dash = strchr(quant, '-');

    return (struct ck_affine){.bits = (uint8_t)(quant[1] - '0'),
                              .group = dash ? (uint16_t)strtoul(dash + 2, NULL, 10) : 64};
}

/* Target and quantization are words of the tables already. */
static int init(struct ck_spec *spec, enum ck_job_kind kind, const char *target, const char *quant,
                struct ck_error *err) {
    *spec = (struct ck_spec){.kind = kind};
    if (quant[0])
        spec->affine = affine_of(quant);
    spec->target = strdup(target);
    /* Group 64 is MLX's default: both spellings are one specification. */
    if (strstr(quant, "-g64"))
        spec->quant = strndup(quant, 2);
    else
        spec->quant = strdup(quant);
    if (!spec->target || !spec->quant) {
        ck_spec_release(spec);
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    }
    spec->max_shard_bytes = strtoull(ck_spec_get(spec, "max_shard_size"), NULL, 10);
    return 0;
}

int ck_spec_init(struct ck_spec *spec, const char *target, const char *quant, struct ck_error *err) {
    *spec = (struct ck_spec){0};
    if (!in_list(target, ck_targets))
        return unknown_word(CK_E_UNSUPPORTED_TARGET, target, "target", target, ck_targets, err);
    if (!quant || strcmp(quant, "none") == 0)
        quant = "";
    if (quant[0] && !in_list(quant, ck_target_quants(target)))
        return unknown_word(CK_E_UNSUPPORTED_QUANT, quant, "quantization", quant, ck_target_quants(target), err);
    return init(spec, CK_JOB_CONVERT, target, quant, err);
}

int ck_spec_init_analyze(struct ck_spec *spec, struct ck_error *err) {
    return init(spec, CK_JOB_ANALYZE, "", "", err);
}

/* Splits "pattern:word,pattern:word" in place. The last colon of an item separates, since names may hold colons. */
static int parse_pairs(const char *name, char *text, struct ck_pairs *ret_pairs, struct ck_error *err) {
    struct ck_pairs pairs = {0};
    char *rest = text, *item;

    pairs.items = calloc(CK_PAIRS_MAX, sizeof(*pairs.items));
    if (!pairs.items)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    while ((item = strsep(&rest, ",")) != NULL) {
        char *colon = strrchr(item, ':');

        if (!colon || colon[1] == 0) {
            ck_error_set(err, CK_E_BAD_OPTION, name, "'%.200s' in option %s is not of the form PATTERN:WORD", item,
                         name);
            free(pairs.items);
            return CK_E_BAD_OPTION;
        }
        if (pairs.count == CK_PAIRS_MAX) {
            free(pairs.items);
            return ck_error_set(err, CK_E_BAD_OPTION, name, "option %s has more than %d items", name, CK_PAIRS_MAX);
        }
        *colon = 0;
        pairs.items[pairs.count++] = (struct ck_pair){.pattern = item, .word = colon + 1};
    }
    *ret_pairs = pairs;
    return 0;
}

static int check_choice(const struct ck_option_row *row, const char *value, struct ck_error *err) {
    const char *list[8] = {0};
    char words[128], *rest = words, *word;
    size_t n = 0;

    snprintf(words, sizeof(words), "%s", row->values);
    while ((word = strsep(&rest, ",")) != NULL && n + 1 < CK_ARRAY_LEN(list))
        list[n++] = word;
    if (in_list(value, list))
        return 0;
    return unknown_word(CK_E_BAD_OPTION, row->name, "value of this option", value, list, err);
}

static int check_bytes(const struct ck_option_row *row, const char *value, uint64_t *ret_bytes, struct ck_error *err) {
    uint64_t least, most, bytes;
    char *end;

    least = strtoull(row->values, &end, 10);
    most = strtoull(end + 2, NULL, 10);
    errno = 0;
    bytes = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || bytes < least || bytes > most)
        return ck_error_set(err, CK_E_BAD_OPTION, row->name,
                            "option %s must be a number of bytes from %llu to %llu, not '%.50s'", row->name,
                            (unsigned long long)least, (unsigned long long)most, value);
    *ret_bytes = bytes;
    return 0;
}

static int unknown_option(const char *name, struct ck_error *err) {
    const char *names[CK_ARRAY_LEN(ck_job_options)];

    for (size_t i = 0; i < CK_ARRAY_LEN(ck_job_options); i++)
        names[i] = ck_job_options[i].name;
    return unknown_word(CK_E_BAD_OPTION, name, "option", name, names, err);
}

static int does_not_fit(const struct ck_option_row *row, const struct ck_spec *spec, struct ck_error *err) {
    enum ck_job_kind kind;

    if (ck_job_kind_from_name(row->target, &kind))
        return ck_error_set(err, CK_E_BAD_OPTION, row->name, "option %s is for the job %s, not for %s", row->name,
                            row->target, ck_job_kind_name(spec->kind));
    return ck_error_set(err, CK_E_BAD_OPTION, row->name, "option %s is for the target %s, not for %s", row->name,
                        row->target, spec->target);
}

int ck_spec_set(struct ck_spec *spec, const char *name, const char *value, struct ck_error *err) {
    const struct ck_option_row *row = ck_job_options;
    size_t index;
    int r = 0;

    while (row->name && strcmp(row->name, name) != 0)
        row++;
    if (!row->name)
        return unknown_option(name, err);
    if (!ck_option_fits(row, spec->kind, spec->target))
        return does_not_fit(row, spec, err);
    index = (size_t)(row - ck_job_options);
    if (spec->values[index])
        return ck_error_set(err, CK_E_BAD_OPTION, name, "option %s is given twice", name);
    if (strlen(value) > CK_OPTION_TEXT_MAX)
        return ck_error_set(err, CK_E_BAD_OPTION, name, "option %s is longer than %d bytes", name, CK_OPTION_TEXT_MAX);
    if (value[0] == 0 && row->type != CK_OPTION_TEXT)
        return ck_error_set(err, CK_E_BAD_OPTION, name, "option %s is empty; it takes %s", name, row->values);
    if (row->type == CK_OPTION_CHOICE)
        r = check_choice(row, value, err);
    else if (row->type == CK_OPTION_BYTES)
        r = check_bytes(row, value, &spec->max_shard_bytes, err);
    if (r < 0)
        return r;
    spec->values[index] = strdup(value);
    if (!spec->values[index])
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    if (row->type == CK_OPTION_PAIRS) {
        bool rules = strcmp(name, "rules") == 0;
        char *text = strdup(value);

        if (!text)
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
        spec->pairs_memory[rules] = text;
        return parse_pairs(name, text, rules ? &spec->rules : &spec->layers, err);
    }
    return 0;
}

const char *ck_spec_get(const struct ck_spec *spec, const char *name) {
    for (size_t i = 0; ck_job_options[i].name; i++)
        if (strcmp(ck_job_options[i].name, name) == 0)
            return spec->values[i] ? spec->values[i] : ck_job_options[i].value_default;
    return NULL;
}

const struct ck_pair *ck_pairs_find(const struct ck_pairs *pairs, const char *name, bool *used) {
    for (size_t i = 0; i < pairs->count; i++) {
        if (ck_glob_match(pairs->items[i].pattern, name)) {
            used[i] = true;
            return &pairs->items[i];
        }
    }
    return NULL;
}

int ck_pairs_check_used(const struct ck_pairs *pairs, const bool *used, const char *option, struct ck_error *err) {
    for (size_t i = 0; i < pairs->count; i++)
        if (!used[i])
            return ck_error_set(err, CK_E_BAD_RULE, option, "'%.200s' in option %s fits no tensor of the file",
                                pairs->items[i].pattern, option);
    return 0;
}

/* Rows in alphabetical order, so that the text does not change when the table is reordered. */
static void write_options(const struct ck_spec *spec, struct ck_json *json) {
    const char *last = "";

    for (;;) {
        size_t next = SIZE_MAX;

        for (size_t i = 0; ck_job_options[i].name; i++)
            if (strcmp(ck_job_options[i].name, last) > 0 &&
                (next == SIZE_MAX || strcmp(ck_job_options[i].name, ck_job_options[next].name) < 0))
                next = i;
        if (next == SIZE_MAX)
            return;
        last = ck_job_options[next].name;
        if (spec->values[next] && strcmp(spec->values[next], ck_job_options[next].value_default) != 0)
            ck_json_key_string(json, last, spec->values[next]);
    }
}

char *ck_spec_normalised(const struct ck_spec *spec) {
    struct ck_buffer buffer;
    struct ck_json json;

    ck_buffer_init(&buffer, (size_t)1 << 20);
    ck_json_init(&json, ck_json_sink_buffer, &buffer, NULL);
    ck_json_object_begin(&json);
    if (spec->dry_run)
        ck_json_key_bool(&json, "dry_run", true);
    ck_json_key_string(&json, "kind", ck_job_kind_name(spec->kind));
    ck_json_key(&json, "options");
    ck_json_object_begin(&json);
    write_options(spec, &json);
    ck_json_object_end(&json);
    ck_json_key_string(&json, "quant", spec->quant);
    ck_json_key_string(&json, "to", spec->target);
    ck_json_object_end(&json);
    if (ck_json_finish(&json) < 0)
        ck_buffer_release(&buffer);
    return buffer.data;
}

void ck_spec_release(struct ck_spec *spec) {
    free(spec->target);
    free(spec->quant);
    for (size_t i = 0; i < CK_ARRAY_LEN(spec->values); i++)
        free(spec->values[i]);
    free(spec->layers.items);
    free(spec->rules.items);
    free(spec->pairs_memory[0]);
    free(spec->pairs_memory[1]);
    *spec = (struct ck_spec){0};
}
