#include "core/pickle/value.h"

#include <string.h>

static const char *const kind_names[] = {
    [CK_VALUE_NONE] = "None",
    [CK_VALUE_BOOL] = "a bool",
    [CK_VALUE_INT] = "an int",
    [CK_VALUE_BIGINT] = "a large int",
    [CK_VALUE_FLOAT] = "a float",
    [CK_VALUE_TEXT] = "text",
    [CK_VALUE_BYTES] = "bytes",
    [CK_VALUE_TUPLE] = "a tuple",
    [CK_VALUE_LIST] = "a list",
    [CK_VALUE_SET] = "a set",
    [CK_VALUE_DICT] = "a dict",
    [CK_VALUE_GLOBAL] = "a global",
    [CK_VALUE_CALL] = "the result of a call",
    [CK_VALUE_PERSISTENT] = "a persistent id",
    [CK_VALUE_OPAQUE] = "an opaque value",
};

/* Where the members are that a container class was given when it was called. */
struct container_class {
    const char *module, *name;
    bool mapping;      /* pairs, else items */
    uint32_t argument; /* index of the argument that holds the members */
};

static const struct container_class container_classes[] = {
    {"collections", "OrderedDict", true, 0},
    {"collections", "Counter", true, 0},
    {"collections", "defaultdict", true, 1},
    {"builtins", "dict", true, 0},
    {"__builtin__", "dict", true, 0},
    {"builtins", "list", false, 0},
    {"__builtin__", "list", false, 0},
    {"builtins", "tuple", false, 0},
    {"__builtin__", "tuple", false, 0},
    {"builtins", "set", false, 0},
    {"__builtin__", "set", false, 0},
    {"builtins", "frozenset", false, 0},
    {"__builtin__", "frozenset", false, 0},
    {"collections", "deque", false, 0},
    {"torch", "Size", false, 0},
};

const char *ck_value_kind_name(enum ck_value_kind kind) {
    return (size_t)kind < CK_ARRAY_LEN(kind_names) ? kind_names[kind] : "a value";
}

bool ck_pickle_is_global(const struct ck_pickle *pickle, ck_ref ref, const char *module, const char *name) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    return value->kind == CK_VALUE_GLOBAL && strcmp(value->global.module, module) == 0 &&
           strcmp(value->global.name, name) == 0;
}

bool ck_pickle_text_equal(const struct ck_pickle *pickle, ck_ref ref, const char *text) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    size_t n = strlen(text);

    return (value->kind == CK_VALUE_TEXT || value->kind == CK_VALUE_BYTES) && value->bytes.data &&
           value->bytes.length == n && memcmp(value->bytes.data, text, n) == 0;
}

bool ck_pickle_argument(const struct ck_pickle *pickle, ck_ref ref, uint32_t index, ck_ref *ret_value) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    if (value->kind == CK_VALUE_CALL)
        value = ck_pickle_get(pickle, value->call.arguments);
    if ((value->kind != CK_VALUE_TUPLE && value->kind != CK_VALUE_LIST) || index >= value->list.count)
        return false;
    *ret_value = value->list.items[index];
    return true;
}

static bool is_copyreg(const struct ck_pickle *pickle, ck_ref ref, const char *name) {
    return ck_pickle_is_global(pickle, ref, "copy_reg", name) || ck_pickle_is_global(pickle, ref, "copyreg", name);
}

bool ck_pickle_wrapped_class(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_class) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    ck_ref word, class_;

    if (value->kind != CK_VALUE_PERSISTENT || !ck_pickle_argument(pickle, value->list.items[0], 0, &word))
        return false;
    if (ck_pickle_get(pickle, word)->kind == CK_VALUE_GLOBAL)
        class_ = word;
    else if (!ck_pickle_text_equal(pickle, word, "module") ||
             !ck_pickle_argument(pickle, value->list.items[0], 1, &class_))
        return false;
    *ret_class = class_;
    return true;
}

bool ck_pickle_class(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_global) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    ck_ref class_;

    if (value->kind != CK_VALUE_CALL)
        return false;
    class_ = value->call.callee;
    if (is_copyreg(pickle, class_, "_reconstructor") || is_copyreg(pickle, class_, "__newobj__") ||
        is_copyreg(pickle, class_, "__newobj_ex__"))
        ck_pickle_argument(pickle, ref, 0, &class_);
    ck_pickle_wrapped_class(pickle, class_, &class_);
    if (ck_pickle_get(pickle, class_)->kind != CK_VALUE_GLOBAL)
        return false;
    *ret_global = class_;
    return true;
}

/* The value that a container class was called with, if the callee is one of the known classes. */
static bool container_argument(const struct ck_pickle *pickle, ck_ref ref, bool mapping, ck_ref *ret_value) {
    ck_ref class_ = ck_pickle_get(pickle, ref)->call.callee;
    bool rebuilt = is_copyreg(pickle, class_, "_reconstructor");

    /* _reconstructor(class, base, state): the base says what the state is, whatever the class. */
    if (rebuilt && !ck_pickle_argument(pickle, ref, 1, &class_))
        return false;
    for (size_t i = 0; i < CK_ARRAY_LEN(container_classes); i++) {
        const struct container_class *row = &container_classes[i];

        if (row->mapping == mapping && ck_pickle_is_global(pickle, class_, row->module, row->name))
            return ck_pickle_argument(pickle, ref, rebuilt ? 2 : row->argument, ret_value);
    }
    return false;
}

static void walk_part(struct ck_pickle_walk *walk, unsigned part, ck_ref ref, bool mapping) {
    const struct ck_value *value = ck_pickle_get(walk->pickle, ref);
    bool flat = mapping ? value->kind == CK_VALUE_DICT
                        : value->kind == CK_VALUE_LIST || value->kind == CK_VALUE_TUPLE || value->kind == CK_VALUE_SET;
    bool nested = mapping && (value->kind == CK_VALUE_LIST || value->kind == CK_VALUE_TUPLE);

    if (!flat && !nested)
        return;
    walk->items[part] = value->list.items;
    walk->count[part] = value->list.count;
    walk->nested[part] = nested;
}

static bool walk_begin(const struct ck_pickle *pickle, ck_ref ref, bool mapping, struct ck_pickle_walk *ret_walk) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    ck_ref argument;

    *ret_walk = (struct ck_pickle_walk){.pickle = pickle};
    if (value->kind == CK_VALUE_CALL) {
        if (container_argument(pickle, ref, mapping, &argument))
            walk_part(ret_walk, 0, argument, mapping);
        walk_part(ret_walk, 1, mapping ? value->call.pairs : value->call.items, mapping);
        return true;
    }
    if (mapping && value->kind != CK_VALUE_DICT)
        return false;
    if (!mapping && value->kind != CK_VALUE_LIST && value->kind != CK_VALUE_TUPLE && value->kind != CK_VALUE_SET)
        return false;
    walk_part(ret_walk, 1, ref, mapping);
    return true;
}

bool ck_pickle_pairs(const struct ck_pickle *pickle, ck_ref ref, struct ck_pickle_walk *ret_walk) {
    return walk_begin(pickle, ref, true, ret_walk);
}

bool ck_pickle_items(const struct ck_pickle *pickle, ck_ref ref, struct ck_pickle_walk *ret_walk) {
    return walk_begin(pickle, ref, false, ret_walk);
}

bool ck_pickle_next_item(struct ck_pickle_walk *walk, ck_ref *ret_item) {
    while (walk->part < 2 && walk->next >= walk->count[walk->part]) {
        walk->part++;
        walk->next = 0;
    }
    if (walk->part >= 2)
        return false;
    *ret_item = walk->items[walk->part][walk->next++];
    return true;
}

bool ck_pickle_next_pair(struct ck_pickle_walk *walk, ck_ref *ret_key, ck_ref *ret_value) {
    ck_ref first, second;

    while (ck_pickle_next_item(walk, &first)) {
        /* A dict's items come in twos, so after a key there is a value in the same part. */
        if (!walk->nested[walk->part]) {
            ck_pickle_next_item(walk, &second);
            *ret_key = first;
            *ret_value = second;
            return true;
        }
        if (ck_pickle_get(walk->pickle, first)->kind == CK_VALUE_CALL ||
            !ck_pickle_argument(walk->pickle, first, 1, &second))
            continue;
        ck_pickle_argument(walk->pickle, first, 0, ret_key);
        *ret_value = second;
        return true;
    }
    return false;
}

static bool find_in_pairs(const struct ck_pickle *pickle, ck_ref ref, const char *key, ck_ref *ret_value) {
    struct ck_pickle_walk walk;
    ck_ref name, value;
    bool found = false;

    if (!ck_pickle_pairs(pickle, ref, &walk))
        return false;
    while (ck_pickle_next_pair(&walk, &name, &value))
        if (ck_pickle_text_equal(pickle, name, key)) {
            *ret_value = value;
            found = true;
        }
    return found;
}

bool ck_pickle_find(const struct ck_pickle *pickle, ck_ref dict, const char *key, ck_ref *ret_value) {
    const struct ck_value *value = ck_pickle_get(pickle, dict), *state;

    if (find_in_pairs(pickle, dict, key, ret_value))
        return true;
    if (value->kind != CK_VALUE_CALL)
        return false;
    if (find_in_pairs(pickle, value->call.state, key, ret_value))
        return true;
    state = ck_pickle_get(pickle, value->call.state);
    if (state->kind != CK_VALUE_TUPLE || state->list.count != 2)
        return false;
    /* (attributes, slots): what pickle makes of a class with __slots__. Slots are set last. */
    return find_in_pairs(pickle, state->list.items[1], key, ret_value) ||
           find_in_pairs(pickle, state->list.items[0], key, ret_value);
}

void ck_pickle_release(struct ck_pickle *pickle) {
    free(pickle->values);
    ck_arena_release(&pickle->arena);
    *pickle = (struct ck_pickle){0};
}
