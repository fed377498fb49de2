/* api/results.h: what a job has made: the list of its files, each file, and all of them as one zip, which is laid out and never written.
 *
 * A file's ETag is the sha256 of its cache key and name: results are derived, so equal inputs, specification and converter give equal bytes, and
 * nobody has to read gigabytes to name them. The digest of the content is computed when it is asked for (?digest=true, or
 * Want-Repr-Digest: sha-256=N with N > 0).
 *
 * Errors of all: CK_E_JOB_NOT_FOUND; CK_E_JOB_NOT_FINISHED; CK_E_RESULTS_EXPIRED; CK_E_RESULT_NOT_FOUND with the nearest name;
 * CK_E_RANGE_NOT_SATISFIABLE (with Content-Range); CK_E_BAD_OPTION; those of the store and of blobs->open_result(). */
#ifndef CK_API_RESULTS_H
#define CK_API_RESULTS_H

#include "api/ports.h"

/* GET /v1/jobs/{id}/results: {"job","results":[{"name","bytes","crc32","media_type","href","digest"}],"zip":{"href","name","bytes"}}: digest
 * ("sha256:HEX") with ?digest=true only, zip null if there is no file. crc32 is 8 hex digits. A failed job lists its report, if it has one. */
void ck_answer_results(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /v1/jobs/{id}/results/{name} */
void ck_answer_result(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /v1/jobs/{id}/report: report.json (of an analysis or a dry run: what it has instead), shown rather than saved. */
void ck_answer_report(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* GET /v1/jobs/{id}/results.zip */
void ck_answer_results_zip(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

/* ---- for the routes that answer with a result at once ----
 * Both compose the whole answer, a problem (with the job and Content-Disposition) if it cannot be had; the caller may add headers. Conditions and
 * ranges count for GET only, as RFC 9110 has it. `digest` is taken from the header Want-Repr-Digest alone. May block on the disk. */

/* One file of the job. disposition: the value of Content-Disposition, or NULL for "attachment" with the file's own name. */
void ck_results_reply_file(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row, const char *name,
                           const char *disposition, struct ck_reply *ret_reply);

/* FOLDER.zip, an attachment, with all files of the job in the folder. */
void ck_results_reply_zip(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row, struct ck_reply *ret_reply);

/* STEM.TO[-QUANT], STEM.analysis. Owned by the caller; NULL when out of memory. */
char *ck_results_folder(const struct ck_job_row *row);

#endif
