/* api/openapi.h: the contract, openapi.yaml, and the JSON that the build makes of it (scripts/openapi_json.py). Both are part of the binary. */
#ifndef CK_API_OPENAPI_H
#define CK_API_OPENAPI_H

#include "api/ports.h"

/* GET /openapi.yaml, /openapi.json: with ETag (of the bytes) and 304. */
void ck_answer_openapi_yaml(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);
void ck_answer_openapi_json(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* The YAML as it was embedded. Static storage, not NUL-terminated. For tests that diff it with the table of routes. */
const char *ck_openapi_yaml(size_t *ret_bytes);

#endif
