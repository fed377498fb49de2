/* .npy files on arbitrary bytes: the header, and the array or the pickle behind it. What opens must keep its promises.
 */
#include "core/container/npy.h"
#include "core/model/npz.h"
#include "tests/fuzz/check_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_header(const struct ck_source *source) {
    struct ck_error err = {0};
    struct ck_npy npy;
    int r = ck_npy_open(source, "x.npy", &npy, &err);

    check(r == err.code && (r == 0 || err.message[0]));
    if (r < 0)
        return;
    check(ck_npy_recognise(source) && npy.offset <= source->length && npy.rank <= CK_RANK_MAX);
    for (uint32_t i = 0; i < npy.rank; i++)
        check(npy.shape[i] >= 0);
    check(npy.type.dtype == CK_DTYPE_END_ || npy.type.size == ck_dtype_row(npy.type.dtype)->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ck_source source = ck_source_from_memory(data, size);
    struct ck_limits limits = ck_limits_default;
    struct ck_model *model = NULL;
    struct ck_error err = {0};
    int r;

    check_header(&source);
    limits.pickle_opcodes = 200000;
    limits.model_memory = 16 * CK_MIB;
    check(ck_model_new(size, &limits, &model, NULL) == 0);
    r = ck_npy_index(model, &source, &limits, NULL, &err);
    model->form = "npy";
    check(r == err.code && (r == 0 || err.message[0]));
    if (r == 0)
        check_model(model);
    ck_model_free(model);
    return 0;
}
