"""Limits at the limit and one past: places in the queue, requests that wait."""

import threading
import time
import unittest

from client import FaultTest, Rows, ask, end_of, get_job, list_jobs, make_job, model, put_blob, spec_of, wait_until
from support import put, read_answer


class QueueTest(FaultTest):
    def assert_full(self, answer):
        document = self.assert_problem(answer, 429, "queue_full")
        self.assertTrue(document["retryable"])
        self.assertIn("--queue", document["detail"])
        self.assertRegex(answer[1]["Retry-After"], r"^[1-9][0-9]*$")

    def test_at_the_limit_a_job_is_taken_and_one_past_it_is_not(self):
        daemon = self.start("--workers", 1, "--queue", 2, fault="hang")
        for seed in range(5):
            put_blob(daemon, model(seed))
        jobs = [ask(daemon, "POST", "/v1/jobs", spec_of(model(seed)))[2]["id"] for seed in range(3)]
        self.assertTrue(wait_until(lambda: daemon.children()))
        self.assertEqual(["queued", "queued", "running"], sorted(Rows(daemon.data).states.values()))
        for path in ("/v1/convert/mlx/m.pt", "/v1/convert/mlx/q4/", "/v1/analyze/m.pt"):
            self.assert_full(put(daemon, path, model(3)))
        status, headers, document = ask(daemon, "POST", "/v1/jobs", spec_of(model(3)))
        self.assertEqual((429, "queue_full"), (status, document["code"]))
        self.assertIn("Retry-After", headers)
        # What makes no job is served all the same.
        self.assertEqual(201, daemon.request("POST", "/v1/blobs", model(9))[0])
        self.assertEqual(3, len(list_jobs(daemon)))
        self.assertEqual(200, daemon.request("GET", "/readyz")[0])
        # Room again, at once.
        self.assertEqual(200, ask(daemon, "POST", f"/v1/jobs/{jobs[2]}/cancel")[0])
        self.assertEqual(202, ask(daemon, "POST", "/v1/jobs", spec_of(model(3)))[0])
        self.assertEqual(429, ask(daemon, "POST", "/v1/jobs", spec_of(model(4)))[0])

    def test_a_refused_upload_is_refused_before_it_is_sent(self):
        daemon = self.start("--workers", 1, "--queue", 0, fault="hang")
        make_job(daemon, model(1))
        sock = daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
        self.assert_full(read_answer(sock))

    def test_one_after_the_other_needs_no_place_to_wait(self):
        """A client that has its result finds the worker free: the end of a job is counted before it is told."""
        daemon = self.start("--workers", 1, "--queue", 0)
        for seed in range(10):
            self.assertEqual(200, put(daemon, "/v1/convert/mlx/m.pt", model(seed))[0])

    def test_one_after_the_other_by_jobs_needs_no_place_either(self):
        daemon = self.start("--workers", 1, "--queue", 0)
        for seed in range(10):
            raw = model(seed)
            put_blob(daemon, raw)
            status, _, document = ask(daemon, "POST", "/v1/jobs", spec_of(raw))
            self.assertEqual(202, status, document)
            self.assert_state("succeeded", end_of(daemon, document["id"]))

    def test_many_at_once_fill_the_queue_exactly(self):
        daemon = self.start("--workers", 1, "--queue", 4, fault="hang")
        raws = [model(seed) for seed in range(16)]
        for raw in raws:
            put_blob(daemon, raw)
        answers = []
        threads = [threading.Thread(target=lambda raw=raw: answers.append(ask(daemon, "POST", "/v1/jobs", spec_of(raw))[0])) for raw in raws]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({202, 429}, set(answers))
        # Never one too many; whoever was refused while another was being counted may try again.
        self.assertLessEqual(answers.count(202), 5)
        for raw in raws:
            ask(daemon, "POST", "/v1/jobs", spec_of(raw))
        self.assertEqual(5, len(list_jobs(daemon)))

    def test_uploads_under_way_have_a_place(self):
        daemon = self.start("--workers", 1, "--queue", 0)
        sock = daemon.socket()
        self.addCleanup(sock.close)
        raw = model(1)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw[:1000])
        self.assertTrue(wait_until(lambda: daemon.temporary_files()))
        self.assert_full(put(daemon, "/v1/convert/mlx/m.pt", model(2)))
        sock.sendall(raw[1000:])
        self.assertEqual(200, read_answer(sock)[0])
        self.assertEqual(200, put(daemon, "/v1/convert/mlx/m.pt", model(2))[0])
        # And give it back when they break off.
        cut = daemon.socket()
        cut.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + raw[:1000])
        self.assertTrue(wait_until(lambda: daemon.temporary_files()))
        cut.close()
        self.assertTrue(wait_until(lambda: put(daemon, "/v1/convert/mlx/m.pt", model(3))[0] == 200, 10))


class WaitingTest(FaultTest):
    FLAGS = ("--workers", 1, "--max-waiting", 2, "--max-sync-wait", 60)

    def wait_in_thread(self, daemon, job):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(ask(daemon, "GET", f"/v1/jobs/{job}?wait=60")))
        thread.start()
        return thread, answers

    def test_one_more_than_may_wait_is_answered_at_once(self):
        daemon = self.start(*self.FLAGS, fault="slow,slow,slow")
        job = make_job(daemon, model(1))
        waiting = [self.wait_in_thread(daemon, job) for _ in range(2)]
        time.sleep(0.5)
        begin = time.monotonic()
        status, headers, document = ask(daemon, "GET", f"/v1/jobs/{job}?wait=60")
        self.assertEqual(200, status)
        self.assertIn(document["state"], ("queued", "running"))
        self.assertIn("Retry-After", headers)
        # The one command then promises its job instead.
        status, headers, _ = put(daemon, "/v1/convert/mlx/m.pt", model(2))
        self.assertEqual(202, status)
        self.assertLess(time.monotonic() - begin, 2)
        for thread, answers in waiting:
            thread.join()
            self.assertEqual("succeeded", answers[0][2]["state"])
        # A place is free again.
        document = ask(daemon, "GET", f"/v1/jobs/{headers['X-Job-Id']}?wait=60")[2]
        self.assert_state("succeeded", document)

    def test_a_client_that_leaves_gives_its_place_back(self):
        daemon = self.start(*self.FLAGS, fault="hang")
        job = make_job(daemon, model(1))
        left = [daemon.socket() for _ in range(2)]
        for sock in left:
            sock.sendall(b"GET /v1/jobs/%s?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n" % job.encode())
        time.sleep(0.5)
        for sock in left:
            sock.close()

        def waits():
            begin = time.monotonic()
            ask(daemon, "GET", f"/v1/jobs/{job}?wait=1")
            return time.monotonic() - begin > 0.9

        self.assertTrue(wait_until(waits, 10))

    def test_a_wait_ends_in_time(self):
        daemon = self.start(*self.FLAGS, "--max-wait", 2, fault="hang")
        job = make_job(daemon, model(1))
        for asked in ("1", "2"):
            begin = time.monotonic()
            self.assert_state("running", ask(daemon, "GET", f"/v1/jobs/{job}?wait={asked}")[2])
            self.assertGreater(time.monotonic() - begin, int(asked) - 0.1)
            self.assertLess(time.monotonic() - begin, int(asked) + 2.5)

    def test_the_one_command_promises_when_its_wait_is_over(self):
        daemon = self.start("--workers", 1, "--max-sync-wait", 1, fault="slow,slow")
        status, headers, body = put(daemon, "/v1/convert/mlx/m.pt", model(1))
        self.assertEqual(202, status, body)
        self.assertIn("Retry-After", headers)
        self.assert_state("succeeded", end_of(daemon, headers["X-Job-Id"]))


class MemoryTest(FaultTest):
    def test_jobs_that_do_not_fit_the_budget_together_run_one_after_the_other(self):
        daemon = self.start("--workers", 4, "--worker-memory", "256M", "--memory-budget", "300M", fault="nap,nap,nap")
        jobs = [make_job(daemon, model(seed, 4096)) for seed in range(4)]
        most = 0
        while any(get_job(daemon, job)["state"] not in ("succeeded", "failed", "dead") for job in jobs):
            most = max(most, len(daemon.children()))
            time.sleep(0.02)
        self.assertEqual(1, most)
        for job in jobs:
            self.assert_state("succeeded", get_job(daemon, job))

    def test_a_held_job_can_be_cancelled_and_does_not_hold_the_drain(self):
        daemon = self.start("--workers", 4, "--worker-memory", "256M", "--memory-budget", "300M", "--shutdown-grace", 1, fault="hang")
        jobs = [make_job(daemon, model(seed, 4096)) for seed in range(3)]
        self.assertTrue(wait_until(lambda: list(Rows(daemon.data).states.values()).count("running") == 2))
        self.assertEqual(1, len(daemon.children()))
        held = next(job for job in jobs[1:] if Rows(daemon.data).states[job] == "running")
        ask(daemon, "POST", f"/v1/jobs/{held}/cancel")
        self.assert_state("cancelled", end_of(daemon, held, 10))
        self.assertTrue(wait_until(lambda: list(Rows(daemon.data).states.values()).count("running") == 2))
        self.assertEqual(0, daemon.terminate(20))
        self.assertEqual({"queued": 2, "cancelled": 1}, {state: list(Rows(daemon.data).states.values()).count(state)
                                                         for state in ("queued", "cancelled")})


if __name__ == "__main__":
    unittest.main()
