#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/container/sniff.h"

/* The head is copied to an exact heap block, so that AddressSanitizer sees a read beyond it. */
static enum ck_form sniff(const void *bytes, size_t n, uint64_t length, struct ck_error *err) {
    _cleanup_(ck_freep) void *copy = calloc(1, n ? n : 1);

    if (n > 0)
        memcpy(copy, bytes, n);
    *err = (struct ck_error){0};
    return ck_sniff(copy, n, length, err);
}

#define HEAD(text) text, sizeof(text) - 1

static void assert_form(const void *bytes, size_t n, enum ck_form form) {
    struct ck_error err;

    assert_string_equal(ck_form_name(sniff(bytes, n, n, &err)), ck_form_name(form));
    assert_int_equal(err.code, 0);
    assert_string_equal(ck_form_name(sniff(bytes, n, 0, &err)), ck_form_name(form));
}

static void assert_refused(const void *bytes, size_t n, int code, const char *words) {
    struct ck_error err;

    assert_int_equal(sniff(bytes, n, n, &err), CK_FORM_OTHER);
    if (err.code != code || !strstr(err.message, words))
        fail_msg("code %d, \"%s\" does not say \"%s\"", err.code, err.message, words);
    assert_true(ck_error_hint(&err)[0] != 0);
}

static void forms_that_are_read_are_told_apart(void **state) {
    (void)state;
    assert_form(HEAD("PK\3\4xxxxxxxx"), CK_FORM_ZIP);
    assert_form(HEAD("\x40\0\0\0\0\0\0\0{\"a\""), CK_FORM_SAFETENSORS);
    assert_form(HEAD("\x80\x02}q\0."), CK_FORM_PICKLE);
    assert_form(HEAD("\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94."), CK_FORM_PICKLE);
    assert_form(HEAD("\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.\x80\x02M\xE9\x03."), CK_FORM_LEGACY);
    assert_form(HEAD("\x80\x03\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19."), CK_FORM_LEGACY);
    assert_form(HEAD("\x80\x04\x95\x0D\0\0\0\0\0\0\0\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19."),
                CK_FORM_LEGACY);
    assert_form(HEAD("\x80\x05\x95\x0D\0\0\0\0\0\0\0\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19."),
                CK_FORM_LEGACY);
    assert_form(HEAD("L119547037146038801333356L\n.I1001\n."), CK_FORM_LEGACY);
    assert_form(HEAD("\x1F\x8B\x08\0"), CK_FORM_GZIP);
    assert_form(HEAD("\x93NUMPY\1\0v\0{'descr'"), CK_FORM_NPY);
}

/* The reader says how many bytes are missing; the sniffer would only call it unknown. */
static void safetensors_header_longer_than_the_file_is_still_safetensors(void **state) {
    (void)state;
    assert_form(HEAD("\0\xE4\x0B\x54\2\0\0\0{\"a\""), CK_FORM_SAFETENSORS);
}

/* A real file had a header of 0x280 bytes, and was called a pickle of protocol 2. */
static void a_header_length_that_begins_like_another_magic_is_still_safetensors(void **state) {
    uint8_t head[] = "\0\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"}}";

    (void)state;
    for (unsigned length = 2; length < 0x10000; length++) {
        head[0] = (uint8_t)length;
        head[1] = (uint8_t)(length >> 8);
        assert_form(head, sizeof(head) - 1, CK_FORM_SAFETENSORS);
    }
}

static void magic_that_is_computed_is_a_plain_pickle(void **state) {
    (void)state;
    assert_form(HEAD("\x80\x02"
                     "c__builtin__\neval\nq\0X\x16\0\0\0"
                     "0x1950A86A20F9469CFC6Cq\1\x85q\2Rq\3."),
                CK_FORM_PICKLE);
}

static void pickles_without_a_magic_are_found(void **state) {
    (void)state;
    assert_form(HEAD("(dp0\nS'a'\np1\nI1\ns."), CK_FORM_PICKLE);
    assert_form(HEAD("(lp0\ncnumpy.core.multiarray\n_reconstruct\np1\n(cnumpy\nndarray\np2\n"), CK_FORM_PICKLE);
    assert_form(HEAD("}q\1(U\1aq\2K\1u."), CK_FORM_PICKLE);
    assert_form(HEAD("]q\0(K\1K\2e."), CK_FORM_PICKLE);
    assert_form(HEAD("cbuiltins\nexec\n(X\4\0\0\0codetR."), CK_FORM_PICKLE);
    assert_form(HEAD("ccopy_reg\n_reconstructor\np0\n(c__main__\nNet\np1\n"), CK_FORM_PICKLE);
    /* One that the end of the head cuts inside a long text. */
    assert_form(HEAD("(dp0\nV0123456789\np1\nX\xFF\xFF\0\0abc"), CK_FORM_PICKLE);
}

static void text_is_not_taken_for_an_old_pickle(void **state) {
    (void)state;
    assert_refused(HEAD("cat\ndog\nelephant and more\n"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("(a note about nothing)\n"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("I like models.\n"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("cat\ndog\nbatman"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("(t) is a tuple"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("abc"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("learning_rate: 0.1\n"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("epoch,loss\n1,0.5\n"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("import torch\n"), CK_E_NOT_A_CHECKPOINT, "text file");
    assert_refused(HEAD("404: Not Found"), CK_E_NOT_A_CHECKPOINT, "text file");
}

static void every_form_that_is_not_read_is_named(void **state) {
    static const struct {
        const char *bytes;
        size_t n;
        int code;
        const char *words;
    } cases[] = {
        {HEAD("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), CK_E_NOT_A_CHECKPOINT, "empty zip"},
        {HEAD("PK\7\10PK\3\4"), CK_E_UNSUPPORTED_FORM, "split"},
        {HEAD("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 1\n"), CK_E_NOT_A_CHECKPOINT,
         "Git LFS pointer"},
        {HEAD("<!DOCTYPE html>\n"), CK_E_NOT_A_CHECKPOINT, "web page"},
        {HEAD("\n  <html lang=en>"), CK_E_NOT_A_CHECKPOINT, "web page"},
        {HEAD("<?xml version=\"1.0\"?><Error>"), CK_E_NOT_A_CHECKPOINT, "web page"},
        {HEAD("GGUF\3\0\0\0"), CK_E_UNSUPPORTED_FORM, "GGUF"},
        {HEAD("lmgg\1\0\0\0"), CK_E_UNSUPPORTED_FORM, "GGML"},
        {HEAD("fmgg\1\0\0\0"), CK_E_UNSUPPORTED_FORM, "GGMF"},
        {HEAD("tjgg\1\0\0\0"), CK_E_UNSUPPORTED_FORM, "GGJT"},
        {HEAD("\x89HDF\r\n\x1A\n\0\0"), CK_E_UNSUPPORTED_FORM, "HDF5"},
        {HEAD("7z\xBC\xAF\x27\x1C\0\4"), CK_E_UNSUPPORTED_FORM, "7-Zip"},
        {HEAD("Rar!\x1A\7\0"), CK_E_UNSUPPORTED_FORM, "RAR"},
        {HEAD("BZh91AY&SY"), CK_E_UNSUPPORTED_FORM, "bzip2"},
        {HEAD("\xFD"
              "7zXZ\0"),
         CK_E_UNSUPPORTED_FORM, "xz"},
        {HEAD("\x28\xB5\x2F\xFD\4"), CK_E_UNSUPPORTED_FORM, "zstd"},
        {HEAD("PYTORCH1\0\0"), CK_E_UNSUPPORTED_FORM, "2018 preview"},
        {HEAD("\x47\x6B\x30\x01\0\0"), CK_E_UNSUPPORTED_FORM, "ncnn"},
        {HEAD("\x18\0\0\0PTMF\0\0"), CK_E_UNSUPPORTED_FORM, "flatbuffer"},
        {HEAD("\x30\0\0\0ET12eh00"), CK_E_UNSUPPORTED_FORM, "ExecuTorch"},
        {HEAD("\x1C\0\0\0TFL3\0\0"), CK_E_UNSUPPORTED_FORM, "TensorFlow Lite"},
        {HEAD("\4\0\0\0\1\0\0\0\3\0\0\0V 1\x0D\0\0\0nn.Sequential"), CK_E_UNSUPPORTED_FORM, "Lua Torch"},
        {HEAD("4\n1\n3\nV 1\n13\nnn.Sequential\n"), CK_E_UNSUPPORTED_FORM, "Lua Torch"},
        {HEAD("\3\0\0\0\1\0\0\0\2\0\0\0"), CK_E_UNSUPPORTED_FORM, "Lua Torch"},
        {HEAD("\x08\x08\x12\x07pytorch\x1A\5"), CK_E_UNSUPPORTED_FORM, "ONNX"},
        {HEAD("\x78\x5E\xED\x9D\x7B\x9C\x1C\x45"), CK_E_UNSUPPORTED_FORM, "zlib"},
        {HEAD("\x78\x01\xED\x9D"), CK_E_UNSUPPORTED_FORM, "zlib"},
        {HEAD("\x78\x9C\xED\x9D"), CK_E_UNSUPPORTED_FORM, "zlib"},
        {HEAD("\x78\xDA\xED\x9D"), CK_E_UNSUPPORTED_FORM, "zlib"},
        {HEAD("\x5D\0\0\x80\0"), CK_E_UNSUPPORTED_FORM, "lzma"},
        {HEAD("{\"metadata\": {\"total_size\": 1}}"), CK_E_NOT_A_CHECKPOINT, "JSON"},
        {HEAD("\xEF\xBB\xBF hello \xC3\xA4\n"), CK_E_NOT_A_CHECKPOINT, "text"},
        {HEAD("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), CK_E_NOT_A_CHECKPOINT, "zero bytes"},
        {HEAD("\x12\x9A\xFE\x3D\x77\x10\x1B\xBD"), CK_E_NOT_A_CHECKPOINT, "no known kind"},
        {HEAD("\x80\x09\x01"), CK_E_NOT_A_CHECKPOINT, "no known kind"},
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++)
        assert_refused(cases[i].bytes, cases[i].n, cases[i].code, cases[i].words);
}

static void tar_is_told_by_its_mark_at_257(void **state) {
    char head[512] = "sys_info";

    (void)state;
    memcpy(head + 257, "ustar", 5);
    assert_form(head, sizeof(head), CK_FORM_TAR);
    assert_form(head, 262, CK_FORM_TAR);
    assert_refused(head, 261, CK_E_NOT_A_CHECKPOINT, "no known kind");
}

static void unknown_bytes_are_shown(void **state) {
    struct ck_error err;

    (void)state;
    sniff(HEAD("\x12"
               "AB\xFE"),
          4, &err);
    assert_non_null(strstr(err.message, "12 41 42 fe \".AB.\""));
    sniff(HEAD("hello world, how are you\n"), 25, &err);
    assert_non_null(strstr(err.message, "\"hello world, how\" ..."));
}

static void helpful_hints_are_the_tables(void **state) {
    struct ck_error err;

    (void)state;
    sniff(HEAD("version https://git-lfs.github.com/spec/v1\n"), 0, &err);
    assert_non_null(strstr(ck_error_hint(&err), "git lfs pull"));
    sniff(HEAD("BZh9"), 0, &err);
    assert_non_null(strstr(ck_error_hint(&err), "bunzip2"));
}

static void empty_file_is_called_empty(void **state) {
    struct ck_error err;

    (void)state;
    assert_int_equal(sniff("", 0, 0, &err), CK_FORM_OTHER);
    assert_int_equal(err.code, CK_E_EMPTY_FILE);
}

/* Every prefix of every head, down to one byte: no read beyond n (AddressSanitizer), always an answer. */
static void short_heads_always_have_an_answer(void **state) {
    static const char *const heads[] = {"PK\3\4",
                                        "\x80\x04\x95",
                                        "\x80\x02\x8A\x0A\x6C",
                                        "(dp0\nS'a",
                                        "X\xFF\xFF",
                                        "U\x10",
                                        "G12",
                                        "\x08\x08\x12\x07pyt",
                                        "<!",
                                        "\xEF\xBB\xBF",
                                        "version https:/",
                                        "c",
                                        "(",
                                        "\xE2\x82"};
    struct ck_error err;

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(heads); i++)
        for (size_t n = 1; n <= strlen(heads[i]); n++)
            if (sniff(heads[i], n, 0, &err) == CK_FORM_OTHER)
                assert_true(err.code < 0 && err.message[0]);
}

static void only_the_first_4096_bytes_count(void **state) {
    _cleanup_(ck_freep) char *text = malloc(CK_SNIFF_BYTES + 1);
    struct ck_error err;

    (void)state;
    memset(text, 'a', CK_SNIFF_BYTES);
    text[CK_SNIFF_BYTES] = 0;
    assert_int_equal(sniff(text, CK_SNIFF_BYTES + 1, 1 << 20, &err), CK_FORM_OTHER);
    assert_non_null(strstr(err.message, "text file"));
    text[CK_SNIFF_BYTES - 1] = 0;
    assert_int_equal(sniff(text, CK_SNIFF_BYTES + 1, 1 << 20, &err), CK_FORM_OTHER);
    assert_non_null(strstr(err.message, "no known kind"));
}

/* ------------------------------------------------------------------------------------------ real files */

/* Names that are not of the form that most others are, or of the one their ending suggests. */
static enum ck_form expected_form(const char *name) {
    static const struct {
        const char *name;
        enum ck_form form;
    } known[] = {
        {"burn_broken.pt", CK_FORM_OTHER},
        {"burn_tar_multi_dtype.tar", CK_FORM_TAR},
        {"executorch_kws.pte", CK_FORM_OTHER},
        {"fvae_model.tar.gz", CK_FORM_GZIP},
        {"mtcnn_pnet_object.npy", CK_FORM_NPY},
        {"cgcnn_band_gap.pth.tar", CK_FORM_LEGACY},
        {"gopickle_f32_p1.pt", CK_FORM_LEGACY},
        {"gopickle_bf16_p4.pt", CK_FORM_LEGACY},
        {"tetris_whole_module", CK_FORM_LEGACY},
        {"resnet20-12fca82f.th", CK_FORM_LEGACY},
        {"gomoku_py2_numpy.model", CK_FORM_PICKLE},
        {"picklejl_builtin_type_p0.pkl", CK_FORM_PICKLE},
        {"hostile_broken_model.pkl", CK_FORM_PICKLE},
        {"hostile_magic_bypass.pt", CK_FORM_PICKLE},
        {"walk_parameters.pkl", CK_FORM_PICKLE},
        {"fastestdet.pth", CK_FORM_ZIP},
        {"fault_mobile.ptl", CK_FORM_ZIP},
        {"lora_disney.safetensors", CK_FORM_SAFETENSORS},
        {"cello_mlx_weights.safetensors", CK_FORM_SAFETENSORS},
    };

    for (size_t i = 0; i < CK_ARRAY_LEN(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].form;
    return (enum ck_form) - 1;
}

static void real_files_have_their_forms(void **state) {
    const char *shared = getenv("CKPTD_SHARED");
    char path[512], head[CK_SNIFF_BYTES];
    unsigned checked = 0;
    struct dirent *file;
    DIR *folder;

    (void)state;
    snprintf(path, sizeof(path), "%s/checkpoints/files", shared ? shared : "../shared");
    folder = opendir(path);
    if (!folder) {
        print_message("skipped: no real checkpoints in %s\n", path);
        skip();
    }
    while ((file = readdir(folder))) {
        _cleanup_(ck_closep) int fd = openat(dirfd(folder), file->d_name, O_RDONLY | O_CLOEXEC);
        enum ck_form expected = expected_form(file->d_name);
        struct ck_error err;
        ssize_t n;

        if (expected == (enum ck_form) - 1)
            continue;
        n = read(fd, head, sizeof(head));
        assert_true(n > 0);
        if (sniff(head, (size_t)n, 0, &err) != expected)
            fail_msg("%s is not taken for %s: %s", file->d_name, ck_form_name(expected), err.message);
        checked++;
    }
    closedir(folder);
    assert_true(checked >= 19);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_that_are_read_are_told_apart),
        cmocka_unit_test(safetensors_header_longer_than_the_file_is_still_safetensors),
        cmocka_unit_test(a_header_length_that_begins_like_another_magic_is_still_safetensors),
        cmocka_unit_test(magic_that_is_computed_is_a_plain_pickle),
        cmocka_unit_test(pickles_without_a_magic_are_found),
        cmocka_unit_test(text_is_not_taken_for_an_old_pickle),
        cmocka_unit_test(every_form_that_is_not_read_is_named),
        cmocka_unit_test(tar_is_told_by_its_mark_at_257),
        cmocka_unit_test(unknown_bytes_are_shown),
        cmocka_unit_test(helpful_hints_are_the_tables),
        cmocka_unit_test(empty_file_is_called_empty),
        cmocka_unit_test(short_heads_always_have_an_answer),
        cmocka_unit_test(only_the_first_4096_bytes_count),
        cmocka_unit_test(real_files_have_their_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
