"""Inputs by their digest: stored once, known before they are sent, fetched, removed."""

import base64
import hashlib
import json
import os
import unittest

from support import DaemonTest, big_model, digest_of, linear_model, put, read_answer, torch_zip, wait_until

UNKNOWN = "sha256:" + "0" * 64


def repr_digest(raw):
    return f"sha-256=:{base64.b64encode(hashlib.sha256(raw).digest()).decode()}:"


class BlobsTest(DaemonTest):
    FLAGS = ("--workers", 1, "--input-ttl", 3600)
    FAULT = "hang@hang"

    def path(self, raw):
        return "/v1/blobs/" + digest_of(raw)

    def on_disk(self, raw):
        name = digest_of(raw)[7:]
        return os.path.join(self.daemon.data, "blobs", "sha256", name[:2], name)

    def test_a_new_one_is_201_and_a_known_one_200(self):
        raw = linear_model(rows=11)
        for method, path, body in (("POST", "/v1/blobs", raw), ("PUT", self.path(linear_model(rows=12)), linear_model(rows=12))):
            for expected in (201, 200):
                status, headers, answer = self.daemon.request(method, path, body)
                self.assertEqual(expected, status)
                self.assertEqual({"digest": digest_of(body), "bytes": len(body)}, json.loads(answer))
                self.assertEqual((self.path(body), repr_digest(body), f'"{digest_of(body)}"'),
                                 (headers["Location"], headers["Repr-Digest"], headers["ETag"]))
                with open(self.on_disk(body), "rb") as file:
                    self.assertEqual(body, file.read())

    def test_any_bytes_may_be_stored(self):
        raw = b"not a checkpoint"
        self.assertEqual(201, self.daemon.request("POST", "/v1/blobs", raw)[0])
        self.assert_refused(self.daemon.request("POST", "/v1/blobs", b""), 422, "empty_file")
        self.assert_refused(self.daemon.request("POST", "/v1/blobs?name=x", raw), 400, "bad_option", "name")

    def test_curl_appends_its_name_and_sends_a_form_as_well(self):
        raw = linear_model(rows=13)
        path = self.file("my net.pt", raw)
        for arguments in (("-T", path, f"{self.daemon.base}/v1/blobs/"), ("-F", f"file=@{path}", f"{self.daemon.base}/v1/blobs"),):
            answer = json.loads(self.curl("-f", *arguments, expect=0)[2])
            self.assertEqual({"digest": digest_of(raw), "bytes": len(raw), "name": "my net.pt"}, answer)
        out = self.curl("-f", "--data-binary", f"@{path}", f"{self.daemon.base}/v1/blobs", expect=0)[2]
        self.assertEqual(digest_of(raw), json.loads(out)["digest"])

    def test_a_form_must_hold_one_file_and_nothing_else(self):
        path, other = self.file("a.pt", linear_model()), self.file("b.pt", linear_model(rows=2))
        for fields, status, code in ((("file=@" + path, "file=@" + other), 413, "too_many_files"), (("name=x",), 400, "bad_option"),
                                     (("file=@" + path, "name=x"), 400, "bad_option"), (("model=@" + path,), 400, "bad_option")):
            arguments = [argument for field in fields for argument in ("-F", field)]
            _, _, out = self.curl(*arguments, f"{self.daemon.base}/v1/blobs", expect=0)
            self.assertEqual((status, code), (json.loads(out)["status"], json.loads(out)["code"]))

    def test_a_digest_that_is_not_that_of_the_body_is_refused_and_nothing_stays(self):
        raw, other = linear_model(rows=14), linear_model(rows=15)
        document = self.assert_refused(self.daemon.request("PUT", self.path(other), raw), 422, "digest_mismatch")
        self.assertIn(digest_of(raw), document["detail"])
        answer = self.daemon.request("POST", "/v1/blobs", raw, {"Repr-Digest": repr_digest(other)})
        self.assert_refused(answer, 422, "digest_mismatch")
        for body in (raw, other):
            self.assertEqual(404, self.daemon.request("HEAD", self.path(body))[0])
            self.assertFalse(os.path.exists(self.on_disk(body)))
        self.assertTrue(wait_until(lambda: self.daemon.temporary_files() == []))
        self.assertEqual(201, self.daemon.request("POST", "/v1/blobs", raw, {"Repr-Digest": repr_digest(raw)})[0])

    def test_a_name_is_measured_at_its_limit(self):
        for name, status in (("a" * 255, 201), ("b" * 256, 400), ("c%01", 400)):
            self.assertEqual(status, self.daemon.request("PUT", "/v1/blobs/" + name, name.encode())[0], name)

    def test_what_is_known_is_answered_before_the_body(self):
        raw = big_model(3)
        self.daemon.store(raw)
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(f"PUT {self.path(raw)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\nExpect: 100-continue\r\n\r\n".encode())
        status, _, body = read_answer(sock)
        self.assertEqual((200, digest_of(raw)), (status, json.loads(body)["digest"]))
        _, _, out = self.curl("-f", "-T", self.file("big.pt", raw), "-w", "%{size_upload}", "-o", os.devnull,
                              self.daemon.base + self.path(raw), expect=0)
        self.assertEqual(b"0", out, "real curl waits for 100 Continue and sends nothing")
        hits = self.daemon.metric("ckptd_blob_dedup_hits_total")
        self.assertEqual(200, put(self.daemon, self.path(raw), raw)[0])
        self.assertEqual(hits + 1, self.daemon.metric("ckptd_blob_dedup_hits_total"))

    def test_it_is_fetched_whole_and_in_pieces(self):
        raw = linear_model(rows=16)
        self.daemon.store(raw)
        status, headers, body = self.daemon.request("GET", self.path(raw))
        self.assertEqual((200, raw, repr_digest(raw), "bytes"), (status, body, headers["Repr-Digest"], headers["Accept-Ranges"]))
        self.assertIn("immutable", headers["Cache-Control"])
        status, head, body = self.daemon.request("HEAD", self.path(raw))
        self.assertEqual((200, b"", str(len(raw)), headers["ETag"]), (status, body, head["Content-Length"], head["ETag"]))
        status, headers, body = self.daemon.request("GET", self.path(raw), headers={"Range": "bytes=10-19"})
        self.assertEqual((206, raw[10:20], f"bytes 10-19/{len(raw)}"), (status, body, headers["Content-Range"]))
        answer = self.daemon.request("GET", self.path(raw), headers={"Range": f"bytes={len(raw)}-"})
        self.assert_problem(answer, 416, "range_not_satisfiable")
        self.assertEqual(f"bytes */{len(raw)}", answer[1]["Content-Range"])
        self.assertEqual(304, self.daemon.request("GET", self.path(raw), headers={"If-None-Match": head["ETag"]})[0])
        partial = self.file("part", raw[:1000])
        self.curl("-f", "-C", "-", "-o", partial, self.daemon.base + self.path(raw), expect=0)
        with open(partial, "rb") as file:
            self.assertEqual(raw, file.read())

    def test_a_digest_may_be_written_in_capitals(self):
        raw = linear_model(rows=17)
        self.daemon.store(raw)
        self.assertEqual(200, self.daemon.request("HEAD", "/v1/blobs/sha256:" + digest_of(raw)[7:].upper())[0])

    def test_what_is_not_there_or_no_digest_is_told(self):
        self.assert_problem(self.daemon.request("GET", "/v1/blobs/" + UNKNOWN), 404, "blob_not_found")
        self.assert_refused(self.daemon.request("DELETE", "/v1/blobs/" + UNKNOWN), 404, "blob_not_found")
        for name in ("sha256:abc", "x", UNKNOWN + "0", "sha512:" + "0" * 128):
            self.assert_problem(self.daemon.request("GET", "/v1/blobs/" + name), 400, "bad_request")
        self.assert_refused(put(self.daemon, "/v1/blobs/sha256:abc", b"x"), 400, "bad_request")

    def test_a_removed_one_is_gone(self):
        raw = linear_model(rows=18)
        self.daemon.store(raw)
        self.assertEqual((204, b""), self.daemon.request("DELETE", self.path(raw))[::2])
        self.assertFalse(os.path.exists(self.on_disk(raw)))
        self.assert_problem(self.daemon.request("GET", self.path(raw)), 404, "blob_not_found")
        self.assertEqual(201, self.daemon.request("POST", "/v1/blobs", raw)[0])

    def test_one_that_a_job_needs_is_kept_until_the_job_has_ended(self):
        raw = torch_zip({"hang.weight": ("float32", (2, 2), bytes(16))})
        job = self.daemon.submit(raw, name="hang.pt")
        answer = self.daemon.request("DELETE", self.path(raw))
        self.assertIn(job["id"], self.assert_refused(answer, 409, "blob_in_use")["detail"])
        self.assertEqual(204, self.daemon.request("DELETE", job["href"])[0])
        self.assertEqual(204, self.daemon.request("DELETE", self.path(raw))[0])

    def test_the_input_of_the_one_command_is_one(self):
        raw = linear_model(rows=19)
        self.assertEqual(200, put(self.daemon, "/v1/convert/mlx/m.pt", raw)[0])
        self.assertEqual(raw, self.daemon.request("GET", self.path(raw))[2])


if __name__ == "__main__":
    unittest.main()
