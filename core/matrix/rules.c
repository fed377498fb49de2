#include "core/matrix/rules.h"

#include <string.h>

static const struct ck_rule_row rows[] = {
#define X(name, text, in_matrix, rank, axes, what)                                                                     \
    [CK_RULE_##name] = {text, in_matrix, rank, (const uint8_t *)axes, what},
    CK_RULES(X)
#undef X
};

const char *const ck_rule_words[] = {
#define X(name, text, ...) text,
    CK_RULES(X)
#undef X
        "drop",
    NULL,
};

const struct ck_rule_row *ck_rule_row(enum ck_rule rule) {
    return &rows[rule];
}

bool ck_rule_from_word(const char *word, enum ck_rule *ret_rule) {
    for (int i = 0; i < CK_RULE_END_; i++) {
        if (i != CK_RULE_ATTENTION && strcmp(rows[i].name, word) == 0) {
            *ret_rule = (enum ck_rule)i;
            return true;
        }
    }
    return false;
}

bool ck_rule_is_transposed_conv(enum ck_rule rule) {
    return rule == CK_RULE_CONV_TRANSPOSE1D || rule == CK_RULE_CONV_TRANSPOSE2D || rule == CK_RULE_CONV_TRANSPOSE3D;
}
