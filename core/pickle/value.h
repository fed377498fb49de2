/* pickle/value.h: the value graph that the pickle machine builds. Inert: a global is a pair of names, a call is a node.
 *
 * A value is a 32-bit reference into one table; shared objects are shared references, so a "billion laughs" costs what its opcodes
 * cost. The graph may have cycles: every walk over it is iterative and budgeted, or bounded by limits.pickle_depth.
 * Text and bytes up to CK_PICKLE_INLINE are in memory; longer ones stay ranges of the input. */
#ifndef CK_PICKLE_VALUE_H
#define CK_PICKLE_VALUE_H

#include "core/base/arena.h"
#include "core/base/source.h"

#define CK_PICKLE_INLINE 65536u

typedef uint32_t ck_ref; /* index of a value; CK_REF_NONE is Python's None */

enum { CK_REF_NONE, CK_REF_TRUE, CK_REF_FALSE, CK_REF_EMPTY_TUPLE, CK_REF_FIRST_FREE };

enum ck_value_kind {
    CK_VALUE_NONE,
    CK_VALUE_BOOL,   /* integer is 0 or 1 */
    CK_VALUE_INT,    /* integer */
    CK_VALUE_BIGINT, /* an integer beyond 64 bits: bytes, little-endian two's complement */
    CK_VALUE_FLOAT,  /* real */
    CK_VALUE_TEXT,   /* str, and Python 2's str: bytes, UTF-8 as a rule but not checked */
    CK_VALUE_BYTES,  /* bytes, bytearray */
    CK_VALUE_TUPLE,  /* items */
    CK_VALUE_LIST,   /* items */
    CK_VALUE_SET,    /* items (also frozenset) */
    CK_VALUE_DICT,   /* items, key and value in turn, in order of insertion; keys may repeat, the last wins */
    CK_VALUE_GLOBAL, /* a name: module and name */
    CK_VALUE_CALL,   /* callee(arguments), by REDUCE, NEWOBJ, NEWOBJ_EX, INST or OBJ; never executed */
    CK_VALUE_PERSISTENT, /* persistent id: items[0] */
    CK_VALUE_OPAQUE, /* EXT1/2/4, NEXT_BUFFER */
};

struct ck_value {
    uint8_t kind; /* enum ck_value_kind */
    union {
        int64_t integer;
        double  real;
        struct {
            const uint8_t *data;   /* in the arena, followed by a NUL; NULL if longer than CK_PICKLE_INLINE */
            uint64_t       length; /* bytes */
            uint64_t       offset; /* in the pickle's source; valid when data is NULL */
        } bytes;
        struct {
            ck_ref  *items; /* in the arena */
            uint32_t count, capacity;
        } list; /* TUPLE, LIST, SET, DICT (2 * pairs), PERSISTENT (1) */
        struct {
            const char *module, *name; /* in the arena, interned: equal names are equal pointers */
            uint32_t    module_length, name_length;
        } global;
        struct {
            ck_ref callee, arguments;  /* arguments: a tuple as a rule (NEWOBJ_EX: a tuple (args, kwargs)) */
            ck_ref state;              /* what BUILD attached last, or CK_REF_NONE */
            ck_ref items, pairs;       /* a LIST of what APPEND(S)/ADDITEMS and a DICT of what SETITEM(S) added, or CK_REF_NONE */
        } call;
    };
};

struct ck_pickle {
    struct ck_arena  arena;
    struct ck_value *values; /* owned; the table grows by doubling, so pointers into it do not survive the machine's run */
    uint32_t         count;
    ck_ref           root;   /* what STOP returned */
    uint64_t         length; /* bytes consumed, STOP included */
    struct ck_source source; /* borrowed: where long byte strings lie */
};

static inline const struct ck_value *ck_pickle_get(const struct ck_pickle *pickle, ck_ref ref) {
    return &pickle->values[ref];
}

/* The value of a text key in a DICT (or in the state or pairs of a CALL when it is one); the last wins. False if absent. */
bool ck_pickle_find(const struct ck_pickle *pickle, ck_ref dict, const char *key, ck_ref *ret_value);

/* True if the value is a GLOBAL with exactly these names. */
bool ck_pickle_is_global(const struct ck_pickle *pickle, ck_ref ref, const char *module, const char *name);

/* True if the value is TEXT (or BYTES) equal to text. */
bool ck_pickle_text_equal(const struct ck_pickle *pickle, ck_ref ref, const char *text);

void ck_pickle_release(struct ck_pickle *pickle);

#endif
