#include "api/routes.h"

#include <stdio.h>
#include <string.h>

#include "api/convert.h"
#include "api/health.h"
#include "core/job/options.h"

const struct ck_route ck_routes[] = {
    {"GET", "/", "/", "help", ck_answer_help},
    {"GET", "/livez", "/livez", "livez", ck_answer_livez},
    {"GET", "/readyz", "/readyz", "readyz", ck_answer_readyz},
    {"GET", "/version", "/version", "version", ck_answer_version},
    {"PUT", CK_CONVERT_PREFIX "*", CK_CONVERT_PREFIX "{to}/[{quant}/]", "convertPut", NULL},
    {"POST", CK_CONVERT_PREFIX "*", CK_CONVERT_PREFIX "{to}/[{quant}/]", "convertPost", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static bool matches(const char *pattern, const char *path) {
    size_t n = strlen(pattern);

    if (pattern[n - 1] == '*')
        return strncmp(pattern, path, n - 1) == 0 || (strncmp(pattern, path, n - 2) == 0 && path[n - 2] == 0);
    return strcmp(pattern, path) == 0;
}

static bool takes(const struct ck_route *route, const char *method) {
    return strcmp(route->method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* Cuts one segment after the other off the path until what is left resembles the fixed part of a route. */
static const struct ck_route *nearest(const char *path) {
    const char *words[CK_ARRAY_LEN(ck_routes)];
    char fixed[CK_ARRAY_LEN(ck_routes)][64], left[256];
    size_t n = 0;

    for (const struct ck_route *route = ck_routes + 1; route->method; route++, n++) {
        snprintf(fixed[n], sizeof(fixed[n]), "%.*s", (int)strcspn(route->pattern, "*"), route->pattern);
        words[n] = fixed[n];
    }
    words[n] = NULL;
    snprintf(left, sizeof(left), "%s", path);
    while (left[0]) {
        const char *word = ck_nearest(left, words);
        char *slash;

        for (size_t i = 0; word && i < n; i++)
            if (words[i] == word)
                return &ck_routes[i + 1];
        slash = strrchr(left, '/');
        if (!slash)
            return NULL;
        /* "/v1/covert/mlx" becomes "/v1/covert/", then "/v1/covert". */
        slash[slash[1] ? 1 : 0] = 0;
    }
    return NULL;
}

int ck_route_find(const char *method, const char *path, const struct ck_route **ret_route, char ret_allow[static 64],
                  struct ck_error *err) {
    const struct ck_route *near;
    size_t used = 0;

    ret_allow[0] = 0;
    for (const struct ck_route *route = ck_routes; route->method; route++) {
        if (!matches(route->pattern, path))
            continue;
        if (takes(route, method)) {
            *ret_route = route;
            return 0;
        }
        used += (size_t)snprintf(ret_allow + used, 64 - used, "%s%s%s", used ? ", " : "", route->method,
                                 strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
    }
    if (used > 0)
        return ck_error_set(err, CK_E_METHOD_NOT_ALLOWED, NULL, "this path takes %s, not %.32s", ret_allow, method);
    near = nearest(path);
    ck_error_set(err, CK_E_NOT_FOUND, NULL, "nothing is served under %.200s", path);
    if (near)
        ck_error_set_hint(err, "did you mean %s? GET / lists the paths", near->help);
    return CK_E_NOT_FOUND;
}
