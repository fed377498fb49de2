/* model/bytes.h: the byte strings of a pickle as ranges of a file, however a writer spelled them.
 *
 *   BINBYTES, BYTEARRAY8 ..., Python 2's str     as they lie in the file
 *   _codecs.encode(text, 'latin1')               bytes at protocols 0 to 2: each character is one byte, from 0x80 on
 *                                                written as two
 *   bytes(), bytearray(..)                       empty ones, and bytearrays below protocol 5
 *
 * What does not lie in the file as it is goes into the model's arena while it is small and into the scratch file
 * otherwise. All such bytes of one pickle together are at most twice as many as it has itself: a text that a hostile
 * file refers to a million times is refused. */
#ifndef CK_MODEL_BYTES_H
#define CK_MODEL_BYTES_H

#include "core/model/rebuild.h"

/* Fills *ret_bytes, or sets *ret_problem to what is wrong: a phrase, static or in the arena, that completes "its bytes
 * ". Returns 0; CK_E_TENSOR_LIMIT (model_memory, unpacked_bytes); CK_E_STORAGE_FULL; CK_E_IO. */
int ck_pickled_bytes(struct ck_rebuild *rebuild, ck_ref ref, struct ck_source *ret_bytes, const char **ret_problem,
                     struct ck_error *err);

#endif
