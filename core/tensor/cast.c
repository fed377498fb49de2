#include "core/tensor/cast.h"

#include "core/tensor/cast_loops.h"
#include "core/tensor/cpu.h"

/* Elements that go through the f32 block at a time: 16 KiB, half of a first-level cache. Below 2^32, which the loops'
 * counters need. */
#define BLOCK 4096

const struct ck_cast_loops ck_cast_loops_plain = CK_CAST_LOOPS;

float ck_f16_to_f32(uint16_t bits) {
    return f16_to_f32(bits);
}

float ck_bf16_to_f32(uint16_t bits) {
    return bf16_to_f32(bits);
}

uint16_t ck_f32_to_f16(float value) {
    return f32_to_f16(value);
}

uint16_t ck_f32_to_bf16(float value) {
    return f32_to_bf16(value);
}

static const struct ck_cast_loops *loops(void) {
#if defined(__x86_64__)
    if (ck_cpu_has_avx2())
        return &ck_cast_loops_avx2;
#endif
    return &ck_cast_loops_plain;
}

/* NULL for F32, which needs no step. */
static ck_cast_loop_fn to_f32(const struct ck_cast_loops *table, enum ck_dtype from) {
    return from == CK_F64    ? table->f64_to_f32
           : from == CK_F16  ? table->f16_to_f32
           : from == CK_BF16 ? table->bf16_to_f32
                             : NULL;
}

static ck_cast_loop_fn from_f32(const struct ck_cast_loops *table, enum ck_dtype to) {
    return to == CK_F64    ? table->f32_to_f64
           : to == CK_F16  ? table->f32_to_f16
           : to == CK_BF16 ? table->f32_to_bf16
                           : NULL;
}

uint64_t ck_cast(enum ck_dtype from, const void *in, enum ck_dtype to, void *out, size_t n) {
    size_t in_size = ck_dtype_row(from)->size, out_size = ck_dtype_row(to)->size;
    ck_cast_loop_fn widen = to_f32(loops(), from), narrow = from_f32(loops(), to);
    uint64_t overflowed = 0;
    float block[BLOCK];

    if (from == to) {
        if (n > 0)
            memcpy(out, in, n * in_size);
        return 0;
    }
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t part = CK_MIN(n - done, (size_t)BLOCK);
        const char *source = (const char *)in + done * in_size;
        char *target = (char *)out + done * out_size;

        if (!narrow) {
            overflowed += widen(source, target, part);
        } else if (!widen) {
            overflowed += narrow(source, target, part);
        } else {
            overflowed += widen(source, block, part);
            overflowed += narrow(block, target, part);
        }
    }
    return overflowed;
}
