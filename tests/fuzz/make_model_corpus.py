#!/usr/bin/env python3
"""Writes the seeds of fuzz_model (pickles as torch.save makes them, without torch, and whole files) and fuzz_script_code.
Standard library only.

Usage: make_model_corpus.py [DIRECTORY]   (default: corpus beside this script)
The seeds are committed, so that a test needs no Python.
"""
import collections
import io
import json
import pathlib
import pickle
import struct
import sys
import types
import zipfile


def fake(module, *names):
    """Classes and functions that pickle refers to by the names that torch's have."""
    for part in range(1, module.count(".") + 2):
        name = ".".join(module.split(".")[:part])
        sys.modules.setdefault(name, types.ModuleType(name))
    for name in names:
        setattr(sys.modules[module], name, type(name, (), {"__module__": module, "__qualname__": name}))
    return sys.modules[module]


UTILS = fake("torch._utils", "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter",
             "_rebuild_parameter_with_state", "_rebuild_qtensor", "_rebuild_sparse_tensor",
             "_rebuild_meta_tensor_no_storage")
TYPED = fake("torch._tensor", "_rebuild_from_type_v2")
TORCH = fake("torch", "FloatStorage", "HalfStorage", "QUInt4x2Storage", "UntypedStorage", "Size", "float8_e4m3fn",
             "float32", "per_tensor_affine", "QInt8Storage", "DoubleStorage", "LongStorage", "ComplexFloatStorage",
             "per_channel_affine")
NN = fake("torch.nn.modules.linear", "Linear")
PARAMETER = fake("torch.nn.parameter", "Parameter")
SCRIPT = fake("__torch__", "Net")
SCRIPT_CONV = fake("__torch__.torch.nn.modules.conv.___torch_mangle_0", "Conv2d")
JIT = fake("torch.jit._pickle", "build_tensorlist", "build_intlist", "restore_type_tag")


class Storage:
    def __init__(self, class_, key="0"):
        self.id = ("storage", class_, key, "cpu", 16)


class Call:
    """Pickles as REDUCE of function with arguments, then BUILD of state."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


class Pickler(pickle._Pickler):  # the C one checks that a callee is the object of that name
    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None


def view(shape, stride, offset=0, class_=None, key="0", function=None, extra=()):
    hooks = collections.OrderedDict()
    return Call(function or UTILS._rebuild_tensor_v2, Storage(class_ or TORCH.FloatStorage, key), offset, shape, stride,
                False, hooks, *extra)


def module(class_, parameters, modules, **attributes):
    state = dict(training=True, _parameters=collections.OrderedDict(parameters),
                 _buffers=collections.OrderedDict(step=view((), ())), _non_persistent_buffers_set={"step"},
                 _modules=collections.OrderedDict(modules), **attributes)
    return Call(class_, state=state)


def dump(root, protocol=2):
    out = io.BytesIO()
    Pickler(out, protocol).dump(root)
    return out.getvalue()


def archive_of(entries, method=zipfile.ZIP_STORED):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as out:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            out.writestr(info, data)
    return archive.getvalue()


CODE = b'''class Net(Module):
  __parameters__ = ["w", ]
  __buffers__ = ["mean", ]
  w : Tensor
  stride : Final[Tuple[int, int]] = (2, 2)
  mode : Final[str] = "same"
  eps : Final[float] = 1.0000000000000001e-05
  def forward(self: __torch__.Net) -> Tensor:
    return self.w
'''


def script_seeds():
    """Whole files of the forms that are zips of their own."""
    conv = Call(SCRIPT_CONV.Conv2d, state=(3, (1, 1), view((2, 3), (3, 1)), None))
    net = Call(SCRIPT.Net, state={
        "training": False, "w": view((2,), (1,)), "mean": view((), ()), "conv": conv,
        "_flat_weights": Call(JIT.build_tensorlist, [view((2,), (1,))]),
        "table": Call(JIT.restore_type_tag, {"k": view((1,), (1,))}, "Dict[str, Tensor]"),
        "pad": Call(JIT.build_intlist, [1, 2])})
    script = {"p/data.pkl": dump(net), "p/data/0": bytes(64), "p/code/__torch__.py": CODE,
              "p/constants.pkl": dump((view((4,), (1,)), (view((2,), (1,)), 3))), "p/constants/0": bytes(64)}
    yield "file_script", archive_of(script)
    yield "file_script_deflated", archive_of(script, zipfile.ZIP_DEFLATED)
    meta = {"dtype": 7, "sizes": [{"as_int": 2}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 1}, "layout": 7}
    payload = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta}
    saved = archive_of({"archive/data.pkl": dump(view((4,), (1,))), "archive/data/0": bytes(64)})
    yield "file_exported", archive_of({
        "p/archive_format": b"pt2", "p/models/model.json": b"{}", "p/data/weights/weight_0": bytes(16),
        "p/data/weights/weight_1": saved,
        "p/data/weights/model_weights_config.json": json.dumps({"config": {
            "a": payload, "b": payload, "c": {"path_name": "weight_1", "use_pickle": True, "tensor_meta": None}}}).encode()})
    saved = archive_of({"archive/data.pkl": dump({"a.weight": view((4,), (1,))}), "archive/data/0": bytes(64)})
    yield "file_exported_old", archive_of({"serialized_exported_program.json": b"{}", "serialized_state_dict.json": saved,
                                           "serialized_constants.json": saved})
    yield "file_package", archive_of({
        "p/.data/extern_modules": b"torch", "p/.data/0.storage": bytes(64), "p/m.pkl": dump({"a": view((4,), (1,))}),
        "p/n.pkl": dump([1, 2]), "p/.data/ts_code/0/data.pkl": dump(Call(SCRIPT.Net, state={"n": 1})),
        "p/.data/ts_code/code/__torch__.py": CODE})


def text_seeds():
    """Those of fuzz_script_code."""
    yield "source", CODE
    yield "values", (b'class A(Module):\n  i : Final[int] = -1\n  f : Final[float] = 2.\n  t : Final[str] = "a\\"\\101"\n'
                     b"  l : Final[List[int]] = [1, -2]\n  o : Final[Tuple[int]] = (7,)\n  n : Final[NoneType] = None\n"
                     b"  b : Final[bool] = True\nclass B:\n  c : Final[Dict[str, int]] = {}\n")
    yield "traced", (b"class Conv2d(Module):\n  def forward(self: __torch__.Conv2d) -> Tensor:\n    weight = self.weight\n"
                     b"    x = torch._convolution(f(x, [1]), weight, None, [2, 2], [0, 0], [1, 1], True, [0, 0], 4, False)\n"
                     b'    y = torch._convolution_mode(x, weight, bias, [1], "same", [1], 3)\n')
    meta = {"dtype": 7, "sizes": [{"as_int": 2}, {"as_expr": "s0"}], "strides": [{"as_int": 1}],
            "storage_offset": {"as_int": 1}, "layout": 1, "device": {"type": "cpu", "index": None}}
    yield "config", json.dumps({"config": {"a.w": {"path_name": "weight_0", "is_param": True, "use_pickle": False,
                                                   "tensor_meta": meta}}}).encode()


def quantized(class_, shape, stride, quantizer):
    return Call(UTILS._rebuild_qtensor, Storage(class_), 0, shape, stride, quantizer, False, {})


def odd():
    """Quantizers of every kind, and lazy bits: also the seed of fuzz_convert."""
    scales, zeros = view((3,), (1,), class_=TORCH.DoubleStorage, key="1"), view((3,), (1,), 2, TORCH.LongStorage)
    return dump({
        "channel.weight": quantized(TORCH.QInt8Storage, (2, 3, 2, 2), (12, 4, 2, 1), (TORCH.per_channel_affine, scales, zeros, 1)),
        "float.weight": quantized(TORCH.QUInt4x2Storage, (3, 5), (5, 1), (TORCH.per_channel_affine, view((3,), (1,)), view((3,), (1,), 1), 0)),
        "lists": quantized(TORCH.QInt8Storage, (2, 3), (1, 2), (TORCH.per_channel_affine, [0.5, 1.0, 2], [0, 1, 2], 1)),
        "tensor.weight": quantized(TORCH.QInt8Storage, (4, 3), (3, 1), (TORCH.per_tensor_affine, 0.1, -3)),
        "conj": view((2, 3), (1, 2), class_=TORCH.ComplexFloatStorage, extra=({"conj": True, "neg": True},)),
        "neg": view((5,), (2,), extra=({"neg": True},)),
        "sparse": Call(UTILS._rebuild_sparse_tensor, Call(TORCH.Size, "torch.sparse_coo"), 2),
    })


def seeds():
    linear = module(NN.Linear, {"weight": Call(UTILS._rebuild_parameter, view((2, 3), (3, 1)), True, {}), "bias": None},
                    {}, in_features=3, kernel_size=(3, 3), padding="same")
    flat = collections.OrderedDict([("a.weight", view((2, 3), (1, 2))), ("a.bias", view((2,), (1,), 3, key="1"))])
    yield "state_dict", dump(flat)
    yield "state_dict_p4", dump({"state_dict": flat, "epoch": 3}, 4)
    yield "nested", dump({"model": {"encoder": {"layer_0": flat}}, "optimizer": {"state": {0: flat}, "param_groups": []}})
    yield "twins", dump({"generator": flat, "discriminator": dict(flat), "list": [flat, (1, None, 2.5)]})
    yield "module", dump(module(NN.Linear, {}, {"x": linear, "y": linear}, shape=Call(TORCH.Size, (1, 2))))
    yield "training", dump({"model": linear, "ema": linear, (1, "a"): view((), ()), b"k": 5})
    yield "kinds", dump({
        "v1": Call(UTILS._rebuild_tensor, Storage(TORCH.HalfStorage), 1, (4,), (1,)),
        "v3": view((8,), (1,), 8, TORCH.UntypedStorage, function=UTILS._rebuild_tensor_v3, extra=(TORCH.float8_e4m3fn,)),
        "typed": Call(TYPED._rebuild_from_type_v2, UTILS._rebuild_tensor_v2, PARAMETER.Parameter,
                      (Storage(TORCH.FloatStorage), 0, (2,), (1,), False, {}), {}),
        "q": Call(UTILS._rebuild_qtensor, Storage(TORCH.QUInt4x2Storage), 0, (4, 6), (6, 1),
                  (TORCH.per_tensor_affine, 0.1, 0), False, {}),
        "sparse": Call(UTILS._rebuild_sparse_tensor, 1, 2),
        "meta": Call(UTILS._rebuild_meta_tensor_no_storage, TORCH.float32, (2,), (1,), False),
        "state": Call(UTILS._rebuild_parameter_with_state, view((2,), (0,)), True, {}, {"x": 1}),
        "conj": view((2,), (1,), extra=({"conj": True},)),
    })
    yield "odd", odd()
    cyclic = {"w": view((1,), (1,))}
    cyclic["self"] = [cyclic]
    yield "cycle", dump(cyclic)
    yield "file_zip", b"F" + archive_of({"archive/data.pkl": dump(flat), "archive/data/0": bytes(64),
                                         "archive/byteorder": b"big"})
    for name, data in script_seeds():
        yield name, b"F" + data
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    yield "file_safetensors", b"F" + struct.pack("<Q", len(header)) + header + bytes(8)


def main():
    base = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
    for target, named in (("fuzz_model", seeds()), ("fuzz_script_code", text_seeds()), ("fuzz_convert", [("odd", odd())])):
        folder = base / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in named:
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
