#include "core/matrix/document.h"

#include <string.h>

const struct ck_matrix *const ck_matrices[] = {&ck_matrix_mlx, &ck_matrix_quantized, NULL};

const char *const ck_matrix_names[] = {"mlx", "quantized", NULL};

const struct ck_matrix *ck_matrix_by_name(const char *name) {
    for (const struct ck_matrix *const *matrix = ck_matrices; *matrix; matrix++)
        if (strcmp((*matrix)->name, name) == 0)
            return *matrix;
    return NULL;
}

const struct ck_matrix_section *ck_matrix_section_by_name(const struct ck_matrix *matrix, const char *name) {
    for (size_t i = 0; i < matrix->n_sections; i++)
        if (strcmp(matrix->sections[i].name, name) == 0)
            return &matrix->sections[i];
    return NULL;
}

/* ---- names in a key ---- */

/* The longer ones first. */
static const char *const prefixes[] = {
    "torch.nn.functional.", "torch.nn.", "torch.Tensor.", "torch.", "Tensor.", "nn.", "F.", "x.", "."};

/* Bytes of the prefix, 0 if there is none or nothing behind it. */
static size_t prefix_length(const char *text, size_t n) {
    for (size_t i = 0; i < CK_ARRAY_LEN(prefixes); i++) {
        size_t length = strlen(prefixes[i]);

        if (n > length && strncmp(text, prefixes[i], length) == 0)
            return length;
    }
    return 0;
}

/* Bytes up to the next ", " or " / " outside brackets. */
static size_t piece_length(const char *text) {
    int depth = 0;

    for (const char *c = text; *c; c++) {
        depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
        if (depth <= 0 && (strncmp(c, ", ", 2) == 0 || strncmp(c, " / ", 3) == 0))
            return (size_t)(c - text);
    }
    return strlen(text);
}

/* Where the arguments of a call begin ("F.pad(pad_value=0)", "__getitem__[:n]"); n without any. */
static size_t head_length(const char *text, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (text[i] == '(' || (text[i] == '[' && text[n - 1] == ']'))
            return i;
    return n;
}

/* What describes a name stands before it: "Standalone F.pad", "Bare torch.mul". */
static size_t adjective_length(const char *text, size_t n) {
    for (size_t i = n; i > 0; i--)
        if (text[i - 1] == ' ')
            return prefix_length(text + i, n - i) > 0 ? i : 0;
    return 0;
}

bool ck_matrix_next_name(const char **text, char ret_name[static CK_MATRIX_NAME_MAX]) {
    const char *name = *text + strspn(*text, ", /");
    size_t piece = piece_length(name), n = head_length(name, piece), skip;

    if (!*name)
        return false;
    *text = name + piece;
    while (n > 0 && name[n - 1] == ' ')
        n--;
    skip = adjective_length(name, n);
    skip += prefix_length(name + skip, n - skip);
    n = CK_MIN(n - skip, (size_t)CK_MATRIX_NAME_MAX - 1);
    memcpy(ret_name, name + skip, n);
    ret_name[n] = 0;
    return true;
}

bool ck_matrix_key_matches(const char *cell, const char *key) {
    char name[CK_MATRIX_NAME_MAX], wanted[CK_MATRIX_NAME_MAX];

    if (strcmp(cell, key) == 0)
        return true;
    if (!ck_matrix_next_name(&key, wanted) || *key)
        return false;
    while (ck_matrix_next_name(&cell, name))
        if (strcmp(name, wanted) == 0)
            return true;
    return false;
}
