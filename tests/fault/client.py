"""Helpers of the fault tests: a client of the jobs, checkpoints of many sizes, and a look behind the daemon at what lies in its data directory."""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))

from support import BINARY, PATIENCE, Daemon, DaemonTest, torch_zip, wait_until  # noqa: E402  (the path comes first)

FINISHED = ("succeeded", "failed", "cancelled", "dead", "expired")

# What breaks on a connection when its daemon is killed.
BROKEN = (OSError, http.client.HTTPException)


class FaultTest(DaemonTest):
    """Each test starts the daemons it needs."""

    @classmethod
    def setUpClass(cls):
        pass

    def start(self, *flags, fault=None, data=None):
        if data:
            # A killed daemon leaves its port behind.
            pathlib.Path(data, "port").unlink(missing_ok=True)
        daemon = Daemon(*flags, fault=fault, data=data)
        self.addCleanup(self.close, daemon)
        if fault and "hang" in fault:
            self.addCleanup(daemon.process.kill)  # called first: nobody waits for the grace
        return daemon

    def close(self, daemon):
        if daemon.process.poll() is None:
            daemon.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.process.wait(5)
        # What a worker said is in the log's JSON; a crash may have been asked for there.
        said = [line for line in daemon.log_text().splitlines() if not line.startswith("{")]
        daemon.close()
        self.assertEqual([], [line for line in said if "Sanitizer" in line or "runtime error" in line])

    def folder_of_data(self):
        """A data directory that outlives its daemons."""
        return os.path.join(self.folder, "data")

    def assert_state(self, expected, document):
        self.assertEqual(expected, document["state"], document)

    def assert_nothing_unknown(self, daemon):
        """Every file of the data directory is one that a row knows, and every row has its files, byte for byte."""
        self.assertTrue(wait_until(lambda: daemon.temporary_files() == []), daemon.temporary_files())
        rows = Rows(daemon.data)
        self.assertEqual(rows.blobs, stored_blobs(daemon.data))
        self.assertEqual({job: {f["name"]: (f["bytes"], f["crc32"]) for f in files} for job, files in rows.files.items()},
                         stored_results(daemon.data))
        self.assertEqual(rows.states, {job["id"]: job["state"] for job in list_jobs(daemon)})


# ---- behind the daemon ----

class Rows:
    """What store.sqlite says, read by somebody else: states {id: state}, files {id: [file]} where there are some, blobs
    {digest: bytes}."""

    def __init__(self, data):
        with contextlib.closing(open_store(data)) as store:
            store.execute("BEGIN")
            self.states = dict(store.execute("SELECT id, state FROM job"))
            listed = dict(store.execute("SELECT id, files FROM job WHERE files <> '[]'"))
            self.blobs = dict(store.execute("SELECT digest, bytes FROM blob"))
        self.files = {job: json.loads(files) for job, files in listed.items()}


def open_store(data):
    return sqlite3.connect(f"file:{data}/store.sqlite?mode=rw", uri=True, timeout=10, isolation_level=None)


def stored_blobs(data):
    """{digest: bytes} of DATA/blobs; the name of a file must be the sha256 of what it holds."""
    found = {}
    for path in pathlib.Path(data, "blobs").rglob("*"):
        if not path.is_dir():
            raw = path.read_bytes()
            assert path.name == hashlib.sha256(raw).hexdigest(), path
            found[path.name] = len(raw)
    return found


def stored_results(data):
    """{job: {name: (bytes, crc32)}} of DATA/jobs."""
    found = {}
    for path in pathlib.Path(data, "jobs").iterdir():
        found[path.name] = {file.name: (file.stat().st_size, zlib.crc32(file.read_bytes())) for file in path.iterdir()}
    return found


# ---- the client ----

def ask(daemon, method, path, document=None, headers=None):
    """(status, headers, JSON or None)"""
    body = None if document is None else json.dumps(document)
    given = {"Content-Type": "application/json"} if document is not None else {}
    status, answered, raw = daemon.request(method, path, body, given | (headers or {}))
    return status, answered, json.loads(raw) if "json" in answered.get("Content-Type", "") else None


def digest_of(raw):
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def put_blob(daemon, raw):
    digest = digest_of(raw)
    status, _, answer = daemon.request("PUT", f"/v1/blobs/{digest}", raw)
    assert status in (200, 201), answer
    return digest


def spec_of(raw, name="m.pt", kind="convert", to="mlx", quant="", **more):
    spec = {"kind": kind, "inputs": [{"role": "model", "name": name, "digest": digest_of(raw)}]} | more
    if kind == "convert":
        spec["to"] = to
    if quant:
        spec["quant"] = quant
    return spec


def try_job(daemon, raw, *arguments, **options):
    """Uploads and asks for a job: (status, headers, JSON)."""
    put_blob(daemon, raw)
    return ask(daemon, "POST", "/v1/jobs", spec_of(raw, *arguments, **options))


def make_job(daemon, raw, *arguments, **options):
    """The id of a job that was accepted."""
    status, _, document = try_job(daemon, raw, *arguments, **options)
    assert status in (200, 202), document
    return document["id"]


def get_job(daemon, job, wait=0):
    status, _, document = ask(daemon, "GET", f"/v1/jobs/{job}" + (f"?wait={wait}" if wait else ""))
    assert status == 200, document
    return document


def end_of(daemon, job, patience=PATIENCE):
    """The job once it has ended."""
    end = time.monotonic() + patience
    document = get_job(daemon, job)
    while document["state"] not in FINISHED and time.monotonic() < end:
        document = get_job(daemon, job, wait=5)
    return document


def list_jobs(daemon):
    jobs, cursor = [], ""
    while cursor is not None:
        status, _, page = ask(daemon, "GET", "/v1/jobs?limit=200" + (f"&cursor={cursor}" if cursor else ""))
        assert status == 200, page
        jobs += page["jobs"]
        cursor = page["next_cursor"]
    return jobs


def results_of(daemon, job):
    """{name: digest} of what the job has made, as it is downloaded."""
    _, _, listed = ask(daemon, "GET", f"/v1/jobs/{job}/results")
    found = {}
    for file in listed["results"]:
        status, _, raw = daemon.request("GET", file["href"])
        assert status == 200, raw
        found[file["name"]] = hashlib.sha256(raw).hexdigest()
    return found


def metric(daemon, name, **labels):
    """The sum of the samples that have these labels; None if there is no sample."""
    values = []
    for line in daemon.request("GET", "/metrics")[2].decode().splitlines():
        if line.startswith(name) and line[len(name)] in "{ " and all(f'{k}="{v}"' in line for k, v in labels.items()):
            values.append(float(line.rsplit(" ", 1)[1]))
    return sum(values) if values else None


def refused_start(*flags):
    """Runs a daemon that is expected not to start: (exit status, stderr)."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:0", *map(str, flags)], stderr=said)
        try:
            status = process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        return status, said.read().decode()


# ---- checkpoints ----

def model(seed, kibibytes=16):
    """A Linear layer whose weights depend on the seed; about that size. Smooth values, so that every quantization has something to do."""
    rows, columns = max(1, kibibytes // 4), 1024
    noise = random.Random(seed).randbytes(rows * columns * 4)
    # Bytes at random make infinities; these are floats between 1 and 2, and -2 and -1.
    words = bytearray(noise)
    words[3::4] = bytes(0x3f | b & 0x80 for b in noise[3::4])
    words[2::4] = bytes(b | 0x80 for b in noise[2::4])
    return torch_zip({
        "fc.weight": ("float32", (rows, columns), bytes(words)),
        "fc.bias": ("float32", (rows,), bytes(words[:rows * 4])),
    })
