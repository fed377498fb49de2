#include "core/tensor/bytes.h"

#include <byteswap.h>
#include <string.h>

#define SWAP_LOOP(bits)                                                                                                \
    for (size_t i = 0; i < bytes / (bits / 8); i++) {                                                                  \
        uint##bits##_t value;                                                                                          \
                                                                                                                       \
        memcpy(&value, at + i * (bits / 8), sizeof(value));                                                            \
        value = bswap_##bits(value);                                                                                   \
        memcpy(at + i * (bits / 8), &value, sizeof(value));                                                            \
    }

void ck_swap_bytes(char *at, size_t bytes, unsigned unit) {
    if (unit == 2)
        SWAP_LOOP(16)
    else if (unit == 4)
        SWAP_LOOP(32)
    else if (unit == 8)
        SWAP_LOOP(64)
}

/* Flips the highest bit of each `unit` bytes that lie `step` bytes from each other. */
static void flip_signs(uint8_t *at, size_t unit, size_t step, size_t n) {
    for (at += unit - 1; n > 0; n--, at += step)
        *at ^= 0x80;
}

bool ck_can_negate(enum ck_dtype dtype) {
    switch (ck_dtype_row(dtype)->kind) {
    case CK_FLOATING:
        return ck_dtype_is_real(dtype);
    case CK_INTEGER:
        return dtype != CK_U16 && dtype != CK_U32 && dtype != CK_U64;
    case CK_COMPLEX:
        return true;
    default:
        return false;
    }
}

void ck_conjugate(enum ck_dtype dtype, void *elements, size_t n) {
    size_t unit = ck_dtype_row(dtype)->unit;

    flip_signs((uint8_t *)elements + unit, unit, 2 * unit, n);
}

void ck_negate(enum ck_dtype dtype, void *elements, size_t n) {
    const struct ck_dtype_row *row = ck_dtype_row(dtype);
    uint8_t *at = elements;

    if (row->kind != CK_INTEGER) {
        flip_signs(at, row->unit, row->unit, n * row->size / row->unit);
        return;
    }
    for (; n > 0; n--, at += row->size) {
        unsigned carry = 1;

        for (size_t i = 0; i < row->size; i++) {
            carry += (uint8_t)~at[i];
            at[i] = (uint8_t)carry;
            carry >>= 8;
        }
    }
}
