/* api/jobs.h: jobs as a resource. Every answer that is a job is the JSON of api/job_json.h. Unknown parameters and members are refused. */
#ifndef CK_API_JOBS_H
#define CK_API_JOBS_H

#include "api/ports.h"

#define CK_JOBS_LIMIT         200 /* jobs of one page, at most */
#define CK_JOBS_LIMIT_DEFAULT 50

/* POST /v1/jobs, the JSON of api/spec.h; the query may add what the document leaves out: options, dry_run, fresh. 202 with Location and
 * Retry-After, or 200 if it has ended: from cache, or within the seconds of Prefer: wait=N (at most max_wait). A dry run is waited for, and its answer is the plan. */
int  ck_head_job_create(struct ck_request *request, const struct ck_ports *ports, struct ck_error *err);
void ck_answer_job_create(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /v1/jobs: {"jobs":[...],"next_cursor":...}, newest first. limit, cursor, state (repeatable, or a list with commas), kind, target, label=KEY=VALUE,
 * created_after and created_before (RFC 3339 or ms since 1970; exclusive), order=asc|desc. A page may be shorter than limit where its jobs are long; it is the
 * last only if next_cursor is null. Link has the next page. CK_E_BAD_CURSOR for a cursor that is none of ours. */
void ck_answer_job_list(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /v1/jobs/{id}: ETag changes with the job. ?wait=N (at most max_wait) waits until it has ended; with If-None-Match that names the ETag,
 * until it has changed, and is 304 if it has not. */
void ck_answer_job(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* DELETE /v1/jobs/{id}: 204, record and results are gone. One that has not ended is cancelled first and waited for, CK_DELETE_WAIT seconds at most;
 * CK_E_JOB_NOT_FINISHED if that was too short: it is being cancelled, so the same request works a little later. */
#define CK_DELETE_WAIT 10
void ck_answer_job_delete(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* POST /v1/jobs/{id}/cancel: 200 if it is cancelled, 202 if it was asked to stop. CK_E_JOB_FINISHED. */
void ck_answer_job_cancel(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* POST /v1/jobs/{id}/retry: 202. A body may say {"from":"start"}: there is no other place to begin. CK_E_JOB_NOT_RETRYABLE, CK_E_INPUT_NOT_FOUND. */
void ck_answer_job_retry(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

#endif
