#include "core/tensor/cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdatomic.h>

/* clang 14 does not know __builtin_cpu_supports("f16c"). */
static bool has_f16c(void) {
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool ck_cpu_has_avx2(void) {
    static atomic_int answer; /* 0: not asked yet; in a virtual machine cpuid takes microseconds */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);

    if (known == 0) {
        known = __builtin_cpu_supports("avx2") && has_f16c() ? 1 : -1;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known > 0;
}

#else

bool ck_cpu_has_avx2(void) {
    return false;
}

#endif
