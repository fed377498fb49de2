/* pickle/loader.h: calls that load another stream out of a byte string.
 *
 * torch.storage._load_from_bytes(b"..") is harmless by its name, but what it is given is a pickle like any other: loading
 * the one loads the other. Sources: torch/storage.py, pickle.py, torch/serialization.py, joblib/numpy_pickle.py. */
#ifndef CK_PICKLE_LOADER_H
#define CK_PICKLE_LOADER_H

#include "core/pickle/value.h"

/* True for a CALL of such a function; *ret_bytes is its argument, without an io.BytesIO around it. */
bool ck_pickle_loads(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_bytes);

/* True if any value of the graph is such a call. */
bool ck_pickle_loads_any(const struct ck_pickle *pickle);

#endif
