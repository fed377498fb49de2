/* job/target.h: the targets of a conversion, and the way from a model to the finished plan of one. */
#ifndef CK_JOB_TARGET_H
#define CK_JOB_TARGET_H

#include "core/base/limits.h"
#include "core/job/options.h"
#include "core/job/plan.h"

struct ck_target {
    const char *name;   /* a word of ck_targets */
    bool        layers; /* it decides layer by layer; false: tensor by tensor. What an analysis counts as covered */
    /* As ck_mlx_plan(): fills items, dropped, refused ... of a plan that was initialised for a model. */
    int (*plan)(struct ck_plan *plan, const struct ck_spec *spec, struct ck_error *err);
};

/* In the order of ck_targets, ending with a NULL name. */
extern const struct ck_target ck_target_table[];

/* Initialises plan for the model and takes it as far as one gets without writing: the plan of spec->target, the bound on
 * the size of the output, the files with their headers and every tensor's place. The caller releases plan in either
 * case; after a refusal it says what was refused. Returns 0; the errors of the target's own plan; CK_E_OUTPUT_LIMIT;
 * those of ck_safetensors_layout(). */
int ck_target_plan(struct ck_plan *plan, const struct ck_model *model, const struct ck_spec *spec,
                   const struct ck_limits *limits, struct ck_error *err);

/* True for a code that is an answer about the document or the request; a full disk or a cancel is none. */
bool ck_is_refusal(int code);

#endif
