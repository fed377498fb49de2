"""What is kept too long goes, in its order, and nothing that is still needed."""

import pathlib
import time
import unittest

from client import (FaultTest, ask, end_of, get_job, list_jobs, make_job, metric, model, put_blob, results_of,
                    spec_of, stored_blobs, stored_results, wait_until)
from support import put

MEBIBYTE = 1 << 20


def held(data):
    """Bytes of blobs and results on the disk; one that has several names counts once."""
    files = {}
    for part in ("blobs", "jobs"):
        for path in pathlib.Path(data, part).rglob("*"):
            try:
                info = path.stat()
            except FileNotFoundError:
                continue
            if path.is_file():
                files[info.st_ino] = info.st_blocks * 512
    return sum(files.values())


class TimeTest(FaultTest):
    def removed(self, daemon, member):
        return sum(line[member] for line in daemon.log_lines("janitor removed what was kept long enough"))

    def test_results_expire_then_records_go(self):
        daemon = self.start("--result-ttl", 1, "--record-ttl", 4, "--janitor-interval", 1)
        job = make_job(daemon, model(1, 256))
        self.assert_state("succeeded", end_of(daemon, job))
        held_bytes = sum(size for size, _ in stored_results(daemon.data)[job].values())
        self.assertTrue(wait_until(lambda: get_job(daemon, job)["state"] == "expired", 10))
        document = get_job(daemon, job)
        self.assertEqual([], document["results"])
        for path in ("results", "results.zip", "report", "results/report.json"):
            status, _, problem = ask(daemon, "GET", f"/v1/jobs/{job}/{path}")
            self.assertEqual((410, "results_expired"), (status, problem["code"]), path)
        self.assertTrue(wait_until(lambda: job not in stored_results(daemon.data)))
        self.assertTrue(wait_until(lambda: self.removed(daemon, "results") == 1))
        self.assertGreaterEqual(self.removed(daemon, "result_bytes"), held_bytes)
        self.assertGreaterEqual(metric(daemon, "ckptd_gc_deleted_bytes_total"), held_bytes)

        self.assertTrue(wait_until(lambda: ask(daemon, "GET", f"/v1/jobs/{job}")[0] == 404, 15))
        self.assertEqual([], list_jobs(daemon))
        self.assertTrue(wait_until(lambda: self.removed(daemon, "records") == 1))
        self.assert_nothing_unknown(daemon)

    def test_expired_results_are_made_again(self):
        daemon = self.start("--result-ttl", 1, "--janitor-interval", 1)
        raw = model(1)
        job = make_job(daemon, raw)
        self.assert_state("succeeded", end_of(daemon, job))
        self.assertTrue(wait_until(lambda: get_job(daemon, job)["state"] == "expired", 10))
        # Neither an equal job nor a retry is answered with what is gone.
        again = end_of(daemon, make_job(daemon, raw))
        self.assertIsNone(again["cached_from"])
        self.assertEqual(202, ask(daemon, "POST", f"/v1/jobs/{job}/retry")[0])
        self.assertIn(end_of(daemon, job)["state"], ("succeeded", "expired"))

    def test_unused_inputs_go_and_results_stay(self):
        daemon = self.start("--input-ttl", 1, "--janitor-interval", 1)
        raw = model(1)
        digest = put_blob(daemon, raw)
        job = make_job(daemon, raw)
        self.assert_state("succeeded", end_of(daemon, job))
        expected = results_of(daemon, job)
        self.assertTrue(wait_until(lambda: stored_blobs(daemon.data) == {}, 15))  # a HEAD would be a use
        self.assertEqual(404, daemon.request("HEAD", f"/v1/blobs/{digest}")[0])
        status, _, problem = ask(daemon, "GET", f"/v1/blobs/{digest}")
        self.assertEqual((404, "blob_not_found"), (status, problem["code"]))
        self.assertEqual(expected, results_of(daemon, job))
        status, _, problem = ask(daemon, "POST", "/v1/jobs", spec_of(raw, quant="q4"))
        self.assertEqual((422, "input_not_found"), (status, problem["code"]))
        self.assertGreaterEqual(metric(daemon, "ckptd_gc_deleted_bytes_total", kind="blob"), len(raw))
        self.assert_nothing_unknown(daemon)

    def test_an_input_in_use_stays_however_old_it_is(self):
        daemon = self.start("--workers", 1, "--input-ttl", 1, "--janitor-interval", 1, fault="slow,slow,slow")
        jobs = [make_job(daemon, model(seed)) for seed in (1, 2)]
        for job in jobs:  # the second waits for 3 s and then runs for 3 s
            self.assert_state("succeeded", end_of(daemon, job))
        self.assertTrue(wait_until(lambda: stored_blobs(daemon.data) == {}, 15))
        self.assert_nothing_unknown(daemon)

    def test_an_input_that_is_used_again_and_again_stays(self):
        daemon = self.start("--input-ttl", 3, "--janitor-interval", 1)
        raw = model(1)
        digest = put_blob(daemon, raw)
        for quant in ("", "q4", "q8", "q2", "q3", "q6"):
            self.assert_state("succeeded", end_of(daemon, ask(daemon, "POST", "/v1/jobs", spec_of(raw, quant=quant))[2]["id"]))
            time.sleep(0.9)
        self.assertEqual(200, daemon.request("HEAD", f"/v1/blobs/{digest}")[0])

    def test_results_shared_with_an_expired_job_stay(self):
        """The second job was answered from the first one's results: they are its own by then."""
        daemon = self.start("--result-ttl", 3, "--janitor-interval", 1)
        raw = model(1)
        first = make_job(daemon, raw)
        self.assert_state("succeeded", end_of(daemon, first))
        expected = results_of(daemon, first)
        time.sleep(2)
        second = make_job(daemon, raw)
        self.assertEqual(first, end_of(daemon, second)["cached_from"])
        self.assertTrue(wait_until(lambda: get_job(daemon, first)["state"] == "expired", 10))
        document = get_job(daemon, second)
        if document["state"] == "succeeded":  # a slow machine may be past that, too
            self.assertEqual(expected, results_of(daemon, second))

    def test_a_download_under_way_is_finished(self):
        daemon = self.start("--result-ttl", 1, "--janitor-interval", 1)
        job = make_job(daemon, model(1, 16 * 1024))
        self.assert_state("succeeded", end_of(daemon, job))
        connection = daemon.connect()
        self.addCleanup(connection.close)
        connection.request("GET", f"/v1/jobs/{job}/results.zip")
        response = connection.getresponse()
        self.assertEqual(200, response.status)
        length = int(response.headers["Content-Length"])
        got = len(response.read(1000))
        self.assertTrue(wait_until(lambda: job not in stored_results(daemon.data), 10))
        self.assertEqual(length, got + len(response.read()))

    def test_failed_jobs_are_forgotten_too(self):
        daemon = self.start("--record-ttl", 1, "--janitor-interval", 1)
        answer = put(daemon, "/v1/convert/mlx/m.pt", model(1)[:-100])
        self.assertEqual(422, answer[0])
        self.assertTrue(wait_until(lambda: list_jobs(daemon) == [], 10))
        self.assert_nothing_unknown(daemon)


class RoomTest(FaultTest):
    def test_the_oldest_results_make_room(self):
        """Each result is 1 MiB; inputs go first, but not within their first minute."""
        daemon = self.start("--max-data", "6M", "--janitor-interval", 1, "--result-ttl", 3600)
        jobs = []
        for seed in range(8):
            raw = model(seed, 512)
            jobs.append(make_job(daemon, raw, "m.pt", "convert", "safetensors"))
            self.assert_state("succeeded", end_of(daemon, jobs[-1]))
        self.assertTrue(wait_until(lambda: held(daemon.data) <= 6 * MEBIBYTE, 15), held(daemon.data))
        time.sleep(1.5)  # another pass: what fits is left alone
        states = [get_job(daemon, job)["state"] for job in jobs]
        kept = states.count("succeeded")
        self.assertEqual(["expired"] * (8 - kept) + ["succeeded"] * kept, states)
        self.assertGreaterEqual(kept, 2, "more was removed than was needed")
        self.assertLess(kept, 8)
        results_of(daemon, jobs[-1])
        self.assertTrue(daemon.log_lines("janitor removed what was kept long enough"))
        self.assertAlmostEqual(metric(daemon, "ckptd_storage_bytes"), held(daemon.data), delta=65536)
        self.assertGreaterEqual(metric(daemon, "ckptd_gc_deleted_bytes_total"), (8 - kept) * MEBIBYTE // 2)
        self.assert_nothing_unknown(daemon)

    def test_what_is_needed_stays_even_if_there_is_too_much(self):
        daemon = self.start("--workers", 1, "--max-data", "1M", "--janitor-interval", 1, fault="slow,slow")
        jobs = [make_job(daemon, model(seed, 1024)) for seed in (1, 2)]
        for job in jobs:
            self.assertIn(end_of(daemon, job)["state"], ("succeeded", "expired"))
        self.assertTrue(wait_until(lambda: daemon.log_lines("more is held than --max-data allows, and what is left is needed")))
        self.assertEqual([], [line for line in daemon.log_lines("job") if line["state"] != "succeeded"])
        self.assert_nothing_unknown_once_quiet(daemon)

    def assert_nothing_unknown_once_quiet(self, daemon):
        self.assertTrue(wait_until(lambda: {job["state"] for job in list_jobs(daemon)} == {"expired"}, 15))
        self.assert_nothing_unknown(daemon)

    def test_storage_is_told_after_a_restart(self):
        data = self.folder_of_data()
        daemon = self.start("--janitor-interval", 1, data=data)
        self.assert_state("succeeded", end_of(daemon, make_job(daemon, model(1, 2048))))
        daemon.terminate()
        second = self.start("--janitor-interval", 1, data=data)
        self.assertTrue(wait_until(lambda: (metric(second, "ckptd_storage_bytes") or 0) >= 4 * MEBIBYTE, 10))


if __name__ == "__main__":
    unittest.main()
