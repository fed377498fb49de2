/* model/torch_zip.h: the zip that torch.save has written since 1.6: PREFIX/data.pkl, PREFIX/data/KEY, PREFIX/byteorder.
 *
 * Source: torch/serialization.py (_load, _save). The prefix may be anything, also empty (re-zipped files). No byteorder
 * entry means little endian. Other zips (TorchScript, torch.package, npz ...) are told apart in zip_forms.h. */
#ifndef CK_MODEL_TORCH_ZIP_H
#define CK_MODEL_TORCH_ZIP_H

#include "core/container/zip.h"
#include "core/model/model.h"

/* Fills the model from an open zip. Errors: those of ck_zip_read(), ck_pickle_run(), ck_walk_run() and ck_choose();
 * CK_E_ARCHIVE_UNSAFE if there is more than one data.pkl; CK_E_ARCHIVE_CORRUPT for a byteorder that is neither little
 * nor big; the limits and the disk's errors of ck_zip_unpack(). */
int ck_torch_zip_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_limits *limits,
                       const struct ck_model_options *options, struct ck_error *err);

/* The one entry called NAME in any folder, by exact name or, with a finding, by a name that differs in case only. NULL
 * if there is none. CK_E_ARCHIVE_UNSAFE if there are several. */
int ck_torch_zip_find(const struct ck_zip *zip, const char *name, struct ck_model *model,
                      const struct ck_zip_entry **ret_entry, struct ck_error *err);

/* Rebuilds, walks, chooses and assembles: what every form with a pickle does once its graph exists. */
struct ck_rebuild;
int ck_model_from_graph(struct ck_model *model, struct ck_rebuild *rebuild, const char *entry,
                        const struct ck_model_options *options, struct ck_error *err);

#endif
