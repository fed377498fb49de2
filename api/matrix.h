/* api/matrix.h: the support matrices over HTTP: a list, and each as JSON, CSV or Markdown, whole or filtered.
 *
 * Whole answers are composed once and served from memory for ever. Every answer has a strong ETag over its bytes. */
#ifndef CK_API_MATRIX_H
#define CK_API_MATRIX_H

#include "api/ports.h"
#include "api/reply.h"
#include "api/request.h"

/* GET /v1/matrix: {"matrices":[{"name","title","href","sections":[{"name","title","rows"}],"rows","status":{"exact":N,..}}]}. No parameters. */
void ck_answer_matrix_list(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /v1/matrix/{name}. Parameters: section, status (words, comma lists, repeatable), key (repeatable; core/matrix/document.h says what
 * matches), format (json, csv, md; else Accept decides). Unknown words are 400 with the nearest; a key that nothing fits gives
 * no rows and, in JSON and Markdown, the nearest keys. An unknown matrix is 404 matrix_not_found. */
void ck_answer_matrix(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

#endif
