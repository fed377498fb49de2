/* model/torch_zip.h: the zip that torch.save has written since 1.6: PREFIX/data.pkl, PREFIX/data/KEY, PREFIX/byteorder.
 *
 * Source: torch/serialization.py (_load, _save). The prefix may be anything, also empty (re-zipped files). No byteorder
 * entry means little endian. Other zips (TorchScript, torch.package, npz ...) are told apart in zip_forms.h. */
#ifndef CK_MODEL_TORCH_ZIP_H
#define CK_MODEL_TORCH_ZIP_H

#include "core/model/model.h"

/* Fills the model from a zip. Errors: those of ck_zip_open(), ck_pickle_run(), ck_walk_run(), ck_choose() and
 * ck_zip_refuse(); CK_E_ARCHIVE_UNSAFE if there is more than one data.pkl; CK_E_ARCHIVE_CORRUPT for a byteorder that is
 * neither little nor big. */
int ck_torch_zip_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                       const struct ck_model_options *options, struct ck_error *err);

/* Rebuilds, walks, chooses and assembles: what every form with a pickle does once its graph exists. */
struct ck_rebuild;
int ck_model_from_graph(struct ck_model *model, struct ck_rebuild *rebuild, const char *entry,
                        const struct ck_model_options *options, struct ck_error *err);

#endif
