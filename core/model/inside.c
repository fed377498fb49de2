#include "core/model/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool ck_inside_member_asked(const struct ck_model_options *options) {
    return options && options->member && options->member[0];
}

int ck_inside_refuse_member(const struct ck_model_options *options, struct ck_error *err) {
    if (!ck_inside_member_asked(options))
        return 0;
    return ck_error_set(err, CK_E_MEMBER_NOT_FOUND, "member",
                        "there is no %.200s: the file is a checkpoint itself, no archive of files", options->member);
}

int ck_inside_check_nesting(const struct ck_limits *limits, const struct ck_model_options *options,
                            struct ck_error *err) {
    if ((options ? options->depth : 0) < limits->nesting)
        return 0;
    return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                        "more than %" PRIu64 " archives lie inside one another (--limit-nesting)", limits->nesting);
}

static void add_findings(struct ck_findings *to, const struct ck_findings *from, const char *folder) {
    for (size_t i = 0; i < from->count; i++) {
        const struct ck_finding *f = &from->items[i];
        char entry[CK_FINDING_TEXT_MAX + 1];
        size_t at;

        snprintf(entry, sizeof(entry), "%s%s%s", folder, folder[0] && f->entry[0] ? " > " : "", f->entry);
        at = ck_findings_add(to, f->class_, entry, f->offset, f->opcode, f->module, f->name, f->called);
        if (at != CK_FINDINGS_NONE)
            to->items[at].count += f->count - 1;
    }
    to->dropped += from->dropped;
    to->truncated = to->truncated || from->truncated;
}

/* Puts the outer findings, if there are any, and then the model's own with the folder before their entries. */
static void gather_findings(struct ck_model *model, const struct ck_findings *outer, const char *folder) {
    struct ck_findings all;

    ck_findings_init(&all);
    if (outer)
        add_findings(&all, outer, "");
    add_findings(&all, &model->findings, folder);
    ck_findings_release(&model->findings);
    model->findings = all;
}

void ck_inside_name_error(struct ck_error *err, const char *name) {
    struct ck_error outer = {0};

    if (!err || !name[0])
        return;
    ck_error_set(&outer, err->code, NULL, "in %.200s: %s", name, err->message);
    memcpy(err->message, outer.message, sizeof(err->message));
    if (err->code == CK_E_AMBIGUOUS_MEMBER)
        ck_error_set_hint(err, "name one with the option member=%.200s/PATH", name);
}

static int open_part(const struct ck_source *source, const char *name, const char *member,
                     const struct ck_limits *limits, const struct ck_model_options *options, struct ck_model **ret_part,
                     struct ck_error *err) {
    struct ck_model_options inner = options ? *options : (struct ck_model_options){0};
    int r;

    inner.member = member;
    inner.depth++;
    r = ck_model_open(source, limits, &inner, ret_part, err);
    if (r < 0)
        ck_inside_name_error(err, name);
    return r;
}

int ck_inside_open(const struct ck_source *source, const char *name, const char *member, const struct ck_limits *limits,
                   const struct ck_model_options *options, struct ck_model **ret_part, struct ck_error *err) {
    int r = open_part(source, name, member, limits, options, ret_part, err);

    if (*ret_part && name[0])
        gather_findings(*ret_part, NULL, name);
    return r;
}

int ck_inside_enter(struct ck_model *model, const struct ck_source *source, const char *name, const char *member,
                    const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_model_freep) struct ck_model *part = NULL;
    int r = open_part(source, name, member, limits, options, &part, err);

    if (part) {
        struct ck_model outer = *model;

        *model = *part;
        *part = outer;
        gather_findings(model, &outer.findings, name);
        model->input_bytes = outer.input_bytes;
    }
    return r;
}
