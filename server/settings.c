#include "server/settings.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/job/options.h"

enum setting_type { TEXT, LEVEL, SWITCH, COUNT, SIZE, SECONDS };

struct row {
    const char *field; /* with '_'; the flag has '-' in its place */
    enum setting_type type;
    size_t offset;    /* in struct ck_settings */
    const char *text; /* default, or NULL: that of the limits */
    uint64_t least, most;
    const char *argument, *what;
    uint64_t value; /* default of a limit */
};

static const struct row rows[] = {
#define X(field, type, text, least, most, argument, what)                                                              \
    {#field, type, offsetof(struct ck_settings, field), text, least, most, argument, what, 0},
    CK_SETTINGS(X)
#undef X
#define X(name, value, what)                                                                                           \
    {"limit_" #name, SIZE, offsetof(struct ck_settings, limits.name), NULL, 1, INT64_MAX, "N", what, value},
        CK_LIMITS(X)
#undef X
};

static const char *const levels[] = {"debug", "info", "warning", "error", NULL};

bool ck_size_parse(const char *text, uint64_t *ret_bytes) {
    static const char units[] = "KMGT";
    uint64_t value = 0;
    const char *unit;

    if (*text < '0' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (!ck_mul_u64(value, 10, &value) || !ck_add_u64(value, (uint64_t)(*text - '0'), &value))
            return false;
    if (*text && (unit = strchr(units, *text & ~0x20)) != NULL && *unit) {
        if (!ck_mul_u64(value, 1ull << (10 * (unit - units + 1)), &value))
            return false;
        text++;
        if (strcasecmp(text, "iB") == 0 || strcasecmp(text, "B") == 0)
            text += strlen(text);
    } else if (strcasecmp(text, "B") == 0) {
        text++;
    }
    if (*text)
        return false;
    *ret_bytes = value;
    return true;
}

/* "limit_zip_entries" as "--limit-zip-entries" or "CKPTD_LIMIT_ZIP_ENTRIES". */
static const char *spelling(const struct row *row, bool flag, char *text, size_t size) {
    snprintf(text, size, "%s%s", flag ? "--" : "CKPTD_", row->field);
    for (char *c = text + (flag ? 2 : 0); *c; c++) {
        if (flag && *c == '_')
            *c = '-';
        else if (!flag && *c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    }
    return text;
}

static bool parse_switch(const char *text, uint64_t *ret_value) {
    static const char *const yes[] = {"yes", "true", "on", "1", NULL}, *const no[] = {"no", "false", "off",
                                                                                      "0",  "",      NULL};

    for (size_t i = 0; yes[i]; i++) {
        if (strcasecmp(text, yes[i]) == 0) {
            *ret_value = 1;
            return true;
        }
    }
    for (size_t i = 0; no[i]; i++) {
        if (strcasecmp(text, no[i]) == 0) {
            *ret_value = 0;
            return true;
        }
    }
    return false;
}

static uint64_t automatic(const char *field) {
    cpu_set_t set;
    uint64_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint64_t)CPU_COUNT(&set) : 1;

    return strcmp(field, "workers") == 0 ? CK_MAX(cpus, 2u) - 1 : CK_MIN(cpus, 64u);
}

static int wrong(const struct row *row, const char *source, const char *text, const char *wanted,
                 struct ck_error *err) {
    return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s takes %s, not \"%.100s\"", source, wanted, text);
}

/* source: the flag or variable as the caller wrote it, for messages. */
static int set_value(struct ck_settings *settings, const struct row *row, const char *source, const char *text,
                     struct ck_error *err) {
    char *field = (char *)settings + row->offset;
    char wanted[128];
    uint64_t value;

    if (row->type == TEXT || row->type == LEVEL) {
        if (!text[0])
            return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s is empty", source);
        for (size_t i = 0; row->type == LEVEL; i++) {
            if (!levels[i])
                return wrong(row, source, text, "debug, info, warning or error", err);
            if (strcmp(levels[i], text) == 0)
                break;
        }
        memcpy(field, &text, sizeof(text));
        return 0;
    }
    if (row->type == SWITCH) {
        if (!parse_switch(text, &value))
            return wrong(row, source, text, "yes or no", err);
    } else if (strcmp(text, "auto") == 0 && row->text && strcmp(row->text, "auto") == 0) {
        value = automatic(row->field);
    } else if (!ck_size_parse(text, &value) || (row->type != SIZE && strspn(text, "0123456789") != strlen(text))) {
        snprintf(wanted, sizeof(wanted), "%s%s",
                 row->type == SIZE      ? "a size such as 512M or 64GiB"
                 : row->type == SECONDS ? "a whole number of seconds"
                                        : "a whole number",
                 row->text && strcmp(row->text, "auto") == 0 ? " or auto" : "");
        return wrong(row, source, text, wanted, err);
    }
    if (value < row->least || value > row->most) {
        snprintf(wanted, sizeof(wanted), "a value from %" PRIu64 " to %" PRIu64, row->least, row->most);
        return wrong(row, source, text, wanted, err);
    }
    memcpy(field, &value, sizeof(value));
    return 0;
}

static int set_defaults(struct ck_settings *settings, struct ck_error *err) {
    int r = 0;

    settings->limits = ck_limits_default;
    for (size_t i = 0; i < CK_ARRAY_LEN(rows) && r == 0; i++)
        if (rows[i].text)
            r = set_value(settings, &rows[i], rows[i].field, rows[i].text, err);
    return r;
}

static int unknown_flag(const char *word, struct ck_error *err) {
    char names[CK_ARRAY_LEN(rows)][64];
    const char *list[CK_ARRAY_LEN(rows) + 1] = {0}, *near;

    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++)
        list[i] = spelling(&rows[i], true, names[i], sizeof(names[i]));
    near = ck_nearest(word, list);
    ck_error_set(err, CK_E_BAD_OPTION, NULL, "unknown flag %.100s", word);
    if (near)
        ck_error_set_hint(err, "did you mean %s? ckptd serve --help lists all", near);
    else
        ck_error_set_hint(err, "ckptd serve --help lists all");
    return CK_E_BAD_OPTION;
}

/* A variable that resembles a setting is a typing error. Others are let be: Kubernetes gives every pod CKPTD_PORT and
 * CKPTD_SERVICE_HOST when a service is called ckptd. */
static int unknown_variable(const char *word, struct ck_error *err) {
    char names[CK_ARRAY_LEN(rows)][64];
    const char *list[CK_ARRAY_LEN(rows) + 1] = {0}, *near;

    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++)
        list[i] = spelling(&rows[i], false, names[i], sizeof(names[i]));
    near = ck_nearest(word, list);
    if (!near)
        return 0;
    ck_error_set(err, CK_E_BAD_OPTION, NULL, "unknown environment variable %.100s", word);
    ck_error_set_hint(err, "did you mean %s? ckptd serve --help lists all", near);
    return CK_E_BAD_OPTION;
}

static int read_environment(struct ck_settings *settings, struct ck_error *err) {
    for (char **entry = environ; *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        char name[64], text[64];
        size_t i;
        int r;

        if (!equals || strncmp(*entry, "CKPTD_", 6) != 0)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(equals - *entry), *entry);
        for (i = 0; i < CK_ARRAY_LEN(rows); i++)
            if (strcmp(name, spelling(&rows[i], false, text, sizeof(text))) == 0)
                break;
        r = i == CK_ARRAY_LEN(rows) ? unknown_variable(name, err)
                                    : set_value(settings, &rows[i], name, equals + 1, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static const struct row *find_flag(const char *name) {
    char text[64];

    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++)
        if (strcmp(name, spelling(&rows[i], true, text, sizeof(text))) == 0)
            return &rows[i];
    return NULL;
}

static int read_flags(int argc, char **argv, struct ck_settings *settings, struct ck_error *err) {
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '='), *value;
        const struct row *row;
        char name[64];
        int r;

        snprintf(name, sizeof(name), "%.*s", equals ? (int)(equals - argv[i]) : (int)strlen(argv[i]), argv[i]);
        if (strncmp(name, "--", 2) != 0)
            return ck_error_set(err, CK_E_BAD_OPTION, NULL, "\"%.100s\" is no flag", argv[i]);
        /* Errors about limits name them as the table does, with '_': both spellings work. */
        for (char *c = name; *c; c++)
            if (*c == '_')
                *c = '-';
        row = find_flag(name);
        if (!row)
            return unknown_flag(name, err);
        value = equals ? equals + 1 : row->type == SWITCH ? "yes" : i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s needs a value: %s", name, row->argument);
        r = set_value(settings, row, name, value, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int ck_settings_read(int argc, char **argv, struct ck_settings *ret_settings, bool *ret_help, struct ck_error *err) {
    struct ck_settings settings = {0};
    int r;

    *ret_help = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            *ret_help = true;
    if (*ret_help)
        return 0;
    r = set_defaults(&settings, err);
    if (r == 0)
        r = read_environment(&settings, err);
    if (r == 0)
        r = read_flags(argc, argv, &settings, err);
    if (r < 0)
        return r;
    *ret_settings = settings;
    return 0;
}

void ck_settings_print_help(void) {
    printf("Usage: ckptd serve [FLAG ...]\n\nEvery flag is also an environment variable: --max-upload is "
           "CKPTD_MAX_UPLOAD.\n\n");
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        char flag[64], left[96];

        snprintf(left, sizeof(left), "%s%s%s", spelling(row, true, flag, sizeof(flag)), row->argument ? " " : "",
                 row->argument ? row->argument : "");
        if (row->text)
            printf("  %-30s %s (%s)\n", left, row->what, row->text);
        else
            printf("  %-30s %s (%" PRIu64 ")\n", left, row->what, row->value);
    }
}
