/* tensor/numpy_type.h: how numpy spells the type of an element ("<f4"), in the header of a .npy file and in a pickled dtype.
 *
 * Source: numpy/core/src/multiarray/descriptor.c (arraydescr_protocol_typestr_get, arraydescr_reduce). */
#ifndef CK_TENSOR_NUMPY_TYPE_H
#define CK_TENSOR_NUMPY_TYPE_H

#include "core/tensor/dtype.h"

struct ck_numpy_type {
    char          kind;  /* numpy's letter: b i u f c; S a U V O M m for what is no number */
    bool          big;   /* big-endian */
    uint64_t      size;  /* bytes of one element; of a kind O the pointer that numpy had, which is not in any file */
    enum ck_dtype dtype; /* CK_DTYPE_END_ if there is no equal */
};

/* Parses "<f4", ">i8", "|b1", "f4", "U10", "V16", "M8[ns]" ... (no mark of an order and '=' mean little endian). False if it is none. */
bool ck_numpy_type_parse(const char *text, size_t n, struct ck_numpy_type *ret_type);

/* Why arrays of such a type are no tensors: completes "its dtype is ", "text (U10)". Static words for each kind; "" if dtype is set. */
const char *ck_numpy_type_refusal(const struct ck_numpy_type *type);

#endif
