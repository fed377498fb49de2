#include "server/data_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static int make_dir(const char *path, struct ck_error *err) {
    struct stat info;

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return ck_error_set_errno(err, errno, path, "make the directory");
    if (stat(path, &info) < 0)
        return ck_error_set_errno(err, errno, path, "use the directory");
    return S_ISDIR(info.st_mode) ? 0 : ck_error_set(err, CK_E_IO, path, "%s is not a directory", path);
}

static int take_lock(struct ck_data_dir *dir, struct ck_error *err) {
    _cleanup_(ck_freep) char *path = NULL;
    char text[32];
    int n;

    if (asprintf(&path, "%s/lock", dir->path) < 0)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    dir->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (dir->lock < 0)
        return ck_error_set_errno(err, errno, path, "open the lock of the data directory");
    if (flock(dir->lock, LOCK_EX | LOCK_NB) < 0) {
        ssize_t got = pread(dir->lock, text, sizeof(text) - 1, 0);

        text[CK_MAX(got, 0)] = 0;
        text[strcspn(text, "\n")] = 0;
        return ck_error_set(err, CK_E_IO, dir->path, "the data directory %s is used by another daemon (process %s)",
                            dir->path, text[0] ? text : "unknown");
    }
    n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(dir->lock, 0) < 0 || pwrite(dir->lock, text, (size_t)n, 0) < 0)
        return ck_error_set_errno(err, errno, path, "write the lock of the data directory");
    return 0;
}

static int check_schema(const struct ck_data_dir *dir, struct ck_error *err) {
    _cleanup_(ck_freep) char *path = NULL;
    _cleanup_(ck_closep) int fd = -1;
    char text[32] = "";
    ssize_t n;

    if (asprintf(&path, "%s/version", dir->path) < 0)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return ck_error_set_errno(err, errno, path, "open the version of the data directory");
    n = read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return ck_error_set_errno(err, errno, path, "read the version of the data directory");
    text[n] = 0;
    text[strcspn(text, "\n")] = 0;
    if (n == 0 && pwrite(fd, CK_DATA_SCHEMA "\n", sizeof(CK_DATA_SCHEMA), 0) < 0)
        return ck_error_set_errno(err, errno, path, "write the version of the data directory");
    if (n > 0 && strcmp(text, CK_DATA_SCHEMA) != 0)
        return ck_error_set(err, CK_E_IO, path, "the data directory has schema %.20s, this ckptd knows %s", text,
                            CK_DATA_SCHEMA);
    return 0;
}

/* Only a file system without O_TMPFILE ever has something here, and only after a crash between two system calls. */
static void empty_tmp(const struct ck_data_dir *dir) {
    DIR *stream = opendir(dir->tmp);
    struct dirent *entry;

    while (stream && (entry = readdir(stream)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream)
        closedir(stream);
}

int ck_data_dir_open(const char *path, struct ck_data_dir *ret_dir, struct ck_error *err) {
    _cleanup_(ck_data_dir_release) struct ck_data_dir dir = {.lock = -1};
    int r;

    dir.path = strdup(path);
    if (!dir.path || asprintf(&dir.tmp, "%s/tmp", path) < 0) {
        dir.tmp = NULL;
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    }
    r = make_dir(dir.path, err);
    if (r == 0)
        r = take_lock(&dir, err);
    if (r == 0)
        r = check_schema(&dir, err);
    if (r == 0)
        r = make_dir(dir.tmp, err);
    if (r < 0)
        return r;
    empty_tmp(&dir);
    *ret_dir = dir;
    dir = (struct ck_data_dir){.lock = -1};
    return 0;
}

static int named_then_removed(const struct ck_data_dir *dir) {
    static atomic_uint counter;
    char path[4096];
    int fd;

    if (snprintf(path, sizeof(path), "%s/%ld-%u", dir->tmp, (long)getpid(), atomic_fetch_add(&counter, 1)) >=
        (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        unlink(path);
    return fd;
}

int ck_data_dir_temporary(const struct ck_data_dir *dir, int *ret_fd, struct ck_error *err) {
    int fd = open(dir->tmp, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        fd = named_then_removed(dir);
    if (fd < 0)
        return ck_error_set_errno(err, errno, NULL, "make a temporary file");
    *ret_fd = fd;
    return 0;
}

void ck_data_dir_set_port(const struct ck_data_dir *dir, unsigned port) {
    char path[4096], next[4096], text[16];
    int fd, n;

    if (snprintf(path, sizeof(path), "%s/port", dir->path) >= (int)sizeof(path) ||
        snprintf(next, sizeof(next), "%s/port.new", dir->path) >= (int)sizeof(next))
        return;
    if (port == 0) {
        unlink(path);
        return;
    }
    /* By rename, so that a reader never sees half a number. */
    fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    n = snprintf(text, sizeof(text), "%u\n", port);
    if (write(fd, text, (size_t)n) == n)
        rename(next, path);
    close(fd);
}

int ck_data_dir_space(const struct ck_data_dir *dir, uint64_t *ret_free, uint64_t *ret_total, struct ck_error *err) {
    struct statvfs info;

    if (statvfs(dir->tmp, &info) < 0)
        return ck_error_set_errno(err, errno, dir->tmp, "ask for the free space");
    *ret_free = (uint64_t)info.f_bavail * info.f_frsize;
    *ret_total = (uint64_t)info.f_blocks * info.f_frsize;
    return 0;
}

void ck_data_dir_release(struct ck_data_dir *dir) {
    if (dir->path && dir->lock >= 0)
        close(dir->lock);
    free(dir->path);
    free(dir->tmp);
    *dir = (struct ck_data_dir){.lock = -1};
}
