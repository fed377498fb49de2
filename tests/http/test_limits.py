"""Each setting that bounds what clients can ask for, at the bound and one past. (What files can make a worker do: test_workers.py and the unit tests.)"""

import json
import os
import socket
import threading
import time
import unittest

from support import Daemon, DaemonTest, big_model, chunked, digest_of, linear_model, put, read_answer, torch_zip, wait_until

MODEL = linear_model()
TWO = torch_zip({f"t{i}.weight": ("float32", (2, 2), bytes(16)) for i in range(2)})
THREE = torch_zip({f"t{i}.weight": ("float32", (2, 2), bytes(16)) for i in range(3)})


class SizesTest(DaemonTest):
    FLAGS = ("--workers", 2, "--max-upload", 4096, "--max-json", 1024, "--max-wait", 2, "--max-discard", 100000, "--limit-tensors", 2)

    def spec(self, size):
        """A job's document of exactly that many bytes."""
        raw = json.dumps({"to": "mlx", "inputs": [{"name": "m.pt", "digest": self.daemon.store(TWO)}]}).encode()
        return raw + b" " * (size - len(raw))

    def post(self, raw):
        return self.daemon.request("POST", "/v1/jobs", raw, {"Content-Type": "application/json"})

    def test_max_upload(self):
        for send in (lambda raw: raw, lambda raw: chunked([raw])):
            self.assertIn(self.daemon.request("POST", "/v1/blobs", send(bytes(4096)))[0], (200, 201))
            answer = self.daemon.request("POST", "/v1/blobs", send(bytes(4097)))
            self.assertIn("--max-upload", self.assert_refused(answer, 413, "body_too_large")["detail"])
        self.assertEqual(404, self.daemon.request("HEAD", "/v1/blobs/" + digest_of(bytes(4097)))[0])

    def test_max_upload_of_a_form_counts_all_of_it(self):
        head = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="m"\r\n\r\n'
        tail = b"\r\n--xyz--\r\n"
        room = 4096 - len(head) - len(tail)
        for n, status in ((room, 201), (room + 1, 413)):
            answer = self.daemon.request("POST", "/v1/blobs", head + b"x" * n + tail, {"Content-Type": "multipart/form-data; boundary=xyz"})
            self.assertEqual(status, answer[0])

    def test_max_json(self):
        self.assertIn(self.post(self.spec(1024))[0], (200, 202))
        self.assertIn(self.post(chunked([self.spec(1024)]))[0], (200, 202))
        for body in (self.spec(1025), chunked([self.spec(1025)])):
            self.assertIn("--max-json", self.assert_refused(self.post(body), 413, "body_too_large")["detail"])

    def test_a_body_that_nobody_asked_for_is_bounded_as_well(self):
        self.assertEqual(200, self.daemon.request("GET", "/livez", bytes(1024))[0])
        self.assertIn("--max-json", self.assert_refused(self.daemon.request("GET", "/livez", bytes(1025)), 413, "body_too_large")["detail"])

    def test_max_wait(self):
        job = self.daemon.submit(TWO)
        self.assertEqual(200, self.daemon.request("GET", f"{job['href']}?wait=2")[0])
        for wait in ("3", "-1", "x", "99999999999999999999"):
            document = self.assert_refused(self.daemon.request("GET", f"{job['href']}?wait={wait}"), 400, "bad_option", "wait")
            self.assertIn("--max-wait", document["hint"])
        status, headers, _ = self.daemon.ask("POST", "/v1/jobs", json.loads(self.spec(200)), {"Prefer": "wait=3"})
        self.assertEqual("wait=2", headers["Preference-Applied"], "a preference is cut, not refused")

    def test_a_limit_of_the_file_is_told_with_its_setting(self):
        self.assertEqual(200, put(self.daemon, "/v1/convert/mlx/m.pt", TWO)[0])
        self.assertIn("--limit-tensors", self.assert_problem(put(self.daemon, "/v1/convert/mlx/m.pt", THREE), 422, "tensor_limit")["detail"])

    def discarded(self, n):
        """Bytes that are read of a refused upload of n bytes, whose length was not told."""
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(f"PUT /v1/convert/mlz/m.pt HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: of.{n}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        self.assert_problem(read_answer(sock), 400, "unsupported_target")
        try:
            for _ in range(n // 1000):
                sock.sendall(b"3e8\r\n" + bytes(1000) + b"\r\n")
            sock.sendall(b"0\r\n\r\n")
        except ConnectionError:
            pass
        found = lambda: [line for line in self.daemon.log_lines("request") if line["request_id"] == f"of.{n}"]
        self.assertTrue(wait_until(found))
        return found()[0]["bytes_in"]

    def test_max_discard(self):
        self.assertEqual(100000, self.discarded(100000))
        self.assertLess(self.discarded(20000000), 100000 + (1 << 16) + 1, "cut at the first piece beyond")

    def test_the_head_of_a_request_is_bounded(self):
        for n, taken in ((1000, True), (200000, False)):
            with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=10) as sock:
                sock.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * n + b"\r\n\r\n")
                try:
                    status = sock.recv(1000)[9:12]
                except ConnectionError:
                    status = b""
                self.assertEqual(taken, status == b"200", (n, status))
                self.assertIn(status, (b"200", b"431", b"413", b"400", b""))
        self.assert_alive()


class QueueTest(DaemonTest):
    """Two places in the queue and one worker."""
    FLAGS = ("--workers", 1, "--queue", 2, "--max-waiting", 2)
    FAULT = "hang@hang"

    def tearDown(self):
        for job in self.daemon.ask("GET", "/v1/jobs")[2]["jobs"]:
            self.daemon.request("DELETE", job["href"])
        super().tearDown()

    def fill(self, n):
        jobs = [self.daemon.submit(MODEL, name="hang.pt", fresh=True) for _ in range(n)]
        self.assertTrue(wait_until(lambda: self.daemon.job(jobs[0]["id"])["state"] == "running"))
        return jobs

    def test_queue(self):
        jobs = self.fill(3)
        spec = {"to": "mlx", "fresh": True, "inputs": [{"digest": digest_of(MODEL)}]}
        for answer in (self.daemon.request("POST", "/v1/jobs", json.dumps(spec), {"Content-Type": "application/json"}),
                       put(self.daemon, "/v1/convert/mlx/m.pt", MODEL), put(self.daemon, "/v1/analyze", MODEL)):
            document = self.assert_problem(answer, 429, "queue_full", download=False)
            self.assertIn("--queue", document["detail"])
            self.assertRegex(answer[1]["Retry-After"], r"^\d+$")
        self.assertIn(self.daemon.request("POST", "/v1/blobs", MODEL)[0], (200, 201), "what starts no job is taken")
        self.assertEqual(200, self.daemon.request("POST", f"{jobs[2]['href']}/cancel")[0])
        status, _, job = self.daemon.ask("POST", "/v1/jobs", spec)
        self.assertEqual((202, "queued"), (status, job["state"]), "a place is free again")

    def test_a_retry_takes_a_place_too(self):
        first = self.fill(1)[0]
        second = self.daemon.submit(MODEL, name="hang.pt", fresh=True)
        self.assertEqual(200, self.daemon.request("POST", f"{second['href']}/cancel")[0])
        for _ in range(2):
            self.daemon.submit(MODEL, name="hang.pt", fresh=True)
        self.assert_refused(self.daemon.request("POST", f"{second['href']}/retry"), 429, "queue_full")
        self.daemon.request("DELETE", first["href"])
        self.assertTrue(wait_until(lambda: self.daemon.request("POST", f"{second['href']}/retry")[0] == 202))

    def test_many_at_once_are_never_more_than_the_queue_holds(self):
        self.fill(1)
        spec = json.dumps({"to": "mlx", "fresh": True, "inputs": [{"name": "hang.pt", "digest": digest_of(MODEL)}]})
        statuses = []
        threads = [threading.Thread(target=lambda: statuses.append(self.daemon.request("POST", "/v1/jobs", spec)[0])) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([202, 202] + [429] * 18, sorted(statuses))

    def test_max_waiting(self):
        job = self.fill(1)[0]
        connections = [self.daemon.connect() for _ in range(2)]
        for connection in connections:
            self.addCleanup(connection.close)
            connection.request("GET", f"{job['href']}?wait=60")
        self.assertTrue(wait_until(lambda: self.daemon.metric("ckptd_http_requests_in_flight") == 3))
        time.sleep(0.2)
        begin = time.monotonic()
        self.assertEqual("running", self.daemon.job(job["id"], wait=60)["state"], "the third is answered at once")
        self.assertLess(time.monotonic() - begin, 10)
        self.daemon.request("POST", f"{job['href']}/cancel")
        for connection in connections:
            self.assertEqual("cancelled", json.loads(connection.getresponse().read())["state"])


class ConnectionsTest(DaemonTest):
    FLAGS = ("--max-connections", 8)

    def test_max_connections(self):
        connections = [self.daemon.connect(10) for _ in range(8)]
        for connection in connections:
            self.addCleanup(connection.close)
            connection.request("GET", "/livez")
            self.assertEqual(b"ok\n", connection.getresponse().read(), "each of the eight is served")
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=1) as sock:
            try:
                sock.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertEqual(b"", sock.recv(100), "the ninth is not")
            except (ConnectionError, TimeoutError):
                pass
        connections[0].close()
        self.assertTrue(wait_until(self.is_served))

    def is_served(self):
        try:
            return self.daemon.request("GET", "/livez")[0] == 200
        except OSError:
            return False


class TimesTest(unittest.TestCase):
    def start(self, *flags, fault=None):
        daemon = Daemon(*flags, fault=fault)
        self.addCleanup(daemon.close)
        return daemon

    def test_record_ttl(self):
        daemon = self.start("--record-ttl", 1, "--janitor-interval", 1)
        job = daemon.ended(daemon.submit(MODEL)["id"])
        self.assertTrue(wait_until(lambda: daemon.request("GET", job["href"])[0] == 404))
        self.assertTrue(wait_until(lambda: os.listdir(os.path.join(daemon.data, "jobs")) == []))

    def test_input_ttl(self):
        daemon = self.start("--input-ttl", 1, "--janitor-interval", 1, "--workers", 1, fault="hang")
        needed, idle = MODEL, linear_model(rows=3)
        daemon.submit(needed)
        daemon.store(idle)
        path = "/v1/blobs/" + digest_of(idle)
        self.assertTrue(wait_until(lambda: not os.path.exists(f"{daemon.data}/blobs/sha256/{digest_of(idle)[7:9]}/{digest_of(idle)[7:]}")))
        self.assertEqual(404, daemon.request("HEAD", path)[0])
        self.assertEqual(200, daemon.request("HEAD", "/v1/blobs/" + digest_of(needed))[0], "a job needs it")

    def test_max_data(self):
        daemon = self.start("--max-data", "3M", "--janitor-interval", 1)
        jobs = [daemon.ended(daemon.submit(big_model(1), fresh=True)["id"]) for _ in range(4)]
        # Its blob was used a moment ago and stays; of the results the oldest go.
        self.assertTrue(wait_until(lambda: daemon.job(jobs[1]["id"])["state"] == "expired"))
        self.assertEqual("expired", daemon.job(jobs[0]["id"])["state"])
        time.sleep(1.5)
        self.assertEqual("succeeded", daemon.job(jobs[3]["id"])["state"], "what fits stays")

    def test_memory_budget(self):
        daemon = self.start("--workers", 4, "--memory-budget", "300M", "--worker-memory", "200M", fault="slow")
        jobs = [daemon.submit(MODEL, fresh=True) for _ in range(3)]
        most = 0
        while any(daemon.job(job["id"])["state"] != "succeeded" for job in jobs):
            most = max(most, len(daemon.children()))
        self.assertEqual(2, most, "each is expected to take 128 MiB")

    def test_max_sync_wait(self):
        daemon = self.start("--max-sync-wait", 0, fault="slow,slow")
        self.assertEqual(200, put(daemon, "/v1/convert/mlx/m.pt", MODEL)[0], "0: without end")


if __name__ == "__main__":
    unittest.main()
