/* mlx/hints.h: what the name of a module hints at. Names decide nothing alone: a hint only breaks or forbids an
 * assumption. */
#ifndef CK_MLX_HINTS_H
#define CK_MLX_HINTS_H

#include <stdbool.h>
#include <stddef.h>

/* The last component that is not a number says convolution: conv1, double_conv.0, downsample.0, patch_embed ... */
bool ck_hint_conv(const char *path);

/* A transposed one: up, deconv, upsample, transpose, decoder ... in the last component that is no number (own), or
 * before it (above). */
bool ck_hint_transposed_own(const char *path);
bool ck_hint_transposed_above(const char *path);

/* The last component that is no number can mean nothing but a transposed convolution: deconv, convT, conv_transpose, upconv; not merely up. */
bool ck_hint_transposed_strong(const char *path);

bool ck_hint_norm(const char *path);      /* bn1, norm, ln_f, layer_norm; also a number below one: norm.0 */
bool ck_hint_norm_alone(const char *path); /* the last component itself is a norm's name and nothing else: norm, ln_f; not conv_bn, not conv_bn.0 */
bool ck_hint_bilinear(const char *path);
bool ck_hint_embedding(const char *path); /* wte, embed_tokens, emb */

/* The names that transformers gives its Conv1D: c_attn, c_proj, c_fc, q_attn. */
bool ck_hint_conv1d_hf(const char *path);

/* path with each run of digits replaced by N, written to text (cut to fit). */
void ck_hint_generalise(const char *path, char *text, size_t size);

/* The tail of path from its last-but-one component that is not a number: "mid_block.resnets.0.conv1" ->
 * "resnets.0.conv1". */
const char *ck_hint_tail(const char *path);

#endif
