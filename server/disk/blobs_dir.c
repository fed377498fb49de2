#include "server/disk/blobs_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/disk/layout.h"
#include "server/disk/upload.h"

/* O_NONBLOCK: a pipe that somebody put there must not hold the thread; regular files do not mind it. */
#define OPEN_FILE (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define SHELVES   256

/* A digest between adopt() and settle(). */
struct mark {
    struct mark *next;
    char digest[CK_DIGEST_SIZE];
};

struct blobs_dir {
    struct ck_blobs port; /* first, so that the one is the other */
    const struct ck_data_dir *data;
    struct ck_store *store;
    bool durable;
    int blobs, jobs; /* descriptors of blobs/sha256 and jobs */
    /* Held over each removal together with the look into the store before it, and over what a removal must not
     * overtake: marking a digest, giving jobs/ID/ its name. Never over a sync. */
    pthread_mutex_t lock;
    struct mark *marks;
    atomic_bool shelf_synced[SHELVES]; /* the name of the folder ab/ is on the disk */
};

static struct blobs_dir *dir_of(struct ck_blobs *blobs) {
    return (struct blobs_dir *)blobs;
}

/* ---- small things ---- */

static int no_blob(const char *digest, struct ck_error *err) {
    return ck_error_set(err, CK_E_BLOB_NOT_FOUND, NULL, "there is no blob sha256:%.64s", digest);
}

static int no_result(const char *job, struct ck_error *err) {
    return ck_error_set(err, CK_E_RESULT_NOT_FOUND, NULL, "the results of the job %.36s are not there", job);
}

/* The name of the folder of a digest: its first two digits. */
static void shelf_name(const char *digest, char ret_name[static 3]) {
    snprintf(ret_name, 3, "%.2s", digest);
}

/* -1 with errno. */
static int open_shelf(const struct blobs_dir *dir, const char *digest) {
    char name[3];

    shelf_name(digest, name);
    return openat(dir->blobs, name, CK_OPEN_FOLDER);
}

/* A blob that was synced is read-only: the mark needs no row and no second file. It is set after the sync, so it may be
 * lost and never lies. */
#define SYNCED 0400

/* Makes the name of a blob durable, whose bytes are, and once for each shelf the shelf itself: it may be new. */
static int sync_name(struct blobs_dir *dir, const char *digest, int shelf, int blob, struct ck_error *err) {
    char name[3];
    unsigned long at;
    int r = ck_data_dir_sync(shelf, err);

    shelf_name(digest, name);
    at = strtoul(name, NULL, 16);
    if (r == 0 && !atomic_load(&dir->shelf_synced[at])) {
        r = ck_data_dir_sync(dir->blobs, err);
        if (r == 0)
            atomic_store(&dir->shelf_synced[at], true);
    }
    if (r == 0)
        (void)fchmod(blob, SYNCED);
    return r;
}

/* Opens a regular file for reading; not_found is returned, without a message, where there is none. */
static int open_regular(int folder, const char *name, int not_found, int *ret_fd, uint64_t *ret_bytes,
                        struct ck_error *err) {
    _cleanup_(ck_closep) int fd = openat(folder, name, OPEN_FILE);
    struct stat info;

    if (fd < 0 && errno == ENOENT)
        return not_found;
    if (fd < 0 && errno != ELOOP)
        return ck_error_set_errno(err, errno, name, "open a file of the data directory");
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
        return ck_error_set(err, CK_E_IO, name, "%s in the data directory is no regular file", name);
    *ret_bytes = (uint64_t)info.st_size;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* ---- blobs ---- */

static int open_blob(struct ck_blobs *blobs, const char *digest, int *ret_fd, uint64_t *ret_bytes,
                     struct ck_error *err) {
    _cleanup_(ck_closep) int shelf = -1;
    int r;

    if (!ck_layout_is_digest(digest))
        return no_blob(digest, err);
    shelf = open_shelf(dir_of(blobs), digest);
    if (shelf < 0 && errno == ENOENT)
        return no_blob(digest, err);
    if (shelf < 0)
        return ck_error_set_errno(err, errno, digest, "open a folder of the data directory");
    r = open_regular(shelf, digest, CK_E_BLOB_NOT_FOUND, ret_fd, ret_bytes, err);
    return r == CK_E_BLOB_NOT_FOUND ? no_blob(digest, err) : r;
}

static bool blob_exists(struct ck_blobs *blobs, const char *digest, bool synced) {
    _cleanup_(ck_closep) int shelf = -1;
    struct stat info;

    if (!ck_layout_is_digest(digest))
        return false;
    shelf = open_shelf(dir_of(blobs), digest);
    return shelf >= 0 && fstatat(shelf, digest, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
           (!synced || (info.st_mode & 07777) == SYNCED);
}

static int sync_blob(struct ck_blobs *blobs, const char *digest, struct ck_error *err) {
    _cleanup_(ck_closep) int fd = -1, shelf = -1;
    uint64_t bytes;
    int r = open_blob(blobs, digest, &fd, &bytes, err);

    if (r < 0)
        return r;
    if (fdatasync(fd) < 0)
        return ck_error_set_errno(err, errno, digest, "sync a blob to the disk");
    shelf = open_shelf(dir_of(blobs), digest);
    if (shelf < 0)
        return ck_error_set_errno(err, errno, digest, "open a folder of the data directory");
    return sync_name(dir_of(blobs), digest, shelf, fd, err);
}

/* Marks the digest, and clears away what cannot be its blob: a file that a crash cut off, a link. Both in one step: a
 * second upload of the same bytes must not clear away what the first has published since. */
static int mark(struct blobs_dir *dir, const char *digest, int shelf, uint64_t bytes, struct ck_error *err) {
    struct mark *mark = calloc(1, sizeof(*mark));
    struct stat info;

    if (!mark)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    memcpy(mark->digest, digest, CK_DIGEST_SIZE);
    pthread_mutex_lock(&dir->lock);
    mark->next = dir->marks;
    dir->marks = mark;
    if (fstatat(shelf, digest, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != bytes))
        unlinkat(shelf, digest, 0);
    pthread_mutex_unlock(&dir->lock);
    return 0;
}

static void settle(struct ck_blobs *blobs, const char *digest) {
    struct blobs_dir *dir = dir_of(blobs);
    struct mark **at, *found;

    pthread_mutex_lock(&dir->lock);
    for (at = &dir->marks; *at && strcmp((*at)->digest, digest) != 0;)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&dir->lock);
    free(found);
}

static int place(struct ck_blobs *blobs, const struct ck_upload *upload, const char *digest, int shelf, bool durable,
                 struct ck_error *err) {
    bool existed = blob_exists(blobs, digest, false);
    int r = 0;

    if (!existed)
        r = ck_data_dir_publish(upload->fd, shelf, digest, durable, &existed, err);
    if (r < 0 || !durable || blob_exists(blobs, digest, true))
        return r;
    /* The one that was there may never have been synced. */
    return existed ? sync_blob(blobs, digest, err) : sync_name(dir_of(blobs), digest, shelf, upload->fd, err);
}

static int adopt(struct ck_blobs *blobs, const struct ck_received *file, bool durable, struct ck_error *err) {
    _cleanup_(ck_closep) int shelf = -1;
    char digest[CK_DIGEST_SIZE], name[3];
    int r;

    ck_digest_hex(file->digest, digest);
    shelf_name(digest, name);
    r = ck_data_dir_folder(dir_of(blobs)->blobs, name, &shelf, err);
    if (r < 0)
        return r;
    r = mark(dir_of(blobs), digest, shelf, file->bytes, err);
    if (r < 0)
        return r;
    r = place(blobs, file->spool, digest, shelf, durable, err);
    if (r < 0)
        settle(blobs, digest);
    return r;
}

/* With the lock held. A store that does not answer keeps everything. */
static bool blob_wanted(const struct blobs_dir *dir, const char *digest) {
    uint64_t bytes;
    bool durable;

    for (const struct mark *mark = dir->marks; mark; mark = mark->next)
        if (strcmp(mark->digest, digest) == 0)
            return true;
    return dir->store->blob_get(dir->store, "", digest, &bytes, &durable, NULL) != CK_E_BLOB_NOT_FOUND;
}

static void remove_blob(struct ck_blobs *blobs, const char *digest) {
    struct blobs_dir *dir = dir_of(blobs);
    _cleanup_(ck_closep) int shelf = -1;
    char aside[CK_DATA_UNIQUE_MAX];

    if (!ck_layout_is_digest(digest))
        return;
    shelf = open_shelf(dir, digest);
    if (shelf < 0)
        return;
    /* The kernel takes its time to free a large file: outside of the lock, under another name. */
    ck_data_dir_unique(aside);
    pthread_mutex_lock(&dir->lock);
    if (!blob_wanted(dir, digest))
        (void)renameat(shelf, digest, dir->data->tmp, aside);
    pthread_mutex_unlock(&dir->lock);
    ck_data_dir_remove(dir->data->tmp, aside);
}

/* ---- results ---- */

static int open_job(const struct blobs_dir *dir, const char *job, int *ret_fd, struct ck_error *err) {
    int fd = ck_layout_is_job(job) ? openat(dir->jobs, job, CK_OPEN_FOLDER) : -1;

    if (fd < 0 && (!ck_layout_is_job(job) || errno == ENOENT))
        return no_result(job, err);
    if (fd < 0)
        return ck_error_set_errno(err, errno, job, "open the results of a job");
    *ret_fd = fd;
    return 0;
}

static int open_result(struct ck_blobs *blobs, const char *job, const char *name, int *ret_fd, uint64_t *ret_bytes,
                       struct ck_error *err) {
    _cleanup_(ck_closep) int folder = -1;
    int r = open_job(dir_of(blobs), job, &folder, err);

    if (r < 0)
        return r;
    r = ck_layout_is_result_name(name) ? open_regular(folder, name, CK_E_RESULT_NOT_FOUND, ret_fd, ret_bytes, err)
                                       : CK_E_RESULT_NOT_FOUND;
    return r == CK_E_RESULT_NOT_FOUND ? no_result(job, err) : r;
}

/* A folder in tmp/ that becomes jobs/ID/. */
struct stage {
    const struct ck_data_dir *data;
    char name[CK_DATA_UNIQUE_MAX];
    int folder;
};

static int stage_open(const struct blobs_dir *dir, struct stage *stage, struct ck_error *err) {
    stage->data = dir->data;
    ck_data_dir_unique(stage->name);
    return ck_data_dir_folder(dir->data->tmp, stage->name, &stage->folder, err);
}

/* A stage that was installed has its name in tmp/ no more. */
static void stage_release(struct stage *stage) {
    ck_closep(&stage->folder);
    if (stage->data)
        ck_data_dir_remove(stage->data->tmp, stage->name);
}

static int stage_install(struct blobs_dir *dir, struct stage *stage, const char *job, bool durable,
                         struct ck_error *err) {
    char earlier[CK_DATA_UNIQUE_MAX];
    int r = durable ? ck_data_dir_sync(stage->folder, err) : 0;

    if (r < 0)
        return r;
    ck_data_dir_unique(earlier);
    pthread_mutex_lock(&dir->lock);
    (void)renameat(dir->jobs, job, dir->data->tmp, earlier);
    r = renameat(dir->data->tmp, stage->name, dir->jobs, job);
    if (r < 0)
        r = ck_error_set_errno(err, errno, job, "publish the results of a job");
    pthread_mutex_unlock(&dir->lock);
    ck_data_dir_remove(dir->data->tmp, earlier);
    return r == 0 && durable ? ck_data_dir_sync(dir->jobs, err) : r;
}

int ck_blobs_dir_publish_results(struct ck_blobs *blobs, const char *job, const char *const *names, const int *fds,
                                 size_t n, bool durable, struct ck_error *err) {
    _cleanup_(stage_release) struct stage stage = {.folder = -1};
    int r;

    if (!ck_layout_is_job(job))
        return ck_error_set(err, CK_E_INTERNAL, NULL, "\"%.36s\" is no job id", job);
    r = stage_open(dir_of(blobs), &stage, err);
    for (size_t i = 0; i < n && r == 0; i++) {
        bool existed = false;

        if (!ck_layout_is_result_name(names[i]))
            return ck_error_set(err, CK_E_INTERNAL, NULL, "\"%.127s\" is no name of a result", names[i]);
        r = ck_data_dir_publish(fds[i], stage.folder, names[i], durable, &existed, err);
        if (r == 0 && existed)
            return ck_error_set(err, CK_E_INTERNAL, names[i], "two results have the name %s", names[i]);
    }
    return r < 0 ? r : stage_install(dir_of(blobs), &stage, job, durable, err);
}

struct linking {
    int to;
    const char *job;
    struct ck_error *err;
};

static int link_one(void *ctx, int folder, const char *name) {
    const struct linking *linking = ctx;

    if (linkat(folder, name, linking->to, name, 0) == 0)
        return 0;
    /* Gone meanwhile, or linked as often as the file system allows (65,000 times in ext4): make it anew then. */
    if (errno == ENOENT || errno == EMLINK)
        return no_result(linking->job, linking->err);
    return ck_error_set_errno(linking->err, errno, name, "link the results of a job");
}

/* A removal moves the folder away before it takes the first file. So a folder that still has its name was complete. */
static bool still_there(const struct blobs_dir *dir, const char *job, int folder) {
    struct stat open_one, named_one;

    return fstat(folder, &open_one) == 0 && fstatat(dir->jobs, job, &named_one, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_one.st_ino == named_one.st_ino;
}

static int link_results(struct ck_blobs *blobs, const char *from, const char *to, struct ck_error *err) {
    struct blobs_dir *dir = dir_of(blobs);
    _cleanup_(stage_release) struct stage stage = {.folder = -1};
    _cleanup_(ck_closep) int folder = -1;
    struct linking linking;
    int r;

    if (!ck_layout_is_job(to))
        return ck_error_set(err, CK_E_INTERNAL, NULL, "\"%.36s\" is no job id", to);
    r = open_job(dir, from, &folder, err);
    if (r == 0)
        r = stage_open(dir, &stage, err);
    if (r < 0)
        return r;
    linking = (struct linking){.to = stage.folder, .job = from, .err = err};
    r = ck_data_dir_each(folder, link_one, &linking, err);
    if (r == 0 && !still_there(dir, from, folder))
        r = no_result(from, err);
    return r < 0 ? r : stage_install(dir, &stage, to, dir->durable, err);
}

/* With the lock held. True while the job runs, or if it lists files that are to stay. A store that does not answer
 * keeps everything. */
static bool results_wanted(const struct blobs_dir *dir, const char *job) {
    struct ck_job_row row = {0};
    bool wanted;
    int r = dir->store->job_get(dir->store, "", job, &row, NULL);

    if (r < 0)
        return r != CK_E_JOB_NOT_FOUND;
    wanted = row.state == CK_STATE_RUNNING ||
             (row.n_files > 0 && ck_job_state_finished(row.state) && row.state != CK_STATE_EXPIRED);
    ck_job_row_release(&row);
    return wanted;
}

static void remove_results(struct ck_blobs *blobs, const char *job) {
    struct blobs_dir *dir = dir_of(blobs);
    char aside[CK_DATA_UNIQUE_MAX];

    if (!ck_layout_is_job(job))
        return;
    ck_data_dir_unique(aside);
    pthread_mutex_lock(&dir->lock);
    if (!results_wanted(dir, job))
        (void)renameat(dir->jobs, job, dir->data->tmp, aside);
    pthread_mutex_unlock(&dir->lock);
    ck_data_dir_remove(dir->data->tmp, aside);
}

/* ---- how much there is ---- */

static int add_file(void *ctx, int folder, const char *name) {
    uint64_t *bytes = ctx;
    struct stat info;

    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) && info.st_nlink > 0)
        *bytes += (uint64_t)info.st_blocks * 512 / info.st_nlink;
    return 0;
}

static int add_folder(void *ctx, int parent, const char *name) {
    _cleanup_(ck_closep) int folder = openat(parent, name, CK_OPEN_FOLDER);

    return folder < 0 ? 0 : ck_data_dir_each(folder, add_file, ctx, NULL);
}

int ck_blobs_dir_usage(struct ck_blobs *blobs, uint64_t *ret_blob_bytes, uint64_t *ret_result_bytes,
                       struct ck_error *err) {
    uint64_t in_blobs = 0, in_results = 0;
    int r = ck_data_dir_each(dir_of(blobs)->blobs, add_folder, &in_blobs, err);

    if (r == 0)
        r = ck_data_dir_each(dir_of(blobs)->jobs, add_folder, &in_results, err);
    if (r < 0)
        return r;
    *ret_blob_bytes = in_blobs;
    *ret_result_bytes = in_results;
    return 0;
}

uint64_t ck_blobs_dir_blob_bytes(struct ck_blobs *blobs, const char *digest) {
    _cleanup_(ck_closep) int shelf = ck_layout_is_digest(digest) ? open_shelf(dir_of(blobs), digest) : -1;
    uint64_t bytes = 0;

    if (shelf >= 0)
        (void)add_file(&bytes, shelf, digest);
    return bytes;
}

uint64_t ck_blobs_dir_result_bytes(struct ck_blobs *blobs, const char *job) {
    uint64_t bytes = 0;

    if (ck_layout_is_job(job))
        (void)add_folder(&bytes, dir_of(blobs)->jobs, job);
    return bytes;
}

/* ---- the start ---- */

int ck_blobs_dir_new(const struct ck_data_dir *data, struct ck_store *store, bool durable, struct ck_blobs **ret_blobs,
                     struct ck_error *err) {
    struct blobs_dir *dir = calloc(1, sizeof(*dir));
    int r;

    if (!dir)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    *dir = (struct blobs_dir){
        .port = {adopt, settle, sync_blob, blob_exists, open_blob, remove_blob, open_result, link_results,
                 remove_results},
        .data = data,
        .store = store,
        .durable = durable,
        .blobs = -1,
        .jobs = -1,
    };
    pthread_mutex_init(&dir->lock, NULL);
    r = ck_layout_open(data, &dir->blobs, &dir->jobs, err);
    if (r < 0) {
        ck_blobs_dir_free(&dir->port);
        return r;
    }
    *ret_blobs = &dir->port;
    return 0;
}

void ck_blobs_dir_free(struct ck_blobs *blobs) {
    struct blobs_dir *dir = dir_of(blobs);
    struct mark *next;

    if (!dir)
        return;
    for (; dir->marks; dir->marks = next) {
        next = dir->marks->next;
        free(dir->marks);
    }
    ck_closep(&dir->blobs);
    ck_closep(&dir->jobs);
    pthread_mutex_destroy(&dir->lock);
    free(dir);
}
