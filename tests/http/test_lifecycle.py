"""Start and end of the daemon: settings, the data directory, draining."""

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from support import BINARY, PATIENCE, Daemon, DaemonTest, linear_model, put, wait_until


def serve(*flags, **variables):
    """Runs a daemon that is expected to refuse its settings: (exit status, stderr)."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CKPTD_")}
    environment.update(variables)
    done = subprocess.run([BINARY, "serve", *map(str, flags)], capture_output=True, timeout=PATIENCE, env=environment)
    return done.returncode, done.stderr.decode()


class SettingsTest(unittest.TestCase):
    def test_an_unknown_flag_is_answered_with_the_nearest(self):
        status, text = serve("--max-uplod", "1G")
        self.assertEqual(2, status)
        self.assertIn("--max-upload", text)

    def test_a_misspelt_variable_is_answered_with_the_nearest(self):
        status, text = serve(CKPTD_MAX_UPLAOD="1G")
        self.assertEqual(2, status)
        self.assertIn("CKPTD_MAX_UPLOAD", text)

    def test_wrong_values_are_refused(self):
        for flags in (("--workers", "0"), ("--workers", "many"), ("--max-upload", "1.5G"), ("--max-upload", "12Q"),
                      ("--upload-timeout", "1m"), ("--log-level", "loud"), ("--insecure=perhaps",), ("--listen", "8080"),
                      ("--listen", "127.0.0.1:99999"), ("--listen", "::1:80"), ("--limit-tensors", "0"), ("--workers",),
                      ("serve",)):
            with self.subTest(flags):
                status, text = serve(*flags)
                self.assertEqual(2, status, text)
                self.assertTrue(text.startswith("ckptd serve: "), text)

    def test_an_address_that_others_reach_needs_insecure(self):
        with tempfile.TemporaryDirectory() as folder:
            status, text = serve("--listen", "0.0.0.0:0", "--data", folder)
            self.assertEqual(2, status)
            self.assertIn("--insecure", text)
        daemon = Daemon("--listen", "0.0.0.0:0", "--insecure")
        self.addCleanup(daemon.close)
        self.assertEqual(200, daemon.request("GET", "/livez", headers={"Host": "ckptd.internal:8080"})[0])
        self.assertEqual(403, daemon.request("GET", "/livez", headers={"Host": "a.internal", "Origin": "http://b.internal"})[0])

    def test_help_lists_every_setting_and_limit(self):
        done = subprocess.run([BINARY, "serve", "--help"], capture_output=True, timeout=PATIENCE)
        self.assertEqual(0, done.returncode)
        for flag in (b"--listen", b"--worker-memory", b"--limit-zip-entries"):
            self.assertIn(flag, done.stdout)

    def test_commands(self):
        def run(*arguments):
            return subprocess.run([BINARY, *arguments], capture_output=True, timeout=PATIENCE)

        self.assertEqual(2, run().returncode)
        self.assertIn(b"serve", run("--help").stdout)
        self.assertEqual(run("version").stdout, run("--version").stdout)
        wrong = run("serv")
        self.assertEqual(2, wrong.returncode)
        self.assertIn(b"did you mean serve", wrong.stderr)

    def test_a_taken_port_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as taken, tempfile.TemporaryDirectory() as folder:
            status, text = serve("--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--data", folder)
        self.assertEqual(1, status)
        self.assertIn("--listen", text)


class DataDirectoryTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.close)

    def test_it_serves_one_daemon(self):
        status, text = serve("--listen", "127.0.0.1:0", "--data", self.daemon.data)
        self.assertEqual(1, status)
        self.assertIn(str(self.daemon.process.pid), text)

    def test_it_is_left_for_the_next_daemon(self):
        self.assertEqual(0, self.daemon.terminate())
        self.assertFalse(os.path.exists(os.path.join(self.daemon.data, "port")))
        with open(os.path.join(self.daemon.data, "tmp", "left-over"), "w") as file:
            file.write("x")
        second = Daemon(data=self.daemon.data)
        self.addCleanup(second.close)
        self.assertEqual([], os.listdir(os.path.join(self.daemon.data, "tmp")))

    def test_a_newer_schema_is_refused(self):
        self.daemon.terminate()
        with open(os.path.join(self.daemon.data, "version"), "w") as file:
            file.write("3\n")
        status, text = serve("--listen", "127.0.0.1:0", "--data", self.daemon.data)
        self.assertEqual(1, status)
        self.assertIn("schema 3", text)


class DrainTest(unittest.TestCase):
    assert_problem = DaemonTest.assert_problem

    def start(self, fault, *flags):
        """A daemon with one conversion running: (daemon, thread, list that gets the answer)."""
        daemon = Daemon(*flags, fault=fault)
        self.addCleanup(daemon.close)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(put(daemon, "/v1/convert/mlx/m.pt", linear_model())))
        thread.start()
        self.assertTrue(wait_until(lambda: daemon.children()))
        return daemon, thread, answers

    def test_a_running_job_is_finished(self):
        daemon, thread, answers = self.start("slow")
        daemon.process.send_signal(signal.SIGTERM)
        self.assertTrue(wait_until(lambda: daemon.log_lines("draining")))
        status, _, body = daemon.request("GET", "/readyz")
        self.assertEqual(503, status)
        self.assertIn(b"draining", body)
        self.assertEqual(200, daemon.request("GET", "/livez")[0])
        answer = put(daemon, "/v1/convert/mlx/m.pt", linear_model())
        self.assert_problem(answer, 503, "draining")
        self.assertRegex(answer[1]["Retry-After"], r"^\d+$")
        thread.join()
        self.assertEqual(200, answers[0][0])
        self.assertEqual(0, daemon.process.wait(PATIENCE))

    def test_a_job_beyond_the_grace_is_ended_and_told(self):
        daemon, thread, answers = self.start("hang", "--shutdown-grace", 1)
        begin = time.monotonic()
        self.assertEqual(0, daemon.terminate())
        self.assertLess(time.monotonic() - begin, 15)
        thread.join()
        self.assert_problem(answers[0], 503, "draining")

    def test_an_idle_daemon_leaves_at_once(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        connection = daemon.connect()  # an idle kept-alive connection must not hold it
        self.addCleanup(connection.close)
        connection.request("GET", "/livez")
        connection.getresponse().read()
        begin = time.monotonic()
        self.assertEqual(0, daemon.terminate())
        self.assertLess(time.monotonic() - begin, 5)

    def test_a_second_signal_leaves_now(self):
        daemon, thread, answers = self.start_ignoring("hang")
        daemon.process.send_signal(signal.SIGTERM)
        self.assertTrue(wait_until(lambda: daemon.log_lines("draining")))
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, daemon.process.wait(PATIENCE))
        thread.join()

    def start_ignoring(self, fault):
        daemon = Daemon(fault=fault)
        self.addCleanup(daemon.close)

        def run():
            try:
                put(daemon, "/v1/convert/mlx/m.pt", linear_model())
            except Exception:  # the connection breaks, by whatever error
                pass

        thread = threading.Thread(target=run)
        thread.start()
        self.assertTrue(wait_until(lambda: daemon.children()))
        return daemon, thread, None

    def test_an_upload_that_is_coming_in_does_not_hold_the_end_for_ever(self):
        daemon = Daemon("--shutdown-grace", 1)
        self.addCleanup(daemon.close)
        sock = daemon.socket()
        self.addCleanup(sock.close)
        sock.sendall(b"PUT /v1/convert/mlx/m.pt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nPK\x03\x04")
        self.assertTrue(wait_until(lambda: daemon.temporary_files()))
        self.assertEqual(0, daemon.terminate())


if __name__ == "__main__":
    unittest.main()
