#include "core/pickle/machine.h"

#include "core/pickle/opcode.h"
#include "core/pickle/state.h"

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

int ck_pickle_run(const struct ck_source *source, const char *entry, const struct ck_limits *limits,
                  struct ck_findings *findings, struct ck_pickle *ret_pickle, struct ck_error *err) {
    _cleanup_(ck_machine_release) struct ck_machine m = {0};
    int r;

    r = ck_machine_init(&m, source, entry, limits, findings, err);
    if (r < 0)
        return r;
    r = run_all(&m);
    if (r < 0)
        return r;
    m.graph.length = m.position;
    if (m.position < source->length) {
        m.opcode_offset = m.position;
        ck_machine_note(&m, CK_FINDING_STRUCTURE, "bytes follow STOP");
    }
    *ret_pickle = m.graph;
    m.graph = (struct ck_pickle){0};
    return 0;
}
