#include "core/pickle/loader.h"

#include <string.h>

/* file: takes an open file, so that a plain string is a path. */
struct loader {
    const char *path; /* module and name as one */
    bool file;
};

static const struct loader loaders[] = {
    {"torch.storage._load_from_bytes", false},
    {"torch.load", true},
    {"torch.serialization.load", true},
    {"torch.serialization._legacy_load", true},
    {"torch.jit.load", true},
    {"pickle.loads", false},
    {"_pickle.loads", false},
    {"cPickle.loads", false},
    {"dill.loads", false},
    {"dill._dill.loads", false},
    {"cloudpickle.loads", false},
    {"pickle.load", true},
    {"_pickle.load", true},
    {"cPickle.load", true},
    {"joblib.load", true},
    {"joblib.numpy_pickle.load", true},
    {"pandas.read_pickle", true},
    {"numpy.load", true},
};

/* `torch` `storage._load_from_bytes` is the same: the dot where the module ends is the file's choice. */
static bool is_path(const struct ck_value *global, const char *path) {
    size_t n = global->global.module_length;

    return strncmp(path, global->global.module, n) == 0 && path[n] == '.' &&
           strcmp(path + n + 1, global->global.name) == 0;
}

static const struct loader *find_loader(const struct ck_pickle *pickle, ck_ref callee) {
    const struct ck_value *value = ck_pickle_get(pickle, callee);

    if (value->kind != CK_VALUE_GLOBAL)
        return NULL;
    for (size_t i = 0; i < CK_ARRAY_LEN(loaders); i++)
        if (is_path(value, loaders[i].path))
            return &loaders[i];
    return NULL;
}

static bool is_bytes_io(const struct ck_pickle *pickle, ck_ref ref) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    return value->kind == CK_VALUE_CALL && (ck_pickle_is_global(pickle, value->call.callee, "io", "BytesIO") ||
                                            ck_pickle_is_global(pickle, value->call.callee, "_io", "BytesIO"));
}

bool ck_pickle_loads(const struct ck_pickle *pickle, ck_ref ref, ck_ref *ret_bytes) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);
    const struct loader *loader = value->kind == CK_VALUE_CALL ? find_loader(pickle, value->call.callee) : NULL;
    ck_ref bytes;

    if (!loader || !ck_pickle_argument(pickle, ref, 0, &bytes))
        return false;
    if (is_bytes_io(pickle, bytes))
        return ck_pickle_argument(pickle, bytes, 0, ret_bytes);
    if (loader->file)
        return false;
    *ret_bytes = bytes;
    return true;
}

bool ck_pickle_loads_any(const struct ck_pickle *pickle) {
    ck_ref bytes;

    for (ck_ref ref = 0; ref < pickle->count; ref++)
        if (ck_pickle_loads(pickle, ref, &bytes))
            return true;
    return false;
}
