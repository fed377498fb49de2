/* job/spec_json.h: a specification read back from JSON that ckptd itself wrote: the job store's column, the worker's order. What clients send is
 * read by api/spec.h, which is kinder and stricter. */
#ifndef CK_JOB_SPEC_JSON_H
#define CK_JOB_SPEC_JSON_H

#include <jansson.h>

#include "core/job/options.h"

/* {"kind","to","quant","options":{NAME:TEXT},"dry_run":true}, other members ignored: what ck_spec_normalised() writes. Returns 0; CK_E_INTERNAL for anything
 * else (also an analysis with a target, or a dry run of one); the errors of ck_spec_init() and ck_spec_set(). */
int ck_spec_from_json(const json_t *object, struct ck_spec *ret_spec, struct ck_error *err);

#endif
