#include "api/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/convert.h"
#include "core/base/json_write.h"
#include "core/base/version.h"
#include "core/job/options.h"

#define TEXT "text/plain; charset=utf-8"

static const char *called_by(const struct ck_request *request) {
    const char *host = request->host;

    /* The name is shown back: nothing but what a host can hold. */
    if (!host || !host[0] ||
        strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]") != strlen(host))
        return "HOST:PORT";
    return host;
}

void ck_answer_help(const struct ck_request *request, _unused_ const struct ck_ports *ports,
                    struct ck_reply *ret_reply) {
    const char *host = called_by(request);

    ck_reply_init(ret_reply, 200, TEXT);
    ck_reply_printf(ret_reply,
                    "ckptd %s converts PyTorch checkpoints. It never executes a pickle.\n\n"
                    "  curl -fOJT model.pt http://%s" CK_CONVERT_PREFIX "mlx/            -> model.mlx.zip\n"
                    "  curl -fOJT model.pt http://%s" CK_CONVERT_PREFIX "mlx/q4/         -> model.mlx-q4.zip\n"
                    "  curl -fOJT model.pt http://%s" CK_CONVERT_PREFIX "safetensors/    -> model.safetensors\n\n"
                    "With --fail-with-body instead of -f a refusal is saved as ckptd-error.json.\n\n",
                    ck_version(), host, host, host);
    ck_reply_printf(ret_reply, "Targets and quantizations:\n");
    for (const char *const *target = ck_targets; *target; target++) {
        const char *const *quants = ck_target_quants(*target);

        ck_reply_printf(ret_reply, "  %s", *target);
        for (size_t i = 0; quants && quants[i]; i++)
            ck_reply_printf(ret_reply, "%s%s", i == 0 ? ": " : " ", quants[i]);
        ck_reply_printf(ret_reply, "\n");
    }
    ck_reply_printf(ret_reply, "\nOptions, in the query (?assume=never&dtype=float16):\n");
    for (const struct ck_option_row *row = ck_job_options; row->name; row++)
        ck_reply_printf(ret_reply, "  %s=%s\n      %s\n", row->name, row->values, row->what);
    ck_reply_printf(ret_reply, "\nPaths:\n");
    for (const struct ck_route *route = ck_routes; route->method; route++)
        ck_reply_printf(ret_reply, "  %-5s %s\n", route->method, route->help);
}

void ck_answer_livez(_unused_ const struct ck_request *request, _unused_ const struct ck_ports *ports,
                     struct ck_reply *ret_reply) {
    ck_reply_init(ret_reply, 200, TEXT);
    ck_reply_header(ret_reply, "Cache-Control", "no-store");
    ck_reply_printf(ret_reply, "ok\n");
}

static void check_line(struct ck_reply *reply, bool verbose, bool ok, const char *name, const char *why) {
    if (!ok)
        ck_reply_printf(reply, "[-] %s: %s\n", name, why);
    else if (verbose)
        ck_reply_printf(reply, "[+] %s: ok\n", name);
}

void ck_answer_readyz(const struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    bool verbose = strncmp(request->query, "verbose", 7) == 0, space, ready;
    struct ck_health health = {0};
    char why[128];

    ports->health(ports->ctx, &health);
    space = health.free_bytes >= health.need_bytes;
    ready = !health.draining && space && health.workers_ok;
    snprintf(why, sizeof(why), "%" PRIu64 " MiB are free, %" PRIu64 " MiB are needed", health.free_bytes >> 20,
             health.need_bytes >> 20);
    ck_reply_init(ret_reply, ready ? 200 : 503, TEXT);
    ck_reply_header(ret_reply, "Cache-Control", "no-store");
    check_line(ret_reply, verbose, !health.draining, "draining", "the daemon is shutting down");
    check_line(ret_reply, verbose, space, "space", why);
    check_line(ret_reply, verbose, health.workers_ok, "workers", health.workers_why);
    ck_reply_printf(ret_reply, ready ? "ok\n" : "not ready\n");
}

void ck_answer_version(_unused_ const struct ck_request *request, const struct ck_ports *ports,
                       struct ck_reply *ret_reply) {
    struct ck_error failure = {0};
    struct ck_json json;

    ck_reply_init(ret_reply, 200, "application/json");
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
