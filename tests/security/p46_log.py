"""P46: logs and errors tell nothing secret and cannot be forged."""

import json
import re
import urllib.parse

import live_server
from live_server import Attack

STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (trace|debug|info|warning|error) ")
FORGED = "2026-01-01T00:00:00.000Z info    forged-line"
INJECTIONS = [f"\n{FORGED}", f"\r\n{FORGED}", f"\x1b[2K\r{FORGED}", f"\u2028{FORGED}", f"\x85{FORGED}",
              f'" status=200 {FORGED}',
              f"\\n{FORGED}", "%0a" + FORGED, "\x1b]0;title\x07", "{}{0}%s"]


class Log(Attack):
    flags = ("--log-level", "trace")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.banner = len(cls.server.log())  # holds the first token, which is shown once and on purpose
        cls.token = cls.server.new_token("red", "read", "use", "create")["token"]
        cls.box = cls.server.sandbox(cls.token, env={"SECRET_IN_ENV": "canary-env-1"},
                                     files={"secret.txt": "canary-file-2"})

    def logged(self):
        return self.server.log()[self.banner:]

    def call(self, method, path, body=None, **more):
        return self.server.call(method, f"/api/v1/sandboxes/{self.box}{path}", body, self.token, **more)

    def use_secrets(self):
        self.call("POST", "/exec", {"command": "cat; echo canary-\"\"out-3; echo $X; exit 1", "stdin": "canary-stdin-4",
                                    "env": {"X": "canary-env-5"}})
        self.call("POST", "/exec", {"argv": ["/nowhere/at/all"], "env": {"X": "canary-env-5"},
                                    "stdin": "canary-stdin-4"})
        self.call("POST", "/exec", {"command": "true", "env": {"X=Y": "canary-env-5"}})
        self.call("POST", "/exec", b'{"command": "true", "stdin": "canary-stdin-4"',
                  headers={"Content-Type": "application/json"})
        self.call("PUT", "/files/secret.txt", b"canary-file-6")
        self.call("GET", "/files/secret.txt")
        self.call("POST", "/tools/execute",
                  {"tool": "file_write", "arguments": {"path": "x", "content": "canary-tool-7"}})
        self.call("GET", "/files/a?token=canary-query-8")
        self.call("GET", "/files/nothing", headers={"X-API-Key": "cais_canaryheader_9", "Cookie": "canary-cookie-10"})
        self.server.call("GET", "/api/v1/sandboxes", token="cais_aaaaaaaaaaaa_canarybad" + "b" * 41)
        self.server.call("POST", "/api/v1/tokens", {"scopes": ["read"], "label": "x"}, self.server.admin)

    def test_secrets_are_not_in_the_log(self):
        self.use_secrets()
        log = self.logged()
        self.assertIn("/exec", log)
        for secret in ("canary", self.token, self.token.split("_")[2], self.server.admin):
            self.assertNotIn(secret, log)

    def test_secrets_are_not_in_the_audit(self):
        self.use_secrets()
        rows = self.server.call("GET", "/api/v1/audit?limit=1000", token=self.server.admin).text
        self.assertIn(self.box, rows)
        for secret in ("canary-env", "canary-stdin", "canary-file", "canary-out", "canary-tool", "canary-cookie",
                       "canarybad", self.token.split("_")[2], self.server.admin.split("_")[2]):
            self.assertNotIn(secret, rows)

    def test_an_error_repeats_no_secret_and_no_inside(self):
        """An error names the field, but never a token, a variable's value or a path of the host."""
        answers = [
            self.call("POST", "/exec", {"argv": ["/nowhere"], "env": {"X": "canary-env-5"}, "stdin": "canary-stdin-4"}),
            self.call("POST", "/exec", {"command": "true", "env": {"X=Y": "canary-env-5"}}),
            self.call("POST", "/exec", {"command": "true", "env": {"X": "canary-env\0-5"}}),
            self.call("POST", "/exec", {"command": "true", "stdin": "canary-stdin-4", "stdin_encoding": "base64"}),
            self.call("GET", "/files/nothing"), self.call("GET", "/files//root/nothing"),
            self.call("PUT", "/files//usr/bin/sh", b"canary-file-6"),
            self.server.call("GET", "/api/v1/sandboxes", token="cais_aaaaaaaaaaaa_canarybad" + "b" * 41),
            self.server.call("GET", f"/api/v1/sandboxes?x={self.token}", token=self.token),
        ]
        for answer in answers:
            self.assertGreaterEqual(answer.status, 400, answer)
            error = answer.json()["error"]
            self.assertEqual(error["request_id"], answer.header("X-Request-Id"))
            for secret in ("canary", self.token, str(self.server.state), ".cc:", "caissond", "0x"):
                self.assertNotIn(secret, answer.text)

    def test_no_line_can_be_forged(self):
        for text in INJECTIONS:
            quoted = urllib.parse.quote(text.encode())
            for path in (f"/{quoted}", f"/files/{quoted}", f"/logs?{quoted}={quoted}", f"/processes/{quoted}"):
                self.assertGreaterEqual(self.call("GET", path).status, 400)
            self.call("POST", "/exec", {"argv": [text]})
            self.call("POST", "/exec", {"command": f"printf '%s' '{text}' >&2; exit 1", "workdir": text})
            self.call("POST", "/tools/execute", {"tool": text})
            self.server.call("POST", "/api/v1/sandboxes", {"name": text, "labels": {"x": text}}, self.token)
            self.server.call("DELETE", f"/api/v1/tokens/{quoted}", token=self.server.admin)
            self.server.call("GET", f"/{quoted}", peer="127.4.0.1")
        for raw in (b"\x1b[2J / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    b"GET /\x1b[2J HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    b"GET /\n" + FORGED.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: \x1b[2J\r\nConnection: close\r\n\r\n",
                    b"GE\x00T / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            self.server.raw(raw)
        log = self.logged()
        lines = log.split("\n")
        self.assertEqual(lines.pop(), "")
        self.assertGreater(len(lines), 50)
        for line in lines:
            self.assertRegex(line, STAMP)
            self.assertFalse(line.startswith(FORGED))
            self.assertTrue(line.isascii() and line.isprintable(), ascii(line))

    def test_a_long_text_is_cut(self):
        self.call("GET", "/files/" + "x" * 3900)
        self.assertLess(max(map(len, self.logged().split("\n"))), 5000)
        self.assertNotIn("x" * 2000, self.logged())


class JsonLog(Attack):
    flags = ("--log-format", "json", "--open")

    def test_each_line_is_one_object(self):
        for text in INJECTIONS:
            quoted = urllib.parse.quote(text.encode())
            for path in (f"/{quoted}", f"/api/v1/sandboxes/{quoted}/files/x"):
                self.server.call("GET", path)
        told = lambda: [line for line in self.server.log().split("\n") if "request_id" in line]
        # A line is written when its answer has been.
        live_server.wait_until("a line for each request", lambda: len(told()) >= 2 * len(INJECTIONS))
        lines = told()
        for line in lines:
            entry = json.loads(line)
            self.assertEqual(entry["message"], "request")
            self.assertNotEqual(entry["status"], 200)


if __name__ == "__main__":
    live_server.main()
