/* Plain pickles on arbitrary bytes: streams of several, numpy's arrays, joblib's raw ones, torch streams inside byte
 * strings. What opens must keep its promises. */
#include <sys/mman.h>
#include <unistd.h>

#include "core/model/plain_pickle.h"
#include "tests/fuzz/check_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_plain(const struct ck_source *source, struct ck_scratch *scratch, const char *state_dict) {
    struct ck_model_options options = {.state_dict = state_dict, .scratch = scratch};
    struct ck_limits limits = ck_limits_default;
    struct ck_model *model = NULL;
    struct ck_error err = {0};
    int r;

    limits.pickle_opcodes = 200000;
    limits.tensors = 20000;
    limits.model_memory = 16 * CK_MIB;
    limits.pickles = 100;
    check(ck_model_new(source->length, &limits, &model, NULL) == 0);
    r = ck_plain_pickle_index(model, source, "", &limits, &options, &err);
    model->form = "pickle";
    check(r == err.code && (r == 0 || err.message[0]));
    if (r == 0)
        check_model(model);
    ck_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ck_source source = ck_source_from_memory(data, size);
    static struct ck_scratch scratch;

    if (scratch.limit == 0) {
        scratch = (struct ck_scratch){.fd = memfd_create("scratch", 0), .limit = 16 * CK_MIB};
        check(scratch.fd >= 0);
    }
    scratch.used = 0;
    open_plain(&source, &scratch, NULL);
    open_plain(&source, NULL, ".");
    return 0;
}
