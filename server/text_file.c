#include "server/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/buffer.h"

static int unreadable(const char *setting, const char *path, struct ck_error *err) {
    int error = errno;
    char text[128];

    return ck_error_set(err, CK_E_BAD_OPTION, setting, "cannot read %.200s of --%s: %s", path, setting,
                        strerror_r(error, text, sizeof(text)));
}

/* Until the end and not by size: the file may be a pipe. */
static int read_all(int fd, const char *path, const char *setting, struct ck_buffer *buffer, struct ck_error *err) {
    char bytes[4096];

    for (;;) {
        ssize_t n = read(fd, bytes, sizeof(bytes));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return unreadable(setting, path, err);
        if (n == 0)
            return 0;
        if (memchr(bytes, 0, (size_t)n))
            return ck_error_set(err, CK_E_BAD_OPTION, setting, "%.200s is no text: it holds a NUL byte", path);
        if (!ck_buffer_add(buffer, bytes, (size_t)n))
            return ck_error_set(err, CK_E_BAD_OPTION, setting, "%.200s is larger than %zu bytes", path, buffer->limit);
    }
}

int ck_text_file_read(const char *path, size_t most, const char *setting, struct ck_text_file *ret_file,
                      struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer = {0};
    _cleanup_(ck_closep) int fd = -1;
    struct stat info;
    int r;

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0)
        return unreadable(setting, path, err);
    ck_buffer_init(&buffer, most);
    r = read_all(fd, path, setting, &buffer, err);
    if (r < 0)
        return r;
    *ret_file = (struct ck_text_file){.next = buffer.data, .mode = info.st_mode & 07777};
    ret_file->text = TAKE_PTR(buffer.data);
    return 0;
}

char *ck_text_file_line(struct ck_text_file *file) {
    static const char blank[] = " \t\r\v\f";

    while (file->next && *file->next) {
        char *line = file->next, *newline = strchr(line, '\n');
        size_t n;

        file->next = newline ? newline + 1 : NULL;
        if (newline)
            *newline = 0;
        file->line++;
        line += strspn(line, blank);
        for (n = strlen(line); n > 0 && strchr(blank, line[n - 1]); n--)
            line[n - 1] = 0;
        if (n > 0 && line[0] != '#')
            return line;
    }
    return NULL;
}

void ck_text_file_release(struct ck_text_file *file) {
    free(file->text);
    *file = (struct ck_text_file){0};
}
