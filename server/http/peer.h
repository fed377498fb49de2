/* server/http/peer.h: whether somebody is still there.
 *
 * libmicrohttpd does not look at a suspended connection, and it misses the end of a stream that arrives together with
 * the last bytes before it (0.9.75 takes a short read for an empty socket and waits for an edge that has passed). So
 * the loop looks once a second. */
#ifndef CK_SERVER_HTTP_PEER_H
#define CK_SERVER_HTTP_PEER_H

#include <stdbool.h>

/* True if the peer closed the connection or broke it. Takes no byte. A peer that closed only its sending half looks the
 * same; no usual client does so before it has its answer. */
bool ck_peer_is_gone(int fd);

#endif
