"""The one command: a checkpoint in, a zip or a safetensors file out."""

import io
import json
import unittest
import zipfile

from support import DaemonTest, big_model, floats, linear_model, put, read_safetensors, torch_zip


def open_zip(raw):
    archive = zipfile.ZipFile(io.BytesIO(raw))
    assert archive.testzip() is None, "a CRC is wrong"
    return archive


class UnpackingTest(DaemonTest):
    """What is compressed in an upload is unpacked by the worker, into a file that the daemon gave it."""
    FLAGS = ("--limit-unpacked-bytes", 4096)

    def zipped_again(self, floats_in_it):
        return torch_zip({"w": ("float32", (floats_in_it,), floats(floats_in_it))}, method=zipfile.ZIP_DEFLATED)

    def test_a_checkpoint_that_was_zipped_again_is_unpacked(self):
        for _ in range(2):
            path = self.file("again.pt", self.zipped_again(1024))
            _, files, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/safetensors/", expect=0)
            self.assertEqual(("F32", (1024,), floats(1024)), read_safetensors(files["again.safetensors"])["w"])

    def test_unpacking_ends_at_its_limit(self):
        status, _, raw = put(self.daemon, "/v1/convert/safetensors/again.pt", self.zipped_again(1025))
        self.assertEqual(422, status)
        self.assertIn(b"--limit-unpacked-bytes", raw)


class ConversionTest(DaemonTest):
    FLAGS = ("--workers", 2, "--threads", 2)

    def test_the_one_liner_saves_a_zip_under_the_servers_name(self):
        model = linear_model()
        path = self.file("resnet.pt", model)
        _, files, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/mlx/", expect=0)
        self.assertEqual(["resnet.mlx.zip"], list(files))
        archive = open_zip(files["resnet.mlx.zip"])
        self.assertEqual({"resnet.mlx/model.safetensors", "resnet.mlx/report.json"}, set(archive.namelist()))
        tensors = read_safetensors(archive.read("resnet.mlx/model.safetensors"))
        original = read_safetensors_of(self, model)
        self.assertEqual(original["fc.weight"], tensors["fc.weight"])
        self.assertEqual(original["fc.bias"], tensors["fc.bias"])
        json.loads(archive.read("resnet.mlx/report.json"))
        with open(path, "rb") as file:
            self.assertEqual(model, file.read(), "the uploaded file is untouched")

    def test_the_quantization_is_a_segment_of_the_path(self):
        path = self.file("resnet.pt", linear_model())
        _, files, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/mlx/q4/", expect=0)
        archive = open_zip(files["resnet.mlx-q4.zip"])
        tensors = read_safetensors(archive.read("resnet.mlx-q4/model.safetensors"))
        self.assertEqual(("U32", (8, 8)), tensors["fc.weight"][:2])

    def test_safetensors_answers_with_the_bare_file(self):
        path = self.file("resnet.pt", linear_model())
        _, files, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/safetensors/", expect=0)
        self.assertEqual(["resnet.safetensors"], list(files))
        self.assertEqual(("F32", (8, 64)), read_safetensors(files["resnet.safetensors"])["fc.weight"][:2])

    def test_a_safetensors_file_is_taken_too(self):
        _, files, _ = self.curl("-fOJT", self.file("a.pt", linear_model()), f"{self.daemon.base}/v1/convert/safetensors/",
                                expect=0)
        path = self.file("model.safetensors", files["a.safetensors"])
        _, files, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/mlx/", expect=0)
        self.assertEqual(["model.mlx.zip"], list(files))

    def test_post_and_data_binary_work_like_put(self):
        path = self.file("m.pt", linear_model())
        _, files, _ = self.curl("-fOJ", "--data-binary", f"@{path}", f"{self.daemon.base}/v1/convert/mlx/", expect=0)
        self.assertEqual(["model.mlx.zip"], list(files), "no name was sent, so it is model")

    def test_a_chunked_upload_from_a_pipe_works(self):
        _, files, _ = self.curl("-fOJT", "-", f"{self.daemon.base}/v1/convert/mlx/piped.pt", expect=0, stdin=linear_model())
        self.assertEqual(["piped.mlx.zip"], list(files))

    def test_every_shape_of_the_path_is_understood(self):
        for path, name in (("mlx", "model.mlx.zip"), ("mlx/", "model.mlx.zip"), ("mlx/net.pt", "net.mlx.zip"),
                           ("mlx/q4", "model.mlx-q4.zip"), ("mlx/q4/", "model.mlx-q4.zip"),
                           ("mlx/q4/net.pt", "net.mlx-q4.zip"), ("mlx/none/net", "net.mlx.zip"),
                           ("mlx/q4-g64/net.tar.pth", "net.mlx-q4.zip"), ("mlx/q4-g32/a%20b.pt", "a b.mlx-q4-g32.zip")):
            with self.subTest(path):
                status, headers, _ = put(self.daemon, "/v1/convert/" + path, linear_model())
                self.assertEqual(200, status)
                self.assertEqual(f'attachment; filename="{name}"', headers["Content-Disposition"])

    def test_a_name_beyond_ascii_is_sent_in_both_forms(self):
        status, headers, raw = put(self.daemon, "/v1/convert/mlx/n%C3%A9t.pt", linear_model())
        self.assertEqual(200, status)
        self.assertEqual("attachment; filename=\"n__t.mlx.zip\"; filename*=UTF-8''n%C3%A9t.mlx.zip",
                         headers["Content-Disposition"])
        self.assertIn("n\u00e9t.mlx/model.safetensors", open_zip(raw).namelist())

    def test_a_name_that_climbs_stays_in_its_folder(self):
        status, headers, raw = put(self.daemon, "/v1/convert/mlx/..%2F..%2Fetc%2Fpass.pt", linear_model())
        self.assertEqual(200, status)
        for name in open_zip(raw).namelist():
            self.assertTrue(name.startswith("pass.mlx/"), name)

    def test_options_come_in_the_query(self):
        status, _, raw = put(self.daemon, "/v1/convert/mlx/m.pt?dtype=float16&assume=convention", linear_model())
        self.assertEqual(200, status)
        tensors = read_safetensors(open_zip(raw).read("m.mlx/model.safetensors"))
        self.assertEqual("F16", tensors["fc.weight"][0])

    def test_the_answer_has_its_headers(self):
        status, headers, raw = put(self.daemon, "/v1/convert/mlx/m.pt", linear_model(), {"X-Request-Id": "my-id.7"})
        self.assertEqual(200, status)
        self.assertEqual("application/zip", headers["Content-Type"])
        self.assertEqual(str(len(raw)), headers["Content-Length"])
        self.assertRegex(headers["X-Ckptd-Assumed"], r"^\d+$")
        self.assertTrue(headers["X-Ckptd-Version"])
        self.assertEqual("my-id.7", headers["X-Request-Id"])
        self.assertRegex(headers["ETag"], r'^"[0-9a-f]{64}"$')

    def test_a_request_id_that_is_not_sane_is_replaced(self):
        for bad in ("a b", "x" * 64, '"', "\u00e9"):
            headers = put(self.daemon, "/v1/convert/mlx/m.pt", linear_model(), {"X-Request-Id": bad})[1]
            self.assertRegex(headers["X-Request-Id"], r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

    def test_the_etag_names_what_the_result_depends_on(self):
        def etag(path, body):
            return put(self.daemon, path, body)[1]["ETag"]

        base = etag("/v1/convert/mlx/m.pt", linear_model())
        self.assertEqual(base, etag("/v1/convert/mlx/m.pth?dtype=keep", linear_model()), "same specification")
        self.assertNotEqual(base, etag("/v1/convert/mlx/other.pt", linear_model()), "another folder in the zip")
        self.assertNotEqual(base, etag("/v1/convert/mlx/m.pt?dtype=float16", linear_model()))
        self.assertNotEqual(base, etag("/v1/convert/mlx/m.pt", linear_model(rows=4)))

    def test_the_same_upload_gives_the_same_bytes(self):
        first = put(self.daemon, "/v1/convert/mlx/q4/m.pt", linear_model())[2]
        second = put(self.daemon, "/v1/convert/mlx/q4/m.pt", linear_model())[2]
        self.assertEqual(first, second)

    def test_a_connection_serves_several_conversions(self):
        connection = self.daemon.connect()
        self.addCleanup(connection.close)
        local = None
        for i in range(3):
            connection.request("PUT", f"/v1/convert/mlx/m{i}.pt", linear_model())
            response = connection.getresponse()
            self.assertEqual(200, response.status)
            open_zip(response.read())
            self.assertIsNotNone(connection.sock, "the server closed the connection")
            local = local or connection.sock.getsockname()
            self.assertEqual(local, connection.sock.getsockname())

    def test_a_larger_model_comes_back_whole(self):
        status, headers, raw = put(self.daemon, "/v1/convert/mlx/big.pt", big_model(80))
        self.assertEqual(200, status)
        self.assertEqual(int(headers["Content-Length"]), len(raw))
        tensors = read_safetensors(open_zip(raw).read("big.mlx/model.safetensors"))
        self.assertEqual((80 * 256, 1024), tensors["fc.weight"][1])

    def test_small_shards_come_with_their_index(self):
        status, _, raw = put(self.daemon, "/v1/convert/mlx/m.pt?max_shard_size=2048", linear_model())
        self.assertEqual(200, status)
        self.assertIn("m.mlx/model.safetensors.index.json", open_zip(raw).namelist())


def read_safetensors_of(test, model):
    status, _, raw = put(test.daemon, "/v1/convert/safetensors/x.pt", model)
    test.assertEqual(200, status)
    return read_safetensors(raw)


if __name__ == "__main__":
    unittest.main()
