/* server/http/listen.h: the address that is served. */
#ifndef CK_SERVER_HTTP_LISTEN_H
#define CK_SERVER_HTTP_LISTEN_H

#include "core/base/error.h"

struct ck_listen {
    int fd;         /* listening socket */
    char host[256]; /* as given, without port and brackets */
    unsigned port;  /* the real one, if 0 was asked for */
    bool loopback;  /* only this machine can reach it */
};

/* Binds HOST:PORT, [IPV6]:PORT or a name. An address that other machines reach is refused unless `open` is set: there
 * are keys, or --insecure. Returns 0, CK_E_BAD_OPTION or CK_E_IO. */
int ck_listen_open(const char *address, bool open, struct ck_listen *ret_listen, struct ck_error *err);

/* The same without binding. Returns 0 or CK_E_BAD_OPTION. */
int ck_listen_check(const char *address, bool open, struct ck_error *err);

#endif
