#include "core/tensor/dtype.h"

#include <string.h>

/* The last row stands for every dtype outside the table, so that a tensor that cannot be read can still be described.
 */
static const struct ck_dtype_row rows[] = {
#define X(name, torch, storage_class, safetensors, mlx, kind, size, unit, per)                                         \
    [CK_##name] = {torch, storage_class, safetensors, mlx, CK_##kind, size, unit, per},
    CK_DTYPES(X)
#undef X
        [CK_DTYPE_END_] = {"unknown", NULL, NULL, NULL, CK_QUANTIZED, 0, 1, 1},
};

const struct ck_dtype_row *ck_dtype_row(enum ck_dtype dtype) {
    return &rows[(unsigned)dtype < CK_DTYPE_END_ ? dtype : CK_DTYPE_END_];
}

static bool same(const char *a, const char *b) {
    return a && strcmp(a, b) == 0;
}

bool ck_dtype_from_torch(const char *name, enum ck_dtype *ret_dtype) {
    for (unsigned i = 0; i < CK_DTYPE_END_; i++)
        if (same(rows[i].torch, name)) {
            *ret_dtype = (enum ck_dtype)i;
            return true;
        }
    return false;
}

bool ck_dtype_from_storage_class(const char *class_name, enum ck_dtype *ret_dtype) {
    for (unsigned i = 0; i < CK_DTYPE_END_; i++)
        if (same(rows[i].storage_class, class_name)) {
            *ret_dtype = (enum ck_dtype)i;
            return true;
        }
    return false;
}

bool ck_dtype_from_safetensors(const char *name, enum ck_dtype *ret_dtype) {
    for (unsigned i = 0; i < CK_DTYPE_END_; i++)
        if (same(rows[i].safetensors, name)) {
            *ret_dtype = (enum ck_dtype)i;
            return true;
        }
    return false;
}
