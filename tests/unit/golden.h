/* Golden files of MLX for the unit tests: tests/golden, found from the root of the project. The parser trusts them. */
#ifndef TESTS_UNIT_GOLDEN_H
#define TESTS_UNIT_GOLDEN_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/macros.h"

struct golden {
    char *bytes; /* the data section follows the header */
    json_t *header;
    size_t data_start;
};

static inline void golden_close(struct golden *golden) {
    json_decref(golden->header);
    free(golden->bytes);
}

/* False, and a line that says so, if the file is not there. */
static inline bool golden_open(const char *name, struct golden *golden) {
    char path[4096];
    uint64_t length = 0;
    long size;
    FILE *file;

    *golden = (struct golden){0};
    snprintf(path, sizeof(path), "tests/golden/%s", name);
    file = fopen(path, "rb");
    if (!file) {
        printf("skipped: no %s (run the tests from the root of the project)\n", path);
        return false;
    }
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    golden->bytes = malloc((size_t)size);
    if (golden->bytes && fread(golden->bytes, 1, (size_t)size, file) == (size_t)size) {
        memcpy(&length, golden->bytes, 8);
        golden->header = json_loadb(golden->bytes + 8, length, 0, NULL);
        golden->data_start = 8 + length;
    }
    fclose(file);
    return golden->header != NULL;
}

/* The bytes of one tensor, NULL if there is none of that name; any out pointer may be NULL. */
static inline const void *golden_tensor(const struct golden *golden, const char *name, size_t *ret_bytes,
                                        const char **ret_dtype) {
    json_t *entry = json_object_get(golden->header, name), *offsets = json_object_get(entry, "data_offsets");
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));

    if (!entry)
        return NULL;
    if (ret_bytes)
        *ret_bytes = end - begin;
    if (ret_dtype)
        *ret_dtype = json_string_value(json_object_get(entry, "dtype"));
    return golden->bytes + golden->data_start + begin;
}

/* A reproducible stream of 64-bit numbers (splitmix64). */
static inline uint64_t random_u64(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

#endif
