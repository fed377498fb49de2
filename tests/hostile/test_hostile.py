"""No hostile file does anything but get reported. Each of generate.py's samples goes through `ckptd analyze` and `ckptd convert`: nothing of it is
executed (its payload would make a canary file), nothing crashes, time and memory stay small, and what the sample expects is said."""

import collections
import concurrent.futures
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import generate

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = REPOSITORY / os.environ.get("CKPTD_BUILD", "build") / "ckptd"
SECONDS = 10
SANITIZED = b"__asan_init" in BINARY.read_bytes() if BINARY.exists() else False
MEMORY = 400 * 2**20  # what the process may take before malloc says no, which is an error here

Outcome = collections.namedtuple("Outcome", "code out err seconds")


def run(*arguments):
    start = time.monotonic()
    bound = [] if SANITIZED else ["prlimit", f"--data={MEMORY}", "--"]
    command = [*bound, str(BINARY), *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    return Outcome(process.returncode, process.stdout, process.stderr, time.monotonic() - start)


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="ckptd-hostile-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.canary = cls.folder / "canary"
        cls.names = set()

    def judge(self, name, outcome):
        """What must hold for every file."""
        self.assertIn(outcome.code, (0, 1), f"{name}: it crashed: {outcome.err[-2000:].decode(errors='replace')}")
        self.assertLess(outcome.seconds, SECONDS * (5 if SANITIZED else 1), f"{name}: it took too long")
        self.assertFalse(self.canary.exists(), f"{name}: the payload ran")
        self.assertNotIn(b"\x1b", outcome.out + outcome.err, f"{name}: an escape code of the file reaches the terminal")

    def look(self, name, data):
        """(findings, codes of errors) of analysis and conversion."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            return self.look_in(folder, name, data)
        finally:
            shutil.rmtree(folder)

    def look_in(self, folder, name, data):
        file, out = folder / "file", folder / "out.safetensors"
        file.write_bytes(data)
        analyzed = run("analyze", file, "--json")
        self.judge(name, analyzed)
        report = json.loads(analyzed.out)
        codes = [report["error"]["code"]] if analyzed.code else []
        findings = report["findings"]
        text = run("analyze", file)
        self.judge(name, text)
        self.assertEqual(text.code, analyzed.code, name)
        converted = run("convert", file, out, "--to", "safetensors")
        self.judge(name, converted)
        if converted.code:
            codes.append(converted.err.decode(errors="replace").split(": ")[1])
            self.assertFalse(out.is_file(), f"{name}: a refused file left weights behind")
        if out.is_file():
            self.assertLessEqual(
                out.stat().st_size, 5 * len(data) + 65 * 2**20, f"{name}: the result is far larger than the file"
            )
        for code in codes:
            self.assertNotIn(code, ("internal", "io", "out_of_memory"), name)
        return findings, codes

    def holds(self, word, findings, codes):
        kind, _, detail = word.partition(":")
        if kind == "refused":
            return detail in codes if detail else bool(codes)
        if kind == "bounded":
            return True
        if kind == "clean":
            return not any(finding["class"] in ("dangerous", "structure") for finding in findings)
        fitting = [f for f in findings if f["class"] == kind or kind == "called" and f["called"]]
        return any(detail in ("", f["name"], f"{f['module']}.{f['name']}") for f in fitting)

    def check(self, name, data, expectations):
        findings, codes = self.look(name, data)
        for expectation in expectations:
            if not any(self.holds(word, findings, codes) for word in expectation.split("|")):
                said = [
                    f"{f['class']}{' called' if f['called'] else ''}: {f['module']} {f['name']}"[:100]
                    for f in findings[:8]
                ]
                self.fail(f"{name}: expected {expectation}, got errors {codes} and findings {said}")

    def check_room(self, room):
        """The samples of one room, a few at a time."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            looks = [(sample[0], pool.submit(self.check, *sample)) for sample in room.samples(f"touch {self.canary}")]
            for name, look in looks:
                self.assertNotIn(name, self.names)
                self.names.add(name)
                with self.subTest(name):
                    look.result()

    def test_gadgets(self):
        self.check_room(generate.gadgets)

    def test_pickles(self):
        self.check_room(generate.pickles)

    def test_archives(self):
        self.check_room(generate.archives)

    def test_formats(self):
        self.check_room(generate.formats)

    def test_the_payload_is_live(self):
        """Python's own unpickler would run it: what is tested here is no dummy."""
        live = self.folder / "live"
        sample = next(data for name, data, _ in generate.pickles.samples(f"touch {live}") if name == "broken-opcode")
        with self.assertRaises(pickle.UnpicklingError):
            pickle.loads(sample)
        self.assertTrue(live.exists())


if __name__ == "__main__":
    unittest.main()
