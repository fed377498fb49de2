#include "api/health.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/conditions.h"
#include "api/problem.h"
#include "api/query.h"
#include "core/base/json_write.h"
#include "core/base/version.h"

#define TEXT "text/plain; charset=utf-8"

/* True if the query is empty; else the reply is the problem. */
static bool plain(const struct ck_request *request, struct ck_reply *ret_reply) {
    struct ck_error err = {0};

    if (ck_query_none(request->query, &err) == 0)
        return true;
    ck_problem_reply(&err, request->id, false, ret_reply);
    return false;
}

static void probe(struct ck_reply *ret_reply, int status, const char *text) {
    ck_reply_init(ret_reply, status, TEXT);
    ck_reply_header(ret_reply, "Cache-Control", "no-store");
    if (status == 503)
        ck_reply_header(ret_reply, "Retry-After", "%d", CK_RETRY_DRAINING);
    ck_reply_printf(ret_reply, "%s", text);
}

void ck_answer_livez(struct ck_request *request, _unused_ const struct ck_ports *ports, struct ck_reply *ret_reply) {
    if (plain(request, ret_reply))
        probe(ret_reply, 200, "ok\n");
}

void ck_answer_startupz(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_health health = {0};

    if (!plain(request, ret_reply))
        return;
    ports->health(ports->ctx, &health);
    probe(ret_reply, health.started ? 200 : 503, health.started ? "ok\n" : "the daemon is starting\n");
}

/* ---- readiness ---- */

static void check_line(struct ck_reply *reply, bool verbose, bool ok, const char *name, const char *why) {
    if (!ok)
        ck_reply_printf(reply, "[-] %s: %s\n", name, why);
    else if (verbose)
        ck_reply_printf(reply, "[+] %s: ok\n", name);
}

static void readiness(const struct ck_health *health, bool verbose, struct ck_reply *ret_reply) {
    bool space = health->free_bytes >= health->need_bytes;
    bool ready = !health->draining && space && health->workers_ok && health->store_ok;
    char why[128];

    snprintf(why, sizeof(why), "%" PRIu64 " MiB are free, %" PRIu64 " MiB are needed", health->free_bytes >> 20,
             health->need_bytes >> 20);
    probe(ret_reply, ready ? 200 : 503, "");
    check_line(ret_reply, verbose, !health->draining, "draining", "the daemon is shutting down");
    check_line(ret_reply, verbose, space, "space", why);
    check_line(ret_reply, verbose, health->workers_ok, "workers", health->workers_why ? health->workers_why : "not ok");
    check_line(ret_reply, verbose, health->store_ok, "store", health->store_why);
    ck_reply_printf(ret_reply, ready ? "ok\n" : "not ready\n");
}

void ck_answer_readyz(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    static const char *const parameters[] = {"verbose", NULL};
    _cleanup_(ck_query_release) struct ck_query query = {0};
    struct ck_health health = {0};
    struct ck_error err = {0};
    bool verbose = false;
    int r = ck_query_parse(request->query, &query, &err);

    if (r == 0)
        r = ck_query_check(&query, parameters, NULL, &err);
    if (r == 0)
        r = ck_query_bool(&query, "verbose", &verbose, &err);
    if (r < 0) {
        ck_problem_reply(&err, request->id, false, ret_reply);
        return;
    }
    ports->health(ports->ctx, &health);
    readiness(&health, verbose, ret_reply);
}

/* ---- version, metrics ---- */

void ck_answer_version(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_error failure = {0};
    struct ck_json json;

    if (!plain(request, ret_reply))
        return;
    ck_reply_init(ret_reply, 200, "application/json");
    ck_reply_header(ret_reply, "Cache-Control", "no-cache");
    ck_json_init(&json, ck_json_sink_buffer, &ret_reply->body, &failure);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "name", "ckptd");
    ck_json_key_string(&json, "version", ck_version());
    ck_json_key(&json, "build");
    ck_json_raw(&json, ports->build_json ? ports->build_json : "{}");
    ck_json_object_end(&json);
    ck_json_newline(&json);
    if (ck_json_finish(&json) < 0)
        ret_reply->broken = true;
}

void ck_answer_metrics(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    static const char *const offered[] = {"text/plain", "application/openmetrics-text", NULL};
    bool open;

    if (!plain(request, ret_reply))
        return;
    /* A scraper that accepts neither gets the default: a monitor without numbers helps nobody. */
    open = ck_accept_choose(request, offered) == 1;
    ck_reply_init(ret_reply, 200,
                  open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                       : "text/plain; version=0.0.4; charset=utf-8");
    ck_reply_header(ret_reply, "Cache-Control", "no-store");
    ck_reply_header(ret_reply, "Vary", "Accept");
    ports->metrics(ports->ctx, open, &ret_reply->body);
    if (ret_reply->body.length == 0)
        ret_reply->broken = true;
}
