"""Every form in which weights arrive, written by torch itself or by hand (fixtures.py): each tensor that the converter delivers equals torch's in
name, dtype, shape and bits, none is missing and none is made up; what is no plain tensor is refused by its own message.

The judge is torch.load(weights_only=False): these files are our own."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch import nn

import ckptd
import fixtures
import fixtures_more  # noqa: F401: it adds to fixtures.FIXTURES


def flatten(value, path=""):
    """The tensors below value by dotted path; a module stands for its state dict."""
    below = path + "." if path else ""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, nn.Module):
        yield from (
            (below + name, tensor) for name, tensor in value.state_dict().items() if isinstance(tensor, torch.Tensor)
        )
    elif isinstance(value, np.ndarray):
        yield path, torch.from_numpy(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{below}{key}")
    elif isinstance(value, (list, tuple)):
        for key, item in enumerate(value):
            yield from flatten(item, f"{below}{key}")


def judge(path, expect):
    if expect.weights is not None:
        return dict(expect.weights)
    value = torch.load(path, weights_only=False)
    for key in filter(None, expect.root.split(".")):
        value = value[key]
    return dict(flatten(value))


class Fixtures(unittest.TestCase):
    maxDiff = None

    def run_binary(self, *arguments):
        process = subprocess.run([str(ckptd.BINARY), *map(str, arguments)], capture_output=True, timeout=120)
        self.assertIn(process.returncode, (0, 1), process.stderr.decode(errors="replace"))
        return process.returncode, process.stdout, process.stderr.decode(errors="replace")

    def analysis(self, path, expect):
        code, out, err = self.run_binary("analyze", path, "--json")
        if not expect.weights and expect.weights is not None:
            self.assertEqual(code, 1, "weights were made up")
            return json.loads(out)
        self.assertEqual(code, 0, err)
        analysis = json.loads(out)
        if expect.form:
            self.assertEqual(analysis["form"], expect.form)
        said = [finding["name"] for finding in analysis["findings"] if finding["class"] in ("dangerous", "structure")]
        self.assertEqual([name for name in said if not expect.odd or expect.odd not in name], [])
        self.assertTrue(said or not expect.odd)
        refused = {
            tensor["path"]
            for tensor in analysis["tensors"]
            if tensor["error"] or tensor["dtype"] in ("complex128", "complex32")
        }
        self.assertLessEqual(set(expect.refused), refused, "what is no plain tensor is not told from the rest")
        return analysis

    def converted(self, path, out, expect):
        options = [word for key, value in expect.options.items() for word in (f"--{key}", value)]
        if expect.refused:
            code, _, err = self.run_binary("convert", path, out, "--to", "safetensors", *options)
            self.assertEqual(code, 1)
            self.assertTrue(any(name in err for name in expect.refused), err)
            options += ["--skip-bad", "true"]
        code, _, err = self.run_binary("convert", path, out, "--to", "safetensors", "--untie", "true", *options)
        self.assertEqual(code, 0, err)
        with safe_open(out, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}

    def check(self, name):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.pt"
            torch.manual_seed(0)
            expect = fixtures.FIXTURES[name](path)
            self.analysis(path, expect)
            if expect.values is not None:
                expect.weights = self.named(
                    expect.values, self.converted(path, Path(folder) / "named.safetensors", expect)
                )
            expected = judge(path, expect)
            if expected:
                self.assertEqual(
                    ckptd.differences(self.converted(path, Path(folder) / "out.safetensors", expect), expected), []
                )

    def named(self, values, written):
        """The values under the names of those written that are equal; others under their number, so that they are missed."""
        found = {}
        for number, value in enumerate(values):
            same = [
                name
                for name, tensor in written.items()
                if name not in found and not ckptd.differences({"": tensor}, {"": value})
            ]
            found[same[0] if same else f"value {number}"] = value
        return found


def add_tests():
    for name in fixtures.FIXTURES:
        setattr(Fixtures, f"test_{name}", lambda self, name=name: self.check(name))


add_tests()

if __name__ == "__main__":
    unittest.main()
