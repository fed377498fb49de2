#include "api/convert.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/job_json.h"
#include "api/names.h"
#include "api/problem.h"
#include "api/results.h"

#define SEGMENTS_MAX 3

/* ---- the path ---- */

struct segments {
    char *text[SEGMENTS_MAX]; /* decoded, owned */
    size_t count;
};

static void segments_release(struct segments *segments) {
    for (size_t i = 0; i < segments->count; i++)
        free(segments->text[i]);
    segments->count = 0;
}

static int segments_split(const char *rest, struct segments *segments, struct ck_error *err) {
    while (*rest) {
        size_t n = strcspn(rest, "/");
        int r;

        if (n == 0)
            return ck_error_set(err, CK_E_BAD_REQUEST, NULL,
                                "the path holds an empty segment: the form is " CK_CONVERT_PREFIX
                                "{to}/[{quant}/][name]");
        if (segments->count == SEGMENTS_MAX)
            return ck_error_set(err, CK_E_NOT_FOUND, NULL,
                                "the path has too many segments: the form is " CK_CONVERT_PREFIX
                                "{to}/[{quant}/][name]");
        r = ck_percent_decode(rest, n, false, &segments->text[segments->count], err);
        if (r < 0)
            return r;
        segments->count++;
        rest += n;
        rest += *rest == '/';
    }
    return 0;
}

static bool is_word(const char *word, const char *const *list) {
    for (; list && *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Which of the segments is the quantization and which the name. A quantization that is none of the list is left to
 * ck_spec_init(), which refuses it with the nearest one or knows a longer spelling. */
static void tell_apart(const struct segments *segments, const char **ret_quant, const char **ret_name) {
    const char *second = segments->count > 1 ? segments->text[1] : NULL;

    *ret_quant = *ret_name = NULL;
    if (segments->count == 3) {
        *ret_quant = second;
        *ret_name = segments->text[2];
    } else if (second && strchr(second, '.') && !is_word(second, ck_target_quants(segments->text[0]))) {
        *ret_name = second;
    } else {
        *ret_quant = second;
    }
}

static int no_target(struct ck_error *err) {
    char list[256];
    size_t used = 0;

    list[0] = 0;
    for (size_t i = 0; ck_targets[i] && used < sizeof(list) - 1; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", ck_targets[i]);
    return ck_error_set(err, CK_E_UNSUPPORTED_TARGET, NULL, "the path names no target; there are: %s", list);
}

int ck_convert_parse(const char *path, struct ck_submission *submission, struct ck_error *err) {
    _cleanup_(segments_release) struct segments segments = {0};
    const char *quant, *name;
    int r;

    path += CK_MIN(strlen(path), sizeof(CK_CONVERT_PREFIX) - 1);
    r = segments_split(path, &segments, err);
    if (r < 0)
        return r;
    if (segments.count == 0)
        return no_target(err);
    tell_apart(&segments, &quant, &name);
    r = ck_spec_init(&submission->spec, segments.text[0], quant, err);
    if (r == CK_E_UNSUPPORTED_QUANT && segments.count == 2 && err->hint[0] == 0)
        ck_error_set_hint(err, "to name a file without a dot, write " CK_CONVERT_PREFIX "%.20s/none/%.60s",
                          segments.text[0], segments.text[1]);
    if (r == 0 && name)
        r = ck_submission_name(submission, "path", name, err);
    return r;
}

/* ---- the handlers ---- */

int ck_head_convert(struct ck_request *request, _unused_ const struct ck_ports *ports, struct ck_error *err) {
    struct ck_order *order;
    int r = ck_order_begin(request, CK_JOB_CONVERT, &order, err);

    if (r == 0)
        r = ck_convert_parse(request->path, &order->submission, err);
    return r < 0 ? r : ck_order_take_query(order, err);
}

/* The target comes with the form; until then the query can only be checked for its names. */
int ck_head_convert_form(struct ck_request *request, _unused_ const struct ck_ports *ports, struct ck_error *err) {
    struct ck_order *order;

    return ck_order_begin(request, CK_JOB_CONVERT, &order, err);
}

/* The one weights file of a faithful safetensors result, or NULL: several of them need the zip. */
static const char *bare_file(const struct ck_job_row *row) {
    static const char suffix[] = ".safetensors";
    const char *found = NULL;

    if (strcmp(row->target, "safetensors") != 0)
        return NULL;
    for (size_t i = 0; i < row->n_files; i++) {
        size_t n = strlen(row->files[i].name);

        if (n < sizeof(suffix) || strcmp(row->files[i].name + n - (sizeof(suffix) - 1), suffix) != 0)
            continue;
        if (found)
            return NULL;
        found = row->files[i].name;
    }
    return found;
}

static void reply_bare(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                       const char *file, struct ck_reply *ret_reply) {
    _cleanup_(ck_freep) char *name = NULL, *disposition = NULL;
    struct ck_error err = {0};

    if (asprintf(&name, "%s.safetensors", row->stem) < 0)
        name = NULL;
    disposition = name ? ck_disposition(name) : NULL;
    if (disposition) {
        ck_results_reply_file(request, ports, row, file, disposition, ret_reply);
    } else {
        ck_error_set(&err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
        ck_problem_reply_job(&err, request->id, true, row->id, ret_reply);
    }
}

static void add_assumed(const struct ck_job_row *row, struct ck_reply *reply) {
    json_t *outcome = row->outcome ? json_loads(row->outcome, 0, NULL) : NULL;
    const json_t *assumed = json_object_get(outcome, "assumed");

    if (json_is_integer(assumed))
        ck_reply_header(reply, "X-Ckptd-Assumed", "%" PRIi64, (int64_t)json_integer_value(assumed));
    json_decref(outcome);
}

void ck_convert_success(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                        struct ck_reply *ret_reply) {
    const char *bare = bare_file(row);

    if (ck_job_has_file(row, "plan.json"))
        ck_reply_shown(request, ports, row, "plan.json", ".plan.json", ret_reply);
    else if (bare)
        reply_bare(request, ports, row, bare, ret_reply);
    else
        ck_results_reply_zip(request, ports, row, ret_reply);
    add_assumed(row, ret_reply);
}

void ck_answer_convert(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_order *order = request->state;
    char applied[CK_APPLIED_SIZE];
    struct ck_error err = {0};
    struct ck_wish wish;

    if (!order->job[0] && ck_order_take_form(order, request, CK_JOB_CONVERT, &err) < 0) {
        ck_problem_reply(&err, request->id, true, ret_reply);
        return;
    }
    ck_order_wish(order, &ports->terms, &wish, applied);
    wish.success = ck_convert_success;
    ck_order_answer(order, request, ports, &wish, ret_reply);
}
