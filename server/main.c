#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"
#include "core/base/version.h"
#include "core/job/options.h"
#include "server/command/commands.h"

static int cmd_help(int argc, char **argv);

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what; /* NULL: not for people */
} commands[] = {
    {"serve", ck_cmd_serve, "run the HTTP daemon"},
    {"convert", ck_cmd_convert, "convert a checkpoint without a server: ckptd convert IN OUT --to mlx [--quant q4]"},
    {"analyze", ck_cmd_analyze, "say what a checkpoint holds and what can be made of it: ckptd analyze FILE [--json]"},
    {"healthcheck", ck_cmd_healthcheck, "ask a running daemon whether it lives (exit status 0), for containers"},
    {"key", ck_cmd_key, "make a key for a client: ckptd key NAME [--scopes read,submit]"},
    {"tables", ck_cmd_tables, "print errors, settings, options, metrics and routes as JSON, for the documentation"},
    {"version", ck_cmd_version, "print the version (--json: and the libraries)"},
    {"help", cmd_help, "print this"},
    {"worker", ck_cmd_worker, NULL},
};

static void print_usage(FILE *out) {
    fprintf(out,
            "ckptd %s: converts PyTorch checkpoints to MLX and safetensors. It never executes a pickle.\n\n"
            "Usage: ckptd COMMAND [ARGUMENT ...]\n\n",
            ck_version());
    for (size_t i = 0; i < CK_ARRAY_LEN(commands); i++)
        if (commands[i].what)
            fprintf(out, "  %-13s%s\n", commands[i].name, commands[i].what);
    fprintf(out, "\nckptd COMMAND --help says more.\n");
}

static int cmd_help(_unused_ int argc, _unused_ char **argv) {
    print_usage(stdout);
    return 0;
}

static const struct command *find(const char *name) {
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < CK_ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name) {
    const char *names[CK_ARRAY_LEN(commands) + 1] = {0}, *near;
    size_t n = 0;

    for (size_t i = 0; i < CK_ARRAY_LEN(commands); i++)
        if (commands[i].what)
            names[n++] = commands[i].name;
    near = ck_nearest(name, names);
    fprintf(stderr, "ckptd: unknown command \"%s\"%s%s; ckptd help lists all\n", name, near ? ", did you mean " : "",
            near ? near : "");
    return CK_EXIT_USAGE;
}

/* Started without standard streams, the next files that are opened would take their numbers, and get what is printed.
 */
static void open_standard_streams(void) {
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv) {
    const struct command *command;

    open_standard_streams();
    if (argc < 2) {
        print_usage(stderr);
        return CK_EXIT_USAGE;
    }
    command = find(argv[1]);
    return command ? command->run(argc - 1, argv + 1) : unknown_command(argv[1]);
}
