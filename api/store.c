#include "api/store.h"

#include <string.h>

static const struct {
    const char *text;
    bool finished;
} states[] = {
#define X(name, text, finished) [CK_STATE_##name] = {text, finished},
    CK_JOB_STATES(X)
#undef X
};

const char *ck_job_state_name(enum ck_job_state state) {
    return states[state].text;
}

bool ck_job_state_finished(enum ck_job_state state) {
    return states[state].finished;
}

bool ck_job_state_parse(const char *text, enum ck_job_state *ret_state) {
    for (size_t i = 0; i < CK_ARRAY_LEN(states); i++)
        if (strcmp(states[i].text, text) == 0) {
            *ret_state = (enum ck_job_state)i;
            return true;
        }
    return false;
}

void ck_job_row_release(struct ck_job_row *row) {
    for (size_t i = 0; i < row->n_inputs; i++) {
        free(row->inputs[i].role);
        free(row->inputs[i].name);
    }
    free(row->inputs);
    free(row->files);
    free(row->tenant);
    free(row->kind);
    free(row->target);
    free(row->quant);
    free(row->spec);
    free(row->labels);
    free(row->stem);
    free(row->reason);
    free(row->outcome);
    free(row->error);
    free(row->request_id);
    free(row->trace_id);
    free(row->caller);
    free(row->converter);
    *row = (struct ck_job_row){0};
}
