/* pickle/state.h: what the machine holds while it runs. Private to this room.
 *
 * Everything that grows is charged against one budget of bytes: the arena, the value table, the stack, the marks, the
 * memo. The input is read through a window of 64 KiB; a source in memory is its own window. */
#ifndef CK_PICKLE_STATE_H
#define CK_PICKLE_STATE_H

#include "core/base/strmap.h"
#include "core/pickle/machine.h"
#include "core/pickle/opcode.h"

#define CK_PICKLE_NAME_MAX 4096u /* bytes of a module's or global's name; longer lines are refused */
#define CK_PICKLE_LINE_MAX (CK_PICKLE_NAME_MAX + 512u) /* of a line with a number: 4,300 digits, sign and L */
#define CK_PICKLE_SMALL    256u                        /* ints below are made once */
#define CK_REF_UNSET       UINT32_MAX

struct ck_opcode_row;

struct ck_memo_slot {
    uint32_t index;
    ck_ref ref; /* CK_REF_UNSET if the slot is free */
};

/* Dense while indices are (writers count from 0), hashed beyond: an index of 2^31 costs one slot. */
struct ck_memo {
    ck_ref *dense;
    size_t dense_capacity;
    struct ck_memo_slot *hashed;
    size_t hashed_count, hashed_capacity; /* capacity is 0 or a power of two */
    uint32_t count;                       /* different indices that were set; the index of the next MEMOIZE */
};

struct ck_machine {
    const struct ck_limits *limits;
    struct ck_findings *findings;
    const char *entry;
    struct ck_error *err;

    /* Reader. */
    struct ck_source source;
    uint64_t start;         /* of the pickle that runs */
    uint64_t position;      /* of the next byte */
    uint64_t end;           /* position may not pass it: the source's length or limits.pickle_bytes */
    const uint8_t *window;  /* bytes [window_start, window_start + window_length) */
    uint8_t *window_memory; /* owned; NULL for a source in memory */
    uint64_t window_start;
    size_t window_length;
    uint64_t frame_end; /* 0 outside of frames */

    /* The opcode that runs. */
    const struct ck_opcode_row *opcode;
    uint64_t opcode_offset;
    union {
        uint64_t u;
        int64_t i;
        double real;
    } argument;                        /* the number, or the length of what follows */
    char line[CK_PICKLE_LINE_MAX + 1]; /* NUMBER: the number; NAMES: the module */
    char name[CK_PICKLE_NAME_MAX + 1]; /* NAMES */
    size_t line_length, name_length;
    bool stopped;
    ck_ref wrapper; /* joblib's, whose array follows the BUILD that just ran; CK_REF_NONE if there is none */

    /* Values. */
    struct ck_pickle graph;
    size_t value_capacity;
    ck_ref *stack;
    size_t stack_count, stack_capacity;
    uint32_t *marks; /* heights of the stack */
    size_t mark_count, mark_capacity;
    struct ck_memo memo;
    struct ck_strmap globals;           /* "module\nname" to its value */
    ck_ref small_ints[CK_PICKLE_SMALL]; /* CK_REF_NONE until made */
    size_t budget, charged;             /* bytes; charged does not hold the arena's */
};

int ck_machine_init(struct ck_machine *m, const struct ck_source *source, const char *entry,
                    const struct ck_limits *limits, struct ck_findings *findings, struct ck_error *err);
void ck_machine_release(struct ck_machine *m);

/* Fails with "OPCODE at byte N: ...". */
int ck_machine_fail(struct ck_machine *m, int code, const char *format, ...) _printf_(3, 4);
int ck_machine_corrupt(struct ck_machine *m, const char *format, ...) _printf_(2, 3);

/* Fails with CK_E_PICKLE_LIMIT: "OPCODE at byte N: more than `most` `what`", and a hint that names the setting. */
int ck_machine_limit(struct ck_machine *m, const char *setting, uint64_t most, const char *what);

/* Adds a finding of no global: a sentence. */
void ck_machine_note(struct ck_machine *m, enum ck_finding_class class_, const char *sentence);

/* reader.c. All return 0, CK_E_TRUNCATED, CK_E_PICKLE_LIMIT (pickle_bytes), CK_E_PICKLE_CORRUPT (a line too long) or
 * CK_E_IO. */
int ck_machine_need(struct ck_machine *m, uint64_t n); /* n bytes are there; allocates and reads nothing */
int ck_machine_read(struct ck_machine *m, void *bytes, size_t n);
int ck_machine_read_line(struct ck_machine *m, char *line, size_t capacity,
                         size_t *ret_length); /* without '\n', with NUL */
int ck_machine_line_length(struct ck_machine *m,
                           uint64_t *ret_length); /* up to '\n', which is not counted; reads on from the same place */

/* memory.c. */
/* Makes room for `need` elements of `size` bytes, doubling as far as the budget allows. */
int ck_machine_grow(struct ck_machine *m, void *pointer_to_array, size_t *capacity, size_t need, size_t size);
int ck_machine_alloc(struct ck_machine *m, size_t count, size_t size, void *ret_pointer); /* from the arena */
int ck_machine_put(struct ck_machine *m, uint32_t index, ck_ref ref);
bool ck_machine_get(const struct ck_machine *m, uint32_t index, ck_ref *ret_ref);
void ck_machine_forget(struct ck_machine *m); /* empties the memo, and gives its memory back to the budget */

/* state.c: the stack. A value below the topmost mark is out of reach, as in CPython. */
int ck_machine_push(struct ck_machine *m, ck_ref ref);
int ck_machine_top(struct ck_machine *m, size_t n,
                   ck_ref **ret_refs); /* the n topmost, lowest first; borrowed until the next push */
int ck_machine_pop(struct ck_machine *m, ck_ref *ret_ref);
int ck_machine_mark(struct ck_machine *m);
/* Takes the topmost mark and all above it from the stack; the refs stay readable until the next push. */
int ck_machine_pop_mark(struct ck_machine *m, const ck_ref **ret_refs, uint32_t *ret_count);

/* state.c: values. ret_ref is not pushed. */
int ck_machine_new(struct ck_machine *m, const struct ck_value *value, ck_ref *ret_ref);
int ck_machine_push_new(struct ck_machine *m, const struct ck_value *value);
int ck_machine_new_int(struct ck_machine *m, int64_t integer, ck_ref *ret_ref);
int ck_machine_new_items(struct ck_machine *m, enum ck_value_kind kind, const ck_ref *refs, uint32_t n,
                         ck_ref *ret_ref);
int ck_machine_extend(struct ck_machine *m, ck_ref list, const ck_ref *refs, uint32_t n);
/* The next n bytes of the input as a value of this kind; beyond CK_PICKLE_INLINE only their place is kept, and they
 * do not count as bytes of the pickle. */
int ck_machine_new_bytes(struct ck_machine *m, enum ck_value_kind kind, uint64_t n, ck_ref *ret_ref);
/* numpy.c: passes over the array behind a wrapper of joblib and makes it the wrapper's argument. CK_E_PICKLE_CORRUPT
 * if the wrapper does not tell its size; the errors of reading. */
int ck_machine_read_joblib(struct ck_machine *m, ck_ref wrapper);
/* The global of these names, made once, and counted in the findings. */
int ck_machine_new_global(struct ck_machine *m, const char *module, size_t module_length, const char *name,
                          size_t name_length, ck_ref *ret_ref);

/* One function for each operation of the table: scalars.c and operations.c. They find the argument in m->argument or
 * m->line; what has a length is still to be read. */
#define X(name, code, argument, operation) int ck_op_##operation(struct ck_machine *m);
CK_OPCODES(X)
#undef X

struct ck_opcode_row {
    const char *name; /* NULL for a byte that is no opcode */
    int argument;     /* enum ck_argument */
    int (*run)(struct ck_machine *m);
};
extern const struct ck_opcode_row ck_opcode_rows[256];

#endif
