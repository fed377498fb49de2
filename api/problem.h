/* api/problem.h: errors as clients see them: application/problem+json (RFC 9457), and as the job store keeps them. */
#ifndef CK_API_PROBLEM_H
#define CK_API_PROBLEM_H

#include "api/reply.h"
#include "core/base/error.h"

/* Seconds a client should wait, for the errors that mean "come back". */
#define CK_RETRY_QUEUE_FULL 5
#define CK_RETRY_DRAINING   10

/* Composes the document of err: type, title, status, detail, code, where, hint, retryable, request_id, and questions if there are
 * details. download: add Content-Disposition, because `curl -OJ` answers its absence with a puzzling write error instead of this text.
 * Every 429 and 503 carries Retry-After, a 401 WWW-Authenticate. Sets reply->code. The caller may add headers. */
void ck_problem_reply(const struct ck_error *err, const char *request_id, bool download, struct ck_reply *ret_reply);

/* The same for an error that belongs to a job: with the member "job" and Location. */
void ck_problem_reply_job(const struct ck_error *err, const char *request_id, bool download, const char *job_id, struct ck_reply *ret_reply);

/* An error as a job's row keeps it (ck_job_row.error): one line of JSON, {"code","title","detail","where","hint","questions"}; where and
 * questions only if there are any. Owned by the caller; NULL when out of memory. */
char *ck_problem_members_json(const struct ck_error *err);

/* The other way: overwrites *ret_err. NULL, or what is no such text, becomes CK_E_INTERNAL saying so. */
void ck_problem_from_json(const char *json, struct ck_error *ret_err);

#endif
