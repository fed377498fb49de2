/* job/faithful.h: the plan of the target `safetensors`: the state dict as it is, PyTorch's names, layouts and dtypes,
 * bit for bit. */
#ifndef CK_JOB_FAITHFUL_H
#define CK_JOB_FAITHFUL_H

#include "core/job/options.h"
#include "core/job/plan.h"

/* Fills plan with one identity item for each tensor; tied tensors are written once, the other names stand in the
 * metadata as `name -> kept name`, as safetensors' own torch binding does. Returns 0; CK_E_UNSUPPORTED_DTYPE for what
 * safetensors has no name for, and the tensors' own errors; CK_E_NO_TENSORS, CK_E_OUT_OF_MEMORY. */
int ck_faithful_plan(struct ck_plan *plan, const struct ck_spec *spec, struct ck_error *err);

#endif
