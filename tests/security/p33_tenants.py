"""P33: a tenant cannot tell that others exist. What one tenant asks about a sandbox of another is answered word by
word as if the sandbox had never been."""

import json
import re

import live_server
from live_server import Attack, UPGRADE, example_body, filled, operations

NEVER_WAS = "a" * 26
VARYING = {"date", "x-request-id"}


def comparable(answer, box):
    """Status, headers and body without what differs between any two answers: an id of ours, and the id that was asked
    for."""
    body = answer.text.replace(box, "ASKED")
    own = answer.header("X-Request-Id")
    if own:
        body = body.replace(own, "REQUEST")
    headers = sorted((name.lower(), value) for name, value in answer.headers if name.lower() not in VARYING)
    return answer.status, headers, body


class Tenants(Attack):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.red = cls.server.new_token("red", "read", "use", "create")["token"]
        cls.blue = cls.server.new_token("blue", "read", "use", "create")["token"]
        cls.box = cls.server.sandbox(cls.red, name="scarlet-name", labels={"team": "scarlet-label"})
        cls.server.run(cls.red, cls.box, "echo scarlet-output >a.txt")
        cls.process = cls.server.call("POST", f"/api/v1/sandboxes/{cls.box}/processes", {"command": "sleep 600"},
                                      cls.red).json()["id"]

    def matrix(self, headers=None):
        for method, path, operation in operations():
            if not path.startswith("/api/v1/sandboxes/{id}"):
                continue
            path = path.replace("{pid}", str(self.process))
            body, fields = example_body(operation)
            fields.update(headers or {})
            yield operation["operationId"], [
                self.server.call(method, filled(path, box), body, self.blue, fields) for box in (self.box, NEVER_WAS)]

    def test_a_foreign_sandbox_is_as_one_that_never_was(self):
        tried = 0
        for name, (foreign, never) in self.matrix():
            with self.subTest(operation=name):
                self.assertIn(foreign.status, (404, 426))
                self.assertEqual(comparable(foreign, self.box), comparable(never, NEVER_WAS))
            tried += 1
        self.assertGreater(tried, 30)

    def test_nor_does_a_socket_tell(self):
        for name, (foreign, never) in self.matrix(UPGRADE):
            with self.subTest(operation=name):
                self.assertEqual(foreign.status, 404)
                self.assertEqual(comparable(foreign, self.box), comparable(never, NEVER_WAS))

    def test_a_wrong_body_tells_no_more(self):
        for path in ("exec", "tools/execute", "processes", "mkdir", "move"):
            for body in (b"{", b'{"unknown": 1}', b"[]"):
                answers = [self.server.call("POST", f"/api/v1/sandboxes/{box}/{path}", body, self.blue,
                                            {"Content-Type": "application/json"}) for box in (self.box, NEVER_WAS)]
                self.assertEqual(*map(comparable, answers, (self.box, NEVER_WAS)))

    def test_nothing_was_done_to_it(self):
        list(self.matrix())
        shown = self.server.call("GET", f"/api/v1/sandboxes/{self.box}", token=self.red).json()
        self.assertEqual(shown["state"], "running")
        self.assertEqual(shown["resource_limits"]["memory_mb"], 512)
        self.assertEqual(self.server.run(self.red, self.box, "cat a.txt; ls -A")["stdout"], "scarlet-output\na.txt\n")
        logs = self.server.call("GET", f"/api/v1/sandboxes/{self.box}/logs?limit=1000", token=self.red).json()
        blue_id = self.blue.split("_")[1]
        self.assertNotIn(blue_id, json.dumps(logs))

    def test_lists_are_of_the_own_tenant(self):
        own = self.server.sandbox(self.blue)
        listed = self.server.call("GET", "/api/v1/sandboxes", token=self.blue)
        self.assertIn(own, listed.text)
        for secret in (self.box, "scarlet"):
            self.assertNotIn(secret, listed.text)

    def test_a_name_of_another_tenant_is_free(self):
        for token in (self.red, self.blue):
            answer = self.server.call("POST", "/api/v1/sandboxes", {"name": "same-name"}, token)
            self.assertEqual(answer.status, 201, answer)
        again = self.server.call("POST", "/api/v1/sandboxes", {"name": "same-name"}, self.blue)
        self.assertEqual(again.status, 409, again)

    def test_the_audit_is_of_the_own_tenant(self):
        for query in ("", f"&sandbox={self.box}", "&tenant=red", "&tenant=", "&tenant=default"):
            answer = self.server.call("GET", f"/api/v1/audit?limit=1000{query}", token=self.blue)
            self.assertNotIn("scarlet", answer.text)
            if answer.status == 200:
                tenants = {row["tenant"] for row in answer.json()["rows"]}
                self.assertLessEqual(tenants, {"blue"}, query)
                rows = [row for row in answer.json()["rows"] if row["sandbox"] == self.box and row["tenant"] != "blue"]
                self.assertEqual(rows, [])
            else:
                self.assertIn(answer.status, (400, 403), answer)
        # The owner does find them, so we looked in the right place.
        self.assertIn(self.box, self.server.call("GET", "/api/v1/audit?limit=1000", token=self.red).text)

    def test_events_are_of_the_own_tenant(self):
        """Red creates between two of blue's: blue sees its own two and nothing between."""
        first = self.server.sandbox(self.blue)
        between = self.server.sandbox(self.red, name="scarlet-between")
        last = self.server.sandbox(self.blue)
        for query in ("?after=0", f"?after=0&sandbox={last}"):
            request = (f"GET /api/v1/events{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.blue}\r\n"
                       "\r\n").encode()
            seen = self.server.raw(request, until=last.encode()).decode()
            self.assertIn(last, seen)
            for secret in (self.box, between, "scarlet"):
                self.assertNotIn(secret, seen)
        self.assertTrue(first)
        foreign = self.server.raw((f"GET /api/v1/events?after=0&sandbox={self.box} HTTP/1.1\r\nHost: localhost\r\n"
                                   f"Authorization: Bearer {self.blue}\r\n\r\n").encode(), until=b"\r\n\r\n")
        never = self.server.raw((f"GET /api/v1/events?after=0&sandbox={NEVER_WAS} HTTP/1.1\r\nHost: localhost\r\n"
                                 f"Authorization: Bearer {self.blue}\r\n\r\n").encode(), until=b"\r\n\r\n")
        head = re.compile(rb"^HTTP/1\.1 (\d+)")
        self.assertEqual(head.match(foreign).group(1), head.match(never).group(1))
        self.assertNotIn(b"scarlet", foreign)

    def test_numbers_of_all_are_for_administrators(self):
        for path in ("/metrics", "/api/v1/tokens", "/api/v1/audit/verify"):
            self.assertEqual(self.server.call("GET", path, token=self.blue).status, 403)
        for path in ("/healthz", "/readyz", "/api/v1/tools", "/openapi.json"):
            self.assertNotIn(self.box, self.server.call("GET", path, token=self.blue).text)

    def test_even_an_administrator_has_a_tenant(self):
        token = self.server.new_token("blue", "admin")["token"]
        answer = self.server.call("GET", f"/api/v1/sandboxes/{self.box}/files/a.txt", token=token)
        self.assertEqual(answer.status, 404, answer)


if __name__ == "__main__":
    live_server.main()
