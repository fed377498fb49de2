#include "core/job/report.h"

#include <string.h>

#include "core/base/version.h"

static const struct {
    const char *name, *inverse;
} steps[] = {
#define X(name, text, inverse) [CK_STEP_##name] = {text, inverse},
    CK_STEPS(X)
#undef X
};

static void write_quantizer(struct ck_json *json, const struct ck_quantizer *quantizer) {
    ck_json_key_string(json, "scheme", ck_qscheme_name(quantizer->scheme));
    if (quantizer->scheme != CK_QSCHEME_TENSOR) {
        ck_json_key_u64(json, "axis", quantizer->axis);
        return;
    }
    ck_json_key(json, "scale");
    ck_json_double(json, quantizer->scale);
    ck_json_key(json, "zero_point");
    ck_json_i64(json, quantizer->zero_point);
}

static void write_step(struct ck_json *json, const struct ck_step *step, const struct ck_plan_item *item) {
    ck_json_object_begin(json);
    ck_json_key_string(json, "op", steps[step->op].name);
    switch (step->op) {
    case CK_STEP_PERMUTE:
        ck_json_key(json, "axes");
        ck_json_array_begin(json);
        for (uint32_t i = 0; i < step->permute.rank; i++)
            ck_json_u64(json, step->permute.axes[i]);
        ck_json_array_end(json);
        break;
    case CK_STEP_SPLIT:
        ck_json_key_u64(json, "axis", 0);
        ck_json_key_u64(json, "index", step->split.index);
        ck_json_key_u64(json, "of", step->split.of);
        break;
    case CK_STEP_REGROUP:
        ck_json_key_u64(json, "groups", step->regroup.groups);
        break;
    case CK_STEP_DEQUANTIZE:
        write_quantizer(json, item->quantizer);
        break;
    case CK_STEP_CONJUGATE:
    case CK_STEP_NEGATE:
        break;
    case CK_STEP_CAST:
        ck_json_key_string(json, "to", ck_dtype_row(step->cast)->torch);
        break;
    case CK_STEP_QUANTIZE:
        ck_json_key_string(json, "mode", "affine");
        ck_json_key_u64(json, "bits", step->quantize.bits);
        ck_json_key_u64(json, "group_size", step->quantize.group);
        break;
    case CK_STEP_END_:
        break;
    }
    ck_json_object_end(json);
}

static void write_evidence(struct ck_json *json, const struct ck_evidence *evidence) {
    ck_json_key(json, "evidence");
    ck_json_object_begin(json);
    ck_json_key_string(json, "kind", ck_evidence_kind_name(evidence->kind));
    ck_json_key_string(json, "why", evidence->why);
    if (evidence->detail)
        ck_json_key_string(json, "detail", evidence->detail);
    ck_json_object_end(json);
}

static void write_source(struct ck_json *json, const struct ck_tensor *tensor) {
    ck_json_key_string(json, "from", tensor->name);
    ck_json_key_string(json, "from_dtype", ck_dtype_row(tensor->view.dtype)->torch);
    ck_json_key_ints(json, "from_shape", tensor->view.shape, tensor->view.rank);
}

static void write_item(struct ck_json *json, const struct ck_plan *plan, const struct ck_plan_item *item) {
    for (uint32_t i = 0; i < item->n_out; i++) {
        const struct ck_out_tensor *out = &item->out[i];

        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "out", out->name);
        if (out->file < plan->n_files)
            ck_json_key_string(json, "file", plan->files[out->file].name);
        ck_json_key_u64(json, "offset", out->offset);
        ck_json_key_u64(json, "bytes", out->bytes);
        ck_json_key_string(json, "dtype", out->dtype);
        ck_json_key_ints(json, "shape", out->shape, out->rank);
        write_source(json, &plan->model->tensors[item->source]);
        ck_json_key_string(json, "layer", item->layer);
        ck_json_key_string(json, "rule", item->rule);
        ck_json_key(json, "steps");
        ck_json_array_begin(json);
        for (uint32_t k = 0; k < item->n_steps; k++)
            write_step(json, &item->steps[k], item);
        ck_json_array_end(json);
        write_evidence(json, &item->evidence);
        if (item->left_alone)
            ck_json_key_string(json, "left_alone", item->left_alone);
        if (item->overflowed > 0)
            ck_json_key_u64(json, "overflowed", item->overflowed);
        if (item->non_finite_groups > 0)
            ck_json_key_u64(json, "non_finite_groups", item->non_finite_groups);
        ck_json_object_end(json);
    }
}

/* Of a tensor that cannot be read nothing else is certain. */
static void write_note_source(struct ck_json *json, const struct ck_tensor *tensor) {
    if (tensor->error)
        ck_json_key_string(json, "from", tensor->name);
    else
        write_source(json, tensor);
}

static void write_dropped(struct ck_json *json, const struct ck_plan *plan) {
    ck_json_key(json, "dropped");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_dropped; i++) {
        ck_json_newline(json);
        ck_json_object_begin(json);
        write_note_source(json, &plan->model->tensors[plan->dropped[i].source]);
        ck_json_key_string(json, "why", plan->dropped[i].why);
        ck_json_key_string(json, "message", plan->dropped[i].message);
        ck_json_object_end(json);
    }
    for (uint32_t i = 0; i < plan->model->n_outside; i++) {
        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "from", plan->model->outside[i].path);
        ck_json_key_string(json, "why", "outside_state_dict");
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
}

static void write_refused(struct ck_json *json, const struct ck_plan *plan) {
    ck_json_key(json, "refused");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_refused; i++) {
        const struct ck_plan_note *note = &plan->refused[i];

        ck_json_newline(json);
        ck_json_object_begin(json);
        write_note_source(json, &plan->model->tensors[note->source]);
        ck_json_key_string(json, "code", ck_error_row(note->code)->name);
        ck_json_key_string(json, "message", note->message);
        if (note->candidates) {
            ck_json_key(json, "candidates");
            ck_json_array_begin(json);
            for (size_t k = 0; note->candidates[k]; k++)
                ck_json_string(json, note->candidates[k]);
            ck_json_array_end(json);
        }
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
}

static void write_names(struct ck_json *json, const struct ck_plan *plan) {
    ck_json_key(json, "aliases");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_aliases; i++) {
        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "from", plan->model->tensors[plan->aliases[i].source].name);
        ck_json_key_string(json, "name", plan->aliases[i].name);
        ck_json_key_string(json, "of", plan->aliases[i].of_name);
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
    ck_json_newline(json);
    ck_json_key(json, "renamed");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_renames; i++) {
        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "from", plan->renames[i].from);
        ck_json_key_string(json, "to", plan->renames[i].to);
        ck_json_key_string(json, "why", plan->renames[i].why);
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
}

static void write_summary(struct ck_json *json, const struct ck_plan *plan, bool dry_run) {
    uint64_t written = 0, quantized = 0, overflowed = 0, bytes = 0;

    for (uint32_t i = 0; i < plan->n_items; i++) {
        written += plan->items[i].n_out;
        quantized += plan->items[i].affine.bits > 0;
        overflowed += plan->items[i].overflowed;
        for (uint32_t k = 0; k < plan->items[i].n_out; k++)
            bytes += plan->items[i].out[k].bytes;
    }
    ck_json_key(json, "summary");
    ck_json_object_begin(json);
    ck_json_key_u64(json, "source_tensors", (uint64_t)plan->model->n_tensors + plan->model->n_outside);
    ck_json_key_u64(json, "tensors", written);
    ck_json_key_u64(json, "bytes", bytes);
    ck_json_key_u64(json, "quantized", quantized);
    ck_json_key_u64(json, "assumed", plan->assumed);
    ck_json_key_u64(json, "dropped", (uint64_t)plan->n_dropped + plan->model->n_outside);
    ck_json_key_u64(json, "aliases", plan->n_aliases);
    ck_json_key_u64(json, "refused", plan->n_refused);
    if (!dry_run)
        ck_json_key_u64(json, "overflowed", overflowed);
    ck_json_object_end(json);
}

static void write_plan(struct ck_json *json, const struct ck_plan *plan, bool dry_run) {
    write_summary(json, plan, dry_run);
    ck_json_newline(json);
    ck_json_key(json, "files");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_files; i++) {
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", plan->files[i].name);
        ck_json_key_u64(json, "bytes", plan->files[i].bytes);
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
    ck_json_newline(json);
    ck_json_key(json, "tensors");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_items; i++)
        write_item(json, plan, &plan->items[i]);
    ck_json_array_end(json);
    ck_json_newline(json);
    write_dropped(json, plan);
    ck_json_newline(json);
    write_refused(json, plan);
    ck_json_newline(json);
    write_names(json, plan);
    ck_json_newline(json);
    ck_json_key(json, "warnings");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < plan->n_warnings; i++)
        ck_json_string(json, plan->warnings[i]);
    ck_json_array_end(json);
}

static void write_refusal(struct ck_json *json, const struct ck_error *refusal) {
    ck_json_key(json, "error");
    ck_json_object_begin(json);
    ck_json_key_string(json, "code", ck_error_row(refusal->code)->name);
    ck_json_key_string(json, "detail", refusal->message);
    ck_json_key_string(json, "where", refusal->where);
    ck_json_key_string(json, "hint", ck_error_hint(refusal));
    if (refusal->details[0]) {
        ck_json_key(json, "questions");
        ck_json_raw(json, refusal->details);
    }
    ck_json_object_end(json);
    ck_json_newline(json);
}

void ck_report_write(struct ck_json *json, const struct ck_spec *spec, const struct ck_model *model,
                     const struct ck_plan *plan, const struct ck_error *refusal) {
    _cleanup_(ck_freep) char *normalised = ck_spec_normalised(spec);

    ck_json_object_begin(json);
    ck_json_key_string(json, "status", refusal ? "refused" : spec->dry_run ? "planned" : "written");
    ck_json_key_string(json, "version", ck_version());
    ck_json_key(json, "spec");
    ck_json_raw(json, normalised ? normalised : "null");
    ck_json_newline(json);
    if (refusal)
        write_refusal(json, refusal);
    if (model) {
        ck_json_key(json, "source");
        ck_json_object_begin(json);
        ck_json_key_string(json, "form", model->form);
        if (model->archive) {
            ck_json_key_string(json, "archive", model->archive);
            ck_json_key_string(json, "member", model->member);
        }
        ck_json_key_u64(json, "bytes", model->input_bytes);
        ck_json_key_string(json, "state_dict", model->root_path);
        ck_json_key_string(json, "why", model->root_why);
        ck_json_object_end(json);
        ck_json_newline(json);
    }
    if (plan->model) {
        write_plan(json, plan, spec->dry_run);
        ck_json_newline(json);
    }
    if (model) {
        ck_json_key(json, "findings");
        ck_findings_json(&model->findings, json, false);
    }
    ck_json_object_end(json);
    ck_json_newline(json);
}
