/* api/submit.h: the one way in which all routes make a job, and take the files for it. All of these block on the store or the disk. */
#ifndef CK_API_SUBMIT_H
#define CK_API_SUBMIT_H

#include "api/ports.h"
#include "api/spec.h"

#define CK_TENANT "" /* rows have one from the start; there is only this one so far */

/* Makes a blob of a received file, and its row. durable: it survives a power cut when this returns 0; without it that is left to the system. Counts a
 * file that was there already. Returns 0, CK_E_EMPTY_FILE, the errors of adopt() and blob_put(). */
int ck_take_file(const struct ck_ports *ports, const struct ck_received *file, bool durable, bool *ret_new, struct ck_error *err);

/* Looks the submission's digest up, fills in its bytes and makes it durable if asked for. Returns 0, CK_E_INPUT_NOT_FOUND. */
int ck_find_input(const struct ck_ports *ports, struct ck_submission *submission, bool durable, struct ck_error *err);

/* Syncs the inputs of a job whose answer was to be its result, before a 202 promises that it will be done. */
int ck_secure_inputs(const struct ck_ports *ports, const struct ck_job_row *row, struct ck_error *err);

/* Makes the job, whose input is a blob already: succeeded at once if a job with the same key has its results still and fresh is not set, else queued.
 * *ret_row is what the store has. Returns 0, the errors of the store. */
int ck_submit(const struct ck_ports *ports, const struct ck_request *request, const struct ck_submission *submission, bool durable,
              struct ck_job_row *ret_row, struct ck_error *err);

/* Gives the job `to` links to all results of `old`, whose record says what there must be. CK_E_RESULT_NOT_FOUND if a file is missing or has another size (then
 * nothing is left of `to`, and the work is to be done again); the errors of link_results(). */
int ck_link_cached(struct ck_blobs *blobs, const struct ck_job_row *old, const char *to, struct ck_error *err);

/* sha256 of role, digest, normalised specification and this converter's version, a NUL behind each. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_cache_key(const char *role, const char *digest, const char *spec, char ret_key[static CK_DIGEST_SIZE], struct ck_error *err);

#endif
