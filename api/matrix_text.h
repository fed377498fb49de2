/* api/matrix_text.h: a support matrix, or the rows that a filter leaves of it, written as JSON, CSV or Markdown. */
#ifndef CK_API_MATRIX_TEXT_H
#define CK_API_MATRIX_TEXT_H

#include "core/base/buffer.h"
#include "core/matrix/document.h"

#define CK_MATRIX_FORMATS(X)                           \
    /* NAME      word    media type */                 \
    X(JSON,      "json", "application/json")           \
    X(CSV,       "csv",  "text/csv; charset=utf-8")    \
    X(MARKDOWN,  "md",   "text/markdown; charset=utf-8")

enum ck_matrix_format {
#define X(name, ...) CK_MATRIX_##name,
    CK_MATRIX_FORMATS(X) CK_MATRIX_FORMAT_END_
#undef X
};

#define CK_MATRIX_NEAR_MAX 5

/* What of a matrix is asked for; zeroed: all of it. */
struct ck_matrix_filter {
    uint32_t           sections; /* bits, by index; 0: every one */
    uint32_t           status;   /* bits, by enum ck_status; 0: every one */
    const char *const *keys;     /* a row fits if one of them does; borrowed */
    size_t             n_keys;   /* 0: every row */
};

/* Appends the text of a format. JSON: {"name","title","description","filters","count","sections","rows"[,"near"]}. CSV: RFC 4180, the
 * columns section, key, those of the sections that are present, status, rule, note, since. Markdown: a heading and a table for each
 * section, texts escaped. Returns false when memory or the buffer's bound is exhausted. */
bool ck_matrix_write(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter, enum ck_matrix_format format, struct ck_buffer *buffer);

/* Appends the list of all matrices (matrix.h has its shape). False as above. */
bool ck_matrix_write_list(struct ck_buffer *buffer);

#endif
