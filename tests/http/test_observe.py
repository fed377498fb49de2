"""What an operator sees: metrics, probes, log lines, help, capabilities, the contract."""

import json
import subprocess
import unittest

from support import BINARY, PATIENCE, Daemon, DaemonTest, linear_model, put, torch_zip, wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"


class MetricsTest(DaemonTest):
    FLAGS = ("--workers", 1)
    FAULT = "crash@crash"

    def delta(self, action, name, **labels):
        before = self.daemon.metric(name, **labels)
        action()
        wait_until(lambda: self.daemon.metric(name, **labels) > before, timeout=2)
        return self.daemon.metric(name, **labels) - before

    def convert(self, name="m.pt", query="?fresh=true", raw=None):
        return put(self.daemon, f"/v1/convert/mlx/{name}{query}", raw or linear_model())

    def test_every_metric_of_the_table_is_described(self):
        text = self.daemon.request("GET", "/metrics")[2].decode()
        tables = json.loads(subprocess.run([BINARY, "tables"], capture_output=True, check=True, timeout=PATIENCE).stdout)
        for row in tables["metrics"]:
            self.assertIn(f"# TYPE {row['name']} ", text)
            self.assertIn(f"# HELP {row['name']} ", text)

    def test_accept_chooses_open_metrics(self):
        status, headers, raw = self.daemon.request("GET", "/metrics")
        self.assertEqual((200, "text/plain; version=0.0.4; charset=utf-8"), (status, headers["Content-Type"]))
        self.assertNotIn(b"# EOF", raw)
        status, headers, raw = self.daemon.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
        self.assertEqual((200, "application/openmetrics-text; version=1.0.0; charset=utf-8"), (status, headers["Content-Type"]))
        self.assertTrue(raw.endswith(b"# EOF\n"))

    def test_requests_are_counted_by_route_method_and_code(self):
        name = "ckptd_http_requests_total"
        self.assertEqual(1, self.delta(lambda: self.daemon.request("GET", "/version"), name, route="getVersion", method="GET", code="200"))
        self.assertEqual(1, self.delta(lambda: self.daemon.request("GET", "/v1/jobs/x"), name, route="getJob", method="GET", code="404"))
        self.assertEqual(1, self.delta(lambda: self.daemon.request("GET", "/secret/path"), name, route="none", code="404"))
        self.assertEqual(1, self.delta(lambda: self.daemon.request("GET", "/version"), "ckptd_http_request_duration_seconds_count", route="getVersion"))
        self.assertTrue(wait_until(lambda: self.daemon.metric("ckptd_http_requests_in_flight") == 1), "the one that asks")
        self.assertNotIn(b"secret", self.daemon.request("GET", "/metrics")[2])

    def test_jobs_are_counted_by_how_they_ended(self):
        name = "ckptd_jobs_total"
        self.assertEqual(1, self.delta(self.convert, name, kind="convert", target="mlx", outcome="succeeded", reason="ok"))
        refused = torch_zip({"up.weight": ("float32", (4, 4, 3, 3), bytes(576))})
        self.assertEqual(1, self.delta(lambda: self.convert(raw=refused), name, outcome="failed", reason="ambiguous_layout"))
        self.assertEqual(1, self.delta(lambda: self.convert("crash.pt"), name, outcome="dead", reason="worker_crashed"))
        self.assertEqual(1, self.delta(lambda: put(self.daemon, "/v1/analyze/m.pt?fresh=true", linear_model()), name, kind="analyze", outcome="succeeded"))
        self.assertEqual(2, self.delta(lambda: self.convert("crash.pt"), "ckptd_worker_exits_total", cause="signal"))
        self.assertEqual(1, self.delta(lambda: self.convert("m.pt", ""), "ckptd_result_cache_hits_total"))

    def test_stages_and_waits_are_measured(self):
        for stage in ("read", "plan", "write", "verify", "publish"):
            self.assertEqual(1, self.delta(self.convert, "ckptd_job_stage_duration_seconds_count", stage=stage, target="mlx"), stage)
        self.assertEqual(1, self.delta(self.convert, "ckptd_job_queue_wait_seconds_count", queue="default"))

    def test_bytes_are_counted(self):
        raw = linear_model()
        answer = []
        self.assertEqual(len(raw), self.delta(lambda: answer.append(self.convert()), "ckptd_upload_bytes_total"))
        self.assertEqual(len(answer[0][2]), self.delta(self.convert, "ckptd_download_bytes_total", kind="result"))
        job = self.daemon.job(answer[0][1]["X-Job-Id"])
        path = job["results"][0]["href"]
        self.assertEqual(10, self.delta(lambda: self.daemon.request("GET", path, headers={"Range": "bytes=0-9"}), "ckptd_download_bytes_total"))
        blob = "/v1/blobs/" + job["spec"]["inputs"][0]["digest"]
        self.assertEqual(len(raw), self.delta(lambda: self.daemon.request("GET", blob), "ckptd_download_bytes_total", kind="blob"))
        self.assertEqual(1, self.delta(self.convert, "ckptd_uploads_finished_total", protocol="raw"))

    def test_gauges_of_the_process_are_there(self):
        self.assertEqual((1, 1), (self.daemon.metric("ckptd_workers"), self.daemon.metric("ckptd_build_info")))
        self.assertGreater(self.daemon.metric("process_resident_memory_bytes"), 1 << 20)
        self.assertGreater(self.daemon.metric("ckptd_storage_free_bytes"), 0)


class BusyGaugesTest(DaemonTest):
    FLAGS = ("--workers", 1)
    FAULT = "hang"

    def test_the_queue_can_be_seen(self):
        for i in range(3):
            self.daemon.submit(linear_model(), fresh=True)
        self.assertTrue(wait_until(lambda: self.daemon.metric("ckptd_jobs_running") == 1 and self.daemon.metric("ckptd_jobs_queued") == 2))
        self.assertTrue(wait_until(lambda: self.daemon.metric("ckptd_workers_busy") == 1))
        self.assertGreater(self.daemon.metric("ckptd_oldest_queued_job_age_seconds"), 0)


class ProbesTest(DaemonTest):
    def test_every_probe_is_ok(self):
        for path in ("/livez", "/readyz", "/healthz", "/startupz"):
            status, headers, raw = self.daemon.request("GET", path)
            self.assertEqual((200, b"ok\n", "no-store"), (status, raw, headers["Cache-Control"]), path)
            self.assertEqual((200, b""), self.daemon.request("HEAD", path)[::2])

    def test_verbose_lists_every_check(self):
        for path in ("/readyz?verbose", "/healthz?verbose=true"):
            lines = self.daemon.request("GET", path)[2].decode().splitlines()
            self.assertEqual(["[+] draining: ok", "[+] space: ok", "[+] workers: ok", "[+] store: ok", "ok"], lines)

    def test_unknown_parameters_are_refused(self):
        for path in ("/livez?verbose", "/readyz?verbos", "/startupz?x=1", "/version?x", "/metrics?x", "/?x", "/v1/capabilities?x"):
            self.assert_refused(self.daemon.request("GET", path), 400, "bad_option")


class LogTest(DaemonTest):
    def line(self, message, request_id):
        found = lambda: [line for line in self.daemon.log_lines(message) if line.get("request_id") == request_id]
        self.assertTrue(wait_until(found), self.daemon.log_text()[-2000:])
        return found()[-1]

    def test_the_ids_of_a_request_are_in_its_line_and_in_that_of_its_job(self):
        headers = {"X-Request-Id": "my.id-1", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        answer = put(self.daemon, "/v1/convert/mlx/m.pt?fresh=true", linear_model(), headers)
        self.assertEqual((200, "my.id-1"), (answer[0], answer[1]["X-Request-Id"]))
        request, job = self.line("request", "my.id-1"), self.line("job", "my.id-1")
        self.assertEqual((TRACE, TRACE), (request["trace_id"], job["trace_id"]))
        self.assertEqual((answer[1]["X-Job-Id"],) * 2, (request["job_id"], job["job_id"]))
        self.assertEqual(("putConvertQuant", "PUT", 200, "", len(linear_model()), len(answer[2])),
                         tuple(request[k] for k in ("route", "method", "status", "code", "bytes_in", "bytes_out")))
        self.assertEqual(("convert", "mlx", "succeeded", 1, len(linear_model())), tuple(job[k] for k in ("kind", "target", "state", "attempt", "input_bytes")))
        self.assertRegex(job["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        row = self.daemon.job(answer[1]["X-Job-Id"])
        self.assertEqual(("my.id-1", TRACE), (row["request_id"], row["trace_id"]))

    def test_a_refusal_has_its_code(self):
        put(self.daemon, "/v1/convert/mlx/q9/", linear_model(), {"X-Request-Id": "refused.1"})
        self.assertEqual((400, "unsupported_quant"), tuple(self.line("request", "refused.1")[k] for k in ("status", "code")))

    def test_a_traceparent_that_is_none_is_left_out(self):
        for i, value in enumerate(("x", f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{TRACE.upper()}-b7ad6b7169203331-01", f"ff-{TRACE}-b7ad6b7169203331-01")):
            self.daemon.request("GET", "/version", headers={"traceparent": value, "X-Request-Id": f"trace.{i}"})
            self.assertEqual("", self.line("request", f"trace.{i}")["trace_id"], value)

    def test_the_line_of_a_request_names_no_file_and_no_query(self):
        put(self.daemon, "/v1/convert/mlx/topsecret.pt?rules=hidden*:drop", linear_model(), {"X-Request-Id": "quiet.1"})
        self.assertNotIn("hidden", json.dumps(self.line("request", "quiet.1")))
        self.assertNotIn("topsecret", self.daemon.log_text())

    def test_probes_are_not_logged(self):
        self.daemon.request("GET", "/livez", headers={"X-Request-Id": "probe.1"})
        self.daemon.request("GET", "/version", headers={"X-Request-Id": "probe.2"})
        self.line("request", "probe.2")
        self.assertNotIn("probe.1", self.daemon.log_text())


class AccessLogTest(unittest.TestCase):
    def statuses(self, *flags):
        daemon = Daemon(*flags)
        self.addCleanup(daemon.close)
        for path in ("/version", "/nothing", "/livez"):
            daemon.request("GET", path)
        daemon.terminate()
        return sorted(line["status"] for line in daemon.log_lines("request"))  # a line comes after its answer: the next may overtake it

    def test_the_setting_chooses_the_lines(self):
        self.assertEqual([200, 404], self.statuses())
        self.assertEqual([404], self.statuses("--access-log", "errors"))
        self.assertEqual([], self.statuses("--access-log", "none"))
        self.assertEqual([200, 200, 404], self.statuses("--log-level", "debug"))
        self.assertEqual([], self.statuses("--log-level", "warning"))


class DocumentsTest(DaemonTest):
    def test_capabilities_come_from_the_tables(self):
        status, headers, raw = self.daemon.request("GET", "/v1/capabilities")
        document = json.loads(raw)
        tables = json.loads(subprocess.run([BINARY, "tables"], capture_output=True, check=True, timeout=PATIENCE).stdout)
        self.assertEqual([row["name"] for row in tables["targets"]], [target["name"] for target in document["targets"]])
        self.assertEqual([row["name"] for row in tables["options"]], list(document["options"]["properties"]))
        self.assertIn("q4", next(target for target in document["targets"] if target["name"] == "mlx")["quants"])
        self.assertEqual(["convert", "analyze"], document["kinds"])
        self.assertEqual((64 << 30, "--max-upload"), (document["limits"]["max_upload"]["value"], document["limits"]["max_upload"]["setting"]))
        self.assertEqual("none", document["auth"])
        self.assertEqual(304, self.daemon.request("GET", "/v1/capabilities", headers={"If-None-Match": headers["ETag"]})[0])

    def test_help_is_text_or_html_with_the_host_escaped(self):
        for accept, kind in ((None, "text/plain"), ("*/*", "text/plain"), ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html")):
            status, headers, raw = self.daemon.request("GET", "/", headers={"Accept": accept} if accept else {})
            self.assertEqual((200, kind), (status, headers["Content-Type"].split(";")[0]))
            self.assertIn(b"curl -fOJT model.pt http://127.0.0.1:", raw)
            self.assertEqual(kind == "text/html", b"<html" in raw)
            self.assertNotIn(b"<script", raw)
        daemon = Daemon("--listen", "0.0.0.0:0", "--insecure")
        self.addCleanup(daemon.close)
        for accept in ("text/plain", "text/html"):
            status, _, raw = daemon.request("GET", "/", headers={"Accept": accept, "Host": "evil<script>alert(1)</script>"})
            self.assertTrue(status == 403 or (status == 200 and b"<script" not in raw and b"evil" not in raw), raw[:300])

    def test_the_contract_is_served_in_both_forms(self):
        status, headers, raw = self.daemon.request("GET", "/openapi.json")
        document = json.loads(raw)
        self.assertEqual((200, "application/json"), (status, headers["Content-Type"]))
        self.assertTrue(document["openapi"].startswith("3.1"))
        self.assertIn("/v1/jobs/{id}", document["paths"])
        self.assertEqual(304, self.daemon.request("GET", "/openapi.json", headers={"If-None-Match": headers["ETag"]})[0])
        status, headers, raw = self.daemon.request("GET", "/openapi.yaml")
        self.assertEqual((200, "application/yaml"), (status, headers["Content-Type"]))
        self.assertTrue(raw.startswith(b"openapi: 3.1"), raw[:40])


if __name__ == "__main__":
    unittest.main()
