/* api/scope.h: what a key may do. Each route asks for one scope, each key of the keys file has some. */
#ifndef CK_API_SCOPE_H
#define CK_API_SCOPE_H

#define CK_SCOPES(X)                                                                                                   \
    /* name   what */                                                                                                  \
    X(read, "look at jobs and fetch results")                                                                          \
    X(submit, "upload and start jobs")                                                                                 \
    X(delete, "cancel and delete jobs")                                                                                \
    X(metrics, "read /metrics")

enum ck_scope {
#define X(name, what) CK_SCOPE_##name,
    CK_SCOPES(X)
#undef X
    CK_SCOPE_N_
};

/* "read" ... Static storage. */
static inline const char *ck_scope_name(enum ck_scope scope) {
    static const char *const names[] = {
#define X(name, what) #name,
        CK_SCOPES(X)
#undef X
    };

    return names[scope];
}

#endif
