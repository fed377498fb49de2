/* Tensors of torch zips, built by hand: what each one says about its bytes, and which faults stay with one tensor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/torch_file.h"

#define FILE_AND_RESULT                                                                                                \
    _cleanup_(tf_release) struct torch_file f;                                                                         \
    _cleanup_(opened_release) struct opened o = {0};                                                                   \
    (void)state;                                                                                                       \
    tf_init(&f)

static const float floats[8] = {0, 1, 2, 3, 4, 5, 6, 7};

/* {NAME: */
static void begin_entry(struct torch_file *f, const char *name) {
    tf_op(f, "}");
    tf_text(f, name);
}

/* Opens a file whose root maps "w" to what is on the stack. */
static const struct ck_tensor *open_w(struct torch_file *f, struct opened *o) {
    tf_op(f, "s");
    *o = tf_open(f);
    assert_int_equal(o->r, 0);
    assert_int_equal(o->model->n_tensors, 1);
    assert_string_equal(o->model->tensors[0].name, "w");
    return &o->model->tensors[0];
}

static void expect_fault(const struct ck_tensor *tensor, int code, const char *part) {
    assert_int_equal(tensor->error, code);
    assert_non_null(tensor->error_message);
    if (!strstr(tensor->error_message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, tensor->error_message);
}

static float element(const struct ck_model *model, const struct ck_tensor *tensor, uint64_t at) {
    float value;

    assert_int_equal(
        ck_source_read(&model->storages[tensor->storage].source, 4 * (tensor->view.offset + at), &value, 4, NULL), 0);
    return value;
}

static void strided_view_keeps_offset_shape_and_strides(void **state) {
    const struct ck_tensor *tensor;
    FILE_AND_RESULT;

    begin_entry(&f, "w");
    tf_view(&f, "FloatStorage", "0", 1, 2, (const int64_t[]){2, 3}, (const int64_t[]){1, 2});
    tf_record(&f, "0", floats, sizeof(floats));
    tensor = open_w(&f, &o);
    assert_int_equal(tensor->error, 0);
    assert_int_equal(tensor->view.dtype, CK_F32);
    assert_int_equal(tensor->view.offset, 1);
    assert_int_equal(tensor->view.rank, 2);
    assert_int_equal(tensor->view.shape[1], 3);
    assert_int_equal(tensor->view.stride[1], 2);
    assert_true(element(o.model, tensor, 1 * 1 + 2 * 2) == 6.0f);
    assert_string_equal(o.model->form, "torch-zip");
    assert_int_equal(o.model->input_bytes, f.zip.length);
    assert_string_equal(o.model->root_why, "the root maps names to tensors");
}

static void strided_view_one_past_the_storage_is_a_fault_of_that_tensor_alone(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    tf_text(&f, "good");
    tf_view(&f, "FloatStorage", "0", 2, 2, (const int64_t[]){2, 3}, (const int64_t[]){1, 2});
    tf_text(&f, "bad");
    tf_view(&f, "FloatStorage", "0", 3, 2, (const int64_t[]){2, 3}, (const int64_t[]){1, 2});
    tf_op(&f, "u");
    tf_record(&f, "0", floats, sizeof(floats));
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->tensors[0].error, 0);
    expect_fault(&o.model->tensors[1], CK_E_TENSOR_OUT_OF_BOUNDS, "36 bytes of its storage, which has 32");
    expect_fault(&o.model->tensors[1], CK_E_TENSOR_OUT_OF_BOUNDS, "archive/data/0");
}

/* torch loads it too: the declared count of 1000 elements does not matter, the view does. */
static void record_shorter_than_declared_is_fine_if_the_view_fits(void **state) {
    FILE_AND_RESULT;

    begin_entry(&f, "w");
    tf_vector(&f, "0", 8);
    tf_record(&f, "0", floats, sizeof(floats));
    assert_int_equal(open_w(&f, &o)->error, 0);
}

static void negative_numbers_are_out_of_bounds(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    tf_text(&f, "shape");
    tf_view(&f, "FloatStorage", "0", 0, 1, (const int64_t[]){-2}, (const int64_t[]){1});
    tf_text(&f, "stride");
    tf_view(&f, "FloatStorage", "0", 7, 1, (const int64_t[]){2}, (const int64_t[]){-1});
    tf_text(&f, "offset");
    tf_view(&f, "FloatStorage", "0", -1, 1, (const int64_t[]){2}, (const int64_t[]){1});
    tf_text(&f, "wraps");
    tf_view(&f, "FloatStorage", "0", 0, 1, (const int64_t[]){0x4000000000000001}, (const int64_t[]){1});
    tf_op(&f, "u");
    tf_record(&f, "0", floats, sizeof(floats));
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(o.model->tensors[i].error, CK_E_TENSOR_OUT_OF_BOUNDS);
}

static void missing_record_is_named(void **state) {
    FILE_AND_RESULT;

    begin_entry(&f, "w");
    tf_vector(&f, "94340341200128", 3);
    expect_fault(open_w(&f, &o), CK_E_TENSOR_OUT_OF_BOUNDS, "archive/data/94340341200128 is missing");
}

static void compressed_record_is_refused_and_a_compressed_pickle_read(void **state) {
    FILE_AND_RESULT;

    f.deflate_pickle = true;
    begin_entry(&f, "w");
    tf_vector(&f, "0", 8);
    tf_add_entry(&f, "archive/data/0", floats, sizeof(floats), true);
    expect_fault(open_w(&f, &o), CK_E_UNSUPPORTED_TENSOR, "stored compressed");
    assert_true(o.model->storages[0].deflated);
}

static void big_endian_archive_is_marked(void **state) {
    FILE_AND_RESULT;

    begin_entry(&f, "w");
    tf_vector(&f, "0", 8);
    tf_record(&f, "0", floats, sizeof(floats));
    tf_add_entry(&f, "archive/byteorder", "big", 3, false);
    open_w(&f, &o);
    assert_true(o.model->storages[0].swap);
}

static void unknown_byteorder_is_refused(void **state) {
    FILE_AND_RESULT;

    begin_entry(&f, "w");
    tf_vector(&f, "0", 8);
    tf_op(&f, "s");
    tf_add_entry(&f, "archive/byteorder", "middle", 6, false);
    o = tf_open(&f);
    assert_int_equal(o.r, CK_E_ARCHIVE_CORRUPT);
}

static void every_storage_class_gives_its_dtype(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}");
    for (unsigned i = 0; i < CK_DTYPE_END_; i++) {
        const char *class_ = ck_dtype_row((enum ck_dtype)i)->storage_class;

        if (!class_)
            continue;
        tf_text(&f, ck_dtype_row((enum ck_dtype)i)->torch);
        tf_view(&f, class_, class_, 0, 1, (const int64_t[]){2}, (const int64_t[]){1});
        tf_op(&f, "s");
        tf_record(&f, class_, floats, sizeof(floats));
    }
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    for (uint32_t i = 0; i < o.model->n_tensors; i++) {
        assert_int_equal(o.model->tensors[i].error, 0);
        assert_string_equal(ck_dtype_row(o.model->tensors[i].view.dtype)->torch, o.model->tensors[i].name);
    }
    assert_int_equal(o.model->n_storages, o.model->n_tensors);
}

/* torch gives the storage of the first id with a key to every later one, dtype included. */
static void a_second_dtype_of_one_storage_is_refused(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    tf_text(&f, "first");
    tf_vector(&f, "0", 4);
    tf_text(&f, "later");
    tf_view(&f, "DoubleStorage", "0", 0, 1, (const int64_t[]){2}, (const int64_t[]){1});
    tf_text(&f, "same");
    tf_vector(&f, "0", 2);
    tf_op(&f, "u");
    tf_record(&f, "0", floats, sizeof(floats));
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(tf_find(o.model, "first")->error, 0);
    assert_int_equal(tf_find(o.model, "same")->error, 0);
    assert_int_equal(tf_find(o.model, "later")->error, CK_E_UNSUPPORTED_TENSOR);
    assert_non_null(strstr(tf_find(o.model, "later")->error_message, "is a DoubleStorage here and another class"));
}

static void unknown_storage_class_is_a_fault_of_that_tensor(void **state) {
    FILE_AND_RESULT;

    begin_entry(&f, "w");
    tf_view(&f, "QuaternionStorage", "0", 0, 0, NULL, NULL);
    tf_record(&f, "0", floats, sizeof(floats));
    expect_fault(open_w(&f, &o), CK_E_UNSUPPORTED_DTYPE, "QuaternionStorage");
}

/* _rebuild_tensor_v3(UntypedStorage, offset, size, stride, False, OrderedDict(), torch.DTYPE) */
static void rebuild_v3(struct torch_file *f, const char *module, const char *dtype, int64_t offset) {
    tf_global(f, "torch._utils", "_rebuild_tensor_v3");
    tf_op(f, "(");
    tf_storage(f, "UntypedStorage", "0", 32);
    tf_int(f, offset);
    tf_ints(f, 1, (const int64_t[]){3});
    tf_ints(f, 1, (const int64_t[]){1});
    tf_raw(f, "\x89", 1);
    tf_hooks(f);
    tf_global(f, module, dtype);
    tf_op(f, "tR");
}

static void untyped_storage_counts_in_elements_of_the_dtype(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    tf_text(&f, "u16");
    rebuild_v3(&f, "torch", "uint16", 13);
    tf_text(&f, "past");
    rebuild_v3(&f, "torch", "uint16", 14);
    tf_text(&f, "f8");
    rebuild_v3(&f, "torch", "float8_e4m3fn", 29);
    tf_text(&f, "f4");
    rebuild_v3(&f, "torch", "float4_e2m1fn_x2", 0);
    tf_text(&f, "no_dtype");
    rebuild_v3(&f, "numpy", "uint16", 0);
    tf_op(&f, "u");
    tf_record(&f, "0", floats, sizeof(floats));
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->tensors[0].error, 0);
    assert_int_equal(o.model->tensors[0].view.dtype, CK_U16);
    assert_int_equal(o.model->tensors[1].error, CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_int_equal(o.model->tensors[2].view.dtype, CK_F8_E4M3);
    assert_int_equal(o.model->tensors[2].error, 0);
    expect_fault(&o.model->tensors[3], CK_E_UNSUPPORTED_DTYPE, "float4_e2m1fn_x2");
    expect_fault(&o.model->tensors[4], CK_E_UNSUPPORTED_TENSOR, "dtype");
}

/* Any call with the arguments that are built by `arguments`, as the value of "w". */
static void call_w(struct torch_file *f, const char *module, const char *name, void (*arguments)(struct torch_file *)) {
    begin_entry(f, "w");
    tf_global(f, module, name);
    tf_op(f, "(");
    arguments(f);
    tf_op(f, "tR");
    tf_record(f, "0", floats, sizeof(floats));
}

static void vector_argument(struct torch_file *f) {
    tf_vector(f, "0", 3);
}

static void no_argument(struct torch_file *f) {
    (void)f;
}

static void text_argument(struct torch_file *f) {
    tf_text(f, "no tensor");
}

static void parameter_is_unwrapped_and_marked(void **state) {
    static const char *const names[][2] = {{"torch._utils", "_rebuild_parameter"},
                                           {"torch._utils", "_rebuild_parameter_with_state"},
                                           {"torch.nn.parameter", "Parameter"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++) {
        const struct ck_tensor *tensor;
        FILE_AND_RESULT;

        call_w(&f, names[i][0], names[i][1], vector_argument);
        tensor = open_w(&f, &o);
        assert_int_equal(tensor->error, 0);
        assert_true(tensor->parameter);
        assert_int_equal(tensor->view.shape[0], 3);
    }
}

static void malformed_calls_are_faults_of_their_tensor(void **state) {
    static void (*const arguments[])(struct torch_file *) = {no_argument, text_argument};
    static const char *const names[] = {"_rebuild_parameter",
                                        "_rebuild_tensor",
                                        "_rebuild_tensor_v2",
                                        "_rebuild_tensor_v3",
                                        "_rebuild_qtensor",
                                        "_rebuild_meta_tensor_no_storage",
                                        "_rebuild_device_tensor_from_cpu_tensor"};

    for (size_t i = 0; i < CK_ARRAY_LEN(names) * 2; i++) {
        FILE_AND_RESULT;

        call_w(&f, "torch._utils", names[i / 2], arguments[i % 2]);
        expect_fault(open_w(&f, &o), CK_E_UNSUPPORTED_TENSOR, "malformed");
    }
}

static void kinds_without_dense_data_are_named(void **state) {
    static const char *const rows[][2] = {{"_rebuild_sparse_tensor", "sparse"},
                                          {"_rebuild_nested_tensor", "nested"},
                                          {"_rebuild_wrapper_subclass", "wrapper"},
                                          {"_rebuild_something_new", "torch._utils._rebuild_something_new"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++) {
        FILE_AND_RESULT;

        call_w(&f, "torch._utils", rows[i][0], vector_argument);
        expect_fault(open_w(&f, &o), CK_E_UNSUPPORTED_TENSOR, rows[i][1]);
    }
}

/* _rebuild_from_type_v2(FUNCTION, TYPE, (storage, 0, (3,), (1,)), {}) */
static void typed_arguments(struct torch_file *f) {
    tf_global(f, "torch._utils", "_rebuild_tensor");
    tf_global(f, "my.tensors", "Tagged");
    tf_op(f, "(");
    tf_storage(f, "FloatStorage", "0", 3);
    tf_int(f, 0);
    tf_ints(f, 1, (const int64_t[]){3});
    tf_ints(f, 1, (const int64_t[]){1});
    tf_op(f, "t}");
}

static void subclass_of_a_tensor_is_read_through_its_function(void **state) {
    FILE_AND_RESULT;

    call_w(&f, "torch._tensor", "_rebuild_from_type_v2", typed_arguments);
    assert_int_equal(open_w(&f, &o)->error, 0);
    assert_int_equal(o.model->tensors[0].view.shape[0], 3);
}

static void endless_wrapping_ends(void **state) {
    FILE_AND_RESULT;

    begin_entry(&f, "w");
    /* A tuple that holds the call that it is the argument of: p = Parameter(p). */
    tf_global(&f, "torch.nn.parameter", "Parameter");
    tf_op(&f, "]");
    tf_put(&f, 1);
    tf_op(&f, "R");
    tf_put(&f, 2);
    tf_get(&f, 1);
    tf_get(&f, 2);
    tf_op(&f, "a0");
    expect_fault(open_w(&f, &o), CK_E_UNSUPPORTED_TENSOR, "--limit-pickle-depth");
}

static void put_lazy(struct torch_file *f, const char *class_, const char *bit) {
    begin_entry(f, "w");
    tf_global(f, "torch._utils", "_rebuild_tensor_v2");
    tf_op(f, "(");
    tf_storage(f, class_, "0", 4);
    tf_int(f, 0);
    tf_ints(f, 1, (const int64_t[]){4});
    tf_ints(f, 1, (const int64_t[]){1});
    tf_raw(f, "\x89", 1);
    tf_hooks(f);
    tf_op(f, "}");
    tf_text(f, bit);
    tf_raw(f, "\x88", 1);
    tf_op(f, "stR");
    tf_record(f, "0", floats, sizeof(floats));
}

static void lazy_bits_stay_with_the_tensor(void **state) {
    static const struct {
        const char *class_, *bit;
        bool conj, neg;
    } cases[] = {{"ComplexFloatStorage", "conj", true, false},
                 {"ComplexFloatStorage", "neg", false, true},
                 {"FloatStorage", "neg", false, true},
                 {"FloatStorage", "other", false, false}};

    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++) {
        const struct ck_tensor *tensor;
        FILE_AND_RESULT;

        put_lazy(&f, cases[i].class_, cases[i].bit);
        tensor = open_w(&f, &o);
        assert_int_equal(tensor->error, 0);
        assert_int_equal(tensor->conj, cases[i].conj);
        assert_int_equal(tensor->neg, cases[i].neg);
    }
}

static void lazy_bits_that_torch_cannot_resolve_are_refused(void **state) {
    static const char *const cases[][2] = {{"FloatStorage", "conj"}, {"BoolStorage", "neg"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++) {
        FILE_AND_RESULT;

        put_lazy(&f, cases[i][0], cases[i][1]);
        expect_fault(open_w(&f, &o), CK_E_UNSUPPORTED_TENSOR, "conj or neg bit");
    }
}

static void equal_views_of_one_storage_are_aliases_and_empty_ones_are_not(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    tf_text(&f, "a");
    tf_vector(&f, "0", 4);
    tf_text(&f, "other");
    tf_vector(&f, "0", 3);
    tf_text(&f, "b");
    tf_vector(&f, "0", 4);
    tf_text(&f, "copy");
    tf_vector(&f, "1", 4);
    tf_text(&f, "empty");
    tf_vector(&f, "0", 0);
    tf_text(&f, "empty2");
    tf_vector(&f, "0", 0);
    tf_text(&f, "c");
    tf_vector(&f, "0", 4);
    tf_op(&f, "u");
    tf_record(&f, "0", floats, sizeof(floats));
    tf_record(&f, "1", floats, sizeof(floats));
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_storages, 2);
    for (uint32_t i = 0; i < o.model->n_tensors; i++) {
        const char *name = o.model->tensors[i].name;

        assert_int_equal(o.model->tensors[i].alias_of,
                         strcmp(name, "b") == 0 || strcmp(name, "c") == 0 ? 0 : CK_NO_INDEX);
    }
}

/* The arguments of a rebuild call are a list that grows afterwards: the tensor is what the end of the pickle says. */
static void tensors_are_read_after_the_pickle_ended(void **state) {
    const struct ck_tensor *tensor;
    FILE_AND_RESULT;

    begin_entry(&f, "w");
    tf_global(&f, "torch._utils", "_rebuild_tensor");
    tf_op(&f, "(");
    tf_storage(&f, "FloatStorage", "0", 8);
    tf_int(&f, 0);
    tf_op(&f, "]");
    tf_put(&f, 1);
    tf_int(&f, 2);
    tf_op(&f, "a");
    tf_ints(&f, 2, (const int64_t[]){4, 1});
    tf_op(&f, "tR");
    tf_get(&f, 1);
    tf_int(&f, 4);
    tf_op(&f, "a0");
    tf_record(&f, "0", floats, sizeof(floats));
    tensor = open_w(&f, &o);
    assert_int_equal(tensor->error, 0);
    assert_int_equal(tensor->view.rank, 2);
    assert_int_equal(tensor->view.shape[1], 4);
}

static void root_that_is_a_tensor_is_called_value(void **state) {
    FILE_AND_RESULT;

    tf_vector(&f, "0", 8);
    tf_record(&f, "0", floats, sizeof(floats));
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_string_equal(o.model->tensors[0].name, "value");
    assert_string_equal(o.model->tensors[0].path, "");
}

static void dims_at_the_limit_are_read_and_one_more_is_refused(void **state) {
    struct ck_limits limits = ck_limits_default;

    limits.dims = 3;
    for (unsigned rank = 3; rank <= 4; rank++) {
        FILE_AND_RESULT;

        tf_view(&f, "FloatStorage", "0", 0, rank, (const int64_t[]){1, 1, 1, 1}, (const int64_t[]){1, 1, 1, 1});
        tf_record(&f, "0", floats, sizeof(floats));
        o = tf_open_with(&f, &limits, NULL);
        assert_int_equal(o.r, rank == 3 ? 0 : CK_E_TENSOR_LIMIT);
        assert_true(rank == 3 || strstr(o.err.message, "--limit-dims"));
    }
}

static void tensors_at_the_limit_are_read_and_one_more_is_refused(void **state) {
    struct ck_limits limits = ck_limits_default;

    limits.tensors = 3;
    for (unsigned n = 3; n <= 4; n++) {
        FILE_AND_RESULT;

        tf_op(&f, "](");
        for (unsigned i = 0; i < n; i++)
            tf_vector(&f, "0", 2);
        tf_op(&f, "e");
        tf_record(&f, "0", floats, sizeof(floats));
        o = tf_open_with(&f, &limits, NULL);
        assert_int_equal(o.r, n == 3 ? 0 : CK_E_TENSOR_LIMIT);
        assert_true(n == 3 || strstr(o.err.message, "--limit-tensors"));
    }
}

static void description_beyond_its_memory_names_the_setting(void **state) {
    struct ck_limits limits = ck_limits_default;
    FILE_AND_RESULT;

    limits.model_memory = 1024;
    tf_op(&f, "](");
    for (unsigned i = 0; i < 20; i++)
        tf_vector(&f, "0", 2);
    tf_op(&f, "e");
    tf_record(&f, "0", floats, sizeof(floats));
    o = tf_open_with(&f, &limits, NULL);
    assert_int_equal(o.r, CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-model-memory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strided_view_keeps_offset_shape_and_strides),
        cmocka_unit_test(strided_view_one_past_the_storage_is_a_fault_of_that_tensor_alone),
        cmocka_unit_test(record_shorter_than_declared_is_fine_if_the_view_fits),
        cmocka_unit_test(negative_numbers_are_out_of_bounds),
        cmocka_unit_test(missing_record_is_named),
        cmocka_unit_test(compressed_record_is_refused_and_a_compressed_pickle_read),
        cmocka_unit_test(big_endian_archive_is_marked),
        cmocka_unit_test(unknown_byteorder_is_refused),
        cmocka_unit_test(every_storage_class_gives_its_dtype),
        cmocka_unit_test(a_second_dtype_of_one_storage_is_refused),
        cmocka_unit_test(unknown_storage_class_is_a_fault_of_that_tensor),
        cmocka_unit_test(untyped_storage_counts_in_elements_of_the_dtype),
        cmocka_unit_test(parameter_is_unwrapped_and_marked),
        cmocka_unit_test(malformed_calls_are_faults_of_their_tensor),
        cmocka_unit_test(kinds_without_dense_data_are_named),
        cmocka_unit_test(subclass_of_a_tensor_is_read_through_its_function),
        cmocka_unit_test(endless_wrapping_ends),
        cmocka_unit_test(lazy_bits_stay_with_the_tensor),
        cmocka_unit_test(lazy_bits_that_torch_cannot_resolve_are_refused),
        cmocka_unit_test(equal_views_of_one_storage_are_aliases_and_empty_ones_are_not),
        cmocka_unit_test(tensors_are_read_after_the_pickle_ended),
        cmocka_unit_test(root_that_is_a_tensor_is_called_value),
        cmocka_unit_test(dims_at_the_limit_are_read_and_one_more_is_refused),
        cmocka_unit_test(tensors_at_the_limit_are_read_and_one_more_is_refused),
        cmocka_unit_test(description_beyond_its_memory_names_the_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
