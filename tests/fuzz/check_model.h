/* What every model that opens must keep, whatever bytes it came from. For the fuzz targets. */
#ifndef CHECK_MODEL_H
#define CHECK_MODEL_H

#include "core/model/model.h"
#include "core/tensor/bytes.h"

static inline void check(bool holds) {
    if (!holds)
        __builtin_trap();
}

static inline void check_channels(const struct ck_model *model, const struct ck_view *values, uint32_t storage,
                                  int64_t channels) {
    check(storage < model->n_storages && values->rank == 1 && values->shape[0] == channels &&
          ck_view_is_contiguous(values));
    check(ck_view_check(values, model->storages[storage].source.length, NULL, NULL) == 0);
}

static inline void check_quantizer(const struct ck_model *model, const struct ck_tensor *tensor) {
    const struct ck_quantizer *q = tensor->quantizer;

    check(ck_dtype_row(tensor->view.dtype)->kind == CK_QUANTIZED && q->scheme != CK_QSCHEME_NONE);
    if (q->scheme == CK_QSCHEME_TENSOR)
        return;
    check(q->axis < tensor->view.rank);
    check_channels(model, &q->scales, q->scales_storage, tensor->view.shape[q->axis]);
    check_channels(model, &q->zero_points, q->zero_points_storage, tensor->view.shape[q->axis]);
}

static inline void check_tensor(const struct ck_model *model, const struct ck_tensor *tensor) {
    const struct ck_storage *storage = tensor->storage != CK_NO_INDEX ? &model->storages[tensor->storage] : NULL;
    volatile uint8_t byte = 0;
    uint8_t first;

    check(tensor->path && tensor->view.shape && tensor->view.stride && tensor->view.rank <= CK_RANK_MAX);
    check(tensor->storage == CK_NO_INDEX || tensor->storage < model->n_storages);
    check(tensor->module == CK_NO_INDEX || tensor->module < model->n_modules);
    check((tensor->error != 0) == (tensor->error_message != NULL));
    if (tensor->error != 0)
        return;
    if (tensor->quantizer)
        check_quantizer(model, tensor);
    check(!tensor->conj || ck_dtype_row(tensor->view.dtype)->kind == CK_COMPLEX);
    check(!tensor->neg || ck_can_negate(tensor->view.dtype));
    check(storage && !storage->deflated && ck_view_check(&tensor->view, storage->source.length, NULL, NULL) == 0);
    if (ck_view_numel(&tensor->view) == 0)
        return;
    check(ck_source_read(&storage->source,
                         tensor->view.offset * ck_dtype_row(tensor->view.dtype)->size /
                             ck_dtype_row(tensor->view.dtype)->per,
                         &first, 1, NULL) == 0);
    byte = first;
    (void)byte;
}

static inline void check_model(const struct ck_model *model) {
    check(model->n_tensors > 0 && model->root_path && model->root_why && model->form);
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const struct ck_tensor *tensor = &model->tensors[i];

        check(tensor->name != NULL);
        check_tensor(model, tensor);
        if (tensor->alias_of != CK_NO_INDEX)
            check(tensor->alias_of < i && model->tensors[tensor->alias_of].storage == tensor->storage &&
                  ck_view_equal(&tensor->view, &model->tensors[tensor->alias_of].view));
    }
    for (uint32_t i = 0; i < model->n_outside; i++)
        check_tensor(model, &model->outside[i]);
    for (uint32_t i = 0; i < model->n_modules; i++)
        check(model->modules[i].path && model->modules[i].class_ &&
              (model->modules[i].parent == CK_NO_INDEX || model->modules[i].parent < i));
}

static inline void open_and_check(const struct ck_source *source, const char *state_dict) {
    struct ck_model_options options = {.state_dict = state_dict};
    struct ck_limits limits = ck_limits_default;
    struct ck_model *model = NULL;
    struct ck_error err = {0};
    int r;

    limits.pickle_opcodes = 200000;
    limits.tensors = 20000;
    limits.model_memory = 16 * CK_MIB;
    r = ck_model_open(source, &limits, &options, &model, &err);
    check(r == err.code && (r == 0 || err.message[0]));
    if (r == 0)
        check_model(model);
    ck_model_free(model);
}

#endif
