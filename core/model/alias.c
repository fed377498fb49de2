#include "core/model/assemble.h"
#include "core/model/quantizer.h"

/* Any fixed order in which equal views of one storage are neighbours, and the earlier tensor comes first. Sorting needs
 * no hash, so no file can be made that collides. */
static int compare(const void *left, const void *right, void *ctx) {
    const struct ck_tensor *tensors = ctx;
    uint32_t i = *(const uint32_t *)left, k = *(const uint32_t *)right;
    const struct ck_tensor *a = &tensors[i], *b = &tensors[k];

    if (a->storage != b->storage)
        return a->storage < b->storage ? -1 : 1;
    if (a->view.offset != b->view.offset)
        return a->view.offset < b->view.offset ? -1 : 1;
    if (a->view.dtype != b->view.dtype)
        return a->view.dtype < b->view.dtype ? -1 : 1;
    if (a->view.rank != b->view.rank)
        return a->view.rank < b->view.rank ? -1 : 1;
    if (a->conj != b->conj)
        return a->conj ? 1 : -1;
    if (a->neg != b->neg)
        return a->neg ? 1 : -1;
    for (uint32_t d = 0; d < a->view.rank; d++) {
        if (a->view.shape[d] != b->view.shape[d])
            return a->view.shape[d] < b->view.shape[d] ? -1 : 1;
        if (a->view.shape[d] != 1 && a->view.stride[d] != b->view.stride[d])
            return a->view.stride[d] < b->view.stride[d] ? -1 : 1;
    }
    return i < k ? -1 : i > k;
}

static bool is_same(const struct ck_tensor *a, const struct ck_tensor *b) {
    return a->storage == b->storage && ck_view_equal(&a->view, &b->view) && a->conj == b->conj && a->neg == b->neg &&
           ck_quantizer_equal(a->quantizer, b->quantizer);
}

static bool can_be_shared(const struct ck_tensor *tensor) {
    return tensor->error == 0 && tensor->storage != CK_NO_INDEX && ck_view_numel(&tensor->view) > 0;
}

int ck_find_aliases(struct ck_model *model, struct ck_error *err) {
    _cleanup_(ck_freep) uint32_t *order = malloc(((size_t)model->n_tensors + 1) * sizeof(*order));
    uint32_t n = 0, first = 0;

    if (!order)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the model");
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        model->tensors[i].alias_of = CK_NO_INDEX;
        if (can_be_shared(&model->tensors[i]))
            order[n++] = i;
    }
    qsort_r(order, n, sizeof(*order), compare, model->tensors);
    for (uint32_t i = 1; i < n; i++) {
        struct ck_tensor *tensor = &model->tensors[order[i]], *head = &model->tensors[order[first]];

        if (is_same(tensor, head))
            tensor->alias_of = order[first];
        else
            first = i;
    }
    return 0;
}
