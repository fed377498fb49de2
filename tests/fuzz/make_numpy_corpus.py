#!/usr/bin/env python3
"""Writes the seeds of fuzz_plain and fuzz_npy: what numpy, torch and joblib write, without them. Standard library only.

Usage: make_numpy_corpus.py [DIRECTORY]   (default: corpus beside this script)
The seeds are committed, so that a test needs no Python.
"""
import io
import pathlib
import pickle
import struct
import sys
import tarfile
import types
import zipfile


def fake(module, *names):
    """Classes and functions that pickle refers to by the names that numpy's, torch's and joblib's have."""
    for part in range(1, module.count(".") + 2):
        name = ".".join(module.split(".")[:part])
        sys.modules.setdefault(name, types.ModuleType(name))
    for name in names:
        setattr(sys.modules[module], name, type(name, (), {"__module__": module, "__qualname__": name}))
    return sys.modules[module]


NUMPY = fake("numpy", "ndarray", "dtype")
MULTIARRAY = fake("numpy.core.multiarray", "_reconstruct", "scalar")
NUMERIC = fake("numpy._core.numeric", "_frombuffer")
MASKED = fake("numpy.ma.core", "_mareconstruct", "MaskedArray")
ML_DTYPES = fake("ml_dtypes", "bfloat16")
JAX = fake("jax._src.array", "_reconstruct_array")
STORAGE = fake("torch.storage", "_load_from_bytes")
UTILS = fake("torch._utils", "_rebuild_tensor_v2", "_rebuild_device_tensor_from_numpy")
TORCH = fake("torch", "FloatStorage", "float32")
JOBLIB = fake("joblib.numpy_pickle", "NumpyArrayWrapper")
ESTIMATOR = fake("sklearn.linear_model._base", "LinearRegression")


class Call:
    """Pickles as REDUCE of function with arguments, then BUILD of state."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


class Pickler(pickle._Pickler):  # the C one checks that a callee is the object of that name
    pass


class Python2(pickle._Pickler):
    """Byte strings as Python 2 wrote them."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_bytes(self, value):
        if self.bin:
            self.write(b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value)
        else:
            self.write(b"S" + repr(value)[1:].encode() + b"\n")

    dispatch[bytes] = save_bytes


def dump(root, protocol=2, pickler=Pickler):
    out = io.BytesIO()
    pickler(out, protocol).dump(root)
    return out.getvalue()


def dtype(name, order="<"):
    return Call(NUMPY.dtype, name, False, True, state=(3, order, None, None, None, -1, -1, 0))


def array(name="f4", shape=(2, 2), data=bytes(range(120, 136)), fortran=False, order="<"):
    return Call(MULTIARRAY._reconstruct, NUMPY.ndarray, (0,), b"b", state=(1, shape, dtype(name, order), fortran, data))


def stream(key="0", numel=4):
    """A legacy stream of one storage."""

    class Storage:
        pass

    class WithIds(Pickler):
        def persistent_id(self, value):
            return ("storage", TORCH.FloatStorage, key, "cpu", numel, None) if isinstance(value, Storage) else None

    return b"".join((dump(0x1950a86a20f9469cfc6c), dump(1001), dump({"little_endian": True}),
                     dump(Storage(), pickler=WithIds), dump([key]), struct.pack("<q", numel), bytes(4 * numel)))


def tensor(data):
    return Call(UTILS._rebuild_tensor_v2, Call(STORAGE._load_from_bytes, data), 0, (2, 2), (2, 1), False, {})


def zip_of(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def tar_of(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def joblib():
    """The array's bytes lie behind the BUILD of its wrapper."""
    wrapper = Call(JOBLIB.NumpyArrayWrapper, state={
        "subclass": NUMPY.ndarray, "shape": (2, 2), "order": "F", "dtype": dtype("f4"), "allow_mmap": True,
        "numpy_array_alignment_bytes": 16})
    whole = dump({"w": wrapper, "z": 1}, 2)
    cut = whole.rindex(b"b") + 1
    while whole[cut:cut + 2] not in (b"X\x01", ):
        cut = whole.rindex(b"b", 0, cut - 1) + 1
    return whole[:cut] + b"\x03\xff\xff\xff" + bytes(16) + whole[cut:]


def plain():
    everything = {"w": array(), "be": array("i2", (8,), order=">"), "f": array(fortran=True), "half": array("f2", (2, 4)),
                  "short": array(shape=(5,)), "text": array("U2", (2,)), "o": array("O8", (2,), [array(), "x"]),
                  "bf": Call(MULTIARRAY._reconstruct, NUMPY.ndarray, (0,), b"b",
                             state=(1, (8,), Call(NUMPY.dtype, ML_DTYPES.bfloat16, False, True), False, bytes(16)))}
    for protocol in range(6):
        yield f"arrays_p{protocol}", dump(everything, protocol)
    for protocol in range(3):
        yield f"python2_p{protocol}", dump([array(), array("f8", (2,))], protocol, Python2)
    yield "frombuffer", dump({"a": Call(NUMERIC._frombuffer, bytearray(16), dtype("f4"), (4,), "C"),
                              "k": Call(NUMERIC._frombuffer, bytes(24), dtype("f4"), (3, 2), "K", (1, 0))}, 5)
    yield "jax", dump({"w": Call(JAX._reconstruct_array, MULTIARRAY._reconstruct, (NUMPY.ndarray, (0,), b"b"),
                                 (1, (4,), dtype("f4"), False, bytes(16)), {})}, 4)
    yield "masked", dump([Call(MASKED._mareconstruct, MASKED.MaskedArray, NUMPY.ndarray, (0,), b"b"), array()], 4)
    yield "object", dump(Call(ESTIMATOR.LinearRegression, state={"coef_": array(), "n": 3}), 4)
    yield "device", dump({"w": Call(UTILS._rebuild_device_tensor_from_numpy, array(), TORCH.float32, "xla", False)}, 4)
    yield "nested_p2", dump({"w": tensor(stream())}, 2)
    yield "nested_p4", dump({"w": tensor(stream()), "cut": tensor(stream()[:-3]), "no": tensor(b"x")}, 4)
    inner = dump([Call(STORAGE._load_from_bytes, dump(1))])
    for name, data in (("stream", stream()), ("pickle", inner), ("zip", zip_of({"a/data.pkl": inner, "a/x.pkl": inner})),
                       ("tar", tar_of({"storages": dump(0), "pickle": inner}))):
        yield f"nested_unused_{name}", dump({"x": Call(STORAGE._load_from_bytes, data), "w": array()}, 4)
    yield "several", dump({"a": array()}, 4) + dump({"log": 1}, 2) + dump(array(), 4) + b"\n"
    yield "joblib", joblib()


def npy(text, data=b"", version=1):
    head = text.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + data


def arrays():
    for version in (1, 2, 3):
        yield f"v{version}", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }   ", bytes(16), version)
    yield "fortran", npy("{'descr': '>i8', 'fortran_order': True, 'shape': (2L, 1L)}", bytes(16))
    yield "scalar", npy('{"shape": (), "descr": "|b1", "fortran_order": False}', b"\1")
    yield "structured", npy("{'descr': [('x', '<f4'), ('y', '<i4', (2,))], 'fortran_order': False, 'shape': (1,), }", bytes(12))
    yield "text", npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", bytes(12))
    yield "objects", npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", dump(array("O8", (2,), [array(), 1]), 4))
    yield "wide", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }")


def main():
    base = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
    for name, seeds in (("fuzz_plain", plain()), ("fuzz_npy", arrays())):
        folder = base / name
        folder.mkdir(parents=True, exist_ok=True)
        for seed, data in seeds:
            (folder / seed).write_bytes(data)


if __name__ == "__main__":
    main()
