/* server/settings.h: the one table of server settings. The flag, the environment variable, the name in the file, the
 * default, the help text and the documentation come from it; the rows of core/base/limits.h join it as --limit-NAME,
 * CKPTD_LIMIT_NAME and limit_NAME. Flags win over the environment, the environment over the file, the file over the
 * default.
 *
 * The field `max_upload` is the flag --max-upload, the variable CKPTD_MAX_UPLOAD and the line `max_upload = 64G` of the
 * file that --config or CKPTD_CONFIG names. Sizes take K, M, G, T (powers of 1024; KiB and the like too), durations are
 * seconds, switches yes or no. A text may be empty if its default is. No setting is a secret.
 *
 * The file: UTF-8, at most 1 MiB, one `NAME = VALUE` or `NAME VALUE` a line, names with _ or -. Blank lines and lines
 * that begin with # say nothing, nor does what follows a blank and #. A value in double quotes is taken as it stands,
 * \" and \\ being " and \. A name that is unknown or comes twice is an error, so is `config`. */
#ifndef CK_SERVER_SETTINGS_H
#define CK_SERVER_SETTINGS_H

#include <stdio.h>

#include "core/base/error.h"
#include "core/base/limits.h"

#define CK_SETTINGS_FILE_MAX CK_MIB
#define CK_YEAR_SECONDS      31536000

/* argument: how help shows the value; for CHOICE the closed list. auto: see `what`. */
#define CK_SETTINGS(X)                                                                                                 \
    /* field             type     default            least  most      argument     what */                             \
    X(config, TEXT, "", 0, 0, "FILE", "file with settings, one NAME = VALUE a line")                                   \
    X(listen, TEXT, "127.0.0.1:8080", 0, 0, "HOST:PORT",                                                               \
      "address to serve; port 0 takes a free one, written to DATA/port")                                               \
    X(data, TEXT, "./ckptd-data", 0, 0, "DIR", "data directory; one daemon each")                                      \
    X(keys_file, TEXT, "", 0, 0, "FILE", "file with bearer keys, one NAME SHA256 [SCOPES] a line; ckptd key makes them") \
    X(insecure, SWITCH, "no", 0, 1, NULL, "serve an address that other machines reach, without any key")               \
    X(durability, CHOICE, "full", 0, 0, "full,none",                                                                   \
      "full: what was accepted survives a power cut; none: for throw-away containers")                                 \
    X(workers, COUNT, "auto", 1, 1024, "N", "worker processes at the same time; auto: processors - 1, at least 1")     \
    X(threads, COUNT, "auto", 1, 64, "N", "threads of each worker; auto: processors")                                  \
    X(queue, COUNT, "1000", 0, 1000000, "N", "requests that may wait for a worker, uploads included")                  \
    X(http_threads, COUNT, "2", 1, 64, "N", "threads that serve connections")                                          \
    X(hash_threads, COUNT, "2", 1, 64, "N", "threads that take digests of uploads")                                    \
    X(store_threads, COUNT, "4", 1, 64, "N", "threads that serve requests which touch the store")                      \
    X(max_connections, COUNT, "1000", 8, 60000, "N", "connections at the same time")                                   \
    X(max_upload, SIZE, "64G", 0, INT64_MAX, "BYTES", "largest upload")                                                \
    X(max_json, SIZE, "1M", 1024, 256 * CK_MIB, "BYTES", "largest JSON body")                                          \
    X(max_files, COUNT, "64", 1, 1024, "N", "files of one form")                                                       \
    X(upload_timeout, SECONDS, "60", 1, 86400, "SECONDS", "a client that sends nothing for so long is given up")       \
    X(max_discard, SIZE, "256M", 0, INT64_MAX, "BYTES",                                                                \
      "of a refused upload at most so much is read before the connection is cut")                                      \
    X(max_sync_wait, SECONDS, "300", 0, 86400, "SECONDS",                                                              \
      "the one command waits so long for its job before it answers 202; 0: no limit")                                  \
    X(max_wait, SECONDS, "120", 0, 86400, "SECONDS", "longest ?wait= of a request")                                    \
    X(max_waiting, COUNT, "500", 0, 60000, "N", "requests that may wait for a job at the same time")                   \
    X(min_free, SIZE, "2G", 0, INT64_MAX, "BYTES", "space to leave free under the data directory")                     \
    X(max_data, SIZE, "0", 0, INT64_MAX, "BYTES", "space that jobs and blobs may take under the data directory; 0: no limit") \
    X(result_ttl, SECONDS, "86400", 1, 10 * CK_YEAR_SECONDS, "SECONDS", "results are kept for so long")                \
    X(input_ttl, SECONDS, "86400", 1, 10 * CK_YEAR_SECONDS, "SECONDS",                                                 \
      "inputs that no job needs are kept for so long after their last use")                                            \
    X(record_ttl, SECONDS, "604800", 1, 10 * CK_YEAR_SECONDS, "SECONDS", "records of ended jobs are kept for so long") \
    X(janitor_interval, SECONDS, "60", 1, 86400, "SECONDS", "what is kept too long is looked for so often")            \
    X(memory_budget, SIZE, "auto", 64 * CK_MIB, INT64_MAX, "BYTES",                                                    \
      "sum of --worker-memory of the workers that run at the same time; auto: three quarters of what the machine or "  \
      "the cgroup allows, and at least one worker")                                                                    \
    X(max_attempts, COUNT, "5", 1, 100, "N", "a job whose worker is lost is started at most so often")                 \
    X(lease, SECONDS, "60", 3, 86400, "SECONDS",                                                                       \
      "a running job that gives no sign of life for so long starts again; a third of it is the heartbeat")             \
    X(worker_memory, SIZE, "1G", 64 * CK_MIB, INT64_MAX, "BYTES", "private memory of a worker")                        \
    X(worker_cpu, SECONDS, "14400", 1, CK_YEAR_SECONDS, "SECONDS", "processor time of a worker")                       \
    X(worker_time, SECONDS, "14400", 1, CK_YEAR_SECONDS, "SECONDS", "time that a worker may take for one job")         \
    X(worker_silence, SECONDS, "300", 1, CK_YEAR_SECONDS, "SECONDS",                                                   \
      "a worker that reports no progress for so long is ended")                                                        \
    X(shutdown_grace, SECONDS, "25", 0, 86400, "SECONDS", "after SIGTERM running jobs may finish for so long")         \
    X(access_log, CHOICE, "all", 0, 0, "all,errors,none",                                                              \
      "requests that get a line in the log; health probes and /metrics do at the level debug only")                    \
    X(log_level, CHOICE, "info", 0, 0, "debug,info,warning,error", "lines below this level are not written")

#define CK_SETTING_TYPE_TEXT    char *
#define CK_SETTING_TYPE_CHOICE  char * /* one of the words */
#define CK_SETTING_TYPE_SWITCH  uint64_t
#define CK_SETTING_TYPE_COUNT   uint64_t
#define CK_SETTING_TYPE_SIZE    uint64_t
#define CK_SETTING_TYPE_SECONDS uint64_t

/* Index of a row: CK_SETTING_max_upload, CK_SETTING_limit_tensors. */
enum ck_setting {
#define X(field, type, text, least, most, argument, what) CK_SETTING_##field,
    CK_SETTINGS(X)
#undef X
#define X(name, value, what) CK_SETTING_limit_##name,
    CK_LIMITS(X)
#undef X
    CK_SETTING_N_
};

/* Where a value comes from; a later one wins. */
enum ck_setting_origin { CK_ORIGIN_DEFAULT, CK_ORIGIN_FILE, CK_ORIGIN_ENVIRONMENT, CK_ORIGIN_FLAG };

struct ck_settings {
#define X(field, type, text, least, most, argument, what) CK_SETTING_TYPE_##type field; /* texts are owned, never NULL */
    CK_SETTINGS(X)
#undef X
    struct ck_limits limits;
    enum ck_setting_origin origins[CK_SETTING_N_]; /* by enum ck_setting */
};

/* What the flags ask for besides settings: --help, --print-config, --check-config. */
enum ck_settings_action { CK_SETTINGS_RUN, CK_SETTINGS_HELP, CK_SETTINGS_PRINT, CK_SETTINGS_CHECK };

/* Reads defaults, then the file, then the environment, then the flags in argv[1..]. Returns 0, or CK_E_BAD_OPTION with
 * a sentence that names the flag, variable or file and line, and the nearest name if there is none such. --help wins:
 * nothing else was looked at then, and *ret_settings is untouched. */
int ck_settings_read(int argc, char **argv, struct ck_settings *ret_settings, enum ck_settings_action *ret_action,
                     struct ck_error *err);

/* Accepts a zeroed one. */
void ck_settings_release(struct ck_settings *settings);

/* What can be checked without starting: the address is one and may be served, the keys can be read, the data directory
 * can be made or used. Changes nothing. Returns 0 or CK_E_BAD_OPTION, CK_E_IO. */
int ck_settings_check(const struct ck_settings *settings, struct ck_error *err);

/* Every setting in effect as the file would hold it, with where it comes from; read back as a file it gives the same
 * settings. */
void ck_settings_print(const struct ck_settings *settings, FILE *out);

/* The table for people, on stdout. */
void ck_settings_print_help(void);

/* "300", "64KiB", "2G" to bytes; no fractions. True if the whole text is a size. */
bool ck_size_parse(const char *text, uint64_t *ret_bytes);

/* ---- the table as data: for settings_*.c, the documentation and tests ---- */

enum ck_setting_type {
    CK_SETTING_TEXT,
    CK_SETTING_CHOICE,
    CK_SETTING_SWITCH,
    CK_SETTING_COUNT,
    CK_SETTING_SIZE,
    CK_SETTING_SECONDS
};

struct ck_setting_row {
    const char *field; /* with '_' */
    enum ck_setting_type type;
    size_t offset;    /* in struct ck_settings */
    const char *text; /* default, or NULL: that of the limits */
    uint64_t least, most;
    const char *argument, *what;
    uint64_t value; /* default of a limit */
};

/* By enum ck_setting; the rows end with a NULL field. */
extern const struct ck_setting_row ck_setting_rows[CK_SETTING_N_ + 1];

#define CK_SETTING_NAME_MAX 64

/* "limit_zip_entries" as "--limit-zip-entries" or "CKPTD_LIMIT_ZIP_ENTRIES". Both return text. */
const char *ck_setting_flag(const struct ck_setting_row *row, char text[static CK_SETTING_NAME_MAX]);
const char *ck_setting_variable(const struct ck_setting_row *row, char text[static CK_SETTING_NAME_MAX]);

/* Sets one value from its text. name: how the caller wrote the setting, for messages ("--queue", "FILE:3: queue").
 * Returns 0 or CK_E_BAD_OPTION. */
int ck_setting_set(struct ck_settings *settings, const struct ck_setting_row *row, enum ck_setting_origin origin,
                   const char *name, const char *text, struct ck_error *err);

/* Reads the file that --config names (server/settings_file.c). Returns 0 or CK_E_BAD_OPTION. */
int ck_settings_read_file(const char *path, struct ck_settings *settings, struct ck_error *err);

#endif
