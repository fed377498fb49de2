/* server/respond.h: answers onto a connection. */
#ifndef CK_SERVER_RESPOND_H
#define CK_SERVER_RESPOND_H

#include <microhttpd.h>

#include "api/reply.h"
#include "server/worker_pool.h"

/* Queues the reply with its body. request_id is added. */
enum MHD_Result ck_respond(struct MHD_Connection *connection, const struct ck_reply *reply, const char *request_id);

/* The same with one file as the body; fd is taken in any case. */
enum MHD_Result ck_respond_file(struct MHD_Connection *connection, const struct ck_reply *reply, const char *request_id,
                                int fd, uint64_t bytes);

/* The same with a zip of the job's files, in one folder, as the body: streamed, never written. The files are taken from
 * the job in case of success; they are closed when the answer is sent or the client is gone. Returns 0 or
 * CK_E_OUT_OF_MEMORY, and then nothing was queued. *ret_result is what the handler must return, *ret_bytes the length.
 */
int ck_respond_zip(struct MHD_Connection *connection, const struct ck_reply *reply, const char *request_id,
                   const char *folder, struct ck_job *job, enum MHD_Result *ret_result, uint64_t *ret_bytes,
                   struct ck_error *err);

/* Writes the reply straight to the socket, behind libmicrohttpd's back, for the two cases in which the library cannot
 * answer: an upload that is refused while most of it is still to come, and one that went silent. The connection must be
 * closed afterwards. */
void ck_respond_raw(int fd, const struct ck_reply *reply, const char *request_id);

#endif
