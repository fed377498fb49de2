"""POST and PUT /v1/analyze: what a file holds and what every target would make of it."""

import json
import unittest

from support import DaemonTest, digest_of, floats, linear_model, put, torch_zip

MODEL = torch_zip({"conv.weight": ("float32", (8, 3, 5, 5), floats(600)), "conv.bias": ("float32", (8,), floats(8)),
                   "fc.weight": ("float16", (4, 8), bytes(64)), "n": ("int64", (), bytes(8))})
SQUARE = torch_zip({"up.weight": ("float32", (4, 4, 3, 3), floats(144))})


class AnalyzeTest(DaemonTest):
    FLAGS = ("--workers", 2)

    def analysis(self, answer):
        self.assertEqual((200, "application/json"), (answer[0], answer[1]["Content-Type"]), answer[2][:500])
        return json.loads(answer[2])

    def test_values_of_a_small_model(self):
        document = self.analysis(put(self.daemon, "/v1/analyze/net.pt", MODEL))
        tensors = {tensor["name"]: tensor for tensor in document["tensors"]}
        self.assertEqual(["conv.weight", "conv.bias", "fc.weight", "n"], list(tensors))
        self.assertEqual(([8, 3, 5, 5], "float32", 2400), tuple(tensors["conv.weight"][k] for k in ("shape", "dtype", "bytes")))
        self.assertEqual(([], "int64", 8), tuple(tensors["n"][k] for k in ("shape", "dtype", "bytes")))
        self.assertEqual([75, 25, 5, 1], tensors["conv.weight"]["strides"])
        self.assertEqual((4, 2400 + 32 + 64 + 8), (document["totals"]["tensors"], document["totals"]["bytes"]))
        self.assertEqual({"mlx", "safetensors"}, set(document["targets"]))
        self.assertTrue(all(target["supported"] for target in document["targets"].values()))

    def test_every_way_to_send_it_is_the_same(self):
        path = self.file("net.pt", MODEL)
        url = f"{self.daemon.base}/v1/analyze"
        digest = self.daemon.store(MODEL)
        answers = [json.loads(self.curl("-f", *arguments, expect=0)[2]) for arguments in (
            ("-T", path, url + "/"), ("-T", path, url), ("--data-binary", f"@{path}", url), ("-F", f"file=@{path}", url),
            ("-F", f"digest={digest}", url), ("--json", json.dumps({"digest": digest, "name": "net.pt", "fresh": True}), url))]
        for answer in answers[1:]:
            self.assertEqual(answers[0], answer)
        spec = {"kind": "analyze", "inputs": [{"digest": digest}], "fresh": True}
        job = self.daemon.ended(self.daemon.ask("POST", "/v1/jobs", spec)[2]["id"])
        self.assertEqual(answers[0], self.daemon.ask("GET", job["report_href"] or job["href"] + "/report")[2], "and as a job")

    def test_it_is_shown_under_a_name(self):
        headers = put(self.daemon, "/v1/analyze/net.pt", MODEL)[1]
        self.assertEqual('inline; filename="net.analysis.json"', headers["Content-Disposition"])
        _, files, _ = self.curl("-fOJT", self.file("net.pt", MODEL), f"{self.daemon.base}/v1/analyze/", expect=0)
        self.assertEqual(["net.analysis.json"], list(files))

    def test_the_list_of_tensors_may_be_left_out(self):
        whole = self.analysis(put(self.daemon, "/v1/analyze/net.pt", MODEL))
        digest = self.daemon.store(MODEL)
        answers = [put(self.daemon, "/v1/analyze/net.pt?tensors=false", MODEL),
                   self.daemon.request("POST", "/v1/analyze", json.dumps({"digest": digest, "options": {"tensors": False}}),
                                       {"Content-Type": "application/json"}),
                   self.daemon.request("POST", "/v1/analyze?tensors=false", json.dumps({"digest": digest}), {"Content-Type": "application/json"})]
        whole.pop("tensors")
        for answer in answers:
            self.assertEqual(whole, self.analysis(answer))

    def test_a_question_is_no_refusal(self):
        document = self.analysis(put(self.daemon, "/v1/analyze/up.pt", SQUARE))
        mlx = document["targets"]["mlx"]
        self.assertFalse(mlx["supported"])
        self.assertTrue(document["targets"]["safetensors"]["supported"])
        self.assertEqual("up.weight", mlx["questions"][0]["tensor"])
        answered = self.analysis(put(self.daemon, "/v1/analyze/up.pt?layers=up:ConvTranspose2d", SQUARE))
        self.assertTrue(answered["targets"]["mlx"]["supported"])

    def test_a_file_that_cannot_be_read_is_refused_with_the_same_code_as_a_conversion(self):
        cut = linear_model()[:-30]
        hollow = linear_model(rows=9).replace(b"(K\x09K\x40t", b"(K\x0bK\x40t")
        for name, raw in (("cut", cut), ("text", b"hello, world" * 500), ("gguf", b"GGUF\3\0\0\0" + bytes(100000)),
                          ("empty", b""), ("html", b"<!DOCTYPE html><html>"), ("hollow", hollow)):
            with self.subTest(name):
                convert = json.loads(put(self.daemon, "/v1/convert/safetensors/m.pt", raw)[2])
                answer = put(self.daemon, "/v1/analyze/m.pt", raw)
                if answer[0] == 200:
                    self.assertEqual("hollow", name)
                    self.assertIn(convert["code"], answer[2].decode())
                    continue
                self.assert_problem(answer, convert["status"], convert["code"])

    def test_what_does_not_belong_to_an_analysis_is_refused(self):
        for query in ("to=mlx", "quant=q4", "dry_run=true", "rows=1", "tensors=perhaps"):
            with self.subTest(query):
                self.assert_problem(put(self.daemon, f"/v1/analyze/m.pt?{query}", MODEL), 400, "bad_option")
        for document, code in (({}, "bad_json"), ({"digest": "x"}, "bad_request"), ({"digset": digest_of(MODEL)}, "unknown_member"),
                               ({"digest": digest_of(MODEL), "to": "mlx"}, "unknown_member"), ([], "bad_json")):
            answer = self.daemon.request("POST", "/v1/analyze", json.dumps(document), {"Content-Type": "application/json"})
            self.assert_problem(answer, 400, code)
        answer = self.daemon.request("POST", "/v1/analyze", json.dumps({"digest": "sha256:" + "0" * 64}), {"Content-Type": "application/json"})
        self.assert_problem(answer, 422, "input_not_found")

    def test_it_is_a_job_like_any_other(self):
        status, headers, raw = put(self.daemon, "/v1/analyze/net.pt?fresh=true", MODEL, {"Prefer": "respond-async"})
        job = json.loads(raw)
        self.assertEqual((202, "analyze", 'attachment; filename="net.analysis.job.json"'), (status, job["kind"], headers["Content-Disposition"]))
        job = self.daemon.ended(job["id"])
        self.assertEqual((["analysis.json"], ""), ([f["name"] for f in job["results"]], job["spec"]["to"]))
        again = put(self.daemon, "/v1/analyze/net.pt", MODEL)
        self.assertEqual(job["id"], self.daemon.job(again[1]["X-Job-Id"])["cached_from"])


if __name__ == "__main__":
    unittest.main()
