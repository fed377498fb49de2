/* Arrays of numpy in pickles: every spelling of their bytes, the choice beside tensors, joblib, nested torch streams.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/numpy_file.h"

#define FILE_AND_RESULT                                                                                                \
    _cleanup_(tf_release) struct torch_file f;                                                                         \
    _cleanup_(opened_release) struct opened o = {0};                                                                   \
    (void)state;                                                                                                       \
    tf_init(&f)

static const float floats[6] = {1, 2, 3, 4, 5, 6};
static const int64_t two_by_three[2] = {2, 3};

static void key(struct torch_file *f, const char *name) {
    tf_text(f, name);
}

static void expect_fault(const struct opened *o, const char *name, int code, const char *words) {
    const struct ck_tensor *tensor = tf_find(o->model, name);

    assert_non_null(tensor);
    assert_int_equal(tensor->error, code);
    if (!strstr(tensor->error_message, words))
        fail_msg("\"%s\" is not in \"%s\"", words, tensor->error_message);
}

static void expect_floats(const struct opened *o, const char *name, const float *values, size_t n) {
    const struct ck_tensor *tensor = tf_find(o->model, name);
    float read[64];

    assert_non_null(tensor);
    if (tensor->error)
        fail_msg("%s: %s", name, tensor->error_message);
    assert_int_equal(tensor->view.dtype, CK_F32);
    nf_read(o->model, tensor, read, n * sizeof(*read));
    assert_memory_equal(read, values, n * sizeof(*read));
}

static void array_is_a_view_of_the_bytes_in_the_file(void **state) {
    const struct ck_tensor *tensor;
    FILE_AND_RESULT;

    tf_op(&f, "}");
    key(&f, "w");
    nf_array(&f, "f4", "<", 2, two_by_three, false, floats, sizeof(floats));
    tf_op(&f, "s");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_string_equal(o.model->form, "pickle");
    expect_floats(&o, "w", floats, 6);
    tensor = tf_find(o.model, "w");
    assert_int_equal(tensor->view.rank, 2);
    assert_int_equal(tensor->view.shape[1], 3);
    assert_int_equal(tensor->view.stride[0], 3);
    assert_int_equal(tensor->view.stride[1], 1);
    /* A part of the file, not a copy of it. */
    assert_true(o.model->storages[tensor->storage].source.memory > (const uint8_t *)f.pickle.data &&
                o.model->storages[tensor->storage].source.memory < (const uint8_t *)f.pickle.data + f.pickle.length);
}

static void fortran_order_becomes_strides_and_big_endian_a_swap(void **state) {
    const struct ck_tensor *tensor;
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "f");
    nf_array(&f, "f4", "<", 2, two_by_three, true, floats, sizeof(floats));
    key(&f, "be");
    nf_array(&f, "i2", ">", 1, (const int64_t[]){2}, false, "\0\1\0\2", 4);
    tf_op(&f, "u");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    tensor = tf_find(o.model, "f");
    assert_int_equal(tensor->view.stride[0], 1);
    assert_int_equal(tensor->view.stride[1], 2);
    assert_false(o.model->storages[tensor->storage].swap);
    tensor = tf_find(o.model, "be");
    assert_int_equal(tensor->view.dtype, CK_I16);
    assert_true(o.model->storages[tensor->storage].swap);
}

/* What Python 3 makes of bytes at protocols 0 to 2: 0x80 and above are two bytes of UTF-8. */
static void encoded_text(struct torch_file *f, const uint8_t *bytes, size_t n, const char *encoding) {
    uint8_t *text = malloc(2 * n);
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        if (bytes[i] >= 0x80)
            text[used++] = (uint8_t)(0xC0 | bytes[i] >> 6);
        text[used++] = bytes[i] >= 0x80 ? (uint8_t)(0x80 | (bytes[i] & 0x3F)) : bytes[i];
    }
    tf_global(f, "_codecs", "encode");
    tf_text_n(f, (const char *)text, used);
    tf_text(f, encoding);
    tf_op(f, "\x86R");
    free(text);
}

static void text_in_latin_1_stands_for_bytes(void **state) {
    static const uint8_t bytes[8] = {0, 0x7F, 0x80, 0xBF, 0xC0, 0xFF, 1, 0xE9};
    uint8_t read[8];
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "w");
    nf_begin(&f, "u1", "|", 1, (const int64_t[]){8}, false);
    encoded_text(&f, bytes, sizeof(bytes), "latin1");
    nf_end(&f);
    key(&f, "beyond");
    nf_begin(&f, "u1", "|", 1, (const int64_t[]){1}, false);
    tf_global(&f, "_codecs", "encode");
    tf_text(&f, "\xE2\x82\xAC");
    tf_text(&f, "latin1");
    tf_op(&f, "\x86R");
    nf_end(&f);
    key(&f, "half");
    nf_begin(&f, "u1", "|", 1, (const int64_t[]){1}, false);
    tf_global(&f, "_codecs", "encode");
    tf_text(&f, "\xC3");
    tf_text(&f, "latin1");
    tf_op(&f, "\x86R");
    nf_end(&f);
    key(&f, "utf");
    nf_begin(&f, "u1", "|", 1, (const int64_t[]){1}, false);
    encoded_text(&f, bytes, 1, "utf-8");
    nf_end(&f);
    tf_op(&f, "u");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(tf_find(o.model, "w")->error, 0);
    nf_read(o.model, tf_find(o.model, "w"), read, sizeof(read));
    assert_memory_equal(read, bytes, sizeof(bytes));
    expect_fault(&o, "beyond", CK_E_UNSUPPORTED_TENSOR, "no latin-1 text");
    expect_fault(&o, "half", CK_E_UNSUPPORTED_TENSOR, "no latin-1 text");
    expect_fault(&o, "utf", CK_E_UNSUPPORTED_TENSOR, "a call that is not known");
}

static void long_text(struct torch_file *f, uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 7);
    tf_op(f, "}");
    key(f, "w");
    nf_begin(f, "u1", "|", 1, (const int64_t[]){(int64_t)n}, false);
    encoded_text(f, bytes, n, "latin1");
    nf_end(f);
    tf_op(f, "s.");
}

static void long_text_goes_into_the_scratch_file(void **state) {
    struct ck_scratch scratch = {.limit = CK_GIB};
    struct ck_model_options options = {.scratch = &scratch};
    uint8_t *bytes = malloc(200001), *read = malloc(200001);
    FILE *file = tmpfile();
    FILE_AND_RESULT;

    scratch.fd = fileno(file);
    long_text(&f, bytes, 200001);
    o = nf_open(&f, &ck_limits_default, &options);
    assert_int_equal(o.r, 0);
    assert_int_equal(tf_find(o.model, "w")->error, 0);
    nf_read(o.model, tf_find(o.model, "w"), read, 200001);
    assert_memory_equal(read, bytes, 200001);
    assert_int_equal(scratch.used, 200001);
    opened_release(&o);
    scratch = (struct ck_scratch){.fd = fileno(file), .limit = 1000};
    o = nf_open(&f, &ck_limits_default, &options);
    assert_int_equal(o.r, CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-unpacked-bytes"));
    opened_release(&o);
    o = nf_open(&f, &ck_limits_default, NULL);
    assert_int_equal(o.r, 0);
    expect_fault(&o, "w", CK_E_UNSUPPORTED_TENSOR, "scratch file");
    fclose(file);
    free(bytes);
    free(read);
}

/* Each array asks for the bytes anew: a file of n bytes could want n * n of them. */
static void a_text_that_many_arrays_share_is_copied_twice_at_most(void **state) {
    static const uint8_t bytes[4000];
    unsigned read = 0;
    FILE_AND_RESULT;

    tf_op(&f, "(");
    encoded_text(&f, bytes, sizeof(bytes), "latin1");
    tf_put(&f, 1);
    tf_op(&f, "0]"); /* in place of the text */
    tf_op(&f, "(");
    for (unsigned i = 0; i < 20; i++) {
        nf_begin(&f, "u1", "|", 1, (const int64_t[]){sizeof(bytes)}, false);
        tf_get(&f, 1);
        nf_end(&f);
    }
    tf_op(&f, "e");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 20);
    for (unsigned i = 0; i < 20; i++)
        read += o.model->tensors[i].error == 0;
    assert_in_range(read, 1, 8);
    expect_fault(&o, "19", CK_E_UNSUPPORTED_TENSOR, "stands for many arrays");
}

static void python_2_strings_are_bytes(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "]");
    nf_begin(&f, "f4", "<", 1, (const int64_t[]){6}, false);
    tf_op(&f, "U");
    tf_raw(&f, "\x18", 1);
    tf_raw(&f, floats, sizeof(floats));
    nf_end(&f);
    tf_op(&f, "a");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    expect_floats(&o, "0", floats, 6);
}

static void arrays_of_protocol_5_may_have_moved_axes(void **state) {
    const struct ck_tensor *tensor;
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "k");
    tf_global(&f, "numpy._core.numeric", "_frombuffer");
    tf_op(&f, "(");
    nf_bytes(&f, floats, sizeof(floats));
    nf_dtype(&f, "f4", "<");
    tf_ints(&f, 2, two_by_three);
    tf_text(&f, "K");
    tf_ints(&f, 2, (const int64_t[]){1, 0});
    tf_op(&f, "tR");
    key(&f, "bad");
    tf_global(&f, "numpy._core.numeric", "_frombuffer");
    tf_op(&f, "(");
    nf_bytes(&f, floats, sizeof(floats));
    nf_dtype(&f, "f4", "<");
    tf_ints(&f, 2, two_by_three);
    tf_text(&f, "K");
    tf_ints(&f, 2, (const int64_t[]){1, 1});
    tf_op(&f, "tR");
    key(&f, "apart");
    tf_global(&f, "numpy._core.numeric", "_frombuffer");
    tf_op(&f, "(\x97");
    nf_dtype(&f, "f4", "<");
    tf_ints(&f, 2, two_by_three);
    tf_text(&f, "C");
    tf_op(&f, "tRu");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    expect_floats(&o, "k", floats, 6);
    tensor = tf_find(o.model, "k");
    assert_int_equal(tensor->view.shape[0], 3);
    assert_int_equal(tensor->view.stride[0], 1);
    assert_int_equal(tensor->view.shape[1], 2);
    assert_int_equal(tensor->view.stride[1], 3);
    expect_fault(&o, "bad", CK_E_UNSUPPORTED_TENSOR, "no permutation");
    expect_fault(&o, "apart", CK_E_UNSUPPORTED_TENSOR, "not in the file");
}

static void what_no_tensor_can_hold_is_a_fault_of_that_array_alone(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "w");
    nf_vector(&f, 1, 6);
    key(&f, "text");
    nf_array(&f, "U2", "<", 1, (const int64_t[]){1}, false, "a\0\0\0b\0\0\0", 8);
    key(&f, "dates");
    nf_array(&f, "M8", "<", 1, (const int64_t[]){1}, false, "\0\0\0\0\0\0\0\0", 8);
    key(&f, "long");
    nf_array(&f, "f4", "<", 1, (const int64_t[]){5}, false, floats, sizeof(floats));
    key(&f, "short");
    nf_array(&f, "f4", "<", 1, (const int64_t[]){7}, false, floats, sizeof(floats));
    key(&f, "wraps");
    nf_array(&f, "f4", "<", 2, (const int64_t[]){INT64_MAX, 2}, false, floats, sizeof(floats));
    key(&f, "negative");
    nf_array(&f, "f4", "<", 1, (const int64_t[]){-6}, false, floats, sizeof(floats));
    key(&f, "masked");
    tf_global(&f, "numpy.ma.core", "_mareconstruct");
    tf_op(&f, ")R");
    key(&f, "bare");
    tf_global(&f, "numpy.core.multiarray", "_reconstruct");
    tf_op(&f, ")Ru");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    expect_floats(&o, "w", floats, 6);
    expect_fault(&o, "text", CK_E_UNSUPPORTED_DTYPE, "text (numpy's kind U, 8 bytes each)");
    expect_fault(&o, "dates", CK_E_UNSUPPORTED_DTYPE, "dates");
    expect_fault(&o, "long", CK_E_UNSUPPORTED_TENSOR, "needs 20 bytes, and it has 24");
    expect_fault(&o, "short", CK_E_TENSOR_OUT_OF_BOUNDS, "28 bytes of its storage, which has 24");
    expect_fault(&o, "wraps", CK_E_UNSUPPORTED_TENSOR, "more elements than can be");
    expect_fault(&o, "negative", CK_E_UNSUPPORTED_TENSOR, "no tuple of sizes");
    expect_fault(&o, "masked", CK_E_UNSUPPORTED_TENSOR, "a masked numpy array");
    expect_fault(&o, "bare", CK_E_UNSUPPORTED_TENSOR, "without content");
}

static void dimensions_are_bounded_by_their_limit(void **state) {
    struct ck_limits limits = ck_limits_default;
    FILE_AND_RESULT;

    nf_array(&f, "f4", "<", 3, (const int64_t[]){1, 1, 6}, false, floats, sizeof(floats));
    tf_op(&f, ".");
    limits.dims = 3;
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, 0);
    opened_release(&o);
    limits.dims = 2;
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, CK_E_TENSOR_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-dims"));
}

static void an_array_of_objects_is_the_list_of_its_elements(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "o");
    nf_begin(&f, "O8", "|", 1, (const int64_t[]){2}, false);
    tf_op(&f, "](");
    nf_vector(&f, 1, 6);
    tf_text(&f, "name");
    tf_op(&f, "e");
    nf_end(&f);
    key(&f, "names");
    nf_begin(&f, "O8", "|", 1, (const int64_t[]){1}, false);
    tf_op(&f, "]");
    tf_text(&f, "name");
    tf_op(&f, "a");
    nf_end(&f);
    tf_op(&f, "u");
    o = nf_open_plain(&f, ".");
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    expect_floats(&o, "o.0", floats, 6);
}

static void arrays_do_not_change_the_choice_among_tensors(void **state) {
    static const float zeros[64];
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "actor");
    tf_tree(&f, "{net.w:T4}");
    key(&f, "replay");
    nf_vector(&f, 1, 40);
    key(&f, "mean");
    nf_vector(&f, 1, 6);
    tf_op(&f, "u");
    tf_record(&f, "0", zeros, sizeof(zeros));
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_string_equal(o.model->root_path, "actor");
    assert_int_equal(o.model->n_tensors, 1);
    assert_int_equal(o.model->n_outside, 2);
    assert_non_null(nf_outside(o.model, "replay"));
}

static void arrays_beside_tensors_in_the_chosen_set_are_taken_along(void **state) {
    static const float zeros[64];
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "w");
    tf_vector(&f, "0", 4);
    key(&f, "n");
    nf_vector(&f, 1, 6);
    tf_op(&f, "u");
    tf_record(&f, "0", zeros, sizeof(zeros));
    f.deflate_pickle = true; /* its memory is gone when the model is read */
    o = tf_open(&f);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 2);
    expect_floats(&o, "n", floats, 6);
}

static void arrays_in_an_optimizer_and_random_states_stay_outside(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "params");
    tf_op(&f, "}");
    key(&f, "a.w");
    nf_vector(&f, 1, 6);
    tf_op(&f, "s");
    key(&f, "optimizer");
    tf_op(&f, "}");
    key(&f, "m");
    nf_vector(&f, 1, 60);
    tf_op(&f, "s");
    key(&f, "numpy_state");
    tf_op(&f, "(");
    tf_text(&f, "MT19937");
    nf_vector(&f, 1, 600);
    tf_op(&f, "tu");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    expect_floats(&o, "a.w", floats, 6);
    assert_int_equal(o.model->n_outside, 2);
    assert_non_null(nf_outside(o.model, "numpy_state.1"));
}

static void object_with_array(struct torch_file *f) {
    tf_global(f, "sklearn.linear_model", "Ridge");
    tf_op(f, ")\x81}");
    tf_text(f, "coef_");
    nf_vector(f, 1, 6);
    tf_op(f, "sb");
}

static void attributes_of_objects_are_weights_only_on_request(void **state) {
    FILE_AND_RESULT;

    object_with_array(&f);
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_NO_TENSORS);
    assert_non_null(strstr(o.err.message, "1 numpy arrays, which are attributes of objects"));
    assert_non_null(strstr(o.err.hint, "state_dict=."));
    opened_release(&o);
    o = nf_open(&f, &ck_limits_default, &(struct ck_model_options){.state_dict = "."});
    assert_int_equal(o.r, 0);
    expect_floats(&o, "coef_", floats, 6);
}

static void numpy_scalars_are_no_tensors(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "lr");
    tf_global(&f, "numpy.core.multiarray", "scalar");
    nf_dtype(&f, "f4", "<");
    nf_bytes(&f, floats, 4);
    tf_op(&f, "\x86R");
    key(&f, "w");
    nf_vector(&f, 1, 6);
    tf_op(&f, "u");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.model->n_tensors, 1);
    assert_int_equal(o.model->n_outside, 0);
}

/* ---- joblib ---- */

/* The wrapper, up to and with the BUILD behind which the array lies. */
static void joblib_wrapper(struct torch_file *f, const char *type, int64_t n, bool aligned) {
    tf_global(f, "joblib.numpy_pickle", "NumpyArrayWrapper");
    tf_op(f, ")\x81}(");
    tf_text(f, "subclass");
    tf_global(f, "numpy", "ndarray");
    tf_text(f, "shape");
    tf_ints(f, 1, &n);
    tf_text(f, "order");
    tf_text(f, "C");
    tf_text(f, "dtype");
    nf_dtype(f, type, "<");
    if (aligned) {
        tf_text(f, "numpy_array_alignment_bytes");
        tf_int(f, 16);
    }
    tf_op(f, "ub");
}

static void raw_arrays_of_joblib_are_passed_over_and_read(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "w");
    joblib_wrapper(&f, "f4", 6, true);
    tf_raw(&f, "\3\xFF\xFF\xFF", 4);
    tf_raw(&f, floats, sizeof(floats));
    key(&f, "old");
    joblib_wrapper(&f, "f4", 6, false);
    tf_raw(&f, floats, sizeof(floats));
    key(&f, "objects");
    joblib_wrapper(&f, "O8", 2, true);
    tf_raw(&f, "\x80\x02]cposix\nsystem\nX\0\0\0\0\x85Ra.", 26);
    key(&f, "z");
    nf_vector(&f, 1, 6);
    tf_op(&f, "u");
    o = nf_open_plain(&f, NULL);
    if (o.r < 0)
        fail_msg("%s", o.err.message);
    expect_floats(&o, "w", floats, 6);
    expect_floats(&o, "old", floats, 6);
    expect_floats(&o, "z", floats, 6);
    expect_fault(&o, "objects", CK_E_UNSUPPORTED_DTYPE, "Python objects");
    assert_true(nf_has_finding(o.model, "between two opcodes, as joblib writes it"));
    /* Also what the pickle of the objects would have called. */
    assert_int_equal(ck_findings_count(&o.model->findings, CK_FINDING_DANGEROUS), 1);
}

static void a_wrapper_of_joblib_that_lies_about_its_size_is_refused(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}");
    key(&f, "w");
    joblib_wrapper(&f, "f4", INT64_MAX, true);
    tf_raw(&f, "\0", 1);
    tf_raw(&f, floats, sizeof(floats));
    tf_op(&f, "s");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_PICKLE_CORRUPT);
    assert_non_null(strstr(o.err.message, "does not tell its shape and dtype"));
    opened_release(&o);
    tf_release(&f);
    tf_init(&f);
    tf_op(&f, "}");
    key(&f, "w");
    joblib_wrapper(&f, "f4", 100, true);
    tf_raw(&f, "\0", 1);
    tf_raw(&f, floats, sizeof(floats));
    tf_op(&f, "s");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, CK_E_TRUNCATED);
}

static void pickles_in_pickles_of_joblib_are_bounded_by_nesting(void **state) {
    struct ck_limits limits = ck_limits_default;
    FILE_AND_RESULT;

    tf_op(&f, "](");
    joblib_wrapper(&f, "O8", 2, true);
    tf_raw(&f, "\x80\x02](", 4);
    joblib_wrapper(&f, "O8", 2, true);
    tf_raw(&f, "\x80\x02].", 4);
    tf_op(&f, "e.");
    nf_vector(&f, 1, 6);
    tf_op(&f, "e.");
    o = nf_open(&f, &limits, NULL);
    if (o.r < 0)
        fail_msg("%s", o.err.message);
    opened_release(&o);
    limits.nesting = 2;
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, 0);
    opened_release(&o);
    limits.nesting = 1;
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, CK_E_PICKLE_LIMIT);
    assert_non_null(strstr(o.err.message, "--limit-nesting"));
}

/* ---- nested streams ---- */

static struct ck_buffer stream_of(const char *class_, int64_t numel, const void *bytes, size_t n) {
    struct ck_buffer stream;
    struct torch_file f;
    uint8_t head[] = "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19.\x80\x02M\xE9\x03.\x80\x02}.";

    tf_init(&f);
    f.pickle.length = 0;
    tf_raw(&f, head, sizeof(head) - 1);
    tf_raw(&f, "\x80\x02", 2);
    tf_storage(&f, class_, "94", numel);
    tf_op(&f, ".");
    tf_raw(&f, "\x80\x02]", 3);
    tf_text(&f, "94");
    tf_op(&f, "a.");
    tf_raw(&f, &numel, 8);
    tf_raw(&f, bytes, n);
    stream = f.pickle;
    ck_buffer_init(&f.pickle, 0);
    tf_release(&f);
    return stream;
}

/* _rebuild_tensor_v2(_load_from_bytes(stream), 1, (n,), (1,), False, {}) */
static void nested_tensor(struct torch_file *f, const void *stream, size_t length, int64_t n) {
    tf_global(f, "torch._utils", "_rebuild_tensor_v2");
    tf_op(f, "(");
    tf_global(f, "torch.storage", "_load_from_bytes");
    nf_bytes(f, stream, length);
    tf_op(f, "\x85R");
    tf_int(f, 1);
    tf_ints(f, 1, &n);
    tf_ints(f, 1, (const int64_t[]){1});
    tf_op(f, "\x89}tR");
}

static void a_storage_in_a_stream_of_its_own_is_read(void **state) {
    struct ck_buffer stream = stream_of("FloatStorage", 6, floats, sizeof(floats));
    struct ck_limits limits = ck_limits_default;
    const struct ck_tensor *tensor;
    float read[5];
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "w");
    nested_tensor(&f, stream.data, stream.length, 5);
    key(&f, "past");
    nested_tensor(&f, stream.data, stream.length, 6);
    tf_op(&f, "u.");
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, 0);
    tensor = tf_find(o.model, "w");
    assert_int_equal(tensor->error, 0);
    assert_int_equal(tensor->view.offset, 1);
    assert_int_equal(tensor->view.dtype, CK_F32);
    assert_int_equal(
        ck_source_read(&o.model->storages[tensor->storage].source, 4 * tensor->view.offset, read, sizeof(read), NULL),
        0);
    assert_memory_equal(read, floats + 1, sizeof(read));
    expect_fault(&o, "past", CK_E_TENSOR_OUT_OF_BOUNDS, "28 bytes of its storage, which has 24");
    opened_release(&o);
    limits.nesting = 0;
    o = nf_open(&f, &limits, NULL);
    assert_int_equal(o.r, 0);
    expect_fault(&o, "w", CK_E_UNSUPPORTED_TENSOR, "--limit-nesting");
    ck_buffer_release(&stream);
}

static void no_cut_stream_is_taken_for_a_whole_one(void **state) {
    struct ck_buffer stream = stream_of("FloatStorage", 6, floats, sizeof(floats));

    (void)state;
    for (size_t n = 0; n < stream.length; n++) {
        _cleanup_(tf_release) struct torch_file f;
        _cleanup_(opened_release) struct opened o = {0};

        tf_init(&f);
        tf_op(&f, "}");
        key(&f, "w");
        nested_tensor(&f, stream.data, n, 5);
        tf_op(&f, "s");
        o = nf_open_plain(&f, NULL);
        assert_int_equal(o.r, 0);
        expect_fault(&o, "w", CK_E_UNSUPPORTED_TENSOR, "a stream inside a byte string, wh");
    }
    ck_buffer_release(&stream);
}

static void a_stream_that_contradicts_itself_is_refused(void **state) {
    struct ck_buffer stream = stream_of("FloatStorage", 6, floats, sizeof(floats));
    struct ck_buffer unknown = stream_of("FoldedStorage", 6, floats, sizeof(floats));
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    key(&f, "unknown");
    nested_tensor(&f, unknown.data, unknown.length, 5);
    key(&f, "numel");
    stream.data[stream.length - sizeof(floats) - 8] = 5;
    nested_tensor(&f, stream.data, stream.length, 4);
    tf_op(&f, "u");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    expect_fault(&o, "unknown", CK_E_UNSUPPORTED_TENSOR, "class of storage is not known");
    expect_fault(&o, "numel", CK_E_UNSUPPORTED_TENSOR, "number of elements is not the one");
    ck_buffer_release(&stream);
    ck_buffer_release(&unknown);
}

static void an_array_that_torch_would_cast_is_refused(void **state) {
    FILE_AND_RESULT;

    tf_op(&f, "}(");
    for (int cast = 0; cast < 2; cast++) {
        key(&f, cast ? "cast" : "same");
        tf_global(&f, "torch._utils", "_rebuild_device_tensor_from_numpy");
        tf_op(&f, "(");
        nf_vector(&f, 1, 6);
        tf_global(&f, "torch", cast ? "bfloat16" : "float32");
        tf_text(&f, "xla:0");
        tf_op(&f, "\x89tR");
    }
    tf_op(&f, "u");
    o = nf_open_plain(&f, NULL);
    assert_int_equal(o.r, 0);
    expect_floats(&o, "same", floats, 6);
    expect_fault(&o, "cast", CK_E_UNSUPPORTED_TENSOR, "torch would cast it");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(array_is_a_view_of_the_bytes_in_the_file),
        cmocka_unit_test(fortran_order_becomes_strides_and_big_endian_a_swap),
        cmocka_unit_test(text_in_latin_1_stands_for_bytes),
        cmocka_unit_test(long_text_goes_into_the_scratch_file),
        cmocka_unit_test(a_text_that_many_arrays_share_is_copied_twice_at_most),
        cmocka_unit_test(python_2_strings_are_bytes),
        cmocka_unit_test(arrays_of_protocol_5_may_have_moved_axes),
        cmocka_unit_test(what_no_tensor_can_hold_is_a_fault_of_that_array_alone),
        cmocka_unit_test(dimensions_are_bounded_by_their_limit),
        cmocka_unit_test(an_array_of_objects_is_the_list_of_its_elements),
        cmocka_unit_test(arrays_do_not_change_the_choice_among_tensors),
        cmocka_unit_test(arrays_beside_tensors_in_the_chosen_set_are_taken_along),
        cmocka_unit_test(arrays_in_an_optimizer_and_random_states_stay_outside),
        cmocka_unit_test(attributes_of_objects_are_weights_only_on_request),
        cmocka_unit_test(numpy_scalars_are_no_tensors),
        cmocka_unit_test(raw_arrays_of_joblib_are_passed_over_and_read),
        cmocka_unit_test(a_wrapper_of_joblib_that_lies_about_its_size_is_refused),
        cmocka_unit_test(pickles_in_pickles_of_joblib_are_bounded_by_nesting),
        cmocka_unit_test(a_storage_in_a_stream_of_its_own_is_read),
        cmocka_unit_test(no_cut_stream_is_taken_for_a_whole_one),
        cmocka_unit_test(a_stream_that_contradicts_itself_is_refused),
        cmocka_unit_test(an_array_that_torch_would_cast_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
