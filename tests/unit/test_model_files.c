/* Real checkpoints: every tensor's path, dtype, shape, stride, offset and bytes against a manifest made with torch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include <jansson.h>
#include <openssl/evp.h>

#include "core/model/model.h"

static char folder[512];

static bool find_folder(void) {
    const char *shared = getenv("CKPTD_SHARED");

    snprintf(folder, sizeof(folder), "%s/checkpoints", shared ? shared : "../shared");
    return access(folder, R_OK) == 0;
}

static json_t *load_manifest(void) {
    char path[600];

    snprintf(path, sizeof(path), "%s/manifest.json", folder);
    return json_load_file(path, 0, NULL);
}

static const char *text_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);

    return value ? json_string_value(value) : "";
}

/* The file behind `scratch` is closed by the caller. */
static int open_file(const char *name, struct ck_scratch *scratch, struct ck_model **ret_model,
                     struct ck_source *source, struct ck_error *err) {
    struct ck_model_options options = {.scratch = scratch};
    char path[900];

    snprintf(path, sizeof(path), "%s/files/%s", folder, name);
    source->fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(source->fd >= 0);
    assert_int_equal(ck_source_from_fd(source->fd, source, err), 0);
    *scratch =
        (struct ck_scratch){.fd = memfd_create("scratch", MFD_CLOEXEC), .limit = ck_limits_default.unpacked_bytes};
    assert_true(scratch->fd >= 0);
    return ck_model_open(source, &ck_limits_default, &options, ret_model, err);
}

static void swap_units(uint8_t *element, unsigned size, unsigned unit) {
    for (unsigned at = 0; at < size; at += unit)
        for (unsigned i = 0; i < unit / 2; i++) {
            uint8_t byte = element[at + i];

            element[at + i] = element[at + unit - 1 - i];
            element[at + unit - 1 - i] = byte;
        }
}

/* Element by element, with an odometer: slow, and nothing like the executor. */
static void digest_view(const struct ck_model *model, const struct ck_tensor *tensor, char hex[65]) {
    const struct ck_dtype_row *row = ck_dtype_row(tensor->view.dtype);
    const struct ck_storage *storage = &model->storages[tensor->storage];
    uint8_t *bytes = malloc((size_t)storage->source.length + 1), digest[32];
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    int64_t index[CK_RANK_MAX] = {0};
    uint64_t n = ck_view_numel(&tensor->view);

    assert_int_equal(ck_source_read(&storage->source, 0, bytes, (size_t)storage->source.length, NULL), 0);
    EVP_DigestInit_ex(sha, EVP_sha256(), NULL);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = tensor->view.offset;
        uint8_t element[16];

        for (uint32_t d = 0; d < tensor->view.rank; d++)
            at += (uint64_t)(index[d] * tensor->view.stride[d]);
        memcpy(element, bytes + at * row->size, row->size);
        if (storage->swap)
            swap_units(element, row->size, row->unit);
        EVP_DigestUpdate(sha, element, row->size);
        for (uint32_t d = tensor->view.rank; d-- > 0;) {
            if (++index[d] < tensor->view.shape[d])
                break;
            index[d] = 0;
        }
    }
    EVP_DigestFinal_ex(sha, digest, NULL);
    EVP_MD_CTX_free(sha);
    free(bytes);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static const struct ck_tensor *find_tensor(const struct ck_model *model, const char *path, bool *ret_inside) {
    *ret_inside = true;
    for (uint32_t i = 0; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i].path, path) == 0)
            return &model->tensors[i];
    *ret_inside = false;
    for (uint32_t i = 0; i < model->n_outside; i++)
        if (strcmp(model->outside[i].path, path) == 0)
            return &model->outside[i];
    return NULL;
}

static void compare_ints(const json_t *expected, uint32_t n, const int64_t *items) {
    if (!expected)
        return;
    assert_int_equal(json_array_size(expected), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(json_integer_value(json_array_get(expected, i)), items[i]);
}

/* Of a quantized tensor the manifest has the codes. */
static void compare_quantizer(const struct ck_tensor *tensor, const json_t *expected) {
    assert_int_equal(tensor->quantizer != NULL, json_object_get(expected, "qscheme") != NULL);
    assert_string_equal(ck_dtype_row(tensor->view.dtype)->torch, text_of(expected, "dtype"));
    if (!tensor->quantizer)
        return;
    assert_string_equal(text_of(expected, "qscheme"), "per_tensor_affine");
    assert_true(tensor->quantizer->scale == json_real_value(json_object_get(expected, "scale")));
}

static void compare_tensor(const struct ck_model *model, const json_t *expected) {
    const char *path = text_of(expected, "name");
    const struct ck_tensor *tensor;
    bool inside;
    char hex[65];

    tensor = find_tensor(model, path, &inside);
    if (!tensor)
        print_error("no tensor %s\n", path);
    assert_non_null(tensor);
    if (tensor->error != 0)
        fail_msg("%s: %s", path, tensor->error_message);
    compare_quantizer(tensor, expected);
    compare_ints(json_object_get(expected, "shape"), tensor->view.rank, tensor->view.shape);
    compare_ints(json_object_get(expected, "stride"), tensor->view.rank, tensor->view.stride);
    if (json_object_get(expected, "offset"))
        assert_int_equal(json_integer_value(json_object_get(expected, "offset")), tensor->view.offset);
    /* A tensor that is a plain attribute of a module (schnetpack's `cutoff`) is required by the manifest, but
     * state_dict() has it not. */
    if (json_is_true(json_object_get(expected, "required")) && model->n_modules == 0)
        assert_true(inside);
    if (!text_of(expected, "sha256")[0])
        return;
    digest_view(model, tensor, hex);
    assert_string_equal(hex, text_of(expected, "sha256"));
}

/* What the manifest has beside the model: views that torch.jit makes of an LSTM's weights again, the optimizer in
 * another file of the archive. */
static bool is_beside(const json_t *file, const json_t *tensor) {
    const char *name = text_of(file, "name"), *path = text_of(tensor, "name");

    return (strcmp(name, "unitree_g1_motion.pt") == 0 && strncmp(path, "memory._flat_weights.", 21) == 0) ||
           (strcmp(name, "sb3_a2c_cartpole.zip") == 0 && strncmp(path, "state.", 6) == 0);
}

static void compare_file(const json_t *file) {
    const json_t *tensors = json_object_get(file, "tensors"), *tensor;
    struct ck_scratch scratch;
    unsigned beside = 0;
    _cleanup_(ck_model_freep) struct ck_model *model = NULL;
    struct ck_source source = {.fd = -1};
    struct ck_error err = {0};
    size_t i;

    if (open_file(text_of(file, "name"), &scratch, &model, &source, &err) < 0)
        fail_msg("%s: %s", text_of(file, "name"), err.message);
    print_message("   %s: %u tensors at \"%s\" (%s), %u outside, %u modules\n", text_of(file, "name"), model->n_tensors,
                  model->root_path, model->root_why, model->n_outside, model->n_modules);
    json_array_foreach(tensors, i, tensor) {
        if (is_beside(file, tensor))
            beside++;
        else
            compare_tensor(model, tensor);
    }
    assert_int_equal(model->n_tensors + model->n_outside, json_array_size(tensors) - beside);
    close(source.fd);
    close(scratch.fd);
}

static bool is_read(const json_t *file) {
    return strcmp(text_of(file, "expect"), "tensors") == 0;
}

static void real_files_give_every_tensor_of_the_manifest(void **state) {
    json_t *manifest, *file;
    unsigned read = 0;
    size_t i;

    (void)state;
    if (!find_folder()) {
        print_message("skipped: there is no folder %s\n", folder);
        skip();
    }
    manifest = load_manifest();
    assert_non_null(manifest);
    json_array_foreach(json_object_get(manifest, "files"), i, file) {
        if (!is_read(file))
            continue;
        compare_file(file);
        read++;
    }
    assert_true(read >= 60);
    json_decref(manifest);
}

static void files_without_weights_are_refused_by_name(void **state) {
    json_t *manifest, *file;
    size_t i;

    (void)state;
    if (!find_folder()) {
        print_message("skipped: there is no folder %s\n", folder);
        skip();
    }
    manifest = load_manifest();
    assert_non_null(manifest);
    json_array_foreach(json_object_get(manifest, "files"), i, file) {
        _cleanup_(ck_model_freep) struct ck_model *model = NULL;
        struct ck_source source = {.fd = -1};
        struct ck_scratch scratch;
        struct ck_error err = {0};
        int r;

        if (is_read(file) || strstr(text_of(file, "expect"), "or read through"))
            continue;
        r = open_file(text_of(file, "name"), &scratch, &model, &source, &err);
        print_message("   %s: %s: %s\n", text_of(file, "name"), ck_error_row(r)->name, err.message);
        assert_true(r < 0);
        assert_int_equal(err.code, r);
        assert_true(err.message[0] != 0);
        assert_int_not_equal(r, CK_E_INTERNAL);
        if (strcmp(text_of(file, "expect"), "findings") == 0) {
            assert_non_null(model);
            assert_true(model->findings.count > 0);
        }
        close(source.fd);
        close(scratch.fd);
    }
    json_decref(manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_files_give_every_tensor_of_the_manifest),
        cmocka_unit_test(files_without_weights_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
