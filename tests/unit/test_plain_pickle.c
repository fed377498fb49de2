/* Plain pickles as files: several one after another, what bounds them, and the archives that numpy makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/numpy_file.h"

#define FILE_AND_RESULT                                                                                                \
    _cleanup_(tf_release) struct torch_file f;                                                                         \
    _cleanup_(opened_release) struct opened o = {0};                                                                   \
    (void)state;                                                                                                       \
    tf_init(&f)

/* {name: a vector of n float32 from `first`} */
static void dict_of(struct torch_file *f, const char *name, float first, unsigned n) {
    tf_op(f, "}");
    tf_text(f, name);
    nf_vector(f, first, n);
    tf_op(f, "s");
}

static void next(struct torch_file *f) {
    tf_raw(f, ".\x80\x02", 3);
}

static float first_of(const struct opened *o, const char *path) {
    float value = -1;

    for (uint32_t i = 0; i < o->model->n_tensors; i++)
        if (strcmp(o->model->tensors[i].path, path) == 0)
            nf_read(o->model, &o->model->tensors[i], &value, sizeof(value));
    return value;
}

static void a_log_behind_the_weights_changes_no_names(void **state) {
    FILE_AND_RESULT;

    dict_of(&f, "w", 7, 3);
    for (int i = 0; i < 50; i++) {
        next(&f);
        tf_tree(&f, "{epoch:5}");
    }
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_string_equal(o.model->tensors[0].name, "w");
    assert_true(first_of(&o, "w") == 7.0f);
    assert_false(nf_has_finding(o.model, "bytes follow STOP"));
    assert_false(nf_has_finding(o.model, "PROTO"));
}

static void weights_behind_a_log_are_named_by_their_number(void **state) {
    FILE_AND_RESULT;

    tf_tree(&f, "{epoch:5}");
    next(&f);
    tf_tree(&f, "{epoch:6}");
    next(&f);
    dict_of(&f, "w", 7, 3);
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_string_equal(o.model->tensors[0].path, "#2.w");
    assert_string_equal(o.model->tensors[0].name, "w");
    assert_string_equal(o.model->root_path, "#2");
}

static void arrays_dumped_one_by_one_are_one_set(void **state) {
    FILE_AND_RESULT;

    for (int i = 0; i < 3; i++) {
        if (i > 0)
            next(&f);
        nf_vector(&f, (float)i, 3);
    }
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 3);
    assert_string_equal(o.model->tensors[0].name, "value");
    assert_string_equal(o.model->tensors[2].name, "#2");
    assert_true(first_of(&o, "") == 0.0f && first_of(&o, "#1") == 1.0f && first_of(&o, "#2") == 2.0f);
}

static void two_dicts(struct torch_file *f) {
    dict_of(f, "net.w", 1, 3);
    next(f);
    dict_of(f, "net.w", 2, 3);
}

static void two_sets_are_asked_about_and_can_be_named(void **state) {
    struct ck_model_options options = {0};
    FILE_AND_RESULT;

    two_dicts(&f);
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_AMBIGUOUS_STATE_DICT);
    assert_string_equal(o.err.details, "[\"#0\",\"#1\"]");
    opened_release(&o);
    options.state_dict = "#0";
    o = nf_open(&f, &ck_limits_default, &options);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_string_equal(o.model->tensors[0].path, "net.w");
    assert_true(first_of(&o, "net.w") == 1.0f);
    opened_release(&o);
    options.state_dict = "#1";
    o = nf_open(&f, &ck_limits_default, &options);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_int_equal(o.model->n_outside, 1);
    assert_string_equal(o.model->tensors[0].path, "#1.net.w");
    assert_string_equal(o.model->tensors[0].name, "net.w");
    assert_true(first_of(&o, "#1.net.w") == 2.0f);
    opened_release(&o);
    options.state_dict = ".";
    o = nf_open(&f, &ck_limits_default, &options);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 2);
    assert_string_equal(o.model->tensors[0].name, "net.w");
    assert_string_equal(o.model->tensors[1].name, "#1.net.w");
}

/* Each pickle has a memo of its own: the slot of the first must not be there in the second. */
static void the_memo_ends_with_its_pickle(void **state) {
    FILE_AND_RESULT;

    dict_of(&f, "w", 1, 3);
    tf_put(&f, 5);
    next(&f);
    tf_get(&f, 5);
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_PICKLE_CORRUPT);
    assert_non_null(strstr(o.err.message, "memo slot 5 was never set"));
}

static void pickles_are_counted(void **state) {
    struct ck_limits limits = ck_limits_default;
    FILE_AND_RESULT;

    two_dicts(&f);
    tf_op(&f, ".");
    limits.pickles = 2;
    o = nf_open(&f, &limits, &(struct ck_model_options){.state_dict = "."});
    assert_int_equal(o.r, 0);
    opened_release(&o);
    limits.pickles = 1;
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, CK_E_PICKLE_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-pickles"));
}

static void bytes_behind_the_last_pickle_are_a_finding(void **state) {
    FILE_AND_RESULT;

    dict_of(&f, "w", 1, 3);
    tf_op(&f, ".\nnot a pickle\n");
    o = nf_open(&f, &ck_limits_default, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_true(nf_has_finding(o.model, "bytes follow STOP"));
}

static void a_file_cut_inside_its_last_pickle_is_refused(void **state) {
    size_t first, whole;
    FILE_AND_RESULT;

    dict_of(&f, "w", 1, 3);
    first = f.pickle.length + 1;
    next(&f);
    dict_of(&f, "v", 2, 3);
    tf_op(&f, ".");
    whole = f.pickle.length;
    for (size_t n = first + 2; n < whole; n++) {
        f.pickle.length = n;
        o = nf_open(&f, &ck_limits_default, NULL);
        assert_int_equal(o.r, CK_E_TRUNCATED);
        opened_release(&o);
    }
    f.pickle.length = whole;
}

/* Up to the last byte there is no STOP, so nothing may open. */
static void no_cut_pickle_is_taken_for_a_whole_one(void **state) {
    size_t whole;
    FILE_AND_RESULT;

    dict_of(&f, "w", 1, 30);
    tf_op(&f, ".");
    whole = f.pickle.length;
    for (size_t n = 1; n < whole; n++) {
        f.pickle.length = n;
        o = nf_open(&f, &ck_limits_default, NULL);
        assert_true(o.r < 0);
        assert_int_equal(o.err.code, o.r);
        opened_release(&o);
    }
    f.pickle.length = whole;
    o = nf_open(&f, &ck_limits_default, NULL);
    assert_int_equal(o.r, 0);
}

/* A detectron2 file is one pickle of hundreds of megabytes, nearly all of it in the arrays. */
static void long_arrays_do_not_count_as_bytes_of_the_pickle(void **state) {
    struct ck_limits limits = ck_limits_default;
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    tf_text(&f, "w");
    nf_vector(&f, 1, 40000);
    tf_text(&f, "v");
    nf_vector(&f, 2, 40000);
    tf_op(&f, "u.");
    limits.pickle_bytes = 2000;
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 2);
    opened_release(&o);
    limits.pickle_bytes = 200;
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, CK_E_PICKLE_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-pickle-bytes"));
}

static void findings_of_every_pickle_are_kept(void **state) {
    FILE_AND_RESULT;

    dict_of(&f, "w", 1, 3);
    next(&f);
    tf_global(&f, "posix", "system");
    tf_text(&f, "true");
    tf_op(&f, "\x85R");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS), 1);
}

static void a_storage_that_no_file_holds_is_a_fault_of_its_tensor(void **state) {
    FILE_AND_RESULT;

    tf_tree(&f, "{w:T4}");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(tf_find(o.model, "w")->error, CK_E_TENSOR_OUT_OF_BOUNDS);
    assert_non_null(strstr(tf_find(o.model, "w")->error_message, "is missing from the file"));
}

/* ---- npy and npz ---- */

static struct ck_buffer npy_of(const char *text, const void *data, size_t n) {
    struct ck_buffer out;
    uint8_t head[10] = "\x93NUMPY\1";

    ck_buffer_init(&out, SIZE_MAX);
    head[8] = (uint8_t)strlen(text);
    ck_buffer_add(&out, head, sizeof(head));
    ck_buffer_add_text(&out, text);
    ck_buffer_add(&out, data, n);
    return out;
}

static void add_npy(struct torch_file *f, const char *name, const char *text, const void *data, size_t n,
                    bool deflated) {
    struct ck_buffer npy = npy_of(text, data, n);

    tf_add_entry(f, name, npy.data, npy.length, deflated);
    ck_buffer_release(&npy);
}

static const char vector_text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
static const float vector[3] = {1, 2, 3};

static struct opened open_npy(const struct ck_buffer *npy) {
    struct ck_source source = ck_source_from_memory(npy->data, npy->length);
    struct opened o = {0};

    o.r = ck_model_open(&source, &ck_limits_default, NULL, &o.model, &o.err);
    return o;
}

static void a_single_array_is_called_value(void **state) {
    struct ck_buffer npy =
        npy_of("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", "\0\1\0\2\0\3\0\4\0\5\0\6", 12);
    _cleanup_(opened_release) struct opened o = open_npy(&npy);

    (void)state;
    assert_int_equal(o.r, 0);
    assert_string_equal(o.model->form, "npy");
    assert_string_equal(o.model->tensors[0].name, "value");
    assert_string_equal(o.model->tensors[0].path, "");
    assert_int_equal(o.model->tensors[0].view.stride[1], 2);
    assert_true(o.model->storages[0].swap);
    ck_buffer_release(&npy);
}

static void a_cut_array_is_a_fault_and_a_long_one_a_finding(void **state) {
    struct ck_buffer npy = npy_of(vector_text, vector, sizeof(vector) - 1);
    struct opened o = open_npy(&npy);

    (void)state;
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->tensors[0].error, CK_E_TENSOR_OUT_OF_BOUNDS);
    opened_release(&o);
    ck_buffer_add(&npy, "xx", 2);
    o = open_npy(&npy);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->tensors[0].error, 0);
    assert_true(nf_has_finding(o.model, "bytes follow the array"));
    opened_release(&o);
    ck_buffer_release(&npy);
}

/* {"w": vector} as an array of one object. */
static void object_pickle(struct torch_file *f) {
    tf_init(f);
    nf_begin(f, "O8", "|", 0, NULL, false);
    tf_op(f, "]");
    dict_of(f, "w", 5, 3);
    tf_op(f, "a");
    nf_end(f);
    tf_op(f, ".");
}

static const char object_text[] = "{'descr': '|O', 'fortran_order': False, 'shape': (), }";

static void an_array_of_objects_is_the_pickle_behind_its_header(void **state) {
    _cleanup_(tf_release) struct torch_file f;
    _cleanup_(opened_release) struct opened o = {0};
    struct ck_buffer npy;

    (void)state;
    object_pickle(&f);
    npy = npy_of(object_text, f.pickle.data, f.pickle.length);
    o = open_npy(&npy);
    assert_int_equal(o.r, 0);
    assert_string_equal(o.model->form, "npy");
    assert_string_equal(o.model->tensors[0].path, "0.w");
    assert_true(first_of(&o, "0.w") == 5.0f);
    ck_buffer_release(&npy);
}

static void a_zip_of_arrays_names_them_without_their_ending(void **state) {
    FILE_AND_RESULT;

    f.pickle_name = NULL;
    add_npy(&f, "conv1/weight.npy", vector_text, vector, sizeof(vector), false);
    add_npy(&f, "small.npy", vector_text, vector, sizeof(vector), true);
    tf_add_entry(&f, "damaged.npy", "\x93NUMPY", 6, false);
    add_npy(&f, "names.npy", "{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", "a\0\0\0", 4, false);
    tf_add_entry(&f, "readme.txt", "x", 1, false);
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_string_equal(o.model->form, "npz");
    assert_int_equal(o.model->n_tensors, 4);
    assert_int_equal(tf_find(o.model, "damaged")->error, CK_E_UNSUPPORTED_TENSOR);
    assert_true(first_of(&o, "conv1/weight") == 1.0f && first_of(&o, "small") == 1.0f);
    assert_int_equal(tf_find(o.model, "names")->error, CK_E_UNSUPPORTED_DTYPE);
    assert_true(nf_has_finding(o.model, "beside the arrays"));
}

static void large_deflated_arrays_need_the_scratch_file(void **state) {
    static const char text[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (70000,), }";
    struct ck_scratch scratch = {.limit = CK_GIB};
    struct ck_model_options options = {.scratch = &scratch};
    uint8_t *bytes = calloc(1, 70000), byte = 0;
    FILE *file = tmpfile();
    struct ck_source source;
    FILE_AND_RESULT;

    scratch.fd = fileno(file);
    bytes[69999] = 9;
    f.pickle_name = NULL;
    add_npy(&f, "w.npy", text, bytes, 70000, true);
    source = tf_finish(&f);
    o.r = ck_model_open(&source, &ck_limits_default, NULL, &o.model, &o.err);
    assert_int_equal(o.r, 0);
    assert_int_equal(tf_find(o.model, "w")->error, CK_E_UNSUPPORTED_TENSOR);
    assert_non_null(strstr(tf_find(o.model, "w")->error_message, "scratch file"));
    opened_release(&o);
    o.r = ck_model_open(&source, &ck_limits_default, &options, &o.model, &o.err);
    assert_int_equal(o.r, 0);
    assert_int_equal(tf_find(o.model, "w")->error, 0);
    assert_int_equal(ck_source_read(&o.model->storages[0].source, 69999, &byte, 1, NULL), 0);
    assert_int_equal(byte, 9);
    fclose(file);
    free(bytes);
}

static void objects_in_a_zip_of_arrays_are_named_below_their_entry(void **state) {
    _cleanup_(tf_release) struct torch_file inner;
    FILE_AND_RESULT;

    object_pickle(&inner);
    f.pickle_name = NULL;
    add_npy(&f, "o.npy", object_text, inner.pickle.data, inner.pickle.length, true);
    add_npy(&f, "x.npy", vector_text, vector, sizeof(vector), false);
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 2);
    assert_true(first_of(&o, "x") == 1.0f && first_of(&o, "o.0.w") == 5.0f);
}

static void objects_that_would_call_something_are_reported_also_when_they_hold_nothing(void **state) {
    static const char pickle[] = "\x80\x02"
                                 "cposix\nsystem\nX\4\0\0\0true\x85R.";
    FILE_AND_RESULT;

    f.pickle_name = NULL;
    add_npy(&f, "o.npy", object_text, pickle, sizeof(pickle) - 1, false);
    o = tf_open(&f);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS), 1);
    assert_string_equal(o.model->findings.items[0].entry, "o.npy");
}

static void arrays_have_no_paths_to_choose(void **state) {
    FILE_AND_RESULT;

    f.pickle_name = NULL;
    add_npy(&f, "x.npy", vector_text, vector, sizeof(vector), false);
    o = tf_open_with(&f, &ck_limits_default, "model");
    assert_int_equal(o.r, CK_E_STATE_DICT_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_behind_the_weights_changes_no_names),
        cmocka_unit_test(weights_behind_a_log_are_named_by_their_number),
        cmocka_unit_test(arrays_dumped_one_by_one_are_one_set),
        cmocka_unit_test(two_sets_are_asked_about_and_can_be_named),
        cmocka_unit_test(the_memo_ends_with_its_pickle),
        cmocka_unit_test(pickles_are_counted),
        cmocka_unit_test(bytes_behind_the_last_pickle_are_a_finding),
        cmocka_unit_test(a_file_cut_inside_its_last_pickle_is_refused),
        cmocka_unit_test(no_cut_pickle_is_taken_for_a_whole_one),
        cmocka_unit_test(long_arrays_do_not_count_as_bytes_of_the_pickle),
        cmocka_unit_test(findings_of_every_pickle_are_kept),
        cmocka_unit_test(a_storage_that_no_file_holds_is_a_fault_of_its_tensor),
        cmocka_unit_test(a_single_array_is_called_value),
        cmocka_unit_test(a_cut_array_is_a_fault_and_a_long_one_a_finding),
        cmocka_unit_test(an_array_of_objects_is_the_pickle_behind_its_header),
        cmocka_unit_test(a_zip_of_arrays_names_them_without_their_ending),
        cmocka_unit_test(large_deflated_arrays_need_the_scratch_file),
        cmocka_unit_test(objects_in_a_zip_of_arrays_are_named_below_their_entry),
        cmocka_unit_test(objects_that_would_call_something_are_reported_also_when_they_hold_nothing),
        cmocka_unit_test(arrays_have_no_paths_to_choose),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
