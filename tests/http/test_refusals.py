"""What is refused, by which code, and how early."""

import base64
import hashlib
import json
import unittest

from support import DaemonTest, chunked, floats, linear_model, put, read_answer, torch_zip

GGUF = b"GGUF\x03\x00\x00\x00" + bytes(100000)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 44690000\n"


class RequestTest(DaemonTest):
    def refused(self, path, status, code, body=None, headers=None):
        answer = put(self.daemon, path, linear_model() if body is None else body, headers)
        return self.assert_problem(answer, status, code)

    def test_an_unknown_target_is_answered_with_the_nearest(self):
        document = self.refused("/v1/convert/mlz/m.pt", 400, "unsupported_target")
        self.assertIn("mlx", document["hint"])
        self.assertIn("safetensors", document["detail"])

    def test_a_missing_target_is_answered_with_the_list(self):
        for path in ("/v1/convert/%20", "/v1/convert/m.pt"):
            self.assertIn("mlx, safetensors", self.refused(path, 400, "unsupported_target")["detail"])
        for path in ("/v1/convert", "/v1/convert/"):
            self.refused(path, 405, "method_not_allowed")

    def test_an_unknown_quantization_is_answered_with_the_nearest(self):
        document = self.refused("/v1/convert/mlx/q44/m.pt", 400, "unsupported_quant")
        self.assertIn("q4", document["hint"])

    def test_a_typing_error_never_means_no_quantization(self):
        self.assertIn("q4", self.refused("/v1/convert/mlx/q4x", 400, "unsupported_quant")["hint"])
        self.assertIn("/none/mymodel", self.refused("/v1/convert/mlx/mymodel", 400, "unsupported_quant")["hint"])
        self.refused("/v1/convert/safetensors/q4/", 400, "unsupported_quant")

    def test_an_unknown_option_is_answered_with_the_nearest(self):
        self.assertIn("dtype", self.refused("/v1/convert/mlx/m.pt?dtyp=float16", 400, "bad_option")["hint"])
        self.assertIn("float16", self.refused("/v1/convert/mlx/m.pt?dtype=float61", 400, "bad_option")["hint"])
        self.refused("/v1/convert/mlx/m.pt?dtype=float16&dtype=float16", 400, "bad_option")

    def test_broken_paths_are_refused(self):
        self.refused("/v1/convert/mlx/%zz.pt", 400, "bad_request")
        self.refused("/v1/convert/mlx/a%00b.pt", 400, "bad_request")
        self.refused("/v1/convert/mlx/%4", 400, "bad_request")
        self.refused("/v1/convert/mlx//m.pt", 404, "not_found")
        self.refused("/v1/convert/mlx/q4/a/b.pt", 404, "not_found")

    def test_encodings_are_refused(self):
        self.refused("/v1/convert/mlx/m.pt", 400, "bad_request", headers={"Content-Encoding": "gzip"})
        self.refused("/v1/convert/mlx/m.pt", 415, "unsupported_media", headers={"Content-Type": "multipart/mixed; boundary=x"})

    def test_an_error_is_kept_in_a_file_by_curl(self):
        path = self.file("m.pt", linear_model())
        url = f"{self.daemon.base}/v1/convert/mlx/q9/"
        code, files, _ = self.curl("--fail-with-body", "-OJT", path, url)
        self.assertEqual(22, code)
        self.assertEqual("unsupported_quant", json.loads(files["ckptd-error.json"])["code"])
        self.curl("-fOJT", path, url, expect=22)

    def test_a_refusal_on_the_head_spares_the_body(self):
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlz/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n"
                     b"Expect: 100-continue\r\n\r\n")
        answer = read_answer(sock)
        self.assertEqual("close", answer[1]["Connection"])
        self.assert_problem(answer, 400, "unsupported_target")

    def test_a_small_refused_body_keeps_the_connection(self):
        connection = self.daemon.connect()
        self.addCleanup(connection.close)
        for _ in range(3):
            connection.request("PUT", "/v1/convert/mlz/m.pt", linear_model())
            response = connection.getresponse()
            self.assertEqual(400, response.status)
            response.read()
            self.assertIsNotNone(connection.sock)

    def test_a_digest_is_checked(self):
        model = linear_model()
        right = base64.b64encode(hashlib.sha256(model).digest()).decode()
        wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
        for header in ("Repr-Digest", "Content-Digest"):
            self.assertEqual(200, put(self.daemon, "/v1/convert/mlx/m.pt", model, {header: f"sha-256=:{right}:"})[0])
            self.assertEqual(200, put(self.daemon, "/v1/convert/mlx/m.pt", model,
                                      {header: f"sha-512=:AAAA:, sha-256=:{right}:"})[0])
            self.refused("/v1/convert/mlx/m.pt", 422, "digest_mismatch", headers={header: f"sha-256=:{wrong}:"})
            for malformed in ("sha-256=abc", "sha-256=:abc:", f"sha-256={right}", f"sha-256=:{right[:-1]}!:"):
                self.refused("/v1/convert/mlx/m.pt", 400, "bad_request", headers={header: malformed})

    def test_length_and_chunks_together_are_refused(self):
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        self.assertEqual(400, read_answer(sock)[0])

    def test_heads_that_can_be_read_in_two_ways_are_refused(self):
        heads = {
            b"Content-Length: 3\r\nContent-Length: 5\r\n": b"Content-Length",
            b"Host: evil.example\r\nContent-Length: 3\r\n": b"Host",
            b"Transfer-Encoding: gzip, chunked\r\n": b"Transfer-Encoding",
            b"Content-Length: 3\r\nContent-Range: bytes 0-2/9\r\n": b"Content-Range",
        }
        for head, name in heads.items():
            with self.subTest(name):
                sock = self.daemon.socket()
                self.addCleanup(sock.close)
                sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\nabc")
                answer = sock.recv(65536)
                self.assertIn(b" 400 ", answer.split(b"\r\n")[0])
                self.assertIn(name, answer)


class DocumentTest(DaemonTest):
    def refused(self, status, code, body):
        return self.assert_problem(put(self.daemon, "/v1/convert/mlx/m.pt", body), status, code)

    def test_an_empty_body_is_refused(self):
        self.refused(422, "empty_file", b"")
        self.refused(422, "empty_file", chunked([]))

    def test_what_is_no_checkpoint_is_called_by_its_name(self):
        self.assertIn("LFS", self.refused(415, "not_a_checkpoint", POINTER)["detail"])
        self.assertIn("GGUF", self.refused(415, "unsupported_form", GGUF)["detail"])
        self.refused(415, "not_a_checkpoint", b"<!DOCTYPE html><html><body>Sign in</body></html>")
        self.refused(415, "not_a_checkpoint", bytes(range(256)) * 40)

    def test_curl_gets_the_answer_in_the_middle_of_its_upload(self):
        path = self.file("m.gguf", GGUF + bytes(20 << 20))
        for arguments in (("-T", path), ("-T", path, "-H", "Transfer-Encoding: chunked"), ("-T", path, "-H", "Expect:")):
            with self.subTest(arguments):
                code, files, _ = self.curl("--fail-with-body", "-OJ", *arguments, f"{self.daemon.base}/v1/convert/mlx/m.gguf")
                self.assertEqual(22, code)
                self.assertEqual("unsupported_form", json.loads(files["ckptd-error.json"])["code"])

    def test_a_cut_off_zip_is_refused(self):
        code = json.loads(put(self.daemon, "/v1/convert/mlx/m.pt", linear_model()[:-30])[2])["code"]
        self.assertIn(code, ("archive_corrupt", "truncated"))
        self.assert_alive()

    def test_a_tensor_beyond_its_storage_is_refused(self):
        # The shape (9, 64) becomes (11, 64); the storage keeps its 576 elements. The CRC of the entry is not looked at.
        model = linear_model(rows=9).replace(b"(K\x09K\x40t", b"(K\x0bK\x40t")
        document = self.refused(422, "tensor_out_of_bounds", model)
        self.assertIn("fc.weight", document["where"] + document["detail"])

    def test_an_ambiguous_layout_comes_with_its_questions(self):
        model = torch_zip({"up.deconv.weight": ("float32", (3, 3, 3, 3), floats(81))})
        document = self.refused(422, "ambiguous_layout", model)
        self.assertTrue(document["questions"])


if __name__ == "__main__":
    unittest.main()
