"""Real checkpoints of many projects and years, held against a manifest that lists every tensor: name, dtype, shape, strides and the SHA-256 of
its bytes. Nothing is unpickled here: the binary reads the files, this test compares.

CKPTD_CHECKPOINTS names the folder: `manifest.json` and `files/`. Without it these tests are skipped. A line of the manifest is one file:
{"name", "expect": "tensors" | "no_weights" | "findings" | "refuse:WORD", "weights_root", "tensors": [{"name" (dotted path from the root), "dtype",
"shape", "stride", "sha256" (C-contiguous, little-endian), "required", "member" (file inside an archive), "kind"}]}."""

import hashlib
import json
import os
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = REPOSITORY / os.environ.get("CKPTD_BUILD", "build") / "ckptd"
FOLDER = os.environ.get("CKPTD_CHECKPOINTS", "")
MANIFEST = Path(FOLDER) / "manifest.json"
SECONDS = 10

DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
    "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
    "qint8": "I8", "quint8": "U8", "qint32": "I32",
}  # fmt: skip

# The target safetensors cannot hold these; that the converter says so is what is tested.
WITHOUT_EQUAL = {"complex128", "complex32"}

# What the message of a refusal must say.
REFUSALS = {"executorch": "ExecuTorch", "gzip": "gzip", "unknown": ""}


def run(*arguments):
    """(code, stdout, stderr, seconds) of the binary."""
    start = time.monotonic()
    process = subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, timeout=60)
    return process.returncode, process.stdout, process.stderr.decode(errors="replace"), time.monotonic() - start


def read_safetensors(path):
    """({name: (dtype, shape, sha256)}, metadata)"""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    found = {}
    for name, row in header.items():
        begin, end = (8 + length + offset for offset in row["data_offsets"])
        found[name] = (row["dtype"], row["shape"], hashlib.sha256(data[begin:end]).hexdigest())
    return found, metadata


def meaningful(shape, strides):
    """Strides of dimensions that have only one index say nothing, and those of an empty tensor neither."""
    return [] if 0 in shape else [stride for size, stride in zip(shape, strides) if size != 1]


@unittest.skipUnless(MANIFEST.is_file(), "CKPTD_CHECKPOINTS names no folder with manifest.json")
class Checkpoints(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def run_quickly(self, *arguments):
        code, out, err, seconds = run(*arguments)
        self.assertIn(code, (0, 1), f"it crashed: {err}")
        self.assertLess(seconds, SECONDS, "it took too long")
        return code, out, err

    def analysis(self, file, *options):
        code, out, err = self.run_quickly("analyze", Path(FOLDER) / "files" / file["name"], "--json", *options)
        self.assertNotIn(b"\0", out)
        return code, json.loads(out), err

    def differences_of_analysis(self, file, analysis):
        by_path = {tensor["path"]: tensor for tensor in analysis["tensors"]}
        for row in filter(lambda row: row["required"], file["tensors"]):
            tensor = by_path.get(row["name"])
            if not tensor:
                yield f"{row['name']!r} is missing"
            elif tensor["error"] and not row["dtype"].startswith("q"):  # kept by an option, see convert()
                yield f"{row['name']!r} is refused: {tensor['error']['message']}"
            elif tensor["dtype"] != row["dtype"] or tensor["shape"] != row["shape"]:
                yield f"{row['name']!r} is {tensor['dtype']} {tensor['shape']}, not {row['dtype']} {row['shape']}"
            elif "stride" in row and meaningful(row["shape"], tensor["strides"]) != meaningful(
                row["shape"], row["stride"]
            ):
                yield f"{row['name']!r} has strides {tensor['strides']}, not {row['stride']}"

    def differences_of_bytes(self, file, analysis, written, metadata):
        names = {tensor["path"]: tensor["name"] for tensor in analysis["tensors"]}
        delivered = {digest for _, _, digest in written.values()}
        for row in filter(lambda row: row["required"] and row["dtype"] not in WITHOUT_EQUAL, file["tensors"]):
            name = names.get(row["name"], row["name"])
            if name is None and row["sha256"] in delivered:
                continue  # a plain attribute that is a second name of a parameter or buffer: no part of a state dict
            got = written.get(name) or written.get(metadata.get(name))
            wanted = (DTYPES[row["dtype"]], row["shape"], row["sha256"])
            if not got:
                yield f"{name!r} is not written"
            elif got[:2] != wanted[:2]:
                yield f"{name!r} is written as {got[:2]}, not {wanted[:2]}"
            elif got != wanted:
                yield f"{name!r} has other bytes"

    def convert(self, file, analysis, *options):
        out = self.folder / "out.safetensors"
        dtypes = {tensor["name"]: tensor["dtype"] for tensor in analysis["tensors"]}
        options = list(options)
        if any(dtype and dtype.startswith("q") for dtype in dtypes.values()):
            options += ["--quantized", "keep"]
        without = [name for name, dtype in dtypes.items() if dtype in WITHOUT_EQUAL]
        source = Path(FOLDER) / "files" / file["name"]
        if without:
            code, _, err = self.run_quickly("convert", source, out, "--to", "safetensors", *options)
            self.assertEqual(code, 1, "safetensors has no dtype for some of it")
            self.assertIn(dtypes[without[0]], err)
            options += ["--rules", ",".join(f"{name}:drop" for name in without)]
        code, _, err = self.run_quickly(
            "convert", source, out.with_name("kept.safetensors"), "--to", "safetensors", *options
        )
        self.assertEqual(code, 0, err)
        return read_safetensors(out.with_name("kept.safetensors"))

    def check_tensors(self, file, *options):
        code, analysis, err = self.analysis(file, *options)
        self.assertEqual(code, 0, err)
        self.assertEqual(list(self.differences_of_analysis(file, analysis)), [])
        written, metadata = self.convert(file, analysis, *options)
        self.assertEqual(list(self.differences_of_bytes(file, analysis, written, metadata)), [])

    def check_no_weights(self, file):
        """Refused, or what it holds is read, but nothing is made up: every tensor is one of the manifest."""
        code, analysis, err = self.analysis(file)
        if code == 0:
            known = {(row["name"], row["dtype"]) for row in file["tensors"]}
            self.assertLessEqual({(tensor["path"], tensor["dtype"]) for tensor in analysis["tensors"]}, known)
        else:
            self.assertIn(
                analysis["error"]["code"], ("no_tensors", "unsupported_form", "unsupported_tensor", "empty_file"), err
            )
            self.assertTrue(analysis["error"]["hint"], "no hint")

    def check_findings(self, file):
        _, analysis, _ = self.analysis(file)
        classes = {finding["class"] for finding in analysis["findings"]}
        self.assertTrue(classes & {"dangerous", "structure"}, "a hostile file is called clean")

    def check_refuse(self, file, word):
        code, analysis, err = self.analysis(file)
        if code == 0 and "read through" in file["expect"]:
            self.assertGreater(len(analysis["tensors"]), 0)
            return
        self.assertEqual(code, 1, "it was read")
        self.assertIn(analysis["error"]["code"], ("unsupported_form", "not_a_checkpoint"), err)
        self.assertIn(REFUSALS[word], analysis["error"]["detail"])

    def check(self, file):
        kind, _, word = file["expect"].partition(":")
        if kind == "tensors":
            self.check_tensors(file)
        elif kind == "refuse":
            self.check_refuse(file, word.split(" ")[0])
        else:
            {"no_weights": self.check_no_weights, "findings": self.check_findings}[kind](file)


def add_tests():
    for file in json.loads(MANIFEST.read_text())["files"] if MANIFEST.is_file() else []:

        def test(self, file=file):
            self.check(file)

        setattr(Checkpoints, "test_" + file["name"], test)
    if not MANIFEST.is_file():
        Checkpoints.test_every_file = lambda self: None


add_tests()

if __name__ == "__main__":
    unittest.main()
