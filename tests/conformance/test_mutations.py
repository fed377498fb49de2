"""Damaged files: where torch still reads one (weights_only=True) and ckptd does, too, both read the same values. A reader that is wrong about one
byte of the format shows it here."""

import io
import random
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

import torch
from safetensors import safe_open

import ckptd
from test_fixtures import flatten

COUNT = 400


def state():
    state = {
        "a": torch.arange(24.0).reshape(4, 6).t(),
        "b": {"c": torch.arange(10)[2:8:2]},
        "d": torch.arange(3).half(),
    }
    return state | {"e": torch.tensor(3.0), "f": state["a"], "g": torch.nn.Parameter(torch.arange(4.0))}


def changed(data, first, end, number):
    """One or two bytes of data[first:end] are others; the same for the same number."""
    chance, data = random.Random(number), bytearray(data)
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(first, end)
        data[at] = chance.choice((chance.randrange(256), data[at] ^ (1 << chance.randrange(8)), (data[at] + 1) % 256))
    return bytes(data)


class Mutations(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def read_by_torch(self, path):
        try:
            return dict(flatten(torch.load(path, weights_only=True)))
        except Exception:  # noqa: BLE001: whatever it is, torch does not read the file
            return None

    def read_by_ckptd(self, path):
        out = self.folder / "out.safetensors"
        out.unlink(missing_ok=True)
        options = ["--to", "safetensors", "--untie", "true", "--state-dict", "."]
        process = subprocess.run([str(ckptd.BINARY), "convert", path, out, *options], capture_output=True, timeout=60)
        self.assertIn(process.returncode, (0, 1), process.stderr)
        if process.returncode:
            return None
        with safe_open(out, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}

    def check(self, data, first, end):
        both = 0
        for number in range(COUNT):
            path = self.folder / "m.pt"
            path.write_bytes(changed(data, first, end, number))
            ours, theirs = self.read_by_ckptd(path), self.read_by_torch(path)
            if ours is not None and theirs is not None:
                both += 1
                self.assertEqual(ckptd.differences(ours, theirs), [], f"mutation {number}")
        self.assertGreater(both, COUNT // 20, "hardly any damaged file was read by both")

    def test_pickle_of_a_zip(self):
        buffer = io.BytesIO()
        torch.save(state(), buffer)
        with zipfile.ZipFile(buffer) as archive:
            info = archive.infolist()[0]
        self.assertEqual(info.filename, "archive/data.pkl")
        first = buffer.getvalue().index(b"\x80\x02}")
        self.check(buffer.getvalue(), first, first + info.file_size)

    def test_legacy_stream(self):
        buffer = io.BytesIO()
        torch.save(state(), buffer, _use_new_zipfile_serialization=False)
        self.check(buffer.getvalue(), 0, len(buffer.getvalue()))


if __name__ == "__main__":
    unittest.main()
