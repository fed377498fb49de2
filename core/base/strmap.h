/* base/strmap.h: a map from text to a 32-bit number, for names of tensors and modules.
 *
 * Keys are borrowed: they must outlive the map. The hash is seeded per process, so that a file full of names that
 * collide under a known seed costs no more than any other. */
#ifndef CK_BASE_STRMAP_H
#define CK_BASE_STRMAP_H

#include "core/base/macros.h"

struct ck_strmap {
    struct ck_strmap_slot *slots; /* owned */
    size_t count, capacity;
};

/* Value of the key; false if absent. Accepts a zeroed map. */
bool ck_strmap_get(const struct ck_strmap *map, const char *key, uint32_t *ret_value);

/* Sets or replaces. False when out of memory. */
bool ck_strmap_set(struct ck_strmap *map, const char *key, uint32_t value);

/* The value slot of the key, inserted with `initial` if absent; NULL when out of memory. Valid until the next
 * insertion. */
uint32_t *ck_strmap_slot(struct ck_strmap *map, const char *key, uint32_t initial);

void ck_strmap_release(struct ck_strmap *map);

#endif
