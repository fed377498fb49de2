"""Tricks in the headers of numpy, safetensors and exported programs."""

import json
import struct

from assemble import (
    FLOATS,
    call,
    dict_,
    entry,
    global_,
    npy,
    number,
    pickle,
    safetensors,
    state_dict,
    text,
    torch_zip,
    tuple_,
    zip_file,
)

REFUSED = ["refused"]


def samples(command):
    evil = call(global_("posix", "system"), text(command))
    found = ["dangerous:posix.system"]
    yield from numpy_files(evil, found)
    yield from headers()
    yield from exported(evil, found)


def numpy_files(evil, found):
    yield "npy-object", npy("{'descr': '|O', 'fortran_order': False, 'shape': (), }", pickle(evil)), found
    yield (
        "npy-header-code",
        npy("{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (4,), }", FLOATS),
        REFUSED,
    )
    yield "npy-header-deep", b"\x93NUMPY\2\0" + struct.pack("<I", 1_000_000) + b"(" * 1_000_000, REFUSED
    yield "npy-header-length", b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b"{", REFUSED
    yield (
        "npy-shape-huge",
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905,), }", FLOATS),
        REFUSED,
    )
    yield "npy-shape-negative", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }", FLOATS), REFUSED
    yield "npy-short", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", FLOATS), REFUSED
    yield (
        "npy-itemsize-huge",
        npy("{'descr': '|V9223372036854775807', 'fortran_order': False, 'shape': (4,), }", FLOATS),
        REFUSED,
    )
    yield "npz-object", zip_file([entry("w.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", FLOATS)),
                                  entry("x.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (), }", pickle(evil)))]), found  # fmt: skip
    yield (
        "npz-pickle-member",
        zip_file(
            [
                entry("w.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", FLOATS)),
                entry("x.pkl", pickle(evil)),
            ]
        ),
        ["structure|dangerous"],
    )
    yield (
        "npz-bomb",
        zip_file(
            [
                entry(
                    "w.npy",
                    npy("{'descr': '|u1', 'fortran_order': False, 'shape': (300000000,), }", b"\0" * 300_000_000),
                    method=8,
                )
            ]
        ),
        REFUSED,
    )
    dtype = (
        call(global_("numpy", "dtype"), text("f4"), b"\x89", b"\x88")
        + tuple_(number(3), text("<"), b"N", b"N", b"N", number(-1), number(-1), number(0))
        + b"b"
    )
    array = call(
        global_("numpy.core.multiarray", "_reconstruct"), global_("numpy", "ndarray"), tuple_(number(0)), b"C\1b"
    )
    for name, shape, data in (
        ("short", number(5), FLOATS),
        ("huge", number(2**62), FLOATS),
        ("negative", number(-1), FLOATS),
    ):
        state = tuple_(number(1), tuple_(shape), dtype, b"\x89", b"C" + bytes([len(data)]) + data)
        yield f"ndarray-{name}", pickle(dict_(w=array + state + b"b"), 4), REFUSED
    yield (
        "ndarray-object-evil",
        pickle(dict_(w=array + tuple_(number(1), tuple_(number(1)), dtype, b"\x89", b"](" + evil + b"e") + b"b"), 4),
        found,
    )
    wrapper = global_("joblib.numpy_pickle", "NumpyArrayWrapper") + b")\x81"
    fields = dict_(
        subclass=global_("numpy", "ndarray"),
        shape=tuple_(number(2**61)),
        order=text("C"),
        dtype=dtype,
        allow_mmap=b"\x88",
    )
    yield "joblib-huge", pickle(wrapper + fields + b"b", 4) + FLOATS, REFUSED
    fields = dict_(
        subclass=global_("numpy", "ndarray"), shape=tuple_(number(4)), order=text("C"), dtype=dtype, allow_mmap=b"\x88"
    )
    yield (
        "joblib-evil-behind",
        b"\x80\x04" + dict_(w=wrapper + fields + b"b" + b"\xff" + b"\xff" * 255 + FLOATS, x=evil) + b".",
        ["refused|dangerous"],
    )


def headers():
    """safetensors."""
    one = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}'
    yield "safetensors-length-huge", safetensors(one + b"}", FLOATS, 2**63), REFUSED
    yield "safetensors-length-limit", safetensors(one + b"}", FLOATS, 99_999_999), REFUSED
    yield "safetensors-deep", safetensors(b'{"a":' + b"[" * 500_000, FLOATS), REFUSED
    yield "safetensors-duplicate", safetensors(one + b"," + one[1:] + b"}", FLOATS), REFUSED
    yield (
        "safetensors-overlap",
        safetensors(one + b',"x":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}}', FLOATS * 2),
        REFUSED,
    )
    yield (
        "safetensors-hole",
        safetensors(one + b',"x":{"dtype":"F32","shape":[1],"data_offsets":[20,24]}}', FLOATS * 2),
        REFUSED,
    )
    yield (
        "safetensors-size",
        safetensors(b'{"w":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}}', FLOATS[:4]),
        REFUSED,
    )
    yield (
        "safetensors-backwards",
        safetensors(b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}', FLOATS),
        REFUSED,
    )
    yield "safetensors-tail", safetensors(one + b"}", FLOATS + b"x" * 100), REFUSED
    yield "safetensors-dtype", safetensors(one.replace(b"F32", b"F33") + b"}", FLOATS), REFUSED
    yield "safetensors-metadata-number", safetensors(one + b',"__metadata__":{"a":1}}', FLOATS), REFUSED


def exported(evil, found):
    """Exported programs: their configuration names files and sizes."""

    def program(config, weights=FLOATS, **more):
        rows = {
            "archive_format": b"pt2",
            "archive_version": b"0",
            "models/model.json": b"{}",
            "data/weights/model_weights_config.json": config,
            "data/weights/weight_0": weights,
        }
        rows.update(more)
        return zip_file([entry(f"m/{name}", data) for name, data in rows.items()])

    def config(path="weight_0", sizes=(4,), strides=(1,), offset=0, dtype=7, pickled=False):
        meta = {"dtype": dtype, "sizes": [{"as_int": n} for n in sizes], "strides": [{"as_int": n} for n in strides], "storage_offset": {"as_int": offset},
                "layout": 7, "device": {"type": "cpu", "index": None}, "requires_grad": False}  # fmt: skip
        return json.dumps(
            {"config": {"w": {"path_name": path, "is_param": True, "use_pickle": pickled, "tensor_meta": meta}}}
        ).encode()

    yield "pt2-path", program(config("../../../etc/passwd")), REFUSED
    yield "pt2-path-missing", program(config("weight_9")), REFUSED
    yield "pt2-sizes-huge", program(config(sizes=(2**62, 4))), REFUSED
    yield "pt2-sizes-past", program(config(sizes=(5,))), REFUSED
    yield "pt2-sizes-negative", program(config(sizes=(-4,))), REFUSED
    yield "pt2-strides-huge", program(config(strides=(2**62,))), REFUSED
    yield "pt2-offset", program(config(offset=2**62)), REFUSED
    yield "pt2-dtype", program(config(dtype=99)), REFUSED
    yield "pt2-pickled-evil", program(config(pickled=True), torch_zip(evil)), ["refused|dangerous"]
    yield "pt2-config-deep", program(b'{"config":' + b"[" * 300_000), REFUSED
    yield "pt2-config-twice", program(b'{"config":{"w":1},"config":{}}'), REFUSED
    rows = [
        entry("serialized_exported_program.json", b"{}"),
        entry("serialized_state_dict.json", torch_zip(state_dict(x=evil))),
        entry("version", b"1"),
    ]
    yield "pt2-old-evil", zip_file(rows), found
