#!/usr/bin/env python3
"""Writes the seeds of fuzz_legacy and fuzz_tar (argument: the folder of all corpora; default: beside this file).

fuzz_legacy: the object, the list of keys and the blocks of a legacy stream. fuzz_tar: see fuzz_tar.c. Nothing here needs
torch: see make_model_corpus.py.
"""
import collections
import io
import pathlib
import struct
import sys
import tarfile

from make_model_corpus import Call, PARAMETER, TORCH, UTILS, Storage, dump, fake

fake("torch", "DoubleStorage", "FloatTensor", "LongStorage")


class Id(Storage):
    """A persistent id of any shape."""

    def __init__(self, *members):
        self.id = members if len(members) > 1 else members[0]


def tensor(key, numel, shape, stride, offset=0, class_=None, part=None):
    return Call(UTILS._rebuild_tensor_v2, Id("storage", class_ or TORCH.FloatStorage, key, "cpu", numel, part), offset,
                shape, stride, False, collections.OrderedDict())


def block(data, numel):
    return struct.pack("<q", numel) + data


def legacy_seeds():
    flat = collections.OrderedDict([("a", tensor("1", 8, (2, 3), (1, 2))), ("b", tensor("2", 4, (), (), 3, TORCH.HalfStorage))])
    tail = block(bytes(range(32)), 8) + block(bytes(8), 4)
    for protocol in range(1, 6):
        yield f"flat_p{protocol}", dump(flat, protocol) + dump(["1", "2"], protocol) + tail
    yield "views", dump({"v": tensor("1", 8, (3,), (1,), 0, None, ("9", 2, 4)), "w": tensor("1", 8, (8,), (1,))}) + \
        dump(["1"]) + block(bytes(32), 8)
    yield "storages", dump([Id("storage", TORCH.FloatStorage, "1", "cpu", 1, None)]) + dump(["1"]) + block(bytes(4), 1)
    yield "module", b"\x80\x02(U\x06modulectorch.nn.modules.linear\nLinear\nU\x01fU\x01stQ)\x81}(U\x0b_parameters}U\x08_modules}ub." + \
        dump([])
    yield "untyped", dump({"f8": Call(UTILS._rebuild_tensor_v3, Id("storage", TORCH.UntypedStorage, "1", "cpu", 8, None), 4,
                                      (4,), (1,), False, {}, TORCH.float8_e4m3fn)}) + dump(["1"]) + block(bytes(8), 8)
    yield "repr", b"ctorch._utils\n_rebuild_tensor_v2\n(P('storage', <class 'torch.FloatStorage'>, '1', 'cpu', 2, ('9', 1, 1))\n" \
        b"I0\n(I1\nt(I1\ntI00\nNtR.(lp0\nV1\np1\na." + block(bytes(8), 2)
    yield "ints", dump({"a": tensor(5, 1, (1,), (1,))}) + dump([5]) + block(bytes(4), 1)
    yield "short", dump(flat) + dump(["1", "2"]) + tail[:-1]
    yield "long", dump(flat) + dump(["1", "2"]) + tail + b"more"


def storages(*parts, views=()):
    out = dump(len(parts))
    for key, class_, numel, data in parts:
        out += dump((key, "cpu", class_)) + struct.pack("<q", numel) + data
    return out + dump(list(views))


def tensors(*parts):
    out = dump(len(parts))
    for key, storage, size, stride, offset in parts:
        n = len(size)
        out += dump((key, storage, TORCH.FloatTensor)) + struct.pack(f"<i4x{n}q{n}qq", n, *size, *stride, offset)
    return out


def entries(first, second, third):
    return b"E" + struct.pack("<H", len(first)) + first + struct.pack("<H", len(second)) + second + third


def tar(*files, fmt=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as archive:
        for name, data, kind in files:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(data), "target" if kind == tarfile.SYMTYPE else ""
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue().rstrip(b"\0") + bytes(1024)


def tar_seeds():
    first = storages((11, TORCH.FloatStorage, 8, bytes(32)), (12, TORCH.LongStorage, 1, bytes(8)), views=[(21, 11, 2, 4)])
    second = tensors((101, 11, (2, 4), (4, 1), 0), (102, 21, (3,), (1,), 1), (103, 12, (), (), 0))
    root = {"a": Id("101"), "b": Id(102), "p": Call(PARAMETER.Parameter, Id("103"))}
    yield "entries", entries(first, second, dump(root))
    yield "entries_p0", entries(first, second, dump(root, 0))
    yield "entries_plain", entries(first, b"", b"\x80\x02}U\x01wctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\n"
                                   b"FloatStorage\nU\x0211U\x03cpuK\x08tK\x02K\x04\x85K\x01\x85\x89NtRs.")
    yield "empty", entries(storages(), tensors(), dump({}))
    plain = [("sys_info", b"\x80\x02}.", tarfile.REGTYPE), ("pickle", dump(root), tarfile.REGTYPE),
             ("storages", first, tarfile.REGTYPE), ("tensors", second, tarfile.REGTYPE)]
    for fmt in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        yield f"torch_{fmt}", tar(*plain, fmt=fmt)
    long = "n" * 120
    for fmt in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        yield f"long_{fmt}", tar((long, b"x", tarfile.REGTYPE), ("./d", b"", tarfile.DIRTYPE), ("l", b"", tarfile.SYMTYPE),
                                 ("../up", b"y", tarfile.REGTYPE), ("fifo", b"", tarfile.FIFOTYPE), fmt=fmt)
    yield "twice", tar(("a", b"1", tarfile.REGTYPE), ("a", b"2", tarfile.REGTYPE))
    yield "cut", tar(("a", b"1" * 600, tarfile.REGTYPE))[:1000]


def main():
    base = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
    for target, seeds in (("fuzz_legacy", legacy_seeds()), ("fuzz_tar", tar_seeds())):
        (base / target).mkdir(parents=True, exist_ok=True)
        for name, data in seeds:
            (base / target / name).write_bytes(data)


if __name__ == "__main__":
    main()
