/* model/plain_pickle.h: pickles that torch.save did not write: dicts and lists of numpy arrays (detectron2, Paddle, old
 * reinforcement learning), tensors that pickle.dump wrote (model/nested.h), joblib's files, logs of several pickles. */
#ifndef CK_MODEL_PLAIN_PICKLE_H
#define CK_MODEL_PLAIN_PICKLE_H

#include "core/model/model.h"

/* Fills the model from one pickle, or from several that lie one after another. If more than the first of these hold
 * tensors, the paths of the later ones begin with "#1.", "#2." ..., and state_dict=#0 names the first alone. entry
 * names the archive member in findings and errors, "" if there is none. Errors: those of ck_pickle_run_stream(),
 * ck_walk_run() and ck_choose(); CK_E_TENSOR_LIMIT; CK_E_OUT_OF_MEMORY. */
int ck_plain_pickle_index(struct ck_model *model, const struct ck_source *source, const char *entry,
                          const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err);

#endif
