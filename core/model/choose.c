#include "core/model/choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/json_write.h"
#include "core/model/candidates.h"
#include "core/model/memory.h"
#include "core/model/names.h"

#define LEVELS_MAX 8 /* wrappers that are entered, one in the other */

/* A rival this many times smaller is no rival. */
#define CLEARLY_SMALLER 10

/* Names that begin like layers: a mapping with such keys is one nested state dict. */
static const char *const layer_words[] = {"layer", "block", "conv", "fc",   "lin",   "norm", "bn",
                                          "ln",    "embed", "attn", "head", "stage", "down", "up"};

/* Names of tensors inside one layer. */
static const char *const leaf_words[] = {"weight", "bias",  "running_", "num_batches_tracked", "in_proj_", "kernel",
                                         "scale",  "gamma", "beta"};

static bool begins(const char *text, const char *word) {
    return strncasecmp(text, word, strlen(word)) == 0;
}

/* True if the mapping has names of its own kind ("conv.weight"): a state dict rather than one level of nested names. */
static bool is_flat(const struct ck_chooser *c, uint32_t node) {
    const struct ck_node *n = &c->walk->nodes[node];

    if (n->kind == CK_NODE_MODULE)
        return true;
    for (uint32_t i = n->first_leaf; i < n->first_leaf + n->n_leaves; i++) {
        const struct ck_edge *edge = &c->walk->leaves[i].edge;

        if (edge->parent == node && strchr(ck_chooser_key_text(c->pickle, edge), '.'))
            return true;
    }
    return false;
}

static bool is_word(const char *text, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (begins(text, words[i]))
            return true;
    return false;
}

/* True if all that lies below is nested names of one model: kids named like layers, tensors like the parameters of a
 * layer. */
static bool is_nested_state(const struct ck_chooser *c, uint32_t node) {
    const struct ck_node *n = &c->walk->nodes[node];
    uint32_t layers = 0;

    for (uint32_t i = 0; i < c->n_kids; i++) {
        const char *key = ck_chooser_key(c, c->kids[i]);

        layers += strpbrk(key, "0123456789") || is_word(key, layer_words, CK_ARRAY_LEN(layer_words));
    }
    if (layers * 2 < c->n_kids)
        return false;
    for (uint32_t i = node + 1; i < node + n->n_nodes; i++)
        if (c->walk->nodes[i].kind != CK_NODE_MAP ||
            strchr(ck_chooser_key_text(c->pickle, &c->walk->nodes[i].edge), '.'))
            return false;
    for (uint32_t i = n->first_leaf; i < n->first_leaf + n->n_leaves; i++) {
        const char *key = ck_chooser_key_text(c->pickle, &c->walk->leaves[i].edge);

        if (strchr(key, '.') || !is_word(key, leaf_words, CK_ARRAY_LEN(leaf_words)))
            return false;
    }
    return true;
}

/* True if `average` is `key` with an "ema" before or behind it. */
static bool is_average_of(const char *average, const char *key) {
    size_t n = strlen(average), k = strlen(key);

    if (n != k + 4)
        return false;
    return (strncmp(average, key, k) == 0 && strcasecmp(average + k, "_ema") == 0) ||
           (begins(average, "ema_") && strcmp(average + 4, key) == 0);
}

static bool names_average(const char *key) {
    size_t n = strlen(key);

    return begins(key, "ema_") || (n > 4 && strcasecmp(key + n - 4, "_ema") == 0);
}

/* What the option calls a candidate. The first of several pickles has no name in paths. */
static const char *candidate_path(const struct ck_chooser *c, uint32_t node) {
    return node > 0 && ck_edge_is_nameless(c->walk, &c->walk->nodes[node].edge) ? "#0" : c->paths[node];
}

/* The candidates as text and as JSON. */
static int refuse(const struct ck_chooser *c, int code, const char *prefix, const uint32_t *nodes, uint32_t n,
                  struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer list, details;
    struct ck_json json;
    uint32_t shown = 0;

    ck_buffer_init(&list, sizeof(err->message) - 200);
    ck_buffer_init(&details, sizeof(err->details) - 1);
    ck_json_init(&json, ck_json_sink_buffer, &details, NULL);
    ck_json_array_begin(&json);
    for (size_t used = 2; shown < n; shown++) {
        const char *path = candidate_path(c, nodes[shown]);

        /* A byte of a path becomes six characters of JSON at most. */
        used += 6 * strlen(path) + 3;
        if (used >= sizeof(err->details) - 1 ||
            !ck_buffer_printf(&list, "%s%.200s (%u tensors)", shown > 0 ? ", " : "", *path ? path : "the root",
                              c->walk->nodes[nodes[shown]].tensors))
            break;
        ck_json_string(&json, path);
    }
    ck_json_array_end(&json);
    ck_json_finish(&json);
    if (shown < n)
        ck_buffer_add_text(&list, " ...");
    ck_error_set(err, code, "state_dict", "%s: %s", prefix, ck_buffer_text(&list));
    if (err && err->code == code && !err->details[0])
        snprintf(err->details, sizeof(err->details), "%s", ck_buffer_text(&details));
    return code;
}

static int ask(const struct ck_chooser *c, struct ck_error *err) {
    int r = refuse(c, CK_E_AMBIGUOUS_STATE_DICT, "the file holds several sets of weights", c->kids, c->n_kids, err);

    ck_error_set_hint(err, "name one with the option state_dict=PATH; state_dict=. takes everything from the root");
    return r;
}

/* Keeps the kids that are at least a tenth of the largest, each value once. */
static void drop_small_kids(struct ck_chooser *c) {
    const struct ck_node *nodes = c->walk->nodes;
    uint64_t most = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->n_kids; i++)
        most = CK_MAX(most, nodes[c->kids[i]].bytes);
    for (uint32_t i = 0; i < c->n_kids; i++) {
        uint32_t kid = c->kids[i];

        if (nodes[kid].bytes < most / CLEARLY_SMALLER || (kept > 0 && nodes[c->kids[kept - 1]].ref == nodes[kid].ref))
            continue;
        c->kids[kept++] = kid;
    }
    c->n_kids = kept;
}

/* The first usual key among the kids: its row, or the end of the table. */
static size_t find_usual(const struct ck_chooser *c, uint32_t *ret_kid) {
    size_t row = 0;

    for (; ck_usual_keys[row].key; row++) {
        *ret_kid = ck_chooser_find(c, ck_usual_keys[row].key);
        if (*ret_kid != CK_NO_INDEX)
            break;
    }
    return row;
}

/* Rule 3. CK_NO_INDEX: no usual key. */
static int pick_by_key(const struct ck_chooser *c, uint32_t *ret_node, struct ck_error *err) {
    uint32_t average = ck_chooser_find(c, "ema"), kid;
    size_t row = find_usual(c, &kid);

    *ret_node = kid;
    if (kid == CK_NO_INDEX)
        return 0;
    if (strcmp(ck_usual_keys[row].key, "model") == 0 && c->walk->nodes[kid].kind == CK_NODE_MODULE &&
        average != CK_NO_INDEX && c->walk->nodes[average].kind == CK_NODE_MODULE) {
        *ret_node = average;
        return 0;
    }
    if (ck_usual_keys[row].kind != CK_KEY_PART || c->n_kids == 1 || names_average(ck_usual_keys[row].key))
        return 0;
    for (uint32_t i = 0; i < c->n_kids; i++)
        if (is_average_of(ck_chooser_key(c, c->kids[i]), ck_usual_keys[row].key)) {
            *ret_node = c->kids[i];
            return 0;
        }
    return ask(c, err);
}

/* Which kid to enter once a key was followed, or CK_NO_INDEX to stay: nested names are the rule here. */
static uint32_t pick_inside(const struct ck_chooser *c, uint32_t node) {
    for (size_t i = 0; ck_usual_keys[i].key && ck_usual_keys[i].kind == CK_KEY_WRAPPER; i++) {
        uint32_t kid = ck_chooser_find(c, ck_usual_keys[i].key);

        if (kid != CK_NO_INDEX)
            return kid;
    }
    if (c->n_kids != 1 || c->walk->nodes[node].direct > 0)
        return CK_NO_INDEX;
    if (c->walk->nodes[node].kind == CK_NODE_SEQUENCE)
        return c->kids[0];
    for (size_t i = 0; ck_usual_keys[i].key; i++)
        if (ck_usual_keys[i].kind == CK_KEY_WHOLE && strcmp(ck_chooser_key(c, c->kids[0]), ck_usual_keys[i].key) == 0)
            return c->kids[0];
    return CK_NO_INDEX;
}

/* Rules 4 and 5. CK_NO_INDEX: the node itself is it. */
static int pick_by_size(struct ck_chooser *c, uint32_t node, uint32_t level, uint32_t *ret_node, struct ck_error *err) {
    uint32_t flat = 0;
    uint64_t below = 0;

    *ret_node = CK_NO_INDEX;
    for (uint32_t i = 0; i < c->n_kids; i++)
        below += c->walk->nodes[c->kids[i]].bytes;
    if (below < c->walk->nodes[node].direct_bytes || (level == 0 && c->n_kids > 1 && is_nested_state(c, node)))
        return 0;
    drop_small_kids(c);
    for (uint32_t i = 0; i < c->n_kids; i++)
        flat += is_flat(c, c->kids[i]);
    /* Inside a wrapper, several mappings without names of their own kind are the nested names of one model. */
    if (c->n_kids > 1 && level > 0 && flat < 2)
        return 0;
    if (c->n_kids > 1)
        return ask(c, err);
    *ret_node = c->kids[0];
    return 0;
}

/* The kid of node to enter, or CK_NO_INDEX to stay. *named: a usual key was followed before, and below it names are
 * nested as a rule. */
static int pick(struct ck_chooser *c, uint32_t node, uint32_t level, bool *named, uint32_t *ret_node,
                struct ck_error *err) {
    uint32_t usual;

    *ret_node = level > 0 ? pick_inside(c, node) : CK_NO_INDEX;
    if (*ret_node != CK_NO_INDEX)
        *named = true;
    if (*named)
        return 0;
    find_usual(c, &usual);
    if (usual == CK_NO_INDEX || (level > 0 && !is_flat(c, usual)))
        return pick_by_size(c, node, level, ret_node, err);
    *named = true;
    return pick_by_key(c, ret_node, err);
}

static const char *root_reason(enum ck_node_kind kind) {
    switch (kind) {
    case CK_NODE_MODULE:
        return "the root is a module";
    case CK_NODE_SEQUENCE:
        return "the root is a list of tensors";
    case CK_NODE_OBJECT:
        return "the root is an object with tensors";
    default:
        return "the root maps names to tensors";
    }
}

static int no_tensors(const struct ck_walk *walk, const char *what, struct ck_error *err) {
    uint32_t attributes = 0;

    for (uint32_t i = 0; i < walk->n_leaves; i++)
        attributes += walk->leaves[i].attribute;
    if (attributes > 0) {
        ck_error_set(err, CK_E_NO_TENSORS, NULL,
                     "the file holds %u numpy arrays, which are attributes of objects, and no set of weights",
                     attributes);
        ck_error_set_hint(err, "state_dict=. takes the arrays all the same");
        return CK_E_NO_TENSORS;
    }
    if (walk->storages > 0) {
        ck_error_set(err, CK_E_NO_TENSORS, NULL, "the file holds %" PRIu64 " bare storages and no tensors",
                     walk->storages);
        ck_error_set_hint(err, "make tensors of the storages with torch.tensor and save those");
        return CK_E_NO_TENSORS;
    }
    return ck_error_set(err, CK_E_NO_TENSORS, NULL, "%s", what);
}

/* Follows rules 2 to 5 from the root. */
static int choose_by_rules(struct ck_chooser *c, struct ck_arena *arena, struct ck_choice *ret_choice,
                           struct ck_error *err) {
    const struct ck_node *nodes = c->walk->nodes;
    const char *why = root_reason(nodes[0].kind);
    uint32_t node = 0, next;
    bool named = false;
    int r;

    if (ck_chooser_is_optimizer(c, 0))
        return no_tensors(c->walk, "the file holds the state of an optimizer and no weights", err);
    for (uint32_t level = 0; level < LEVELS_MAX; level++) {
        r = ck_chooser_collect(c, node, err);
        if (r < 0)
            return r;
        if (nodes[node].kind == CK_NODE_MODULE ? nodes[node].tensors == 0 : c->n_kids == 0 && nodes[node].direct == 0)
            return no_tensors(c->walk, "the file holds tensors of optimizers and the like, but no weights", err);
        if (c->n_kids == 0 || ck_chooser_is_weights(c, node))
            break;
        r = pick(c, node, level, &named, &next, err);
        if (r < 0)
            return r;
        if (next == CK_NO_INDEX)
            break;
        why = named ? ck_arena_printf(arena, "the key %s", c->paths[next]) : "the largest set of tensors";
        node = next;
    }
    *ret_choice = (struct ck_choice){.node = node, .why = why};
    return why ? 0 : ck_model_memory_spent(c->walk->rebuild->limits, err);
}

/* The node with this path; of several, the first that leads to tensors. CK_NO_INDEX if there is none. */
static uint32_t find_path(const struct ck_chooser *c, const char *path) {
    if (strcmp(path, ".") == 0)
        path = "";
    for (uint32_t i = 0; i < c->walk->n_nodes; i++)
        if (c->walk->nodes[i].tensors > 0 && !c->walk->nodes[i].edge.superseded && strcmp(c->paths[i], path) == 0)
            return i;
    return CK_NO_INDEX;
}

static int choose_by_option(struct ck_chooser *c, const char *path, struct ck_choice *ret_choice,
                            struct ck_error *err) {
    uint32_t node = find_path(c, path);

    if (node != CK_NO_INDEX) {
        *ret_choice = (struct ck_choice){.node = node, .why = "the option state_dict", .everything = true};
        return 0;
    }
    c->n_kids = 0;
    for (uint32_t i = 0; i < c->walk->n_nodes; i++) {
        const struct ck_node *parent =
            i > 0 ? &c->walk->nodes[c->walk->nodes[i].edge.parent] : NULL; /* of modules only the outermost is listed */

        if (c->walk->nodes[i].tensors == 0 || c->walk->nodes[i].edge.superseded ||
            (parent && parent->kind == CK_NODE_MODULE))
            continue;
        if (!ck_grow((void **)&c->kids, c->n_kids, &c->kids_capacity, sizeof(*c->kids)))
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the candidates");
        c->kids[c->n_kids++] = i;
    }
    return refuse(c, CK_E_STATE_DICT_NOT_FOUND, "no tensors under this path; these hold some", c->kids, c->n_kids, err);
}

static int choose(const struct ck_walk *walk, const char *const *paths, const char *path, struct ck_arena *arena,
                  struct ck_choice *ret_choice, struct ck_error *err) {
    _cleanup_(ck_chooser_release) struct ck_chooser c = {.walk = walk, .paths = paths, .pickle = walk->rebuild->pickle};

    if (walk->n_leaves == 0)
        return no_tensors(walk, "the file holds no tensors", err);
    if (walk->n_nodes == 0) {
        if (path && path[0] && strcmp(path, ".") != 0)
            return ck_error_set(err, CK_E_STATE_DICT_NOT_FOUND, "state_dict",
                                "the file is a single tensor and has no paths");
        *ret_choice = (struct ck_choice){.node = CK_NO_INDEX, .why = "the root is a tensor"};
        return 0;
    }
    return path ? choose_by_option(&c, path, ret_choice, err) : choose_by_rules(&c, arena, ret_choice, err);
}

int ck_choose(struct ck_walk *walk, const char *const *paths, const struct ck_model_options *options,
              struct ck_arena *arena, struct ck_choice *ret_choice, struct ck_error *err) {
    const char *path = options ? options->state_dict : NULL;
    struct ck_error local = {0};
    int r;

    if (path) {
        ck_walk_count(walk, CK_WALK_ALL);
        return choose(walk, paths, path, arena, ret_choice, err);
    }
    r = choose(walk, paths, NULL, arena, ret_choice, &local);
    if (r == CK_E_NO_TENSORS) {
        ck_walk_count(walk, CK_WALK_ARRAYS);
        return choose(walk, paths, NULL, arena, ret_choice, err);
    }
    if (r < 0 && err && err->code == 0)
        *err = local;
    return r;
}

/* True for a set of weights that could have been chosen instead. The node's kids are collected by it. */
static int is_alternative(struct ck_chooser *c, uint32_t node, bool *ret_is, struct ck_error *err) {
    int r = ck_chooser_collect(c, node, err);

    if (r == 0)
        *ret_is = c->walk->nodes[node].kind != CK_NODE_SEQUENCE && ck_chooser_is_weights(c, node);
    return r;
}

int ck_choose_alternatives(const struct ck_walk *walk, const char *const *paths, const struct ck_choice *choice,
                           struct ck_arena *arena, const char ***ret_paths, uint32_t *ret_n, struct ck_error *err) {
    _cleanup_(ck_chooser_release) struct ck_chooser c = {.walk = walk, .paths = paths, .pickle = walk->rebuild->pickle};
    const char **found = ck_arena_alloc_array(arena, CK_ALTERNATIVES_MAX, sizeof(*found));
    const struct ck_node *nodes = walk->nodes;
    uint32_t n = 0, i = 0;

    if (!found)
        return ck_model_memory_spent(walk->rebuild->limits, err);
    while (i < walk->n_nodes && n < CK_ALTERNATIVES_MAX) {
        bool above = i < choice->node && choice->node - i < nodes[i].n_nodes, is = false;
        int r;

        if (above) {
            i++;
            continue;
        }
        if (i != choice->node && nodes[i].tensors > 0 && !nodes[i].edge.superseded &&
            (i == 0 || !ck_chooser_excludes(&c, i))) {
            r = is_alternative(&c, i, &is, err);
            if (r < 0)
                return r;
            if (is)
                found[n] = ck_arena_strdup(arena, i == 0 ? "." : candidate_path(&c, i));
            if (is && !found[n++])
                return ck_model_memory_spent(walk->rebuild->limits, err);
            i += is ? nodes[i].n_nodes : 1;
            continue;
        }
        i += nodes[i].n_nodes;
    }
    *ret_paths = found;
    *ret_n = n;
    return 0;
}
