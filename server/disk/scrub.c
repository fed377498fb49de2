#include "server/disk/scrub.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/blob_store.h"
#include "server/disk/layout.h"
#include "server/log.h"

#define READ_BYTES (1u << 20)

static void leave_alone(struct ck_scrub_result *result, const char *folder, const char *name) {
    result->unexpected++;
    CK_LOG(WARNING, "a name in the data directory is not of ckptd; it is left alone", CK_LOG_TEXT("folder", folder),
           CK_LOG_TEXT("name", name));
}

static void removed(const char *what, const char *why, const char *name) {
    CK_LOG(DEBUG, what, CK_LOG_TEXT("why", why), CK_LOG_TEXT("name", name));
}

/* ---- a set of names with what is known of them ---- */

struct known {
    char name[CK_DIGEST_SIZE]; /* first: what bsearch compares */
    bool durable, seen;
    uint64_t bytes;
};

struct known_set {
    struct known *items; /* owned; sorted once complete */
    size_t n, room;
};

static void known_set_release(struct known_set *set) {
    free(set->items);
}

static int known_add(struct known_set *set, const char *name, uint64_t bytes, bool durable) {
    if (set->n == set->room) {
        size_t room = CK_MAX(2 * set->room, (size_t)256);
        struct known *items = reallocarray(set->items, room, sizeof(*items));

        if (!items)
            return CK_E_OUT_OF_MEMORY;
        set->items = items;
        set->room = room;
    }
    set->items[set->n] = (struct known){.bytes = bytes, .durable = durable};
    snprintf(set->items[set->n++].name, CK_DIGEST_SIZE, "%s", name);
    return 0;
}

static int compare(const void *a, const void *b) {
    return strcmp(a, b);
}

static void known_sort(struct known_set *set) {
    if (set->n > 0)
        qsort(set->items, set->n, sizeof(*set->items), compare);
}

static struct known *known_find(const struct known_set *set, const char *name) {
    return set->n > 0 ? bsearch(name, set->items, set->n, sizeof(*set->items), compare) : NULL;
}

/* The store's functions have filled err unless it was this file's callback that gave up. */
static int listed(int r, struct ck_error *err) {
    return r == CK_E_OUT_OF_MEMORY ? ck_error_set(err, r, NULL, "out of memory") : r;
}

/* ---- blobs ---- */

struct blobs_walk {
    const struct ck_scrub *scrub;
    struct ck_scrub_result *result;
    struct ck_error *err;
    struct known_set rows;
    const char *shelf;
};

static void blobs_walk_release(struct blobs_walk *walk) {
    known_set_release(&walk->rows);
}

static int take_blob(void *ctx, const char *digest, uint64_t bytes, bool durable) {
    struct blobs_walk *walk = ctx;

    return known_add(&walk->rows, digest, bytes, durable);
}

/* Reads the file. False also if it cannot be read. */
static bool has_digest(int folder, const char *digest) {
    _cleanup_(ck_closep) int fd = openat(folder, digest, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_(ck_freep) char *bytes = malloc(READ_BYTES);
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    uint8_t sum[CK_SHA256_BYTES];
    char hex[CK_DIGEST_SIZE];
    ssize_t n = -1;
    bool ok = fd >= 0 && bytes && sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1;

    while (ok && (n = read(fd, bytes, READ_BYTES)) > 0)
        ok = EVP_DigestUpdate(sha, bytes, (size_t)n) == 1;
    ok = ok && n == 0 && EVP_DigestFinal_ex(sha, sum, NULL) == 1;
    EVP_MD_CTX_free(sha);
    if (!ok)
        return false;
    ck_digest_hex(sum, hex);
    return strcmp(hex, digest) == 0;
}

/* The row is dropped when the walk is over, as that of a file that was never seen. */
static int check_blob(struct blobs_walk *walk, int folder, const char *digest, uint64_t bytes) {
    struct known *row = known_find(&walk->rows, digest);
    bool suspect = row && walk->scrub->rebooted && !row->durable;

    if (!row && walk->scrub->store_is_new && has_digest(folder, digest)) {
        bool is_new;

        walk->result->blobs_adopted++;
        return walk->scrub->store->blob_put(walk->scrub->store, "", digest, bytes, false, walk->scrub->now, &is_new,
                                            walk->err);
    }
    if (!row) {
        walk->result->blobs_orphaned++;
        removed("blob removed", "it has no row", digest);
        ck_data_dir_remove(folder, digest);
    } else if (row->bytes != bytes || (suspect && !has_digest(folder, digest))) {
        walk->result->blobs_damaged++;
        removed("blob removed", "its bytes are not those of its digest", digest);
        ck_data_dir_remove(folder, digest);
        row->seen = true;
        return walk->scrub->drop_blob(walk->scrub->store, digest, walk->err);
    } else {
        walk->result->blobs++;
        row->seen = true;
    }
    return 0;
}

static int see_blob(void *ctx, int folder, const char *name) {
    struct blobs_walk *walk = ctx;
    struct stat info;

    if (!ck_layout_is_digest(name) || strncmp(name, walk->shelf, 2) != 0 ||
        fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode)) {
        leave_alone(walk->result, walk->shelf, name);
        return 0;
    }
    return check_blob(walk, folder, name, (uint64_t)info.st_size);
}

static int see_shelf(void *ctx, int parent, const char *name) {
    struct blobs_walk *walk = ctx;
    _cleanup_(ck_closep) int folder = -1;

    if (strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2)
        folder = openat(parent, name, CK_OPEN_FOLDER);
    if (folder < 0) {
        leave_alone(walk->result, "blobs/sha256", name);
        return 0;
    }
    walk->shelf = name;
    return ck_data_dir_each(folder, see_blob, walk, walk->err);
}

static int drop_unseen(struct blobs_walk *walk) {
    for (size_t i = 0; i < walk->rows.n; i++) {
        const struct known *row = &walk->rows.items[i];
        int r;

        if (row->seen)
            continue;
        removed("row of a blob dropped", "its file is gone", row->name);
        r = walk->scrub->drop_blob(walk->scrub->store, row->name, walk->err);
        if (r < 0)
            return r;
        walk->result->blobs_missing++;
    }
    return 0;
}

int ck_scrub_blobs(const struct ck_scrub *scrub, struct ck_scrub_result *result, struct ck_error *err) {
    _cleanup_(blobs_walk_release) struct blobs_walk walk = {.scrub = scrub, .result = result, .err = err};
    _cleanup_(ck_closep) int blobs = -1, jobs = -1;
    int r = ck_layout_open(scrub->data, &blobs, &jobs, err);

    if (r == 0)
        r = listed(scrub->each_blob(scrub->store, take_blob, &walk, err), err);
    if (r < 0)
        return r;
    known_sort(&walk.rows);
    r = ck_data_dir_each(blobs, see_shelf, &walk, err);
    if (r == 0)
        r = drop_unseen(&walk);
    if (result->blobs_adopted > 0)
        CK_LOG(WARNING, "the store is new and there are blobs: they are kept",
               CK_LOG_NUMBER("blobs", result->blobs_adopted));
    if (result->blobs_orphaned + result->blobs_missing + result->blobs_damaged > 0)
        CK_LOG(WARNING, "blobs and their rows did not agree", CK_LOG_NUMBER("agree", result->blobs),
               CK_LOG_NUMBER("files_removed", result->blobs_orphaned),
               CK_LOG_NUMBER("rows_dropped", result->blobs_missing), CK_LOG_NUMBER("damaged", result->blobs_damaged));
    return r;
}

/* ---- results ---- */

struct jobs_walk {
    const struct ck_scrub *scrub;
    struct ck_scrub_result *result;
    struct ck_error *err;
    struct known_set ids;
    int jobs;
};

static void jobs_walk_release(struct jobs_walk *walk) {
    known_set_release(&walk->ids);
    ck_closep(&walk->jobs);
}

static int take_job(void *ctx, const char *id) {
    struct jobs_walk *walk = ctx;

    return known_add(&walk->ids, id, 0, false);
}

static bool files_there(int jobs, const struct ck_job_row *row) {
    _cleanup_(ck_closep) int folder = ck_layout_is_job(row->id) ? openat(jobs, row->id, CK_OPEN_FOLDER) : -1;
    struct stat info;

    for (size_t i = 0; i < row->n_files; i++)
        if (folder < 0 || !ck_layout_is_result_name(row->files[i].name) ||
            fstatat(folder, row->files[i].name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode) ||
            (uint64_t)info.st_size != row->files[i].bytes)
            return false;
    return true;
}

static int check_job(struct jobs_walk *walk, const char *id) {
    struct ck_job_row row = {0};
    bool there;
    int r = walk->scrub->store->job_get(walk->scrub->store, "", id, &row, walk->err);

    if (r < 0)
        return r;
    there = files_there(walk->jobs, &row);
    ck_job_row_release(&row);
    if (there) {
        walk->result->jobs++;
        return 0;
    }
    walk->result->jobs_lost++;
    removed("results lost", "a file is missing or has another size", id);
    r = walk->scrub->lost(walk->scrub->ctx, id, walk->err);
    if (r == 0)
        ck_data_dir_remove(walk->jobs, id);
    return r;
}

static int see_job(void *ctx, int parent, const char *name) {
    struct jobs_walk *walk = ctx;
    struct stat info;

    if (!ck_layout_is_job(name) || fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(info.st_mode)) {
        leave_alone(walk->result, "jobs", name);
    } else if (!known_find(&walk->ids, name)) {
        walk->result->jobs_orphaned++;
        removed("results removed", "no job lists them", name);
        ck_data_dir_remove(parent, name);
    }
    return 0;
}

int ck_scrub_results(const struct ck_scrub *scrub, struct ck_scrub_result *result, struct ck_error *err) {
    _cleanup_(jobs_walk_release) struct jobs_walk walk = {.scrub = scrub, .result = result, .err = err, .jobs = -1};
    _cleanup_(ck_closep) int blobs = -1;
    int r = ck_layout_open(scrub->data, &blobs, &walk.jobs, err);

    if (r == 0)
        r = listed(scrub->each_job_with_files(scrub->store, take_job, &walk, err), err);
    for (size_t i = 0; i < walk.ids.n && r == 0; i++)
        r = check_job(&walk, walk.ids.items[i].name);
    if (r < 0)
        return r;
    known_sort(&walk.ids);
    r = ck_data_dir_each(walk.jobs, see_job, &walk, err);
    if (result->jobs_orphaned + result->jobs_lost > 0)
        CK_LOG(WARNING, "results and their jobs did not agree", CK_LOG_NUMBER("agree", result->jobs),
               CK_LOG_NUMBER("folders_removed", result->jobs_orphaned), CK_LOG_NUMBER("lost", result->jobs_lost));
    return r;
}
