/* matrix/document_mlx.h: the tables of "torch2mlx Support Matrix", in its order and words.
 *
 * Its templates have no table: the layers name them and the summary counts and lists them. */
#ifndef CK_MATRIX_DOCUMENT_MLX_H
#define CK_MATRIX_DOCUMENT_MLX_H

#define CK_MLX_LAYERS(X)                                                                                          \
    /* Torch Layer | MLX Equivalent | Weight Rule | Template */                                                   \
    X("nn.Linear",                       "nn.Linear",                "identity",         "MLP")                   \
    X("nn.Embedding",                    "nn.Embedding",             "identity",         "—")                     \
    X("nn.LayerNorm",                    "nn.LayerNorm",             "identity",         "TransformerBlock")      \
    X("nn.RMSNorm",                      "nn.RMSNorm",               "identity",         "—")                     \
    X("nn.Conv1d",                       "nn.Conv1d",                "conv1d",           "ConvBlock, ConvStack")  \
    X("nn.Conv2d",                       "nn.Conv2d",                "conv2d",           "ConvBlock, ConvStack")  \
    X("nn.ConvTranspose1d",              "nn.ConvTranspose1d",       "conv_transpose1d", "—")                     \
    X("nn.ConvTranspose2d",              "nn.ConvTranspose2d",       "conv_transpose2d", "—")                     \
    X("nn.BatchNorm1d",                  "nn.BatchNorm",             "batch_norm",       "—")                     \
    X("nn.BatchNorm2d",                  "nn.BatchNorm",             "batch_norm",       "—")                     \
    X("nn.MultiheadAttention",           "nn.MultiHeadAttention",    "identity",         "TransformerBlock")      \
    X("nn.GELU",                         "nn.GELU",                  "identity",         "MLP, TransformerBlock") \
    X("nn.ReLU",                         "nn.ReLU",                  "identity",         "MLP")                   \
    X("nn.SiLU",                         "nn.SiLU",                  "identity",         "MLP")                   \
    X("nn.Tanh",                         "nn.Tanh",                  "identity",         "—")                     \
    X("nn.Sigmoid",                      "nn.Sigmoid",               "identity",         "—")                     \
    X("nn.LeakyReLU",                    "nn.LeakyReLU",             "identity",         "—")                     \
    X("nn.Softmax",                      "nn.Softmax",               "identity",         "—")                     \
    X("nn.Dropout",                      "nn.Dropout",               "identity",         "MLP, TransformerBlock") \
    X("nn.GroupNorm",                    "nn.GroupNorm",             "identity",         "—")                     \
    X("nn.InstanceNorm1d",               "nn.InstanceNorm",          "identity",         "—")                     \
    X("nn.InstanceNorm2d",               "nn.InstanceNorm",          "identity",         "—")                     \
    X("nn.MaxPool1d",                    "nn.MaxPool1d",             "identity",         "—")                     \
    X("nn.MaxPool2d",                    "nn.MaxPool2d",             "identity",         "—")                     \
    X("nn.MaxPool3d",                    "nn.MaxPool3d",             "identity",         "—")                     \
    X("nn.AvgPool1d",                    "nn.AvgPool1d",             "identity",         "—")                     \
    X("nn.AvgPool2d",                    "nn.AvgPool2d",             "identity",         "—")                     \
    X("nn.AvgPool3d",                    "nn.AvgPool3d",             "identity",         "—")                     \
    X("nn.AdaptiveAvgPool2d",            "Custom template",          "identity",         "AdaptiveAvgPool2d")     \
    X("nn.TransformerEncoder",           "Decomposed into children", "identity",         "—")                     \
    X("nn.TransformerDecoder",           "Decomposed into children", "identity",         "—")                     \
    X("nn.TransformerEncoderLayer",      "Decomposed into children", "identity",         "—")                     \
    X("nn.TransformerDecoderLayer",      "Decomposed into children", "identity",         "—")                     \
    X("nn.Flatten",                      "Stateless (no weights)",   "identity",         "—")                     \
    X("nn.ModuleList",                   "Container (no weights)",   "identity",         "—")                     \
    X("nn.Sequential",                   "Container (no weights)",   "identity",         "—")                     \
    X("NonDynamicallyQuantizableLinear", "nn.Linear",                "identity",         "—")

#define CK_MLX_UNSUPPORTED_LAYERS(X)                                                                                          \
    /* Category | Torch Layers | Notes */                                                                                     \
    X("Recurrent",      "LSTM, GRU, RNN",          "Stateful + sequential execution. MLX has no built-in RNN. Out of scope.") \
    X("3D convolution", "Conv3d, ConvTranspose3d", "MLX lacks Conv3d entirely.")

#define CK_MLX_OPS(X)                                                \
    /* Torch Op | MLX Equivalent | Param Renames */                  \
    X("torch.cat",       "mx.concatenate",          "dim → axis")    \
    X("torch.stack",     "mx.stack",                "dim → axis")    \
    X("torch.split",     "mx.split",                "dim → axis")    \
    X("torch.chunk",     "mx.split",                "dim → axis")    \
    X("x.chunk",         "mx.split",                "dim → axis")    \
    X("torch.einsum",    "mx.einsum",               "—")             \
    X("torch.matmul",    "mx.matmul",               "—")             \
    X("F.softmax",       "mx.softmax",              "dim → axis")    \
    X("F.relu",          "nn.relu",                 "—")             \
    X("F.gelu",          "nn.gelu",                 "—")             \
    X("F.silu",          "nn.silu",                 "—")             \
    X("F.cross_entropy", "nn.losses.cross_entropy", "—")             \
    X("F.mse_loss",      "nn.losses.mse_loss",      "—")             \
    X("x.view",          "mx.reshape",              "—")             \
    X("x.reshape",       "mx.reshape",              "—")             \
    X("x.permute",       "mx.transpose",            "—")             \
    X("x.transpose",     "mx.swapaxes",             "—")             \
    X("x.unsqueeze",     "mx.expand_dims",          "dim → axis")    \
    X("x.squeeze",       "mx.squeeze",              "dim → axis")    \
    X("x.flatten",       "mx.flatten",              "—")             \
    X("x.sum",           "mx.sum",                  "dim → axis")    \
    X("x.mean",          "mx.mean",                 "dim → axis")    \
    X("x.max",           "mx.max",                  "dim → axis")    \
    X("x.min",           "mx.min",                  "dim → axis")    \
    X("x.to",            "no-op",                   "—")             \
    X("x.contiguous",    "no-op",                   "—")             \
    X("torch.no_grad",   "no-op",                   "—")             \
    X("torch.zeros",     "mx.zeros",                "dtype → dtype") \
    X("torch.ones",      "mx.ones",                 "dtype → dtype") \
    X("torch.randn",     "mx.random.normal",        "—")

#define CK_MLX_UNSUPPORTED_OPS(X)                                                                                                                      \
    /* Category | Torch Ops | Notes */                                                                                                                 \
    X("In-place mutation", ".add_, .mul_, .zero_, x[i] = v",       "MLX arrays are immutable. Must refactor to functional style. The analyzer flags these as blockers.") \
    X("Autograd",          "torch.autograd.Function, .backward()", "MLX uses mx.grad() with a different API. Out of scope.")

#define CK_MLX_RULES(X)                                                                      \
    /* Rule Key | Transform | Shape Example */                                               \
    X("identity",         "passthrough",                      "[O, I] → [O, I]")             \
    X("conv1d",           "np.swapaxes(1, 2)",                "[O, I, K] → [O, K, I]")       \
    X("conv2d",           "np.moveaxis(1, -1)",               "[O, I, H, W] → [O, H, W, I]") \
    X("conv_transpose1d", "np.transpose(1, 2, 0)",            "[I, O, K] → [O, K, I]")       \
    X("conv_transpose2d", "np.transpose(1, 2, 3, 0)",         "[I, O, H, W] → [O, H, W, I]") \
    X("batch_norm",       "passthrough (alias for identity)", "[C] → [C]")

#define CK_MLX_BLOCKERS(X)                                                     \
    /* Pattern | Detection Method */                                           \
    X(".copy_(",                 "String match in inspect.getsource(forward)") \
    X("torch.autograd.Function", "String match")                               \
    X(".item()",                 "String match")                               \
    X("register_forward_hook",   "String match")                               \
    X("register_backward_hook",  "String match")                               \
    X("+= (in-place add)",       "Line-by-line scan, excludes counters")

#define CK_MLX_TEMPLATES(X) \
    /* Template */          \
    X("MLP")                \
    X("TransformerBlock")   \
    X("ConvBlock")          \
    X("ConvStack")          \
    X("AdaptiveAvgPool2d")

#define CK_MLX_SUMMARY(X)                                                                                 \
    /* Metric | Count */                                                                                  \
    X("Supported layer types",      "37")                                                                 \
    X("Supported op mappings",      "30")                                                                 \
    X("Weight transposition rules", "6")                                                                  \
    X("Blocker patterns detected",  "6")                                                                  \
    X("Templates",                  "5 (MLP, TransformerBlock, ConvBlock, ConvStack, AdaptiveAvgPool2d)") \
    X("Total tests",                "217")

#endif
