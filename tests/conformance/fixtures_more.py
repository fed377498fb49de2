"""More of fixtures.py: TorchScript, exported programs, packages, numpy, plain pickles, archives of files, the keys of tools, old torch."""

import collections
import gzip
import io
import json
import pickle
import tarfile
import zipfile

import numpy as np
import torch
from torch import nn

import synthesis as hand
import tools
from fixtures import Expect, fixture, fixtures, numbered, small, small_again


# ---- TorchScript, exported programs, packages ----


def scriptable():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)).eval()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.LSTM(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(self.rnn(x)[0])


@fixtures(["script", "trace", "recurrent", "half", "extra", "mobile"])
def torchscript(path, name):
    model = Recurrent().eval() if name == "recurrent" else scriptable()
    model = model.half() if name == "half" else model
    script = torch.jit.trace(model, torch.randn(1, 3, 4, 4)) if name == "trace" else torch.jit.script(model)
    if name == "mobile":
        script._save_for_lite_interpreter(str(path))
    else:
        script.save(str(path), _extra_files={"labels.txt": b"a\nb"} if name == "extra" else {})
    return Expect(weights=model.state_dict(), form="torchscript" if name != "mobile" else "torchscript-mobile")


@fixture
def torchscript_frozen(path):
    script = torch.jit.freeze(torch.jit.script(scriptable()))
    script.save(str(path))
    constants = [node.output().toIValue() for node in script.graph.findAllNodes("prim::Constant")]
    return Expect(values=[value for value in constants if isinstance(value, torch.Tensor)], form="torchscript")


class Exported(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.other = nn.Linear(4, 3), nn.Linear(4, 3)
        self.other.weight = self.fc.weight
        self.register_buffer("kept", torch.arange(3.0))
        self.register_buffer("view", torch.arange(12.0).reshape(3, 4).t())

    def forward(self, x):
        return self.fc(x) + self.other(x) + self.kept + self.view.sum()


@fixture
def exported_program(path):
    model = Exported().eval()
    program = torch.export.export(model, (torch.randn(2, 4),))
    with open(path, "wb") as file:
        torch.export.save(program, file)
    return Expect(weights=model.state_dict(), form="pt2")


@fixture
def package(path):
    with torch.package.PackageExporter(str(path)) as exporter:
        exporter.extern(["torch.**", "collections"])
        exporter.save_pickle("model", "model.pkl", small())
    return Expect(weights=small_again(), form="torch-package")


# ---- numpy and plain pickles ----


def arrays():
    return {"w": np.arange(12, dtype="<f4").reshape(3, 4), "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "big": np.arange(4, dtype=">i4"), "half": np.arange(3, dtype="<f2"),
            "flags": np.array([True, False]), "scalar": np.float32(2.5), "zero_d": np.array(7, dtype="<i8"), "empty": np.empty((0, 3), "<f4"), "bytes": np.arange(200, 250, dtype="u1")}  # fmt: skip


def as_tensors(found):
    """A scalar of numpy is a number, not an array."""
    return {key: torch.from_numpy(np.ascontiguousarray(np.asarray(value)).astype(np.asarray(value).dtype.newbyteorder("="), copy=True)).reshape(np.shape(value)) for key, value in found.items() if isinstance(value, np.ndarray)}  # fmt: skip


@fixtures("012345")
def numpy_pickle(path, name):
    found = arrays()
    path.write_bytes(pickle.dumps(found, int(name)))
    return Expect(weights=as_tensors(found), form="pickle")


@fixtures(["plain", "compressed"])
def npz(path, name):
    found = arrays()
    with open(path, "wb") as file:
        (np.savez if name == "plain" else np.savez_compressed)(file, **found)
    return Expect(weights=as_tensors({key: np.asarray(value) for key, value in found.items()}), form="npz")


@fixture
def npy(path):
    with open(path, "wb") as file:
        np.save(file, np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1))
    return Expect(
        weights={"value": torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4).permute(2, 0, 1)}, form="npy"
    )


@fixture
def arrays_in_torch(path):
    found = arrays()
    torch.save({"state_dict": {"t": torch.ones(2)} | found}, path)
    return Expect(weights={"t": torch.ones(2)} | as_tensors(found), root="state_dict")


@fixtures("2345")
def tensors_in_a_pickle(path, name):
    path.write_bytes(pickle.dumps(small(), int(name)))
    return Expect(weights=small_again(), form="pickle")


@fixture
def module_in_a_pickle(path):
    path.write_bytes(pickle.dumps(model := nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))))
    return Expect(weights=model.state_dict(), form="pickle")


@fixture
def several_pickles(path):
    state = {"w": torch.randn(3)}
    path.write_bytes(pickle.dumps(state) + pickle.dumps({"step": 1}) * 50)
    return Expect(weights=state, form="pickle")


# ---- roots and keys ----

ROOTS = {
    "int_keys": lambda: {0: torch.ones(2), 1: torch.zeros(3)}, "tuple_root": lambda: (torch.ones(2), torch.zeros(3)), "list_root": lambda: [torch.ones(2), {"x": torch.zeros(3)}],
    "nested": lambda: {"a": {"b": {"c": torch.ones(2)}, "d": [torch.zeros(1), torch.ones(1)]}}, "odd_keys": lambda: {"<token>": torch.ones(2), "with space": torch.ones(1), "ü.ß": torch.ones(3)},
    "defaultdict": lambda: collections.defaultdict(list, w=torch.ones(2)), "beside_scalars": lambda: {"w": torch.ones(2), "lr": 0.1, "name": "x", "none": None, "path": [1, 2]},
}  # fmt: skip


@fixtures(ROOTS)
def root(path, name):
    torch.save(ROOTS[name](), path)
    return Expect(root="a" if name == "nested" else "")


@fixture
def bare_tensor(path):
    torch.save(value := torch.randn(3, 4).t(), path)
    return Expect(weights={"value": value})


@fixtures([f"{tool}_{form}" for tool in tools.TOOLS for form in ("zip", "legacy")])
def tool(path, name):
    word, form = name.rsplit("_", 1)
    where, make = tools.TOOLS[word]
    torch.save(make(), path, _use_new_zipfile_serialization=form == "zip")
    return Expect(root=where, form="torch-" + form)


@fixture
def stable_baselines(path):
    inner = io.BytesIO()
    torch.save(state := tools.weights(), inner)
    optimizer = io.BytesIO()
    torch.save({"state": {0: {"exp_avg": torch.ones(200)}}, "param_groups": []}, optimizer)
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("data", "{}")
        bundle.writestr("policy.pth", inner.getvalue())
        bundle.writestr("policy.optimizer.pth", optimizer.getvalue())
        bundle.writestr("_stable_baselines3_version", "2.0.0")
    return Expect(weights=state, form=None)


def saved(state, **named):
    buffer = io.BytesIO()
    torch.save(state, buffer, **named)
    return buffer.getvalue()


@fixture
def gzipped(path):
    path.write_bytes(gzip.compress(saved(state := small())))
    return Expect(weights=state, form=None)


@fixture
def tar_gz(path):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in (("m/config.json", b"{}"), ("m/model.pt", saved(state := small()))):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return Expect(weights=state, form=None)


@fixture
def folder_in_a_zip(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/config.json", "{}")
        archive.writestr("m/pytorch_model.bin", saved(state := tools.weights()))
        archive.writestr("m/training_args.bin", saved({"lr": 0.1}))
    return Expect(weights=state, form=None)


@fixture
def shards_in_a_zip(path):
    state = tools.weights()
    parts = [dict(list(state.items())[:3]), dict(list(state.items())[3:])]
    names = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
    index = {
        "metadata": {"total_size": 1},
        "weight_map": {key: name for name, part in zip(names, parts) for key in part},
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pytorch_model.bin.index.json", json.dumps(index))
        for name, part in zip(names, parts):
            archive.writestr(name, saved(part))
    return Expect(weights=state, form=None)


@fixture
def stable_baselines_2(path):
    found = {"model/pi/w:0": np.arange(6, dtype="<f4").reshape(2, 3), "model/pi/b:0": np.ones(3, "<f4")}
    inner = io.BytesIO()
    np.savez(inner, **found)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("parameter_list", json.dumps(list(found)))
        archive.writestr("parameters", inner.getvalue())
    return Expect(weights=as_tensors(found), form=None, odd="TensorFlow")


# ---- what torch no longer writes ----


@fixture
def tar_01(path):
    state = {"a": numbered((2, 3)), "b": numbered((4,), torch.int64), "t": numbered((3, 2), torch.float64).t()}
    hand.write_tar(path, state)
    return Expect(form="tar")


@fixtures(["zip", "legacy"])
def python_2_strings(path, name):
    state = {"conv.weight": numbered((2, 3)), "bias": numbered((3,), torch.float16)}
    hand.write_python_2(path, state, name == "zip")
    return Expect(form="torch-" + name)


@fixtures(["old_views", "old_rebuild"])
def legacy(path, name):
    state = {"whole": numbered((10,)), "part": numbered((10,))[3:8]}
    hand.write_old_legacy(path, name)
    return Expect(weights=state, form="torch-legacy")


@fixtures(["zip", "legacy"])
def protocol_0(path, name):
    """torch writes its persistent ids as text and cannot read them again."""
    state = {"w": numbered((2, 3)), "i": numbered((4,), torch.int32)}
    hand.write_protocol_0(path, state, name == "zip")
    return Expect(weights=state, form="torch-" + name)


@fixture
def beyond_4_gib(path):
    state = {"w": numbered((5,))}
    hand.write_beyond_4_gib(path, state["w"])
    return Expect(weights=state, root="state_dict")
