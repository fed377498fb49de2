/* The file of --config, and the same form as the output of --print-config. */
#include <inttypes.h>
#include <string.h>

#include "core/job/options.h"
#include "server/settings.h"
#include "server/text_file.h"

static const struct ck_setting_row *find(char *name) {
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++)
        if (strcmp(row->field, name) == 0)
            return row;
    return NULL;
}

static int unknown_name(const char *where, const char *name, struct ck_error *err) {
    const char *list[CK_SETTING_N_ + 1] = {0}, *near;

    for (size_t i = 0; i < CK_SETTING_N_; i++)
        list[i] = ck_setting_rows[i].field;
    near = ck_nearest(name, list);
    ck_error_set(err, CK_E_BAD_OPTION, NULL, "%s: unknown setting \"%.100s\"", where, name);
    if (near)
        ck_error_set_hint(err, "did you mean %s? ckptd serve --help lists all", near);
    else
        ck_error_set_hint(err, "ckptd serve --help lists all");
    return CK_E_BAD_OPTION;
}

/* "NAME = VALUE", "NAME VALUE", "NAME=VALUE": ends NAME with a NUL and returns where VALUE begins. */
static char *cut_name(char *line) {
    char *value = line + strcspn(line, " \t="), *rest = value + strspn(value, " \t");

    if (*rest == '=')
        rest += 1 + strspn(rest + 1, " \t");
    *value = 0;
    return rest;
}

/* Removes the quotes in place. False if something stands behind the closing one, or there is none. */
static bool unquote(char *value) {
    char *to = value, *from = value + 1;

    for (; *from && *from != '"'; from++) {
        if (*from == '\\' && (from[1] == '"' || from[1] == '\\'))
            from++;
        *to++ = *from;
    }
    if (*from != '"')
        return false;
    from++;
    from += strspn(from, " \t");
    *to = 0;
    return *from == 0 || *from == '#';
}

static void cut_comment(char *value) {
    for (char *c = value; *c; c++) {
        if (*c == '#' && (c == value || c[-1] == ' ' || c[-1] == '\t')) {
            while (c > value && (c[-1] == ' ' || c[-1] == '\t'))
                c--;
            *c = 0;
            return;
        }
    }
}

static int read_line(char *line, const char *where, unsigned number, unsigned *lines, struct ck_settings *settings,
                     struct ck_error *err) {
    char *value = cut_name(line), name[CK_SETTING_NAME_MAX + 320];
    const struct ck_setting_row *row = find(line);
    bool quoted = value[0] == '"';

    if (!row)
        return unknown_name(where, line, err);
    if (row == &ck_setting_rows[CK_SETTING_config])
        return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s: a file of settings names no other: config", where);
    if (lines[row - ck_setting_rows])
        return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s: %s stands in line %u already", where, row->field,
                            lines[row - ck_setting_rows]);
    lines[row - ck_setting_rows] = number;
    if (quoted && !unquote(value))
        return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s: the quotes of %s do not close at the end", where,
                            row->field);
    if (!quoted)
        cut_comment(value);
    if (!quoted && !value[0])
        return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s: %s needs a value%s%s", where, row->field,
                            row->argument ? ": " : "", row->argument ? row->argument : "");
    snprintf(name, sizeof(name), "%s: %s", where, row->field);
    return ck_setting_set(settings, row, CK_ORIGIN_FILE, name, value, err);
}

int ck_settings_read_file(const char *path, struct ck_settings *settings, struct ck_error *err) {
    _cleanup_(ck_text_file_release) struct ck_text_file file = {0};
    unsigned lines[CK_SETTING_N_] = {0};
    char where[300];
    char *line;
    int r;

    r = ck_text_file_read(path, CK_SETTINGS_FILE_MAX, "config", &file, err);
    while (r == 0 && (line = ck_text_file_line(&file)) != NULL) {
        snprintf(where, sizeof(where), "%.200s:%u", path, file.line);
        r = read_line(line, where, file.line, lines, settings, err);
    }
    return r;
}

static void print_text(const char *text, FILE *out) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* 64G rather than 68719476736, where nothing is lost. */
static void print_size(uint64_t bytes, FILE *out) {
    static const char units[] = "KMGT";
    const char *unit = NULL;

    for (const char *u = units; *u && bytes >= 1024 && bytes % 1024 == 0; u++) {
        bytes /= 1024;
        unit = u;
    }
    fprintf(out, "%" PRIu64, bytes);
    if (unit)
        fputc(*unit, out);
}

static void print_value(const struct ck_settings *settings, const struct ck_setting_row *row, FILE *out) {
    const void *field = (const char *)settings + row->offset;
    bool bytes = row->argument && strcmp(row->argument, "BYTES") == 0;

    if (row->type == CK_SETTING_TEXT)
        print_text(*(char *const *)field, out);
    else if (row->type == CK_SETTING_CHOICE)
        fputs(*(char *const *)field, out);
    else if (row->type == CK_SETTING_SWITCH)
        fputs(*(const uint64_t *)field ? "yes" : "no", out);
    else if (bytes)
        print_size(*(const uint64_t *)field, out);
    else
        fprintf(out, "%" PRIu64, *(const uint64_t *)field);
}

void ck_settings_print(const struct ck_settings *settings, FILE *out) {
    static const char *const origins[] = {"default", "file", "environment", "flag"};

    fprintf(out, "# Settings of ckptd in effect: NAME = VALUE, and where the value comes from.\n");
    if (settings->config[0])
        fprintf(out, "# file: %s\n", settings->config);
    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++) {
        if (row == &ck_setting_rows[CK_SETTING_config])
            continue;
        fprintf(out, "%s = ", row->field);
        print_value(settings, row, out);
        fprintf(out, " # %s\n", origins[settings->origins[row - ck_setting_rows]]);
    }
}

void ck_settings_print_help(void) {
    printf("Usage: ckptd serve [FLAG ...]\n\n"
           "Every flag is also an environment variable (--max-upload is CKPTD_MAX_UPLOAD) and a line of the file that\n"
           "--config names (max_upload = 64G). Flags win over variables, variables over the file.\n\n"
           "  %-37s %s\n  %-37s %s\n\n",
           "--check-config", "check settings, keys, address and data directory, then exit", "--print-config",
           "print the settings in effect as a file, then exit");
    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++) {
        char flag[CK_SETTING_NAME_MAX], left[2 * CK_SETTING_NAME_MAX];

        snprintf(left, sizeof(left), "%s%s%s", ck_setting_flag(row, flag), row->argument ? " " : "",
                 row->argument ? row->argument : "");
        if (row->text && row->text[0])
            printf("  %-37s %s (%s)\n", left, row->what, row->text);
        else if (row->text)
            printf("  %-37s %s\n", left, row->what);
        else
            printf("  %-37s %s (%" PRIu64 ")\n", left, row->what, row->value);
    }
}
