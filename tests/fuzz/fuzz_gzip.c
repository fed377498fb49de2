/* Archives of files on arbitrary bytes, with a scratch file. The first byte says what the rest is: 'R' a gzip file, 'C'
 * what a gzip file unpacks to, 'M' a line of text for the option member and then an archive; anything else begins an
 * archive. */
#include <string.h>
#include <sys/mman.h>

#include "core/container/gzip.h"
#include "tests/fuzz/check_model.h"
#include "tests/unit/gzip_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int scratch_fd = -1;

static struct ck_scratch scratch(void) {
    if (scratch_fd < 0)
        scratch_fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(scratch_fd >= 0 && ftruncate(scratch_fd, 0) == 0);
    return (struct ck_scratch){.fd = scratch_fd, .limit = CK_MIB};
}

static void unpack(const struct ck_source *source) {
    struct ck_scratch file = scratch();
    struct ck_findings findings;
    struct ck_error err = {0};
    struct ck_source bytes;
    int r;

    ck_findings_init(&findings);
    r = ck_gzip_unpack(source, &ck_limits_default, &findings, &file, &bytes, &err);
    check(r == err.code && (r == 0 ? bytes.length == file.used : file.used == 0 && err.message[0]));
    ck_findings_release(&findings);
}

static void open_archive(const struct ck_source *source, const char *member) {
    struct ck_scratch file = scratch();
    struct ck_model_options options = {.member = member, .scratch = &file};
    struct ck_limits limits = ck_limits_default;
    struct ck_model *model = NULL;
    struct ck_error err = {0};
    int r;

    limits.pickle_opcodes = 200000;
    limits.tensors = 20000;
    limits.model_memory = 16 * CK_MIB;
    r = ck_model_open(source, &limits, &options, &model, &err);
    check(r == err.code && (r == 0 || err.message[0]) && file.used <= file.limit);
    if (r == 0) {
        check_model(model);
        check(model->input_bytes == source->length && (!member || !*member || model->member));
        for (uint32_t i = 0; i < model->n_members; i++)
            check(model->members[i].name && model->archive);
    }
    ck_model_free(model);
}

static void open_compressed(const uint8_t *data, size_t size) {
    struct ck_buffer gzip;
    struct ck_source source;

    ck_buffer_init(&gzip, SIZE_MAX);
    gzip_add(&gzip, data, size);
    source = ck_source_from_memory(gzip.data, gzip.length);
    open_archive(&source, NULL);
    ck_buffer_release(&gzip);
}

static void open_member(const uint8_t *data, size_t size) {
    const uint8_t *end = memchr(data, '\n', size);
    struct ck_source source;
    char member[256];
    size_t n = end ? (size_t)(end - data) : 0;

    if (!end || n >= sizeof(member))
        return;
    memcpy(member, data, n);
    member[n] = 0;
    source = ck_source_from_memory(end + 1, size - n - 1);
    open_archive(&source, member);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ck_source source = ck_source_from_memory(data, size);

    if (size > 0 && data[0] == 'M') {
        open_member(data + 1, size - 1);
    } else if (size > 0 && data[0] == 'C') {
        open_compressed(data + 1, size - 1);
    } else if (size > 0 && data[0] == 'R') {
        source = ck_source_from_memory(data + 1, size - 1);
        unpack(&source);
        open_archive(&source, NULL);
    } else {
        open_archive(&source, NULL);
    }
    return 0;
}
