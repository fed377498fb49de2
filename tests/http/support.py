"""Helpers of the HTTP tests: a daemon of their own, real curl, raw sockets, and checkpoints made by hand. Standard library only."""

import hashlib
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("CKPTD_BUILD", "build"))
BINARY = (BUILD if BUILD.is_absolute() else ROOT / BUILD) / "ckptd"

# Everything is slower under a sanitizer, and nothing may hang for ever.
PATIENCE = 60

FINISHED = ("succeeded", "failed", "cancelled", "dead", "expired")


def build_info():
    out = subprocess.run([BINARY, "version", "--json"], capture_output=True, check=True, timeout=PATIENCE)
    return json.loads(out.stdout)["build"]


def sandboxed():
    return build_info()["sandbox"] == "seccomp"


# ---- checkpoints ----

STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "float64": "DoubleStorage", "bfloat16": "BFloat16Storage",
            "int64": "LongStorage"}
SIZES = {"float32": 4, "float16": 2, "float64": 8, "bfloat16": 2, "int64": 8}


def _text(text):
    raw = text.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def _integer(value):
    return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)


def _tuple(values):
    return b"(" + b"".join(_integer(v) for v in values) + b"t"


def _tensor(key, dtype, shape):
    count, strides = 1, []
    for n in reversed(shape):
        strides.insert(0, count)
        count *= n
    storage = (b"(" + _text("storage") + b"ctorch\n" + STORAGES[dtype].encode() + b"\n" + _text(key) + _text("cpu") +
               _integer(count) + b"tQ")
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + _integer(0) + _tuple(shape) + _tuple(strides) +
            b"\x89ccollections\nOrderedDict\n)RtR")


def _entry(name):
    """The same bytes at any time: writestr() of a plain name would note the clock."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def torch_zip(tensors, folder="archive", method=zipfile.ZIP_STORED):
    """The bytes of what torch.save would write for a state dict {name: (dtype, shape, bytes)}. method: a zip's; torch
    itself compresses nothing, but people unpack checkpoints and zip them again."""
    body = b"\x80\x02ccollections\nOrderedDict\n)R("
    for key, (name, (dtype, shape, _)) in enumerate(tensors.items()):
        body += _text(name) + _tensor(str(key), dtype, shape)
    body += b"u."
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(_entry(f"{folder}/data.pkl"), body, method)
        archive.writestr(_entry(f"{folder}/byteorder"), "little", method)
        for key, (_, _, data) in enumerate(tensors.values()):
            archive.writestr(_entry(f"{folder}/data/{key}"), data, method)
        archive.writestr(_entry(f"{folder}/version"), "3\n", method)
    return out.getvalue()


def floats(count, start=0.0):
    return struct.pack(f"<{count}f", *(start + i * 0.25 for i in range(count)))


def linear_model(rows=8, columns=64):
    """A Linear layer with its bias: weight[i][k] = (i * columns + k) / 4."""
    return torch_zip({
        "fc.weight": ("float32", (rows, columns), floats(rows * columns)),
        "fc.bias": ("float32", (rows,), floats(rows)),
    })


def big_model(mebibytes):
    """One Linear layer of that size."""
    rows = mebibytes * 256
    return torch_zip({
        "fc.weight": ("float32", (rows, 1024), bytes(rows * 4096)),
        "fc.bias": ("float32", (rows,), bytes(rows * 4)),
    })


def read_safetensors(raw):
    """{name: (dtype, shape, bytes)}"""
    n, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    start = 8 + n
    return {name: (t["dtype"], tuple(t["shape"]), raw[start + t["data_offsets"][0]:start + t["data_offsets"][1]])
            for name, t in header.items()}


# ---- the daemon ----

class Daemon:
    """A daemon on a free port, with a data directory of its own."""

    def __init__(self, *flags, fault=None, data=None):
        self.folder = tempfile.mkdtemp(prefix="ckptd-test-")
        self.data = data or os.path.join(self.folder, "data")
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CKPTD_")}
        environment.setdefault("TSAN_OPTIONS", f"suppressions={ROOT}/tests/http/tsan.supp")
        if fault:
            environment["CKPTD_WORKER_FAULT"] = fault
        defaults = ["--listen", "127.0.0.1:0", "--data", self.data, "--min-free", "0"]
        self.process = subprocess.Popen([BINARY, "serve", *defaults, *map(str, flags)], stderr=self.log, env=environment)
        try:
            self.port = self._wait_for_port()
        except AssertionError:
            self.close()
            raise
        self.base = f"http://127.0.0.1:{self.port}"

    def _wait_for_port(self):
        path = os.path.join(self.data, "port")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError("the daemon did not start: " + self.log_text())
            if os.path.exists(path):
                return int(pathlib.Path(path).read_text())
            time.sleep(0.02)
        raise AssertionError("the daemon did not listen in time")

    def log_text(self):
        self.log.flush()
        with open(self.log.name, "rb") as file:
            return file.read().decode(errors="replace")

    def log_lines(self, message):
        lines = (json.loads(line) for line in self.log_text().splitlines() if line.startswith("{"))
        return [line for line in lines if line["msg"] == message]

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, bytes)"""
        connection = self.connect()
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def ask(self, method, path, document=None, headers=None):
        """The same with JSON both ways: (status, headers, document or None)"""
        body = None if document is None else json.dumps(document)
        given = {} if document is None else {"Content-Type": "application/json"}
        status, answered, raw = self.request(method, path, body, given | (headers or {}))
        return status, answered, json.loads(raw) if "json" in answered.get("Content-Type", "") else None

    def store(self, raw):
        """Makes a blob of the bytes; its digest."""
        status, _, document = self.request("POST", "/v1/blobs", raw)
        assert status in (200, 201), document
        return digest_of(raw)

    def submit(self, raw, name="m.pt", kind="convert", **more):
        """Stores the bytes and makes a job of them; the job as it was answered."""
        spec = {"kind": kind, "inputs": [{"name": name, "digest": self.store(raw)}]} | more
        if kind == "convert":
            spec.setdefault("to", "mlx")
        status, _, job = self.ask("POST", "/v1/jobs", spec)
        assert status in (200, 202), job
        return job

    def job(self, job, wait=0):
        status, _, document = self.ask("GET", f"/v1/jobs/{job}?wait={wait}")
        assert status == 200, document
        return document

    def ended(self, job):
        """The job once it has ended."""
        end = time.monotonic() + PATIENCE
        document = self.job(job)
        while document["state"] not in FINISHED and time.monotonic() < end:
            document = self.job(job, wait=10)
        return document

    def metric(self, name, **labels):
        """The sum of the samples with these labels, 0 if there is none."""
        total = 0.0
        for line in self.request("GET", "/metrics")[2].decode().splitlines():
            if line.startswith(name) and line[len(name)] in "{ " and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def children(self):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path) as file:
            return file.read().split()

    def temporary_files(self):
        """Files below DATA/tmp that are open or have a name. Blobs and results lie elsewhere and stay."""
        tmp = os.path.realpath(os.path.join(self.data, "tmp"))
        found = os.listdir(tmp)
        folder = f"/proc/{self.process.pid}/fd"
        for fd in os.listdir(folder):
            try:
                target = os.readlink(os.path.join(folder, fd))
            except OSError:
                continue
            if target.startswith(tmp + "/"):
                found.append(target)
        return found

    def terminate(self, timeout=PATIENCE):
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def close(self):
        if self.process.poll() is None:
            # One that runs a job would wait for it.
            self.process.send_signal(signal.SIGKILL if self.children() else signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        said = [line for line in self.log_text().splitlines() if not line.startswith("{")]
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        # What a worker says is a line of the log; this is the daemon's own.
        if any("Sanitizer" in line or "runtime error: " in line for line in said):
            raise AssertionError("\n".join(said)[:8000])


def digest_of(raw):
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def wait_until(condition, timeout=PATIENCE):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


class DaemonTest(unittest.TestCase):
    """Tests against one daemon for the whole class, started with FLAGS."""

    FLAGS = ()
    FAULT = None

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.FLAGS, fault=cls.FAULT)
        cls.addClassCleanup(cls.daemon.close)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ckptd-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def curl(self, *arguments, expect=None, stdin=None):
        """Runs curl in an empty folder; (exit code, {file name: bytes}, stdout)."""
        folder = tempfile.mkdtemp(dir=self.folder)
        done = subprocess.run(["curl", "-sS", *map(str, arguments)], cwd=folder, capture_output=True, timeout=PATIENCE,
                              input=stdin)
        files = {name: pathlib.Path(folder, name).read_bytes() for name in os.listdir(folder)}
        if expect is not None:
            self.assertEqual(expect, done.returncode, done.stderr)
        return done.returncode, files, done.stdout

    def assert_problem(self, answer, status, code, download=True):
        """answer: (status, headers, bytes). download: curl -OJ saves it, as on every path that answers with a file. Returns the document."""
        got, headers, raw = answer
        self.assertEqual("application/problem+json", headers["Content-Type"], raw[:300])
        document = json.loads(raw)
        self.assertEqual((status, code), (got, document["code"]), document)
        self.assertEqual(status, document["status"])
        for member in ("type", "title", "detail", "hint", "retryable", "request_id"):
            self.assertIn(member, document)
        self.assertEqual(headers["X-Request-Id"], document["request_id"])
        if download:
            self.assertEqual('attachment; filename="ckptd-error.json"', headers["Content-Disposition"])
        return document

    def assert_refused(self, answer, status, code, where=None):
        """The same on the other paths. where: the place that the document names."""
        document = self.assert_problem(answer, status, code, download=False)
        if where is not None:
            self.assertEqual(where, document.get("where"), document)
        return document

    def assert_alive(self):
        self.assertEqual(200, self.daemon.request("GET", "/livez")[0])


def put(daemon, path, body, headers=None):
    return daemon.request("PUT", path, body, headers)


def chunked(pieces):
    """An iterator makes http.client send chunks."""
    return iter(pieces)


def read_answer(sock):
    """One raw answer until the peer closes or the declared length is there: (status, headers, bytes)."""
    response = http.client.HTTPResponse(sock)
    response.begin()
    return response.status, response.headers, response.read()
