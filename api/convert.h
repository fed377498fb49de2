/* api/convert.h: the one command: PUT or POST /v1/convert/{to}[/{quant}]/[name]?options, and the form POST /v1/convert. The answer is the result: a zip,
 * the bare file of a safetensors result that has one, or plan.json of a dry run.
 *
 * `curl -T FILE` appends the local name to an address that ends in '/', so one extra segment is a quantization or a
 * file name: a known quantization is one, anything with a dot is a name, the rest is refused with the nearest
 * quantization. A typo never means "no quantization". */
#ifndef CK_API_CONVERT_H
#define CK_API_CONVERT_H

#include "api/order.h"

#define CK_CONVERT_PREFIX "/v1/convert/"

/* path: as sent, at least "/v1/convert". Fills in the target, the quantization and the name, if there is one. Returns 0;
 * CK_E_UNSUPPORTED_TARGET, CK_E_UNSUPPORTED_QUANT (with the nearest name); CK_E_NOT_FOUND for more segments than there
 * are; CK_E_BAD_REQUEST for broken escapes and names that are none. */
int ck_convert_parse(const char *path, struct ck_submission *submission, struct ck_error *err);

/* The handlers. What the query, a form and Prefer may say: api/order.h; what is answered: api/conclude.h. */
int  ck_head_convert(struct ck_request *request, const struct ck_ports *ports, struct ck_error *err);
int  ck_head_convert_form(struct ck_request *request, const struct ck_ports *ports, struct ck_error *err);
void ck_answer_convert(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* The answer of a conversion or a dry run that succeeded (api/conclude.h), with X-Ckptd-Assumed. */
void ck_convert_success(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row, struct ck_reply *ret_reply);

#endif
