/* api/job_json.h: a job as clients see it. The same JSON comes from create, get, list and wait. */
#ifndef CK_API_JOB_JSON_H
#define CK_API_JOB_JSON_H

#include "api/ports.h"
#include "core/base/json_write.h"

#define CK_RETRY_PENDING 2 /* seconds after which a look at an unfinished job is worth it */
#define CK_JOB_ETAG_SIZE 48

/* One object: id, href, kind, state, reason, stage, progress{done,total,unit,fraction,rate,eta_s}, queue{position,ahead}, attempt, max_attempts,
 * crash_count, cancel_requested, created_at, started_at, finished_at, expires_at (RFC 3339, UTC, ms; null: not yet), queue_s, run_s, spec{kind,to,quant,
 * options,dry_run,inputs[{role,name,digest,bytes}]}, labels, results[{name,bytes,crc32,media_type,href}], outcome, report_href, results_href, zip_href,
 * error, request_id, trace_id, cached_from, version. Every member is there always; what does not apply is null.
 * live: how far it is, or NULL. May block on the store (the place in the queue). */
void ck_job_json(struct ck_json *json, const struct ck_ports *ports, const struct ck_job_row *row, const struct ck_job_live *live);

/* "VERSION.SEQUENCE" with quotes: changes whenever the JSON of the job does, but for its clocks. */
void ck_job_etag(const struct ck_job_row *row, const struct ck_job_live *live, char ret_etag[static CK_JOB_ETAG_SIZE]);

/* Composes an answer whose body is the job: ETag, and Retry-After while it is not finished. */
void ck_job_reply(const struct ck_ports *ports, const struct ck_job_row *row, int status, struct ck_reply *ret_reply);

/* The result of a job that ended without one, as the error that a waiting client is told. */
void ck_job_row_error(const struct ck_job_row *row, struct ck_error *ret_err);

/* True if the job has a file of that name. */
bool ck_job_has_file(const struct ck_job_row *row, const char *name);

/* By the name's suffix: application/json, application/octet-stream ... Static storage. */
const char *ck_media_type(const char *file_name);

/* "2026-03-01T12:00:00.123Z" of ms since 1970. */
#define CK_TIME_SIZE 32
void ck_time_text(int64_t ms, char ret_text[static CK_TIME_SIZE]);

#endif
