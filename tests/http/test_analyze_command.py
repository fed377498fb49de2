"""ckptd analyze and ckptd convert --dry-run: documents on the standard output, and nothing anywhere else."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import BINARY, floats, linear_model, torch_zip

SQUARE = torch_zip({"up.weight": ("float32", (4, 4, 3, 3), floats(144))})


class AnalyzeCommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_command(self, data, command, *arguments):
        (self.folder / "model.pt").write_bytes(data)
        done = subprocess.run([BINARY, command, "model.pt", *arguments], cwd=self.folder, capture_output=True, timeout=60)
        self.assertEqual(["model.pt"], os.listdir(self.folder))
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_a_person_reads_question_and_answer_without_colours_in_a_pipe(self):
        status, out, err = self.run_command(SQUARE, "analyze")
        self.assertEqual((0, ""), (status, err))
        self.assertIn("'up.weight' [4, 4, 3, 3] may be", out)
        self.assertIn("--layers=up:Conv2d", out)
        self.assertIn("can be converted: 1 of 1 tensors, 576 of 576 bytes", out)
        self.assertNotIn("\033", out)

    def test_the_answer_that_is_offered_is_taken(self):
        self.assertIn("can be converted: 1 of 1 layers", self.run_command(SQUARE, "analyze", "--layers=up:Conv2d")[1])

    def test_json_is_the_analysis(self):
        status, out, err = self.run_command(linear_model(), "analyze", "--json")
        analysis = json.loads(out)
        self.assertEqual((0, ""), (status, err))
        self.assertEqual(["mlx", "safetensors"], list(analysis["targets"]))
        self.assertEqual(analysis["totals"]["tensors"], len(analysis["tensors"]))
        self.assertNotIn("tensors", json.loads(self.run_command(linear_model(), "analyze", "--json", "--tensors=false")[1]))

    def test_names_with_control_characters_do_not_reach_the_terminal(self):
        hostile = torch_zip({"up\033]0;x\007\u009b.weight": ("float32", (4, 4, 3, 3), floats(144))})
        out = self.run_command(hostile, "analyze")[1]
        self.assertIn("up?]0;x??.weight", out)
        self.assertFalse([c for c in out if c != "\n" and (c < " " or "\x7f" <= c < "\xa0")])

    def test_a_refused_file_is_exit_status_1_and_a_wrong_option_2(self):
        status, out, err = self.run_command(b"hello, world", "analyze")
        self.assertEqual((1, ""), (status, out))
        self.assertIn("not_a_checkpoint", err)
        self.assertEqual("refused", json.loads(self.run_command(b"hello, world", "analyze", "--json")[1])["status"])
        self.assertEqual(2, self.run_command(SQUARE, "analyze", "--assume=perhaps")[0])
        self.assertEqual(2, self.run_command(SQUARE, "analyze", "another.pt")[0])

    def test_a_dry_run_prints_the_plan_and_writes_nothing(self):
        status, out, err = self.run_command(linear_model(), "convert", "--dry-run", "--to", "mlx", "--quant", "q4")
        plan = json.loads(out)
        self.assertEqual((0, "", "planned"), (status, err, plan["status"]))
        self.assertEqual("model.safetensors", plan["files"][0]["name"])

    def test_a_plan_that_refuses_is_printed_too(self):
        status, out, err = self.run_command(SQUARE, "convert", "--dry-run", "--to", "mlx")
        self.assertEqual((0, "", "refused"), (status, err, json.loads(out)["status"]))

    def test_a_dry_run_takes_no_output_and_a_conversion_needs_one(self):
        self.assertEqual(2, self.run_command(SQUARE, "convert", "out", "--dry-run", "--to", "mlx")[0])
        self.assertEqual(2, self.run_command(SQUARE, "convert", "--to", "mlx")[0])


if __name__ == "__main__":
    unittest.main()
