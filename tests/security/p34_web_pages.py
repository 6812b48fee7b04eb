"""P34: a web page cannot drive a local server. The server is open here (no token), because that is when only Host,
Origin and the content type stand between a page and the sandboxes."""

import live_server
from live_server import UPGRADE, Attack, filled, operations

FOREIGN_HOSTS = ("evil.example", "evil.example:8080", "localhost.evil.example", "localhost@evil.example",
                 "127.0.0.1.nip.io", "127.0.0.1:80:80", "localhost:", "[::1", "localhost evil", "",
                 ".", "localhost.", "2130706433")
FOREIGN_ORIGINS = ("null", "http://evil.example", "https://evil.example:8080", "http://localhost", "http://localhost:1",
                   "file://", "http://localhost.evil.example", "http://127.0.0.1", "garbage", "chrome-extension://abc",
                   "http://localhost@evil.example")


class WebPages(Attack):
    flags = ("--open",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.box = cls.server.sandbox(None)

    def send(self, method, path, host=None, headers=(), body=b""):
        """Every header as it stands here, Host too."""
        host = f"localhost:{self.server.port}" if host is None else host
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [] if any(name == "Connection" for name, _ in headers) else ["Connection: close"]
        answer = self.server.raw("\r\n".join([*lines, "", ""]).encode() + body, until=b"\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 "), answer)
        self.assertNotIn(b"access-control-", answer.lower())
        return int(answer.split()[1])

    def living(self):
        return len(self.server.call("GET", "/api/v1/sandboxes").json()["sandboxes"])

    def test_an_honest_request_is_answered(self):
        """Otherwise the refusals below would say nothing."""
        for host in (f"localhost:{self.server.port}", f"127.0.0.1:{self.server.port}"):
            self.assertEqual(self.send("GET", "/api/v1/sandboxes", host), 200)
            self.assertEqual(self.send("GET", "/api/v1/sandboxes", host, [("Origin", f"http://{host}")]), 200)

    def test_a_foreign_host_is_refused_on_every_route(self):
        for method, path, operation in operations():
            with self.subTest(operation=operation["operationId"]):
                self.assertEqual(self.send(method, filled(path, self.box), "evil.example"), 421)
        self.assertEqual(self.send("GET", f"/api/v1/sandboxes/{self.box}"), 200)

    def test_a_foreign_host_has_no_console_and_no_agents(self):
        self.assertEqual(self.send("GET", "/"), 200)
        for path in ("/", "/assets/none.js", "/mcp", "/preview/open", "/sandboxes"):
            with self.subTest(path=path):
                self.assertEqual(self.send("GET", path, "evil.example"), 421)

    def test_a_host_that_only_looks_like_ours_is_refused(self):
        for host in FOREIGN_HOSTS:
            with self.subTest(host=host):
                self.assertIn(self.send("GET", "/api/v1/sandboxes", host), (400, 421))
        answer = self.server.raw(b"GET /api/v1/sandboxes HTTP/1.1\r\nConnection: close\r\n\r\n")
        self.assertTrue(answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421")), answer)
        answer = self.server.raw(b"GET /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n"
                                 b"Connection: close\r\n\r\n")
        self.assertTrue(answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421")), answer)

    def test_a_foreign_origin_is_refused_on_every_route(self):
        for method, path, operation in operations():
            with self.subTest(operation=operation["operationId"]):
                self.assertEqual(self.send(method, filled(path, self.box), None, [("Origin", "null")]), 403)
        self.assertEqual(self.send("GET", f"/api/v1/sandboxes/{self.box}"), 200)

    def test_each_foreign_origin_is_refused(self):
        before = self.living()
        for origin in FOREIGN_ORIGINS:
            with self.subTest(origin=origin):
                fields = [("Origin", origin), ("Content-Type", "application/json")]
                self.assertIn(self.send("POST", "/api/v1/sandboxes", None, fields, b"{}"), (400, 403))
        own = f"http://localhost:{self.server.port}"
        twice = [("Origin", own), ("Origin", "http://evil.example"), ("Content-Type", "application/json")]
        self.assertIn(self.send("POST", "/api/v1/sandboxes", None, twice, b"{}"), (400, 403))
        self.assertEqual(self.living(), before)

    def test_a_socket_of_a_foreign_page_is_refused(self):
        for path in ("exec", "terminal"):
            for origin in FOREIGN_ORIGINS:
                fields = [*UPGRADE.items(), ("Origin", origin)]
                status = self.send("GET", f"/api/v1/sandboxes/{self.box}/{path}", None, fields)
                self.assertIn(status, (400, 403), (path, origin))
            status = self.send("GET", f"/api/v1/sandboxes/{self.box}/{path}", "evil.example", UPGRADE.items())
            self.assertEqual(status, 421)

    def test_a_preflight_gets_no_permission(self):
        for path in ("/api/v1/sandboxes", f"/api/v1/sandboxes/{self.box}/exec",
                     f"/api/v1/sandboxes/{self.box}/ports/8000/"):
            fields = [("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST"),
                      ("Access-Control-Request-Headers", "authorization,content-type")]
            self.assertIn(self.send("OPTIONS", path, None, fields), (403, 404, 405))

    def test_what_a_form_can_send_is_refused(self):
        """Even without an Origin, as old browsers do."""
        before = self.living()
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "",
                     "text/plain;application/json", "application/json-patch+json", "application/jsonx"):
            for path, body in (("/api/v1/sandboxes", b'{"name":"x"}'),
                               (f"/api/v1/sandboxes/{self.box}/exec", b'{"command":"id >/workspace/owned"}'),
                               ("/api/v1/tokens", b'{"scopes":["admin"]}')):
                with self.subTest(kind=kind, path=path):
                    fields = [("Content-Type", kind)] if kind else []
                    self.assertEqual(self.send("POST", path, None, fields, body), 415)
        self.assertEqual(self.living(), before)
        self.assertEqual(self.server.run(None, self.box, "ls -A")["stdout"], "")

    def test_no_answer_sets_a_cookie_or_may_be_framed_as_html(self):
        for method, path, operation in operations():
            if method != "GET" or "{" in path or operation["operationId"] == "streamEvents":
                continue
            answer = self.server.call(method, path)
            self.assertIsNone(answer.header("Set-Cookie"))
            self.assertEqual(answer.header("X-Content-Type-Options"), "nosniff", path)
            if (answer.header("Content-Type") or "").startswith("text/html"):
                policy = answer.header("Content-Security-Policy") or ""
                self.assertIn("default-src 'none'", policy)
                self.assertNotIn("script-src 'unsafe-inline'", policy)


if __name__ == "__main__":
    live_server.main()
