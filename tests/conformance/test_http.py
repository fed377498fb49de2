"""The daemon's one-command route, with real curl, gives the same bytes as the command line."""

import json
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
import zipfile
from pathlib import Path

import torch

import ckptd
import zoo


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    """A daemon with a data folder of its own, on a free loopback port, ready to answer."""

    def __init__(self, data, *options):
        self.host = f"127.0.0.1:{free_port()}"
        self.log = open(Path(data) / "log", "wb")
        command = [str(ckptd.BINARY), "serve", "--listen", self.host, "--data", str(Path(data) / "data"), *options]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://{self.host}/readyz", timeout=2).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        self.stop()
        raise RuntimeError("the daemon did not start: " + (Path(data) / "log").read_text(errors="replace"))

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)
        self.log.close()


class Http(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.daemon = Daemon(self.folder)
        self.addCleanup(self.daemon.stop)

    def curl(self, *arguments):
        return subprocess.run(
            ["curl", "-sS", *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120
        )

    def round_trip(self, path, zip_name, **options):
        torch.save(zoo.build("resnet18").state_dict(), self.folder / "net.pt")
        answer = self.curl("-fOJT", "net.pt", f"http://{self.daemon.host}/v1/convert/mlx/{path}")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        result = ckptd.convert(self.folder / "net.pt", self.folder / "cli", **options)
        self.assertEqual(result.code, 0, result.stderr)
        with zipfile.ZipFile(self.folder / zip_name) as z:
            self.assertIsNone(z.testzip())
            stem = zip_name[: -len(".zip")]
            self.assertEqual(sorted(z.namelist()), [f"{stem}/model.safetensors", f"{stem}/report.json"])
            self.assertEqual(z.read(f"{stem}/model.safetensors"), result.files[0].read_bytes())
            json.loads(z.read(f"{stem}/report.json"))

    def test_curl_gets_what_the_command_line_writes(self):
        self.round_trip("", "net.mlx.zip")

    def test_curl_gets_the_quantized_one(self):
        self.round_trip("q4-g32/", "net.mlx-q4-g32.zip", quant="q4-g32")

    def test_a_refusal_comes_as_a_problem_document(self):
        torch.save({"up.weight": torch.randn(3, 3, 3, 3)}, self.folder / "up.pt")
        answer = self.curl(
            "-w", "%{http_code}", "-o", "problem.json", "-T", "up.pt", f"http://{self.daemon.host}/v1/convert/mlx/"
        )
        self.assertEqual(answer.stdout, b"422")
        problem = json.loads((self.folder / "problem.json").read_text())
        self.assertEqual(problem["code"], "ambiguous_layout")
        self.assertIn("up.weight", json.dumps(problem))

    def test_the_query_answers_the_question(self):
        layer = torch.nn.ModuleDict({"up": torch.nn.ConvTranspose2d(3, 3, 3)})
        torch.save(layer.state_dict(), self.folder / "up.pt")
        url = f"http://{self.daemon.host}/v1/convert/mlx/up.pt?layers=up:ConvTranspose2d"
        answer = self.curl("-fOJT", "up.pt", url)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        with zipfile.ZipFile(self.folder / "up.mlx.zip") as z:
            z.extractall(self.folder)
        found = ckptd.Result(self.folder / "up.mlx", subprocess.CompletedProcess([], 0, b"", b"")).tensors()
        expected = {"up.weight": layer["up"].weight.detach().permute(1, 2, 3, 0), "up.bias": layer["up"].bias.detach()}
        self.assertEqual(ckptd.differences(found, expected), [])
