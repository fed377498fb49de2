/* mlx/plan.h: the plan of the target `mlx`: a model's tensors in MLX's names, layouts and dtypes, quantized if asked.
 */
#ifndef CK_MLX_PLAN_H
#define CK_MLX_PLAN_H

#include "core/base/limits.h"
#include "core/job/options.h"
#include "core/job/plan.h"

/* Fills plan (initialised, for a model) with items, dropped, refused, aliases, renames, warnings and metadata; files
 * come later from the writer. Returns 0; the code of what is refused (AMBIGUOUS_LAYOUT before all others), with the
 * questions in err->details: then plan is complete all the same, for the report; CK_E_ALREADY_CONVERTED, CK_E_BAD_RULE,
 * CK_E_NAME_CLASH, CK_E_NO_TENSORS, CK_E_OUT_OF_MEMORY. */
int ck_mlx_plan(struct ck_plan *plan, const struct ck_spec *spec, struct ck_error *err);

#endif
