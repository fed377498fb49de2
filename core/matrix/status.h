/* matrix/status.h: where ckptd stands on a row of a support matrix. Computed from layers.h and rules.h, never kept by hand: what the
 * converter does not do cannot be claimed here. */
#ifndef CK_MATRIX_STATUS_H
#define CK_MATRIX_STATUS_H

#include "core/base/macros.h"

/* From strong to weak: a row that stands for several things has the weakest status among them. */
#define CK_STATUSES(X)                                                             \
    /* NAME        word           what */                                          \
    X(EXACT,       "exact",       "converted, value for value")                    \
    X(RENAMED,     "renamed",     "converted; its tensors get other names")        \
    X(EMULATED,    "emulated",    "made of other operations")                      \
    X(APPROXIMATE, "approximate", "converted with an error that is reported")      \
    X(NEEDS_INPUT, "needs_input", "converted when an option answers a question")   \
    X(REFUSED,     "refused",     "refused, with the reason")                      \
    X(PLANNED,     "planned",     "no code does it yet")

enum ck_status {
#define X(name, ...) CK_STATUS_##name,
    CK_STATUSES(X) CK_STATUS_END_
#undef X
};

/* The words, ending with NULL; the index is the enum. */
extern const char *const ck_status_words[];

#define CK_STANDING_RULE_MAX 64

struct ck_standing {
    enum ck_status status;
    char           rule[CK_STANDING_RULE_MAX]; /* the weight rules that the converter applies ("conv2d"; several with ", "), or "" */
    const char    *note;                       /* one sentence, or NULL; static storage */
    const char    *since;                      /* the release that brought it ("0.1"), or NULL for what does not work */
};

struct ck_matrix_row;

/* One function for each kind of row. Any thread. */
typedef struct ck_standing (*ck_standing_fn)(const struct ck_matrix_row *row);

struct ck_standing ck_standing_layer(const struct ck_matrix_row *row);        /* a class that the document maps */
struct ck_standing ck_standing_layer_group(const struct ck_matrix_row *row);  /* classes that the document leaves out */
struct ck_standing ck_standing_rule(const struct ck_matrix_row *row);
struct ck_standing ck_standing_op(const struct ck_matrix_row *row);
struct ck_standing ck_standing_blocker(const struct ck_matrix_row *row);
struct ck_standing ck_standing_template(const struct ck_matrix_row *row);
struct ck_standing ck_standing_summary(const struct ck_matrix_row *row);
struct ck_standing ck_standing_int8(const struct ck_matrix_row *row);         /* an operation that the document quantizes */
struct ck_standing ck_standing_int8_check(const struct ck_matrix_row *row);   /* one that it refuses, or treats in its own way */

#endif
