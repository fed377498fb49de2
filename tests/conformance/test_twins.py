"""Real MLX loads the file strictly into a hand-written mlx.nn twin, and the twin computes what torch computes."""

import tempfile
import unittest
from pathlib import Path

import mlx.core as mx
import mlx.nn as mlx_nn
from mlx.utils import tree_flatten

import ckptd
import twins
import zoo

TOLERANCE = 1e-5


class Twins(unittest.TestCase):
    def check(self, name, form):
        model, entry = zoo.build(name), zoo.ZOO[name]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "model.pt"
            zoo.FORMS[form](model, source)
            options = {"layers": entry.layers} if entry.layers and form not in zoo.TYPED else {}
            result = ckptd.convert(source, Path(folder) / "out", **options)
            self.assertEqual(result.code, 0, result.stderr)
            difference = twins.compare(name, model, str(result.files[0]))
            self.assertLess(difference, TOLERANCE)

    def check_quantized(self, name, quant, bits, group):
        """ckptd --quant against mlx.nn.quantize of the unquantized twin: same names, same bytes."""
        model = zoo.build(name)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "model.pt"
            zoo.save_whole(model, source)
            plain = ckptd.convert(source, Path(folder) / "plain")
            self.assertEqual(plain.code, 0, plain.stderr)
            result = ckptd.convert(source, Path(folder) / "out", quant=quant)
            self.assertEqual(result.code, 0, result.stderr)
            twin = twins.TWINS[name].make()
            twin.load_weights(str(plain.files[0]), strict=True)
            mlx_nn.quantize(
                twin,
                group,
                bits,
                class_predicate=lambda _, m: hasattr(m, "to_quantized") and m.weight.shape[-1] % group == 0,
            )
            expected, actual = dict(tree_flatten(twin.parameters())), mx.load(str(result.files[0]))
            self.assertEqual(set(actual), set(expected))
            for key in expected:
                self.assertEqual(actual[key].dtype, expected[key].dtype, key)
                self.assertTrue(
                    bytes(memoryview(actual[key])) == bytes(memoryview(expected[key])), f"{key} has other values"
                )
            twin.load_weights(str(result.files[0]), strict=True)


def add_tests():
    for name in twins.TWINS:
        for form in ["state_dict", "whole"]:

            def test(self, name=name, form=form):
                self.check(name, form)

            setattr(Twins, f"test_{name}__{form}", test)
    for name in ["mnist_cnn", "text_encoder", "tied", "gpt2", "root_mlp"]:
        for quant, bits, group in [("q4-g32", 4, 32), ("q8-g64", 8, 64)]:

            def test(self, name=name, quant=quant, bits=bits, group=group):
                self.check_quantized(name, quant, bits, group)

            setattr(Twins, f"test_{name}__{quant}", test)


add_tests()
