/* tensor/dtype.h: the one table of element types.
 *
 * Sources: torch's storage classes and _rebuild_tensor_v3 dtypes (torch/serialization.py), safetensors' format description, and
 * mlx/io/safetensors.cpp for what MLX reads (`mlx` column: the name it must have in the output, NULL if it has no equal). */
#ifndef CK_TENSOR_DTYPE_H
#define CK_TENSOR_DTYPE_H

#include "core/base/macros.h"

/* kind: floating, integer, boolean, complex, quantized (codes of torch.quint8 and relatives).
 * size: bytes of one element; the sub-byte kinds have `per` elements in each byte.
 * unit: bytes that are swapped as one in a big-endian file (complex: each half). */
#define CK_DTYPES(X)                                                                                                                \
    /* NAME        torch             storage class          safetensors      mlx     kind       size unit per */                    \
    X(F64,         "float64",        "DoubleStorage",       "F64",           NULL,   FLOATING,  8, 8, 1)                            \
    X(F32,         "float32",        "FloatStorage",        "F32",           "F32",  FLOATING,  4, 4, 1)                            \
    X(F16,         "float16",        "HalfStorage",         "F16",           "F16",  FLOATING,  2, 2, 1)                            \
    X(BF16,        "bfloat16",       "BFloat16Storage",     "BF16",          "BF16", FLOATING,  2, 2, 1)                            \
    X(I64,         "int64",          "LongStorage",         "I64",           "I64",  INTEGER,   8, 8, 1)                            \
    X(I32,         "int32",          "IntStorage",          "I32",           "I32",  INTEGER,   4, 4, 1)                            \
    X(I16,         "int16",          "ShortStorage",        "I16",           "I16",  INTEGER,   2, 2, 1)                            \
    X(I8,          "int8",           "CharStorage",         "I8",            "I8",   INTEGER,   1, 1, 1)                            \
    X(U64,         "uint64",         NULL,                  "U64",           "U64",  INTEGER,   8, 8, 1)                            \
    X(U32,         "uint32",         NULL,                  "U32",           "U32",  INTEGER,   4, 4, 1)                            \
    X(U16,         "uint16",         NULL,                  "U16",           "U16",  INTEGER,   2, 2, 1)                            \
    X(U8,          "uint8",          "ByteStorage",         "U8",            "U8",   INTEGER,   1, 1, 1)                            \
    X(BOOL,        "bool",           "BoolStorage",         "BOOL",          "BOOL", BOOLEAN,   1, 1, 1)                            \
    X(C32,         "complex32",      NULL,                  NULL,            NULL,   COMPLEX,   4, 2, 1)                            \
    X(C64,         "complex64",      "ComplexFloatStorage", "C64",           "C64",  COMPLEX,   8, 4, 1)                            \
    X(C128,        "complex128",     "ComplexDoubleStorage", NULL,           NULL,   COMPLEX,  16, 8, 1)                            \
    X(F8_E4M3,     "float8_e4m3fn",  NULL,                  "F8_E4M3",       NULL,   FLOATING,  1, 1, 1)                            \
    X(F8_E5M2,     "float8_e5m2",    NULL,                  "F8_E5M2",       NULL,   FLOATING,  1, 1, 1)                            \
    X(F8_E4M3FNUZ, "float8_e4m3fnuz", NULL,                 "F8_E4M3FNUZ",   NULL,   FLOATING,  1, 1, 1)                            \
    X(F8_E5M2FNUZ, "float8_e5m2fnuz", NULL,                 "F8_E5M2FNUZ",   NULL,   FLOATING,  1, 1, 1)                            \
    X(F8_E8M0,     "float8_e8m0fnu", NULL,                  "F8_E8M0",       NULL,   FLOATING,  1, 1, 1)                            \
    X(QI8,         "qint8",          "QInt8Storage",        NULL,            NULL,   QUANTIZED, 1, 1, 1)                            \
    X(QU8,         "quint8",         "QUInt8Storage",       NULL,            NULL,   QUANTIZED, 1, 1, 1)                            \
    X(QI32,        "qint32",         "QInt32Storage",       NULL,            NULL,   QUANTIZED, 4, 4, 1)                            \
    X(QU4X2,       "quint4x2",       "QUInt4x2Storage",     NULL,            NULL,   QUANTIZED, 1, 1, 2)                            \
    X(QU2X4,       "quint2x4",       "QUInt2x4Storage",     NULL,            NULL,   QUANTIZED, 1, 1, 4)

enum ck_dtype {
#define X(name, ...) CK_##name,
    CK_DTYPES(X) CK_DTYPE_END_
#undef X
};

enum ck_dtype_kind { CK_FLOATING, CK_INTEGER, CK_BOOLEAN, CK_COMPLEX, CK_QUANTIZED };

struct ck_dtype_row {
    const char        *torch, *storage_class, *safetensors, *mlx; /* NULL where there is no such name */
    enum ck_dtype_kind kind;
    uint8_t            size, unit, per;
};

/* The row of a dtype; never NULL. CK_DTYPE_END_ stands for a dtype outside the table (of a tensor that cannot be read): its row says
 * "unknown" and has size 0. Static storage. */
const struct ck_dtype_row *ck_dtype_row(enum ck_dtype dtype);

/* Look-ups by name; false if there is none. torch names without the "torch." prefix. */
bool ck_dtype_from_torch(const char *name, enum ck_dtype *ret_dtype);
bool ck_dtype_from_storage_class(const char *class_name, enum ck_dtype *ret_dtype);
bool ck_dtype_from_safetensors(const char *name, enum ck_dtype *ret_dtype);

/* F64, F32, F16 or BF16: the types that casts and quantizers take. */
static inline bool ck_dtype_is_real(enum ck_dtype dtype) {
    return dtype == CK_F64 || dtype == CK_F32 || dtype == CK_F16 || dtype == CK_BF16;
}

#endif
