#include "core/mlx/neighbours.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/mlx/names.h"

/* Layers without tensors (activations, pooling, dropout) leave gaps in a Sequential. */
#define GAP_MAX 6

static bool is_number(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)text[i]))
            return false;
    return n > 0 && n < 10;
}

/* The last component of a path. */
static const char *own_name(const char *path) {
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

/* In registration order the numbers of siblings ascend, at every depth. *ret_ascends; false when out of memory. */
static bool numbers_ascend(struct ck_plan *plan, const struct ck_layout *layout, bool *ret_ascends) {
    _cleanup_(ck_strmap_release) struct ck_strmap last = {0};

    *ret_ascends = true;
    for (uint32_t i = 0; i < layout->n_layers; i++) {
        const char *path = layout->layers[i].path;

        for (const char *start = path; *start;) {
            const char *end = strchrnul(start, '.');

            if (is_number(start, (size_t)(end - start))) {
                char *parent = ck_arena_copy(&plan->arena, path, (size_t)(start - path));
                uint32_t number = (uint32_t)strtoul(start, NULL, 10), *seen;

                seen = parent ? ck_strmap_slot(&last, parent, number) : NULL;
                if (!seen)
                    return false;
                if (*seen > number)
                    *ret_ascends = false;
                *seen = number;
            }
            start = *end ? end + 1 : end;
        }
    }
    return true;
}

/* Tools that sort by name destroy the order; a model that was registered in alphabetical order looks the same, and
 * loses little. */
static bool is_sorted_by_name(const struct ck_plan *plan, const struct ck_layout *layout) {
    for (uint32_t i = 1; i < plan->model->n_tensors; i++)
        if (strcmp(layout->names[i - 1], layout->names[i]) > 0)
            return false;
    return plan->model->n_tensors > 2;
}

int ck_neighbours_init(struct ck_neighbours *neighbours, const struct ck_plan *plan, const struct ck_layout *layout,
                       struct ck_error *err) {
    bool ok = true, ascends = false;

    *neighbours = (struct ck_neighbours){.layout = layout};
    for (uint32_t i = 0; i < layout->n_layers && ok; i++)
        ok = ck_strmap_set(&neighbours->by_path, layout->layers[i].path, i);
    ok = ok && numbers_ascend((struct ck_plan *)plan, layout, &ascends);
    if (!ok) {
        ck_neighbours_release(neighbours);
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "the layers of the model need too much memory");
    }
    neighbours->ordered = strcmp(plan->model->form, "safetensors") != 0 && ascends && !is_sorted_by_name(plan, layout);
    return 0;
}

void ck_neighbours_release(struct ck_neighbours *neighbours) {
    ck_strmap_release(&neighbours->by_path);
}

static struct ck_layer *find(const struct ck_neighbours *neighbours, const char *path) {
    uint32_t index;

    return ck_strmap_get(&neighbours->by_path, path, &index) ? &neighbours->layout->layers[index] : NULL;
}

/* The nearest sibling whose number is larger (step 1) or smaller (step -1). */
static struct ck_layer *by_number(const struct ck_neighbours *neighbours, const struct ck_layer *layer, int step) {
    const char *own = own_name(layer->path);
    char path[CK_NAME_MAX + 16];
    long number;

    if (!is_number(own, strlen(own)))
        return NULL;
    number = strtol(own, NULL, 10);
    for (int i = 1; i <= GAP_MAX && number + i * step >= 0; i++) {
        struct ck_layer *sibling;

        snprintf(path, sizeof(path), "%.*s%ld", (int)(own - layer->path), layer->path, number + i * step);
        sibling = find(neighbours, path);
        if (sibling)
            return sibling;
    }
    return NULL;
}

static bool same_parent(const struct ck_layer *a, const struct ck_layer *b) {
    size_t n = (size_t)(own_name(a->path) - a->path);

    return n == (size_t)(own_name(b->path) - b->path) && strncmp(a->path, b->path, n) == 0;
}

static struct ck_layer *neighbour(const struct ck_neighbours *neighbours, const struct ck_layer *layer, int step,
                                  bool *ret_close) {
    struct ck_layer *found = by_number(neighbours, layer, step);
    int64_t index = layer - neighbours->layout->layers + step;

    *ret_close = found != NULL;
    if (found || !neighbours->ordered || index < 0 || index >= neighbours->layout->n_layers)
        return found;
    found = &neighbours->layout->layers[index];
    *ret_close = same_parent(layer, found);
    return found;
}

struct ck_layer *ck_neighbour_behind(const struct ck_neighbours *neighbours, const struct ck_layer *layer,
                                     bool *ret_close) {
    return neighbour(neighbours, layer, 1, ret_close);
}

struct ck_layer *ck_neighbour_before(const struct ck_neighbours *neighbours, const struct ck_layer *layer,
                                     bool *ret_close) {
    return neighbour(neighbours, layer, -1, ret_close);
}

/* Where "conv" stands in the own name, or NULL. */
static const char *find_conv(const char *own) {
    for (const char *p = own; *p; p++)
        if (strncasecmp(p, "conv", 4) == 0)
            return p;
    return NULL;
}

const struct ck_layer *ck_neighbour_norm_by_name(const struct ck_neighbours *neighbours, const struct ck_layer *layer) {
    static const char *const words[] = {"bn", "norm", "batchnorm", "batch_norm", "gn", "ln"};
    const char *own = own_name(layer->path), *conv = find_conv(own);
    char path[CK_NAME_MAX + 16];

    if (!conv)
        return NULL;
    for (size_t i = 0; i < CK_ARRAY_LEN(words); i++) {
        struct ck_layer *norm;

        snprintf(path, sizeof(path), "%.*s%s%s", (int)(conv - layer->path), layer->path, words[i], conv + 4);
        norm = find(neighbours, path);
        if (norm)
            return norm;
    }
    return NULL;
}
