#include "core/model/from_zip.h"

#include "core/model/bundle.h"
#include "core/model/exported.h"
#include "core/model/inside.h"
#include "core/model/npz.h"
#include "core/model/torch_package.h"
#include "core/model/torch_zip.h"
#include "core/model/torchscript.h"
#include "core/model/zip_forms.h"

int ck_zip_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                 const struct ck_model_options *options, struct ck_error *err) {
    _cleanup_(ck_zip_release) struct ck_zip zip = {0};
    const struct ck_zip_entry *mark;
    enum ck_zip_form form;
    int r = ck_zip_open(source, limits, &model->findings, &zip, err);

    if (r < 0)
        return r;
    form = ck_zip_form(&zip, &mark, err);
    if (form == CK_ZIP_BUNDLE)
        return ck_bundle_index_zip(model, &zip, limits, options, err);
    r = form == CK_ZIP_REFUSED ? err->code : ck_inside_refuse_member(options, err);
    if (r < 0)
        return r;
    switch (form) {
    case CK_ZIP_TORCH:
        return ck_torch_zip_index(model, &zip, limits, options, err);
    case CK_ZIP_SCRIPT:
        return ck_torchscript_index(model, &zip, limits, options, err);
    case CK_ZIP_EXPORTED:
        return ck_exported_index(model, &zip, mark, limits, options, err);
    case CK_ZIP_PACKAGE:
        return ck_torch_package_index(model, &zip, mark, limits, options, err);
    case CK_ZIP_ARRAYS:
        return ck_npz_index(model, &zip, limits, options, err);
    case CK_ZIP_BUNDLE:
    case CK_ZIP_REFUSED:
        break;
    }
    return err->code;
}
