/* server/disk/layout.h: the folders of the data directory that hold bytes, and the names that may be in them:
 * blobs/sha256/ab/HEX and jobs/ID/NAME. Shared by server/disk/blobs_dir.c, which fills them, and server/disk/scrub.c, which looks after them at start. */
#ifndef CK_SERVER_DISK_LAYOUT_H
#define CK_SERVER_DISK_LAYOUT_H

#include <fcntl.h>

#include "server/disk/data_dir.h"

#define CK_OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Opens DATA/blobs/sha256 and DATA/jobs, and makes them if they are missing. CK_E_IO. */
int ck_layout_open(const struct ck_data_dir *data, int *ret_blobs, int *ret_jobs, struct ck_error *err);

bool ck_layout_is_digest(const char *text);      /* 64 lower-case hex digits */
bool ck_layout_is_job(const char *text);         /* a UUID in lower case */
bool ck_layout_is_result_name(const char *text); /* 1 to 127 of [A-Za-z0-9._-], the first of them no dot */

#endif
