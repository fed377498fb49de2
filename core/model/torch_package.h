/* model/torch_package.h: what torch.package.PackageExporter writes: pickles under names that the user chose, their
 * storages as .data/KEY.storage, and ScriptModules as .data/ts_code/N/data.pkl with their source in .data/ts_code/code/.
 *
 * Exactly one pickle with tensors is taken; of several, the option state_dict names one by its path in the package
 * ("model/model.pkl"), with the path inside of it behind a colon ("model/model.pkl:generator"). A ScriptModule is named
 * as ".data/ts_code/N/data.pkl". Source: torch/package/package_importer.py (load_pickle). */
#ifndef CK_MODEL_TORCH_PACKAGE_H
#define CK_MODEL_TORCH_PACKAGE_H

#include "core/container/zip.h"
#include "core/model/model.h"

/* Fills the model from an open zip; mark is an entry in its folder .data/. Errors: those of ck_torch_zip_index();
 * CK_E_NO_TENSORS; CK_E_AMBIGUOUS_STATE_DICT and CK_E_STATE_DICT_NOT_FOUND with the pickles that hold tensors. */
int ck_torch_package_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_zip_entry *mark,
                           const struct ck_limits *limits, const struct ck_model_options *options,
                           struct ck_error *err);

#endif
