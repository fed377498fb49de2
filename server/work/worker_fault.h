/* server/work/worker_fault.h: faults on demand, so that tests can show what each of them costs. The variable
 * CKPTD_WORKER_FAULT names one; the daemon passes it on from its own environment only, never from a request. */
#ifndef CK_SERVER_WORK_WORKER_FAULT_H
#define CK_SERVER_WORK_WORKER_FAULT_H

#include "core/base/error.h"

/* fault: one, or several with commas, applied in turn: crash, abort, hang, spin (uses the processor), slow (one second, then goes on), nap (a tenth
 * of it), eat (memory), execve, socket, connect, open, exit (without a word), lie (claims files that are not there), babble (a line without end).
 * "crash@poison" strikes jobs only whose input's name begins with "poison", so that others run beside them. NULL or an unknown word: none. */
void ck_worker_fault_apply(const char *fault, const char *input, struct ck_error *err);

#endif
