/* server/disk/blobs_dir.h: the port api/blob_store.h on the data directory: blobs/sha256/ab/HEX and jobs/ID/NAME.
 *
 * What is atomic: a blob, and the folder jobs/ID/ as a whole, appear and disappear in one step. Such a folder is filled
 * in tmp/ and renamed, or renamed into tmp/ and emptied there, so that no reader and no crash sees half of one. Where an
 * earlier attempt's folder is replaced there is none for a moment.
 *
 * All functions are thread-safe and may block on the disk. */
#ifndef CK_SERVER_DISK_BLOBS_DIR_H
#define CK_SERVER_DISK_BLOBS_DIR_H

#include "api/blob_store.h"
#include "api/store.h"
#include "server/disk/data_dir.h"

/* data and store are borrowed; the store is asked, with the empty tenant, before anything is removed. durable: link_results() syncs its folders.
 * CK_E_IO, CK_E_STORAGE_FULL, CK_E_OUT_OF_MEMORY. */
int  ck_blobs_dir_new(const struct ck_data_dir *data, struct ck_store *store, bool durable, struct ck_blobs **ret_blobs, struct ck_error *err);
void ck_blobs_dir_free(struct ck_blobs *blobs); /* accepts NULL */

/* Makes jobs/JOB/ of n temporary files (ck_data_dir_temporary()), which stay open and the caller's; whatever an earlier attempt left under that
 * name is replaced. durable: everything is on the disk when it returns. Names are of [A-Za-z0-9._-], at most 127, and begin with no dot.
 * CK_E_IO, CK_E_STORAGE_FULL, CK_E_INTERNAL for a name or an id that is none, or a name twice; nothing is published then. */
int ck_blobs_dir_publish_results(struct ck_blobs *blobs, const char *job, const char *const *names, const int *fds, size_t n, bool durable,
                                 struct ck_error *err);

/* Bytes that the disk holds for all blobs and all results, by a walk; a file with several names is counted once. CK_E_IO. */
int ck_blobs_dir_usage(struct ck_blobs *blobs, uint64_t *ret_blob_bytes, uint64_t *ret_result_bytes, struct ck_error *err);

/* The same of one blob, and of one job's results; 0 if there are none. */
uint64_t ck_blobs_dir_blob_bytes(struct ck_blobs *blobs, const char *digest);
uint64_t ck_blobs_dir_result_bytes(struct ck_blobs *blobs, const char *job);

#endif
