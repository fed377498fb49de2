/* The zip that holds a result: read back with libzip, and its ZIP64 fields at the limits and one past. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include "core/output/zip_layout.h"

static int memory_file(const void *bytes, size_t n, uint64_t length) {
    int fd = memfd_create("test", 0);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    return fd;
}

static struct ck_zip_file text_file(const char *name, const char *text) {
    return (struct ck_zip_file){
        .name = name,
        .fd = memory_file(text, strlen(text), strlen(text)),
        .bytes = strlen(text),
        .crc32 = (uint32_t)crc32_z(0, (const unsigned char *)text, strlen(text)),
    };
}

static struct ck_zip_layout make(const struct ck_zip_file *files, size_t n) {
    struct ck_zip_layout layout = {0};
    struct ck_error err = {0};

    assert_int_equal(ck_zip_layout_make(files, n, &layout, &err), 0);
    return layout;
}

/* The whole zip, read in parts of `step` bytes. */
static char *read_all(const struct ck_zip_layout *layout, size_t step) {
    char *bytes = malloc(layout->length + step);
    struct ck_error err = {0};
    uint64_t at = 0;
    ssize_t got;

    assert_non_null(bytes);
    while ((got = ck_zip_layout_read(layout, at, bytes + at, step, &err)) > 0)
        at += (uint64_t)got;
    assert_int_equal(got, 0);
    assert_int_equal(at, layout->length);
    return bytes;
}

static void libzip_reads_names_bytes_and_checksums_back(_unused_ void **state) {
    struct ck_zip_file files[] = {text_file("m\xC3\xBCll.mlx/model.safetensors", "weights, as it were"),
                                  text_file("m\xC3\xBCll.mlx/empty", ""),
                                  text_file("m\xC3\xBCll.mlx/report.json", "{}")};
    struct ck_zip_layout layout = make(files, 3);
    char *bytes = read_all(&layout, 7), content[64];
    zip_error_t error;
    zip_source_t *source = zip_source_buffer_create(bytes, layout.length, 0, &error);
    zip_t *zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);

    assert_non_null(zip);
    assert_int_equal(zip_get_num_entries(zip, 0), 3);
    for (zip_uint64_t i = 0; i < 3; i++) {
        zip_stat_t stat;
        zip_file_t *file;
        zip_uint8_t system;
        zip_uint32_t attributes;

        assert_int_equal(zip_stat_index(zip, i, 0, &stat), 0);
        assert_string_equal(stat.name, files[i].name);
        assert_int_equal(stat.size, files[i].bytes);
        assert_int_equal(stat.crc, files[i].crc32);
        assert_int_equal(stat.comp_method, ZIP_CM_STORE);
        zip_file_get_external_attributes(zip, i, 0, &system, &attributes);
        assert_int_equal(system, ZIP_OPSYS_UNIX);
        assert_int_equal(attributes >> 16, 0100644);
        file = zip_fopen_index(zip, i, 0);
        assert_non_null(file);
        assert_int_equal(zip_fread(file, content, sizeof(content)), files[i].bytes);
        assert_int_equal(zip_fclose(file), 0); /* compares the checksum */
    }
    zip_discard(zip);
    free(bytes);
    ck_zip_layout_release(&layout);
    for (int i = 0; i < 3; i++)
        close(files[i].fd);
}

static void every_position_and_length_reads_the_same_bytes(_unused_ void **state) {
    struct ck_zip_file files[] = {text_file("a/x", "0123456789"), text_file("a/y", "abc")};
    struct ck_zip_layout layout = make(files, 2);
    char *bytes = read_all(&layout, 1 << 20), part[512];
    struct ck_error err = {0};

    for (uint64_t at = 0; at <= layout.length + 1; at++)
        for (size_t n = 0; n < 300; n += 13) {
            uint64_t rest = at < layout.length ? layout.length - at : 0;
            ssize_t got = ck_zip_layout_read(&layout, at, part, n, &err);

            assert_int_equal(got, CK_MIN((uint64_t)n, rest));
            if (got > 0)
                assert_memory_equal(part, bytes + at, (size_t)got);
        }
    free(bytes);
    ck_zip_layout_release(&layout);
    close(files[0].fd);
    close(files[1].fd);
}

static void bytes_depend_on_names_and_contents_alone(_unused_ void **state) {
    struct ck_zip_file once[] = {text_file("r/a", "same")}, again[] = {text_file("r/a", "same")};
    struct ck_zip_layout a = make(once, 1), b = make(again, 1);
    char *x = read_all(&a, 100), *y = read_all(&b, 100);

    assert_int_equal(a.length, b.length);
    assert_memory_equal(x, y, a.length);
    /* Local header: version 2.0, UTF-8 flag, stored, 1980-01-01 00:00, no extra field. */
    assert_memory_equal(x, "PK\3\4\x14\0\0\x08\0\0\0\0\x21\0", 14);
    assert_int_equal(x[28], 0);
    assert_int_equal(a.length, 30 + 3 + 4 + 46 + 3 + 22);
    free(x);
    free(y);
    ck_zip_layout_release(&a);
    ck_zip_layout_release(&b);
    close(once[0].fd);
    close(again[0].fd);
}

/* A sparse file of `bytes` and a small one behind it: the zip's length, and what libzip makes of it. */
static uint64_t length_with(uint64_t bytes) {
    struct ck_zip_file files[] = {{.name = "big", .fd = memory_file("", 0, bytes), .bytes = bytes, .crc32 = 0x12345678},
                                  text_file("small", "behind")};
    struct ck_zip_layout layout = make(files, 2);
    uint64_t length = layout.length;
    char content[16];
    char path[] = "/tmp/ckptd-test-zip-XXXXXX";
    int fd = mkstemp(path);
    struct ck_error err = {0};
    zip_stat_t stat;
    zip_file_t *file;
    zip_t *zip;

    assert_true(fd >= 0);
    /* A sparse copy: headers are written, the big file's zeros are a hole. */
    for (size_t i = 0; i < layout.count; i++) {
        const struct ck_zip_segment *segment = &layout.segments[i];
        char part[4096];

        if (!segment->bytes && segment->length > sizeof(part))
            continue;
        assert_int_equal(ck_zip_layout_read(&layout, segment->start, part, segment->length, &err), segment->length);
        assert_int_equal(pwrite(fd, part, segment->length, (off_t)segment->start), segment->length);
    }
    zip = zip_open(path, ZIP_RDONLY | ZIP_CHECKCONS, NULL);
    assert_non_null(zip);
    assert_int_equal(zip_stat_index(zip, 0, 0, &stat), 0);
    assert_int_equal(stat.size, bytes);
    assert_int_equal(stat.crc, 0x12345678);
    file = zip_fopen(zip, "small", 0);
    assert_non_null(file);
    assert_int_equal(zip_fread(file, content, sizeof(content)), 6);
    assert_memory_equal(content, "behind", 6);
    zip_fclose(file);
    zip_discard(zip);
    unlink(path);
    close(fd);
    /* Across the border between the big file and what follows. */
    assert_int_equal(ck_zip_layout_read(&layout, 30 + 3 + bytes - 2, content, 8, &err), 8);
    assert_memory_equal(content, "\0\0", 2);
    ck_zip_layout_release(&layout);
    close(files[0].fd);
    close(files[1].fd);
    return length;
}

static void zip64_is_used_only_where_a_size_or_offset_needs_it(_unused_ void **state) {
    const uint64_t plain = 30 + 3 + 30 + 5 + 6 + 46 + 3 + 46 + 5 + 22;
    uint64_t last_far = 0xFFFFFFFEull - 33, large = 0xFFFFFFFFull;

    /* All 32-bit: even the directory begins below the limit. */
    assert_int_equal(length_with(1000), plain + 1000);
    /* The second entry begins at 0xFFFFFFFE, which still fits; the directory behind it does not: end record only. */
    assert_int_equal(length_with(last_far), plain + last_far + 76);
    /* One byte more, and the offset needs its field too. */
    assert_int_equal(length_with(last_far + 1), plain + last_far + 1 + 76 + 12);
    /* The largest 32-bit size, and the first that is none. */
    assert_int_equal(length_with(large - 1), plain + large - 1 + 76 + 12);
    assert_int_equal(length_with(large), plain + large + 76 + 12 + 20 + 20);
    assert_int_equal(length_with(large + 5), plain + large + 5 + 76 + 12 + 20 + 20);
}

static void sixty_five_thousand_five_hundred_and_thirty_five_entries_need_zip64(_unused_ void **state) {
    enum { LIMIT = 65535 };
    struct ck_zip_file *files = calloc(LIMIT, sizeof(*files));
    char(*names)[16] = calloc(LIMIT, sizeof(*names));
    uint64_t each = 30 + 5 + 46 + 5;

    assert_non_null(files);
    assert_non_null(names);
    for (int i = 0; i < LIMIT; i++) {
        snprintf(names[i], sizeof(names[i]), "%05d", i);
        files[i] = (struct ck_zip_file){.name = names[i], .fd = -1};
    }
    for (size_t n = LIMIT - 1; n <= LIMIT; n++) {
        struct ck_zip_layout layout = make(files, n);
        char *bytes = read_all(&layout, 1 << 20);
        zip_source_t *source = zip_source_buffer_create(bytes, layout.length, 0, NULL);
        zip_t *zip = zip_open_from_source(source, ZIP_RDONLY, NULL);

        assert_int_equal(layout.length, n * each + 22 + (n == LIMIT ? 76 : 0));
        assert_non_null(zip);
        assert_int_equal(zip_get_num_entries(zip, 0), n);
        zip_discard(zip);
        free(bytes);
        ck_zip_layout_release(&layout);
    }
    free(names);
    free(files);
}

static void zip_without_files_is_an_end_record(_unused_ void **state) {
    struct ck_zip_layout layout = make(NULL, 0);
    char *bytes = read_all(&layout, 5);

    assert_int_equal(layout.length, 22);
    assert_memory_equal(bytes, "PK\5\6", 4);
    free(bytes);
    ck_zip_layout_release(&layout);
}

static void name_of_65535_bytes_fits_and_one_more_does_not(_unused_ void **state) {
    char *name = malloc(65537);
    struct ck_zip_file file = {.name = name, .fd = -1};
    struct ck_zip_layout layout = {0};
    struct ck_error err = {0};

    assert_non_null(name);
    memset(name, 'n', 65536);
    name[65535] = 0;
    assert_int_equal(ck_zip_layout_make(&file, 1, &layout, &err), 0);
    ck_zip_layout_release(&layout);
    name[65535] = 'n';
    name[65536] = 0;
    assert_int_equal(ck_zip_layout_make(&file, 1, &layout, &err), CK_E_INTERNAL);
    assert_null(layout.segments);
    free(name);
}

static void file_that_became_shorter_is_an_error_not_an_endless_read(_unused_ void **state) {
    struct ck_zip_file files[] = {text_file("x", "0123456789")};
    struct ck_zip_layout layout = make(files, 1);
    struct ck_error err = {0};
    char part[100];

    assert_int_equal(ftruncate(files[0].fd, 4), 0);
    assert_int_equal(ck_zip_layout_read(&layout, 0, part, sizeof(part), &err), CK_E_IO);
    ck_zip_layout_release(&layout);
    close(files[0].fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libzip_reads_names_bytes_and_checksums_back),
        cmocka_unit_test(every_position_and_length_reads_the_same_bytes),
        cmocka_unit_test(bytes_depend_on_names_and_contents_alone),
        cmocka_unit_test(zip64_is_used_only_where_a_size_or_offset_needs_it),
        cmocka_unit_test(sixty_five_thousand_five_hundred_and_thirty_five_entries_need_zip64),
        cmocka_unit_test(zip_without_files_is_an_end_record),
        cmocka_unit_test(name_of_65535_bytes_fits_and_one_more_does_not),
        cmocka_unit_test(file_that_became_shorter_is_an_error_not_an_endless_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
