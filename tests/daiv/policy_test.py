"""The egress policy of a session, in a world of the test's own: what it opens, what it does not, and what is seen."""

import atexit
import functools
import os
import pathlib
import re
import shutil
import tempfile

from daiv_case import DaivCase

import way_out
from harness import main, wait_for
from upstream import Authority, Dns, Web
from way_out import PUBLIC

NAMES = ("first.test", "second.test", "limited.test", "unnamed.test")
CANARY = "canary-of-the-policy-test"
CODE = "curl -s -o /dev/null -w '%{{http_code}} ' {}; "
TRUST = "/etc/ssl/certs/ca-certificates.crt"


@functools.cache
def world():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-policy-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, True)
    folder.chmod(0o755)
    authority = Authority(folder)
    authority.certificate.chmod(0o644)
    dns = Dns()
    for name in NAMES:
        dns.set(name, PUBLIC)
    dns.set("inside.test", "10.0.0.7")
    return dns, Web(port=80), Web(port=443, context=authority.context(*NAMES)), authority.certificate


def policy(*rules, default="deny", secrets=None, **more):
    said = {"policy": {"default": default, "rules": list(rules), **more}}
    return said | ({"secrets": secrets} if secrets else {})


def certificates(text):
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.DOTALL)


class PolicyCase(DaivCase):
    @classmethod
    def setUpClass(cls):
        cls.dns, cls.web, cls.secure, certificate = world()
        cls.config = f'egress: {{dns_servers: ["{cls.dns.address}"], trust_store: "{certificate}"}}\n'
        super().setUpClass()

    def setUp(self):
        for one in (self.dns, self.web, self.secure):
            one.forget()

    def codes(self, session, *targets):
        return self.run_one(session, "".join(CODE.format(target) for target in targets))[0].split()

    def put(self, session, egress):
        return self.call("PUT", f"/session/{session}/egress/", egress)

    def seen(self, session, host, count=1):
        """Method and path of each request to a host that the audit knows of."""
        def look():
            rows = self.server.get(f"/api/v1/audit?limit=1000&sandbox={session}&action=egress.request").json["rows"]
            found = [(row["detail"]["method"], row["detail"]["path"]) for row in rows if row["object"] == host]
            return len(found) >= count and found
        return wait_for(look, f"{count} rows about {host}")


class Closed(PolicyCase):
    def test_a_method_that_is_not_listed_though_all_else_is_open(self):
        for intercept in ("all", "credentialed"):
            session = self.session(egress=policy({"host": "limited.test", "methods": ["get"]}, default="allow",
                                                 intercept=intercept))
            self.assertEqual(self.codes(session, "-X POST https://limited.test/", "-X POST http://limited.test/",
                                        "-X DELETE --noproxy '*' https://limited.test/"), ["403"] * 3, intercept)
            self.assertEqual(self.secure.requests + self.web.requests, [], intercept)
            self.assertEqual(self.codes(session, "https://limited.test/", "http://limited.test/"), ["200"] * 2)
            self.secure.forget()
            self.web.forget()

    def test_an_address_and_what_lies_inside(self):
        session = self.session(egress=policy(default="allow"))
        codes = self.codes(session, f"https://{PUBLIC}/", f"--noproxy '*' -m 5 https://{PUBLIC}/",
                           "https://inside.test/", f"--connect-to ::{PUBLIC}:443 https://unnamed.test/")
        self.assertEqual(set(codes) - {"000", "403"}, set())
        self.assertEqual((self.secure.requests, self.secure.arrived), ([], []))

    def test_the_authority_of_another_session(self):
        """Each has its own: what one trusts is nothing to the other."""
        mine = self.session(egress=policy(default="allow"))
        other = self.session(egress=policy(default="allow"))
        plain = self.session(network_enabled=True)
        trusted = [set(certificates(self.run_one(one, f"cat {TRUST}")[0])) for one in (mine, other, plain)]
        own = list(trusted[0] - trusted[2])
        self.assertEqual((len(own), len(trusted[1] - trusted[2])), (1, 1), "one beside those of the host")
        self.assertNotIn(own[0], trusted[1])
        self.run_one(other, f"cat > /tmp/mine.pem <<'END'\n{own[0]}\nEND")
        alone = "--cacert /tmp/mine.pem --capath /nowhere https://unnamed.test/"
        self.assertEqual(self.run_one(other, "curl -s " + alone)[1], 60)
        self.assertEqual(self.secure.requests, [])
        self.run_one(mine, f"cat > /tmp/mine.pem <<'END'\n{own[0]}\nEND")
        self.assertEqual(self.codes(mine, alone), ["200"])

    def test_a_host_that_nobody_vouches_for(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir="/tmp")))
        stranger = Web(port=8443, context=Authority(folder).context("unnamed.test"))
        session = self.session(egress=policy(default="allow"))
        self.assertEqual(self.codes(session, "https://unnamed.test:8443/"), ["502"])
        self.assertEqual(stranger.requests, [])

    def test_the_secrets_of_others(self):
        """A policy names its own secrets; those that an administrator keeps are none of them."""
        self.assertEqual(self.server.put("/api/v1/secrets/operators", {"value": CANARY}).status, 204)
        body = {"base_image": "host", "egress": policy({"host": "first.test", "inject": "operators"})}
        self.assertEqual(self.call("POST", "/session/", body).status, 422)
        session = self.session(egress=policy({"host": "first.test"}))
        self.assertEqual(self.put(session, policy({"host": "first.test", "inject": "operators"})).status, 422)
        wish = {"mode": "allowlist", "rules": [{"domain": "*", "inject": [{"header": "X-Key", "secret": "operators"}]}]}
        refused = self.server.put(f"/api/v1/sandboxes/{session}/network", wish)
        self.assertEqual(refused.status, 400, refused.body)
        self.assertEqual(refused.json["error"]["details"]["field"], "network.rules[0].inject")


class Open(PolicyCase):
    def test_every_host_is_looked_into(self):
        session = self.session(egress=policy(default="allow", intercept="all"))
        self.assertEqual(self.codes(session, "https://unnamed.test/some/path?x=1", "--noproxy '*' https://first.test/",
                                    "-X DELETE https://second.test/it"), ["200"] * 3)
        self.assertEqual(self.seen(session, "unnamed.test:443"), [("GET", "/some/path")])
        self.assertEqual(self.seen(session, "first.test:443"), [("GET", "/")])
        self.assertEqual(self.seen(session, "second.test:443"), [("DELETE", "/it")])
        said, code = self.run_one(session, "python3 -c \"import urllib.request as u; "
                                           "print(u.urlopen('https://unnamed.test/').status)\"")
        self.assertEqual((said, code), ("200\n", 0))

    def test_credentialed_leaves_the_rest_alone(self):
        session = self.session(egress=policy({"host": "limited.test", "methods": ["GET"]}, default="allow",
                                             intercept="credentialed"))
        issuer = "curl -skv https://{}/ 2>&1 | grep issuer: | sed 's/.*CN=//'"
        self.assertEqual(self.run_one(session, issuer.format("unnamed.test"))[0], "test authority\n")
        self.assertIn("caisson sandbox", self.run_one(session, issuer.format("limited.test"))[0])

    def test_a_host_that_the_session_was_not_started_with(self):
        session = self.session(egress=policy({"host": "first.test"}, intercept="credentialed"))
        more = policy({"host": "second.test", "inject": "key"}, {"host": "limited.test", "methods": ["GET"]},
                      secrets={"key": {"header": "X-Key", "value": CANARY}})
        self.assertEqual(self.put(session, more).status, 204)
        self.assertEqual(self.codes(session, "https://second.test/a", "https://limited.test/",
                                    "-d x https://limited.test/"), ["200", "200", "403"])
        self.assertEqual([request.field("x-key") for request in self.secure.requests], [CANARY, None])
        self.assertEqual(self.codes(session, "https://first.test/"), ["000"])
        self.assertEqual(self.seen(session, "second.test:443"), [("GET", "/a")])
        self.assertEqual(self.put(session, policy(default="allow")).status, 204)
        self.assertEqual(self.codes(session, "https://unnamed.test/"), ["200"])
        self.server.kill()
        self.server.start()
        self.assertEqual(self.put(session, policy({"host": "first.test"})).status, 204)
        self.assertEqual(self.codes(session, "https://first.test/again"), ["200"])

    def test_a_secret_for_every_host(self):
        session = self.session(egress=policy({"host": "*", "inject": "key"},
                                             secrets={"key": {"header": "X-Key", "value": CANARY}}))
        self.assertEqual(self.codes(session, "-H 'X-Key: mine' https://unnamed.test/", "https://first.test/",
                                    "http://first.test/"), ["200", "200", "403"])
        self.assertEqual([request.field("x-key") for request in self.secure.requests], [CANARY] * 2)
        self.assertEqual(self.web.requests, [])


if __name__ == "__main__":
    if os.geteuid() == 0:
        way_out.enter_own_world()
    main()
