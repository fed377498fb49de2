/* model/memory.h: growing arrays of this room, and the one error for a description that outgrew its limit. */
#ifndef CK_MODEL_MEMORY_H
#define CK_MODEL_MEMORY_H

#include "core/base/error.h"
#include "core/base/limits.h"

/* Makes room for element `count` of a heap array, doubling it. False when out of memory; the array is then as before.
 */
bool ck_grow(void **array, uint32_t count, uint32_t *capacity, size_t size);

/* The model's arena gave NULL: CK_E_TENSOR_LIMIT naming --limit-model-memory. */
int ck_model_memory_spent(const struct ck_limits *limits, struct ck_error *err);

#endif
