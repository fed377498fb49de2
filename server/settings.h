/* server/settings.h: the one table of server settings. The flag, the environment variable, the default, the help text
 * and the documentation come from it; the rows of core/base/limits.h join it as --limit-NAME and CKPTD_LIMIT_NAME.
 * Flags win over the environment.
 *
 * The field `max_upload` is the flag --max-upload and the variable CKPTD_MAX_UPLOAD. Sizes take K, M, G, T (powers of
 * 1024; KiB and the like too), durations are seconds. */
#ifndef CK_SERVER_SETTINGS_H
#define CK_SERVER_SETTINGS_H

#include "core/base/error.h"
#include "core/base/limits.h"

#define CK_SETTINGS(X)                                                                                                 \
    /* field             type     default            least  most      argument     what */                             \
    X(listen, TEXT, "127.0.0.1:8080", 0, 0, "HOST:PORT",                                                               \
      "address to serve; port 0 takes a free one, written to DATA/port")                                               \
    X(data, TEXT, "./ckptd-data", 0, 0, "DIR", "data directory; one daemon each")                                      \
    X(insecure, SWITCH, "no", 0, 1, NULL, "serve an address that other machines reach, without any key")               \
    X(workers, COUNT, "auto", 1, 1024, "N", "worker processes at the same time; auto: processors - 1, at least 1")     \
    X(threads, COUNT, "auto", 1, 64, "N", "threads of each worker; auto: processors")                                  \
    X(queue, COUNT, "1000", 0, 1000000, "N", "requests that may wait for a worker, uploads included")                  \
    X(http_threads, COUNT, "2", 1, 64, "N", "threads that serve connections")                                          \
    X(hash_threads, COUNT, "2", 1, 64, "N", "threads that take digests of uploads")                                    \
    X(max_connections, COUNT, "1000", 8, 60000, "N", "connections at the same time")                                   \
    X(max_upload, SIZE, "64G", 0, INT64_MAX, "BYTES", "largest upload")                                                \
    X(upload_timeout, SECONDS, "60", 1, 86400, "SECONDS", "a client that sends nothing for so long is given up")       \
    X(max_discard, SIZE, "256M", 0, INT64_MAX, "BYTES",                                                                \
      "of a refused upload at most so much is read before the connection is cut")                                      \
    X(min_free, SIZE, "2G", 0, INT64_MAX, "BYTES", "space to leave free under the data directory")                     \
    X(worker_memory, SIZE, "1G", 64 * CK_MIB, INT64_MAX, "BYTES", "private memory of a worker")                        \
    X(worker_cpu, SECONDS, "14400", 1, 31536000, "SECONDS", "processor time of a worker")                              \
    X(worker_silence, SECONDS, "300", 1, 31536000, "SECONDS",                                                          \
      "a worker that reports no progress for so long is ended")                                                        \
    X(shutdown_grace, SECONDS, "25", 0, 86400, "SECONDS", "after SIGTERM running jobs may finish for so long")         \
    X(log_level, LEVEL, "info", 0, 0, "LEVEL", "debug, info, warning or error")

#define CK_SETTING_TYPE_TEXT    const char *
#define CK_SETTING_TYPE_LEVEL   const char *
#define CK_SETTING_TYPE_SWITCH  uint64_t
#define CK_SETTING_TYPE_COUNT   uint64_t
#define CK_SETTING_TYPE_SIZE    uint64_t
#define CK_SETTING_TYPE_SECONDS uint64_t

struct ck_settings {
#define X(field, type, text, least, most, argument, what) CK_SETTING_TYPE_##type field;
    CK_SETTINGS(X)
#undef X
    struct ck_limits limits;
};

/* Reads defaults, then the environment, then the flags in argv[1..]. Texts are borrowed from argv, the environment or
 * static storage. Returns 0, or CK_E_BAD_OPTION with a sentence that names the flag or variable, and the nearest one if
 * there is none such. *ret_help is set when --help was among the flags; nothing else was checked then. */
int ck_settings_read(int argc, char **argv, struct ck_settings *ret_settings, bool *ret_help, struct ck_error *err);

/* The table for people, on stdout. */
void ck_settings_print_help(void);

/* "300", "64KiB", "2G" to bytes; no fractions. True if the whole text is a size. */
bool ck_size_parse(const char *text, uint64_t *ret_bytes);

#endif
