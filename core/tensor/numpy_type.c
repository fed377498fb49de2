#include "core/tensor/numpy_type.h"

#include <string.h>

static const struct {
    char kind;
    uint8_t size;
    enum ck_dtype dtype;
} numbers[] = {
    {'b', 1, CK_BOOL}, {'i', 1, CK_I8},  {'i', 2, CK_I16}, {'i', 4, CK_I32},   {'i', 8, CK_I64},
    {'u', 1, CK_U8},   {'u', 2, CK_U16}, {'u', 4, CK_U32}, {'u', 8, CK_U64},   {'f', 2, CK_F16},
    {'f', 4, CK_F32},  {'f', 8, CK_F64}, {'c', 8, CK_C64}, {'c', 16, CK_C128},
};

static const struct {
    char kind;
    const char *refusal;
} others[] = {
    {'S', "byte strings"},      {'a', "byte strings"},      {'U', "text"},
    {'V', "structured or raw"}, {'O', "Python objects"},    {'M', "dates"},
    {'m', "spans of time"},     {'f', "an extended float"}, {'c', "an extended complex number"},
};

static bool is_kind(char letter) {
    return letter != 0 && strchr("biufcSaUVOMm", letter) != NULL;
}

bool ck_numpy_type_parse(const char *text, size_t n, struct ck_numpy_type *ret_type) {
    struct ck_numpy_type type = {.dtype = CK_DTYPE_END_};
    size_t i = 0;

    if (n > 0 && memchr("<>|=", text[0], 4))
        type.big = text[i++] == '>';
    if (i == n || !is_kind(text[i]))
        return false;
    type.kind = text[i++];
    if (i == n && type.kind != 'O')
        return false;
    for (; i < n && text[i] >= '0' && text[i] <= '9'; i++) {
        type.size = type.size * 10 + (uint64_t)(text[i] - '0');
        if (type.size > INT32_MAX)
            return false;
    }
    /* Behind the size only the unit of dates: "M8[ns]". */
    if (i < n && (text[i] != '[' || (type.kind != 'M' && type.kind != 'm')))
        return false;
    if (type.kind == 'U')
        type.size *= 4;
    for (size_t k = 0; k < CK_ARRAY_LEN(numbers); k++)
        if (numbers[k].kind == type.kind && numbers[k].size == type.size)
            type.dtype = numbers[k].dtype;
    if ((type.kind == 'b' || type.kind == 'i' || type.kind == 'u') && type.dtype == CK_DTYPE_END_)
        return false;
    *ret_type = type;
    return true;
}

const char *ck_numpy_type_refusal(const struct ck_numpy_type *type) {
    for (size_t i = 0; i < CK_ARRAY_LEN(others) && type->dtype == CK_DTYPE_END_; i++)
        if (others[i].kind == type->kind)
            return others[i].refusal;
    return "";
}
