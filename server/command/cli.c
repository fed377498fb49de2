#include "server/command/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/job/job.h"

/* ---- job options as flags ---- */

/* `state_dict` is the flag --state-dict. */
static const char *flag_of(const char *option, char *text, size_t size) {
    snprintf(text, size, "%s", option);
    for (char *p = text; *p; p++)
        if (*p == '_')
            *p = '-';
    return text;
}

void ck_cli_flags_init(struct ck_cli_flags *flags, const struct option *own, size_t n, enum ck_job_kind kind) {
    *flags = (struct ck_cli_flags){0};
    memcpy(flags->rows, own, n * sizeof(*own));
    for (size_t i = 0; ck_job_options[i].name; i++)
        if (ck_option_fits(&ck_job_options[i], kind, ""))
            flags->rows[n++] = (struct option){
                .name = flag_of(ck_job_options[i].name, flags->names[i], sizeof(flags->names[i])),
                .has_arg = required_argument,
                .val = CK_CLI_OPTION + (int)i,
            };
}

bool ck_cli_flags_take(struct ck_cli_flags *flags, int c, const char *value, const char *command) {
    int index = c - CK_CLI_OPTION;

    if (flags->values[index]) {
        fprintf(stderr, "ckptd %s: --%s is given twice\n", command, flags->names[index]);
        return false;
    }
    flags->values[index] = value;
    return true;
}

int ck_cli_flags_set(const struct ck_cli_flags *flags, struct ck_spec *spec, struct ck_error *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && ck_job_options[i].name; i++)
        if (flags->values[i])
            r = ck_spec_set(spec, ck_job_options[i].name, flags->values[i], err);
    return r;
}

void ck_cli_flags_help(enum ck_job_kind kind) {
    char flag[64];

    for (const struct ck_option_row *row = ck_job_options; row->name; row++) {
        bool one_target = row->target[0] && ck_target_quants(row->target);

        if (!ck_option_fits(row, kind, ""))
            continue;
        printf("  --%-22s%s%s%s\n%26s%s%s%s%s\n", flag_of(row->name, flag, sizeof(flag)), row->values,
               row->value_default[0] ? "; default " : "", row->value_default, "", row->what,
               one_target ? " (target " : "", one_target ? row->target : "", one_target ? ")" : "");
    }
}

/* ---- jobs whose result is one document ---- */

/* The report of a refusal takes the place of a document that was begun. */
static int create_document(void *ctx, const char *name, int *ret_fd, struct ck_error *err) {
    int *fd = ctx;

    ck_closep(fd);
    *fd = memfd_create("ckptd", MFD_CLOEXEC);
    if (*fd < 0)
        return ck_error_set_errno(err, errno, name, "make a file in memory");
    *ret_fd = *fd;
    return 0;
}

int ck_cli_scratch(const char *folder) {
    const char *folders[] = {folder, getenv("TMPDIR"), "/tmp"};
    int fd = -1;

    for (size_t i = 0; fd < 0 && i < CK_ARRAY_LEN(folders); i++)
        if (folders[i] && folders[i][0])
            fd = open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("ckptd-scratch", MFD_CLOEXEC);
}

int ck_cli_document(const struct ck_spec *spec, const char *path, int *ret_fd, struct ck_error *err) {
    _cleanup_(ck_closep) int input_fd = open(path, O_RDONLY | O_CLOEXEC), fd = -1, scratch_fd = -1;
    _cleanup_(ck_job_result_release) struct ck_job_result result = {0};
    struct ck_job_input input = {"model", path, input_fd};
    struct ck_job_sink sink = {.create = create_document, .ctx = &fd};
    int r;

    if (input_fd < 0)
        return ck_error_set_errno(err, errno, path, "open the checkpoint");
    sink.scratch_fd = scratch_fd = ck_cli_scratch(NULL);
    r = ck_job_run(spec, &input, 1, &ck_limits_default, NULL, NULL, &sink, &result, err);
    if (result.n_files == 0)
        return r;
    lseek(fd, 0, SEEK_SET);
    *ret_fd = TAKE_FD(fd);
    return r;
}

int ck_cli_copy_out(int fd, struct ck_error *err) {
    char part[65536];
    ssize_t n;

    while ((n = read(fd, part, sizeof(part))) > 0)
        if (fwrite(part, 1, (size_t)n, stdout) != (size_t)n)
            break;
    if (n < 0 || ferror(stdout) || fflush(stdout) != 0)
        return ck_error_set_errno(err, errno, NULL, "write to the standard output");
    return 0;
}

/* ---- for people ---- */

void ck_cli_print_error(const struct ck_error *err) {
    fprintf(stderr, "ckptd: %s: %s\n", ck_error_row(err->code)->name, err->message);
    if (err->where[0])
        fprintf(stderr, "  where: %s\n", err->where);
    fprintf(stderr, "  hint: %s\n", ck_error_hint(err));
}
