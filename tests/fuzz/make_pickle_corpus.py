#!/usr/bin/env python3
"""Writes the seeds of fuzz_pickle: every protocol, every opcode, and the tricks of hostile files. Standard library only.

Usage: make_pickle_corpus.py [DIRECTORY]   (default: corpus/fuzz_pickle beside this script)
The seeds do not depend on the Python version more than pickle itself does; they are committed, so that a test needs no Python.
"""
import collections
import io
import pathlib
import pickle
import pickletools
import struct
import sys


class Named:
    """Pickles as a global of any name, which a real class of that name would need to be importable for."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Call:
    def __init__(self, module, name, *arguments, state=None, pairs=None):
        self.reduction = (Named(module, name), arguments, state, None, iter(pairs) if pairs else None)


class Storage:
    def __init__(self, kind, key, numel):
        self.id = ("storage", Named("torch", kind), key, "cpu", numel)


class Writer(pickle._Pickler):
    def persistent_id(self, obj):
        return obj.id if isinstance(obj, Storage) else None

    def save(self, obj, *args, **kwargs):
        if isinstance(obj, Named):
            if self.proto >= 4:
                super().save(obj.module)
                super().save(obj.name)
                self.write(pickle.STACK_GLOBAL)
            else:
                self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Call):
            callee, arguments, state, _, pairs = obj.reduction
            self.save(callee)
            self.save(arguments)
            self.write(pickle.REDUCE)
            self._batch_setitems(pairs or iter(()))
            if state is not None:
                self.save(state)
                self.write(pickle.BUILD)
        else:
            super().save(obj, *args, **kwargs)


def dump(obj, protocol):
    out = io.BytesIO()
    Writer(out, protocol).dump(obj)
    return out.getvalue()


def tensor(key, shape, kind="FloatStorage"):
    numel, stride = 1, []
    for n in reversed(shape):
        stride.insert(0, numel)
        numel *= n
    return Call("torch._utils", "_rebuild_tensor_v2", Storage(kind, key, numel), 0, tuple(shape), tuple(stride), False,
                Call("collections", "OrderedDict"))


def state_dict():
    names = [("conv.weight", tensor("0", (8, 3, 3, 3))), ("conv.bias", tensor("1", (8,), "HalfStorage")),
             ("bn.num_batches_tracked", tensor("2", (), "LongStorage"))]
    return Call("collections", "OrderedDict", pairs=names,
                state={"_metadata": Call("collections", "OrderedDict", pairs=[("", {"version": 1})])})


def module():
    return Call("copyreg", "_reconstructor", Named("torch.nn.modules.linear", "Linear"), Named("builtins", "object"), None,
                state={"training": True, "_parameters": {"weight": tensor("0", (2, 2)), "bias": None}, "_modules": {},
                       "in_features": 2, "out_features": 2})


def plain():
    shared = [1, 2]
    loop = []
    loop.append(loop)
    return {"none": None, "bools": (True, False), "ints": [0, 255, 256, 65535, -1, 2**31 - 1, -2**31, 2**40, -2**63, 2**90, -2**700],
            "floats": [0.0, -1.5, 1e300, float("inf")], "text": ["", "a\\b\nc", "\u0416\U0001f600", "x" * 300],
            "bytes": [b"", b"\x00\xff'\\", bytearray(b"abc")], "shared": [shared, shared], "loop": loop, "set": {1, 2},
            "frozen": frozenset((3,)), "nested": ((((),),),), "ordered": collections.OrderedDict(a=1), "long": list(range(300))}


def counted8(code, payload, length=None):
    return code + struct.pack("<Q", len(payload) if length is None else length) + payload


HANDMADE = {
    "inst": b"(K\x01im\nC\n.",
    "obj": b"(cm\nC\nK\x01o.",
    "newobj_ex": b"cm\nC\n)}\x92.",
    "persid": b"Pstorage key\n.",
    "python2_strings": b"}(S'it\\'s \\x41\\101\\q'\nT\x02\x00\x00\x00hiU\x02hiV\\u0416\\U0001f600\xe9\ndI01\nF1e5\n.",
    "python2_ordered_dict": b"ccollections\nOrderedDict\n](](U\x01aK\x01e](U\x01bK\x02ee\x85R.",
    "legacy_module": b"(U\x06modulecm\nNet\nU\x01fU\x01stQ)\x81}(U\x08_modulesccollections\nOrderedDict\n)Rub.",
    "stack": b"NK\x01K\x0220(0((K\x03K\x0411.",
    "memo": b"K\x07p300\nq\x05r\x00\x00\x00\x80\x940g300\nh\x05j\x00\x00\x00\x80\x87.",
    "extensions": b"(\x82\x01\x83\x01\x00\x84\x01\x00\x00\x00\x97\x98t.",
    "buffers": counted8(b"\x96", b"abc") + b"\x98" + counted8(b"\x8e", b"de") + counted8(b"\x8d", b"fg") + b"\x87.",
    "frames": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x95\x02\x00\x00\x00\x00\x00\x00\x00N.\x80\x07",
    "frame_crossed": b"\x95\x02\x00\x00\x00\x00\x00\x00\x00\x8c\x03abc.",
    "ten_gigabytes": counted8(b"\x8e", b"abc", 10**10) + b".",
    "laughs": b"]" + b"2a" + b"2\x862\x862\x862\x862\x86.",
    "type_confusion": b"cos\nsystem\n)R0K\x01\x8c\x01x\x93.",
    "build_on_global": b"ctorch\n_utils\n}U\x01aK\x01sb.",
    "attribute_path": b"\x8c\x07pathlib\x8c\x09os.system\x93)R.",
    "computed_name": b"cm\nf\n)R\x8c\x01x\x93.",
    "stacked": b"\x80\x02N.\x80\x02K\x01.",
    "items_of_a_call": b"cm\nL\n)\x81(K\x01K\x02eK\x03a(K\x04\x90K\x05K\x06s(K\x07K\x08u.",
    "big_decimal": b"L" + b"9" * 400 + b"L\n.",
}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus" / "fuzz_pickle")
    folder.mkdir(parents=True, exist_ok=True)
    for protocol in range(6):
        for make in (plain, state_dict, module):
            if protocol == 0 and make is not plain:
                continue  # its persistent ids are text
            data = dump(make(), protocol)
            pickletools.dis(data, io.StringIO())
            (folder / f"{make.__name__}_p{protocol}").write_bytes(data)
    for name, data in HANDMADE.items():
        (folder / name).write_bytes(data)
    seen = {data[position] for data in map(pathlib.Path.read_bytes, folder.iterdir()) for position in range(len(data))}
    missing = [op.name for op in pickletools.opcodes if ord(op.code) not in seen]
    if missing:
        sys.exit(f"no seed holds {missing}")


if __name__ == "__main__":
    main()
