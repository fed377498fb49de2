#include "core/model/candidates.h"

#include <string.h>
#include <strings.h>

#include "core/model/choose.h"
#include "core/model/memory.h"

const struct ck_usual_key ck_usual_keys[] = {
    {"state_dict", CK_KEY_WRAPPER},
    {"model_state_dict", CK_KEY_WRAPPER},
    {"model_state", CK_KEY_WRAPPER},
    {"model", CK_KEY_WHOLE},
    {"module", CK_KEY_WHOLE},
    {"net", CK_KEY_WHOLE},
    {"network", CK_KEY_WHOLE},
    {"params_ema", CK_KEY_WHOLE},
    {"params", CK_KEY_WHOLE},
    {"weights", CK_KEY_WHOLE},
    {"weight", CK_KEY_WHOLE},
    {"state_dict_ema", CK_KEY_WHOLE},
    {"ema", CK_KEY_WHOLE},
    {"model_ema", CK_KEY_WHOLE},
    {"ema_state_dict", CK_KEY_WHOLE},
    {"ema_model_state_dict", CK_KEY_WHOLE},
    {"generator", CK_KEY_PART},
    {"netG", CK_KEY_PART},
    {"G_ema", CK_KEY_PART},
    {"g_ema", CK_KEY_PART},
    {"encoder", CK_KEY_PART},
    {"decoder", CK_KEY_PART},
    {"policy", CK_KEY_WHOLE},
    {"actor_critic", CK_KEY_WHOLE},
    {"student", CK_KEY_PART},
    {"teacher", CK_KEY_PART},
    {"backbone", CK_KEY_PART},
    {"model_weights", CK_KEY_WHOLE},
    {0},
};

void ck_chooser_release(struct ck_chooser *c) {
    free(c->kids);
}

static bool begins(const char *text, const char *word) {
    return strncasecmp(text, word, strlen(word)) == 0;
}

/* The text of a key, or "" for keys that are no plain text. */
const char *ck_chooser_key_text(const struct ck_pickle *pickle, const struct ck_edge *edge) {
    const struct ck_value *value = edge->key != CK_NO_INDEX ? ck_pickle_get(pickle, edge->key) : NULL;

    if (!value || (value->kind != CK_VALUE_TEXT && value->kind != CK_VALUE_BYTES) || !value->bytes.data)
        return "";
    return (const char *)value->bytes.data;
}

const char *ck_chooser_key(const struct ck_chooser *c, uint32_t node) {
    return ck_chooser_key_text(c->pickle, &c->walk->nodes[node].edge);
}

bool ck_chooser_is_optimizer(const struct ck_chooser *c, uint32_t node) {
    const struct ck_node *n = &c->walk->nodes[node];
    ck_ref ignored;

    return (n->kind == CK_NODE_MAP || n->kind == CK_NODE_OBJECT) && n->members <= 16 &&
           ck_pickle_find(c->pickle, n->ref, "param_groups", &ignored) &&
           ck_pickle_find(c->pickle, n->ref, "state", &ignored);
}

/* numpy's random state, as a tuple ('MT19937', array, ..) or a dict. */
static bool is_random_state(const struct ck_chooser *c, uint32_t node) {
    ck_ref ref = c->walk->nodes[node].ref, word;

    return (ck_pickle_argument(c->pickle, ref, 0, &word) && ck_pickle_text_equal(c->pickle, word, "MT19937")) ||
           (c->walk->nodes[node].members <= 8 && ck_pickle_find(c->pickle, ref, "bit_generator", &word));
}

bool ck_chooser_excludes(const struct ck_chooser *c, uint32_t node) {
    const char *key = ck_chooser_key(c, node);

    return strcasestr(key, "optim") || strcasestr(key, "scheduler") || strcasestr(key, "scaler") ||
           begins(key, "rng") || strcmp(key, "callbacks") == 0 || strcmp(key, "loops") == 0 ||
           ck_chooser_is_optimizer(c, node) || is_random_state(c, node);
}

/* Collects the containers right below node that lead to tensors and may be weights. */
int ck_chooser_collect(struct ck_chooser *c, uint32_t node, struct ck_error *err) {
    const struct ck_node *nodes = c->walk->nodes;

    c->n_kids = 0;
    for (uint32_t i = node + 1; i < node + nodes[node].n_nodes; i += nodes[i].n_nodes) {
        if (nodes[i].tensors == 0 || nodes[i].edge.superseded || nodes[i].edge.aside == node ||
            ck_chooser_excludes(c, i))
            continue;
        if (!ck_grow((void **)&c->kids, c->n_kids, &c->kids_capacity, sizeof(*c->kids)))
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the candidates");
        c->kids[c->n_kids++] = i;
    }
    return 0;
}

uint32_t ck_chooser_find(const struct ck_chooser *c, const char *key) {
    for (uint32_t i = 0; i < c->n_kids; i++)
        if (strcmp(ck_chooser_key(c, c->kids[i]), key) == 0)
            return c->kids[i];
    return CK_NO_INDEX;
}

/* A quantized layer of torch has its weight and bias in a tuple under this name. */
static bool is_packed_layer(const struct ck_chooser *c, uint32_t node) {
    static const char leaf[] = "_packed_params";
    const char *key = ck_chooser_key(c, node);
    size_t n = strlen(key);

    return n >= strlen(leaf) && strcmp(key + n - strlen(leaf), leaf) == 0;
}

/* Rule 2. A usual key that leads to more tensors than lie here makes this the wrapper of that. */
bool ck_chooser_is_weights(const struct ck_chooser *c, uint32_t node) {
    const struct ck_node *n = &c->walk->nodes[node];
    uint64_t entries = n->direct;

    if (n->kind == CK_NODE_MODULE)
        return true;
    for (uint32_t i = 0; i < c->n_kids; i++)
        entries += is_packed_layer(c, c->kids[i]);
    if (n->direct == 0 || entries < n->members / 2 + n->members % 2)
        return false;
    for (size_t i = 0; ck_usual_keys[i].key; i++) {
        uint32_t kid = ck_usual_keys[i].kind != CK_KEY_PART ? ck_chooser_find(c, ck_usual_keys[i].key) : CK_NO_INDEX;

        if (kid != CK_NO_INDEX && c->walk->nodes[kid].tensors > n->direct)
            return false;
    }
    return true;
}

bool ck_choose_excludes(const struct ck_walk *walk, uint32_t node) {
    const struct ck_chooser c = {.walk = walk, .pickle = walk->rebuild->pickle};

    return ck_chooser_excludes(&c, node);
}
