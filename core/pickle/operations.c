/* pickle/operations.c: what each opcode does to the stack. Source of the semantics: CPython's Lib/pickle.py and
 * Modules/_pickle.c. */
#include "core/pickle/literal.h"
#include "core/pickle/numpy.h"
#include "core/pickle/opcode.h"
#include "core/pickle/state.h"

#include <string.h>

#define PROTOCOL_MAX 5u

/* ---- the stack and the memo ---- */

int ck_op_mark(struct ck_machine *m) {
    return ck_machine_mark(m);
}

int ck_op_stop(struct ck_machine *m) {
    m->stopped = true;
    return ck_machine_pop(m, &m->graph.root);
}

int ck_op_pop_mark(struct ck_machine *m) {
    const ck_ref *refs;
    uint32_t n;

    return ck_machine_pop_mark(m, &refs, &n);
}

int ck_op_pop(struct ck_machine *m) {
    ck_ref ref;

    /* On a bare mark it takes the mark, as CPython does. */
    if (m->mark_count > 0 && m->marks[m->mark_count - 1] == m->stack_count)
        return ck_op_pop_mark(m);
    return ck_machine_pop(m, &ref);
}

int ck_op_dup(struct ck_machine *m) {
    ck_ref *top;
    int r;

    r = ck_machine_top(m, 1, &top);
    return r < 0 ? r : ck_machine_push(m, *top);
}

static int memo_index(struct ck_machine *m, uint32_t *ret_index) {
    struct ck_literal_int literal;

    if (!ck_literal_int(m->line, m->line_length, &literal) || literal.big || literal.value < 0 ||
        literal.value > UINT32_MAX)
        return ck_machine_corrupt(m, "its line is no index of the memo");
    *ret_index = (uint32_t)literal.value;
    return 0;
}

static int get(struct ck_machine *m, uint32_t index) {
    ck_ref ref;

    if (!ck_machine_get(m, index, &ref))
        return ck_machine_corrupt(m, "memo slot %u was never set", index);
    return ck_machine_push(m, ref);
}

int ck_op_get(struct ck_machine *m) {
    return get(m, (uint32_t)m->argument.u);
}

int ck_op_get_line(struct ck_machine *m) {
    uint32_t index = 0;
    int r;

    r = memo_index(m, &index);
    return r < 0 ? r : get(m, index);
}

static int put(struct ck_machine *m, uint32_t index) {
    ck_ref *top;
    int r;

    r = ck_machine_top(m, 1, &top);
    return r < 0 ? r : ck_machine_put(m, index, *top);
}

int ck_op_put(struct ck_machine *m) {
    return put(m, (uint32_t)m->argument.u);
}

int ck_op_put_line(struct ck_machine *m) {
    uint32_t index = 0;
    int r;

    r = memo_index(m, &index);
    return r < 0 ? r : put(m, index);
}

int ck_op_memoize(struct ck_machine *m) {
    return put(m, m->memo.count);
}

/* ---- containers ---- */

static int push_items(struct ck_machine *m, enum ck_value_kind kind, const ck_ref *refs, uint32_t n) {
    ck_ref ref;
    int r;

    r = ck_machine_new_items(m, kind, refs, n, &ref);
    return r < 0 ? r : ck_machine_push(m, ref);
}

int ck_op_empty_tuple(struct ck_machine *m) {
    return ck_machine_push(m, CK_REF_EMPTY_TUPLE);
}

int ck_op_empty_list(struct ck_machine *m) {
    return push_items(m, CK_VALUE_LIST, NULL, 0);
}

int ck_op_empty_dict(struct ck_machine *m) {
    return push_items(m, CK_VALUE_DICT, NULL, 0);
}

int ck_op_empty_set(struct ck_machine *m) {
    return push_items(m, CK_VALUE_SET, NULL, 0);
}

static int push_top_tuple(struct ck_machine *m, uint32_t n) {
    ck_ref *top;
    int r;

    r = ck_machine_top(m, n, &top);
    if (r < 0)
        return r;
    m->stack_count -= n;
    return push_items(m, CK_VALUE_TUPLE, top, n);
}

int ck_op_tuple1(struct ck_machine *m) {
    return push_top_tuple(m, 1);
}

int ck_op_tuple2(struct ck_machine *m) {
    return push_top_tuple(m, 2);
}

int ck_op_tuple3(struct ck_machine *m) {
    return push_top_tuple(m, 3);
}

static int push_marked(struct ck_machine *m, enum ck_value_kind kind) {
    const ck_ref *refs = NULL;
    uint32_t n = 0;
    int r;

    r = ck_machine_pop_mark(m, &refs, &n);
    if (r < 0)
        return r;
    if (kind == CK_VALUE_DICT && n % 2 != 0)
        return ck_machine_corrupt(m, "an odd number of keys and values (%u)", n);
    return push_items(m, kind, refs, n);
}

int ck_op_tuple(struct ck_machine *m) {
    return push_marked(m, CK_VALUE_TUPLE);
}

int ck_op_list(struct ck_machine *m) {
    return push_marked(m, CK_VALUE_LIST);
}

int ck_op_dict(struct ck_machine *m) {
    return push_marked(m, CK_VALUE_DICT);
}

int ck_op_frozenset(struct ck_machine *m) {
    return push_marked(m, CK_VALUE_SET);
}

/* Adds to what a call made: into a container of its own beside the call. */
static int extend_call(struct ck_machine *m, ck_ref call, enum ck_value_kind kind, const ck_ref *refs, uint32_t n) {
    bool pairs = kind == CK_VALUE_DICT;
    ck_ref extra = pairs ? m->graph.values[call].call.pairs : m->graph.values[call].call.items;
    int r;

    if (extra == CK_REF_NONE) {
        r = ck_machine_new_items(m, pairs ? CK_VALUE_DICT : CK_VALUE_LIST, NULL, 0, &extra);
        if (r < 0)
            return r;
        if (pairs)
            m->graph.values[call].call.pairs = extra;
        else
            m->graph.values[call].call.items = extra;
    }
    return ck_machine_extend(m, extra, refs, n);
}

/* Adds refs to the target if it is of this kind, or a call that may have made such a thing. */
static int extend(struct ck_machine *m, ck_ref target, enum ck_value_kind kind, const ck_ref *refs, uint32_t n) {
    enum ck_value_kind there = m->graph.values[target].kind;

    if (there == kind)
        return ck_machine_extend(m, target, refs, n);
    if (there == CK_VALUE_CALL)
        return extend_call(m, target, kind, refs, n);
    if (there == CK_VALUE_PERSISTENT || there == CK_VALUE_OPAQUE)
        return 0;
    /* os.environ, sys.modules: a pickle that changes what it did not make. */
    if (there == CK_VALUE_GLOBAL)
        ck_machine_note(m, CK_FINDING_DANGEROUS, "items are put into a bare global");
    return ck_machine_corrupt(m, "it adds to %s, which is not %s", ck_value_kind_name(there), ck_value_kind_name(kind));
}

/* target item .. (n items): adds them and leaves the target. */
static int extend_by_top(struct ck_machine *m, enum ck_value_kind kind, uint32_t n) {
    ck_ref *top;
    int r;

    r = ck_machine_top(m, n + 1, &top);
    if (r < 0)
        return r;
    m->stack_count -= n;
    return extend(m, top[0], kind, top + 1, n);
}

static int extend_by_marked(struct ck_machine *m, enum ck_value_kind kind) {
    const ck_ref *refs = NULL;
    ck_ref *target;
    uint32_t n = 0;
    int r;

    r = ck_machine_pop_mark(m, &refs, &n);
    if (r < 0)
        return r;
    r = ck_machine_top(m, 1, &target);
    if (r < 0)
        return r;
    if (kind == CK_VALUE_DICT && n % 2 != 0)
        return ck_machine_corrupt(m, "an odd number of keys and values (%u)", n);
    return extend(m, *target, kind, refs, n);
}

int ck_op_append(struct ck_machine *m) {
    return extend_by_top(m, CK_VALUE_LIST, 1);
}

int ck_op_setitem(struct ck_machine *m) {
    return extend_by_top(m, CK_VALUE_DICT, 2);
}

int ck_op_appends(struct ck_machine *m) {
    return extend_by_marked(m, CK_VALUE_LIST);
}

int ck_op_setitems(struct ck_machine *m) {
    return extend_by_marked(m, CK_VALUE_DICT);
}

int ck_op_additems(struct ck_machine *m) {
    return extend_by_marked(m, CK_VALUE_SET);
}

/* ---- globals, calls, objects ---- */

int ck_op_global(struct ck_machine *m) {
    ck_ref ref;
    int r;

    r = ck_machine_new_global(m, m->line, m->line_length, m->name, m->name_length, &ref);
    return r < 0 ? r : ck_machine_push(m, ref);
}

/* True if the value can be text only once something was executed. */
static bool is_computed(const struct ck_value *value) {
    return value->kind == CK_VALUE_CALL || value->kind == CK_VALUE_PERSISTENT || value->kind == CK_VALUE_OPAQUE;
}

int ck_op_stack_global(struct ck_machine *m) {
    const struct ck_value *module, *name;
    ck_ref *top, ref;
    int r;

    r = ck_machine_top(m, 2, &top);
    if (r < 0)
        return r;
    m->stack_count -= 2;
    module = &m->graph.values[top[0]];
    name = &m->graph.values[top[1]];
    if (is_computed(module) || is_computed(name)) {
        ck_machine_note(m, CK_FINDING_DANGEROUS, "the names of a global are computed");
        return ck_machine_push_new(m, &(struct ck_value){.kind = CK_VALUE_OPAQUE});
    }
    if (module->kind != CK_VALUE_TEXT || name->kind != CK_VALUE_TEXT)
        return ck_machine_corrupt(m, "the names of a global are %s and %s", ck_value_kind_name(module->kind),
                                  ck_value_kind_name(name->kind));
    if (!module->bytes.data || !name->bytes.data)
        return ck_machine_corrupt(m, "the name of a global is longer than %u bytes", CK_PICKLE_NAME_MAX);
    r = ck_machine_new_global(m, (const char *)module->bytes.data, (size_t)module->bytes.length,
                              (const char *)name->bytes.data, (size_t)name->bytes.length, &ref);
    return r < 0 ? r : ck_machine_push(m, ref);
}

/* An object is made of its class by _reconstructor and __newobj__: the class is called too. */
static void note_called(struct ck_machine *m, ck_ref call) {
    ck_ref callee = m->graph.values[call].call.callee, class_ = callee;
    const struct ck_value *global = &m->graph.values[callee];

    ck_pickle_class(&m->graph, call, &class_);
    for (unsigned i = 0; i < 2; i++, global = &m->graph.values[class_])
        if (global->kind == CK_VALUE_GLOBAL && global->note > 0)
            m->findings->items[global->note - 1].called = true;
    if (m->graph.values[class_].kind != CK_VALUE_GLOBAL)
        ck_machine_note(m, CK_FINDING_UNKNOWN, "a computed value is called");
}

static int push_call(struct ck_machine *m, ck_ref callee, ck_ref arguments, ck_ref keywords) {
    struct ck_value value = {.kind = CK_VALUE_CALL};
    enum ck_value_kind kind = m->graph.values[callee].kind;
    ck_ref ref;
    int r;

    if (kind != CK_VALUE_GLOBAL && !is_computed(&m->graph.values[callee]))
        return ck_machine_corrupt(m, "it calls %s", ck_value_kind_name(kind));
    value.call.callee = callee;
    value.call.arguments = arguments;
    value.call.keywords = keywords;
    r = ck_machine_new(m, &value, &ref);
    if (r < 0)
        return r;
    note_called(m, ref);
    return ck_machine_push(m, ref);
}

static int call_top(struct ck_machine *m, size_t n) {
    ck_ref *top;
    int r;

    r = ck_machine_top(m, n, &top);
    if (r < 0)
        return r;
    m->stack_count -= n;
    return push_call(m, top[0], top[1], n > 2 ? top[2] : CK_REF_NONE);
}

int ck_op_reduce(struct ck_machine *m) {
    return call_top(m, 2);
}

int ck_op_newobj(struct ck_machine *m) {
    return call_top(m, 2);
}

int ck_op_newobj_ex(struct ck_machine *m) {
    return call_top(m, 3);
}

int ck_op_inst(struct ck_machine *m) {
    const ck_ref *refs = NULL;
    ck_ref class_, arguments;
    uint32_t n = 0;
    int r;

    r = ck_machine_new_global(m, m->line, m->line_length, m->name, m->name_length, &class_);
    if (r < 0)
        return r;
    r = ck_machine_pop_mark(m, &refs, &n);
    if (r < 0)
        return r;
    r = ck_machine_new_items(m, CK_VALUE_TUPLE, refs, n, &arguments);
    return r < 0 ? r : push_call(m, class_, arguments, CK_REF_NONE);
}

int ck_op_obj(struct ck_machine *m) {
    const ck_ref *refs = NULL;
    ck_ref arguments;
    uint32_t n = 0;
    int r;

    r = ck_machine_pop_mark(m, &refs, &n);
    if (r < 0)
        return r;
    if (n == 0)
        return ck_machine_corrupt(m, "there is no class behind the mark");
    r = ck_machine_new_items(m, CK_VALUE_TUPLE, refs + 1, n - 1, &arguments);
    return r < 0 ? r : push_call(m, refs[0], arguments, CK_REF_NONE);
}

int ck_op_build(struct ck_machine *m) {
    struct ck_value *target;
    ck_ref *top;
    int r;

    r = ck_machine_top(m, 2, &top);
    if (r < 0)
        return r;
    m->stack_count--;
    target = &m->graph.values[top[0]];
    if (target->kind == CK_VALUE_CALL) {
        target->call.state = top[1];
        m->wrapper = ck_pickle_is_joblib(&m->graph, top[0]) ? top[0] : CK_REF_NONE;
    } else if (target->kind == CK_VALUE_GLOBAL) {
        ck_machine_note(m, CK_FINDING_DANGEROUS, "BUILD changes a bare global");
    } else if (target->kind != CK_VALUE_DICT && !is_computed(target)) {
        return ck_machine_corrupt(m, "%s takes no state", ck_value_kind_name(target->kind));
    }
    return 0;
}

static int push_persistent(struct ck_machine *m, ck_ref id) {
    return push_items(m, CK_VALUE_PERSISTENT, &id, 1);
}

int ck_op_persid(struct ck_machine *m) {
    ck_ref id = CK_REF_NONE;
    int r;

    r = ck_machine_pop(m, &id);
    return r < 0 ? r : push_persistent(m, id);
}

int ck_op_persid_line(struct ck_machine *m) {
    ck_ref id;
    int r;

    r = ck_machine_new_bytes(m, CK_VALUE_TEXT, m->argument.u, &id);
    if (r < 0)
        return r;
    m->position++;
    return push_persistent(m, id);
}

/* ---- what lies outside of the file ---- */

int ck_op_extension(struct ck_machine *m) {
    if (m->argument.i <= 0)
        return ck_machine_corrupt(m, "extension code %lld", (long long)m->argument.i);
    ck_machine_note(m, CK_FINDING_UNKNOWN, "a code of the extension registry stands for a global");
    return ck_machine_push_new(m, &(struct ck_value){.kind = CK_VALUE_OPAQUE});
}

int ck_op_next_buffer(struct ck_machine *m) {
    ck_machine_note(m, CK_FINDING_STRUCTURE, "a buffer that is not in the file is asked for");
    return ck_machine_push_new(m, &(struct ck_value){.kind = CK_VALUE_OPAQUE});
}

int ck_op_readonly_buffer(struct ck_machine *m) {
    const struct ck_value *value;
    ck_ref *top;
    int r;

    r = ck_machine_top(m, 1, &top);
    if (r < 0)
        return r;
    value = &m->graph.values[*top];
    if (value->kind != CK_VALUE_BYTES && !is_computed(value))
        return ck_machine_corrupt(m, "%s is no buffer", ck_value_kind_name(value->kind));
    return 0;
}

/* ---- protocol and frames ---- */

int ck_op_proto(struct ck_machine *m) {
    if (m->opcode_offset != m->start)
        ck_machine_note(m, CK_FINDING_STRUCTURE, "PROTO is not the first opcode");
    if (m->argument.u > PROTOCOL_MAX)
        ck_machine_note(m, CK_FINDING_STRUCTURE, "the protocol is above 5");
    return 0;
}

int ck_op_frame(struct ck_machine *m) {
    if (m->opcode_offset < m->frame_end)
        ck_machine_note(m, CK_FINDING_DANGEROUS, "a frame begins inside a frame");
    if (m->argument.u > m->source.length - m->position) {
        ck_machine_note(m, CK_FINDING_STRUCTURE, "a frame ends behind the end of the input");
        m->frame_end = 0;
        return 0;
    }
    m->frame_end = m->position + m->argument.u;
    return 0;
}

const struct ck_opcode_row ck_opcode_rows[256] = {
#define X(name, code, argument, operation) [code] = {#name, CK_ARGUMENT_##argument, ck_op_##operation},
    CK_OPCODES(X)
#undef X
};
