"""Every code of the error list is either reached here over HTTP, or listed with the reason why HTTP cannot show it."""

import contextlib
import io
import json
import os
import signal
import sqlite3
import struct
import subprocess
import tempfile
import threading
import unittest
import zipfile

from support import (BINARY, PATIENCE, Daemon, DaemonTest, digest_of, floats, linear_model, put, read_answer, sandboxed, torch_zip,
                     wait_until)

MODEL = linear_model()
UNKNOWN = "01a00000-0000-7000-8000-000000000000"

ELSEWHERE = {
    "too_many_output_files": "needs a result of more than a thousand files; test_execute and the command have it",
    "verify_failed": "the disk would have to change what was just written; the unit tests do that",
    "worker_killed": "a job's passing reason: it starts again; the log and test_workers.py show it",
    "client_gone": "only logs show it, the client is gone; see ClientGoneTest",
    "out_of_memory": "the daemon's own memory would have to run out; the unit tests' allocator does",
    "internal": "means a defect; none is known",
}


def safetensors(header, data=b"", **more):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", more.get("length", len(raw))) + raw + data


def one(dtype="F32", shape=(2,), n=8, **meta):
    header = {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": [0, n]}}
    return safetensors(header | ({"__metadata__": meta} if meta else {}), bytes(n))


def pickled(body):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a/data.pkl", body)
        archive.writestr("a/version", "3\n")
    return out.getvalue()


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def nested():
    """Two sets of weights of the same rank under names that nobody knows."""
    tensors = torch_zip({"w": ("float32", (2, 2), floats(4))})
    with zipfile.ZipFile(io.BytesIO(tensors)) as archive:
        inner = archive.read("archive/data.pkl")
        data = archive.read("archive/data/0")
    ordered = inner[2:-1]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}(" + text("left") + ordered + text("right") + ordered + b"u.")
        archive.writestr("archive/data/0", data)
        archive.writestr("archive/version", "3\n")
    return out.getvalue()


def expanded():
    """A matrix of a gibibyte, every element of which is the same four bytes."""
    one = torch_zip({"x.weight": ("float32", (1, 1), floats(1))})
    shape = b"(J" + struct.pack("<i", 16384) + b"J" + struct.pack("<i", 16384) + b"t"
    with zipfile.ZipFile(io.BytesIO(one)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["archive/data.pkl"] = entries["archive/data.pkl"].replace(b"(K\x01K\x01t" * 2, shape + b"(K\x00K\x00t")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, raw in entries.items():
            archive.writestr(name, raw)
    return out.getvalue()


def twice_named():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
        archive.writestr("archive/Data.pkl", b"\x80\x02}.")
    return out.getvalue().replace(b"archive/Data.pkl", b"archive/data.pkl")


def paddle():
    """A dict of one numpy array, with the key that paddle.save() adds."""
    dtype = b"cnumpy\ndtype\n(" + text("f4") + b"K\x00K\x01tR(K\x03" + text("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR(K\x01K\x02K\x04\x86" + dtype + b"\x89C\x20" + floats(8) + b"tb")
    return b"\x80\x03}(" + text("fc.weight") + array + text("StructuredToParameterName@@") + b"}" + text("fc.weight") + text("linear_0.w_0") + b"su."


def calling():
    """A good model whose pickle calls os.system."""
    with zipfile.ZipFile(io.BytesIO(MODEL)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["archive/data.pkl"] = entries["archive/data.pkl"][:-2] + text("evil") + b"cos\nsystem\n(" + text("true") + b"tRu."
    return archive_of(entries)


def archive_of(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return out.getvalue()


SQUARE = torch_zip({"up.weight": ("float32", (4, 4, 3, 3), floats(144))})
CONV = torch_zip({"conv1.weight": ("float32", (8, 3, 1, 1), floats(24))})

# Documents: code -> (path, body)
DOCUMENTS = {
    "empty_file": ("mlx/m.pt", b""),
    "not_a_checkpoint": ("mlx/m.pt", b"hello, world"),
    "unsupported_form": ("mlx/m.pt", b"GGUF\3\0\0\0" + bytes(5000)),
    "archive_corrupt": ("mlx/m.pt", MODEL.replace(b"PK\x01\x02", b"PK\x01\x03")),
    "archive_unsafe": ("mlx/m.pt", twice_named()),
    "pickle_corrupt": ("mlx/m.pt", pickled(b"\x80\x02R.")),
    "pickle_limit": ("mlx/m.pt", pickled(b"\x80\x02" + b"(" * 200 + b".")),
    "header_corrupt": ("mlx/m.safetensors", safetensors(b'{"x":1}       ')),
    "truncated": ("mlx/m.safetensors", one()[:-1]),
    "tensor_out_of_bounds": ("mlx/m.pt", linear_model(rows=9).replace(b"(K\x09K\x40t", b"(K\x0bK\x40t")),
    "tensor_limit": ("mlx/m.pt", torch_zip({f"t{i}": ("float32", (1,), floats(1)) for i in range(11)})),
    "output_limit": ("mlx/m.pt", expanded()),
    "no_tensors": ("mlx/m.pt", pickled(b"\x80\x02}.")),
    "ambiguous_state_dict": ("mlx/m.pt", nested()),
    "ambiguous_member": ("mlx/m.zip", archive_of({"a.pt": MODEL, "b.pt": MODEL})),
    "member_not_found": ("mlx/m.zip?member=c.pt", archive_of({"a.pt": MODEL, "b.pt": MODEL})),
    "shards_mismatch": ("mlx/m.zip", archive_of({"model-00001-of-00002.safetensors": one(), "model.safetensors.index.json": json.dumps(
        {"weight_map": {"x": "model-00001-of-00002.safetensors", "y": "model-00002-of-00002.safetensors"}})})),
    "findings_refused": ("mlx/m.pt?on_findings=dangerous", calling()),
    "state_dict_not_found": ("mlx/m.pt?state_dict=no.such", MODEL),
    "ambiguous_layout": ("mlx/m.pt", SQUARE),
    "assumption_refused": ("mlx/m.pt?assume=never", CONV),
    "unsupported_layer": ("mlx/m.pt", torch_zip({"lstm.weight_ih_l0": ("float32", (16, 4), floats(64)), "lstm.weight_hh_l0": ("float32", (16, 4), floats(64)),
                                                 "lstm.weight_ih_l0_reverse": ("float32", (16, 4), floats(64)),
                                                 "lstm.weight_hh_l0_reverse": ("float32", (16, 4), floats(64))})),
    "unsupported_dtype": ("mlx/m.safetensors", one("F8_E4M3", (8,))),
    "unsupported_tensor": ("mlx/m.pt", MODEL.replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9")),
    "name_clash": ("mlx/m.pt", torch_zip({"a.in_proj_weight": ("float32", (12, 4), floats(48)), "a.in_proj_bias": ("float32", (12,), floats(12)),
                                          "a.out_proj.weight": ("float32", (4, 4), floats(16)), "a.out_proj.bias": ("float32", (4,), floats(4)),
                                          "a.query_proj.weight": ("float32", (4, 4), floats(16))})),
    "foreign_layout": ("mlx/m.pdparams", paddle()),
    "already_converted": ("mlx/m.safetensors", one(format="mlx")),
    "bad_rule": ("mlx/m.pt?layers=fc:Conv9d", MODEL),
    "worker_crashed": ("mlx/crash.pt", MODEL),
    "worker_timeout": ("mlx/hang.pt", MODEL),
}

# Requests: code -> (method, path, body, headers)
JSON = {"Content-Type": "application/json"}
REQUESTS = {
    "bad_request": ("PUT", "/v1/convert/mlx/%zz", MODEL, {}),
    "bad_option": ("PUT", "/v1/convert/mlx/m.pt?dtyp=x", MODEL, {}),
    "bad_json": ("POST", "/v1/jobs", b"{", JSON),
    "unknown_member": ("POST", "/v1/jobs", b'{"too":"mlx"}', JSON),
    "bad_cursor": ("GET", "/v1/jobs?cursor=x", None, {}),
    "missing_file": ("POST", "/v1/convert", b'--xyz\r\nContent-Disposition: form-data; name="to"\r\n\r\nmlx\r\n--xyz--\r\n',
                     {"Content-Type": "multipart/form-data; boundary=xyz"}),
    "unsupported_target": ("PUT", "/v1/convert/mlz/m.pt", MODEL, {}),
    "unsupported_quant": ("PUT", "/v1/convert/mlx/q9/m.pt", MODEL, {}),
    "not_found": ("GET", "/nothing", None, {}),
    "job_not_found": ("GET", f"/v1/jobs/{UNKNOWN}", None, {}),
    "blob_not_found": ("GET", "/v1/blobs/sha256:" + "0" * 64, None, {}),
    "matrix_not_found": ("GET", "/v1/matrix/x", None, {}),
    "input_not_found": ("POST", "/v1/analyze", b'{"digest":"sha256:%s"}' % (b"0" * 64), JSON),
    "not_acceptable": ("GET", "/v1/matrix/mlx", None, {"Accept": "image/png"}),
    "range_not_satisfiable": ("GET", "/v1/blobs/" + digest_of(MODEL), None, {"Range": f"bytes={len(MODEL)}-"}),
    "unsupported_media": ("POST", "/v1/jobs", b"{}", {"Content-Type": "text/plain"}),
    "method_not_allowed": ("PUT", "/livez", b"x", {}),
    "forbidden": ("GET", "/livez", None, {"Host": "evil.example"}),
    "digest_mismatch": ("PUT", "/v1/blobs/sha256:" + "0" * 64, MODEL, {}),
    "body_too_large": ("POST", "/v1/jobs", b" " * 2000, JSON),
    "too_many_files": ("POST", "/v1/blobs", b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\na\r\n' * 2 + b"--xyz--\r\n",
                       {"Content-Type": "multipart/form-data; boundary=xyz"}),
}


class ErrorsTest(DaemonTest):
    FLAGS = ("--workers", 2, "--max-json", 1024, "--limit-tensors", 10, "--limit-pickle-marks", 100, "--worker-silence", 1, "--upload-timeout", 1)
    FAULT = "crash@crash,hang@hang,eat@eat"
    reached = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon.store(MODEL)
        cls.rows = {row["name"]: row for row in json.loads(subprocess.run([BINARY, "tables"], capture_output=True, check=True, timeout=PATIENCE).stdout)["errors"]}

    def check(self, code, answer):
        """The answer is a problem with this code, and what the table says of it."""
        with self.subTest(code):
            row = self.rows[code]
            document = self.assert_problem(answer, row["status"], code, download=False)
            self.assertEqual((row["title"], row["retryable"]), (document["title"], document["retryable"]))
            self.assertTrue(document["detail"] and document["hint"])
            if row["status"] in (429, 503):
                self.assertRegex(answer[1]["Retry-After"], r"^\d+$")
            self.reached[code] = True

    def test_a_requests(self):
        for code, (method, path, body, headers) in REQUESTS.items():
            self.check(code, self.daemon.request(method, path, body, headers))

    def test_b_documents(self):
        for code, (path, body) in DOCUMENTS.items():
            self.check(code, put(self.daemon, "/v1/convert/" + path, body))

    def test_c_jobs(self):
        done = self.daemon.ended(self.daemon.submit(MODEL)["id"])
        self.check("result_not_found", self.daemon.request("GET", f"{done['href']}/results/x"))
        self.check("job_finished", self.daemon.request("POST", f"{done['href']}/cancel"))
        self.check("job_not_retryable", self.daemon.request("POST", f"{done['href']}/retry"))
        raw = linear_model(rows=3)
        running = self.daemon.submit(raw, name="hang.pt")
        self.check("job_not_finished", self.daemon.request("GET", f"{running['href']}/results"))
        self.check("blob_in_use", self.daemon.request("DELETE", f"/v1/blobs/{digest_of(raw)}"))
        connection = self.daemon.connect()
        self.addCleanup(connection.close)
        connection.request("PUT", "/v1/convert/mlx/hang.pt?fresh=true", MODEL, {"X-Request-Id": "to.cancel"})
        self.assertTrue(wait_until(lambda: any(job["request_id"] == "to.cancel" for job in self.daemon.ask("GET", "/v1/jobs")[2]["jobs"])))
        job = next(job for job in self.daemon.ask("GET", "/v1/jobs")[2]["jobs"] if job["request_id"] == "to.cancel")
        self.daemon.request("POST", f"{job['href']}/cancel")
        answer = connection.getresponse()
        self.check("cancelled", (answer.status, answer.headers, answer.read()))

    def test_d_a_silent_client(self):
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nPK\x03\x04")
        self.check("body_stalled", read_answer(sock))

    def test_e_the_disk(self):
        job = self.daemon.ended(self.daemon.submit(linear_model(rows=4))["id"])
        with open(f"{self.daemon.data}/jobs/{job['id']}/report.json", "ab") as file:
            file.write(b"x")
        self.check("io", self.daemon.request("GET", f"{job['href']}/results/report.json"))

    def test_f_a_store_that_is_locked(self):
        with contextlib.closing(sqlite3.connect(f"{self.daemon.data}/store.sqlite", isolation_level=None)) as store:
            store.execute("BEGIN IMMEDIATE")
            answer = self.daemon.request("POST", "/v1/blobs", linear_model(rows=5))
        self.check("store_unavailable", answer)
        self.assertEqual(201, self.daemon.request("POST", "/v1/blobs", linear_model(rows=5))[0])

    def other(self, code, ask, *flags, fault=None):
        """Reaches a code at a daemon with other settings."""
        daemon = Daemon(*flags, fault=fault)
        try:
            self.check(code, ask(daemon))
        finally:
            daemon.process.kill()
            daemon.close()

    def test_g_other_settings(self):
        convert = lambda daemon: put(daemon, "/v1/convert/mlx/m.pt", MODEL)
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("a " + "0" * 64 + "\n")
            keys.flush()
            self.other("unauthenticated", lambda daemon: daemon.request("GET", "/v1/jobs"), "--keys-file", keys.name)
        self.other("storage_full", convert, "--min-free", "1000000G")
        if sandboxed():
            self.other("worker_oom", convert, "--worker-memory", "128M", fault="eat")
        else:
            self.reached["worker_oom"] = True  # there are no limits under a sanitizer

        def full(daemon):
            daemon.submit(MODEL, fresh=True)
            self.assertTrue(wait_until(lambda: daemon.children()))
            return convert(daemon)

        def draining(daemon):
            daemon.submit(MODEL)
            self.assertTrue(wait_until(lambda: daemon.children()))
            daemon.process.send_signal(signal.SIGTERM)
            self.assertTrue(wait_until(lambda: daemon.log_lines("draining")))
            return convert(daemon)

        def expired(daemon):
            job = daemon.ended(daemon.submit(MODEL)["id"])
            self.assertTrue(wait_until(lambda: daemon.job(job["id"])["state"] == "expired"))
            return daemon.request("GET", f"{job['href']}/results")

        def exhausted(daemon):
            answers = []
            thread = threading.Thread(target=lambda: answers.append(convert(daemon)))
            thread.start()
            self.assertTrue(wait_until(lambda: daemon.children()))
            for child in daemon.children():
                os.kill(int(child), signal.SIGKILL)
            thread.join()
            return answers[0]

        self.other("queue_full", full, "--workers", 1, "--queue", 0, fault="hang")
        self.other("draining", draining, fault="hang")
        self.other("results_expired", expired, "--result-ttl", 1, "--janitor-interval", 1)
        self.other("attempts_exhausted", exhausted, "--max-attempts", 1, fault="hang")

    def test_z_every_code_of_the_list_is_accounted_for(self):
        self.assertEqual(set(), set(ELSEWHERE) & set(self.reached))
        self.assertEqual(set(self.rows), set(ELSEWHERE) | set(self.reached))


class ClientGoneTest(DaemonTest):
    FAULT = "slow"

    def test_a_client_that_left_is_499_in_the_log(self):
        sock = self.daemon.socket()
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(MODEL) + MODEL)
        self.assertTrue(wait_until(lambda: self.daemon.children()))
        sock.close()
        self.assertTrue(wait_until(lambda: self.daemon.log_lines("request") or None))
        line = self.daemon.log_lines("request")[0]
        self.assertEqual((499, "client_gone"), (line["status"], line["code"]))


if __name__ == "__main__":
    unittest.main()
