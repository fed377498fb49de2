/* pickle/machine.h: runs one pickle (protocols 0 to 5, all 68 opcodes) without executing anything.
 *
 * Source of the opcode semantics: CPython's Lib/pickletools.py and Lib/pickle.py. */
#ifndef CK_PICKLE_MACHINE_H
#define CK_PICKLE_MACHINE_H

#include "core/base/limits.h"
#include "core/pickle/finding.h"
#include "core/pickle/value.h"

/* Reads the pickle at the start of source. Findings (every global with its class, and whether it was called) are
 * appended also when the pickle turns out broken. entry names the archive member in findings and errors, "" if there is
 * none. Returns 0 and a graph that the caller releases; CK_E_PICKLE_CORRUPT with offset and opcode in the message;
 * CK_E_PICKLE_LIMIT naming the setting; CK_E_TRUNCATED; CK_E_OUT_OF_MEMORY. */
int ck_pickle_run(const struct ck_source *source, const char *entry, const struct ck_limits *limits,
                  struct ck_findings *findings, struct ck_pickle *ret_pickle, struct ck_error *err);

#endif
