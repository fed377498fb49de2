/* api/blob_store.h: the port to stored bytes: inputs by their digest, results by job and name. server/disk/blobs_dir.c keeps them in the data directory.
 * All functions may block on the disk and are thread-safe. Digests are 64 lower-case hex digits; anything else is not found.
 *
 * A row in the store promises that the file is there. Files are made before their row and removed after it, and between the two
 * somebody else may do the opposite: an upload finds the file there, the janitor removes row and file, the upload makes its row. Hence:
 *
 *   to store:   adopt(), then the store's blob_put(), then settle() whether or not that worked; if it did not, remove().
 *   to remove:  the store's blob_delete() or forget_blobs() first, and when it has returned (never from within its gone()) remove().
 *
 * adopt() marks the digest until settle(): remove() leaves a marked file alone. remove() and remove_results() look into the store again, in one step
 * with the removal, and leave what has got a row, or what a job has made, meanwhile. So a removal may always be asked for; it is never wrong. */
#ifndef CK_API_BLOB_STORE_H
#define CK_API_BLOB_STORE_H

#include "api/request.h"

struct ck_blobs {
    /* Makes the received file the blob of its digest: durable on disk first if asked for (data, then directory), then visible under its name.
     * A blob that is there already is kept (and synced, if durable is asked for and it may not have been). The row in the store comes afterwards.
     * The received file is used up. After success the caller owes settle(), on any thread. CK_E_STORAGE_FULL, CK_E_IO, CK_E_OUT_OF_MEMORY. */
    int (*adopt)(struct ck_blobs *blobs, const struct ck_received *file, bool durable, struct ck_error *err);

    /* The row of an adopted blob is made, or will not be. Once for each adopt() that succeeded. */
    void (*settle)(struct ck_blobs *blobs, const char *digest);

    /* Syncs a blob that is there. CK_E_BLOB_NOT_FOUND, CK_E_IO. */
    int (*sync)(struct ck_blobs *blobs, const char *digest, struct ck_error *err);

    /* True if the file is there; synced: and is known to survive a power cut. One stat(), so that a head may ask. */
    bool (*exists)(struct ck_blobs *blobs, const char *digest, bool synced);

    /* A readable descriptor, the caller's. CK_E_BLOB_NOT_FOUND if the file is gone, CK_E_IO. */
    int (*open)(struct ck_blobs *blobs, const char *digest, int *ret_fd, uint64_t *ret_bytes, struct ck_error *err);

    /* Removes the file, unless it has a row or is about to get one; one that is gone is fine. Asks the store: not to be called from within it. */
    void (*remove)(struct ck_blobs *blobs, const char *digest);

    /* A file of jobs/ID/. CK_E_RESULT_NOT_FOUND, CK_E_IO. name is one that the store has listed. */
    int (*open_result)(struct ck_blobs *blobs, const char *job, const char *name, int *ret_fd, uint64_t *ret_bytes, struct ck_error *err);

    /* Makes jobs/TO/ of hard links to all files of jobs/FROM/, at once. CK_E_RESULT_NOT_FOUND if they are gone, or while they are being removed, or
     * if the file system allows no more links (so: not from cache then), CK_E_IO, CK_E_STORAGE_FULL. */
    int (*link_results)(struct ck_blobs *blobs, const char *from, const char *to, struct ck_error *err);

    /* Removes jobs/ID/ with its files, at once, unless the job runs or its row lists files that are there to stay (a retry has made new ones);
     * nothing there is fine. Asks the store: not to be called from within it. */
    void (*remove_results)(struct ck_blobs *blobs, const char *job);
};

/* Hex of a binary digest, and back from "sha256:HEX" (any case in HEX; the result is lower case); false, with ret_hex untouched, if it is NULL or not of that form. */
void ck_digest_hex(const uint8_t digest[static CK_SHA256_BYTES], char ret_hex[static 65]);
bool ck_digest_parse(const char *text, char ret_hex[static 65]);

#endif
