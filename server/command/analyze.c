/* server/command/analyze.c: `ckptd analyze FILE`: what a checkpoint holds and what each target would make of it, for a
 * person or, with --json, for a program. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/job/target.h"
#include "server/command/cli.h"
#include "server/command/commands.h"

#define LISTED 10 /* problems, questions or findings of one kind that a person is shown */

/* ---- text ---- */

enum style { PLAIN, BOLD, GOOD, BAD, FAINT };

static bool colours;

static const char *on(enum style style) {
    static const char *const codes[] = {"", "\033[1m", "\033[32m", "\033[31m", "\033[2m"};

    return colours ? codes[style] : "";
}

static const char *off(void) {
    return colours ? "\033[0m" : "";
}

/* Names come from a stranger's file, and a terminal obeys control characters: each byte of one becomes '?'. */
static void put(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool c1 = p[0] == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0;

        putchar(c1 || *p < 0x20 || *p == 0x7F ? '?' : *p);
        p += c1;
    }
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static unsigned long long number_of(const json_t *object, const char *key) {
    return (unsigned long long)json_integer_value(json_object_get(object, key));
}

/* "12.3 MiB". */
static const char *size_text(unsigned long long bytes, char *text, size_t size) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    for (; value >= 1024 && unit + 1 < CK_ARRAY_LEN(units); unit++)
        value /= 1024;
    snprintf(text, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

static void label(const char *name) {
    printf("  %s%-12s%s ", on(FAINT), name, off());
}

static void print_rest(size_t all) {
    if (all > LISTED)
        printf("    ... and %zu more (--json lists all)\n", all - LISTED);
}

/* ---- the parts of an analysis ---- */

static void print_head(const char *path, const json_t *analysis) {
    const json_t *state_dict = json_object_get(analysis, "state_dict");
    const char *at = text_of(state_dict, "path");
    char size[32];

    printf("%s", on(BOLD));
    put(path);
    printf("%s: ", off());
    put(text_of(analysis, "form"));
    printf(", %s\n", size_text(number_of(analysis, "bytes"), size, sizeof(size)));
    label("form");
    put(text_of(analysis, "form_why"));
    printf("\n");
    if (json_object_get(analysis, "archive")) {
        label("taken from");
        printf("%s", text_of(analysis, "archive"));
        if (text_of(analysis, "member")[0])
            printf(", the file ");
        put(text_of(analysis, "member"));
        printf("\n");
    }
    label("state dict");
    put(at[0] ? at : "the root");
    printf(" (");
    put(text_of(state_dict, "why"));
    printf(")\n");
}

static void print_totals(const json_t *totals) {
    char size[32];
    const char *dtype;
    json_t *row;

    label("tensors");
    printf("%llu", number_of(totals, "tensors"));
    if (number_of(totals, "aliases") > 0)
        printf(", %llu tied", number_of(totals, "aliases"));
    if (number_of(totals, "errors") > 0)
        printf(", %s%llu cannot be read%s", on(BAD), number_of(totals, "errors"), off());
    if (number_of(totals, "outside") > 0)
        printf("; %llu more outside the state dict", number_of(totals, "outside"));
    printf("\n");
    label("parameters");
    printf("%llu, %s\n", number_of(totals, "parameters"), size_text(number_of(totals, "bytes"), size, sizeof(size)));
    json_object_foreach(json_object_get(totals, "dtypes"), dtype, row) {
        label(dtype);
        printf("%llu tensor%s, %llu elements, %s\n", number_of(row, "tensors"),
               number_of(row, "tensors") == 1 ? "" : "s", number_of(row, "elements"),
               size_text(number_of(row, "bytes"), size, sizeof(size)));
    }
}

static void print_shape(const json_t *shape) {
    json_t *item;
    size_t i;

    if (!shape)
        return;
    printf(" [");
    json_array_foreach(shape, i, item) printf("%s%lld", i > 0 ? ", " : "", (long long)json_integer_value(item));
    printf("]");
}

static void print_questions(const json_t *questions) {
    json_t *question;
    size_t i;

    json_array_foreach(questions, i, question) {
        if (i == LISTED)
            break;
        printf("    question  '");
        put(text_of(question, "tensor"));
        printf("'");
        print_shape(json_object_get(question, "shape"));
        printf(" ");
        put(text_of(question, "message"));
        printf("\n              answer, for example: --");
        put(text_of(question, "option"));
        printf("\n");
    }
    print_rest(json_array_size(questions));
}

static void print_violations(const json_t *violations) {
    json_t *violation;
    size_t i;

    json_array_foreach(violations, i, violation) {
        if (i == LISTED)
            break;
        printf("    %s%s%s  ", on(BAD), text_of(violation, "rule"), off());
        if (text_of(violation, "where")[0]) {
            printf("'");
            put(text_of(violation, "where"));
            printf("': ");
        }
        put(text_of(violation, "message"));
        printf("\n              ");
        put(text_of(violation, "hint"));
        printf("\n");
    }
    print_rest(json_array_size(violations));
}

static void print_coverage(const json_t *coverage, const char *key, const char *what) {
    const json_t *pair = json_object_get(coverage, key);

    printf("%lld of %lld %s", (long long)json_integer_value(json_array_get(pair, 0)),
           (long long)json_integer_value(json_array_get(pair, 1)), what);
}

static void print_targets(const json_t *targets) {
    for (const struct ck_target *row = ck_target_table; row->name; row++) {
        const json_t *target = json_object_get(targets, row->name);
        bool supported = json_is_true(json_object_get(target, "supported"));

        label(row->name);
        printf("%s%s%s: ", on(supported ? GOOD : BAD), supported ? "can be converted" : "cannot be converted as it is",
               off());
        print_coverage(json_object_get(target, "coverage"), "layers", row->layers ? "layers" : "tensors");
        printf(", ");
        print_coverage(json_object_get(target, "coverage"), "bytes", "bytes");
        printf("\n");
        print_questions(json_object_get(target, "questions"));
        print_violations(json_object_get(target, "violations"));
    }
}

static void print_findings(const json_t *findings) {
    json_t *finding;
    size_t i;

    label("findings");
    printf("%zu\n", json_array_size(findings));
    json_array_foreach(findings, i, finding) {
        const char *class_ = text_of(finding, "class");

        if (i == LISTED)
            break;
        printf("    %s%s%s  ", on(strcmp(class_, "dangerous") == 0 ? BAD : PLAIN), class_, off());
        put(text_of(finding, "module"));
        printf("%s", text_of(finding, "module")[0] ? "." : "");
        put(text_of(finding, "name"));
        printf("%s", json_is_true(json_object_get(finding, "called")) ? ", called" : "");
        if (text_of(finding, "entry")[0]) {
            printf(", ");
            put(text_of(finding, "entry"));
        }
        printf(" at byte %llu\n", number_of(finding, "offset"));
    }
    print_rest(json_array_size(findings));
}

/* An analysis, or the report of a file that was refused. */
static void print_document(const char *path, const json_t *document) {
    if (!json_object_get(document, "totals")) {
        if (json_array_size(json_object_get(document, "findings")) > 0)
            print_findings(json_object_get(document, "findings"));
        return;
    }
    print_head(path, document);
    print_totals(json_object_get(document, "totals"));
    print_targets(json_object_get(document, "targets"));
    print_findings(json_object_get(document, "findings"));
}

/* ---- the command ---- */

struct arguments {
    const char *path;
    bool json, help;
    struct ck_cli_flags flags;
};

enum { FLAG_JSON = 1, FLAG_HELP };

static void print_help(void) {
    printf("Usage: ckptd analyze FILE [--json] [OPTION ...]\n\n"
           "Says what the checkpoint FILE holds and what each target would make of it. Nothing is converted.\n\n"
           "  --json                  print the whole analysis as JSON (of a file that is refused: its report)\n");
    ck_cli_flags_help(CK_JOB_ANALYZE);
    printf("\nExit status: 0 analyzed, 1 the file is refused, 2 wrong arguments.\n");
}

static int parse_arguments(int argc, char **argv, struct arguments *arguments) {
    static const struct option own[] = {
        {"json", no_argument, NULL, FLAG_JSON},
        {"help", no_argument, NULL, FLAG_HELP},
    };
    int c;

    ck_cli_flags_init(&arguments->flags, own, CK_ARRAY_LEN(own), CK_JOB_ANALYZE);
    while ((c = getopt_long(argc, argv, "h", arguments->flags.rows, NULL)) != -1) {
        if (c == FLAG_HELP || c == 'h') {
            arguments->help = true;
            return 0;
        }
        if (c == FLAG_JSON)
            arguments->json = true;
        else if (c < CK_CLI_OPTION || !ck_cli_flags_take(&arguments->flags, c, optarg, "analyze"))
            return -1;
    }
    if (argc - optind != 1) {
        fprintf(stderr, "usage: ckptd analyze FILE [--json] (ckptd analyze --help lists the options)\n");
        return -1;
    }
    arguments->path = argv[optind];
    return 0;
}

/* A person is shown no list of tensors, and it is what grows. */
static void leave_out_tensors(struct ck_cli_flags *flags) {
    for (size_t i = 0; ck_job_options[i].name; i++)
        if (strcmp(ck_job_options[i].name, "tensors") == 0 && !flags->values[i])
            flags->values[i] = "false";
}

static int make_spec(struct arguments *arguments, struct ck_spec *spec, struct ck_error *err) {
    int r = ck_spec_init_analyze(spec, err);

    if (r < 0)
        return r;
    if (!arguments->json)
        leave_out_tensors(&arguments->flags);
    return ck_cli_flags_set(&arguments->flags, spec, err);
}

static int print_result(const struct arguments *arguments, int fd, struct ck_error *err) {
    json_error_t where;
    json_t *document;

    if (arguments->json)
        return ck_cli_copy_out(fd, err);
    document = json_loadfd(fd, JSON_ALLOW_NUL, &where);
    if (!document)
        return ck_error_set(err, CK_E_INTERNAL, NULL, "the analysis is no JSON: %s", where.text);
    print_document(arguments->path, document);
    json_decref(document);
    if (fflush(stdout) != 0)
        return ck_error_set(err, CK_E_IO, NULL, "cannot write to the standard output");
    return 0;
}

int ck_cmd_analyze(int argc, char **argv) {
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};
    const char *no_color = getenv("NO_COLOR");
    struct ck_error err = {0}, print_error = {0};
    struct arguments arguments = {0};
    _cleanup_(ck_closep) int fd = -1;
    int r;

    if (parse_arguments(argc, argv, &arguments) < 0)
        return CK_EXIT_USAGE;
    if (arguments.help) {
        print_help();
        return 0;
    }
    if (make_spec(&arguments, &spec, &err) < 0) {
        ck_cli_print_error(&err);
        return CK_EXIT_USAGE;
    }
    colours = isatty(STDOUT_FILENO) && !(no_color && no_color[0]);
    r = ck_cli_document(&spec, arguments.path, &fd, &err);
    if (fd >= 0 && print_result(&arguments, fd, &print_error) < 0 && r >= 0) {
        err = print_error;
        r = print_error.code;
    }
    if (r < 0)
        ck_cli_print_error(&err);
    return r < 0 ? 1 : 0;
}
