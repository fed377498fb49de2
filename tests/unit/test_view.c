/* Views and dtypes: what lies inside a storage, and what is refused before anything is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/tensor/view.h"

#define VIEW(dtype_, offset_, rank_, shape_, stride_)                                                                  \
    (struct ck_view) {                                                                                                 \
        .dtype = dtype_, .rank = rank_, .shape = shape_, .stride = stride_, .offset = offset_                          \
    }

static int check(struct ck_view view, uint64_t bytes, struct ck_error *err) {
    memset(err, 0, sizeof(*err));
    return ck_view_check(&view, bytes, "w", err);
}

static void view_that_ends_with_its_storage_is_accepted(void **state) {
    const int64_t shape[] = {2, 3}, stride[] = {3, 1};
    struct ck_error err;

    (void)state;
    assert_int_equal(check(VIEW(CK_F32, 4, 2, shape, stride), 40, &err), 0);
}

static void strided_view_one_past_the_storage_is_refused(void **state) {
    const int64_t shape[] = {2, 3}, stride[] = {1, 4}; /* last element 1 + 8 = 9, so 10 of them */
    struct ck_error err;

    (void)state;
    assert_int_equal(check(VIEW(CK_F32, 0, 2, shape, stride), 40, &err), 0);
    assert_int_equal(check(VIEW(CK_F32, 1, 2, shape, stride), 40, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_string_equal(err.where, "w");
    assert_non_null(strstr(err.message, "44 bytes"));
    assert_non_null(strstr(err.message, "has 40"));
}

static void scalar_needs_one_element(void **state) {
    struct ck_error err;

    (void)state;
    assert_int_equal(check(VIEW(CK_F64, 0, 0, NULL, NULL), 8, &err), 0);
    assert_int_equal(check(VIEW(CK_F64, 0, 0, NULL, NULL), 7, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
}

static void empty_view_needs_no_storage(void **state) {
    const int64_t shape[] = {INT64_MAX, 0, INT64_MAX}, stride[] = {1, 1, 1};
    struct ck_view view = VIEW(CK_F32, 1000, 3, shape, stride);
    struct ck_error err;

    (void)state;
    assert_int_equal(check(view, 0, &err), 0);
    assert_int_equal(ck_view_numel(&view), 0);
    assert_int_equal(ck_view_bytes(&view), 0);
    assert_true(ck_view_is_contiguous(&view));
}

static void negative_lengths_and_strides_are_refused(void **state) {
    const int64_t shape[] = {2}, negative[] = {-1}, stride[] = {1};
    struct ck_error err;

    (void)state;
    assert_int_equal(check(VIEW(CK_F32, 1, 1, shape, negative), 100, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(check(VIEW(CK_F32, 1, 1, negative, stride), 100, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
}

/* pytorch PR 181310: 0x4000000000000001 elements of 4 bytes wrap to 4. */
static void sizes_that_wrap_in_64_bits_are_refused(void **state) {
    const int64_t wraps[] = {0x4000000000000001}, one[] = {1}, none[] = {0};
    const int64_t product[] = {1ll << 32, 1ll << 32}, zeros[] = {0, 0};
    const int64_t two[] = {3}, far[] = {INT64_MAX};
    struct ck_error err;

    (void)state;
    assert_int_equal(check(VIEW(CK_F32, 0, 1, wraps, one), 4, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(check(VIEW(CK_F32, 0, 1, wraps, none), 4, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(check(VIEW(CK_U8, 0, 2, product, zeros), 4, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(check(VIEW(CK_U8, 0, 1, two, far), 4, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(check(VIEW(CK_U8, UINT64_MAX, 0, NULL, NULL), UINT64_MAX, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(check(VIEW(CK_U8, (uint64_t)INT64_MAX, 0, NULL, NULL), UINT64_MAX, &err),
                     CK_E_TENSOR_OUT_OF_BOUNDS);
}

static void sixty_four_dimensions_are_accepted_and_one_more_is_not(void **state) {
    int64_t shape[CK_RANK_MAX + 1], stride[CK_RANK_MAX + 1];
    struct ck_error err;

    (void)state;
    for (size_t i = 0; i <= CK_RANK_MAX; i++)
        shape[i] = stride[i] = 1;
    assert_int_equal(check(VIEW(CK_U8, 0, CK_RANK_MAX, shape, stride), 1, &err), 0);
    assert_int_equal(check(VIEW(CK_U8, 0, CK_RANK_MAX + 1, shape, stride), 1, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
}

static void expanded_view_reads_one_element(void **state) {
    const int64_t shape[] = {1000, 1000}, stride[] = {0, 0};
    struct ck_view view = VIEW(CK_F32, 0, 2, shape, stride);
    struct ck_error err;

    (void)state;
    assert_int_equal(check(view, 4, &err), 0);
    assert_int_equal(ck_view_bytes(&view), 4000000);
    assert_false(ck_view_is_contiguous(&view));
}

static void packed_elements_share_bytes(void **state) {
    const int64_t shape[] = {4, 6}, stride[] = {6, 1}, odd[] = {7}, one[] = {1};
    struct ck_view view = VIEW(CK_QU4X2, 0, 1, odd, one);
    struct ck_error err;

    (void)state;
    assert_int_equal(check(VIEW(CK_QU4X2, 0, 2, shape, stride), 12, &err), 0);
    assert_int_equal(check(VIEW(CK_QU4X2, 0, 2, shape, stride), 11, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(check(view, 4, &err), 0);
    assert_int_equal(check(view, 3, &err), CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(ck_view_bytes(&view), 4);
}

static void contiguity_ignores_dimensions_of_length_one(void **state) {
    const int64_t shape[] = {8, 1, 3}, odd[] = {3, 77, 1}, permuted[] = {1, 8, 8};
    struct ck_view a = VIEW(CK_F32, 0, 3, shape, odd), b = VIEW(CK_F32, 0, 3, shape, permuted);
    struct ck_view scalar = VIEW(CK_F32, 5, 0, NULL, NULL);

    (void)state;
    assert_true(ck_view_is_contiguous(&a));
    assert_false(ck_view_is_contiguous(&b));
    assert_true(ck_view_is_contiguous(&scalar));
}

static void equality_compares_everything_but_idle_strides(void **state) {
    const int64_t shape[] = {8, 1}, other[] = {8, 2}, a[] = {1, 1}, b[] = {1, 9}, c[] = {2, 1};
    struct ck_view view = VIEW(CK_F32, 0, 2, shape, a);

    (void)state;
    assert_true(ck_view_equal(&view, &VIEW(CK_F32, 0, 2, shape, b)));
    assert_false(ck_view_equal(&view, &VIEW(CK_F32, 0, 2, shape, c)));
    assert_false(ck_view_equal(&view, &VIEW(CK_F32, 1, 2, shape, a)));
    assert_false(ck_view_equal(&view, &VIEW(CK_I32, 0, 2, shape, a)));
    assert_false(ck_view_equal(&view, &VIEW(CK_F32, 0, 1, shape, a)));
    assert_false(ck_view_equal(&view, &VIEW(CK_F32, 0, 2, other, a)));
}

static void every_dtype_is_found_by_each_of_its_names(void **state) {
    enum ck_dtype found;

    (void)state;
    for (unsigned i = 0; i < CK_DTYPE_END_; i++) {
        const struct ck_dtype_row *row = ck_dtype_row((enum ck_dtype)i);

        assert_true(ck_dtype_from_torch(row->torch, &found));
        assert_int_equal(found, i);
        if (row->storage_class) {
            assert_true(ck_dtype_from_storage_class(row->storage_class, &found));
            assert_int_equal(found, i);
        }
        if (row->safetensors) {
            assert_true(ck_dtype_from_safetensors(row->safetensors, &found));
            assert_int_equal(found, i);
        }
        assert_int_equal(row->size % row->unit, 0);
    }
    assert_false(ck_dtype_from_torch("float4_e2m1fn_x2", &found));
    assert_false(ck_dtype_from_storage_class("UntypedStorage", &found));
    assert_false(ck_dtype_from_safetensors("f32", &found));
    assert_string_equal(ck_dtype_row(CK_DTYPE_END_)->torch, "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(view_that_ends_with_its_storage_is_accepted),
        cmocka_unit_test(strided_view_one_past_the_storage_is_refused),
        cmocka_unit_test(scalar_needs_one_element),
        cmocka_unit_test(empty_view_needs_no_storage),
        cmocka_unit_test(negative_lengths_and_strides_are_refused),
        cmocka_unit_test(sizes_that_wrap_in_64_bits_are_refused),
        cmocka_unit_test(sixty_four_dimensions_are_accepted_and_one_more_is_not),
        cmocka_unit_test(expanded_view_reads_one_element),
        cmocka_unit_test(packed_elements_share_bytes),
        cmocka_unit_test(contiguity_ignores_dimensions_of_length_one),
        cmocka_unit_test(equality_compares_everything_but_idle_strides),
        cmocka_unit_test(every_dtype_is_found_by_each_of_its_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
