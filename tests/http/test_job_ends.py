"""Jobs that are cancelled, tried again, deleted."""

import os
import time
import unittest

from support import DaemonTest, linear_model, torch_zip, wait_until

UNKNOWN = "01a00000-0000-7000-8000-000000000000"


class EndsTest(DaemonTest):
    """One worker; names that begin with hang never end, with slow take a second."""
    FLAGS = ("--workers", 1)
    FAULT = "hang@hang,slow@slow,crash@crash"

    def start(self, name, raw=None, **more):
        job = self.daemon.submit(raw or linear_model(), name=name, fresh=True, **more)
        self.addCleanup(self.daemon.request, "POST", f"{job['href']}/cancel")
        return job

    def running(self, name):
        job = self.start(name)
        self.assertTrue(wait_until(lambda: self.daemon.children() and self.daemon.job(job["id"])["state"] == "running"))
        return job

    def results_of(self, job):
        return os.path.join(self.daemon.data, "jobs", job["id"])

    def test_a_queued_job_is_cancelled_at_once(self):
        self.running("hang.pt")
        job = self.start("a.pt")
        status, headers, document = self.daemon.ask("POST", f"{job['href']}/cancel")
        self.assertEqual((200, "cancelled", "cancelled"), (status, document["state"], document["reason"]))
        self.assertEqual(job["href"], headers["Location"])
        self.assertIsNotNone(document["finished_at"])
        self.assertEqual(0, document["attempt"])

    def test_a_running_job_is_asked_to_stop_and_stops(self):
        job = self.running("hang.pt")
        status, _, document = self.daemon.ask("POST", f"{job['href']}/cancel")
        self.assertEqual((202, True), (status, document["cancel_requested"]))
        self.assertEqual("cancelled", self.daemon.ended(job["id"])["state"])
        self.assertTrue(wait_until(lambda: self.daemon.children() == []))
        self.assertEqual(200, self.daemon.request("POST", f"{job['href']}/cancel")[0], "cancelled it is already")
        self.assert_refused(self.daemon.request("GET", f"{job['href']}/report"), 404, "result_not_found")

    def test_a_client_that_waits_is_told_that_its_job_was_cancelled(self):
        connection = self.daemon.connect()
        self.addCleanup(connection.close)
        connection.request("PUT", "/v1/convert/mlx/hang.pt?fresh=true", linear_model())
        self.assertTrue(wait_until(lambda: self.daemon.children()))
        job = self.daemon.ask("GET", "/v1/jobs?state=running")[2]["jobs"][0]
        self.daemon.request("POST", f"{job['href']}/cancel")
        answer = connection.getresponse()
        document = self.assert_problem((answer.status, answer.headers, answer.read()), 409, "cancelled")
        self.assertEqual((job["id"], job["href"]), (document["job"], answer.headers["Location"]))

    def test_clients_that_wait_for_a_queued_job_are_told_at_once(self):
        self.running("hang.pt")
        connections = [self.daemon.connect() for _ in range(2)]
        for connection in connections:
            self.addCleanup(connection.close)
        connections[0].request("PUT", "/v1/convert/mlx/a.pt?fresh=true", linear_model())
        self.assertTrue(wait_until(lambda: self.daemon.ask("GET", "/v1/jobs?state=queued")[2]["jobs"]))
        job = self.daemon.ask("GET", "/v1/jobs?state=queued")[2]["jobs"][0]
        connections[1].request("GET", f"{job['href']}?wait=60")
        self.assertTrue(wait_until(lambda: self.daemon.metric("ckptd_http_requests_in_flight") == 3))
        time.sleep(0.2)
        begin = time.monotonic()
        self.assertEqual(200, self.daemon.request("POST", f"{job['href']}/cancel")[0])
        self.assertEqual([409, 200], [connection.getresponse().status for connection in connections])
        self.assertLess(time.monotonic() - begin, 10)

    def test_what_has_ended_cannot_be_cancelled(self):
        job = self.start("a.pt")
        self.daemon.ended(job["id"])
        answer = self.daemon.request("POST", f"{job['href']}/cancel")
        self.assert_refused(answer, 409, "job_finished")
        self.assertEqual(job["href"], answer[1]["Location"])

    def test_a_cancelled_job_starts_again_when_it_is_retried(self):
        job = self.running("slow.pt")
        self.daemon.request("POST", f"{job['href']}/cancel")
        self.assertEqual("cancelled", self.daemon.ended(job["id"])["state"])
        status, headers, document = self.daemon.ask("POST", f"{job['href']}/retry", {"from": "start"})
        self.assertEqual((202, job["href"]), (status, headers["Location"]))
        self.assertIn(document["state"], ("queued", "running"))
        self.assertFalse(document["cancel_requested"])
        self.assertEqual("succeeded", self.daemon.ended(job["id"])["state"])
        self.assert_refused(self.daemon.request("POST", f"{job['href']}/retry"), 409, "job_not_retryable")

    def test_a_failed_and_a_dead_job_may_be_retried_and_end_the_same_way(self):
        for name, raw, state in (("a.pt", torch_zip({"up.weight": ("float32", (4, 4, 3, 3), bytes(576))}), "failed"),
                                 ("crash.pt", None, "dead")):
            job = self.start(name, raw)
            first = self.daemon.ended(job["id"])
            self.assertEqual(202, self.daemon.request("POST", f"{job['href']}/retry")[0])
            second = self.daemon.ended(job["id"])
            self.assertEqual((state, state), (first["state"], second["state"]))
            self.assertEqual((first["error"], first["attempt"], first["results"]), (second["error"], second["attempt"], second["results"]))

    def test_a_job_whose_input_is_gone_is_not_retried(self):
        raw = torch_zip({"gone.weight": ("float32", (4, 4, 3, 3), bytes(576))})
        job = self.start("a.pt", raw)
        self.assertEqual("failed", self.daemon.ended(job["id"])["state"])
        self.assertEqual(204, self.daemon.request("DELETE", f"/v1/blobs/{job['spec']['inputs'][0]['digest']}")[0])
        answer = self.daemon.request("POST", f"{job['href']}/retry")
        self.assert_refused(answer, 422, "input_not_found")

    def test_bodies_of_cancel_and_retry_are_checked(self):
        job = self.start("a.pt")
        self.daemon.ended(job["id"])
        for path, body, code in (("cancel", {"why": "x"}, "unknown_member"), ("retry", {"form": "start"}, "unknown_member"),
                                 ("retry", {"from": "end"}, "bad_json"), ("retry", [], "bad_json")):
            status, _, document = self.daemon.ask("POST", f"{job['href']}/{path}", body)
            self.assertEqual((400, code), (status, document["code"]))
        self.assert_refused(self.daemon.request("POST", f"{job['href']}/cancel?force=1"), 400, "bad_option")

    def test_a_deleted_job_is_gone_with_its_results(self):
        job = self.start("a.pt")
        self.daemon.ended(job["id"])
        self.assertTrue(os.path.isdir(self.results_of(job)))
        self.assertEqual((204, b""), self.daemon.request("DELETE", job["href"])[::2])
        self.assertFalse(os.path.exists(self.results_of(job)))
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("GET", "/results"),
                             ("GET", "/report")):
            self.assert_refused(self.daemon.request(method, job["href"] + path), 404, "job_not_found")
        for path in ("/results.zip", "/results/report.json"):
            self.assert_problem(self.daemon.request("GET", job["href"] + path), 404, "job_not_found")

    def test_a_running_and_a_queued_job_are_stopped_and_deleted(self):
        running, queued = self.running("hang.pt"), self.start("b.pt")
        for job in (queued, running):
            self.assertEqual(204, self.daemon.request("DELETE", job["href"])[0])
            self.assertEqual(404, self.daemon.request("GET", job["href"])[0])
        self.assertTrue(wait_until(lambda: self.daemon.children() == []))
        self.assertEqual([], [name for name in os.listdir(os.path.join(self.daemon.data, "jobs")) if name in (running["id"], queued["id"])])

    def test_what_is_no_job_is_not_found(self):
        for name in (UNKNOWN, "x", "%2e%2e", UNKNOWN.upper(), "a" * 300):
            self.assert_refused(self.daemon.request("GET", f"/v1/jobs/{name}"), 404, "job_not_found")


if __name__ == "__main__":
    unittest.main()
