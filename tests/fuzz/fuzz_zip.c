/* The zip reader on arbitrary bytes: what opens must keep its promises; every entry is found by its name and read. */
#include "core/container/sniff.h"
#include "core/container/zip.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds)
        __builtin_trap();
}

static void read_entry(const struct ck_zip *zip, const struct ck_zip_entry *entry) {
    struct ck_source bytes = {0};
    struct ck_error err = {0};
    void *memory = NULL;
    volatile uint8_t last = 0;
    int r;

    check(ck_zip_find(zip, entry->name) == entry);
    check(entry->offset <= zip->source.length && entry->packed <= zip->source.length - entry->offset);
    check(!entry->stored || entry->packed == entry->size);
    r = ck_zip_read(zip, entry, 1 << 20, &bytes, &memory, &err);
    check(r == err.code && (r < 0 || bytes.length == entry->size) && (r == 0 || !memory));
    if (r == 0 && bytes.length > 0)
        last = bytes.memory[bytes.length - 1];
    (void)last;
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ck_limits limits = ck_limits_default;
    struct ck_source source = ck_source_from_memory(data, size);
    struct ck_findings findings;
    struct ck_zip zip = {0};
    struct ck_error err = {0};
    enum ck_form form;
    int r;

    form = ck_sniff(data, size, size, &err);
    check((form == CK_FORM_OTHER) == (err.code < 0));
    err = (struct ck_error){0};
    limits.model_memory = 4 * CK_MIB;
    ck_findings_init(&findings);
    r = ck_zip_open(&source, &limits, &findings, &zip, &err);
    check(r == err.code && (r < 0) == (zip.count == 0) && (r == 0 || (!zip.entries && err.message[0])));
    /* Reading a deflated entry opens libzip again, so the reads of all would cost the square of their number. */
    for (uint32_t i = 0; i < zip.count && i < 50; i++)
        read_entry(&zip, &zip.entries[i]);
    ck_zip_release(&zip);
    ck_findings_release(&findings);
    return 0;
}
