"""Files that torch no longer writes, or never wrote but others did, byte by byte. Sources: the readers that torch still has (serialization.py:
_load with byteorder, _legacy_load with its tar branch), and files of those years."""

import collections
import io
import pickle
import struct
import tarfile
import zipfile

import torch
import torch._utils

LEGACY_HEAD = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
SYS_INFO = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


def data_of(tensor):
    """The bytes of the whole storage, and its number of elements."""
    storage = tensor.untyped_storage()
    return bytes(storage), storage.nbytes() // tensor.element_size()


# ---- zips ----


def rewrite(path, change):
    """change(name, data) returns both."""
    with zipfile.ZipFile(path) as archive:
        rows = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in rows:
            archive.writestr(*change(name, data))


def swap_bytes(path, state):
    """Makes the file one of a big-endian machine."""
    order = []
    for tensor in state.values():
        if tensor.untyped_storage()._cdata not in [t.untyped_storage()._cdata for t in order]:
            order.append(tensor)

    def change(name, data):
        if name.endswith("/byteorder"):
            return name, b"big"
        if "/data/" in name:
            tensor = order[int(name.rsplit("/")[-1])]
            unit = tensor.element_size() // (2 if tensor.is_complex() else 1)
            data = b"".join(data[i : i + unit][::-1] for i in range(0, len(data), unit))
        return name, data

    rewrite(path, change)


def zip_again(path, how):
    """As a user does who unpacked a checkpoint and packed it with another tool."""
    with zipfile.ZipFile(path) as archive:
        rows = [(info.filename, archive.read(info)) for info in archive.infolist()]
    method = zipfile.ZIP_DEFLATED if how != "without_prefix" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        if how == "with_folders":
            archive.mkdir(rows[0][0].split("/")[0])
        for name, data in sorted(rows, reverse=True):
            archive.writestr(name.split("/", 1)[1] if how == "without_prefix" else name, data)
        if how == "macos":
            archive.writestr("__MACOSX/._" + rows[0][0].split("/")[0], b"\0\5\x16\7")


# ---- pickles with persistent ids ----


class Id:
    """Pickles as a persistent id."""

    def __init__(self, value):
        self.value = value


class Call:
    """Pickles as the call of a function."""

    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


class Pickler(pickle._Pickler):
    def persistent_id(self, value):
        return value.value if isinstance(value, Id) else None


def dump(root, protocol=2):
    out = io.BytesIO()
    Pickler(out, protocol).dump(root)
    return out.getvalue()


def rebuild(tensor, storage):
    arguments = (
        storage,
        tensor.storage_offset(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        False,
        collections.OrderedDict(),
    )
    return Call(torch._utils._rebuild_tensor_v2, *arguments)


def storage_class(tensor):
    return (
        type(tensor.storage())
        if type(tensor.storage()) is not torch.storage.TypedStorage
        else getattr(torch, tensor.storage()._pickle_storage_type())
    )


def write_old_legacy(path, how):
    """old_views: the second tensor's storage is a view on the first's, as torch 0.2 wrote it. old_rebuild: _rebuild_tensor with four arguments."""
    base = torch.arange(1, 11, dtype=torch.float32)
    root = ("storage", torch.FloatStorage, "77", "cpu", 10)
    whole, part = Id((*root, None)), Id((*root, ("78", 3, 5)))
    if how == "old_rebuild":
        tensors = {
            "whole": Call(torch._utils._rebuild_tensor, whole, 0, (10,), (1,)),
            "part": Call(torch._utils._rebuild_tensor, whole, 3, (5,), (1,)),
        }
    else:
        tensors = {"whole": rebuild(base, whole), "part": rebuild(torch.empty(5), part)}
    path.write_bytes(
        LEGACY_HEAD
        + pickle.dumps(SYS_INFO, 2)
        + dump(tensors)
        + pickle.dumps(["77"], 2)
        + struct.pack("<q", 10)
        + data_of(base)[0]
    )


def write_protocol_0(path, state, as_zip):
    torch.save(state, path, pickle_protocol=0, _use_new_zipfile_serialization=as_zip)


def write_python_2(path, state, as_zip):
    """Every text is a byte string, lengths are longs, the dict is made of a list of pairs."""

    def text(value):
        return b"U" + bytes([len(value)]) + value.encode()

    def numbers(values):
        return b"(" + b"".join(b"K" + bytes([value]) for value in values) + b"t"

    pairs, records = b"", {}
    for key, (name, tensor) in enumerate(state.items()):
        data, count = data_of(tensor)
        records[str(key)] = (data, count)
        view = b"" if as_zip else b"N"
        class_ = b"ctorch\n" + storage_class(tensor).__name__.encode() + b"\n"
        pid = b"(" + text("storage") + class_ + text(str(key)) + text("cpu") + b"\x8a\1" + bytes([count]) + view + b"tQ"
        hooks = b"ccollections\nOrderedDict\n]\x85R"
        built = (
            b"ctorch._utils\n_rebuild_tensor_v2\n("
            + pid
            + b"K\0"
            + numbers(tensor.shape)
            + numbers(tensor.stride())
            + b"\x89"
            + hooks
            + b"tR"
        )
        pairs += b"](" + text(name) + built + b"e"
    body = b"\x80\x02ccollections\nOrderedDict\n](" + pairs + b"e\x85R."
    if as_zip:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", body)
            for key, (data, _) in records.items():
                archive.writestr(f"archive/data/{key}", data)
            archive.writestr("archive/version", "3\n")
        return
    keys = b"\x80\x02](" + b"".join(text(key) for key in records) + b"e."
    blocks = b"".join(struct.pack("<q", count) + data for data, count in records.values())
    path.write_bytes(LEGACY_HEAD + pickle.dumps(SYS_INFO, 2) + body + keys + blocks)


# ---- torch 0.1's tar ----


def write_tar(path, state):
    """The names of tensors and storages are one space of numbers."""
    storages, tensors = pickle.dumps(len(state), 2), pickle.dumps(len(state), 2)
    ids = {}
    for number, (name, tensor) in enumerate(state.items()):
        data, count = data_of(tensor)
        storages += pickle.dumps((number, "cpu", storage_class(tensor)), 2) + struct.pack("<q", count) + data
        ids[name] = Id(str(100 + number))
        kind = {torch.float32: torch.FloatTensor, torch.int64: torch.LongTensor, torch.float64: torch.DoubleTensor}[
            tensor.dtype
        ]
        tensors += pickle.dumps((100 + number, number, kind), 2) + struct.pack("<ii", tensor.ndim, 0)
        tensors += struct.pack(f"<{2 * tensor.ndim + 1}q", *tensor.shape, *tensor.stride(), tensor.storage_offset())
    storages += pickle.dumps([], 2)
    rows = {"sys_info": pickle.dumps(SYS_INFO, 2), "pickle": dump(ids), "storages": storages, "tensors": tensors}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in rows.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


# ---- more than 4 GiB ----


def write_beyond_4_gib(path, tensor):
    """A zip with a hole of 4 GiB in the middle. The small record behind it has a local ZIP64 field that holds an offset only, as torch writes it."""
    hole = 2**32 + 64
    big = Id(("storage", torch.FloatStorage, "0", "cpu", hole // 4))
    small = Id(("storage", torch.FloatStorage, "1", "cpu", tensor.numel()))
    root = {"state_dict": {"w": rebuild(tensor, small)}, "optimizer": {"big": rebuild(torch.empty(1).expand(1), big)}}
    central, count = b"", 0
    with open(path, "wb") as file:
        for name, data, size in (
            ("m/data.pkl", dump(root), 0),
            ("m/data/0", b"", hole),
            ("m/data/1", data_of(tensor)[0], 0),
            ("m/version", b"3\n", 0),
        ):
            at, size = file.tell(), size or len(data)
            far, large = at >= 2**32, size >= 2**32
            local = struct.pack("<QQ", size, size) if large else b""
            local += struct.pack("<Q", at) if far else b""
            local = struct.pack("<HH", 1, len(local)) + local if local else b""
            pad = -(at + 30 + len(name) + len(local) + 4) % 64
            extra = local + b"FB" + struct.pack("<H", pad) + b"Z" * pad
            file.write(
                b"PK\3\4"
                + struct.pack("<HHHHHIIIHH", 0, 0x0808, 0, 0, 0, 0, 0, 0, len(name), len(extra))
                + name.encode()
                + extra
            )
            file.write(data)
            file.seek(size - len(data), io.SEEK_CUR)
            file.write(b"PK\7\x08" + struct.pack("<IQQ" if far or large else "<III", 0, size, size))
            fields = b"".join(
                struct.pack("<Q", value) for value, there in ((size, large), (size, large), (at, far)) if there
            )
            fields = struct.pack("<HH", 1, len(fields)) + fields if fields else b""
            sizes = [0xFFFFFFFF if large else size] * 2
            central += b"PK\1\2" + struct.pack(
                "<HHHHHHIIIHHHHHII",
                45,
                45,
                0x0808,
                0,
                0,
                0,
                0,
                *sizes,
                len(name),
                len(fields),
                0,
                0,
                0,
                0,
                0xFFFFFFFF if far else at,
            )
            central += name.encode() + fields
            count += 1
        at = file.tell()
        file.write(central + b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(central), at))
        file.write(b"PK\6\7" + struct.pack("<IQI", 0, at + len(central), 1))
        file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(central), 0xFFFFFFFF, 0))


# ---- quantized ----


def codes(state):
    """What quantized=keep writes: the integers, and beside them scale and zero point."""
    found = {}
    for name, tensor in state.items():
        if not tensor.is_quantized:
            found[name] = tensor
            continue
        found[name] = tensor.int_repr().contiguous()
        if tensor.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
            found[name + ".scale"], found[name + ".zero_point"] = (
                tensor.q_per_channel_scales(),
                tensor.q_per_channel_zero_points(),
            )
        else:
            found[name + ".scale"], found[name + ".zero_point"] = (
                torch.tensor(tensor.q_scale(), dtype=torch.float64),
                torch.tensor(tensor.q_zero_point()),
            )
    return found
