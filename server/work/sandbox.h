/* server/work/sandbox.h: what a worker process may still do once it reads a stranger's file: compute, read and write what it
 * already has open.
 *
 * Limits: private memory (RLIMIT_DATA, so that malloc answers NULL), processor time, no core file, no more descriptors.
 * Filter: an allow list by seccomp; any other system call (execve, socket, connect, open, ptrace ...) ends the process
 * with SIGSYS. clone3 answers ENOSYS, from which glibc falls back. No page may become executable. Everything is off in
 * builds with a sanitizer, whose run time needs more. */
#ifndef CK_SERVER_WORK_SANDBOX_H
#define CK_SERVER_WORK_SANDBOX_H

#include "core/base/error.h"

/* Dies with the parent, gains no privileges, cannot be traced or dumped. The first thing a worker does. Returns 0 or
 * CK_E_IO. */
int ck_sandbox_begin(struct ck_error *err);

/* Limits of this process: memory in bytes, cpu in seconds (SIGXCPU, then SIGKILL 5 s later), file in bytes for each
 * file written. Threads may still be made. Returns 0 or CK_E_IO. */
int ck_sandbox_limit(uint64_t memory, uint64_t cpu, uint64_t file, struct ck_error *err);

/* Puts the filter on all threads. From here on nothing is opened and no thread is made. Returns 0 or CK_E_IO. */
int ck_sandbox_close(struct ck_error *err);

/* "seccomp", or "off (sanitizer)". Static storage. */
const char *ck_sandbox_name(void);

/* In the daemon, before anything is served: whether workers will be able to lock themselves in. Returns 0 or CK_E_IO. */
int ck_sandbox_check(struct ck_error *err);

#endif
