#include "core/model/storage_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REPR_HEAD "('storage', <class '"

static const char malformed_repr[] = "the persistent id of its storage is no tuple that torch writes";

enum ck_dtype ck_storage_class_dtype(const char *module, const char *name, bool *ret_untyped) {
    enum ck_dtype dtype = CK_DTYPE_END_;

    *ret_untyped = strcmp(name, "UntypedStorage") == 0 || strcmp(name, "_UntypedStorage") == 0;
    if (strncmp(module, "torch", 5) != 0 || (module[5] != 0 && module[5] != '.'))
        return CK_DTYPE_END_;
    if (*ret_untyped)
        return CK_U8;
    ck_dtype_from_storage_class(name, &dtype);
    return dtype;
}

/* ---- tuples ---- */

static bool is_key_text(const struct ck_value *value) {
    return value->kind == CK_VALUE_TEXT && value->bytes.data &&
           strlen((const char *)value->bytes.data) == value->bytes.length;
}

static bool read_int(const struct ck_pickle *pickle, ck_ref tuple, uint32_t index, int64_t *ret_value) {
    ck_ref item;

    if (!ck_pickle_argument(pickle, tuple, index, &item) || ck_pickle_get(pickle, item)->kind != CK_VALUE_INT)
        return false;
    *ret_value = ck_pickle_get(pickle, item)->integer;
    return true;
}

static const char *parse_view(const struct ck_pickle *pickle, ck_ref id, struct ck_storage_id *ret_id) {
    ck_ref view;

    if (!ck_pickle_argument(pickle, id, 5, &view) || view == CK_REF_NONE)
        return NULL;
    ret_id->view = true;
    if (ck_pickle_get(pickle, view)->kind != CK_VALUE_TUPLE || !read_int(pickle, view, 1, &ret_id->view_offset) ||
        !read_int(pickle, view, 2, &ret_id->view_size))
        return "the view on its storage is no tuple (key, offset, size)";
    return NULL;
}

static const char *parse_key(const struct ck_pickle *pickle, ck_ref key, struct ck_storage_id *ret_id) {
    const struct ck_value *value = ck_pickle_get(pickle, key);

    if (value->kind == CK_VALUE_INT) {
        snprintf(ret_id->text, sizeof(ret_id->text), "%" PRId64, value->integer);
        ret_id->key = ret_id->text;
        return NULL;
    }
    if (!is_key_text(value))
        return "the key of its storage is no text";
    ret_id->key = (const char *)value->bytes.data;
    return NULL;
}

static bool is_storage_tuple(const struct ck_pickle *pickle, ck_ref id) {
    ck_ref word;

    return ck_pickle_get(pickle, id)->kind == CK_VALUE_TUPLE && ck_pickle_argument(pickle, id, 0, &word) &&
           ck_pickle_text_equal(pickle, word, "storage");
}

static const char *parse_tuple(const struct ck_pickle *pickle, ck_ref id, struct ck_storage_id *ret_id) {
    const struct ck_value *value;
    const char *problem;
    ck_ref class_, key;

    if (!is_storage_tuple(pickle, id) || !ck_pickle_argument(pickle, id, 1, &class_) ||
        !ck_pickle_argument(pickle, id, 2, &key))
        return "its storage has no key";
    value = ck_pickle_get(pickle, class_);
    if (value->kind != CK_VALUE_GLOBAL)
        return "its storage has no class";
    ret_id->class_ = value->global.name;
    ret_id->dtype = ck_storage_class_dtype(value->global.module, value->global.name, &ret_id->untyped);
    if (!read_int(pickle, id, 4, &ret_id->numel))
        ret_id->numel = -1;
    problem = parse_key(pickle, key, ret_id);
    return problem ? problem : parse_view(pickle, id, ret_id);
}

/* ---- repr() ---- */

/* What is left of the text, and where words are copied to. */
struct repr {
    const char *at;
    char *out, *out_end;
};

static bool skip(struct repr *repr, const char *text) {
    size_t n = strlen(text);

    if (strncmp(repr->at, text, n) != 0)
        return false;
    repr->at += n;
    return true;
}

/* Copies up to the quote that ends a word. No key, class or device of torch needs an escape. */
static bool word(struct repr *repr, const char **ret_word) {
    size_t n = strcspn(repr->at, "'\\");

    if (repr->at[n] != '\'' || n >= (size_t)(repr->out_end - repr->out))
        return false;
    *ret_word = memcpy(repr->out, repr->at, n);
    repr->out[n] = 0;
    repr->out += n + 1;
    repr->at += n + 1;
    return true;
}

/* Python 2 wrote an L behind long numbers. */
static bool number(struct repr *repr, int64_t *ret_value) {
    int64_t value = 0;
    const char *start = repr->at;

    for (; *repr->at >= '0' && *repr->at <= '9'; repr->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *repr->at - '0', &value))
            return false;
    *ret_value = value;
    if (repr->at == start)
        return false;
    skip(repr, "L");
    return true;
}

static bool parse_repr_words(struct repr *repr, struct ck_storage_id *ret_id) {
    const char *class_, *place, *view_key;

    if (!skip(repr, REPR_HEAD) || !word(repr, &class_) || !skip(repr, ">, '") || !word(repr, &ret_id->key) ||
        !skip(repr, ", '") || !word(repr, &place) || !skip(repr, ", ") || !number(repr, &ret_id->numel))
        return false;
    ret_id->class_ = class_;
    if (skip(repr, ", ('")) {
        ret_id->view = true;
        if (!word(repr, &view_key) || !skip(repr, ", ") || !number(repr, &ret_id->view_offset) || !skip(repr, ", ") ||
            !number(repr, &ret_id->view_size) || !skip(repr, ")"))
            return false;
    } else {
        skip(repr, ", None");
    }
    return skip(repr, ")") && *repr->at == 0;
}

static const char *parse_repr(const struct ck_value *value, struct ck_storage_id *ret_id) {
    struct repr repr = {
        .at = (const char *)value->bytes.data, .out = ret_id->text, .out_end = ret_id->text + sizeof(ret_id->text)};
    char *dot;

    if (!is_key_text(value) || !parse_repr_words(&repr, ret_id))
        return malformed_repr;
    dot = strrchr(ret_id->text, '.'); /* the class is the first word */
    if (!dot)
        return "its storage has no class";
    *dot = 0;
    ret_id->class_ = dot + 1;
    ret_id->dtype = ck_storage_class_dtype(ret_id->text, ret_id->class_, &ret_id->untyped);
    return NULL;
}

/* ---- all of them ---- */

bool ck_storage_id_is(const struct ck_pickle *pickle, ck_ref ref) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    if (value->kind != CK_VALUE_PERSISTENT)
        return false;
    ref = value->list.items[0];
    value = ck_pickle_get(pickle, ref);
    return value->kind == CK_VALUE_TEXT
               ? value->bytes.data && strncmp((const char *)value->bytes.data, REPR_HEAD, strlen(REPR_HEAD)) == 0
               : is_storage_tuple(pickle, ref);
}

const char *ck_storage_id_parse(const struct ck_pickle *pickle, ck_ref ref, struct ck_storage_id *ret_id) {
    const struct ck_value *value = ck_pickle_get(pickle, ref);

    *ret_id = (struct ck_storage_id){.dtype = CK_DTYPE_END_, .numel = -1};
    if (value->kind == CK_VALUE_TUPLE)
        return parse_tuple(pickle, ref, ret_id);
    if (value->kind != CK_VALUE_PERSISTENT)
        return "its storage is not in the file";
    ref = value->list.items[0];
    value = ck_pickle_get(pickle, ref);
    return value->kind == CK_VALUE_TEXT ? parse_repr(value, ret_id) : parse_tuple(pickle, ref, ret_id);
}
