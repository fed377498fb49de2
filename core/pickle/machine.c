#include "core/pickle/machine.h"

#include "core/pickle/loader.h"
#include "core/pickle/opcode.h"
#include "core/pickle/state.h"

#include <stdio.h>
#include <string.h>

static uint64_t little_endian(const uint8_t *bytes, size_t n) {
    uint64_t value = 0;

    for (size_t i = n; i > 0; i--)
        value = value << 8 | bytes[i - 1];
    return value;
}

static int read_number(struct ck_machine *m, size_t n, uint64_t *ret_value) {
    uint8_t bytes[8];
    int r;

    r = ck_machine_read(m, bytes, n);
    if (r < 0)
        return r;
    *ret_value = little_endian(bytes, n);
    return 0;
}

static int read_signed(struct ck_machine *m, int64_t *ret_value) {
    uint64_t value = 0;
    int r;

    r = read_number(m, 4, &value);
    if (r < 0)
        return r;
    *ret_value = (int32_t)(uint32_t)value;
    return 0;
}

/* A length, and the bytes that it promises must be there: before anything is allocated for them. */
static int read_length(struct ck_machine *m, size_t n) {
    int r;

    r = read_number(m, n, &m->argument.u);
    if (r < 0)
        return r;
    return ck_machine_need(m, m->argument.u);
}

static int read_signed_length(struct ck_machine *m) {
    int64_t length = 0;
    int r;

    r = read_signed(m, &length);
    if (r < 0)
        return r;
    if (length < 0)
        return ck_machine_corrupt(m, "the length is negative (%lld)", (long long)length);
    m->argument.u = (uint64_t)length;
    return ck_machine_need(m, m->argument.u);
}

static int read_double(struct ck_machine *m) {
    uint64_t bits = 0;
    int r;

    r = read_number(m, 8, &bits);
    if (r < 0)
        return r;
    bits = __builtin_bswap64(bits);
    memcpy(&m->argument.real, &bits, sizeof(bits));
    return 0;
}

static int read_names(struct ck_machine *m) {
    int r;

    r = ck_machine_read_line(m, m->line, CK_PICKLE_NAME_MAX + 1, &m->line_length);
    if (r < 0)
        return r;
    return ck_machine_read_line(m, m->name, sizeof(m->name), &m->name_length);
}

static int read_argument(struct ck_machine *m) {
    switch ((enum ck_argument)m->opcode->argument) {
    case CK_ARGUMENT_NONE:
        return 0;
    case CK_ARGUMENT_U1:
        return read_number(m, 1, &m->argument.u);
    case CK_ARGUMENT_U2:
        return read_number(m, 2, &m->argument.u);
    case CK_ARGUMENT_I4:
        return read_signed(m, &m->argument.i);
    case CK_ARGUMENT_U4:
        return read_number(m, 4, &m->argument.u);
    case CK_ARGUMENT_U8:
        return read_number(m, 8, &m->argument.u);
    case CK_ARGUMENT_F8:
        return read_double(m);
    case CK_ARGUMENT_COUNTED1:
        return read_length(m, 1);
    case CK_ARGUMENT_COUNTED4:
        return read_length(m, 4);
    case CK_ARGUMENT_COUNTED4S:
        return read_signed_length(m);
    case CK_ARGUMENT_COUNTED8:
        return read_length(m, 8);
    case CK_ARGUMENT_NUMBER:
        return ck_machine_read_line(m, m->line, sizeof(m->line), &m->line_length);
    case CK_ARGUMENT_NAMES:
        return read_names(m);
    case CK_ARGUMENT_LINE:
        return ck_machine_line_length(m, &m->argument.u);
    }
    return ck_machine_fail(m, CK_E_INTERNAL, "an opcode without a rule for its argument");
}

/* One opcode. CPython's readers differ in what they make of an argument that leaves its frame, so such a stream hides
 * something. */
static int step(struct ck_machine *m) {
    uint64_t frame_end = m->frame_end;
    uint8_t code = 0;
    int r;

    m->opcode = NULL;
    m->opcode_offset = m->position;
    if (m->position == m->source.length)
        return ck_machine_fail(m, CK_E_TRUNCATED, "it ends without STOP, no bytes are left");
    r = ck_machine_read(m, &code, 1);
    if (r < 0)
        return r;
    if (!ck_opcode_rows[code].name)
        return ck_machine_corrupt(m, "0x%02x is no opcode", code);
    m->opcode = &ck_opcode_rows[code];
    r = read_argument(m);
    if (r >= 0)
        r = m->opcode->run(m);
    if (m->opcode_offset < frame_end && m->position > frame_end)
        ck_machine_note(m, CK_FINDING_DANGEROUS, "an argument crosses the end of its frame");
    if (r < 0 || m->wrapper == CK_REF_NONE)
        return r;
    r = ck_machine_read_joblib(m, m->wrapper);
    m->wrapper = CK_REF_NONE;
    return r;
}

static int run_all(struct ck_machine *m) {
    uint64_t count = 0;
    int r = 0;

    while (r >= 0 && !m->stopped) {
        if (count++ >= m->limits->pickle_opcodes)
            return ck_machine_limit(m, "--limit-pickle-opcodes", m->limits->pickle_opcodes, "opcodes");
        r = step(m);
    }
    return r;
}

static void begin(struct ck_machine *m, uint64_t offset) {
    m->start = m->position = offset;
    m->end = offset + CK_MIN(m->source.length - offset, m->limits->pickle_bytes);
}

/* The caller gets no graph, so nobody else will look into them; a loader meets them before the damage. */
static void note_unloaded(struct ck_machine *m) {
    if (ck_pickle_loads_any(&m->graph))
        ck_findings_add(m->findings, CK_FINDING_STRUCTURE, m->entry, m->opcode_offset, "", "",
                        "a byte string that would be loaded was not looked into", false);
}

/* Runs to STOP from `offset` on, and gives the graph away. The machine still tells where it stopped. */
static int run_from(struct ck_machine *m, uint64_t offset, struct ck_pickle *ret_pickle) {
    int r;

    begin(m, offset);
    r = run_all(m);
    if (r < 0) {
        note_unloaded(m);
        return r;
    }
    m->graph.length = m->position - offset;
    *ret_pickle = m->graph;
    m->graph = (struct ck_pickle){0};
    return 0;
}

int ck_pickle_run(const struct ck_source *source, const char *entry, const struct ck_limits *limits,
                  struct ck_findings *findings, struct ck_pickle *ret_pickle, struct ck_error *err) {
    _cleanup_(ck_machine_release) struct ck_machine m = {0};
    int r;

    r = ck_machine_init(&m, source, entry, limits, findings, err);
    if (r == 0)
        r = run_from(&m, 0, ret_pickle);
    if (r < 0)
        return r;
    if (m.position < source->length) {
        m.opcode_offset = m.position;
        ck_machine_note(&m, CK_FINDING_STRUCTURE, "bytes follow STOP");
    }
    return 0;
}

int ck_pickle_run_at(const struct ck_source *source, uint64_t offset, const char *entry, const struct ck_limits *limits,
                     struct ck_findings *findings, struct ck_pickle *ret_pickle, struct ck_error *err) {
    _cleanup_(ck_machine_release) struct ck_machine m = {0};
    struct ck_source rest;
    int r;

    r = ck_source_part(source, offset, source->length - CK_MIN(offset, source->length), &rest, err);
    if (r == 0)
        r = ck_machine_init(&m, source, entry, limits, findings, err);
    return r < 0 ? r : run_from(&m, offset, ret_pickle);
}

/* What one pickle knows of the one before it: nothing. */
static void begin_next(struct ck_machine *m) {
    ck_machine_forget(m);
    m->stack_count = m->mark_count = 0;
    m->frame_end = 0;
    m->stopped = false;
    begin(m, m->position);
}

/* Puts the root of a pickle into the mapping of all of them. */
static int add_root(struct ck_machine *m, ck_ref roots, uint32_t number) {
    struct ck_value key = {.kind = CK_VALUE_TEXT};
    char name[16] = "";
    ck_ref pair[2] = {CK_REF_NONE, m->graph.root};
    uint8_t *text;
    int n = number > 0 ? snprintf(name, sizeof(name), "#%u", number) : 0, r;

    r = ck_machine_alloc(m, (size_t)n + 1, 1, &text);
    if (r < 0)
        return r;
    memcpy(text, name, (size_t)n + 1);
    key.bytes.data = text;
    key.bytes.length = (uint64_t)n;
    r = ck_machine_new(m, &key, &pair[0]);
    return r < 0 ? r : ck_machine_extend(m, roots, pair, 2);
}

static bool begins_like_pickle(const struct ck_machine *m) {
    uint8_t head[2];

    return ck_source_read(&m->source, m->start, head, sizeof(head), NULL) == 0 && head[0] == 0x80 && head[1] <= 5;
}

/* What followed the last pickle was none. It is bytes behind STOP, unless it began like one: then it is a damaged one.
 */
static int end_stream(struct ck_machine *m, const struct ck_error *why) {
    if ((why->code != CK_E_PICKLE_CORRUPT && why->code != CK_E_TRUNCATED) || begins_like_pickle(m))
        return ck_error_set(m->err, why->code, why->where, "%s", why->message);
    m->opcode = &ck_opcode_rows['.'];
    m->opcode_offset = m->position = m->start;
    ck_machine_note(m, CK_FINDING_STRUCTURE, "bytes follow STOP");
    m->source.length = m->start;
    return 0;
}

static int run_next(struct ck_machine *m) {
    struct ck_error *err = m->err, local = {0};
    int r;

    begin_next(m);
    m->err = &local;
    r = run_all(m);
    m->err = err;
    return r < 0 ? end_stream(m, &local) : 0;
}

int ck_pickle_run_stream(const struct ck_source *source, const char *entry, const struct ck_limits *limits,
                         struct ck_findings *findings, struct ck_pickle *ret_pickle, uint32_t *ret_count,
                         struct ck_error *err) {
    _cleanup_(ck_machine_release) struct ck_machine m = {0};
    ck_ref roots = CK_REF_NONE;
    uint32_t count = 0;
    int r;

    r = ck_machine_init(&m, source, entry, limits, findings, err);
    if (r == 0)
        r = ck_machine_new_items(&m, CK_VALUE_DICT, NULL, 0, &roots);
    begin(&m, 0);
    if (r == 0)
        r = run_all(&m);
    if (r == 0)
        r = add_root(&m, roots, count++);
    while (r == 0 && m.position < m.source.length) {
        if (count >= limits->pickles)
            return ck_machine_limit(&m, "--limit-pickles", limits->pickles, "pickles one after another");
        r = run_next(&m);
        if (r == 0 && m.position > m.start)
            r = add_root(&m, roots, count++);
    }
    if (r < 0) {
        note_unloaded(&m);
        return r;
    }
    m.graph.root = count == 1 ? m.graph.values[roots].list.items[1] : roots;
    m.graph.length = m.position;
    *ret_pickle = m.graph;
    *ret_count = count;
    m.graph = (struct ck_pickle){0};
    return 0;
}
