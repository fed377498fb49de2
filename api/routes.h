/* api/routes.h: the one table of routes: method, pattern, operation, body, handlers. openapi.yaml documents the same rows; a test diffs the two. */
#ifndef CK_API_ROUTES_H
#define CK_API_ROUTES_H

#include "api/ports.h"
#include "api/reply.h"
#include "api/request.h"
#include "api/scope.h"

/* What a route takes as its body. */
enum ck_body {
    CK_BODY_NONE,   /* a body is swallowed */
    CK_BODY_JSON,   /* at most max_json bytes; may be empty */
    CK_BODY_FILE,   /* one raw file, whatever its Content-Type (curl --data-binary sends a form's), or multipart/form-data */
    CK_BODY_FORM,   /* multipart/form-data only */
    CK_BODY_EITHER, /* application/json, or as CK_BODY_FILE */
};

enum {
    CK_ROUTE_STORE    = 1, /* answer() may block on store or disk: it runs on a thread for that, the connection suspended */
    CK_ROUTE_JOB      = 2, /* makes a job: refused on the head while draining or when the queue is full */
    CK_ROUTE_UPLOAD   = 4, /* stores bytes: refused on the head while draining or without space */
    CK_ROUTE_DOWNLOAD = 8, /* every answer carries Content-Disposition, problems too: people call it with curl -OJ */
    CK_ROUTE_OPEN     = 16, /* no key is asked for */
    CK_ROUTE_QUIET    = 32, /* probes: logged at debug level */
};

/* Looks at the head, before any byte of the body: returns 0 or the refusal. Must not block. May set request->state. */
typedef int (*ck_head_fn)(struct ck_request *request, const struct ck_ports *ports, struct ck_error *err);

/* Composes the answer, when the body is complete. May ask to wait (reply.h), and is then called again. */
typedef void (*ck_answer_fn)(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

struct ck_route {
    const char   *method;    /* GET stands for HEAD too */
    const char   *pattern;   /* "/v1/jobs/{id}/results/{name}"; a {part} is one segment */
    const char   *operation; /* operationId of openapi.yaml; the word of logs and metrics */
    const char   *what;      /* a few words, for GET / */
    enum ck_body  body;
    unsigned      flags;
    enum ck_scope scope;
    ck_head_fn    head; /* or NULL */
    ck_answer_fn  answer;
};

/* The rows, ending with a NULL method. */
extern const struct ck_route ck_routes[];

/* What a pattern's parts stand for. Owned by whoever asked. */
struct ck_params {
    char  *values[CK_PARAMS_MAX];
    size_t n;
};

void ck_params_release(struct ck_params *params);

/* The row for a method and path. A trailing "/" is as good as none below /v1/convert, /v1/analyze and /v1/blobs, because curl -T needs one. Returns 0; CK_E_NOT_FOUND with the
 * nearest path; CK_E_METHOD_NOT_ALLOWED, and then *ret_allow holds the value of the Allow header; CK_E_BAD_REQUEST for broken escapes. */
int ck_route_find(const char *method, const char *path, const struct ck_route **ret_route, struct ck_params *ret_params, char ret_allow[static 64],
                  struct ck_error *err);

#endif
