#include "core/model/zip_forms.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/model/zip_records.h"

#define JIT_HINT                                                                                                       \
    "load it with torch.jit.load and save its state_dict(): torch.save(torch.jit.load(PATH).state_dict(), "            \
    "\"weights.pt\")"

enum match { WHOLE, LAST, ENDING, INSIDE };

struct form_row {
    enum match match;
    const char *text;
    bool beside_pickle; /* told also if there is a data.pkl */
    enum ck_zip_form form;
    const char *what; /* of what is refused: completes "the file is " */
    const char *hint;
};

#define READ(form) CK_ZIP_##form, NULL, NULL
#define REFUSED    CK_ZIP_REFUSED

/* In order: what is more special comes first. */
static const struct form_row rows[] = {
    {LAST, "archive_format", true, READ(EXPORTED)},
    {LAST, "serialized_exported_program.json", true, READ(EXPORTED)},
    {LAST, "_stable_baselines3_version", true, READ(BUNDLE)},
    {WHOLE, "MAR-INF/MANIFEST.json", true, READ(BUNDLE)},
    {ENDING, ".data/extern_modules", true, READ(PACKAGE)},
    {ENDING, ".data/version", false, READ(PACKAGE)},
    {LAST, "bytecode.pkl", true, READ(SCRIPT)},
    {LAST, "constants.pkl", true, READ(SCRIPT)},
    {LAST, "attributes.pkl", true, REFUSED, "a TorchScript archive of torch 1.0 to 1.2", JIT_HINT},
    {ENDING, "/tensors/0", false, REFUSED, "a TorchScript archive of torch 1.0 to 1.2", JIT_HINT},
    {ENDING, ".distcp", true, REFUSED, "a torch.distributed checkpoint folder",
     "join it with torch.distributed.checkpoint.format_utils.dcp_to_torch_save and send the result"},
    {LAST, "parameter_list", false, READ(BUNDLE)},
    {LAST, "serialization_id", false, REFUSED,
     "a torch archive without its pickle (data.pkl): the save failed half-way", "save the checkpoint again"},
    {ENDING, ".weights.h5", false, REFUSED, "a Keras model", "export the weights to safetensors in Python first"},
    {WHOLE, "[Content_Types].xml", false, REFUSED, "an Office document", "send the checkpoint itself"},
    {WHOLE, "AndroidManifest.xml", false, REFUSED, "an Android package", "send the checkpoint itself"},
    {LAST, "coremldata.bin", false, REFUSED, "a Core ML model", "send the PyTorch checkpoint that it was made from"},
    {INSIDE, ".mlpackage/", false, REFUSED, "a Core ML model", "send the PyTorch checkpoint that it was made from"},
    {ENDING, ".safetensors", false, READ(BUNDLE)},
    {ENDING, ".pth", false, READ(BUNDLE)},
    {ENDING, ".pt", false, READ(BUNDLE)},
    {ENDING, ".ckpt", false, READ(BUNDLE)},
    {ENDING, ".bin", false, READ(BUNDLE)},
    {ENDING, ".npy", false, READ(ARRAYS)},
    {ENDING, "/data/0", false, REFUSED, "a torch archive without its pickle (data.pkl): the save failed half-way",
     "save the checkpoint again"},
};

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), e = strlen(ending);

    return n >= e && strcmp(name + n - e, ending) == 0;
}

static bool matches(const struct form_row *row, const char *name) {
    switch (row->match) {
    case WHOLE:
        return strcmp(name, row->text) == 0;
    case LAST:
        return strcmp(ck_zip_last(name), row->text) == 0;
    case ENDING:
        return ends_with(name, row->text);
    case INSIDE:
        return strstr(name, row->text) != NULL;
    }
    return false;
}

static const struct form_row *find_row(const struct ck_zip *zip, bool beside_pickle,
                                       const struct ck_zip_entry **ret_entry) {
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++)
        for (uint32_t k = 0; k < zip->count; k++)
            if ((rows[i].beside_pickle || !beside_pickle) && matches(&rows[i], zip->entries[k].name)) {
                *ret_entry = &zip->entries[k];
                return &rows[i];
            }
    return NULL;
}

static enum ck_zip_form refuse(const struct form_row *row, const char *entry, struct ck_error *err) {
    ck_error_set(err, CK_E_UNSUPPORTED_FORM, entry, "the file is %s, which is not read (it has the entry %.200s)",
                 row->what, entry);
    ck_error_set_hint(err, "%s", row->hint);
    return CK_ZIP_REFUSED;
}

/* torch looks names up without regard to case. */
static bool has_pickle(const struct ck_zip *zip) {
    for (uint32_t i = 0; i < zip->count; i++)
        if (strcasecmp(ck_zip_last(zip->entries[i].name), "data.pkl") == 0)
            return true;
    return false;
}

enum ck_zip_form ck_zip_form(const struct ck_zip *zip, const struct ck_zip_entry **ret_entry, struct ck_error *err) {
    const struct form_row *row = find_row(zip, true, ret_entry);

    if (!row && has_pickle(zip)) {
        *ret_entry = NULL;
        return CK_ZIP_TORCH;
    }
    if (!row)
        row = find_row(zip, false, ret_entry);
    if (row)
        return row->form == CK_ZIP_REFUSED ? refuse(row, (*ret_entry)->name, err) : row->form;
    return CK_ZIP_BUNDLE;
}
