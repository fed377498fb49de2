"""Health, version, help; unknown paths and methods; who may call."""

import json
import unittest

from support import DaemonTest, linear_model, put


class RoutesTest(DaemonTest):
    def test_livez_is_ok(self):
        status, headers, body = self.daemon.request("GET", "/livez")
        self.assertEqual((200, b"ok\n", "no-store"), (status, body, headers["Cache-Control"]))

    def test_readyz_is_ok_and_lists_its_checks(self):
        self.assertEqual((200, b"ok\n"), self.daemon.request("GET", "/readyz")[::2])
        body = self.daemon.request("GET", "/readyz?verbose")[2].decode()
        for check in ("draining", "space", "workers", "store"):
            self.assertIn(f"[+] {check}: ok", body)

    def test_version_is_json(self):
        status, headers, body = self.daemon.request("GET", "/version")
        self.assertEqual((200, "application/json"), (status, headers["Content-Type"]))
        document = json.loads(body)
        self.assertEqual("ckptd", document["name"])
        self.assertTrue(document["version"])
        self.assertEqual(document["version"], headers["X-Ckptd-Version"])

    def test_help_shows_the_one_liner_with_the_host_it_was_called_by(self):
        body = self.daemon.request("GET", "/", headers={"Host": f"localhost:{self.daemon.port}"})[2].decode()
        self.assertIn(f"curl -fOJT model.pt http://localhost:{self.daemon.port}/v1/convert/mlx/q4/", body)

    def test_head_is_get_without_a_body(self):
        for path in ("/", "/livez", "/readyz", "/version"):
            with self.subTest(path):
                length = self.daemon.request("GET", path)[1]["Content-Length"]
                status, headers, body = self.daemon.request("HEAD", path)
                self.assertEqual((200, b"", length), (status, body, headers["Content-Length"]))

    def test_an_unknown_path_is_answered_with_the_nearest(self):
        for path, near in (("/livz", "/livez"), ("/v1/covert/mlx/", "/v1/convert/"), ("/readyz/", "/readyz")):
            with self.subTest(path):
                status, headers, body = self.daemon.request("GET", path)
                document = json.loads(body)
                self.assertEqual((404, "not_found"), (status, document["code"]))
                self.assertIn(near, document["hint"])
        self.assert_problem(put(self.daemon, "/v1/covert/mlx/m.pt", linear_model()), 404, "not_found")

    def test_a_wrong_method_is_told_the_right_ones(self):
        answer = self.daemon.request("GET", "/v1/convert/mlx/m.pt")
        self.assert_problem(answer, 405, "method_not_allowed")
        self.assertEqual("PUT, POST", answer[1]["Allow"])
        answer = put(self.daemon, "/livez", b"x")
        self.assert_problem(answer, 405, "method_not_allowed")
        self.assertEqual("GET, HEAD", answer[1]["Allow"])
        self.assert_problem(self.daemon.request("DELETE", "/v1/convert/mlx/"), 405, "method_not_allowed")

    def test_get_requests_keep_their_connection(self):
        connection = self.daemon.connect()
        self.addCleanup(connection.close)
        for path in ("/livez", "/nothing", "/version", "/v1/convert/mlx/"):
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            self.assertIsNotNone(connection.sock, path)


class GuardTest(DaemonTest):
    def test_a_foreign_host_is_refused(self):
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil", ""):
            with self.subTest(host):
                answer = put(self.daemon, "/v1/convert/mlx/m.pt", linear_model(), {"Host": host})
                self.assert_problem(answer, 403, "forbidden")
        self.assertEqual(403, self.daemon.request("GET", "/version", headers={"Host": "evil.example"})[0])

    def test_names_of_this_machine_are_taken(self):
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.8.8.8:99", "[::1]:8080", "ckptd.localhost"):
            with self.subTest(host):
                self.assertEqual(200, self.daemon.request("GET", "/livez", headers={"Host": host})[0])

    def test_a_foreign_origin_is_refused(self):
        for origin in ("http://evil.example", "null", f"http://localhost:{self.daemon.port + 1}", "file://", ""):
            with self.subTest(origin):
                headers = {"Host": f"localhost:{self.daemon.port}", "Origin": origin}
                self.assert_problem(put(self.daemon, "/v1/convert/mlx/m.pt", linear_model(), headers), 403, "forbidden")

    def test_the_own_origin_is_taken(self):
        host = f"localhost:{self.daemon.port}"
        self.assertEqual(200, self.daemon.request("GET", "/livez", headers={"Host": host, "Origin": "http://" + host})[0])


if __name__ == "__main__":
    unittest.main()
