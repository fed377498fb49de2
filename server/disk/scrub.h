/* server/disk/scrub.h: the look at start whether rows and files still agree, before anything is served and while the data directory is locked.
 *
 * A crash leaves files without a row (they are removed) and, if the machine went down too, rows without their file (they are dropped or
 * reported). tmp/ is empty by then (ck_data_dir_open()). Names that ckptd does not make are logged and left alone.
 *
 *     ck_store_sqlite_open -> ck_scrub_blobs -> ck_store_sqlite_recover -> ck_scrub_results -> serve
 *
 * Results come after the recovery, which takes some jobs their results. Both log what they did, as numbers, if they did anything. */
#ifndef CK_SERVER_DISK_SCRUB_H
#define CK_SERVER_DISK_SCRUB_H

#include "api/store.h"
#include "server/disk/data_dir.h"

struct ck_scrub {
    const struct ck_data_dir *data;
    struct ck_store          *store;
    bool                      rebooted; /* since the last run: blobs that were never synced are read and compared with their digest */
    bool                      store_is_new; /* it was made just now: whoever moved a damaged one away keeps the blobs whose content has their digest */
    int64_t                   now;          /* ms since 1970 */
    /* server/store/sqlite.h has these. */
    int (*each_blob)(struct ck_store *store, int (*each)(void *ctx, const char *digest, uint64_t bytes, bool durable), void *ctx, struct ck_error *err);
    int (*drop_blob)(struct ck_store *store, const char *digest, struct ck_error *err);
    int (*each_job_with_files)(struct ck_store *store, int (*each)(void *ctx, const char *id), void *ctx, struct ck_error *err);
    /* A job lists a file that is missing or has another size: the caller changes the row. What is left of the files is removed when it returns 0;
     * a negative return ends the scrub and is returned. */
    int (*lost)(void *ctx, const char *job, struct ck_error *err);
    void *ctx;
};

struct ck_scrub_result {
    uint64_t blobs;          /* whose row and file agree */
    uint64_t blobs_orphaned; /* files without a row, removed */
    uint64_t blobs_adopted;  /* files without a row that got one, because the store is new */
    uint64_t blobs_missing;  /* rows without a file, dropped */
    uint64_t blobs_damaged;  /* of the wrong size or content: file removed, row dropped */
    uint64_t jobs;           /* whose results are there */
    uint64_t jobs_orphaned;  /* folders of results without a row that lists files, removed */
    uint64_t jobs_lost;      /* reported through lost() */
    uint64_t unexpected;     /* names left alone */
};

/* Each adds to *result. CK_E_IO, CK_E_OUT_OF_MEMORY, and what the store says. */
int ck_scrub_blobs(const struct ck_scrub *scrub, struct ck_scrub_result *result, struct ck_error *err);
int ck_scrub_results(const struct ck_scrub *scrub, struct ck_scrub_result *result, struct ck_error *err);

#endif
