/* api/analyze.h: PUT or POST /v1/analyze/[name]: what a file holds and what every target would make of it. Raw or a form as for a conversion, or JSON with
 * the digest of a stored file (api/spec.h). The answer is analysis.json; Prefer and waits are those of a conversion (api/order.h, api/conclude.h). */
#ifndef CK_API_ANALYZE_H
#define CK_API_ANALYZE_H

#include "api/ports.h"

int  ck_head_analyze(struct ck_request *request, const struct ck_ports *ports, struct ck_error *err);
void ck_answer_analyze(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* The answer of an analysis that succeeded. */
void ck_analyze_success(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row, struct ck_reply *ret_reply);

#endif
