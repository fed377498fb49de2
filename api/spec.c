#include "api/spec.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/blob_store.h"

#define POINTER_SIZE 256 /* bytes of a JSON pointer in an error; longer ones are cut */
#define MODEL        "model"
#define KEY_LETTERS  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-"

static void json_release(json_t **json) {
    json_decref(*json);
}

/* "/inputs/0/name": a place with one more step, in which '~' and '/' are escaped (RFC 6901). */
static const char *step(const char *place, const char *key, char ret_pointer[static POINTER_SIZE]) {
    size_t used = (size_t)snprintf(ret_pointer, POINTER_SIZE, "%s/", place);

    for (; *key && used + 3 < POINTER_SIZE; key++) {
        if (*key == '~' || *key == '/') {
            ret_pointer[used++] = '~';
            ret_pointer[used++] = *key == '~' ? '0' : '1';
        } else {
            ret_pointer[used++] = *key;
        }
    }
    if (used < POINTER_SIZE)
        ret_pointer[used] = 0;
    return ret_pointer;
}

static const char *const type_names[] = {
    [JSON_OBJECT] = "an object",    [JSON_ARRAY] = "a list",  [JSON_STRING] = "a text",
    [JSON_INTEGER] = "a number",    [JSON_REAL] = "a number", [JSON_TRUE] = "true or false",
    [JSON_FALSE] = "true or false", [JSON_NULL] = "null",
};

static int wrong_type(const char *place, const char *wanted, const json_t *value, struct ck_error *err) {
    return ck_error_set(err, CK_E_BAD_JSON, place, "%s must be %s, not %s", place[0] ? place : "the body", wanted,
                        type_names[json_typeof(value)]);
}

/* place: "" for a body, else the form's field. */
static int load_object(const char *text, size_t n, const char *place, json_t **ret_object, struct ck_error *err) {
    _cleanup_(json_release) json_t *json = NULL;
    json_error_t failure;

    if (n == 0)
        return ck_error_set(err, CK_E_BAD_JSON, place, "%s is empty; a JSON object is expected",
                            place[0] ? place : "the body");
    json = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &failure);
    if (!json)
        return ck_error_set(err, CK_E_BAD_JSON, place, "%s is not JSON: %s (line %d, column %d)",
                            place[0] ? place : "the body", failure.text, failure.line, failure.column);
    if (!json_is_object(json))
        return wrong_type(place, "an object", json, err);
    *ret_object = TAKE_PTR(json);
    return 0;
}

/* ---- members ---- */

/* One member that is known: where it belongs, and who reads it. */
struct member {
    const char *name;
    int (*read)(struct ck_submission *submission, const char *place, const json_t *value, struct ck_error *err);
};

#define MEMBERS_MAX 16

static int unknown_member(const struct member *members, const char *place, const char *name, struct ck_error *err) {
    const char *names[MEMBERS_MAX + 1] = {0}, *near;
    char pointer[POINTER_SIZE], list[400] = "";
    size_t used = 0;

    for (size_t i = 0; i < MEMBERS_MAX && members[i].name; i++) {
        names[i] = members[i].name;
        if (used < sizeof(list))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
    }
    near = ck_nearest(name, names);
    ck_error_set(err, CK_E_UNKNOWN_MEMBER, step(place, name, pointer), "the member '%.100s' is unknown; there are: %s",
                 name, list);
    if (near)
        ck_error_set_hint(err, "did you mean '%s'?", near);
    else
        ck_error_set_hint(err, "use one of %s", list);
    return CK_E_UNKNOWN_MEMBER;
}

static int check_members(const struct member *members, const char *place, const json_t *object, struct ck_error *err) {
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        size_t i = 0;

        while (members[i].name && strcmp(members[i].name, name) != 0)
            i++;
        if (!members[i].name)
            return unknown_member(members, place, name, err);
    }
    return 0;
}

/* Reads the members in the order of the table: the kind comes before what depends on it, wherever the client put it. */
static int read_members(const struct member *members, struct ck_submission *submission, const char *place,
                        const json_t *object, struct ck_error *err) {
    char pointer[POINTER_SIZE];
    int r = check_members(members, place, object, err);

    for (size_t i = 0; r == 0 && members[i].name; i++) {
        const json_t *value = json_object_get(object, members[i].name);

        if (value && members[i].read)
            r = members[i].read(submission, step(place, members[i].name, pointer), value, err);
    }
    return r;
}

/* The text of a member, or NULL with an error. */
static const char *text_of(const char *place, const json_t *value, struct ck_error *err) {
    if (!json_is_string(value))
        wrong_type(place, "a text", value, err);
    return json_string_value(value);
}

static int read_bool(const char *place, const json_t *value, bool *ret_value, struct ck_error *err) {
    if (!json_is_boolean(value))
        return wrong_type(place, "true or false", value, err);
    *ret_value = json_is_true(value);
    return 0;
}

static int keep(char **text, const char *value, struct ck_error *err) {
    free(*text);
    *text = strdup(value);
    return *text ? 0 : ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the request");
}

/* ---- inputs ---- */

static bool has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return true;
    return false;
}

int ck_input_name_check(const char *where, const char *name, struct ck_error *err) {
    if (name[0] && strlen(name) <= CK_INPUT_NAME_MAX && !has_control(name))
        return 0;
    return ck_error_set(err, CK_E_BAD_REQUEST, where,
                        "the name of a file has 1 to %d bytes and no control characters; this one has %zu bytes",
                        CK_INPUT_NAME_MAX, strlen(name));
}

int ck_submission_name(struct ck_submission *submission, const char *where, const char *name, struct ck_error *err) {
    int r = ck_input_name_check(where, name, err);

    if (r < 0)
        return r;
    return keep(&submission->input.name, name, err);
}

int ck_submission_digest(struct ck_submission *submission, const char *where, const char *digest,
                         struct ck_error *err) {
    if (!ck_digest_parse(digest, submission->input.digest))
        return ck_error_set(err, CK_E_BAD_REQUEST, where, "a digest is sha256: and 64 hexadecimal digits, not '%.100s'",
                            digest);
    return 0;
}

static int read_name(struct ck_submission *submission, const char *place, const json_t *value, struct ck_error *err) {
    const char *text = text_of(place, value, err);

    return text ? ck_submission_name(submission, place, text, err) : CK_E_BAD_JSON;
}

static int read_digest(struct ck_submission *submission, const char *place, const json_t *value, struct ck_error *err) {
    const char *text = text_of(place, value, err);

    return text ? ck_submission_digest(submission, place, text, err) : CK_E_BAD_JSON;
}

static int read_role(_unused_ struct ck_submission *submission, const char *place, const json_t *value,
                     struct ck_error *err) {
    const char *text = text_of(place, value, err);

    if (!text)
        return CK_E_BAD_JSON;
    if (strcmp(text, MODEL) != 0)
        return ck_error_set(err, CK_E_BAD_JSON, place,
                            "'%.50s' is no role; this version takes one file, of role " MODEL, text);
    return 0;
}

/* A job shows the size, and its spec may be sent back as it came. The store knows better. */
static int read_bytes(_unused_ struct ck_submission *submission, const char *place, const json_t *value,
                      struct ck_error *err) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return wrong_type(place, "a number of bytes", value, err);
    return 0;
}

static int read_inputs(struct ck_submission *submission, const char *place, const json_t *value, struct ck_error *err) {
    static const struct member members[] = {
        {"role", read_role}, {"name", read_name}, {"digest", read_digest}, {"bytes", read_bytes}, {NULL, NULL}};
    const json_t *input = json_array_get(value, 0);
    char pointer[POINTER_SIZE], missing[POINTER_SIZE];
    int r;

    if (!json_is_array(value))
        return wrong_type(place, "a list", value, err);
    if (json_array_size(value) != 1)
        return ck_error_set(err, CK_E_BAD_JSON, place,
                            "%s has %zu files; this version takes exactly one, of role " MODEL, place,
                            json_array_size(value));
    step(place, "0", pointer);
    if (!json_is_object(input))
        return wrong_type(pointer, "an object", input, err);
    r = read_members(members, submission, pointer, input, err);
    if (r == 0 && !submission->input.digest[0])
        r = ck_error_set(err, CK_E_BAD_JSON, step(pointer, "digest", missing),
                         "%s needs a digest: sha256: and 64 hexadecimal digits of a blob", pointer);
    return r;
}

/* ---- options ---- */

static bool is_pairs(const char *name) {
    for (const struct ck_option_row *row = ck_job_options; row->name; row++)
        if (strcmp(row->name, name) == 0)
            return row->type == CK_OPTION_PAIRS;
    return false;
}

/* {"conv1":"Conv2d"} as the text conv1:Conv2d. jansson keeps the order of the document. */
static int join_pairs(const char *place, const json_t *object, struct ck_buffer *buffer, struct ck_error *err) {
    char pointer[POINTER_SIZE];
    const char *pattern;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, pattern, value) {
        const char *word = json_string_value(value);

        step(place, pattern, pointer);
        if (!word)
            return wrong_type(pointer, "a text", value, err);
        if (strchr(pattern, ',') || strpbrk(word, ",:"))
            return ck_error_set(err, CK_E_BAD_OPTION, pointer, "'%.100s' and '%.100s' must hold no comma%s", pattern,
                                word, strchr(word, ':') ? ", the latter no colon" : "");
        if (!ck_buffer_printf(buffer, "%s%s:%s", buffer->length ? "," : "", pattern, word))
            return ck_error_set(err, CK_E_BAD_OPTION, place, "the option is longer than %d bytes", CK_OPTION_TEXT_MAX);
    }
    if (buffer->length == 0)
        return ck_error_set(err, CK_E_BAD_OPTION, place, "the option is empty; leave it out");
    return 0;
}

/* The text of an option, as a query would have it. */
static int option_text(const char *name, const char *place, const json_t *value, char **ret_text,
                       struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer = {0};
    char *text = NULL;
    int r;

    if (json_is_object(value) && is_pairs(name)) {
        ck_buffer_init(&buffer, CK_OPTION_TEXT_MAX);
        r = join_pairs(place, value, &buffer, err);
        if (r < 0)
            return r;
        text = TAKE_PTR(buffer.data);
    } else if (json_is_string(value)) {
        text = strdup(json_string_value(value));
    } else if (json_is_number(value) || json_is_boolean(value)) {
        text = json_dumps(value, JSON_ENCODE_ANY);
    } else {
        return wrong_type(place, is_pairs(name) ? "a text or an object" : "a text, a number, true or false", value,
                          err);
    }
    if (!text)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the request");
    *ret_text = text;
    return 0;
}

/* The core names the option; a client of JSON is told the place. */
static int set_option(struct ck_submission *submission, const char *name, const char *place, const char *text,
                      struct ck_error *err) {
    struct ck_error failure = {0};
    int r = ck_spec_set(&submission->spec, name, text, &failure);

    if (r < 0) {
        snprintf(failure.where, sizeof(failure.where), "%s", place);
        if (err->code == 0)
            *err = failure;
    }
    return r;
}

static int read_options(struct ck_submission *submission, const char *place, const json_t *value,
                        struct ck_error *err) {
    char pointer[POINTER_SIZE];
    const char *name;
    json_t *option;

    if (!json_is_object(value))
        return wrong_type(place, "an object", value, err);
    json_object_foreach((json_t *)(uintptr_t)value, name, option) {
        _cleanup_(ck_freep) char *text = NULL;
        int r = option_text(name, step(place, name, pointer), option, &text, err);

        if (r == 0)
            r = set_option(submission, name, pointer, text, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int ck_submission_options(struct ck_submission *submission, const char *where, const char *text, struct ck_error *err) {
    _cleanup_(json_release) json_t *object = NULL;
    int r = load_object(text, strlen(text), where, &object, err);

    return r < 0 ? r : read_options(submission, where, object, err);
}

/* ---- labels ---- */

bool ck_label_key_ok(const char *key) {
    return key[0] && strlen(key) <= CK_LABEL_KEY_MAX && key[strspn(key, KEY_LETTERS)] == 0;
}

static int check_label(const char *place, const char *key, const json_t *value, struct ck_error *err) {
    const char *text = json_string_value(value);
    char pointer[POINTER_SIZE];

    step(place, key, pointer);
    if (!ck_label_key_ok(key))
        return ck_error_set(err, CK_E_BAD_JSON, pointer,
                            "the key of a label has 1 to %d of the characters A-Z a-z 0-9 . _ / -", CK_LABEL_KEY_MAX);
    if (!text)
        return wrong_type(pointer, "a text", value, err);
    if (strlen(text) > CK_LABEL_VALUE_MAX)
        return ck_error_set(err, CK_E_BAD_JSON, pointer, "the value of a label has at most %d bytes, not %zu",
                            CK_LABEL_VALUE_MAX, strlen(text));
    if (has_control(text))
        return ck_error_set(err, CK_E_BAD_JSON, pointer, "the value of a label must not hold control characters");
    return 0;
}

static int read_labels(struct ck_submission *submission, const char *place, const json_t *value, struct ck_error *err) {
    const char *key;
    json_t *label;

    if (!json_is_object(value))
        return wrong_type(place, "an object", value, err);
    if (json_object_size(value) > CK_LABELS_MAX)
        return ck_error_set(err, CK_E_BAD_JSON, place, "there are %zu labels; a job has at most %d",
                            json_object_size(value), CK_LABELS_MAX);
    json_object_foreach((json_t *)(uintptr_t)value, key, label) {
        int r = check_label(place, key, label, err);

        if (r < 0)
            return r;
    }
    free(submission->labels);
    submission->labels = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    return submission->labels ? 0 : ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the request");
}

int ck_submission_labels(struct ck_submission *submission, const char *where, const char *text, struct ck_error *err) {
    _cleanup_(json_release) json_t *object = NULL;
    int r = load_object(text, strlen(text), where, &object, err);

    return r < 0 ? r : read_labels(submission, where, object, err);
}

/* ---- whole documents ---- */

static int read_fresh(struct ck_submission *submission, const char *place, const json_t *value, struct ck_error *err) {
    return read_bool(place, value, &submission->fresh, err);
}

static int read_dry_run(struct ck_submission *submission, const char *place, const json_t *value,
                        struct ck_error *err) {
    int r = read_bool(place, value, &submission->spec.dry_run, err);

    if (r == 0 && submission->spec.dry_run && submission->spec.kind != CK_JOB_CONVERT)
        r = ck_error_set(err, CK_E_BAD_OPTION, place, "only a conversion has a dry run: an analysis writes no model");
    return r;
}

static int unknown_kind(const char *word, struct ck_error *err) {
    const char *names[CK_JOB_KIND_END_ + 1] = {0}, *near;
    char list[128] = "";
    size_t used = 0;

    for (unsigned i = 0; i < CK_JOB_KIND_END_; i++) {
        names[i] = ck_job_kind_name((enum ck_job_kind)i);
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
    }
    near = ck_nearest(word, names);
    ck_error_set(err, CK_E_BAD_JSON, "/kind", "there is no kind of job '%.50s'; there are: %s", word, list);
    if (near)
        ck_error_set_hint(err, "did you mean '%s'?", near);
    return CK_E_BAD_JSON;
}

/* A member that may be absent. Returns 0 and NULL then. */
static int optional_text(const json_t *object, const char *name, const char **ret_text, struct ck_error *err) {
    const json_t *value = json_object_get(object, name);
    char pointer[POINTER_SIZE];

    *ret_text = json_string_value(value);
    if (value && !*ret_text)
        return wrong_type(step("", name, pointer), "a text", value, err);
    return 0;
}

static int init_convert(struct ck_submission *submission, const char *to, const char *quant, struct ck_error *err) {
    struct ck_error failure = {0};
    int r;

    if (!to)
        return ck_error_set(err, CK_E_BAD_JSON, "/to", "a conversion needs the member to: its target");
    r = ck_spec_init(&submission->spec, to, quant, &failure);
    if (r < 0)
        snprintf(failure.where, sizeof(failure.where), "%s", r == CK_E_UNSUPPORTED_QUANT ? "/quant" : "/to");
    if (r < 0 && err->code == 0)
        *err = failure;
    return r;
}

/* Texts that are empty are accepted, so that the spec of an analysis can be sent back as it came. */
static int init_analyze(struct ck_submission *submission, const char *to, const char *quant, struct ck_error *err) {
    if ((to && to[0]) || (quant && quant[0]))
        return ck_error_set(err, CK_E_BAD_JSON, to && to[0] ? "/to" : "/quant",
                            "an analysis has no target: it says what every target would make of the file");
    return ck_spec_init_analyze(&submission->spec, err);
}

static int init_spec(struct ck_submission *submission, const json_t *document, struct ck_error *err) {
    const char *word, *to, *quant;
    enum ck_job_kind kind = CK_JOB_CONVERT;
    int r = optional_text(document, "kind", &word, err);

    if (r == 0)
        r = optional_text(document, "to", &to, err);
    if (r == 0)
        r = optional_text(document, "quant", &quant, err);
    if (r < 0)
        return r;
    if (word && !ck_job_kind_from_name(word, &kind))
        return unknown_kind(word, err);
    return kind == CK_JOB_CONVERT ? init_convert(submission, to, quant, err) : init_analyze(submission, to, quant, err);
}

int ck_submission_parse(const char *body, size_t n, struct ck_submission *ret_submission, struct ck_error *err) {
    static const struct member members[] = {{"kind", NULL},
                                            {"to", NULL},
                                            {"quant", NULL},
                                            {"inputs", read_inputs},
                                            {"options", read_options},
                                            {"labels", read_labels},
                                            {"fresh", read_fresh},
                                            {"dry_run", read_dry_run},
                                            {NULL, NULL}};
    _cleanup_(ck_submission_release) struct ck_submission submission = {0};
    _cleanup_(json_release) json_t *document = NULL;
    int r = load_object(body, n, "", &document, err);

    if (r == 0)
        r = check_members(members, "", document, err);
    if (r == 0)
        r = init_spec(&submission, document, err);
    if (r == 0)
        r = read_members(members, &submission, "", document, err);
    if (r == 0 && !json_object_get(document, "inputs"))
        r = ck_error_set(err, CK_E_BAD_JSON, "/inputs",
                         "a job needs the member inputs: [{\"role\":\"model\",\"name\":..,\"digest\":\"sha256:..\"}]");
    if (r < 0)
        return r;
    *ret_submission = submission;
    submission = (struct ck_submission){0};
    return 0;
}

int ck_analysis_parse(const char *body, size_t n, struct ck_submission *ret_submission, struct ck_error *err) {
    static const struct member members[] = {{"digest", read_digest}, {"name", read_name},   {"options", read_options},
                                            {"labels", read_labels}, {"fresh", read_fresh}, {NULL, NULL}};
    _cleanup_(ck_submission_release) struct ck_submission submission = {0};
    _cleanup_(json_release) json_t *document = NULL;
    int r = load_object(body, n, "", &document, err);

    if (r == 0)
        r = ck_spec_init_analyze(&submission.spec, err);
    if (r == 0)
        r = read_members(members, &submission, "", document, err);
    if (r == 0 && !submission.input.digest[0])
        r = ck_error_set(err, CK_E_BAD_JSON, "/digest", "an analysis needs the digest of a blob: sha256:HEX");
    if (r < 0)
        return r;
    *ret_submission = submission;
    submission = (struct ck_submission){0};
    return 0;
}

void ck_submission_release(struct ck_submission *submission) {
    ck_spec_release(&submission->spec);
    free(submission->input.role);
    free(submission->input.name);
    free(submission->labels);
    *submission = (struct ck_submission){0};
}
