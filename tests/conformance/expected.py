"""What the converted file must hold, worked out from the torch module alone: its classes say what each tensor is.

Nothing here looks at ckptd or at its report. The rules: PyTorch's names, cleaned (prefixes of wrappers, names that
MLX cannot hold, a bare Sequential under `layers.`), counters and computed tables left out, packed attention split,
tied tensors once, weights in MLX's layout."""

import keyword

import torch
from torch import nn

# What an mlx.nn.Module cannot have as an attribute: the public names of its class and of dict, from which it derives.
RESERVED = set(
    """apply apply_to_modules children clear copy eval filter_and_map freeze fromkeys get is_module items keys
    leaf_modules load_weights modules named_modules parameters pop popitem save_weights set_dtype setdefault state train
    trainable_parameter_filter trainable_parameters training unfreeze update update_modules valid_child_filter
    valid_parameter_filter values""".split()
)

COMPUTED = {"num_batches_tracked", "position_ids", "inv_freq", "masked_bias"}


def clean_component(text):
    if text.startswith("_"):
        return text.lstrip("_") + "_"
    if text in RESERVED or keyword.iskeyword(text):
        return text + "_"
    return text


def clean_names(keys):
    """Maps every key of a state dict to its name in the output, before packed attention is split."""
    stripped = {key: key.replace("_orig_mod.", "") for key in keys}
    if all(name.startswith("module.") for name in stripped.values()):
        stripped = {key: name[len("module.") :] for key, name in stripped.items()}
    bare = all(name.split(".")[0].isdigit() for name in stripped.values())
    prefix = "layers." if bare else ""
    return {key: prefix + ".".join(map(clean_component, name.split("."))) for key, name in stripped.items()}


def transposed_layout(weight, groups):
    """[I, O/g, k...] as torch holds it -> [O, k..., I/g] as MLX wants it, group by group."""
    blocks = []
    for part in weight.chunk(groups, 0):
        axes = [1, *range(2, weight.dim()), 0]
        blocks.append(part.permute(axes))
    return torch.cat(blocks, 0)


def layout(module, leaf, tensor):
    if leaf == "weight":
        if isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
            return transposed_layout(tensor, module.groups)
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            return tensor.permute([0, *range(2, tensor.dim()), 1])
        if type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils":
            return tensor.t()
    return tensor


PACKED = {
    "in_proj_weight": ("query_proj.weight", "key_proj.weight", "value_proj.weight"),
    "in_proj_bias": ("query_proj.bias", "key_proj.bias", "value_proj.bias"),
}
SEPARATE = {
    "q_proj_weight": "query_proj.weight",
    "k_proj_weight": "key_proj.weight",
    "v_proj_weight": "value_proj.weight",
}


def outputs(module, name, leaf, tensor):
    """The output tensors of one source tensor."""
    if isinstance(module, nn.MultiheadAttention):
        base = name[: -len(leaf)]
        if leaf in PACKED:
            return dict(zip([base + part for part in PACKED[leaf]], tensor.chunk(3, 0)))
        if leaf in SEPARATE:
            return {base + SEPARATE[leaf]: tensor}
    return {name: layout(module, leaf, tensor)}


def identity_of(tensor):
    """Equal for two names of one tensor: same storage, offset, shape and strides."""
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def is_computed(key, tensor):
    leaf = key.rpartition(".")[2]
    return leaf in COMPUTED and not (leaf == "position_ids" and tensor.is_floating_point())


class Expected:
    """tensors: output name -> tensor. aliases: output name that is not written -> the name that holds its values.
    weights: output names of Linear and Embedding weights, which a quantization takes."""

    def __init__(self, model, present=None):
        """present: the state-dict keys that the file holds, in its order; all of them if not given."""
        self.tensors, self.aliases, self.weights, self.dropped = {}, {}, set(), set()
        modules = dict(model.named_modules(remove_duplicate=False))
        state = model.state_dict()
        names = clean_names(present or state)
        seen = {}
        for key in present or state:
            tensor, name = state[key], names[key]
            path, _, leaf = key.rpartition(".")
            if is_computed(key, tensor):
                self.dropped.add(key)
                continue
            if identity_of(tensor) in seen:
                self.aliases[name] = seen[identity_of(tensor)]
                continue
            seen[identity_of(tensor)] = name
            self.add(modules[path], name, leaf, tensor)

    def add(self, module, name, leaf, tensor):
        for out, value in outputs(module, name, leaf, tensor.detach()).items():
            value = value.contiguous()
            self.tensors[out] = value.float() if value.dtype == torch.float64 else value
            if out.endswith(".weight") and self.is_quantizable(module, out):
                self.weights.add(out)

    @staticmethod
    def is_quantizable(module, out):
        if isinstance(module, nn.MultiheadAttention):
            return True
        return isinstance(module, (nn.Linear, nn.Embedding)) or type(module).__name__ == "Conv1D"
