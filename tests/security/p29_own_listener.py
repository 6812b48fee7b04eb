"""P29: a proxy identity works only from its own sandbox. The listener is inside one sandbox's network and says who is
calling; nothing a guest sends makes it another one."""

import json
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import live_server
import way_out
from live_server import Attack
from upstream import Dns, Web
from way_out import PUBLIC, audit_rows, rule, wait_until

CURL = "curl -s -o /dev/null -w '%{{http_code}} ' {}"


class OwnListener(Attack):
    @classmethod
    def setUpClass(cls):
        cls.dns, cls.web = Dns(), Web(port=8001)
        for name in ("red.test", "blue.test"):
            cls.dns.set(name, PUBLIC)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-egress-", dir="/tmp"))
        cls.addClassCleanup(shutil.rmtree, folder, True)
        folder.chmod(0o755)
        config = folder / "caisson.yaml"
        config.write_text(f'egress: {{dns_servers: ["{cls.dns.address}"]}}\n', encoding="utf-8")
        cls.flags = ("--config", str(config))
        super().setUpClass()
        cls.red_token = cls.server.new_token("red", "read", "use", "create")["token"]
        cls.blue_token = cls.server.new_token("blue", "read", "use", "create")["token"]
        cls.red = cls.sandbox(cls.red_token, "red.test")
        cls.blue = cls.sandbox(cls.blue_token, "blue.test")
        cls.bare = cls.server.sandbox(cls.red_token)

    @classmethod
    def sandbox(cls, token, name):
        return cls.server.sandbox(token, network={"mode": "allowlist", "rules": [rule(name, 8001)]})

    def setUp(self):
        self.web.forget()

    def said(self, token, box, command):
        return self.server.run(token, box, command)["stdout"].split()

    def test_each_reaches_its_own(self):
        """Also by the variables that every command of theirs has."""
        for token, box, name in ((self.red_token, self.red, "red.test"), (self.blue_token, self.blue, "blue.test")):
            other = "blue.test" if name == "red.test" else "red.test"
            commands = "; ".join(CURL.format(f"http://{one}:8001/") for one in (name, other))
            self.assertEqual(self.said(token, box, commands), ["200", "403"])
        self.assertEqual(self.web.hosts(), ["red.test:8001", "blue.test:8001"])

    def test_a_sandbox_without_rules_has_no_listener_to_borrow(self):
        command = "; ".join(CURL.format(f"-x http://{proxy}:3128 http://red.test:8001/")
                            for proxy in ("127.0.0.1", "198.18.1.0", "[::1]", "169.254.1.1"))
        self.assertEqual(self.said(self.red_token, self.bare, command), ["000"] * 4)
        self.assertEqual(self.web.requests, [])

    def test_nobody_outside_goes_out_through_it(self):
        """Who may look at a port of a sandbox, which may be everybody, does not get its listener."""
        for port in (3128, 1080, 53):
            answer = self.server.call("GET", f"/api/v1/sandboxes/{self.red}/ports/{port}/", token=self.red_token)
            self.assertEqual(answer.status, 400, answer)
            answer = self.server.call("GET", f"/api/v1/sandboxes/{self.bare}/ports/{port}/", token=self.red_token)
            self.assertEqual(answer.status, 502, answer)

    def test_what_a_guest_says_about_itself_is_not_believed(self):
        fields = (f"Proxy-Authorization: Bearer {self.red}", f"Proxy-Authorization: Basic {self.red}",
                  f"Proxy-Authorization: Bearer {self.red_token}", f"X-Sandbox: {self.red}",
                  f"Authorization: Bearer {self.red_token}", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1",
                  f"X-Session-Id: {self.red}")
        for field in fields:
            with self.subTest(field=field.split(":")[0]):
                command = CURL.format(f"--proxy-header '{field}' -H '{field}' http://red.test:8001/")
                self.assertEqual(self.said(self.blue_token, self.blue, command), ["403"])
        command = CURL.format(f"--proxy-user {self.red}:x http://red.test:8001/")
        self.assertEqual(self.said(self.blue_token, self.blue, command), ["403"])
        self.assertEqual(self.web.requests, [])

    def test_identities_end_at_the_gate(self):
        """A host never sees what was meant for the proxy."""
        command = CURL.format("--proxy-user name:word http://blue.test:8001/seen")
        self.assertEqual(self.said(self.blue_token, self.blue, command), ["200"])
        for request in self.web.requests:
            for name in ("proxy-authorization", "proxy-connection", "via", "x-forwarded-for", "forwarded"):
                self.assertIsNone(request.field(name), name)
        self.assertNotIn(self.blue.encode(), self.web.raw)

    def test_the_address_of_a_name_means_nothing_elsewhere(self):
        address = self.said(self.red_token, self.red, "getent ahostsv4 red.test")[0]
        self.assertTrue(address.startswith("198.18."), address)
        direct = CURL.format(f"--noproxy '*' --resolve red.test:8001:{address} http://red.test:8001/")
        self.assertEqual(self.said(self.red_token, self.red, direct), ["200"])
        self.assertIn(self.said(self.blue_token, self.blue, direct), (["000"], ["400"], ["403"]))
        self.assertEqual(self.said(self.red_token, self.bare, direct), ["000"])
        self.assertEqual(len(self.web.requests), 1)

    def test_rows_name_the_sandbox_whose_listener_it_was(self):
        self.said(self.blue_token, self.blue, CURL.format("http://red.test:8001/row"))
        rows = wait_until("a row", lambda: [row for row in audit_rows(self.server, self.blue, self.blue_token,
                                                                      action="egress.connect")
                                            if row["object"] == "red.test:8001"])
        self.assertEqual({(row["sandbox"], row["tenant"], row["outcome"]) for row in rows},
                         {(self.blue, "blue", "denied")})
        for token, box in ((self.red_token, self.blue), (self.blue_token, self.red)):
            answer = self.server.call("GET", f"/api/v1/audit?limit=1000&sandbox={box}", token=token)
            self.assertNotIn("egress", answer.text)

    def test_nothing_is_left_after_the_sandbox(self):
        box = self.sandbox(self.red_token, "red.test")
        started = self.server.call("POST", f"/api/v1/sandboxes/{box}/processes",
                                   {"command": "exec curl -s http://red.test:8001/hold"}, self.red_token)
        self.assertEqual(started.status, 201, started)
        self.assertTrue(self.web.held.acquire(timeout=live_server.PATIENCE))
        before = len(list(pathlib.Path(f"/proc/{self.server.pid}/fd").iterdir()))
        self.assertEqual(self.server.call("DELETE", f"/api/v1/sandboxes/{box}", token=self.red_token).status, 204)
        self.assertTrue(self.web.left.acquire(timeout=live_server.PATIENCE), "its connection ends with it")
        # The listeners, the resolver and the connection's two ends.
        wait_until("its sockets are closed",
                   lambda: len(list(pathlib.Path(f"/proc/{self.server.pid}/fd").iterdir())) <= before - 4)

    def test_a_foreign_token_changes_no_network(self):
        body = {"mode": "allowlist", "rules": [rule("blue.test", 8001)]}
        answer = self.server.call("PUT", f"/api/v1/sandboxes/{self.red}/network", body, self.blue_token)
        self.assertEqual(answer.status, 404, answer)
        shown = self.server.call("GET", f"/api/v1/sandboxes/{self.red}", token=self.red_token).json()
        self.assertEqual([one["domain"] for one in shown["network"]["rules"]], ["red.test"])
        self.assertNotIn("blue.test", json.dumps(shown))


if __name__ == "__main__":
    way_out.main()
