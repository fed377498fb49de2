#include "api/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/problem.h"
#include "api/submit.h"

#define FILE_FIELD "file"

enum {
    IN_QUERY = 1,
    IN_FORM = 2,
    OF_CONVERT = 4, /* not for an analysis */
};

static int set_name(struct ck_order *order, const char *name, const char *value, struct ck_error *err) {
    return ck_submission_name(&order->submission, name, value, err);
}

static int set_digest(struct ck_order *order, const char *name, const char *value, struct ck_error *err) {
    return ck_submission_digest(&order->submission, name, value, err);
}

static int set_options(struct ck_order *order, const char *name, const char *value, struct ck_error *err) {
    return ck_submission_options(&order->submission, name, value, err);
}

static int set_labels(struct ck_order *order, const char *name, const char *value, struct ck_error *err) {
    return ck_submission_labels(&order->submission, name, value, err);
}

/* The words of a query, for a field, too. */
static int set_bool(const char *name, const char *value, bool *ret_value, struct ck_error *err) {
    const struct ck_query one = {.names = {(char *)(uintptr_t)name}, .values = {(char *)(uintptr_t)value}, .n = 1};

    return ck_query_bool(&one, name, ret_value, err);
}

static int set_fresh(struct ck_order *order, const char *name, const char *value, struct ck_error *err) {
    return set_bool(name, value, &order->submission.fresh, err);
}

static int set_dry_run(struct ck_order *order, const char *name, const char *value, struct ck_error *err) {
    struct ck_spec *spec = &order->submission.spec;
    int r = set_bool(name, value, &spec->dry_run, err);

    if (r == 0 && spec->dry_run && spec->kind != CK_JOB_CONVERT)
        r = ck_error_set(err, CK_E_BAD_OPTION, name, "only a conversion has a dry run: an analysis writes no model");
    return r;
}

static int set_cancel(struct ck_order *order, const char *name, const char *value, struct ck_error *err) {
    return set_bool(name, value, &order->cancel_when_gone, err);
}

/* What can be said besides the options of the job. set NULL: it was looked at before, see begin_form(). */
static const struct word {
    const char *name;
    unsigned where;
    int (*set)(struct ck_order *order, const char *name, const char *value, struct ck_error *err);
} words[] = {
    {"to", IN_FORM | OF_CONVERT, NULL},
    {"quant", IN_FORM | OF_CONVERT, NULL},
    {"name", IN_FORM, set_name},
    {"digest", IN_FORM, set_digest},
    {"options", IN_FORM, set_options},
    {"labels", IN_FORM, set_labels},
    {"fresh", IN_QUERY | IN_FORM, set_fresh},
    {"dry_run", IN_QUERY | IN_FORM | OF_CONVERT, set_dry_run},
    {"cancel_on_disconnect", IN_QUERY | IN_FORM, set_cancel},
};

static bool word_fits(const struct word *word, enum ck_job_kind kind, unsigned where) {
    return (word->where & where) && (kind == CK_JOB_CONVERT || !(word->where & OF_CONVERT));
}

struct names {
    const char *list[64]; /* ends with NULL */
};

_Static_assert(CK_ARRAY_LEN(words) + CK_ARRAY_LEN(((struct ck_spec *)NULL)->values) <
                   CK_ARRAY_LEN(((struct names *)NULL)->list),
               "the list of names is too short");

/* Every name that may be said there. An option that does not fit the target is left to ck_spec_set(), which says so. */
static struct names known_names(enum ck_job_kind kind, unsigned where) {
    struct names names = {0};
    size_t n = 0;

    for (const struct ck_option_row *row = ck_job_options; row->name; row++)
        names.list[n++] = row->name;
    for (size_t i = 0; i < CK_ARRAY_LEN(words); i++)
        if (word_fits(&words[i], kind, where))
            names.list[n++] = words[i].name;
    return names;
}

static int set(struct ck_order *order, const char *name, const char *value, struct ck_error *err) {
    for (size_t i = 0; i < CK_ARRAY_LEN(words); i++)
        if (strcmp(words[i].name, name) == 0)
            return words[i].set ? words[i].set(order, name, value, err) : 0;
    return ck_spec_set(&order->submission.spec, name, value, err);
}

/* ---- begin ---- */

static void order_free(void *state) {
    struct ck_order *order = state;

    ck_submission_release(&order->submission);
    ck_query_release(&order->query);
    free(order);
}

int ck_order_begin(struct ck_request *request, enum ck_job_kind kind, struct ck_order **ret_order,
                   struct ck_error *err) {
    const struct names names = known_names(kind, IN_QUERY);
    struct ck_order *order = calloc(1, sizeof(*order));
    int r;

    if (!order)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the request");
    request->state = order;
    request->state_free = order_free;
    ck_prefer_parse(request, &order->prefer);
    r = ck_query_parse(request->query, &order->query, err);
    if (r == 0)
        r = ck_query_check(&order->query, names.list, NULL, err);
    *ret_order = order;
    return r;
}

int ck_order_take_query(struct ck_order *order, struct ck_error *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < order->query.n; i++)
        r = set(order, order->query.names[i], order->query.values[i], err);
    return r;
}

/* ---- forms ---- */

static const char *field(const struct ck_request *request, const char *name) {
    for (size_t i = 0; i < request->n_fields; i++)
        if (strcmp(request->fields[i].name, name) == 0)
            return request->fields[i].value;
    return NULL;
}

static int check_field(const struct ck_order *order, const struct ck_request *request, size_t index,
                       const struct names *names, struct ck_error *err) {
    const char *name = request->fields[index].name;
    const char *near;

    for (size_t i = 0; i < index; i++)
        if (strcmp(request->fields[i].name, name) == 0)
            return ck_error_set(err, CK_E_BAD_OPTION, name, "the field '%.100s' came twice", name);
    if (ck_query_get(&order->query, name))
        return ck_error_set(err, CK_E_BAD_OPTION, name, "'%.100s' is in the query and in the form", name);
    for (size_t i = 0; names->list[i]; i++)
        if (strcmp(names->list[i], name) == 0)
            return 0;
    if (strcmp(name, FILE_FIELD) == 0)
        return ck_error_set(err, CK_E_BAD_OPTION, name, "the field file holds a text: write -F file=@FILE, with the @");
    near = ck_nearest(name, names->list);
    ck_error_set(err, CK_E_BAD_OPTION, name, "'%.100s' is no field of this form", name);
    if (near)
        ck_error_set_hint(err, "did you mean '%s'?", near);
    return CK_E_BAD_OPTION;
}

/* Target and quantization come first, wherever they stand in the form: what an option means depends on them. */
static int begin_form(struct ck_order *order, const struct ck_request *request, struct ck_error *err) {
    const char *to = field(request, "to"), *quant = field(request, "quant");
    int r;

    if (order->submission.spec.target) {
        if (to || quant)
            return ck_error_set(err, CK_E_BAD_OPTION, to ? "to" : "quant",
                                "the path names target and quantization already; leave the field %s out, or send the "
                                "form to /v1/convert",
                                to ? "to" : "quant");
        return 0;
    }
    if (!to)
        return ck_error_set(err, CK_E_UNSUPPORTED_TARGET, "to",
                            "the form has no field to: the target, such as -F to=%s", ck_targets[0]);
    r = ck_spec_init(&order->submission.spec, to, quant, err);
    return r < 0 ? r : ck_order_take_query(order, err);
}

int ck_order_take_form(struct ck_order *order, const struct ck_request *request, enum ck_job_kind kind,
                       struct ck_error *err) {
    const struct names names = known_names(kind, IN_FORM);
    int r = 0;

    for (size_t i = 0; r == 0 && i < request->n_fields; i++)
        r = check_field(order, request, i, &names, err);
    if (r == 0)
        r = begin_form(order, request, err);
    for (size_t i = 0; r == 0 && i < request->n_fields; i++)
        r = set(order, request->fields[i].name, request->fields[i].value, err);
    return r;
}

int ck_order_take_json(struct ck_order *order, const struct ck_request *request,
                       int (*parse)(const char *body, size_t n, struct ck_submission *ret_submission,
                                    struct ck_error *err),
                       struct ck_error *err) {
    struct ck_submission submission;
    int r = parse(request->body, request->body_bytes, &submission, err);

    if (r < 0)
        return r;
    ck_submission_release(&order->submission);
    order->submission = submission;
    /* An option that the document has, too, is given twice. */
    return ck_order_take_query(order, err);
}

/* ---- the file ---- */

static int check_files(const struct ck_order *order, const struct ck_request *request, struct ck_error *err) {
    const char *name;

    if (request->n_files > 1)
        return ck_error_set(err, CK_E_TOO_MANY_FILES, NULL, "%zu files came; this version takes one for each job",
                            request->n_files);
    if (request->n_files == 0 && !order->submission.input.digest[0])
        return ck_error_set(err, CK_E_MISSING_FILE, NULL, "neither a file nor the digest of a stored one came");
    if (request->n_files == 0)
        return 0;
    if (order->submission.input.digest[0])
        return ck_error_set(err, CK_E_BAD_OPTION, "digest", "both a file and a digest came; send one of them");
    name = request->files[0].field;
    if (name[0] && strcmp(name, FILE_FIELD) != 0)
        return ck_error_set(err, CK_E_BAD_OPTION, name, "the file came in the field '%.100s'; write -F file=@FILE",
                            name);
    return 0;
}

int ck_order_take_input(struct ck_order *order, const struct ck_request *request, const struct ck_ports *ports,
                        bool durable, struct ck_error *err) {
    struct ck_submission *submission = &order->submission;
    const struct ck_received *file = request->files;
    bool is_new;
    int r = check_files(order, request, err);

    if (r < 0)
        return r;
    if (request->n_files == 0)
        return ck_find_input(ports, submission, durable, err);
    if (!submission->input.name && file->name && file->name[0])
        r = ck_submission_name(submission, "file", file->name, err);
    if (r == 0)
        r = ck_take_file(ports, file, durable, &is_new, err);
    if (r < 0)
        return r;
    ck_digest_hex(file->digest, submission->input.digest);
    submission->input.bytes = file->bytes;
    return 0;
}

/* ---- the job ---- */

void ck_order_wish(const struct ck_order *order, const struct ck_terms *terms, struct ck_wish *ret_wish,
                   char applied[static CK_APPLIED_SIZE]) {
    bool at_once = (order->prefer.async || order->prefer.wait == 0) && !order->submission.spec.dry_run;
    bool counted = order->prefer.wait > 0;
    int64_t most = (int64_t)terms->max_sync_wait;
    /* A most of 0 is none. */
    int64_t seconds = counted && (most == 0 || order->prefer.wait < most) ? order->prefer.wait : most;

    *ret_wish = (struct ck_wish){
        .wait = counted || !at_once,
        .seconds = seconds,
        .cancel_when_gone = order->cancel_when_gone,
        .applied = counted || at_once ? applied : NULL,
    };
    if (counted)
        snprintf(applied, CK_APPLIED_SIZE, "wait=%" PRId64, seconds);
    else
        snprintf(applied, CK_APPLIED_SIZE, "%s", order->prefer.async ? "respond-async" : "wait=0");
}

static int make_job(struct ck_order *order, const struct ck_request *request, const struct ck_ports *ports,
                    bool durable, struct ck_job_row *ret_row, struct ck_error *err) {
    int r = ck_order_take_input(order, request, ports, durable, err);

    if (r == 0)
        r = ck_submit(ports, request, &order->submission, durable, ret_row, err);
    if (r == 0)
        memcpy(order->job, ret_row->id, sizeof(order->job));
    return r;
}

void ck_order_answer(struct ck_order *order, const struct ck_request *request, const struct ck_ports *ports,
                     const struct ck_wish *wish, struct ck_reply *ret_reply) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    bool durable = ports->terms.durable && (!wish->wait || !wish->success || order->prefer.async);
    struct ck_error err = {0};
    int r;

    if (order->job[0])
        r = ports->store->job_get(ports->store, CK_TENANT, order->job, &row, &err);
    else
        r = make_job(order, request, ports, durable, &row, &err);
    if (r < 0)
        ck_problem_reply_job(&err, request->id, wish->success != NULL, order->job[0] ? order->job : NULL, ret_reply);
    else
        ck_conclude(request, ports, &row, wish, ret_reply);
}
