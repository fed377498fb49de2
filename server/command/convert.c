/* server/command/convert.c: `ckptd convert IN OUT`: the core without a server.
 *
 * The result grows in a folder beside OUT and is renamed at the end, so OUT is complete or absent. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/job/job.h"
#include "server/command/cli.h"
#include "server/command/commands.h"

#define FILES_MAX 4096 /* shards of one result */

static volatile sig_atomic_t interrupted;

static void on_signal(_unused_ int number) {
    interrupted = 1;
}

static bool cancelled(_unused_ void *ctx) {
    return interrupted != 0;
}

/* ---- the output folder ---- */

struct folder {
    const char *out; /* as the user named it */
    char partial[4096];
    bool bare; /* OUT is one file: its name ends with .safetensors, and so is the target */
    int fds[FILES_MAX];
    size_t n_fds;
    char names[FILES_MAX][128];
};

static void folder_discard(struct folder *folder) {
    char path[4300];

    for (size_t i = 0; i < folder->n_fds; i++) {
        close(folder->fds[i]);
        snprintf(path, sizeof(path), "%s/%s", folder->partial, folder->names[i]);
        unlink(path);
    }
    folder->n_fds = 0;
    if (folder->partial[0])
        rmdir(folder->partial);
}

static int folder_create_file(void *ctx, const char *name, int *ret_fd, struct ck_error *err) {
    struct folder *folder = ctx;
    char path[4300];
    int fd;

    if (folder->n_fds == FILES_MAX)
        return ck_error_set(err, CK_E_TOO_MANY_OUTPUT_FILES, NULL, "the result has more than %d files", FILES_MAX);
    snprintf(path, sizeof(path), "%s/%s", folder->partial, name);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return ck_error_set_errno(err, errno, path, "create the file");
    snprintf(folder->names[folder->n_fds], sizeof(folder->names[0]), "%s", name);
    folder->fds[folder->n_fds++] = fd;
    *ret_fd = fd;
    return 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

/* True if the folder holds nothing but the report of a refusal, which an answer to its question may replace. */
static bool is_refused_result(const char *out) {
    static const char begin[] = "{\"status\":\"refused\"";
    char path[4300], text[sizeof(begin)] = "";
    _cleanup_(ck_closep) int fd = -1;
    bool alone = true;
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/report.json", out);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || read(fd, text, sizeof(begin) - 1) != (ssize_t)sizeof(begin) - 1 || strcmp(text, begin) != 0)
        return false;
    dir = opendir(out);
    if (!dir)
        return false;
    while ((entry = readdir(dir)) != NULL)
        alone = alone && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                          strcmp(entry->d_name, "report.json") == 0);
    closedir(dir);
    return alone && unlink(path) == 0;
}

/* OUT must not exist, or be an empty folder, or hold a refusal: nothing else of the user's is ever overwritten. */
static int folder_open(struct folder *folder, const char *out, const struct ck_spec *spec, struct ck_error *err) {
    struct stat st;
    size_t n = strlen(out);

    folder->out = out;
    folder->bare = strcmp(spec->target, "safetensors") == 0 && ends_with(out, ".safetensors");
    if (stat(out, &st) == 0 &&
        (!S_ISDIR(st.st_mode) || (rmdir(out) < 0 && !(is_refused_result(out) && rmdir(out) == 0)))) {
        ck_error_set(err, CK_E_BAD_REQUEST, out, "%s exists already; nothing is overwritten", out);
        ck_error_set_hint(err, "remove it, or name another output");
        return CK_E_BAD_REQUEST;
    }
    while (n > 1 && out[n - 1] == '/')
        n--;
    if (n + 32 > sizeof(folder->partial))
        return ck_error_set(err, CK_E_BAD_REQUEST, out, "the name of the output is too long");
    snprintf(folder->partial, sizeof(folder->partial), "%.*s.partial-%d", (int)n, out, (int)getpid());
    if (mkdir(folder->partial, 0755) < 0) {
        int r = ck_error_set_errno(err, errno, out, "make the output folder");

        folder->partial[0] = 0;
        return r;
    }
    return 0;
}

static int folder_publish(struct folder *folder, struct ck_error *err) {
    char path[4300];

    if (folder->bare) {
        snprintf(path, sizeof(path), "%s/model.safetensors", folder->partial);
        if (rename(path, folder->out) < 0)
            return ck_error_set_errno(err, errno, folder->out, "move the result to its place");
        folder_discard(folder);
        return 0;
    }
    for (size_t i = 0; i < folder->n_fds; i++)
        close(folder->fds[i]);
    folder->n_fds = 0;
    if (rename(folder->partial, folder->out) < 0)
        return ck_error_set_errno(err, errno, folder->out, "move the result to its place");
    folder->partial[0] = 0;
    return 0;
}

/* ---- arguments ---- */

struct arguments {
    const char *in, *out, *to, *quant;
    bool dry_run, quiet, help;
    unsigned threads; /* 0: one for each processor */
    struct ck_cli_flags flags;
};

enum { FLAG_TO = 1, FLAG_QUANT, FLAG_DRY_RUN, FLAG_THREADS, FLAG_QUIET, FLAG_HELP };

static void print_help(void) {
    printf("Usage: ckptd convert IN OUT --to TARGET [--quant NAME] [OPTION ...]\n"
           "       ckptd convert --dry-run IN --to TARGET [--quant NAME] [OPTION ...]\n\n"
           "Converts the checkpoint IN into the folder OUT, which must not exist, be empty, or hold a refusal.\n"
           "(--to safetensors takes a file name that ends with .safetensors, too.)\n\n"
           "  --to TARGET             ");
    for (size_t i = 0; ck_targets[i]; i++)
        printf("%s%s", i > 0 ? ", " : "", ck_targets[i]);
    printf("\n  --quant NAME            for mlx: q2 q3 q4 q5 q6 q8, with -g32, -g64 (the default) or -g128 behind\n"
           "  --dry-run               write nothing; print the plan as JSON, also one that refuses\n");
    ck_cli_flags_help(CK_JOB_CONVERT);
    printf(
        "  --threads N             default: one for each processor\n"
        "  --quiet                 print errors only\n\n"
        "Exit status: 0 converted, or planned by --dry-run; 1 not (OUT/report.json says why when the file was read);\n"
        "2 wrong arguments.\n");
}

static int parse_threads(const char *text, unsigned *ret_threads) {
    char *end;
    unsigned long threads = strtoul(text, &end, 10);

    if (*end || threads < 1 || threads > 256) {
        fprintf(stderr, "ckptd convert: --threads takes a number from 1 to 256\n");
        return -1;
    }
    *ret_threads = (unsigned)threads;
    return 0;
}

static int parse_flag(struct arguments *arguments, int c) {
    switch (c) {
    case FLAG_TO:
        arguments->to = optarg;
        return 0;
    case FLAG_QUANT:
        arguments->quant = optarg;
        return 0;
    case FLAG_DRY_RUN:
        arguments->dry_run = true;
        return 0;
    case FLAG_QUIET:
        arguments->quiet = true;
        return 0;
    case FLAG_THREADS:
        return parse_threads(optarg, &arguments->threads);
    default:
        return c >= CK_CLI_OPTION && ck_cli_flags_take(&arguments->flags, c, optarg, "convert") ? 0 : -1;
    }
}

static int parse_arguments(int argc, char **argv, struct arguments *arguments) {
    static const struct option own[] = {
        {"to", required_argument, NULL, FLAG_TO},     {"quant", required_argument, NULL, FLAG_QUANT},
        {"dry-run", no_argument, NULL, FLAG_DRY_RUN}, {"threads", required_argument, NULL, FLAG_THREADS},
        {"quiet", no_argument, NULL, FLAG_QUIET},     {"help", no_argument, NULL, FLAG_HELP},
    };
    int c;

    ck_cli_flags_init(&arguments->flags, own, CK_ARRAY_LEN(own), CK_JOB_CONVERT);
    while ((c = getopt_long(argc, argv, "h", arguments->flags.rows, NULL)) != -1) {
        if (c == FLAG_HELP || c == 'h') {
            arguments->help = true;
            return 0;
        }
        if (parse_flag(arguments, c) < 0)
            return -1;
    }
    if (argc - optind != (arguments->dry_run ? 1 : 2) || !arguments->to) {
        fprintf(stderr, "usage: ckptd convert %s --to mlx [--quant q4] (ckptd convert --help lists the options)\n",
                arguments->dry_run ? "--dry-run IN" : "IN OUT");
        return -1;
    }
    arguments->in = argv[optind];
    arguments->out = argv[optind + 1];
    return 0;
}

static int make_spec(const struct arguments *arguments, struct ck_spec *spec, struct ck_error *err) {
    int r = ck_spec_init(spec, arguments->to, arguments->quant, err);

    if (r < 0)
        return r;
    spec->dry_run = arguments->dry_run;
    return ck_cli_flags_set(&arguments->flags, spec, err);
}

/* ---- progress ---- */

struct terminal {
    bool live; /* stderr is a terminal: one line is painted again and again */
    struct timespec last;
};

static void paint(void *ctx, enum ck_stage stage, uint64_t done, uint64_t total) {
    struct terminal *terminal = ctx;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (done != total &&
        (now.tv_sec - terminal->last.tv_sec) * 1000 + (now.tv_nsec - terminal->last.tv_nsec) / 1000000 < 100)
        return;
    terminal->last = now;
    if (total > 0)
        fprintf(stderr, "\r%-7s %3llu %%  %llu of %llu MiB ", ck_stage_name(stage),
                (unsigned long long)(done * 100 / total), (unsigned long long)(done >> 20),
                (unsigned long long)(total >> 20));
    else
        fprintf(stderr, "\r%-7s", ck_stage_name(stage));
    fflush(stderr);
}

static void print_summary(const struct folder *folder, const struct ck_job_result *result) {
    uint64_t bytes = 0;

    for (size_t i = 0; i < result->n_files; i++)
        bytes += result->files[i].bytes;
    printf("%s: %u tensors, %.1f MiB", folder->out, result->tensors, (double)bytes / (1 << 20));
    if (result->aliases > 0)
        printf(", %u tied", result->aliases);
    if (result->dropped > 0)
        printf(", %u dropped", result->dropped);
    if (result->assumed > 0)
        printf(", %u assumed (see %s)", result->assumed, folder->bare ? "a folder's report.json" : "report.json");
    if (result->overflowed > 0)
        printf(", %llu values became infinite", (unsigned long long)result->overflowed);
    printf("\n");
}

/* ---- the command ---- */

static unsigned processors(void) {
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static int run(const struct arguments *arguments, const struct ck_spec *spec, struct folder *folder,
               struct ck_job_result *ret_result, struct ck_error *err) {
    _cleanup_(ck_pool_freep) struct ck_pool *pool = NULL;
    _cleanup_(ck_closep) int fd = -1, scratch_fd = -1;
    struct terminal terminal = {.live = !arguments->quiet && isatty(STDERR_FILENO)};
    struct ck_progress progress = {.report = terminal.live ? paint : NULL, .cancelled = cancelled, .ctx = &terminal};
    struct ck_job_sink sink = {.create = folder_create_file, .ctx = folder};
    struct ck_job_input input = {"model", arguments->in, -1};
    unsigned threads = arguments->threads > 0 ? arguments->threads : processors();
    char count[16];
    int r;

    input.fd = fd = open(arguments->in, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ck_error_set_errno(err, errno, arguments->in, "open the checkpoint");
    snprintf(count, sizeof(count), "%u", threads);
    setenv("UV_THREADPOOL_SIZE", count, 1); /* libuv reads it once, at the pool's first use */
    r = ck_pool_new(threads, &pool, err);
    if (r < 0)
        return r;
    r = folder_open(folder, arguments->out, spec, err);
    if (r < 0)
        return r;
    sink.scratch_fd = scratch_fd = ck_cli_scratch(folder->partial);
    r = ck_job_run(spec, &input, 1, &ck_limits_default, pool, &progress, &sink, ret_result, err);
    if (terminal.live)
        fprintf(stderr, "\r%-60s\r", "");
    return r;
}

/* The plan of --dry-run; of a file that cannot be read, the report says as much as there is. */
static int print_plan(const struct ck_spec *spec, const char *path) {
    _cleanup_(ck_closep) int fd = -1;
    struct ck_error err = {0}, copy = {0};
    int r = ck_cli_document(spec, path, &fd, &err);

    if (fd >= 0 && ck_cli_copy_out(fd, &copy) < 0 && r >= 0) {
        err = copy;
        r = copy.code;
    }
    if (r < 0)
        ck_cli_print_error(&err);
    return r < 0 ? 1 : 0;
}

int ck_cmd_convert(int argc, char **argv) {
    _cleanup_(ck_job_result_release) struct ck_job_result result = {0};
    _cleanup_(ck_spec_release) struct ck_spec spec = {0};
    static struct folder folder;
    struct sigaction action = {.sa_handler = on_signal};
    struct arguments arguments = {0};
    struct ck_error err = {0};
    int r;

    if (parse_arguments(argc, argv, &arguments) < 0)
        return CK_EXIT_USAGE;
    if (arguments.help) {
        print_help();
        return 0;
    }
    if (make_spec(&arguments, &spec, &err) < 0) {
        ck_cli_print_error(&err);
        return CK_EXIT_USAGE;
    }
    if (spec.dry_run)
        return print_plan(&spec, arguments.in);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader of our output that leaves must not leave half a folder behind */
    r = run(&arguments, &spec, &folder, &result, &err);
    /* A refusal leaves a folder with report.json alone. */
    if (result.n_files > 0 && !(r < 0 && folder.bare)) {
        struct ck_error publish = {0};

        if (folder_publish(&folder, &publish) < 0 && r >= 0) {
            err = publish;
            r = publish.code;
        }
    }
    folder_discard(&folder);
    if (r < 0) {
        ck_cli_print_error(&err);
        return 1;
    }
    if (!arguments.quiet)
        print_summary(&folder, &result);
    return 0;
}
