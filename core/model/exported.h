/* model/exported.h: the weights of an exported program (.pt2): torch.export.save and torch.export.pt2_archive. The program
 * itself is not read.
 *
 * Three layouts, by the release of torch:
 *   up to 2.7  serialized_state_dict.pt (or .json) and serialized_constants.pt (or .json): torch.save zips, also where
 *              they are called .json
 *   2.7, 2.8   PREFIX/data/weights/NAME.pt and PREFIX/data/constants/NAME.pt: the same
 *   2.8 on     PREFIX/data/weights/NAME_weights_config.json and raw storages beside it, data/constants/ likewise
 *              (payload_config.h)
 * NAME is "model" unless the archive holds several programs; then the option state_dict names one. Constants (buffers
 * that are not persistent, plain tensors, literals) are no part of the state dict, hence persistent = false, unless there
 * is nothing else. Sources: torch/export/__init__.py, torch/export/pt2_archive/_package.py. */
#ifndef CK_MODEL_EXPORTED_H
#define CK_MODEL_EXPORTED_H

#include "core/container/zip.h"
#include "core/model/model.h"

/* Fills the model from an open zip; mark is the entry that gave the form away, at the archive's top. Errors: those of
 * ck_zip_read() and ck_payload_config_read(), and for archives inside those of ck_model_open(); CK_E_NO_TENSORS;
 * CK_E_AMBIGUOUS_STATE_DICT (several programs) and CK_E_STATE_DICT_NOT_FOUND with their names; CK_E_TENSOR_LIMIT. */
int ck_exported_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_zip_entry *mark,
                      const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err);

#endif
