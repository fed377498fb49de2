/* job/refusal.h: turns the refused tensors of a plan into the one error of the job. */
#ifndef CK_JOB_REFUSAL_H
#define CK_JOB_REFUSAL_H

#include "core/base/json_write.h"
#include "core/job/plan.h"

/* 0 if nothing is refused and something is written. Otherwise fills err: the code of the first refused tensor, but
 * AMBIGUOUS_LAYOUT before all others, since its questions must be answered first; the message counts and names tensors;
 * err->details is a JSON array of questions, as many as fit. Nothing written: CK_E_NO_TENSORS. */
int ck_refusal(const struct ck_plan *plan, struct ck_error *err);

/* Writes one refused tensor: {"tensor","code","message","shape","candidates","option"}; shape unless the tensor cannot
 * be read, candidates and option (an answer ready to be sent: "layers=up:ConvTranspose2d") where layers= would help. */
void ck_refusal_question(struct ck_json *json, const struct ck_plan *plan, const struct ck_plan_note *note);

/* "[64, 3, 7, 7]" in text, cut to fit. Returns text. */
const char *ck_shape_text(const struct ck_view *view, char *text, size_t size);

#endif
