/* server/http/respond.h: composed answers become libmicrohttpd's. */
#ifndef CK_SERVER_HTTP_RESPOND_H
#define CK_SERVER_HTTP_RESPOND_H

#include <microhttpd.h>

#include "api/reply.h"

/* Queues the reply, whatever its kind (but CK_REPLY_WAIT), and takes its bytes, files and zip; the caller still releases the rest. Adds
 * X-Request-Id and X-Ckptd-Version. MHD_NO: the connection is to be closed. */
enum MHD_Result ck_respond(struct MHD_Connection *connection, struct ck_reply *reply, const char *request_id);

/* Writes a text answer straight to the socket, with Connection: close: for a client that is still sending a body. What does not fit into the
 * socket's buffer is lost. */
void ck_respond_raw(int fd, const struct ck_reply *reply, const char *request_id);

#endif
