/* output/safetensors_write.h: lays the planned tensors out in safetensors files and makes their headers.
 *
 * Format: u64 little-endian length, JSON header padded with spaces so that the data begins at a multiple of 8, tensors
 * back to back (https://github.com/huggingface/safetensors, format). Order of the data inside a file: element size
 * descending, then the plan's order, so that every tensor is aligned to its element; the JSON lists them in the order
 * of the data. Shards: as mlx-lm does: in the plan's order, a new file when the sum would exceed max_shard_bytes; names
 * model.safetensors, or model-00001-of-000NN.safetensors with model.safetensors.index.json
 * {"metadata":{"total_size"},"weight_map"}. */
#ifndef CK_OUTPUT_SAFETENSORS_WRITE_H
#define CK_OUTPUT_SAFETENSORS_WRITE_H

#include "core/job/plan.h"

/* Assigns file and offset to every item's out tensors and appends the files (with header or text) to the plan. Codes,
 * scales and biases of one item stay in one shard. Plan metadata becomes __metadata__ of every file. Returns 0,
 * CK_E_OUTPUT_LIMIT if a header with its length field would exceed 100,000,000 bytes (the JSON then stays below it, as
 * MLX demands), CK_E_OUT_OF_MEMORY. */
int ck_safetensors_layout(struct ck_plan *plan, uint64_t max_shard_bytes, struct ck_error *err);

/* Re-opens what was written: header, names, dtypes, shapes, offsets and the file's size must equal the plan's file
 * `index`; of a file that is not .safetensors (the index) the size and the text. In output/safetensors_verify.c.
 * Returns 0, CK_E_VERIFY_FAILED or CK_E_IO. */
int ck_safetensors_verify(const struct ck_plan *plan, uint32_t index, int fd, struct ck_error *err);

#endif
