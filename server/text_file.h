/* server/text_file.h: a small text file of an operator (settings, keys), read whole and gone through line by line. */
#ifndef CK_SERVER_TEXT_FILE_H
#define CK_SERVER_TEXT_FILE_H

#include <sys/types.h>

#include "core/base/error.h"

struct ck_text_file {
    char *text;    /* owned; the lines are cut apart in it */
    char *next;    /* rest that was not gone through, or NULL */
    unsigned line; /* number of the line that ck_text_file_line() gave last, from 1 */
    mode_t mode;   /* permissions of the file */
};

/* Returns 0; CK_E_BAD_OPTION if it cannot be read, is larger than `most` bytes or holds a NUL byte. setting: what named
 * the file, for the message. */
int ck_text_file_read(const char *path, size_t most, const char *setting, struct ck_text_file *ret_file,
                      struct ck_error *err);

/* The next line that says something, without the blanks around it; NULL after the last one. Blank lines and those that
 * begin with # are passed over. Borrowed from the file, and may be changed. */
char *ck_text_file_line(struct ck_text_file *file);

/* Accepts a zeroed one. */
void ck_text_file_release(struct ck_text_file *file);

#endif
