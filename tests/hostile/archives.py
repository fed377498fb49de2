"""Tricks outside the pickle: zip and tar structure, compression, files that are not what they seem."""

import gzip
import json
import struct
import zlib

from assemble import (
    FLOATS,
    call,
    dict_,
    end_record,
    entry,
    global_,
    legacy,
    legacy_tensor,
    pickle,
    state_dict,
    storage,
    tar,
    tar_entry,
    tensor,
    text,
    torch_entries,
    torch_tar,
    torch_zip,
    zip_file,
)

REFUSED = ["refused"]
UNSAFE = ["refused:archive_unsafe|refused:archive_corrupt"]


def samples(command):
    evil = call(global_("posix", "system"), text(command))
    found = ["dangerous:posix.system"]
    yield from directories(evil, found)
    yield from entries(evil, found)
    yield from ends(evil, found)
    yield from other_names(evil, found)
    yield from compression(evil, found)
    yield from tars(evil, found)
    yield from disguises(evil, found)


def directories(evil, found):
    good, bad = torch_entries(state_dict()), torch_entries(state_dict(x=evil))
    yield "zip-duplicate-pickle", zip_file(good + bad[:1]), UNSAFE
    yield "zip-duplicate-first-evil", zip_file(bad[:1] + good), UNSAFE
    yield "zip-duplicate-record", zip_file(good + [entry("archive/data/0", b"\xff" * 16)]), UNSAFE
    yield "zip-overlap", zip_file(good + [entry("archive/data/1", FLOATS, offset=0)]), UNSAFE + []
    yield (
        "zip-overlap-bomb",
        zip_file(
            good[:2]
            + [entry(f"archive/data/{i}", FLOATS, offset=len(pickle(state_dict())) + 46) for i in range(1, 500)]
        ),
        UNSAFE,
    )
    yield "zip-offset-outside", zip_file(good + [entry("archive/data/1", FLOATS, offset=2**31)]), UNSAFE
    yield (
        "zip-offset-in-directory",
        zip_file(
            good + [entry("archive/data/1", FLOATS, offset=sum(len(e["data"]) + 30 + len(e["name"]) for e in good))]
        ),
        UNSAFE,
    )
    yield "zip-case-twin", zip_file(good + [entry("archive/DATA.PKL", pickle(evil))]), ["refused|structure"]
    yield "zip-case-only", zip_file([dict(bad[0], name=b"archive/DATA.PKL")] + bad[1:]), found
    yield "zip-dot-twin", zip_file(good + [entry("archive/./data.pkl", pickle(evil))]), ["refused|structure"]
    yield "zip-backslash-twin", zip_file(good + [entry("archive\\data.pkl", pickle(evil))]), ["refused|structure"]
    yield "zip-second-prefix", zip_file(good + torch_entries(evil, prefix="other")), ["refused|structure"]
    yield "zip-second-prefix-first", zip_file(torch_entries(evil, prefix="other") + good), ["refused|structure"]
    yield (
        "zip-pickle-below",
        zip_file(good + [entry("archive/sub/data.pkl", pickle(evil))]),
        ["refused|structure|dangerous"],
    )
    yield "zip-unreferenced-pickle", zip_file(good + [entry("archive/data/7", pickle(evil))]), ["structure|dangerous"]
    yield (
        "zip-pickle-as-config",
        zip_file(good + [entry("archive/config.pkl", pickle(evil, 4))]),
        ["structure|dangerous"],
    )
    yield "zip-pickle-as-text", zip_file(good + [entry("archive/notes.txt", pickle(evil, 4))]), ["structure|dangerous"]
    yield (
        "zip-pickle-in-record",
        zip_file(
            torch_entries(
                state_dict(x=tensor(of=storage("1", 30, "ByteStorage"), shape=(30,))),
                {"0": FLOATS, "1": pickle(evil, 4).ljust(30)[:30]},
            )
        ),
        ["bounded"],
    )
    yield "zip-no-pickle", zip_file(good[1:]), REFUSED
    yield "zip-empty", zip_file([]), REFUSED
    yield "zip-entries-many", zip_file(good + [entry(f"archive/data/x{i}", b"") for i in range(60_000)]), ["bounded"]
    for name in ("../../etc/cron.d/x", "/etc/passwd", "C:\\windows\\x", "archive/../../x"):
        yield (
            "zip-name-" + "".join(c if c.isalnum() else "_" for c in name),
            zip_file(good + [entry(name, b"x")]),
            ["structure"],
        )
    yield "zip-name-nul", zip_file(good + [entry(b"archive/data.pkl\0.txt", pickle(evil))]), ["refused|structure"]
    yield "zip-name-empty", zip_file(good + [entry("", b"x")]), ["refused|structure"]
    yield "zip-name-long", zip_file(good + [entry("archive/" + "a" * 60_000, b"x")]), ["bounded"]


def entries(evil, found):
    rest = torch_entries(state_dict())[1:]

    def with_pickle(**fields):
        return zip_file([entry("archive/data.pkl", pickle(state_dict(x=evil)), **fields)] + rest)

    for flag in (0x1, 0x20, 0x40, 0x2000, 0x61):
        yield f"zip-flag-{flag:#x}", with_pickle(flags=flag), ["structure", "dangerous:posix.system"]
    yield "zip-crc", with_pickle(crc=0x12345678), found
    yield "zip-crc-zero", with_pickle(crc=0), found
    yield "zip-local-name", with_pickle(local_name=b"archive/safe.txt"), ["structure", "dangerous:posix.system"]
    yield "zip-local-name-shorter", with_pickle(local_name=b"a"), ["refused|structure"]
    yield "zip-local-method", with_pickle(local_method=8), ["refused|structure"]
    yield "zip-local-signature", with_pickle(local_signature=b"PK\7\7"), REFUSED
    yield "zip-method-unknown", with_pickle(method=12), REFUSED
    yield (
        "zip-method-deflate-of-stored",
        zip_file([entry("archive/data.pkl", pickle(state_dict()), local_method=0, method=8)] + rest),
        ["refused|structure"],
    )
    body = pickle(state_dict(x=evil))
    yield "zip-size-larger", with_pickle(size=len(body) + 1000, packed=len(body) + 1000), REFUSED
    yield "zip-size-huge", with_pickle(size=0xFFFFFFF0, packed=0xFFFFFFF0), REFUSED
    yield "zip-size-differs", with_pickle(size=len(body) + 5), REFUSED
    yield "zip-size-smaller", with_pickle(size=10, packed=10), REFUSED
    yield "zip64-extra-missing", with_pickle(size=0xFFFFFFFF, packed=0xFFFFFFFF), REFUSED
    extra = struct.pack("<HHQQ", 1, 16, 2**62, 2**62)
    yield "zip64-size-huge", with_pickle(size=0xFFFFFFFF, packed=0xFFFFFFFF, extra=extra), REFUSED
    yield (
        "zip-extra-length",
        with_pickle(size=0xFFFFFFFF, packed=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 60000, 1)),
        REFUSED,
    )


def ends(evil, found):
    good, bad = torch_entries(state_dict()), torch_entries(state_dict(x=evil))
    first, second = zip_file(good), zip_file(bad)
    yield "zip-two-zips", first + second, ["refused|structure"]
    yield (
        "zip-in-comment",
        zip_file(good, end=lambda n, size, at: end_record(n, size, at, second)),
        ["refused|structure"],
    )
    yield (
        "zip-fake-end-in-comment",
        zip_file(good, end=lambda n, size, at: end_record(n, size, at, end_record(n, size, at))),
        ["refused|structure"],
    )
    yield (
        "zip-comment-short",
        zip_file(good, end=lambda n, size, at: end_record(n, size, at, b"abc", 2)),
        ["refused|structure"],
    )
    yield (
        "zip-comment-long",
        zip_file(good, end=lambda n, size, at: end_record(n, size, at, b"abc", 500)),
        ["refused|structure"],
    )
    yield "zip-appended", first + pickle(evil), ["refused|structure"]
    yield "zip-prepended-shifted", zip_file(good, before=b"#!/bin/sh\ntouch x\n"), ["refused|structure"]
    yield "zip-prepended", zip_file(good, before=pickle(evil), shift=0), ["refused|structure|dangerous"]
    yield "zip-behind-pickle", pickle(evil) + first, ["refused|structure|dangerous"]
    yield "zip-behind-legacy", legacy(dict_(w=legacy_tensor(), x=evil)) + first, ["refused|structure|dangerous"]
    yield "zip-gap", zip_file(good, gap=pickle(evil)), ["bounded"]
    yield "zip-count-less", zip_file(good, end=lambda n, size, at: end_record(n - 1, size, at)), ["refused|structure"]
    yield "zip-count-more", zip_file(good, end=lambda n, size, at: end_record(n + 1, size, at)), UNSAFE
    yield "zip-count-65535", zip_file(good, end=lambda n, size, at: end_record(65535, size, at)), UNSAFE
    yield "zip-directory-outside", zip_file(good, end=lambda n, size, at: end_record(n, size, at + 5000)), UNSAFE
    yield "zip-directory-size", zip_file(good, end=lambda n, size, at: end_record(n, size + 77, at)), UNSAFE
    yield "zip-directory-empty", zip_file(good, end=lambda n, size, at: end_record(0, 0, at)), REFUSED

    def zip64(count, size, at, record=None, locator_at=None):
        record = record or struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, at)
        locator = b"PK\6\7" + struct.pack("<IQI", 0, at + size if locator_at is None else locator_at, 1)
        return b"PK\6\6" + record + locator + end_record(count, size, at)

    yield (
        "zip64-locator-outside",
        zip_file(good, end=lambda n, size, at: zip64(n, size, at, locator_at=2**62)),
        ["refused|structure"],
    )
    yield (
        "zip64-locator-in-data",
        zip_file(good, end=lambda n, size, at: zip64(n, size, at, locator_at=3)),
        ["refused|structure"],
    )
    lies = struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 2**60, 2**60, 2**62, 2**62)
    yield "zip64-lies", zip_file(good, end=lambda n, size, at: zip64(n, size, at, lies)), ["refused|structure"]
    yield (
        "zip64-two-readings",
        zip_file(
            good,
            end=lambda n, size, at: zip64(n, size, at, struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, size, at)),
        ),
        ["refused|structure"],
    )
    yield "zip-truncated", first[: len(first) // 2], REFUSED
    yield "zip-head-only", first[:30], REFUSED


def other_names(evil, found):
    """Archives of archives, and archives that are read for other files than data.pkl."""
    good = torch_entries(state_dict())
    inner = torch_zip(state_dict(x=evil))
    yield (
        "bundle-policy",
        zip_file([entry("data", b"{}"), entry("policy.pth", inner), entry("_stable_baselines3_version", b"2.0.0")]),
        ["refused|dangerous"],
    )
    config = json.dumps(
        {"policy_class": {":type:": "x", ":serialized:": "gASVIAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpQu"}}
    )
    yield (
        "bundle-base64",
        zip_file(
            [
                entry("data", config.encode()),
                entry("policy.pth", torch_zip(state_dict())),
                entry("_stable_baselines3_version", b"2"),
            ]
        ),
        ["bounded"],
    )
    yield "bundle-one", zip_file([entry("m.pt", inner)]), ["refused|dangerous"]
    for _ in range(6):
        inner = zip_file([entry("m.pt", inner)])
    yield "bundle-deep", inner, REFUSED
    yield (
        "script-constants",
        zip_file(
            [
                entry("m/data.pkl", pickle(state_dict())),
                entry("m/data/0", FLOATS),
                entry("m/constants.pkl", pickle(evil)),
            ]
        ),
        found,
    )
    yield (
        "script-debug",
        zip_file(
            good + [entry("archive/constants.pkl", pickle(b")")), entry("archive/code/x.py.debug_pkl", pickle(evil))]
        ),
        ["bounded"],
    )
    yield (
        "script-bytecode",
        zip_file(good + [entry("archive/constants.pkl", pickle(b")")), entry("archive/bytecode.pkl", pickle(evil))]),
        ["bounded"],
    )
    deep = b"class " + b"[" * 200_000 + b"\n  a : Final[int] = " + b"(" * 200_000
    yield (
        "script-code-deep",
        zip_file(good + [entry("archive/constants.pkl", pickle(b")")), entry("archive/code/__torch__.py", deep)]),
        ["bounded"],
    )
    rows = [
        entry("p/.data/version", b"6"),
        entry("p/.data/extern_modules", b"sys\n"),
        entry("p/m/model.pkl", pickle(evil)),
        entry("p/m/x.py", b"import os"),
    ]
    yield "package-evil", zip_file(rows), ["refused|dangerous"]
    yield (
        "mar-evil",
        zip_file(
            [entry("MAR-INF/MANIFEST.json", b"{}"), entry("handler.py", b"import os"), entry("m.pt", torch_zip(evil))]
        ),
        ["refused|dangerous"],
    )


def compression(evil, found):
    rest = torch_entries(state_dict())[1:]

    def deflated(data, **fields):
        return zip_file([entry("archive/data.pkl", data, method=8, **fields)] + rest)

    yield "deflate-evil", deflated(pickle(state_dict(x=evil))), found
    yield "deflate-bomb", deflated(b"\x80\x02" + b"N" * 300_000_000), REFUSED
    yield "deflate-size-lies", deflated(pickle(state_dict()), size=10), REFUSED
    yield "deflate-size-lies-up", deflated(pickle(state_dict()), size=100_000), REFUSED
    yield "deflate-size-huge", deflated(pickle(state_dict()), size=0xFFFFFFF0), REFUSED
    yield (
        "deflate-garbage",
        zip_file([dict(entry("archive/data.pkl", b"\xff" * 200, local_method=8), method=0, flags=0)] + rest),
        REFUSED,
    )
    records = torch_entries(dict_(w=tensor(shape=(50_000_000,), of=storage(numel=50_000_000))), {})
    yield (
        "deflate-zeros-as-weights",
        zip_file(records[:1] + [entry("archive/data/0", b"\0" * 200_000_000, method=8)]),
        ["refused"],
    )
    yield "gzip-evil", gzip.compress(torch_zip(state_dict(x=evil))), ["refused|dangerous"]
    yield (
        "gzip-tar-evil",
        gzip.compress(tar(tar_entry("m/model.pt", torch_zip(state_dict(x=evil))))),
        ["refused|dangerous"],
    )
    yield "gzip-bomb", gzip.compress(b"\0" * 400_000_000, 1), REFUSED
    nested = torch_zip(state_dict())
    for _ in range(8):
        nested = gzip.compress(nested)
    yield "gzip-deep", nested, REFUSED
    yield "gzip-truncated", gzip.compress(torch_zip(state_dict()))[:-40], REFUSED
    yield "gzip-crc", gzip.compress(torch_zip(state_dict()))[:-8] + b"\0" * 8, ["refused|structure"]
    yield "gzip-many-members", gzip.compress(b"") * 50_000, REFUSED
    for magic, name in (
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"BZh9", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"Rar!\x1a\7", "rar"),
    ):
        yield f"packed-{name}", magic + zlib.compress(pickle(evil)) + b"\0" * 64, REFUSED
    yield "packed-joblib", zlib.compress(pickle(evil)), REFUSED


def tars(evil, found):
    one = torch_tar(dict_(w=b"P1\n", x=evil))
    yield "tar-size-huge-entry", tar(tar_entry("sys_info", b"", b"77777777777\0"), tar_entry("pickle", b"")), REFUSED
    yield "tar-size-binary", tar(tar_entry("sys_info", b"", b"\x80" + b"\xff" * 11), tar_entry("pickle", b"")), REFUSED
    yield "tar-size-words", tar(tar_entry("sys_info", b"", b"abcdefghijk\0"), tar_entry("pickle", b"")), REFUSED
    yield (
        "tar-links",
        tar(*(tar_entry(n, b"", kind=b"2") for n in ("sys_info", "pickle", "storages", "tensors"))),
        REFUSED,
    )
    yield (
        "tar-devices",
        tar(*(tar_entry(n, b"", kind=b"3") for n in ("sys_info", "pickle", "storages", "tensors"))),
        REFUSED,
    )
    yield "tar-twice", one[:-1024] + torch_tar(evil), ["refused|structure|dangerous"]
    yield (
        "tar-long-name-bomb",
        tar(tar_entry("././@LongLink", b"a" * 2_000_000, kind=b"L"), tar_entry("pickle", pickle(evil))),
        REFUSED,
    )
    yield (
        "tar-pax-bomb",
        tar(tar_entry("pax", b"99999999999 path=x\n", kind=b"x"), tar_entry("pickle", pickle(evil))),
        REFUSED,
    )
    yield "tar-many", tar(*(tar_entry(f"f{i}", b"") for i in range(50_000))), REFUSED
    yield "tar-traversal", tar(tar_entry("../../../pickle", pickle(evil)), tar_entry("sys_info", pickle(b"}"))), REFUSED
    yield "tar-truncated", one[: len(one) // 3], REFUSED


def disguises(evil, found):
    yield "html", b"<!DOCTYPE html><html>" + pickle(evil), REFUSED
    yield "lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n", REFUSED
    yield "shell", b"#!/bin/sh\ntouch x\n", REFUSED
    yield "elf", b"\x7fELF" + b"\2\1\1" + b"\0" * 200, REFUSED
    yield "png-then-pickle", b"\x89PNG\r\n\x1a\n" + pickle(evil), REFUSED
    yield "empty", b"", REFUSED
    yield "one-byte", b"\x80", REFUSED
    yield "zeros", b"\0" * 4096, REFUSED
    yield "protocol-0-text", b"cposix\nsystem\n(S'true'\ntR.", found
    yield "protocol-0-inst", b"(S'true'\niposix\nsystem\n.", found
