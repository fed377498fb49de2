#include "api/guard.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* A host with its port, split; IPv6 addresses lose their brackets. */
struct authority {
    const char *host;
    size_t length;
    const char *port; /* "" if there is none */
};

static struct authority split(const char *text) {
    struct authority a = {.host = text, .length = strcspn(text, ":"), .port = ""};
    const char *after;

    if (text[0] == '[' && strchr(text, ']')) {
        a.host = text + 1;
        a.length = strcspn(text + 1, "]");
        after = text + a.length + 2;
    } else {
        after = text + a.length;
    }
    if (after[0] == ':')
        a.port = after + 1;
    return a;
}

static bool same_host(const struct authority *a, const char *host, size_t n) {
    return a->length == n && strncasecmp(a->host, host, n) == 0;
}

bool ck_guard_is_loopback(const char *host, size_t n) {
    static const char suffix[] = ".localhost";
    struct in6_addr v6;
    struct in_addr v4;
    char text[64];

    if (n == 9 && strncasecmp(host, "localhost", n) == 0)
        return true;
    if (n >= sizeof(suffix) && strncasecmp(host + n - (sizeof(suffix) - 1), suffix, sizeof(suffix) - 1) == 0)
        return true;
    if (n >= sizeof(text))
        return false;
    memcpy(text, host, n);
    text[n] = 0;
    if (inet_pton(AF_INET, text, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static const char *port_or(const char *port, const char *scheme_port) {
    return port[0] ? port : scheme_port;
}

static bool origin_is_host(const char *origin, const char *host) {
    struct authority from, called;
    const char *scheme_port;

    if (!host)
        return false;
    if (strncasecmp(origin, "http://", 7) == 0) {
        origin += 7;
        scheme_port = "80";
    } else if (strncasecmp(origin, "https://", 8) == 0) {
        origin += 8;
        scheme_port = "443";
    } else {
        return false;
    }
    from = split(origin);
    called = split(host);
    return same_host(&from, called.host, called.length) &&
           strcmp(port_or(from.port, scheme_port), port_or(called.port, scheme_port)) == 0;
}

int ck_guard_check(const char *host, const char *origin, const char *listen_host, bool loopback, struct ck_error *err) {
    if (host && loopback) {
        struct authority called = split(host);

        if (!ck_guard_is_loopback(called.host, called.length) && !same_host(&called, listen_host, strlen(listen_host)))
            return ck_error_set(
                err, CK_E_FORBIDDEN, "Host",
                "the request was made for the host \"%.200s\", but this daemon serves its own machine only", host);
    }
    if (origin && !origin_is_host(origin, host))
        return ck_error_set(err, CK_E_FORBIDDEN, "Origin", "a page of \"%.200s\" may not call this daemon", origin);
    return 0;
}
