#include "core/job/analysis.h"

#include <string.h>

#include "core/base/version.h"
#include "core/job/verdict.h"
#include "core/model/forms.h"

static const struct {
    const char *form, *why;
} forms[] = {
#define X(name, why_) {.form = name, .why = why_},
    CK_FORMS(X)
#undef X
};

static const char *form_why(const char *form) {
    for (size_t i = 0; i < CK_ARRAY_LEN(forms); i++)
        if (strcmp(forms[i].form, form) == 0)
            return forms[i].why;
    return "by its first bytes";
}

/* ---- totals ---- */

struct dtype_total {
    uint64_t tensors, elements, bytes;
};

struct totals {
    uint64_t aliases, errors;
    struct dtype_total all, dtypes[CK_DTYPE_END_];
};

static void add_tensor(struct dtype_total *total, const struct ck_view *view) {
    total->tensors++;
    total->elements = ck_add_saturated(total->elements, ck_view_numel(view));
    total->bytes = ck_add_saturated(total->bytes, ck_view_bytes(view));
}

static void count_totals(const struct ck_model *model, struct totals *totals) {
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const struct ck_tensor *tensor = &model->tensors[i];

        if (tensor->error) {
            totals->errors++;
        } else if (tensor->alias_of != CK_NO_INDEX) {
            totals->aliases++;
        } else {
            add_tensor(&totals->all, &tensor->view);
            add_tensor(&totals->dtypes[tensor->view.dtype], &tensor->view);
        }
    }
}

/* The dtype whose name comes behind `last` in the alphabet, or CK_DTYPE_END_. */
static enum ck_dtype next_dtype(const char *last) {
    enum ck_dtype next = CK_DTYPE_END_;

    for (enum ck_dtype i = 0; i < CK_DTYPE_END_; i++)
        if (strcmp(ck_dtype_row(i)->torch, last) > 0 &&
            (next == CK_DTYPE_END_ || strcmp(ck_dtype_row(i)->torch, ck_dtype_row(next)->torch) < 0))
            next = i;
    return next;
}

static void write_dtypes(struct ck_json *json, const struct totals *totals) {
    ck_json_key(json, "dtypes");
    ck_json_object_begin(json);
    for (enum ck_dtype i = next_dtype(""); i != CK_DTYPE_END_; i = next_dtype(ck_dtype_row(i)->torch)) {
        if (totals->dtypes[i].tensors == 0)
            continue;
        ck_json_key(json, ck_dtype_row(i)->torch);
        ck_json_object_begin(json);
        ck_json_key_u64(json, "tensors", totals->dtypes[i].tensors);
        ck_json_key_u64(json, "elements", totals->dtypes[i].elements);
        ck_json_key_u64(json, "bytes", totals->dtypes[i].bytes);
        ck_json_object_end(json);
    }
    ck_json_object_end(json);
}

static void write_totals(struct ck_json *json, const struct ck_model *model) {
    struct totals totals = {0};

    count_totals(model, &totals);
    ck_json_key(json, "totals");
    ck_json_object_begin(json);
    ck_json_key_u64(json, "tensors", model->n_tensors);
    ck_json_key_u64(json, "parameters", totals.all.elements);
    ck_json_key_u64(json, "bytes", totals.all.bytes);
    ck_json_key_u64(json, "aliases", totals.aliases);
    ck_json_key_u64(json, "errors", totals.errors);
    ck_json_key_u64(json, "outside", model->n_outside);
    write_dtypes(json, &totals);
    ck_json_object_end(json);
    ck_json_newline(json);
}

/* ---- tensors ---- */

static void write_view(struct ck_json *json, const struct ck_tensor *tensor) {
    const struct ck_view *view = &tensor->view;
    /* A view that could not be read has no dimensions, just as a scalar: then nothing is said. */
    bool known = !tensor->error || view->rank > 0;

    ck_json_key_string(json, "dtype", view->dtype == CK_DTYPE_END_ ? NULL : ck_dtype_row(view->dtype)->torch);
    if (known) {
        ck_json_key_ints(json, "shape", view->shape, view->rank);
        ck_json_key_ints(json, "strides", view->stride, view->rank);
    } else {
        ck_json_key_string(json, "shape", NULL);
        ck_json_key_string(json, "strides", NULL);
    }
    if (tensor->error)
        ck_json_key_string(json, "bytes", NULL);
    else
        ck_json_key_u64(json, "bytes", ck_view_bytes(view));
}

static void write_quantizer(struct ck_json *json, const struct ck_quantizer *quantizer) {
    bool whole = quantizer->scheme == CK_QSCHEME_TENSOR;

    ck_json_key(json, "quantized");
    ck_json_object_begin(json);
    ck_json_key_string(json, "scheme", ck_qscheme_name(quantizer->scheme));
    ck_json_key(json, "scale");
    if (whole)
        ck_json_double(json, quantizer->scale);
    else
        ck_json_null(json);
    ck_json_key(json, "zero_point");
    if (whole)
        ck_json_i64(json, quantizer->zero_point);
    else
        ck_json_null(json);
    ck_json_key(json, "axis");
    if (whole)
        ck_json_null(json);
    else
        ck_json_u64(json, quantizer->axis);
    ck_json_object_end(json);
}

static void write_tensor(struct ck_json *json, const struct ck_model *model, const struct ck_tensor *tensor) {
    ck_json_newline(json);
    ck_json_object_begin(json);
    ck_json_key_string(json, "path", tensor->path);
    ck_json_key_string(json, "name", tensor->name);
    write_view(json, tensor);
    if (tensor->quantizer)
        write_quantizer(json, tensor->quantizer);
    ck_json_key_string(json, "alias_of",
                       tensor->alias_of == CK_NO_INDEX ? NULL : model->tensors[tensor->alias_of].name);
    ck_json_key(json, "error");
    if (tensor->error) {
        ck_json_object_begin(json);
        ck_json_key_string(json, "code", ck_error_row(tensor->error)->name);
        ck_json_key_string(json, "message", tensor->error_message);
        ck_json_object_end(json);
    } else {
        ck_json_null(json);
    }
    ck_json_object_end(json);
}

static void write_tensors(struct ck_json *json, const struct ck_model *model) {
    ck_json_key(json, "tensors");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < model->n_tensors; i++)
        write_tensor(json, model, &model->tensors[i]);
    for (uint32_t i = 0; i < model->n_outside; i++)
        write_tensor(json, model, &model->outside[i]);
    ck_json_array_end(json);
    ck_json_newline(json);
}

/* ---- modules and metadata ---- */

static void write_attribute(struct ck_json *json, const struct ck_attribute *attribute) {
    switch (attribute->kind) {
    case CK_ATTRIBUTE_NONE:
        ck_json_key_string(json, attribute->name, NULL);
        break;
    case CK_ATTRIBUTE_BOOL:
        ck_json_key_bool(json, attribute->name, attribute->boolean);
        break;
    case CK_ATTRIBUTE_INT:
        ck_json_key(json, attribute->name);
        ck_json_i64(json, attribute->integer);
        break;
    case CK_ATTRIBUTE_FLOAT:
        ck_json_key(json, attribute->name);
        ck_json_double(json, attribute->real);
        break;
    case CK_ATTRIBUTE_TEXT:
        ck_json_key_string(json, attribute->name, attribute->text);
        break;
    case CK_ATTRIBUTE_INTS:
        ck_json_key_ints(json, attribute->name, attribute->ints.items, attribute->ints.count);
        break;
    }
}

/* A pickle may set a key again and again: the last value counts, and JSON has each key once. */
static int write_attributes(struct ck_json *json, const struct ck_module *module, struct ck_error *err) {
    _cleanup_(ck_strmap_release) struct ck_strmap last = {0};
    uint32_t index;

    for (uint32_t i = 0; i < module->n_attributes; i++)
        if (!ck_strmap_set(&last, module->attributes[i].name, i))
            return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the analysis");
    ck_json_key(json, "attributes");
    ck_json_object_begin(json);
    for (uint32_t i = 0; i < module->n_attributes; i++)
        if (ck_strmap_get(&last, module->attributes[i].name, &index) && index == i)
            write_attribute(json, &module->attributes[i]);
    ck_json_object_end(json);
    return 0;
}

static int write_modules(struct ck_json *json, const struct ck_model *model, struct ck_error *err) {
    ck_json_key(json, "modules");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < model->n_modules; i++) {
        int r;

        ck_json_newline(json);
        ck_json_object_begin(json);
        ck_json_key_string(json, "path", model->modules[i].path);
        ck_json_key_string(json, "class", model->modules[i].class_);
        r = write_attributes(json, &model->modules[i], err);
        if (r < 0)
            return r;
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
    ck_json_newline(json);
    return 0;
}

static void write_metadata(struct ck_json *json, const struct ck_model *model) {
    ck_json_key(json, "metadata");
    ck_json_object_begin(json);
    for (uint32_t i = 0; i < model->n_metadata; i++)
        ck_json_key_string(json, model->metadata[2 * i], model->metadata[2 * i + 1]);
    ck_json_object_end(json);
    ck_json_newline(json);
}

/* ---- the whole ---- */

/* The file that was taken from an archive, and those that the option member could name. */
static void write_archive(struct ck_json *json, const struct ck_model *model) {
    ck_json_key_string(json, "archive", model->archive);
    ck_json_key_string(json, "member", model->member);
    ck_json_key(json, "members");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < model->n_members; i++) {
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", model->members[i].name);
        ck_json_key_u64(json, "bytes", model->members[i].bytes);
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
}

static void write_head(struct ck_json *json, const struct ck_model *model) {
    ck_json_key_string(json, "form", model->form);
    ck_json_key_string(json, "form_why", form_why(model->form));
    if (model->archive)
        write_archive(json, model);
    ck_json_key_u64(json, "bytes", model->input_bytes);
    ck_json_key_string(json, "version", ck_version());
    ck_json_key(json, "state_dict");
    ck_json_object_begin(json);
    ck_json_key_string(json, "path", model->root_path);
    ck_json_key_string(json, "why", model->root_why);
    ck_json_key(json, "alternatives");
    ck_json_array_begin(json);
    for (uint32_t i = 0; i < model->n_alternatives; i++)
        ck_json_string(json, model->alternatives[i]);
    ck_json_array_end(json);
    ck_json_object_end(json);
    ck_json_key(json, "hints");
    ck_json_object_begin(json);
    ck_json_key_string(json, "torch", model->torch_hint);
    ck_json_object_end(json);
    ck_json_newline(json);
}

static int write_targets(struct ck_json *json, const struct ck_spec *spec, const struct ck_model *model,
                         const struct ck_limits *limits, const struct ck_progress *progress, struct ck_error *err) {
    ck_json_key(json, "targets");
    ck_json_object_begin(json);
    for (const struct ck_target *target = ck_target_table; target->name; target++) {
        int r = ck_progress_check(progress, err);

        if (r < 0)
            return r;
        ck_json_newline(json);
        ck_json_key(json, target->name);
        r = ck_verdict_write(json, target, spec, model, limits, err);
        if (r < 0)
            return r;
    }
    ck_json_object_end(json);
    ck_json_newline(json);
    return 0;
}

int ck_analysis_write(struct ck_json *json, const struct ck_spec *spec, const struct ck_model *model,
                      const struct ck_limits *limits, const struct ck_progress *progress, struct ck_error *err) {
    int r;

    ck_json_object_begin(json);
    write_head(json, model);
    write_totals(json, model);
    if (strcmp(ck_spec_get(spec, "tensors"), "true") == 0)
        write_tensors(json, model);
    r = write_modules(json, model, err);
    if (r < 0)
        return r;
    if (strcmp(model->form, "safetensors") == 0)
        write_metadata(json, model);
    r = write_targets(json, spec, model, limits, progress, err);
    if (r < 0)
        return r;
    ck_json_key(json, "findings");
    ck_findings_json(&model->findings, json, false);
    ck_json_object_end(json);
    ck_json_newline(json);
    return 0;
}
