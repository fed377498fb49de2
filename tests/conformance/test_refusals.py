"""What must not be guessed is refused by its code, and the option that answers the question makes it right."""

import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

import ckptd
import zoo
from expected import Expected


class Refusals(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder, self.conversions = Path(temporary.name), 0

    def convert(self, state, **options):
        self.conversions += 1
        torch.save(state, self.folder / "m.pt")
        return ckptd.convert(self.folder / "m.pt", self.folder / f"out{self.conversions}", **options)

    def refused(self, state, code, **options):
        result = self.convert(state, **options)
        self.assertNotEqual(result.code, 0, "it was converted")
        self.assertIn(code, result.stderr)
        self.assertFalse(list(result.folder.glob("*.safetensors")), "a refused job left weights behind")
        return result

    def converted(self, state, expected, **options):
        result = self.convert(state, **options)
        self.assertEqual(result.code, 0, result.stderr)
        said = ckptd.differences(result.tensors(), expected)
        self.assertEqual(said, [])

    def test_lone_square_transposed_convolutions_are_asked_about(self):
        for name in ["up", "deconv", "0", "upsample", "conv_transpose", "decoder.conv"]:
            for bias in [False, True]:
                with self.subTest(name=name, bias=bias):
                    layer = nn.ConvTranspose2d(3, 3, 3, bias=bias)
                    state = {f"{name}.{key}": value for key, value in layer.state_dict().items()}
                    result = self.refused(state, "ambiguous_layout")
                    self.assertIn(f"{name}.weight", result.stderr + str(result.report))

    def test_a_lone_kernel_without_evidence_is_asked_about(self):
        self.refused({"up.weight": torch.randn(8, 4, 3, 3)}, "ambiguous_layout")
        self.refused({"0.weight": torch.randn(8, 4, 3)}, "ambiguous_layout")

    def test_square_transposed_model_as_state_dict(self):
        self.refused(zoo.build("square_transposed").state_dict(), "ambiguous_layout")

    def test_layers_answers_the_question_both_ways(self):
        up, down = nn.ConvTranspose2d(3, 3, 3), nn.Conv2d(3, 3, 3)
        for layer, word in [(up, "ConvTranspose2d"), (down, "Conv2d")]:
            model = nn.ModuleDict({"up": layer})
            self.converted(model.state_dict(), Expected(model).tensors, layers=f"up:{word}")

    def test_layers_takes_globs(self):
        model = nn.ModuleDict(
            {"up1": nn.ConvTranspose1d(4, 4, 4), "up2": nn.ConvTranspose1d(4, 4, 4), "net": nn.Linear(4, 4)}
        )
        self.converted(model.state_dict(), Expected(model).tensors, layers="up*:ConvTranspose1d")

    def test_rules_answer_for_single_tensors(self):
        model = nn.ModuleDict({"up": nn.ConvTranspose2d(3, 3, 3)})
        self.converted(model.state_dict(), Expected(model).tensors, rules="up.weight:conv_transpose2d")
        state = {"odd.weight": torch.randn(3, 3, 3, 3)}
        self.converted(state, state, rules="odd.weight:identity")
        kept = {"fc.weight": torch.randn(4, 3)}
        self.converted(state | kept, kept, rules="odd.*:drop")

    def test_assume_never_refuses_what_is_only_assumed(self):
        state = zoo.build("square_convs").state_dict()
        self.refused(state, "assumption_refused", assume="never")
        whole = zoo.build("square_convs")
        torch.save(whole, self.folder / "whole.pt")
        result = ckptd.convert(self.folder / "whole.pt", self.folder / "known", assume="never")
        self.assertEqual(result.code, 0, result.stderr)

    def test_running_statistics_of_an_instance_norm_are_refused(self):
        """MLX's InstanceNorm takes those of the instance, torch's in eval mode the running ones: other values, silently."""
        model = nn.ModuleDict({"norm": nn.InstanceNorm2d(4, affine=True, track_running_stats=True)})
        torch.save(model, self.folder / "whole.pt")
        result = ckptd.convert(self.folder / "whole.pt", self.folder / "out")
        self.assertNotEqual(result.code, 0)
        self.assertIn("unsupported_layer", result.stderr)

    def test_derived_layers_pass_assume_never(self):
        model = zoo.build("resnet18")
        self.converted(model.state_dict(), Expected(model).tensors, assume="never")

    def test_assumed_layers_are_listed(self):
        result = self.convert(zoo.build("square_convs").state_dict())
        self.assertEqual(result.code, 0, result.stderr)
        kinds = {tensor["out"]: tensor["evidence"]["kind"] for tensor in result.report["tensors"]}
        self.assertEqual((kinds["conv1d.weight"], kinds["conv2d.weight"]), ("assumed", "assumed"))
        self.assertEqual(result.report["summary"]["assumed"], 2)

    def test_a_converted_file_is_not_converted_again(self):
        model = zoo.build("mnist_cnn")
        result = self.convert(model.state_dict())
        self.assertEqual(result.code, 0, result.stderr)
        again = ckptd.convert(result.files[0], self.folder / "again")
        self.assertNotEqual(again.code, 0)
        self.assertIn("already_converted", again.stderr)

    def test_input_layout_mlx_keeps_a_converted_file(self):
        model = zoo.build("mnist_cnn")
        result = self.convert(model.state_dict())
        kept = ckptd.convert(result.files[0], self.folder / "kept", input_layout="mlx")
        self.assertEqual(kept.code, 0, kept.stderr)
        self.assertEqual(ckptd.differences(kept.tensors(), Expected(model).tensors), [])

    def test_two_sets_of_weights_are_asked_about(self):
        model = zoo.build("mnist_cnn")
        other = zoo.build("mnist_cnn", "f16")
        state = {"generator": model.state_dict(), "discriminator": other.state_dict()}
        self.refused(state, "ambiguous_state_dict")
        self.converted(state, Expected(other).tensors, state_dict="discriminator")

    def test_wrong_words_are_refused(self):
        state = {"fc.weight": torch.randn(3, 3)}
        self.refused(state, "unsupported_quant", quant="q7")
        self.refused(state, "bad_option", assume="sometimes")
        self.refused(state, "bad_rule", layers="fc:Conv2d")

    def test_no_tensors(self):
        self.refused({}, "no_tensors")
