/* pickle/numpy.h: numpy's dtype objects in a value graph, and the raw arrays that joblib puts between two opcodes.
 *
 * Sources: numpy/core/src/multiarray/descriptor.c (arraydescr_reduce, arraydescr_setstate); joblib/numpy_pickle.py
 * (NumpyArrayWrapper.read_array, NumpyUnpickler.load_build). */
#ifndef CK_PICKLE_NUMPY_H
#define CK_PICKLE_NUMPY_H

#include "core/pickle/value.h"
#include "core/tensor/numpy_type.h"

/* The element type of dtype('f4', align, copy) with its state (version, order, ...). The numbers of ml_dtypes (bfloat16
 * ...) are named by their class instead of a text. *ret_objects: elements are, or hold, Python objects. False if the
 * value is no dtype that is understood. */
bool ck_pickle_numpy_type(const struct ck_pickle *pickle, ck_ref ref, struct ck_numpy_type *ret_type,
                          bool *ret_objects);

/* True for a CALL that makes a NumpyArrayWrapper of joblib (also of the copy in old scikit-learn). Behind the BUILD
 * that gives it its state lie the bytes of the array, which the machine passes over and keeps as the call's
 * arguments: (bytes,), or (None,) for arrays of Python objects, which are a pickle of their own. */
bool ck_pickle_is_joblib(const struct ck_pickle *pickle, ck_ref ref);

#endif
