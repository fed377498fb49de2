#include "core/matrix/document_quantized.h"

#include "core/matrix/document.h"

#define X(...) {{__VA_ARGS__}},
static const struct ck_matrix_row layers[] = {CK_QUANTIZED_LAYERS(X)};
static const struct ck_matrix_row activations[] = {CK_QUANTIZED_ACTIVATIONS(X)};
static const struct ck_matrix_row shape_elementwise[] = {CK_QUANTIZED_SHAPE_ELEMENTWISE(X)};
static const struct ck_matrix_row not_supported[] = {CK_QUANTIZED_NOT_SUPPORTED(X)};
static const struct ck_matrix_row special_cases[] = {CK_QUANTIZED_SPECIAL_CASES(X)};
#undef X

static const struct ck_matrix_section sections[] = {
    {.name = "layers",
     .title = "Layers",
     .columns = {"PyTorch Op", "Notes"},
     .n_columns = 2,
     .rows = layers,
     .n_rows = CK_ARRAY_LEN(layers),
     .standing = ck_standing_int8},
    {.name = "activations",
     .title = "Activations",
     .columns = {"PyTorch Op", "Notes"},
     .n_columns = 2,
     .rows = activations,
     .n_rows = CK_ARRAY_LEN(activations),
     .standing = ck_standing_int8},
    {.name = "shape_elementwise",
     .title = "Shape & Elementwise Operations",
     .columns = {"PyTorch Op", "Notes"},
     .n_columns = 2,
     .rows = shape_elementwise,
     .n_rows = CK_ARRAY_LEN(shape_elementwise),
     .standing = ck_standing_int8},
    {.name = "not_supported",
     .title = "Not Supported",
     .description = "These operations look like they should work but are not supported. Using any of them raises an "
                    "error during export, so they will not pass silently into a broken model.",
     .columns = {"Operation", "Why"},
     .n_columns = 2,
     .rows = not_supported,
     .n_rows = CK_ARRAY_LEN(not_supported),
     .standing = ck_standing_int8_check},
    {.name = "special_cases",
     .title = "Special Cases",
     .columns = {"Operation", "Behavior"},
     .n_columns = 2,
     .rows = special_cases,
     .n_rows = CK_ARRAY_LEN(special_cases),
     .standing = ck_standing_int8_check},
};

const struct ck_matrix ck_matrix_quantized = {
    .name = "quantized",
    .title = "Supported PyTorch Operations",
    .description = "Native PyTorch operations that can be traced, quantized, and lowered.",
    .sections = sections,
    .n_sections = CK_ARRAY_LEN(sections),
};
