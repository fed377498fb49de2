#include "core/model/model.h"

#include <string.h>

#include "core/container/sniff.h"
#include "core/model/bundle.h"
#include "core/model/from_safetensors.h"
#include "core/model/from_zip.h"
#include "core/model/inside.h"
#include "core/model/npz.h"
#include "core/model/plain_pickle.h"
#include "core/model/torch_legacy.h"
#include "core/model/torch_tar.h"

int ck_model_new(uint64_t input_bytes, const struct ck_limits *limits, struct ck_model **ret_model,
                 struct ck_error *err) {
    struct ck_model *model = calloc(1, sizeof(*model));

    if (!model)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the model");
    ck_arena_init(&model->arena, (size_t)limits->model_memory);
    ck_findings_init(&model->findings);
    model->input_bytes = input_bytes;
    *ret_model = model;
    return 0;
}

void ck_model_free(struct ck_model *model) {
    if (!model)
        return;
    ck_findings_release(&model->findings);
    ck_arena_release(&model->arena);
    free(model);
}

static int index_form(struct ck_model *model, enum ck_form form, const struct ck_source *source,
                      const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err) {
    if (form == CK_FORM_PICKLE && ck_torch_legacy_recognise(source, limits))
        form = CK_FORM_LEGACY;
    model->form = ck_form_name(form);
    if (form != CK_FORM_ZIP && form != CK_FORM_TAR && form != CK_FORM_GZIP && form != CK_FORM_OTHER &&
        ck_inside_refuse_member(options, err) < 0)
        return err->code;
    switch (form) {
    case CK_FORM_ZIP:
        return ck_zip_index(model, source, limits, options, err);
    case CK_FORM_SAFETENSORS:
        return ck_safetensors_index(model, source, limits, options, err);
    case CK_FORM_LEGACY:
        return ck_torch_legacy_index(model, source, limits, options, err);
    case CK_FORM_TAR:
        return ck_torch_tar_index(model, source, limits, options, err);
    case CK_FORM_PICKLE:
        return ck_plain_pickle_index(model, source, "", limits, options, err);
    case CK_FORM_NPY:
        return ck_npy_index(model, source, limits, options, err);
    case CK_FORM_GZIP:
        return ck_gzip_index(model, source, limits, options, err);
    case CK_FORM_OTHER:
        break;
    }
    return err->code;
}

int ck_model_open(const struct ck_source *source, const struct ck_limits *limits,
                  const struct ck_model_options *options, struct ck_model **ret_model, struct ck_error *err) {
    size_t n = (size_t)CK_MIN(source->length, (uint64_t)CK_SNIFF_BYTES);
    struct ck_error local = {0};
    uint8_t head[CK_SNIFF_BYTES];
    int r;

    /* The sniffer tells what is wrong through the record alone, so there must be one. */
    if (!err)
        err = &local;
    r = ck_model_new(source->length, limits, ret_model, err);
    if (r == 0)
        r = ck_source_read(source, 0, head, n, err);
    return r < 0 ? r : index_form(*ret_model, ck_sniff(head, n, source->length, err), source, limits, options, err);
}

const struct ck_attribute *ck_module_attribute(const struct ck_module *module, const char *name) {
    /* A key that was set twice has its last value. */
    for (uint32_t i = module->n_attributes; i-- > 0;)
        if (strcmp(module->attributes[i].name, name) == 0)
            return &module->attributes[i];
    return NULL;
}
