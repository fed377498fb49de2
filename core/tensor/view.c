#include "core/tensor/view.h"

#include <inttypes.h>

/* torch counts elements and bytes in int64. */
static bool fits(uint64_t value) {
    return value <= INT64_MAX;
}

static bool is_empty(const struct ck_view *view) {
    for (uint32_t i = 0; i < view->rank; i++)
        if (view->shape[i] == 0)
            return true;
    return false;
}

static int check_signs(const struct ck_view *view, const char *tensor, struct ck_error *err) {
    if (view->rank > CK_RANK_MAX)
        return ck_error_set(err, CK_E_TENSOR_OUT_OF_BOUNDS, tensor, "it has %u dimensions, more than %u", view->rank,
                            (unsigned)CK_RANK_MAX);
    for (uint32_t i = 0; i < view->rank; i++) {
        if (view->shape[i] < 0)
            return ck_error_set(err, CK_E_TENSOR_OUT_OF_BOUNDS, tensor, "its dimension %u has the length %" PRId64, i,
                                view->shape[i]);
        if (view->stride[i] < 0)
            return ck_error_set(err, CK_E_TENSOR_OUT_OF_BOUNDS, tensor, "its dimension %u has the stride %" PRId64, i,
                                view->stride[i]);
    }
    return 0;
}

/* Elements, and bytes when laid out densely. */
static bool dense_fits(const struct ck_view *view, const struct ck_dtype_row *row) {
    uint64_t n = 1;

    for (uint32_t i = 0; i < view->rank; i++)
        if (!ck_mul_u64(n, (uint64_t)view->shape[i], &n) || !fits(n))
            return false;
    return ck_mul_u64(n, row->size, &n) && fits(n);
}

/* One more than the highest byte that an element of the view, which is not empty, lies in. */
static bool extent_bytes(const struct ck_view *view, const struct ck_dtype_row *row, uint64_t *ret_bytes) {
    uint64_t elements, bytes, step;

    if (!fits(view->offset))
        return false;
    elements = view->offset + 1;
    for (uint32_t i = 0; i < view->rank; i++)
        if (!ck_mul_u64((uint64_t)view->shape[i] - 1, (uint64_t)view->stride[i], &step) ||
            !ck_add_u64(elements, step, &elements) || !fits(elements))
            return false;
    elements = elements / row->per + (elements % row->per != 0);
    if (!ck_mul_u64(elements, row->size, &bytes) || !fits(bytes))
        return false;
    *ret_bytes = bytes;
    return true;
}

int ck_view_check(const struct ck_view *view, uint64_t storage_bytes, const char *tensor, struct ck_error *err) {
    const struct ck_dtype_row *row = ck_dtype_row(view->dtype);
    uint64_t need;
    int r;

    r = check_signs(view, tensor, err);
    if (r < 0)
        return r;
    if (is_empty(view))
        return 0;
    if (!dense_fits(view, row) || !extent_bytes(view, row, &need))
        return ck_error_set(err, CK_E_TENSOR_OUT_OF_BOUNDS, tensor, "its size does not fit 63 bits");
    if (need > storage_bytes)
        return ck_error_set(err, CK_E_TENSOR_OUT_OF_BOUNDS, tensor,
                            "it needs %" PRIu64 " bytes of its storage, which has %" PRIu64, need, storage_bytes);
    return 0;
}

uint64_t ck_view_numel(const struct ck_view *view) {
    uint64_t n = 1;

    /* Other dimensions of an empty view may be so large that a product without this test would wrap. */
    if (is_empty(view))
        return 0;
    for (uint32_t i = 0; i < view->rank; i++)
        n *= (uint64_t)view->shape[i];
    return n;
}

uint64_t ck_view_bytes(const struct ck_view *view) {
    const struct ck_dtype_row *row = ck_dtype_row(view->dtype);
    uint64_t n = ck_view_numel(view);

    return (n / row->per + (n % row->per != 0)) * row->size;
}

bool ck_view_is_contiguous(const struct ck_view *view) {
    uint64_t expected = 1;

    if (is_empty(view))
        return true;
    for (uint32_t i = view->rank; i-- > 0;) {
        if (view->shape[i] == 1)
            continue;
        if ((uint64_t)view->stride[i] != expected)
            return false;
        expected *= (uint64_t)view->shape[i];
    }
    return true;
}

bool ck_view_equal(const struct ck_view *a, const struct ck_view *b) {
    if (a->dtype != b->dtype || a->offset != b->offset || a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i] || (a->shape[i] != 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}
