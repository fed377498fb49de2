/* ckptd healthcheck: one GET on a running daemon, for containers that have no curl. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "core/base/macros.h"
#include "server/command/commands.h"
#include "server/settings.h"

#define DEFAULT_LISTEN "127.0.0.1:8080"
#define SECONDS_MAX    3600

struct target {
    char host[256], port[8], path[512]; /* host without brackets */
};

static int fail(const struct target *target, const char *why) {
    bool six = strchr(target->host, ':') != NULL;

    fprintf(stderr, "ckptd healthcheck: %s%s%s:%s%s: %s\n", six ? "[" : "", target->host, six ? "]" : "", target->port,
            target->path, why);
    return 1;
}

/* "HOST:PORT", "[IPV6]:PORT" or, in a URL, "HOST" alone. */
static bool split(const char *address, size_t n, struct target *target) {
    const char *end = address + n, *colon = memrchr(address, ':', n), *host = address;
    size_t length;

    if (colon && memchr(colon, ']', (size_t)(end - colon)))
        colon = NULL;
    length = colon ? (size_t)(colon - host) : n;
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof(target->host))
        return false;
    snprintf(target->host, sizeof(target->host), "%.*s", (int)length, host);
    if (!colon)
        return snprintf(target->port, sizeof(target->port), "80") > 0;
    length = (size_t)(end - colon) - 1;
    return length > 0 && length < sizeof(target->port) && strspn(colon + 1, "0123456789") >= length &&
           snprintf(target->port, sizeof(target->port), "%.*s", (int)length, colon + 1) > 0;
}

static bool parse_url(const char *url, struct target *target) {
    static const char scheme[] = "http://";
    size_t n;

    if (strncasecmp(url, scheme, sizeof(scheme) - 1) != 0)
        return false;
    url += sizeof(scheme) - 1;
    n = strcspn(url, "/?#");
    if (!split(url, n, target) || strlen(url + n) >= sizeof(target->path))
        return false;
    for (const char *c = url + n; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7F)
            return false;
    snprintf(target->path, sizeof(target->path), "%s", url[n] ? url + n : "/");
    return true;
}

/* The address that the daemon of the same environment serves; one that means "every address" is asked at home. */
static bool parse_listen(const char *listen_, struct target *target) {
    if (!split(listen_, strlen(listen_), target))
        return false;
    if (strcmp(target->host, "0.0.0.0") == 0)
        snprintf(target->host, sizeof(target->host), "127.0.0.1");
    if (strcmp(target->host, "::") == 0)
        snprintf(target->host, sizeof(target->host), "::1");
    snprintf(target->path, sizeof(target->path), "/livez");
    return true;
}

static int dial_one(const struct addrinfo *info, unsigned seconds) {
    struct timeval time = {.tv_sec = seconds};
    _cleanup_(ck_closep) int fd = -1;

    fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* SO_SNDTIMEO bounds connect(), too. */
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
    if (connect(fd, info->ai_addr, info->ai_addrlen) < 0)
        return -1;
    return TAKE_FD(fd);
}

/* "localhost" has two addresses, and a daemon may serve either. */
static int dial(const struct target *target, unsigned seconds) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    int fd = -1, error;

    if (getaddrinfo(target->host, target->port, &hints, &list) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    for (const struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
        fd = dial_one(info, seconds);
    error = errno;
    freeaddrinfo(list);
    errno = error;
    return fd;
}

/* The first bytes of the answer: the status line is among them. */
static ssize_t exchange(int fd, const struct target *target, unsigned seconds, char *answer, size_t size) {
    time_t end = time(NULL) + (time_t)seconds;
    bool six = strchr(target->host, ':') != NULL;
    char request[1024];
    size_t used = 0;
    int n;

    n = snprintf(request, sizeof(request),
                 "GET %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: ckptd-healthcheck\r\nConnection: close\r\n\r\n",
                 target->path, six ? "[" : "", target->host, six ? "]" : "", target->port);
    if (send(fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        return -1;
    while (used + 1 < size && !memchr(answer, '\n', used)) {
        ssize_t got = recv(fd, answer + used, size - 1 - used, 0);

        if (got < 0)
            return -1;
        if (got == 0)
            break;
        used += (size_t)got;
        /* The timeout of the socket begins anew with every byte. */
        if (time(NULL) > end) {
            errno = EAGAIN;
            return -1;
        }
    }
    answer[used] = 0;
    return (ssize_t)used;
}

static int check(const struct target *target, unsigned seconds) {
    _cleanup_(ck_closep) int fd = dial(target, seconds);
    char answer[512];

    if (fd < 0 || exchange(fd, target, seconds, answer, sizeof(answer)) < 0)
        return fail(target, errno == EAGAIN || errno == EINPROGRESS ? "no answer in time" : strerror(errno));
    if (strncmp(answer, "HTTP/1.1 200", 12) == 0 && strchr(" \r\n", answer[12]))
        return 0;
    answer[strcspn(answer, "\r\n")] = 0;
    return fail(target, answer[0] ? answer : "the connection was closed without an answer");
}

static int refuse(const char *what, const char *word) {
    fprintf(stderr, "ckptd healthcheck: %s \"%.100s\"; ckptd healthcheck --help says more\n", what, word);
    return CK_EXIT_USAGE;
}

static void print_help(void) {
    printf("Usage: ckptd healthcheck [--url http://HOST:PORT/readyz] [--timeout SECONDS]\n\n"
           "Exit status 0 if the daemon answers 200, else 1 with one line on stderr. Without --url it asks /livez at\n"
           "the address in CKPTD_LISTEN, or at " DEFAULT_LISTEN ". The timeout is 3 seconds.\n");
}

/* The value of --NAME=VALUE or --NAME VALUE, or NULL. */
static const char *value_of(const char *name, int argc, char **argv, int *i) {
    size_t n = strlen(name);

    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    return !argv[*i][n] && *i + 1 < argc ? argv[++*i] : NULL;
}

int ck_cmd_healthcheck(int argc, char **argv) {
    const char *listen_ = getenv("CKPTD_LISTEN"), *url = NULL, *value;
    struct target target;
    uint64_t seconds = 3;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return 0;
        }
        if ((value = value_of("--url", argc, argv, &i)) != NULL)
            url = value;
        else if ((value = value_of("--timeout", argc, argv, &i)) == NULL)
            return refuse("unexpected argument", argv[i]);
        else if (!ck_size_parse(value, &seconds) || seconds < 1 || seconds > SECONDS_MAX)
            return refuse("--timeout takes 1 to 3600 seconds, not", value);
    }
    if (!listen_ || !listen_[0])
        listen_ = DEFAULT_LISTEN;
    if (url && !parse_url(url, &target))
        return refuse("--url takes http://HOST:PORT/PATH, not", url);
    if (!url && !parse_listen(listen_, &target))
        return refuse("CKPTD_LISTEN is no HOST:PORT:", listen_);
    return check(&target, (unsigned)seconds);
}
