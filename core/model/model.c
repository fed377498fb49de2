#include "core/model/model.h"

#include <string.h>

#include "core/container/sniff.h"
#include "core/model/from_safetensors.h"
#include "core/model/torch_zip.h"
#include "core/pickle/machine.h"

/* Pickles one after another that are looked at for findings in a file that is refused: the object of a legacy stream is
 * the fourth. */
#define SCANNED_PICKLES 5

static int model_new(const struct ck_source *source, const struct ck_limits *limits, struct ck_model **ret_model,
                     struct ck_error *err) {
    struct ck_model *model = calloc(1, sizeof(*model));

    if (!model)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the model");
    ck_arena_init(&model->arena, (size_t)limits->model_memory);
    ck_findings_init(&model->findings);
    model->input_bytes = source->length;
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

/* A file that is refused is still looked at: what it would have called is worth knowing. Errors end the look and are of
 * no interest. */
static void scan_pickles(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits) {
    struct ck_source rest = *source;

    for (int i = 0; i < SCANNED_PICKLES && rest.length > 0; i++) {
        _cleanup_(ck_pickle_release) struct ck_pickle pickle = {0};

        if (ck_pickle_run(&rest, "", limits, &model->findings, &pickle, NULL) < 0 ||
            ck_source_part(&rest, pickle.length, rest.length - pickle.length, &rest, NULL) < 0)
            return;
    }
}

static int refuse_pickle(enum ck_form form, struct ck_error *err) {
    if (form == CK_FORM_LEGACY)
        ck_error_set(err, CK_E_UNSUPPORTED_FORM, NULL,
                     "the file is in the format of torch before 1.6 (a stream of pickles), which is not read");
    else
        ck_error_set(err, CK_E_UNSUPPORTED_FORM, NULL,
                     "the file is a plain pickle that torch.save did not write, which is not read");
    ck_error_set_hint(err, form == CK_FORM_LEGACY
                               ? "load it with torch and save it again: torch.save(torch.load(PATH), \"new.pt\")"
                               : "load it with Python and save the state_dict with torch.save");
    return CK_E_UNSUPPORTED_FORM;
}

static int index_form(struct ck_model *model, enum ck_form form, const struct ck_source *source,
                      const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err) {
    model->form = ck_form_name(form);
    switch (form) {
    case CK_FORM_ZIP:
        return ck_torch_zip_index(model, source, limits, options, err);
    case CK_FORM_SAFETENSORS:
        return ck_safetensors_index(model, source, limits, options, err);
    case CK_FORM_PICKLE:
    case CK_FORM_LEGACY:
        scan_pickles(model, source, limits);
        return refuse_pickle(form, err);
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
    r = model_new(source, limits, ret_model, err);
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
