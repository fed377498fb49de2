/* The tar that torch.save wrote up to 0.1.9, built by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/legacy_file.h"

static const float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};

/* Storage 11 of 8 float32, tensor 101 on all of it as (2, 4). */
static void fill(struct torch_tar *t) {
    tt_init(t);
    tt_count(&t->storages, 1);
    tt_storage(t, 11, "FloatStorage", 8, numbers, sizeof(numbers));
    tt_count(&t->tensors, 1);
    tt_tensor(t, 101, 11, 2, (const int64_t[]){2, 4}, (const int64_t[]){4, 1}, 0);
    tf_op(&t->object, "}");
    tf_text(&t->object, "w");
    tt_id(t, "101");
    tf_op(&t->object, "s");
}

static void assert_floats(const struct ck_model *model, const char *name, unsigned n, const float *expected) {
    const struct ck_tensor *tensor = tf_find(model, name);
    float value;

    assert_non_null(tensor);
    assert_int_equal(tensor->error, 0);
    assert_int_equal(tensor->view.dtype, CK_F32);
    assert_int_equal(ck_view_numel(&tensor->view), n);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(ck_source_read(&model->storages[tensor->storage].source,
                                        (tensor->view.offset + i) * sizeof(value), &value, sizeof(value), NULL),
                         0);
        assert_true(value == expected[i]);
    }
}

static void assert_refused(struct torch_tar *t, int code, const char *words) {
    _cleanup_(opened_release) struct opened o = tt_open(t);

    assert_int_equal(o.r, code);
    if (!strstr(o.err.message, words))
        fail_msg("\"%s\" lacks \"%s\"", o.err.message, words);
}

static void tensors_are_found_by_their_keys(void **state) {
    _cleanup_(tt_release) struct torch_tar t = {0};
    _cleanup_(opened_release) struct opened o = {0};
    const struct ck_tensor *tensor;

    (void)state;
    fill(&t);
    tt_views(&t, 0, NULL);
    o = tt_open(&t);
    assert_int_equal(o.r, 0);
    assert_string_equal(o.model->form, "tar");
    assert_floats(o.model, "w", 8, numbers);
    tensor = tf_find(o.model, "w");
    assert_int_equal(tensor->view.rank, 2);
    assert_int_equal(tensor->view.shape[1], 4);
    assert_int_equal(tensor->view.stride[0], 4);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE), 0);
}

/* A view of 5 at 2, and a view of 3 at 1 of that one; keys are ints or their text. */
static void views_may_lie_on_views(void **state) {
    static int64_t views[2][4] = {{21, 11, 2, 5}, {22, 21, 1, 3}};
    _cleanup_(tt_release) struct torch_tar t = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    tt_init(&t);
    tt_count(&t.storages, 1);
    tt_storage(&t, 11, "FloatStorage", 8, numbers, sizeof(numbers));
    tt_views(&t, 2, views);
    tt_count(&t.tensors, 3);
    tt_tensor(&t, 101, 22, 1, (const int64_t[]){3}, (const int64_t[]){1}, 0);
    tt_tensor(&t, 102, 22, 1, (const int64_t[]){3}, (const int64_t[]){1}, 1);
    tt_tensor(&t, 103, 11, 0, NULL, NULL, 7);
    tf_op(&t.object, "}(");
    tf_text(&t.object, "inside");
    tt_id(&t, "101");
    tf_text(&t.object, "outside");
    tf_int(&t.object, 102);
    tf_op(&t.object, "Q");
    tf_text(&t.object, "scalar");
    tt_id(&t, "103");
    tf_op(&t.object, "u");
    o = tt_open(&t);
    assert_int_equal(o.r, 0);
    assert_floats(o.model, "inside", 3, (const float[]){3, 4, 5});
    assert_int_equal(tf_find(o.model, "outside")->error, CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_floats(o.model, "scalar", 1, (const float[]){7});
    assert_int_equal(tf_find(o.model, "scalar")->view.rank, 0);
}

static void parameters_and_modules_hold_tensors_by_key(void **state) {
    _cleanup_(tt_release) struct torch_tar t = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    fill(&t);
    t.object.pickle.length = 2;
    tf_op(&t.object, "(");
    tf_global(&t.object, "net", "Net");
    tf_text(&t.object, "net.py");
    tf_text(&t.object, "class Net: ...");
    tf_op(&t.object, "tQ)\x81}(");
    tf_text(&t.object, "_parameters");
    tf_op(&t.object, "}");
    tf_text(&t.object, "weight");
    tf_global(&t.object, "torch.nn.parameter", "Parameter");
    tt_id(&t, "101");
    tf_op(&t.object, "\x85Rs");
    tf_text(&t.object, "_modules");
    tf_op(&t.object, "}ub");
    o = tt_open(&t);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_modules, 1);
    assert_string_equal(o.model->modules[0].class_, "net.Net");
    assert_floats(o.model, "weight", 8, numbers);
    assert_true(o.model->tensors[0].parameter);
}

static void a_key_without_a_tensor_is_told(void **state) {
    _cleanup_(tt_release) struct torch_tar t = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    fill(&t);
    tf_text(&t.object, "x");
    tt_id(&t, "999");
    tf_op(&t.object, "s");
    tf_text(&t.object, "s");
    tt_id(&t, "11");
    tf_op(&t.object, "s");
    o = tt_open(&t);
    assert_int_equal(o.r, 0);
    assert_floats(o.model, "w", 8, numbers);
    assert_non_null(strstr(tf_find(o.model, "x")->error_message, "999 is missing"));
    assert_non_null(strstr(tf_find(o.model, "s")->error_message, "bare storage 11"));
}

/* What burn's test files hold: no `tensors`, and storages named by plain tuples. */
static void storages_may_be_named_by_plain_tuples(void **state) {
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        _cleanup_(tt_release) struct torch_tar t = {0};
        _cleanup_(opened_release) struct opened o = {0};
        struct ck_source source;

        fill(&t);
        t.object.pickle.length = 2;
        tf_op(&t.object, "}");
        tf_text(&t.object, "w");
        tf_global(&t.object, "torch._utils", "_rebuild_tensor_v2");
        tf_op(&t.object, "((");
        tf_text(&t.object, "storage");
        tf_global(&t.object, "torch", wrong ? "DoubleStorage" : "FloatStorage");
        tf_text(&t.object, "11");
        tf_text(&t.object, "cpu");
        tf_int(&t.object, 8);
        tf_op(&t.object, "tK\2K\4\x85K\1\x85\x89Nt");
        tf_op(&t.object, "Rs.");
        tar_add(&t.tar, "storages", '0', t.storages.pickle.data, t.storages.pickle.length);
        tar_add(&t.tar, "pickle", '0', t.object.pickle.data, t.object.pickle.length);
        tar_end(&t.tar);
        source = tar_source(&t.tar);
        o = lf_open_source(&source);
        assert_int_equal(o.r, wrong ? CK_E_ARCHIVE_CORRUPT : 0);
        if (!wrong)
            assert_floats(o.model, "w", 4, (const float[]){2, 3, 4, 5});
    }
}

static void damaged_entries_are_refused(void **state) {
    static int64_t outside[1][4] = {{21, 11, 5, 4}}, nowhere[1][4] = {{21, 99, 0, 1}}, again[1][4] = {{11, 11, 0, 1}},
                   negative[1][4] = {{21, 11, -1, 1}};
    static const struct {
        int code;
        const char *words;
    } expected[] = {
        {CK_E_ARCHIVE_CORRUPT, "outside of its storage"},
        {CK_E_ARCHIVE_CORRUPT, "a storage that is not there"},
        {CK_E_ARCHIVE_CORRUPT, "second time"},
        {CK_E_ARCHIVE_CORRUPT, "outside of its storage"},
        {CK_E_ARCHIVE_CORRUPT, "impossible number of elements"},
        {CK_E_UNSUPPORTED_DTYPE, "BlobStorage"},
        {CK_E_TRUNCATED, "storage 2 of 2 needs 64 bytes at byte"},
        {CK_E_ARCHIVE_CORRUPT, "impossible number of dimensions"},
        {CK_E_ARCHIVE_CORRUPT, "negative offset"},
        {CK_E_ARCHIVE_CORRUPT, "on a storage that is not there"},
        {CK_E_TENSOR_LIMIT, "--limit-tensors"},
        {CK_E_ARCHIVE_CORRUPT, "no number of parts"},
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(expected); i++) {
        _cleanup_(tt_release) struct torch_tar t = {0};

        fill(&t);
        switch (i) {
        case 0:
            tt_views(&t, 1, outside);
            break;
        case 1:
            tt_views(&t, 1, nowhere);
            break;
        case 2:
            tt_views(&t, 1, again);
            break;
        case 3:
            tt_views(&t, 1, negative);
            break;
        case 4:
        case 5:
        case 6:
            t.storages.pickle.length = 2;
            tt_count(&t.storages, 2);
            tt_storage(&t, 11, i == 5 ? "BlobStorage" : "DoubleStorage", i == 4 ? -1 : 4, numbers, 32);
            tt_storage(&t, 12, "DoubleStorage", 8, numbers, 32);
            break;
        case 7:
        case 8:
        case 9:
            t.tensors.pickle.length = 2;
            tt_count(&t.tensors, 1);
            tt_tensor(&t, 101, i == 9 ? 99 : 11, i == 7 ? 65 : 1, (const int64_t[65]){1}, (const int64_t[65]){1},
                      i == 8 ? -1 : 0);
            break;
        case 10:
            t.tensors.pickle.length = 2;
            tt_count(&t.tensors, 1000001);
            break;
        default:
            t.tensors.pickle.length = 2;
            tf_op(&t.tensors, "N.");
            break;
        }
        assert_refused(&t, expected[i].code, expected[i].words);
    }
}

static void a_tar_of_another_file_is_refused_by_its_name(void **state) {
    _cleanup_(ck_buffer_release) struct ck_buffer tar = {.limit = SIZE_MAX};
    _cleanup_(opened_release) struct opened o = {0};
    struct ck_source source;

    (void)state;
    tar_add(&tar, "readme.txt", '0', "hello", 5);
    tar_end(&tar);
    source = tar_source(&tar);
    o = lf_open_source(&source);
    assert_int_equal(o.r, CK_E_NOT_A_CHECKPOINT);
    assert_non_null(strstr(o.err.message, "in readme.txt: this is a text file"));
}

static void what_the_object_would_call_is_found_also_in_a_damaged_tar(void **state) {
    _cleanup_(tt_release) struct torch_tar t = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    fill(&t);
    t.storages.pickle.length = 5;
    tf_global(&t.object, "posix", "system");
    tf_op(&t.object, ")R0");
    o = tt_open(&t);
    assert_true(o.r < 0);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS), 1);
}

static void bytes_behind_the_last_part_are_a_finding(void **state) {
    _cleanup_(tt_release) struct torch_tar t = {0};
    _cleanup_(opened_release) struct opened o = {0};

    (void)state;
    fill(&t);
    tf_op(&t.tensors, "x");
    o = tt_open(&t);
    assert_int_equal(o.r, 0);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_STRUCTURE), 1);
}

/* Each entry cut at each byte, the archive around it whole. */
static void an_entry_cut_anywhere_is_told(void **state) {
    (void)state;
    for (int entry = 0; entry < 3; entry++) {
        size_t whole = SIZE_MAX;

        for (size_t n = 0; n < whole; n++) {
            _cleanup_(tt_release) struct torch_tar t = {0};
            _cleanup_(opened_release) struct opened o = {0};
            struct torch_file *files[] = {&t.storages, &t.tensors, &t.object};
            static const char *const names[] = {"storages", "tensors", "pickle"};
            struct ck_source source;

            fill(&t);
            tf_op(&t.object, ".");
            whole = files[entry]->pickle.length;
            files[entry]->pickle.length = n;
            for (size_t i = 0; i < 3; i++)
                tar_add(&t.tar, names[i], '0', files[i]->pickle.data, files[i]->pickle.length);
            tar_end(&t.tar);
            source = tar_source(&t.tar);
            o = lf_open_source(&source);
            assert_int_equal(o.r, CK_E_TRUNCATED);
            assert_true(o.err.message[0]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_found_by_their_keys),
        cmocka_unit_test(views_may_lie_on_views),
        cmocka_unit_test(parameters_and_modules_hold_tensors_by_key),
        cmocka_unit_test(a_key_without_a_tensor_is_told),
        cmocka_unit_test(storages_may_be_named_by_plain_tuples),
        cmocka_unit_test(damaged_entries_are_refused),
        cmocka_unit_test(a_tar_of_another_file_is_refused_by_its_name),
        cmocka_unit_test(what_the_object_would_call_is_found_also_in_a_damaged_tar),
        cmocka_unit_test(bytes_behind_the_last_part_are_a_finding),
        cmocka_unit_test(an_entry_cut_anywhere_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
