/* The executor against naive loops, by value: every layout, element size, tile border and limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <zlib.h>

#include "core/tensor/cast.h"
#include "core/tensor/execute.h"
#include "core/tensor/gather.h"
#include "tests/unit/golden.h"

static struct ck_pool *pool;

static int setup(_unused_ void **state) {
    struct ck_error err = {0};

    return ck_pool_new(3, &pool, &err);
}

static int teardown(_unused_ void **state) {
    ck_pool_free(pool);
    return 0;
}

static int memory_file(uint64_t bytes) {
    int fd = memfd_create("test", 0);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static uint8_t *random_bytes(size_t n, uint64_t seed) {
    uint8_t *bytes = malloc(n + 8);

    assert_non_null(bytes);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t r = random_u64(&seed);

        memcpy(bytes + i, &r, 8);
    }
    return bytes;
}

/* The dense elements of a view, element by element. */
static uint8_t *naive(const struct ck_view *view, const uint8_t *storage, bool swap) {
    size_t size = ck_dtype_row(view->dtype)->size, unit = ck_dtype_row(view->dtype)->unit;
    uint64_t n = ck_view_numel(view), index[CK_RANK_MAX] = {0};
    uint8_t *dense = malloc(n * size + 1);

    assert_non_null(dense);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = view->offset;

        for (uint32_t k = 0; k < view->rank; k++)
            at += index[k] * (uint64_t)view->stride[k];
        for (size_t b = 0; b < size; b++)
            dense[i * size + b] = storage[at * size + (swap ? b / unit * unit + unit - 1 - b % unit : b)];
        for (uint32_t k = view->rank; k-- > 0;) {
            if (++index[k] < (uint64_t)view->shape[k])
                break;
            index[k] = 0;
        }
    }
    return dense;
}

static uint64_t storage_elements(const struct ck_view *view) {
    uint64_t last = view->offset + 1;

    for (uint32_t k = 0; k < view->rank; k++)
        last += view->shape[k] > 0 ? (uint64_t)(view->shape[k] - 1) * (uint64_t)view->stride[k] : 0;
    return last;
}

/* Runs tasks into one file of `bytes` and returns its contents; the file's CRC is checked. */
static uint8_t *run(struct ck_task *tasks, size_t n_tasks, uint64_t bytes) {
    _cleanup_(ck_closep) int fd = memory_file(bytes);
    struct ck_out_file file = {.fd = fd, .bytes = bytes};
    struct ck_execution execution;
    struct ck_error err = {0};
    uint8_t *out = malloc(bytes + 1);

    assert_non_null(out);
    ck_execution_init(&execution, &file, 1);
    if (ck_execute(&execution, tasks, n_tasks, pool, NULL, &err) < 0 || ck_execution_crc(&execution, &err) < 0)
        fail_msg("%s: %s", err.where, err.message);
    assert_int_equal(pread(fd, out, bytes, 0), bytes);
    assert_int_equal(file.crc32, crc32_z(0, out, bytes));
    ck_execution_release(&execution);
    return out;
}

/* One view from memory, and from the middle of a file, against the naive loop. */
static void check_view(const struct ck_view *view, bool swap) {
    size_t size = ck_dtype_row(view->dtype)->size, storage_bytes = storage_elements(view) * size;
    uint64_t bytes = ck_view_bytes(view);
    uint8_t *storage = random_bytes(storage_bytes, 5), *want = naive(view, storage, swap);
    _cleanup_(ck_closep) int fd = memory_file(storage_bytes + 13);
    struct ck_task task = {.view = *view, .swap = swap, .dtype = view->dtype, .name = "view"};

    assert_int_equal(pwrite(fd, storage, storage_bytes, 13), storage_bytes);
    for (int from_file = 0; from_file < 2; from_file++) {
        uint8_t *out;

        task.storage = from_file ? (struct ck_source){.fd = fd, .base = 13, .length = storage_bytes}
                                 : ck_source_from_memory(storage, storage_bytes);
        out = run(&task, 1, bytes);
        assert_memory_equal(out, want, bytes);
        free(out);
    }
    free(want);
    free(storage);
}

#define VIEW(type, first, ...)                                                                                         \
    (&(struct ck_view){.dtype = type,                                                                                  \
                       .rank = CK_ARRAY_LEN(((int64_t[]){__VA_ARGS__})) / 2,                                           \
                       .shape = (int64_t[]){__VA_ARGS__},                                                              \
                       .stride = (int64_t[]){__VA_ARGS__} + CK_ARRAY_LEN(((int64_t[]){__VA_ARGS__})) / 2,              \
                       .offset = first})

static const enum ck_dtype each_size[] = {CK_U8, CK_BF16, CK_F32, CK_F64, CK_C128};

static void layouts_of_every_element_size_are_copied_by_value(_unused_ void **state) {
    for (size_t i = 0; i < CK_ARRAY_LEN(each_size); i++) {
        enum ck_dtype dtype = each_size[i];

        check_view(VIEW(dtype, 0, 1000, 1), false);
        check_view(VIEW(dtype, 3, 64, 3, 3, 130, 1170, 3, 1, 9), false); /* convolution */
        check_view(VIEW(dtype, 0, 700, 900, 1, 700), false);             /* transposed */
        check_view(VIEW(dtype, 1, 100, 50, 4000, 3), false);             /* strided */
        check_view(VIEW(dtype, 0, 30, 40, 50, 0, 1, 0), false);          /* broadcast */
        check_view(VIEW(dtype, 2, 200, 300, 1, 1), false);               /* overlapping */
        check_view(VIEW(dtype, 0, 17, 33, 2, 66, 2, 1), false);          /* joined pairs */
        check_view(VIEW(dtype, 0, 9, 10, 11, 12, 1, 9, 90, 990), false); /* all axes turned round */
    }
}

static void scalars_and_dimensions_of_length_one_are_copied(_unused_ void **state) {
    struct ck_view scalar = {.dtype = CK_F32, .rank = 0, .offset = 7};

    check_view(&scalar, false);
    check_view(VIEW(CK_F32, 2, 1, 1, 1, 99, 5, 0), false);
    check_view(VIEW(CK_BF16, 0, 1, 40, 1, 30, 777, 1, 3, 40), false);
}

static void tiles_end_exactly_at_the_tensor_or_one_element_before(_unused_ void **state) {
    int64_t tile = (int64_t)CK_TILE_BYTES / 2;

    for (int64_t more = -1; more <= 1; more++) {
        check_view(VIEW(CK_BF16, 0, tile + more, 1), false);
        check_view(VIEW(CK_BF16, 1, tile + more, 2), false);
        check_view(VIEW(CK_BF16, 0, 2, tile + more, tile + 5, 1), false);
        check_view(VIEW(CK_BF16, 0, tile + more, 2, 1, tile + 1), false);
        check_view(VIEW(CK_BF16, 0, 1024 + more, 512, 1, 1024 + more), false);
    }
}

static void rows_longer_than_a_tile_are_cut(_unused_ void **state) {
    int64_t row = 3 * (int64_t)CK_TILE_BYTES / 4 + 3;

    check_view(VIEW(CK_F32, 0, 3, row, row, 1), false);
    check_view(VIEW(CK_F32, 0, 3, row, 1, 3), false);
    check_view(VIEW(CK_F32, 0, row, 3, 1, row), false);
    check_view(VIEW(CK_F32, 5, 2, row, 0, 2), false);
}

static void matrices_large_in_both_directions_are_transposed(_unused_ void **state) {
    check_view(VIEW(CK_F32, 0, 1500, 2111, 1, 1500), false);
    check_view(VIEW(CK_BF16, 0, 3001, 1999, 1, 3003), false);
    check_view(VIEW(CK_U8, 0, 5000, 4097, 1, 5000), false);
    check_view(VIEW(CK_F32, 0, 40, 60000, 1, 40), false);
    check_view(VIEW(CK_F32, 0, 60000, 40, 1, 60000), false);
    check_view(VIEW(CK_F32, 0, 3, 700, 900, 630000, 1, 700), false);
}

static void far_apart_elements_are_read_one_by_one(_unused_ void **state) {
    check_view(VIEW(CK_F32, 1, 3000, 1024), false);
    check_view(VIEW(CK_F32, 0, 2, 3000, 1, 1031), false);
    check_view(VIEW(CK_U8, 0, 50, 70, 100000, 900), false);
}

static void big_endian_units_are_swapped(_unused_ void **state) {
    enum ck_dtype dtypes[] = {CK_U8, CK_I16, CK_F32, CK_I64, CK_C64, CK_C128};

    for (size_t i = 0; i < CK_ARRAY_LEN(dtypes); i++) {
        check_view(VIEW(dtypes[i], 3, 300, 40, 1, 300), true);
        check_view(VIEW(dtypes[i], 3, 3001, 1), true);
    }
}

/* Strides are drawn freely: 0, overlapping, padded, any order of the axes. */
static void random_views_equal_the_naive_loop(_unused_ void **state) {
    uint64_t seed = 42;

    for (int round = 0; round < 400; round++) {
        int64_t shape[6], stride[6], reach = 1;
        struct ck_view view = {.dtype = each_size[random_u64(&seed) % 5],
                               .rank = (uint32_t)(random_u64(&seed) % 7),
                               .shape = shape,
                               .stride = stride,
                               .offset = random_u64(&seed) % 9};
        uint32_t axes[6];

        for (uint32_t k = 0; k < view.rank; k++) {
            uint32_t other = (uint32_t)(random_u64(&seed) % (k + 1));

            axes[k] = axes[other];
            axes[other] = k;
        }
        for (uint32_t k = 0; k < view.rank; k++) {
            uint32_t axis = axes[k];
            uint64_t kind = random_u64(&seed) % 8;

            shape[axis] = (int64_t)(1 + random_u64(&seed) % (k == 0 ? 40 : 12));
            stride[axis] = kind == 0   ? 0
                           : kind == 1 ? (int64_t)(random_u64(&seed) % 7)
                           : kind == 2 ? reach + (int64_t)(random_u64(&seed) % 5)
                                       : reach;
            reach += (shape[axis] - 1) * stride[axis];
        }
        if (ck_view_bytes(&view) + storage_elements(&view) * 16 < (64u << 20))
            check_view(&view, random_u64(&seed) % 4 == 0);
    }
}

static void permute_takes_every_size_and_stride(_unused_ void **state) {
    uint64_t count[] = {3, 67, 5}, stride[] = {1, 15, 3};

    for (size_t size = 1; size <= 16; size *= 2) {
        uint8_t *in = random_bytes(2000 * size, size), out[3 * 67 * 5 * 16];

        ck_permute(out, in, size, 3, count, stride);
        for (uint64_t i = 0; i < 3 * 67 * 5; i++)
            assert_memory_equal(out + i * size, in + (i / 335 + i / 5 % 67 * 15 + i % 5 * 3) * size, size);
        free(in);
    }
}

/* No tile may need more memory than a thread has, whatever the view. */
static void tiles_stay_within_their_buffers_and_cover_the_tensor(_unused_ void **state) {
    uint64_t seed = 9;

    for (int round = 0; round < 3000; round++) {
        int64_t shape[8], stride[8];
        enum ck_dtype dtype = each_size[random_u64(&seed) % 5];
        struct ck_view view = {
            .dtype = dtype, .rank = (uint32_t)(1 + random_u64(&seed) % 8), .shape = shape, .stride = stride};
        uint32_t unit = random_u64(&seed) % 3 == 0 ? 64 : 1;
        struct ck_tiling tiling;
        uint64_t elements = 0, out_size = dtype == CK_F32 ? 2 : ck_dtype_row(dtype)->size;

        for (uint32_t k = 0; k < view.rank; k++) {
            shape[k] = (int64_t)(1 + (random_u64(&seed) >> (random_u64(&seed) % 14 + 50)));
            stride[k] = (int64_t)(random_u64(&seed) >> (random_u64(&seed) % 30 + 34));
        }
        shape[view.rank - 1] *= unit;
        if (ck_view_numel(&view) > 1u << 27)
            continue;
        ck_tiling_init(&tiling, &view, out_size, unit);
        assert_true(tiling.tiles <= ck_view_numel(&view) / unit);
        for (uint64_t i = 0; i < CK_MIN(tiling.tiles, (uint64_t)2000); i++) {
            struct ck_reading reading;
            struct ck_box box;

            ck_tiling_box(&tiling, i, &box);
            ck_tiling_reading(&tiling, box.count, &reading);
            assert_true(reading.raw * tiling.size <= CK_TILE_BUFFER);
            assert_true(box.elements * CK_MAX(tiling.size, out_size) <= CK_TILE_BUFFER);
            assert_int_equal(box.piece % unit, 0);
            assert_int_equal(box.piece * box.pieces, box.elements);
            elements += box.elements;
        }
        if (tiling.tiles <= 2000)
            assert_int_equal(elements, ck_view_numel(&view));
    }
}

static void large_transposes_use_long_runs_on_both_sides(_unused_ void **state) {
    struct ck_reading reading;
    struct ck_tiling tiling;
    struct ck_box box;

    ck_tiling_init(&tiling, VIEW(CK_F32, 0, 4096, 500000, 1, 4096), 4, 1);
    ck_tiling_box(&tiling, 0, &box);
    ck_tiling_reading(&tiling, box.count, &reading);
    assert_true(box.elements / reading.runs * 4 >= 2048);
    assert_true(box.piece * 4 >= 2048);
}

static void casts_count_what_overflowed(_unused_ void **state) {
    enum { N = 700 * 1000 };
    double *in = malloc(N * sizeof(double));
    uint16_t want[1];
    uint8_t *out;
    struct ck_task task = {.view = *VIEW(CK_F64, 0, 1000, 700, 1, 1000), .dtype = CK_F16, .name = "cast"};

    assert_non_null(in);
    for (int i = 0; i < N; i++)
        in[i] = i % 1000 == 7 ? 1e6 + i : i % 1000 == 8 ? __builtin_inf() : i * 0.001;
    task.storage = ck_source_from_memory(in, N * sizeof(double));
    out = run(&task, 1, N * 2);
    assert_int_equal(task.overflowed, 700);
    for (int i = 0; i < N; i++) {
        ck_cast(CK_F64, in + (size_t)(i % 700 * 1000 + i / 700), CK_F16, want, 1);
        assert_memory_equal(out + 2 * i, want, 2);
    }
    free(out);
    free(in);
}

static void check_quantized(const struct ck_view *view, enum ck_dtype dtype, struct ck_affine affine) {
    uint64_t n = ck_view_numel(view), groups = n / affine.group, size = ck_dtype_row(dtype)->size,
             codes = n * affine.bits / 8;
    size_t storage_bytes = storage_elements(view) * ck_dtype_row(view->dtype)->size;
    uint8_t *storage = random_bytes(storage_bytes, 3), *dense = naive(view, storage, false), *cast = malloc(n * size);
    uint8_t *want = malloc(codes + 2 * groups * size), *out;
    struct ck_task task = {.storage = ck_source_from_memory(storage, storage_bytes),
                           .view = *view,
                           .dtype = dtype,
                           .affine = affine,
                           .name = "q",
                           .scales = {0, codes},
                           .biases = {0, codes + groups * size}};
    uint64_t odd, overflowed;

    assert_non_null(cast);
    assert_non_null(want);
    overflowed = ck_cast(view->dtype, dense, dtype, cast, n);
    odd = ck_affine_quantize_plain(affine, dtype, cast, groups, want, want + codes, want + codes + groups * size);
    out = run(&task, 1, codes + 2 * groups * size);
    assert_memory_equal(out, want, codes + 2 * groups * size);
    assert_int_equal(task.non_finite_groups, odd);
    assert_int_equal(task.overflowed, overflowed);
    free(out);
    free(want);
    free(cast);
    free(dense);
    free(storage);
}

static void quantized_tiles_equal_the_whole_tensor_quantized(_unused_ void **state) {
    uint8_t bits[] = {2, 3, 4, 5, 6, 8};
    uint16_t groups[] = {32, 64, 128};

    for (int i = 0; i < 18; i++) {
        struct ck_affine affine = {bits[i % 6], groups[i / 6]};

        check_quantized(VIEW(CK_BF16, 0, 3, 128, 128, 1), CK_BF16, affine);
        check_quantized(VIEW(CK_F32, 5, 700, 1152, 1, 700), CK_F16, affine);
    }
    check_quantized(VIEW(CK_BF16, 0, 1100, 2048, 2048, 1), CK_BF16, (struct ck_affine){4, 64});
    check_quantized(VIEW(CK_BF16, 0, 1100, 2048, 1, 1100), CK_BF16, (struct ck_affine){4, 64});
    check_quantized(VIEW(CK_F16, 0, 2, 640000, 1, 2), CK_F16, (struct ck_affine){3, 128});
    check_quantized(VIEW(CK_F64, 0, 2, 640000, 640000, 1), CK_F32, (struct ck_affine){8, 32});
    check_quantized(VIEW(CK_F32, 0, 40, 3, 3, 64, 576, 3, 1, 9), CK_F32, (struct ck_affine){6, 64});
}

static void empty_tensors_write_nothing(_unused_ void **state) {
    struct ck_task tasks[2] = {
        {.view = *VIEW(CK_F32, 0, 4, 0, 5, 1000, 1, 1), .dtype = CK_F32, .name = "empty"},
        {.view = *VIEW(CK_F32, 0, 0, 64, 64, 1), .dtype = CK_F32, .affine = {4, 64}, .name = "no rows"},
    };
    uint8_t *out = run(tasks, 2, 0);

    free(out);
}

static void many_tiny_tensors_and_a_header_make_one_crc(_unused_ void **state) {
    enum { N = 100000, BYTES = 12 };
    struct ck_task *tasks = calloc(N, sizeof(*tasks));
    uint8_t *storage = random_bytes(N * BYTES, 1), *whole = malloc(N * BYTES + 5);
    _cleanup_(ck_closep) int fd = memory_file(N * BYTES + 5);
    struct ck_out_file file = {.fd = fd, .bytes = N * BYTES + 5};
    struct ck_execution execution;
    struct ck_error err = {0};

    assert_non_null(tasks);
    assert_non_null(whole);
    for (size_t i = 0; i < N; i++)
        tasks[i] = (struct ck_task){.storage = ck_source_from_memory(storage + i * BYTES, BYTES),
                                    .view = *VIEW(CK_F32, 0, 3, 1),
                                    .dtype = CK_F32,
                                    .out = {0, 5 + (N - 1 - i) * BYTES},
                                    .name = "tiny"};
    /* VIEW's arrays live in this block only. */
    int64_t shape[] = {3}, stride[] = {1};
    for (size_t i = 0; i < N; i++) {
        tasks[i].view.shape = shape;
        tasks[i].view.stride = stride;
    }
    ck_execution_init(&execution, &file, 1);
    assert_int_equal(ck_execution_write(&execution, (struct ck_place){0, 0}, "hello", 5, &err), 0);
    assert_int_equal(ck_execute(&execution, tasks, N, pool, NULL, &err), 0);
    assert_int_equal(ck_execution_crc(&execution, &err), 0);
    memcpy(whole, "hello", 5);
    for (size_t i = 0; i < N; i++)
        memcpy(whole + 5 + (N - 1 - i) * BYTES, storage + i * BYTES, BYTES);
    assert_int_equal(file.crc32, crc32_z(0, whole, N * BYTES + 5));
    ck_execution_release(&execution);
    free(whole);
    free(storage);
    free(tasks);
}

/* Runs one task of n floats from memory to `place` in a file of `bytes`. */
static int run_one(uint64_t n, struct ck_place place, uint64_t bytes, const struct ck_progress *progress, bool crc,
                   struct ck_error *err) {
    _cleanup_(ck_closep) int fd = memory_file(bytes);
    struct ck_out_file file = {.fd = fd, .bytes = bytes};
    uint8_t *storage = random_bytes(n * 4, 1);
    int64_t shape[] = {(int64_t)n}, stride[] = {1};
    struct ck_task task = {.storage = ck_source_from_memory(storage, n * 4),
                           .dtype = CK_F32,
                           .out = place,
                           .name = "weight",
                           .view = {.dtype = CK_F32, .rank = 1, .shape = shape, .stride = stride}};
    struct ck_execution execution;
    int r;

    ck_execution_init(&execution, &file, 1);
    r = ck_execute(&execution, &task, 1, pool, progress, err);
    if (r == 0 && crc)
        r = ck_execution_crc(&execution, err);
    ck_execution_release(&execution);
    free(storage);
    return r;
}

static void hole_in_an_output_file_is_an_internal_error(_unused_ void **state) {
    struct ck_error err = {0}, err2 = {0}, err3 = {0};

    assert_int_equal(run_one(10, (struct ck_place){0, 0}, 40, NULL, true, &err), 0);
    assert_int_equal(run_one(10, (struct ck_place){0, 1}, 41, NULL, true, &err), CK_E_INTERNAL);
    assert_int_equal(run_one(10, (struct ck_place){0, 0}, 41, NULL, true, &err2), CK_E_INTERNAL);
    assert_int_equal(run_one(0, (struct ck_place){0, 0}, 1, NULL, true, &err3), CK_E_INTERNAL);
}

static void tensor_planned_past_the_end_of_its_file_is_refused(_unused_ void **state) {
    struct ck_error err = {0}, err2 = {0};

    assert_int_equal(run_one(10, (struct ck_place){0, 1}, 40, NULL, false, &err), CK_E_INTERNAL);
    assert_string_equal(err.where, "weight");
    assert_int_equal(run_one(10, (struct ck_place){1, 0}, 40, NULL, false, &err2), CK_E_INTERNAL);
}

static void overlapping_outputs_are_an_internal_error(_unused_ void **state) {
    _cleanup_(ck_closep) int fd = memory_file(8);
    struct ck_out_file file = {.fd = fd, .bytes = 8};
    struct ck_execution execution;
    struct ck_error err = {0};

    ck_execution_init(&execution, &file, 1);
    assert_int_equal(ck_execution_write(&execution, (struct ck_place){0, 0}, "abcdef", 6, &err), 0);
    assert_int_equal(ck_execution_write(&execution, (struct ck_place){0, 4}, "efgh", 4, &err), 0);
    assert_int_equal(ck_execution_crc(&execution, &err), CK_E_INTERNAL);
    ck_execution_release(&execution);
}

struct watch {
    atomic_int inside;
    uint64_t calls, last, total;
    bool wrong, cancel;
};

static void report(void *ctx, enum ck_stage stage, uint64_t done, uint64_t total) {
    struct watch *watch = ctx;

    if (atomic_fetch_add(&watch->inside, 1) != 0 || stage != CK_STAGE_write || done < watch->last || done > total)
        watch->wrong = true;
    watch->calls++;
    watch->last = done;
    watch->total = total;
    atomic_fetch_sub(&watch->inside, 1);
}

static bool cancelled(void *ctx) {
    return ((struct watch *)ctx)->cancel;
}

static void progress_comes_every_16_mib_one_at_a_time_and_ends_complete(_unused_ void **state) {
    struct watch watch = {0};
    struct ck_progress progress = {.report = report, .cancelled = cancelled, .ctx = &watch};
    struct ck_error err = {0};
    uint64_t n = 80u << 18; /* 80 MiB */

    assert_int_equal(run_one(n, (struct ck_place){0, 0}, n * 4, &progress, true, &err), 0);
    assert_false(watch.wrong);
    assert_int_equal(watch.last, n * 4);
    assert_int_equal(watch.total, n * 4);
    assert_in_range(watch.calls, 3, 7);
}

static void cancelled_run_ends_with_cancelled(_unused_ void **state) {
    struct watch watch = {.cancel = true};
    struct ck_progress progress = {.cancelled = cancelled, .ctx = &watch};
    struct ck_error err = {0};

    assert_int_equal(run_one(1000, (struct ck_place){0, 0}, 4000, &progress, true, &err), CK_E_CANCELLED);
    assert_int_equal(err.code, CK_E_CANCELLED);
}

static void file_that_shrinks_while_it_is_read_names_the_tensor(_unused_ void **state) {
    _cleanup_(ck_closep) int in = memory_file(100), out = memory_file(400);
    struct ck_out_file file = {.fd = out, .bytes = 400};
    int64_t shape[] = {100}, stride[] = {1};
    struct ck_task task = {.storage = {.fd = in, .length = 400},
                           .dtype = CK_F32,
                           .name = "layer.weight",
                           .view = {.dtype = CK_F32, .rank = 1, .shape = shape, .stride = stride}};
    struct ck_execution execution;
    struct ck_error err = {0};

    ck_execution_init(&execution, &file, 1);
    assert_int_equal(ck_execute(&execution, &task, 1, pool, NULL, &err), CK_E_TRUNCATED);
    assert_string_equal(err.where, "layer.weight");
    assert_int_equal(ck_execution_crc(&execution, &err), CK_E_INTERNAL);
    ck_execution_release(&execution);
}

static void failing_write_is_reported_with_its_reason(_unused_ void **state) {
    _cleanup_(ck_closep) int full = open("/dev/full", O_RDWR);
    struct ck_out_file file = {.fd = full, .bytes = 400};
    static const float storage[100];
    int64_t shape[] = {100}, stride[] = {1};
    struct ck_task task = {.storage = ck_source_from_memory(storage, 400),
                           .dtype = CK_F32,
                           .name = "layer.weight",
                           .view = {.dtype = CK_F32, .rank = 1, .shape = shape, .stride = stride}};
    struct ck_execution execution;
    struct ck_error err = {0};

    assert_true(full >= 0);
    ck_execution_init(&execution, &file, 1);
    assert_int_equal(ck_execute(&execution, &task, 1, pool, NULL, &err), CK_E_STORAGE_FULL);
    assert_string_equal(err.where, "layer.weight");
    ck_execution_release(&execution);
}

static void view_outside_of_its_storage_is_never_walked(_unused_ void **state) {
    _cleanup_(ck_closep) int out = memory_file(400);
    struct ck_out_file file = {.fd = out, .bytes = 400};
    static const float storage[100];
    int64_t shape[] = {100}, stride[] = {1};
    struct ck_task task = {.storage = ck_source_from_memory(storage, 399),
                           .dtype = CK_F32,
                           .name = "w",
                           .view = {.dtype = CK_F32, .rank = 1, .shape = shape, .stride = stride}};
    struct ck_execution execution;
    struct ck_error err = {0};

    ck_execution_init(&execution, &file, 1);
    assert_int_equal(ck_execute(&execution, &task, 1, pool, NULL, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    ck_execution_release(&execution);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_of_every_element_size_are_copied_by_value),
        cmocka_unit_test(scalars_and_dimensions_of_length_one_are_copied),
        cmocka_unit_test(tiles_end_exactly_at_the_tensor_or_one_element_before),
        cmocka_unit_test(rows_longer_than_a_tile_are_cut),
        cmocka_unit_test(matrices_large_in_both_directions_are_transposed),
        cmocka_unit_test(far_apart_elements_are_read_one_by_one),
        cmocka_unit_test(big_endian_units_are_swapped),
        cmocka_unit_test(random_views_equal_the_naive_loop),
        cmocka_unit_test(permute_takes_every_size_and_stride),
        cmocka_unit_test(tiles_stay_within_their_buffers_and_cover_the_tensor),
        cmocka_unit_test(large_transposes_use_long_runs_on_both_sides),
        cmocka_unit_test(casts_count_what_overflowed),
        cmocka_unit_test(quantized_tiles_equal_the_whole_tensor_quantized),
        cmocka_unit_test(empty_tensors_write_nothing),
        cmocka_unit_test(many_tiny_tensors_and_a_header_make_one_crc),
        cmocka_unit_test(hole_in_an_output_file_is_an_internal_error),
        cmocka_unit_test(tensor_planned_past_the_end_of_its_file_is_refused),
        cmocka_unit_test(overlapping_outputs_are_an_internal_error),
        cmocka_unit_test(progress_comes_every_16_mib_one_at_a_time_and_ends_complete),
        cmocka_unit_test(cancelled_run_ends_with_cancelled),
        cmocka_unit_test(file_that_shrinks_while_it_is_read_names_the_tensor),
        cmocka_unit_test(failing_write_is_reported_with_its_reason),
        cmocka_unit_test(view_outside_of_its_storage_is_never_walked),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
