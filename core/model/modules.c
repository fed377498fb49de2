#include "core/model/modules.h"

#include <string.h>

#include "core/model/memory.h"

/* torch.package's ('reduce_package', id, function, (__dict__, ..)), by which it rebuilds a GraphModule. */
static bool package_attributes(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_attributes) {
    ck_ref id = ck_pickle_get(pickle, ref)->list.items[0], word, arguments, first;
    const struct ck_value *value = ck_pickle_get(pickle, id);

    if (value->kind != CK_VALUE_TUPLE || value->list.count < 3 || !ck_pickle_argument(pickle, id, 0, &word) ||
        !ck_pickle_text_equal(pickle, word, "reduce_package"))
        return false;
    arguments = value->list.items[value->list.count - 1];
    if (!ck_pickle_argument(pickle, arguments, 0, &first) || ck_pickle_get(pickle, first)->kind != CK_VALUE_DICT)
        return false;
    *ret_attributes = first;
    return true;
}

/* An instance's __dict__ arrives as the state of BUILD; of a GraphModule as the first argument. */
static bool attributes_of(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_attributes) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    ck_ref state = value->call.state, first;

    if (value->kind == CK_VALUE_PERSISTENT)
        return package_attributes(pickle, ref, ret_attributes);
    if (ck_object_attributes(pickle, ref, ret_attributes))
        return true;
    if (state != CK_REF_NONE || !ck_pickle_argument(pickle, ref, 0, &first) ||
        ck_pickle_get(pickle, first)->kind != CK_VALUE_DICT)
        return false;
    *ret_attributes = first;
    return true;
}

bool ck_object_attributes(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_attributes) {
    ck_ref state = ck_pickle_get(pickle, ref)->call.state;
    const struct ck_value *value = ck_pickle_get(pickle, state);

    if (value->kind == CK_VALUE_TUPLE && value->list.count == 2 && value->list.items[0] == CK_REF_NONE)
        state = value->list.items[1];
    else if (value->kind == CK_VALUE_TUPLE && value->list.count == 2 && value->list.items[1] == CK_REF_NONE)
        state = value->list.items[0];
    if (ck_pickle_get(pickle, state)->kind != CK_VALUE_DICT)
        return false;
    *ret_attributes = state;
    return true;
}

bool ck_script_object(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_state) {
    const struct ck_value *value = ck_pickle_get(pickle, ref), *state;

    if (value->kind != CK_VALUE_CALL || !ck_pickle_is_global(pickle, value->call.callee, "torch", "ScriptObject"))
        return false;
    state = ck_pickle_get(pickle, value->call.state);
    if (state->kind != CK_VALUE_TUPLE || state->list.count != 2 ||
        ck_pickle_get(pickle, state->list.items[1])->kind != CK_VALUE_TEXT)
        return false;
    *ret_state = state->list.items[0];
    return true;
}

ck_ref ck_script_value(const struct ck_pickle *pickle, ck_ref ref) {
    /* torch writes at most a few, one in the other; a hostile file may make a ring of them. */
    for (int i = 0; i < 8; i++) {
        const struct ck_value *value = ck_pickle_get(pickle, ref), *callee;
        ck_ref inner;

        if (value->kind != CK_VALUE_CALL)
            break;
        callee = ck_pickle_get(pickle, value->call.callee);
        if (callee->kind != CK_VALUE_GLOBAL || strcmp(callee->global.module, "torch.jit._pickle") != 0 ||
            !ck_pickle_argument(pickle, ref, 0, &inner))
            break;
        ref = inner;
    }
    return ref;
}

/* Classes below __torch__.torch.classes are C++ objects (packed weights), not modules. */
static bool recognise_script(const struct ck_pickle *pickle, ck_ref ref, struct ck_module_state *ret_state) {
    ck_ref state = ck_pickle_get(pickle, ref)->call.state, class_;
    uint8_t kind = ck_pickle_get(pickle, state)->kind;
    const char *module;

    if (!ck_pickle_class(pickle, ref, &class_) || (kind != CK_VALUE_DICT && kind != CK_VALUE_TUPLE))
        return false;
    module = ck_pickle_get(pickle, class_)->global.module;
    if (strncmp(module, "__torch__", 9) != 0 || (module[9] != 0 && module[9] != '.') ||
        strncmp(module, "__torch__.torch.classes", 23) == 0)
        return false;
    *ret_state = (struct ck_module_state){.attributes = state, .script = true};
    return true;
}

bool ck_module_recognise(const struct ck_pickle *pickle, ck_ref ref, struct ck_module_state *ret_state) {
    struct ck_module_state state = {.attributes = CK_REF_NONE};
    struct ck_pickle_walk walk;
    bool parameters = false, modules = false;
    ck_ref key, value;

    if (ck_pickle_get(pickle, ref)->kind != CK_VALUE_CALL && ck_pickle_get(pickle, ref)->kind != CK_VALUE_PERSISTENT)
        return false;
    if (ck_pickle_get(pickle, ref)->kind == CK_VALUE_CALL && recognise_script(pickle, ref, ret_state))
        return true;
    if (!attributes_of(pickle, ref, &state.attributes))
        return false;
    ck_pickle_pairs(pickle, state.attributes, &walk);
    while (ck_pickle_next_pair(&walk, &key, &value)) {
        const struct ck_value *name = ck_pickle_get(pickle, key);

        if (name->kind != CK_VALUE_TEXT || name->bytes.length < 8 || !name->bytes.data || name->bytes.data[0] != '_')
            continue;
        if (ck_pickle_text_equal(pickle, key, "_parameters")) {
            state.parameters = value;
            parameters = true;
        } else if (ck_pickle_text_equal(pickle, key, "_modules")) {
            state.modules = value;
            modules = true;
        } else if (ck_pickle_text_equal(pickle, key, "_buffers")) {
            state.buffers = value;
        } else if (ck_pickle_text_equal(pickle, key, "_non_persistent_buffers_set")) {
            state.non_persistent = value;
        }
    }
    if (!parameters || !modules)
        return false;
    *ret_state = state;
    return true;
}

bool ck_module_is_structural(const struct ck_pickle *pickle, ck_ref key) {
    return ck_pickle_text_equal(pickle, key, "_parameters") || ck_pickle_text_equal(pickle, key, "_buffers") ||
           ck_pickle_text_equal(pickle, key, "_modules");
}

const char *ck_object_class(const struct ck_pickle *pickle, ck_ref ref, struct ck_arena *arena) {
    const struct ck_value *value;
    ck_ref class_;

    if (ck_pickle_get(pickle, ref)->kind == CK_VALUE_PERSISTENT)
        return "torch.fx.graph_module.GraphModule";
    if (!ck_pickle_class(pickle, ref, &class_))
        return "unknown";
    value = ck_pickle_get(pickle, class_);
    if (strcmp(value->global.module, "torch.fx.graph_module") == 0 && strncmp(value->global.name, "reduce_", 7) == 0)
        return "torch.fx.graph_module.GraphModule";
    return ck_arena_printf(arena, "%s.%s", value->global.module, value->global.name);
}

/* The integers of a tuple, a list or a torch.Size; false if it holds anything else or nothing. */
static bool read_ints(const struct ck_pickle *pickle, ck_ref ref, struct ck_arena *arena,
                      struct ck_attribute *attribute, bool *ret_memory_spent) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    struct ck_pickle_walk walk, again;
    uint32_t count = 0;
    int64_t *items;
    ck_ref item;

    if (value->kind == CK_VALUE_CALL && !ck_pickle_is_global(pickle, value->call.callee, "torch", "Size"))
        return false;
    if (!ck_pickle_items(pickle, ref, &walk))
        return false;
    again = walk;
    for (; ck_pickle_next_item(&walk, &item); count++)
        if (ck_pickle_get(pickle, item)->kind != CK_VALUE_INT)
            return false;
    if (count == 0)
        return false;
    items = ck_arena_alloc_array(arena, count, sizeof(*items));
    if (!items) {
        *ret_memory_spent = true;
        return false;
    }
    for (uint32_t i = 0; ck_pickle_next_item(&again, &item); i++)
        items[i] = ck_pickle_get(pickle, item)->integer;
    attribute->kind = CK_ATTRIBUTE_INTS;
    attribute->ints.items = items;
    attribute->ints.count = count;
    return true;
}

/* False if the value is of no plain kind. */
static bool read_plain(const struct ck_pickle *pickle, ck_ref ref, struct ck_arena *arena,
                       struct ck_attribute *attribute, bool *ret_memory_spent) {
    const struct ck_value *value;

    ref = ck_script_value(pickle, ref);
    value = ck_pickle_get(pickle, ref);
    switch (value->kind) {
    case CK_VALUE_NONE:
        attribute->kind = CK_ATTRIBUTE_NONE;
        return true;
    case CK_VALUE_BOOL:
        attribute->kind = CK_ATTRIBUTE_BOOL;
        attribute->boolean = value->integer != 0;
        return true;
    case CK_VALUE_INT:
        attribute->kind = CK_ATTRIBUTE_INT;
        attribute->integer = value->integer;
        return true;
    case CK_VALUE_FLOAT:
        attribute->kind = CK_ATTRIBUTE_FLOAT;
        attribute->real = value->real;
        return true;
    case CK_VALUE_TEXT:
        if (!value->bytes.data)
            return false;
        attribute->kind = CK_ATTRIBUTE_TEXT;
        attribute->text = ck_arena_strdup(arena, (const char *)value->bytes.data);
        *ret_memory_spent = !attribute->text;
        return attribute->text != NULL;
    case CK_VALUE_TUPLE:
    case CK_VALUE_LIST:
    case CK_VALUE_CALL:
        return read_ints(pickle, ref, arena, attribute, ret_memory_spent);
    default:
        return false;
    }
}

int ck_module_read_attributes(const struct ck_pickle *pickle, ck_ref ref, const struct ck_limits *limits,
                              struct ck_arena *arena, struct ck_module *module, struct ck_error *err) {
    struct ck_pickle_walk walk;
    ck_ref attributes, key, value;
    bool spent = false;
    uint32_t pairs;

    if (!attributes_of(pickle, ref, &attributes) || !ck_pickle_pairs(pickle, attributes, &walk))
        return 0;
    pairs = (walk.count[0] + walk.count[1]) / 2;
    module->attributes = ck_arena_alloc_array(arena, pairs, sizeof(*module->attributes));
    if (!module->attributes)
        return ck_model_memory_spent(limits, err);
    while (ck_pickle_next_pair(&walk, &key, &value)) {
        struct ck_attribute *attribute = &module->attributes[module->n_attributes];
        const struct ck_value *name = ck_pickle_get(pickle, key);

        if (name->kind != CK_VALUE_TEXT || !name->bytes.data || !read_plain(pickle, value, arena, attribute, &spent)) {
            if (spent)
                return ck_model_memory_spent(limits, err);
            continue;
        }
        attribute->name = ck_arena_strdup(arena, (const char *)name->bytes.data);
        if (!attribute->name)
            return ck_model_memory_spent(limits, err);
        module->n_attributes++;
    }
    return 0;
}
