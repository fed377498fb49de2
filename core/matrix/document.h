/* matrix/document.h: the support matrices as data: what two documents say of torch's layers and operations, in their own words, and
 * where ckptd stands on each row.
 *
 * The cells are the documents' (arrows and dashes included); nothing in them was added. The status of a row is computed (status.h)
 * from the tables that the converter works by. The tables are in document_mlx.h and document_quantized.h. */
#ifndef CK_MATRIX_DOCUMENT_H
#define CK_MATRIX_DOCUMENT_H

#include "core/base/macros.h"
#include "core/matrix/status.h"

#define CK_MATRIX_COLUMNS_MAX 4
#define CK_MATRIX_NAME_MAX    96 /* bytes of one name in a key, with the NUL */

/* As many cells as its section has columns; a cell that the document leaves empty is "". */
struct ck_matrix_row {
    const char *cells[CK_MATRIX_COLUMNS_MAX];
};

struct ck_matrix_section {
    const char                 *name;  /* "layers": what a filter calls it */
    const char                 *title; /* "Layer Mappings" */
    const char                 *description; /* the document's sentence under the title, or NULL */
    const char                 *columns[CK_MATRIX_COLUMNS_MAX];
    size_t                      n_columns;
    size_t                      key; /* the column that names the row */
    const struct ck_matrix_row *rows;
    size_t                      n_rows;
    ck_standing_fn              standing;
};

#define CK_MATRIX_SECTIONS_MAX 16

struct ck_matrix {
    const char                     *name; /* "mlx" */
    const char                     *title, *description;
    const struct ck_matrix_section *sections;
    size_t                          n_sections; /* at most CK_MATRIX_SECTIONS_MAX */
};

extern const struct ck_matrix ck_matrix_mlx, ck_matrix_quantized;

/* Every matrix, ending with NULL. */
extern const struct ck_matrix *const ck_matrices[];

/* Their names, ending with NULL. */
extern const char *const ck_matrix_names[];

/* The matrix or section of that name, or NULL. */
const struct ck_matrix         *ck_matrix_by_name(const char *name);
const struct ck_matrix_section *ck_matrix_section_by_name(const struct ck_matrix *matrix, const char *name);

/* The next name that a key cell holds, without prefixes (torch. nn. F. x. torch.nn. torch.nn.functional. Tensor. and a leading dot) and
 * without the arguments of a call: "LSTM, GRU, RNN" holds three, "torch.softmax / F.softmax" softmax twice, "Standalone F.pad" pad.
 * *text is moved behind it; names that are too long are cut. False at the end. */
bool ck_matrix_next_name(const char **text, char ret_name[static CK_MATRIX_NAME_MAX]);

/* True if the cell is what a caller calls the key: the same text, or one of its names is the key's, prefixes aside. Case matters. */
bool ck_matrix_key_matches(const char *cell, const char *key);

#endif
