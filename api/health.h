/* api/health.h: what people, load balancers and orchestrators ask first. */
#ifndef CK_API_HEALTH_H
#define CK_API_HEALTH_H

#include "api/routes.h"

/* GET /: what this is and the one-liner, with the host it was called by. */
void ck_answer_help(const struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /livez: 200 ok, whatever else is wrong: a restart would not help. */
void ck_answer_livez(const struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /readyz: 200 ok, or 503 with the failing checks (draining, space, workers). With ?verbose every check is listed.
 */
void ck_answer_readyz(const struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /version: JSON. */
void ck_answer_version(const struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

#endif
