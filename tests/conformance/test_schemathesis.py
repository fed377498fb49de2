"""openapi.yaml against the daemon: Schemathesis makes requests of it, right and wrong ones, and judges every answer by it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import openapi_spec_validator
import yaml

import ckptd

sys.path.insert(0, str(ckptd.REPOSITORY / "tests" / "http"))

import support

HERE = pathlib.Path(__file__).resolve().parent
# Small bounds are reached; a wait must not take the time of the run.
FLAGS = ("--max-upload", "256K", "--max-json", "64K", "--max-sync-wait", "10", "--max-wait", "1", "--access-log", "errors")
SECONDS = 600
# CPython 3.11 cannot parse Python in two threads at the same time ("AST constructor recursion depth mismatch"), and Hypothesis does.
WORKERS = "1" if sys.version_info < (3, 12) else "2"


def post(daemon, spec, prefer="wait=1"):
    return json.loads(daemon.request("POST", "/v1/jobs", json.dumps(spec), {"Prefer": prefer})[2])


def known_things(daemon):
    """Ids and digests of what is there, so that requests do not all end with 404."""
    digests = [json.loads(daemon.request("PUT", "/v1/blobs/m.pt", model)[2])["digest"]
               for model in (support.linear_model(), support.torch_zip({"up.weight": ("float32", (3, 3, 3, 3), support.floats(81))}))]
    jobs = [post(daemon, {"to": "mlx", "inputs": [{"digest": digest, "name": "m.pt"}]}) for digest in digests]
    jobs.append(post(daemon, {"kind": "analyze", "inputs": [{"digest": digests[0]}]}))
    assert [job["state"] for job in jobs] == ["succeeded", "failed", "succeeded"], jobs
    return [job["id"] for job in jobs], digests


def dictionaries(jobs, digests):
    return f"""
[dictionaries.jobs]
values = {json.dumps(jobs)}

[dictionaries.digests]
values = {json.dumps(digests)}

[dictionaries.names]
values = ["report.json", "model.safetensors"]

[[operations]]
include-tag = ["jobs", "results"]
exclude-operation-id = ["deleteJob"]
parameters."path.id" = {{ dictionary = "jobs", probability = 0.7 }}

[[operations]]
include-operation-id = "getResult"
parameters."path.name" = {{ dictionary = "names", probability = 0.7 }}

[[operations]]
include-operation-id = "getBlob"
parameters."path.digest" = {{ dictionary = "digests", probability = 0.7 }}
"""


class Document(unittest.TestCase):
    def test_the_document_is_valid(self):
        openapi_spec_validator.validate(yaml.safe_load((ckptd.REPOSITORY / "openapi.yaml").read_text()))


class Schemathesis(unittest.TestCase):
    def setUp(self):
        self.daemon = support.Daemon(*FLAGS)
        self.addCleanup(self.daemon.close)
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_schemathesis(self, *arguments):
        config = self.folder / "schemathesis.toml"
        config.write_text((HERE / "schemathesis.toml").read_text() + dictionaries(*known_things(self.daemon)))
        environment = {**os.environ, "PYTHONPATH": str(HERE), "CKPTD_SOURCE": str(ckptd.REPOSITORY)}
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", self.daemon.base + "/openapi.json",
                   "--workers", WORKERS, "--generation-deterministic", "--no-color", *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=SECONDS)

    def test_every_answer_is_one_that_the_document_has(self):
        out = self.run_schemathesis("--max-examples", "10")
        self.assertIsNone(self.daemon.process.poll(), "the daemon died: " + self.daemon.log_text()[-3000:])
        self.assertEqual(0, out.returncode, out.stdout[-20000:])
        self.assertEqual(b"ok\n", self.daemon.request("GET", "/readyz")[2])


if __name__ == "__main__":
    unittest.main()
