/* mlx/evidence.h: decides, from shapes, neighbours and names, what the layers are that no class and no option names. */
#ifndef CK_MLX_EVIDENCE_H
#define CK_MLX_EVIDENCE_H

#include "core/mlx/layout.h"

/* Fills row and evidence of every layer that has none, or leaves it undecided (convolution-like) or without a row (no
 * layer weight). quantizing: a matrix without bias may be a Linear's or an Embedding's, which matters only then and is
 * assumed. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_evidence_decide(struct ck_plan *plan, struct ck_layout *layout, bool quantizing, struct ck_error *err);

#endif
