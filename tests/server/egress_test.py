"""The way out as the server's callers see it: created with rules, changed while it lives, used by commands and by the
tool, counted, recorded, and there again after the server was killed."""

import atexit
import functools
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import harness
import way_out
from harness import PATIENCE, Server, path_of, wait_for
from upstream import Authority, Dns, Web
from way_out import PUBLIC, allowlist, rule

CODE = "curl -s -o /dev/null -w '%{{http_code}} ' {}; "


@functools.cache
def world():
    """A name server, two web servers and the authority of one of them, for all classes of this file."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-egress-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, True)
    folder.chmod(0o755)
    authority = Authority(folder)
    authority.certificate.chmod(0o644)
    dns = Dns()
    for name in ("good.test", "other.test", "*.zone.test"):
        dns.set(name, PUBLIC)
    return dns, Web(port=80), Web(port=443, context=authority.context("good.test")), authority.certificate


class EgressCase(unittest.TestCase):
    """One server for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.dns, cls.web, cls.secure, certificate = world()
        cls.server = Server(config=f'egress: {{dns_servers: ["{cls.dns.address}"], trust_store: "{certificate}"}}\n')
        cls.addClassCleanup(cls.server.close)
        cls.server.start()

    def setUp(self):
        for one in (self.dns, self.web, self.secure):
            one.forget()

    def create(self, network, **wish):
        box = self.server.create(network=network, **wish)
        self.addCleanup(self.server.delete, path_of(box))
        return box

    def run_in(self, box, command):
        answer = self.server.post(path_of(box, "exec"), {"command": command})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["stdout"]

    def codes(self, box, *targets):
        return self.run_in(box, "".join(CODE.format(target) for target in targets)).split()

    def fetch(self, box, **arguments):
        return self.server.post(path_of(box, "tools/execute"), {"tool": "http_request", "arguments": arguments})

    def rows(self, box, action, count=1):
        path = f"/api/v1/audit?limit=1000&sandbox={box}&action={action}"
        return wait_for(lambda: (rows := self.server.get(path).json["rows"]) and len(rows) >= count and rows,
                        f"{count} rows of {action}")

    def metric(self, name):
        text = self.server.get("/metrics").body.decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


class Create(EgressCase):
    def test_a_list_of_names(self):
        box = self.create({"mode": "allowlist", "domain_allowlist": ["good.test", "*.zone.test"]})
        self.assertEqual(self.codes(box, "http://good.test/", "http://a.zone.test/", "http://zone.test/",
                                    "http://other.test/", "http://good.test:8080/", "-k https://good.test/"),
                         ["200", "200", "403", "403", "403", "200"])
        shown = self.server.get(path_of(box)).json["network"]
        self.assertEqual(shown["mode"], "allowlist")
        self.assertEqual([(one["domain"], one["ports"]) for one in shown["rules"]],
                         [("good.test", [80, 443]), ("*.zone.test", [80, 443])])

    def test_rules_in_full(self):
        box = self.create(allowlist(rule("good.test", 80, methods=["GET"], path_prefixes=["/api/"])))
        self.assertEqual(self.codes(box, "http://good.test/api/x", "http://good.test/x", "-d x http://good.test/api/x"),
                         ["200", "403", "403"])
        self.assertEqual(self.web.targets(), ["/api/x"])

    def test_without_and_with_variables(self):
        box = self.create(allowlist(rule("good.test", 80)))
        self.assertEqual(self.codes(box, "http://good.test/", "--noproxy '*' http://good.test/",
                                    "--noproxy '*' http://other.test/"), ["200", "200", "000"])

    def test_one_from_stock_and_one_of_its_own_kind(self):
        """Sandboxes made ahead, and those that must be made anew: the way out is the same."""
        wishes = ({}, {}, {"resource_limits": {"memory_mb": 300}}, {"user": 1234},
                  {"tools": ["shell_exec", "http_request"]})
        for wish in wishes:
            box = self.create(allowlist(rule("good.test", 80)), **wish)
            said = self.codes(box, "http://good.test/", "--noproxy '*' http://good.test/", "http://other.test/")
            self.assertEqual(said, ["200", "200", "403"], wish)

    def test_bad_wishes_name_their_field(self):
        for network, field in (({"mode": "open"}, "network.mode"),
                               (allowlist({"domain": "127.0.0.1"}), "network.rules[0].domain"),
                               (allowlist({"domain": "good.test", "ports": [0]}), "network.rules[0].ports"),
                               (allowlist({"domain": "a.test"}, {"domain": "*.*"}), "network.rules[1].domain"),
                               (allowlist({"domain": "good.test", "rate_limit_per_min": -1}),
                                "network.rules[0].rate_limit_per_min"),
                               ({"mode": "none", "domain_allowlist": ["good.test"]}, "network.domain_allowlist")):
            answer = self.server.post("/api/v1/sandboxes", {"network": network})
            self.assertEqual(answer.status, 400, answer.body)
            self.assertTrue(answer.json["error"]["details"]["field"].startswith(field.split("[")[0]), answer.body)
            self.assertIn(field.split(".")[-1].split("[")[0], answer.json["error"]["message"])

    def test_what_reaches_inward_or_spends_a_secret_is_for_administrators(self):
        made = self.server.post("/api/v1/tokens", {"tenant": "red", "scopes": ["read", "use", "create"]}).json["token"]
        wishes = {"network.rules[0].granted_addresses": rule("good.test", 80, granted_addresses=["127.0.0.1"]),
                  "network.rules[0].inject": rule("good.test", 443,
                                                       inject=[{"header": "Authorization", "secret": "key"}])}
        for field, wanted in wishes.items():
            answer = self.server.post("/api/v1/sandboxes", {"network": allowlist(wanted)}, token=made)
            self.assertEqual(answer.status, 403, answer.body)
            self.assertEqual(answer.json["error"]["details"]["field"], field)
        own = self.server.post("/api/v1/sandboxes", {"network": allowlist(rule("good.test", 80))}, token=made)
        self.assertEqual(own.status, 201, own.body)
        box = own.json["id"]
        self.addCleanup(self.server.delete, path_of(box), token=made)
        for field, wanted in wishes.items():
            answer = self.server.put(path_of(box, "network"), allowlist(wanted), token=made)
            self.assertEqual(answer.status, 403, answer.body)
            self.assertEqual(answer.json["error"]["details"]["field"], field)
        # An administrator may, and then a name that is inside is reached.
        self.dns.set("inner.test", "127.0.0.1")
        box = self.create(allowlist(rule("inner.test", 80, granted_addresses=["127.0.0.1"])))
        self.assertEqual(self.codes(box, "http://inner.test/"), ["200"])
        self.assertEqual(self.web.arrived, ["127.0.0.1"])


class Tool(EgressCase):
    def test_a_request_of_the_tool(self):
        box = self.create(allowlist(rule("good.test", 80, 443)))
        for scheme, server in (("http", self.web), ("https", self.secure)):
            answer = self.fetch(box, url=f"{scheme}://good.test/tool?x=1", method="POST", headers={"X-One": "1"},
                                body="words")
            self.assertEqual(answer.status, 200, answer.body)
            result = answer.json["result"]
            self.assertEqual(result["status"], 200)
            self.assertEqual(json.loads(result["body"])["length"], 5)
            self.assertEqual(server.requests[-1].field("x-one"), "1")
            self.assertEqual(server.requests[-1].target, "/tool?x=1")

    def test_what_is_denied_is_403_and_a_row(self):
        self.dns.set("inward.zone.test", "169.254.169.254")
        box = self.create(allowlist(rule("good.test", 80), rule("*.zone.test", 80)))
        for url, reason in (("http://other.test/", "no_rule_for_host"), ("http://good.test:81/", "port_not_allowed"),
                            ("http://inward.zone.test/", "forbidden_address")):
            answer = self.fetch(box, url=url)
            self.assertEqual(answer.status, 403, answer.body)
            self.assertTrue(any(row["detail"].get("reason") == reason and row["outcome"] == "denied"
                                for row in self.rows(box, "egress.connect")), reason)
        # What is not even a name is a bad argument, and a row all the same.
        self.assertEqual(self.fetch(box, url="http://127.0.0.1/").status, 400)
        self.assertIn("address_literal", [row["detail"].get("reason") for row in self.rows(box, "egress.connect", 4)])
        self.assertEqual(self.web.arrived, [])

    def test_redirections_are_not_followed(self):
        box = self.create(allowlist(rule("good.test", 80)))
        answer = self.fetch(box, url="http://good.test/to/http://127.0.0.1/inside")
        self.assertEqual(answer.json["result"]["status"], 302)
        self.assertEqual(len(self.web.requests), 1)

    def test_odd_urls(self):
        box = self.create(allowlist(rule("good.test", 80)))
        for url in ("http://good.test@other.test/", "http://other.test#good.test/", "http://good.test\r\nX: y/",
                    "file:///etc/passwd", "ftp://good.test/", "good.test", "http://", "http://good.test:x/",
                    "http://good.test/\0",
                    "http://good.test./", "http://[::1]/", "http://0x7f.1/", "gopher://good.test/_x"):
            answer = self.fetch(box, url=url)
            self.assertIn(answer.status, (400, 403), (url, answer.body))
        self.assertEqual(self.web.arrived, [])

    def test_odd_headers(self):
        """Framing and the host are the gate's own words, whatever the arguments say."""
        box = self.create(allowlist(rule("good.test", 80)))
        for fields in ({"X\r\nY": "z"}, {"X": "y\r\nHost: other.test"}, {"X": "y\nz"}, {"": "y"}, {"X Y": "z"},
                       {"X": "y\0"}):
            answer = self.fetch(box, url="http://good.test/", headers=fields)
            self.assertEqual(answer.status, 400, (fields, answer.body))
        self.assertEqual(self.web.requests, [])
        for fields in ({"Host": "other.test"}, {"Content-Length": "0"}, {"Transfer-Encoding": "chunked"},
                       {"Connection": "X"}, {"Proxy-Authorization": "Basic x"},
                       {"Upgrade": "websocket", "Connection": "Upgrade"}):
            answer = self.fetch(box, url="http://good.test/", method="POST", body="words", headers=fields)
            self.assertIn(answer.status, (200, 400, 403), (fields, answer.body))
        for request in self.web.requests:
            self.assertEqual((request.all("host"), request.body), (["good.test"], b"words"))
            for name in ("proxy-authorization", "upgrade"):
                self.assertIsNone(request.field(name))

    def test_a_certificate_that_is_not_believed(self):
        self.dns.set("b.zone.test", PUBLIC)
        box = self.create(allowlist(rule("*.zone.test", 443)))
        answer = self.fetch(box, url="https://b.zone.test/")
        self.assertGreaterEqual(answer.status, 400, answer.body)
        self.assertEqual(self.secure.requests, [])

    def test_no_network_no_request(self):
        box = self.create({"mode": "none"})
        self.assertEqual(self.fetch(box, url="http://good.test/").status, 403)
        self.assertEqual(self.dns.asked, [])

    def test_a_large_answer_is_cut(self):
        box = self.create(allowlist(rule("good.test", 80)))
        result = self.fetch(box, url="http://good.test/bytes/3000000").json["result"]
        self.assertTrue(result["truncated"])
        self.assertLessEqual(len(result["body"]), 1 << 20)

    def test_rate_is_shared_with_the_guest(self):
        box = self.create(allowlist(rule("good.test", 80) | {"rate_limit_per_min": 4}))
        self.assertEqual(self.codes(box, *["http://good.test/"] * 2), ["200", "200"])
        said = [self.fetch(box, url="http://good.test/").status for _ in range(4)]
        self.assertEqual(said[:2], [200, 200])
        self.assertIn(429, said)


class Change(EgressCase):
    def test_rules_replaced_while_it_lives(self):
        box = self.create(allowlist(rule("good.test", 80)))
        self.assertEqual(self.codes(box, "http://good.test/", "http://other.test/"), ["200", "403"])
        answer = self.server.put(path_of(box, "network"), allowlist(rule("other.test", 80)))
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual([one["domain"] for one in answer.json["network"]["rules"]], ["other.test"])
        self.assertEqual(self.codes(box, "http://good.test/", "http://other.test/"), ["403", "200"])
        self.assertEqual(self.server.put(path_of(box, "network"), {}).status, 200)
        self.assertEqual(self.codes(box, "-x http://127.0.0.1:3128 http://other.test/"), ["000"])
        self.assertEqual(self.server.put(path_of(box, "network"), allowlist(rule("good.test", 80))).status, 200)
        self.assertEqual(self.codes(box, "http://good.test/"), ["200"])
        self.assertEqual(len(self.rows(box, "sandbox.network", 3)), 3)

    def test_taken_away_and_given_again(self):
        """Many times, and while the launcher makes the next sandboxes ahead: the sockets inside go with the rules."""
        said, boxes = [], []
        for _ in range(20):
            boxes.append(self.create(allowlist(rule("good.test", 80))))
            for _ in range(10):
                for box in boxes[-3:]:
                    for network in ({}, allowlist(rule("good.test", 80))):
                        said.append(self.server.put(path_of(box, "network"), network).status)
        self.assertEqual(set(said), {200})
        for box in boxes:
            self.assertEqual(self.codes(box, "http://good.test/", "--noproxy '*' http://good.test/"), ["200", "200"])

    def test_a_sandbox_that_had_none_gets_one(self):
        box = self.create({"mode": "none"})
        self.assertEqual(self.codes(box, "-x http://127.0.0.1:3128 http://good.test/"), ["000"])
        self.assertEqual(self.server.put(path_of(box, "network"), allowlist(rule("good.test", 80))).status, 200)
        said = self.codes(box, "-x http://127.0.0.1:3128 http://good.test/", "--noproxy '*' http://good.test/")
        self.assertEqual(said, ["200", "200"])

    def test_a_bad_change_changes_nothing(self):
        box = self.create(allowlist(rule("good.test", 80)))
        for body in (allowlist({"domain": "*", "granted_addresses": ["10.0.0.1"]}), {"mode": "x"}, {"unknown": 1}, []):
            self.assertEqual(self.server.put(path_of(box, "network"), body).status, 400)
        self.assertEqual(self.codes(box, "http://good.test/"), ["200"])

    def test_other_ports_after_a_change(self):
        """A rule with a port that nobody spoke of when the sandbox was made."""
        self.dns.set("late.test", PUBLIC)
        Web(port=8088)
        box = self.create(allowlist(rule("good.test", 80)))
        self.assertEqual(self.server.put(path_of(box, "network"), allowlist(rule("late.test", 8088))).status, 200)
        said = self.codes(box, "http://late.test:8088/", "--noproxy '*' http://late.test:8088/")
        self.assertEqual(said, ["200", "200"])


class Numbers(EgressCase):
    def test_usage_and_metrics(self):
        box = self.create(allowlist(rule("good.test", 80)))
        names = ("allowed", "denied", "bytes_up", "bytes_down")
        before = {name: self.metric(f"caisson_egress_{name}_total") for name in names}
        self.codes(box, "http://good.test/bytes/100000", "http://other.test/", "http://other.test/")
        used = self.server.get(path_of(box, "usage")).json["network"]
        self.assertEqual((used["allowed"], used["denied"]), (1, 2))
        self.assertGreaterEqual(used["bytes_down"], 100000)
        self.assertGreater(used["bytes_up"], 0)
        wait_for(lambda: self.metric("caisson_egress_bytes_down_total") - before["bytes_down"] >= 100000,
                 "bytes in metrics")
        self.assertEqual(self.metric("caisson_egress_allowed_total") - before["allowed"], 1)
        self.assertEqual(self.metric("caisson_egress_denied_total") - before["denied"], 2)
        ended = self.rows(box, "egress.end")[0]
        self.assertGreaterEqual(ended["detail"]["bytes_down"], 100000)
        self.assertEqual(ended["object"], "good.test:80")

    def test_paused_and_resumed(self):
        box = self.create(allowlist(rule("good.test", 80)))
        self.assertEqual(self.server.post(path_of(box, "pause")).status, 200)
        self.assertEqual(self.server.post(path_of(box, "resume")).status, 200)
        self.assertEqual(self.codes(box, "http://good.test/"), ["200"])

    def test_many_sandboxes_keep_apart(self):
        boxes = [self.create(allowlist(rule(f"n{number}.zone.test", 80))) for number in range(8)]
        for number, box in enumerate(boxes):
            self.assertEqual(self.codes(box, f"http://n{number}.zone.test/", f"http://n{(number + 1) % 8}.zone.test/"),
                             ["200", "403"])


class ServerDies(EgressCase):
    def test_the_way_out_is_there_again(self):
        box = self.create(allowlist(rule("good.test", 80), rule("other.test", 80) | {"rate_limit_per_min": 3}))
        changed = self.create({"mode": "none"})
        self.assertEqual(self.server.put(path_of(changed, "network"), allowlist(rule("good.test", 80))).status, 200)
        self.assertEqual(self.codes(box, "http://good.test/"), ["200"])
        started = self.server.post(path_of(box, "processes"), {"command": "exec curl -s http://good.test/hold"})
        self.assertEqual(started.status, 201, started.body)
        self.assertTrue(self.web.held.acquire(timeout=PATIENCE))
        self.server.kill()
        self.assertTrue(self.web.left.acquire(timeout=PATIENCE), "what was open ends with the server")
        self.server.start()
        for one in (box, changed):
            self.assertEqual(self.codes(one, "http://good.test/", "--noproxy '*' http://good.test/", "http://no.test/"),
                             ["200", "200", "403"])
        self.assertEqual(self.fetch(box, url="http://good.test/").json["result"]["status"], 200)
        self.assertEqual([one["domain"] for one in self.server.get(path_of(box)).json["network"]["rules"]],
                         ["good.test", "other.test"])
        self.assertTrue(self.server.get("/api/v1/audit/verify").json["intact"])

    def test_while_nobody_serves_nothing_leaves(self):
        box = self.create(allowlist(rule("good.test", 80)))
        started = self.server.post(path_of(box, "processes"), {
            "command": "while :; do curl -s -m 1 -o /dev/null http://good.test/loop; curl -s -m 1 "
                       "--noproxy '*' -o /dev/null http://good.test/loop; done"})
        self.assertEqual(started.status, 201, started.body)
        wait_for(lambda: self.web.raw, "its first request")
        self.server.kill()
        self.web.forget()
        with way_out.Capture() as capture:
            self.assertTrue(self.server.processes(), "the sandbox lives")
        self.assertFalse([packet for packet in capture.packets if b"/loop" in packet])
        self.server.start()
        wait_for(lambda: self.web.raw, "its next request")


if __name__ == "__main__":
    if harness.os.geteuid() == 0:
        way_out.enter_own_world()
    harness.main()
