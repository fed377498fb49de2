/* container/sniff.h: which of the known forms a file has, told from its first bytes. File names mean nothing.
 *
 * One table holds magic, form and, for forms that are not read, the sentence that says what the file is and what to do
 * instead. A zip with bytes in front of it (end record at the end, no PK at 0) cannot be told from a head: it counts as
 * unknown bytes. */
#ifndef CK_CONTAINER_SNIFF_H
#define CK_CONTAINER_SNIFF_H

#include "core/base/source.h"

#define CK_SNIFF_BYTES 4096

enum ck_form {
    CK_FORM_ZIP,         /* any zip: torch, TorchScript, ... ; its entries tell which */
    CK_FORM_SAFETENSORS, /* also one whose header is longer than the file: the reader says how many bytes are missing */
    CK_FORM_PICKLE,      /* a plain pickle, not torch's */
    CK_FORM_LEGACY,      /* torch's stream of pickles (0.1.10 to 1.5) */
    CK_FORM_TAR,         /* any tar: torch's of 0.1.0 to 0.1.9, or files; its entries tell which */
    CK_FORM_NPY,         /* an array of numpy's */
    CK_FORM_GZIP,        /* a file that gzip compressed; what it unpacks to has a form of its own */
    CK_FORM_OTHER,       /* recognised or not: refused by name */
};

/* Tells the form from the first n bytes (at most CK_SNIFF_BYTES are looked at) of a file of `length` bytes; length 0 if
 * it is not known yet (an upload that is still coming). Never reads beyond n. Returns the form, or for CK_FORM_OTHER
 * fills err: CK_E_EMPTY_FILE (n is 0), CK_E_NOT_A_CHECKPOINT (LFS pointer, HTML page, text, an empty zip, zeros,
 * unknown bytes: with an excerpt), CK_E_UNSUPPORTED_FORM (7z, GGUF, HDF5, ONNX ...) with message and hint of
 * the table. */
enum ck_form ck_sniff(const void *bytes, size_t n, uint64_t length, struct ck_error *err);

/* "torch-zip", "safetensors", "pickle", "torch-legacy", "tar", "npy", "gzip", "other": the word of reports. Static storage. */
const char *ck_form_name(enum ck_form form);

#endif
