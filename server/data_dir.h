/* server/data_dir.h: the data directory of one daemon: lock, schema version, temporary files.
 *
 *   DATA/lock     flock of the running daemon, with its process id
 *   DATA/version  schema of the directory: "1"
 *   DATA/port     the port that is served, while it is
 *   DATA/tmp/     emptied at start
 *
 * Temporary files have no name at all (O_TMPFILE): whatever ends the daemon, the kernel frees them. A file system that
 * cannot do so gets a name that is removed at once. */
#ifndef CK_SERVER_DATA_DIR_H
#define CK_SERVER_DATA_DIR_H

#include "core/base/error.h"

#define CK_DATA_SCHEMA "1"

struct ck_data_dir {
    char *path; /* owned */
    char *tmp;  /* owned */
    int lock;   /* descriptor; closing it frees the lock */
};

/* Makes what is missing. Returns 0; CK_E_IO if it cannot be used, belongs to another daemon or has a newer schema. */
int ck_data_dir_open(const char *path, struct ck_data_dir *ret_dir, struct ck_error *err);

/* An empty, nameless file for reading and writing. Thread-safe. Returns 0, CK_E_STORAGE_FULL or CK_E_IO. */
int ck_data_dir_temporary(const struct ck_data_dir *dir, int *ret_fd, struct ck_error *err);

/* Writes or (port 0) removes DATA/port. */
void ck_data_dir_set_port(const struct ck_data_dir *dir, unsigned port);

/* Bytes free for this user and bytes in all. Returns 0 or CK_E_IO. Thread-safe. */
int ck_data_dir_space(const struct ck_data_dir *dir, uint64_t *ret_free, uint64_t *ret_total, struct ck_error *err);

/* Accepts a zeroed one. */
void ck_data_dir_release(struct ck_data_dir *dir);

#endif
