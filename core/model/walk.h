/* model/walk.h: one walk over the value graph of a pickle that finds every tensor, and the containers on the way to it.
 *
 * The result is a tree in preorder: nodes (containers that lead to tensors, and every module) and leaves (names of
 * tensors). What lies below a node is a range of both arrays. Choosing the state dict and naming the tensors work on
 * this tree, never on the graph.
 *
 * Sharing. A container that is met again on a plain way (members of dicts and lists, submodules) is walked again,
 * because each way is a name of its own: a module used twice has two names in a state dict. What hangs on an object's
 * attributes is walked once: object graphs point in every direction. Cycles are cut, nesting beyond limits.pickle_depth
 * is not looked into, and all steps together are bounded by limits.pickle_opcodes, so a small file of shared lists
 * costs little and ends. */
#ifndef CK_MODEL_WALK_H
#define CK_MODEL_WALK_H

#include "core/model/rebuild.h"

enum ck_node_kind {
    CK_NODE_MAP,      /* dict, OrderedDict ... */
    CK_NODE_SEQUENCE, /* list, tuple, set */
    CK_NODE_MODULE,   /* a torch.nn.Module: its children are its submodules */
    CK_NODE_OBJECT,   /* any other object: its children are its attributes */
};

/* How a child hangs on its parent. */
struct ck_edge {
    uint32_t parent;   /* node, or CK_NO_INDEX for the root */
    ck_ref key;        /* of a mapping; CK_NO_INDEX: `position` is the name */
    uint32_t position; /* among the members of its section */
    uint8_t section;   /* which of the parent's lists of members */
    bool superseded;   /* the same key comes again later in the parent: Python keeps the later one */
    uint32_t aside;    /* the innermost module that holds this as an attribute outside its state dict, or CK_NO_INDEX */
};

struct ck_node {
    struct ck_edge edge;
    ck_ref ref;
    enum ck_node_kind kind;
    uint32_t n_nodes;              /* of the subtree, itself included */
    uint32_t first_leaf, n_leaves; /* of the subtree */
    uint32_t members;              /* entries of all kinds */
    uint32_t direct;               /* tensors right below it */
    uint32_t tensors;              /* in the subtree, without superseded ones and attributes of modules; ck_walk_level */
    uint64_t direct_bytes, bytes;  /* of `direct` and of `tensors`, each tensor at least 1 */
};

struct ck_leaf {
    struct ck_edge edge;
    uint32_t tensor; /* index into the tensors of struct ck_rebuild */
    bool parameter;  /* from _parameters */
    bool persistent; /* false: in _non_persistent_buffers_set */
    bool array;      /* numpy's */
    bool attribute;  /* an array that hangs on the attributes of an object */
};

struct ck_walk {
    struct ck_rebuild *rebuild;   /* borrowed */
    struct ck_findings *findings; /* borrowed */
    struct ck_node *nodes;
    uint32_t n_nodes, nodes_capacity;
    struct ck_leaf *leaves;
    uint32_t n_leaves, leaves_capacity;
    uint64_t storages; /* met on the way, without a tensor around them */
};

/* What counts as a weight in the sizes of nodes. Arrays of numpy beside tensors are data or statistics as a rule, and
 * attributes of objects that are no modules are the state of some program (scikit-learn, VecNormalize ...). */
enum ck_walk_level {
    CK_WALK_TENSORS,
    CK_WALK_ARRAYS, /* also arrays in dicts and lists */
    CK_WALK_ALL,
};

/* Walks from the root of rebuild->pickle. entry names the pickle in findings (a key that occurs twice, nesting that is
 * not looked into). Returns 0; CK_E_TENSOR_LIMIT (tensors, dims, model_memory); CK_E_PICKLE_LIMIT naming the setting;
 * CK_E_OUT_OF_MEMORY. The caller releases ret_walk in either case. */
int ck_walk_run(struct ck_rebuild *rebuild, const char *entry, struct ck_findings *findings, struct ck_walk *ret_walk,
                struct ck_error *err);

/* Fills the sizes of all nodes; ck_walk_run() leaves them at CK_WALK_TENSORS. */
void ck_walk_count(struct ck_walk *walk, enum ck_walk_level level);

/* True if `edge`'s owner lies below node, or is it, on a way that a state dict of node takes. */
bool ck_walk_in_state(const struct ck_edge *edge, uint32_t node);

/* Accepts a zeroed struct. */
void ck_walk_release(struct ck_walk *walk);

#endif
