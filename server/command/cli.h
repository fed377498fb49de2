/* server/command/cli.h: what the commands share that run the core in their own process: job options as flags, jobs whose result
 * is one document, and what a person is told. */
#ifndef CK_SERVER_COMMAND_CLI_H
#define CK_SERVER_COMMAND_CLI_H

#include <getopt.h>

#include "core/job/options.h"

#define CK_CLI_FLAGS_MAX 16   /* flags of a command's own */
#define CK_CLI_OPTION    1000 /* getopt's values from here on are job options */

#define CK_CLI_OPTIONS_MAX CK_ARRAY_LEN(((struct ck_spec *)NULL)->values)

/* Flags of a command, and the values that came for job options. */
struct ck_cli_flags {
    struct option rows[CK_CLI_FLAGS_MAX + CK_CLI_OPTIONS_MAX + 1]; /* for getopt_long() */
    char          names[CK_CLI_OPTIONS_MAX][64];                   /* by row of ck_job_options: "state-dict" */
    const char   *values[CK_CLI_OPTIONS_MAX];                      /* by row of ck_job_options; borrowed from argv */
};

/* own: the command's flags, at most CK_CLI_FLAGS_MAX, with values below CK_CLI_OPTION. Behind them come the options that
 * a job of this kind takes. */
void ck_cli_flags_init(struct ck_cli_flags *flags, const struct option *own, size_t n, enum ck_job_kind kind);

/* Keeps the value of the job option that getopt_long() returned. False: it is given twice, which was said on stderr. */
bool ck_cli_flags_take(struct ck_cli_flags *flags, int c, const char *value, const char *command);

/* Sets the kept options. Returns 0 or CK_E_BAD_OPTION. */
int ck_cli_flags_set(const struct ck_cli_flags *flags, struct ck_spec *spec, struct ck_error *err);

/* The options of a kind of job, for --help. */
void ck_cli_flags_help(enum ck_job_kind kind);

/* Runs a dry run or an analysis of the file at path. *ret_fd: the document, in memory, to be read from its start; owned
 * by the caller. A refusal has one, too: its report. Else it is left alone. Returns what ck_job_run() does, or the error
 * of opening the file. */
int ck_cli_document(const struct ck_spec *spec, const char *path, int *ret_fd, struct ck_error *err);

/* A nameless file for what must be unpacked: in `folder` (NULL: none), else in $TMPDIR or /tmp, else in memory. -1 if there can be
 * none; a job then refuses what it would have to unpack. */
int ck_cli_scratch(const char *folder);

/* Copies a document to stdout. Returns 0 or the error of writing. */
int ck_cli_copy_out(int fd, struct ck_error *err);

/* Code, message, place and hint, on stderr. */
void ck_cli_print_error(const struct ck_error *err);

#endif
