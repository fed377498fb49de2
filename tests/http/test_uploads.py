"""Bodies: limits, silence, clients that leave, full disks, many and slow ones at once."""

import json
import os
import subprocess
import tempfile
import threading
import time
import unittest

from support import (Daemon, DaemonTest, big_model, chunked, linear_model, put, read_answer, wait_until)

LIMIT = 300000


class LimitTest(DaemonTest):
    FLAGS = ("--max-upload", LIMIT, "--max-discard", "1M")

    def model(self, size):
        """A checkpoint of exactly that many bytes (the archive's comment fills it up)."""
        base = linear_model(rows=1024)
        fill = size - len(base)
        assert 0 <= fill < 65536, fill
        return base[:-2] + fill.to_bytes(2, "little") + b"c" * fill

    def test_a_body_at_the_limit_is_taken(self):
        self.assertNotEqual(413, put(self.daemon, "/v1/convert/mlx/m.pt", self.model(LIMIT))[0])
        self.assertNotEqual(413, put(self.daemon, "/v1/convert/mlx/m.pt", chunked([self.model(LIMIT)]))[0])

    def test_a_body_one_past_the_limit_is_refused(self):
        answer = put(self.daemon, "/v1/convert/mlx/m.pt", self.model(LIMIT + 1))
        self.assertIn("--max-upload", self.assert_problem(answer, 413, "body_too_large")["detail"])

    def test_a_chunked_body_one_past_the_limit_is_refused(self):
        pieces = [self.model(LIMIT + 1)[i:i + 4096] for i in range(0, LIMIT + 1, 4096)]
        self.assert_problem(put(self.daemon, "/v1/convert/mlx/m.pt", chunked(pieces)), 413, "body_too_large")

    def test_curl_gets_the_answer_to_a_chunked_body_that_is_too_large(self):
        path = self.file("m.pt", self.model(LIMIT) + bytes(500000))
        code, files, _ = self.curl("--fail-with-body", "-OJT", path, "-H", "Transfer-Encoding: chunked",
                                   f"{self.daemon.base}/v1/convert/mlx/")
        self.assertEqual(22, code)
        self.assertEqual("body_too_large", json.loads(files["ckptd-error.json"])["code"])

    def test_a_refused_body_without_end_is_cut(self):
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
        sent = 0
        with self.assertRaises(OSError):
            while sent < 100 << 20:
                sock.sendall(chunk)
                sent += 65536
        # The limit, what is swallowed, and what the kernel holds on both sides.
        self.assertLess(sent, 40 << 20)
        self.assert_alive()


class LeavingTest(DaemonTest):
    def test_a_client_gone_in_the_middle_leaves_nothing(self):
        before = len(self.daemon.temporary_files())
        sock = self.daemon.socket()
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n")
        sock.sendall(linear_model())
        sock.sendall(bytes(5 << 20))
        self.assertTrue(wait_until(lambda: len(self.daemon.temporary_files()) == before + 1))
        sock.close()
        self.assertTrue(wait_until(lambda: len(self.daemon.temporary_files()) == before))
        self.assertEqual([], os.listdir(os.path.join(self.daemon.data, "tmp")))
        self.assert_alive()

    def test_a_client_gone_during_a_download_leaves_nothing(self):
        connection = self.daemon.connect()
        connection.request("PUT", "/v1/convert/mlx/m.pt", big_model(64))
        self.assertEqual(200, connection.getresponse().status)
        connection.close()
        self.assertTrue(wait_until(lambda: self.daemon.temporary_files() == []))


class WaitingTest(DaemonTest):
    FLAGS = ("--workers", 1)
    FAULT = "hang"

    def start(self, query=""):
        """A client that waits for its conversion."""
        sock = self.daemon.socket()
        model = linear_model()
        sock.sendall(f"PUT /v1/convert/mlx/m.pt{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(model)}\r\n\r\n".encode())
        sock.sendall(model)
        return sock

    def states(self):
        return sorted(job["state"] for job in self.daemon.ask("GET", "/v1/jobs")[2]["jobs"])

    def test_a_client_that_leaves_keeps_its_job_unless_it_asked_otherwise(self):
        keeping, leaving = self.start("?fresh=true"), self.start("?fresh=true&cancel_on_disconnect=true")
        self.assertTrue(wait_until(lambda: self.states() == ["queued", "running"]))
        keeping.close()
        leaving.close()
        self.assertTrue(wait_until(lambda: "cancelled" in self.states()))
        self.assertEqual(["cancelled", "running"], self.states())
        running = self.daemon.ask("GET", "/v1/jobs?state=running")[2]["jobs"][0]["id"]
        worker = self.daemon.children()
        self.assertEqual(202, self.daemon.request("POST", f"/v1/jobs/{running}/cancel")[0])
        self.assertTrue(wait_until(lambda: self.states() == ["cancelled", "cancelled"]))
        self.assertTrue(wait_until(lambda: self.daemon.temporary_files() == []))
        self.assertFalse(os.path.exists(f"/proc/{worker[0]}"))

    def test_a_running_job_ends_with_its_client_if_that_is_wanted(self):
        sock = self.start("?cancel_on_disconnect=true")
        self.assertTrue(wait_until(lambda: self.daemon.children()))
        sock.close()
        self.assertTrue(wait_until(lambda: self.daemon.children() == []))
        self.assertTrue(wait_until(lambda: self.daemon.temporary_files() == []))
        self.assertTrue(wait_until(lambda: self.daemon.log_lines("job")[-1]["state"] == "cancelled"))


class SilenceTest(DaemonTest):
    FLAGS = ("--upload-timeout", 1)

    def test_a_silent_client_is_told_and_given_up(self):
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nPK\x03\x04")
        answer = read_answer(sock)
        self.assertIn("--upload-timeout", self.assert_problem(answer, 408, "body_stalled")["detail"])
        self.assertTrue(wait_until(lambda: self.daemon.temporary_files() == []))
        self.assertTrue(wait_until(lambda: [line["status"] for line in self.daemon.log_lines("request")] == [408]))

    def test_a_slow_client_is_not_silent(self):
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        model = linear_model()
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(model))
        for i in range(6):
            sock.sendall(model[i * 100:(i + 1) * 100])
            time.sleep(0.4)
        sock.sendall(model[600:])
        self.assertEqual(200, read_answer(sock)[0])


class CrowdTest(DaemonTest):
    FLAGS = ("--workers", 2)

    def test_slow_uploads_do_not_disturb_others(self):
        stop = threading.Event()
        slow = []

        def drip():
            sock = self.daemon.socket()
            sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
                         + linear_model()[:1000])
            slow.append(sock)
            while not stop.wait(0.1):
                sock.sendall(bytes(100))
            sock.close()

        threads = [threading.Thread(target=drip) for _ in range(20)]
        for thread in threads:
            thread.start()
        self.addCleanup(lambda: [stop.set()] + [thread.join() for thread in threads])
        self.assertTrue(wait_until(lambda: len(slow) == 20))
        begin = time.monotonic()
        for _ in range(5):
            self.assertEqual(200, put(self.daemon, "/v1/convert/mlx/m.pt", linear_model())[0])
        self.assertLess(time.monotonic() - begin, 20)

    def test_a_hundred_uploads_at_once_are_all_served(self):
        answers = []

        def one(i):
            answers.append(put(self.daemon, f"/v1/convert/mlx/m{i}.pt", linear_model())[0])

        threads = [threading.Thread(target=one, args=(i,)) for i in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([200] * 100, answers)


class QueueTest(DaemonTest):
    FLAGS = ("--workers", 1, "--queue", 1)
    FAULT = "hang"

    def test_one_more_than_the_queue_holds_is_told_to_come_back(self):
        socks = []
        model = linear_model()
        for _ in range(2):
            sock = self.daemon.socket()
            self.addCleanup(sock.close)
            sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(model))
            sock.sendall(model)
            socks.append(sock)
        states = lambda: sorted(job["state"] for job in self.daemon.ask("GET", "/v1/jobs")[2]["jobs"])
        self.assertTrue(wait_until(lambda: states() == ["queued", "running"]))
        answer = put(self.daemon, "/v1/convert/mlx/m.pt", model)
        self.assertIn("--queue", self.assert_problem(answer, 429, "queue_full")["detail"])
        self.assertRegex(answer[1]["Retry-After"], r"^\d+$")
        self.assert_alive()


class SpaceTest(DaemonTest):
    FLAGS = ("--min-free", "1000000G")

    def test_too_little_free_space_refuses_on_the_head_and_is_not_ready(self):
        answer = put(self.daemon, "/v1/convert/mlx/m.pt", linear_model())
        self.assertIn("--min-free", self.assert_problem(answer, 507, "storage_full")["detail"])
        status, _, body = self.daemon.request("GET", "/readyz")
        self.assertEqual(503, status)
        self.assertIn(b"[-] space", body)
        self.assert_alive()


class FullDiskTest(unittest.TestCase):
    assert_problem = DaemonTest.assert_problem

    def setUp(self):
        self.mount = tempfile.mkdtemp(prefix="ckptd-disk-")
        self.addCleanup(os.rmdir, self.mount)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.mount], capture_output=True)
        if done.returncode != 0:
            self.skipTest("a small file system can only be mounted by root: " + done.stderr.decode().strip())
        self.addCleanup(subprocess.run, ["umount", self.mount], check=True)
        self.daemon = Daemon(data=os.path.join(self.mount, "data"))
        self.addCleanup(self.daemon.close)

    def test_a_full_disk_is_told_on_the_head_if_the_length_is_known(self):
        answer = put(self.daemon, "/v1/convert/mlx/m.pt", big_model(6))
        self.assert_problem(answer, 507, "storage_full")

    def test_a_disk_that_fills_up_during_the_upload_is_told(self):
        model = big_model(6)
        pieces = [model[i:i + 65536] for i in range(0, len(model), 65536)]
        self.assert_problem(put(self.daemon, "/v1/convert/mlx/m.pt", chunked(pieces)), 507, "storage_full")
        self.assertTrue(wait_until(lambda: self.daemon.temporary_files() == []))

    def test_a_disk_that_fills_up_during_the_conversion_is_told(self):
        self.assert_problem(put(self.daemon, "/v1/convert/mlx/m.pt", big_model(3)), 507, "storage_full")
        self.assertTrue(wait_until(lambda: self.daemon.temporary_files() == []))
        self.assertEqual(200, put(self.daemon, "/v1/convert/mlx/m.pt", linear_model())[0])


if __name__ == "__main__":
    unittest.main()
