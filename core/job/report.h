/* job/report.h: report.json: the plan with its outcome; or plan.json of a dry run, the plan without. Every tensor of
 * the source appears in it: written, tied, dropped or refused, and why.
 *
 * "status" is "written" ("planned" in a dry run), or "refused": then "error" is what refused it,
 * {"code","detail","where","hint","questions"}, and the rest is there as far as the job got. */
#ifndef CK_JOB_REPORT_H
#define CK_JOB_REPORT_H

#include "core/base/json_write.h"
#include "core/job/options.h"
#include "core/job/plan.h"

/* Writes the report through json (not finished here). model may be NULL, or plan empty, where the job ended before;
 * refusal is the error that ended it, or NULL. No byte depends on time, host, file name or thread count. */
void ck_report_write(struct ck_json *json, const struct ck_spec *spec, const struct ck_model *model,
                     const struct ck_plan *plan, const struct ck_error *refusal);

#endif
