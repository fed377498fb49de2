#include "core/base/scratch.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

int ck_scratch_add(struct ck_scratch *scratch, const void *bytes, size_t n, struct ck_error *err) {
    const char *at = bytes;

    if (n > scratch->limit - scratch->used)
        return ck_error_set(err, CK_E_TENSOR_LIMIT, NULL,
                            "what is compressed in the file comes to more than %" PRIu64
                            " bytes (--limit-unpacked-bytes)",
                            scratch->limit);
    while (n > 0) {
        ssize_t done = pwrite(scratch->fd, at, n, (off_t)scratch->used);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return ck_error_set_errno(err, errno, NULL, "unpack a part of the file");
        at += done;
        n -= (size_t)done;
        scratch->used += (uint64_t)done;
    }
    return 0;
}

struct ck_source ck_scratch_since(const struct ck_scratch *scratch, uint64_t start) {
    return (struct ck_source){.fd = scratch->fd, .base = start, .length = scratch->used - start};
}
