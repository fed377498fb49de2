#include "server/settings.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "core/job/options.h"
#include "server/machine.h"

const struct ck_setting_row ck_setting_rows[CK_SETTING_N_ + 1] = {
#define X(field, type, text, least, most, argument, what)                                                              \
    {#field, CK_SETTING_##type, offsetof(struct ck_settings, field), text, least, most, argument, what, 0},
    CK_SETTINGS(X)
#undef X
#define X(name, value, what)                                                                                           \
    {"limit_" #name, CK_SETTING_SIZE, offsetof(struct ck_settings, limits.name), NULL, 1, INT64_MAX, "N", what, value},
        CK_LIMITS(X)
#undef X
            {0},
};

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

const char *ck_setting_flag(const struct ck_setting_row *row, char text[static CK_SETTING_NAME_MAX]) {
    snprintf(text, CK_SETTING_NAME_MAX, "--%s", row->field);
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
    return text;
}

const char *ck_setting_variable(const struct ck_setting_row *row, char text[static CK_SETTING_NAME_MAX]) {
    snprintf(text, CK_SETTING_NAME_MAX, "CKPTD_%s", row->field);
    for (char *c = text; *c; c++)
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
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

static bool is_one_of(const char *word, const char *list) {
    size_t n = strlen(word);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == n && strncmp(at, word, n) == 0)
            return true;
    return false;
}

static uint64_t automatic(const struct ck_setting_row *row) {
    switch ((enum ck_setting)(row - ck_setting_rows)) {
    case CK_SETTING_workers:
        return CK_MAX(ck_machine_processors(""), 2u) - 1;
    case CK_SETTING_memory_budget:
        return CK_MAX(ck_machine_memory("") / 4 * 3, row->least);
    default:
        return CK_MIN(ck_machine_processors(""), row->most);
    }
}

static bool may_be_automatic(const struct ck_setting_row *row) {
    return row->text && strcmp(row->text, "auto") == 0;
}

static int wrong(const struct ck_setting_row *row, const char *name, const char *text, const char *wanted,
                 struct ck_error *err) {
    return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s takes %s, not \"%.100s\"", name, wanted, text);
}

static int check_text(const struct ck_setting_row *row, const char *name, const char *text, struct ck_error *err) {
    char wanted[128];

    if (!text[0] && row->text[0])
        return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s is empty", name);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            return ck_error_set(err, CK_E_BAD_OPTION, row->field, "%s holds a control character", name);
    if (row->type == CK_SETTING_CHOICE && (strchr(text, ',') || !is_one_of(text, row->argument))) {
        snprintf(wanted, sizeof(wanted), "one of %s", row->argument);
        return wrong(row, name, text, wanted, err);
    }
    return 0;
}

static int set_text(char **field, const struct ck_setting_row *row, const char *name, const char *text,
                    struct ck_error *err) {
    char *copy;
    int r;

    r = check_text(row, name, text, err);
    if (r < 0)
        return r;
    copy = strdup(text);
    if (!copy)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    free(*field);
    *field = copy;
    return 0;
}

static int parse_number(const struct ck_setting_row *row, const char *name, const char *text, uint64_t *ret_value,
                        struct ck_error *err) {
    bool size = row->type == CK_SETTING_SIZE;
    char wanted[128];

    if (!ck_size_parse(text, ret_value) || (!size && strspn(text, "0123456789") != strlen(text))) {
        snprintf(wanted, sizeof(wanted), "%s%s",
                 size                              ? "a size such as 512M or 64GiB"
                 : row->type == CK_SETTING_SECONDS ? "a whole number of seconds"
                                                   : "a whole number",
                 may_be_automatic(row) ? " or auto" : "");
        return wrong(row, name, text, wanted, err);
    }
    if (*ret_value < row->least || *ret_value > row->most) {
        snprintf(wanted, sizeof(wanted), "a value from %" PRIu64 " to %" PRIu64, row->least, row->most);
        return wrong(row, name, text, wanted, err);
    }
    return 0;
}

int ck_setting_set(struct ck_settings *settings, const struct ck_setting_row *row, enum ck_setting_origin origin,
                   const char *name, const char *text, struct ck_error *err) {
    void *field = (char *)settings + row->offset;
    uint64_t value = 0;
    int r = 0;

    if (row->type == CK_SETTING_TEXT || row->type == CK_SETTING_CHOICE)
        r = set_text(field, row, name, text, err);
    else if (row->type == CK_SETTING_SWITCH)
        r = parse_switch(text, &value) ? 0 : wrong(row, name, text, "yes or no", err);
    else if (strcmp(text, "auto") == 0 && may_be_automatic(row))
        value = automatic(row);
    else
        r = parse_number(row, name, text, &value, err);
    if (r < 0)
        return r;
    if (row->type != CK_SETTING_TEXT && row->type != CK_SETTING_CHOICE)
        *(uint64_t *)field = value;
    settings->origins[row - ck_setting_rows] = origin;
    return 0;
}

static int set_defaults(struct ck_settings *settings, struct ck_error *err) {
    int r = 0;

    settings->limits = ck_limits_default;
    for (const struct ck_setting_row *row = ck_setting_rows; row->field && r == 0; row++)
        if (row->text)
            r = ck_setting_set(settings, row, CK_ORIGIN_DEFAULT, row->field, row->text, err);
    return r;
}

/* The flag or variable that the word resembles. */
static const char *nearest(const char *word, bool flag, char text[static CK_SETTING_NAME_MAX]) {
    char names[CK_SETTING_N_][CK_SETTING_NAME_MAX];
    const char *list[CK_SETTING_N_ + 1] = {0}, *near;

    for (size_t i = 0; i < CK_SETTING_N_; i++)
        list[i] =
            flag ? ck_setting_flag(&ck_setting_rows[i], names[i]) : ck_setting_variable(&ck_setting_rows[i], names[i]);
    near = ck_nearest(word, list);
    if (!near)
        return NULL;
    snprintf(text, CK_SETTING_NAME_MAX, "%s", near);
    return text;
}

static int unknown_flag(const char *word, struct ck_error *err) {
    char text[CK_SETTING_NAME_MAX];
    const char *near = nearest(word, true, text);

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
    char text[CK_SETTING_NAME_MAX];
    const char *near = nearest(word, false, text);

    if (!near)
        return 0;
    ck_error_set(err, CK_E_BAD_OPTION, NULL, "unknown environment variable %.100s", word);
    ck_error_set_hint(err, "did you mean %s? ckptd serve --help lists all", near);
    return CK_E_BAD_OPTION;
}

static int read_environment(struct ck_settings *settings, struct ck_error *err) {
    for (char **entry = environ; *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        const struct ck_setting_row *row;
        char name[CK_SETTING_NAME_MAX], text[CK_SETTING_NAME_MAX];
        int r;

        if (!equals || strncmp(*entry, "CKPTD_", 6) != 0)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(equals - *entry), *entry);
        for (row = ck_setting_rows; row->field && strcmp(name, ck_setting_variable(row, text)) != 0;)
            row++;
        r = row->field ? ck_setting_set(settings, row, CK_ORIGIN_ENVIRONMENT, name, equals + 1, err)
                       : unknown_variable(name, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* One flag of argv: --NAME=VALUE, --NAME VALUE, or --SWITCH. */
struct flag {
    const struct ck_setting_row *row;
    char name[CK_SETTING_NAME_MAX];
    const char *value;
};

static int next_flag(int argc, char **argv, int *i, struct flag *ret_flag, struct ck_error *err) {
    const char *word = argv[*i], *equals = strchr(word, '=');
    char text[CK_SETTING_NAME_MAX];
    struct flag flag = {0};

    snprintf(flag.name, sizeof(flag.name), "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
    if (strncmp(flag.name, "--", 2) != 0)
        return ck_error_set(err, CK_E_BAD_OPTION, NULL, "\"%.100s\" is no flag", word);
    /* Errors about limits name them as the table does, with '_': both spellings work. */
    for (char *c = flag.name; *c; c++)
        if (*c == '_')
            *c = '-';
    for (flag.row = ck_setting_rows; flag.row->field && strcmp(flag.name, ck_setting_flag(flag.row, text)) != 0;)
        flag.row++;
    if (!flag.row->field)
        return unknown_flag(flag.name, err);
    flag.value = equals ? equals + 1 : flag.row->type == CK_SETTING_SWITCH ? "yes" : *i + 1 < argc ? argv[++*i] : NULL;
    if (!flag.value)
        return ck_error_set(err, CK_E_BAD_OPTION, flag.row->field, "%s needs a value: %s", flag.name,
                            flag.row->argument);
    *ret_flag = flag;
    return 0;
}

static enum ck_settings_action action_of(const char *word) {
    return strcmp(word, "--print-config") == 0   ? CK_SETTINGS_PRINT
           : strcmp(word, "--check-config") == 0 ? CK_SETTINGS_CHECK
                                                 : CK_SETTINGS_RUN;
}

/* only: of all settings, or -1. The file must be known before it is read, and it is read before the other flags. */
static int read_flags(int argc, char **argv, int only, struct ck_settings *settings, enum ck_settings_action *action,
                      struct ck_error *err) {
    for (int i = 1; i < argc; i++) {
        enum ck_settings_action asked = action_of(argv[i]);
        struct flag flag;
        int r;

        if (asked != CK_SETTINGS_RUN) {
            if (*action != CK_SETTINGS_RUN && *action != asked)
                return ck_error_set(err, CK_E_BAD_OPTION, NULL, "--print-config and --check-config exclude each other");
            *action = asked;
            continue;
        }
        r = next_flag(argc, argv, &i, &flag, err);
        if (r == 0 && (only < 0 || flag.row == &ck_setting_rows[only]))
            r = ck_setting_set(settings, flag.row, CK_ORIGIN_FLAG, flag.name, flag.value, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_file(int argc, char **argv, struct ck_settings *settings, enum ck_settings_action *action,
                     struct ck_error *err) {
    const struct ck_setting_row *row = &ck_setting_rows[CK_SETTING_config];
    char name[CK_SETTING_NAME_MAX];
    const char *text;
    int r;

    text = getenv(ck_setting_variable(row, name));
    r = text ? ck_setting_set(settings, row, CK_ORIGIN_ENVIRONMENT, name, text, err) : 0;
    if (r == 0)
        r = read_flags(argc, argv, CK_SETTING_config, settings, action, err);
    if (r == 0 && settings->config[0])
        r = ck_settings_read_file(settings->config, settings, err);
    return r;
}

static int fit_budget(struct ck_settings *settings, struct ck_error *err) {
    if (settings->memory_budget >= settings->worker_memory)
        return 0;
    if (settings->memory_budget != automatic(&ck_setting_rows[CK_SETTING_memory_budget]))
        return ck_error_set(err, CK_E_BAD_OPTION, "memory_budget",
                            "--memory-budget %" PRIu64 " is less than --worker-memory %" PRIu64
                            ": no worker could start",
                            settings->memory_budget, settings->worker_memory);
    settings->memory_budget = settings->worker_memory;
    return 0;
}

int ck_settings_read(int argc, char **argv, struct ck_settings *ret_settings, enum ck_settings_action *ret_action,
                     struct ck_error *err) {
    _cleanup_(ck_settings_release) struct ck_settings settings = {0};
    enum ck_settings_action action = CK_SETTINGS_RUN;
    int r;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *ret_action = CK_SETTINGS_HELP;
            return 0;
        }
    }
    r = set_defaults(&settings, err);
    if (r == 0)
        r = read_file(argc, argv, &settings, &action, err);
    if (r == 0)
        r = read_environment(&settings, err);
    if (r == 0)
        r = read_flags(argc, argv, -1, &settings, &action, err);
    if (r == 0)
        r = fit_budget(&settings, err);
    if (r < 0)
        return r;
    *ret_action = action;
    *ret_settings = settings;
    settings = (struct ck_settings){0};
    return 0;
}

void ck_settings_release(struct ck_settings *settings) {
    for (const struct ck_setting_row *row = ck_setting_rows; row->field; row++)
        if (row->type == CK_SETTING_TEXT || row->type == CK_SETTING_CHOICE)
            free(*(char **)(void *)((char *)settings + row->offset));
    *settings = (struct ck_settings){0};
}
