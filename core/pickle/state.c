#include "core/pickle/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WINDOW_BYTES  ((size_t)65536)
#define BUDGET_FACTOR 24u /* a state dict needs about 10 bytes of values for each byte of its pickle */
#define BUDGET_LEAST  CK_MIB
#define GLOBAL_SLOT   64u /* what the map of globals takes for one of them, about */

static int fail_v(struct ck_machine *m, int code, const char *format, va_list args) _printf_(3, 0);
static int fail_v(struct ck_machine *m, int code, const char *format, va_list args) {
    char text[512];

    vsnprintf(text, sizeof(text), format, args);
    if (!m->opcode)
        return ck_error_set(m->err, code, m->entry, "at byte %llu of the pickle: %s",
                            (unsigned long long)m->opcode_offset, text);
    return ck_error_set(m->err, code, m->entry, "%s at byte %llu of the pickle: %s", m->opcode->name,
                        (unsigned long long)m->opcode_offset, text);
}

int ck_machine_fail(struct ck_machine *m, int code, const char *format, ...) {
    va_list args;

    va_start(args, format);
    fail_v(m, code, format, args);
    va_end(args);
    return code;
}

int ck_machine_corrupt(struct ck_machine *m, const char *format, ...) {
    va_list args;

    va_start(args, format);
    fail_v(m, CK_E_PICKLE_CORRUPT, format, args);
    va_end(args);
    return CK_E_PICKLE_CORRUPT;
}

int ck_machine_limit(struct ck_machine *m, const char *setting, uint64_t most, const char *what) {
    ck_machine_fail(m, CK_E_PICKLE_LIMIT, "more than %llu %s (%s)", (unsigned long long)most, what, setting);
    ck_error_set_hint(m->err, "raise %s, if the file can be trusted", setting);
    return CK_E_PICKLE_LIMIT;
}

void ck_machine_note(struct ck_machine *m, enum ck_finding_class class_, const char *sentence) {
    ck_findings_add(m->findings, class_, m->entry, m->opcode_offset, m->opcode->name, "", sentence, false);
}

static int make_singletons(struct ck_machine *m) {
    static const struct ck_value singletons[CK_REF_FIRST_FREE] = {
        [CK_REF_NONE] = {.kind = CK_VALUE_NONE},
        [CK_REF_TRUE] = {.kind = CK_VALUE_BOOL, .integer = 1},
        [CK_REF_FALSE] = {.kind = CK_VALUE_BOOL},
        [CK_REF_EMPTY_TUPLE] = {.kind = CK_VALUE_TUPLE},
    };
    ck_ref ref;
    int r = 0;

    for (size_t i = 0; i < CK_REF_FIRST_FREE && r >= 0; i++)
        r = ck_machine_new(m, &singletons[i], &ref);
    return r;
}

int ck_machine_init(struct ck_machine *m, const struct ck_source *source, const char *entry,
                    const struct ck_limits *limits, struct ck_findings *findings, struct ck_error *err) {
    uint64_t bytes = CK_MIN(source->length, limits->pickle_bytes), budget;

    *m = (struct ck_machine){.limits = limits, .findings = findings, .entry = entry, .err = err, .source = *source};
    m->end = bytes;
    if (!ck_mul_u64(bytes, BUDGET_FACTOR, &budget))
        budget = UINT64_MAX;
    m->budget = (size_t)CK_MIN(limits->pickle_memory, CK_MAX(budget, BUDGET_LEAST));
    m->graph.source = *source;
    ck_arena_init(&m->graph.arena, m->budget);
    if (source->memory) {
        m->window = source->memory;
        m->window_length = (size_t)source->length;
    } else {
        m->window_memory = malloc(WINDOW_BYTES);
        m->window = m->window_memory;
        if (!m->window_memory)
            return ck_machine_fail(m, CK_E_OUT_OF_MEMORY, "out of memory");
    }
    return make_singletons(m);
}

void ck_machine_release(struct ck_machine *m) {
    ck_pickle_release(&m->graph);
    ck_strmap_release(&m->globals);
    free(m->window_memory);
    free(m->stack);
    free(m->marks);
    free(m->memo.dense);
    free(m->memo.hashed);
    m->window_memory = NULL;
    m->stack = NULL;
    m->marks = NULL;
    m->memo = (struct ck_memo){0};
}

int ck_machine_push(struct ck_machine *m, ck_ref ref) {
    int r;

    if (m->stack_count >= m->limits->pickle_stack)
        return ck_machine_limit(m, "--limit-pickle-stack", m->limits->pickle_stack, "values on the stack");
    if (m->stack_count == m->stack_capacity) {
        r = ck_machine_grow(m, &m->stack, &m->stack_capacity, m->stack_count + 1, sizeof(*m->stack));
        if (r < 0)
            return r;
    }
    m->stack[m->stack_count++] = ref;
    return 0;
}

int ck_machine_top(struct ck_machine *m, size_t n, ck_ref **ret_refs) {
    size_t fence = m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0;

    if (m->stack_count - fence < n)
        return ck_machine_corrupt(m, "%zu values are needed, but the stack holds %zu%s", n, m->stack_count - fence,
                                  m->mark_count > 0 ? " above the mark" : "");
    *ret_refs = m->stack + m->stack_count - n;
    return 0;
}

int ck_machine_pop(struct ck_machine *m, ck_ref *ret_ref) {
    ck_ref *top = NULL;
    int r;

    r = ck_machine_top(m, 1, &top);
    if (r < 0)
        return r;
    *ret_ref = *top;
    m->stack_count--;
    return 0;
}

int ck_machine_mark(struct ck_machine *m) {
    int r;

    if (m->mark_count >= m->limits->pickle_marks)
        return ck_machine_limit(m, "--limit-pickle-marks", m->limits->pickle_marks, "marks on the stack");
    r = ck_machine_grow(m, &m->marks, &m->mark_capacity, m->mark_count + 1, sizeof(*m->marks));
    if (r < 0)
        return r;
    m->marks[m->mark_count++] = (uint32_t)m->stack_count;
    return 0;
}

int ck_machine_pop_mark(struct ck_machine *m, const ck_ref **ret_refs, uint32_t *ret_count) {
    size_t height;

    if (m->mark_count == 0)
        return ck_machine_corrupt(m, "there is no mark on the stack");
    height = m->marks[--m->mark_count];
    *ret_refs = m->stack ? m->stack + height : NULL;
    *ret_count = (uint32_t)(m->stack_count - height);
    m->stack_count = height;
    return 0;
}

int ck_machine_new(struct ck_machine *m, const struct ck_value *value, ck_ref *ret_ref) {
    int r;

    if (m->graph.count >= CK_REF_UNSET - 1)
        return ck_machine_limit(m, "--limit-pickle-memory", CK_REF_UNSET - 1, "values");
    if (m->graph.count == m->value_capacity) {
        r = ck_machine_grow(m, &m->graph.values, &m->value_capacity, (size_t)m->graph.count + 1, sizeof(*value));
        if (r < 0)
            return r;
    }
    m->graph.values[m->graph.count] = *value;
    *ret_ref = m->graph.count++;
    return 0;
}

int ck_machine_push_new(struct ck_machine *m, const struct ck_value *value) {
    ck_ref ref;
    int r;

    r = ck_machine_new(m, value, &ref);
    return r < 0 ? r : ck_machine_push(m, ref);
}

int ck_machine_new_int(struct ck_machine *m, int64_t integer, ck_ref *ret_ref) {
    bool small = integer >= 0 && integer < (int64_t)CK_PICKLE_SMALL;
    int r;

    if (small && m->small_ints[integer] != CK_REF_NONE) {
        *ret_ref = m->small_ints[integer];
        return 0;
    }
    r = ck_machine_new(m, &(struct ck_value){.kind = CK_VALUE_INT, .integer = integer}, ret_ref);
    if (r >= 0 && small)
        m->small_ints[integer] = *ret_ref;
    return r;
}

int ck_machine_extend(struct ck_machine *m, ck_ref list, const ck_ref *refs, uint32_t n) {
    struct ck_value *value = &m->graph.values[list];
    uint64_t need = (uint64_t)value->list.count + n, capacity = value->list.capacity;
    ck_ref *items = value->list.items;
    int r;

    if (n == 0)
        return 0;
    if (need > UINT32_MAX)
        return ck_machine_limit(m, "--limit-pickle-memory", UINT32_MAX, "items of one container");
    if (need > capacity) {
        /* What arrives in one piece is the whole, as a rule; what grows, grows by doubling. */
        capacity = capacity == 0 ? need : CK_MIN(CK_MAX(capacity * 2, need), (uint64_t)UINT32_MAX);
        r = ck_machine_alloc(m, capacity, sizeof(*items), &items);
        if (r < 0)
            return r;
        if (value->list.count > 0)
            memcpy(items, value->list.items, value->list.count * sizeof(*items));
    }
    memcpy(items + value->list.count, refs, n * sizeof(*refs));
    value->list.items = items;
    value->list.capacity = (uint32_t)capacity;
    value->list.count = (uint32_t)need;
    return 0;
}

int ck_machine_new_items(struct ck_machine *m, enum ck_value_kind kind, const ck_ref *refs, uint32_t n,
                         ck_ref *ret_ref) {
    ck_ref ref;
    int r;

    if (kind == CK_VALUE_TUPLE && n == 0) {
        *ret_ref = CK_REF_EMPTY_TUPLE;
        return 0;
    }
    r = ck_machine_new(m, &(struct ck_value){.kind = (uint8_t)kind}, &ref);
    if (r < 0)
        return r;
    r = ck_machine_extend(m, ref, refs, n);
    if (r < 0)
        return r;
    *ret_ref = ref;
    return 0;
}

int ck_machine_new_bytes(struct ck_machine *m, enum ck_value_kind kind, uint64_t n, ck_ref *ret_ref) {
    struct ck_value value = {.kind = (uint8_t)kind, .bytes = {.length = n, .offset = m->position}};
    uint8_t *bytes;
    int r;

    r = ck_machine_need(m, n);
    if (r < 0)
        return r;
    if (n > CK_PICKLE_INLINE) {
        m->position += n;
        m->end = CK_MIN(m->end + n, m->source.length);
        return ck_machine_new(m, &value, ret_ref);
    }
    r = ck_machine_alloc(m, (size_t)n + 1, 1, &bytes);
    if (r < 0)
        return r;
    r = ck_machine_read(m, bytes, (size_t)n);
    if (r < 0)
        return r;
    value.bytes.data = bytes;
    return ck_machine_new(m, &value, ret_ref);
}

/* Counts one more occurrence of a global that is known. */
static void count_global(struct ck_machine *m, const struct ck_value *global) {
    if (global->note > 0)
        m->findings->items[global->note - 1].count++;
    else
        m->findings->dropped++;
}

static int add_global(struct ck_machine *m, const char *key, size_t module_length, size_t name_length,
                      ck_ref *ret_ref) {
    struct ck_value value = {.kind = CK_VALUE_GLOBAL};
    char *owned_key, *module, *name;
    size_t finding;
    int r;

    /* One piece: the key, then both names with their NULs; and the map's own slot, so that it is charged too. */
    r = ck_machine_alloc(m, 2 * (module_length + name_length) + 4 + GLOBAL_SLOT, 1, &owned_key);
    if (r < 0)
        return r;
    memcpy(owned_key, key, module_length + name_length + 1);
    module = owned_key + module_length + name_length + 2;
    memcpy(module, key, module_length);
    name = module + module_length + 1;
    memcpy(name, key + module_length + 1, name_length);
    value.global.module = module;
    value.global.name = name;
    value.global.module_length = (uint32_t)module_length;
    value.global.name_length = (uint32_t)name_length;
    finding = ck_findings_add(m->findings, ck_finding_judge(module, name), m->entry, m->opcode_offset, m->opcode->name,
                              module, name, false);
    value.note = finding == CK_FINDINGS_NONE ? 0 : (uint32_t)finding + 1;
    r = ck_machine_new(m, &value, ret_ref);
    if (r < 0)
        return r;
    if (!ck_strmap_set(&m->globals, owned_key, *ret_ref))
        return ck_machine_fail(m, CK_E_OUT_OF_MEMORY, "out of memory");
    return 0;
}

int ck_machine_new_global(struct ck_machine *m, const char *module, size_t module_length, const char *name,
                          size_t name_length, ck_ref *ret_ref) {
    char key[2 * CK_PICKLE_NAME_MAX + 2];
    uint32_t known;

    if (module_length == 0 || name_length == 0)
        return ck_machine_corrupt(m, "a global without a name");
    if (module_length > CK_PICKLE_NAME_MAX || name_length > CK_PICKLE_NAME_MAX)
        return ck_machine_corrupt(m, "the name of a global is longer than %u bytes", CK_PICKLE_NAME_MAX);
    if (memchr(module, 0, module_length) || memchr(name, 0, name_length))
        return ck_machine_corrupt(m, "the name of a global holds a NUL byte");
    /* Two pairs of names can make one key only if a name holds a line break, and then none of them is a name that means
     * anything. */
    memcpy(key, module, module_length);
    key[module_length] = '\n';
    memcpy(key + module_length + 1, name, name_length);
    key[module_length + 1 + name_length] = 0;
    if (ck_strmap_get(&m->globals, key, &known)) {
        count_global(m, &m->graph.values[known]);
        *ret_ref = known;
        return 0;
    }
    return add_global(m, key, module_length, name_length, ret_ref);
}
