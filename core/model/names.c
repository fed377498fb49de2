#include "core/model/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/buffer.h"

/* Of one key. A tuple can name one long text many times over. */
#define NAME_MAX_BYTES ((size_t)1 << 20)

static bool add_bytes(struct ck_buffer *out, const struct ck_value *value) {
    const char *text = (const char *)value->bytes.data;
    size_t length = (size_t)value->bytes.length, start = 0;

    if (!text)
        return ck_buffer_printf(out, "<%" PRIu64 " bytes of text>", value->bytes.length);
    for (size_t i = 0; i < length; i++) {
        if (text[i] != 0)
            continue;
        if (!ck_buffer_add(out, text + start, i - start) || !ck_buffer_add_text(out, "\\x00"))
            return false;
        start = i + 1;
    }
    return ck_buffer_add(out, text + start, length - start);
}

static bool add_float(struct ck_buffer *out, double real) {
    char text[40];

    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, real);
        if (strtod(text, NULL) == real)
            break;
    }
    return ck_buffer_printf(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

static bool add_scalar(struct ck_buffer *out, const struct ck_pickle *pickle, ck_ref ref, bool quoted) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    ck_ref class_, text;

    switch (value->kind) {
    case CK_VALUE_NONE:
        return ck_buffer_add_text(out, "None");
    case CK_VALUE_BOOL:
        return ck_buffer_add_text(out, value->integer ? "True" : "False");
    case CK_VALUE_INT:
        return ck_buffer_printf(out, "%" PRId64, value->integer);
    case CK_VALUE_FLOAT:
        return add_float(out, value->real);
    case CK_VALUE_TEXT:
    case CK_VALUE_BYTES:
        return (!quoted || ck_buffer_add_text(out, "'")) && add_bytes(out, value) &&
               (!quoted || ck_buffer_add_text(out, "'"));
    case CK_VALUE_GLOBAL:
        return ck_buffer_printf(out, "%s.%s", value->global.module, value->global.name);
    case CK_VALUE_CALL:
        if (!ck_pickle_class(pickle, ref, &class_))
            break;
        /* Bytes at protocol 2. */
        if (ck_pickle_is_global(pickle, class_, "_codecs", "encode") && ck_pickle_argument(pickle, ref, 0, &text) &&
            ck_pickle_get(pickle, text)->kind == CK_VALUE_TEXT)
            return add_bytes(out, ck_pickle_get(pickle, text));
        value = ck_pickle_get(pickle, class_);
        return ck_buffer_printf(out, "<%s.%s>", value->global.module, value->global.name);
    default:
        break;
    }
    return ck_buffer_printf(out, "<%s>", ck_value_kind_name((enum ck_value_kind)value->kind));
}

/* Tuples of scalars are printed; what is nested in them is named by its kind, so that nothing unbounded is followed. */
static bool add_key(struct ck_buffer *out, const struct ck_pickle *pickle, ck_ref ref) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    if (value->kind != CK_VALUE_TUPLE)
        return add_scalar(out, pickle, ref, false);
    if (!ck_buffer_add_text(out, "("))
        return false;
    for (uint32_t i = 0; i < value->list.count; i++)
        if ((i > 0 && !ck_buffer_add_text(out, ", ")) || !add_scalar(out, pickle, value->list.items[i], true))
            return false;
    return ck_buffer_add_text(out, value->list.count == 1 ? ",)" : ")");
}

const char *ck_edge_name(const struct ck_pickle *pickle, const struct ck_edge *edge, struct ck_arena *arena) {
    _cleanup_(ck_buffer_release) struct ck_buffer out;

    ck_buffer_init(&out, NAME_MAX_BYTES);
    if (edge->key == CK_NO_INDEX)
        return ck_arena_printf(arena, "%u", edge->position);
    return add_key(&out, pickle, edge->key) ? ck_arena_strdup(arena, ck_buffer_text(&out)) : NULL;
}

bool ck_edge_is_nameless(const struct ck_walk *walk, const struct ck_edge *edge) {
    return edge->parent == CK_NO_INDEX || (walk->rebuild->stream && edge->parent == 0 && edge->position == 0);
}

const char *ck_edge_path(const struct ck_walk *walk, const char *const *node_paths, const struct ck_edge *edge,
                         struct ck_arena *arena) {
    _cleanup_(ck_buffer_release) struct ck_buffer out = {0};

    if (edge->parent == CK_NO_INDEX)
        return ck_arena_strdup(arena, "");
    ck_buffer_init(&out, strlen(node_paths[edge->parent]) + 1 + NAME_MAX_BYTES);
    /* The children of the root have no dot in front; those of a node whose key is "" do. */
    if (!ck_edge_is_nameless(walk, &walk->nodes[edge->parent].edge) &&
        !ck_buffer_printf(&out, "%s.", node_paths[edge->parent]))
        return NULL;
    if (edge->key == CK_NO_INDEX ? !ck_buffer_printf(&out, "%u", edge->position)
                                 : !add_key(&out, walk->rebuild->pickle, edge->key))
        return NULL;
    return ck_arena_strdup(arena, ck_buffer_text(&out));
}

const char **ck_node_paths(const struct ck_walk *walk, struct ck_arena *arena) {
    const char **paths = ck_arena_alloc_array(arena, walk->n_nodes, sizeof(*paths));

    for (uint32_t i = 0; paths && i < walk->n_nodes; i++) {
        paths[i] = ck_edge_path(walk, paths, &walk->nodes[i].edge, arena);
        if (!paths[i])
            return NULL;
    }
    return paths;
}
