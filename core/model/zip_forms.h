/* model/zip_forms.h: which zip it is, told from the names of its entries. */
#ifndef CK_MODEL_ZIP_FORMS_H
#define CK_MODEL_ZIP_FORMS_H

#include "core/container/zip.h"

enum ck_zip_form {
    CK_ZIP_REFUSED, /* told by name, and not read */
    CK_ZIP_TORCH,   /* has a data.pkl and nothing that makes it something else */
    CK_ZIP_SCRIPT,  /* torch.jit.save, also for mobile */
    CK_ZIP_EXPORTED,
    CK_ZIP_PACKAGE,
    CK_ZIP_ARRAYS, /* .npz */
    CK_ZIP_BUNDLE, /* of files; all that nothing else fits */
};

/* The form; CK_ZIP_REFUSED with CK_E_UNSUPPORTED_FORM, message and hint in err. *ret_entry: the entry that told it (NULL
 * for CK_ZIP_TORCH, and for CK_ZIP_BUNDLE if there is none). */
enum ck_zip_form ck_zip_form(const struct ck_zip *zip, const struct ck_zip_entry **ret_entry, struct ck_error *err);

#endif
