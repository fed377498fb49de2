#include "core/pickle/state.h"

#include <string.h>

#define WINDOW_BYTES ((size_t)65536)

static int too_long(struct ck_machine *m) {
    return ck_machine_limit(m, "--limit-pickle-bytes", m->limits->pickle_bytes, "bytes of one pickle");
}

int ck_machine_need(struct ck_machine *m, uint64_t n) {
    uint64_t left = m->source.length - m->position;

    if (n > left)
        return ck_machine_fail(m, CK_E_TRUNCATED, "%llu bytes are needed at byte %llu, but only %llu are left",
                               (unsigned long long)n, (unsigned long long)m->position, (unsigned long long)left);
    /* What is only passed over is not held against the pickle: the weights of plain pickles are such strings. */
    if (n > m->end - m->position && n <= CK_PICKLE_INLINE)
        return too_long(m);
    return 0;
}

/* Moves the window so that it holds at least one byte at position. */
static int fill(struct ck_machine *m) {
    uint64_t n = CK_MIN((uint64_t)WINDOW_BYTES, m->source.length - m->position);
    int r;

    if (m->position >= m->window_start && m->position - m->window_start < m->window_length)
        return 0;
    r = ck_source_read(&m->source, m->position, m->window_memory, (size_t)n, m->err);
    if (r < 0)
        return r;
    m->window_start = m->position;
    m->window_length = (size_t)n;
    return 0;
}

/* What the window holds from position on, and no further than the pickle may reach. At least one byte. */
static int peek(struct ck_machine *m, const uint8_t **ret_bytes, size_t *ret_n) {
    size_t skip;
    int r;

    r = ck_machine_need(m, 1);
    if (r < 0)
        return r;
    r = fill(m);
    if (r < 0)
        return r;
    skip = (size_t)(m->position - m->window_start);
    *ret_bytes = m->window + skip;
    *ret_n = (size_t)CK_MIN((uint64_t)(m->window_length - skip), m->end - m->position);
    return 0;
}

int ck_machine_read(struct ck_machine *m, void *bytes, size_t n) {
    uint8_t *out = bytes;
    int r;

    r = ck_machine_need(m, n);
    if (r >= 0 && n > m->end - m->position)
        r = too_long(m);
    while (r >= 0 && n > 0) {
        const uint8_t *in;
        size_t there, take;

        r = peek(m, &in, &there);
        if (r < 0)
            break;
        take = CK_MIN(there, n);
        memcpy(out, in, take);
        out += take;
        n -= take;
        m->position += take;
    }
    return r;
}

int ck_machine_read_line(struct ck_machine *m, char *line, size_t capacity, size_t *ret_length) {
    const uint8_t *newline = NULL;
    size_t length = 0;

    while (!newline) {
        const uint8_t *in;
        size_t there, take;
        int r = peek(m, &in, &there);

        if (r < 0)
            return r;
        newline = memchr(in, '\n', there);
        take = newline ? (size_t)(newline - in) : there;
        if (take >= capacity - length)
            return ck_machine_corrupt(m, "a line of more than %zu bytes", capacity - 1);
        memcpy(line + length, in, take);
        length += take;
        m->position += take + (newline != NULL);
    }
    line[length] = 0;
    *ret_length = length;
    return 0;
}

int ck_machine_line_length(struct ck_machine *m, uint64_t *ret_length) {
    uint64_t start = m->position, length;
    const uint8_t *newline = NULL;

    while (!newline) {
        const uint8_t *in;
        size_t there;
        int r = peek(m, &in, &there);

        if (r < 0)
            return r;
        newline = memchr(in, '\n', there);
        m->position += newline ? (size_t)(newline - in) : there;
    }
    length = m->position - start;
    m->position = start;
    *ret_length = length;
    return 0;
}
