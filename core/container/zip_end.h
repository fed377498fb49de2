/* container/zip_end.h: finds the central directory of a zip from its end records, and refuses what can be read in two
 * ways. */
#ifndef CK_CONTAINER_ZIP_END_H
#define CK_CONTAINER_ZIP_END_H

#include "core/base/limits.h"
#include "core/base/source.h"

struct ck_zip_directory {
    uint64_t offset, size; /* bytes, in the source; it ends where the end records begin */
    uint64_t entries;
};

/* Errors: those of ck_zip_open(); a directory without entries is none here. */
int ck_zip_find_directory(const struct ck_source *source, const struct ck_limits *limits,
                          struct ck_zip_directory *ret_directory, struct ck_error *err);

/* Little-endian integers. */
static inline uint16_t ck_zip_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t ck_zip_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t ck_zip_u64(const uint8_t *p) {
    return ck_zip_u32(p) | (uint64_t)ck_zip_u32(p + 4) << 32;
}

#endif
