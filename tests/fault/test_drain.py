"""SIGTERM with work under way: what runs ends, what waits is kept for the next start, and every client hears what became of its job."""

import json
import os
import signal
import threading
import time
import unittest

from client import BROKEN, FaultTest, Rows, ask, end_of, get_job, list_jobs, make_job, model, wait_until
from support import put


class Waiting(threading.Thread):
    """A client of the one command: its answer, or what broke it."""

    def __init__(self, daemon, raw, headers=None):
        super().__init__()
        self.served_by, self.raw, self.headers = daemon, raw, headers
        self.answer = self.broken = None
        self.start()

    def run(self):
        try:
            self.answer = put(self.served_by, "/v1/convert/mlx/m.pt", self.raw, self.headers)
        except BROKEN as broken:
            self.broken = broken


class DrainTest(FaultTest):
    def drain(self, daemon, number=signal.SIGTERM):
        daemon.process.send_signal(number)
        self.assertTrue(wait_until(lambda: daemon.log_lines("draining")))

    def wait_for_jobs(self, daemon, count):
        self.assertTrue(wait_until(lambda: len(Rows(daemon.data).states) == count))

    def test_running_jobs_end_and_queued_ones_are_kept(self):
        data = self.folder_of_data()
        daemon = self.start("--workers", 2, fault="slow,slow", data=data)
        running = [Waiting(daemon, model(seed)) for seed in (1, 2)]
        self.assertTrue(wait_until(lambda: len(daemon.children()) == 2))
        queued = Waiting(daemon, model(3))
        self.wait_for_jobs(daemon, 3)
        promised = make_job(daemon, model(4))
        self.drain(daemon)
        # Not ready at once, but alive and able to tell.
        status, headers, body = daemon.request("GET", "/readyz")
        self.assertEqual(503, status)
        self.assertIn("Retry-After", headers)
        self.assertIn(b"[-] draining", body)
        self.assertEqual(200, daemon.request("GET", "/livez")[0])
        for path in ("/v1/convert/mlx/m.pt", "/v1/analyze/m.pt", "/v1/blobs/sha256:" + 64 * "0"):
            document = self.assert_problem_of_any_kind(put(daemon, path, model(5)), 503, "draining")
            self.assertTrue(document["retryable"])
        # The client of a queued job need not wait for the others.
        queued.join(1)
        self.assertFalse(queued.is_alive())
        self.assert_problem(queued.answer, 503, "draining")
        self.assertRegex(queued.answer[1]["Retry-After"], r"^[1-9][0-9]*$")
        self.assertRegex(queued.answer[1]["Location"], r"^/v1/jobs/[0-9a-f-]{36}$")
        for client in running:
            client.join()
            self.assertEqual(200, client.answer[0])
        self.assertEqual(0, daemon.process.wait(30))
        self.assertEqual({"succeeded": 2, "queued": 2}, count(Rows(data).states.values()))

        second = self.start("--workers", 2, data=data)
        for job in (queued.answer[1]["X-Job-Id"], promised):
            document = end_of(second, job)
            self.assert_state("succeeded", document)
            self.assertEqual(1, document["attempt"])
        for client in running:
            self.assert_state("succeeded", get_job(second, client.answer[1]["X-Job-Id"]))
        self.assert_nothing_unknown(second)

    def assert_problem_of_any_kind(self, answer, status, code):
        """Blobs are not downloads: their problems have no Content-Disposition."""
        self.assertIn("Retry-After", answer[1])
        if "Content-Disposition" in answer[1]:
            return self.assert_problem(answer, status, code)
        document = json.loads(answer[2])
        self.assertEqual((status, code), (answer[0], document["code"]))
        return document

    def test_what_exceeds_the_grace_is_queued_again_uncounted(self):
        data = self.folder_of_data()
        daemon = self.start("--workers", 1, "--shutdown-grace", 1, "--max-attempts", 1, fault="hang", data=data)
        waiting = Waiting(daemon, model(1))
        self.assertTrue(wait_until(lambda: daemon.children()))
        queued = Waiting(daemon, model(2))
        self.wait_for_jobs(daemon, 2)
        begin = time.monotonic()
        self.drain(daemon, signal.SIGINT)
        self.assertEqual(0, daemon.process.wait(30))
        self.assertLess(time.monotonic() - begin, 8)
        for client in (waiting, queued):
            client.join()
            self.assertIsNone(client.broken)
            self.assert_problem(client.answer, 503, "draining")
            self.assertIn("Location", client.answer[1])
        self.assertEqual({"queued": 2}, count(Rows(data).states.values()))
        second = self.start("--workers", 1, "--max-attempts", 1, data=data)
        for client in (waiting, queued):
            document = end_of(second, client.answer[1]["X-Job-Id"])
            self.assert_state("succeeded", document)
            self.assertEqual((1, 0), (document["attempt"], document["crash_count"]))
        self.assert_nothing_unknown(second)

    def test_who_asked_for_a_job_meanwhile_is_answered(self):
        """?wait= of a queued job ends with the drain; that of a running one with the job."""
        daemon = self.start("--workers", 1, fault="slow,slow")
        running, queued = make_job(daemon, model(1)), make_job(daemon, model(2))
        self.assertTrue(wait_until(lambda: daemon.children()))
        answers = {}
        threads = [threading.Thread(target=lambda job=job: answers.update({job: ask(daemon, "GET", f"/v1/jobs/{job}?wait=60")}))
                   for job in (running, queued)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        self.drain(daemon)
        for thread in threads:
            thread.join()
        self.assertEqual((200, "succeeded"), (answers[running][0], answers[running][2]["state"]))
        self.assertEqual((200, "queued"), (answers[queued][0], answers[queued][2]["state"]))
        self.assertEqual(0, daemon.process.wait(30))

    def test_a_second_signal_leaves_at_once_and_the_next_start_recovers(self):
        data = self.folder_of_data()
        daemon = self.start("--workers", 1, fault="hang", data=data)
        running, queued = make_job(daemon, model(1)), make_job(daemon, model(2))
        self.assertTrue(wait_until(lambda: daemon.children()))
        self.drain(daemon)
        begin = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, daemon.process.wait(10))
        self.assertLess(time.monotonic() - begin, 2)
        second = self.start("--workers", 1, data=data)
        self.assertEqual(1, second.log_lines("recovered")[0]["requeued"])
        for job, attempt in ((running, 2), (queued, 1)):
            document = end_of(second, job)
            self.assert_state("succeeded", document)
            self.assertEqual(attempt, document["attempt"])
        self.assert_nothing_unknown(second)

    def test_a_job_that_waits_for_another_try_is_kept(self):
        """Killed by a stranger a second ago: the drain does not wait for the retry, the next start does not either."""
        data = self.folder_of_data()
        daemon = self.start("--workers", 1, fault="hang", data=data)
        job = make_job(daemon, model(1))
        for attempt in (1, 2, 3):
            self.assertTrue(wait_until(lambda: daemon.children() and get_job(daemon, job)["attempt"] == attempt))
            os.kill(int(daemon.children()[0]), signal.SIGKILL)
            self.assertTrue(wait_until(lambda: get_job(daemon, job)["state"] == "queued" or get_job(daemon, job)["attempt"] > attempt))
        self.assert_state("queued", get_job(daemon, job))
        begin = time.monotonic()
        self.assertEqual(0, daemon.terminate())
        second = self.start("--workers", 1, data=data)
        self.assert_state("succeeded", end_of(second, job))
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_drain_under_load_loses_nothing(self):
        data = self.folder_of_data()
        daemon = self.start("--workers", 2, "--shutdown-grace", 1, fault="nap", data=data)
        clients = [Waiting(daemon, model(seed, 256), {"Prefer": "respond-async"} if seed % 2 else None) for seed in range(40)]
        self.assertTrue(wait_until(lambda: len(Rows(data).states) >= 20))
        self.drain(daemon)
        self.assertEqual(0, daemon.process.wait(30))
        for client in clients:
            client.join()
        answered = [client for client in clients if client.answer]
        self.assertLessEqual({client.answer[0] for client in answered}, {200, 202, 503})
        second = self.start("--workers", 2, data=data)
        for client in answered:
            if client.answer[0] == 503 and "Location" not in client.answer[1]:
                continue  # refused on the head: there is no job
            document = end_of(second, client.answer[1]["X-Job-Id"])
            self.assert_state("succeeded", document)
            self.assertEqual(1, document["attempt"])
        # And nobody who had a job at that time was left without an answer.
        self.assertEqual([], [client.broken for client in clients if client.broken and not isinstance(client.broken, ConnectionRefusedError)])
        for document in list_jobs(second):
            self.assert_state("succeeded", end_of(second, document["id"]))
        self.assert_nothing_unknown(second)


def count(values):
    values = list(values)
    return {value: values.count(value) for value in values}


if __name__ == "__main__":
    unittest.main()
