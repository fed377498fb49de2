#include "core/model/walk.h"

#include <inttypes.h>
#include <string.h>

#include "core/model/memory.h"
#include "core/model/modules.h"
#include "core/model/numpy.h"

/* Marks of a value. */
#define ON_STACK 1u /* being walked: met again it is a cycle */
#define SEEN     2u /* was walked on a way that is taken once only */
#define BARREN   4u /* nothing below it is of interest */

enum section_role { PLAIN, PARAMETERS, BUFFERS, ATTRIBUTES, SCRIPT, STATE };

/* One list of members of a container. */
struct section {
    struct ck_pickle_walk walk;
    enum section_role role;
    bool pairs; /* keys and values; else items */
    bool once;  /* containers below are walked only if they were not yet */
    bool aside; /* below is no part of the module's state dict */
};

#define SECTIONS_MAX 6

struct frame {
    struct section sections[SECTIONS_MAX];
    struct ck_strmap non_persistent; /* names of buffers */
    ck_ref ref;
    uint32_t node, position;
    uint8_t n_sections, at;
    bool once;
    bool attribute; /* below the attributes of an object that is no module */
    bool cut;       /* something below was not walked: no judgement about the whole */
};

struct walker {
    struct ck_walk *walk;
    const struct ck_pickle *pickle;
    const struct ck_limits *limits;
    const char *entry;
    uint8_t *marks; /* for each value */
    struct frame *frames;
    uint32_t n_frames, frames_capacity;
    uint64_t steps;
    bool deep; /* the finding about nesting was made */
};

static void walker_release(struct walker *w) {
    for (uint32_t i = 0; i < w->n_frames; i++)
        ck_strmap_release(&w->frames[i].non_persistent);
    free(w->frames);
    free(w->marks);
}

void ck_walk_release(struct ck_walk *walk) {
    free(walk->nodes);
    free(walk->leaves);
    *walk = (struct ck_walk){0};
}

bool ck_walk_in_state(const struct ck_edge *edge, uint32_t node) {
    /* Nodes are in preorder: a module at or behind `node` that lies above the edge lies below `node`. */
    return edge->aside == CK_NO_INDEX || edge->aside < node;
}

static int out_of_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the tensors");
}

static int spend(struct walker *w, uint64_t steps, struct ck_error *err) {
    w->steps += steps;
    if (w->steps <= w->limits->pickle_opcodes)
        return 0;
    return ck_error_set(err, CK_E_PICKLE_LIMIT, w->entry,
                        "its values are shared so often that looking at them takes more than %" PRIu64
                        " steps (--limit-pickle-opcodes)",
                        w->limits->pickle_opcodes);
}

static struct section *add_section(struct frame *frame, enum section_role role, bool pairs, bool once, bool aside) {
    struct section *section = &frame->sections[frame->n_sections++];

    *section = (struct section){.role = role, .pairs = pairs, .once = once, .aside = aside};
    return section;
}

/* Adds the members if the value has any; drops the section again if not. */
static bool add_members(struct frame *frame, const struct ck_pickle *pickle, ck_ref ref, enum section_role role,
                        bool pairs, bool once, bool aside) {
    struct section *section = add_section(frame, role, pairs, once, aside);

    if ((pairs ? ck_pickle_pairs : ck_pickle_items)(pickle, ref, &section->walk) &&
        section->walk.count[0] + section->walk.count[1] > 0)
        return true;
    frame->n_sections--;
    return false;
}

/* The names in _non_persistent_buffers_set: looked up for each buffer, so kept in a map. */
static int read_names(const struct ck_pickle *pickle, ck_ref ref, struct ck_strmap *names, struct ck_error *err) {
    struct ck_pickle_walk walk;
    ck_ref item;

    if (!ck_pickle_items(pickle, ref, &walk))
        return 0;
    while (ck_pickle_next_item(&walk, &item)) {
        const struct ck_value *value = ck_pickle_get(pickle, item);

        if (value->kind == CK_VALUE_TEXT && value->bytes.data &&
            !ck_strmap_set(names, (const char *)value->bytes.data, 1))
            return out_of_memory(err);
    }
    return 0;
}

/* What torch would put into a state dict, in its order, then everything else that hangs on the object. */
static int open_module(struct walker *w, struct frame *frame, const struct ck_module_state *state,
                       struct ck_error *err) {
    if (state->script) {
        bool pairs = ck_pickle_get(w->pickle, state->attributes)->kind == CK_VALUE_DICT;

        add_members(frame, w->pickle, state->attributes, SCRIPT, pairs, false, false);
        return 0;
    }
    add_members(frame, w->pickle, state->parameters, PARAMETERS, true, false, false);
    add_members(frame, w->pickle, state->buffers, BUFFERS, true, false, false);
    add_members(frame, w->pickle, state->modules, PLAIN, true, false, false);
    add_members(frame, w->pickle, state->attributes, ATTRIBUTES, true, true, true);
    return read_names(w->pickle, state->non_persistent, &frame->non_persistent, err);
}

/* An object that is no module: what was set and appended, its attributes, and what it was called with. */
static enum ck_node_kind open_call(struct walker *w, struct frame *frame) {
    const struct ck_value *call = ck_pickle_get(w->pickle, frame->ref);
    const struct ck_value *state = ck_pickle_get(w->pickle, call->call.state);
    bool pairs, items, argument = false;

    pairs = add_members(frame, w->pickle, frame->ref, PLAIN, true, frame->once, false);
    if (pairs)
        argument = frame->sections[frame->n_sections - 1].walk.count[0] > 0;
    items = add_members(frame, w->pickle, frame->ref, PLAIN, false, frame->once, false);
    if (items)
        argument = argument || frame->sections[frame->n_sections - 1].walk.count[0] > 0;
    if (state->kind == CK_VALUE_TUPLE && state->list.count == 2 &&
        ck_pickle_get(w->pickle, state->list.items[1])->kind == CK_VALUE_DICT) {
        add_members(frame, w->pickle, state->list.items[0], STATE, true, true, false);
        add_members(frame, w->pickle, state->list.items[1], STATE, true, true, false);
    } else if (!add_members(frame, w->pickle, call->call.state, STATE, true, true, false)) {
        add_members(frame, w->pickle, call->call.state, STATE, false, true, false);
    }
    if (!argument)
        add_members(frame, w->pickle, call->call.arguments, PLAIN, false, true, false);
    return pairs ? CK_NODE_MAP : items ? CK_NODE_SEQUENCE : CK_NODE_OBJECT;
}

static int open_frame(struct walker *w, struct frame *frame, enum ck_node_kind *ret_kind, struct ck_error *err) {
    enum ck_value_kind kind = (enum ck_value_kind)ck_pickle_get(w->pickle, frame->ref)->kind;
    struct ck_module_state state;
    ck_ref items = frame->ref;

    if (kind == CK_VALUE_DICT) {
        add_members(frame, w->pickle, frame->ref, PLAIN, true, frame->once, false);
        *ret_kind = CK_NODE_MAP;
        return 0;
    }
    if ((kind != CK_VALUE_CALL && kind != CK_VALUE_PERSISTENT) || ck_numpy_objects(w->pickle, frame->ref, &items)) {
        add_members(frame, w->pickle, items, PLAIN, false, frame->once, false);
        *ret_kind = CK_NODE_SEQUENCE;
        return 0;
    }
    if (ck_module_recognise(w->pickle, frame->ref, &state)) {
        *ret_kind = CK_NODE_MODULE;
        return open_module(w, frame, &state, err);
    }
    *ret_kind = open_call(w, frame);
    return 0;
}

static bool may_be_walked(struct walker *w, ck_ref ref, bool once) {
    struct frame *parent = w->n_frames > 0 ? &w->frames[w->n_frames - 1] : NULL;
    uint8_t mark = w->marks[ref];

    if (mark & BARREN)
        return false;
    if ((mark & ON_STACK) || (once && (mark & SEEN)) || w->n_frames >= w->limits->pickle_depth) {
        if (parent)
            parent->cut = true;
        if (!(mark & (ON_STACK | SEEN)) && !w->deep) {
            w->deep = true;
            ck_findings_add(w->walk->findings, CK_FINDING_STRUCTURE, w->entry, 0, "", "",
                            "values are nested deeper than --limit-pickle-depth and were not all looked into", false);
        }
        return false;
    }
    return true;
}

/* True for what hangs on the attributes of an object that is no module, and for all below it. */
static bool is_attribute(const struct walker *w, const struct section *section) {
    return section && (section->role == STATE || w->frames[w->n_frames - 1].attribute);
}

static int push(struct walker *w, ck_ref ref, const struct ck_edge *edge, const struct section *section,
                struct ck_error *err) {
    bool once = section && section->once, attribute = is_attribute(w, section);
    struct ck_walk *walk = w->walk;
    enum ck_node_kind kind;
    struct frame *frame;
    int r;

    if (!may_be_walked(w, ref, once))
        return 0;
    if (walk->n_nodes >= w->limits->tensors)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, w->entry,
                            "it has more than %" PRIu64 " modules and containers of tensors (--limit-tensors)",
                            w->limits->tensors);
    if (!ck_grow((void **)&walk->nodes, walk->n_nodes, &walk->nodes_capacity, sizeof(*walk->nodes)) ||
        !ck_grow((void **)&w->frames, w->n_frames, &w->frames_capacity, sizeof(*w->frames)))
        return out_of_memory(err);
    frame = &w->frames[w->n_frames++];
    *frame = (struct frame){.ref = ref, .node = walk->n_nodes, .once = once, .attribute = attribute};
    r = open_frame(w, frame, &kind, err);
    if (r < 0)
        return r;
    walk->nodes[walk->n_nodes++] =
        (struct ck_node){.edge = *edge, .ref = ref, .kind = kind, .first_leaf = walk->n_leaves};
    w->marks[ref] |= once ? ON_STACK | SEEN : ON_STACK;
    return 0;
}

static int add_leaf(struct walker *w, const struct ck_leaf *leaf, struct ck_error *err) {
    struct ck_walk *walk = w->walk;

    if (walk->n_leaves >= w->limits->tensors)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, w->entry, "it has more than %" PRIu64 " tensors (--limit-tensors)",
                            w->limits->tensors);
    if (!ck_grow((void **)&walk->leaves, walk->n_leaves, &walk->leaves_capacity, sizeof(*walk->leaves)))
        return out_of_memory(err);
    walk->leaves[walk->n_leaves++] = *leaf;
    return 0;
}

static bool is_persistent(const struct walker *w, const struct frame *frame, ck_ref key) {
    const struct ck_value *name = ck_pickle_get(w->pickle, key);
    uint32_t one;

    return name->kind != CK_VALUE_TEXT || !name->bytes.data ||
           !ck_strmap_get(&frame->non_persistent, (const char *)name->bytes.data, &one);
}

/* An attribute of a TorchScript module that is a list or a dict of tensors: no part of its state dict (an LSTM's
 * _flat_weights repeats the weights). */
static bool is_script_container(const struct walker *w, const struct section *section, ck_ref ref) {
    enum ck_value_kind kind = (enum ck_value_kind)ck_pickle_get(w->pickle, ref)->kind;

    return section->role == SCRIPT && section->pairs && kind != CK_VALUE_CALL;
}

/* A member of the container on top of the stack, or the root. */
static int visit(struct walker *w, ck_ref ref, const struct ck_edge *edge, const struct section *section,
                 struct ck_error *err) {
    enum section_role role = section ? section->role : PLAIN;
    struct ck_leaf leaf = {.edge = *edge, .persistent = true};
    struct ck_module_state state;
    int r;

    switch (ck_pickle_get(w->pickle, ref)->kind) {
    case CK_VALUE_PERSISTENT:
    case CK_VALUE_CALL:
        r = ck_rebuild_tensor(w->walk->rebuild, ref, &leaf.tensor, err);
        if (r < 0)
            return r;
        if (leaf.tensor != CK_NO_INDEX) {
            leaf.parameter = role == PARAMETERS;
            leaf.array = w->walk->rebuild->tensors[leaf.tensor].array;
            leaf.attribute = leaf.array && is_attribute(w, section);
            leaf.persistent = role != BUFFERS || is_persistent(w, &w->frames[w->n_frames - 1], edge->key);
            return add_leaf(w, &leaf, err);
        }
        if (ck_pickle_get(w->pickle, ref)->kind == CK_VALUE_PERSISTENT &&
            !ck_module_recognise(w->pickle, ref, &state)) {
            w->walk->storages += ck_storage_id_is(w->pickle, ref);
            return 0;
        }
        return push(w, ref, edge, section, err);
    case CK_VALUE_DICT:
    case CK_VALUE_LIST:
    case CK_VALUE_TUPLE:
    case CK_VALUE_SET:
        return push(w, ref, edge, section, err);
    default:
        return 0;
    }
}

/* Keys that cannot be looked up as C text are never equal to another. */
static const char *plain_key(const struct ck_pickle *pickle, ck_ref key) {
    const struct ck_value *value = key != CK_NO_INDEX ? ck_pickle_get(pickle, key) : NULL;

    if (!value || value->kind != CK_VALUE_TEXT || !value->bytes.data ||
        strlen((const char *)value->bytes.data) != value->bytes.length)
        return NULL;
    return (const char *)value->bytes.data;
}

static void supersede(const struct ck_pickle *pickle, const struct ck_strmap *last, uint32_t node, uint8_t section,
                      struct ck_edge *edge) {
    const char *key = edge->parent == node && edge->section == section ? plain_key(pickle, edge->key) : NULL;
    uint32_t position;

    if (key && ck_strmap_get(last, key, &position) && position != edge->position)
        edge->superseded = true;
}

/* A key that occurs twice in one mapping: Python keeps the later value, so the earlier is no part of the model. */
static int find_repeated_keys(struct walker *w, const struct frame *frame, uint8_t at, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap last = {0};
    struct ck_pickle_walk walk = frame->sections[at].walk;
    struct ck_walk *tree = w->walk;
    uint32_t position = 0, keys = 0;
    ck_ref key, value;
    int r;

    walk.part = walk.next = 0;
    r = spend(w, walk.count[0] + (uint64_t)walk.count[1], err);
    if (r < 0)
        return r;
    for (; ck_pickle_next_pair(&walk, &key, &value); position++) {
        const char *name = plain_key(w->pickle, key);

        keys += name != NULL;
        if (name && !ck_strmap_set(&last, name, position))
            return out_of_memory(err);
    }
    if (last.count == keys)
        return 0;
    r = spend(w, tree->n_nodes - frame->node + (uint64_t)tree->n_leaves - tree->nodes[frame->node].first_leaf, err);
    if (r < 0)
        return r;
    for (uint32_t i = frame->node + 1; i < tree->n_nodes; i++)
        supersede(w->pickle, &last, frame->node, at, &tree->nodes[i].edge);
    for (uint32_t i = tree->nodes[frame->node].first_leaf; i < tree->n_leaves; i++)
        supersede(w->pickle, &last, frame->node, at, &tree->leaves[i].edge);
    ck_findings_add(tree->findings, CK_FINDING_STRUCTURE, w->entry, 0, "", "",
                    "a key occurs twice in one dictionary; the later value counts", false);
    return 0;
}

static int pop(struct walker *w, struct ck_error *err) {
    struct frame *frame = &w->frames[w->n_frames - 1];
    struct ck_walk *walk = w->walk;
    struct ck_node *node = &walk->nodes[frame->node];
    bool empty = walk->n_leaves == node->first_leaf && walk->n_nodes == frame->node + 1;
    int r;

    for (uint8_t i = 0; !empty && i < frame->n_sections; i++) {
        if (!frame->sections[i].pairs || frame->sections[i].walk.count[0] + frame->sections[i].walk.count[1] < 2)
            continue;
        r = find_repeated_keys(w, frame, i, err);
        if (r < 0)
            return r;
    }
    node->n_nodes = walk->n_nodes - frame->node;
    node->n_leaves = walk->n_leaves - node->first_leaf;
    w->marks[frame->ref] &= (uint8_t)~ON_STACK;
    if (empty && node->kind != CK_NODE_MODULE) {
        walk->n_nodes--;
        if (!frame->cut)
            w->marks[frame->ref] |= BARREN;
    }
    if (frame->cut && w->n_frames > 1)
        frame[-1].cut = true;
    ck_strmap_release(&frame->non_persistent);
    w->n_frames--;
    return 0;
}

/* The next member of the frame's current section; false at its end. */
static bool next_member(struct section *section, ck_ref *ret_key, ck_ref *ret_value) {
    *ret_key = CK_NO_INDEX;
    return section->pairs ? ck_pickle_next_pair(&section->walk, ret_key, ret_value)
                          : ck_pickle_next_item(&section->walk, ret_value);
}

static int step(struct walker *w, struct ck_error *err) {
    struct frame *frame = &w->frames[w->n_frames - 1];
    struct ck_node *node = &w->walk->nodes[frame->node];
    struct section section; /* visiting may move the frames */
    struct ck_edge edge;
    ck_ref key, value;
    int r;

    if (frame->at >= frame->n_sections)
        return pop(w, err);
    if (!next_member(&frame->sections[frame->at], &key, &value)) {
        frame->at++;
        frame->position = 0;
        return 0;
    }
    r = spend(w, 1, err);
    if (r < 0)
        return r;
    section = frame->sections[frame->at];
    value = ck_script_value(w->pickle, value);
    section.aside = section.aside || is_script_container(w, &section, value);
    if (ck_script_object(w->pickle, value, &value))
        section.once = section.aside = false;
    edge = (struct ck_edge){.parent = frame->node,
                            .key = key,
                            .position = frame->position++,
                            .section = frame->at,
                            .aside = section.aside ? frame->node : node->edge.aside};
    if (section.role == ATTRIBUTES && ck_module_is_structural(w->pickle, key))
        return 0;
    if (!section.aside)
        node->members++;
    return visit(w, value, &edge, &section, err);
}

/* Bytes of a tensor, but not more than its storage really has (expanded views), and at least 1: small tensors count
 * too. */
static uint64_t weight_of(const struct ck_rebuild *rebuild, const struct ck_rebuilt *tensor) {
    uint64_t bytes;

    if (tensor->error != 0)
        return 1;
    bytes = CK_MIN(ck_view_bytes(&tensor->view), rebuild->storages[tensor->storage].source.length);
    return CK_MAX(bytes, 1u);
}

/* Sizes of subtrees, from the leaves upwards; what is superseded stays out, and so does all below it. */
void ck_walk_count(struct ck_walk *walk, enum ck_walk_level level) {
    for (uint32_t i = 0; i < walk->n_nodes; i++) {
        struct ck_edge *edge = &walk->nodes[i].edge;

        walk->nodes[i].direct = walk->nodes[i].tensors = 0;
        walk->nodes[i].direct_bytes = walk->nodes[i].bytes = 0;
        edge->superseded =
            edge->superseded || (edge->parent != CK_NO_INDEX && walk->nodes[edge->parent].edge.superseded);
    }
    for (uint32_t i = 0; i < walk->n_leaves; i++) {
        struct ck_edge *edge = &walk->leaves[i].edge;
        const struct ck_rebuilt *tensor = &walk->rebuild->tensors[walk->leaves[i].tensor];
        struct ck_node *node = edge->parent != CK_NO_INDEX ? &walk->nodes[edge->parent] : NULL;

        if (!node)
            continue;
        edge->superseded = edge->superseded || node->edge.superseded;
        if (edge->superseded || edge->aside == edge->parent || (walk->leaves[i].array && level < CK_WALK_ARRAYS) ||
            (walk->leaves[i].attribute && level < CK_WALK_ALL))
            continue;
        node->direct++;
        node->direct_bytes += weight_of(walk->rebuild, tensor);
    }
    for (uint32_t i = walk->n_nodes; i-- > 0;) {
        struct ck_node *node = &walk->nodes[i];
        struct ck_node *parent = node->edge.parent != CK_NO_INDEX ? &walk->nodes[node->edge.parent] : NULL;

        node->tensors += node->direct;
        node->bytes += node->direct_bytes;
        if (!parent || node->edge.aside == node->edge.parent || (node->edge.superseded && !parent->edge.superseded))
            continue;
        parent->tensors += node->tensors;
        parent->bytes += node->bytes;
    }
}

int ck_walk_run(struct ck_rebuild *rebuild, const char *entry, struct ck_findings *findings, struct ck_walk *ret_walk,
                struct ck_error *err) {
    _cleanup_(walker_release) struct walker w = {
        .walk = ret_walk, .pickle = rebuild->pickle, .limits = rebuild->limits, .entry = entry};
    struct ck_edge root = {.parent = CK_NO_INDEX, .key = CK_NO_INDEX, .aside = CK_NO_INDEX};
    int r;

    *ret_walk = (struct ck_walk){.rebuild = rebuild, .findings = findings};
    rebuild->findings = findings;
    rebuild->entry = entry;
    w.marks = calloc(CK_MAX(rebuild->pickle->count, 1u), 1);
    if (!w.marks)
        return out_of_memory(err);
    r = visit(&w, rebuild->pickle->root, &root, NULL, err);
    while (r == 0 && w.n_frames > 0)
        r = step(&w, err);
    if (r == 0)
        ck_walk_count(ret_walk, CK_WALK_TENSORS);
    if (r == 0 && ret_walk->storages > 0 && ret_walk->n_leaves > 0)
        ck_findings_add(findings, CK_FINDING_STRUCTURE, entry, 0, "", "",
                        "storages without a tensor around them are left out", false);
    return r;
}
