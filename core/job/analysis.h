/* job/analysis.h: analysis.json: what a file holds and what each target would make of it. Nothing is converted.
 *
 *   form         as in the report; form_why: how it was told, one phrase
 *   bytes        of the file
 *   version      of ckptd
 *   state_dict   {"path","why"}: the set of weights that was chosen
 *   totals       {"tensors","parameters","bytes","aliases","errors","outside",
 *                 "dtypes":{"float32":{"tensors","elements","bytes"}}}
 *                tensors, aliases, errors of the state dict, outside those elsewhere in the file. dtypes counts what is
 *                neither an alias nor in error, so tensors = aliases + errors + the sum over dtypes; parameters and bytes
 *                are the sums of elements and bytes there (buffers included). Sums stop at 2^63 - 1. dtypes are torch's
 *                words, sorted.
 *   tensors      [{"path","name","dtype","shape","strides","bytes","alias_of","error"}]
 *                first the state dict, in its order, then those outside it, with name null. alias_of: name of the first
 *                of a tie, or null. error: null or {"code","message"}; then bytes is null, and so are dtype, shape and
 *                strides as far as they could not be read. strides in elements, bytes dense. Left out with the option
 *                tensors=false.
 *   modules      [{"path","class","attributes":{..}}] of a whole-module pickle, parents first; plain attributes only
 *   metadata     {..}: safetensors only
 *   targets      by name, what job/verdict.h says
 *   findings     as in the report
 *
 * No byte depends on time, host, file name or thread count. Memory: one plan at a time, and the writer's. */
#ifndef CK_JOB_ANALYSIS_H
#define CK_JOB_ANALYSIS_H

#include "core/base/json_write.h"
#include "core/base/limits.h"
#include "core/base/progress.h"
#include "core/job/options.h"
#include "core/model/model.h"

/* Writes the analysis through json (not finished here). spec is of kind CK_JOB_ANALYZE. Returns 0, CK_E_CANCELLED,
 * CK_E_OUT_OF_MEMORY; whatever a target refuses is part of the analysis. */
int ck_analysis_write(struct ck_json *json, const struct ck_spec *spec, const struct ck_model *model,
                      const struct ck_limits *limits, const struct ck_progress *progress, struct ck_error *err);

#endif
