"""Trouble with the disk and the job store: clear answers, nothing lost, and work goes on by itself when the trouble is over."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import threading
import time
import unittest

from client import (FaultTest, Rows, ask, end_of, get_job, make_job, model, open_store, put_blob, refused_start,
                    results_of, spec_of, wait_until)
from support import put


class StoreTest(FaultTest):
    def assert_told_to_wait(self, answer, status, code):
        document = self.assert_problem(answer, status, code)
        self.assertTrue(document["retryable"])
        self.assertRegex(answer[1]["Retry-After"], r"^[1-9][0-9]*$")
        return document

    def assert_not_ready(self, daemon, check):
        self.assertTrue(wait_until(lambda: daemon.request("GET", "/readyz")[0] == 503))
        self.assertIn(f"[-] {check}:", daemon.request("GET", "/readyz")[2].decode())
        self.assertEqual(200, daemon.request("GET", "/livez")[0])

    def assert_ready_again(self, daemon):
        self.assertTrue(wait_until(lambda: daemon.request("GET", "/readyz")[0] == 200), daemon.request("GET", "/readyz?verbose"))


@contextlib.contextmanager
def locked(data):
    """Another process that holds the write lock."""
    with contextlib.closing(open_store(data)) as store:
        store.execute("BEGIN IMMEDIATE")
        yield
        store.execute("ROLLBACK")


class LockTest(StoreTest):
    def test_a_lock_beyond_the_patience_is_answered_and_nothing_is_lost(self):
        # The lock outlasts the lease, too: a lease that cannot be renewed cannot be taken away either.
        daemon = self.start("--workers", 2, "--lease", 3, fault=",".join(["slow@slow"] + ["slow@long"] * 9))
        before = make_job(daemon, model(1))
        self.assert_state("succeeded", end_of(daemon, before))
        running, long = make_job(daemon, model(2), "slow.pt"), make_job(daemon, model(5), "long.pt")
        self.assertTrue(wait_until(lambda: len(daemon.children()) == 2))
        answers = []
        raw = model(3)
        put_blob(daemon, raw)
        with locked(daemon.data):
            begin = time.monotonic()
            many = [threading.Thread(target=lambda: answers.append(daemon.request("PUT", "/v1/convert/mlx/m.pt", model(4))))
                    for _ in range(3)]
            for thread in many:
                thread.start()
            # Who only reads is served meanwhile.
            self.assert_state("succeeded", get_job(daemon, before))
            self.assertEqual(200, daemon.request("GET", "/livez")[0])
            self.assertEqual({"report.json"} & set(results_of(daemon, before)), {"report.json"})
            for thread in many:
                thread.join()
            # All of them wait for the same lock at the same time, 5 s at most.
            self.assertLess(time.monotonic() - begin, 10)
            for answer in answers:
                self.assert_told_to_wait(answer, 503, "store_unavailable")
            self.assert_state("running", get_job(daemon, running))
        for job in (running, long):
            document = end_of(daemon, job)
            self.assert_state("succeeded", document)
            self.assertEqual(1, document["attempt"])
        self.assertEqual(200, put(daemon, "/v1/convert/mlx/m.pt", raw)[0])
        self.assert_ready_again(daemon)
        self.assert_nothing_unknown_after_restart(daemon)

    def assert_nothing_unknown_after_restart(self, daemon):
        states = Rows(daemon.data).states
        data = self.folder_of_data()
        self.assertEqual(0, daemon.terminate())
        shutil.copytree(daemon.data, data)
        second = self.start(data=data)
        self.assertEqual(states, Rows(data).states)
        self.assert_nothing_unknown(second)

    def test_a_lock_does_not_hold_the_end_for_ever(self):
        data = self.folder_of_data()
        daemon = self.start("--workers", 1, "--lease", 3, "--shutdown-grace", 1, fault="slow", data=data)
        running, queued = (make_job(daemon, model(seed)) for seed in (1, 2))
        self.assertTrue(wait_until(lambda: daemon.children()))
        with locked(data):
            begin = time.monotonic()
            self.assertEqual(0, daemon.terminate())
            self.assertLess(time.monotonic() - begin, 20)
        second = self.start(data=data)
        for job in (running, queued):
            self.assert_state("succeeded", end_of(second, job))
        self.assert_nothing_unknown(second)

    def test_a_short_lock_is_not_noticed(self):
        daemon = self.start()
        raw, answers = model(1), []
        with locked(daemon.data):
            thread = threading.Thread(target=lambda: answers.append(put(daemon, "/v1/convert/mlx/m.pt", raw)))
            thread.start()
            time.sleep(1)
        thread.join()
        self.assertEqual(200, answers[0][0])


class DamageAtStartTest(StoreTest):
    """A store that cannot be used keeps the daemon from starting; what is in the data directory stays as it is."""

    def setUp(self):
        super().setUp()
        self.data = self.folder_of_data()
        daemon = self.start(data=self.data)
        self.jobs = [make_job(daemon, model(seed)) for seed in range(30)]
        for job in self.jobs:
            self.assert_state("succeeded", end_of(daemon, job))
        self.expected = [results_of(daemon, job) for job in self.jobs]
        self.assertEqual(0, daemon.terminate())
        self.store = pathlib.Path(self.data, "store.sqlite")
        self.good = self.store.read_bytes()

    def assert_refused(self, *words):
        before = snapshot(self.data)
        status, text = refused_start("--data", self.data)
        self.assertEqual(1, status, text)
        sentence = [line for line in text.splitlines() if line.startswith("ckptd serve: ")]
        self.assertEqual(1, len(sentence), text)
        for word in ("store.sqlite", *words):
            self.assertIn(word, sentence[0])
        self.assertEqual(before, snapshot(self.data))

    def assert_all_is_back(self):
        for rest in ("-wal", "-shm"):
            pathlib.Path(self.data, "store.sqlite" + rest).unlink(missing_ok=True)
        self.store.write_bytes(self.good)
        daemon = self.start(data=self.data)
        self.assertEqual(self.expected, [results_of(daemon, job) for job in self.jobs])
        self.assert_nothing_unknown(daemon)

    def test_garbage(self):
        self.store.write_bytes(b"this is not a database, whatever its name says\n" * 1000)
        self.assert_refused("backup")
        self.assert_all_is_back()

    def test_a_file_that_was_cut_off(self):
        self.store.write_bytes(self.good[:len(self.good) // 2])
        self.assert_refused("backup")
        self.assert_all_is_back()

    def test_a_page_in_the_middle_that_was_overwritten(self):
        page = 4096 * (len(self.good) // 4096 // 2)
        self.store.write_bytes(self.good[:page] + b"\xa5" * 4096 + self.good[page + 4096:])
        self.assert_refused("backup")
        self.assert_all_is_back()

    def test_an_index_that_does_not_fit_its_table(self):
        """Every page is well formed; only a look at all of them tells."""
        self.store.write_bytes(self.good)
        with contextlib.closing(open_store(self.data)) as store:
            store.execute("PRAGMA writable_schema = ON")
            store.execute("DELETE FROM sqlite_schema WHERE name = 'job_queue'")
            store.execute("PRAGMA writable_schema = OFF")
        if self.store.read_bytes() != self.good:
            self.assert_refused()
        self.assert_all_is_back()

    def test_the_file_of_another_program(self):
        self.store.unlink()
        with contextlib.closing(open_store_anew(self.data)) as store:
            store.execute("CREATE TABLE their_table (x)")
        self.assert_refused()
        self.assert_all_is_back()

    def test_a_lock_that_does_not_end(self):
        with locked(self.data):
            status, text = refused_start("--data", self.data)
        self.assertEqual(1, status, text)
        self.assertIn("store.sqlite", text)
        self.assert_all_is_back()

    def test_results_that_are_gone_are_told_as_gone(self):
        """The row is there, the file is not: no answer pretends otherwise, and the job can be made again."""
        shutil.rmtree(os.path.join(self.data, "jobs", self.jobs[0]))
        pathlib.Path(self.data, "jobs", self.jobs[1], "report.json").write_bytes(b"{}")
        daemon = self.start(data=self.data)
        for job, expected in zip(self.jobs[:2], self.expected):
            document = end_of(daemon, job)
            if document["state"] != "succeeded":
                self.assertIn(document["state"], ("expired", "failed"))
                self.assertEqual(202, ask(daemon, "POST", f"/v1/jobs/{job}/retry")[0])
                self.assert_state("succeeded", end_of(daemon, job))
            self.assertEqual(expected, results_of(daemon, job))
        self.assertEqual(self.expected[2:], [results_of(daemon, job) for job in self.jobs[2:]])

    def test_an_input_that_is_gone_is_told_as_gone(self):
        digest = get_job_input(self.data, self.jobs[0])
        pathlib.Path(self.data, "blobs", "sha256", digest[:2], digest).unlink()
        daemon = self.start(data=self.data)
        self.assertEqual(404, daemon.request("HEAD", f"/v1/blobs/sha256:{digest}")[0])
        self.assertEqual(self.expected[0], results_of(daemon, self.jobs[0]))
        self.assertEqual(201, daemon.request("PUT", f"/v1/blobs/sha256:{digest}", model(0))[0])
        self.assert_nothing_unknown(daemon)


def get_job_input(data, job):
    with contextlib.closing(open_store(data)) as store:
        return store.execute("SELECT digest FROM job_input WHERE job_id = ?", (job,)).fetchone()[0]


def open_store_anew(data):
    pathlib.Path(data, "store.sqlite").touch()
    return open_store(data)


def snapshot(data):
    """{path: bytes} of what a start that fails must leave alone."""
    return {str(path): path.read_bytes() for part in ("blobs", "jobs", "store.sqlite")
            for path in [pathlib.Path(data, part), *pathlib.Path(data, part).rglob("*")] if path.is_file()}


class DamageWhileRunningTest(StoreTest):
    def test_a_store_that_was_moved_away_leaves_the_blobs(self):
        data = self.folder_of_data()
        daemon = self.start(data=data)
        digest = put_blob(daemon, model(1))
        self.assertEqual(0, daemon.terminate())
        pathlib.Path(data, "store.sqlite").rename(pathlib.Path(data, "..", "moved.sqlite"))
        second = self.start(data=data)
        self.assertEqual(model(1), second.request("GET", f"/v1/blobs/{digest}")[2])
        self.assert_nothing_unknown(second)

    def test_a_file_that_is_damaged_behind_the_daemon_is_told(self):
        data = self.folder_of_data()
        daemon = self.start(data=data)
        job = make_job(daemon, model(1))
        self.assert_state("succeeded", end_of(daemon, job))
        expected = results_of(daemon, job)
        path = pathlib.Path(data, "store.sqlite")
        with contextlib.closing(open_store(data)) as store:
            self.assertEqual(0, store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        good = path.read_bytes()
        overwrite(path, b"\xa5" * len(good))
        drop_page_caches(data)
        self.assert_not_ready(daemon, "store")
        self.assert_told_to_wait(daemon.request("PUT", "/v1/convert/mlx/m.pt", model(2)), 503, "store_unavailable")
        answer = daemon.request("GET", f"/v1/jobs/{job}")
        self.assertEqual(503, answer[0], answer)
        # SQLite keeps what it has read, so the mended file is for the next start.
        overwrite(path, good)
        self.assertEqual(0, daemon.terminate())
        second = self.start(data=data)
        self.assertEqual(expected, results_of(second, job))
        self.assertEqual(200, put(second, "/v1/convert/mlx/m.pt", model(2))[0])
        self.assert_nothing_unknown(second)


def overwrite(path, raw):
    """In place, as a broken disk would."""
    with open(path, "r+b") as file:
        file.write(raw)


def drop_page_caches(data):
    """SQLite keeps its pages until somebody else has written: the change counter of the WAL's index tells it so."""
    with open(os.path.join(data, "store.sqlite-shm"), "r+b") as file:
        for at in (8, 48 + 8):
            file.seek(at)
            word = file.read(4)
            file.seek(at)
            file.write(bytes([word[0] ^ 0x55]) + word[1:])


MEBIBYTE = 1 << 20


def may_mount():
    if os.geteuid() != 0:
        return False
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"ckptd-mount-{os.getpid()}")
    os.mkdir(folder)
    try:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
            return False
        return subprocess.run(["umount", folder], capture_output=True).returncode == 0
    finally:
        os.rmdir(folder)


@unittest.skipUnless(may_mount(), "a full and a read-only disk are small tmpfs mounts, which need root and the right to mount")
class SmallDiskTest(StoreTest):
    def mount(self, mebibytes):
        path = os.path.join(self.folder, "disk")
        os.mkdir(path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", path], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=True)
        return path

    def fill(self, disk, leave=0):
        """Uses the disk up, but for so many bytes; returns what to remove."""
        path = pathlib.Path(disk, "somebody-else")
        with open(path, "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(65536))
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            file.truncate(max(0, file.tell() - leave))
        return path

    def test_an_upload_that_does_not_fit_is_refused(self):
        disk = self.mount(8)
        daemon = self.start(data=os.path.join(disk, "data"))
        raw = model(1, 10240)
        self.assert_told_to_wait(put(daemon, "/v1/convert/mlx/m.pt", raw), 507, "storage_full")
        # One whose length nobody knows before runs into the end of the disk.
        pieces = iter([raw[i:i + 65536] for i in range(0, len(raw), 65536)])
        self.assert_told_to_wait(put(daemon, "/v1/convert/mlx/m.pt", pieces), 507, "storage_full")
        self.assertTrue(wait_until(lambda: daemon.temporary_files() == []))  # the hasher may still be reading it
        # The kernel gives the space back a moment after the last descriptor is closed.
        self.assertTrue(wait_until(lambda: put(daemon, "/v1/convert/mlx/m.pt", model(2))[0] == 200, 10))
        self.assert_nothing_unknown(daemon)

    def test_an_upload_of_unknown_length_keeps_to_the_room_too(self):
        disk = self.mount(40)
        daemon = self.start("--min-free", "20M", data=os.path.join(disk, "data"))
        answer = put(daemon, "/v1/convert/mlx/m.pt", iter([model(1)[:65536]] + [bytes(65536)] * 600))
        self.assert_told_to_wait(answer, 507, "storage_full")
        space = os.statvfs(disk)
        self.assertGreater(space.f_bavail * space.f_frsize, 10 << 20)

    def test_a_result_that_does_not_fit_is_told_at_once_to_who_waits(self):
        disk = self.mount(8)
        daemon = self.start(data=os.path.join(disk, "data"))
        self.assert_told_to_wait(put(daemon, "/v1/convert/mlx/m.pt", model(1, 5 * 1024)), 507, "storage_full")
        self.assertEqual(200, put(daemon, "/v1/convert/mlx/m.pt", model(2))[0])
        self.assert_nothing_unknown(daemon)

    def test_a_promised_job_waits_for_space(self):
        disk = self.mount(16)
        daemon = self.start("--workers", 1, fault="slow@slow", data=os.path.join(disk, "data"))
        raw = model(1, 4096)
        job = make_job(daemon, raw, "slow.pt")
        filler = self.fill(disk, leave=MEBIBYTE)
        self.assertTrue(wait_until(lambda: get_job(daemon, job)["reason"] == "storage_full", 10))
        document = get_job(daemon, job)
        self.assert_state("queued", document)
        self.assertEqual(200, daemon.request("GET", "/livez")[0])
        filler.unlink()
        document = end_of(daemon, job)
        self.assert_state("succeeded", document)
        self.assertEqual((2, 0), (document["attempt"], document["crash_count"]))
        self.assert_nothing_unknown(daemon)

    def test_a_full_disk_is_answered_and_its_end_is_seen(self):
        disk = self.mount(16)
        daemon = self.start("--workers", 2, "--min-free", "1M", fault="slow@slow", data=os.path.join(disk, "data"))
        kept = make_job(daemon, model(1))
        self.assert_state("succeeded", end_of(daemon, kept))
        expected = results_of(daemon, kept)
        raw = model(2)
        put_blob(daemon, raw)
        running = make_job(daemon, model(3), "slow.pt")
        self.assertTrue(wait_until(lambda: daemon.children()))
        filler = self.fill(disk)
        self.assert_not_ready(daemon, "space")
        self.assert_told_to_wait(put(daemon, "/v1/convert/mlx/m.pt", model(4)), 507, "storage_full")
        # Rows are small: as long as the store finds room it takes them; else it says so.
        seen = set()
        accepted = [running]
        for i in range(60):
            status, headers, document = ask(daemon, "POST", "/v1/jobs", spec_of(raw, f"m{i}.pt", labels={"n": f"{i}" + 200 * "x"}, fresh=True))
            seen.add(status)
            if status == 202:
                accepted.append(document["id"])
            else:
                self.assertIn((status, document["code"]), ((507, "storage_full"), (503, "store_unavailable")))
                self.assertRegex(headers["Retry-After"], r"^[1-9][0-9]*$")
        self.assertLessEqual(seen, {202, 503, 507})
        self.assertEqual(expected, results_of(daemon, kept))
        filler.unlink()
        self.assert_ready_again(daemon)
        self.assertEqual(200, put(daemon, "/v1/convert/mlx/m.pt", model(5))[0])
        # Restarted: what waits for space is tried again at once then.
        self.assertEqual(0, daemon.terminate())
        second = self.start("--workers", 2, "--min-free", "1M", data=os.path.join(disk, "data"))
        for job in accepted:
            self.assert_state("succeeded", end_of(second, job))
        self.assertEqual(expected, results_of(second, kept))
        self.assert_nothing_unknown(second)

    def test_a_full_disk_at_start_is_told(self):
        disk = self.mount(4)
        self.fill(disk)
        status, text = refused_start("--data", os.path.join(disk, "data"))
        self.assertEqual(1, status, text)
        self.assertIn("space", text.lower())

    def test_a_read_only_disk_at_start_is_told(self):
        disk = self.mount(8)
        data = os.path.join(disk, "data")
        daemon = self.start(data=data)
        job = make_job(daemon, model(1))
        self.assert_state("succeeded", end_of(daemon, job))
        expected = results_of(daemon, job)
        self.assertEqual(0, daemon.terminate())
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        status, text = refused_start("--data", data)
        self.assertEqual(1, status, text)
        self.assertIn("Read-only file system", text)
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        self.assertEqual(expected, results_of(self.start(data=data), job))


if __name__ == "__main__":
    unittest.main()
