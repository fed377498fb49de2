/* api/order.h: what a request for a job asks for, gathered from its path, query and form, until it is whole. Kept in request->state.
 *
 * The query takes the job's options and fresh, dry_run, cancel_on_disconnect. A form takes these, too, and to, quant (where the path does not name them),
 * name, digest (of a stored blob, instead of a file), options (JSON object), labels (JSON object). Fields may come before or after the file.
 * Unknown names are CK_E_BAD_OPTION with the nearest; so is what is said twice. */
#ifndef CK_API_ORDER_H
#define CK_API_ORDER_H

#include "api/conclude.h"
#include "api/conditions.h"
#include "api/ports.h"
#include "api/query.h"
#include "api/spec.h"

struct ck_order {
    struct ck_submission submission; /* spec.target NULL: the form has to say it */
    struct ck_query      query;
    struct ck_prefer     prefer;
    bool                 cancel_when_gone;
    char                 job[CK_JOB_ID_SIZE]; /* once it is made; "" before */
};

/* A new one as request->state, with the query parsed and its names checked. Returns 0, CK_E_BAD_REQUEST, CK_E_BAD_OPTION, CK_E_OUT_OF_MEMORY. */
int ck_order_begin(struct ck_request *request, enum ck_job_kind kind, struct ck_order **ret_order, struct ck_error *err);

/* Applies the query: the spec's kind and target are known by now. */
int ck_order_take_query(struct ck_order *order, struct ck_error *err);

/* Applies the fields of a form, and the query if it had to wait for the target. */
int ck_order_take_form(struct ck_order *order, const struct ck_request *request, enum ck_job_kind kind, struct ck_error *err);

/* Applies a JSON body, which says all of the submission, and then the query on top of it. */
int ck_order_take_json(struct ck_order *order, const struct ck_request *request,
                       int (*parse)(const char *body, size_t n, struct ck_submission *ret_submission, struct ck_error *err), struct ck_error *err);

/* Makes a blob of the request's one file, or finds the digest that was given instead. durable: see api/submit.h. Returns 0; CK_E_MISSING_FILE;
 * CK_E_TOO_MANY_FILES; CK_E_BAD_OPTION for both, or a file in another field than `file`; those of ck_take_file() and ck_find_input(). */
int ck_order_take_input(struct ck_order *order, const struct ck_request *request, const struct ck_ports *ports, bool durable, struct ck_error *err);

/* What Prefer asks for, where the answer is the result: respond-async 202 at once, wait=N after N seconds at most, neither after max_sync_wait. A dry run is
 * waited for in any case: its answer is what the client came for. applied: memory for ret_wish->applied. */
#define CK_APPLIED_SIZE 64
void ck_order_wish(const struct ck_order *order, const struct ck_terms *terms, struct ck_wish *ret_wish, char applied[static CK_APPLIED_SIZE]);

/* The whole answer of a route whose order is complete but for its file: takes the file, makes the job, and concludes (api/conclude.h). When it is called
 * again, after a wait, it looks at the job it made. A job whose id the client may be told before it has ended has a durable input. */
void ck_order_answer(struct ck_order *order, const struct ck_request *request, const struct ck_ports *ports, const struct ck_wish *wish,
                     struct ck_reply *ret_reply);

#endif
