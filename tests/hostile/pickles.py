"""Tricks inside the pickle: damage behind a payload, confused types, memory bombs, numbers that wrap, opcodes that few use."""

import struct

from assemble import (FLOATS, HOOKS, MAGIC, REBUILD, blob, call, dict_, global_, legacy, legacy_tensor, number, numbers, pickle, short_text, stack_global,
                      state_dict, storage, tensor, text, torch_tar, torch_zip, tuple_)  # fmt: skip

REFUSED = ["refused"]


def samples(command):
    evil = call(global_("posix", "system"), text(command))
    found = ["dangerous:posix.system"]
    yield from broken(evil, found)
    yield from structure(evil, found)
    yield from confused()
    yield from bombs()
    yield from lengths()
    yield from tensors()
    yield from streams(evil, found)
    yield from rare(evil, found)
    yield from names(evil)


def broken(evil, found):
    """The payload has run when the damage is met: findings must survive errors."""
    damages = {
        "opcode": b"\xff", "nothing": b"", "get": b"h\x63", "text_get": b"g99\n", "long_get": b"j\x63\0\0\0", "number_as_module": b"K\1K\2\x93",
        "mark": b"t", "empty_stack": b"0" * 9 + b"0", "utf8": b"X\2\0\0\0\xc3\x28\xff", "length": b"X\xff\xff\xff\x7f", "negative": b"T\xff\xff\xff\xff",
        "int": b"Ixyz\n", "float": b"Fxyz\n", "long": b"L12x\n", "string": b"Sno quotes\n", "escape": b"S'\\x'\n", "persid": b"Pabc\n", "reduce": b"K\1K\2R",
    }  # fmt: skip
    for name, damage in damages.items():
        yield f"broken-{name}", b"\x80\x02" + evil + damage, found
        yield f"broken-{name}.zip", torch_zip(state_dict(x=evil) + damage), found
    yield "broken-first", b"\x80\x02" + b"h\x63" + evil + b".", ["refused"]


def structure(evil, found):
    yield "two-protos", pickle(b"\x80\x02" + evil), ["dangerous:posix.system", "structure"]
    yield "proto-late", torch_zip(dict_(w=tensor(), x=b"\x80\x04" + evil)), ["dangerous:posix.system", "structure"]
    yield "proto-255", b"\x80\xff" + evil + b".", REFUSED
    yield "behind-stop", torch_zip(state_dict() + b"." + evil), ["structure"]
    yield "behind-stop-pickle", torch_zip(state_dict() + b".\x80\x02" + evil), ["structure"]
    yield "stacked-pickles", pickle(b"K\1") + pickle(evil), found
    yield "stacked-pickles-many", pickle(b"K\1") * 999 + pickle(evil), found
    yield "stacked-damage-between", pickle(b"K\1") + b"\xff\xff" + pickle(evil), ["refused|structure"]
    frame = b"\x95" + struct.pack("<Q", 8)
    yield (
        "frame-crossed",
        b"\x80\x04" + frame + text("a long text") + evil + b".",
        found + ["dangerous:an argument crosses the end of its frame"],
    )
    yield (
        "frame-in-frame",
        b"\x80\x04\x95" + struct.pack("<Q", 40) + frame + b"N0" + evil + b".",
        found + ["dangerous:a frame begins inside a frame"],
    )
    yield (
        "frame-huge",
        b"\x80\x04\x95" + struct.pack("<Q", 2**63) + evil + b".",
        ["dangerous:posix.system", "structure"],
    )
    yield (
        "frame-text-hides",
        b"\x80\x04\x95" + struct.pack("<Q", 5) + b"X" + struct.pack("<I", len(evil)) + evil + evil + b".",
        found + ["dangerous:an argument crosses the end of its frame"],
    )
    yield "several-values-at-stop", torch_zip(evil + state_dict()), found
    yield "popped", torch_zip(evil + b"0" + state_dict()), found
    yield "popped-mark", torch_zip(b"(" + evil + b"1" + state_dict()), found
    yield "as-key", torch_zip(b"}(" + text("w") + tensor() + evil + b"Nu"), found
    yield "as-persistent-id", torch_zip(state_dict(x=evil + b"Q")), found
    yield (
        "in-persistent-id",
        torch_zip(dict_(w=tensor(of=tuple_(text("storage"), evil, text("0"), text("cpu"), number(4)) + b"Q"))),
        found,
    )
    yield (
        "in-arguments",
        torch_zip(dict_(w=call(REBUILD, storage(), number(0), numbers(4), numbers(1), b"\x89", evil))),
        found,
    )
    yield "in-state", torch_zip(state_dict() + dict_(_metadata=evil) + b"b"), found
    yield "in-set", torch_zip(state_dict(x=b"\x8f(" + evil + b"\x90")), found


def confused():
    ordered = global_("collections", "OrderedDict")
    yield "setitem-on-global", torch_zip(state_dict(x=ordered + text("a") + b"Ns")), ["refused|structure"]
    yield "setitem-on-list", torch_zip(state_dict(x=b"]" + b"K\0Ns")), ["refused|structure"]
    yield "setitem-on-int", torch_zip(state_dict(x=b"K\1K\0Ns")), ["refused|structure"]
    yield "setitems-on-tensor", torch_zip(b"}(" + text("w") + tensor() + b"(K\0Nuu"), ["bounded"]
    yield "append-on-dict", torch_zip(state_dict(x=b"}Na")), ["refused|structure"]
    yield "appends-on-text", torch_zip(state_dict(x=text("a") + b"(NNe")), ["refused|structure"]
    yield "additems-on-dict", torch_zip(state_dict(x=b"}(N\x90")), ["refused|structure"]
    yield "build-on-int", torch_zip(state_dict(x=b"K\1}b")), ["refused|structure"]
    yield (
        "build-on-global",
        torch_zip(state_dict(x=global_("torch", "_utils") + dict_(_rebuild_tensor_v2=global_("os", "system")) + b"b")),
        ["dangerous:os.system", "dangerous:BUILD changes a bare global"],
    )
    yield (
        "build-tuple-state",
        torch_zip(state_dict(x=global_("numpy", "ndarray") + b"(N" + dict_(a=global_("builtins", "eval")) + b"tb")),
        ["dangerous:builtins.eval"],
    )
    yield "setitems-odd", torch_zip(state_dict(x=b"}(K\1K\2K\3u")), REFUSED
    yield "reduce-of-list", torch_zip(state_dict(x=ordered + b"]R")), ["bounded"]
    yield "reduce-of-text", torch_zip(state_dict(x=text("os.system") + b")R")), ["refused|structure"]
    yield "marks-missing", torch_zip(b"t"), REFUSED
    yield "stack-too-short", torch_zip(b"N\x87"), REFUSED
    yield "stop-at-once", pickle(b""), REFUSED
    yield "stop-with-mark", torch_zip(state_dict() + b"("), ["refused|structure"]
    yield "memo-unset", torch_zip(dict_(w=b"h\x07")), REFUSED
    yield "memo-of-nothing", torch_zip(b"q\0"), REFUSED
    yield "memo-overwritten", torch_zip(tensor() + b"q\1" + b"0N" + b"q\1" + dict_(w=b"h\1")), REFUSED
    yield (
        "changed-after-capture",
        torch_zip(
            b"](K\4eq\1"
            + b"0"
            + dict_(w=call(REBUILD, storage(), number(0), b"h\1", numbers(1), b"\x89", HOOKS), x=b"h\1K\xffa")
        ),
        ["bounded"],
    )
    yield "storage-is-text", torch_zip(dict_(w=tensor(of=text("0")))), REFUSED
    yield "storage-key-missing", torch_zip(dict_(w=tensor(of=storage(key="9")))), REFUSED
    yield "storage-key-path", torch_zip(dict_(w=tensor(of=storage(key="../version")))), REFUSED
    yield "storage-class-missing", torch_zip(dict_(w=tensor(of=storage(class_="EvilStorage")))), REFUSED
    two = dict_(w=tensor(), x=tensor(of=storage(numel=2, class_="DoubleStorage"), shape=(2,)))
    yield "storage-two-classes-that-fit", torch_zip(two), ["refused|structure"]
    yield (
        "storage-two-classes",
        torch_zip(dict_(w=tensor(), x=tensor(of=storage(numel=2, class_="DoubleStorage"), shape=(3,)))),
        ["refused|structure"],
    )
    for count in range(6):
        arguments = [storage(), number(0), numbers(4), numbers(1), b"\x89"][:count]
        yield (
            f"rebuild-with-{count}",
            torch_zip(dict_(w=call(REBUILD, *arguments))),
            REFUSED if count < 4 else ["bounded"],
        )
    for position in range(4):
        arguments = [storage(), number(0), numbers(4), numbers(1), b"\x89", HOOKS]
        arguments[position] = dict_(a=b"N")
        yield f"rebuild-wrong-{position}", torch_zip(dict_(w=call(REBUILD, *arguments))), REFUSED
    for name in ("_rebuild_parameter", "_rebuild_qtensor", "_rebuild_sparse_tensor", "_rebuild_tensor_v3", "_rebuild_nested_tensor", "_rebuild_wrapper_subclass",
                 "_rebuild_meta_tensor_no_storage", "_rebuild_device_tensor_from_numpy", "_rebuild_parameter_with_state"):  # fmt: skip
        yield (
            f"arity-{name}",
            torch_zip(dict_(w=call(global_("torch._utils", name)), x=call(global_("torch._utils", name), b"N", b"N"))),
            REFUSED,
        )
    yield (
        "parameter-of-itself",
        torch_zip(
            b"]("
            + call(global_("torch._utils", "_rebuild_parameter"), b"N", b"\x88", HOOKS)
            + b"eq\1"
            + dict_(w=b"h\1")
        ),
        REFUSED,
    )


def bombs():
    deep = 300000
    yield "deep-lists", torch_zip(b"]" * deep + b"a" * (deep - 1)), REFUSED
    yield "deep-tuples", torch_zip(b"N" + b"\x85" * deep), REFUSED
    yield "deep-dicts", torch_zip((b"}" + text("a")) * 50000 + tensor() + b"s" * 50000), REFUSED
    yield (
        "deep-parameters",
        torch_zip(
            global_("torch._utils", "_rebuild_parameter") * 20000 + tensor() + (b"\x88" + HOOKS + b"\x87R") * 20000
        ),
        REFUSED,
    )
    yield "deep-persistent-ids", torch_zip(b"N" + b"Q" * deep), REFUSED
    yield "marks", torch_zip(b"(" * 5_000_000), REFUSED
    yield "nones", torch_zip(b"N" * 8_000_000), REFUSED
    yield "empty-dicts", torch_zip(b"}" * 8_000_000), REFUSED
    yield "dup", torch_zip(b"](" + b"N" + b"2" * 4_000_000 + b"e"), REFUSED
    yield "calls", torch_zip(b"](" + (global_("a", "b") + b")R") * 300_000 + b"e"), REFUSED
    yield "globals", torch_zip(b"](" + b"".join(global_(f"os{i}", f"f{i}") for i in range(200_000)) + b"e"), REFUSED
    yield (
        "dangerous-behind-globals",
        torch_zip(b"](" + b"".join(global_(f"m{i}", f"f{i}") for i in range(20_000)) + global_("os", "system") + b"e"),
        ["dangerous:os.system"],
    )
    laugh = b"]q\0" + b"".join(
        b"0](" + b"h" + bytes([i]) + (b"h" + bytes([i])) * 9 + b"eq" + bytes([i + 1]) for i in range(60)
    )
    yield "laughs-lists", torch_zip(laugh), REFUSED
    level = b"".join(b"0" + dict_(a=b"h" + bytes([i]), b=b"h" + bytes([i])) + b"q" + bytes([i + 1]) for i in range(60))
    yield "laughs-paths", torch_zip(dict_(w=tensor()) + b"q\0" + level), REFUSED
    yield "laughs-modules", torch_zip(module_bomb()), ["bounded"]
    yield "laughs-text", torch_zip(text("a" * 100_000) + b"q\0" + b"0" + nested_names(100)), ["bounded"]
    yield "cycle-list", torch_zip(b"]q\0h\0a"), REFUSED
    yield "cycle-dict", torch_zip(b"}q\0" + text("w") + tensor() + b"s" + text("me") + b"h\0s"), ["bounded"]
    yield (
        "cycle-module",
        torch_zip(
            global_("torch.nn.modules.linear", "Linear")
            + b")\x81q\0"
            + dict_(_parameters=dict_(w=tensor()), _buffers=b"}", _modules=dict_(me=b"h\0"))
            + b"b"
        ),
        ["bounded"],
    )
    yield (
        "cycle-tensor-state",
        torch_zip(b"]q\0" + call(REBUILD, b"h\0", b"h\0", b"h\0", b"h\0", b"h\0", b"h\0") + b"a"),
        REFUSED,
    )
    yield "views-many", torch_zip(dict_(**{f"w{i}": tensor() for i in range(2000)})), ["bounded"]
    yield "appends-shared", torch_zip(b"]q\0" + (b"(" + b"h\0" * 1000 + b"e") * 300), REFUSED


def module_bomb():
    """Sixty levels of modules, each the two children of the next: 2^60 paths."""
    head = global_("torch.nn.modules.container", "Sequential") + b")\x81"
    body = head + dict_(_parameters=dict_(w=tensor()), _buffers=b"}", _modules=b"}") + b"bq\0"
    for i in range(60):
        child = b"h" + bytes([i])
        body += (
            b"0"
            + head
            + dict_(_parameters=b"}", _buffers=b"}", _modules=dict_(a=child, b=child))
            + b"bq"
            + bytes([i + 1])
        )
    return body


def nested_names(levels):
    """A dict below a dict below ..., each under the same long text, so that a path would be levels times as long."""
    return b"}h\0" * levels + tensor() + b"s" * levels


def lengths():
    """Lengths that are only claimed: nothing may be allocated for them."""
    claims = {
        "BINBYTES8": b"\x8e" + struct.pack("<Q", 2**40), "BINUNICODE8": b"\x8d" + struct.pack("<Q", 2**64 - 1), "BYTEARRAY8": b"\x96" + struct.pack("<Q", 2**38),
        "LONG4": b"\x8b" + struct.pack("<i", 2**31 - 1), "LONG4_negative": b"\x8b" + struct.pack("<i", -1), "BINSTRING": b"T" + struct.pack("<i", 2**31 - 1),
        "BINBYTES": b"B" + struct.pack("<I", 2**32 - 1), "BINUNICODE": b"X" + struct.pack("<I", 2**32 - 1), "LONG1": b"\x8a\xff",
        "GLOBAL": b"c" + b"a" * 9000, "STRING": b"S'" + b"a" * 9000, "PERSID": b"P" + b"a" * 9000, "INT": b"I" + b"9" * 9000,
    }  # fmt: skip
    for name, claim in claims.items():
        yield f"claims-{name}", torch_zip(state_dict() + claim), REFUSED
        yield f"claims-{name}.plain", b"\x80\x04N" + claim, REFUSED
    yield "memo-index", torch_zip(state_dict() + b"r\xff\xff\xff\xff"), ["bounded"]
    yield "memo-index-text", torch_zip(state_dict() + b"p99999999999999999999\n"), REFUSED
    yield "memo-index-negative", torch_zip(state_dict() + b"p-1\n"), REFUSED
    yield (
        "memo-sparse",
        torch_zip(state_dict() + b"".join(b"r" + struct.pack("<I", i * 20011) for i in range(100_000))),
        ["bounded"],
    )
    yield "long-digits", torch_zip(state_dict(x=b"L" + b"9" * 1_000_000 + b"L\n")), ["bounded"]
    yield (
        "long-bytes",
        torch_zip(state_dict(x=b"\x8b" + struct.pack("<i", 1_000_000) + b"\x7f" * 1_000_000)),
        ["bounded"],
    )


def tensors():
    """Numbers of a tensor that lie, wrap or explode."""
    big = 2**62
    views = {
        "past-the-end": dict(shape=(5,)), "offset-past": dict(offset=1), "offset-negative": dict(offset=-1), "offset-huge": dict(offset=2**63 - 1),
        "stride-past": dict(shape=(2,), stride=(4,)), "stride-negative": dict(stride=(-1,), offset=3), "stride-huge": dict(shape=(2, 2), stride=(2**63 - 1, 1)),
        "size-negative": dict(shape=(-4,)), "size-huge": dict(shape=(2**63 - 1,)), "size-wraps": dict(shape=(2**32, 2**32), stride=(0, 0)),
        "size-and-stride-wrap": dict(shape=(3, 1), stride=(2**63 - 1, 1)), "rank-differs": dict(shape=(2, 2), stride=(1,)),
        "zero-times-huge": dict(shape=(0, big, big), stride=(1, 1, 1)), "rank-1000": dict(shape=(1,) * 1000, stride=(1,) * 1000),
        "size-beyond-64-bits": dict(shape=(2**70,)),
    }  # fmt: skip
    for name, view in views.items():
        expected = ["bounded"] if name == "zero-times-huge" else REFUSED
        yield f"view-{name}", torch_zip(dict_(w=tensor(**view))), expected
        yield f"view-{name}.legacy", legacy(dict_(w=legacy_tensor(**view))), expected
    yield "view-zero-strides", torch_zip(dict_(w=tensor(shape=(2**20, 2**20), stride=(0, 0)))), REFUSED
    yield (
        "view-zero-strides-many",
        torch_zip(dict_(**{f"w{i}": tensor(shape=(2**24 + i,), stride=(0,)) for i in range(300)})),
        REFUSED,
    )
    yield "numel-wraps", torch_zip(dict_(w=tensor(of=storage(numel=0x4000000000000001)))), ["bounded"]
    yield "numel-negative", torch_zip(dict_(w=tensor(of=storage(numel=-4)))), ["bounded"]
    yield "numel-beyond-64-bits", torch_zip(dict_(w=tensor(of=storage(numel=2**70)))), ["bounded"]
    yield "record-short", torch_zip(dict_(w=tensor()), {"0": FLOATS[:15]}), REFUSED
    yield "record-empty", torch_zip(dict_(w=tensor()), {"0": b""}), REFUSED


def streams(evil, found):
    """Legacy streams, streams inside byte strings, tars."""
    computed = pickle(call(global_("__builtin__", "eval"), text("0x1950a86a20f9469cfc6c")))
    yield "magic-by-eval", legacy(dict_(w=legacy_tensor()), magic=computed), ["refused", "dangerous:__builtin__.eval"]
    yield (
        "magic-behind-payload",
        legacy(dict_(w=legacy_tensor()), magic=b"\x80\x02" + evil + b"0" + MAGIC[2:]),
        ["dangerous:posix.system"],
    )
    yield "magic-twice", MAGIC + legacy(dict_(w=legacy_tensor())), REFUSED
    yield "protocol-evil", legacy(dict_(w=legacy_tensor()), protocol=pickle(evil)), found
    yield "info-evil", legacy(dict_(w=legacy_tensor()), info=pickle(dict_(little_endian=evil))), found
    yield "keys-evil", legacy(dict_(w=legacy_tensor()), keys=pickle(b"](" + text("0") + evil + b"e")), found
    yield "keys-not-a-list", legacy(dict_(w=legacy_tensor()), keys=pickle(b"K\1")), REFUSED
    yield (
        "keys-twice",
        legacy(
            dict_(w=legacy_tensor()),
            keys=pickle(b"](" + text("0") * 2 + b"e"),
            blocks=(struct.pack("<q", 4) + FLOATS) * 2,
        ),
        ["refused|structure"],
    )
    yield "keys-many", legacy(dict_(w=legacy_tensor()), keys=pickle(b"](" + text("0") * 300_000 + b"e")), REFUSED
    yield "keys-unknown", legacy(dict_(w=legacy_tensor()), keys=pickle(b"](" + text("7") + b"e")), REFUSED
    for numel in (3, 5, -1, 2**62, 2**61 + 1):
        yield (
            f"block-numel-{numel}",
            legacy(dict_(w=legacy_tensor()), blocks=struct.pack("<q", numel) + FLOATS),
            REFUSED,
        )
    yield "block-missing", legacy(dict_(w=legacy_tensor()), blocks=b""), REFUSED
    yield "behind-the-last-block", legacy(dict_(w=legacy_tensor())) + pickle(evil), ["structure"]
    for view in ((3, 2), (-1, 2), (2**62, 2**62)):
        triple = tuple_(text("v"), number(view[0]), number(view[1]))
        yield f"view-triple-{view[0]}-{view[1]}", legacy(dict_(w=tensor(shape=(2,), of=storage(view=triple)))), REFUSED
    inner = legacy(storage(view=b"N"))
    load = global_("torch.storage", "_load_from_bytes")
    yield "stream-in-bytes-evil", pickle(dict_(w=call(load, blob(legacy(evil)))), 4), found
    yield "stream-in-bytes-evil.zip", torch_zip(state_dict(x=call(load, blob(legacy(evil))))), found
    yield (
        "stream-in-bytes-evil-storage",
        pickle(dict_(w=tensor(of=call(load, blob(legacy(evil + storage(view=b"N")))))), 4),
        found,
    )
    yield "stream-in-bytes-zip-evil", pickle(dict_(w=call(load, blob(torch_zip(evil)))), 4), found
    yield "stream-in-bytes-garbage", pickle(dict_(w=tensor(of=call(load, blob(b"\xff" * 40)))), 4), REFUSED
    for _ in range(12):
        inner = pickle(call(load, blob(inner)), 4)
    yield "stream-in-bytes-deep", inner, REFUSED
    yield (
        "pickle-in-bytes",
        torch_zip(state_dict(x=call(global_("pickle", "loads"), blob(pickle(evil))))),
        ["dangerous:pickle.loads"],
    )
    yield "tar-persistent-id", torch_tar(dict_(w=b"P1\n", x=evil + b"Q")), found
    one = pickle(number(1))
    key = pickle(tuple_(number(0), text("cpu"), global_("torch", "FloatStorage")))
    yield (
        "tar-storage-huge",
        torch_tar(dict_(w=b"P1\n"), storages=one + key + struct.pack("<q", 2**61) + FLOATS),
        REFUSED,
    )
    yield "tar-storages-many", torch_tar(dict_(w=b"P1\n"), storages=pickle(number(2**40))), REFUSED
    yield "tar-storages-evil", torch_tar(dict_(w=b"P1\n"), storages=pickle(evil)), found
    head = one + pickle(tuple_(number(1), number(0), global_("torch", "FloatTensor")))
    yield "tar-rank-huge", torch_tar(dict_(w=b"P1\n"), tensors=head + struct.pack("<ii", 2**31 - 1, 0)), REFUSED
    yield "tar-rank-negative", torch_tar(dict_(w=b"P1\n"), tensors=head + struct.pack("<ii", -1, 0)), REFUSED
    yield (
        "tar-size-huge",
        torch_tar(dict_(w=b"P1\n"), tensors=head + struct.pack("<iiqqq", 1, 0, 2**62, 2**62, 0)),
        REFUSED,
    )


def rare(evil, found):
    """Opcodes that torch never writes."""
    for name, opcode in {
        "EXT1": b"\x82\1",
        "EXT2": b"\x83\1\1",
        "EXT4": b"\x84\1\1\1\1",
        "EXT1_zero": b"\x82\0",
        "EXT4_negative": b"\x84\xff\xff\xff\xff",
    }.items():
        yield (
            f"rare-{name}",
            torch_zip(state_dict(x=opcode + tuple_(text("true")) + b"R")),
            ["refused|unknown:a code of the extension registry stands for a global"],
        )
    yield "rare-NEXT_BUFFER", torch_zip(state_dict(x=b"\x97")), ["refused|structure"]
    yield "rare-READONLY_BUFFER", torch_zip(state_dict(x=b"N\x98")), ["bounded"]
    yield "rare-PERSID", torch_zip(state_dict(x=b"Pos.system\n")), ["bounded"]
    yield "rare-PERSID-long", torch_zip(dict_(w=tensor(of=b"P('storage', __import__('os'), '0', 'cpu', 4)\n"))), REFUSED
    yield (
        "rare-INST-nested",
        torch_zip(state_dict(x=b"((" + evil + b"iposix\nsystem\n" + b"iposix\npopen\n")),
        found + ["dangerous:posix.popen"],
    )
    yield "rare-OBJ-empty", torch_zip(state_dict(x=b"(o")), REFUSED
    yield "rare-FROZENSET", torch_zip(state_dict(x=b"(" + evil + b"\x91")), found


def names(evil):
    """Names that are made to fool a reader of the report, not the machine."""
    yield (
        "name-newlines",
        torch_zip(state_dict(x=call(stack_global("os\nsafe", "system\n\n[ok] clean"), b"N"))),
        ["bounded"],
    )
    yield (
        "name-escape-codes",
        torch_zip(dict_(**{"w\x1b[2Jclean": tensor()}, x=stack_global("\x1b[2Jos", "system"))),
        ["bounded"],
    )
    yield "name-right-to-left", torch_zip(dict_(**{"w\u202egnp.exe": tensor()})), ["bounded"]
    yield "name-surrogate", torch_zip(dict_(**{"w\ud800": tensor()})), ["bounded"]
    yield "name-nul", torch_zip(dict_(**{"w\0x": tensor(), "w": tensor()})), ["bounded"]
    yield "name-traversal", torch_zip(dict_(**{"../../w": tensor(), "/etc/w": tensor()})), ["bounded"]
    yield "name-long", torch_zip(dict_(**{"w" * 3_000_000: tensor()})), ["bounded"]
    yield (
        "name-twins",
        torch_zip(b"}(" + text("1") + tensor() + b"K\1" + tensor(offset=0, shape=(2,)) + b"u"),
        ["bounded"],
    )
    yield "name-metadata", torch_zip(dict_(__metadata__=tensor())), ["bounded"]
    yield (
        "name-module-with-blank",
        torch_zip(state_dict(x=call(global_("os system", "FloatStorage LongStorage"), b"N"))),
        ["called:os system.FloatStorage LongStorage"],
    )
    yield "name-case", torch_zip(state_dict(x=call(global_("OS", "System"), b"N"))), ["called:OS.System"]
    yield "name-empty", torch_zip(state_dict(x=call(global_("", ""), b"N") + evil)), REFUSED
    yield (
        "name-stack-global-dots",
        torch_zip(state_dict(x=call(short_text("os.") + short_text(".system") + b"\x93", b"N"))),
        ["refused|structure|dangerous"],
    )
