/* pickle/value.h: the value graph that the pickle machine builds. Inert: a global is a pair of names, a call is a node.
 *
 * A value is a 32-bit reference into one table; shared objects are shared references, so a "billion laughs" costs what
 * its opcodes cost. The graph may have cycles: every walk over it is iterative and budgeted, or bounded by
 * limits.pickle_depth. Text and bytes up to CK_PICKLE_INLINE are in memory; longer ones stay ranges of the input.
 *
 * How the usual things look (ck_pickle_pairs(), ck_pickle_items() and ck_pickle_class() hide the differences):
 *
 *   {..}                         DICT
 *   OrderedDict()                CALL; callee GLOBAL collections OrderedDict; arguments (); call.pairs: a DICT of what
 *                                SETITEM(S) added; call.state: {"_metadata": ..} on state dicts
 *   OrderedDict([[k, v], ..])    the same, but arguments ([[k, v], ..],) and call.pairs CK_REF_NONE (Python 2 writers)
 *   set([..]) at protocol 2      CALL; callee GLOBAL __builtin__ set; arguments ([..],)
 *   a module object              CALL; callee its class; arguments () (or those of copy_reg._reconstructor);
 *                                call.state: a DICT of its attributes
 *   the same in a legacy file    the callee is PERSISTENT ('module', class, file, source)
 *   an array of joblib's         CALL; callee its NumpyArrayWrapper; arguments (the bytes behind BUILD,); see numpy.h */
#ifndef CK_PICKLE_VALUE_H
#define CK_PICKLE_VALUE_H

#include "core/base/arena.h"
#include "core/base/source.h"

#define CK_PICKLE_INLINE 4096u /* no less than the longest name of a global */

typedef uint32_t ck_ref; /* index of a value; CK_REF_NONE is Python's None */

enum { CK_REF_NONE, CK_REF_TRUE, CK_REF_FALSE, CK_REF_EMPTY_TUPLE, CK_REF_FIRST_FREE };

enum ck_value_kind {
    CK_VALUE_NONE,
    CK_VALUE_BOOL,       /* integer is 0 or 1 */
    CK_VALUE_INT,        /* integer */
    CK_VALUE_BIGINT,     /* an integer beyond 64 bits: bytes, little-endian two's complement */
    CK_VALUE_FLOAT,      /* real */
    CK_VALUE_TEXT,       /* str, and Python 2's str: bytes, UTF-8 as a rule but not checked */
    CK_VALUE_BYTES,      /* bytes, bytearray */
    CK_VALUE_TUPLE,      /* items */
    CK_VALUE_LIST,       /* items */
    CK_VALUE_SET,        /* items (also frozenset) */
    CK_VALUE_DICT,       /* items, key and value in turn, in order of insertion; keys may repeat, the last wins */
    CK_VALUE_GLOBAL,     /* a name: module and name */
    CK_VALUE_CALL,       /* callee(arguments), by REDUCE, NEWOBJ, NEWOBJ_EX, INST or OBJ; never executed */
    CK_VALUE_PERSISTENT, /* persistent id: items[0] */
    CK_VALUE_OPAQUE,     /* EXT1/2/4, NEXT_BUFFER */
};

struct ck_value {
    uint8_t kind;  /* enum ck_value_kind */
    uint32_t note; /* the machine's own: of a global, where its finding is */
    union {
        int64_t integer;
        double real;
        struct {
            const uint8_t *data; /* in the arena, followed by a NUL; NULL if longer than CK_PICKLE_INLINE, except that
                                    what had to be unescaped (STRING, UNICODE of protocol 0) is always in the arena */
            uint64_t length;     /* bytes */
            uint64_t offset;     /* in the pickle's source; 0 if what had to be unescaped does not lie there as it is */
        } bytes;
        struct {
            ck_ref *items; /* in the arena */
            uint32_t count, capacity;
        } list; /* TUPLE, LIST, SET, DICT (2 * pairs), PERSISTENT (1) */
        struct {
            const char *module, *name; /* in the arena, interned: equal names are equal pointers */
            uint32_t module_length, name_length;
        } global;
        struct {
            ck_ref callee, arguments; /* arguments: a TUPLE as a rule, but a file may put anything here */
            ck_ref keywords;          /* NEWOBJ_EX: a DICT as a rule; CK_REF_NONE for the other opcodes */
            ck_ref state;             /* what BUILD attached last, or CK_REF_NONE */
            ck_ref items;             /* a LIST of what APPEND(S) and ADDITEMS added, or CK_REF_NONE */
            ck_ref pairs;             /* a DICT of what SETITEM(S) added, or CK_REF_NONE */
        } call;
    };
};

struct ck_pickle {
    struct ck_arena arena;
    struct ck_value *values; /* owned; the machine is done with it, so pointers into it stay good */
    uint32_t count;
    ck_ref root;             /* what STOP returned */
    uint64_t length;         /* bytes consumed, STOP included */
    struct ck_source source; /* borrowed: where long byte strings lie */
};

static inline const struct ck_value *ck_pickle_get(const struct ck_pickle *pickle, ck_ref ref) {
    return &pickle->values[ref];
}

/* A walk over the members of one value; the caller keeps it on the stack. Borrows the graph. */
struct ck_pickle_walk {
    const struct ck_pickle *pickle;
    const ck_ref *items[2]; /* what the call's argument gives, then what the opcodes added */
    uint32_t count[2];      /* references in each */
    uint32_t part, next;
    bool nested[2]; /* the items are pairs of their own: [[k, v], ..] */
};

/* The pairs of a mapping: of a DICT; of a CALL, those that SETITEM(S) added, and before them those of its argument if
 * the callee is dict, OrderedDict, Counter, defaultdict or copy_reg._reconstructor with base dict. False (and an empty
 * walk) if the value can have no pairs; a CALL without any counts as one that can. Keys may repeat: the last wins. */
bool ck_pickle_pairs(const struct ck_pickle *pickle, ck_ref ref, struct ck_pickle_walk *ret_walk);

/* The next pair; false at the end. Members of a nested list that are no pairs are passed over. */
bool ck_pickle_next_pair(struct ck_pickle_walk *walk, ck_ref *ret_key, ck_ref *ret_value);

/* The items of a sequence: of a LIST, TUPLE or SET; of a CALL, those that APPEND(S) or ADDITEMS added, and before them
 * those of its argument if the callee is list, tuple, set, frozenset, deque, torch.Size or copy_reg._reconstructor with
 * one of these as its base. False (and an empty walk) if the value can have no items. */
bool ck_pickle_items(const struct ck_pickle *pickle, ck_ref ref, struct ck_pickle_walk *ret_walk);

/* The next item; false at the end. */
bool ck_pickle_next_item(struct ck_pickle_walk *walk, ck_ref *ret_item);

/* The value of a text key in the pairs of a DICT or CALL, or else in the state of a CALL: a mapping, or a tuple of
 * mappings (attributes, slots). The last wins. Linear in the number of pairs. False if absent. */
bool ck_pickle_find(const struct ck_pickle *pickle, ck_ref dict, const char *key, ck_ref *ret_value);

/* The GLOBAL that a CALL makes an instance of, or calls: its callee; the class inside a legacy PERSISTENT ('module',
 * class, ..) callee; the first argument of copy_reg._reconstructor and __newobj__. False if ref is no CALL or the
 * callee is computed. */
bool ck_pickle_class(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_global);

/* The class inside a persistent id that also carries its source: ('module', class, file, source) in a legacy stream,
 * (class, file, source) in a tar of torch 0.1. False if ref is no such id; *ret_class is then untouched. */
bool ck_pickle_wrapped_class(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_class);

/* The index-th positional argument of a CALL; the index-th item of a TUPLE or LIST. False if there is none. */
bool ck_pickle_argument(const struct ck_pickle *pickle, ck_ref ref, uint32_t index, ck_ref *ret_value);

/* True if the value is a GLOBAL with exactly these names. */
bool ck_pickle_is_global(const struct ck_pickle *pickle, ck_ref ref, const char *module, const char *name);

/* True if the value is TEXT (or BYTES) equal to text. */
bool ck_pickle_text_equal(const struct ck_pickle *pickle, ck_ref ref, const char *text);

/* "None", "int", "a call" ...: the kind for messages. Static storage. */
const char *ck_value_kind_name(enum ck_value_kind kind);

void ck_pickle_release(struct ck_pickle *pickle);

#endif
