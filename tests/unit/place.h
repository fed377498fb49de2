/* A data directory with its blobs, for tests: a store of rows that outlives its process, uploads as a handler makes them, results as a worker's
 * end publishes them, and the system calls that change names, noted. Included once in a test's binary. */
#ifndef CK_TESTS_PLACE_H
#define CK_TESTS_PLACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "server/disk/blobs_dir.h"
#include "server/log.h"
#include "server/disk/upload.h"

#define JOB_1 "01890000-0000-7000-8000-000000000001"
#define JOB_2 "01890000-0000-7000-8000-000000000002"
#define JOB_3 "01890000-0000-7000-8000-000000000003"
#define ABC   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */

/* ---- system calls that change names or sync, noted: a child can be killed before any of them ---- */

static unsigned calls, kill_before; /* 0: never */
static char trace[256];             /* one letter for each call */

static _unused_ void note_call(char letter) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t n;

    pthread_mutex_lock(&lock);
    n = strlen(trace);
    if (n + 1 < sizeof(trace))
        trace[n] = letter;
    if (++calls == kill_before)
        kill(getpid(), SIGKILL);
    pthread_mutex_unlock(&lock);
}

static _unused_ void begin_trace(void) {
    memset(trace, 0, sizeof(trace));
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    note_call('l');
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    note_call('r');
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

int unlinkat(int folder, const char *name, int flags) {
    note_call('u');
    return (int)syscall(SYS_unlinkat, folder, name, flags);
}

int mkdirat(int folder, const char *name, mode_t mode) {
    note_call('m');
    return (int)syscall(SYS_mkdirat, folder, name, mode);
}

int unlink(const char *name) {
    return unlinkat(AT_FDCWD, name, 0);
}

/* A kill proves nothing about the disk, so nothing is written to it: the order is what can be looked at. */
int fdatasync(int fd) {
    note_call('d');
    return fcntl(fd, F_GETFD) < 0 ? -1 : 0;
}

int fsync(int fd) {
    note_call('s');
    return fcntl(fd, F_GETFD) < 0 ? -1 : 0;
}

/* ---- a store that survives its process ---- */

struct rows {
    pthread_mutex_t lock;
    struct {
        char digest[CK_DIGEST_SIZE];
        uint64_t bytes;
        bool durable;
    } blobs[8];
    struct {
        char id[CK_JOB_ID_SIZE];
        enum ck_job_state state;
        struct ck_job_file files[4];
        size_t n_files;
    } jobs[8];
    size_t n_blobs, n_jobs;
};

static struct rows *rows;

static _unused_ size_t find_blob(const char *digest) {
    size_t i = 0;

    while (i < rows->n_blobs && strcmp(rows->blobs[i].digest, digest) != 0)
        i++;
    return i;
}

static _unused_ size_t find_job(const char *id) {
    size_t i = 0;

    while (i < rows->n_jobs && strcmp(rows->jobs[i].id, id) != 0)
        i++;
    return i;
}

static _unused_ int blob_get(_unused_ struct ck_store *store, _unused_ const char *tenant, const char *digest,
                    uint64_t *ret_bytes, bool *ret_durable, struct ck_error *err) {
    size_t i;
    int r = 0;

    pthread_mutex_lock(&rows->lock);
    i = find_blob(digest);
    if (i < rows->n_blobs) {
        *ret_bytes = rows->blobs[i].bytes;
        *ret_durable = rows->blobs[i].durable;
    } else {
        r = ck_error_set(err, CK_E_BLOB_NOT_FOUND, NULL, "no row");
    }
    pthread_mutex_unlock(&rows->lock);
    return r;
}

static _unused_ int job_get(_unused_ struct ck_store *store, _unused_ const char *tenant, const char *id,
                   struct ck_job_row *ret_row, struct ck_error *err) {
    size_t i = find_job(id), n;

    if (i == rows->n_jobs)
        return ck_error_set(err, CK_E_JOB_NOT_FOUND, NULL, "no row");
    n = rows->jobs[i].n_files;
    *ret_row = (struct ck_job_row){.state = rows->jobs[i].state, .n_files = n};
    snprintf(ret_row->id, sizeof(ret_row->id), "%s", id);
    ret_row->files = calloc(4, sizeof(*ret_row->files));
    assert_non_null(ret_row->files);
    memcpy(ret_row->files, rows->jobs[i].files, n * sizeof(*ret_row->files));
    return 0;
}

static _unused_ void put_blob_row(const char *digest, uint64_t bytes, bool durable) {
    size_t i;

    pthread_mutex_lock(&rows->lock);
    i = find_blob(digest);
    snprintf(rows->blobs[i].digest, CK_DIGEST_SIZE, "%s", digest);
    rows->blobs[i].bytes = bytes;
    rows->blobs[i].durable = durable;
    if (i == rows->n_blobs)
        rows->n_blobs++;
    pthread_mutex_unlock(&rows->lock);
}

static _unused_ int drop_blob(_unused_ struct ck_store *store, const char *digest, _unused_ struct ck_error *err) {
    size_t i;

    pthread_mutex_lock(&rows->lock);
    i = find_blob(digest);
    if (i < rows->n_blobs)
        rows->blobs[i] = rows->blobs[--rows->n_blobs];
    pthread_mutex_unlock(&rows->lock);
    return 0;
}

static _unused_ void put_job_row(const char *id, enum ck_job_state state, size_t n_files, uint64_t bytes) {
    size_t i = find_job(id);

    snprintf(rows->jobs[i].id, CK_JOB_ID_SIZE, "%s", id);
    rows->jobs[i].state = state;
    rows->jobs[i].n_files = n_files;
    for (size_t k = 0; k < n_files; k++) {
        snprintf(rows->jobs[i].files[k].name, 128, "f%zu", k);
        rows->jobs[i].files[k].bytes = bytes;
    }
    if (i == rows->n_jobs)
        rows->n_jobs++;
}

static _unused_ int each_blob(_unused_ struct ck_store *store,
                     int (*each)(void *ctx, const char *digest, uint64_t bytes, bool durable), void *ctx,
                     _unused_ struct ck_error *err) {
    for (size_t i = 0; i < rows->n_blobs; i++)
        assert_int_equal(each(ctx, rows->blobs[i].digest, rows->blobs[i].bytes, rows->blobs[i].durable), 0);
    return 0;
}

static _unused_ int each_job(_unused_ struct ck_store *store, int (*each)(void *ctx, const char *id), void *ctx,
                    _unused_ struct ck_error *err) {
    for (size_t i = 0; i < rows->n_jobs; i++)
        if (rows->jobs[i].n_files > 0)
            assert_int_equal(each(ctx, rows->jobs[i].id), 0);
    return 0;
}

static int blob_put(_unused_ struct ck_store *self, _unused_ const char *tenant, const char *digest, uint64_t bytes, bool durable, _unused_ int64_t now,
                    bool *ret_new, _unused_ struct ck_error *err) {
    put_blob_row(digest, bytes, durable);
    *ret_new = true;
    return 0;
}

static struct ck_store store = {.blob_get = blob_get, .blob_put = blob_put, .job_get = job_get};

/* ---- the place ---- */

static char base[64];
static struct ck_data_dir data;
static struct ck_blobs *blobs;
static struct ck_hasher *hasher;

static _unused_ void begin(void) {
    struct ck_error err = {0};

    if (ck_data_dir_open(base, &data, &err) < 0 || ck_blobs_dir_new(&data, &store, true, &blobs, &err) < 0 ||
        ck_hasher_new(1, &hasher, &err) < 0)
        fail_msg("%s", err.message);
}

static _unused_ void end(void) {
    ck_hasher_free(hasher);
    ck_blobs_dir_free(blobs);
    ck_data_dir_release(&data);
}

static _unused_ int make_base(_unused_ void **state) {
    snprintf(base, sizeof(base), "/tmp/ckptd-blobs-XXXXXX");
    if (!mkdtemp(base))
        return -1;
    *rows = (struct rows){.lock = PTHREAD_MUTEX_INITIALIZER};
    return 0;
}

static _unused_ int remove_base(_unused_ void **state) {
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", base);
    return system(command);
}

static _unused_ int setup(void **state) {
    if (make_base(state) < 0)
        return -1;
    begin();
    return 0;
}

static _unused_ int teardown(void **state) {
    end();
    return remove_base(state);
}

_printf_(1, 2) static _unused_ const char *in_base(const char *format, ...) {
    static char paths[2][512];
    static unsigned turn;
    char tail[256];
    va_list args;

    turn ^= 1;
    va_start(args, format);
    vsnprintf(tail, sizeof(tail), format, args);
    va_end(args);
    snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", base, tail);
    return paths[turn];
}

static _unused_ const char *blob_path(const char *digest) {
    char shelf[3] = {digest[0], digest[1], 0};

    return in_base("blobs/sha256/%s/%s", shelf, digest);
}

/* A blob that was synced is read-only; the disk that damages it does not ask. */
static _unused_ void write_file(const char *path, const char *text) {
    FILE *file;

    (void)chmod(path, 0600);
    file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static _unused_ void assert_fd_text(int fd, const char *text) {
    char got[64] = "";
    ssize_t n = pread(fd, got, sizeof(got) - 1, 0);

    assert_int_equal(n, strlen(text));
    assert_string_equal(got, text);
    close(fd);
}

static _unused_ int count_one(void *ctx, _unused_ int folder, _unused_ const char *name) {
    ++*(unsigned *)ctx;
    return 0;
}

static unsigned in_tmp(void) {
    unsigned n = 0;

    assert_int_equal(ck_data_dir_each(data.tmp, count_one, &n, NULL), 0);
    return n;
}

/* A thread that takes digests or writes back may hold an upload that was given up for a moment longer. */
static _unused_ void assert_tmp_empty(void) {
    for (unsigned turns = 0; in_tmp() > 0 && turns < 2000; turns++)
        usleep(1000);
    assert_int_equal(in_tmp(), 0);
}

/* ---- uploads ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool came;
} signal_ = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static _unused_ void ready(_unused_ void *ctx, _unused_ bool digested) {
    pthread_mutex_lock(&signal_.lock);
    signal_.came = true;
    pthread_cond_signal(&signal_.wake);
    pthread_mutex_unlock(&signal_.lock);
}

static _unused_ bool suspend(_unused_ void *ctx) {
    return true;
}

static _unused_ void wait_ready(void) {
    pthread_mutex_lock(&signal_.lock);
    while (!signal_.came)
        pthread_cond_wait(&signal_.wake, &signal_.lock);
    signal_.came = false;
    pthread_mutex_unlock(&signal_.lock);
}

static _unused_ int begin_upload(struct ck_upload **ret_upload, struct ck_error *err) {
    int fd, r = ck_data_dir_temporary(&data, &fd, err);

    return r < 0 ? r : ck_upload_new(hasher, fd, ready, NULL, ret_upload, err);
}

static _unused_ struct ck_received finish_upload(struct ck_upload *upload) {
    struct ck_received file = {.field = "", .spool = upload};

    assert_true(ck_upload_finish(upload, suspend));
    wait_ready();
    assert_true(upload->digested && upload->read_error == 0);
    file.bytes = upload->written;
    memcpy(file.digest, upload->digest, CK_SHA256_BYTES);
    return file;
}

static _unused_ struct ck_received received(const char *text) {
    struct ck_upload *upload;
    struct ck_error err = {0};

    assert_int_equal(begin_upload(&upload, &err), 0);
    assert_int_equal(ck_upload_write(upload, text, strlen(text), &err), 0);
    return finish_upload(upload);
}

/* What a handler does. */
static _unused_ void store_text(const char *text, bool durable, char ret_digest[static CK_DIGEST_SIZE]) {
    struct ck_received file = received(text);
    struct ck_error err = {0};

    ck_digest_hex(file.digest, ret_digest);
    if (blobs->adopt(blobs, &file, durable, &err) < 0)
        fail_msg("%s", err.message);
    put_blob_row(ret_digest, file.bytes, durable);
    blobs->settle(blobs, ret_digest);
    ck_upload_abandon(file.spool);
}

static _unused_ void assert_blob(const char *digest, const char *text) {
    struct ck_error err = {0};
    uint64_t bytes;
    int fd;

    if (blobs->open(blobs, digest, &fd, &bytes, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(bytes, strlen(text));
    assert_fd_text(fd, text);
}

static _unused_ void assert_no_blob(const char *digest, int code) {
    struct ck_error err = {0};
    uint64_t bytes = 7;
    int fd = -7;

    assert_int_equal(blobs->open(blobs, digest, &fd, &bytes, &err), code);
    assert_int_equal(fd, -7);
    assert_int_equal(bytes, 7);
    assert_false(blobs->exists(blobs, digest, false));
}

/* ---- results ---- */

static _unused_ void publish(const char *job, const char *text, size_t n) {
    static const char *const names[] = {"f0", "f1", "f2", "f3"};
    int fds[4] = {-1, -1, -1, -1};
    struct ck_error err = {0};

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ck_data_dir_temporary(&data, &fds[i], &err), 0);
        assert_int_equal(write(fds[i], text, strlen(text)), strlen(text));
    }
    if (ck_blobs_dir_publish_results(blobs, job, names, fds, n, true, &err) < 0)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < n; i++)
        ck_data_dir_discard(fds[i]);
}

static _unused_ void assert_result(const char *job, const char *name, const char *text) {
    struct ck_error err = {0};
    uint64_t bytes;
    int fd;

    if (blobs->open_result(blobs, job, name, &fd, &bytes, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(bytes, strlen(text));
    assert_fd_text(fd, text);
}

static _unused_ void assert_no_result(const char *job, const char *name, int code) {
    uint64_t bytes;
    int fd;

    assert_int_equal(blobs->open_result(blobs, job, name, &fd, &bytes, NULL), code);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* The first line of main(): where the rows live. */
static bool make_rows(void) {
    ck_log_set_level(CK_LOG_ERROR);
    rows = mmap(NULL, sizeof(*rows), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return rows != MAP_FAILED;
}

#endif
