/* base/progress.h: how a long run of the core tells where it is, and learns that it should stop. */
#ifndef CK_BASE_PROGRESS_H
#define CK_BASE_PROGRESS_H

#include "core/base/error.h"

#define CK_STAGES(X) X(read) X(plan) X(write) X(verify) X(publish)

enum ck_stage {
#define X(name) CK_STAGE_##name,
    CK_STAGES(X) CK_STAGE_END_
#undef X
};

/* "read" ... "publish". Static storage. */
const char *ck_stage_name(enum ck_stage stage);

struct ck_progress {
    /* Called from any thread, one at a time; done and total in bytes (0 of 0: the stage began). May be NULL. */
    void (*report)(void *ctx, enum ck_stage stage, uint64_t done, uint64_t total);
    /* True once the run should end with CK_E_CANCELLED. Called from any thread. May be NULL. */
    bool (*cancelled)(void *ctx);
    void *ctx;
};

/* Both accept NULL. ck_progress_check() returns 0 or CK_E_CANCELLED. */
void ck_progress_report(const struct ck_progress *progress, enum ck_stage stage, uint64_t done, uint64_t total);
int  ck_progress_check(const struct ck_progress *progress, struct ck_error *err);

#endif
