/* api/routes.h: the one table of routes: method, path pattern, operation id, handler. */
#ifndef CK_API_ROUTES_H
#define CK_API_ROUTES_H

#include "api/ports.h"
#include "api/reply.h"
#include "core/base/error.h"

struct ck_request {
    const char *method;
    const char *path;  /* as sent, without the query, not decoded */
    const char *query; /* as sent, without '?'; "" if there is none */
    const char *host;  /* the Host header, or NULL */
    const char *id;    /* request id */
};

typedef void (*ck_answer_fn)(const struct ck_request *request, const struct ck_ports *ports,
                             struct ck_reply *ret_reply);

struct ck_route {
    const char *method;    /* GET stands for HEAD too */
    const char *pattern;   /* a final "*" stands for any rest */
    const char *help;      /* how GET / shows the path */
    const char *operation; /* operationId; the word of logs */
    ck_answer_fn answer;   /* NULL: it takes an upload, and server/ conducts it with api/convert.h */
};

/* The rows, ending with a NULL method. */
extern const struct ck_route ck_routes[];

/* The row for a method and path. Returns 0; CK_E_NOT_FOUND with the nearest path; CK_E_METHOD_NOT_ALLOWED, and then
 * *ret_allow (64 bytes) holds the value of the Allow header. */
int ck_route_find(const char *method, const char *path, const struct ck_route **ret_route, char ret_allow[static 64],
                  struct ck_error *err);

#endif
