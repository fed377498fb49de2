/* The whole reading path on arbitrary bytes: sniff, container, pickle, tensors, choice. What opens must keep its
 * promises.
 *
 * The first byte says what the rest is: 'F' a whole file; anything else (0x80 as a rule) begins a pickle, which is put
 * into a torch zip with two records of 64 bytes. */
#include <stdio.h>

#include "tests/unit/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds)
        __builtin_trap();
}

static void check_tensor(const struct ck_model *model, const struct ck_tensor *tensor) {
    const struct ck_storage *storage = tensor->storage != CK_NO_INDEX ? &model->storages[tensor->storage] : NULL;
    volatile uint8_t byte = 0;
    uint8_t first;

    check(tensor->path && tensor->view.shape && tensor->view.stride && tensor->view.rank <= CK_RANK_MAX);
    check(tensor->storage == CK_NO_INDEX || tensor->storage < model->n_storages);
    check(tensor->module == CK_NO_INDEX || tensor->module < model->n_modules);
    check((tensor->error != 0) == (tensor->error_message != NULL));
    if (tensor->error != 0)
        return;
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

static void check_model(const struct ck_model *model) {
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

static void open_and_check(const struct ck_source *source, const char *state_dict) {
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t record[64] = {1, 2, 3};
    struct ck_source source;
    struct torch_file f;

    if (size > 0 && data[0] == 'F') {
        source = ck_source_from_memory(data + 1, size - 1);
        open_and_check(&source, NULL);
        return 0;
    }
    tf_init(&f);
    f.pickle.length = 0;
    tf_raw(&f, data, size);
    tf_record(&f, "0", record, sizeof(record));
    tf_record(&f, "1", record, sizeof(record));
    source = tf_finish(&f);
    open_and_check(&source, NULL);
    open_and_check(&source, ".");
    tf_release(&f);
    return 0;
}
