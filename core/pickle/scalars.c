/* pickle/scalars.c: the opcodes that push constants, numbers, text and bytes. */
#include "core/pickle/literal.h"
#include "core/pickle/state.h"

#include <string.h>

/* ---- constants and numbers ---- */

int ck_op_none(struct ck_machine *m) {
    return ck_machine_push(m, CK_REF_NONE);
}

int ck_op_true(struct ck_machine *m) {
    return ck_machine_push(m, CK_REF_TRUE);
}

int ck_op_false(struct ck_machine *m) {
    return ck_machine_push(m, CK_REF_FALSE);
}

static int push_int(struct ck_machine *m, int64_t integer) {
    ck_ref ref;
    int r;

    r = ck_machine_new_int(m, integer, &ref);
    return r < 0 ? r : ck_machine_push(m, ref);
}

int ck_op_int_binary(struct ck_machine *m) {
    return push_int(m, m->argument.i);
}

static int push_big(struct ck_machine *m, const uint8_t *bytes, size_t n) {
    uint8_t *copy;
    int r;

    r = ck_machine_alloc(m, n + 1, 1, &copy);
    if (r < 0)
        return r;
    memcpy(copy, bytes, n);
    copy[n] = 0;
    return ck_machine_push_new(m, &(struct ck_value){.kind = CK_VALUE_BIGINT, .bytes = {.data = copy, .length = n}});
}

static int push_decimal(struct ck_machine *m, size_t n) {
    struct ck_literal_int literal;

    if (!ck_literal_int(m->line, n, &literal))
        return ck_machine_corrupt(m, "its line is no decimal integer of at most %u digits", CK_LITERAL_DIGITS_MAX);
    return literal.big ? push_big(m, literal.bytes, literal.length) : push_int(m, literal.value);
}

int ck_op_int_line(struct ck_machine *m) {
    /* Protocol 0 writes booleans like this. */
    if (m->line_length == 2 && memcmp(m->line, "00", 2) == 0)
        return ck_op_false(m);
    if (m->line_length == 2 && memcmp(m->line, "01", 2) == 0)
        return ck_op_true(m);
    return push_decimal(m, m->line_length);
}

int ck_op_long_line(struct ck_machine *m) {
    size_t n = m->line_length;

    return push_decimal(m, n > 0 && m->line[n - 1] == 'L' ? n - 1 : n);
}

int ck_op_long_binary(struct ck_machine *m) {
    uint64_t n = m->argument.u;
    struct ck_value *value;
    uint8_t bytes[256];
    ck_ref ref;
    int r;

    if (n <= sizeof(bytes)) {
        r = ck_machine_read(m, bytes, (size_t)n);
        if (r < 0)
            return r;
        n = ck_literal_long_trim(bytes, (size_t)n);
        return n <= 8 ? push_int(m, ck_literal_long(bytes, (size_t)n)) : push_big(m, bytes, (size_t)n);
    }
    r = ck_machine_new_bytes(m, CK_VALUE_BIGINT, n, &ref);
    if (r < 0)
        return r;
    value = &m->graph.values[ref];
    if (value->bytes.data) {
        size_t length = ck_literal_long_trim(value->bytes.data, (size_t)n);

        /* The NUL behind the text moves with its end. */
        ((uint8_t *)(uintptr_t)value->bytes.data)[length] = 0;
        value->bytes.length = length;
    }
    if (value->bytes.data && value->bytes.length <= 8)
        *value = (struct ck_value){.kind = CK_VALUE_INT,
                                   .integer = ck_literal_long(value->bytes.data, (size_t)value->bytes.length)};
    return ck_machine_push(m, ref);
}

int ck_op_float_line(struct ck_machine *m) {
    double real;

    if (!ck_literal_float(m->line, m->line_length, &real))
        return ck_machine_corrupt(m, "its line is no floating point number");
    return ck_machine_push_new(m, &(struct ck_value){.kind = CK_VALUE_FLOAT, .real = real});
}

int ck_op_float_binary(struct ck_machine *m) {
    return ck_machine_push_new(m, &(struct ck_value){.kind = CK_VALUE_FLOAT, .real = m->argument.real});
}

/* ---- text and bytes ---- */

static int push_bytes(struct ck_machine *m, enum ck_value_kind kind) {
    ck_ref ref;
    int r;

    r = ck_machine_new_bytes(m, kind, m->argument.u, &ref);
    return r < 0 ? r : ck_machine_push(m, ref);
}

int ck_op_text(struct ck_machine *m) {
    return push_bytes(m, CK_VALUE_TEXT);
}

int ck_op_bytes(struct ck_machine *m) {
    return push_bytes(m, CK_VALUE_BYTES);
}

/* Reads the line into the arena at bytes[room], so that room bytes are free before it; and steps over the line break.
 */
static int read_whole_line(struct ck_machine *m, size_t room, uint8_t **ret_bytes) {
    size_t n = (size_t)m->argument.u;
    uint8_t *bytes;
    int r;

    r = ck_machine_alloc(m, room + n + 1, 1, &bytes);
    if (r < 0)
        return r;
    r = ck_machine_read(m, bytes + room, n);
    if (r < 0)
        return r;
    bytes[room + n] = 0;
    m->position++;
    *ret_bytes = bytes;
    return 0;
}

static int push_text(struct ck_machine *m, const uint8_t *text, size_t n) {
    return ck_machine_push_new(m, &(struct ck_value){.kind = CK_VALUE_TEXT, .bytes = {.data = text, .length = n}});
}

int ck_op_string_line(struct ck_machine *m) {
    uint8_t *line, *text = NULL;
    size_t n;
    int r;

    r = read_whole_line(m, 0, &line);
    if (r < 0)
        return r;
    n = ck_literal_string(line, (size_t)m->argument.u, &text);
    if (n == SIZE_MAX)
        return ck_machine_corrupt(m, "its line is no quoted string");
    text[n] = 0;
    return push_text(m, text, n);
}

int ck_op_unicode_line(struct ck_machine *m) {
    size_t n = (size_t)m->argument.u;
    uint8_t *text;
    int r;

    r = read_whole_line(m, n, &text);
    if (r < 0)
        return r;
    n = ck_literal_unicode(text + n, n, text);
    if (n == SIZE_MAX)
        return ck_machine_corrupt(m, "its line holds a malformed \\u escape");
    text[n] = 0;
    return push_text(m, text, n);
}
