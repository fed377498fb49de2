/* api/names.h: texts that clients name things with, and the names that answers carry. */
#ifndef CK_API_NAMES_H
#define CK_API_NAMES_H

#include "core/base/error.h"

#define CK_STEM_MAX 160 /* bytes: with target, quantization and .zip it stays below every file system's 255 */

/* Decodes %XX (and '+' as a space, if form is set) of n bytes. Owned by the caller. Returns 0, CK_E_BAD_REQUEST for a
 * broken escape or an encoded NUL, CK_E_OUT_OF_MEMORY. */
int ck_percent_decode(const char *text, size_t n, bool form, char **ret_text, struct ck_error *err);

/* The name of a checkpoint without folders and without known suffixes (.pt .pth .bin .ckpt .safetensors .tar .pkl .th
 * .zip .model, repeatedly, in any case), with what a file system may refuse replaced by '_'. Never empty: "model" then.
 * Owned by the caller; NULL when out of memory. */
char *ck_stem(const char *name);

/* A Content-Disposition value: attachment with an ASCII filename and, where the name has more, filename* (RFC 6266, RFC
 * 8187). Owned by the caller; NULL when out of memory. */
char *ck_disposition(const char *file_name);

#endif
