/* api/health.h: what load balancers, orchestrators and monitors ask. None of these touches the store or the disk. Unknown parameters are
 * CK_E_BAD_OPTION. */
#ifndef CK_API_HEALTH_H
#define CK_API_HEALTH_H

#include "api/ports.h"

/* GET /livez: 200 ok, whatever else is wrong: a restart would not help. */
void ck_answer_livez(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /readyz, /healthz: 200 ok, or 503 with the failing checks (draining, space, workers, store). With ?verbose every check is listed. */
void ck_answer_readyz(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /startupz: 200 ok when recovery is over, 503 before. */
void ck_answer_startupz(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /version: {"name","version","build"}. */
void ck_answer_version(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /metrics: Prometheus' text, or OpenMetrics where Accept prefers application/openmetrics-text. */
void ck_answer_metrics(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

#endif
