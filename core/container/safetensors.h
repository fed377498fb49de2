/* container/safetensors.h: reads the header of a safetensors file: what it holds and where, without touching the data.
 *
 * Format (github.com/huggingface/safetensors, README "Format" and safetensors/src/tensor.rs): u64 little-endian header
 * length, a JSON object of that many bytes (trailing spaces allowed), then the tensors back to back, without hole or
 * overlap, to the end of the file. Looser than the reference reader in one point: "__metadata__": null counts as no
 * metadata, because MLX writes it. The header is streamed: memory depends on the number of tensors and the length of
 * their names, never on the file. */
#ifndef CK_CONTAINER_SAFETENSORS_H
#define CK_CONTAINER_SAFETENSORS_H

#include "core/base/arena.h"
#include "core/base/limits.h"
#include "core/base/source.h"
#include "core/tensor/dtype.h"

struct ck_safetensors_entry {
    const char *name;     /* UTF-8, NUL-terminated, in the arena; unique; may be "" */
    enum ck_dtype dtype;  /* CK_DTYPE_END_ when error is set */
    const char *error;    /* NULL, or why this one tensor cannot be read: the format knows the dtype, our table does not
                             (F4,    F6_E2M3, F6_E3M2). A sentence; shape, offset and bytes are right all the same */
    uint32_t rank;        /* 0 .. limits.dims */
    const int64_t *shape; /* rank entries, none negative, in the arena; never NULL */
    uint64_t offset;      /* of the first byte, in the source (not in the data section) */
    uint64_t bytes;       /* product of the shape times the size of the dtype; 0 allowed. offset need not be aligned */
};

struct ck_safetensors_pair {
    const char *key, *value; /* in the arena; NUL-terminated */
};

struct ck_safetensors {
    struct ck_arena arena;
    struct ck_safetensors_entry *entries; /* owned; in the order of the data: by offset, then bytes, then name */
    uint32_t count;                       /* 0 is no error here: the caller decides whether an empty file is one */
    uint32_t *by_name; /* owned; indices into entries, sorted by name (strcmp), for ck_safetensors_find() */
    struct ck_safetensors_pair *metadata; /* owned; __metadata__ in the header's order */
    uint32_t n_metadata;
    uint64_t data_start; /* 8 + header length */
};

/* Reads and checks the whole header.
 * Returns 0, or with the tensor's name in err->where:
 *   CK_E_EMPTY_FILE       no byte
 *   CK_E_TRUNCATED        header or data end behind the end of the file: says how many bytes are missing
 *   CK_E_HEADER_CORRUPT   not the JSON that the format asks for; a name, field or metadata key twice; an unknown dtype;
 * sizes that do not fit dtype and shape; a hole, an overlap or bytes behind the last tensor; a NUL in a name or
 * metadata CK_E_TENSOR_LIMIT     limits.header_bytes, tensors, dims or model_memory: names the setting
 *   CK_E_OUT_OF_MEMORY, CK_E_IO */
int ck_safetensors_open(const struct ck_source *source, const struct ck_limits *limits, struct ck_safetensors *ret,
                        struct ck_error *err);

/* The tensor with exactly this name, or NULL. */
const struct ck_safetensors_entry *ck_safetensors_find(const struct ck_safetensors *file, const char *name);

/* The metadata value of this key ("format"), or NULL. */
const char *ck_safetensors_metadata(const struct ck_safetensors *file, const char *key);

/* Accepts a zeroed struct. */
void ck_safetensors_release(struct ck_safetensors *file);

#endif
