/* server/disk/data_dir.h: the data directory of one daemon: lock, schema version, temporary files and how they get a name.
 *
 *   DATA/lock                    flock of the running daemon, with its process id
 *   DATA/version                 schema of the directory: "2"
 *   DATA/port                    the port that is served, while it is
 *   DATA/store.sqlite            jobs and rows of blobs (server/store/sqlite.h)
 *   DATA/blobs/sha256/ab/HEX     inputs by their digest (server/disk/blobs_dir.h)
 *   DATA/jobs/ID/NAME            results
 *   DATA/tmp/                    emptied at start; whatever is made or taken away in several steps passes through here
 *
 * Directories are made with mode 0700, files with 0600. Below DATA no symbolic link is followed.
 *
 * Temporary files have no name at all (O_TMPFILE): whatever ends the daemon, the kernel frees them. On a file system
 * that cannot do so they have a name in tmp/ until they are published or discarded.
 *
 * What is atomic: a file appears under its published name complete or not at all (link). Whether that survives a power
 * cut is another question: the bytes do if `durable` was asked for, the name does once its folder was synced. */
#ifndef CK_SERVER_DISK_DATA_DIR_H
#define CK_SERVER_DISK_DATA_DIR_H

#include "core/base/error.h"

#define CK_DATA_SCHEMA     2
#define CK_DATA_UNIQUE_MAX 64

struct ck_data_dir {
    char *path; /* owned, as it was given */
    int   lock; /* descriptor; closing it frees the lock */
    int   root; /* the directory itself, for openat() */
    int   tmp;
    bool  named; /* make temporary files with names, as if O_TMPFILE were missing; for tests */
};

/* Makes what is missing, brings an older schema up to this one, empties tmp/. Returns 0; CK_E_IO if it cannot be used,
 * belongs to another daemon or has a newer schema; CK_E_STORAGE_FULL; CK_E_OUT_OF_MEMORY. */
int ck_data_dir_open(const char *path, struct ck_data_dir *ret_dir, struct ck_error *err);

/* An empty file for reading and writing, in no folder yet. Thread-safe. Returns 0, CK_E_STORAGE_FULL or CK_E_IO.
 * It ends in ck_data_dir_publish(), ck_data_dir_discard() or both. */
int ck_data_dir_temporary(const struct ck_data_dir *dir, int *ret_fd, struct ck_error *err);

/* Closes a descriptor of ck_data_dir_temporary(), and removes the name in tmp/ if it has one. A published file stays. -1 is fine. */
void ck_data_dir_discard(int fd);

/* Gives a temporary file the name folder/name (folder: a descriptor). durable: its bytes are on the disk before it has
 * the name; the name itself is after ck_data_dir_sync(folder). A file that has the name already stays as it is, and
 * *ret_existed tells so. The descriptor stays open and the caller's. Thread-safe. Returns 0, CK_E_STORAGE_FULL or CK_E_IO. */
int ck_data_dir_publish(int fd, int folder, const char *name, bool durable, bool *ret_existed, struct ck_error *err);

/* Makes the names of a folder durable. CK_E_IO. */
int ck_data_dir_sync(int folder, struct ck_error *err);

/* Opens the folder parent/name and makes it if it is missing. CK_E_IO, also for anything else of that name, a link included. */
int ck_data_dir_folder(int parent, const char *name, int *ret_fd, struct ck_error *err);

/* A name that nothing in tmp/ has. Thread-safe. */
void ck_data_dir_unique(char ret_name[static CK_DATA_UNIQUE_MAX]);

/* Removes a file, or a folder of files; what is gone is fine, and folders within the folder stay. Not atomic: move it to tmp/ first if that matters. */
void ck_data_dir_remove(int parent, const char *name);

/* Calls each() for every name in the folder but "." and "..", in no order. A negative return ends it and is returned. CK_E_IO. */
int ck_data_dir_each(int folder, int (*each)(void *ctx, int folder, const char *name), void *ctx, struct ck_error *err);

/* Writes or (port 0) removes DATA/port. */
void ck_data_dir_set_port(const struct ck_data_dir *dir, unsigned port);

/* Bytes free for this user and bytes in all. Returns 0 or CK_E_IO. Thread-safe. */
int ck_data_dir_space(const struct ck_data_dir *dir, uint64_t *ret_free, uint64_t *ret_total, struct ck_error *err);

/* Accepts a zeroed one. */
void ck_data_dir_release(struct ck_data_dir *dir);

#endif
