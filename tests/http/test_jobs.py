"""Jobs: the one command in pieces, reuse of results, plans, waiting, preferences."""

import io
import json
import os
import time
import unittest
import zipfile

from support import DaemonTest, digest_of, linear_model, put, torch_zip, wait_until


def spec_of(raw, **more):
    return {"to": "mlx", "inputs": [{"name": "m.pt", "digest": digest_of(raw)}]} | more


def contents(raw, folder):
    """{name: bytes} of the zip's one folder."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert archive.testzip() is None, "a CRC is wrong"
        assert all(name.startswith(folder + "/") for name in archive.namelist()), archive.namelist()
        return {name[len(folder) + 1:]: archive.read(name) for name in archive.namelist()}


class PiecesTest(DaemonTest):
    FLAGS = ("--workers", 2, "--threads", 2)

    def test_in_pieces_the_bytes_are_those_of_the_one_command(self):
        raw = linear_model(rows=64)
        path = self.file("net.pt", raw)
        _, files, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/mlx/q4/?fresh=true", expect=0)
        blob = json.loads(self.curl("-fT", path, f"{self.daemon.base}/v1/blobs/", expect=0)[2])
        self.assertEqual((digest_of(raw), len(raw)), (blob["digest"], blob["bytes"]))
        spec = {"kind": "convert", "to": "mlx", "quant": "q4", "fresh": True,
                "inputs": [{"role": "model", "name": "net.pt", "digest": blob["digest"]}]}
        job = json.loads(self.curl("-f", "--json", json.dumps(spec), f"{self.daemon.base}/v1/jobs", expect=0)[2])
        job = json.loads(self.curl("-f", f"{self.daemon.base}/v1/jobs/{job['id']}?wait=60", expect=0)[2])
        self.assertEqual("succeeded", job["state"], job)
        self.assertIsNone(job["cached_from"])
        listed = json.loads(self.curl("-f", self.daemon.base + job["results_href"], expect=0)[2])["results"]
        pieces = {r["name"]: self.curl("-fOJ", self.daemon.base + r["href"], expect=0)[1][r["name"]] for r in listed}
        self.assertEqual(contents(files["net.mlx-q4.zip"], "net.mlx-q4"), pieces)
        _, zipped, _ = self.curl("-fOJ", self.daemon.base + job["zip_href"], expect=0)
        self.assertEqual(files, zipped)

    def test_results_that_are_not_whole_are_made_again(self):
        """One missing or broken file answered every equal request with 410 or 500 until it expired."""
        raw = linear_model(rows=5)
        first = put(self.daemon, "/v1/convert/mlx/m.pt", raw)
        for harm in (os.unlink, lambda path: os.truncate(path, 3)):
            for name in ("model.safetensors", "report.json"):
                job = self.daemon.request("GET", "/v1/jobs?limit=1")[2]
                harm(os.path.join(self.daemon.data, "jobs", json.loads(job)["jobs"][0]["id"], name))
                answer = put(self.daemon, "/v1/convert/mlx/m.pt", raw)
                self.assertEqual((200, first[2]), (answer[0], answer[2]))

    def test_a_job_is_accepted_with_its_place(self):
        raw = linear_model(rows=3)
        self.daemon.store(raw)
        status, headers, job = self.daemon.ask("POST", "/v1/jobs", spec_of(raw, fresh=True, labels={"team": "a", "b/c": ""}))
        self.assertEqual(202, status)
        self.assertEqual((f"/v1/jobs/{job['id']}", job["id"]), (headers["Location"], headers["X-Job-Id"]))
        self.assertRegex(headers["Retry-After"], r"^\d+$")
        self.assertRegex(job["id"], r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.assertIn(job["state"], ("queued", "running"))
        done = self.daemon.ended(job["id"])
        self.assertEqual({"team": "a", "b/c": ""}, done["labels"])
        self.assertEqual({"kind": "convert", "to": "mlx", "quant": "", "options": {}, "dry_run": False, "inputs": [
            {"role": "model", "name": "m.pt", "digest": digest_of(raw), "bytes": len(raw)}]}, done["spec"])
        self.assertEqual(set(job), set(done), "every member is there always")
        self.assertEqual((1, 0, False, None, None), tuple(done[k] for k in ("attempt", "crash_count", "cancel_requested", "stage", "error")))
        self.assertLessEqual(done["created_at"], done["started_at"])
        self.assertLessEqual(done["started_at"], done["finished_at"])
        self.assertLess(done["finished_at"], done["expires_at"])
        self.assertEqual(headers["X-Request-Id"], done["request_id"])

    def test_curl_data_without_a_content_type_of_json_is_read(self):
        raw = linear_model(rows=3)
        self.daemon.store(raw)
        _, _, out = self.curl("-f", "-d", json.dumps(spec_of(raw)), f"{self.daemon.base}/v1/jobs", expect=0)
        self.assertIn("id", json.loads(out))

    def test_what_was_made_before_is_not_made_again(self):
        raw = linear_model(rows=5)
        first = self.daemon.ended(self.daemon.submit(raw)["id"])
        status, headers, second = self.daemon.ask("POST", "/v1/jobs", spec_of(raw))
        self.assertEqual((200, "succeeded", "cached", first["id"]), (status, second["state"], second["reason"], second["cached_from"]))
        self.assertNotIn("Retry-After", headers)
        self.assertEqual(first["outcome"], second["outcome"])
        self.assertEqual([(f["name"], f["crc32"]) for f in first["results"]], [(f["name"], f["crc32"]) for f in second["results"]])
        status, _, third = self.daemon.ask("POST", "/v1/jobs", spec_of(raw, fresh=True))
        self.assertEqual((202, None), (status, third["cached_from"]))
        self.assertIsNone(self.daemon.ended(third["id"])["cached_from"])
        other = self.daemon.ask("POST", "/v1/jobs", spec_of(raw, options={"dtype": "float16"}))
        self.assertEqual((202, None), (other[0], other[2]["cached_from"]), "another specification is another result")

    def test_results_that_are_shared_outlive_the_job_that_made_them(self):
        raw = linear_model(rows=6)
        first = self.daemon.ended(self.daemon.submit(raw)["id"])
        second = self.daemon.submit(raw)
        self.assertEqual(first["id"], second["cached_from"])
        self.assertEqual(204, self.daemon.request("DELETE", first["href"])[0])
        self.assertEqual(200, self.daemon.request("GET", second["zip_href"])[0])

    def test_a_dry_run_answers_with_the_plan_and_makes_no_weights(self):
        raw = linear_model(rows=7)
        self.daemon.store(raw)
        for path in ("/v1/jobs?dry_run=true", "/v1/jobs"):
            more = {} if "?" in path else {"dry_run": True}
            status, headers, plan = self.daemon.ask("POST", path, spec_of(raw, quant="q4", fresh=True, **more))
            self.assertEqual((200, "planned"), (status, plan["status"]))
            self.assertEqual("model.safetensors", plan["files"][0]["name"])
            job = self.daemon.job(headers["X-Job-Id"])
            self.assertTrue(job["spec"]["dry_run"])
            self.assertEqual(["plan.json"], [f["name"] for f in job["results"]])
        status, headers, body = put(self.daemon, "/v1/convert/mlx/q4/net.pt?dry_run=true", raw)
        self.assertEqual((200, plan), (status, json.loads(body)))
        self.assertIn("net.mlx-q4.plan.json", headers["Content-Disposition"])

    def test_a_refused_job_keeps_its_report_and_its_error(self):
        raw = torch_zip({"up.weight": ("float32", (4, 4, 3, 3), bytes(576))})
        job = self.daemon.ended(self.daemon.submit(raw)["id"])
        self.assertEqual(("failed", "ambiguous_layout"), (job["state"], job["reason"]))
        self.assertEqual("ambiguous_layout", job["error"]["code"])
        self.assertTrue(job["error"]["questions"])
        self.assertEqual(["report.json"], [f["name"] for f in job["results"]])
        report = self.daemon.ask("GET", job["report_href"])[2]
        self.assertEqual("refused", report["status"])
        self.assertEqual((None, None), (job["results_href"], job["zip_href"]))

    def test_options_may_be_objects_and_numbers(self):
        raw = torch_zip({"up.weight": ("float32", (4, 4, 3, 3), bytes(576))})
        job = self.daemon.submit(raw, options={"layers": {"up": "ConvTranspose2d"}, "max_shard_size": 4096, "assume": "never"})
        self.assertEqual("succeeded", self.daemon.ended(job["id"])["state"])
        self.assertEqual("up:ConvTranspose2d", job["spec"]["options"]["layers"])


class PreferTest(DaemonTest):
    FLAGS = ("--workers", 2, "--max-sync-wait", 1)
    FAULT = "slow@slow,slow@slow"

    def prefer(self, preference, path="/v1/convert/mlx/slow.pt?fresh=true", raw=None):
        return put(self.daemon, path, raw or linear_model(), {"Prefer": preference} if preference else {})

    def test_respond_async_is_answered_with_the_job(self):
        path = self.file("fast.pt", linear_model())
        _, _, out = self.curl("-fT", path, "-H", "Prefer: respond-async", f"{self.daemon.base}/v1/convert/mlx/q4/", expect=0)
        self.assertEqual("succeeded", self.daemon.ended(json.loads(out)["id"])["state"])
        for attempt in range(2):  # the second time it is there already
            status, headers, raw = self.prefer("respond-async", "/v1/convert/mlx/q4/fast.pt")
            job = json.loads(raw)
            self.assertEqual((202, "respond-async"), (status, headers["Preference-Applied"]))
            self.assertEqual((f"/v1/jobs/{job['id']}", 'attachment; filename="fast.mlx-q4.job.json"'),
                             (headers["Location"], headers["Content-Disposition"]))

    def test_wait_n_waits_that_long_and_says_so(self):
        status, headers, _ = self.prefer("wait=1")
        self.assertEqual((202, "wait=1"), (status, headers["Preference-Applied"]))
        status, headers, _ = self.prefer("wait=50", "/v1/convert/mlx/fast.pt")
        self.assertEqual((200, "wait=1"), (status, headers["Preference-Applied"]), "no longer than --max-sync-wait")
        status, headers, _ = self.prefer("wait=0")
        self.assertEqual((202, "wait=0"), (status, headers["Preference-Applied"]))
        status, headers, _ = self.prefer("handling=lenient", "/v1/convert/mlx/fast.pt")
        self.assertEqual((200, None), (status, headers["Preference-Applied"]))

    def test_a_job_that_is_made_may_be_waited_for(self):
        raw = linear_model(rows=9)
        self.daemon.store(raw)
        status, headers, job = self.daemon.ask("POST", "/v1/jobs", spec_of(raw, fresh=True), {"Prefer": "wait=30"})
        self.assertEqual((200, "succeeded", "wait=30"), (status, job["state"], headers["Preference-Applied"]))
        status, headers, job = self.daemon.ask("POST", "/v1/jobs", spec_of(raw, fresh=True), {"Prefer": "respond-async"})
        self.assertEqual((202, "respond-async"), (status, headers["Preference-Applied"]))

    def test_beyond_the_longest_wait_curl_saves_the_job_and_fetches_the_result_later(self):
        path = self.file("slow.pt", linear_model(rows=12))
        _, files, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/mlx/", expect=0)
        self.assertEqual(["slow.mlx.job.json"], list(files))
        job = json.loads(files["slow.mlx.job.json"])
        self.assertEqual("running", job["state"])
        self.assertEqual("succeeded", self.daemon.ended(job["id"])["state"])
        _, files, _ = self.curl("-fOJ", f"{self.daemon.base}{job['href']}/results.zip", expect=0)
        self.assertEqual({"model.safetensors", "report.json"}, set(contents(files["slow.mlx.zip"], "slow.mlx")))
        _, again, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/mlx/", expect=0)
        self.assertEqual(files, again, "the next try is answered from cache")


class WatchTest(DaemonTest):
    """One worker; names that begin with hang never end, with slow take a second."""
    FLAGS = ("--workers", 1)
    FAULT = "hang@hang,slow@slow"

    def start(self, name, **more):
        job = self.daemon.submit(linear_model(), name=name, fresh=True, **more)
        self.addCleanup(self.daemon.request, "POST", f"{job['href']}/cancel")
        return job

    def running(self, name):
        job = self.start(name)
        self.assertTrue(wait_until(lambda: self.daemon.job(job["id"])["stage"] is not None))
        return job

    def test_the_place_in_the_queue_is_told(self):
        first, second, third = self.running("hang.pt"), self.start("a.pt"), self.start("b.pt")
        self.assertIsNone(self.daemon.job(first["id"])["queue"])
        self.assertEqual({"position": 1, "ahead": 0}, self.daemon.job(second["id"])["queue"])
        self.assertEqual({"position": 2, "ahead": 1}, self.daemon.job(third["id"])["queue"])
        self.daemon.request("POST", f"{second['href']}/cancel")
        self.assertEqual({"position": 1, "ahead": 0}, self.daemon.job(third["id"])["queue"])

    def test_a_running_job_tells_its_stage_and_progress(self):
        job = self.daemon.job(self.running("hang.pt")["id"])
        self.assertEqual(("running", "read", "bytes"), (job["state"], job["stage"], job["progress"]["unit"]))
        self.assertEqual({"done", "total", "unit", "fraction", "rate", "eta_s"}, set(job["progress"]))
        self.assertIsNotNone(job["started_at"])
        self.assertIsNone(job["finished_at"])

    def test_a_wait_ends_when_the_job_ends(self):
        job = self.start("slow.pt")
        self.assertEqual("succeeded", self.daemon.job(job["id"], wait=30)["state"])

    def test_a_wait_that_is_over_answers_with_the_job_as_it_is(self):
        job = self.running("hang.pt")
        status, headers, document = self.daemon.ask("GET", f"{job['href']}?wait=1")
        self.assertEqual((200, "running"), (status, document["state"]))
        self.assertRegex(headers["Retry-After"], r"^\d+$")

    def settled(self, job):
        """The ETag of a job that reports nothing more."""
        etags = [None, ""]
        while etags[-1] != etags[-2]:
            time.sleep(0.3)
            etags.append(self.daemon.request("GET", job["href"])[1]["ETag"])
        return etags[-1]

    def test_an_etag_that_is_known_is_304_and_a_wait_wakes_on_a_change(self):
        job = self.running("hang.pt")
        etag = self.settled(job)
        self.assertEqual((304, b""), self.daemon.request("GET", job["href"], headers={"If-None-Match": etag})[::2])
        self.assertEqual(304, self.daemon.request("GET", f"{job['href']}?wait=1", headers={"If-None-Match": etag})[0])
        self.assertEqual(200, self.daemon.request("GET", f"{job['href']}?wait=30", headers={"If-None-Match": '"other"'})[0])
        connection = self.daemon.connect()
        self.addCleanup(connection.close)
        connection.request("GET", f"{job['href']}?wait=50", headers={"If-None-Match": etag})
        self.daemon.request("POST", f"{job['href']}/cancel")
        answer = connection.getresponse()
        self.assertEqual(200, answer.status)
        self.assertTrue(json.loads(answer.read())["cancel_requested"])
        self.assertNotEqual(etag, answer.headers["ETag"])

    def test_the_answer_of_a_wait_may_be_kept_alive(self):
        connection = self.daemon.connect()
        self.addCleanup(connection.close)
        job = self.running("hang.pt")
        for _ in range(2):
            connection.request("GET", f"{job['href']}?wait=1")
            answer = connection.getresponse()
            self.assertEqual(200, answer.status)
            answer.read()
            self.assertIsNotNone(connection.sock)


if __name__ == "__main__":
    unittest.main()
