/* model/names.h: keys of every type as text, and dotted paths.
 *
 * Text and bytes stand for themselves (a NUL byte as \x00); other keys are written as Python prints them: 5, 1.5, None,
 * True, (1, 'a'), torch.nn.modules.conv.Conv2d. Members of lists are named by their number. The names of a module's
 * tensors are those of its state_dict(). */
#ifndef CK_MODEL_NAMES_H
#define CK_MODEL_NAMES_H

#include "core/model/walk.h"

/* The text of an edge's key. In the arena; NULL if that is full. */
const char *ck_edge_name(const struct ck_pickle *pickle, const struct ck_edge *edge, struct ck_arena *arena);

/* Dotted paths of all nodes, "" for the root: an array of walk->n_nodes in the arena. NULL if that is full. */
const char **ck_node_paths(const struct ck_walk *walk, struct ck_arena *arena);

/* True for the edge of the root, and of the first of several pickles in a stream: their path is "". */
bool ck_edge_is_nameless(const struct ck_walk *walk, const struct ck_edge *edge);

/* The path of something that hangs on edge. In the arena; NULL if that is full. */
const char *ck_edge_path(const struct ck_walk *walk, const char *const *node_paths, const struct ck_edge *edge,
                         struct ck_arena *arena);

#endif
