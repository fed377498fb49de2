#include "core/mlx/names.h"

#include <stdio.h>
#include <string.h>

#include "core/base/strmap.h"

#define TRIES_MAX 100 /* siblings that would get one name */

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the names of the model need too much memory");
}

/* Wrappers that may stand at any depth: torch.compile, FSDP, activation checkpointing. */
static const char *const wrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."};

/* True if `word` stands at the start of a component. */
static char *find_component(char *name, const char *word) {
    for (char *p = strstr(name, word); p; p = strstr(p + 1, word))
        if (p == name || p[-1] == '.')
            return p;
    return NULL;
}

static bool remove_wrappers(char *name) {
    bool changed = false;

    for (size_t i = 0; i < CK_ARRAY_LEN(wrappers); i++) {
        char *p;

        while ((p = find_component(name, wrappers[i])) != NULL) {
            memmove(p, p + strlen(wrappers[i]), strlen(p + strlen(wrappers[i])) + 1);
            changed = true;
        }
    }
    return changed;
}

static bool note_rename(struct ck_plan *plan, const char *from, const char *to, const char *why) {
    struct ck_plan_rename *rename = ck_plan_add_rename(plan);

    if (!rename)
        return false;
    *rename = (struct ck_plan_rename){.from = from, .to = to, .why = why};
    return true;
}

/* DataParallel and DistributedDataParallel put `module.` before everything; a model may also have a child of that name,
 * so it goes only when no name lacks it. */
static void remove_module_prefix(const char **names, uint32_t n) {
    static const char prefix[] = "module.";

    for (;;) {
        for (uint32_t i = 0; i < n; i++)
            if (strncmp(names[i], prefix, sizeof(prefix) - 1) != 0 || names[i][sizeof(prefix) - 1] == 0)
                return;
        for (uint32_t i = 0; i < n; i++)
            names[i] += sizeof(prefix) - 1;
    }
}

static int check_distinct(const struct ck_plan *plan, const char *const *names, uint32_t n, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap seen = {0};

    for (uint32_t i = 0; i < n; i++) {
        uint32_t *first = ck_strmap_slot(&seen, names[i], i);

        if (!first)
            return no_memory(err);
        if (*first != i)
            return ck_error_set(err, CK_E_NAME_CLASH, plan->model->tensors[i].name,
                                "'%.200s' and '%.200s' would both be named '%.200s'", plan->model->tensors[*first].name,
                                plan->model->tensors[i].name, names[i]);
    }
    return 0;
}

static unsigned components_of(const char *name) {
    unsigned n = 1;

    for (; (name = strchr(name, '.')) != NULL; name++)
        n++;
    return n;
}

int ck_names_strip(struct ck_plan *plan, const char ***ret_names, struct ck_error *err) {
    const struct ck_model *model = plan->model;
    const char **names = ck_arena_alloc_array(&plan->arena, model->n_tensors, sizeof(*names));
    int r;

    if (!names)
        return no_memory(err);
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        char *copy = NULL;

        if (components_of(model->tensors[i].name) > CK_NAME_DEPTH)
            return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL, "the name of tensor %u has more than %d components", i,
                                CK_NAME_DEPTH);
        if (strlen(model->tensors[i].name) > CK_NAME_MAX)
            return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL, "tensor %u has a name longer than %d bytes", i,
                                CK_NAME_MAX);
        names[i] = model->tensors[i].name;
        for (size_t k = 0; k < CK_ARRAY_LEN(wrappers) && !copy; k++)
            if (strstr(names[i], wrappers[k])) {
                copy = ck_arena_strdup(&plan->arena, names[i]);
                if (!copy)
                    return no_memory(err);
            }
        if (copy && remove_wrappers(copy))
            names[i] = copy;
    }
    if (model->n_tensors > 0)
        remove_module_prefix(names, model->n_tensors);
    r = check_distinct(plan, names, model->n_tensors, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < model->n_tensors; i++)
        if (strcmp(names[i], model->tensors[i].name) != 0 &&
            !note_rename(plan, model->tensors[i].name, names[i], "wrapper_prefix"))
            return no_memory(err);
    *ret_names = names;
    return 0;
}

/* Public methods of mlx.nn.Module and dict, the private ones that a parameter could shadow, and Python's keywords. */
static const char *const reserved[] = {
    "apply",
    "apply_to_modules",
    "children",
    "clear",
    "copy",
    "eval",
    "filter_and_map",
    "freeze",
    "fromkeys",
    "get",
    "is_module",
    "items",
    "keys",
    "leaf_modules",
    "load_weights",
    "modules",
    "named_modules",
    "parameters",
    "pop",
    "popitem",
    "save_weights",
    "set_dtype",
    "setdefault",
    "state",
    "train",
    "trainable_parameter_filter",
    "trainable_parameters",
    "training",
    "unfreeze",
    "update",
    "update_modules",
    "valid_child_filter",
    "valid_parameter_filter",
    "values",
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    NULL,
};

static bool is_integer(const char *text, size_t n) {
    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return true;
}

static bool is_reserved(const char *text, size_t n) {
    for (size_t i = 0; reserved[i]; i++)
        if (strlen(reserved[i]) == n && memcmp(reserved[i], text, n) == 0)
            return true;
    return false;
}

struct mapper {
    struct ck_plan *plan;
    struct ck_strmap clean;      /* every prefix of every name that ends with a component */
    struct ck_strmap fitted;     /* clean parent + "." + fitted component: taken */
    struct ck_strmap dicts;      /* paths of ModuleDicts whose keys are all integers */
    struct ck_strmap components; /* clean prefix -> index of its fitted last component */
    const char **texts;          /* the fitted components */
    uint32_t n_texts, capacity;
};

static void mapper_release(struct mapper *m) {
    ck_strmap_release(&m->clean);
    ck_strmap_release(&m->fitted);
    ck_strmap_release(&m->dicts);
    ck_strmap_release(&m->components);
}

/* A component that MLX can hold and that no sibling has; the component itself if it may stay. prefix: the clean path up
 * to and including the component. */
static int fit_component(struct mapper *m, const char *prefix, const char *component, bool dict_key,
                         const char **ret_text, struct ck_error *err) {
    int parent = (int)(component - prefix); /* length of "a.b." */
    size_t n = strlen(component), underscores = strspn(component, "_");
    char path[CK_NAME_MAX + TRIES_MAX + 16];
    bool key = dict_key && is_integer(component, n);
    uint32_t unused;
    char *taken;

    *ret_text = component;
    if (!key && underscores == 0 && !is_reserved(component, n))
        return 0;
    snprintf(path, sizeof(path), key ? "%.*sk%s" : "%.*s%s_", parent, prefix,
             key ? component : component + underscores);
    for (int tries = 0; ck_strmap_get(&m->clean, path, &unused) || ck_strmap_get(&m->fitted, path, &unused); tries++) {
        if (tries == TRIES_MAX)
            return ck_error_set(err, CK_E_NAME_CLASH, prefix, "more than %d names would become '%.200s'", TRIES_MAX,
                                path);
        strncat(path, "_", sizeof(path) - strlen(path) - 1);
    }
    taken = ck_arena_strdup(&m->plan->arena, path);
    if (!taken || !ck_strmap_set(&m->fitted, taken, 1))
        return no_memory(err);
    *ret_text = taken + parent;
    return 0;
}

static bool remember_component(struct mapper *m, const char *prefix, const char *text) {
    if (m->n_texts == m->capacity) {
        uint32_t capacity = CK_MAX(m->capacity * 2, 256u);
        const char **bigger = ck_arena_alloc_array(&m->plan->arena, capacity, sizeof(*bigger));

        if (!bigger)
            return false;
        if (m->n_texts > 0)
            memcpy(bigger, m->texts, m->n_texts * sizeof(*bigger));
        m->texts = bigger;
        m->capacity = capacity;
    }
    m->texts[m->n_texts] = text;
    return ck_strmap_set(&m->components, prefix, m->n_texts++);
}

/* Notes every prefix of name that ends with a component. */
static bool collect_prefixes(struct mapper *m, const char *name) {
    char prefix[CK_NAME_MAX + 1];
    uint32_t unused;

    for (const char *end = name;; end++) {
        char *copy;

        end = strchrnul(end, '.');
        snprintf(prefix, sizeof(prefix), "%.*s", (int)(end - name), name);
        if (!ck_strmap_get(&m->clean, prefix, &unused)) {
            copy = ck_arena_strdup(&m->plan->arena, prefix);
            if (!copy || !ck_strmap_set(&m->clean, copy, 1))
                return false;
        }
        if (!*end)
            return true;
    }
}

static int map_name(struct mapper *m, const char *root, const char *name, const char **ret_mapped,
                    struct ck_error *err) {
    char prefix[CK_NAME_MAX + 1], mapped[2 * CK_NAME_MAX + CK_NAME_DEPTH * TRIES_MAX];
    size_t used = (size_t)snprintf(mapped, sizeof(mapped), "%s", root);

    for (const char *start = name;;) {
        const char *end = strchrnul(start, '.'), *text;
        uint32_t index, unused;

        snprintf(prefix, sizeof(prefix), "%.*s", (int)(end - name), name);
        if (ck_strmap_get(&m->components, prefix, &index)) {
            text = m->texts[index];
        } else {
            char *copy = ck_arena_strdup(&m->plan->arena, prefix);
            int r;

            if (!copy)
                return no_memory(err);
            prefix[start > name ? start - name - 1 : 0] = 0; /* now the parent's path */
            r = fit_component(m, copy, copy + (start - name), ck_strmap_get(&m->dicts, prefix, &unused), &text, err);
            if (r < 0)
                return r;
            if (!remember_component(m, copy, text))
                return no_memory(err);
        }
        used += (size_t)snprintf(mapped + used, sizeof(mapped) - used, "%s%s", start > name ? "." : "", text);
        if (!*end)
            break;
        start = end + 1;
    }
    *ret_mapped = strcmp(mapped, name) == 0 ? name : ck_arena_strdup(&m->plan->arena, mapped);
    return *ret_mapped ? 0 : no_memory(err);
}

/* A ModuleDict keeps its keys as text; MLX would read a level of integer keys as a list. A ModuleList is one. */
static bool find_integer_dicts(struct mapper *m) {
    const struct ck_model *model = m->plan->model;
    enum { NO_CHILD, INTEGERS, OTHERS };
    uint8_t *children = ck_arena_alloc_array(&m->plan->arena, model->n_modules, sizeof(*children));

    if (!children)
        return false;
    for (uint32_t i = 0; i < model->n_modules; i++) {
        const char *path = model->modules[i].path, *dot = strrchr(path, '.'), *own = dot ? dot + 1 : path;
        uint32_t parent = model->modules[i].parent;

        if (parent != CK_NO_INDEX && children[parent] != OTHERS)
            children[parent] = is_integer(own, strlen(own)) ? INTEGERS : OTHERS;
    }
    for (uint32_t i = 0; i < model->n_modules; i++)
        if (children[i] == INTEGERS && strcmp(model->modules[i].class_, "torch.nn.modules.container.ModuleDict") == 0 &&
            !ck_strmap_set(&m->dicts, model->modules[i].path, 1))
            return false;
    return true;
}

/* nn.Sequential of MLX keeps its children under `layers`; a bare torch Sequential begins with the numbers. */
static bool root_is_list(const char *const *names, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const char *dot = strchr(names[i], '.');

        if (!dot || !is_integer(names[i], (size_t)(dot - names[i])))
            return false;
    }
    return n > 0;
}

int ck_names_map(struct ck_plan *plan, const char *const *names, uint32_t n, const char ***ret_mapped,
                 struct ck_error *err) {
    _cleanup_(mapper_release) struct mapper m = {.plan = plan};
    const char *root = root_is_list(names, n) ? "layers." : "";
    const char **mapped = ck_arena_alloc_array(&plan->arena, n, sizeof(*mapped));

    if (!mapped || !find_integer_dicts(&m))
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++)
        if (!collect_prefixes(&m, names[i]))
            return no_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        int r = map_name(&m, root, names[i], &mapped[i], err);

        if (r < 0)
            return r;
        if (mapped[i] != names[i] && !note_rename(plan, names[i], mapped[i], "mlx_name"))
            return no_memory(err);
    }
    *ret_mapped = mapped;
    return 0;
}
