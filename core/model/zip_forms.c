#include "core/model/zip_forms.h"

#include <stdio.h>
#include <string.h>

#define SAVE_HINT "load it with torch and save the state_dict with torch.save"
#define JIT_HINT                                                                                                       \
    "load it with torch.jit.load and save its state_dict(): torch.save(torch.jit.load(PATH).state_dict(), "            \
    "\"weights.pt\")"
#define INSIDE_HINT "unpack it and send the checkpoint inside"

enum match { WHOLE, LAST, ENDING, INSIDE };

struct form_row {
    enum match match;
    const char *text;
    bool beside_pickle; /* told also if there is a data.pkl */
    const char *what;   /* completes "the file is " */
    const char *hint;
};

/* In order: what is more special comes first. */
static const struct form_row rows[] = {
    {LAST, "archive_format", true, "an exported program (.pt2)",
     "load it with torch.export.load and save the state_dict with torch.save"},
    {LAST, "serialized_exported_program.json", true, "an exported program (.pt2)",
     "load it with torch.export.load and save the state_dict with torch.save"},
    {LAST, "_stable_baselines3_version", true, "a Stable-Baselines3 bundle",
     "unpack it and send policy.pth, which holds the weights"},
    {WHOLE, "MAR-INF/MANIFEST.json", true, "a TorchServe archive (.mar)", INSIDE_HINT},
    {ENDING, ".data/extern_modules", true, "a torch.package archive",
     "load the model with torch.package.PackageImporter and save its state_dict with torch.save"},
    {ENDING, ".data/version", true, "a torch.package archive",
     "load the model with torch.package.PackageImporter and save its state_dict with torch.save"},
    {LAST, "bytecode.pkl", true, "a TorchScript archive for mobile (.ptl)", JIT_HINT},
    {LAST, "constants.pkl", true, "a TorchScript archive (torch.jit.save)", JIT_HINT},
    {LAST, "attributes.pkl", true, "a TorchScript archive of torch 1.0 or 1.1", JIT_HINT},
    {ENDING, ".distcp", true, "a torch.distributed checkpoint folder",
     "join it with torch.distributed.checkpoint.format_utils.dcp_to_torch_save and send the result"},
    {LAST, "parameter_list", false, "a Stable Baselines 2 (TensorFlow) bundle", "it holds no PyTorch weights"},
    {LAST, "serialization_id", false, "a torch archive without its pickle (data.pkl): the save failed half-way",
     "save the checkpoint again"},
    {ENDING, ".npy", false, "an archive of NumPy arrays (.npz)",
     "put the arrays into a dict of tensors and torch.save it, or use safetensors.numpy.save_file"},
    {ENDING, ".weights.h5", false, "a Keras model", "export the weights to safetensors in Python first"},
    {WHOLE, "[Content_Types].xml", false, "an Office document", "send the checkpoint itself"},
    {WHOLE, "AndroidManifest.xml", false, "an Android package", "send the checkpoint itself"},
    {LAST, "coremldata.bin", false, "a Core ML model", "send the PyTorch checkpoint that it was made from"},
    {INSIDE, ".mlpackage/", false, "a Core ML model", "send the PyTorch checkpoint that it was made from"},
    {ENDING, ".safetensors", false, "a zip with checkpoints inside", INSIDE_HINT},
    {ENDING, ".pth", false, "a zip with checkpoints inside", INSIDE_HINT},
    {ENDING, ".pt", false, "a zip with checkpoints inside", INSIDE_HINT},
    {ENDING, ".ckpt", false, "a zip with checkpoints inside", INSIDE_HINT},
    {ENDING, ".bin", false, "a zip with checkpoints inside", INSIDE_HINT},
    {ENDING, "/data/0", false, "a torch archive without its pickle (data.pkl): the save failed half-way",
     "save the checkpoint again"},
};

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), e = strlen(ending);

    return n >= e && strcmp(name + n - e, ending) == 0;
}

static bool matches(const struct form_row *row, const char *name) {
    const char *slash = strrchr(name, '/');

    switch (row->match) {
    case WHOLE:
        return strcmp(name, row->text) == 0;
    case LAST:
        return strcmp(slash ? slash + 1 : name, row->text) == 0;
    case ENDING:
        return ends_with(name, row->text);
    case INSIDE:
        return strstr(name, row->text) != NULL;
    }
    return false;
}

static const struct form_row *find_row(const struct ck_zip *zip, bool beside_pickle, const char **ret_entry) {
    for (size_t i = 0; i < CK_ARRAY_LEN(rows); i++)
        for (uint32_t k = 0; k < zip->count; k++)
            if ((rows[i].beside_pickle || !beside_pickle) && matches(&rows[i], zip->entries[k].name)) {
                *ret_entry = zip->entries[k].name;
                return &rows[i];
            }
    return NULL;
}

static int refuse(const struct form_row *row, const char *entry, struct ck_error *err) {
    ck_error_set(err, CK_E_UNSUPPORTED_FORM, entry, "the file is %s, which is not read (it has the entry %.200s)",
                 row->what, entry);
    ck_error_set_hint(err, "%s", row->hint);
    return CK_E_UNSUPPORTED_FORM;
}

int ck_zip_refuse_known(const struct ck_zip *zip, struct ck_error *err) {
    const char *entry;
    const struct form_row *row = find_row(zip, true, &entry);

    return row ? refuse(row, entry, err) : 0;
}

int ck_zip_refuse(const struct ck_zip *zip, struct ck_error *err) {
    const char *entry;
    const struct form_row *row = find_row(zip, false, &entry);

    if (row)
        return refuse(row, entry, err);
    ck_error_set(err, CK_E_UNSUPPORTED_FORM, NULL,
                 "the file is a zip archive without a data.pkl, so torch.save did not write it");
    ck_error_set_hint(err, "%s", SAVE_HINT);
    return CK_E_UNSUPPORTED_FORM;
}
