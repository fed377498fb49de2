"""Jobs that harm their own worker: twice is enough, limits are told, and the jobs beside them do not notice."""

import os
import signal
import time
import unittest

from client import FaultTest, Rows, ask, end_of, get_job, make_job, metric, model, results_of, wait_until
from support import put, sandboxed

SANDBOXED = sandboxed()


class CrashTest(FaultTest):
    def assert_dead(self, daemon, job, code):
        document = end_of(daemon, job)
        self.assertEqual(("dead", code), (document["state"], document["reason"]), document)
        self.assertEqual((2, 2), (document["attempt"], document["crash_count"]))
        self.assertEqual(code, document["error"]["code"])
        for member in ("title", "detail", "hint"):
            self.assertTrue(document["error"][member])
        self.assertEqual([], document["results"])
        self.assertIsNotNone(document["finished_at"])
        return document

    def test_a_job_that_crashes_its_worker_twice_is_dead(self):
        daemon = self.start(fault="crash@poison")
        document = self.assert_dead(daemon, make_job(daemon, model(1), "poison.pt"), "worker_crashed")
        if SANDBOXED:
            self.assertIn("signal 11", document["error"]["detail"])
        self.assertEqual(1, metric(daemon, "ckptd_jobs_total", reason="worker_crashed"))
        self.assert_alive_and_empty(daemon)

    def test_the_one_command_tells_of_the_crash(self):
        daemon = self.start(fault="crash@poison")
        answer = put(daemon, "/v1/convert/mlx/poison.pt", model(1))
        document = self.assert_problem(answer, 422, "worker_crashed")
        self.assert_dead(daemon, answer[1]["X-Job-Id"], "worker_crashed")
        self.assertEqual(answer[1]["Location"], "/v1/jobs/" + document["job"])

    def test_a_dead_job_can_be_retried_by_hand(self):
        data = self.folder_of_data()
        daemon = self.start(fault="crash@poison", data=data)
        job = make_job(daemon, model(1), "poison.pt")
        self.assert_dead(daemon, job, "worker_crashed")
        daemon.terminate()
        mended = self.start(data=data)
        self.assert_state("dead", get_job(mended, job))
        self.assertEqual(202, ask(mended, "POST", f"/v1/jobs/{job}/retry")[0])
        document = end_of(mended, job)
        self.assert_state("succeeded", document)
        self.assertEqual((1, 0), (document["attempt"], document["crash_count"]))

    def test_one_crash_is_forgiven(self):
        daemon = self.start("--workers", 1, fault="slow")
        job = make_job(daemon, model(1))
        self.assertTrue(wait_until(lambda: daemon.children()))
        time.sleep(0.3)
        os.kill(int(daemon.children()[0]), signal.SIGABRT)
        document = end_of(daemon, job)
        self.assert_state("succeeded", document)
        self.assertEqual((2, 1), (document["attempt"], document["crash_count"]))

    def test_an_equal_job_is_not_answered_from_a_dead_one(self):
        daemon = self.start(fault="crash@poison")
        self.assert_dead(daemon, make_job(daemon, model(1), "poison.pt"), "worker_crashed")
        document = end_of(daemon, make_job(daemon, model(1), "healthy.pt"))
        self.assert_state("succeeded", document)
        self.assertIsNone(document["cached_from"])

    def test_jobs_beside_it_are_not_disturbed(self):
        calm = self.start()
        daemon = self.start("--workers", 2, "--worker-memory", "128M", fault="crash@poison,eat@hungry,nap@healthy" if SANDBOXED
                            else "crash@poison,nap@healthy")
        bad = [make_job(daemon, model(90 + i), name) for i, name in enumerate(("poison.pt", "hungry.pt", "poison.pt", "hungry.pt"))]
        good = {seed: make_job(daemon, model(seed, 256), "healthy.pt") for seed in range(8)}
        for seed, job in good.items():
            document = end_of(daemon, job)
            self.assert_state("succeeded", document)
            self.assertEqual((1, 0), (document["attempt"], document["crash_count"]))
            self.assertEqual(results_of(calm, self.done(calm, make_job(calm, model(seed, 256)))), results_of(daemon, job))
        for job, code in zip(bad, ("worker_crashed", "worker_oom") * 2):
            if code == "worker_crashed" or SANDBOXED:
                self.assert_dead(daemon, job, code)
        self.assert_nothing_unknown(daemon)

    def done(self, daemon, job):
        self.assert_state("succeeded", end_of(daemon, job))
        return job

    @unittest.skipUnless(SANDBOXED, "limits are off under a sanitizer")
    def test_a_job_that_exceeds_the_memory_twice_is_dead(self):
        daemon = self.start("--worker-memory", "128M", fault="eat@hungry")
        document = self.assert_dead(daemon, make_job(daemon, model(1), "hungry.pt"), "worker_oom")
        self.assertIn("--worker-memory", document["error"]["detail"])
        answer = put(daemon, "/v1/convert/mlx/q4/hungry.pt", model(1))
        self.assert_problem(answer, 422, "worker_oom")
        self.assert_alive_and_empty(daemon)

    def assert_failed(self, daemon, setting, fault_name):
        document = end_of(daemon, make_job(daemon, model(1), fault_name))
        self.assertEqual(("failed", "worker_timeout"), (document["state"], document["reason"]), document)
        self.assertEqual("worker_timeout", document["error"]["code"])
        self.assertIn(setting, document["error"]["detail"])
        self.assertEqual((1, 0), (document["attempt"], document["crash_count"]))
        answer = put(daemon, "/v1/convert/mlx/q4/" + fault_name, model(1))
        self.assertIn(setting, self.assert_problem(answer, 422, "worker_timeout")["detail"])
        self.assert_alive_and_empty(daemon)

    def test_a_silent_worker_fails_its_job(self):
        self.assert_failed(self.start("--worker-silence", 1, fault="hang@hang"), "--worker-silence", "hang.pt")

    def test_a_worker_beyond_its_time_fails_its_job(self):
        self.assert_failed(self.start("--worker-time", 1, fault="hang@hang"), "--worker-time", "hang.pt")

    @unittest.skipUnless(SANDBOXED, "limits are off under a sanitizer")
    def test_a_worker_beyond_its_processor_time_fails_its_job(self):
        self.assert_failed(self.start("--worker-cpu", 1, fault="spin@spin"), "--worker-cpu", "spin.pt")

    def test_a_cancelled_job_ends_at_once_and_leaves_nothing(self):
        daemon = self.start("--workers", 1, fault="hang@hang")
        running, queued = make_job(daemon, model(1), "hang.pt"), make_job(daemon, model(2), "hang.pt")
        self.assertTrue(wait_until(lambda: daemon.children()))
        self.assertEqual(202, ask(daemon, "POST", f"/v1/jobs/{running}/cancel")[0])
        self.assertEqual(200, ask(daemon, "POST", f"/v1/jobs/{queued}/cancel")[0])
        for job in (running, queued):
            self.assert_state("cancelled", end_of(daemon, job, 10))
        self.assert_alive_and_empty(daemon)

    def test_clients_that_leave_end_their_jobs_only_if_they_said_so(self):
        daemon = self.start("--workers", 2, fault="slow")
        jobs = []
        for query in ("", "?cancel_on_disconnect=true"):
            raw = model(len(jobs) + 1)
            sock = daemon.socket()
            sock.sendall(b"PUT /v1/convert/mlx/m.pt%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (query.encode(), len(raw)) + raw)
            jobs.append(sock)
            self.assertTrue(wait_until(lambda: len(Rows(daemon.data).states) == len(jobs)))
        for sock in jobs:
            sock.close()
        first, second = sorted(Rows(daemon.data).states)
        self.assert_state("succeeded", end_of(daemon, first))
        self.assert_state("cancelled", end_of(daemon, second))

    def assert_alive_and_empty(self, daemon):
        self.assertEqual(200, daemon.request("GET", "/livez")[0])
        self.assertEqual(200, daemon.request("GET", "/readyz")[0])
        self.assertEqual([], daemon.children())
        self.assert_nothing_unknown(daemon)


class StoppedTest(FaultTest):
    """Processes that are stopped (SIGSTOP) and go on."""

    def test_a_stopped_worker_is_a_silent_one(self):
        daemon = self.start("--workers", 1, "--worker-silence", 1, fault="nap,nap,nap")
        job = make_job(daemon, model(1))
        self.assertTrue(wait_until(lambda: daemon.children()))
        os.kill(int(daemon.children()[0]), signal.SIGSTOP)
        document = end_of(daemon, job, 15)
        self.assertEqual(("failed", "worker_timeout"), (document["state"], document["reason"]), document)
        self.assertEqual([], daemon.children())
        self.assert_state("succeeded", end_of(daemon, make_job(daemon, model(2))))

    def test_a_worker_stopped_for_a_moment_goes_on(self):
        daemon = self.start("--workers", 1, "--worker-silence", 10, fault="slow")
        job = make_job(daemon, model(1))
        self.assertTrue(wait_until(lambda: daemon.children()))
        worker = int(daemon.children()[0])
        os.kill(worker, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(worker, signal.SIGCONT)
        document = end_of(daemon, job)
        self.assert_state("succeeded", document)
        self.assertEqual(1, document["attempt"])

    def stop_daemon(self, daemon, seconds):
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        daemon.process.send_signal(signal.SIGCONT)

    def test_a_daemon_stopped_beyond_its_leases_runs_no_job_twice(self):
        calm, raws = self.start(), [model(seed, 512) for seed in range(4)]
        expected = [results_of(calm, self.done(calm, make_job(calm, raw))) for raw in raws]
        # The first two end while nobody looks, the next ones wait.
        daemon = self.start("--workers", 2, "--lease", 3, fault="slow")
        jobs = [make_job(daemon, raw) for raw in raws]
        self.assertTrue(wait_until(lambda: len(daemon.children()) == 2))
        self.stop_daemon(daemon, 5)
        for job, results in zip(jobs, expected):
            document = end_of(daemon, job)
            self.assert_state("succeeded", document)
            self.assertEqual(1, document["attempt"])
            self.assertEqual(results, results_of(daemon, job))
        self.assertEqual(sorted(jobs), sorted(line["job_id"] for line in daemon.log_lines("job")))
        self.assert_nothing_unknown(daemon)

    def test_a_worker_still_running_after_the_stop_keeps_its_job(self):
        daemon = self.start("--workers", 1, "--lease", 3, fault=",".join(["slow"] * 7))
        job = make_job(daemon, model(1))
        self.assertTrue(wait_until(lambda: daemon.children()))
        self.stop_daemon(daemon, 4.5)
        document = end_of(daemon, job)
        self.assert_state("succeeded", document)
        self.assertEqual(1, document["attempt"])

    def test_a_worker_is_not_silent_because_the_daemon_did_not_listen(self):
        daemon = self.start("--workers", 1, "--worker-silence", 3, fault="slow")
        job = make_job(daemon, model(1))
        self.assertTrue(wait_until(lambda: daemon.children()))
        self.stop_daemon(daemon, 5)
        self.assert_state("succeeded", end_of(daemon, job))

    def done(self, daemon, job):
        self.assert_state("succeeded", end_of(daemon, job))
        return job


if __name__ == "__main__":
    unittest.main()
