/* The legacy stream of torch.save on arbitrary bytes: what follows the fixed first three pickles, that is the object,
 * the keys and the blocks. */
#include <stdio.h>

#include "tests/fuzz/check_model.h"
#include "tests/unit/legacy_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct legacy_file f;
    struct ck_source source;

    lf_init(&f);
    lf_append(&f, f.magic, f.magic_length);
    lf_append(&f, f.protocol, f.protocol_length);
    lf_append(&f, f.sys_info, f.sys_info_length);
    lf_append(&f, data, size);
    source = ck_source_from_memory(f.stream.data, f.stream.length);
    open_and_check(&source, NULL);
    open_and_check(&source, ".");
    lf_release(&f);
    return 0;
}
