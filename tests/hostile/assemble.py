"""Byte builders for hostile files: pickles opcode by opcode, zips field by field, tars, legacy streams. Nothing here is pickled or unpickled, so a
file holds exactly what its builder says."""

import struct
import zlib

# ---- pickles ----


def text(value):
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def short_text(value):
    return b"\x8c" + bytes([len(value.encode())]) + value.encode()


def blob(data):
    return b"B" + struct.pack("<I", len(data)) + data


def number(value):
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def global_(module, name):
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def stack_global(module, name):
    return short_text(module) + short_text(name) + b"\x93"


def tuple_(*items):
    return b"(" + b"".join(items) + b"t"


def numbers(*values):
    return tuple_(*map(number, values))


def call(callee, *arguments):
    return callee + tuple_(*arguments) + b"R"


def dict_(**items):
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


def pickle(body, protocol=2):
    return (b"\x80" + bytes([protocol]) if protocol >= 2 else b"") + body + b"."


def storage(key="0", numel=4, class_="FloatStorage", view=None):
    """The tuple of the persistent id; `view` makes it the one of a legacy stream."""
    items = [text("storage"), global_("torch", class_), text(key), text("cpu"), number(numel)]
    return tuple_(*items, *([view] if view else [])) + b"Q"


HOOKS = global_("collections", "OrderedDict") + b")R"
REBUILD = global_("torch._utils", "_rebuild_tensor_v2")


def tensor(shape=(4,), stride=(1,), offset=0, of=None):
    return call(REBUILD, of or storage(), number(offset), numbers(*shape), numbers(*stride), b"\x89", HOOKS)


def state_dict(**more):
    """One tensor "w" of four floats, and what else a hostile hand puts beside it."""
    return dict_(w=tensor(), **more)


FLOATS = struct.pack("<4f", 1, 2, 3, 4)

# ---- zips ----


def entry(name, data, **fields):
    """An entry of zip_file(). Fields: method, flags, crc, size, packed, local_name, local_method, local_signature, offset (of another entry's
    local header: this one gets none), extra (central)."""
    return dict(fields, name=name if isinstance(name, bytes) else name.encode(), data=data)


def local_header(e, packed):
    name = e.get("local_name", e["name"])
    return (
        e.get("local_signature", b"PK\3\4")
        + struct.pack("<HHHHHIII", 20, e.get("flags", 0), e.get("local_method", e.get("method", 0)), 0, 0,
                      e.get("crc", zlib.crc32(e["data"])), e.get("packed", len(packed)), e.get("size", len(e["data"])))
        + struct.pack("<HH", len(name), 0) + name
    )  # fmt: skip


def central_header(e, packed, offset):
    extra = e.get("extra", b"")
    return (
        b"PK\1\2"
        + struct.pack("<HHHHHHIII", 20, 20, e.get("flags", 0), e.get("method", 0), 0, 0, e.get("crc", zlib.crc32(e["data"])),
                      e.get("packed", len(packed)), e.get("size", len(e["data"])))
        + struct.pack("<HHHHHII", len(e["name"]), len(extra), 0, 0, 0, 0, offset) + e["name"] + extra
    )  # fmt: skip


def end_record(count, size, offset, comment=b"", comment_length=None):
    length = len(comment) if comment_length is None else comment_length
    return b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, size & 0xFFFFFFFF, offset, length) + comment


def zip_file(entries, before=b"", shift=None, end=end_record, gap=b"", after=b""):
    """`before`: bytes in front, counted in the offsets unless shift=0. `end` makes the end record of (count, size, offset)."""
    body, central = bytearray(before), bytearray()
    shift = 0 if shift is None else shift - len(before)
    for e in entries:
        packed = e["data"]
        if e.get("method", 0) == 8:
            deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
            packed = deflate.compress(packed) + deflate.flush()
        offset = e.get("offset", len(body) + shift)
        if "offset" not in e:
            body += local_header(e, packed) + packed
        central += central_header(e, packed, offset)
    body += gap
    return bytes(body + central) + end(len(entries), len(central), len(body) + shift) + after


def torch_entries(body, records=None, prefix="archive", **fields):
    """The entries of torch.save's zip around the body of a pickle."""
    rows = [entry(f"{prefix}/data.pkl", pickle(body), **fields)]
    rows += [entry(f"{prefix}/data/{key}", data) for key, data in (records or {"0": FLOATS}).items()]
    return rows + [entry(f"{prefix}/version", b"3\n")]


def torch_zip(body, records=None, **fields):
    return zip_file(torch_entries(body, records, **fields))


# ---- legacy streams and tars ----

MAGIC = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."


def legacy(body, magic=MAGIC, protocol=None, info=None, keys=None, blocks=None):
    return (
        magic
        + (protocol or pickle(number(1001)))
        + (info or pickle(dict_(little_endian=b"\x88")))
        + pickle(body)
        + (keys or pickle(b"](" + text("0") + b"e"))
        + (struct.pack("<q", 4) + FLOATS if blocks is None else blocks)
    )


def legacy_tensor(numel=4, **named):
    return tensor(of=storage(numel=numel, view=b"N"), **named)


def tar_entry(name, data, size=None, kind=b"0"):
    size_text = b"%011o\0" % len(data) if size is None else size
    head = (
        name.encode().ljust(100, b"\0")
        + b"0000644\0"
        + b"0000000\0" * 2
        + size_text
        + b"00000000000\0"
        + b" " * 8
        + kind
    )
    head = (head + b"\0" * 100 + b"ustar\x0000").ljust(512, b"\0")
    head = head[:148] + b"%06o\0 " % sum(head) + head[156:]
    return head + data + b"\0" * (-len(data) % 512)


def tar(*entries):
    return b"".join(entries) + b"\0" * 1024


def torch_tar(body, storages=None, tensors=None):
    """torch 0.1's tar with the tensor 1 of four floats on the storage 0."""
    one = pickle(number(1))
    storages = storages or one + pickle(tuple_(number(0), text("cpu"), global_("torch", "FloatStorage"))) + struct.pack(
        "<q", 4
    ) + FLOATS + pickle(b"]")
    tensors = tensors or one + pickle(tuple_(number(1), number(0), global_("torch", "FloatTensor"))) + struct.pack(
        "<iiqqq", 1, 0, 4, 1, 0
    )
    rows = {
        "sys_info": pickle(dict_(little_endian=b"\x88")),
        "pickle": pickle(body),
        "tensors": tensors,
        "storages": storages,
    }
    return tar(*(tar_entry(name, data) for name, data in rows.items()))


# ---- numpy and safetensors ----


def npy(header, data=b""):
    head = header.encode().ljust(117, b" ") + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


def safetensors(header, data=b"", length=None):
    return struct.pack("<Q", len(header) if length is None else length) + header + data
