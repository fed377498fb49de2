/* api/capabilities.h: what this daemon can do, for programs: everything comes from the tables that the converter uses. */
#ifndef CK_API_CAPABILITIES_H
#define CK_API_CAPABILITIES_H

#include "api/ports.h"

/* GET /v1/capabilities: {"engine","targets":[..],"kinds":[..],"options":JSON Schema,"parameters":[..],"limits":[..],"auth","forms":[..]}, with ETag
 * (of the bytes) and 304. openapi.yaml has the members. */
void ck_answer_capabilities(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

#endif
