/* Layout, headers, shards and verification of the safetensors that are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/output/safetensors_write.h"

#define NO_SHARDS UINT64_MAX

static const struct ck_model no_model;

static struct ck_plan new_plan(void) {
    struct ck_plan plan;

    ck_plan_init(&plan, &no_model, &ck_limits_default);
    plan.arena.limit = (size_t)1 << 30;
    return plan;
}

static void add_out(struct ck_plan *plan, struct ck_plan_item *item, const char *name, const char *dtype, uint64_t size,
                    uint32_t rank, const int64_t *shape) {
    struct ck_out_tensor *out = &item->out[item->n_out++];
    int64_t *copy = ck_arena_alloc_array(&plan->arena, rank, sizeof(*copy));

    assert_non_null(copy);
    *out = (struct ck_out_tensor){.name = name, .dtype = dtype, .rank = rank, .shape = copy, .bytes = size};
    for (uint32_t i = 0; i < rank; i++) {
        copy[i] = shape[i];
        out->bytes *= (uint64_t)shape[i];
    }
}

static void add_vector(struct ck_plan *plan, const char *name, const char *dtype, uint64_t size, int64_t n) {
    struct ck_plan_item *item = ck_plan_add_item(plan);

    assert_non_null(item);
    add_out(plan, item, name, dtype, size, 1, &n);
}

static void lay_out(struct ck_plan *plan, uint64_t max_shard_bytes) {
    struct ck_error err = {0};

    if (ck_safetensors_layout(plan, max_shard_bytes, &err) < 0)
        fail_msg("%s: %s", err.where, err.message);
}

/* The header as JSON; checks the length field and the padding. Owned by the caller. */
static json_t *parse_header(const struct ck_plan_file *file) {
    uint64_t length;
    json_t *header;

    memcpy(&length, file->header, 8);
    assert_int_equal(file->header_bytes, 8 + length);
    assert_int_equal(file->header_bytes % 8, 0);
    header = json_loadb(file->header + 8, length, 0, NULL);
    assert_non_null(header);
    return header;
}

/* The file as planned, its tensors zero. */
static int write_file(const struct ck_plan_file *file) {
    int fd = memfd_create("test", 0);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, file->header, file->header_bytes), file->header_bytes);
    assert_int_equal(ftruncate(fd, (off_t)file->bytes), 0);
    return fd;
}

static void verify_all(const struct ck_plan *plan) {
    for (uint32_t i = 0; i < plan->n_files; i++) {
        _cleanup_(ck_closep) int fd = write_file(&plan->files[i]);
        struct ck_error err = {0};

        if (ck_safetensors_verify(plan, i, fd, &err) < 0)
            fail_msg("%s: %s", err.where, err.message);
    }
}

static void one_file_has_the_exact_header(_unused_ void **state) {
    static const char want[] = "{\"__metadata__\":{\"format\":\"mlx\",\"a\":\"b\"},"
                               "\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                               "\"c\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[32,38]},"
                               "\"d\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[38,39]}}";
    struct ck_plan plan = new_plan();

    assert_true(ck_plan_add_metadata(&plan, "format", "mlx"));
    assert_true(ck_plan_add_metadata(&plan, "a", "b"));
    add_out(&plan, ck_plan_add_item(&plan), "d", "BOOL", 1, 0, NULL);
    add_out(&plan, ck_plan_add_item(&plan), "a", "F32", 4, 2, (int64_t[]){2, 3});
    add_vector(&plan, "c", "F16", 2, 3);
    add_vector(&plan, "b", "I64", 8, 1);
    lay_out(&plan, NO_SHARDS);
    assert_int_equal(plan.n_files, 1);
    assert_string_equal(plan.files[0].name, "model.safetensors");
    json_decref(parse_header(&plan.files[0]));
    assert_memory_equal(plan.files[0].header + 8, want, strlen(want));
    for (size_t i = 8 + strlen(want); i < plan.files[0].header_bytes; i++)
        assert_int_equal(plan.files[0].header[i], ' ');
    assert_int_equal(plan.files[0].bytes, plan.files[0].header_bytes + 39);
    assert_int_equal(plan.items[3].out[0].offset, plan.files[0].header_bytes);
    assert_int_equal(plan.items[0].out[0].offset, plan.files[0].header_bytes + 38);
    verify_all(&plan);
    ck_plan_release(&plan);
}

static void every_tensor_is_aligned_to_its_element(_unused_ void **state) {
    static const struct {
        const char *dtype;
        uint64_t size;
    } types[] = {{"U8", 1}, {"F32", 4}, {"C64", 8}, {"BF16", 2}, {"I64", 8}, {"I8", 1}, {"U32", 4}};
    struct ck_plan plan = new_plan();

    for (size_t i = 0; i < 70; i++) {
        char *name = ck_arena_printf(&plan.arena, "t%zu", i);

        add_vector(&plan, name, types[i % 7].dtype, types[i % 7].size, (int64_t)(i * 3 % 11));
    }
    lay_out(&plan, NO_SHARDS);
    for (size_t i = 0; i < 70; i++)
        assert_int_equal(plan.items[i].out[0].offset % types[i % 7].size, 0);
    verify_all(&plan);
    ck_plan_release(&plan);
}

static void quantized_parts_stay_in_one_shard(_unused_ void **state) {
    struct ck_plan plan = new_plan();
    struct ck_plan_item *item;

    add_vector(&plan, "first", "F32", 4, 10);
    item = ck_plan_add_item(&plan);
    add_out(&plan, item, "q.weight", "U32", 4, 2, (int64_t[]){2, 8});
    add_out(&plan, item, "q.scales", "BF16", 2, 2, (int64_t[]){2, 1});
    add_out(&plan, item, "q.biases", "BF16", 2, 2, (int64_t[]){2, 1});
    lay_out(&plan, 40 + 64);
    assert_int_equal(plan.n_files, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(plan.items[1].out[i].file, 1);
    verify_all(&plan);
    ck_plan_release(&plan);
}

static void shard_of_exactly_the_limit_is_one_and_a_byte_more_is_two(_unused_ void **state) {
    for (uint64_t less = 0; less <= 1; less++) {
        struct ck_plan plan = new_plan();

        add_vector(&plan, "a", "F32", 4, 10);
        add_vector(&plan, "b", "F32", 4, 15);
        lay_out(&plan, 100 - less);
        assert_int_equal(plan.n_files, less ? 3 : 1);
        verify_all(&plan);
        ck_plan_release(&plan);
    }
}

static void shards_have_the_names_and_the_index_of_mlx_lm(_unused_ void **state) {
    static const char index[] = "{\n"
                                "    \"metadata\": {\n"
                                "        \"total_size\": 540\n"
                                "    },\n"
                                "    \"weight_map\": {\n"
                                "        \"a\\\"b\": \"model-00002-of-00003.safetensors\",\n"
                                "        \"m\": \"model-00003-of-00003.safetensors\",\n"
                                "        \"z\": \"model-00001-of-00003.safetensors\"\n"
                                "    }\n"
                                "}";
    struct ck_plan plan = new_plan();
    struct ck_plan_file *before = ck_plan_add_file(&plan);

    *before = (struct ck_plan_file){.name = "config.json", .header = "{}", .header_bytes = 2, .bytes = 2};
    assert_true(ck_plan_add_metadata(&plan, "format", "mlx"));
    add_vector(&plan, "z", "F32", 4, 10);
    add_vector(&plan, "a\"b", "F32", 4, 120); /* larger than a shard: alone */
    add_vector(&plan, "m", "F32", 4, 5);
    lay_out(&plan, 100);
    assert_int_equal(plan.n_files, 5);
    assert_string_equal(plan.files[0].name, "config.json");
    assert_string_equal(plan.files[1].name, "model-00001-of-00003.safetensors");
    assert_string_equal(plan.files[3].name, "model-00003-of-00003.safetensors");
    assert_string_equal(plan.files[4].name, "model.safetensors.index.json");
    assert_string_equal(plan.files[4].header, index);
    assert_int_equal(plan.files[4].bytes, strlen(index));
    assert_int_equal(plan.items[1].out[0].file, 2);
    for (int i = 1; i < 4; i++) {
        json_t *header = parse_header(&plan.files[i]);

        assert_string_equal(json_string_value(json_object_get(json_object_get(header, "__metadata__"), "format")),
                            "mlx");
        json_decref(header);
    }
    verify_all(&plan);
    ck_plan_release(&plan);
}

static void first_tensor_larger_than_a_shard_leaves_no_empty_file(_unused_ void **state) {
    struct ck_plan plan = new_plan();

    add_vector(&plan, "big", "F32", 4, 1000);
    add_vector(&plan, "small", "F32", 4, 1);
    lay_out(&plan, 100);
    assert_int_equal(plan.n_files, 3);
    assert_int_equal(plan.files[0].bytes - plan.files[0].header_bytes, 4000);
    ck_plan_release(&plan);
}

static void names_of_any_bytes_are_escaped_and_verified(_unused_ void **state) {
    static const char *const names[] = {"plain.weight",
                                        "quote\"back\\slash",
                                        "line\nbreak\x01",
                                        "caf\xC3\xA9",
                                        "broken\xFFutf8\xC3",
                                        "\xF0\x9F\x98\x80",
                                        ""};
    struct ck_plan plan = new_plan();
    json_t *header;

    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++)
        add_vector(&plan, names[i], "F32", 4, (int64_t)i);
    lay_out(&plan, NO_SHARDS);
    header = parse_header(&plan.files[0]);
    assert_int_equal(json_object_size(header), CK_ARRAY_LEN(names));
    assert_non_null(json_object_get(header, "line\nbreak\x01"));
    assert_non_null(json_object_get(header, "broken\xC3\xBFutf8\xC3\x83"));
    json_decref(header);
    verify_all(&plan);
    ck_plan_release(&plan);
}

static void scalars_and_empty_tensors_have_their_place(_unused_ void **state) {
    struct ck_plan plan = new_plan();

    add_out(&plan, ck_plan_add_item(&plan), "scalar", "F32", 4, 0, NULL);
    add_out(&plan, ck_plan_add_item(&plan), "empty", "F32", 4, 3, (int64_t[]){4, 0, 5});
    add_out(&plan, ck_plan_add_item(&plan), "byte", "U8", 1, 1, (int64_t[]){1});
    lay_out(&plan, NO_SHARDS);
    assert_int_equal(plan.items[1].out[0].offset, plan.files[0].header_bytes + 4);
    assert_int_equal(plan.files[0].bytes, plan.files[0].header_bytes + 5);
    verify_all(&plan);
    ck_plan_release(&plan);
}

static void unknown_dtype_is_an_internal_error(_unused_ void **state) {
    struct ck_plan plan = new_plan();
    struct ck_error err = {0};

    add_vector(&plan, "odd", "F12", 4, 0);
    assert_int_equal(ck_safetensors_layout(&plan, NO_SHARDS, &err), CK_E_INTERNAL);
    assert_string_equal(err.where, "odd");
    ck_plan_release(&plan);
}

static void header_of_100_000_000_bytes_is_made_and_one_more_is_refused(_unused_ void **state) {
    static const char rest[] = "{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    size_t longest = 100000000 - 8 - strlen(rest);
    char *name = malloc(longest + 2);

    assert_non_null(name);
    for (size_t more = 0; more <= 1; more++) {
        struct ck_plan plan = new_plan();
        struct ck_error err = {0};

        memset(name, 'n', longest + more);
        name[longest + more] = 0;
        add_vector(&plan, name, "U8", 1, 1);
        assert_int_equal(ck_safetensors_layout(&plan, NO_SHARDS, &err), more ? CK_E_OUTPUT_LIMIT : 0);
        assert_int_equal(plan.n_files, more ? 0 : 1);
        if (more == 0)
            assert_int_equal(plan.files[0].header_bytes, 100000000);
        ck_plan_release(&plan);
    }
    free(name);
}

/* A plan of two tensors, written; `change` damages the plan or the file, and verification must see it. */
static void check_damage(void (*change)(struct ck_plan *plan, int fd)) {
    struct ck_plan plan = new_plan();
    struct ck_error err = {0};
    int fd;

    add_vector(&plan, "a", "F32", 4, 4);
    add_vector(&plan, "b", "F32", 4, 4);
    lay_out(&plan, NO_SHARDS);
    fd = write_file(&plan.files[0]);
    assert_int_equal(ck_safetensors_verify(&plan, 0, fd, &err), 0);
    change(&plan, fd);
    assert_int_equal(ck_safetensors_verify(&plan, 0, fd, &err), CK_E_VERIFY_FAILED);
    assert_true(err.message[0] != 0);
    close(fd);
    ck_plan_release(&plan);
}

static void shorten(struct ck_plan *plan, int fd) {
    assert_int_equal(ftruncate(fd, (off_t)plan->files[0].bytes - 1), 0);
}

static void lengthen(struct ck_plan *plan, int fd) {
    assert_int_equal(ftruncate(fd, (off_t)plan->files[0].bytes + 1), 0);
}

static void flip_a_header_byte(_unused_ struct ck_plan *plan, int fd) {
    assert_int_equal(pwrite(fd, "z", 1, 10), 1);
}

static void plan_another_name(struct ck_plan *plan, _unused_ int fd) {
    plan->items[1].out[0].name = "c";
}

static void plan_another_dtype(struct ck_plan *plan, _unused_ int fd) {
    plan->items[1].out[0].dtype = "I32";
}

static void plan_another_shape(struct ck_plan *plan, _unused_ int fd) {
    static const int64_t shape[] = {2, 2};

    plan->items[1].out[0].rank = 2;
    plan->items[1].out[0].shape = shape;
}

static void plan_another_place(struct ck_plan *plan, _unused_ int fd) {
    plan->items[1].out[0].offset -= 4;
}

static void plan_one_tensor_less(struct ck_plan *plan, _unused_ int fd) {
    plan->n_items = 1;
}

static void verification_sees_every_difference(_unused_ void **state) {
    check_damage(shorten);
    check_damage(lengthen);
    check_damage(flip_a_header_byte);
    check_damage(plan_another_name);
    check_damage(plan_another_dtype);
    check_damage(plan_another_shape);
    check_damage(plan_another_place);
    check_damage(plan_one_tensor_less);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file_has_the_exact_header),
        cmocka_unit_test(every_tensor_is_aligned_to_its_element),
        cmocka_unit_test(quantized_parts_stay_in_one_shard),
        cmocka_unit_test(shard_of_exactly_the_limit_is_one_and_a_byte_more_is_two),
        cmocka_unit_test(shards_have_the_names_and_the_index_of_mlx_lm),
        cmocka_unit_test(first_tensor_larger_than_a_shard_leaves_no_empty_file),
        cmocka_unit_test(names_of_any_bytes_are_escaped_and_verified),
        cmocka_unit_test(scalars_and_empty_tensors_have_their_place),
        cmocka_unit_test(unknown_dtype_is_an_internal_error),
        cmocka_unit_test(header_of_100_000_000_bytes_is_made_and_one_more_is_refused),
        cmocka_unit_test(verification_sees_every_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
