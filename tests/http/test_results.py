"""What a job has made: each file, pieces of it, all of it as one zip; resumed, conditional, expired."""

import base64
import hashlib
import io
import json
import os
import unittest
import zipfile
import zlib

from support import Daemon, DaemonTest, floats, linear_model, put, torch_zip, wait_until


class ResultsTest(DaemonTest):
    """One job whose weights are in several files."""
    FLAGS = ("--workers", 2)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = torch_zip({f"fc{i}.weight": ("float32", (64, 64), floats(4096, i)) for i in range(8)})
        job = cls.daemon.submit(cls.model, name="net.pt", options={"max_shard_size": 40000})
        cls.job = cls.daemon.ended(job["id"])
        assert cls.job["state"] == "succeeded", cls.job
        cls.files = {f["name"]: f for f in cls.job["results"]}
        cls.name = next(name for name in sorted(cls.files) if name.endswith(".safetensors"))
        cls.path = cls.files[cls.name]["href"]
        cls.bytes = cls.daemon.request("GET", cls.path)[2]
        cls.zip_path = cls.job["zip_href"]
        cls.zip = cls.daemon.request("GET", cls.zip_path)[2]

    def get(self, path, method="GET", **headers):
        return self.daemon.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def test_the_list_tells_what_the_files_are(self):
        status, _, document = self.daemon.ask("GET", self.job["results_href"])
        self.assertEqual(200, status)
        self.assertEqual(self.job["id"], document["job"])
        self.assertEqual(self.job["results"], document["results"])
        self.assertIn("model.safetensors.index.json", self.files)
        self.assertEqual({"href": self.zip_path, "name": "net.mlx.zip", "bytes": len(self.zip)}, document["zip"])
        for name, file in self.files.items():
            status, headers, raw = self.get(file["href"])
            self.assertEqual((200, file["bytes"], file["media_type"]), (status, len(raw), headers["Content-Type"]))
            self.assertEqual(file["crc32"], f"{zlib.crc32(raw):08x}")
            self.assertEqual(f'attachment; filename="{name}"', headers["Content-Disposition"])

    def test_digests_are_taken_when_they_are_asked_for(self):
        document = self.daemon.ask("GET", self.job["results_href"] + "?digest=true")[2]
        for file in document["results"]:
            self.assertEqual("sha256:" + hashlib.sha256(self.get(file["href"])[2]).hexdigest(), file["digest"])
        wanted = f"sha-256=:{base64.b64encode(hashlib.sha256(self.bytes).digest()).decode()}:"
        self.assertEqual(wanted, self.get(self.path + "?digest=true")[1]["Repr-Digest"])
        self.assertEqual(wanted, self.get(self.path, Want_Repr_Digest="sha-512=10, sha-256=9", Range="bytes=5-9")[1]["Repr-Digest"],
                         "of the whole, with a range, too")
        self.assertEqual(wanted, self.get(self.path + "?digest=true", "HEAD")[1]["Repr-Digest"])
        for answer in (self.get(self.path), self.get(self.path, Want_Repr_Digest="sha-256=0")):
            self.assertIsNone(answer[1]["Repr-Digest"])
        self.assert_refused(self.get(self.job["results_href"] + "?digset=true"), 400, "bad_option", "digset")

    def test_head_is_get_without_the_bytes(self):
        for path in (self.path, self.zip_path):
            status, headers, raw = self.get(path, "HEAD")
            whole = self.get(path)
            self.assertEqual((200, b"", str(len(whole[2]))), (status, raw, headers["Content-Length"]))
            for name in ("ETag", "Accept-Ranges", "Content-Type", "Content-Disposition"):
                self.assertEqual(whole[1][name], headers[name])
            self.assertEqual("bytes", headers["Accept-Ranges"])

    def test_ranges(self):
        for path, whole in ((self.path, self.bytes), (self.zip_path, self.zip)):
            n = len(whole)
            for asked, first, last in (("0-0", 0, 0), ("0-9", 0, 9), (f"{n - 1}-", n - 1, n - 1), ("-1", n - 1, n - 1), ("-100", n - 100, n - 1),
                                       (f"-{n * 2}", 0, n - 1), (f"5-{n * 9}", 5, n - 1), ("0-", 0, n - 1), (f"100-{n - 100}", 100, n - 100)):
                with self.subTest(f"{path} {asked}"):
                    status, headers, raw = self.get(path, Range="bytes=" + asked)
                    self.assertEqual((206, f"bytes {first}-{last}/{n}"), (status, headers["Content-Range"]))
                    self.assertEqual(whole[first:last + 1], raw)
            for asked in (f"{n}-", f"{n}-{n + 5}", "-0", "99999999999999999999999-"):
                answer = self.get(path, Range="bytes=" + asked)
                self.assert_problem(answer, 416, "range_not_satisfiable")
                self.assertEqual(f"bytes */{n}", answer[1]["Content-Range"])
            for asked in ("bytes=0-1,5-6", "bytes=5-4", "bytes=a-b", "lines=0-1", "bytes=", "bytes"):
                with self.subTest(asked):
                    self.assertEqual((200, whole), self.get(path, Range=asked)[::2], "the whole, as RFC 9110 has it")

    def test_conditions(self):
        for path, whole in ((self.path, self.bytes), (self.zip_path, self.zip)):
            etag = self.get(path)[1]["ETag"]
            self.assertRegex(etag, r'^"[0-9a-f]{64}"$')
            for known in (etag, "*", f'"x", {etag}', "W/" + etag):
                for method in ("GET", "HEAD"):
                    status, headers, raw = self.get(path, method, If_None_Match=known)
                    self.assertEqual((304, b"", etag), (status, raw, headers["ETag"]))
            self.assertEqual(200, self.get(path, If_None_Match='"x"')[0])
            self.assertEqual(206, self.get(path, Range="bytes=0-9", If_Range=etag)[0])
            for other in ('"x"', "W/" + etag, "Tue, 01 Dec 2026 00:00:00 GMT"):
                self.assertEqual((200, whole), self.get(path, Range="bytes=0-9", If_Range=other)[::2])

    def test_the_etag_is_that_of_every_equal_job(self):
        other = self.daemon.submit(self.model, name="net.pt", options={"max_shard_size": 40000}, fresh=True)
        other = self.daemon.ended(other["id"])
        self.assertEqual(self.get(self.path)[1]["ETag"], self.get(f"{other['href']}/results/{self.name}")[1]["ETag"])
        self.assertEqual(self.get(self.zip_path)[1]["ETag"], self.get(other["zip_href"])[1]["ETag"])
        self.assertEqual(self.zip, self.get(other["zip_href"])[2])

    def test_curl_goes_on_where_it_was_cut(self):
        for path, name, whole in ((self.path, self.name, self.bytes), (self.zip_path, "net.mlx.zip", self.zip)):
            sock = self.daemon.socket()
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            got = b""
            while len(got) < 5000:
                got += sock.recv(1000)
            sock.close()
            partial = self.file(name, got.split(b"\r\n\r\n", 1)[1])
            self.assertLess(os.path.getsize(partial), len(whole))
            self.curl("-f", "-C", "-", "-o", partial, self.daemon.base + path, expect=0)
            with open(partial, "rb") as file:
                self.assertEqual(whole, file.read())
            code, _, _ = self.curl("-f", "-C", "-", "-o", partial, self.daemon.base + path)
            self.assertIn(code, (0, 22), "complete already: 416")

    def test_the_zip_is_that_of_the_one_command_and_a_good_one(self):
        _, headers, raw = put(self.daemon, "/v1/convert/mlx/net.pt?max_shard_size=40000", self.model)
        self.assertEqual(raw, self.zip)
        self.assertEqual('attachment; filename="net.mlx.zip"', headers["Content-Disposition"])
        with zipfile.ZipFile(io.BytesIO(self.zip)) as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual({f"net.mlx/{name}" for name in self.files}, set(archive.namelist()))
            for info in archive.infolist():
                self.assertEqual((zipfile.ZIP_STORED, (1980, 1, 1, 0, 0, 0)), (info.compress_type, info.date_time))
                self.assertEqual(self.get(self.files[info.filename[8:]]["href"])[2], archive.read(info))

    def test_the_report_is_shown(self):
        status, headers, raw = self.get(self.job["report_href"])
        self.assertEqual((200, "application/json"), (status, headers["Content-Type"]))
        self.assertEqual("written", json.loads(raw)["status"])
        self.assertFalse((headers["Content-Disposition"] or "").startswith("attachment"))
        self.assertEqual(304, self.get(self.job["report_href"], If_None_Match=headers["ETag"])[0])

    def test_a_result_that_is_not_there_is_answered_with_the_nearest(self):
        document = self.assert_problem(self.get(f"{self.job['href']}/results/report.jsn"), 404, "result_not_found")
        self.assertIn("report.json", document["hint"])
        for name in ("..%2Freport.json", "%2e%2e", ".", "x" * 300, "report.json%00"):
            status = self.get(f"{self.job['href']}/results/{name}")[0]
            self.assertIn(status, (400, 404), name)

    def test_what_was_damaged_on_the_disk_is_not_served(self):
        job = self.daemon.ended(self.daemon.submit(linear_model(rows=3), fresh=True)["id"])
        path = os.path.join(self.daemon.data, "jobs", job["id"], "model.safetensors")
        os.chmod(path, 0o600)
        os.truncate(path, 10)
        self.assert_problem(self.get(f"{job['href']}/results/model.safetensors"), 500, "io")
        self.assert_problem(self.get(job["zip_href"]), 500, "io")


class UnfinishedTest(DaemonTest):
    FAULT = "hang"

    def test_results_of_a_job_that_runs_are_not_there_yet(self):
        job = self.daemon.submit(linear_model())
        for path in ("/results", "/report"):
            self.assert_refused(self.daemon.request("GET", job["href"] + path), 409, "job_not_finished")
        for path in ("/results.zip", "/results/model.safetensors"):
            self.assert_problem(self.daemon.request("GET", job["href"] + path), 409, "job_not_finished")


class ExpiryTest(unittest.TestCase):
    assert_problem, assert_refused = DaemonTest.assert_problem, DaemonTest.assert_refused

    def test_results_go_after_their_time_and_the_record_stays(self):
        daemon = Daemon("--result-ttl", 1, "--janitor-interval", 1)
        self.addCleanup(daemon.close)
        model = linear_model()
        job = daemon.ended(daemon.submit(model)["id"])
        self.assertTrue(wait_until(lambda: daemon.job(job["id"])["state"] == "expired"))
        for path in ("/results", "/report"):
            self.assert_refused(daemon.request("GET", job["href"] + path), 410, "results_expired")
        for path in ("/results.zip", "/results/model.safetensors"):
            self.assert_problem(daemon.request("GET", job["href"] + path), 410, "results_expired")
        self.assertTrue(wait_until(lambda: not os.path.exists(os.path.join(daemon.data, "jobs", job["id"]))))
        self.assertEqual(202, daemon.request("POST", f"{job['href']}/retry")[0])
        self.assertEqual("succeeded", daemon.ended(job["id"])["state"])


if __name__ == "__main__":
    unittest.main()
