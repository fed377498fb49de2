/* model/payload_config.h: the JSON that says what the raw files in an exported program's data/weights/ and
 * data/constants/ are:
 *
 *   {"config":{"conv.weight":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":{"dtype":7,
 *    "sizes":[{"as_int":8},..],"strides":[{"as_int":27},..],"storage_offset":{"as_int":0},"layout":7,..}}}}
 *
 * Source: PayloadConfig and TensorMeta in torch/_export/serde/schema.py. Members that are not named here are passed
 * over. */
#ifndef CK_MODEL_PAYLOAD_CONFIG_H
#define CK_MODEL_PAYLOAD_CONFIG_H

#include "core/base/limits.h"
#include "core/base/source.h"
#include "core/tensor/view.h"

struct ck_payload {
    const char *name, *path; /* "conv.weight", "weight_0"; valid during the call only */
    bool parameter;          /* is_param */
    bool pickled;            /* the file is what torch.save wrote */
    bool described;          /* there is a tensor_meta: the fields below */
    uint64_t dtype, layout;  /* numbers of the schema: ck_payload_dtype(); 7 is strided */
    uint64_t offset;         /* in elements */
    uint32_t n_sizes, n_strides;
    int64_t sizes[CK_RANK_MAX], strides[CK_RANK_MAX];
    const char *problem; /* NULL, or what makes the description useless: completes "its description is malformed: " */
};

#define CK_PAYLOAD_STRIDED 7

typedef int (*ck_payload_fn)(void *ctx, const struct ck_payload *payload, struct ck_error *err);

/* Calls `each` for every entry of the configuration, in its order, until it fails. entry names the file in errors.
 * Returns 0; CK_E_ARCHIVE_CORRUPT if the text is no such JSON; CK_E_TENSOR_LIMIT naming --limit-dims;
 * CK_E_OUT_OF_MEMORY; the errors of ck_source_read() and of each(). */
int ck_payload_config_read(const struct ck_source *source, const char *entry, const struct ck_limits *limits,
                           ck_payload_fn each, void *ctx, struct ck_error *err);

/* The dtype of a number of the schema's ScalarType; false if there is none. */
bool ck_payload_dtype(uint64_t number, enum ck_dtype *ret_dtype);

/* "sparse COO" ...; NULL for strided. */
const char *ck_payload_layout(uint64_t number);

#endif
