/* base/macros.h: the few macros that every room uses: scope cleanup, ownership transfer, checked arithmetic. */
#ifndef CK_BASE_MACROS_H
#define CK_BASE_MACROS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* Runs f(&variable) when the variable leaves its scope. f must accept a zeroed variable. */
#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#define _unused_ __attribute__((unused))

#define CK_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CK_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define CK_MAX(a, b)    ((a) > (b) ? (a) : (b))

/* Gives the pointer away: its value is returned, the variable becomes NULL, so its cleanup does nothing. */
#define TAKE_PTR(p)                                                                                                    \
    ({                                                                                                                 \
        __typeof__(p) taken_ = (p);                                                                                    \
        (p) = NULL;                                                                                                    \
        taken_;                                                                                                        \
    })

/* The same for a file descriptor, which becomes -1. */
#define TAKE_FD(fd)                                                                                                    \
    ({                                                                                                                 \
        int taken_ = (fd);                                                                                             \
        (fd) = -1;                                                                                                     \
        taken_;                                                                                                        \
    })

static inline void ck_freep(void *pointer_to_pointer) {
    void **p = pointer_to_pointer;

    free(*p);
    *p = NULL;
}

static inline void ck_closep(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Checked unsigned arithmetic: true if the result fits; *ret_value is untouched otherwise. Sizes from files go through these. */
static inline bool ck_add_u64(uint64_t a, uint64_t b, uint64_t *ret_value) {
    uint64_t value;

    if (__builtin_add_overflow(a, b, &value))
        return false;
    *ret_value = value;
    return true;
}

static inline bool ck_mul_u64(uint64_t a, uint64_t b, uint64_t *ret_value) {
    uint64_t value;

    if (__builtin_mul_overflow(a, b, &value))
        return false;
    *ret_value = value;
    return true;
}

/* The sum, or INT64_MAX (the largest number that JSON readers agree on) if that is less. For totals that only inform. */
static inline uint64_t ck_add_saturated(uint64_t a, uint64_t b) {
    uint64_t value;

    return ck_add_u64(a, b, &value) && value <= INT64_MAX ? value : INT64_MAX;
}

#endif
