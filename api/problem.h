/* api/problem.h: errors as clients see them: application/problem+json (RFC 9457). */
#ifndef CK_API_PROBLEM_H
#define CK_API_PROBLEM_H

#include "api/reply.h"
#include "core/base/error.h"

/* Seconds a client should wait, for the errors that mean "come back". */
#define CK_RETRY_QUEUE_FULL 5
#define CK_RETRY_DRAINING   10

/* Composes the document of err: type, title, status, detail, code, where, hint, retryable, request_id, and questions if
 * there are details. download: add Content-Disposition, because `curl -OJ` answers its absence with a puzzling write
 * error instead of this text. Errors that mean "come back" carry Retry-After. */
void ck_problem_reply(const struct ck_error *err, const char *request_id, bool download, struct ck_reply *ret_reply);

#endif
