/* matrix/rules.h: the weight rules: how the axes of a torch weight become those of its MLX twin.
 *
 * The six rules of the support matrix, and four that its layers need and it does not name. The converter permutes by this table
 * and the matrix queries print it: one truth for both. */
#ifndef CK_MATRIX_RULES_H
#define CK_MATRIX_RULES_H

#include "core/base/macros.h"

/* rank 0: any rank, axes unused. Transposed convolutions with groups are regrouped first (job/plan.h, REGROUP). */
#define CK_RULES(X)                                                                                                    \
    /* NAME              text                 in matrix rank axes            what */                                   \
    X(IDENTITY,          "identity",          true,     0,   "",             "unchanged")                              \
    X(CONV1D,            "conv1d",            true,     3,   "\0\2\1",       "[O, I, K] -> [O, K, I]")                 \
    X(CONV2D,            "conv2d",            true,     4,   "\0\2\3\1",     "[O, I, H, W] -> [O, H, W, I]")           \
    X(CONV_TRANSPOSE1D,  "conv_transpose1d",  true,     3,   "\1\2\0",       "[I, O, K] -> [O, K, I]")                 \
    X(CONV_TRANSPOSE2D,  "conv_transpose2d",  true,     4,   "\1\2\3\0",     "[I, O, H, W] -> [O, H, W, I]")           \
    X(BATCH_NORM,        "batch_norm",        true,     0,   "",             "unchanged")                              \
    X(CONV3D,            "conv3d",            false,    5,   "\0\2\3\4\1",   "[O, I, D, H, W] -> [O, D, H, W, I]")     \
    X(CONV_TRANSPOSE3D,  "conv_transpose3d",  false,    5,   "\1\2\3\4\0",   "[I, O, D, H, W] -> [O, D, H, W, I]")     \
    X(LINEAR_TRANSPOSED, "linear_transposed", false,    2,   "\1\0",         "[I, O] -> [O, I]")                       \
    X(BILINEAR,          "bilinear",          false,    3,   "\0\2\1",       "[O, I1, I2] -> [O, I2, I1]")             \
    X(ATTENTION,         "attention",         false,    0,   "",             "[3E, E] -> query, key and value of [E, E]")

enum ck_rule {
#define X(name, ...) CK_RULE_##name,
    CK_RULES(X) CK_RULE_END_
#undef X
};

struct ck_rule_row {
    const char    *name;
    bool           in_matrix;
    uint8_t        rank; /* of the weight; 0: any */
    const uint8_t *axes; /* output axis i is input axis axes[i]; rank entries */
    const char    *what;
};

const struct ck_rule_row *ck_rule_row(enum ck_rule rule);

/* True for conv_transpose1d, 2d and 3d. */
bool ck_rule_is_transposed_conv(enum ck_rule rule);

/* The names for rules=, ending with NULL: every rule that can be applied to one tensor alone, and "drop". */
extern const char *const ck_rule_words[];

/* The rule of that name; false for "drop", "attention" and unknown words. */
bool ck_rule_from_word(const char *word, enum ck_rule *ret_rule);

#endif
