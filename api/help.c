#include "api/help.h"

#include <string.h>

#include "api/conditions.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/routes.h"
#include "core/base/version.h"
#include "core/job/options.h"

/* ---- what it says, as text ---- */

struct page {
    const char *host;
    bool keys;
};

static const char *called_by(const struct ck_request *request) {
    const char *host = request->host;

    /* The name is shown back: nothing but what a host can hold. */
    if (!host || !host[0] ||
        strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]") != strlen(host))
        return "HOST:PORT";
    return host;
}

static bool at_once(const struct page *page, struct ck_buffer *out) {
    const char *host = page->host;

    return ck_buffer_printf(out,
                            "  curl -fOJT model.pt http://%s/v1/convert/mlx/            -> model.mlx.zip\n"
                            "  curl -fOJT model.pt http://%s/v1/convert/mlx/q4/         -> model.mlx-q4.zip\n"
                            "  curl -fOJT model.pt http://%s/v1/convert/safetensors/    -> model.safetensors\n"
                            "\nWith --fail-with-body instead of -f a refusal is saved as ckptd-error.json.\n%s",
                            host, host, host,
                            page->keys ? "This daemon wants a key: add -H 'Authorization: Bearer KEY'.\n" : "");
}

static bool in_pieces(const struct page *page, struct ck_buffer *out) {
    const char *host = page->host;

    return ck_buffer_printf(
        out,
        "  curl -T model.pt http://%s/v1/analyze/                   what it holds and could become\n"
        "  curl -T model.pt -H 'Prefer: respond-async' http://%s/v1/convert/mlx/q4/\n"
        "                                                           a job instead of its result\n"
        "  curl 'http://%s/v1/jobs/ID?wait=60'                      how far it is\n"
        "  curl -fOJ http://%s/v1/jobs/ID/results.zip               what it made\n"
        "  curl -T model.pt http://%s/v1/blobs/                     an input for several jobs:\n"
        "  curl --json '{\"to\":\"mlx\",\"quant\":\"q4\",\"inputs\":[{\"digest\":\"sha256:HEX\"}]}' "
        "http://%s/v1/jobs\n",
        host, host, host, host, host, host);
}

static bool targets(_unused_ const struct page *page, struct ck_buffer *out) {
    bool ok = true;

    for (const char *const *target = ck_targets; *target; target++) {
        const char *const *quants = ck_target_quants(*target);

        ok = ok && ck_buffer_printf(out, "  %s", *target);
        for (size_t i = 0; quants && quants[i]; i++)
            ok = ok && ck_buffer_printf(out, "%s%s", i == 0 ? ": " : " ", quants[i]);
        ok = ok && ck_buffer_add_text(out, "\n");
    }
    return ok;
}

static bool options(_unused_ const struct page *page, struct ck_buffer *out) {
    bool ok = true;

    for (const struct ck_option_row *row = ck_job_options; row->name; row++)
        ok = ok && ck_buffer_printf(out, "  %s=%s\n      %s\n", row->name, row->values, row->what);
    return ok;
}

static bool paths(_unused_ const struct page *page, struct ck_buffer *out) {
    bool ok = true;

    for (const struct ck_route *route = ck_routes; route->method; route++)
        ok = ok && ck_buffer_printf(out, "  %-6s %-34s %s\n", route->method, route->pattern, route->what);
    return ok;
}

static const struct {
    const char *title;
    bool (*write)(const struct page *page, struct ck_buffer *out);
} sections[] = {
    {"In one command", at_once},
    {"In pieces", in_pieces},
    {"Targets and quantizations", targets},
    {"Options, in the query (?assume=never&dtype=float16)", options},
    {"Paths", paths},
};

static bool write_text(const struct page *page, struct ck_buffer *out) {
    bool ok;

    ok = ck_buffer_printf(out, "ckptd %s converts PyTorch checkpoints. It never executes a pickle.\n", ck_version());
    for (size_t i = 0; i < CK_ARRAY_LEN(sections); i++)
        ok = ok && ck_buffer_printf(out, "\n%s:\n", sections[i].title) && sections[i].write(page, out);
    return ok;
}

/* ---- the same, as HTML ---- */

static const char *const links[] = {"/v1/matrix",    "/v1/jobs",        "/v1/capabilities",
                                    "/openapi.yaml", "/readyz?verbose", "/metrics"};

static bool add_escaped(struct ck_buffer *out, const char *text) {
    bool ok = true;

    for (size_t n; ok && *text; text += n) {
        n = strcspn(text, "&<>\"");
        ok = ck_buffer_add(out, text, n);
        if (ok && text[n]) {
            ok = ck_buffer_add_text(out, text[n] == '&'   ? "&amp;"
                                         : text[n] == '<' ? "&lt;"
                                         : text[n] == '>' ? "&gt;"
                                                          : "&quot;");
            n++;
        }
    }
    return ok;
}

static bool write_section(const struct page *page, size_t i, struct ck_buffer *out) {
    _cleanup_(ck_buffer_release) struct ck_buffer text = {0};

    ck_buffer_init(&text, CK_REPLY_BODY_MAX);
    return sections[i].write(page, &text) && ck_buffer_add_text(out, "<h2>") && add_escaped(out, sections[i].title) &&
           ck_buffer_add_text(out, "</h2>\n<pre>") && add_escaped(out, ck_buffer_text(&text)) &&
           ck_buffer_add_text(out, "</pre>\n");
}

static bool write_html(const struct page *page, struct ck_buffer *out) {
    bool ok = ck_buffer_printf(out,
                               "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                               "<meta name=\"viewport\" content=\"width=device-width\">\n<title>ckptd</title>\n"
                               "<style>body{font-family:sans-serif;margin:2em;max-width:70em}"
                               "pre{background:#f4f4f4;padding:1em;overflow:auto}</style>\n"
                               "<h1>ckptd %s</h1>\n"
                               "<p>Converts PyTorch checkpoints. It never executes a pickle.</p>\n<p>",
                               ck_version());

    for (size_t i = 0; i < CK_ARRAY_LEN(links); i++)
        ok = ok && ck_buffer_printf(out, "<a href=\"%s\">%s</a> ", links[i], links[i]);
    ok = ok && ck_buffer_add_text(out, "</p>\n");
    for (size_t i = 0; i < CK_ARRAY_LEN(sections); i++)
        ok = ok && write_section(page, i, out);
    return ok && ck_buffer_add_text(out, "</html>\n");
}

void ck_answer_help(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    static const char *const offered[] = {"text/plain", "text/html", NULL};
    struct page page = {.host = called_by(request), .keys = ports->terms.keys};
    bool html = ck_accept_choose(request, offered) == 1, ok;
    struct ck_error err = {0};

    if (ck_query_none(request->query, &err) < 0) {
        ck_problem_reply(&err, request->id, false, ret_reply);
        return;
    }
    ck_reply_init(ret_reply, 200, html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8");
    ck_reply_header(ret_reply, "Cache-Control", "no-cache");
    ck_reply_header(ret_reply, "Vary", "Accept");
    if (html)
        ck_reply_header(ret_reply, "Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'");
    ok = html ? write_html(&page, &ret_reply->body) : write_text(&page, &ret_reply->body);
    ret_reply->broken = ret_reply->broken || !ok;
}
