"""P30: a real secret never enters a guest. A canary is planted as a secret, used in every way that a rule has, and then
looked for wherever a guest or a reader of the server's words could find it."""

import atexit
import base64
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "server")]

import way_out
from harness import Server, path_of
from upstream import Authority, Dns, Web
from way_out import PUBLIC, allowlist, rule

CANARY = "canary-6f1d0b8e2a57-of-the-test"
SPELLINGS = [CANARY.encode(), CANARY.encode().hex().encode(), base64.b64encode(CANARY.encode())[:-4],
             base64.b64encode(b"Bearer " + CANARY.encode())[8:-4]]
CODE = "curl -s -o /dev/null -w '%{{http_code}} ' {}; "


def injecting(domain="api.test", secret="key", **more):
    return rule(domain, 80, 443, inject=[{"header": "Authorization", "secret": secret, "prefix": "Bearer "}], **more)


def leak(test, web):
    """A host that tells what it was told."""
    web.pages.update({"/leak": ("text/plain", f"it was {CANARY}, was it not? {CANARY}".encode())})
    test.addCleanup(web.pages.clear)


@functools.cache
def world():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-secrets-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, True)
    folder.chmod(0o755)
    authority = Authority(folder)
    authority.certificate.chmod(0o644)
    dns = Dns()
    for name in ("api.test", "other.test", "*.zone.test"):
        dns.set(name, PUBLIC)
    secure = Web(port=443, context=authority.context("api.test", "other.test", "*.zone.test"))
    return dns, Web(port=80), secure, authority.certificate


class SecretsCase(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.dns, cls.web, cls.secure, cls.certificate = world()
        cls.server = Server(config=f'egress: {{dns_servers: ["{cls.dns.address}"], trust_store: "{cls.certificate}"}}\n'
                                   "logging: {level: debug}\n")
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        put = cls.server.put("/api/v1/secrets/key", {"value": CANARY})
        assert put.status == 204, put.body

    def setUp(self):
        for one in (self.dns, self.web, self.secure):
            one.forget()

    def create(self, *rules, **wish):
        box = self.server.create(network=allowlist(*rules), **wish)
        self.addCleanup(self.server.delete, path_of(box))
        return box

    def run_in(self, box, command):
        answer = self.server.post(path_of(box, "exec"), {"command": command, "timeout_seconds": 60})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["stdout"] + answer.json["stderr"]

    def codes(self, box, *targets):
        return self.run_in(box, "".join(CODE.format(target) for target in targets)).split()

    def assert_clean(self, data, where):
        data = data if isinstance(data, bytes) else data.encode()
        for spelling in SPELLINGS:
            self.assertNotIn(spelling, data, where)


class Refused(SecretsCase):
    def test_values_come_back_from_nowhere(self):
        listing = self.server.get("/api/v1/secrets")
        self.assertEqual(listing.json, {"secrets": [{"name": "key"}]})
        for method in ("get", "post"):
            self.assertEqual(getattr(self.server, method)("/api/v1/secrets/key").status, 405)
        bad = self.server.put("/api/v1/secrets/no%20name", {"value": CANARY})
        self.assertEqual(bad.status, 400, bad.body)
        self.assert_clean(bad.body, "a refusal")
        long = self.server.put("/api/v1/secrets/long", {"value": CANARY * 200})
        self.assertEqual(long.status, 400, long.body)
        self.assert_clean(long.body, "a refusal")
        self.assertEqual(self.server.delete("/api/v1/secrets/none").status, 404)

    def test_others_have_no_say(self):
        made = self.server.post("/api/v1/tokens", {"tenant": "red", "scopes": ["read", "use", "create"]}).json["token"]
        self.assertEqual(self.server.get("/api/v1/secrets", token=made).status, 403)
        self.assertEqual(self.server.put("/api/v1/secrets/key", {"value": "x"}, token=made).status, 403)
        self.assertEqual(self.server.delete("/api/v1/secrets/key", token=made).status, 403)
        wish = {"network": allowlist(injecting())}
        self.assertEqual(self.server.post("/api/v1/sandboxes", wish, token=made).status, 403)

    def test_not_in_clear_text(self):
        """Neither with the secret nor, by a later rule, without it."""
        box = self.create(injecting(), rule("api.test", 80, 443))
        self.assertEqual(self.codes(box, "http://api.test/", "--noproxy '*' http://api.test/"), ["403", "403"])
        self.assertEqual(self.web.requests, [])

    def test_not_without_the_secret(self):
        box = self.create(injecting(secret="missing"))
        said = self.run_in(box, "curl -s https://api.test/")
        self.assertIn("'missing' is not set", said)
        self.assertEqual(self.secure.requests, [])

    def test_not_by_another_method_path_or_host(self):
        box = self.create(injecting(methods=["GET"], path_prefixes=["/v1"]))
        self.assertEqual(self.codes(box, "https://api.test/v2", "-d x https://api.test/v1/x",
                                    "-H 'Host: other.test' https://api.test/v1/x", "https://other.test/v1",
                                    "https://api.test/v1/%2e%2e/v2"),
                         ["403", "403", "403", "000", "403"])
        self.assertEqual(self.secure.requests, [])

    def test_not_to_where_a_redirection_points(self):
        box = self.create(injecting(), rule("other.test", 443))
        self.run_in(box, "curl -s -L -k https://api.test/to/https://other.test/stolen")
        there = [request for request in self.secure.requests if request.field("host") == "other.test"]
        self.assertEqual([request.target for request in there], ["/stolen"])
        self.assertIsNone(there[0].field("authorization"))

    def test_a_sandbox_that_was_made_without_is_not_looked_into(self):
        box = self.create(rule("api.test", 443))
        answer = self.server.put(path_of(box, "network"), allowlist(injecting()))
        self.assertEqual(answer.status, 501, answer.body)
        self.assertEqual(answer.json["error"]["details"]["field"], "network.rules[0].inject")
        other = self.create(injecting())
        answer = self.server.put(path_of(other, "network"), allowlist(injecting("other.test")))
        self.assertEqual(answer.status, 501, answer.body)

    def test_a_host_that_nobody_vouches_for(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-stranger-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, folder, True)
        stranger = Web(port=8443, context=Authority(folder).context("api.test"))
        box = self.create(rule("api.test", 8443, inject=[{"header": "X-Key", "secret": "key"}]))
        said = self.run_in(box, "curl -s https://api.test:8443/")
        self.assertIn("certificate", said)
        self.assertEqual(stranger.requests, [])


class Used(SecretsCase):
    def sent(self):
        return [request.field("authorization") for request in self.secure.requests]

    def test_clients_get_through_and_do_not_see_it(self):
        leak(self, self.secure)
        box = self.create(injecting(), rule("other.test", 443))
        said = self.run_in(box, "curl -s -H 'Authorization: Bearer mine' https://api.test/leak; "
                                "curl -s --noproxy '*' https://api.test/leak; "
                                "python3 -c \"import urllib.request as u; "
                                "print(u.urlopen('https://api.test/leak').read())\"")
        self.assertEqual(self.sent(), [f"Bearer {CANARY}"] * 3)
        self.assert_clean(said, "what the guest read")
        self.assertEqual(said.count("[secret key]"), 6, said)
        self.assertNotIn("mine", self.secure.raw.decode("latin-1"))

    def test_bodies_pass_whole(self):
        box = self.create(injecting())
        said = self.run_in(box, "curl -s --data-binary @/etc/services https://api.test/echo | cmp - /etc/services && "
                                "curl -s https://api.test/bytes/3000000 | wc -c")
        self.assertEqual(said.strip(), "3000000")

    def test_read_only_and_writable_roots_trust_it(self):
        for root in ("read_only", "writable"):
            box = self.create(injecting(), filesystem={"root": root})
            self.assertEqual(self.codes(box, "https://api.test/"), ["200"], root)
            self.assertEqual(self.run_in(box, "grep -c 'PRIVATE KEY' /etc/ssl/certs/ca-certificates.crt").strip(), "0")

    def test_the_tool_has_the_same_rules(self):
        box = self.create(injecting())
        answer = self.server.post(path_of(box, "tools/execute"),
                                  {"tool": "http_request", "arguments": {"url": "https://api.test/tool"}})
        self.assertEqual(answer.json["result"]["status"], 200, answer.body)
        self.assertEqual(self.sent(), [f"Bearer {CANARY}"])
        self.assert_clean(answer.body, "the tool's answer")
        plain = self.server.post(path_of(box, "tools/execute"),
                                 {"tool": "http_request", "arguments": {"url": "http://api.test/tool"}})
        self.assertEqual(plain.status, 403, plain.body)

    def test_after_a_restart(self):
        box = self.create(injecting())
        self.assertEqual(self.codes(box, "https://api.test/"), ["200"])
        self.server.kill()
        self.server.start()
        self.assertEqual(self.codes(box, "https://api.test/again"), ["200"])
        self.assertEqual(self.sent(), [f"Bearer {CANARY}"] * 2)

    def test_a_change_counts_at_once(self):
        put = self.server.put("/api/v1/secrets/changing", {"value": "first-value"})
        self.assertEqual(put.status, 204, put.body)
        box = self.create(injecting(secret="changing"))
        self.codes(box, "https://api.test/")
        self.server.put("/api/v1/secrets/changing", {"value": "second-value"})
        self.codes(box, "https://api.test/")
        self.assertEqual(self.server.delete("/api/v1/secrets/changing").status, 204)
        self.assertEqual(self.codes(box, "https://api.test/"), ["502"])
        self.assertEqual(self.sent(), ["Bearer first-value", "Bearer second-value"])

    def test_by_the_command(self):
        env = {"CAISSON_URL": self.server.url, "CAISSON_TOKEN": self.server.token, "PATH": "/usr/bin:/bin"}

        def caisson(*words, given=""):
            return subprocess.run([way_out.BIN / "caisson", "secret", *words], input=given, text=True, env=env,
                                  capture_output=True, timeout=60)
        done = caisson("set", "by-command", given=CANARY + "\n")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        listed = caisson("list")
        self.assertIn("by-command", listed.stdout)
        box = self.create(injecting(secret="by-command"))
        self.assertEqual(self.codes(box, "https://api.test/"), ["200"])
        self.assertEqual(self.sent(), [f"Bearer {CANARY}"])
        self.assertEqual(caisson("rm", "by-command").returncode, 0)
        self.assertNotIn("by-command", caisson("list").stdout)
        self.assertNotEqual(caisson("set", "empty", given="").returncode, 0)


class Nowhere(SecretsCase):
    def test_the_canary_is_found_in_no_place(self):
        leak(self, self.secure)
        box = self.create(injecting(), injecting("other.test", secret="missing"))
        self.run_in(box, "curl -s https://api.test/leak -o /tmp/answer; curl -s https://other.test/; "
                         "curl -s http://api.test/; curl -s https://api.test/leak")
        self.assertTrue(self.secure.requests)
        pattern = CANARY.replace("-", "[-]")  # so that the command line is not what is found
        said = self.run_in(box, f"grep -rasl {pattern} /tmp /workspace /etc /run /dev/shm /proc/*/environ "
                                "/proc/*/cmdline 2>/dev/null; env")
        self.assert_clean(said, "the guest")
        self.assertNotIn("/tmp/answer", said)
        for path in ("/metrics", "/api/v1/audit?limit=1000", path_of(box), path_of(box, "usage"), path_of(box, "logs"),
                     "/api/v1/secrets", "/api/v1/sandboxes"):
            self.assert_clean(self.server.get(path).body, path)
        self.assert_clean(self.server.log(), "the log")
        state = pathlib.Path(self.server.state)
        for path in state.rglob("*"):
            if path.is_file() and not path.is_symlink():
                self.assert_clean(path.read_bytes(), path)
        for name in ("secrets", "secrets.key", "authorities.key"):
            self.assertEqual((state / "server" / name).stat().st_mode & 0o777, 0o600, name)
        for pid in os.listdir("/proc"):
            for thing in ("cmdline", "environ"):
                try:
                    self.assert_clean(pathlib.Path(f"/proc/{pid}/{thing}").read_bytes(), f"{pid} {thing}")
                except OSError:
                    pass


class Run(way_out.WayOut):
    """The same for a single run: the value is read from a file, by the process that serves the way out."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.web, cls.secure, cls.certificate = world()
        cls.dns.set("api.test", PUBLIC)
        cls.secret = cls.folder / "value"
        cls.secret.write_text(CANARY + "\n", encoding="ascii")
        cls.secret.chmod(0o600)

    def setUp(self):
        super().setUp()
        self.secure.forget()

    def test_with_and_without_the_file(self):
        os.environ["SSL_CERT_FILE"] = str(self.certificate)
        self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
        leak(self, self.secure)
        lacking = self.run_command([injecting()], "true")
        self.assertNotEqual(lacking.code, 0)
        self.assertIn("--secret key=FILE", lacking.stderr)
        done = self.run_command([injecting()], "sh", "-c", "env; curl -s https://api.test/leak",
                                options=("--secret", f"key={self.secret}"))
        self.assertEqual(done.code, 0, done.stderr)
        self.assertEqual([request.field("authorization") for request in self.secure.requests], [f"Bearer {CANARY}"],
                         done.stdout + done.stderr)
        self.assertNotIn(CANARY, done.stdout + done.stderr)
        self.assertIn("[secret key]", done.stdout)


if __name__ == "__main__":
    way_out.main()
