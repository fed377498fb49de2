#include "core/model/plain_pickle.h"

#include <string.h>

#include "core/model/nested_scan.h"
#include "core/model/torch_zip.h"
#include "core/model/walk.h"
#include "core/pickle/machine.h"

/* A plain pickle has no storages beside it. */
static bool find_nothing(void *ctx, const char *key, struct ck_storage *ret_storage) {
    (void)ctx;
    (void)key;
    (void)ret_storage;
    return false;
}

/* The first member of the root that an edge hangs below, or is. */
static uint32_t member_of(const struct ck_walk *walk, const struct ck_edge *edge) {
    while (edge->parent != 0)
        edge = &walk->nodes[edge->parent].edge;
    return edge->position;
}

/* "#0" and "#0.model" name the first pickle, and a part of it: what else would have no name. */
static bool asks_for_first(struct ck_model_options *options) {
    const char *path = options->state_dict;

    if (!path || strncmp(path, "#0", 2) != 0 || (path[2] != 0 && path[2] != '.'))
        return false;
    options->state_dict = path[2] ? path + 3 : path + 2;
    return true;
}

/* The root maps the pickles of a stream. Where only the first holds tensors, or only the first is asked for, it alone
 * is the model. */
static int pick_root(struct ck_rebuild *rebuild, struct ck_pickle *pickle, const char *entry,
                     struct ck_findings *findings, struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_walk_release) struct ck_walk walk = {0};
    bool only_first = asks_for_first(options), later = false;
    int r;

    rebuild->scratch = options->scratch;
    rebuild->depth = options->depth;
    r = ck_walk_run(rebuild, entry, findings, &walk, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < walk.n_leaves && !later; i++)
        later = member_of(&walk, &walk.leaves[i].edge) > 0;
    rebuild->stream = later && !only_first;
    if (!rebuild->stream)
        pickle->root = ck_pickle_get(pickle, pickle->root)->list.items[1];
    return 0;
}

int ck_plain_pickle_index(struct ck_model *model, const struct ck_source *source, const char *entry,
                          const struct ck_limits *limits, const struct ck_model_options *options,
                          struct ck_error *err) {
    _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};
    _cleanup_(ck_rebuild_release) struct ck_rebuild rebuild = {0};
    struct ck_model_options own = options ? *options : (struct ck_model_options){0};
    uint32_t count = 0;
    ck_ref names;
    int r;

    r = ck_pickle_run_stream(source, entry, limits, &model->findings, &pickle, &count, err);
    if (r == 0)
        ck_nested_scan(&pickle, entry, limits, &own, &model->findings);
    if (r == 0)
        r = ck_rebuild_init(&rebuild, &pickle, limits, &model->arena, find_nothing, NULL, "", err);
    if (r == 0 && count > 1)
        r = pick_root(&rebuild, &pickle, entry, &model->findings, &own, err);
    /* paddle.save() lists how it calls the parameters under this key; its Linear weights stand [in, out]. */
    if (r == 0 && ck_pickle_find(&pickle, pickle.root, "StructuredToParameterName@@", &names))
        model->foreign = "Paddle";
    return r < 0 ? r : ck_model_from_graph(model, &rebuild, entry, &own, err);
}
