"""Runs the binary and reads what it wrote."""

import json
import os
import subprocess
from pathlib import Path

import torch
from safetensors import safe_open

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = REPOSITORY / os.environ.get("CKPTD_BUILD", "build") / "ckptd"


class Result:
    """One conversion: code and stderr of the process, report.json and the tensors of the output folder."""

    def __init__(self, folder, process):
        self.folder, self.code, self.stderr = Path(folder), process.returncode, process.stderr.decode(errors="replace")

    @property
    def report(self):
        return json.loads((self.folder / "report.json").read_text())

    @property
    def files(self):
        """Paths of the weights files, in the order of their names."""
        return sorted(self.folder.glob("*.safetensors"))

    def metadata(self):
        with safe_open(self.files[0], framework="pt") as f:
            return f.metadata()

    def tensors(self):
        found = {}
        for path in self.files:
            with safe_open(path, framework="pt") as f:
                for name in f.keys():
                    assert name not in found, f"{name} is in two shards"
                    found[name] = f.get_tensor(name)
        return found


def convert(source, out, *options, **named):
    """ckptd convert SOURCE OUT --to mlx; named options: quant="q4", layers="up:Conv2d", state_dict="model" ..."""
    command = [str(BINARY), "convert", str(source), str(out), "--to", "mlx", *options]
    for name, value in named.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return Result(out, process)


def bits(tensor):
    """The tensor's bytes in row-major order."""
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    flat.copy_(tensor.detach().reshape(-1))
    return flat.view(torch.uint8).numpy().tobytes()


def differences(actual, expected):
    """Sentences about every tensor of two dicts that is not the same in name, dtype, shape and bytes."""
    said = [f"{name} is missing" for name in expected if name not in actual]
    said += [f"{name} is too much" for name in actual if name not in expected]
    for name in expected:
        if name not in actual:
            continue
        a, e = actual[name], expected[name]
        if a.dtype != e.dtype:
            said.append(f"{name} is {a.dtype}, not {e.dtype}")
        elif a.shape != e.shape:
            said.append(f"{name} has shape {list(a.shape)}, not {list(e.shape)}")
        elif bits(a) != bits(e):
            said.append(f"{name} {list(e.shape)} has other values")
    return said
