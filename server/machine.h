/* server/machine.h: what the machine, or the part of it that this process may use, has. */
#ifndef CK_SERVER_MACHINE_H
#define CK_SERVER_MACHINE_H

#include <stdint.h>

/* Processors that this process may use, at least 1: those it may run on, or fewer where a control group gives it less time
 * (cpu.max of version 2, cpu.cfs_quota_us of version 1), rounded up. root as below. */
uint64_t ck_machine_processors(const char *root);

/* Bytes of memory that this process may use: the machine's, or less where a control group says so (memory.max of
 * version 2, memory.limit_in_bytes of version 1; the group's own and those of the groups around it).
 * root: "" for the system; a folder with proc/ and sys/ in it for tests. */
uint64_t ck_machine_memory(const char *root);

#endif
