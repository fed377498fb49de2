"""Keys: who may call what, how keys change, what the log shows."""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import tempfile
import unittest

from support import BINARY, PATIENCE, Daemon, DaemonTest, digest_of, linear_model, wait_until

SCOPES = ("read", "submit", "delete", "metrics")
UNKNOWN_JOB = "/v1/jobs/01a00000-0000-7000-8000-000000000000"
UNKNOWN_BLOB = "/v1/blobs/sha256:" + "0" * 64

# method, path, scope that opens it, status then
DOORS = (("GET", "/v1/jobs", "read", 200), ("GET", UNKNOWN_JOB, "read", 404), ("GET", UNKNOWN_JOB + "/results", "read", 404),
         ("GET", UNKNOWN_JOB + "/results.zip", "read", 404), ("GET", UNKNOWN_JOB + "/report", "read", 404), ("GET", UNKNOWN_BLOB, "read", 404),
         ("HEAD", UNKNOWN_BLOB, "read", 404), ("GET", "/v1/matrix", "read", 200), ("GET", "/v1/capabilities", "read", 200),
         ("PUT", "/v1/convert/mlx/m.pt", "submit", 422), ("POST", "/v1/analyze", "submit", 422), ("POST", "/v1/jobs", "submit", 400),
         ("POST", "/v1/blobs", "submit", 422), ("POST", UNKNOWN_JOB + "/retry", "submit", 404),
         ("POST", UNKNOWN_JOB + "/cancel", "delete", 404), ("DELETE", UNKNOWN_JOB, "delete", 404), ("DELETE", UNKNOWN_BLOB, "delete", 404),
         ("GET", "/metrics", "metrics", 200))
OPEN = ("/", "/livez", "/readyz", "/startupz", "/healthz", "/version", "/openapi.yaml", "/openapi.json")


class Keys:
    """A keys file, written as the operator would."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "keys")
        self.texts, self.lines = {}, []

    def add(self, name, scopes=""):
        self.texts[name] = secrets.token_hex(16)
        self.lines.append(self.line(name, scopes))
        self.write(self.lines)

    def line(self, name, scopes=""):
        return f"{name} {hashlib.sha256(self.texts[name].encode()).hexdigest()} {scopes}".rstrip()

    def write(self, lines):
        with open(self.path, "w") as file:
            file.write("# keys\n\n" + "\n".join(lines) + "\n")
        os.chmod(self.path, 0o600)


class KeysTest(DaemonTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ckptd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.keys = Keys(folder.name)
        cls.keys.add("all")
        for scope in SCOPES:
            cls.keys.add("only-" + scope, scope)
        cls.FLAGS = ("--keys-file", cls.keys.path)
        super().setUpClass()

    def call(self, method, path, name=None, **headers):
        if name:
            headers["Authorization"] = "Bearer " + self.keys.texts[name]
        return self.daemon.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})

    def test_without_a_key_nothing_is_opened_and_nothing_told(self):
        for method, path, _, _ in DOORS + (("GET", "/v1/nothing", "read", 404), ("PUT", "/v1/matrix", "read", 405)):
            with self.subTest(f"{method} {path}"):
                status, headers, raw = self.call(method, path)
                self.assertEqual((401, "Bearer"), (status, headers["WWW-Authenticate"]))
                if method != "HEAD":
                    self.assertEqual("unauthenticated", json.loads(raw)["code"])
        self.assertEqual(404, self.call("GET", "/v1/nothing", "all")[0])

    def test_what_is_no_key_is_none(self):
        right = self.keys.texts["all"]
        for value in ("Bearer wrong", "Bearer", "Bearer ", f"Basic {right}", right, f"Bearer {right}x", f"Bearer {right[:-1]}", "Bearer " + "x" * 600,
                      "Bearer " + hashlib.sha256(right.encode()).hexdigest()):
            with self.subTest(value):
                self.assert_refused(self.call("GET", "/v1/jobs", Authorization=value), 401, "unauthenticated")
        self.assert_refused(self.call("GET", "/v1/jobs", X_API_Key="wrong"), 401, "unauthenticated")
        self.assert_refused(self.call("GET", "/v1/jobs", Authorization="Bearer wrong", X_API_Key=right), 401, "unauthenticated")

    def test_both_headers_are_taken(self):
        self.assertEqual(200, self.call("GET", "/v1/jobs", "all")[0])
        self.assertEqual(200, self.call("GET", "/v1/jobs", Authorization="bearer " + self.keys.texts["all"])[0])
        self.assertEqual(200, self.call("GET", "/v1/jobs", X_API_Key=self.keys.texts["all"])[0])

    def test_each_path_asks_for_its_scope(self):
        for method, path, scope, status in DOORS:
            for own in SCOPES:
                with self.subTest(f"{method} {path} {own}"):
                    answer = self.call(method, path, "only-" + own)
                    self.assertEqual(status if own == scope else 403, answer[0], answer[2])
                    if own != scope and method != "HEAD":
                        self.assertEqual("forbidden", json.loads(answer[2])["code"])
            self.assertEqual(status, self.call(method, path, "all")[0])

    def test_probes_and_the_contract_are_open(self):
        for path in OPEN:
            self.assertEqual(200, self.call("GET", path)[0], path)
        self.assertIn(b"Authorization", self.call("GET", "/")[2])
        self.assertEqual("bearer", json.loads(self.call("GET", "/v1/capabilities", "all")[2])["auth"])

    def test_the_upload_of_a_stranger_is_not_read(self):
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\nExpect: 100-continue\r\n\r\n")
        self.assertTrue(sock.recv(1000).startswith(b"HTTP/1.1 401 "))

    def test_curl_shows_its_key(self):
        path = self.file("net.pt", linear_model())
        for header in ("Authorization: Bearer ", "X-API-Key: "):
            _, files, _ = self.curl("-fOJT", path, "-H", header + self.keys.texts["only-submit"], f"{self.daemon.base}/v1/convert/mlx/", expect=0)
            self.assertEqual(["net.mlx.zip"], list(files))

    def test_the_log_shows_the_name_and_never_the_key(self):
        self.call("GET", "/v1/jobs", "only-read", X_Request_Id="logged.1")
        self.call("GET", "/v1/jobs", Authorization="Bearer guessed-secret", X_Request_Id="logged.2")
        wait_until(lambda: len([line for line in self.daemon.log_lines("request") if line["request_id"].startswith("logged.")]) == 2)
        lines = {line["request_id"]: line for line in self.daemon.log_lines("request")}
        self.assertEqual(("only-read", 200), (lines["logged.1"]["caller"], lines["logged.1"]["status"]))
        self.assertEqual(("", "unauthenticated"), (lines["logged.2"]["caller"], lines["logged.2"]["code"]))
        text = self.daemon.log_text()
        for secret in [*self.keys.texts.values(), "guessed-secret", *(hashlib.sha256(t.encode()).hexdigest() for t in self.keys.texts.values())]:
            self.assertNotIn(secret, text)

    def test_two_keys_in_one_request_are_refused(self):
        sock = self.daemon.socket()
        self.addCleanup(sock.close)
        line = f"Authorization: Bearer {self.keys.texts['all']}\r\n".encode()
        sock.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n" + line * 2 + b"\r\n")
        self.assertTrue(sock.recv(1000).startswith(b"HTTP/1.1 400 "))


class ReloadTest(DaemonTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ckptd-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.keys = Keys(folder.name)
        cls.keys.add("first")
        cls.FLAGS = ("--keys-file", cls.keys.path)
        super().setUpClass()

    def status(self, name):
        return self.daemon.request("GET", "/v1/jobs", headers={"X-API-Key": self.keys.texts[name]})[0]

    def hangup(self, message):
        before = len(self.daemon.log_lines(message))
        self.daemon.process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_until(lambda: len(self.daemon.log_lines(message)) > before))

    def test_a_hangup_reads_the_file_again_and_a_bad_file_changes_nothing(self):
        self.keys.add("second")
        self.assertEqual((200, 401), (self.status("first"), self.status("second")))
        self.hangup("keys read")
        self.assertEqual((200, 200), (self.status("first"), self.status("second")))
        self.keys.write([self.keys.line("second")])
        self.hangup("keys read")
        self.assertEqual((401, 200), (self.status("first"), self.status("second")))
        self.keys.write(["this is no line of keys"])
        self.hangup("the keys stay as they were")
        self.assertEqual((401, 200), (self.status("first"), self.status("second")))


class ListenTest(unittest.TestCase):
    def test_an_address_that_others_reach_needs_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([BINARY, "serve", "--listen", "0.0.0.0:0", "--data", folder], capture_output=True, timeout=PATIENCE, text=True)
            self.assertEqual(2, done.returncode)
            self.assertIn("--keys-file", done.stderr)
            keys = Keys(folder)
            keys.add("all")
            daemon = Daemon("--listen", "0.0.0.0:0", "--keys-file", keys.path)
            self.addCleanup(daemon.close)
            self.assertEqual(401, daemon.request("GET", "/v1/jobs", headers={"Host": "ckptd.internal"})[0])
            answer = daemon.request("POST", "/v1/blobs", linear_model(), {"Host": "ckptd.internal", "X-API-Key": keys.texts["all"]})
            self.assertEqual((201, digest_of(linear_model())), (answer[0], json.loads(answer[2])["digest"]))

    def test_a_bad_file_ends_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = Keys(folder)
            for lines in (["a b"], [f"a {'0' * 64} admin"], [f"a {'0' * 64}", f"a {'1' * 64}"]):
                keys.write(lines)
                done = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--data", folder + "/data", "--keys-file", keys.path],
                                      capture_output=True, timeout=PATIENCE, text=True)
                self.assertNotEqual(0, done.returncode, lines)
                self.assertIn(keys.path, done.stderr)


if __name__ == "__main__":
    unittest.main()
