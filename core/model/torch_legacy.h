/* model/torch_legacy.h: the stream that torch.save wrote from 0.1.10 to 1.5, and still writes when told to
 * (_use_new_zipfile_serialization=False).
 *
 *     pickle  the magic number 0x1950a86a20f9469cfc6c
 *     pickle  the protocol, 1001
 *     pickle  sys_info {protocol_version, little_endian, type_sizes}
 *     pickle  the object; its persistent ids are those of storage_id.h, and ('module', class, file, source)
 *     pickle  the list of the storages' keys
 *     for each key: int64 number of elements, then the elements
 *
 * Source: _legacy_save() and _legacy_load() in torch/serialization.py. The size of an element comes from the first
 * persistent id with the key, as in torch, so blocks can be placed only after the object was read. Elements are little
 * endian whatever sys_info says: writers on other machines swap them, and torch's loader never looks at it. Only the
 * numbers of elements were written in the machine's own order, up to about 1.1. */
#ifndef CK_MODEL_TORCH_LEGACY_H
#define CK_MODEL_TORCH_LEGACY_H

#include "core/model/model.h"

/* True if torch would take what looks like a plain pickle for this stream: the magic number is written in another way
 * than torch writes it, or is made by a call. Looks at a few bytes only. */
bool ck_torch_legacy_recognise(const struct ck_source *source, const struct ck_limits *limits);

/* Fills the model. Findings: those of all five pickles, a stream from a big-endian machine, bytes behind the last
 * block. Errors: those of ck_pickle_run(), ck_walk_run() and ck_choose(); CK_E_TRUNCATED naming the storage that is cut
 * off; CK_E_PICKLE_CORRUPT (keys and persistent ids that contradict each other or the blocks); CK_E_ARCHIVE_UNSAFE (a
 * magic number made by a call; a tar at the same time); CK_E_UNSUPPORTED_FORM (another protocol than 1001);
 * CK_E_TENSOR_LIMIT; CK_E_OUT_OF_MEMORY. */
int ck_torch_legacy_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                          const struct ck_model_options *options, struct ck_error *err);

#endif
