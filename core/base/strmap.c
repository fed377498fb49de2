#include "core/base/strmap.h"

#include <string.h>
#include <sys/auxv.h>

struct ck_strmap_slot {
    const char *key; /* NULL: free */
    uint64_t hash;
    uint32_t value;
};

/* The kernel gives each process 16 random bytes; reading them needs no system call, so it works in the sandbox. */
static uint64_t seed(void) {
    const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
    uint64_t value = 0x9E3779B97F4A7C15u;

    if (random)
        memcpy(&value, random, sizeof(value));
    return value;
}

static uint64_t hash_text(const char *text) {
    uint64_t hash = seed();

    for (; *text; text++) {
        hash ^= (unsigned char)*text;
        hash *= 0x100000001B3u;
        hash ^= hash >> 29;
    }
    return hash;
}

static struct ck_strmap_slot *find(const struct ck_strmap *map, const char *key, uint64_t hash) {
    size_t i = hash & (map->capacity - 1);

    while (map->slots[i].key && (map->slots[i].hash != hash || strcmp(map->slots[i].key, key) != 0))
        i = (i + 1) & (map->capacity - 1);
    return &map->slots[i];
}

static bool grow(struct ck_strmap *map) {
    struct ck_strmap bigger = {.capacity = CK_MAX(map->capacity * 2, (size_t)64)};

    bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key)
            *find(&bigger, map->slots[i].key, map->slots[i].hash) = map->slots[i];
    bigger.count = map->count;
    free(map->slots);
    *map = bigger;
    return true;
}

bool ck_strmap_get(const struct ck_strmap *map, const char *key, uint32_t *ret_value) {
    const struct ck_strmap_slot *slot = map->capacity > 0 ? find(map, key, hash_text(key)) : NULL;

    if (!slot || !slot->key)
        return false;
    *ret_value = slot->value;
    return true;
}

uint32_t *ck_strmap_slot(struct ck_strmap *map, const char *key, uint32_t initial) {
    uint64_t hash = hash_text(key);
    struct ck_strmap_slot *slot;

    if (map->count * 2 >= map->capacity && !grow(map))
        return NULL;
    slot = find(map, key, hash);
    if (!slot->key) {
        *slot = (struct ck_strmap_slot){.key = key, .hash = hash, .value = initial};
        map->count++;
    }
    return &slot->value;
}

bool ck_strmap_set(struct ck_strmap *map, const char *key, uint32_t value) {
    uint32_t *slot = ck_strmap_slot(map, key, value);

    if (!slot)
        return false;
    *slot = value;
    return true;
}

void ck_strmap_release(struct ck_strmap *map) {
    free(map->slots);
    *map = (struct ck_strmap){0};
}
