#!/usr/bin/env python3
"""Writes the seeds of fuzz_model: pickles as torch.save makes them, without torch, and two whole files. Standard library only.

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
             "float32", "per_tensor_affine")
NN = fake("torch.nn.modules.linear", "Linear")
PARAMETER = fake("torch.nn.parameter", "Parameter")


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
    cyclic = {"w": view((1,), (1,))}
    cyclic["self"] = [cyclic]
    yield "cycle", dump(cyclic)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for name, data in (("archive/data.pkl", dump(flat)), ("archive/data/0", bytes(64)), ("archive/byteorder", b"big")):
            out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    yield "file_zip", b"F" + archive.getvalue()
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    yield "file_safetensors", b"F" + struct.pack("<Q", len(header)) + header + bytes(8)


def main():
    base = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
    folder = base / "fuzz_model"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
