/* The scanner of TorchScript sources, and the configurations of exported programs: text that a stranger wrote.
 *
 * The first byte says what the rest is: '{' begins a configuration, anything else a source. */
#include <string.h>

#include "core/model/payload_config.h"
#include "core/model/torchscript_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds)
        __builtin_trap();
}

static void check_class(const struct ck_script_code *code, const struct ck_script_class *class_) {
    check(ck_script_code_find(code, class_->name) != NULL && strncmp(class_->name, "__torch__.", 10) == 0);
    for (uint32_t i = 0; i < class_->n_finals; i++) {
        const struct ck_attribute *attribute = &class_->finals[i];

        check(attribute->name[0] != 0);
        check(attribute->kind != CK_ATTRIBUTE_TEXT || strlen(attribute->text) < SIZE_MAX);
        for (uint32_t k = 0; attribute->kind == CK_ATTRIBUTE_INTS && k < attribute->ints.count; k++)
            check(attribute->ints.items[k] <= INT64_MAX);
    }
}

static void read_source(const char *text, size_t n) {
    struct ck_script_code code;
    struct ck_arena arena;
    struct ck_error err = {0};
    int r;

    ck_arena_init(&arena, 1 << 20);
    ck_script_code_init(&code, &arena);
    r = ck_script_code_add(&code, "__torch__", text, n, &err);
    check(r == 0 || r == CK_E_OUT_OF_MEMORY);
    for (uint32_t i = 0; i < code.n_classes; i++)
        check_class(&code, &code.classes[i]);
    ck_script_code_release(&code);
    ck_arena_release(&arena);
}

static int check_payload(void *ctx, const struct ck_payload *payload, struct ck_error *err) {
    enum ck_dtype dtype;
    int *count = ctx;

    check(payload->name && payload->path && payload->n_sizes <= CK_RANK_MAX && payload->n_strides <= CK_RANK_MAX);
    for (uint32_t i = 0; i < payload->n_sizes; i++)
        check(payload->sizes[i] >= 0);
    check(!ck_payload_dtype(payload->dtype, &dtype) || ck_dtype_row(dtype)->size > 0);
    check((ck_payload_layout(payload->layout) == NULL) == (payload->layout == CK_PAYLOAD_STRIDED));
    return ++*count > 1000 ? ck_error_set(err, CK_E_TENSOR_LIMIT, NULL, "enough") : 0;
}

static void read_config(const uint8_t *data, size_t size) {
    struct ck_source source = ck_source_from_memory(data, size);
    struct ck_error err = {0};
    int count = 0, r;

    r = ck_payload_config_read(&source, "config.json", &ck_limits_default, check_payload, &count, &err);
    check(r == err.code && (r == 0 || err.message[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* A copy without a NUL behind it: reading past the end must be seen. */
    char *text = malloc(size + (size == 0));

    if (text && size > 0)
        memcpy(text, data, size);
    if (text && size > 0 && data[0] == '{')
        read_config(data, size);
    else if (text)
        read_source(text, size);
    free(text);
    return 0;
}
