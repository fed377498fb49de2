#include "core/job/target.h"

#include <inttypes.h>
#include <string.h>

#include "core/job/faithful.h"
#include "core/mlx/plan.h"
#include "core/output/safetensors_write.h"

const struct ck_target ck_target_table[] = {
    {"mlx", true, ck_mlx_plan},
    {"safetensors", false, ck_faithful_plan},
    {0},
};

static const struct ck_target *find(const char *name) {
    for (const struct ck_target *target = ck_target_table; target->name; target++)
        if (strcmp(target->name, name) == 0)
            return target;
    return NULL;
}

/* A view may repeat its elements without end; what it comes to must stay near what was sent. */
static int check_output_size(const struct ck_plan *plan, const struct ck_limits *limits, struct ck_error *err) {
    uint64_t total = 0, most;

    if (!ck_mul_u64(plan->model->input_bytes, limits->output_ratio, &most) || !ck_add_u64(most, 64 * CK_MIB, &most))
        most = UINT64_MAX;
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const struct ck_plan_item *item = &plan->items[i];

        for (uint32_t k = 0; k < item->n_out; k++) {
            if (ck_add_u64(total, item->out[k].bytes, &total) && total <= most)
                continue;
            return ck_error_set(
                err, CK_E_OUTPUT_LIMIT, plan->model->tensors[item->source].name,
                "the result would be larger than %llu bytes, %llu times the file (--limit-output-ratio)",
                (unsigned long long)most, (unsigned long long)limits->output_ratio);
        }
    }
    return 0;
}

/* What option on_findings= counts: what the report lists, or the worst of it. */
static const struct ck_finding *first_finding(const struct ck_findings *findings, bool any) {
    for (size_t i = 0; i < findings->count; i++) {
        enum ck_finding_class class_ = findings->items[i].class_;

        if (class_ == CK_FINDING_DANGEROUS || (any && (class_ == CK_FINDING_UNKNOWN || class_ == CK_FINDING_STRUCTURE)))
            return &findings->items[i];
    }
    return NULL;
}

static int check_findings(const struct ck_model *model, const struct ck_spec *spec, struct ck_error *err) {
    const char *option = ck_spec_get(spec, "on_findings");
    const struct ck_finding *finding;

    if (strcmp(option, "report") == 0)
        return 0;
    finding = first_finding(&model->findings, strcmp(option, "any") == 0);
    if (!finding)
        return 0;
    return ck_error_set(err, CK_E_FINDINGS_REFUSED, finding->entry, "%s: %s%s%.300s%s%s at byte %" PRIu64 "%s%.200s",
                        ck_finding_class_name(finding->class_), finding->module, finding->module[0] ? "." : "",
                        finding->name, finding->opcode[0] ? ", opcode " : "", finding->opcode, finding->offset,
                        finding->entry[0] ? " of " : "", finding->entry);
}

int ck_target_plan(struct ck_plan *plan, const struct ck_model *model, const struct ck_spec *spec,
                   const struct ck_limits *limits, struct ck_error *err) {
    const struct ck_target *target = find(spec->target);
    int r;

    ck_plan_init(plan, model, limits);
    if (!target)
        return ck_error_set(err, CK_E_UNSUPPORTED_TARGET, spec->target, "'%.100s' is no target", spec->target);
    r = check_findings(model, spec, err);
    if (r < 0)
        return r;
    r = target->plan(plan, spec, err);
    if (r < 0)
        return r;
    r = check_output_size(plan, limits, err);
    if (r < 0)
        return r;
    return ck_safetensors_layout(plan, spec->max_shard_bytes, err);
}

bool ck_is_refusal(int code) {
    enum ck_error_class class_ = ck_error_row(code)->class_;

    return class_ == CK_CLASS_document || class_ == CK_CLASS_limit || class_ == CK_CLASS_request;
}
