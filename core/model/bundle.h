/* model/bundle.h: archives that hold checkpoints as files: a zip or tar somebody made of a folder, Stable-Baselines3's zip, .mar of
 * TorchServe, .nemo, and gzip around one of these or around a checkpoint.
 *
 * One file is taken, the rest is listed (model->members). Which one, in this order:
 *   1. the option member=PATH, exactly as the archive has it; "inner.zip/PATH" goes on inside of a member
 *   2. the only file whose name ends like a checkpoint's (.pt .pth .bin .ckpt .safetensors ...); a complete set of shards counts as one;
 *      optimizer state and the like (bundle.c has the list) only if there is nothing else
 *   3. the usual name (model.safetensors, pytorch_model.bin, policy.pth, ...), if one file has it and no other lies
 *      outside of its folder
 *   4. without any such name: the only archive inside, the only file at all
 * Anything else is asked about. Names are look-up keys, never paths. How deep archives may lie in one another:
 * limits.nesting, counted in options->depth; gzip around a tar is one archive. */
#ifndef CK_MODEL_BUNDLE_H
#define CK_MODEL_BUNDLE_H

#include "core/container/tar.h"
#include "core/container/zip.h"
#include "core/model/model.h"

/* Fill the model from an open archive; its arena and findings may be others afterwards. Errors: those of ck_model_open() for the
 * member, with its name in front; CK_E_AMBIGUOUS_MEMBER and CK_E_MEMBER_NOT_FOUND (names in the message and, as a JSON array,
 * in err->details); CK_E_UNSUPPORTED_FORM (no checkpoint inside: says what there is); CK_E_SHARDS_MISMATCH; CK_E_TENSOR_LIMIT (nesting,
 * unpacked_bytes, unpacked_ratio); those of ck_zip_unpack() and ck_tar_part(). */
int ck_bundle_index_zip(struct ck_model *model, const struct ck_zip *zip, const struct ck_limits *limits,
                        const struct ck_model_options *options, struct ck_error *err);
int ck_bundle_index_tar(struct ck_model *model, const struct ck_tar *tar, const struct ck_limits *limits,
                        const struct ck_model_options *options, struct ck_error *err);

/* The same for a file that gzip compressed, whatever is inside. Errors beside: those of ck_gzip_unpack(). */
int ck_gzip_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                  const struct ck_model_options *options, struct ck_error *err);

#endif
