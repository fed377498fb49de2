/* matrix/document_quantized.h: the tables of "Supported PyTorch Operations", in its order and words. */
#ifndef CK_MATRIX_DOCUMENT_QUANTIZED_H
#define CK_MATRIX_DOCUMENT_QUANTIZED_H

#define CK_QUANTIZED_LAYERS(X)                                                                                                           \
    /* PyTorch Op | Notes */                                                                                                             \
    X("nn.Conv2d",    "Dense convolution (groups=1); depthwise only when groups = in_channels = out_channels (depth multiplier 1 only)") \
    X("nn.Linear",    "")                                                                                                                \
    X("nn.AvgPool2d", "A preceding F.pad folds into its padding")                                                                        \
    X("nn.MaxPool2d", "No padding support, native or via a preceding F.pad")

#define CK_QUANTIZED_ACTIVATIONS(X)                                                                                                                    \
    /* PyTorch Op | Notes */                                                                                                                           \
    X("torch.softmax / F.softmax", "Output pinned to a fixed quantization grid")                                                                       \
    X("torch.sigmoid",             "Output pinned to a fixed quantization grid")                                                                       \
    X("F.relu",                    "Only recognized as a fusion tail immediately after a weight op (Conv2d/Linear) or a residual add; not a standalone layer")

#define CK_QUANTIZED_SHAPE_ELEMENTWISE(X)                                                                                                              \
    /* PyTorch Op | Notes */                                                                                                                           \
    X("torch.flatten",                       "")                                                                                                       \
    X("torch.reshape / view",                "Cannot change the batch-axis extent")                                                                    \
    X("torch.transpose",                     "Feature rank 2–3 only; cannot move the batch axis")                                                      \
    X("torch.slice / __getitem__[:n]",       "Sequence-domain tensors only (not spatial/HWC feature maps); not the batch axis; step must be 1")        \
    X("F.pad(pad_value=0)",                  "Only usable as an immediate prefix to Conv2d or AvgPool2d; no standalone padding layer in quantized models") \
    X("torch.cat",                           "Not the batch axis; requires compiler ≥ v0.15.0; inputs and output share one quantization scale")        \
    X("torch.matmul / torch.bmm / torch.mm", "Activation × activation; feature rank 2–3 per operand; trailing scale must be a scalar constant; output must feed a quantized op") \
    X("torch.mul(x, const_tensor)",          "Activation × constant-tensor broadcast only (e.g., RoPE's cos/sin tables); not a bare scalar, not activation × activation") \
    X("Element-wise +",                      "Both operands must already be quantized activation streams")                                             \
    X("F.interpolate(mode=\"nearest\")",     "Mode must be \"nearest\" or \"nearest-exact\"; input/output share one quantization grid")

#define CK_QUANTIZED_NOT_SUPPORTED(X)                                                                                                                  \
    /* Operation | Why */                                                                                                                              \
    X("torch.permute",             "Only the NCHW→NHWC reorder inside dg.Flatten is recognized; any other permute is rejected. Use dg.Flatten or torch.transpose.") \
    X("Standalone F.pad",          "Padding is only supported immediately before a Conv2d or AvgPool2d.")                                              \
    X("Tensor.expand()",           "Not supported.")                                                                                                   \
    X("Tensor.repeat()",           "Only supported inside the logic layers (dg.BitShift, etc.), not in quantized models.")                             \
    X("Bare torch.mul(x, scalar)", "Not supported on its own; only valid inside dg.Norm or an attention score scale.")                                 \
    X("Standalone F.relu",         "Only supported as a fusion tail after a weight op or residual add, not as a layer of its own.")                    \
    X("nn.ConvTranspose2d",        "Not supported.")                                                                                                   \
    X("Other activations",         "F.gelu, torch.tanh, F.silu, F.hardswish, F.leaky_relu, and similar are not supported; only relu, sigmoid, and softmax are.") \
    X("Fused attention",           "F.scaled_dot_product_attention and nn.MultiheadAttention export as a single op that cannot be quantized. Use dg.SelfAttention or explicit matmul + softmax.") \
    X("Dilated nn.Conv2d",         "Dilation (dilation != 1) is not supported, and is not caught at export, so avoid it.")

#define CK_QUANTIZED_SPECIAL_CASES(X)                                                                                                                  \
    /* Operation | Behavior */                                                                                                                         \
    X("Batch normalization", "Conv → BatchNorm folds via torchao's QAT pass inside freeze_quantization; Linear → BatchNorm folds separately inside dg.export() (requires the linear have exactly one user)") \
    X("Dropout",             "Absent from the traced graph in eval mode")

#endif
