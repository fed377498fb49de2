/* model/from_zip.h: a zip of any kind that is read: opens it, tells the form by the names of its entries (zip_forms.h),
 * and hands it to that form's reader. */
#ifndef CK_MODEL_FROM_ZIP_H
#define CK_MODEL_FROM_ZIP_H

#include "core/model/model.h"

/* Fills the model, also its `form`. Errors: those of ck_zip_open(), ck_zip_form() and the forms' readers. */
int ck_zip_index(struct ck_model *model, const struct ck_source *source, const struct ck_limits *limits,
                 const struct ck_model_options *options, struct ck_error *err);

#endif
