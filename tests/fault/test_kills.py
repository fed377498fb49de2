"""kill -9 of the daemon and of its workers at random moments: whatever was accepted ends as if nothing had happened.

The moments are drawn from CKPTD_FAULT_SEED (printed with a failure); how far the jobs are then depends on the machine."""

import collections
import hashlib
import json
import os
import random
import signal
import threading
import time

from client import (BROKEN, FINISHED, FaultTest, Rows, ask, digest_of, end_of, get_job, list_jobs, model, put_blob, results_of, spec_of,
                    wait_until)

SEED = int(os.environ.get("CKPTD_FAULT_SEED", "1"))
JOBS = 50
KILLED_DAEMONS, KILLED_WORKERS = 14, 14

# Attempts are what a killed daemon costs; one job may lose all of them here.
FLAGS = ("--workers", 2, "--max-attempts", 100)

Order = collections.namedtuple("Order", "raw kind to quant at_once")


def draw_orders(rng):
    """Small and large inputs for every kind of job; some inputs twice, with other targets and with the same."""
    kinds = [("convert", "mlx", ""), ("convert", "mlx", "q4"), ("convert", "safetensors", ""), ("analyze", "", "")]
    models = [model(seed, rng.choice((16, 16, 64, 1024, 4096))) for seed in range(JOBS * 3 // 4)]
    return [Order(rng.choice(models[:i + 1][-20:]), *kinds[i % 4], at_once=i % 5 == 4) for i in range(JOBS)]


def submit(daemon, order):
    """The id of the job, if it was accepted; breaks with the daemon."""
    if order.at_once:
        path = f"/v1/convert/{order.to}/{order.quant + '/' if order.quant else ''}m.pt" if order.kind == "convert" else "/v1/analyze/m.pt"
        status, headers, raw = daemon.request("PUT", path, order.raw, {"Prefer": "respond-async"})
        assert status == 202, (status, raw)
        return headers["X-Job-Id"]
    put_blob(daemon, order.raw)
    status, _, document = ask(daemon, "POST", "/v1/jobs", spec_of(order.raw, "m.pt", order.kind, order.to, order.quant))
    assert status in (200, 202), document
    return document["id"]


class Client(threading.Thread):
    """Sends every order until it is accepted, to whichever daemon there is."""

    def __init__(self, orders, rng):
        super().__init__()
        self.orders, self.rng = orders, rng
        self.served_by = None
        self.accepted = {}  # index of the order: id
        self.failure = None

    def run(self):
        try:
            for i, order in enumerate(self.orders):
                self.accepted[i] = self.insist(order)
                time.sleep(self.rng.uniform(0, 0.1))
        except BaseException as failure:  # told by the test's thread
            self.failure = failure

    def insist(self, order):
        while True:
            try:
                return submit(self.served_by, order)
            except BROKEN:
                time.sleep(0.02)


class KillTest(FaultTest):
    def kill_all_along(self, orders, data):
        """The orders, with kills meanwhile: {index: id}, and what all daemons have logged."""
        rng, logs = random.Random(SEED + 1), []
        client = Client(orders, random.Random(SEED + 2))
        client.served_by = daemon = self.start(*FLAGS, fault="nap", data=data)
        client.start()
        for kill in rng.sample(["daemon"] * KILLED_DAEMONS + ["worker"] * KILLED_WORKERS, KILLED_DAEMONS + KILLED_WORKERS):
            time.sleep(rng.uniform(0, 0.5))
            if kill == "worker":
                kill_one(daemon, rng)
                continue
            daemon.process.kill()
            daemon.process.wait()
            logs.append(daemon.log_text())
            client.served_by = daemon = self.start(*FLAGS, fault="nap", data=data)
        client.join()
        if client.failure:
            raise client.failure
        self.assertTrue(wait_until(lambda: all(job["state"] in FINISHED for job in list_jobs(daemon))))
        return daemon, client.accepted, logs

    def test_every_accepted_job_ends_as_in_an_undisturbed_run(self):
        print(f"CKPTD_FAULT_SEED={SEED}", flush=True)
        orders, data = draw_orders(random.Random(SEED)), self.folder_of_data()
        calm = self.start("--workers", 2)
        calm_jobs = [submit(calm, order) for order in orders]
        expected = []
        for job in calm_jobs:
            self.assert_state("succeeded", end_of(calm, job))
            expected.append(results_of(calm, job))
        self.assertEqual(0, calm.terminate())

        daemon, accepted, logs = self.kill_all_along(orders, data)
        self.assertEqual(JOBS, len(accepted))
        # Also jobs whose answer was lost with the daemon: nobody waits for them, and they end all the same.
        for document in list_jobs(daemon):
            self.assert_state("succeeded", document)
        for i, job in accepted.items():
            self.assertEqual(expected[i], results_of(daemon, job), (i, job))
        self.assertGreater(sum(document["attempt"] > 1 for document in list_jobs(daemon)), 2, "hardly a job was disturbed")

        self.assertEqual(0, daemon.terminate())
        logs.append(daemon.log_text())
        self.assert_published_once(logs)
        last = self.start(*FLAGS, data=data)
        self.assert_nothing_unknown(last)
        for i, job in accepted.items():
            self.assertEqual(expected[i], results_of(last, job), (i, job))

    def assert_published_once(self, logs):
        ends = collections.Counter()
        for text in logs:
            for line in text.splitlines():
                # The last line of a killed daemon may be half of one.
                if line.startswith("{") and line.endswith("}"):
                    entry = json.loads(line)
                    if entry["msg"] == "job" and entry["state"] == "succeeded":
                        ends[entry["job_id"]] += 1
        self.assertEqual([], [job for job, n in ends.items() if n > 1])

    def test_a_worker_killed_by_a_stranger_costs_an_attempt_and_nothing_else(self):
        daemon = self.start("--workers", 1, fault="slow")
        raw = model(1)
        put_blob(daemon, raw)
        _, _, job = ask(daemon, "POST", "/v1/jobs", spec_of(raw))
        for attempt in (1, 2):
            self.assertTrue(wait_until(lambda: get_job(daemon, job["id"])["attempt"] == attempt and daemon.children()))
            time.sleep(0.2)
            os.kill(int(daemon.children()[0]), signal.SIGKILL)
            self.assertTrue(wait_until(lambda: get_job(daemon, job["id"])["state"] == "queued" or
                                       get_job(daemon, job["id"])["attempt"] > attempt))
        document = end_of(daemon, job["id"])
        self.assert_state("succeeded", document)
        self.assertEqual((3, 0), (document["attempt"], document["crash_count"]))
        self.assert_nothing_unknown(daemon)

    def test_a_job_whose_worker_is_killed_each_time_is_given_up(self):
        daemon = self.start("--workers", 1, "--max-attempts", 2, fault="hang")
        raw = model(2)
        put_blob(daemon, raw)
        _, _, job = ask(daemon, "POST", "/v1/jobs", spec_of(raw))
        for attempt in (1, 2):
            self.assertTrue(wait_until(lambda: get_job(daemon, job["id"])["attempt"] == attempt and daemon.children()))
            os.kill(int(daemon.children()[0]), signal.SIGKILL)
            self.assertTrue(wait_until(lambda: daemon.children() == [] or get_job(daemon, job["id"])["attempt"] > attempt))
        document = end_of(daemon, job["id"])
        self.assertEqual(("dead", "attempts", 2), (document["state"], document["reason"], document["attempt"]))
        self.assertEqual("attempts_exhausted", document["error"]["code"])

    def test_a_killed_daemon_takes_its_job_up_again_at_once(self):
        data = self.folder_of_data()
        daemon = self.start("--workers", 1, fault="hang", data=data)
        raw = model(3)
        put_blob(daemon, raw)
        _, _, job = ask(daemon, "POST", "/v1/jobs", spec_of(raw))
        self.assertTrue(wait_until(lambda: daemon.children()))
        daemon.process.kill()
        daemon.process.wait()
        begin = time.monotonic()
        second = self.start("--workers", 1, data=data)
        document = end_of(second, job["id"])
        self.assert_state("succeeded", document)
        self.assertEqual((2, 0), (document["attempt"], document["crash_count"]))
        self.assertLess(time.monotonic() - begin, 15)  # not after the lease of 60 s
        self.assertEqual(1, second.log_lines("recovered")[0]["requeued"])

    def test_half_an_upload_is_no_job_and_leaves_nothing(self):
        data = self.folder_of_data()
        daemon = self.start(data=data)
        sock = daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n" + model(4, 1024))
        self.assertTrue(wait_until(lambda: daemon.temporary_files()))
        daemon.process.kill()
        daemon.process.wait()
        second = self.start(data=data)
        self.assertEqual([], list_jobs(second))
        self.assert_nothing_unknown(second)

    def test_what_no_row_knows_is_removed_by_the_next_start(self):
        data = self.folder_of_data()
        daemon = self.start(data=data)
        raw = model(5)
        put_blob(daemon, raw)
        kept = ask(daemon, "POST", "/v1/jobs", spec_of(raw))[2]["id"]
        self.assert_state("succeeded", end_of(daemon, kept))
        expected = results_of(daemon, kept)
        daemon.process.kill()
        daemon.process.wait()
        # As a crash between the file and its row would leave them.
        stray = model(6)
        name = hashlib.sha256(stray).hexdigest()
        os.makedirs(f"{data}/blobs/sha256/{name[:2]}", exist_ok=True)
        os.makedirs(f"{data}/jobs/0193a0c0-0000-7000-8000-000000000000")
        os.makedirs(f"{data}/tmp/spool-1-1")
        for path in (f"blobs/sha256/{name[:2]}/{name}", "jobs/0193a0c0-0000-7000-8000-000000000000/report.json", "tmp/spool-1-1/x"):
            with open(os.path.join(data, path), "wb") as file:
                file.write(stray)
        second = self.start(data=data)
        self.assert_nothing_unknown(second)
        self.assertEqual(expected, results_of(second, kept))
        self.assertEqual({digest_of(raw).removeprefix("sha256:")}, set(Rows(data).blobs))


def kill_one(daemon, rng):
    workers = daemon.children()
    if workers:
        try:
            os.kill(int(rng.choice(workers)), signal.SIGKILL)
        except ProcessLookupError:
            pass  # it was done


if __name__ == "__main__":
    import unittest
    unittest.main()
