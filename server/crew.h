/* server/crew.h: a few threads that run errands in order: whatever may block on the store or the disk and must not hold up the threads that
 * serve sockets. */
#ifndef CK_SERVER_CREW_H
#define CK_SERVER_CREW_H

#include "core/base/error.h"

struct ck_crew;

struct ck_errand {
    void (*run)(void *ctx);
    void *ctx;
    struct ck_errand *next; /* the crew's */
};

int ck_crew_new(unsigned threads, struct ck_crew **ret_crew, struct ck_error *err);

/* From any thread. The errand must live until run() is called, and may be freed or posted again from then on. */
void ck_crew_post(struct ck_crew *crew, struct ck_errand *errand);

/* Runs what is queued, then ends the threads. Accepts NULL. */
void ck_crew_free(struct ck_crew *crew);

#endif
