#include "core/matrix/status.h"

#include <stdio.h>
#include <string.h>

#include "core/matrix/document.h"
#include "core/matrix/layers.h"

#define FIRST_RELEASE "0.1"

const char *const ck_status_words[] = {
#define X(name, word, what) word,
    CK_STATUSES(X)
#undef X
        NULL,
};

static struct ck_standing works(enum ck_status status, const char *rule, const char *note) {
    struct ck_standing standing = {.status = status, .note = note, .since = FIRST_RELEASE};

    snprintf(standing.rule, sizeof(standing.rule), "%s", rule);
    return standing;
}

static struct ck_standing planned(const char *note) {
    return (struct ck_standing){.status = CK_STATUS_PLANNED, .note = note};
}

/* ---- layers ---- */

/* Classes without tensors: the converter meets nothing of them in a checkpoint, so layers.h needs no row. */
static const char *const weightless[] = {"GELU",      "ReLU",      "SiLU",      "Tanh",      "Sigmoid",   "LeakyReLU",
                                         "Softmax",   "Dropout",   "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d",
                                         "AvgPool2d", "AvgPool3d", "Flatten",   NULL};

/* Classes that own other modules and no tensors of their own, with what becomes of the names of those. */
static const struct {
    const char *name, *note;
} containers[] = {
    {"ModuleList", "it has no weights of its own; its modules are converted"},
    {"Sequential", "it has no weights of its own; if the whole model is one, layers. goes before its modules' names"},
    {"AdaptiveAvgPool2d", "it has no weights to convert; the template for its code is planned"},
};

/* Classes that are made of rows of layers.h, with the one that decides. */
static const char *const of_attention[] = {"TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer",
                                           "TransformerDecoderLayer", NULL};

static bool in_list(const char *word, const char *const *list) {
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static const char *note_of(const struct ck_layer_row *layer) {
    if (layer->rule == CK_RULE_BATCH_NORM)
        return "num_batches_tracked, which only training uses, is left out";
    if (ck_rule_is_transposed_conv(layer->rule) && layer->rank < 5)
        return "where names and shapes leave two readings, layers= is asked for";
    if (layer->rule == CK_RULE_CONV3D || layer->rule == CK_RULE_CONV_TRANSPOSE3D)
        return "MLX has it today, so the weights are converted";
    return NULL;
}

static struct ck_standing of_converted(const struct ck_layer_row *layer) {
    const char *rule = ck_rule_row(layer->rule)->name;

    if (layer->kind == CK_LAYER_RECURRENT)
        return (struct ck_standing){.status = CK_STATUS_REFUSED,
                                    .note = "MLX names, splits and adds the weights of recurrent layers differently"};
    if (!layer->mlx)
        return (struct ck_standing){.status = CK_STATUS_REFUSED, .note = "MLX has no layer like it"};
    if (layer->kind == CK_LAYER_ATTENTION)
        return works(CK_STATUS_RENAMED, rule,
                     "packed projections are split and get MLX's names; bias_k and bias_v are refused");
    return works(CK_STATUS_EXACT, rule, note_of(layer));
}

static struct ck_standing of_class(const char *name) {
    const struct ck_layer_row *layer = ck_layer_by_word(name);

    if (layer)
        return of_converted(layer);
    if (in_list(name, weightless))
        return works(CK_STATUS_EXACT, "", "it has no weights: there is nothing to convert");
    if (in_list(name, of_attention)) {
        struct ck_standing standing = of_converted(ck_layer_by_word("MultiheadAttention"));

        standing.note = "its layers are converted one by one, attention among them";
        return standing;
    }
    for (size_t i = 0; i < CK_ARRAY_LEN(containers); i++)
        if (strcmp(name, containers[i].name) == 0)
            return works(CK_STATUS_EXACT, "", containers[i].note);
    return planned("the converter does not know this class");
}

struct ck_standing ck_standing_layer(const struct ck_matrix_row *row) {
    const char *cell = row->cells[0];
    char name[CK_MATRIX_NAME_MAX] = "";

    ck_matrix_next_name(&cell, name);
    return of_class(name);
}

/* The weakest of the classes, with the rules of all. */
struct ck_standing ck_standing_layer_group(const struct ck_matrix_row *row) {
    struct ck_standing group = {.status = CK_STATUS_EXACT};
    const char *cell = row->cells[1];
    char name[CK_MATRIX_NAME_MAX], rules[CK_STANDING_RULE_MAX] = "";
    bool first = true;
    size_t used = 0;

    while (ck_matrix_next_name(&cell, name)) {
        struct ck_standing one = of_class(name);

        if (one.rule[0] && used < sizeof(rules))
            used += (size_t)snprintf(rules + used, sizeof(rules) - used, "%s%s", used > 0 ? ", " : "", one.rule);
        if (first || one.status > group.status)
            group = one;
        first = false;
    }
    memcpy(group.rule, rules, sizeof(rules));
    return group;
}

/* ---- the rest of the mlx document ---- */

struct ck_standing ck_standing_rule(const struct ck_matrix_row *row) {
    enum ck_rule rule;

    if (!ck_rule_from_word(row->cells[0], &rule) || !ck_rule_row(rule)->in_matrix)
        return planned("the converter does not know this rule");
    return works(CK_STATUS_EXACT, ck_rule_row(rule)->name, NULL);
}

struct ck_standing ck_standing_op(_unused_ const struct ck_matrix_row *row) {
    return planned("weights alone are converted today; code for operations is planned");
}

struct ck_standing ck_standing_blocker(_unused_ const struct ck_matrix_row *row) {
    return planned("no source is read today; finding this in a model's code is planned");
}

struct ck_standing ck_standing_template(_unused_ const struct ck_matrix_row *row) {
    return planned("weights alone are converted today; code from templates is planned");
}

/* What the lines of the summary count. */
static const struct {
    const char *metric, *section;
} counted[] = {
    {"Supported layer types", "layers"},
    {"Supported op mappings", "ops"},
    {"Weight transposition rules", "rules"},
    {"Blocker patterns detected", "blockers"},
    {"Templates", "templates"},
};

static struct ck_standing weakest(const struct ck_matrix_section *section) {
    struct ck_standing worst = section->standing(&section->rows[0]);

    for (size_t i = 1; i < section->n_rows; i++) {
        struct ck_standing one = section->standing(&section->rows[i]);

        if (one.status > worst.status)
            worst = one;
    }
    worst.rule[0] = 0;
    worst.note = "the weakest status among the rows that are counted here";
    return worst;
}

struct ck_standing ck_standing_summary(const struct ck_matrix_row *row) {
    for (size_t i = 0; i < CK_ARRAY_LEN(counted); i++)
        if (strcmp(row->cells[0], counted[i].metric) == 0)
            return weakest(ck_matrix_section_by_name(&ck_matrix_mlx, counted[i].section));
    return works(CK_STATUS_APPROXIMATE, "", "the document counts its own tests; ckptd has others");
}

/* ---- the quantized document ---- */

struct ck_standing ck_standing_int8(_unused_ const struct ck_matrix_row *row) {
    return planned("there is no int8 target yet");
}

struct ck_standing ck_standing_int8_check(_unused_ const struct ck_matrix_row *row) {
    return planned("there is no int8 target yet; its check is to judge this");
}
