/* model/zip_forms.h: which zip it is, told from the names of its entries, for those that are not read. */
#ifndef CK_MODEL_ZIP_FORMS_H
#define CK_MODEL_ZIP_FORMS_H

#include "core/container/zip.h"

/* CK_E_UNSUPPORTED_FORM with message and hint if the zip is one that may hold a data.pkl and is something else all the
 * same (TorchScript, torch.package, an exported program ...); 0 otherwise. */
int ck_zip_refuse_known(const struct ck_zip *zip, struct ck_error *err);

/* For a zip without data.pkl: says what it is. Always CK_E_UNSUPPORTED_FORM. */
int ck_zip_refuse(const struct ck_zip *zip, struct ck_error *err);

#endif
