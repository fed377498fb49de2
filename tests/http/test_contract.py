"""openapi.yaml against the tables of the binary, and against what the daemon answers."""

import json
import re
import subprocess
import unittest

from support import BINARY, PATIENCE, ROOT, DaemonTest, linear_model, torch_zip, floats

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
# Nothing of a route: a path or method that is unknown, and a head that the HTTP library refuses.
ANYWHERE = {401: "application/problem+json", 403: "application/problem+json", 404: "application/problem+json", 405: "application/problem+json", 414: None, 431: None}


class Contract:
    """The document, asked by method, pattern and answer."""

    def __init__(self, document):
        self.document = document

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for step in node["$ref"].removeprefix("#/").split("/"):
                target = target[step.replace("~1", "/").replace("~0", "~")]
            node = target
        return node

    def operations(self):
        """{(method, pattern): operation}"""
        return {(method.upper(), pattern): item[method]
                for pattern, item in self.document["paths"].items() for method in METHODS if method in item}

    def parameters(self, method, pattern):
        """{(in, name): parameter}"""
        item = self.document["paths"][pattern]
        found = [self.resolve(p) for p in item.get("parameters", []) + item[method.lower()].get("parameters", [])]
        return {(p["in"], p["name"]): p for p in found}

    def pattern_of(self, path):
        """The pattern that a path fits best: words before {parts}; None if there is none."""
        segments = path.split("?")[0].split("/")
        if path.startswith(("/v1/convert/", "/v1/analyze/", "/v1/blobs/")) and not segments[-1]:
            segments.pop()
        best = None
        for pattern in self.document["paths"]:
            parts = pattern.split("/")
            if len(parts) == len(segments) and all(p == s or (p.startswith("{") and s) for p, s in zip(parts, segments)):
                words = sum(not p.startswith("{") for p in parts)
                best = max(best or (-1, ""), (words, pattern))
        return best and best[1]

    def complaint(self, method, path, status, headers):
        """What is not documented of an answer; None if all is."""
        method = "GET" if method == "HEAD" else method
        pattern = self.pattern_of(path)
        operation = self.operations().get((method, pattern))
        kind = (headers.get("Content-Type") or "").split(";")[0] or None
        if status in ANYWHERE and (not operation or str(status) not in operation["responses"]):
            return None if kind == ANYWHERE[status] else f"{method} {path}: {status} comes as {kind}"
        if not operation:
            return f"{method} {path}: no such operation, but it answers {status}"
        response = operation["responses"].get(str(status))
        if not response:
            return f"{method} {pattern}: {status} is not documented"
        response = self.resolve(response)
        if kind and kind not in response.get("content", {}):
            return f"{method} {pattern}: {status} comes as {kind}, documented are {list(response.get('content', {}))}"
        return self.header_complaint(f"{method} {pattern} {status}", response.get("headers", {}), headers)

    def header_complaint(self, what, documented, headers):
        library = {"date", "content-length", "content-type", "connection", "transfer-encoding", "allow", "content-security-policy"}
        known = {name.lower() for name in documented} | library
        for name in headers.keys():
            if name.lower() not in known:
                return f"{what}: the header {name} is not documented"
        for name, header in documented.items():
            if self.resolve(header).get("required") and name not in headers:
                return f"{what}: the header {name} is missing"
        return None


def tables():
    return json.loads(subprocess.run([BINARY, "tables"], capture_output=True, check=True, timeout=PATIENCE).stdout)


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


class ContractTest(DaemonTest):
    FLAGS = ("--max-wait", "5", "--max-upload", "1M")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        status, _, body = cls.daemon.request("GET", "/openapi.json")
        assert status == 200, body
        cls.contract = Contract(json.loads(body))
        cls.tables = tables()

    def assert_documented(self, method, path, body=None, headers=None, status=None):
        """Asks the daemon; the answer (status, headers, bytes) is one that the document has."""
        answer = self.daemon.request(method, path, body, headers)
        if status is not None:
            self.assertEqual(status, answer[0], answer[2][:500])
        self.assertIsNone(self.contract.complaint(method, path, answer[0], answer[1]), answer[2][:300])
        return answer

    # ---- the tables ----

    def test_the_document_has_the_routes_of_the_table_and_no_others(self):
        wanted = {(r["method"], r["pattern"]): (r["operation"], r["scope"]) for r in self.tables["routes"]}
        found = {key: (o["operationId"], o.get("x-scope")) for key, o in self.contract.operations().items()}
        self.assertEqual(wanted, found)

    def test_only_open_routes_need_no_key(self):
        for (method, pattern), operation in self.contract.operations().items():
            with self.subTest(f"{method} {pattern}"):
                self.assertEqual("x-scope" in operation, operation.get("security") != [])
                self.assertEqual("x-scope" in operation, "401" in operation["responses"])

    def test_every_part_of_a_path_is_a_parameter(self):
        for method, pattern in self.contract.operations():
            names = {name for where, name in self.contract.parameters(method, pattern) if where == "path"}
            self.assertEqual(set(re.findall(r"{(\w+)}", pattern)), names, pattern)

    def test_codes_targets_and_quantizations_are_those_of_the_tables(self):
        schemas = self.contract.document["components"]["schemas"]
        self.assertEqual([e["name"] for e in self.tables["errors"]], schemas["Code"]["enum"])
        self.assertEqual([t["name"] for t in self.tables["targets"]], schemas["Target"]["enum"])
        self.assertEqual({q for t in self.tables["targets"] for q in t["quants"]}, set(schemas["Quant"]["enum"]))

    def test_every_status_of_an_error_is_that_of_some_answer(self):
        documented = {int(s) for o in self.contract.operations().values() for s in o["responses"]}
        for error in self.tables["errors"]:
            if error["name"] not in ("client_gone", "method_not_allowed"):
                self.assertIn(error["status"], documented, error["name"])

    def test_every_option_is_a_parameter_a_field_and_a_member_with_the_values_of_the_table(self):
        schemas = self.contract.document["components"]["schemas"]
        forms = {"convert": "ConvertForm", "analyze": "AnalyzeForm"}
        self.assertEqual({o["name"] for o in self.tables["options"]}, set(schemas["Options"]["properties"]))
        for option in self.tables["options"]:
            for kind, pattern in (("convert", "/v1/convert/{to}"), ("analyze", "/v1/analyze")):
                taken = kind == "analyze" or option["target"] != "analyze"
                parameter = self.contract.parameters("PUT", pattern).get(("query", option["name"]))
                self.assertEqual(taken, parameter is not None, (kind, option["name"]))
                self.assertEqual(taken, option["name"] in schemas[forms[kind]]["properties"], (kind, option["name"]))
                if taken and option["type"] == "choice":
                    schema = self.contract.resolve(parameter["schema"])
                    self.assertEqual((option["values"].split(","), option["default"]), (schema["enum"], schema["default"]))

    def test_every_reference_leads_somewhere(self):
        for reference in references(self.contract.document):
            self.contract.resolve({"$ref": reference})

    def test_both_forms_of_the_document_say_the_same(self):
        status, headers, body = self.daemon.request("GET", "/openapi.yaml")
        self.assertEqual((200, "application/yaml"), (status, headers["Content-Type"]))
        self.assertEqual((ROOT / "openapi.yaml").read_bytes(), body)

    # ---- the daemon ----

    def test_words_of_jobs_and_of_matrices_are_those_that_the_daemon_lists(self):
        schemas = self.contract.document["components"]["schemas"]
        for parameter, schema in (("state", "JobState"), ("kind", "JobKind"), ("target", "Target")):
            detail = json.loads(self.assert_documented("GET", f"/v1/jobs?{parameter}=qqqqqqqq", status=400)[2])["detail"]
            self.assertEqual(schemas[schema]["enum"], detail.split("there are: ")[1].split(", "))
        matrices = json.loads(self.assert_documented("GET", "/v1/matrix", status=200)[2])["matrices"]
        for matrix in matrices:
            self.assertEqual(schemas["Status"]["enum"], list(matrix["status"]))

    def test_a_job_has_the_members_of_the_schema_and_no_others(self):
        _, _, body = self.assert_documented("PUT", "/v1/convert/mlx/m.pt", linear_model(), {"Prefer": "respond-async"}, 202)
        job = json.loads(body)
        schema = self.contract.document["components"]["schemas"]["Job"]
        self.assertEqual(set(schema["properties"]), set(job))
        self.assertEqual(set(schema["required"]), set(job))
        self.assertEqual(set(schema["properties"]["spec"]["properties"]), set(job["spec"]))

    def test_capabilities_say_what_the_document_says(self):
        found = json.loads(self.assert_documented("GET", "/v1/capabilities", status=200)[2])
        schemas = self.contract.document["components"]["schemas"]
        self.assertEqual(set(schemas["Capabilities"]["properties"]), set(found))
        self.assertEqual(set(schemas["Options"]["properties"]), set(found["options"]["properties"]))
        parameters = self.contract.parameters("PUT", "/v1/convert/{to}")
        for parameter in found["parameters"]:
            self.assertIn(("query", parameter["name"]), parameters)

    def test_the_way_of_a_job_is_documented_in_every_step(self):
        ask = self.assert_documented
        model = linear_model(4, 32)
        question = torch_zip({"up.weight": ("float32", (3, 3, 3, 3), floats(81))})
        digest = json.loads(ask("PUT", "/v1/blobs/m.pt", model, status=201)[2])["digest"]
        ask("POST", "/v1/blobs", model, status=200)
        ask("PUT", f"/v1/blobs/{digest}", model, status=200)
        ask("HEAD", f"/v1/blobs/{digest}", status=200)
        etag = ask("GET", f"/v1/blobs/{digest}", status=200)[1]["ETag"]
        ask("GET", f"/v1/blobs/{digest}", None, {"If-None-Match": etag}, 304)
        ask("GET", f"/v1/blobs/{digest}", None, {"Range": "bytes=1-2"}, 206)
        ask("GET", f"/v1/blobs/{digest}", None, {"Range": "bytes=99999999-"}, 416)
        spec = {"to": "mlx", "inputs": [{"digest": digest, "name": "m.pt"}]}
        ask("POST", "/v1/jobs?dry_run=true", json.dumps(spec), status=200)
        job = json.loads(ask("POST", "/v1/jobs", json.dumps(spec), {"Prefer": "wait=5"}, 200)[2])
        href = job["href"]
        etag = ask("GET", href, status=200)[1]["ETag"]
        ask("GET", href + "?wait=5", None, {"If-None-Match": etag}, 304)
        for path in (href + "/report", href + "/results", href + "/results?digest=true", href + "/results.zip",
                     *(result["href"] for result in job["results"])):
            headers = ask("GET", path, status=200)[1]
            if "Accept-Ranges" in headers:
                ask("GET", path, None, {"Range": "bytes=0-0"}, 206)
                ask("GET", path, None, {"Range": "bytes=99999999-"}, 416)
                ask("GET", path, None, {"If-None-Match": headers["ETag"]}, 304)
                ask("GET", path, None, {"Want-Repr-Digest": "sha-256=1"}, 200)
        ask("GET", href + "/results/nothing", status=404)
        ask("POST", href + "/cancel", status=409)
        ask("POST", href + "/retry", status=409)
        ask("GET", "/v1/jobs?limit=1", status=200)
        ask("GET", "/v1/jobs?cursor=x", status=400)
        failed = json.loads(ask("PUT", "/v1/convert/mlx/up.pt", question, status=422)[2])["job"]
        ask("GET", f"/v1/jobs/{failed}", status=200)
        ask("GET", f"/v1/jobs/{failed}/report", status=200)
        ask("POST", f"/v1/jobs/{failed}/retry", status=202)
        ask("DELETE", href, status=204)
        ask("GET", href, status=404)
        ask("DELETE", f"/v1/jobs/{failed}")
        ask("DELETE", f"/v1/blobs/{digest}", status=204)
        ask("DELETE", f"/v1/blobs/{digest}", status=404)
        ask("POST", "/v1/jobs", json.dumps(spec), status=422)

    def test_the_answers_to_wrong_requests_are_documented(self):
        ask = self.assert_documented
        model = linear_model()
        ask("PUT", "/v1/convert/mlx/m.pt", b"no checkpoint", status=415)
        ask("PUT", "/v1/convert/mlx/m.pt?dtyp=float16", model, status=400)
        ask("PUT", "/v1/convert/mlx/q44", model, status=400)
        ask("PUT", "/v1/convert/mlx/m.pt", model, {"Repr-Digest": "sha-256=:" + "A" * 43 + "=:"}, 422)
        ask("PUT", "/v1/convert/mlx/m.pt", b"", status=422)
        ask("PUT", "/v1/convert/mlx/m.pt", bytes(1 << 20) + b"x", status=413)
        ask("PUT", "/v1/analyze/m.pt", model, {"Content-Type": "multipart/mixed; boundary=x"}, 415)
        ask("POST", "/v1/jobs", "{", status=400)
        ask("POST", "/v1/jobs", "a,b", {"Content-Type": "text/csv"}, 415)
        ask("GET", "/v1/matrix/nothing", status=404)
        ask("GET", "/v1/matrix/mlx", None, {"Accept": "image/png"}, 406)
        ask("GET", "/v1/matrix/mlx?format=csv", status=200)
        ask("GET", "/v1/matrix/mlx?format=md", status=200)
        ask("GET", "/version", None, {"Host": "evil.example"}, 403)
        ask("PATCH", "/v1/jobs", status=405)
        ask("GET", "/v1/nothing", status=404)
        ask("GET", "/" + "a" * 70000, status=414)

    def test_every_plain_get_is_documented(self):
        for (method, pattern) in self.contract.operations():
            if method == "GET" and "{" not in pattern:
                with self.subTest(pattern):
                    self.assert_documented("GET", pattern, status=200)
                    self.assert_documented("HEAD", pattern, status=200)
                    self.assert_documented("GET", pattern + "?nothing=1", status=400)
        self.assert_documented("GET", "/", None, {"Accept": "text/html"}, 200)
        self.assert_documented("GET", "/metrics", None, {"Accept": "application/openmetrics-text"}, 200)
        self.assert_documented("GET", "/readyz?verbose", status=200)

    def test_what_the_help_and_the_readme_call_is_there(self):
        texts = {"GET /": self.daemon.request("GET", "/")[2].decode(), "README.md": (ROOT / "README.md").read_text()}
        for name, text in texts.items():
            paths = set(re.findall(r"(?:HOST:PORT|https?://[\w.]+(?::\d+)?)(/[^\s'\"`)\\]*)", text))
            self.assertTrue(paths, name)
            for path in paths:
                with self.subTest(f"{name}: {path}"):
                    self.assertIsNotNone(self.contract.pattern_of(path.rstrip(".,")))
        listed = set(re.findall(r"^ +([A-Z]+) +(/\S*)", texts["GET /"], re.MULTILINE))
        self.assertEqual(set(self.contract.operations()), listed)


if __name__ == "__main__":
    unittest.main()
