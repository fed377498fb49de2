/* model/forms.h: the forms of files that are read: the word of reports, and how such a file is told.
 *
 * One table: reports and GET /v1/capabilities come from it. Archives of files (zip, tar, gzip) are no forms: what is taken
 * from one has a form of its own. */
#ifndef CK_MODEL_FORMS_H
#define CK_MODEL_FORMS_H

#define CK_FORMS(X)                                                                                                    \
    /* name                 why */                                                                                     \
    X("torch-zip",          "a zip archive that holds a pickle, as torch.save writes it")                              \
    X("torch-legacy",       "a stream of pickles and raw storages, as torch.save wrote it before 1.6")                 \
    X("tar",                "a tar archive, as torch.save wrote it before 0.1.10")                                     \
    X("torchscript",        "a zip archive with a module and its code, as torch.jit.save writes it")                   \
    X("torchscript-mobile", "a TorchScript archive with bytecode, for the lite interpreter")                           \
    X("pt2",                "a zip archive with an exported program, as torch.export.save writes it")                  \
    X("torch-package",      "a zip archive of pickles, as torch.package writes it")                                    \
    X("pickle",             "begins like a pickle, but not like one of torch.save")                                    \
    X("npy",                "begins like an array that numpy saved")                                                   \
    X("npz",                "a zip archive of arrays that numpy saved")                                                \
    X("safetensors",        "begins with the length of a JSON header")

#endif
