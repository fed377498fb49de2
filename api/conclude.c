#include "api/conclude.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/job_json.h"
#include "api/names.h"
#include "api/problem.h"
#include "api/results.h"
#include "api/submit.h"

static void add_job_headers(const struct ck_job_row *row, const struct ck_wish *wish, struct ck_reply *reply) {
    ck_reply_header(reply, "X-Job-Id", "%s", row->id);
    if (!ck_reply_find(reply, "Location"))
        ck_reply_header(reply, "Location", "/v1/jobs/%s", row->id);
    if (wish->applied)
        ck_reply_header(reply, "Preference-Applied", "%s", wish->applied);
}

static void ask_to_wait(const struct ck_job_row *row, const struct ck_wish *wish, struct ck_reply *ret_reply) {
    struct ck_reply_wait wait = {
        .until_finished = true,
        .version = row->version,
        .seconds = wish->seconds,
        .cancel_when_gone = wish->cancel_when_gone,
    };

    snprintf(wait.job, sizeof(wait.job), "%s", row->id);
    ck_reply_init(ret_reply, 202, NULL);
    ck_reply_wait_for(ret_reply, &wait);
}

static void reply_problem(const struct ck_request *request, const struct ck_job_row *row, const struct ck_wish *wish,
                          const struct ck_error *err, struct ck_reply *ret_reply) {
    ck_problem_reply_job(err, request->id, wish->success != NULL, row->id, ret_reply);
}

static void reply_failed(const struct ck_request *request, const struct ck_job_row *row, const struct ck_wish *wish,
                         struct ck_reply *ret_reply) {
    struct ck_error err;

    ck_job_row_error(row, &err);
    reply_problem(request, row, wish, &err, ret_reply);
}

static bool is_draining(const struct ck_ports *ports) {
    struct ck_health health;

    ports->health(ports->ctx, &health);
    return health.draining;
}

static void reply_draining(const struct ck_request *request, const struct ck_job_row *row, const struct ck_wish *wish,
                           struct ck_reply *ret_reply) {
    struct ck_error err = {0};

    ck_error_set(&err, CK_E_DRAINING, NULL, "the daemon is shutting down; job %s goes on when it is back", row->id);
    ck_error_set_hint(&err, "GET /v1/jobs/%s after the time in Retry-After", row->id);
    reply_problem(request, row, wish, &err, ret_reply);
}

/* The name for `curl -OJ`: without the header it writes nothing. */
static void add_disposition(const struct ck_job_row *row, struct ck_reply *reply) {
    _cleanup_(ck_freep) char *folder = ck_results_folder(row), *name = NULL, *disposition = NULL;

    if (!folder || asprintf(&name, "%s.job.json", folder) < 0)
        name = NULL;
    disposition = name ? ck_disposition(name) : NULL;
    if (disposition)
        ck_reply_header(reply, "Content-Disposition", "%s", disposition);
    else
        reply->broken = true;
}

static void reply_job(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                      int status, const struct ck_wish *wish, struct ck_reply *ret_reply) {
    struct ck_error err = {0};

    if (!ck_job_state_finished(row->state) && ck_secure_inputs(ports, row, &err) < 0) {
        reply_problem(request, row, wish, &err, ret_reply);
        return;
    }
    ck_job_reply(ports, row, status, ret_reply);
    if (wish->success)
        add_disposition(row, ret_reply);
}

/* The result is wanted. */
static void conclude_result(const struct ck_request *request, const struct ck_ports *ports,
                            const struct ck_job_row *row, const struct ck_wish *wish, struct ck_reply *ret_reply) {
    /* Who does not wait gets the job, even one that was answered from cache: a script reads the id from the body. */
    if (!wish->wait)
        reply_job(request, ports, row, 202, wish, ret_reply);
    else if (row->state == CK_STATE_SUCCEEDED)
        wish->success(request, ports, row, ret_reply);
    else if (ck_job_state_finished(row->state))
        reply_failed(request, row, wish, ret_reply);
    else if (is_draining(ports))
        reply_draining(request, row, wish, ret_reply);
    else
        reply_job(request, ports, row, 202, wish, ret_reply);
}

void ck_conclude(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                 const struct ck_wish *wish, struct ck_reply *ret_reply) {
    bool finished = ck_job_state_finished(row->state);

    if (wish->wait && !finished && !request->waited) {
        ask_to_wait(row, wish, ret_reply);
        return;
    }
    if (wish->success)
        conclude_result(request, ports, row, wish, ret_reply);
    else
        reply_job(request, ports, row, finished ? 200 : 202, wish, ret_reply);
    add_job_headers(row, wish, ret_reply);
}

void ck_reply_shown(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                    const char *file, const char *suffix, struct ck_reply *ret_reply) {
    _cleanup_(ck_freep) char *folder = ck_results_folder(row), *name = NULL, *saved = NULL, *shown = NULL;
    struct ck_error err = {0};

    if (!folder || asprintf(&name, "%s%s", folder, suffix) < 0)
        name = NULL;
    saved = name ? ck_disposition(name) : NULL;
    if (!saved || asprintf(&shown, "inline%s", saved + strcspn(saved, ";")) < 0)
        shown = NULL;
    if (shown) {
        ck_results_reply_file(request, ports, row, file, shown, ret_reply);
    } else {
        ck_error_set(&err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
        ck_problem_reply_job(&err, request->id, true, row->id, ret_reply);
    }
}
