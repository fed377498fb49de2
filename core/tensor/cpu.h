/* tensor/cpu.h: what the CPU of this process can do. */
#ifndef CK_TENSOR_CPU_H
#define CK_TENSOR_CPU_H

#include <stdbool.h>

/* True if the kernels in *_avx2.c may be called: an x86-64 CPU (and system) with AVX2 and F16C. Those files compile to
 * nothing elsewhere. Asked once per process. */
bool ck_cpu_has_avx2(void);

#endif
