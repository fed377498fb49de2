#include "server/disk/data_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* Of the names of temporary files, so that ck_data_dir_discard() cannot mistake anything else for one. */
#define SPOOL_PREFIX  "spool-"
#define PROC_FD_MAX   32
#define OPEN_FOLDER   (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NUMBER_LENGTH 32

/* ---- folders ---- */

int ck_data_dir_folder(int parent, const char *name, int *ret_fd, struct ck_error *err) {
    int fd;

    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return ck_error_set_errno(err, errno, name, "make the directory");
    fd = openat(parent, name, OPEN_FOLDER);
    if (fd < 0)
        return ck_error_set_errno(err, errno, name, "use the directory (links are not followed)");
    *ret_fd = fd;
    return 0;
}

int ck_data_dir_each(int folder, int (*each)(void *ctx, int folder, const char *name), void *ctx,
                     struct ck_error *err) {
    int fd = openat(folder, ".", OPEN_FOLDER);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    int r = 0;

    if (!stream) {
        r = ck_error_set_errno(err, errno, NULL, "list a folder of the data directory");
        ck_closep(&fd);
        return r;
    }
    while (r >= 0 && (errno = 0, entry = readdir(stream)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = each(ctx, folder, entry->d_name);
    if (r >= 0 && errno != 0)
        r = ck_error_set_errno(err, errno, NULL, "list a folder of the data directory");
    closedir(stream);
    return CK_MIN(r, 0);
}

static int remove_file(_unused_ void *ctx, int folder, const char *name) {
    unlinkat(folder, name, 0);
    return 0;
}

void ck_data_dir_remove(int parent, const char *name) {
    _cleanup_(ck_closep) int folder = -1;

    if (unlinkat(parent, name, 0) == 0 || errno != EISDIR)
        return;
    folder = openat(parent, name, OPEN_FOLDER);
    if (folder >= 0)
        (void)ck_data_dir_each(folder, remove_file, NULL, NULL);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static int remove_entry(_unused_ void *ctx, int folder, const char *name) {
    ck_data_dir_remove(folder, name);
    return 0;
}

int ck_data_dir_sync(int folder, struct ck_error *err) {
    if (fsync(folder) < 0)
        return ck_error_set_errno(err, errno, NULL, "sync a folder of the data directory");
    return 0;
}

/* ---- the start ---- */

static int open_root(struct ck_data_dir *dir, struct ck_error *err) {
    if (mkdir(dir->path, 0700) < 0 && errno != EEXIST)
        return ck_error_set_errno(err, errno, dir->path, "make the directory");
    /* The operator may well have put a link here; below it none is followed. */
    dir->root = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->root < 0 && errno == ENOTDIR)
        return ck_error_set(err, CK_E_IO, dir->path, "%s is not a directory", dir->path);
    if (dir->root < 0)
        return ck_error_set_errno(err, errno, dir->path, "use the directory");
    return 0;
}

static int take_lock(struct ck_data_dir *dir, struct ck_error *err) {
    char text[NUMBER_LENGTH];
    int n;

    dir->lock = openat(dir->root, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (dir->lock < 0)
        return ck_error_set_errno(err, errno, dir->path, "open the lock of the data directory");
    if (flock(dir->lock, LOCK_EX | LOCK_NB) < 0) {
        ssize_t got = pread(dir->lock, text, sizeof(text) - 1, 0);

        text[CK_MAX(got, 0)] = 0;
        text[strcspn(text, "\n")] = 0;
        return ck_error_set(err, CK_E_IO, dir->path, "the data directory %s is used by another daemon (process %s)",
                            dir->path, text[0] ? text : "unknown");
    }
    n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(dir->lock, 0) < 0 || pwrite(dir->lock, text, (size_t)n, 0) < 0)
        return ck_error_set_errno(err, errno, dir->path, "write the lock of the data directory");
    return 0;
}

/* By rename, so that a reader never sees half a number. */
static int write_number(const struct ck_data_dir *dir, const char *name, const char *next, unsigned long number,
                        bool durable, struct ck_error *err) {
    _cleanup_(ck_closep) int fd = openat(dir->root, next, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    char text[NUMBER_LENGTH];
    int n = snprintf(text, sizeof(text), "%lu\n", number);

    if (fd < 0 || write(fd, text, (size_t)n) != n || (durable && fsync(fd) < 0) ||
        renameat(dir->root, next, dir->root, name) < 0)
        return ck_error_set_errno(err, errno, name, "write a file of the data directory");
    return durable ? ck_data_dir_sync(dir->root, err) : 0;
}

/* *ret_schema 0: there is none yet. */
static int read_schema(const struct ck_data_dir *dir, unsigned long *ret_schema, struct ck_error *err) {
    _cleanup_(ck_closep) int fd = openat(dir->root, "version", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[NUMBER_LENGTH] = "", *end;
    unsigned long schema;
    ssize_t n;

    if (fd < 0 && errno == ENOENT) {
        *ret_schema = 0;
        return 0;
    }
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return ck_error_set_errno(err, errno, dir->path, "read the version of the data directory");
    text[strcspn(text, "\n")] = 0;
    schema = strtoul(text, &end, 10);
    if (n > 0 && (*end || text[0] < '1' || text[0] > '9'))
        return ck_error_set(err, CK_E_IO, dir->path,
                            "the file version of the data directory says \"%.20s\", which is no number", text);
    *ret_schema = schema; /* an empty file is what a crash of schema 1 left before it wrote the number */
    return 0;
}

/* What brings a directory from schema `from` to the next. */
static const struct {
    unsigned long from;
    int (*step)(const struct ck_data_dir *dir, struct ck_error *err); /* NULL: the number is all that changes */
} upgrades[] = {
    {0, NULL}, /* new */
    {1, NULL}, /* kept nothing between two starts */
};
_Static_assert(CK_ARRAY_LEN(upgrades) == CK_DATA_SCHEMA, "one step leads to each schema");

static int upgrade(const struct ck_data_dir *dir, struct ck_error *err) {
    unsigned long schema = 0;
    int r = read_schema(dir, &schema, err);

    if (r < 0)
        return r;
    if (schema > CK_DATA_SCHEMA) {
        ck_error_set(err, CK_E_IO, dir->path, "the data directory has schema %lu, this ckptd knows %d", schema,
                     CK_DATA_SCHEMA);
        ck_error_set_hint(err, "run the newer ckptd that wrote it, or name another directory with --data");
        return CK_E_IO;
    }
    if (schema == CK_DATA_SCHEMA)
        return 0;
    for (unsigned long at = schema; at < CK_DATA_SCHEMA && r == 0; at++)
        if (upgrades[at].step)
            r = upgrades[at].step(dir, err);
    return r < 0 ? r : write_number(dir, "version", "version.new", CK_DATA_SCHEMA, true, err);
}

int ck_data_dir_open(const char *path, struct ck_data_dir *ret_dir, struct ck_error *err) {
    _cleanup_(ck_data_dir_release) struct ck_data_dir dir = {.lock = -1, .root = -1, .tmp = -1};
    int r;

    dir.path = strdup(path);
    if (!dir.path)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    r = open_root(&dir, err);
    if (r == 0)
        r = take_lock(&dir, err);
    if (r == 0)
        r = upgrade(&dir, err);
    if (r == 0)
        (void)unlinkat(dir.root, "port", 0); /* of a daemon that was killed: nobody serves it */
    if (r == 0)
        r = ck_data_dir_folder(dir.root, "tmp", &dir.tmp, err);
    if (r == 0)
        r = ck_data_dir_each(dir.tmp, remove_entry, NULL, err);
    if (r < 0)
        return r;
    *ret_dir = dir;
    dir = (struct ck_data_dir){.lock = -1, .root = -1, .tmp = -1};
    return 0;
}

void ck_data_dir_release(struct ck_data_dir *dir) {
    if (dir->path) { /* a zeroed one owns no descriptor */
        ck_closep(&dir->tmp);
        ck_closep(&dir->root);
        ck_closep(&dir->lock);
    }
    free(dir->path);
    *dir = (struct ck_data_dir){.lock = -1, .root = -1, .tmp = -1};
}

/* ---- temporary files ---- */

void ck_data_dir_unique(char ret_name[static CK_DATA_UNIQUE_MAX]) {
    static atomic_ulong counter;

    snprintf(ret_name, CK_DATA_UNIQUE_MAX, SPOOL_PREFIX "%ld-%lu", (long)getpid(), atomic_fetch_add(&counter, 1));
}

int ck_data_dir_temporary(const struct ck_data_dir *dir, int *ret_fd, struct ck_error *err) {
    char name[CK_DATA_UNIQUE_MAX];
    int fd = -1;

    /* Without O_EXCL, which would forbid to link it later. */
    if (!dir->named)
        fd = openat(dir->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (dir->named || (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))) {
        ck_data_dir_unique(name);
        fd = openat(dir->tmp, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (fd < 0)
        return ck_error_set_errno(err, errno, NULL, "make a temporary file");
    *ret_fd = fd;
    return 0;
}

static void proc_path(int fd, char ret_path[static PROC_FD_MAX]) {
    snprintf(ret_path, PROC_FD_MAX, "/proc/self/fd/%d", fd);
}

/* The kernel remembers the name that a file was opened under, so nobody else has to. */
static void remove_spool_name(int fd) {
    char proc[PROC_FD_MAX], path[PATH_MAX];
    struct stat open_file, named_file;
    const char *base;
    ssize_t n;

    if (fstat(fd, &open_file) < 0 || open_file.st_nlink == 0)
        return;
    proc_path(fd, proc);
    n = readlink(proc, path, sizeof(path) - 1);
    if (n <= 0)
        return;
    path[n] = 0;
    base = strrchr(path, '/');
    if (base && strncmp(base + 1, SPOOL_PREFIX, strlen(SPOOL_PREFIX)) == 0 && lstat(path, &named_file) == 0 &&
        named_file.st_ino == open_file.st_ino && named_file.st_dev == open_file.st_dev)
        unlink(path);
}

void ck_data_dir_discard(int fd) {
    if (fd < 0)
        return;
    remove_spool_name(fd);
    close(fd);
}

int ck_data_dir_publish(int fd, int folder, const char *name, bool durable, bool *ret_existed, struct ck_error *err) {
    char proc[PROC_FD_MAX];
    bool existed = false;

    if (durable && fdatasync(fd) < 0)
        return ck_error_set_errno(err, errno, name, "sync a file to the disk");
    proc_path(fd, proc);
    if (linkat(AT_FDCWD, proc, folder, name, AT_SYMLINK_FOLLOW) < 0) {
        if (errno != EEXIST)
            return ck_error_set_errno(err, errno, name, "give a temporary file its name");
        existed = true;
    }
    remove_spool_name(fd);
    *ret_existed = existed;
    return 0;
}

/* ---- small questions ---- */

void ck_data_dir_set_port(const struct ck_data_dir *dir, unsigned port) {
    if (port == 0)
        unlinkat(dir->root, "port", 0);
    else
        (void)write_number(dir, "port", "port.new", port, false, NULL);
}

int ck_data_dir_space(const struct ck_data_dir *dir, uint64_t *ret_free, uint64_t *ret_total, struct ck_error *err) {
    struct statvfs info;

    if (fstatvfs(dir->tmp, &info) < 0)
        return ck_error_set_errno(err, errno, dir->path, "ask for the free space");
    *ret_free = (uint64_t)info.f_bavail * info.f_frsize;
    *ret_total = (uint64_t)info.f_blocks * info.f_frsize;
    return 0;
}
