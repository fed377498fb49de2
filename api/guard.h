/* api/guard.h: who may call a daemon that trusts its own machine.
 *
 * A web page can make a browser post to 127.0.0.1, and a name of the page's owner can be made to point there (DNS
 * rebinding). Browsers say where a request comes from (Origin) and which name was called (Host); both are checked
 * before anything else. */
#ifndef CK_API_GUARD_H
#define CK_API_GUARD_H

#include "core/base/error.h"

/* host, origin: the headers, or NULL. listen_host: the name or address that the daemon listens on, without the port.
 * loopback: it listens on the machine's own addresses only, so the Host must name the machine itself. Returns 0 or
 * CK_E_FORBIDDEN. */
int ck_guard_check(const char *host, const char *origin, const char *listen_host, bool loopback, struct ck_error *err);

/* True for localhost, *.localhost, 127.0.0.0/8 and ::1. n bytes, without port and brackets. */
bool ck_guard_is_loopback(const char *host, size_t n);

#endif
