#include "core/matrix/layers.h"

#include <string.h>

const struct ck_layer_row ck_layers[] = {
#define X(name, module, mlx, rule, rank, kind)                                                                         \
    {#name, "torch.nn.modules." #module "." #name, mlx, CK_RULE_##rule, rank, CK_LAYER_##kind},
    CK_LAYERS(X)
#undef X
        {"Conv1D", "transformers.pytorch_utils.Conv1D", "nn.Linear", CK_RULE_LINEAR_TRANSPOSED, 2, CK_LAYER_LINEAR},
    {0},
};

/* Where transformers kept Conv1D before pytorch_utils existed. */
static const char *const conv1d_old[] = {"transformers.modeling_utils.Conv1D", "transformers.modeling_gpt2.Conv1D",
                                         "pytorch_transformers.modeling_utils.Conv1D"};

const struct ck_layer_row *ck_layer_by_class(const char *class_) {
    for (size_t i = 0; i < CK_ARRAY_LEN(conv1d_old); i++)
        if (strcmp(class_, conv1d_old[i]) == 0)
            return ck_layer_by_word("Conv1D");
    for (const struct ck_layer_row *row = ck_layers; row->name; row++)
        if (strcmp(row->class_, class_) == 0)
            return row;
    return NULL;
}

const struct ck_layer_row *ck_layer_by_word(const char *word) {
    static const char *const prefixes[] = {"torch.nn.", "nn."};

    for (size_t i = 0; i < CK_ARRAY_LEN(prefixes); i++) {
        size_t n = strlen(prefixes[i]);

        if (strncmp(word, prefixes[i], n) == 0 && !strchr(word + n, '.')) {
            word += n;
            break;
        }
    }
    for (const struct ck_layer_row *row = ck_layers; row->name; row++)
        if (strcmp(row->name, word) == 0 || strcmp(row->class_, word) == 0)
            return row;
    return NULL;
}

const struct ck_layer_row *ck_layer_conv(uint32_t rank, bool transposed) {
    enum ck_layer_kind kind = transposed ? CK_LAYER_CONV_TRANSPOSE : CK_LAYER_CONV;

    for (const struct ck_layer_row *row = ck_layers; row->name; row++)
        if (row->kind == kind && row->rank == rank)
            return row;
    return NULL;
}
