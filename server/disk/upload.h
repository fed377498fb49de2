/* server/disk/upload.h: the bytes of one request on their way into a file, and their SHA-256, taken by threads that follow
 * the writing.
 *
 * The receiving thread writes; a hasher thread reads the same pages back from the page cache. How far it may lag is
 * bounded: beyond that the receiving thread suspends its connection, and the hasher wakes it. (Hashing in the receiving
 * thread takes 1.4 times as long.)
 *
 * If the bytes are to be durable, one more thread has the kernel write them to the disk while the upload still runs, so
 * that the sync at the end finds little left to do. */
#ifndef CK_SERVER_DISK_UPLOAD_H
#define CK_SERVER_DISK_UPLOAD_H

#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/base/error.h"

#define CK_UPLOAD_LAG_MAX (64ull << 20) /* bytes written and not yet hashed */
#define CK_SHA256_SIZE    32

struct ck_hasher;

int ck_hasher_new(unsigned threads, struct ck_hasher **ret_hasher, struct ck_error *err);
void ck_hasher_free(struct ck_hasher *hasher); /* no upload may be left */

/* An upload's place in the line for a thread. */
struct ck_upload_turn {
    struct ck_upload_turn *next; /* this and upload: guarded by the line's lock */
    struct ck_upload *upload;
    bool queued; /* guarded by the upload's lock */
};

struct ck_upload {
    int fd;                   /* owned; read and written by position; of ck_data_dir_temporary() */
    struct ck_hasher *hasher; /* borrowed */
    /* Called by a hasher thread, with the upload's lock held, when a suspended receiver may go on (digested false) or
     * the digest is there. */
    void (*ready)(void *ctx, bool digested);
    void *ctx;

    pthread_mutex_t lock; /* guards what follows */
    uint64_t written, hashed, written_back;
    bool finished, digested, throttled, abandoned, write_back;
    struct ck_upload_turn hashing, writeback;
    int read_error; /* errno, or 0 */
    uint8_t digest[CK_SHA256_SIZE];
    EVP_MD_CTX *sha;
    atomic_uint references;
};

/* Takes fd, in case of success only. */
int ck_upload_new(struct ck_hasher *hasher, int fd, void (*ready)(void *ctx, bool digested), void *ctx,
                  struct ck_upload **ret_upload, struct ck_error *err);

/* The bytes will be asked to be durable (ck_blobs.adopt()): begin to write them to the disk while they arrive. Off unless set. */
void ck_upload_set_writeback(struct ck_upload *upload, bool on);

/* Appends n bytes. Called by one thread at a time. Returns 0, CK_E_STORAGE_FULL or CK_E_IO. */
int ck_upload_write(struct ck_upload *upload, const void *bytes, size_t n, struct ck_error *err);

/* If the hasher lags too far: calls suspend(ctx), with the lock held, and returns what that returned; ready() follows.
 * Else false. */
bool ck_upload_throttle(struct ck_upload *upload, bool (*suspend)(void *ctx));

/* No more bytes will come. Calls suspend(ctx) with the lock held; if that returns true, ready() follows, and true is
 * returned. */
bool ck_upload_finish(struct ck_upload *upload, bool (*suspend)(void *ctx));

/* The owner leaves: ready() is not called any more, and the file goes unless it was made a blob. Accepts NULL. */
void ck_upload_abandon(struct ck_upload *upload);

#endif
