#include "core/base/source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int ck_source_from_fd(int fd, struct ck_source *ret_source, struct ck_error *err) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return ck_error_set_errno(err, errno, NULL, "stat the input");
    if (!S_ISREG(st.st_mode))
        return ck_error_set(err, CK_E_IO, NULL, "the input is not a regular file");
    *ret_source = (struct ck_source){.fd = fd, .length = (uint64_t)st.st_size};
    return 0;
}

struct ck_source ck_source_from_memory(const void *bytes, size_t n) {
    return (struct ck_source){.fd = -1, .memory = bytes, .length = n};
}

int ck_source_part(const struct ck_source *source, uint64_t offset, uint64_t length, struct ck_source *ret_part,
                   struct ck_error *err) {
    if (offset > source->length || length > source->length - offset)
        return ck_error_set(err, CK_E_TRUNCATED, NULL, "bytes %llu to %llu are needed, but there are only %llu",
                            (unsigned long long)offset, (unsigned long long)(offset + length),
                            (unsigned long long)source->length);
    *ret_part = (struct ck_source){
        .fd = source->fd,
        .memory = source->memory ? source->memory + offset : NULL,
        .base = source->memory ? 0 : source->base + offset,
        .length = length,
    };
    return 0;
}

int ck_source_read(const struct ck_source *source, uint64_t offset, void *buffer, size_t n, struct ck_error *err) {
    struct ck_source part;
    size_t done = 0;
    int r;

    r = ck_source_part(source, offset, n, &part, err);
    if (r < 0)
        return r;
    if (part.memory) {
        if (n > 0)
            memcpy(buffer, part.memory, n);
        return 0;
    }
    while (done < n) {
        ssize_t got = pread(part.fd, (char *)buffer + done, n - done, (off_t)(part.base + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ck_error_set_errno(err, errno, NULL, "read the input");
        if (got == 0)
            return ck_error_set(err, CK_E_TRUNCATED, NULL, "the file became shorter while it was read");
        done += (size_t)got;
    }
    return 0;
}
