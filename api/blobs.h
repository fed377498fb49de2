/* api/blobs.h: inputs as a resource: /v1/blobs/sha256:HEX. A blob is its digest, so sending one that is here costs nothing: PUT is answered on the
 * head, before a byte of the body. */
#ifndef CK_API_BLOBS_H
#define CK_API_BLOBS_H

#include "api/ports.h"

/* POST /v1/blobs: one raw body, or a form with one file. 201 (new) or 200 (known) with {"digest","bytes","name"}, Location, ETag, Repr-Digest; name
 * only if the client gave one. Durable before it is answered where terms.durable. CK_E_MISSING_FILE, CK_E_TOO_MANY_FILES, CK_E_BAD_OPTION for a
 * field that is no file, the errors of ck_take_file(). */
int  ck_head_blob_post(struct ck_request *request, const struct ck_ports *ports, struct ck_error *err);
void ck_answer_blob_post(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* PUT /v1/blobs/{digest}: as POST, but the body must have that digest (CK_E_DIGEST_MISMATCH). A blob that is here is answered early. A last segment
 * that does not begin with "sha256:" is the file name that `curl -T FILE .../v1/blobs/` appends: then as POST. */
int  ck_head_blob_put(struct ck_request *request, const struct ck_ports *ports, struct ck_error *err);
void ck_answer_blob_put(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /v1/blobs/{digest}: the bytes, with ranges and conditions; the blob counts as used. CK_E_BAD_REQUEST for what is no digest,
 * CK_E_BLOB_NOT_FOUND, CK_E_RANGE_NOT_SATISFIABLE. */
void ck_answer_blob(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* DELETE /v1/blobs/{digest}: 204. CK_E_BLOB_NOT_FOUND, CK_E_BLOB_IN_USE naming the job. */
void ck_answer_blob_delete(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

#endif
