#include "core/model/assemble.h"

#include <string.h>

#include "core/model/memory.h"
#include "core/model/modules.h"
#include "core/model/names.h"

struct assembler {
    const struct ck_walk *walk;
    const char *const *paths;
    const struct ck_choice *choice;
    struct ck_model *model;
    uint32_t first, end; /* nodes of the chosen subtree */
    uint32_t *owner;     /* for each node of the subtree: the module it belongs to, or CK_NO_INDEX */
    bool *left_out;      /* for each node of the subtree: optimizer state and the like */
    bool *taken;         /* for each tensor of the walk: it is in the state dict */
};

static void assembler_release(struct assembler *a) {
    free(a->owner);
    free(a->left_out);
    free(a->taken);
}

static int memory_spent(const struct assembler *a, struct ck_error *err) {
    return ck_model_memory_spent(a->walk->rebuild->limits, err);
}

static int assembler_init(struct assembler *a, struct ck_error *err) {
    if (a->choice->node != CK_NO_INDEX) {
        a->first = a->choice->node;
        a->end = a->first + a->walk->nodes[a->first].n_nodes;
    }
    a->owner = malloc(((size_t)a->end - a->first + 1) * sizeof(*a->owner));
    a->left_out = calloc((size_t)a->end - a->first + 1, sizeof(*a->left_out));
    a->taken = calloc((size_t)a->walk->rebuild->n_tensors + 1, sizeof(*a->taken));
    return a->owner && a->left_out && a->taken ? 0
                                               : ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the model");
}

/* A path from the chosen root instead of the file's. */
static const char *relative(const struct assembler *a, const char *path) {
    if (ck_edge_is_nameless(a->walk, &a->walk->nodes[a->choice->node].edge))
        return path;
    return path + strlen(a->paths[a->choice->node]) + 1;
}

static int add_module(struct assembler *a, uint32_t node, struct ck_error *err) {
    struct ck_model *model = a->model;
    struct ck_module *module = &model->modules[model->n_modules];
    const struct ck_pickle *pickle = a->walk->rebuild->pickle;
    ck_ref ref = a->walk->nodes[node].ref;

    module->parent = node == a->first ? CK_NO_INDEX : a->owner[a->walk->nodes[node].edge.parent - a->first];
    module->path = node == a->first ? "" : ck_arena_strdup(&model->arena, relative(a, a->paths[node]));
    module->class_ = ck_object_class(pickle, ref, &model->arena);
    if (!module->path || !module->class_)
        return memory_spent(a, err);
    a->owner[node - a->first] = model->n_modules++;
    return ck_module_read_attributes(pickle, ref, a->walk->rebuild->limits, &model->arena, module, err);
}

static bool is_module(const struct assembler *a, uint32_t node) {
    return a->walk->nodes[node].kind == CK_NODE_MODULE && !a->left_out[node - a->first];
}

/* Which nodes are in, then the modules among them; parents come first in both. */
static int add_nodes(struct assembler *a, struct ck_error *err) {
    const struct ck_node *nodes = a->walk->nodes;
    uint32_t n_modules = 0;
    int r;

    for (uint32_t i = a->first; i < a->end; i++) {
        bool below = i > a->first;
        uint32_t parent = below ? nodes[i].edge.parent : 0;

        a->left_out[i - a->first] = below && (a->left_out[parent - a->first] || nodes[i].edge.superseded ||
                                              !ck_walk_in_state(&nodes[i].edge, a->first) ||
                                              (parent == a->first && nodes[parent].kind != CK_NODE_MODULE &&
                                               !a->choice->everything && ck_choose_excludes(a->walk, i)));
        a->owner[i - a->first] = CK_NO_INDEX;
        n_modules += is_module(a, i);
    }
    a->model->modules = ck_arena_alloc_array(&a->model->arena, n_modules, sizeof(*a->model->modules));
    if (!a->model->modules)
        return memory_spent(a, err);
    for (uint32_t i = a->first; i < a->end; i++) {
        if (i > a->first)
            a->owner[i - a->first] = a->owner[nodes[i].edge.parent - a->first];
        if (!is_module(a, i))
            continue;
        r = add_module(a, i, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_inside(const struct assembler *a, const struct ck_leaf *leaf) {
    uint32_t parent = leaf->edge.parent;

    if (a->choice->node == CK_NO_INDEX)
        return true;
    if (leaf->attribute && !a->choice->everything)
        return false;
    return parent >= a->first && parent < a->end && !a->left_out[parent - a->first] && !leaf->edge.superseded &&
           ck_walk_in_state(&leaf->edge, a->first);
}

static int add_tensor(struct assembler *a, const struct ck_leaf *leaf, struct ck_tensor *tensor, bool inside,
                      struct ck_error *err) {
    const struct ck_rebuilt *rebuilt = &a->walk->rebuild->tensors[leaf->tensor];

    *tensor = (struct ck_tensor){.path = ck_edge_path(a->walk, a->paths, &leaf->edge, &a->model->arena),
                                 .view = rebuilt->view,
                                 .storage = rebuilt->storage,
                                 .alias_of = CK_NO_INDEX,
                                 .module = CK_NO_INDEX,
                                 .quantizer = rebuilt->quantizer,
                                 .conj = rebuilt->conj,
                                 .neg = rebuilt->neg,
                                 .parameter = rebuilt->parameter || leaf->parameter,
                                 .persistent = leaf->persistent,
                                 .error = rebuilt->error,
                                 .error_message = rebuilt->error_message};
    if (!tensor->path)
        return memory_spent(a, err);
    if (!inside)
        return 0;
    a->taken[leaf->tensor] = true;
    if (ck_edge_is_nameless(a->walk, &leaf->edge))
        tensor->name = "value";
    else
        tensor->name = relative(a, tensor->path);
    if (leaf->edge.parent != CK_NO_INDEX)
        tensor->module = a->owner[leaf->edge.parent - a->first];
    return 0;
}

/* Adds the leaves of one kind to an array that just fits. */
static int add_leaves(struct assembler *a, bool inside, struct ck_tensor **array, uint32_t *count,
                      struct ck_error *err) {
    const struct ck_walk *walk = a->walk;
    uint32_t n = 0;
    int r;

    for (uint32_t i = 0; i < walk->n_leaves; i++)
        n += is_inside(a, &walk->leaves[i]) == inside;
    *array = ck_arena_alloc_array(&a->model->arena, n, sizeof(**array));
    if (!*array)
        return memory_spent(a, err);
    for (uint32_t i = 0; i < walk->n_leaves; i++) {
        const struct ck_leaf *leaf = &walk->leaves[i];

        if (is_inside(a, leaf) != inside || (!inside && (a->taken[leaf->tensor] || leaf->edge.superseded)))
            continue;
        r = add_tensor(a, leaf, &(*array)[*count], inside, err);
        if (r < 0)
            return r;
        ++*count;
    }
    return 0;
}

static int add_storages(struct assembler *a, struct ck_error *err) {
    const struct ck_rebuild *rebuild = a->walk->rebuild;
    struct ck_model *model = a->model;

    model->storages = ck_arena_alloc_array(&model->arena, rebuild->n_storages, sizeof(*model->storages));
    if (!model->storages)
        return memory_spent(a, err);
    if (rebuild->n_storages > 0)
        memcpy(model->storages, rebuild->storages, rebuild->n_storages * sizeof(*model->storages));
    model->n_storages = rebuild->n_storages;
    return 0;
}

int ck_assemble(const struct ck_walk *walk, const char *const *paths, const struct ck_choice *choice,
                struct ck_model *model, struct ck_error *err) {
    _cleanup_(assembler_release) struct assembler a = {.walk = walk, .paths = paths, .choice = choice, .model = model};
    int r;

    model->root_why = choice->why;
    model->root_path = ck_arena_strdup(&model->arena, choice->node == CK_NO_INDEX ? "" : paths[choice->node]);
    if (!model->root_path)
        return memory_spent(&a, err);
    r = assembler_init(&a, err);
    if (r == 0)
        r = add_storages(&a, err);
    if (r == 0 && choice->node != CK_NO_INDEX)
        r = add_nodes(&a, err);
    if (r == 0)
        r = add_leaves(&a, true, &model->tensors, &model->n_tensors, err);
    if (r == 0)
        r = add_leaves(&a, false, &model->outside, &model->n_outside, err);
    return r < 0 ? r : ck_find_aliases(model, err);
}
