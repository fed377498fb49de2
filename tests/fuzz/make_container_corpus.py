#!/usr/bin/env python3
"""Writes the seeds of fuzz_zip and fuzz_safetensors: what writers make, and each trick once. Standard library only.

Usage: make_container_corpus.py [DIRECTORY]   (default: corpus beside this script)
The seeds are committed, so that a test needs no Python.
"""
import io
import json
import pathlib
import struct
import sys
import zipfile
import zlib

PICKLE = b"\x80\x02}q\x00."


class Pipe(io.RawIOBase):
    """A sink that can neither seek nor tell."""

    def __init__(self):
        self.bytes = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.bytes += data
        return len(data)

    def getvalue(self):
        return bytes(self.bytes)


def python_zip(entries, method=zipfile.ZIP_STORED, comment=b"", stream=False):
    """What zipfile writes, with a fixed time. stream: into a sink that cannot seek, so with data descriptors."""
    sink = Pipe() if stream else io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.comment = comment
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, method)
    return sink.getvalue()


def torch_zip(entries, flags=0x0808, zip64=True):
    """What torch.save writes: zero local sizes, padding to 64 bytes, descriptors, a ZIP64 end always."""
    out, central = bytearray(), bytearray()
    for name, data in entries:
        name, local, crc = name.encode(), len(out), zlib.crc32(data)
        pad = 64 - (local + 30 + len(name) + 4) % 64
        out += struct.pack("<IHHHIIIIHH", 0x04034B50, 0, flags, 0, 0, 0, 0, 0, len(name), 4 + pad)
        out += name + b"FB" + struct.pack("<H", pad) + b"Z" * pad + data
        out += struct.pack("<IIII", 0x08074B50, crc, len(data), len(data))
        central += struct.pack("<IHHHHIIIIHHHHHII", 0x02014B50, 0, 0, flags, 0, 0, crc, len(data), len(data), len(name),
                               0, 0, 0, 0, 0, local) + name
    offset, count = len(out), len(entries)
    out += central
    if zip64:
        at = len(out)
        out += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 0x1E, 0x2D, 0, 0, count, count, len(central), offset)
        out += struct.pack("<IIQI", 0x07064B50, 0, at, 1)
    return bytes(out + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(central), offset, 0))


def patched(data, offset, new):
    return data[:offset] + new + data[offset + len(new):]


def zip_seeds():
    model = [("archive/data.pkl", PICKLE), ("archive/byteorder", b"little"), ("archive/data/0", bytes(16)),
             ("archive/version", b"3\n")]
    torch, plain = torch_zip(model), python_zip(model)
    central, end = plain.index(b"PK\1\2"), plain.index(b"PK\5\6")
    yield "torch", torch
    yield "torch_classic_end", torch_zip(model, zip64=False)
    yield "encrypted_flag", torch_zip(model, flags=0x0809)
    yield "stored", plain
    yield "deflated", python_zip([("m/", b"")] + model + [("__MACOSX/._m", b"x")], zipfile.ZIP_DEFLATED)
    yield "streamed", python_zip(model, zipfile.ZIP_DEFLATED, stream=True)
    yield "comment", python_zip(model, comment=b"a comment")
    yield "nested", python_zip([("policy.pth", torch)])
    yield "bomb", python_zip([("a", bytes(1 << 21))], zipfile.ZIP_DEFLATED)
    yield "empty", python_zip([])
    yield "cut", torch[:-30]
    yield "appended", plain + b"\0\0\0"
    yield "two_ends", patched(plain, end + 20, b"\x16\0") + plain[end:]
    yield "duplicate", python_zip([("a", b"1"), ("b", b"2")]).replace(b"b", b"a")
    yield "local_name", patched(plain, 30, b"archive/Data.pkl")
    yield "local_method", patched(plain, 8, b"\x08")
    yield "unknown_method", patched(patched(plain, 8, b"\x0C"), central + 10, b"\x0C")
    yield "overlap", patched(plain, plain.index(b"PK\1\2", central + 4) + 42, b"\0\0\0\0")
    yield "names", python_zip([("../a", b"1"), ("/b", b"2"), ("c\\d", b"3"), ("e\u00fc", b"4")])
    yield "count", patched(plain, end + 8, b"\x09\0\x09\0")
    yield "zip64_disagrees", patched(torch, len(torch) - 14, b"\x03\0\x03\0")


def safetensors(header, data=b"", pad=0):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) + pad) + text + b" " * pad + data


def tensor(dtype, shape, begin, end, **more):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end], **more}


def safetensors_seeds():
    model = {"__metadata__": {"format": "pt"}, "a.weight": tensor("F32", [2, 3], 0, 24), "b": tensor("BF16", [], 24, 26),
             "empty": tensor("I64", [0, 4], 26, 26)}
    yield "model", safetensors(model, bytes(26), 3)
    yield "mlx", safetensors({"__metadata__": None, "x": tensor("U8", [3], 0, 3)}, bytes(3))
    yield "no_tensors", safetensors({})
    yield "foreign_dtypes", safetensors({"a": tensor("F4", [2], 0, 1), "b": tensor("F6_E2M3", [4], 1, 4)}, bytes(4))
    yield "more_fields", safetensors({"a": tensor("U8", [1], 0, 1, more={"x": [1, {"y": None}]})}, bytes(1))
    yield "escapes", safetensors(b'{"\\u00e9\\ud83d\\ude00\\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
    yield "duplicate", safetensors(b'{"__metadata__":{"k":"1","k":"2"}}')
    yield "hole", safetensors({"a": tensor("U8", [1], 1, 2)}, bytes(2))
    yield "overflow", safetensors({"a": tensor("F32", [4611686018427387905], 0, 4)}, bytes(4))
    yield "huge", safetensors({"a": tensor("U8", [10**10], 0, 10**10)})
    yield "cut", safetensors(model)[:40]
    yield "length", b"\0\xe4\x0b\x54\2\0\0\0{}"
    yield "json_numbers", b'[0,-0,1.5,-2e+10,1E-3,18446744073709551615,18446744073709551616]'
    yield "json_deep", b"[" * 64 + b"]" * 64
    yield "json_words", b' {"a":[true,false,null,"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",{}]} '


def main():
    corpus = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
    for target, seeds in (("fuzz_zip", zip_seeds()), ("fuzz_safetensors", safetensors_seeds())):
        (corpus / target).mkdir(parents=True, exist_ok=True)
        for name, data in seeds:
            (corpus / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
