/* server/disk/janitor.h: removes what was kept long enough, and makes room when the data directory holds too much.
 *
 * One pass, on a thread that may block:
 *   results whose time is over go, their records stay (job: expired)
 *   records of jobs that ended record_ttl ago go, with whatever files they still have
 *   blobs that no unfinished job needs and nobody used for input_ttl go
 *   while more than max_data bytes are held: such blobs whatever their age, the longest unused first, then the oldest results
 * Of each the row goes first, then the files (api/blob_store.h says why that is safe). Steps are small, so that other users of the store
 * wait for none of them. */
#ifndef CK_SERVER_DISK_JANITOR_H
#define CK_SERVER_DISK_JANITOR_H

#include <stdatomic.h>

#include "api/blob_store.h"
#include "api/store.h"

/* A blob that was used a moment ago stays even when room is needed: the request that brought it has yet to make its job. */
#define CK_JANITOR_GRACE_MS 60000

struct ck_janitor {
    struct ck_store *store;
    struct ck_blobs *blobs;
    int64_t  input_ttl, record_ttl; /* ms */
    uint64_t max_data;              /* bytes of blobs and results together; 0: no bound */
    const atomic_bool *stop;        /* once true, the pass ends after its step; NULL: never */
    /* server/disk/blobs_dir.h has these. */
    int (*usage)(struct ck_blobs *blobs, uint64_t *ret_blob_bytes, uint64_t *ret_result_bytes, struct ck_error *err);
    uint64_t (*blob_bytes)(struct ck_blobs *blobs, const char *digest);
    uint64_t (*result_bytes)(struct ck_blobs *blobs, const char *job);
};

struct ck_janitor_kind {
    uint64_t count, bytes;
};

struct ck_janitor_result {
    struct ck_janitor_kind blobs, results, records; /* what was removed. records: of jobs, with the bytes of results that they still had */
    uint64_t blob_bytes, result_bytes;              /* what is held now */
    bool     too_full;                              /* still more than max_data: what is left is needed, or was used just now */
};

/* Returns 0, or the error of the store or the disk that ended the pass; *ret_result then tells what was done up to there. Logs one line if
 * anything was removed (names at level debug), and a warning if it is still too full. */
int ck_janitor_run(const struct ck_janitor *janitor, int64_t now, struct ck_janitor_result *ret_result, struct ck_error *err);

#endif
