/* server/keys: the file, what clients send, scopes, reading again; request ids' neighbour, the traceparent header. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "server/keys.h"
#include "server/http/request_id.h"

static char path[] = "/tmp/ckptd-keys-XXXXXX";
static struct ck_error err;

/* Two digests; nobody has their keys. */
#define DIGEST_A "cd2c4b27a6bd9e1c2ed3fc1ad3d30bff9eb95b0d09cda28df88a7b4e83a3b1bf"
#define DIGEST_B "b5d54c39e66671c9731b9f471e585d8262cd4f54963f0c93082d8dcf334d4c78"

static void hex_of(const char *key, char text[static 65]) {
    uint8_t digest[32];

    assert_int_equal(EVP_Digest(key, strlen(key), digest, NULL, EVP_sha256(), NULL), 1);
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void write_file(const char *text) {
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int read_keys(const char *text, struct ck_keys **keys) {
    write_file(text);
    err = (struct ck_error){0};
    return ck_keys_read(path, keys, &err);
}

static void assert_refused(const char *text, const char *place) {
    struct ck_keys *keys = NULL;

    if (read_keys(text, &keys) == 0)
        fail_msg("accepted: %s", text);
    assert_null(keys);
    assert_int_equal(err.code, CK_E_BAD_OPTION);
    if (!strstr(err.message, place))
        fail_msg("\"%s\" lacks \"%s\"", err.message, place);
}

static struct ck_keys *keys_of_two(void) {
    struct ck_keys *keys = NULL;
    char a[65], b[65], text[512];

    hex_of("secret-a", a);
    hex_of("secret-b", b);
    snprintf(text, sizeof(text), "# keys\n\nalice %s\n  bob\t%s  read,metrics # of the dashboard\n", a, b);
    assert_int_equal(read_keys(text, &keys), 0);
    return keys;
}

/* ---- what a client sends ---- */

static void a_key_is_found_in_either_header(_unused_ void **state) {
    _cleanup_(ck_keys_freep) struct ck_keys *keys = keys_of_two();
    struct ck_key key = {0};

    assert_int_equal(ck_keys_count(keys), 2);
    assert_true(ck_keys_find(keys, "Bearer secret-a", NULL, &key));
    assert_string_equal(key.name, "alice");
    assert_true(ck_keys_find(keys, "bEARER   secret-b", NULL, &key));
    assert_string_equal(key.name, "bob");
    assert_true(ck_keys_find(keys, NULL, "secret-b", &key));
    assert_string_equal(key.name, "bob");
    assert_true(ck_keys_find(keys, "Bearer secret-a", "secret-b", &key));
    assert_string_equal(key.name, "alice");
}

static void what_is_no_key_is_not_found(_unused_ void **state) {
    static const char *const headers[] = {
        "",           "Bearer",           "Bearer ",         "secret-a",       "secret-b",
        "Basic eA==", "Bearer secret-a ", "Bearer secret-A", "Bearersecret-a", "Bearer secret-a,secret-b"};
    _cleanup_(ck_keys_freep) struct ck_keys *keys = keys_of_two();
    struct ck_key key = {.name = "nobody"};
    char digest[72] = "Bearer ", longest[CK_KEY_TEXT_MAX + 16] = "Bearer ";

    for (size_t i = 0; i < CK_ARRAY_LEN(headers); i++)
        assert_false(ck_keys_find(keys, headers[i], NULL, &key));
    assert_false(ck_keys_find(keys, NULL, NULL, &key));
    assert_false(ck_keys_find(keys, NULL, "", &key));
    assert_false(ck_keys_find(keys, "Bearer wrong", "secret-a", &key));
    hex_of("secret-a", digest + 7);
    assert_false(ck_keys_find(keys, digest, NULL, &key));
    memset(longest + 7, 'x', CK_KEY_TEXT_MAX + 1);
    assert_false(ck_keys_find(keys, longest, NULL, &key));
    assert_string_equal(key.name, "nobody");
}

static void the_longest_key_is_found_and_one_longer_is_not(_unused_ void **state) {
    _cleanup_(ck_keys_freep) struct ck_keys *keys = NULL;
    char text[CK_KEY_TEXT_MAX + 2] = "", digest[65], line[128];
    struct ck_key key;

    memset(text, 'k', CK_KEY_TEXT_MAX);
    hex_of(text, digest);
    snprintf(line, sizeof(line), "long %s\n", digest);
    assert_int_equal(read_keys(line, &keys), 0);
    assert_true(ck_keys_find(keys, NULL, text, &key));
    text[CK_KEY_TEXT_MAX] = 'k';
    assert_false(ck_keys_find(keys, NULL, text, &key));
}

static void scopes_are_all_or_those_named(_unused_ void **state) {
    _cleanup_(ck_keys_freep) struct ck_keys *keys = keys_of_two();
    struct ck_key alice, bob;

    assert_true(ck_keys_find(keys, NULL, "secret-a", &alice));
    assert_true(ck_keys_find(keys, NULL, "secret-b", &bob));
    for (int i = 0; i < CK_SCOPE_N_; i++)
        assert_true(ck_key_may(&alice, (enum ck_scope)i));
    assert_true(ck_key_may(&bob, CK_SCOPE_read) && ck_key_may(&bob, CK_SCOPE_metrics));
    assert_false(ck_key_may(&bob, CK_SCOPE_submit) || ck_key_may(&bob, CK_SCOPE_delete));
}

/* ---- the file ---- */

static void a_digest_is_that_of_sha256sum(_unused_ void **state) {
    /* printf %s abc | sha256sum */
    static const char abc[] = "x ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";
    _cleanup_(ck_keys_freep) struct ck_keys *keys = NULL;
    struct ck_key key;

    assert_int_equal(read_keys(abc, &keys), 0);
    assert_true(ck_keys_find(keys, "Bearer abc", NULL, &key));
}

static void bad_lines_are_named(_unused_ void **state) {
    assert_refused("a " DIGEST_A "\nalice\n", ":2: the second word");
    assert_refused("alice secret\n", ":1: the second word");
    assert_refused("alice " DIGEST_A "0\n", ":1: the second word");
    assert_refused("alice CD2C4b27a6bd9e1c2ed3fc1ad3d30bff9eb95b0d09cda28df88a7b4e83a3b1bf\n", ":1: the second word");
    assert_refused("al/ice " DIGEST_A "\n", ":1: a name");
    assert_refused("\xC3\xA9 " DIGEST_A "\n", ":1: a name");
    assert_refused("alice " DIGEST_A " admin\n", ":1: a scope");
    assert_refused("alice " DIGEST_A " read,\n", ":1: a scope");
    assert_refused("alice " DIGEST_A " ,\n", ":1: a scope");
    assert_refused("alice " DIGEST_A " read, submit\n", ":1: a scope");
    assert_refused("alice " DIGEST_A " read submit\n", ":1: there is more");
    assert_refused("alice " DIGEST_A "\nalice " DIGEST_B "\n", "alice is given twice");
    assert_refused("alice " DIGEST_A "\nbob " DIGEST_A "\n", "the same digest");
}

/* Somebody who pastes the key instead of its digest must not find it in a log. */
static void an_error_never_repeats_a_key(_unused_ void **state) {
    assert_refused("alice ckptd_0123456789\n", ":1");
    assert_null(strstr(err.message, "0123456789"));
    assert_refused("ckptd_0123456789/ alice\n", ":1");
    assert_null(strstr(err.message, "0123456789"));
}

static void names_end_at_64(_unused_ void **state) {
    char name[CK_KEY_NAME_MAX + 2] = "";

    memset(name, 'n', CK_KEY_NAME_MAX);
    assert_true(ck_key_name_is_valid(name));
    name[CK_KEY_NAME_MAX] = 'n';
    assert_false(ck_key_name_is_valid(name));
    assert_true(ck_key_name_is_valid("A.z_0-9"));
    assert_false(ck_key_name_is_valid(""));
    assert_false(ck_key_name_is_valid("a b"));
}

static void ten_thousand_keys_are_taken_and_one_more_is_not(_unused_ void **state) {
    _cleanup_(ck_keys_freep) struct ck_keys *keys = NULL;
    struct ck_key key;
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    for (int i = 0; i < CK_KEYS_MAX - 1; i++)
        fprintf(file, "key-%d %064x\n", i, (unsigned)i);
    fprintf(file, "last ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
    fclose(file);
    err = (struct ck_error){0};
    assert_int_equal(ck_keys_read(path, &keys, &err), 0);
    assert_int_equal(ck_keys_count(keys), CK_KEYS_MAX);
    assert_true(ck_keys_find(keys, NULL, "abc", &key));
    assert_string_equal(key.name, "last");
    file = fopen(path, "ae");
    assert_non_null(file);
    fprintf(file, "more %064x\n", CK_KEYS_MAX + 7u);
    fclose(file);
    assert_int_equal(ck_keys_reload(keys, &err), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, ":10001: more than 10000 keys"));
    assert_int_equal(ck_keys_count(keys), CK_KEYS_MAX);
}

static void no_keys_and_no_file_are_different(_unused_ void **state) {
    _cleanup_(ck_keys_freep) struct ck_keys *keys = NULL;
    struct ck_keys *none = NULL;
    struct ck_key key;

    assert_int_equal(read_keys("# nobody\n", &keys), 0);
    assert_int_equal(ck_keys_count(keys), 0);
    assert_false(ck_keys_find(keys, NULL, "x", &key));
    err = (struct ck_error){0};
    assert_int_equal(ck_keys_read("/nowhere/keys", &none, &err), CK_E_BAD_OPTION);
    assert_non_null(strstr(err.message, "/nowhere/keys"));
    ck_keys_free(NULL);
}

static void a_file_that_others_can_write_is_noted(_unused_ void **state) {
    static const struct {
        mode_t mode;
        const char *note;
    } cases[] = {{0600, NULL}, {0444, NULL}, {0640, NULL}, {0620, "write"}, {0646, "write"}};

    for (size_t i = 0; i < CK_ARRAY_LEN(cases); i++) {
        _cleanup_(ck_keys_freep) struct ck_keys *keys = NULL;
        const char *note;

        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(ck_keys_read(path, &keys, &err), 0);
        note = ck_keys_note(keys);
        assert_int_equal(note != NULL, cases[i].note != NULL);
        if (note)
            assert_non_null(strstr(note, cases[i].note));
    }
    assert_int_equal(chmod(path, 0600), 0);
}

/* ---- reading again ---- */

static void a_bad_file_keeps_the_old_keys(_unused_ void **state) {
    _cleanup_(ck_keys_freep) struct ck_keys *keys = keys_of_two();
    char b[65], text[128];
    struct ck_key key;

    write_file("nonsense\n");
    err = (struct ck_error){0};
    assert_int_equal(ck_keys_reload(keys, &err), CK_E_BAD_OPTION);
    assert_true(ck_keys_find(keys, NULL, "secret-a", &key));
    unlink(path);
    assert_int_equal(ck_keys_reload(keys, NULL), CK_E_BAD_OPTION);
    assert_true(ck_keys_find(keys, NULL, "secret-a", &key));
    hex_of("secret-b", b);
    snprintf(text, sizeof(text), "carol %s submit\n", b);
    write_file(text);
    assert_int_equal(ck_keys_reload(keys, NULL), 0);
    assert_false(ck_keys_find(keys, NULL, "secret-a", &key));
    assert_true(ck_keys_find(keys, NULL, "secret-b", &key));
    assert_string_equal(key.name, "carol");
    assert_false(ck_key_may(&key, CK_SCOPE_read));
}

static atomic_bool over;

static void *look_up(void *context) {
    struct ck_key key;

    while (!atomic_load(&over))
        if (!ck_keys_find(context, "Bearer secret-a", NULL, &key) || strcmp(key.name, "alice") != 0)
            return context;
    return NULL;
}

static void a_lookup_sees_the_old_set_or_the_new_one(_unused_ void **state) {
    _cleanup_(ck_keys_freep) struct ck_keys *keys = keys_of_two();
    pthread_t threads[3];
    void *failed;

    for (size_t i = 0; i < CK_ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_up, keys), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ck_keys_reload(keys, NULL), 0);
    atomic_store(&over, true);
    for (size_t i = 0; i < CK_ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

/* ---- traceparent ---- */

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void a_traceparent_gives_its_trace(_unused_ void **state) {
    char id[CK_TRACE_ID_MAX] = "";

    assert_true(ck_traceparent_parse("00-" TRACE "-" PARENT "-01", id));
    assert_string_equal(id, TRACE);
    assert_true(ck_traceparent_parse("00-" TRACE "-" PARENT "-ff", id));
    assert_true(ck_traceparent_parse("cc-" TRACE "-" PARENT "-01", id));
    assert_true(ck_traceparent_parse("cc-" TRACE "-" PARENT "-01-what the future holds", id));
}

static void a_bad_traceparent_gives_none(_unused_ void **state) {
    static const char *const headers[] = {
        "",
        "00",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-01-",
        "00-" TRACE "-" PARENT "-01 ",
        "cc-" TRACE "-" PARENT "-01.x",
        "ff-" TRACE "-" PARENT "-01",
        "0g-" TRACE "-" PARENT "-01",
        "00-4BF92F3577b34da6a3ce929d0e0e4736-" PARENT "-01",
        "00-" TRACE "-00F067AA0ba902b7-01",
        "00-" TRACE "-" PARENT "-0A",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        " 00-" TRACE "-" PARENT "-01",
    };
    char id[CK_TRACE_ID_MAX] = "untouched";

    assert_false(ck_traceparent_parse(NULL, id));
    for (size_t i = 0; i < CK_ARRAY_LEN(headers); i++)
        if (ck_traceparent_parse(headers[i], id))
            fail_msg("accepted: %s", headers[i]);
    assert_string_equal(id, "untouched");
}

static int make_file(_unused_ void **state) {
    int fd = mkstemp(path);

    return fd >= 0 ? close(fd) : -1;
}

static int remove_file(_unused_ void **state) {
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_found_in_either_header),
        cmocka_unit_test(what_is_no_key_is_not_found),
        cmocka_unit_test(the_longest_key_is_found_and_one_longer_is_not),
        cmocka_unit_test(scopes_are_all_or_those_named),
        cmocka_unit_test(a_digest_is_that_of_sha256sum),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(an_error_never_repeats_a_key),
        cmocka_unit_test(names_end_at_64),
        cmocka_unit_test(ten_thousand_keys_are_taken_and_one_more_is_not),
        cmocka_unit_test(no_keys_and_no_file_are_different),
        cmocka_unit_test(a_file_that_others_can_write_is_noted),
        cmocka_unit_test(a_bad_file_keeps_the_old_keys),
        cmocka_unit_test(a_lookup_sees_the_old_set_or_the_new_one),
        cmocka_unit_test(a_traceparent_gives_its_trace),
        cmocka_unit_test(a_bad_traceparent_gives_none),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
