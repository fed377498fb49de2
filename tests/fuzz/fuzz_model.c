/* The whole reading path on arbitrary bytes: sniff, container, pickle, tensors, choice. What opens must keep its
 * promises.
 *
 * The first byte says what the rest is: 'F' a whole file; anything else (0x80 as a rule) begins a pickle, which is put
 * into a torch zip with two records of 64 bytes. */
#include <stdio.h>

#include "tests/fuzz/check_model.h"
#include "tests/unit/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
