/* The base library: errors, arena, buffer, source, map, globs, pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/arena.h"
#include "core/base/buffer.h"
#include "core/base/glob.h"
#include "core/base/limits.h"
#include "core/base/pool.h"
#include "core/base/source.h"
#include "core/base/strmap.h"

static void the_first_error_wins(void **state) {
    struct ck_error err = {0};

    (void)state;
    assert_int_equal(ck_error_set(&err, CK_E_TRUNCATED, "a", "first %d", 1), CK_E_TRUNCATED);
    assert_int_equal(ck_error_set(&err, CK_E_IO, "b", "second"), CK_E_IO);
    assert_int_equal(err.code, CK_E_TRUNCATED);
    assert_string_equal(err.message, "first 1");
    assert_string_equal(err.where, "a");
}

static void every_code_has_a_lower_case_name_that_finds_it_again(void **state) {
    (void)state;
    for (int code = -1; code > -(int)CK_ENUM_END_; code--) {
        const struct ck_error_row *row = ck_error_row(code);

        assert_int_equal(ck_error_by_name(row->name), code);
        assert_true(row->http >= 400 && row->http <= 599);
        assert_true(row->title[0] && row->hint[0]);
        for (const char *p = row->name; *p; p++)
            assert_true((*p >= 'a' && *p <= 'z') || *p == '_');
    }
    assert_int_equal(ck_error_by_name("no_such_code"), 0);
    assert_string_equal(ck_error_row(-9999)->name, "internal");
}

static void a_cut_message_ends_on_a_character(void **state) {
    struct ck_error err = {0};
    char text[2048];

    (void)state;
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xC3\xA4", 3);
    ck_error_set(&err, CK_E_IO, text, "x%s", text);
    assert_int_equal(strlen(err.message) % 2, 1);
    assert_int_equal(strlen(err.where) % 2, 0);
}

static void an_arena_gives_its_limit_and_not_one_byte_more(void **state) {
    struct ck_arena arena;

    (void)state;
    ck_arena_init(&arena, 64);
    assert_non_null(ck_arena_alloc(&arena, 48));
    assert_non_null(ck_arena_alloc(&arena, 16));
    assert_null(ck_arena_alloc(&arena, 1));
    ck_arena_release(&arena);
    assert_non_null(ck_arena_alloc(&arena, 64));
    assert_null(ck_arena_alloc_array(&arena, SIZE_MAX / 2, 4));
    ck_arena_release(&arena);
}

static void arena_memory_is_zeroed_and_aligned_also_beyond_a_chunk(void **state) {
    struct ck_arena arena;

    (void)state;
    ck_arena_init(&arena, SIZE_MAX);
    for (size_t n = 1; n < (size_t)3 << 20; n = n * 3 + 1) {
        unsigned char *p = ck_arena_alloc(&arena, n);

        assert_int_equal((uintptr_t)p % 16, 0);
        assert_int_equal(p[0] | p[n / 2] | p[n - 1], 0);
        memset(p, 0xFF, n);
    }
    ck_arena_release(&arena);
}

static void a_buffer_stops_at_its_limit_unchanged(void **state) {
    struct ck_buffer buffer;

    (void)state;
    ck_buffer_init(&buffer, 5);
    assert_true(ck_buffer_add_text(&buffer, "abc"));
    assert_true(ck_buffer_printf(&buffer, "%d", 12));
    assert_false(ck_buffer_add_text(&buffer, "x"));
    assert_string_equal(ck_buffer_text(&buffer), "abc12");
    ck_buffer_release(&buffer);
    assert_string_equal(ck_buffer_text(&buffer), "");
}

static void a_source_part_one_past_the_end_is_refused(void **state) {
    struct ck_source source = ck_source_from_memory("0123456789", 10), part;
    struct ck_error err = {0};
    char byte;

    (void)state;
    assert_int_equal(ck_source_part(&source, 4, 6, &part, &err), 0);
    assert_int_equal(ck_source_read(&part, 5, &byte, 1, &err), 0);
    assert_int_equal(byte, '9');
    assert_int_equal(ck_source_read(&part, 6, &byte, 1, &err), CK_E_TRUNCATED);
    assert_int_equal(ck_source_part(&source, 4, 7, &part, NULL), CK_E_TRUNCATED);
    assert_int_equal(ck_source_part(&source, UINT64_MAX, 2, &part, NULL), CK_E_TRUNCATED);
    assert_int_equal(ck_source_read(&source, 10, &byte, 0, NULL), 0);
}

static void a_map_of_many_keys_finds_each(void **state) {
    static char keys[5000][16];
    struct ck_strmap map = {0};
    uint32_t value;

    (void)state;
    assert_false(ck_strmap_get(&map, "x", &value));
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof(keys[i]), "layer.%u", i);
        assert_true(ck_strmap_set(&map, keys[i], i));
    }
    for (uint32_t i = 0; i < 5000; i++) {
        assert_true(ck_strmap_get(&map, keys[i], &value));
        assert_int_equal(value, i);
    }
    assert_false(ck_strmap_get(&map, "layer.5000", &value));
    assert_int_equal(*ck_strmap_slot(&map, "layer.7", 99), 7);
    ck_strmap_release(&map);
}

static void globs_match_as_people_expect(void **state) {
    (void)state;
    assert_true(ck_glob_match("*", ""));
    assert_true(ck_glob_match("up.*", "up.0.conv"));
    assert_false(ck_glob_match("up.*", "up"));
    assert_true(ck_glob_match("*.weight", "a.b.weight"));
    assert_true(ck_glob_match("h.?.attn", "h.3.attn"));
    assert_false(ck_glob_match("h.?.attn", "h.12.attn"));
    assert_true(ck_glob_match("a*b*c", "aXbYbZc"));
    assert_false(ck_glob_match("a*b*c", "aXbYbZ"));
    assert_true(ck_glob_match("conv[0]", "conv[0]"));
}

static void a_hostile_glob_ends_at_once(void **state) {
    char pattern[401], text[4097];

    (void)state;
    for (size_t i = 0; i < 400; i += 2)
        memcpy(pattern + i, "*a", 3);
    pattern[399] = 'b';
    memset(text, 'a', 4096);
    text[4096] = 0;
    assert_false(ck_glob_match(pattern, text));
}

static int count(void *ctx, unsigned thread, struct ck_error *err) {
    atomic_fetch_add((atomic_int *)ctx, 1);
    return thread == 2 ? ck_error_set(err, CK_E_IO, NULL, "thread %u", thread) : 0;
}

static void a_pool_runs_every_thread_and_reports_the_failure(void **state) {
    _cleanup_(ck_pool_freep) struct ck_pool *pool = NULL;
    struct ck_error err = {0};
    atomic_int calls = 0;

    (void)state;
    assert_int_equal(ck_pool_new(3, &pool, &err), 0);
    assert_int_equal(ck_pool_threads(pool), 3);
    assert_int_equal(ck_pool_run(pool, count, &calls, &err), CK_E_IO);
    assert_int_equal(calls, 3);
    assert_string_equal(err.message, "thread 2");
    assert_int_equal(ck_pool_run(pool, count, &calls, NULL), CK_E_IO);
    assert_int_equal(calls, 6);
}

static void the_table_of_limits_names_each_once(void **state) {
    static const char *const names[] = {
#define X(name, value, what) #name,
        CK_LIMITS(X)
#undef X
    };

    (void)state;
    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(names[i], names[k]);
    assert_int_equal(ck_limits_default.tensors, 1000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(every_code_has_a_lower_case_name_that_finds_it_again),
        cmocka_unit_test(a_cut_message_ends_on_a_character),
        cmocka_unit_test(an_arena_gives_its_limit_and_not_one_byte_more),
        cmocka_unit_test(arena_memory_is_zeroed_and_aligned_also_beyond_a_chunk),
        cmocka_unit_test(a_buffer_stops_at_its_limit_unchanged),
        cmocka_unit_test(a_source_part_one_past_the_end_is_refused),
        cmocka_unit_test(a_map_of_many_keys_finds_each),
        cmocka_unit_test(globs_match_as_people_expect),
        cmocka_unit_test(a_hostile_glob_ends_at_once),
        cmocka_unit_test(a_pool_runs_every_thread_and_reports_the_failure),
        cmocka_unit_test(the_table_of_limits_names_each_once),
    };

    setenv("UV_THREADPOOL_SIZE", "4", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
