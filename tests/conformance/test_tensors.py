"""Tensors as torch really saves them: views, strides, broadcasts, empty and zero-dimensional ones, every dtype,
special values, shards."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import mlx.core as mx
import torch
from safetensors.torch import load_file
from torch import nn

import ckptd
import zoo
from expected import Expected


class Tensors(unittest.TestCase):
    def convert(self, state, **options):
        with tempfile.TemporaryDirectory() as folder:
            torch.save(state, Path(folder) / "m.pt")
            result = ckptd.convert(Path(folder) / "m.pt", Path(folder) / "out", **options)
            self.assertEqual(result.code, 0, result.stderr)
            mx.load(str(result.files[0]))
            return result.tensors()

    def check(self, state, expected=None, **options):
        said = ckptd.differences(self.convert(state, **options), state if expected is None else expected)
        self.assertEqual(said, [])

    def test_strides_offsets_and_broadcasts_are_honoured(self):
        big = torch.randn(10, 12)
        flat = torch.arange(40.0)
        self.check(
            {
                "a.weight": torch.randn(6, 4).t(),
                "b.weight": big[2:5, ::2],
                "c.weight": big[7:, 3:9],
                "d.bias": torch.randn(1).expand(5),
                "e.weight": torch.randn(3, 1).expand(3, 7),
                "f.weight": flat.as_strided((5, 6), (4, 1), 3),
                "g.weight": flat.as_strided((4, 3), (1, 8), 2),
                "h.bias": big.t()[5],
            }
        )

    def test_views_of_half_precision_storages(self):
        for dtype in [torch.bfloat16, torch.float16]:
            big = torch.randn(9, 14).to(dtype)
            self.check(
                {"a.weight": big.t(), "b.weight": big[1:4, 3:8], "c.bias": big[:, 2], "d.weight": big[::3, 1::5]}
            )

    def test_views_of_one_storage_are_separate_tensors(self):
        big = torch.randn(6, 8)
        self.check({"q.weight": big[:2], "k.weight": big[2:4], "v.weight": big[4:], "whole.weight": big})

    def test_empty_and_zero_dimensional(self):
        self.check(
            {
                "logit_scale": torch.tensor(2.5),
                "half": torch.tensor(-0.125, dtype=torch.bfloat16),
                "count": torch.tensor(3),
                "none": torch.zeros(0),
                "empty.weight": torch.zeros(0, 4),
                "flat.weight": torch.zeros(4, 0, dtype=torch.float16),
                "fc.weight": torch.randn(2, 3),
            }
        )

    def test_one_element_with_odd_strides(self):
        self.check({"a.weight": torch.randn(7, 5).as_strided((1, 1), (99, 77), 34), "b.bias": torch.randn(9)[8:]})

    def test_channels_last_and_permuted_convolutions(self):
        conv = nn.Conv2d(5, 6, 3).to(memory_format=torch.channels_last)
        permuted = nn.Conv2d(4, 6, 3)
        permuted.weight = nn.Parameter(torch.randn(3, 3, 6, 4).permute(2, 3, 0, 1))
        cube = nn.Conv3d(3, 4, 2).to(memory_format=torch.channels_last_3d)
        model = nn.ModuleDict({"conv": conv, "permuted": permuted, "cube": cube})
        assert (
            not conv.weight.is_contiguous() and not permuted.weight.is_contiguous() and not cube.weight.is_contiguous()
        )
        self.check(model.state_dict(), Expected(model).tensors)

    def test_large_convolutions_cross_tiles(self):
        model = nn.ModuleDict(
            {
                "wide": nn.Conv2d(300, 517, 3),
                "deep": nn.Conv1d(1025, 130, 7),
                "up": nn.ConvTranspose2d(260, 123, 4),
                "group": nn.ConvTranspose2d(256, 384, 5, groups=2),
                "large": nn.Conv2d(3, 8, 301),
                "fc": nn.Linear(2000, 700),
            }
        ).bfloat16()
        self.check(model.state_dict(), Expected(model).tensors)

    def test_every_dtype_that_mlx_holds(self):
        state = {"fc.weight": torch.randn(3, 3)}
        for dtype in [
            torch.uint8,
            torch.int8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.uint16,
            torch.uint32,
            torch.uint64,
        ]:
            state[str(dtype).replace("torch.", "b_")] = torch.randint(0, 100, (3, 5)).to(dtype)
        state["b_bool"] = torch.rand(4, 4) > 0.5
        state["b_complex"] = torch.randn(3, 2, dtype=torch.complex64)
        self.check(state)

    def test_types_that_mlx_cannot_hold_are_refused_by_name(self):
        for dtype in [torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]:
            value = torch.randn(3, 3).to(dtype)
            with tempfile.TemporaryDirectory() as folder:
                torch.save({"fc.weight": torch.randn(3, 3), "odd_one": value}, Path(folder) / "m.pt")
                result = ckptd.convert(Path(folder) / "m.pt", Path(folder) / "out")
                self.assertNotEqual(result.code, 0, str(dtype))
                self.assertIn("odd_one", result.stderr)

    def test_special_values_keep_their_bits(self):
        for dtype, integer in [
            (torch.float32, torch.int32),
            (torch.float16, torch.int16),
            (torch.bfloat16, torch.int16),
        ]:
            info = torch.iinfo(integer)
            patterns = torch.randint(info.min, info.max, (64, 33), dtype=integer)
            self.check({"fc.weight": patterns.view(dtype)})

    def test_float64_becomes_float32_as_torch_does(self):
        values = torch.cat([torch.randn(5000).double() * 10.0**e for e in [-46, -40, -3, 0, 5, 38]])
        values = torch.cat(
            [values, torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 1e300, -1e300, 3.4028235677973366e38])]
        )
        self.check({"numbers": values}, {"numbers": values.float()})

    def test_the_dtype_option_rounds_as_torch_does(self):
        base = torch.cat(
            [torch.randn(5000) * 10.0**e for e in [-39, -8, -6, -3, 0, 4]]
            + [torch.tensor([0.0, -0.0, 65519.0, 65520.0, 1e38])]
        )
        for word, dtype in [("float16", torch.float16), ("bfloat16", torch.bfloat16), ("float32", torch.float32)]:
            for source in [torch.float32, torch.float64, torch.bfloat16, torch.float16]:
                state = {"numbers": base.to(source), "indices": torch.arange(5)}
                expected = {"numbers": state["numbers"].to(dtype), "indices": state["indices"]}
                self.check(state, expected, dtype=word)

    def test_shards_and_their_index(self):
        model = zoo.build("resnet18")
        limit = 200_000
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), Path(folder) / "m.pt")
            result = ckptd.convert(Path(folder) / "m.pt", Path(folder) / "out", max_shard_size=limit)
            self.assertEqual(result.code, 0, result.stderr)
            expected = Expected(model).tensors
            self.assertEqual(ckptd.differences(result.tensors(), expected), [])
            n = len(result.files)
            self.assertGreater(n, 3)
            self.assertEqual(
                [p.name for p in result.files], [f"model-{i + 1:05}-of-{n:05}.safetensors" for i in range(n)]
            )
            index = json.loads((result.folder / "model.safetensors.index.json").read_text())
            self.assertEqual(set(index["weight_map"]), set(expected))
            self.assertEqual(index["metadata"]["total_size"], sum(t.nbytes for t in expected.values()))
            for path in result.files:
                self.assertEqual({k for k, v in index["weight_map"].items() if v == path.name}, set(mx.load(str(path))))

    def test_the_faithful_target_changes_nothing(self):
        for name in ["resnet18", "gpt2", "text_encoder", "awkward_names"]:
            state = zoo.build(name).state_dict()
            with tempfile.TemporaryDirectory() as folder:
                torch.save(state, Path(folder) / "m.pt")
                out = Path(folder) / "m.safetensors"
                command = [str(ckptd.BINARY), "convert", str(Path(folder) / "m.pt"), str(out), "--to", "safetensors"]
                process = subprocess.run(command, stderr=subprocess.PIPE, timeout=120)
                self.assertEqual(process.returncode, 0, process.stderr)
                tied = {"lm_head.weight"} if name == "gpt2" else set()
                expected = {key: value for key, value in state.items() if key not in tied}
                found = {key: value for key, value in load_file(out).items() if key not in tied}
                self.assertEqual(ckptd.differences(found, expected), [])

    def test_the_same_input_gives_the_same_bytes(self):
        model = zoo.build("resnet18")
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for i in range(2):
                torch.save(model.state_dict(), Path(folder) / f"m{i}.pt")
                result = ckptd.convert(Path(folder) / f"m{i}.pt", Path(folder) / f"out{i}", quant="q4-g32")
                self.assertEqual(result.code, 0, result.stderr)
                files.append({p.name: p.read_bytes() for p in result.folder.iterdir() if p.suffix == ".safetensors"})
            self.assertEqual(files[0], files[1])
