"""mx.quantize on the CPU against ckptd --quant: packed weights, scales and biases bit for bit; and which tensors are
quantized at all."""

import itertools
import tempfile
import unittest
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import ckptd
import zoo
from expected import Expected

BITS, GROUPS, DTYPES = [2, 3, 4, 5, 6, 8], [32, 64, 128], ["f32", "f16", "bf16"]


def hard_rows(columns):
    """Rows that meet every branch of the affine rule: ordinary, tiny, huge, constant, zero, one-sided, outliers,
    exact half steps."""
    n = torch.randn
    rows = [n(columns), n(columns) * 0.02, n(columns) * 1e-7, n(columns) * 3e4, n(columns).abs(), -n(columns).abs() - 1]
    rows += [torch.zeros(columns), -torch.zeros(columns), torch.full((columns,), 0.3), torch.full((columns,), -2.0)]
    rows += [torch.arange(columns) % 16 - 7.5, torch.arange(columns) % 7 * 0.5, torch.arange(columns) / columns]
    outlier = n(columns) * 0.01
    outlier[5], outlier[70] = 40.0, -40.0
    return torch.stack([row.float() for row in rows] + [outlier])


def mlx_bits(array):
    return np.array(mx.contiguous(array).reshape(-1).view(mx.uint8)).tobytes()


class MlxJudge:
    """The tensors of a file that torch's safetensors wrote, as MLX reads and quantizes them."""

    def __init__(self, tensors, folder):
        path = Path(folder) / "judge.safetensors"
        save_file({name: t.contiguous().clone() for name, t in tensors.items()}, path)
        self.arrays = mx.load(str(path))

    def expected(self, weights, bits, group):
        out = {}
        for name, array in self.arrays.items():
            if name in weights and array.shape[-1] % group == 0:
                base = name[: -len("weight")]
                parts = mx.quantize(array, group_size=group, bits=bits, stream=mx.cpu)
                out |= dict(zip([name, base + "scales", base + "biases"], parts))
            else:
                out[name] = array
        return out


def mlx_differences(actual, expected):
    said = [f"{name} is missing" for name in expected if name not in actual]
    said += [f"{name} is too much" for name in actual if name not in expected]
    for name in set(expected) & set(actual):
        a, e = actual[name], expected[name]
        if (a.dtype, a.shape) != (e.dtype, e.shape):
            said.append(f"{name} is {a.dtype} {a.shape}, not {e.dtype} {e.shape}")
        elif mlx_bits(a) != mlx_bits(e):
            said.append(f"{name} has other values")
    return said


class Two(nn.Module):
    """A Linear, an Embedding and what is never quantized: a width that no group divides, a convolution, norms, a bare
    table."""

    def __init__(self):
        super().__init__()
        self.fc, self.embed = nn.Linear(256, 14), nn.Embedding(14, 128)
        self.odd, self.conv, self.norm = nn.Linear(100, 6), nn.Conv2d(32, 8, 3), nn.LayerNorm((4, 128))
        self.table = nn.Parameter(torch.randn(3, 128))
        with torch.no_grad():
            self.fc.weight.copy_(hard_rows(256))
            self.embed.weight.copy_(hard_rows(128))


class Quantize(unittest.TestCase):
    def convert(self, model, save, folder, **options):
        source = Path(folder) / "model.pt"
        save(model, source)
        result = ckptd.convert(source, Path(folder) / "out", **options)
        self.assertEqual(result.code, 0, result.stderr)
        return result

    def check(self, model, save, bits, group, quant=None, **options):
        with tempfile.TemporaryDirectory() as folder:
            result = self.convert(model, save, folder, quant=quant or f"q{bits}-g{group}", **options)
            expected = Expected(model)
            wanted = MlxJudge(expected.tensors, folder).expected(expected.weights, bits, group)
            said = mlx_differences(mx.load(str(result.files[0])), wanted)
            self.assertEqual(said, [])
            return result

    def test_q4_means_groups_of_64(self):
        torch.manual_seed(1)
        self.check(Two(), zoo.save_whole, 4, 64, quant="q4")

    def test_float64_is_quantized_as_float32(self):
        torch.manual_seed(2)
        self.check(Two().double(), zoo.save_state_dict, 4, 64)

    def test_a_cast_comes_before_the_quantization(self):
        torch.manual_seed(3)
        model = Two()
        with tempfile.TemporaryDirectory() as folder:
            result = self.convert(model, zoo.save_whole, folder, quant="q4", dtype="bfloat16")
            expected = Expected(model.bfloat16())
            wanted = MlxJudge(expected.tensors, folder).expected(expected.weights, 4, 64)
            self.assertEqual(mlx_differences(mx.load(str(result.files[0])), wanted), [])

    def test_strided_weights_are_quantized_by_rows_of_their_shape(self):
        torch.manual_seed(4)
        base = torch.randn(128, 40)
        state = {
            "fc.weight": base.t(),
            "embed.weight": torch.randn(20, 256)[:, ::2],
            "wide.weight": torch.randn(1, 64).expand(5, 64),
        }
        with tempfile.TemporaryDirectory() as folder:
            torch.save(state, Path(folder) / "m.pt")
            result = ckptd.convert(Path(folder) / "m.pt", Path(folder) / "out", quant="q4")
            self.assertEqual(result.code, 0, result.stderr)
            wanted = MlxJudge(state, folder).expected(set(state), 4, 64)
            self.assertEqual(mlx_differences(mx.load(str(result.files[0])), wanted), [])

    def test_left_alone_tensors_stand_in_the_report(self):
        torch.manual_seed(5)
        with tempfile.TemporaryDirectory() as folder:
            report = self.convert(Two(), zoo.save_whole, folder, quant="q4").report
        reasons = {tensor["out"]: tensor.get("left_alone") for tensor in report["tensors"]}
        for name in ["odd.weight", "conv.weight", "norm.weight", "table"]:
            self.assertTrue(reasons[name], name)
        self.assertIsNone(reasons["fc.weight"])
        self.assertEqual(report["summary"]["quantized"], 2)

    def test_tied_weights_are_quantized_once(self):
        with tempfile.TemporaryDirectory() as folder:
            result = self.convert(zoo.build("tied"), zoo.save_state_dict, folder, quant="q4-g32")
            names = {"embed.weight", "embed.scales", "embed.biases", "norm.weight", "norm.bias"}
            self.assertEqual(set(mx.load(str(result.files[0]))), names)


def add_tests():
    forms = {"state_dict": zoo.save_state_dict, "whole": zoo.save_whole}
    for bits, group, dtype, form in itertools.product(BITS, GROUPS, DTYPES, forms):

        def test(self, bits=bits, group=group, dtype=dtype, form=form):
            torch.manual_seed(bits * 1000 + group)
            self.check(Two().to(zoo.DTYPES[dtype]), forms[form], bits, group)

        setattr(Quantize, f"test_q{bits}_g{group}__{dtype}__{form}", test)
    for name in [
        "vit_torchvision",
        "text_encoder",
        "nanogpt",
        "gpt2",
        "gpt2_bare",
        "bert",
        "llama",
        "whisper",
        "clip",
        "t5",
        "norms",
        "bare_parameters",
        "policy",
        "swin",
        "attention",
        "mnist_cnn",
        "convnext",
    ]:
        for form in forms:

            def test(self, name=name, form=form):
                self.check(zoo.build(name), forms[form], 4, 32)

            setattr(Quantize, f"test_{name}__{form}", test)


add_tests()
