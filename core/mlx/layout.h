/* mlx/layout.h: which layer each tensor belongs to, and how that is known.
 *
 * A "layer" here is one module that owns tensors directly: all tensors whose names differ only in the last component.
 * What it is comes, in this order, from known     the option layers=; the class in a whole-module pickle (or its
 * attributes, for a user's subclass) derived   shapes that leave one reading: the bias, the norm layer behind, the
 * channels of the neighbours; or the family: the same path with its digits generalised, decided elsewhere in the file
 * and contradicted by no member assumed   the name says convolution and nothing hints at a transposed one or it stays
 * undecided, and the plan refuses it with a question. Reasons in core/mlx/evidence.c. */
#ifndef CK_MLX_LAYOUT_H
#define CK_MLX_LAYOUT_H

#include "core/job/options.h"
#include "core/job/plan.h"
#include "core/matrix/layers.h"

struct ck_layer {
    const char *path;                             /* clean path of the module; "" for the root */
    uint32_t module;                              /* index into model->modules, or CK_NO_INDEX */
    uint32_t first, n;                            /* its tensors: entries first .. first + n of ck_layout.order */
    uint32_t weight, bias, running_mean, in_proj; /* tensors by last component, or CK_NO_INDEX; in_proj: any packed or
                                                     separate projection of an attention */

    const char *label;              /* word of the report where row does not say it: "BatchNorm", "norm"; or NULL */
    const struct ck_layer_row *row; /* what it is; NULL: no layer that we know, its tensors pass unchanged */
    uint32_t           groups;      /* that option layers= named for a transposed convolution, or 0 */
    struct ck_evidence evidence;    /* of row; why is NULL while undecided */
    bool undecided;                 /* a convolution-like weight that nothing decides */
    bool doubted;     /* its family holds both ordinary and transposed ones, or its channels contradict its name: nothing may be assumed */
};

struct ck_layout {
    struct ck_layer *layers; /* in the order of their first tensor */
    uint32_t n_layers;
    uint32_t *order;     /* tensor indices, grouped by layer */
    uint32_t *layer_of;  /* tensor index -> layer index */
    const char **names;  /* clean names, borrowed */
    const char **leaves; /* last component of each name, borrowed */
};

/* Groups the tensors and decides every layer that can be decided. Everything is in plan->arena.
 * Returns 0; CK_E_BAD_RULE for a layers= item that names no layer class, fits no tensor or contradicts a shape;
 * CK_E_OUT_OF_MEMORY. */
int ck_layout_make(struct ck_plan *plan, const char **names, const struct ck_spec *spec, struct ck_layout *ret_layout,
                   struct ck_error *err);

/* Groups of the transposed convolution whose weight the layer owns: the pickle's attribute, else what the bias tells
 * (its length is dimension 1 times the groups), else 1. Always a divisor of dimension 0. */
uint32_t ck_layer_groups(const struct ck_plan *plan, const struct ck_layer *layer);

#endif
