"""A worker that misbehaves costs its own job and nothing else. The faults come from the daemon's environment (CKPTD_WORKER_FAULT)."""

import http.client
import os
import signal
import threading
import time
import unittest

from support import Daemon, DaemonTest, linear_model, put, sandboxed, wait_until

SANDBOXED = sandboxed()


class WorkerTest(unittest.TestCase):
    assert_problem = DaemonTest.assert_problem

    def document(self, fault, status, code, *flags):
        """The problem that this fault ends in; the daemon must live on and take further work."""
        daemon = Daemon(*flags, fault=fault)
        self.addCleanup(daemon.close)
        document = self.assert_problem(put(daemon, "/v1/convert/mlx/m.pt", linear_model()), status, code)
        self.assertEqual(200, daemon.request("GET", "/livez")[0])
        self.assertEqual(200, daemon.request("GET", "/readyz")[0])
        self.assertEqual([], daemon.children())
        self.assertTrue(wait_until(lambda: daemon.temporary_files() == []))
        self.assert_problem(put(daemon, "/v1/convert/mlx/m.pt", linear_model()), status, code)
        return document

    def test_a_crash_is_told(self):
        document = self.document("crash", 422, "worker_crashed")
        if SANDBOXED:
            self.assertIn("signal 11", document["detail"])

    def test_an_abort_is_told(self):
        self.assertIn("signal 6", self.document("abort", 422, "worker_crashed")["detail"])

    def test_an_end_without_a_word_is_told(self):
        self.document("exit", 422, "worker_crashed")

    def test_silence_ends_the_worker(self):
        self.assertIn("--worker-silence", self.document("hang", 422, "worker_timeout", "--worker-silence", 1)["detail"])

    def test_a_job_has_its_time(self):
        self.assertIn("--worker-time", self.document("hang", 422, "worker_timeout", "--worker-time", 1)["detail"])

    def test_a_result_that_is_not_there_is_not_believed(self):
        self.assertIn("7 bytes", self.document("lie", 422, "worker_crashed")["detail"])

    def test_a_line_without_end_ends_the_worker(self):
        self.document("babble", 422, "worker_crashed")

    @unittest.skipUnless(SANDBOXED, "limits are off under a sanitizer")
    def test_eaten_memory_is_told(self):
        self.assertIn("--worker-memory", self.document("eat", 422, "worker_oom", "--worker-memory", "128M")["detail"])

    @unittest.skipUnless(SANDBOXED, "limits are off under a sanitizer")
    def test_used_up_processor_time_is_told(self):
        self.assertIn("--worker-cpu", self.document("spin", 422, "worker_timeout", "--worker-cpu", 1)["detail"])

    @unittest.skipUnless(SANDBOXED, "the filter is off under a sanitizer")
    def test_the_filter_kills_execve_socket_connect_and_open(self):
        for fault in ("execve", "socket", "connect", "open"):
            with self.subTest(fault):
                self.assertIn("filter", self.document(fault, 422, "worker_crashed")["detail"])

    def killed(self, fault, times, *flags):
        """The answer to a conversion whose first workers are killed by a stranger."""
        daemon = Daemon(*flags, fault=fault)
        self.addCleanup(daemon.close)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(put(daemon, "/v1/convert/mlx/m.pt", linear_model())))
        thread.start()
        dead = []
        for _ in range(times):
            self.assertTrue(wait_until(lambda: [c for c in daemon.children() if c not in dead]))
            dead += daemon.children()
            os.kill(int(dead[-1]), signal.SIGKILL)
        thread.join()
        return daemon, answers[0]

    def test_a_job_whose_worker_was_killed_by_a_stranger_starts_again(self):
        daemon, answer = self.killed("slow", 1)
        self.assertEqual(200, answer[0])
        job = daemon.job(answer[1]["X-Job-Id"])
        self.assertEqual((2, 0), (job["attempt"], job["crash_count"]))

    def test_a_job_whose_workers_are_always_killed_is_no_fault_of_the_document(self):
        daemon, answer = self.killed("hang", 2, "--max-attempts", 2)
        document = self.assert_problem(answer, 503, "attempts_exhausted")
        self.assertTrue(document["retryable"])
        self.assertEqual("dead", daemon.job(document["job"])["state"])

    def test_a_crash_is_tried_twice(self):
        daemon = Daemon(fault="crash")
        self.addCleanup(daemon.close)
        document = self.assert_problem(put(daemon, "/v1/convert/mlx/m.pt", linear_model()), 422, "worker_crashed")
        job = daemon.job(document["job"])
        self.assertEqual(("dead", 2, 2), (job["state"], job["attempt"], job["crash_count"]))

    def test_workers_die_with_their_daemon(self):
        daemon = Daemon(fault="hang")
        self.addCleanup(daemon.close)
        thread = threading.Thread(target=self.ignore_the_end, args=(daemon,))
        thread.start()
        self.assertTrue(wait_until(lambda: daemon.children()))
        time.sleep(0.2)
        worker = daemon.children()[0]
        daemon.process.kill()
        daemon.process.wait()
        thread.join()
        self.assertTrue(wait_until(lambda: not is_running(worker)))

    @staticmethod
    def ignore_the_end(daemon):
        try:
            put(daemon, "/v1/convert/mlx/m.pt", linear_model())
        except (OSError, http.client.HTTPException):
            pass


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main()
