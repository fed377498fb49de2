#include "api/analyze.h"

#include "api/order.h"
#include "api/problem.h"

int ck_head_analyze(struct ck_request *request, _unused_ const struct ck_ports *ports, struct ck_error *err) {
    struct ck_order *order;
    int r = ck_order_begin(request, CK_JOB_ANALYZE, &order, err);

    if (r == 0)
        r = ck_spec_init_analyze(&order->submission.spec, err);
    if (r == 0 && request->params[0])
        r = ck_submission_name(&order->submission, "path", request->params[0], err);
    return r < 0 ? r : ck_order_take_query(order, err);
}

static int take_body(struct ck_order *order, const struct ck_request *request, struct ck_error *err) {
    if (request->body_bytes > 0)
        return ck_order_take_json(order, request, ck_analysis_parse, err);
    return ck_order_take_form(order, request, CK_JOB_ANALYZE, err);
}

void ck_analyze_success(const struct ck_request *request, const struct ck_ports *ports, const struct ck_job_row *row,
                        struct ck_reply *ret_reply) {
    ck_reply_shown(request, ports, row, "analysis.json", ".json", ret_reply);
}

void ck_answer_analyze(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_order *order = request->state;
    char applied[CK_APPLIED_SIZE];
    struct ck_error err = {0};
    struct ck_wish wish;

    if (!order->job[0] && take_body(order, request, &err) < 0) {
        ck_problem_reply(&err, request->id, true, ret_reply);
        return;
    }
    ck_order_wish(order, &ports->terms, &wish, applied);
    wish.success = ck_analyze_success;
    ck_order_answer(order, request, ports, &wish, ret_reply);
}
