"""The commands for operators: healthcheck, key, tables, and serve --print-config, --check-config."""

import hashlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from support import BINARY, PATIENCE, ROOT


def run(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CKPTD_")}
    environment.update(variables)
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, env=environment)


class Server:
    """Takes one connection, keeps the request and answers with these pieces, a pause behind each."""

    def __init__(self, *pieces, pause=0.0, host="127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.create_server((host, 0), family=family)
        self.port = self.socket.getsockname()[1]
        self.request = b""
        self.thread = threading.Thread(target=self._serve, args=(pieces, pause), daemon=True)
        self.thread.start()

    def _serve(self, pieces, pause):
        connection, _ = self.socket.accept()
        with connection:
            self.request = connection.recv(4096)
            try:
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(pause)
            except OSError:
                pass

    def close(self):
        self.socket.close()


class Healthcheck(unittest.TestCase):
    def serve(self, *pieces, **how):
        server = Server(*pieces, **how)
        self.addCleanup(server.close)
        return server

    def test_200_is_healthy_and_anything_else_is_one_line(self):
        for answer, status in ((b"HTTP/1.1 200 OK\r\n\r\n", 0), (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", 1),
                               (b"HTTP/1.1 2000 Odd\r\n\r\n", 1), (b"", 1), (b"SSH-2.0-OpenSSH\r\n", 1)):
            server = self.serve(answer)
            out = run("healthcheck", "--url", f"http://127.0.0.1:{server.port}/readyz")
            self.assertEqual(out.returncode, status, answer)
            self.assertEqual(out.stderr.count("\n"), status)
            self.assertTrue(server.request.startswith(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:"))

    def test_the_address_is_that_of_the_daemon_of_the_same_environment(self):
        for listen, host in (("127.0.0.1:{}", "127.0.0.1"), ("0.0.0.0:{}", "127.0.0.1"), ("localhost:{}", "127.0.0.1")):
            server = self.serve(b"HTTP/1.1 200 OK\r\n\r\n", host=host)
            out = run("healthcheck", CKPTD_LISTEN=listen.format(server.port))
            self.assertEqual((out.returncode, out.stderr), (0, ""))
            self.assertTrue(server.request.startswith(b"GET /livez "))

    @unittest.skipUnless(os.path.exists("/proc/net/if_inet6") and pathlib.Path("/proc/net/if_inet6").read_text(), "no IPv6 here")
    def test_ipv6_is_asked_at_home(self):
        server = self.serve(b"HTTP/1.1 200 OK\r\n\r\n", host="::1")
        out = run("healthcheck", CKPTD_LISTEN=f"[::]:{server.port}")
        self.assertEqual((out.returncode, out.stderr), (0, ""))
        self.assertIn(f"Host: [::1]:{server.port}".encode(), server.request)

    def test_silence_and_drops_end_with_the_timeout(self):
        for server in (self.serve(b"", pause=30), self.serve(*[b"x"] * 60, pause=0.5)):
            begin = time.monotonic()
            out = run("healthcheck", f"--url=http://127.0.0.1:{server.port}/", "--timeout=1")
            self.assertEqual(out.returncode, 1)
            self.assertIn("no answer in time", out.stderr)
            self.assertLess(time.monotonic() - begin, 15)

    def test_nobody_there_is_unhealthy(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        out = run("healthcheck", "--url", f"http://127.0.0.1:{port}/livez")
        self.assertEqual(out.returncode, 1)
        self.assertIn("refused", out.stderr)

    def test_wrong_arguments_are_2(self):
        for arguments in (["--url"], ["--url", "https://x/"], ["--url", "http:///x"], ["--url", "http://h:99999999/"],
                          ["--url", "http://h/a b"], ["--timeout", "0"], ["--timeout", "3601"], ["--timeout", "x"], ["now"]):
            self.assertEqual(run("healthcheck", *arguments).returncode, 2, arguments)


class Key(unittest.TestCase):
    def test_the_line_holds_the_digest_of_the_key_that_is_shown_once(self):
        out = run("key", "alice", "--scopes", "read,metrics")
        key = re.fullmatch(r"key for alice, shown once: (ckptd_[0-9a-f]{64})\n", out.stderr)[1]
        self.assertEqual(out.stdout, f"alice {hashlib.sha256(key.encode()).hexdigest()} read,metrics\n")
        self.assertNotEqual(out.stdout, run("key", "alice", "--scopes=read,metrics").stdout)

    def test_what_the_file_would_refuse_is_refused(self):
        for arguments in ([], ["a b"], ["a", "b"], ["a", "--scopes"], ["a", "--scopes", "admin"], ["a", "--scopes="], ["n" * 65]):
            out = run("key", *arguments)
            self.assertEqual((out.returncode, out.stdout), (2, ""), arguments)


class Config(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ckptd-test-")
        self.addCleanup(self.folder.cleanup)
        self.data = os.path.join(self.folder.name, "data")

    def file(self, name, text):
        path = os.path.join(self.folder.name, name)
        pathlib.Path(path).write_text(text)
        return path

    def test_what_is_printed_is_a_file_for_the_same_settings(self):
        first = run("serve", "--print-config", "--queue=7", "--data", self.data, CKPTD_MAX_FILES="9").stdout
        self.assertIn("\nqueue = 7 # flag\n", first)
        self.assertIn("\nmax_files = 9 # environment\n", first)
        second = run("serve", "--print-config", "--config", self.file("config", first)).stdout
        values = [re.findall(r"^(\w+ = .*) # \w+$", text, re.MULTILINE) for text in (first, second)]
        self.assertGreater(len(values[0]), 40)
        self.assertEqual(values[0], values[1])
        self.assertFalse(os.path.exists(self.data))

    def test_a_check_says_ok_or_what_is_wrong(self):
        keys = self.file("keys", run("key", "alice").stdout)
        open_to_all = ["--data", self.data, "--listen", "0.0.0.0:8080"]
        for arguments, status in ((["--data", self.data], 0), (open_to_all, 2), ([*open_to_all, "--insecure"], 0),
                                  ([*open_to_all, "--keys-file", keys], 0), (["--data", self.data + "/a/b"], 2),
                                  (["--data", self.data, "--keys-file", self.file("bad", "alice\n")], 2), (["--queue", "x"], 2),
                                  (["--config", self.file("worse", "\nquue = 1\n")], 2)):
            out = run("serve", "--check-config", *arguments)
            self.assertEqual((out.returncode, out.stdout), (status, "" if status else "ok\n"), arguments)
            self.assertEqual(bool(out.stderr), bool(status))
        self.assertIn("worse:2: unknown setting \"quue\"; did you mean queue?", out.stderr)


class Tables(unittest.TestCase):
    def test_the_tables_are_json_and_whole(self):
        tables = json.loads(run("tables").stdout)
        self.assertEqual(set(tables), {"errors", "settings", "limits", "options", "targets", "metrics", "routes", "scopes"})
        self.assertIn("ambiguous_layout", [row["name"] for row in tables["errors"]])
        for table, rows in tables.items():
            names = [(row["method"], row["pattern"]) if table == "routes" else row["name"] for row in rows]
            self.assertEqual(len(names), len(set(names)), table)

    def test_the_documentation_is_up_to_date(self):
        out = subprocess.run([ROOT / "scripts/generate_tables.py", "--check", "--binary", BINARY], capture_output=True, text=True,
                             timeout=PATIENCE)
        self.assertEqual((out.returncode, out.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
