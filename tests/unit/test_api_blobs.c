/* api/blobs: storing inputs and asking for them: what is known is answered on the head, what is promised is on disk
 * first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/blobs.h"
#include "api/routes.h"
#include "fake_ports.h"

/* sha256 of "abc" (FIPS 180-2, appendix B.1). */
#define HEX    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define BASE64 "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
#define DIGEST "sha256:" HEX

static const uint8_t abc[CK_SHA256_BYTES] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                             0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                             0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};

static struct fake fake;
static struct ck_reply reply;
static struct ck_received file;
static struct ck_request request;

/* One header of the request. */
static struct { const char *name, *value; } sent;

static const char *header(_unused_ void *ctx, const char *name) {
    return sent.name && strcmp(sent.name, name) == 0 ? sent.value : NULL;
}

/* A request with the raw body "abc". */
static int setup(_unused_ void **state) {
    static char text[] = "abc";

    fake_init(&fake);
    sent.name = NULL;
    file = (struct ck_received){.field = "", .bytes = 3, .spool = text};
    memcpy(file.digest, abc, sizeof(abc));
    request = (struct ck_request){.method = "PUT",
                                  .path = "",
                                  .query = "",
                                  .id = "id-1",
                                  .params = {DIGEST},
                                  .header = header,
                                  .files = &file,
                                  .n_files = 1};
    return 0;
}

static int teardown(_unused_ void **state) {
    assert_int_equal(fake.adopted, 0);
    ck_reply_release(&reply);
    fake_release(&fake);
    return 0;
}

static void call(ck_answer_fn answer) {
    ck_reply_release(&reply);
    answer(&request, &fake.ports, &reply);
    assert_false(reply.broken);
}

static int head(ck_head_fn head_fn) {
    struct ck_error err = {0};
    int r = head_fn(&request, &fake.ports, &err);

    assert_int_equal(r, err.code);
    return r;
}

static void assert_header(const char *name, const char *value) {
    const char *found = ck_reply_find(&reply, name);

    assert_non_null(found);
    assert_string_equal(found, value);
}

static void assert_stored(int status, const char *text) {
    assert_int_equal(reply.status, status);
    assert_string_equal(ck_buffer_text(&reply.body), text);
    assert_header("Location", "/v1/blobs/" DIGEST);
    assert_header("ETag", "\"" DIGEST "\"");
    assert_header("Repr-Digest", "sha-256=:" BASE64 ":");
}

static void assert_problem(int code) {
    assert_int_equal(reply.code, code);
    assert_int_equal(reply.status, ck_error_row(code)->http);
}

static void a_new_blob_is_created_durably_and_a_known_one_is_not_new(_unused_ void **state) {
    call(ck_answer_blob_post);
    assert_stored(201, "{\"digest\":\"" DIGEST "\",\"bytes\":3}\n");
    assert_string_equal(fake.log, "adopt-durable put-durable");
    call(ck_answer_blob_post);
    assert_stored(200, "{\"digest\":\"" DIGEST "\",\"bytes\":3}\n");
    assert_int_equal(fake.blob_hits, 1);
    fake.log[0] = 0;
    fake.ports.terms.durable = false;
    call(ck_answer_blob_post);
    assert_string_equal(fake.log, "adopt put");
}

static void the_name_comes_back(_unused_ void **state) {
    file.field = "file";
    file.name = "net.pt";
    call(ck_answer_blob_post);
    assert_stored(201, "{\"digest\":\"" DIGEST "\",\"bytes\":3,\"name\":\"net.pt\"}\n");
    file.field = "";
    file.name = NULL;
    request.params[0] = "net.pt";
    assert_int_equal(head(ck_head_blob_put), 0);
    assert_false(request.answer_early);
    call(ck_answer_blob_put);
    assert_stored(200, "{\"digest\":\"" DIGEST "\",\"bytes\":3,\"name\":\"net.pt\"}\n");
}

static void forms_with_anything_else_are_refused(_unused_ void **state) {
    const struct ck_field field = {"quant", "q4"};
    struct ck_received two[2] = {file, file};

    file.field = "model";
    call(ck_answer_blob_post);
    assert_problem(CK_E_BAD_OPTION);
    file.field = "";
    request.fields = &field;
    request.n_fields = 1;
    call(ck_answer_blob_post);
    assert_problem(CK_E_BAD_OPTION);
    request.n_fields = 0;
    request.files = two;
    request.n_files = 2;
    call(ck_answer_blob_post);
    assert_problem(CK_E_TOO_MANY_FILES);
    request.n_files = 0;
    call(ck_answer_blob_post);
    assert_problem(CK_E_MISSING_FILE);
    request.query = "name=a";
    assert_int_equal(head(ck_head_blob_post), CK_E_BAD_OPTION);
    assert_int_equal(head(ck_head_blob_put), CK_E_BAD_OPTION);
    assert_string_equal(fake.log, "");
}

static void an_empty_body_is_no_blob(_unused_ void **state) {
    file.bytes = 0;
    call(ck_answer_blob_post);
    assert_problem(CK_E_EMPTY_FILE);
    assert_string_equal(fake.log, "");
}

static void put_holds_the_body_against_the_digest(_unused_ void **state) {
    assert_int_equal(head(ck_head_blob_put), 0);
    assert_false(request.answer_early);
    call(ck_answer_blob_put);
    assert_stored(201, "{\"digest\":\"" DIGEST "\",\"bytes\":3}\n");
    file.digest[31] ^= 1;
    fake.log[0] = 0;
    call(ck_answer_blob_put);
    assert_problem(CK_E_DIGEST_MISMATCH);
    assert_string_equal(fake.log, "");
}

static void put_of_a_known_blob_is_answered_on_the_head(_unused_ void **state) {
    fake_add_blob(&fake, HEX, "abc", true);
    request.n_files = 0;
    assert_int_equal(head(ck_head_blob_put), 0);
    assert_true(request.answer_early);
    assert_int_equal(fake.touched, 1);
    assert_int_equal(fake.blob_hits, 1);
    call(ck_answer_blob_put);
    assert_stored(200, "{\"digest\":\"" DIGEST "\",\"bytes\":3}\n");
    assert_string_equal(fake.log, "");
    /* Removed between head and answer. */
    fake.blob[0].file = false;
    call(ck_answer_blob_put);
    assert_problem(CK_E_BLOB_NOT_FOUND);
}

static void broken_digests_are_refused_on_the_head(_unused_ void **state) {
    static const char *const bad[] = {"sha256:", "sha256:" HEX "0", "SHA256:zz", "sha256:" HEX "/../x"};

    for (size_t i = 0; i < CK_ARRAY_LEN(bad); i++) {
        request.params[0] = bad[i];
        assert_int_equal(head(ck_head_blob_put), CK_E_BAD_REQUEST);
        request.method = "GET";
        call(ck_answer_blob);
        assert_problem(CK_E_BAD_REQUEST);
        call(ck_answer_blob_delete);
        assert_problem(CK_E_BAD_REQUEST);
    }
    request.params[0] = "net.pt";
    call(ck_answer_blob);
    assert_problem(CK_E_BAD_REQUEST);
}

static void a_blob_is_served_with_ranges_and_conditions(_unused_ void **state) {
    fake_add_blob(&fake, HEX, "abc", true);
    request.method = "GET";
    call(ck_answer_blob);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.kind, CK_REPLY_FILE);
    assert_int_equal(ck_reply_length(&reply), 3);
    assert_header("Content-Type", "application/octet-stream");
    assert_header("Cache-Control", "private, immutable");
    assert_header("Repr-Digest", "sha-256=:" BASE64 ":");
    assert_header("Accept-Ranges", "bytes");
    assert_header("ETag", "\"" DIGEST "\"");
    assert_int_equal(fake.touched, 1);
    sent.name = "Range";
    sent.value = "bytes=2-";
    call(ck_answer_blob);
    assert_int_equal(reply.status, 206);
    assert_header("Content-Range", "bytes 2-2/3");
    assert_int_equal(reply.offset, 2);
    assert_int_equal(reply.length, 1);
    sent.value = "bytes=3-";
    call(ck_answer_blob);
    assert_problem(CK_E_RANGE_NOT_SATISFIABLE);
    assert_header("Content-Range", "bytes */3");
    request.method = "HEAD";
    call(ck_answer_blob);
    assert_int_equal(reply.status, 200);
    assert_int_equal(ck_reply_length(&reply), 3);
    sent.name = "If-None-Match";
    sent.value = "\"" DIGEST "\"";
    call(ck_answer_blob);
    assert_int_equal(reply.status, 304);
    assert_int_equal(ck_reply_length(&reply), 0);
}

static void a_blob_without_row_or_file_is_not_there(_unused_ void **state) {
    request.method = "GET";
    call(ck_answer_blob);
    assert_problem(CK_E_BLOB_NOT_FOUND);
    assert_header("Content-Disposition", "attachment; filename=\"ckptd-error.json\"");
    fake_add_blob(&fake, HEX, "abc", true);
    fake.blob[0].file = false;
    call(ck_answer_blob);
    assert_problem(CK_E_BLOB_NOT_FOUND);
    fake.blob[0].file = true;
    fake.blob[0].bytes = 4;
    call(ck_answer_blob);
    assert_problem(CK_E_IO);
}

static void delete_takes_the_row_before_the_file(_unused_ void **state) {
    fake_add_blob(&fake, HEX, "abc", true);
    request.method = "DELETE";
    fake.fail = "blob_delete";
    fake.fail_code = CK_E_BLOB_IN_USE;
    call(ck_answer_blob_delete);
    assert_problem(CK_E_BLOB_IN_USE);
    assert_true(fake.blob[0].file);
    fake.fail = NULL;
    fake.log[0] = 0;
    call(ck_answer_blob_delete);
    assert_int_equal(reply.status, 204);
    assert_int_equal(reply.body.length, 0);
    assert_string_equal(fake.log, "blob-delete remove");
    assert_false(fake.blob[0].file);
    call(ck_answer_blob_delete);
    assert_problem(CK_E_BLOB_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_blob_is_created_durably_and_a_known_one_is_not_new, setup, teardown),
        cmocka_unit_test_setup_teardown(the_name_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(forms_with_anything_else_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_body_is_no_blob, setup, teardown),
        cmocka_unit_test_setup_teardown(put_holds_the_body_against_the_digest, setup, teardown),
        cmocka_unit_test_setup_teardown(put_of_a_known_blob_is_answered_on_the_head, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_digests_are_refused_on_the_head, setup, teardown),
        cmocka_unit_test_setup_teardown(a_blob_is_served_with_ranges_and_conditions, setup, teardown),
        cmocka_unit_test_setup_teardown(a_blob_without_row_or_file_is_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(delete_takes_the_row_before_the_file, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
