"""ckptd convert, the command: what a person at a terminal meets."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import BINARY, floats, linear_model, torch_zip

SQUARE = torch_zip({"up.weight": ("float32", (4, 4, 3, 3), floats(144))})


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def convert(self, data, *arguments, out="out", to="mlx"):
        path = self.folder / "model.pt"
        if data is not None:
            path.write_bytes(data)
        command = [BINARY, "convert", path, self.folder / out, "--to", to, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def test_a_folder_with_weights_and_report(self):
        done = self.convert(linear_model())
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(["model.safetensors", "report.json"], sorted(os.listdir(self.folder / "out")))
        self.assertEqual("written", json.loads((self.folder / "out/report.json").read_text())["status"])

    def test_it_works_without_standard_streams(self):
        """The first files that are opened had their numbers, and got what is printed."""
        (self.folder / "model.pt").write_bytes(linear_model())
        command = f'exec "{BINARY}" convert model.pt out --to mlx <&- >&- 2>&-'
        self.assertEqual(0, subprocess.run(["sh", "-c", command], cwd=self.folder, timeout=60).returncode)
        self.assertEqual(["model.pt", "out"], sorted(os.listdir(self.folder)))

    def test_a_refusal_leaves_its_report_and_the_answer_may_replace_it(self):
        refused = self.convert(SQUARE)
        self.assertEqual(1, refused.returncode)
        self.assertIn("ambiguous_layout", refused.stderr)
        self.assertEqual(["report.json"], os.listdir(self.folder / "out"))
        self.assertEqual(0, self.convert(SQUARE, "--layers", "up:ConvTranspose2d").returncode)

    def test_nothing_else_is_overwritten(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/mine").write_text("mine")
        (self.folder / "out/report.json").write_text('{"status":"refused"')
        again = self.convert(linear_model())
        self.assertEqual(1, again.returncode)
        self.assertIn("exists already", again.stderr)
        self.assertEqual(["mine", "report.json"], sorted(os.listdir(self.folder / "out")))
        self.assertEqual(["model.pt", "out"], sorted(os.listdir(self.folder)))

    def test_a_missing_file_is_called_missing(self):
        self.assertIn("No such file", self.convert(None).stderr)

    def test_a_faithful_copy_may_be_one_file(self):
        self.assertEqual(0, self.convert(linear_model(), out="copy.safetensors", to="safetensors").returncode)
        self.assertTrue((self.folder / "copy.safetensors").is_file())

    def test_a_faithful_copy_drops_what_it_is_told_to_and_moves_nothing(self):
        done = self.convert(SQUARE, "--rules", "up.*:drop", to="safetensors")
        self.assertIn("no_tensors", done.stderr)
        done = self.convert(SQUARE, "--rules", "up.weight:conv2d", out="other", to="safetensors")
        self.assertIn("bad_rule", done.stderr)

    def test_wrong_arguments_end_with_two(self):
        self.assertEqual(2, self.convert(linear_model(), "--quant", "q7").returncode)
        self.assertEqual(2, self.convert(linear_model(), "--no-such-option").returncode)


if __name__ == "__main__":
    unittest.main()
