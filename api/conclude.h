/* api/conclude.h: how the answer to a request that made a job ends: with the result, with the job's problem, with 202, or with a wait first. */
#ifndef CK_API_CONCLUDE_H
#define CK_API_CONCLUDE_H

#include "api/ports.h"

/* Composes the answer of a job that succeeded. The headers that tell of the job are added. */
typedef void (*ck_success_fn)(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row, struct ck_reply *ret_reply);

/* What the route and the client want. */
struct ck_wish {
    bool          wait;             /* for the end of the job, before 202 is answered */
    int64_t       seconds;          /* at most so long; 0: without end */
    bool          cancel_when_gone; /* the job ends with the client */
    const char   *applied;          /* Preference-Applied, or NULL */
    ck_success_fn success;          /* NULL: the job itself is the answer, whatever became of it: 200 once it has ended, else 202 */
};

/* row: as the store has it now. A wait is asked for once: when request->waited is set, what there is is answered. That is
 *   succeeded           success()
 *   ended otherwise     the job's problem, with Location
 *   not ended, draining 503 with Location: the job stays queued and runs after the restart
 *   not ended           202 with the job, Location and Retry-After, saved by curl -OJ as NAME.job.json; before that its inputs are synced
 * Every answer carries X-Job-Id. */
void ck_conclude(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row, const struct ck_wish *wish,
                 struct ck_reply *ret_reply);

/* For ck_success_fn: one JSON file of the job, shown rather than saved; Content-Disposition has the name FOLDER and suffix ("net.mlx.plan.json"). */
void ck_reply_shown(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row, const char *file, const char *suffix,
                    struct ck_reply *ret_reply);

#endif
