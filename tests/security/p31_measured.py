"""P31: what leaves is measured and limited. Rates, bytes and connections have ends that hold, and each decision is a
row with the rule that made it."""

import functools
import json
import pathlib
import shutil
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import live_server
import way_out
from upstream import Authority, Dns, Echo, Web
from way_out import PUBLIC, WayOut, audit_rows, rule, wait_until

FLOOD = """
import collections, socket
counts = collections.Counter()
stream = socket.create_connection(('127.0.0.1', 3128), 30).makefile('rwb')
for number in range(6000):
    stream.write(b'GET http://allowed.test:8001/%d HTTP/1.1\\r\\nHost: allowed.test:8001\\r\\n\\r\\n' % number)
    stream.flush()
    status, size = stream.readline().split()[1].decode(), 0
    while (line := stream.readline()) != b'\\r\\n':
        if line.lower().startswith(b'content-length:'):
            size = int(line[15:])
    stream.read(size)
    counts[status] += 1
print(counts['200'], counts['503'], sum(counts.values()))
"""
NAMES_MAX = 1024  # of one sandbox that have an address inside


class Limits(WayOut):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=80)
        cls.echo = Echo(port=7)
        cls.secure = Web(port=443, context=Authority(cls.folder).context("allowed.test"))
        for name in ("allowed.test", "other.test"):
            cls.dns.set(name, PUBLIC)

    def setUp(self):
        super().setUp()
        for server in (self.web, self.echo, self.secure):
            server.forget()

    def test_requests_per_minute(self):
        rules = [rule("allowed.test", 80) | {"rate_limit_per_min": 7}, rule("other.test", 80)]
        done = self.probe(rules, """
out['said'] = [status(get('http://allowed.test/')) for _ in range(20)]
reply = get('http://allowed.test/')
out['retry'] = 'Retry-After: ' in reply
link, out['connect'] = tunnel('allowed.test:80'); link.close()
out['other'] = [status(get('http://other.test/')) for _ in range(20)]
""")
        said = done.told["said"]
        self.assertEqual(said[:7], [200] * 7)
        self.assertEqual(set(said), {200, 429})
        self.assertLess(said.count(200), 10)
        self.assertTrue(done.told["retry"])
        self.assertEqual(done.told["connect"], 429)
        self.assertEqual(done.told["other"], [200] * 20)
        self.assertEqual(self.web.hosts().count("allowed.test"), said.count(200))
        self.assertIn("requests a minute are spent", done.messages)

    def test_requests_on_one_connection_are_counted_one_by_one(self):
        done = self.probe([rule("allowed.test", 80) | {"rate_limit_per_min": 5}], """
def many(link, target):
    said = []
    for number in range(12):
        try:
            link.sendall(f'GET {target} HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n'.encode())
        except OSError:
            break
        said.append(one_answer(link)[0])
        if said[-1] != 200:
            break
    return said
link, _ = tunnel('allowed.test:80')
out['tunnel'] = many(link, '/')
out['proxy'] = many(socket.create_connection(('127.0.0.1', PROXY), PATIENCE), 'http://allowed.test/')
""")
        self.assertLessEqual(done.told["tunnel"].count(200), 6)
        self.assertEqual(done.told["tunnel"][-1], 429)
        self.assertEqual(done.told["proxy"], [429])
        self.assertLessEqual(len(self.web.requests), 6)

    def test_bytes_down(self):
        done = self.probe([rule("allowed.test", 80, max_bytes=100000)], """
out['small'] = status(get('http://allowed.test/bytes/1000'))
reply = get('http://allowed.test/bytes/1000000')
out['large'] = len(reply)
out['whole'] = reply.count('x') == 1000000
out['after'] = status(get('http://allowed.test/'))
""")
        self.assertEqual(done.told["small"], 200)
        self.assertFalse(done.told["whole"])
        self.assertLess(done.told["large"], 110000)
        self.assertEqual(done.told["after"], 403)
        self.assertIn("bytes", done.messages)

    def test_bytes_up_and_through_a_tunnel(self):
        done = self.probe([rule("allowed.test", 80, 7, max_bytes=100000)], """
link, said = tunnel('allowed.test:7')
sent = 0
try:
    while sent < 10000000:
        link.sendall(b'\\xff' * 1000)  # neither TLS nor the beginning of a request
        sent += 1000
        if not link.recv(65536):
            break
except OSError:
    pass
out['sent'] = sent
link, out['connect'] = tunnel('allowed.test:7')
""")
        self.assertLess(done.told["sent"], 200000)
        self.assertLessEqual(len(self.echo.heard), 100000)
        self.assertGreater(len(self.echo.heard), 10000)
        self.assertEqual(done.told["connect"], 403)

    def test_without_the_limit_the_same_passes(self):
        done = self.probe([rule("allowed.test", 80)], """
out['large'] = get('http://allowed.test/bytes/1000000').count('x') >= 1000000
out['said'] = sorted({status(get('http://allowed.test/')) for _ in range(20)})
""")
        self.assertEqual(done.told, {"large": True, "said": [200]})
        self.assertGreaterEqual(done.network["bytes_down"], 1000000)

    def test_names_are_bounded(self):
        self.dns.set("*.zone.test", PUBLIC)
        done = self.probe([rule("*.zone.test", 80)], """
codes, addresses = [], set()
for number in range(1200):
    code, found = query(f'n{number}.zone.test')
    codes.append(code)
    addresses.update(found)
out['codes'] = sorted(set(codes))
out['addresses'] = len(addresses)
out['held'] = codes.count(0)
out['first'] = status(get('http://n0.zone.test/'))
""")
        self.assertEqual(done.told["codes"], [0, 2])
        self.assertEqual((done.told["held"], done.told["addresses"]), (NAMES_MAX, NAMES_MAX))
        self.assertEqual(done.told["first"], 200)

    def test_what_a_run_tells_at_its_end(self):
        done = self.probe([rule("allowed.test", 80)], """
get('http://allowed.test/'); get('http://refused.test/'); get('http://127.0.0.1/'); get('http://allowed.test:81/')
""")
        self.assertEqual(done.network["allowed"], 1)
        self.assertEqual(done.network["denied"], 3)
        for word in ("refused.test", "an IP address", "81"):
            self.assertIn(word, done.messages)


class Served(live_server.Attack):
    """A server, whose audit has a row for everything."""

    settings = ""

    @classmethod
    def setUpClass(cls):
        cls.dns, cls.web = servers()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-egress-", dir="/tmp"))
        cls.addClassCleanup(shutil.rmtree, folder, True)
        folder.chmod(0o755)
        config = folder / "caisson.yaml"
        config.write_text(f'egress: {{dns_servers: ["{cls.dns.address}"]}}\n{cls.settings}', encoding="utf-8")
        cls.flags = ("--config", str(config))
        super().setUpClass()
        cls.token = cls.server.admin

    def setUp(self):
        self.web.forget()

    def rows(self, box, count, **wanted):
        return wait_until(f"there are {count} rows of {wanted}",
                          lambda: (rows := audit_rows(self.server, box, self.token, **wanted)) and len(rows) >= count
                          and rows)

    def inside(self, box, code):
        answer = self.server.call("PUT", f"/api/v1/sandboxes/{box}/files/probe.py", code.encode(), self.token,
                                  {"Content-Type": "application/octet-stream"})
        self.assertIn(answer.status, (200, 201, 204), answer)
        return self.server.run(self.token, box, "/usr/bin/python3 -B probe.py")

    def sandbox(self, *rules):
        return self.server.sandbox(self.token, network={"mode": "allowlist", "rules": list(rules)})

    def put(self, box, *rules):
        answer = self.server.call("PUT", f"/api/v1/sandboxes/{box}/network",
                                  {"mode": "allowlist", "rules": list(rules)}, self.token)
        self.assertEqual(answer.status, 200, answer)


class Rows(Served):
    def test_every_decision_is_a_row_with_its_rule_and_reason(self):
        box = self.sandbox(rule("first.zone.test", 9), rule("allowed.test", 8001, methods=["GET"]),
                           rule("*.zone.test", 8001))
        self.server.run(self.token, box, "for u in http://allowed.test:8001/path?query=secret "
                        "http://refused.test:8001/ http://allowed.test:81/ http://127.0.0.1:8001/ "
                        "http://inward.zone.test:8001/; do "
                        "curl -s --noproxy '' -x http://127.0.0.1:3128 $u >/dev/null; done; "
                        "curl -s -X DELETE http://allowed.test:8001/; getent hosts nowhere.example; true")
        rows = self.rows(box, 6, action="egress.connect")
        seen = {(row["object"], row["outcome"], row["detail"]["reason"], row["detail"].get("rule")) for row in rows}
        self.assertEqual(seen, {("allowed.test:8001", "allowed", "allowed", 1),
                                ("refused.test:8001", "denied", "no_rule_for_host", None),
                                ("allowed.test:81", "denied", "port_not_allowed", 1),
                                ("127.0.0.1:8001", "denied", "address_literal", None),
                                ("inward.zone.test:8001", "denied", "forbidden_address", 2),
                                ("allowed.test:8001", "denied", "method_not_allowed", 1)})
        self.assertNotIn("secret", json.dumps(audit_rows(self.server, box, self.token, action="egress.connect")))
        ended = self.rows(box, 1, action="egress.end")
        self.assertGreater(ended[0]["detail"]["bytes_down"], 0)
        resolved = self.rows(box, 1, action="egress.resolve")
        self.assertEqual(resolved[0]["object"].partition(":")[0], "nowhere.example")
        self.assertTrue(self.server.call("GET", "/api/v1/audit/verify", token=self.token).json()["intact"])

    def test_a_change_of_rules_cuts_what_is_open(self):
        box = self.sandbox(rule("allowed.test", 8001))
        self.web.released.clear()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.server.run(
            self.token, box, "curl -s http://allowed.test:8001/hold; echo \" $?\"")))
        thread.start()
        self.assertTrue(self.web.held.acquire(timeout=live_server.PATIENCE))
        self.put(box, rule("allowed.test", 8001), rule("more.test", 80))
        self.assertFalse(self.web.left.acquire(blocking=False), "a rule that still allows it does not cut")
        self.put(box, rule("more.test", 80))
        self.assertTrue(self.web.left.acquire(timeout=live_server.PATIENCE), "the host saw the end")
        thread.join(live_server.PATIENCE)
        self.web.release()
        self.assertNotIn(" 0", answers[0]["stdout"])
        self.rows(box, 1, action="egress.end")
        again = self.server.run(self.token, box, "curl -s -o /dev/null -w '%{http_code}' http://allowed.test:8001/")
        self.assertEqual(again["stdout"], "403")

    def test_a_change_of_rules_ends_what_was_only_opened(self):
        """A tunnel that has said nothing yet, and the address of a name that is no longer allowed."""
        box = self.sandbox(rule("allowed.test", 8001))
        answers = []
        code = """
import socket
link = socket.create_connection(('127.0.0.1', 3128), 30)
link.sendall(b'CONNECT allowed.test:8001 HTTP/1.1\\r\\nHost: allowed.test:8001\\r\\n\\r\\n')
assert b' 200 ' in link.recv(4096)
address = socket.getaddrinfo('allowed.test', 8001, socket.AF_INET)[0][4]
open('ready', 'w').write(address[0])
try:
    seen = link.recv(1)
except ConnectionResetError:
    seen = b''
def reached():
    try:
        with socket.create_connection(address, 30) as direct:
            direct.sendall(b'GET /late HTTP/1.1\\r\\nHost: allowed.test:8001\\r\\n\\r\\n')
            return b' 200 ' in direct.recv(4096)
    except OSError:
        return False
print(seen == b'', reached())
"""
        thread = threading.Thread(target=lambda: answers.append(self.inside(box, code)))
        thread.start()
        ready = f"/api/v1/sandboxes/{box}/files/ready"
        wait_until("it is open", lambda: self.server.call("GET", ready, token=self.token).status == 200)
        self.put(box, rule("more.test", 80))
        thread.join(live_server.PATIENCE)
        self.assertEqual(answers[0]["stdout"], "True False\n", answers)
        self.assertEqual(self.web.requests, [])

    def test_a_flood_of_refused_names_is_folded(self):
        box = self.sandbox(rule("allowed.test", 8001))
        ran = self.inside(box, """
import socket
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); link.settimeout(5)
for number in range(2000):
    name = b'\\x05evil' + bytes([97 + number % 3])
    link.sendto(b'\\0\\0\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + name + b'\\x04test\\0\\0\\1\\0\\1', ('127.0.0.1', 53))
    link.recv(512)
print('done')
""")
        self.assertEqual(ran["stdout"], "done\n", ran)
        def counted():
            found = audit_rows(self.server, box, self.token, action="egress.resolve")
            return sum(1 + row["detail"].get("repeats", 0) for row in found) >= 2000 and found
        rows = wait_until("all are counted", counted)
        self.assertLess(len(rows), 100)


class NoRecord(Served):
    """What cannot be recorded does not leave."""

    settings = "audit: {tenant_mb_per_minute: 1}\n"

    def test_requests_beyond_what_may_be_written_are_refused(self):
        box = self.sandbox(rule("allowed.test", 8001))
        ran = self.inside(box, FLOOD)
        passed, refused, whole = map(int, ran["stdout"].split())
        self.assertEqual((passed + refused, whole), (6000, 6000), ran)
        self.assertGreater(passed, 100)
        self.assertGreater(refused, 100)
        self.assertEqual(len(self.web.requests), passed)
        rows, after = 0, 0
        while page := audit_rows(self.server, box, self.token, after=after, action="egress.request"):
            rows, after = rows + len(page), page[-1]["sequence"]
        first = len(audit_rows(self.server, box, self.token, action="egress.connect"))
        self.assertEqual(rows + first, passed)
        self.assertTrue(self.server.call("GET", "/api/v1/audit/verify", token=self.token).json()["intact"])


class Owner(Served):
    """A guest that fills the record has spent what it may, and not what its owner needs to stop it."""

    def test_a_flood_does_not_lock_the_owner_out(self):
        box, sibling = self.sandbox(rule("allowed.test", 8001)), self.sandbox(rule("allowed.test", 8001))
        flood = FLOOD.replace("allowed.test", "refused.test").replace("6000", "8000")
        self.assertEqual(self.inside(box, flood)["exit_code"], 0)
        said = {}
        for name, method, path, body in (("exec in another", "POST", f"{sibling}/exec", {"command": "true"}),
                                         ("exec", "POST", f"{box}/exec", {"command": "true"}),
                                         ("network", "PUT", f"{box}/network", {}),
                                         ("pause", "POST", f"{box}/pause", None),
                                         ("end", "DELETE", box, None)):
            said[name] = self.server.call(method, f"/api/v1/sandboxes/{path}", body, self.token).status
        self.assertEqual({name: status for name, status in said.items() if status not in (200, 204)}, {})


@functools.cache
def servers():
    dns = Dns()
    for name in ("allowed.test", "*.zone.test"):
        dns.set(name, PUBLIC)
    dns.set("inward.zone.test", "127.0.0.1")
    return dns, Web(port=8001)


if __name__ == "__main__":
    way_out.main()
