#include "core/container/gzip.h"

#include <inttypes.h>
#include <zlib.h>

#define WINDOW      ((size_t)256 << 10)
#define GZIP_HEADER 16 /* of zlib: added to the window bits, it takes gzip's header and trailer and nothing else */

struct unpacker {
    const struct ck_source *source;
    const struct ck_limits *limits;
    struct ck_scratch *scratch;
    struct ck_error *err;
    uint64_t start; /* of what is unpacked, in the scratch file */
    uint64_t at;    /* bytes of the source that zlib was given */
    z_stream z;
    uint8_t *window;
    uint8_t packed[16384];
};

static void unpacker_release(struct unpacker *u) {
    inflateEnd(&u->z);
    free(u->window);
}

bool ck_unpacks_too_far(uint64_t packed, uint64_t unpacked, const struct ck_limits *limits) {
    return unpacked > CK_UNPACKED_RATIO_BELOW && unpacked / CK_MAX(limits->unpacked_ratio, (uint64_t)1) > packed;
}

/* Of the next byte that zlib will take. */
static uint64_t position(const struct unpacker *u) {
    return u->at - u->z.avail_in;
}

/* Nothing happens at the end of the source. */
static int refill(struct unpacker *u) {
    size_t n = (size_t)CK_MIN(u->source->length - u->at, (uint64_t)sizeof(u->packed));
    int r = ck_source_read(u->source, u->at, u->packed, n, u->err);

    if (r < 0)
        return r;
    u->at += n;
    u->z.next_in = u->packed;
    u->z.avail_in = (uInt)n;
    return 0;
}

static int add_window(struct unpacker *u) {
    int r = ck_scratch_add(u->scratch, u->window, WINDOW - u->z.avail_out, u->err);
    uint64_t unpacked = u->scratch->used - u->start;

    if (r == 0 && ck_unpacks_too_far(u->at, unpacked, u->limits))
        return ck_error_set(u->err, CK_E_TENSOR_LIMIT, NULL,
                            "the first %" PRIu64 " bytes of the gzip file unpack to %" PRIu64 ", more than %" PRIu64
                            " to 1 (--limit-unpacked-ratio)",
                            u->at, unpacked, u->limits->unpacked_ratio);
    return r;
}

static int inflate_window(struct unpacker *u, bool *ret_ended) {
    int status;

    u->z.next_out = u->window;
    u->z.avail_out = (uInt)WINDOW;
    status = inflate(&u->z, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR)
        return ck_error_set(u->err, CK_E_OUT_OF_MEMORY, NULL, "no memory to unpack the file");
    if (status != Z_OK && status != Z_STREAM_END)
        return ck_error_set(u->err, CK_E_ARCHIVE_CORRUPT, NULL,
                            "the gzip file is damaged before byte %" PRIu64 ": it cannot be unpacked (%s)", position(u),
                            u->z.msg ? u->z.msg : "zlib gives no reason");
    *ret_ended = status == Z_STREAM_END;
    return add_window(u);
}

static int unpack_member(struct unpacker *u) {
    bool ended = false;
    int r = 0;

    while (r == 0 && !ended) {
        if (u->z.avail_in == 0)
            r = refill(u);
        if (r == 0 && u->z.avail_in == 0)
            return ck_error_set(
                u->err, CK_E_TRUNCATED, NULL,
                "the gzip file is cut off: it ends at byte %" PRIu64 ", before the end of what is compressed", u->at);
        if (r == 0)
            r = inflate_window(u, &ended);
    }
    return r;
}

static int is_member(struct unpacker *u, bool *ret_is) {
    uint8_t magic[2];
    int r;

    *ret_is = u->source->length - position(u) >= sizeof(magic);
    if (!*ret_is)
        return 0;
    r = ck_source_read(u->source, position(u), magic, sizeof(magic), u->err);
    *ret_is = r == 0 && magic[0] == 0x1F && magic[1] == 0x8B;
    return r;
}

/* Zeros are the filling of a tape's block. */
static int note_rest(struct unpacker *u, struct ck_findings *findings) {
    uint64_t rest = position(u);

    for (;;) {
        int r = u->z.avail_in == 0 ? refill(u) : 0;

        if (r < 0 || u->z.avail_in == 0)
            return r;
        for (; u->z.avail_in > 0; u->z.avail_in--)
            if (*u->z.next_in++ != 0) {
                ck_findings_add(findings, CK_FINDING_STRUCTURE, "", rest, "", "",
                                "bytes follow what gzip compressed; they are not read", false);
                return 0;
            }
    }
}

static int unpack(struct unpacker *u, struct ck_findings *findings) {
    bool more = true;
    int r = 0;

    u->window = malloc(WINDOW);
    if (!u->window || inflateInit2(&u->z, MAX_WBITS + GZIP_HEADER) != Z_OK)
        return ck_error_set(u->err, CK_E_OUT_OF_MEMORY, NULL, "no memory to unpack the file");
    while (r == 0 && more) {
        r = unpack_member(u);
        if (r == 0)
            r = is_member(u, &more);
        if (r == 0 && more)
            inflateReset(&u->z);
    }
    return r < 0 ? r : note_rest(u, findings);
}

int ck_gzip_unpack(const struct ck_source *source, const struct ck_limits *limits, struct ck_findings *findings,
                   struct ck_scratch *scratch, struct ck_source *ret_bytes, struct ck_error *err) {
    _cleanup_(unpacker_release) struct unpacker u = {
        .source = source, .limits = limits, .scratch = scratch, .err = err, .start = scratch->used};
    int r = unpack(&u, findings);

    if (r < 0) {
        scratch->used = u.start; /* what comes next may have the room */
        return r;
    }
    *ret_bytes = ck_scratch_since(scratch, u.start);
    return 0;
}
