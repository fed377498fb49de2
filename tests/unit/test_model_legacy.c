/* The legacy stream of torch.save, built by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/legacy_file.h"

static const float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};

/* {"w": a vector of the storage "7", "v": the same four elements through a view} */
static void fill(struct legacy_file *f) {
    struct torch_file *o = &f->object;

    lf_init(f);
    tf_op(o, "}(");
    tf_text(o, "w");
    lf_vector(f, 1, 4, 2, lf_storage(f, "FloatStorage", "7", 8, 0, -1));
    tf_text(o, "v");
    lf_vector(f, 1, 3, 1, lf_storage(f, "FloatStorage", "7", 8, 2, 4));
    tf_op(o, "u");
    lf_block(f, "7", 8, numbers, sizeof(numbers));
}

/* The elements of a tensor of float32, read through its view. */
static void assert_floats(const struct ck_model *model, const char *name, unsigned n, const float *expected) {
    const struct ck_tensor *tensor = tf_find(model, name);

    assert_non_null(tensor);
    assert_int_equal(tensor->error, 0);
    assert_int_equal(tensor->view.dtype, CK_F32);
    assert_int_equal(ck_view_numel(&tensor->view), n);
    for (unsigned i = 0; i < n; i++) {
        uint64_t at = tensor->view.offset + (tensor->view.rank > 0 ? i * (uint64_t)tensor->view.stride[0] : 0);
        float value;

        assert_int_equal(
            ck_source_read(&model->storages[tensor->storage].source, at * sizeof(value), &value, sizeof(value), NULL),
            0);
        assert_true(value == expected[i]);
    }
}

static bool has_finding(const struct ck_model *model, const char *words) {
    for (size_t i = 0; i < model->findings.count; i++)
        if (strstr(model->findings.items[i].name, words))
            return true;
    return false;
}

static void assert_refused(struct legacy_file *f, int code, const char *words) {
    _cleanup_(opened_release) struct opened o = lf_open(f);

    assert_int_equal(o.r, code);
    if (!strstr(o.err.message, words))
        fail_msg("\"%s\" lacks \"%s\"", o.err.message, words);
}

static void blocks_follow_the_list_of_keys(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};
    static const uint16_t half[3] = {0x3C00, 0x4000, 0x4200};

    (void)state;
    lf_init(&f);
    tf_op(&f.object, "}(");
    tf_text(&f.object, "a");
    lf_vector(&f, 0, 8, 1, lf_storage(&f, "FloatStorage", "20", 8, 0, -1));
    tf_text(&f.object, "b");
    lf_vector(&f, 1, 2, 1, lf_storage(&f, "HalfStorage", "10", 3, 0, -1));
    tf_op(&f.object, "u");
    lf_block(&f, "10", 3, half, sizeof(half));
    lf_block(&f, "20", 8, numbers, sizeof(numbers));
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    assert_string_equal(o.model->form, "torch-legacy");
    assert_floats(o.model, "a", 8, numbers);
    assert_int_equal(tf_find(o.model, "b")->view.dtype, CK_F16);
    assert_int_equal(o.model->storages[tf_find(o.model, "b")->storage].source.length, 6);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE), 0);
}

static void a_view_counts_from_its_own_start(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    fill(&f);
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    assert_floats(o.model, "w", 4, (const float[]){1, 3, 5, 7});
    assert_floats(o.model, "v", 3, (const float[]){3, 4, 5});
    assert_int_equal(tf_find(o.model, "v")->storage, tf_find(o.model, "w")->storage);
}

/* A view of four elements at 2: tensors may use them all, and not one more. */
static void a_tensor_may_not_leave_its_view(void **state) {
    (void)state;
    for (int n = 4; n <= 5; n++) {
        _cleanup_(lf_release) struct legacy_file f = {0};
        _cleanup_(opened_release) struct opened o = {0};

        lf_init(&f);
        lf_vector(&f, 0, n, 1, lf_storage(&f, "FloatStorage", "7", 8, 2, 4));
        lf_block(&f, "7", 8, numbers, sizeof(numbers));
        o = lf_open(&f);
        assert_int_equal(o.r, 0);
        assert_int_equal(o.model->tensors[0].error, n == 4 ? 0 : CK_E_TENSOR_OUT_OF_BOUNDS);
        if (n == 5)
            assert_non_null(strstr(o.model->tensors[0].error_message, "a view on the storage 7"));
    }
}

/* torch takes a view of 5 on 4 elements as it is told, so its tensors are read; but no writer makes one. */
static void a_view_beyond_its_storage_is_a_finding(void **state) {
    (void)state;
    for (int n = 4; n <= 5; n++) {
        _cleanup_(lf_release) struct legacy_file f = {0};
        _cleanup_(opened_release) struct opened o = {0};
        bool found = false;

        lf_init(&f);
        lf_vector(&f, 0, 2, 1, lf_storage(&f, "FloatStorage", "7", 4, 0, n));
        lf_block(&f, "7", 4, numbers, 16);
        o = lf_open(&f);
        assert_int_equal(o.r, 0);
        assert_int_equal(o.model->tensors[0].error, 0);
        for (size_t i = 0; i < o.model->findings.count; i++)
            found = found || strstr(o.model->findings.items[i].name, "a view on a storage reaches beyond its end");
        assert_int_equal(found, n == 5);
    }
}

static void impossible_views_are_refused(void **state) {
    static const int64_t views[][2] = {{-1, 4}, {INT64_MAX, 4}, {INT64_MAX / 4, 1}};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(views); i++) {
        _cleanup_(lf_release) struct legacy_file f = {0};
        _cleanup_(opened_release) struct opened o = {0};

        lf_init(&f);
        lf_vector(&f, 1, 1, 1, lf_storage(&f, "DoubleStorage", "7", 4, views[i][0], views[i][1]));
        lf_block(&f, "7", 4, numbers, sizeof(numbers));
        o = lf_open(&f);
        assert_int_equal(o.r, 0);
        assert_int_not_equal(o.model->tensors[0].error, 0);
    }
}

/* torch's loader never looks at sys_info: its writer has swapped the elements already. */
static void a_big_endian_writer_changes_no_value(void **state) {
    static const char big[] = "\x80\x02}q\0X\x0D\0\0\0little_endian\x89s.";

    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        _cleanup_(lf_release) struct legacy_file f = {0};
        _cleanup_(opened_release) struct opened o = {0};

        fill(&f);
        f.sys_info = big;
        f.sys_info_length = sizeof(big) - 1;
        if (swapped) /* the number of elements, up to torch 1.1 */
            memcpy(f.blocks.data, "\0\0\0\0\0\0\0\10", 8);
        o = lf_open(&f);
        assert_int_equal(o.r, 0);
        assert_floats(o.model, "v", 3, (const float[]){3, 4, 5});
        assert_false(o.model->storages[0].swap);
        assert_true(has_finding(o.model, "big-endian machine"));
        assert_int_equal(o.model->findings.items[o.model->findings.count - 1].offset, 21);
    }
}

static void a_swapped_number_of_elements_needs_a_big_endian_writer(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};

    (void)state;
    fill(&f);
    memcpy(f.blocks.data, "\0\0\0\0\0\0\0\10", 8);
    assert_refused(&f, CK_E_PICKLE_CORRUPT, "8 elements in the pickle and 576460752303423488 at byte");
}

static void a_block_must_have_the_number_of_elements_of_the_pickle(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};

    (void)state;
    fill(&f);
    f.blocks.data[0] = 7;
    assert_refused(&f, CK_E_PICKLE_CORRUPT, "8 elements in the pickle and 7 at byte");
}

static void what_follows_the_last_block_is_a_finding(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};
    size_t i = 0;

    (void)state;
    fill(&f);
    ck_buffer_add(&f.blocks, "x", 1);
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    while (i < o.model->findings.count && !strstr(o.model->findings.items[i].name, "bytes follow the last storage"))
        i++;
    assert_int_not_equal(i, o.model->findings.count);
    assert_int_equal(o.model->findings.items[i].offset, o.model->input_bytes - 1);
}

/* Every cut is told; inside the blocks with the number of the storage and the bytes that are there. */
static void a_stream_cut_anywhere_is_told(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    struct ck_source whole;
    size_t blocks;

    (void)state;
    fill(&f);
    whole = lf_finish(&f);
    blocks = whole.length - f.blocks.length;
    for (size_t n = 0; n < whole.length; n++) {
        _cleanup_(opened_release) struct opened o = {0};
        _cleanup_(ck_freep) uint8_t *exact = malloc(n + 1);
        struct ck_source source = ck_source_from_memory(exact, n);
        char words[128];

        memcpy(exact, whole.memory, n);
        o = lf_open_source(&source);
        assert_true(o.r < 0 && o.err.code == o.r && o.err.message[0]);
        if (n >= f.magic_length)
            assert_int_equal(o.r, CK_E_TRUNCATED);
        if (n >= blocks) {
            snprintf(words, sizeof(words), "storage 1 of 1 needs 40 bytes at byte %zu, %zu present", blocks,
                     n - blocks);
            assert_non_null(strstr(o.err.message, words));
        }
    }
}

static void keys_and_persistent_ids_must_agree(void **state) {
    (void)state;
    for (int kind = 0; kind < 7; kind++) {
        _cleanup_(lf_release) struct legacy_file f = {0};
        static const char *const words[] = {"in no tensor", "listed twice",      "two dtypes", "impossible number",
                                            "holds None",   "impossible number", "BlobStorage"};

        fill(&f);
        tf_op(&f.object, "0}(");
        tf_text(&f.object, "x");
        switch (kind) {
        case 0:
            lf_block(&f, "8", 8, numbers, sizeof(numbers));
            break;
        case 1:
            lf_block(&f, "7", 8, numbers, sizeof(numbers));
            break;
        case 2:
            lf_storage(&f, "HalfStorage", "7", 8, 0, -1);
            tf_text(&f.object, "y");
            break;
        case 3:
            lf_storage(&f, "HalfStorage", "8", -1, 0, -1);
            tf_text(&f.object, "y");
            lf_block(&f, "8", -1, numbers, 0);
            break;
        case 4:
            tf_op(&f.keys, "N");
            break;
        case 5:
            lf_storage(&f, "DoubleStorage", "8", INT64_MAX / 2, 0, -1);
            tf_text(&f.object, "y");
            lf_block(&f, "8", INT64_MAX / 2, numbers, 0);
            break;
        case 6:
            lf_storage(&f, "BlobStorage", "8", 1, 0, -1);
            tf_text(&f.object, "y");
            lf_block(&f, "8", 1, numbers, 4);
            break;
        }
        tf_op(&f.object, "Nu");
        assert_refused(&f, kind == 6 ? CK_E_UNSUPPORTED_DTYPE : CK_E_PICKLE_CORRUPT, words[kind]);
    }
}

static void a_storage_that_is_not_listed_costs_its_tensors_only(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    lf_init(&f);
    tf_op(&f.object, "}(");
    tf_text(&f.object, "w");
    lf_vector(&f, 0, 8, 1, lf_storage(&f, "FloatStorage", "7", 8, 0, -1));
    tf_text(&f.object, "lost");
    lf_vector(&f, 0, 8, 1, lf_storage(&f, "FloatStorage", "9", 8, 0, -1));
    tf_op(&f.object, "u");
    lf_block(&f, "7", 8, numbers, sizeof(numbers));
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    assert_floats(o.model, "w", 8, numbers);
    assert_int_equal(tf_find(o.model, "lost")->error, CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_non_null(strstr(tf_find(o.model, "lost")->error_message, "its storage 9 is missing"));
}

/* Two empty storages may share one address, so also a key. */
static void empty_storages_of_two_dtypes_may_share_a_key(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    lf_init(&f);
    tf_op(&f.object, "}(");
    tf_text(&f.object, "a");
    lf_vector(&f, 0, 0, 1, lf_storage(&f, "FloatStorage", "7", 0, 0, -1));
    tf_text(&f.object, "b");
    lf_vector(&f, 0, 0, 1, lf_storage(&f, "LongStorage", "7", 0, 0, -1));
    tf_op(&f.object, "u");
    lf_block(&f, "7", 0, numbers, 0);
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(tf_find(o.model, "b")->error, 0);
    assert_int_equal(tf_find(o.model, "b")->view.dtype, CK_I64);
}

static void a_computed_magic_number_is_refused_and_found(void **state) {
    static const char magic[] = "\x80\x02"
                                "c__builtin__\neval\nX\x16\0\0\0000x1950A86A20F9469CFC6C\x85R.";
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};
    bool found = false;

    (void)state;
    fill(&f);
    f.magic = magic;
    f.magic_length = sizeof(magic) - 1;
    o = lf_open(&f);
    assert_int_equal(o.r, CK_E_ARCHIVE_UNSAFE);
    assert_non_null(strstr(o.err.message, "would compute it"));
    for (size_t i = 0; i < o.model->findings.count; i++)
        found =
            found || (o.model->findings.items[i].class_ == CK_FINDING_DANGEROUS && o.model->findings.items[i].called);
    assert_true(found);
}

/* torch takes the number, however it is written. */
static void a_magic_number_in_another_spelling_is_still_one(void **state) {
    static const char *const spellings[] = {"\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.",
                                            "\x80\x03(\x8B\x0A\0\0\0\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19q\0.",
                                            "L119547037146038801333356L\np0\n."};
    static const size_t lengths[] = {13, 21, 31};

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(spellings); i++) {
        _cleanup_(lf_release) struct legacy_file f = {0};
        _cleanup_(opened_release) struct opened o = {0};

        fill(&f);
        f.magic = spellings[i];
        f.magic_length = lengths[i];
        o = lf_open(&f);
        assert_int_equal(o.r, 0);
        assert_string_equal(o.model->form, "torch-legacy");
    }
}

static void another_protocol_is_refused_after_a_look_at_the_object(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    fill(&f);
    f.protocol = "\x80\x02M\xEA\x03.";
    tf_global(&f.object, "posix", "system");
    tf_op(&f.object, "0");
    o = lf_open(&f);
    assert_int_equal(o.r, CK_E_UNSUPPORTED_FORM);
    assert_non_null(strstr(o.err.message, "protocol 1002"));
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS), 1);
}

static void a_stream_that_is_a_tar_as_well_is_refused(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    struct tar_header header = tar_header("", '0', 0);
    char sys_info[512] = "";

    (void)state;
    fill(&f);
    /* The first two pickles stand in the header's name; the third is a text that holds the rest of the header. */
    memcpy(header.bytes, f.magic, f.magic_length);
    memcpy(header.bytes + 15, f.protocol, f.protocol_length);
    memcpy(header.bytes + 21, "\x80\x02X\xE4\x01\0\0", 7);
    tar_sum(&header);
    memcpy(sys_info, header.bytes + 21, 512 - 21);
    sys_info[512 - 21] = '.';
    f.sys_info = sys_info;
    f.sys_info_length = 512 - 21 + 1;
    assert_refused(&f, CK_E_ARCHIVE_UNSAFE, "a tar archive at once");
}

static void a_wrapped_class_still_makes_a_module(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};
    struct torch_file *t = &f.object;

    (void)state;
    lf_init(&f);
    tf_op(t, "(");
    tf_text(t, "module");
    tf_global(t, "net", "Net");
    tf_text(t, "/home/me/net.py");
    tf_text(t, "class Net(nn.Module): ...");
    tf_op(t, "tQ)\x81}(");
    tf_text(t, "_parameters");
    tf_op(t, "}(");
    tf_text(t, "weight");
    lf_vector(&f, 0, 8, 1, lf_storage(&f, "FloatStorage", "7", 8, 0, -1));
    tf_op(t, "u");
    tf_text(t, "_modules");
    tf_op(t, "}ub");
    lf_block(&f, "7", 8, numbers, sizeof(numbers));
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_modules, 1);
    assert_string_equal(o.model->modules[0].class_, "net.Net");
    assert_floats(o.model, "weight", 8, numbers);
    assert_true(o.model->tensors[0].parameter);
}

/* Protocol 0 has no tuples in persistent ids: it holds their repr(), which torch writes and cannot load. */
static void ids_of_protocol_0_are_read_from_their_repr(void **state) {
    static const struct {
        const char *id;
        bool good;
    } ids[] = {
        {"('storage', <class 'torch.FloatStorage'>, '7', 'cpu', 8, None)", true},
        {"('storage', <class 'torch.FloatStorage'>, '7', 'cuda:0', 8L)", true},
        {"('storage', <class 'torch.FloatStorage'>, '7', 'cpu', 8, ('9', 2L, 4))", true},
        {"('storage', <class 'torch.FloatStorage'>, '7', 'cpu', 8, None", false},
        {"('storage', <class 'torch.FloatStorage'>, '7', 'cpu', 8, None) ", false},
        {"('storage', <class 'FloatStorage'>, '7', 'cpu', 8, None)", false},
        {"('storage', <class 'torch.FloatStorage'>, '7\\'', 'cpu', 8, None)", false},
        {"('storage', <class 'torch.FloatStorage'>, '7', 'cpu', 99999999999999999999, None)", false},
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(ids); i++) {
        _cleanup_(lf_release) struct legacy_file f = {0};
        _cleanup_(opened_release) struct opened o = {0};

        lf_init(&f);
        lf_vector(&f, 1, 3, 1, {
            tf_op(&f.object, "P");
            tf_op(&f.object, ids[i].id);
            tf_op(&f.object, "\n");
        });
        if (ids[i].good)
            lf_block(&f, "7", 8, numbers, sizeof(numbers));
        o = lf_open(&f);
        assert_int_equal(o.r, 0);
        if (!ids[i].good)
            assert_int_equal(o.model->tensors[0].error, CK_E_UNSUPPORTED_TENSOR);
        else
            assert_floats(o.model, "value", 3, i == 2 ? (const float[]){3, 4, 5} : (const float[]){1, 2, 3});
    }
}

static void numbers_may_stand_for_keys(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    lf_init(&f);
    lf_vector(&f, 1, 3, 1, {
        tf_op(&f.object, "(");
        tf_text(&f.object, "storage");
        tf_global(&f.object, "torch.cuda", "FloatStorage");
        tf_int(&f.object, -94837502);
        tf_text(&f.object, "cuda:0");
        tf_int(&f.object, 8);
        tf_op(&f.object, "NtQ");
    });
    lf_block(&f, "-94837502", 8, numbers, sizeof(numbers));
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    assert_floats(o.model, "value", 3, (const float[]){1, 2, 3});
}

static void a_variable_of_torch_0_3_is_a_tensor(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    lf_init(&f);
    tf_op(&f.object, "}");
    tf_text(&f.object, "x");
    tf_global(&f.object, "torch.autograd.variable", "Variable");
    tf_op(&f.object, "(");
    lf_vector(&f, 1, 3, 1, lf_storage(&f, "FloatStorage", "7", 8, 0, -1));
    tf_op(&f.object, "tR(\x89\x89}tbs");
    lf_block(&f, "7", 8, numbers, sizeof(numbers));
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_floats(o.model, "x", 3, (const float[]){1, 2, 3});
}

static void bare_storages_are_no_tensors(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};

    (void)state;
    lf_init(&f);
    tf_op(&f.object, "](");
    lf_storage(&f, "FloatStorage", "7", 8, 0, -1);
    lf_storage(&f, "FloatStorage", "7", 8, 2, 4);
    tf_op(&f.object, "e");
    lf_block(&f, "7", 8, numbers, sizeof(numbers));
    assert_refused(&f, CK_E_NO_TENSORS, "2 bare storages");
}

static void bare_storages_beside_tensors_are_a_finding(void **state) {
    _cleanup_(lf_release) struct legacy_file f = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    lf_init(&f);
    tf_op(&f.object, "](");
    lf_vector(&f, 1, 3, 1, lf_storage(&f, "FloatStorage", "7", 8, 0, -1));
    lf_storage(&f, "FloatStorage", "7", 8, 2, 4);
    tf_op(&f.object, "e");
    lf_block(&f, "7", 8, numbers, sizeof(numbers));
    o = lf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_true(has_finding(o.model, "storages without a tensor"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_follow_the_list_of_keys),
        cmocka_unit_test(a_view_counts_from_its_own_start),
        cmocka_unit_test(a_tensor_may_not_leave_its_view),
        cmocka_unit_test(a_view_beyond_its_storage_is_a_finding),
        cmocka_unit_test(impossible_views_are_refused),
        cmocka_unit_test(a_big_endian_writer_changes_no_value),
        cmocka_unit_test(a_swapped_number_of_elements_needs_a_big_endian_writer),
        cmocka_unit_test(a_block_must_have_the_number_of_elements_of_the_pickle),
        cmocka_unit_test(what_follows_the_last_block_is_a_finding),
        cmocka_unit_test(a_stream_cut_anywhere_is_told),
        cmocka_unit_test(keys_and_persistent_ids_must_agree),
        cmocka_unit_test(a_storage_that_is_not_listed_costs_its_tensors_only),
        cmocka_unit_test(empty_storages_of_two_dtypes_may_share_a_key),
        cmocka_unit_test(a_computed_magic_number_is_refused_and_found),
        cmocka_unit_test(a_magic_number_in_another_spelling_is_still_one),
        cmocka_unit_test(another_protocol_is_refused_after_a_look_at_the_object),
        cmocka_unit_test(a_stream_that_is_a_tar_as_well_is_refused),
        cmocka_unit_test(a_wrapped_class_still_makes_a_module),
        cmocka_unit_test(ids_of_protocol_0_are_read_from_their_repr),
        cmocka_unit_test(numbers_may_stand_for_keys),
        cmocka_unit_test(a_variable_of_torch_0_3_is_a_tensor),
        cmocka_unit_test(bare_storages_are_no_tensors),
        cmocka_unit_test(bare_storages_beside_tensors_are_a_finding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
