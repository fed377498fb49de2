"""What POST /v1/jobs accepts: every error of the document with its place, limits at the limit and one past."""

import json
import unittest

from support import DaemonTest, digest_of, linear_model

MODEL = linear_model(rows=2)
DIGEST = digest_of(MODEL)
INPUT = {"role": "model", "name": "m.pt", "digest": DIGEST}


def spec(**more):
    document = {"to": "mlx", "inputs": [INPUT]} | more
    return {key: value for key, value in document.items() if value is not ...}


class SpecTest(DaemonTest):
    FLAGS = ("--workers", 2)

    def setUp(self):
        super().setUp()
        self.daemon.store(MODEL)

    def post(self, document, query=""):
        body = document if isinstance(document, (str, bytes)) else json.dumps(document)
        return self.daemon.request("POST", "/v1/jobs" + query, body, {"Content-Type": "application/json"})

    def refused(self, document, status, code, where, query=""):
        with self.subTest(str(document)[:80] + query):
            return self.assert_refused(self.post(document, query), status, code, where)

    def accepted(self, document):
        status, _, raw = self.post(document)
        self.assertIn(status, (200, 202), raw)
        return json.loads(raw)

    def test_what_is_no_json_is_refused(self):
        for body in ("{", "", "[]x", '{"to":"mlx",}', '{"to":NaN}', '{"to":"\\ud800"}', b'{"to":"\xff"}', "{'to':'mlx'}"):
            self.refused(body, 400, "bad_json", None)
        for body in ("[]", '"x"', "1", "null"):
            self.refused(body, 400, "bad_json", None)
        self.refused('{"to":"mlx","to":"mlx"}', 400, "bad_json", None)
        self.refused('{"a":' * 3000 + "1" + "}" * 3000, 400, "bad_json", None)

    def test_unknown_members_are_refused_with_the_nearest(self):
        self.assertIn("quant", self.refused(spec(qant="q4"), 400, "unknown_member", "/qant")["hint"])
        self.assertIn("digest", self.refused(spec(inputs=[INPUT | {"diget": "x"}]), 400, "unknown_member", "/inputs/0/diget")["hint"])
        self.refused(spec(**{"a/b~c": 1}), 400, "unknown_member", "/a~1b~0c")

    def test_kind_target_and_quantization(self):
        self.refused(spec(kind="convrt"), 400, "bad_json", "/kind")
        self.refused(spec(kind=1), 400, "bad_json", "/kind")
        self.refused(spec(to=...), 400, "bad_json", "/to")
        self.refused(spec(to=["mlx"]), 400, "bad_json", "/to")
        self.assertIn("mlx", self.refused(spec(to="mlz"), 400, "unsupported_target", "/to")["hint"])
        self.assertIn("q4", self.refused(spec(quant="q44"), 400, "unsupported_quant", "/quant")["hint"])
        self.refused(spec(quant=4), 400, "bad_json", "/quant")
        self.refused(spec(to="safetensors", quant="q4"), 400, "unsupported_quant", "/quant")
        self.refused(spec(kind="analyze"), 400, "bad_json", "/to")

    def test_inputs(self):
        self.refused(spec(inputs=...), 400, "bad_json", "/inputs")
        self.refused(spec(inputs={}), 400, "bad_json", "/inputs")
        self.refused(spec(inputs=[]), 400, "bad_json", "/inputs")
        self.refused(spec(inputs=[INPUT, INPUT]), 400, "bad_json", "/inputs")
        self.refused(spec(inputs=["sha256:" + "0" * 64]), 400, "bad_json", "/inputs/0")
        self.refused(spec(inputs=[{"role": "model"}]), 400, "bad_json", "/inputs/0/digest")
        self.refused(spec(inputs=[INPUT | {"role": "modle"}]), 400, "bad_json", "/inputs/0/role")
        self.refused(spec(inputs=[INPUT | {"name": 7}]), 400, "bad_json", "/inputs/0/name")
        self.refused(spec(inputs=[INPUT | {"name": ""}]), 400, "bad_request", "/inputs/0/name")
        self.refused(spec(inputs=[INPUT | {"name": "a\nb"}]), 400, "bad_request", "/inputs/0/name")
        for digest in ("", DIGEST[7:], DIGEST[:-1], DIGEST + "0", "sha512:" + "0" * 64, "sha256:" + "g" * 64):
            self.refused(spec(inputs=[INPUT | {"digest": digest}]), 400, "bad_request", "/inputs/0/digest")
        self.refused(spec(inputs=[INPUT | {"digest": "sha256:" + "0" * 64}]), 422, "input_not_found", None)

    def test_a_digest_in_capitals_is_the_same(self):
        self.assertEqual(DIGEST, self.accepted(spec(inputs=[{"digest": "sha256:" + DIGEST[7:].upper()}]))["spec"]["inputs"][0]["digest"])

    def test_options(self):
        self.refused(spec(options=[]), 400, "bad_json", "/options")
        self.assertIn("dtype", self.refused(spec(options={"dtyp": "float16"}), 400, "bad_option", "/options/dtyp")["hint"])
        self.assertIn("float16", self.refused(spec(options={"dtype": "float61"}), 400, "bad_option", "/options/dtype")["hint"])
        self.refused(spec(options={"dtype": None}), 400, "bad_json", "/options/dtype")
        self.refused(spec(options={"dtype": {"a": "b"}}), 400, "bad_json", "/options/dtype")
        self.refused(spec(options={"max_shard_size": 1023}), 400, "bad_option", "/options/max_shard_size")
        self.refused(spec(options={"max_shard_size": 5368709121}), 400, "bad_option", "/options/max_shard_size")
        self.refused(spec(options={"layers": {}}), 400, "bad_option", "/options/layers")
        self.refused(spec(options={"layers": {"a": 1}}), 400, "bad_json", "/options/layers/a")
        self.refused(spec(options={"layers": {"a,b": "Conv2d"}}), 400, "bad_option", "/options/layers/a,b")
        self.refused(spec(options={"layers": {"a": "Conv2d,b:Conv2d"}}), 400, "bad_option", "/options/layers/a")
        self.refused(spec(to="safetensors", options={"dtype": "float16"}), 400, "bad_option", "/options/dtype")
        for size in (1024, 5368709120):
            self.accepted(spec(options={"max_shard_size": size}))

    def test_an_option_in_the_document_and_in_the_query_is_given_twice(self):
        self.refused(spec(options={"dtype": "float16"}), 400, "bad_option", "dtype", "?dtype=float16")
        self.refused(spec(), 400, "bad_option", "quant", "?quant=q4")
        self.assertEqual(200, self.post(spec(), "?dtype=float16&dry_run=true")[0])

    def test_switches(self):
        for name in ("fresh", "dry_run"):
            self.refused(spec(**{name: "true"}), 400, "bad_json", "/" + name)
            self.refused(spec(), 400, "bad_option", name, f"?{name}=perhaps")
        self.refused(spec(kind="analyze", to=..., dry_run=True), 400, "bad_option", "/dry_run")

    def test_labels_at_the_limit_and_one_past(self):
        labels = {f"k{i}": "" for i in range(32)}
        self.assertEqual(labels, self.accepted(spec(labels=labels))["labels"])
        self.refused(spec(labels=labels | {"one": "more"}), 400, "bad_json", "/labels")
        self.accepted(spec(labels={"k" * 63: "v" * 255}))
        self.refused(spec(labels={"k" * 64: ""}), 400, "bad_json", "/labels/" + "k" * 64)
        self.refused(spec(labels={"k": "v" * 256}), 400, "bad_json", "/labels/k")
        self.accepted(spec(labels={"k": "\u00e9" * 127}))
        self.refused(spec(labels={"k": "\u00e9" * 128}), 400, "bad_json", "/labels/k")
        for key in ("", "a b", "a=b", "\u00e9"):
            self.refused(spec(labels={key: ""}), 400, "bad_json", "/labels/" + key)
        self.refused(spec(labels={"k": 1}), 400, "bad_json", "/labels/k")
        self.refused(spec(labels={"k": "a\u0007"}), 400, "bad_json", "/labels/k")
        self.refused(spec(labels=["a"]), 400, "bad_json", "/labels")

    def test_names_at_the_limit_and_one_past(self):
        name = "n" * 252 + ".pt"
        self.assertEqual(name, self.accepted(spec(inputs=[INPUT | {"name": name}]))["spec"]["inputs"][0]["name"])
        self.refused(spec(inputs=[INPUT | {"name": "n" + name}]), 400, "bad_request", "/inputs/0/name")

    def test_the_spec_of_a_job_may_be_sent_again(self):
        for document in (spec(quant="q4", options={"dtype": "float16", "layers": {"x*": "Linear"}}), spec(kind="analyze", to=...), spec()):
            first = self.accepted(document)
            self.assertEqual(first["spec"], self.accepted(first["spec"])["spec"])

    def test_another_content_type_is_refused(self):
        for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x"):
            answer = self.daemon.request("POST", "/v1/jobs", json.dumps(spec()), {"Content-Type": kind})
            self.assert_refused(answer, 415, "unsupported_media", "Content-Type")
        for kind in ("application/json; charset=utf-8", "Application/JSON"):
            self.assertIn(self.daemon.request("POST", "/v1/jobs", json.dumps(spec()), {"Content-Type": kind})[0], (200, 202))


if __name__ == "__main__":
    unittest.main()
