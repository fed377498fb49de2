/* container/npy.h: the header of a .npy file: \x93NUMPY, version 1 to 3, the length of a text, and the text, a Python dict
 * {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Behind it lie the elements without any gap, or, for arrays
 * of Python objects, a pickle of the array.
 *
 * Source: numpy/lib/format.py (read_array_header_*, read_array). Python 2 wrote sizes as 3L. The text is parsed, never
 * evaluated. */
#ifndef CK_CONTAINER_NPY_H
#define CK_CONTAINER_NPY_H

#include "core/base/source.h"
#include "core/tensor/numpy_type.h"
#include "core/tensor/view.h"

#define CK_NPY_HEADER_MAX 65536u /* bytes of the text; that of a number type has less than 300 */

struct ck_npy {
    struct ck_numpy_type type; /* of a structured array: kind V, size 0 */
    bool                 fortran;
    uint32_t             rank;
    int64_t              shape[CK_RANK_MAX]; /* none is negative */
    uint64_t             offset;             /* of what follows the header */
};

/* True if the file begins like one. */
bool ck_npy_recognise(const struct ck_source *source);

/* Reads the header at the start of source. entry names the archive member in errors, "" if there is none. Returns 0;
 * CK_E_HEADER_CORRUPT; CK_E_TRUNCATED; CK_E_IO. */
int ck_npy_open(const struct ck_source *source, const char *entry, struct ck_npy *ret_npy, struct ck_error *err);

#endif
