#include "server/work/worker_fault.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

static void fault_crash(_unused_ struct ck_error *err) {
    raise(SIGSEGV);
}

static void fault_abort(_unused_ struct ck_error *err) {
    abort();
}

static void fault_hang(_unused_ struct ck_error *err) {
    for (;;)
        nanosleep(&(struct timespec){.tv_sec = 1000}, NULL);
}

static void fault_slow(_unused_ struct ck_error *err) {
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
}

static void fault_nap(_unused_ struct ck_error *err) {
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static void fault_spin(_unused_ struct ck_error *err) {
    for (volatile unsigned long i = 0;; i++)
        ;
}

static void fault_eat(struct ck_error *err) {
    const size_t step = (size_t)1 << 20;

    for (size_t eaten = 0;; eaten += step) {
        char *volatile block = malloc(step); /* volatile: clang leaves out memory that nobody reads */

        if (!block) {
            ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory after %zu MiB", eaten >> 20);
            return;
        }
        memset(block, 1, step);
    }
}

static void fault_execve(_unused_ struct ck_error *err) {
    execve("/bin/true", (char *[]){"true", NULL}, (char *[]){NULL});
}

static void fault_socket(_unused_ struct ck_error *err) {
    socket(AF_INET, SOCK_STREAM, 0);
}

static void fault_connect(_unused_ struct ck_error *err) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80)};

    connect(3, (struct sockaddr *)&address, sizeof(address));
}

static void fault_open(_unused_ struct ck_error *err) {
    open("/etc/passwd", O_RDONLY);
}

static void fault_exit(_unused_ struct ck_error *err) {
    _exit(0);
}

static void fault_lie(_unused_ struct ck_error *err) {
    static const char line[] =
        "{\"event\":\"done\",\"files\":[{\"name\":\"model.safetensors\",\"bytes\":7,\"crc32\":0}],"
        "\"tensors\":1,\"assumed\":0,\"dropped\":0,\"aliases\":0,\"overflowed\":0}\n";

    if (write(STDOUT_FILENO, line, sizeof(line) - 1) > 0)
        _exit(0);
}

static void fault_babble(_unused_ struct ck_error *err) {
    static const char text[4096] = {[0 ... 4095] = 'x'};

    while (write(STDOUT_FILENO, text, sizeof(text)) > 0)
        ;
}

static const struct {
    const char *name;
    void (*apply)(struct ck_error *err);
} faults[] = {
    {"crash", fault_crash}, {"abort", fault_abort},   {"hang", fault_hang},     {"spin", fault_spin},
    {"eat", fault_eat},     {"execve", fault_execve}, {"socket", fault_socket}, {"connect", fault_connect},
    {"open", fault_open},   {"exit", fault_exit},     {"lie", fault_lie},       {"babble", fault_babble},
    {"slow", fault_slow},   {"nap", fault_nap},
};

static void apply(const char *name, size_t n, struct ck_error *err) {
    for (size_t i = 0; i < CK_ARRAY_LEN(faults); i++)
        if (strlen(faults[i].name) == n && memcmp(name, faults[i].name, n) == 0)
            faults[i].apply(err);
}

/* part: "FAULT" or "FAULT@PREFIX". */
static void apply_part(const char *part, size_t n, const char *input, struct ck_error *err) {
    const char *at = memchr(part, '@', n);
    size_t name = at ? (size_t)(at - part) : n, prefix = at ? n - name - 1 : 0;

    if (!at || strncmp(input, at + 1, prefix) == 0)
        apply(part, name, err);
}

void ck_worker_fault_apply(const char *fault, const char *input, struct ck_error *err) {
    while (fault && *fault) {
        size_t n = strcspn(fault, ",");

        apply_part(fault, n, input, err);
        fault += n + (fault[n] == ',');
    }
}
