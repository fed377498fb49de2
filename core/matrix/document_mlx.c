#include "core/matrix/document_mlx.h"

#include "core/matrix/document.h"

#define X(...) {{__VA_ARGS__}},
static const struct ck_matrix_row layers[] = {CK_MLX_LAYERS(X)};
static const struct ck_matrix_row unsupported_layers[] = {CK_MLX_UNSUPPORTED_LAYERS(X)};
static const struct ck_matrix_row ops[] = {CK_MLX_OPS(X)};
static const struct ck_matrix_row unsupported_ops[] = {CK_MLX_UNSUPPORTED_OPS(X)};
static const struct ck_matrix_row rules[] = {CK_MLX_RULES(X)};
static const struct ck_matrix_row blockers[] = {CK_MLX_BLOCKERS(X)};
static const struct ck_matrix_row templates[] = {CK_MLX_TEMPLATES(X)};
static const struct ck_matrix_row summary[] = {CK_MLX_SUMMARY(X)};
#undef X

static const struct ck_matrix_section sections[] = {
    {.name = "layers",
     .title = "Layer Mappings",
     .description = "37 torch.nn module classes with automatic conversion support.",
     .columns = {"Torch Layer", "MLX Equivalent", "Weight Rule", "Template"},
     .n_columns = 4,
     .rows = layers,
     .n_rows = CK_ARRAY_LEN(layers),
     .standing = ck_standing_layer},
    {.name = "unsupported_layers",
     .title = "Unsupported Layers",
     .columns = {"Category", "Torch Layers", "Notes"},
     .n_columns = 3,
     .key = 1,
     .rows = unsupported_layers,
     .n_rows = CK_ARRAY_LEN(unsupported_layers),
     .standing = ck_standing_layer_group},
    {.name = "ops",
     .title = "Op Mappings",
     .description = "30 functional/tensor operations with automatic mapping.",
     .columns = {"Torch Op", "MLX Equivalent", "Param Renames"},
     .n_columns = 3,
     .rows = ops,
     .n_rows = CK_ARRAY_LEN(ops),
     .standing = ck_standing_op},
    {.name = "unsupported_ops",
     .title = "Unsupported Ops",
     .columns = {"Category", "Torch Ops", "Notes"},
     .n_columns = 3,
     .key = 1,
     .rows = unsupported_ops,
     .n_rows = CK_ARRAY_LEN(unsupported_ops),
     .standing = ck_standing_blocker},
    {.name = "rules",
     .title = "Weight Transposition Rules",
     .description = "6 rules mapping PyTorch weight layouts to MLX conventions. All operate on numpy arrays "
                    "(backend-agnostic).",
     .columns = {"Rule Key", "Transform", "Shape Example"},
     .n_columns = 3,
     .rows = rules,
     .n_rows = CK_ARRAY_LEN(rules),
     .standing = ck_standing_rule},
    {.name = "blockers",
     .title = "Blocker Detection",
     .description = "Patterns scanned in forward() source code to flag non-convertible constructs.",
     .columns = {"Pattern", "Detection Method"},
     .n_columns = 2,
     .rows = blockers,
     .n_rows = CK_ARRAY_LEN(blockers),
     .standing = ck_standing_blocker},
    {.name = "templates",
     .title = "Templates",
     .columns = {"Template"},
     .n_columns = 1,
     .rows = templates,
     .n_rows = CK_ARRAY_LEN(templates),
     .standing = ck_standing_template},
    {.name = "summary",
     .title = "Summary",
     .columns = {"Metric", "Count"},
     .n_columns = 2,
     .rows = summary,
     .n_rows = CK_ARRAY_LEN(summary),
     .standing = ck_standing_summary},
};

const struct ck_matrix ck_matrix_mlx = {
    .name = "mlx",
    .title = "torch2mlx Support Matrix",
    .description = "Reference of supported torch operations and their MLX equivalents.",
    .sections = sections,
    .n_sections = CK_ARRAY_LEN(sections),
};
