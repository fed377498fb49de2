"""Forms: what curl -F sends in every order, and what other clients make of multipart/form-data."""

import json
import unittest

from support import DaemonTest, digest_of, linear_model, torch_zip, wait_until

MODEL = linear_model()
MAX_FILES = 3


def field(name, value, more=""):
    return f'Content-Disposition: form-data; name="{name}"{more}'.encode(), value if isinstance(value, bytes) else value.encode()


def model(name="m.pt", raw=MODEL):
    return field("file", raw, f'; filename="{name}"')


TO = field("to", "mlx")


def body_of(parts, boundary="xyz", end=True):
    raw = b"".join(b"--" + boundary.encode() + b"\r\n" + head + b"\r\n\r\n" + value + b"\r\n" for head, value in parts)
    return raw + (b"--" + boundary.encode() + b"--\r\n" if end else b"")


class CurlFormTest(DaemonTest):
    FLAGS = ("--workers", 2)

    def form(self, *fields, path="/v1/convert", expect=0):
        """{file name: bytes} that curl -OJ has saved."""
        arguments = [argument for f in fields for argument in ("-F", f)]
        code, files, _ = self.curl("--fail-with-body", "-OJ", *arguments, self.daemon.base + path)
        self.assertEqual(expect, code, files)
        return files

    def refused(self, code, *fields, path="/v1/convert", where=None):
        document = json.loads(self.form(*fields, path=path, expect=22)["ckptd-error.json"])
        self.assertEqual(code, document["code"], document)
        if where:
            self.assertEqual(where, document["where"])
        return document

    def setUp(self):
        super().setUp()
        self.at = "file=@" + self.file("net.pt", MODEL)

    def test_options_before_and_after_the_file_are_the_same(self):
        before = self.form("to=mlx", "quant=q4", "dtype=float16", self.at)
        after = self.form(self.at, "dtype=float16", "quant=q4", "to=mlx")
        self.assertEqual(["net.mlx-q4.zip"], list(before))
        self.assertEqual(before, after)
        _, files, _ = self.curl("-fOJT", self.at[6:], f"{self.daemon.base}/v1/convert/mlx/q4/?dtype=float16", expect=0)
        self.assertEqual(files, before, "and those of the one command")

    def test_the_path_or_the_query_may_say_it_instead(self):
        self.assertEqual(["net.mlx-q4.zip"], list(self.form(self.at, path="/v1/convert/mlx/q4/")))
        self.assertEqual(["net.mlx-q4.zip"], list(self.form(self.at, "dtype=float16", path="/v1/convert/mlx/q4")))
        self.assertEqual(["net.mlx.zip"], list(self.form("to=mlx", self.at, path="/v1/convert?dtype=float16")))
        self.refused("bad_option", "to=mlx", self.at, path="/v1/convert/mlx/q4", where="to")
        self.refused("bad_option", "quant=q4", self.at, path="/v1/convert/mlx", where="quant")
        self.refused("bad_option", "to=mlx", "dtype=float16", self.at, path="/v1/convert?dtype=float16", where="dtype")

    def test_options_and_labels_may_be_json(self):
        files = self.form("to=mlx", 'options={"dtype":"float16","layers":{"fc":"Linear"}}', 'labels={"team":"a"}', "name=other.pt", self.at)
        self.assertEqual(["other.mlx.zip"], list(files))
        job = self.daemon.ask("GET", "/v1/jobs?label=team=a")[2]["jobs"][0]
        self.assertEqual(("other.pt", "float16"), (job["spec"]["inputs"][0]["name"], job["spec"]["options"]["dtype"]))
        self.refused("bad_json", "to=mlx", "options={", self.at, where="options")
        self.refused("bad_option", "to=mlx", 'options={"dtype":"x"}', self.at, where="options/dtype")
        self.refused("bad_json", "to=mlx", 'labels={"a":1}', self.at, where="labels/a")
        self.refused("bad_option", "to=mlx", 'options={"dtype":"float16"}', "dtype=float16", self.at)

    def test_a_digest_stands_for_the_file(self):
        digest = self.daemon.store(MODEL)
        self.assertEqual(["x.mlx.zip"], list(self.form("to=mlx", f"digest={digest}", "name=x.pt")))
        self.refused("bad_option", "to=mlx", f"digest={digest}", self.at, where="digest")
        self.refused("bad_request", "to=mlx", "digest=sha256:abc", where="digest")
        self.refused("input_not_found", "to=mlx", "digest=sha256:" + "0" * 64)

    def test_switches_of_the_request_are_fields_too(self):
        files = self.form("to=mlx", "dry_run=true", "fresh=true", "cancel_on_disconnect=true", self.at)
        self.assertEqual("planned", json.loads(files["net.mlx.plan.json"])["status"])
        self.refused("bad_option", "to=mlx", "dry_run=perhaps", self.at, where="dry_run")

    def test_the_file_is_named_by_curl(self):
        self.assertEqual(["other name.mlx.zip"], list(self.form("to=mlx", self.at + ";filename=other name.pt")))
        self.assertEqual(["net.mlx.zip"], list(self.form("to=mlx", self.at + ";type=application/octet-stream")))

    def test_what_is_missing_or_too_much_is_told(self):
        self.refused("missing_file", "to=mlx")
        self.refused("unsupported_target", self.at, where="to")
        self.refused("unsupported_target", "to=mlz", self.at)
        self.refused("unsupported_quant", "to=mlx", "quant=q44", self.at)
        self.refused("too_many_files", "to=mlx", self.at, self.at)
        self.refused("bad_option", "to=mlx", "to=mlx", self.at, where="to")
        self.refused("bad_option", "to=mlx", "model" + self.at[4:], where="model")
        self.assertIn("@", self.refused("bad_option", "to=mlx", "file=" + self.at[6:], where="file")["detail"])
        self.assertIn("dtype", self.refused("bad_option", "to=mlx", "dtyp=float16", self.at, where="dtyp")["hint"])

    def test_a_file_that_is_no_checkpoint_is_refused_as_alone(self):
        self.refused("unsupported_form", "to=mlx", "file=@" + self.file("m.gguf", b"GGUF\3\0\0\0" + bytes(3 << 20)))
        self.refused("empty_file", "to=mlx", "file=@" + self.file("empty.pt", b""))

    def test_data_binary_is_a_raw_body_whatever_its_content_type(self):
        for arguments in ((), ("-H", "Content-Type: application/octet-stream"), ("-H", "Content-Type:")):
            _, files, _ = self.curl("-fOJ", "--data-binary", self.at[5:], *arguments, f"{self.daemon.base}/v1/convert/mlx/net.pt", expect=0)
            self.assertEqual(["net.mlx.zip"], list(files))

    def test_prefer_works_as_with_a_raw_body(self):
        _, _, out = self.curl("-f", "-H", "Prefer: respond-async", "-F", "to=mlx", "-F", self.at, f"{self.daemon.base}/v1/convert", expect=0)
        self.assertEqual("succeeded", self.daemon.ended(json.loads(out)["id"])["state"])


class MultipartTest(DaemonTest):
    """Bodies made by hand."""
    FLAGS = ("--workers", 2, "--max-files", MAX_FILES)

    def send(self, body, content_type="multipart/form-data; boundary=xyz", path="/v1/convert"):
        return self.daemon.request("POST", path, body, {"Content-Type": content_type})

    def taken(self, body, name="m.mlx.zip", content_type="multipart/form-data; boundary=xyz"):
        status, headers, raw = self.send(body, content_type)
        self.assertEqual(200, status, raw[:500])
        self.assertIn(f'filename="{name}"', headers["Content-Disposition"])

    def refused(self, body, status, code, content_type="multipart/form-data; boundary=xyz"):
        document = self.assert_problem(self.send(body, content_type), status, code)
        self.assertTrue(wait_until(lambda: self.daemon.temporary_files() == []))
        return document

    def test_boundaries(self):
        parts = [TO, model()]
        for boundary in ("a", "x" * 70, "----WebKitFormBoundary7MA4YWxkTrZu0gW", "a'()+_,-./:=?"):
            with self.subTest(boundary):
                self.taken(body_of(parts, boundary), content_type=f'multipart/form-data; boundary="{boundary}"')
        self.taken(body_of(parts), content_type="Multipart/Form-Data; charset=utf-8; boundary=xyz")
        for content_type in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=abc"):
            self.assertIn("boundary", self.refused(body_of(parts), 400, "bad_request", content_type)["detail"])
        self.refused(b"hello " * 1000, 400, "bad_request")

    def test_a_form_that_is_cut_off_is_refused(self):
        whole = body_of([TO, model()])
        for n in (len(whole) - 10, len(whole) // 2, 100, 30):
            with self.subTest(n):
                self.refused(whole[:n], 400, "bad_request")
        self.refused(body_of([TO, model()], end=False), 400, "bad_request")
        self.refused(b"", 400, "unsupported_target")

    def test_dispositions_of_other_clients(self):
        self.taken(body_of([TO, (b'content-disposition: form-data; filename="m.pt"; name="file"', MODEL)]))
        self.taken(body_of([TO, (b'Content-Type: application/octet-stream\r\nContent-Disposition: form-data; name="file"; filename="m.pt"', MODEL)]))
        self.taken(body_of([TO, model("")]), "model.mlx.zip")
        self.taken(body_of([TO, model("../../etc/net.pt")]), "net.mlx.zip")
        self.taken(body_of([TO, model("C:\\\\dir\\\\net.pt")]), "net.mlx.zip")
        self.taken(body_of([TO, field("file", MODEL, "; filename=\"n.pt\"; filename*=UTF-8''n%C3%A9t.pt")]), "n.mlx.zip")

    def test_a_part_without_a_name_is_refused(self):
        for head in (b'Content-Disposition: form-data; filename="m.pt"', b"Content-Type: text/plain", b"Content-Disposition: form-data; name=file"):
            with self.subTest(head):
                self.assertIn("name=", self.refused(body_of([TO, (head, MODEL)]), 400, "bad_request")["detail"])

    def test_a_file_without_a_file_name_is_told_how_to_have_one(self):
        self.assertIn("filename=", self.refused(body_of([TO, field("file", MODEL)]), 400, "bad_request")["hint"])

    def test_a_nested_form_counts_its_files(self):
        def nested(*names):
            inner = b"".join(b'--abc\r\nContent-Disposition: attachment; filename="' + name + b'"\r\n\r\n' + MODEL + b"\r\n" for name in names)
            return field("file", inner + b"--abc--", "\r\nContent-Type: multipart/mixed; boundary=abc")

        self.taken(body_of([TO, nested(b"m.pt")]))
        self.refused(body_of([TO, nested(b"m.pt", b"n.pt")]), 413, "too_many_files")
        self.assertIn("--max-files", self.refused(body_of([TO, nested(*[b"m.pt"] * (MAX_FILES + 1))]), 413, "too_many_files")["detail"])

    def test_files_at_the_limit_and_one_past(self):
        document = self.refused(body_of([TO] + [model()] * MAX_FILES), 413, "too_many_files")
        self.assertIn(f"{MAX_FILES} files", document["detail"], "the job takes one, the form may have as many")
        self.assertIn("--max-files", self.refused(body_of([TO] + [model()] * (MAX_FILES + 1)), 413, "too_many_files")["detail"])

    def test_fields_at_the_limit_and_one_past(self):
        fields = [field(f"f{i}", "") for i in range(64)]
        self.assertEqual("f0", self.refused(body_of([TO] + fields[:63] + [model()]), 400, "bad_option")["where"])
        self.assertIn("64 fields", self.refused(body_of([TO] + fields + [model()]), 413, "too_many_files")["detail"])

    def test_bytes_of_fields_at_the_limit_and_one_past(self):
        most = (1 << 20) - len("mlx")
        self.assertIn("65536", self.refused(body_of([TO, field("layers", "x" * most), model()]), 400, "bad_option")["detail"])
        self.assertIn("1048576", self.refused(body_of([TO, field("layers", "x" * (most + 1)), model()]), 413, "too_many_files")["detail"])
        halves = [field("layers", "x" * (most // 2)), field("rules", "x" * (most // 2 + 2))]
        self.assertIn("1048576", self.refused(body_of([TO] + halves + [model()]), 413, "too_many_files")["detail"])

    def test_names_and_heads_of_parts_are_bounded(self):
        self.taken(body_of([TO, model("n" * 252 + ".pt")]), "n" * 160 + ".mlx.zip")
        self.refused(body_of([TO, model("n" * 253 + ".pt")]), 400, "bad_request")
        self.refused(body_of([TO, model("n" * 100000)]), 400, "bad_request")
        self.refused(body_of([TO, model("a\x01b.pt")]), 400, "bad_request")
        self.refused(body_of([field("to", b"m\0lx"), model()]), 400, "bad_request")
        self.refused(body_of([TO, field("n" * 300, "x"), model()]), 400, "bad_option")

    def test_a_boundary_across_the_pieces_of_an_upload_is_found(self):
        raw = body_of([TO, model(raw=torch_zip({"a.weight": ("float32", (16, 16), b"\r\n--xy--" * 128)}))])
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"POST /v1/convert HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=xyz\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(raw))
        for i in range(0, len(raw), 37):
            sock.sendall(raw[i:i + 37])
        self.assertTrue(sock.recv(100).startswith(b"HTTP/1.1 200 "))

    def test_files_in_a_form_keep_their_bytes(self):
        raw = bytes(range(256)) * 5000 + b"\r\n--xy\r\n--xy--"
        answer = self.send(body_of([model("any", raw)]), path="/v1/blobs")
        self.assertEqual((201, digest_of(raw)), (answer[0], json.loads(answer[2])["digest"]))

    def test_a_digest_of_a_form_is_not_taken_for_that_of_its_file(self):
        answer = self.daemon.request("POST", "/v1/convert", body_of([TO, model()]),
                                     {"Content-Type": "multipart/form-data; boundary=xyz", "Repr-Digest": "sha-256=:" + "A" * 43 + "=:"})
        self.assert_problem(answer, 400, "bad_request")

    def test_a_form_that_is_refused_at_its_first_bytes_is_given_back_once(self):
        """It was given back twice, and the daemon died of it."""
        picture = b"\x89PNG\r\n\x1a\n" + bytes(200_000)
        for path in ("/v1/analyze", "/v1/convert/mlx"):
            self.assertEqual(415, self.send(body_of([model("x.png", picture)]), path=path)[0])
        self.assert_alive()

    def test_a_raw_body_to_the_path_of_forms_is_told(self):
        for content_type in ("application/octet-stream", "application/json", "application/x-www-form-urlencoded"):
            self.refused(MODEL, 415, "unsupported_media", content_type)


if __name__ == "__main__":
    unittest.main()
