/* core/matrix and api/matrix.c: what the documents say, where ckptd stands, and how it is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/matrix.h"
#include "core/matrix/document.h"
#include "core/matrix/layers.h"

/* ---- the documents ---- */

static const struct ck_matrix_section *section(const char *matrix, const char *name) {
    const struct ck_matrix_section *found = ck_matrix_section_by_name(ck_matrix_by_name(matrix), name);

    assert_non_null(found);
    return found;
}

static void every_section_has_its_rows(_unused_ void **state) {
    static const struct {
        const char *matrix, *section;
        size_t rows, columns;
    } facts[] = {
        {"mlx", "layers", 37, 4},
        {"mlx", "unsupported_layers", 2, 3},
        {"mlx", "ops", 30, 3},
        {"mlx", "unsupported_ops", 2, 3},
        {"mlx", "rules", 6, 3},
        {"mlx", "blockers", 6, 2},
        {"mlx", "templates", 5, 1},
        {"mlx", "summary", 6, 2},
        {"quantized", "layers", 4, 2},
        {"quantized", "activations", 3, 2},
        {"quantized", "shape_elementwise", 10, 2},
        {"quantized", "not_supported", 10, 2},
        {"quantized", "special_cases", 2, 2},
    };

    for (size_t i = 0; i < CK_ARRAY_LEN(facts); i++) {
        assert_int_equal(section(facts[i].matrix, facts[i].section)->n_rows, facts[i].rows);
        assert_int_equal(section(facts[i].matrix, facts[i].section)->n_columns, facts[i].columns);
    }
    assert_int_equal(ck_matrix_by_name("mlx")->n_sections, 8);
    assert_int_equal(ck_matrix_by_name("quantized")->n_sections, 5);
    assert_null(ck_matrix_by_name("MLX"));
    assert_null(ck_matrix_section_by_name(ck_matrix_by_name("mlx"), "activations"));
}

static void the_list_of_names_is_that_of_the_matrices(_unused_ void **state) {
    size_t n = 0;

    for (; ck_matrices[n]; n++)
        assert_string_equal(ck_matrix_names[n], ck_matrices[n]->name);
    assert_null(ck_matrix_names[n]);
}

static const struct ck_matrix_row *row(const char *matrix, const char *in, const char *key) {
    const struct ck_matrix_section *s = section(matrix, in);

    for (size_t i = 0; i < s->n_rows; i++)
        if (strcmp(s->rows[i].cells[s->key], key) == 0)
            return &s->rows[i];
    fail_msg("no row %s", key);
    return NULL;
}

static void every_cell_of_a_section_is_there_and_no_row_comes_twice(_unused_ void **state) {
    for (size_t m = 0; ck_matrices[m]; m++) {
        assert_true(ck_matrices[m]->n_sections <= CK_MATRIX_SECTIONS_MAX);
        for (size_t i = 0; i < ck_matrices[m]->n_sections; i++) {
            const struct ck_matrix_section *s = &ck_matrices[m]->sections[i];

            for (size_t k = 0; k < s->n_rows; k++) {
                for (size_t c = 0; c < CK_MATRIX_COLUMNS_MAX; c++)
                    assert_int_equal(s->rows[k].cells[c] != NULL, c < s->n_columns);
                assert_ptr_equal(row(ck_matrices[m]->name, s->name, s->rows[k].cells[s->key]), &s->rows[k]);
            }
        }
    }
}

static void cells_hold_the_words_of_the_documents(_unused_ void **state) {
    const struct ck_matrix_section *rules = section("mlx", "rules");

    assert_string_equal(rules->description, "6 rules mapping PyTorch weight layouts to MLX conventions. All operate on "
                                            "numpy arrays (backend-agnostic).");
    assert_string_equal(rules->columns[2], "Shape Example");
    assert_string_equal(row("mlx", "rules", "conv_transpose2d")->cells[1], "np.transpose(1, 2, 3, 0)");
    assert_string_equal(row("mlx", "rules", "conv_transpose2d")->cells[2], "[I, O, H, W] \u2192 [O, H, W, I]");
    assert_string_equal(row("mlx", "rules", "batch_norm")->cells[1], "passthrough (alias for identity)");
    assert_string_equal(row("mlx", "ops", "x.chunk")->cells[1], "mx.split");
    assert_string_equal(row("mlx", "ops", "torch.zeros")->cells[2], "dtype \u2192 dtype");
    assert_string_equal(row("mlx", "ops", "torch.einsum")->cells[2], "\u2014");
    assert_string_equal(row("mlx", "layers", "nn.Dropout")->cells[3], "MLP, TransformerBlock");
    assert_string_equal(row("mlx", "layers", "nn.AdaptiveAvgPool2d")->cells[1], "Custom template");
    assert_string_equal(row("mlx", "unsupported_layers", "LSTM, GRU, RNN")->cells[2],
                        "Stateful + sequential execution. MLX has no built-in RNN. Out of scope.");
    assert_string_equal(row("mlx", "blockers", "+= (in-place add)")->cells[1], "Line-by-line scan, excludes counters");
    assert_string_equal(row("mlx", "summary", "Total tests")->cells[1], "217");
    assert_string_equal(row("quantized", "layers", "nn.Linear")->cells[1], "");
    assert_string_equal(row("quantized", "shape_elementwise", "F.interpolate(mode=\"nearest\")")->cells[1],
                        "Mode must be \"nearest\" or \"nearest-exact\"; input/output share one quantization grid");
    assert_string_equal(
        row("quantized", "shape_elementwise", "torch.matmul / torch.bmm / torch.mm")->cells[1],
        "Activation \u00d7 activation; feature rank 2\u20133 per operand; trailing scale must be a scalar "
        "constant; output must feed a quantized op");
    assert_string_equal(row("quantized", "special_cases", "Dropout")->cells[1],
                        "Absent from the traced graph in eval mode");
}

static void the_summary_counts_what_the_sections_hold(_unused_ void **state) {
    static const struct {
        const char *metric, *section;
    } facts[] = {{"Supported layer types", "layers"},
                 {"Supported op mappings", "ops"},
                 {"Weight transposition rules", "rules"},
                 {"Blocker patterns detected", "blockers"},
                 {"Templates", "templates"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(facts); i++)
        assert_int_equal(atol(row("mlx", "summary", facts[i].metric)->cells[1]),
                         section("mlx", facts[i].section)->n_rows);
}

static void the_templates_are_those_that_the_layers_and_the_summary_name(_unused_ void **state) {
    const struct ck_matrix_section *layers = section("mlx", "layers"), *templates = section("mlx", "templates");
    char list[200] = "5 (", name[CK_MATRIX_NAME_MAX];

    for (size_t i = 0; i < templates->n_rows; i++) {
        strncat(list, i > 0 ? ", " : "", 3);
        strncat(list, templates->rows[i].cells[0], 64);
    }
    strncat(list, ")", 2);
    assert_string_equal(row("mlx", "summary", "Templates")->cells[1], list);
    for (size_t i = 0; i < layers->n_rows; i++)
        for (const char *cell = layers->rows[i].cells[3];
             strcmp(cell, "\u2014") != 0 && ck_matrix_next_name(&cell, name);)
            assert_non_null(row("mlx", "templates", name));
}

/* ---- the documents and the converter ---- */

static struct ck_standing standing(const char *matrix, const char *in, const char *key) {
    return section(matrix, in)->standing(row(matrix, in, key));
}

static void the_converter_and_the_layers_of_the_document_agree(_unused_ void **state) {
    const struct ck_matrix_section *layers = section("mlx", "layers");
    size_t with_weights = 0;

    for (size_t i = 0; i < layers->n_rows; i++) {
        const struct ck_matrix_row *r = &layers->rows[i];
        const struct ck_layer_row *layer = ck_layer_by_word(r->cells[0]);
        struct ck_standing s = layers->standing(r);

        /* What the document maps is converted: nothing refused, nothing left for later. */
        assert_true(s.status == CK_STATUS_EXACT || s.status == CK_STATUS_RENAMED);
        assert_string_equal(s.since, "0.1");
        if (!layer) {
            assert_string_equal(r->cells[2], "identity");
            assert_non_null(s.note);
            continue;
        }
        with_weights++;
        assert_string_equal(layer->mlx, r->cells[1]);
        assert_string_equal(s.rule, ck_rule_row(layer->rule)->name);
        /* A renamed layer is split into others, and the document's rule is that of the parts. */
        if (s.status == CK_STATUS_EXACT)
            assert_string_equal(s.rule, r->cells[2]);
    }
    assert_int_equal(with_weights, 15);
}

static void what_the_converter_refuses_the_document_does_not_map(_unused_ void **state) {
    const struct ck_matrix_section *layers = section("mlx", "layers");

    for (const struct ck_layer_row *layer = ck_layers; layer->name; layer++)
        for (size_t i = 0; i < layers->n_rows && !layer->mlx; i++)
            assert_false(ck_matrix_key_matches(layers->rows[i].cells[0], layer->name));
}

/* "[O, I, K]": the letters, in order. Returns their number. */
static size_t axes_of(const char *text, const char *end, char letters[8]) {
    size_t n = 0;

    for (; text < end && n < 8; text++)
        if (*text >= 'A' && *text <= 'Z')
            letters[n++] = *text;
    return n;
}

static void the_rules_of_the_document_move_the_axes_as_the_converter_does(_unused_ void **state) {
    const struct ck_matrix_section *rules = section("mlx", "rules");

    for (size_t i = 0; i < rules->n_rows; i++) {
        const char *shapes = rules->rows[i].cells[2], *arrow = strstr(shapes, "\u2192");
        char from[8], to[8];
        const struct ck_rule_row *rule;
        enum ck_rule id;
        size_t n;

        assert_non_null(arrow);
        n = axes_of(shapes, arrow, from);
        assert_true(ck_rule_from_word(rules->rows[i].cells[0], &id));
        rule = ck_rule_row(id);
        assert_true(rule->in_matrix);
        assert_int_equal(axes_of(arrow, shapes + strlen(shapes), to), n);
        if (rule->rank > 0)
            assert_int_equal(rule->rank, n);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(to[k], from[rule->rank > 0 ? rule->axes[k] : k]);
    }
}

static void every_rule_that_claims_to_be_in_the_matrix_is(_unused_ void **state) {
    for (int i = 0; i < CK_RULE_END_; i++)
        if (ck_rule_row((enum ck_rule)i)->in_matrix)
            assert_int_equal(standing("mlx", "rules", ck_rule_row((enum ck_rule)i)->name).status, CK_STATUS_EXACT);
}

static void assert_standing(struct ck_standing s, enum ck_status status, const char *rule, bool works) {
    assert_int_equal(s.status, status);
    assert_string_equal(s.rule, rule);
    assert_int_equal(s.since != NULL, works);
}

static void the_status_is_what_the_converter_does(_unused_ void **state) {
    assert_standing(standing("mlx", "layers", "nn.Linear"), CK_STATUS_EXACT, "identity", true);
    assert_null(standing("mlx", "layers", "nn.Linear").note);
    assert_standing(standing("mlx", "layers", "nn.Conv2d"), CK_STATUS_EXACT, "conv2d", true);
    assert_standing(standing("mlx", "layers", "nn.BatchNorm2d"), CK_STATUS_EXACT, "batch_norm", true);
    assert_standing(standing("mlx", "layers", "nn.MultiheadAttention"), CK_STATUS_RENAMED, "attention", true);
    assert_standing(standing("mlx", "layers", "nn.TransformerEncoderLayer"), CK_STATUS_RENAMED, "attention", true);
    assert_standing(standing("mlx", "layers", "nn.ReLU"), CK_STATUS_EXACT, "", true);
    assert_string_equal(standing("mlx", "layers", "nn.MaxPool3d").note,
                        "it has no weights: there is nothing to convert");
    assert_standing(standing("mlx", "unsupported_layers", "LSTM, GRU, RNN"), CK_STATUS_REFUSED, "", false);
    assert_non_null(standing("mlx", "unsupported_layers", "LSTM, GRU, RNN").note);
    assert_standing(standing("mlx", "unsupported_layers", "Conv3d, ConvTranspose3d"), CK_STATUS_EXACT,
                    "conv3d, conv_transpose3d", true);
    assert_non_null(standing("mlx", "unsupported_layers", "Conv3d, ConvTranspose3d").note);
    assert_standing(standing("mlx", "summary", "Supported layer types"), CK_STATUS_RENAMED, "", true);
    assert_standing(standing("mlx", "summary", "Weight transposition rules"), CK_STATUS_EXACT, "", true);
    assert_standing(standing("mlx", "summary", "Supported op mappings"), CK_STATUS_PLANNED, "", false);
}

static void an_unknown_class_or_rule_is_claimed_by_nothing(_unused_ void **state) {
    const struct ck_matrix_row layer = {{"nn.Unheard", "nn.Unheard", "identity", ""}}, rule = {{"attention", "", ""}};
    const struct ck_matrix_row group = {{"", "Conv3d, LSTM, Conv1d", ""}};

    assert_standing(ck_standing_layer(&layer), CK_STATUS_PLANNED, "", false);
    assert_standing(ck_standing_rule(&rule), CK_STATUS_PLANNED, "", false);
    assert_standing(ck_standing_layer_group(&group), CK_STATUS_REFUSED, "conv3d, conv1d", false);
}

static void nothing_without_code_is_claimed(_unused_ void **state) {
    static const char *const sections[][2] = {{"mlx", "ops"},
                                              {"mlx", "unsupported_ops"},
                                              {"mlx", "blockers"},
                                              {"mlx", "templates"},
                                              {"quantized", "layers"},
                                              {"quantized", "activations"},
                                              {"quantized", "shape_elementwise"},
                                              {"quantized", "not_supported"},
                                              {"quantized", "special_cases"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(sections); i++) {
        const struct ck_matrix_section *s = section(sections[i][0], sections[i][1]);

        for (size_t k = 0; k < s->n_rows; k++)
            assert_standing(s->standing(&s->rows[k]), CK_STATUS_PLANNED, "", false);
    }
}

/* ---- keys ---- */

static void a_key_is_known_with_and_without_its_prefix(_unused_ void **state) {
    static const char *const same[][2] = {
        {"nn.Linear", "Linear"},
        {"nn.Linear", "torch.nn.Linear"},
        {"NonDynamicallyQuantizableLinear", "nn.NonDynamicallyQuantizableLinear"},
        {"x.view", "view"},
        {"x.view", "torch.view"},
        {"x.view", "Tensor.view"},
        {"F.softmax", "torch.nn.functional.softmax"},
        {"LSTM, GRU, RNN", "GRU"},
        {"LSTM, GRU, RNN", "nn.RNN"},
        {"LSTM, GRU, RNN", "LSTM, GRU, RNN"},
        {"torch.softmax / F.softmax", "softmax"},
        {"torch.reshape / view", "x.view"},
        {".add_, .mul_, .zero_, x[i] = v", "zero_"},
        {".add_, .mul_, .zero_, x[i] = v", "x.add_"},
        {".add_, .mul_, .zero_, x[i] = v", "x[i] = v"},
        {"torch.autograd.Function, .backward()", "backward"},
        {"torch.autograd.Function, .backward()", "autograd.Function"},
        {".copy_(", "copy_"},
        {".item()", ".item"},
        {"F.pad(pad_value=0)", "F.pad"},
        {"Standalone F.pad", "pad"},
        {"torch.mul(x, const_tensor)", "torch.mul"},
        {"Bare torch.mul(x, scalar)", "mul"},
        {"torch.slice / __getitem__[:n]", "__getitem__"},
        {"Dilated nn.Conv2d", "Conv2d"},
        {"+= (in-place add)", "+="},
        {"Batch normalization", "Batch normalization"},
        {"Supported layer types", "Supported layer types"},
    };

    for (size_t i = 0; i < CK_ARRAY_LEN(same); i++)
        if (!ck_matrix_key_matches(same[i][0], same[i][1]))
            fail_msg("'%s' is not found as '%s'", same[i][0], same[i][1]);
}

static void other_keys_do_not_match(_unused_ void **state) {
    static const char *const different[][2] = {{"nn.Conv1d", "Conv1D"},
                                               {"nn.Linear", "linear"},
                                               {"nn.Linear", "Linea"},
                                               {"nn.Linear", ""},
                                               {"F.relu", "ReLU"},
                                               {"LSTM, GRU, RNN", "LSTM, GRU"},
                                               {"nn.Linear", "nn."},
                                               {"nn.Linear", "nn"},
                                               {"x.view", "x"},
                                               {"Batch normalization", "Batch"},
                                               {"nn.Linear", ", , /"},
                                               {"nn.Conv2d", "nn.nn.Conv2d"},
                                               {"x.max", "torch.nn.functional.x.max"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(different); i++)
        if (ck_matrix_key_matches(different[i][0], different[i][1]))
            fail_msg("'%s' is found as '%s'", different[i][0], different[i][1]);
}

static void hostile_keys_end(_unused_ void **state) {
    static const char fills[] = {'(', ')', '[', ']', ',', '/', ' ', '.', 'x', '\xFF'};
    char key[70000];

    key[sizeof(key) - 1] = 0;
    for (size_t i = 0; i < sizeof(fills); i++) {
        memset(key, fills[i], sizeof(key) - 1);
        assert_false(ck_matrix_key_matches("nn.Linear", key));
    }
}

/* ---- over HTTP ---- */

static const char *header(void *ctx, const char *name) {
    for (const char *const *h = ctx; *h; h += 2)
        if (strcasecmp(h[0], name) == 0)
            return h[1];
    return NULL;
}

struct asked {
    const char *name, *query, *accept, *none_match;
};

static void ask(struct asked asked, struct ck_reply *reply) {
    const char *headers[5] = {NULL};
    struct ck_request request = {
        .method = "GET", .path = "", .query = asked.query ? asked.query : "", .id = "r1", .params = {asked.name}};
    size_t n = 0;

    if (asked.accept) {
        headers[n++] = "Accept";
        headers[n++] = asked.accept;
    }
    if (asked.none_match) {
        headers[n++] = "If-None-Match";
        headers[n++] = asked.none_match;
    }
    request.header = header;
    request.header_ctx = headers;
    if (asked.name)
        ck_answer_matrix(&request, NULL, reply);
    else
        ck_answer_matrix_list(&request, NULL, reply);
    assert_false(reply->broken);
}

static const char *body(const struct ck_reply *reply) {
    return reply->kind == CK_REPLY_STATIC ? reply->bytes : ck_buffer_text(&reply->body);
}

static json_t *ask_json(const char *name, const char *query) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};
    json_t *json;

    ask((struct asked){.name = name, .query = query}, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(ck_reply_find(&reply, "Content-Type"), "application/json");
    json = json_loads(body(&reply), 0, NULL);
    assert_non_null(json);
    return json;
}

static const char *text_at(json_t *json, const char *member) {
    return json_string_value(json_object_get(json, member));
}

static void the_list_counts_sections_rows_and_status(_unused_ void **state) {
    json_t *json = ask_json(NULL, ""), *list = json_object_get(json, "matrices"), *mlx = json_array_get(list, 0),
           *value;
    json_int_t sum = 0;
    const char *word;

    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(text_at(mlx, "href"), "/v1/matrix/mlx");
    assert_string_equal(text_at(mlx, "title"), "torch2mlx Support Matrix");
    assert_string_equal(text_at(json_array_get(json_object_get(mlx, "sections"), 0), "title"), "Layer Mappings");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(mlx, "sections"), 0), "rows")),
                     37);
    assert_int_equal(json_integer_value(json_object_get(mlx, "rows")), 37 + 2 + 30 + 2 + 6 + 6 + 5 + 6);
    json_object_foreach(json_object_get(mlx, "status"), word, value) {
        sum += json_integer_value(value);
    }
    assert_int_equal(sum, 37 + 2 + 30 + 2 + 6 + 6 + 5 + 6);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(mlx, "status"), "refused")), 1);
    assert_string_equal(text_at(json_array_get(list, 1), "name"), "quantized");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 1), "rows")), 29);
    json_decref(json);
}

static void the_whole_matrix_is_served_in_its_order(_unused_ void **state) {
    json_t *json = ask_json("mlx", ""), *rows = json_object_get(json, "rows"), *first = json_array_get(rows, 0);

    assert_string_equal(text_at(json, "name"), "mlx");
    assert_string_equal(text_at(json, "description"),
                        "Reference of supported torch operations and their MLX equivalents.");
    assert_int_equal(json_object_size(json_object_get(json, "filters")), 0);
    assert_int_equal(json_integer_value(json_object_get(json, "count")), 94);
    assert_int_equal(json_array_size(rows), 94);
    assert_int_equal(json_array_size(json_object_get(json, "sections")), 8);
    assert_string_equal(text_at(first, "section"), "layers");
    assert_string_equal(text_at(first, "key"), "nn.Linear");
    assert_string_equal(text_at(json_object_get(first, "cells"), "Template"), "MLP");
    assert_string_equal(text_at(json_object_get(first, "ckptd"), "status"), "exact");
    assert_string_equal(text_at(json_object_get(first, "ckptd"), "rule"), "identity");
    assert_true(json_is_null(json_object_get(json_object_get(first, "ckptd"), "note")));
    assert_string_equal(text_at(json_object_get(first, "ckptd"), "since"), "0.1");
    assert_null(json_object_get(json, "near"));
    json_decref(json);
}

static void filters_are_joined_and_told_back(_unused_ void **state) {
    json_t *json = ask_json("mlx", "section=rules,layers&status=renamed&status=refused"), *filters, *wanted;

    filters = json_object_get(json, "filters");
    wanted = json_pack("{s:[s,s],s:[s,s]}", "section", "layers", "rules", "status", "renamed", "refused");
    assert_true(json_equal(filters, wanted));
    /* MultiheadAttention and the four transformers */
    assert_int_equal(json_integer_value(json_object_get(json, "count")), 5);
    /* a section without a row that fits is not shown */
    assert_int_equal(json_array_size(json_object_get(json, "sections")), 1);
    json_decref(wanted);
    json_decref(json);
}

static void one_key_may_name_rows_of_several_sections(_unused_ void **state) {
    json_t *json = ask_json("quantized", "key=torch.nn.functional.pad&key=Dropout"),
           *rows = json_object_get(json, "rows");

    assert_int_equal(json_array_size(rows), 3);
    assert_string_equal(text_at(json_array_get(rows, 0), "key"), "F.pad(pad_value=0)");
    assert_string_equal(text_at(json_array_get(rows, 1), "key"), "Standalone F.pad");
    assert_string_equal(text_at(json_array_get(rows, 2), "key"), "Dropout");
    json_decref(json);
}

static json_t *near_of(const char *query, json_t **ret_json) {
    *ret_json = ask_json("mlx", query);
    assert_int_equal(json_array_size(json_object_get(*ret_json, "rows")), 0);
    return json_object_get(*ret_json, "near");
}

static void a_key_that_fits_nothing_gets_the_nearest(_unused_ void **state) {
    json_t *json, *near = near_of("key=nn.Relu", &json);

    assert_string_equal(json_string_value(json_array_get(near, 0)), "nn.ReLU");
    assert_string_equal(json_string_value(json_array_get(near, 1)), "F.relu");
    json_decref(json);
    near = near_of("key=Convolution2d", &json);
    assert_int_equal(json_array_size(near), 0);
    json_decref(json);
    near = near_of("key=F.crossentropy", &json);
    assert_string_equal(json_string_value(json_array_get(near, 0)), "F.cross_entropy");
    json_decref(json);
    near = near_of("key=", &json);
    assert_int_equal(json_array_size(near), 0);
    json_decref(json);
}

static void assert_problem(struct asked asked, int code, const char *in_text) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};

    ask(asked, &reply);
    assert_int_equal(reply.status, ck_error_row(code)->http);
    assert_string_equal(ck_reply_find(&reply, "Content-Type"), "application/problem+json");
    assert_non_null(strstr(body(&reply), ck_error_row(code)->name));
    if (!strstr(body(&reply), in_text))
        fail_msg("'%s' is not in %s", in_text, body(&reply));
}

static void what_is_unknown_is_refused_with_the_nearest(_unused_ void **state) {
    assert_problem((struct asked){"mlx", "section=layer", NULL, NULL}, CK_E_BAD_OPTION, "did you mean 'layers'?");
    assert_problem((struct asked){"mlx", "section=layers,", NULL, NULL}, CK_E_BAD_OPTION, "'' is no section");
    assert_problem((struct asked){"mlx", "status=exakt", NULL, NULL}, CK_E_BAD_OPTION, "did you mean 'exact'?");
    assert_problem((struct asked){"mlx", "status=exact&status=no", NULL, NULL}, CK_E_BAD_OPTION, "'no' is no status");
    assert_problem((struct asked){"mlx", "format=xml", NULL, NULL}, CK_E_BAD_OPTION, "json, csv, md");
    assert_problem((struct asked){"mlx", "format=csv&format=md", NULL, NULL}, CK_E_BAD_OPTION, "came twice");
    assert_problem((struct asked){"mlx", "sections=layers", NULL, NULL}, CK_E_BAD_OPTION, "did you mean 'section'?");
    assert_problem((struct asked){"mlx", "key=%zz", NULL, NULL}, CK_E_BAD_REQUEST, "escape");
    assert_problem((struct asked){"mlz", "", NULL, NULL}, CK_E_MATRIX_NOT_FOUND, "did you mean /v1/matrix/mlx?");
    assert_problem((struct asked){"onnx", "", NULL, NULL}, CK_E_MATRIX_NOT_FOUND, "there are mlx, quantized");
    assert_problem((struct asked){"mlx", "", "text/html", NULL}, CK_E_NOT_ACCEPTABLE, "text/markdown");
    assert_problem((struct asked){NULL, "format=csv", NULL, NULL}, CK_E_BAD_OPTION, "takes no parameters");
}

static void assert_type(const char *query, const char *accept, const char *type) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};

    ask((struct asked){.name = "mlx", .query = query, .accept = accept}, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(ck_reply_find(&reply, "Content-Type"), type);
    assert_string_equal(ck_reply_find(&reply, "Vary"), "Accept");
    assert_string_equal(ck_reply_find(&reply, "Cache-Control"), "no-cache");
}

static void accept_chooses_the_format_and_the_parameter_wins(_unused_ void **state) {
    assert_type("", "*/*", "application/json");
    assert_type("", "text/csv", "text/csv; charset=utf-8");
    assert_type("", "text/markdown, text/csv;q=0.5", "text/markdown; charset=utf-8");
    assert_type("format=md", "text/csv", "text/markdown; charset=utf-8");
    assert_type("format=json", "text/html", "application/json");
    assert_type("format=csv&section=ops", NULL, "text/csv; charset=utf-8");
}

static void whole_answers_are_kept_and_filtered_ones_are_not(_unused_ void **state) {
    _cleanup_(ck_reply_release) struct ck_reply one = {0}, two = {0}, part = {0};

    ask((struct asked){.name = "mlx"}, &one);
    ask((struct asked){.name = "mlx", .query = "format=json"}, &two);
    ask((struct asked){.name = "mlx", .query = "section=ops"}, &part);
    assert_int_equal(one.kind, CK_REPLY_STATIC);
    assert_ptr_equal(one.bytes, two.bytes);
    assert_int_equal(one.length, strlen(one.bytes));
    assert_int_equal(part.kind, CK_REPLY_TEXT);
    assert_int_equal(part.body.length, strlen(body(&part)));
}

static void assert_known_by_etag(struct asked asked) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0}, again = {0}, other = {0};

    ask(asked, &reply);
    asked.none_match = ck_reply_find(&reply, "ETag");
    assert_int_equal(strlen(asked.none_match), 34);
    ask(asked, &again);
    assert_int_equal(again.status, 304);
    assert_int_equal(body(&again)[0], 0);
    assert_string_equal(ck_reply_find(&again, "ETag"), asked.none_match);
    assert_string_equal(ck_reply_find(&again, "Vary"), "Accept");
    assert_string_equal(ck_reply_find(&again, "Cache-Control"), "no-cache");
    asked.none_match = "\"other\"";
    ask(asked, &other);
    assert_int_equal(other.status, 200);
}

static void a_client_that_has_the_bytes_gets_none(_unused_ void **state) {
    _cleanup_(ck_reply_release) struct ck_reply json = {0}, csv = {0};

    assert_known_by_etag((struct asked){.name = "mlx"});
    assert_known_by_etag((struct asked){.name = "quantized", .query = "status=planned&format=md"});
    assert_known_by_etag((struct asked){.name = NULL});
    ask((struct asked){.name = "mlx"}, &json);
    ask((struct asked){.name = "mlx", .query = "format=csv"}, &csv);
    assert_string_not_equal(ck_reply_find(&json, "ETag"), ck_reply_find(&csv, "ETag"));
}

static void assert_body(const char *name, const char *query, const char *text) {
    _cleanup_(ck_reply_release) struct ck_reply reply = {0};

    ask((struct asked){.name = name, .query = query}, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(body(&reply), text);
}

static void csv_has_the_columns_of_what_is_present_and_quotes_what_must_be(_unused_ void **state) {
    assert_body("mlx", "format=csv&section=rules&key=conv1d",
                "section,key,Rule Key,Transform,Shape Example,status,rule,note,since\r\n"
                "rules,conv1d,conv1d,\"np.swapaxes(1, 2)\",\"[O, I, K] \u2192 [O, K, I]\",exact,conv1d,,0.1\r\n");
    assert_body("quantized", "format=csv&key=interpolate",
                "section,key,PyTorch Op,Notes,status,rule,note,since\r\n"
                "shape_elementwise,\"F.interpolate(mode=\"\"nearest\"\")\",\"F.interpolate(mode=\"\"nearest\"\")\","
                "\"Mode must be \"\"nearest\"\" or \"\"nearest-exact\"\"; input/output share one quantization grid\","
                "planned,,there is no int8 target yet,\r\n");
    /* Columns of two sections stand side by side, those of the same name together. */
    assert_body(
        "mlx", "format=csv&key=nn.Linear&key=F.relu",
        "section,key,Torch Layer,MLX Equivalent,Weight Rule,Template,Torch Op,Param Renames,status,rule,note,since\r\n"
        "layers,nn.Linear,nn.Linear,nn.Linear,identity,MLP,,,exact,identity,,0.1\r\n"
        "ops,F.relu,,nn.relu,,,F.relu,\u2014,planned,,"
        "weights alone are converted today; code for operations is planned,\r\n");
    assert_body("mlx", "format=csv&key=Nothing", "section,key,status,rule,note,since\r\n");
}

static void markdown_has_a_table_for_each_section_with_texts_escaped(_unused_ void **state) {
    assert_body("mlx", "format=md&key=conv2d&key=Linear",
                "# torch2mlx Support Matrix\n\n"
                "Reference of supported torch operations and their MLX equivalents.\n\n"
                "## Layer Mappings\n\n"
                "37 torch.nn module classes with automatic conversion support.\n\n"
                "| Torch Layer | MLX Equivalent | Weight Rule | Template | Status | Rule | Note | Since |\n"
                "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
                "| nn.Linear | nn.Linear | identity | MLP | exact | identity |  | 0.1 |\n"
                "\n## Weight Transposition Rules\n\n"
                "6 rules mapping PyTorch weight layouts to MLX conventions. All operate on numpy arrays "
                "(backend-agnostic).\n\n"
                "| Rule Key | Transform | Shape Example | Status | Rule | Note | Since |\n"
                "| --- | --- | --- | --- | --- | --- | --- |\n"
                "| conv2d | np.moveaxis(1, -1) | [O, I, H, W] \u2192 [O, H, W, I] | exact | conv2d |  | 0.1 |\n");
    assert_body(
        "quantized", "format=md&key=slice",
        "# Supported PyTorch Operations\n\n"
        "Native PyTorch operations that can be traced, quantized, and lowered.\n\n"
        "## Shape & Elementwise Operations\n\n"
        "| PyTorch Op | Notes | Status | Rule | Note | Since |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| torch.slice / \\_\\_getitem_\\_[:n] | Sequence-domain tensors only (not spatial/HWC feature maps); not "
        "the batch axis; step must be 1 | planned |  | there is no int8 target yet |  |\n");
    assert_body("quantized", "format=md&key=Flaten",
                "# Supported PyTorch Operations\n\n"
                "Native PyTorch operations that can be traced, quantized, and lowered.\n\n"
                "No row fits.\n\nNear: torch.flatten\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_section_has_its_rows),
        cmocka_unit_test(the_list_of_names_is_that_of_the_matrices),
        cmocka_unit_test(every_cell_of_a_section_is_there_and_no_row_comes_twice),
        cmocka_unit_test(cells_hold_the_words_of_the_documents),
        cmocka_unit_test(the_summary_counts_what_the_sections_hold),
        cmocka_unit_test(the_templates_are_those_that_the_layers_and_the_summary_name),
        cmocka_unit_test(the_converter_and_the_layers_of_the_document_agree),
        cmocka_unit_test(what_the_converter_refuses_the_document_does_not_map),
        cmocka_unit_test(the_rules_of_the_document_move_the_axes_as_the_converter_does),
        cmocka_unit_test(every_rule_that_claims_to_be_in_the_matrix_is),
        cmocka_unit_test(the_status_is_what_the_converter_does),
        cmocka_unit_test(an_unknown_class_or_rule_is_claimed_by_nothing),
        cmocka_unit_test(nothing_without_code_is_claimed),
        cmocka_unit_test(a_key_is_known_with_and_without_its_prefix),
        cmocka_unit_test(other_keys_do_not_match),
        cmocka_unit_test(hostile_keys_end),
        cmocka_unit_test(the_list_counts_sections_rows_and_status),
        cmocka_unit_test(the_whole_matrix_is_served_in_its_order),
        cmocka_unit_test(filters_are_joined_and_told_back),
        cmocka_unit_test(one_key_may_name_rows_of_several_sections),
        cmocka_unit_test(a_key_that_fits_nothing_gets_the_nearest),
        cmocka_unit_test(what_is_unknown_is_refused_with_the_nearest),
        cmocka_unit_test(accept_chooses_the_format_and_the_parameter_wins),
        cmocka_unit_test(whole_answers_are_kept_and_filtered_ones_are_not),
        cmocka_unit_test(a_client_that_has_the_bytes_gets_none),
        cmocka_unit_test(csv_has_the_columns_of_what_is_present_and_quotes_what_must_be),
        cmocka_unit_test(markdown_has_a_table_for_each_section_with_texts_escaped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
