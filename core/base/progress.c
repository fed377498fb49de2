#include "core/base/progress.h"

const char *ck_stage_name(enum ck_stage stage) {
    static const char *const names[] = {
#define X(name) #name,
        CK_STAGES(X)
#undef X
    };

    return (unsigned)stage < CK_STAGE_END_ ? names[stage] : "?";
}

void ck_progress_report(const struct ck_progress *progress, enum ck_stage stage, uint64_t done, uint64_t total) {
    if (progress && progress->report)
        progress->report(progress->ctx, stage, done, total);
}

int ck_progress_check(const struct ck_progress *progress, struct ck_error *err) {
    if (progress && progress->cancelled && progress->cancelled(progress->ctx))
        return ck_error_set(err, CK_E_CANCELLED, NULL, "cancelled");
    return 0;
}
