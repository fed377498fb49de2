/* job/verdict.h: what one target would make of a model: planned in memory, nothing written.
 *
 *   {"supported":true,"coverage":{"layers":[9,9],"bytes":[3584,3584]},"violations":[..],"questions":[..]}
 *
 * supported   the conversion would succeed.
 * coverage    [would be done, all]. A source tensor is done if nothing about it is refused: it is written, tied, or left
 *             out for a reason (a counter ...).
 *   layers    for mlx, modules that own tensors (all tensors whose names differ in the last component only): done if
 *             all of their tensors are. For safetensors, which knows no layers, tensors.
 *   bytes     of source tensors, dense, each tie once, without those that cannot be read (nothing says how large they
 *             are).
 *   A refusal of the whole (already_converted, bad_rule, name_clash ...) does nothing: [0, all].
 * violations  {"rule","where","message","hint"}: rule is the name of an error, as in error.h; where is the tensor, the
 *             option, or "".
 * questions   what an answer (layers=...) would solve, as ck_refusal_question() writes it. */
#ifndef CK_JOB_VERDICT_H
#define CK_JOB_VERDICT_H

#include "core/base/json_write.h"
#include "core/job/target.h"

/* analysis: a specification of kind CK_JOB_ANALYZE; the target gets those of its options that it knows. Returns 0 or
 * what is no refusal: CK_E_OUT_OF_MEMORY. */
int ck_verdict_write(struct ck_json *json, const struct ck_target *target, const struct ck_spec *analysis,
                     const struct ck_model *model, const struct ck_limits *limits, struct ck_error *err);

#endif
