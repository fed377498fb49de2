#include "core/model/bytes.h"

#include <string.h>

#include "core/model/memory.h"

#define WINDOW ((size_t)65536)
#define SMALL  65536u /* up to this bytes go into memory */

/* Where bytes go that do not lie in the file as they are. */
struct sink {
    struct ck_rebuild *rebuild;
    struct ck_scratch *scratch; /* NULL: into memory */
    uint8_t *memory;
    size_t used;
    uint64_t start; /* in the scratch file */
};

/* False if this pickle had its share: a byte of protocol 0 may be two in the unescaped text. */
static bool spend(struct ck_rebuild *rebuild, uint64_t bytes) {
    if (ck_add_saturated(rebuild->copied, bytes) / 2 > rebuild->pickle->source.length)
        return false;
    rebuild->copied += bytes;
    return true;
}

static int sink_open(struct ck_rebuild *rebuild, uint64_t most, struct sink *ret_sink, const char **ret_problem,
                     struct ck_error *err) {
    struct sink sink = {.rebuild = rebuild};

    if (!spend(rebuild, most)) {
        *ret_problem = "are a text that stands for many arrays";
        return 0;
    }
    if (most > SMALL) {
        sink.scratch = rebuild->scratch;
        if (!sink.scratch) {
            *ret_problem = "are written as text, which needs a scratch file to unpack";
            return 0;
        }
        sink.start = sink.scratch->used;
    } else {
        sink.memory = ck_arena_alloc(rebuild->arena, (size_t)most);
        if (!sink.memory)
            return ck_model_memory_spent(rebuild->limits, err);
    }
    *ret_sink = sink;
    return 0;
}

static int sink_add(struct sink *sink, const uint8_t *bytes, size_t n, struct ck_error *err) {
    if (sink->scratch)
        return ck_scratch_add(sink->scratch, bytes, n, err);
    if (n > 0)
        memcpy(sink->memory + sink->used, bytes, n);
    sink->used += n;
    return 0;
}

static struct ck_source sink_source(const struct sink *sink) {
    return sink->scratch ? ck_scratch_since(sink->scratch, sink->start)
                         : ck_source_from_memory(sink->memory, sink->used);
}

/* A window of a string's bytes, wherever they are. */
static int read_window(const struct ck_pickle *pickle, const struct ck_value *value, uint64_t at, uint8_t *window,
                       size_t n, struct ck_error *err) {
    if (!value->bytes.data)
        return ck_source_read(&pickle->source, value->bytes.offset + at, window, n, err);
    memcpy(window, value->bytes.data + at, n);
    return 0;
}

/* UTF-8 to latin-1, in place; *lead is the first half of a character that the last window ended with, or 0. SIZE_MAX
 * for a character beyond 0xFF, or a damaged one. */
static size_t narrow(uint8_t *window, size_t n, uint8_t *lead) {
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        uint8_t byte = window[i];

        if (*lead) {
            if ((byte & 0xC0) != 0x80)
                return SIZE_MAX;
            window[out++] = (uint8_t)((*lead & 3) << 6 | (byte & 0x3F));
            *lead = 0;
        } else if (byte < 0x80) {
            window[out++] = byte;
        } else if (byte == 0xC2 || byte == 0xC3) {
            *lead = byte;
        } else {
            return SIZE_MAX;
        }
    }
    return out;
}

/* Copies a string, as it is or from text to the bytes that it stands for. */
static int copy(struct ck_rebuild *rebuild, const struct ck_value *value, bool text, struct ck_source *ret_bytes,
                const char **ret_problem, struct ck_error *err) {
    uint8_t window[WINDOW], lead = 0;
    struct sink sink = {0};
    int r;

    r = sink_open(rebuild, value->bytes.length, &sink, ret_problem, err);
    for (uint64_t at = 0; r == 0 && !*ret_problem && at < value->bytes.length;) {
        size_t n = (size_t)CK_MIN((uint64_t)WINDOW, value->bytes.length - at);

        r = read_window(rebuild->pickle, value, at, window, n, err);
        if (r < 0)
            return r;
        at += n;
        if (text)
            n = narrow(window, n, &lead);
        if (n == SIZE_MAX || (lead && at == value->bytes.length))
            *ret_problem = "are no latin-1 text";
        else
            r = sink_add(&sink, window, n, err);
    }
    if (r == 0 && !*ret_problem)
        *ret_bytes = sink_source(&sink);
    return r;
}

static int plain(struct ck_rebuild *rebuild, const struct ck_value *value, struct ck_source *ret_bytes,
                 const char **ret_problem, struct ck_error *err) {
    if (rebuild->passing || value->bytes.offset == 0)
        return copy(rebuild, value, false, ret_bytes, ret_problem, err);
    return ck_source_part(&rebuild->pickle->source, value->bytes.offset, value->bytes.length, ret_bytes, err);
}

static bool is_latin1(const struct ck_pickle *pickle, ck_ref ref) {
    return ck_pickle_text_equal(pickle, ref, "latin1") || ck_pickle_text_equal(pickle, ref, "latin-1") ||
           ck_pickle_text_equal(pickle, ref, "iso-8859-1");
}

static bool is_builtin(const struct ck_pickle *pickle, ck_ref ref, const char *name) {
    return ck_pickle_is_global(pickle, ref, "builtins", name) || ck_pickle_is_global(pickle, ref, "__builtin__", name);
}

/* The string behind a call, if it is one of those that make bytes. CK_REF_NONE: empty bytes. */
static bool unwrap(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_string, bool *ret_text) {
    ck_ref callee = ck_pickle_get(pickle, ref)->call.callee, encoding;

    if (is_builtin(pickle, callee, "bytes") || is_builtin(pickle, callee, "bytearray")) {
        if (!ck_pickle_argument(pickle, ref, 0, ret_string)) {
            *ret_string = CK_REF_NONE;
            return true;
        }
        *ret_text = ck_pickle_argument(pickle, ref, 1, &encoding);
        return !*ret_text || is_latin1(pickle, encoding);
    }
    *ret_text = true;
    return ck_pickle_is_global(pickle, callee, "_codecs", "encode") && ck_pickle_argument(pickle, ref, 0, ret_string) &&
           ck_pickle_argument(pickle, ref, 1, &encoding) && is_latin1(pickle, encoding);
}

int ck_pickled_bytes(struct ck_rebuild *rebuild, ck_ref ref, struct ck_source *ret_bytes, const char **ret_problem,
                     struct ck_error *err) {
    const struct ck_pickle *pickle = rebuild->pickle;
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    bool text = false;

    *ret_problem = NULL;
    /* bytearray(_codecs.encode(..)) at protocol 2: one call in the other, no deeper. */
    for (unsigned depth = 0; value->kind == CK_VALUE_CALL && depth < 2 && !text; depth++) {
        if (!unwrap(pickle, ref, &ref, &text)) {
            *ret_problem = "are the result of a call that is not known";
            return 0;
        }
        value = ck_pickle_get(pickle, ref);
        if (ref == CK_REF_NONE) {
            *ret_bytes = ck_source_from_memory("", 0);
            return 0;
        }
    }
    if (value->kind == CK_VALUE_OPAQUE)
        *ret_problem = "are not in the file (a buffer of protocol 5 that was kept apart)";
    else if (value->kind != CK_VALUE_TEXT && value->kind != CK_VALUE_BYTES)
        *ret_problem = "are something else than a byte string";
    if (*ret_problem)
        return 0;
    return text ? copy(rebuild, value, true, ret_bytes, ret_problem, err)
                : plain(rebuild, value, ret_bytes, ret_problem, err);
}
