/* tensor/bytes.h: what is done to elements in place: byte order, and torch's lazy bits. */
#ifndef CK_TENSOR_BYTES_H
#define CK_TENSOR_BYTES_H

#include "core/tensor/dtype.h"

/* Swaps each `unit` bytes (2, 4, 8; others have no order). */
void ck_swap_bytes(char *at, size_t bytes, unsigned unit);

/* The dtypes that torch can take the negative of. */
bool ck_can_negate(enum ck_dtype dtype);

/* Resolve the conj bit and the neg bit of n elements: the sign of every imaginary half; the sign of every number, and the
 * two's complement of integers. Equal to torch's resolve_conj() and resolve_neg() but for the sign of a complex zero, which
 * torch itself does not always change. */
void ck_conjugate(enum ck_dtype dtype, void *elements, size_t n);
void ck_negate(enum ck_dtype dtype, void *elements, size_t n);

#endif
