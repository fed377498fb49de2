/* job/quantized.h: how a plan takes the numbers of one source tensor: as they are, with torch's lazy bits resolved, and those
 * that torch quantized either as the floats they stand for or as their codes (option quantized=). Shared by the targets. */
#ifndef CK_JOB_QUANTIZED_H
#define CK_JOB_QUANTIZED_H

#include "core/job/options.h"
#include "core/job/plan.h"

/* True if option quantized= says that this tensor stays codes. */
bool ck_keeps_codes(const struct ck_spec *spec, const struct ck_tensor *tensor);

/* The dtype that the tensor has before the target's cast: that of its numbers, or of its codes as plain integers. */
enum ck_dtype ck_taken_dtype(const struct ck_spec *spec, const struct ck_tensor *tensor);

/* Fills view, channel, quantizer, conj and neg of an item whose source is set, and appends their steps. Codes that share
 * bytes are kept as torch's int_repr() gives them: the bytes, in one dimension. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_item_take(struct ck_plan *plan, struct ck_plan_item *item, const struct ck_spec *spec, struct ck_error *err);

/* With kept codes: the item's numbers, which are written beside it as name.scale (false) and name.zero_point (true). Fills
 * view and storage. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_item_take_quantizer(struct ck_plan *plan, struct ck_plan_item *item, bool zero_point, struct ck_error *err);

/* With kept codes: notes in the output's metadata what the three tensors do not say: name.axis, which dimension has the
 * channels, and of packed codes name.packed, "quint4x2 [3, 5]". Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_plan_describe_codes(struct ck_plan *plan, const struct ck_plan_item *item, const char *name, struct ck_error *err);

/* Leaves out a tensor that cannot be read, or that the target cannot hold, if option skip_bad= says so; else refuses it. As
 * ck_plan_refuse(). */
int ck_plan_cannot(struct ck_plan *plan, const struct ck_spec *spec, uint32_t tensor, int code, const char *message,
                   struct ck_error *err);

#endif
