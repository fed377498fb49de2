#include "core/model/memory.h"

#include <inttypes.h>

bool ck_grow(void **array, uint32_t count, uint32_t *capacity, size_t size) {
    uint32_t more = *capacity > UINT32_MAX / 2 ? UINT32_MAX : CK_MAX(*capacity * 2, 64u);
    void *bigger;

    if (count < *capacity)
        return true;
    if (more == count)
        return false;
    bigger = reallocarray(*array, more, size);
    if (!bigger)
        return false;
    *array = bigger;
    *capacity = more;
    return true;
}

int ck_model_memory_spent(const struct ck_limits *limits, struct ck_error *err) {
    return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                        "the description of the tensors needs more than %" PRIu64 " bytes (--limit-model-memory)",
                        limits->model_memory);
}
