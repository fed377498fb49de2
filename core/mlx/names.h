/* mlx/names.h: what tensors are called in the output: wrappers' prefixes stripped, and names that an mlx.nn.Module
 * cannot hold mapped.
 *
 * Source of the facts: mlx/python/mlx/nn/layers/base.py. A Module is a dict: its methods' names cannot be attributes;
 * attributes that begin with '_' are no parameters; a level whose keys are all integers must be a list, and the root
 * cannot be one. */
#ifndef CK_MLX_NAMES_H
#define CK_MLX_NAMES_H

#include "core/job/plan.h"

#define CK_NAME_MAX   4096 /* bytes of a tensor's name; torch's are below 300 */
#define CK_NAME_DEPTH 100  /* components of a tensor's name; torch's have fewer than 25 */

/* Strips from the state-dict names of plan->model: `_orig_mod.` wherever it stands; `module.` in front when every name
 * has it (again and again); the wrappers `_fsdp_wrapped_module.` and `_checkpoint_wrapped_module.` wherever they stand.
 * Each change is noted in plan->renames. *ret_names has one name for each tensor, in plan->arena (or borrowed from the
 * model). Returns 0; CK_E_NAME_CLASH if two names become one; CK_E_OUT_OF_MEMORY. */
int ck_names_strip(struct ck_plan *plan, const char ***ret_names, struct ck_error *err);

/* The map from clean names to names MLX can hold, component by component:
 *   leading underscores go to the end as one (`_fc` -> `fc_`); reserved words and Python keywords get one (`keys` ->
 * `keys_`), and another until no sibling has that name; if every name begins with an integer (a bare nn.Sequential),
 * `layers.` goes in front, as nn.Sequential has it; the all-integer keys of a known ModuleDict get a `k` (`0` -> `k0`).
 * names: n clean names. *ret_mapped has one for each, equal pointers where nothing changed; changes are noted in
 * plan->renames. Returns 0; CK_E_NAME_CLASH if too many names would become one; CK_E_OUT_OF_MEMORY. */
int ck_names_map(struct ck_plan *plan, const char *const *names, uint32_t n, const char ***ret_mapped,
                 struct ck_error *err);

#endif
