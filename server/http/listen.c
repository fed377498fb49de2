#include "server/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BACKLOG 1024

static int split(const char *address, struct ck_listen *listen_, char *port, size_t port_size, struct ck_error *err) {
    const char *colon = strrchr(address, ':'), *host = address;
    size_t n = colon ? (size_t)(colon - address) : 0;

    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    } else if (colon && memchr(host, ':', n)) {
        return ck_error_set(err, CK_E_BAD_OPTION, "listen",
                            "--listen %.100s: write an IPv6 address in brackets, [::1]:8080", address);
    }
    if (!colon || n == 0 || n >= sizeof(listen_->host) || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        !colon[1] || strlen(colon + 1) >= port_size || strtoul(colon + 1, NULL, 10) > 65535)
        return ck_error_set(err, CK_E_BAD_OPTION, "listen",
                            "--listen takes HOST:PORT such as 127.0.0.1:8080, not \"%.100s\"", address);
    memcpy(listen_->host, host, n);
    listen_->host[n] = 0;
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return 0;
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static unsigned port_of(int fd) {
    struct sockaddr_storage address;
    socklen_t n = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &n) < 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

static int bind_one(const struct addrinfo *info, struct ck_listen *listen_, const char *address, struct ck_error *err) {
    _cleanup_(ck_closep) int fd = -1;
    int one = 1;

    fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ck_error_set_errno(err, errno, address, "make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        ck_error_set_errno(err, errno, address, "listen on the address");
        ck_error_set_hint(err, "choose another with --listen HOST:PORT");
        return err ? err->code : CK_E_IO;
    }
    listen_->port = port_of(fd);
    listen_->fd = TAKE_FD(fd);
    return 0;
}

/* *ret_info is for freeaddrinfo(). */
static int resolve(const char *address, bool open, struct ck_listen *listen_, struct addrinfo **ret_info,
                   struct ck_error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *info = NULL;
    char port[8];
    int r;

    r = split(address, listen_, port, sizeof(port), err);
    if (r < 0)
        return r;
    r = getaddrinfo(listen_->host, port, &hints, &info);
    if (r != 0)
        return ck_error_set(err, CK_E_BAD_OPTION, "listen", "--listen: %.100s is no address: %s", listen_->host,
                            gai_strerror(r));
    listen_->loopback = is_loopback(info->ai_addr);
    if (!listen_->loopback && !open) {
        freeaddrinfo(info);
        return ck_error_set(err, CK_E_BAD_OPTION, "listen",
                            "--listen %.100s can be reached by other machines, and nothing would ask them for a key; "
                            "serve 127.0.0.1, name keys with --keys-file, or allow it with --insecure",
                            address);
    }
    *ret_info = info;
    return 0;
}

int ck_listen_open(const char *address, bool open, struct ck_listen *ret_listen, struct ck_error *err) {
    struct ck_listen listen_ = {.fd = -1};
    struct addrinfo *info;
    int r;

    r = resolve(address, open, &listen_, &info, err);
    if (r < 0)
        return r;
    r = bind_one(info, &listen_, address, err);
    freeaddrinfo(info);
    if (r < 0)
        return r;
    *ret_listen = listen_;
    return 0;
}

int ck_listen_check(const char *address, bool open, struct ck_error *err) {
    struct ck_listen listen_ = {.fd = -1};
    struct addrinfo *info;
    int r;

    r = resolve(address, open, &listen_, &info, err);
    if (r < 0)
        return r;
    freeaddrinfo(info);
    return 0;
}
