/* matrix/layers.h: the torch layers that own tensors: class, MLX twin, rule of the weight.
 *
 * Keyed by the qualified class name (a user's class called Linear is not torch's). Layers without tensors need no row to
 * be converted. Sources: torch.nn modules, transformers.pytorch_utils.Conv1D, and mlx.nn for the twins. */
#ifndef CK_MATRIX_LAYERS_H
#define CK_MATRIX_LAYERS_H

#include "core/matrix/rules.h"

/* rank: of the weight, 0 any. kind decides what else is done with the layer's tensors. */
#define CK_LAYERS(X)                                                                                                         \
    /* NAME              module of torch.nn.modules  MLX twin               rule               rank kind */                      \
    X(Linear,            linear,        "nn.Linear",             IDENTITY,          2,   LINEAR)                                 \
    X(NonDynamicallyQuantizableLinear, linear, "nn.Linear",      IDENTITY,          2,   LINEAR)                                 \
    X(Embedding,         sparse,        "nn.Embedding",          IDENTITY,          2,   EMBEDDING)                              \
    X(EmbeddingBag,      sparse,        NULL,                    IDENTITY,          2,   OTHER)                                  \
    X(Bilinear,          linear,        "nn.Bilinear",           BILINEAR,          3,   OTHER)                                  \
    X(Conv1d,            conv,          "nn.Conv1d",             CONV1D,            3,   CONV)                                   \
    X(Conv2d,            conv,          "nn.Conv2d",             CONV2D,            4,   CONV)                                   \
    X(Conv3d,            conv,          "nn.Conv3d",             CONV3D,            5,   CONV)                                   \
    X(ConvTranspose1d,   conv,          "nn.ConvTranspose1d",    CONV_TRANSPOSE1D,  3,   CONV_TRANSPOSE)                         \
    X(ConvTranspose2d,   conv,          "nn.ConvTranspose2d",    CONV_TRANSPOSE2D,  4,   CONV_TRANSPOSE)                         \
    X(ConvTranspose3d,   conv,          "nn.ConvTranspose3d",    CONV_TRANSPOSE3D,  5,   CONV_TRANSPOSE)                         \
    X(LayerNorm,         normalization, "nn.LayerNorm",          IDENTITY,          0,   NORM)                                   \
    X(RMSNorm,           normalization, "nn.RMSNorm",            IDENTITY,          0,   NORM)                                   \
    X(GroupNorm,         normalization, "nn.GroupNorm",          IDENTITY,          1,   NORM)                                   \
    X(BatchNorm1d,       batchnorm,     "nn.BatchNorm",          BATCH_NORM,        1,   NORM)                                   \
    X(BatchNorm2d,       batchnorm,     "nn.BatchNorm",          BATCH_NORM,        1,   NORM)                                   \
    X(BatchNorm3d,       batchnorm,     "nn.BatchNorm",          BATCH_NORM,        1,   NORM)                                   \
    X(SyncBatchNorm,     batchnorm,     "nn.BatchNorm",          BATCH_NORM,        1,   NORM)                                   \
    X(InstanceNorm1d,    instancenorm,  "nn.InstanceNorm",       IDENTITY,          1,   NORM)                                   \
    X(InstanceNorm2d,    instancenorm,  "nn.InstanceNorm",       IDENTITY,          1,   NORM)                                   \
    X(InstanceNorm3d,    instancenorm,  "nn.InstanceNorm",       IDENTITY,          1,   NORM)                                   \
    X(PReLU,             activation,    "nn.PReLU",              IDENTITY,          1,   OTHER)                                  \
    X(MultiheadAttention, activation,   "nn.MultiHeadAttention", ATTENTION,         0,   ATTENTION)                              \
    X(LSTM,              rnn,           NULL,                    IDENTITY,          0,   RECURRENT)                              \
    X(GRU,               rnn,           NULL,                    IDENTITY,          0,   RECURRENT)                              \
    X(RNN,               rnn,           NULL,                    IDENTITY,          0,   RECURRENT)                              \
    X(LSTMCell,          rnn,           NULL,                    IDENTITY,          0,   RECURRENT)                              \
    X(GRUCell,           rnn,           NULL,                    IDENTITY,          0,   RECURRENT)                              \
    X(RNNCell,           rnn,           NULL,                    IDENTITY,          0,   RECURRENT)

enum ck_layer_kind {
    CK_LAYER_LINEAR,         /* quantizable; weight [out, in], bias [out] */
    CK_LAYER_EMBEDDING,      /* quantizable; weight [n, d], no bias */
    CK_LAYER_CONV,           /* weight [O, I/g, k...], bias [O] */
    CK_LAYER_CONV_TRANSPOSE, /* weight [I, O/g, k...], bias [O] */
    CK_LAYER_NORM,
    CK_LAYER_ATTENTION, /* packed or separate projections; becomes four Linear */
    CK_LAYER_RECURRENT, /* no conversion: refused */
    CK_LAYER_OTHER,
};

struct ck_layer_row {
    const char        *name;   /* "Conv2d"; the word for layers= */
    const char        *class_; /* "torch.nn.modules.conv.Conv2d" */
    const char        *mlx;    /* "nn.Conv2d", or NULL */
    enum ck_rule       rule;   /* of the weight */
    uint8_t            rank;
    enum ck_layer_kind kind;
};

/* All rows, ending with a NULL name; transformers' Conv1D (weight [in, out]) is the last. */
extern const struct ck_layer_row ck_layers[];

/* The row of a qualified class as a pickle has it, or NULL. */
const struct ck_layer_row *ck_layer_by_class(const char *class_);

/* The row of what a caller writes: "Conv2d", "nn.Conv2d", "torch.nn.Conv2d" or the qualified name; or NULL. Case matters: Conv1d is not Conv1D. */
const struct ck_layer_row *ck_layer_by_word(const char *word);

/* The ordinary or the transposed convolution for a weight of that rank (3, 4, 5), or NULL. */
const struct ck_layer_row *ck_layer_conv(uint32_t rank, bool transposed);

#endif
