"""The target safetensors: the state dict as it is. safetensors' own reader opens the file, and every tensor equals torch's, name by name and
bit for bit; a tied tensor stands once, and the metadata leads from its other names to it."""

import tempfile
import unittest
from pathlib import Path

from safetensors import safe_open

import ckptd
import zoo


class Faithful(unittest.TestCase):
    def check(self, name, dtype, form):
        model = zoo.build(name, dtype)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "model.pt"
            zoo.FORMS[form](model, source)
            result = ckptd.convert(source, Path(folder) / "out", to="safetensors")
            self.assertEqual(result.code, 0, result.stderr)
            with safe_open(result.files[0], "pt") as file:
                metadata = file.metadata()
                written = {key: file.get_tensor(key) for key in file.keys()}
            self.assertEqual(metadata["format"], "pt")
            expected = model.state_dict()
            for key in expected:
                kept = key if key in written else metadata[key]
                self.assertEqual(written[kept].dtype, expected[key].dtype, key)
                self.assertEqual(written[kept].shape, expected[key].shape, key)
                self.assertEqual(ckptd.bits(written[kept]), ckptd.bits(expected[key]), key)
            self.assertEqual(set(written) - set(expected), set())


def add_tests():
    for number, name in enumerate(zoo.ZOO):
        dtype = list(zoo.DTYPES)[number % len(zoo.DTYPES)]
        for form in ("state_dict", "whole"):

            def test(self, name=name, dtype=dtype, form=form):
                self.check(name, dtype, form)

            setattr(Faithful, f"test_{name}__{form}__{dtype}", test)


add_tests()
