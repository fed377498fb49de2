/* mlx/neighbours.h: which layers stand beside a layer in the network, as far as names and order can tell.
 *
 * A state dict lists modules in the order of their registration, and that is nearly the order of the data. But safetensors sorts by
 * name, and so do other tools: then what comes next in the file says nothing. So neighbours come from
 *   numbers   children of one parent named 0, 1, 2 ...: an nn.Sequential;
 *   names     conv1 with bn1 or norm1 beside it, conv with bn;
 *   order     what comes next, if the order of the file looks like that of registration. */
#ifndef CK_MLX_NEIGHBOURS_H
#define CK_MLX_NEIGHBOURS_H

#include "core/base/strmap.h"
#include "core/mlx/layout.h"

struct ck_neighbours {
    const struct ck_layout *layout; /* borrowed */
    struct ck_strmap by_path;       /* path of a layer -> index */
    bool ordered;                   /* the file's order is that of registration */
};

/* Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_neighbours_init(struct ck_neighbours *neighbours, const struct ck_plan *plan, const struct ck_layout *layout, struct ck_error *err);

void ck_neighbours_release(struct ck_neighbours *neighbours);

/* The layer behind or before, by number or else by order; NULL if none can be told. *ret_close: it is a sibling by number, or a sibling that
 * comes next in a trusted order. */
struct ck_layer *ck_neighbour_behind(const struct ck_neighbours *neighbours, const struct ck_layer *layer, bool *ret_close);
struct ck_layer *ck_neighbour_before(const struct ck_neighbours *neighbours, const struct ck_layer *layer, bool *ret_close);

/* The norm layer that is named after the convolution: conv1 -> bn1, norm1 ...; NULL if there is none. Pre-activation networks put it before. */
const struct ck_layer *ck_neighbour_norm_by_name(const struct ck_neighbours *neighbours, const struct ck_layer *layer);

#endif
