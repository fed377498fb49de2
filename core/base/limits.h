/* base/limits.h: every bound on what a stranger's file can make us hold or do.
 *
 * One table: the struct, its defaults, the settings that change them (`--limit-NAME`, CKPTD_LIMIT_NAME), the worker protocol and the
 * documentation come from it. An error about a limit names the setting. Numbers: what real files need is at most a tenth of each. */
#ifndef CK_BASE_LIMITS_H
#define CK_BASE_LIMITS_H

#include <stdint.h>

#define CK_KIB 1024ull
#define CK_MIB (1024ull * CK_KIB)
#define CK_GIB (1024ull * CK_MIB)

#define CK_LIMITS(X)                                                                                                                   \
    /* name               default          what it bounds */                                                                           \
    X(pickle_bytes,       256 * CK_MIB,    "bytes of one pickle, without the long byte strings in it")                                 \
    X(pickle_opcodes,     64000000,        "opcodes of one pickle")                                                                    \
    X(pickle_memory,      512 * CK_MIB,    "bytes of memory for the values of one pickle (never more than 24 times the pickle, or 1 MiB)") \
    X(pickle_stack,       1000000,         "values on the stack of the pickle machine")                                                \
    X(pickle_marks,       100000,          "marks on the stack of the pickle machine")                                                 \
    X(pickle_depth,       1000,            "nesting of containers that is looked into")                                                \
    X(zip_entries,        2000000,         "entries of a zip archive")                                                                 \
    X(zip_directory,      256 * CK_MIB,    "bytes of the central directory of a zip archive")                                          \
    X(tar_entries,        2000000,         "entries of a tar archive")                                                                 \
    X(header_bytes,       100000000,       "bytes of a safetensors header")                                                            \
    X(tensors,            1000000,         "tensors of one model")                                                                     \
    X(dims,               64,              "dimensions of one tensor")                                                                 \
    X(model_memory,       CK_GIB,          "bytes of memory for the description of one model")                                         \
    X(unpacked_bytes,     64 * CK_GIB,     "bytes that compressed parts of one file come to")                                            \
    X(unpacked_ratio,     200,             "bytes that a compressed file or archive member comes to for each of its own (beyond 64 MiB)")       \
    X(nesting,            3,               "archives inside archives, and streams inside byte strings, that are opened")                \
    X(pickles,            100000,          "pickles one after another in one file")                                                    \
    X(output_ratio,       4,               "bytes of output for each byte of input (plus 64 MiB)")

struct ck_limits {
#define X(name, value, what) uint64_t name;
    CK_LIMITS(X)
#undef X
};

static const struct ck_limits ck_limits_default = {
#define X(name, value, what) .name = value,
    CK_LIMITS(X)
#undef X
};

#endif
