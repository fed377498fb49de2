/* api/ports.h: what the handlers need from the process that runs them. server/ implements it; tests put in their own.
 */
#ifndef CK_API_PORTS_H
#define CK_API_PORTS_H

#include "core/base/macros.h"

struct ck_health {
    bool draining;           /* SIGTERM came: what runs is finished, nothing new is taken */
    uint64_t free_bytes;     /* on the file system of the data directory */
    uint64_t need_bytes;     /* below this no upload is taken */
    bool workers_ok;         /* the loop that starts workers answers, and its last start succeeded */
    const char *workers_why; /* one sentence if not; static storage */
};

struct ck_ports {
    void (*health)(void *ctx, struct ck_health *ret_health); /* called from any thread */
    void *ctx;
    const char *build_json; /* members of /version that only the server knows: one JSON object */
};

#endif
