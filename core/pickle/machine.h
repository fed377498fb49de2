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

/* The same for a pickle at `offset` that others, or raw data, follow by right: bytes behind STOP are no finding. Offsets
 * in findings, errors and values count from the start of source, so they are the file's; ret_pickle->length is the
 * pickle's own: the next thing begins at offset + length. limits.pickle_bytes bounds the one pickle. */
int ck_pickle_run_at(const struct ck_source *source, uint64_t offset, const char *entry, const struct ck_limits *limits,
                     struct ck_findings *findings, struct ck_pickle *ret_pickle, struct ck_error *err);

/* All pickles of a source that lie one after another, as loggers append them, in one graph with one budget
 * of memory. One pickle (*ret_count 1) is as ck_pickle_run() gives it; of several the root is a DICT
 * that maps "", "#1", "#2" ... to their roots. Bytes behind the last that are no pickle are a finding; those that begin
 * like one and are damaged are an error. CK_E_PICKLE_LIMIT, too, for more than limits.pickles. */
int ck_pickle_run_stream(const struct ck_source *source, const char *entry, const struct ck_limits *limits,
                         struct ck_findings *findings, struct ck_pickle *ret_pickle, uint32_t *ret_count,
                         struct ck_error *err);

#endif
