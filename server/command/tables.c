/* ckptd tables: the facts that the documentation repeats, as one JSON document; scripts/generate_tables.py reads it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/routes.h"
#include "core/base/json_write.h"
#include "core/job/options.h"
#include "server/command/commands.h"
#include "server/metrics.h"
#include "server/settings.h"

static void write_errors(struct ck_json *json) {
    static const char *const classes[] = {
        [CK_CLASS_request] = "request", [CK_CLASS_document] = "document", [CK_CLASS_limit] = "limit",
        [CK_CLASS_busy] = "busy",       [CK_CLASS_worker] = "worker",     [CK_CLASS_server] = "server",
    };

    for (int i = 1; i < CK_ENUM_END_; i++) {
        const struct ck_error_row *row = ck_error_row(-i);

        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", row->name);
        ck_json_key_string(json, "class", classes[row->class_]);
        ck_json_key_u64(json, "status", (uint64_t)row->http);
        ck_json_key_bool(json, "retryable", row->retryable);
        ck_json_key_string(json, "title", row->title);
        ck_json_key_string(json, "hint", row->hint);
        ck_json_object_end(json);
    }
}

/* limits: the rows that core/base/limits.h adds, or those of the server itself. */
static void write_settings(struct ck_json *json, bool limits) {
    static const char *const types[] = {"text", "choice", "switch", "count", "size", "seconds"};

    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++) {
        char text[CK_SETTING_NAME_MAX];
        bool number = row->type >= CK_SETTING_COUNT;

        if (limits == (row->text != NULL))
            continue;
        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", row->field);
        ck_json_key_string(json, "flag", ck_setting_flag(row, text));
        ck_json_key_string(json, "variable", ck_setting_variable(row, text));
        ck_json_key_string(json, "type", types[row->type]);
        ck_json_key_string(json, "argument", row->argument);
        if (row->text)
            ck_json_key_string(json, "default", row->text);
        else
            ck_json_key_u64(json, "default", row->value);
        if (number) {
            ck_json_key_u64(json, "least", row->least);
            ck_json_key_u64(json, "most", row->most);
        }
        ck_json_key_string(json, "what", row->what);
        ck_json_object_end(json);
    }
}

static void write_options(struct ck_json *json) {
    static const char *const types[] = {[CK_OPTION_PAIRS] = "pairs",
                                        [CK_OPTION_CHOICE] = "choice",
                                        [CK_OPTION_TEXT] = "text",
                                        [CK_OPTION_BYTES] = "bytes"};

    for (const struct ck_option_row *row = ck_job_options; row->name; row++) {
        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", row->name);
        ck_json_key_string(json, "type", types[row->type]);
        ck_json_key_string(json, "values", row->values);
        ck_json_key_string(json, "default", row->value_default);
        ck_json_key_string(json, "target", row->target);
        ck_json_key_string(json, "what", row->what);
        ck_json_object_end(json);
    }
}

static void write_targets(struct ck_json *json) {
    for (size_t i = 0; ck_targets[i]; i++) {
        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", ck_targets[i]);
        ck_json_key(json, "quants");
        ck_json_array_begin(json);
        for (const char *const *quant = ck_target_quants(ck_targets[i]); *quant; quant++)
            ck_json_string(json, *quant);
        ck_json_array_end(json);
        ck_json_object_end(json);
    }
}

static void write_metrics(struct ck_json *json) {
    static const char *const types[] = {"counter", "gauge", "histogram"};

    for (const struct ck_metric_row *row = ck_metric_rows; row->name; row++) {
        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", row->name);
        ck_json_key_string(json, "type", types[row->type]);
        ck_json_key_string(json, "labels", row->labels);
        ck_json_key(json, "buckets");
        ck_json_array_begin(json);
        for (size_t i = 0; i < row->n_buckets; i++)
            ck_json_double(json, row->buckets[i]);
        ck_json_array_end(json);
        ck_json_key_string(json, "what", row->what);
        ck_json_object_end(json);
    }
}

static void write_routes(struct ck_json *json) {
    static const char *const scopes[] = {
#define X(name, what) #name,
        CK_SCOPES(X)
#undef X
    };

    for (const struct ck_route *route = ck_routes; route->method; route++) {
        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "method", route->method);
        ck_json_key_string(json, "pattern", route->pattern);
        ck_json_key_string(json, "operation", route->operation);
        ck_json_key_string(json, "scope", route->flags & CK_ROUTE_OPEN ? NULL : scopes[route->scope]);
        ck_json_key_string(json, "what", route->what);
        ck_json_object_end(json);
    }
}

static void write_scopes(struct ck_json *json) {
#define X(name_, what_)                                                                                                \
    ck_json_newline(json);                                                                                             \
    ck_json_object_begin(json);                                                                                        \
    ck_json_key_string(json, "name", #name_);                                                                          \
    ck_json_key_string(json, "what", what_);                                                                           \
    ck_json_object_end(json);
    CK_SCOPES(X)
#undef X
}

static void write_server_settings(struct ck_json *json) {
    write_settings(json, false);
}

static void write_limits(struct ck_json *json) {
    write_settings(json, true);
}

int ck_cmd_tables(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*write)(struct ck_json *json);
    } tables[] = {
        {"errors", write_errors},   {"settings", write_server_settings},
        {"limits", write_limits},   {"options", write_options},
        {"targets", write_targets}, {"metrics", write_metrics},
        {"routes", write_routes},   {"scopes", write_scopes},
    };
    struct ck_error err = {0};
    int fd = STDOUT_FILENO;
    struct ck_json json;

    if (argc > 1) {
        fprintf(stderr, "ckptd tables: takes no arguments, not %.100s\n", argv[1]);
        return CK_EXIT_USAGE;
    }
    ck_json_init(&json, ck_json_sink_fd, &fd, &err);
    ck_json_object_begin(&json);
    for (size_t i = 0; i < CK_ARRAY_LEN(tables); i++) {
        ck_json_newline(&json);
        ck_json_key(&json, tables[i].name);
        ck_json_array_begin(&json);
        tables[i].write(&json);
        ck_json_newline(&json);
        ck_json_array_end(&json);
    }
    ck_json_newline(&json);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    if (ck_json_finish(&json) == 0)
        return 0;
    fprintf(stderr, "ckptd tables: %s\n", err.message);
    return 1;
}
