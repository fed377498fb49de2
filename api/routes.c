#include "api/routes.h"

#include <stdio.h>
#include <string.h>

#include "api/analyze.h"
#include "api/blobs.h"
#include "api/capabilities.h"
#include "api/convert.h"
#include "api/health.h"
#include "api/help.h"
#include "api/jobs.h"
#include "api/matrix.h"
#include "api/names.h"
#include "api/openapi.h"
#include "api/results.h"
#include "core/job/options.h"

#define PROBE   (CK_ROUTE_OPEN | CK_ROUTE_QUIET)
#define STORE   CK_ROUTE_STORE
#define SAVED   (CK_ROUTE_STORE | CK_ROUTE_DOWNLOAD)
#define STORING (CK_ROUTE_STORE | CK_ROUTE_UPLOAD)
#define WORKING (CK_ROUTE_STORE | CK_ROUTE_JOB)
#define AT_ONCE (CK_ROUTE_STORE | CK_ROUTE_JOB | CK_ROUTE_UPLOAD | CK_ROUTE_DOWNLOAD)

/* clang-format off */
const struct ck_route ck_routes[] = {
    {"GET",    "/",                                  "getHelp",           "this text",                            CK_BODY_NONE,   CK_ROUTE_OPEN, CK_SCOPE_read,    NULL,                 ck_answer_help},
    {"GET",    "/livez",                             "getLivez",          "the process lives",                    CK_BODY_NONE,   PROBE,         CK_SCOPE_read,    NULL,                 ck_answer_livez},
    {"GET",    "/readyz",                            "getReadyz",         "it takes work; ?verbose says why not", CK_BODY_NONE,   PROBE,         CK_SCOPE_read,    NULL,                 ck_answer_readyz},
    {"GET",    "/startupz",                          "getStartupz",       "recovery is over",                     CK_BODY_NONE,   PROBE,         CK_SCOPE_read,    NULL,                 ck_answer_startupz},
    {"GET",    "/healthz",                           "getHealthz",        "the same as /readyz",                  CK_BODY_NONE,   PROBE,         CK_SCOPE_read,    NULL,                 ck_answer_readyz},
    {"GET",    "/version",                           "getVersion",        "version and build",                    CK_BODY_NONE,   CK_ROUTE_OPEN, CK_SCOPE_read,    NULL,                 ck_answer_version},
    {"GET",    "/metrics",                           "getMetrics",        "metrics for Prometheus",               CK_BODY_NONE,   CK_ROUTE_QUIET, CK_SCOPE_metrics, NULL,                ck_answer_metrics},
    {"GET",    "/openapi.yaml",                      "getOpenapiYaml",    "the contract",                         CK_BODY_NONE,   CK_ROUTE_OPEN, CK_SCOPE_read,    NULL,                 ck_answer_openapi_yaml},
    {"GET",    "/openapi.json",                      "getOpenapiJson",    "the same in JSON",                     CK_BODY_NONE,   CK_ROUTE_OPEN, CK_SCOPE_read,    NULL,                 ck_answer_openapi_json},

    {"PUT",    "/v1/convert/{to}",                   "putConvert",        "upload, convert, download",            CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_convert,      ck_answer_convert},
    {"POST",   "/v1/convert/{to}",                   "postConvert",       "the same",                             CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_convert,      ck_answer_convert},
    {"PUT",    "/v1/convert/{to}/{quant_or_name}",   "putConvertQuant",   "with a quantization or a file name",   CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_convert,      ck_answer_convert},
    {"POST",   "/v1/convert/{to}/{quant_or_name}",   "postConvertQuant",  "the same",                             CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_convert,      ck_answer_convert},
    {"PUT",    "/v1/convert/{to}/{quant}/{name}",    "putConvertNamed",   "with both",                            CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_convert,      ck_answer_convert},
    {"POST",   "/v1/convert/{to}/{quant}/{name}",    "postConvertNamed",  "the same",                             CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_convert,      ck_answer_convert},
    {"POST",   "/v1/convert",                        "postConvertForm",   "as a form: to, quant, file or digest", CK_BODY_FORM,   AT_ONCE,       CK_SCOPE_submit,  ck_head_convert_form, ck_answer_convert},

    {"POST",   "/v1/blobs",                          "postBlob",          "store an input",                       CK_BODY_FILE,   STORING,       CK_SCOPE_submit,  ck_head_blob_post,    ck_answer_blob_post},
    {"GET",    "/v1/blobs/{digest}",                 "getBlob",           "an input; HEAD: is it here?",          CK_BODY_NONE,   SAVED,         CK_SCOPE_read,    NULL,                 ck_answer_blob},
    {"PUT",    "/v1/blobs/{digest}",                 "putBlob",           "store an input, unless it is here",    CK_BODY_FILE,   STORING,       CK_SCOPE_submit,  ck_head_blob_put,     ck_answer_blob_put},
    {"DELETE", "/v1/blobs/{digest}",                 "deleteBlob",        "remove an input",                      CK_BODY_NONE,   STORE,         CK_SCOPE_delete,  NULL,                 ck_answer_blob_delete},

    {"POST",   "/v1/jobs",                           "createJob",         "start a job on stored inputs",         CK_BODY_JSON,   WORKING,       CK_SCOPE_submit,  ck_head_job_create,   ck_answer_job_create},
    {"GET",    "/v1/jobs",                           "listJobs",          "jobs, newest first",                   CK_BODY_NONE,   STORE,         CK_SCOPE_read,    NULL,                 ck_answer_job_list},
    {"GET",    "/v1/jobs/{id}",                      "getJob",            "one job; ?wait=60 waits for it",       CK_BODY_NONE,   STORE,         CK_SCOPE_read,    NULL,                 ck_answer_job},
    {"DELETE", "/v1/jobs/{id}",                      "deleteJob",         "forget a job and its results",         CK_BODY_NONE,   STORE,         CK_SCOPE_delete,  NULL,                 ck_answer_job_delete},
    {"POST",   "/v1/jobs/{id}/cancel",               "cancelJob",         "stop a job",                           CK_BODY_JSON,   STORE,         CK_SCOPE_delete,  NULL,                 ck_answer_job_cancel},
    {"POST",   "/v1/jobs/{id}/retry",                "retryJob",          "start a job again",                    CK_BODY_JSON,   WORKING,       CK_SCOPE_submit,  NULL,                 ck_answer_job_retry},
    {"GET",    "/v1/jobs/{id}/report",               "getReport",         "what was done to every tensor",        CK_BODY_NONE,   STORE,         CK_SCOPE_read,    NULL,                 ck_answer_report},
    {"GET",    "/v1/jobs/{id}/results",              "listResults",       "the files that a job made",            CK_BODY_NONE,   STORE,         CK_SCOPE_read,    NULL,                 ck_answer_results},
    {"GET",    "/v1/jobs/{id}/results/{name}",       "getResult",         "one of them",                          CK_BODY_NONE,   SAVED,         CK_SCOPE_read,    NULL,                 ck_answer_result},
    {"GET",    "/v1/jobs/{id}/results.zip",          "getResultsZip",     "all of them",                          CK_BODY_NONE,   SAVED,         CK_SCOPE_read,    NULL,                 ck_answer_results_zip},

    {"PUT",    "/v1/analyze",                        "putAnalyze",        "what a file holds and could become",   CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_analyze,      ck_answer_analyze},
    {"POST",   "/v1/analyze",                        "postAnalyze",       "the same; also JSON with a digest",    CK_BODY_EITHER, AT_ONCE,       CK_SCOPE_submit,  ck_head_analyze,      ck_answer_analyze},
    {"PUT",    "/v1/analyze/{name}",                 "putAnalyzeNamed",   "with a file name",                     CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_analyze,      ck_answer_analyze},
    {"POST",   "/v1/analyze/{name}",                 "postAnalyzeNamed",  "the same",                             CK_BODY_FILE,   AT_ONCE,       CK_SCOPE_submit,  ck_head_analyze,      ck_answer_analyze},

    {"GET",    "/v1/matrix",                         "listMatrices",      "what is supported: the tables there are", CK_BODY_NONE, 0,            CK_SCOPE_read,    NULL,                 ck_answer_matrix_list},
    {"GET",    "/v1/matrix/{name}",                  "getMatrix",         "one table",                            CK_BODY_NONE,   0,             CK_SCOPE_read,    NULL,                 ck_answer_matrix},
    {"GET",    "/v1/capabilities",                   "getCapabilities",   "targets, options, limits, for programs", CK_BODY_NONE, 0,             CK_SCOPE_read,    NULL,                 ck_answer_capabilities},
    {NULL, NULL, NULL, NULL, CK_BODY_NONE, 0, CK_SCOPE_read, NULL, NULL},
};
/* clang-format on */

void ck_params_release(struct ck_params *params) {
    for (size_t i = 0; i < params->n; i++)
        free(params->values[i]);
    *params = (struct ck_params){0};
}

/* `curl -T FILE` appends the file's name to an address that ends in '/', so these are advertised with one. */
static const char *const slash_tolerant[] = {"/v1/convert/", "/v1/analyze/", "/v1/blobs/", NULL};

static bool tolerates_slash(const char *path) {
    for (const char *const *prefix = slash_tolerant; *prefix; prefix++)
        if (strncmp(path, *prefix, strlen(*prefix)) == 0)
            return true;
    return false;
}

/* Bytes of the path without a trailing slash that is tolerated. */
static size_t path_length(const char *path) {
    size_t n = strlen(path);

    return n > 1 && path[n - 1] == '/' && tolerates_slash(path) ? n - 1 : n;
}

/* Cuts the next segment off a path of *n bytes that begins with '/'; false at its end. */
static bool next_segment(const char **path, size_t *n, const char **ret_segment, size_t *ret_length) {
    const char *segment = *path + 1, *slash;

    if (*n == 0 || **path != '/')
        return false;
    slash = memchr(segment, '/', *n - 1);
    *ret_segment = segment;
    *ret_length = slash ? (size_t)(slash - segment) : *n - 1;
    *path = segment + *ret_length;
    *n -= 1 + *ret_length;
    return true;
}

/* How much a segment of a path is like one of a pattern: 0 equal or a {part}, 1 near, -1 different. */
static int compare_segment(const char *part, size_t part_length, const char *segment, size_t length) {
    char word[64], text[64];

    if (part[0] == '{')
        return length > 0 ? 0 : -1;
    if (part_length == length && memcmp(part, segment, length) == 0)
        return 0;
    if (part_length >= sizeof(word) || length >= sizeof(text))
        return -1;
    memcpy(word, part, part_length);
    memcpy(text, segment, length);
    word[part_length] = text[length] = 0;
    return ck_nearest(text, (const char *const[]){word, NULL}) ? 1 : -1;
}

/* The number of segments that are only near, or -1 if the path is of another shape. */
static int compare(const char *pattern, const char *path, size_t path_bytes) {
    const char *part, *segment;
    size_t pattern_bytes = strlen(pattern), part_length, length;
    int near = 0;

    while (next_segment(&pattern, &pattern_bytes, &part, &part_length)) {
        int r = next_segment(&path, &path_bytes, &segment, &length)
                    ? compare_segment(part, part_length, segment, length)
                    : -1;

        if (r < 0)
            return -1;
        near += r;
    }
    return path_bytes == 0 ? near : -1;
}

static bool takes(const struct ck_route *route, const char *method) {
    return strcmp(route->method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* The pattern that fewest words keep from fitting; then one that the beginning of the path is near to. */
static const char *nearest(const char *path, size_t n) {
    const char *pattern = NULL;

    for (int best = INT32_MAX; n > 1 && !pattern; n = (size_t)((const char *)memrchr(path, '/', n) - path)) {
        for (const struct ck_route *route = ck_routes; route->method; route++) {
            int near = compare(route->pattern, path, n);

            if (near >= 0 && near < best) {
                best = near;
                pattern = route->pattern;
            }
        }
    }
    return pattern;
}

static int decode_params(const char *pattern, const char *path, size_t path_bytes, struct ck_params *ret_params,
                         struct ck_error *err) {
    _cleanup_(ck_params_release) struct ck_params params = {0};
    const char *part, *segment;
    size_t pattern_bytes = strlen(pattern), part_length, length;

    while (next_segment(&pattern, &pattern_bytes, &part, &part_length) &&
           next_segment(&path, &path_bytes, &segment, &length)) {
        int r;

        if (part[0] != '{')
            continue;
        r = ck_percent_decode(segment, length, false, &params.values[params.n], err);
        if (r < 0)
            return r;
        params.n++;
    }
    *ret_params = params;
    params = (struct ck_params){0};
    return 0;
}

static int nothing_here(const char *path, size_t n, struct ck_error *err) {
    const char *near = path[0] == '/' ? nearest(path, n) : NULL;

    ck_error_set(err, CK_E_NOT_FOUND, NULL, "nothing is served under %.200s", path);
    if (near)
        ck_error_set_hint(err, "did you mean %s? GET / lists the paths", near);
    return CK_E_NOT_FOUND;
}

int ck_route_find(const char *method, const char *path, const struct ck_route **ret_route, struct ck_params *ret_params,
                  char ret_allow[static 64], struct ck_error *err) {
    size_t n = path_length(path), used = 0;

    ret_allow[0] = 0;
    for (const struct ck_route *route = ck_routes; route->method; route++) {
        if (compare(route->pattern, path, n) != 0)
            continue;
        if (takes(route, method)) {
            int r = decode_params(route->pattern, path, n, ret_params, err);

            ret_allow[0] = 0; /* other methods of this path came before */
            if (r == 0)
                *ret_route = route;
            return r;
        }
        used += (size_t)snprintf(ret_allow + used, 64 - used, "%s%s%s", used ? ", " : "", route->method,
                                 strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
    }
    if (used > 0)
        return ck_error_set(err, CK_E_METHOD_NOT_ALLOWED, NULL, "this path takes %s, not %.32s", ret_allow, method);
    return nothing_here(path, n, err);
}
