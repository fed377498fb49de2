#include "core/job/verdict.h"

#include <string.h>

#include "core/job/refusal.h"

/* ---- coverage ---- */

struct count {
    uint64_t done, all;
};

struct coverage {
    struct count layers, bytes;
};

struct layer_name {
    const char *text; /* of a tensor; the first `length` bytes are the module's */
    size_t length;
    bool refused;
};

static int compare_layers(const void *left, const void *right) {
    const struct layer_name *a = left, *b = right;
    int order = memcmp(a->text, b->text, CK_MIN(a->length, b->length));

    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

/* Sorting brings the tensors of one module together, wherever the file has them. */
static int count_modules(const struct ck_plan *plan, const bool *refused, struct count *count, struct ck_error *err) {
    uint32_t n = plan->model->n_tensors;
    _cleanup_(ck_freep) struct layer_name *names = calloc((size_t)n + 1, sizeof(*names));
    bool done = true;

    if (!names)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the analysis");
    for (uint32_t i = 0; i < n; i++) {
        const char *name = ck_plan_name(plan, i), *dot = strrchr(name, '.');

        names[i] = (struct layer_name){name, dot ? (size_t)(dot - name) : 0, refused[i]};
    }
    qsort(names, n, sizeof(*names), compare_layers);
    for (uint32_t i = 0; i < n; i++) {
        done = done && !names[i].refused;
        if (i + 1 < n && compare_layers(&names[i], &names[i + 1]) == 0)
            continue;
        count->done += done;
        count->all++;
        done = true;
    }
    return 0;
}

static void count_bytes(const struct ck_model *model, const bool *refused, struct count *count) {
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const struct ck_tensor *tensor = &model->tensors[i];
        uint64_t bytes = tensor->error || tensor->alias_of != CK_NO_INDEX ? 0 : ck_view_bytes(&tensor->view);

        count->all = ck_add_saturated(count->all, bytes);
        count->done = ck_add_saturated(count->done, refused[i] ? 0 : bytes);
    }
}

static int count_coverage(const struct ck_plan *plan, const struct ck_target *target, bool whole_refused,
                          struct coverage *coverage, struct ck_error *err) {
    const struct ck_model *model = plan->model;
    _cleanup_(ck_freep) bool *refused = calloc((size_t)model->n_tensors + 1, sizeof(*refused));

    if (!refused)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the analysis");
    for (uint32_t i = 0; i < plan->n_refused; i++)
        refused[plan->refused[i].source] = true;
    for (uint32_t i = 0; whole_refused && i < model->n_tensors; i++)
        refused[i] = true;
    count_bytes(model, refused, &coverage->bytes);
    if (target->layers)
        return count_modules(plan, refused, &coverage->layers, err);
    coverage->layers.all = model->n_tensors;
    for (uint32_t i = 0; i < model->n_tensors; i++)
        coverage->layers.done += !refused[i];
    return 0;
}

/* ---- the members ---- */

static void write_count(struct ck_json *json, const char *key, struct count count) {
    ck_json_key(json, key);
    ck_json_array_begin(json);
    ck_json_u64(json, count.done);
    ck_json_u64(json, count.all);
    ck_json_array_end(json);
}

static void write_violation(struct ck_json *json, int code, const char *where, const char *message, const char *hint) {
    ck_json_newline(json);
    ck_json_object_begin(json);
    ck_json_key_string(json, "rule", ck_error_row(code)->name);
    ck_json_key_string(json, "where", where);
    ck_json_key_string(json, "message", message);
    ck_json_key_string(json, "hint", hint);
    ck_json_object_end(json);
}

static void write_violations(struct ck_json *json, const struct ck_plan *plan, const struct ck_error *whole) {
    ck_json_key(json, "violations");
    ck_json_array_begin(json);
    if (whole)
        write_violation(json, whole->code, whole->where, whole->message, ck_error_hint(whole));
    for (uint32_t i = 0; i < plan->n_refused; i++) {
        const struct ck_plan_note *note = &plan->refused[i];

        if (!note->candidates)
            write_violation(json, note->code, ck_plan_name(plan, note->source), note->message,
                            ck_error_row(note->code)->hint);
    }
    ck_json_array_end(json);
}

static void write_questions(struct ck_json *json, const struct ck_plan *plan) {
    ck_json_key(json, "questions");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_refused; i++) {
        if (!plan->refused[i].candidates)
            continue;
        ck_json_newline(json);
        ck_refusal_question(json, plan, &plan->refused[i]);
    }
    ck_json_array_end(json);
}

/* ---- the plan ---- */

static int make_spec(const struct ck_spec *analysis, const char *target, struct ck_spec *spec, struct ck_error *err) {
    int r = ck_spec_init(spec, target, NULL, err);

    for (size_t i = 0; r >= 0 && ck_job_options[i].name; i++)
        if (analysis->values[i] && ck_option_fits(&ck_job_options[i], CK_JOB_CONVERT, target))
            r = ck_spec_set(spec, ck_job_options[i].name, analysis->values[i], err);
    return r;
}

/* True if the refusal is that of single tensors, which the plan lists; then the plan is complete. */
static bool is_listed(const struct ck_plan *plan, int code) {
    for (uint32_t i = 0; i < plan->n_refused; i++)
        if (plan->refused[i].code == code)
            return true;
    return false;
}

int ck_verdict_write(struct ck_json *json, const struct ck_target *target, const struct ck_spec *analysis,
                     const struct ck_model *model, const struct ck_limits *limits, struct ck_error *err) {
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};
    _cleanup_(ck_plan_release) struct ck_plan plan = {0};
    struct ck_error refusal = {0};
    struct coverage coverage = {0};
    bool supported, whole;
    int r;

    r = make_spec(analysis, target->name, &spec, err);
    if (r < 0)
        return r;
    r = ck_target_plan(&plan, model, &spec, limits, &refusal);
    if (r < 0 && !ck_is_refusal(r))
        return ck_error_set(err, r, refusal.where, "%s", refusal.message);
    supported = r >= 0;
    whole = !supported && !is_listed(&plan, r);
    r = count_coverage(&plan, target, whole, &coverage, err);
    if (r < 0)
        return r;
    ck_json_object_begin(json);
    ck_json_key_bool(json, "supported", supported);
    ck_json_key(json, "coverage");
    ck_json_object_begin(json);
    write_count(json, "layers", coverage.layers);
    write_count(json, "bytes", coverage.bytes);
    ck_json_object_end(json);
    write_violations(json, &plan, whole ? &refusal : NULL);
    write_questions(json, &plan);
    ck_json_object_end(json);
    return 0;
}
