#include "core/job/refusal.h"

#include <stdio.h>
#include <string.h>

const char *ck_shape_text(const struct ck_view *view, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "[");

    for (uint32_t i = 0; i < view->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? ", " : "", (long long)view->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

/* "conv1" of "conv1.weight": what layers= takes. A weight of the root module has no path: `*` means it. */
static void layer_path(const char *name, char *path, size_t size) {
    const char *dot = strrchr(name, '.');

    snprintf(path, size, "%.*s", dot ? (int)(dot - name) : 1, dot ? name : "*");
}

void ck_refusal_question(struct ck_json *json, const struct ck_plan *plan, const struct ck_plan_note *note) {
    const char *name = ck_plan_name(plan, note->source);
    const struct ck_view *view = &plan->model->tensors[note->source].view;
    char path[4200], answer[4400];

    ck_json_object_begin(json);
    ck_json_key_string(json, "tensor", name);
    ck_json_key_string(json, "code", ck_error_row(note->code)->name);
    ck_json_key_string(json, "message", note->message);
    if (!plan->model->tensors[note->source].error)
        ck_json_key_ints(json, "shape", view->shape, view->rank);
    if (note->candidates) {
        ck_json_key(json, "candidates");
        ck_json_array_begin(json);
        for (size_t i = 0; note->candidates[i]; i++)
            ck_json_string(json, note->candidates[i]);
        ck_json_array_end(json);
        layer_path(name, path, sizeof(path));
        snprintf(answer, sizeof(answer), "layers=%s:%s", path, note->candidates[0]);
        ck_json_key_string(json, "option", answer);
    }
    ck_json_object_end(json);
}

/* One JSON array that holds as many questions as fit into err->details. */
static void write_details(const struct ck_plan *plan, int code, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer all = {.limit = sizeof(err->details) - 1};

    if (!ck_buffer_add_text(&all, "["))
        return;
    for (uint32_t i = 0; i < plan->n_refused; i++) {
        _cleanup_(ck_buffer_release) struct ck_buffer one = {.limit = sizeof(err->details)};
        struct ck_json json;

        if (plan->refused[i].code != code)
            continue;
        ck_json_init(&json, ck_json_sink_buffer, &one, NULL);
        ck_refusal_question(&json, plan, &plan->refused[i]);
        if (ck_json_finish(&json) < 0 || all.length + one.length + 3 > sizeof(err->details))
            break;
        if (all.length > 1)
            ck_buffer_add_text(&all, ",");
        ck_buffer_add(&all, one.data, one.length);
    }
    ck_buffer_add_text(&all, "]");
    snprintf(err->details, sizeof(err->details), "%s", ck_buffer_text(&all));
}

static uint32_t count_code(const struct ck_plan *plan, int code) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < plan->n_refused; i++)
        n += plan->refused[i].code == code;
    return n;
}

int ck_refusal(const struct ck_plan *plan, struct ck_error *err) {
    const struct ck_plan_note *first;
    const char *name;
    char shape[256] = "", path[256];
    uint32_t n;
    int code;

    if (plan->n_refused == 0)
        return plan->n_items > 0
                   ? 0
                   : ck_error_set(err, CK_E_NO_TENSORS, NULL, "nothing is left to write: all %u tensors are dropped",
                                  plan->n_dropped);
    code = count_code(plan, CK_E_AMBIGUOUS_LAYOUT) > 0 ? CK_E_AMBIGUOUS_LAYOUT : plan->refused[0].code;
    n = count_code(plan, code);
    for (first = plan->refused; first->code != code; first++)
        ;
    name = ck_plan_name(plan, first->source);
    if (!plan->model->tensors[first->source].error)
        ck_shape_text(&plan->model->tensors[first->source].view, shape, sizeof(shape));
    if (n == 1)
        ck_error_set(err, code, name, "'%.200s' %s: %s", name, shape, first->message);
    else
        ck_error_set(err, code, name, "%u tensors, the first is '%.200s' %s: %s", n, name, shape, first->message);
    if (first->candidates) {
        layer_path(name, path, sizeof(path));
        ck_error_set_hint(err, "say which it is: layers=%s:%s or layers=%s:%s%s", path, first->candidates[0], path,
                          first->candidates[1], strstr(first->message, "/N)") ? "/N" : "");
    }
    write_details(plan, code, err);
    return code;
}
