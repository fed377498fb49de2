/* model/npz.h: arrays that numpy saved: one (.npy), or a zip of them (.npz), where NAME.npy is the array NAME.
 *
 * An array of Python objects is a pickle behind the header: its members are named by their places in it
 * ("NAME.0.conv1.weight"). Deflated members go into the scratch file. Source: numpy/lib/format.py,
 * numpy/lib/npyio.py. */
#ifndef CK_MODEL_NPZ_H
#define CK_MODEL_NPZ_H

#include "core/container/zip.h"
#include "core/model/model.h"

/* Fills the model from one array; its name is "value". Errors: those of ck_npy_open() and, for an array of objects,
 * of ck_plain_pickle_index(); CK_E_STATE_DICT_NOT_FOUND; CK_E_TENSOR_LIMIT (dims, model_memory). Bytes behind the
 * array are a finding. */
int ck_npy_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                 const struct ck_model_options *options, struct ck_error *err);

/* The same for a zip. Entries that are no arrays are findings; a member that is damaged is a tensor with an
 * error. Errors: those above, of ck_zip_unpack() and of
 * ck_model_join(); CK_E_NO_TENSORS. */
int ck_npz_index(struct ck_model *model, const struct ck_zip *zip, const struct ck_limits *limits,
                 const struct ck_model_options *options, struct ck_error *err);

#endif
