/* The loops of cast_loops.h, compiled for AVX2. */
#if defined(__x86_64__)

#include "core/tensor/cast_loops.h"

const struct ck_cast_loops ck_cast_loops_avx2 = CK_CAST_LOOPS;

#else

typedef int ck_nothing_for_this_cpu;

#endif
