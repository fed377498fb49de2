/* model/numpy.h: arrays of numpy in a value graph -> the same description that tensors have.
 *
 *   numpy.core.multiarray._reconstruct(class, (0,), b'b'), BUILD (version, shape, dtype, is_fortran, bytes)
 *   numpy.core.numeric._frombuffer(bytes, dtype, shape, order[, axis_order])                (protocol 5)
 *   joblib.numpy_pickle.NumpyArrayWrapper, whose bytes lie behind its BUILD                 (core/pickle/numpy.h)
 *   jax._src.array._reconstruct_array(_reconstruct, arguments, the state above, ..)
 *
 * numpy 2 says numpy._core. Sources: numpy/core/src/multiarray/methods.c (array_reduce_ex, array_setstate),
 * numpy/_core/numeric.py (_frombuffer), jax/_src/array.py. An array of Python objects is no array here but the list of
 * its elements. Scalars of numpy are plain values. */
#ifndef CK_MODEL_NUMPY_H
#define CK_MODEL_NUMPY_H

#include "core/model/rebuild.h"

/* If the value is an array, fills *tensor: view, storage, or error: CK_E_UNSUPPORTED_DTYPE (text, dates, structures
 * ...: says which), CK_E_UNSUPPORTED_TENSOR (malformed, masked, its bytes are elsewhere), CK_E_TENSOR_OUT_OF_BOUNDS.
 * Returns 0; CK_E_TENSOR_LIMIT (dims, model_memory, unpacked_bytes); CK_E_STORAGE_FULL; CK_E_IO; CK_E_OUT_OF_MEMORY. */
int ck_numpy_rebuild(struct ck_rebuild *rebuild, ck_ref ref, struct ck_rebuilt *tensor, bool *ret_is_array,
                     struct ck_error *err);

/* True for an array of Python objects; *ret_items is the LIST of its elements in C order. */
bool ck_numpy_objects(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_items);

/* Strides of elements that lie densely, the last dimension first or (fortran) the first. False if they do not fit. */
bool ck_numpy_strides(uint32_t rank, const int64_t *shape, bool fortran, int64_t *stride);

#endif
