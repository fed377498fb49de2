/* tests/unit/store.h: a job store in a folder of its own, and small words for what the tests of it do often. */
#ifndef CK_TESTS_STORE_H
#define CK_TESTS_STORE_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/store/inner.h"

#define T0    1700000000000 /* the tests' clock begins here */
#define LEASE 60000

static char folder[64], path[128];

/* A folder for each test. Durability off: the tests that need it ask. */
static _unused_ int make_folder(_unused_ void **state) {
    snprintf(folder, sizeof(folder), "/tmp/ckptd-store-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/jobs.db", folder);
    return 0;
}

static _unused_ int remove_folder(_unused_ void **state) {
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char name[512];

    while (dir && (entry = readdir(dir)) != NULL) {
        snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
        unlink(name);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
    return 0;
}

static _unused_ struct ck_store *open_store(bool durable, const char *boot_id) {
    struct ck_error err = {0};
    struct ck_store *store = NULL;
    int r = ck_store_sqlite_open(path, durable, boot_id, &store, &err);

    if (r < 0)
        fail_msg("open: %s", err.message);
    return store;
}

/* Every call of these tests that must succeed. */
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct ck_error err = {0};                                                                                     \
                                                                                                                       \
        if ((call) != 0)                                                                                               \
            fail_msg("%s: %s", #call, err.message);                                                                    \
    } while (0)

/* And that must fail with a code, the same in the record, with a text. */
#define FAILS(call, want)                                                                                              \
    do {                                                                                                               \
        struct ck_error err = {0};                                                                                     \
        int got_ = (call);                                                                                             \
                                                                                                                       \
        if (got_ != (want) || err.code != (want) || !err.message[0])                                                   \
            fail_msg("%s: %d, not %d: %s", #call, got_, (want), err.message);                                          \
    } while (0)

static _unused_ const char *id_of(unsigned n) {
    static _Thread_local char ids[8][CK_JOB_ID_SIZE];
    static _Thread_local unsigned at;
    char *id = ids[at++ % 8];

    snprintf(id, CK_JOB_ID_SIZE, "%08x-0000-7000-8000-%012x", n, n);
    return id;
}

static _unused_ const char *digest_of(unsigned n) {
    static _Thread_local char digests[8][CK_DIGEST_SIZE];
    static _Thread_local unsigned at;
    char *digest = digests[at++ % 8];

    snprintf(digest, CK_DIGEST_SIZE, "%064x", n);
    return digest;
}

/* A queued job over one blob. Texts are static, `source` is the caller's. */
static _unused_ struct ck_job_row new_row(unsigned n, unsigned blob, int64_t now, struct ck_job_source *source) {
    struct ck_job_row row = {
        .tenant = "",
        .kind = "convert",
        .target = "mlx",
        .quant = "q4",
        .spec = "{\"kind\":\"convert\",\"quant\":\"q4\",\"to\":\"mlx\"}",
        .labels = "{}",
        .stem = "net",
        .max_attempts = 5,
        .created_at = now,
        .inputs = source,
        .n_inputs = 1,
        .converter = "1.0",
    };

    *source = (struct ck_job_source){.role = "model", .name = "net.pt"};
    snprintf(source->digest, sizeof(source->digest), "%s", digest_of(blob));
    snprintf(row.id, sizeof(row.id), "%s", id_of(n));
    snprintf(row.cache_key, sizeof(row.cache_key), "%s", digest_of(1000 + n));
    return row;
}

static _unused_ void put_blob(struct ck_store *store, unsigned n, bool durable, int64_t now) {
    bool is_new;

    OK(store->blob_put(store, "", digest_of(n), 100 + n, durable, now, &is_new, &err));
}

static _unused_ void create(struct ck_store *store, unsigned n, int64_t now) {
    struct ck_job_source source;
    struct ck_job_row row = new_row(n, 1, now, &source);

    OK(store->job_create(store, &row, &err));
}

/* The row is the caller's. */
static _unused_ struct ck_job_row get(struct ck_store *store, unsigned n) {
    struct ck_job_row row = {0};

    OK(store->job_get(store, "", id_of(n), &row, &err));
    return row;
}

static _unused_ void assert_state(struct ck_store *store, unsigned n, enum ck_job_state want, const char *reason) {
    struct ck_job_row row = get(store, n);

    assert_string_equal(ck_job_state_name(row.state), ck_job_state_name(want));
    if (reason)
        assert_string_equal(row.reason, reason);
    else
        assert_null(row.reason);
    ck_job_row_release(&row);
}

/* Claims the next job, which must be n. Returns the token. */
static _unused_ uint64_t claim(struct ck_store *store, unsigned n, int64_t now) {
    struct ck_job_row row = {0};
    bool claimed = false;
    uint64_t token;

    OK(store->job_claim(store, "w", now, LEASE, &claimed, &row, &err));
    assert_true(claimed);
    assert_string_equal(row.id, id_of(n));
    assert_int_equal(row.state, CK_STATE_RUNNING);
    token = row.lease_token;
    ck_job_row_release(&row);
    return token;
}

static _unused_ bool end(struct ck_store *store, unsigned n, uint64_t token, int64_t now, const struct ck_job_end *how) {
    bool stale = true;

    OK(store->job_end(store, id_of(n), token, now, how, &stale, NULL, &err));
    return !stale;
}

#endif
