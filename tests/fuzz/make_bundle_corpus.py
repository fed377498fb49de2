#!/usr/bin/env python3
"""Writes the seeds of fuzz_gzip: archives of files, small, of each kind, stored and compressed."""

import gzip
import io
import pathlib
import pickle
import struct
import tarfile
import zipfile

OUT = pathlib.Path(__file__).resolve().parent / "corpus" / "fuzz_gzip"
DATE = (1980, 1, 1, 0, 0, 0)


def zipped(files, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), data, method)
    return out.getvalue()


def tarred(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue().rstrip(b"\0") + bytes(1024)


def packed(data):
    return gzip.compress(data, mtime=0)


def safetensors(name, *values):
    header = ('{"%s":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' % (name, len(values), 4 * len(values))).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(values)}f", *values)


def main():
    one, two = safetensors("a", 1.0), safetensors("b", 2.0, 3.0)
    index = (b'{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}')
    shards = {"model-00001-of-00002.safetensors": one, "model-00002-of-00002.safetensors": two,
              "model.safetensors.index.json": index}
    deflated = zipfile.ZIP_DEFLATED
    seeds = {
        "raw_gzip": b"R" + packed(one),
        "raw_two_members": b"R" + packed(one[:20]) + packed(one[20:]),
        "raw_garbage": b"R" + packed(one) + b"x",
        "raw_tar_gz": b"R" + packed(tarred({"m.safetensors": one})),
        "content_tar": b"C" + tarred({"m/m.safetensors": one, "m/config.json": b"{}"}),
        "content_pickle": b"C" + pickle.dumps({"a": 1}, 2),
        "zip_one": zipped({"m.safetensors": one}, deflated),
        "zip_sb3": zipped({"data": b"{}", "policy.pth": one, "policy.optimizer.pth": two, "_stable_baselines3_version": b"2"}),
        "zip_shards": zipped(shards, deflated),
        "zip_shards_stored": zipped(shards),
        "zip_in_zip": zipped({"in.zip": zipped({"m.safetensors": one}, deflated)}, deflated),
        "zip_two": zipped({"a.pth": one, "b.pth": two}),
        "member": b"Mb.pth\n" + zipped({"a.pth": one, "b.pth": two}),
        "member_inside": b"Min.zip/m.safetensors\n" + zipped({"in.zip": zipped({"m.safetensors": one})}),
        "tar_shards": tarred(shards),
        "gzip_bare": packed(zipped({"m.safetensors": one})),
    }
    OUT.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
