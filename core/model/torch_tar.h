/* model/torch_tar.h: the tar that torch.save wrote from 0.1.0 to 0.1.9, with the entries
 *
 *     storages   pickle: their number; for each: pickle (key, location, class), int64 number of elements, the elements;
 *                then pickle: a list of views (key, key of the storage, offset, size), in elements
 *     tensors    pickle: their number; for each: pickle (key, key of its storage or view, class), int32 dimensions, 4 bytes
 *                unused, int64 sizes, int64 strides, int64 offset
 *     pickle     the object; a persistent id is the key of a tensor, or (class, file, source)
 *     sys_info   as in the legacy stream; not needed
 *
 * Numbers are little endian. Source: legacy_load() in torch/serialization.py. Also read is the layout of burn's test
 * files: no entry `tensors`, no views, storages named in the pickle by plain tuples ('storage', class, key, location,
 * numel); torch itself cannot load that. */
#ifndef CK_MODEL_TORCH_TAR_H
#define CK_MODEL_TORCH_TAR_H

#include "core/model/model.h"

/* Fills the model. Errors: those of ck_tar_open(), ck_pickle_run(), ck_walk_run() and ck_choose();
 * those of ck_bundle_index_tar(), which reads a tar of other files; CK_E_TRUNCATED naming the storage or tensor that is cut off;
 * CK_E_ARCHIVE_CORRUPT (a key twice, or of nothing; impossible numbers); CK_E_UNSUPPORTED_DTYPE (a storage whose size
 * is not known); CK_E_TENSOR_LIMIT; CK_E_OUT_OF_MEMORY. */
int ck_torch_tar_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                       const struct ck_model_options *options, struct ck_error *err);

#endif
