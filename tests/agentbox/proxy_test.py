"""Who may be reached: with the variables of proxy mode, without them, and around them."""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import shutil
import tempfile
import time

from agentbox_case import DEFAULT_HOSTS, AgentboxCase, main

import way_out
from upstream import Authority, Dns, Web
from way_out import PUBLIC

KEY = "0123456789abcdef" * 4  # as text; nobody decodes it
HOST, PORT = "egress-proxy", 15004
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
UNSET = "unset " + " ".join(NAMES) + "; "
FOUR_HOURS = 4 * 3600


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


class World(AgentboxCase):
    """Names lead to servers of the test's own, and nothing leaves the machine."""

    web = secure = None

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-proxy-", dir="/tmp"))
        folder.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, folder, True)
        cls.authority = Authority(folder)
        cls.dns = Dns()
        for name in ("good.test", "*.zone.test", "zone.test", "other.test", "evilzone.test"):
            cls.dns.set(name, PUBLIC)
        cls.dns.set("inward.test", "127.0.0.1")
        cls.dns.set("metadata.test", "169.254.169.254")
        if World.web is None:  # the ports are there once, for all classes
            World.web, World.secure = Web(port=80), Web(port=443, context=cls.authority.context("good.test"))
        cls.config = f'egress: {{dns_servers: ["{cls.dns.address}"]}}\n'
        super().setUpClass()

    def setUp(self):
        self.web.forget()
        self.secure.forget()

    def codes(self, session, *targets, before=""):
        """What curl gets from each, as it was told to."""
        script = before + "".join(f"curl -s -m 20 -o /dev/null -w '%{{http_code}} ' {one}; " for one in targets)
        return self.execute(session, script, timeout=120).stdout.split()


class Direct(World):
    """Without proxy mode there are no variables, and the list holds all the same."""

    def test_allowed_and_not(self):
        session = self.session(allowed_hosts=["good.test", "*.zone.test"])
        self.assertEqual(self.says(session, "env | grep -ic proxy; :"), "0\n")
        self.assertEqual(self.codes(session, "http://good.test/", "http://zone.test/", "http://a.b.zone.test/",
                                    "http://other.test/", "http://evilzone.test/", "http://sub.good.test/",
                                    "-k https://good.test/"),
                         ["200", "200", "200", "000", "000", "000", "200"])

    def test_entries_that_match_nothing(self):
        session = self.session(allowed_hosts=["*", "*zone.test", "other.test:80", "good.test.", "[::1]", "127.0.0.1"])
        self.assertEqual(self.codes(session, "http://good.test/", "http://a.zone.test/", "http://other.test/",
                                    "http://127.0.0.1/", "http://[::1]/"), ["000"] * 5)
        self.assertEqual(self.web.arrived, [])

    def test_upper_case(self):
        session = self.session(allowed_hosts=["GOOD.Test"])
        self.assertEqual(self.codes(session, "http://good.test/", "http://Good.TEST/"), ["200", "200"])

    def test_only_two_ports(self):
        session = self.session(allowed_hosts=["good.test"])
        self.assertEqual(self.codes(session, "http://good.test:8080/", f"http://good.test:{self.server.port}/"), ["000"] * 2)

    def test_localhost_means_none(self):
        session = self.session(allowed_hosts=["localhost"])
        self.assertEqual(list(self.listed(session).allowed_hosts), ["localhost"])
        ports = (80, self.server.port, self.server.grpc_port)
        self.assertEqual(self.codes(session, "http://good.test/", *(f"http://localhost:{one}/" for one in ports)),
                         ["000"] * 4)
        self.assertEqual(self.web.arrived, [])

    def test_names_that_lead_inward(self):
        session = self.session(allowed_hosts=["inward.test", "metadata.test"])
        for code in self.codes(session, "http://inward.test/", "http://metadata.test/"):
            self.assertIn(code, ("000", "403", "502"))
        self.assertEqual(self.web.arrived, [])


class Proxy(World):
    settings = {"proxy_host": HOST, "proxy_port": PORT}
    env = {"SIGNING_KEY": KEY}

    def variables(self, session):
        seen = dict(line.split("=", 1) for line in self.says(session, "env").splitlines())
        return {name: value for name, value in seen.items() if "proxy" in name.lower()}

    def token(self, session):
        value = self.variables(session)["HTTP_PROXY"]
        self.assertTrue(value.startswith("http://sandbox:jwt_") and value.endswith(f"@{HOST}:{PORT}"), value)
        return value.removeprefix("http://sandbox:jwt_").removesuffix(f"@{HOST}:{PORT}")

    def test_four_variables(self):
        session = self.session()
        seen = self.variables(session)
        self.assertEqual(sorted(seen), sorted(NAMES))
        self.assertEqual(len(set(seen.values())), 1)
        self.assertEqual(self.variables(session), seen, "fixed for the session's life")

    def test_the_token(self):
        for tenant, hosts in (("t", ["good.test", "*.zone.test"]), (None, None)):
            wish = {"tenant_id": tenant, "allowed_hosts": hosts} if tenant else {}
            before = int(time.time())
            made = self.info(**wish)
            head, claims, mark = self.token(made.session_id).split(".")
            self.assertEqual(json.loads(decoded(head)), {"typ": "JWT", "alg": "HS256"})
            wanted = hmac.new(KEY.encode(), f"{head}.{claims}".encode(), hashlib.sha256).digest()
            self.assertEqual(decoded(mark), wanted)
            said = json.loads(decoded(claims))
            self.assertEqual(list(said), ["iss", "session_id", "tenant_id", "allowed_hosts", "exp"])
            self.assertEqual(decoded(claims).decode(), json.dumps(said, separators=(",", ":")))
            self.assertEqual((said["iss"], said["session_id"], said["tenant_id"], said["allowed_hosts"]),
                             ("sandbox-egress-control", made.session_id, tenant, ",".join(hosts or DEFAULT_HOSTS)))
            self.assertIsInstance(said["exp"], int)
            self.assertTrue(before + FOUR_HOURS <= said["exp"] <= time.time() + FOUR_HOURS, said)

    def test_allowed_and_not_with_the_variables(self):
        session = self.session(allowed_hosts=["good.test", "*.zone.test"])
        self.assertEqual(self.codes(session, "http://good.test/", "http://zone.test/", "http://a.b.zone.test/",
                                    "http://other.test/", "http://evilzone.test/", "-k https://good.test/"),
                         ["200", "200", "200", "403", "403", "200"])
        self.assertEqual(self.says(session, "curl -s http://other.test/x").splitlines()[0], "Host not allowed: other.test")
        self.assertEqual(self.says(session, "curl -s -o /dev/null -w '%{http_connect}' https://other.test/ ; :"), "403")

    def test_without_the_variables_nothing_else_leaves(self):
        session = self.session(allowed_hosts=["good.test"])
        self.assertEqual(self.codes(session, "http://good.test/", "http://other.test/", f"http://{PUBLIC}/",
                                    before=UNSET), ["200", "000", "000"])

    def ask(self, session, head):
        """A line to the proxy, and the first of its answer."""
        code = ("import socket; s = socket.create_connection((\"%s\", %d), 10); s.sendall(%r.encode()); "
                "print(s.recv(4096).decode())" % (HOST, PORT, head))
        self.api.WriteFile(session_id=session, path="ask.py", content=code)
        return self.says(session, UNSET + "python3 ask.py")

    def test_no_token_or_a_wrong_one_is_407(self):
        session = self.session(allowed_hosts=["good.test"])
        other = self.token(self.session(allowed_hosts=["good.test"]))
        mine = self.token(session)
        forged = mine.rsplit(".", 1)[0] + "." + base64.urlsafe_b64encode(b"\0" * 32).decode().strip("=")
        for credentials in (None, "sandbox:", "sandbox:jwt_", f"sandbox:{mine}", f"sandbox:jwt_{forged}",
                            "sandbox:jwt_a.b.c", f"jwt_{mine}"):
            said = "" if credentials is None else \
                f"Proxy-Authorization: Basic {base64.b64encode(credentials.encode()).decode()}\r\n"
            for line in ("GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n", "CONNECT good.test:443 HTTP/1.1\r\n"):
                answer = self.ask(session, line + said + "\r\n")
                self.assertTrue(answer.startswith("HTTP/1.1 407"), (credentials, answer[:100]))
                self.assertIn("proxy-authenticate: basic", answer.lower())
        theirs = base64.b64encode(f"sandbox:jwt_{other}".encode()).decode()
        answer = self.ask(session, f"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nProxy-Authorization: Basic {theirs}\r\n\r\n")
        self.assertRegex(answer, "^HTTP/1.1 40[37] ", "another session's token is nobody's here")
        self.assertEqual(self.web.requests, [])
        good = base64.b64encode(f"anybody:jwt_{mine}".encode()).decode()
        answer = self.ask(session, f"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nProxy-Authorization: Basic {good}\r\n\r\n")
        self.assertTrue(answer.startswith("HTTP/1.1 200"), answer[:100])

    def test_other_answers_of_the_proxy(self):
        session = self.session(allowed_hosts=["good.test", "nowhere.test"])
        auth = base64.b64encode(f"x:jwt_{self.token(session)}".encode()).decode()
        said = f"Proxy-Authorization: Basic {auth}\r\n\r\n"
        answer = self.ask(session, f"CONNECT other.test:443 HTTP/1.1\r\n{said}")
        self.assertTrue(answer.startswith("HTTP/1.1 403"), answer)
        self.assertIn("content-type: text/plain; charset=utf-8", answer.lower())
        self.assertIn("Host not allowed: other.test", answer)
        answer = self.ask(session, f"CONNECT nowhere.test:443 HTTP/1.1\r\n{said}")
        self.assertTrue(answer.startswith("HTTP/1.1 502"), answer)
        self.assertIn("Failed to connect: ", answer)
        answer = self.ask(session, f"GET http://nowhere.test/ HTTP/1.1\r\nHost: nowhere.test\r\n{said}")
        self.assertTrue(answer.startswith("HTTP/1.1 502"), answer)
        self.assertIn("Proxy error: ", answer)
        answer = self.ask(session, f"GET /relative HTTP/1.1\r\nHost: good.test\r\n{said}")
        self.assertTrue(answer.startswith("HTTP/1.1 400"), answer)
        answer = self.ask(session, f"CONNECT good.test:443 HTTP/1.1\r\n{said}")
        self.assertTrue(answer.startswith("HTTP/1.1 200 Connection Established"), answer)

    def test_what_the_host_sees_of_a_request(self):
        session = self.session(allowed_hosts=["good.test"])
        self.assertEqual(self.codes(session, "-H 'X-One: 1' http://good.test/path?q=1"), ["200"])
        request = self.web.requests[-1]
        self.assertEqual((request.target, request.field("x-one"), request.all("host")), ("/path?q=1", "1", ["good.test"]))
        for name in ("proxy-authorization", "proxy-connection"):
            self.assertIsNone(request.field(name))

    def test_user_info_is_not_the_host(self):
        session = self.session(allowed_hosts=["good.test"])
        auth = base64.b64encode(f"x:jwt_{self.token(session)}".encode()).decode()
        answer = self.ask(session, f"GET http://good.test:x@127.0.0.1/ HTTP/1.1\r\nHost: good.test\r\n"
                                   f"Proxy-Authorization: Basic {auth}\r\n\r\n")
        self.assertRegex(answer, "^HTTP/1.1 4")
        self.assertEqual(self.web.requests, [])

    def test_localhost_means_none(self):
        session = self.session(allowed_hosts=["localhost"])
        self.assertEqual(sorted(self.variables(session)), sorted(NAMES))
        for before in ("", UNSET):
            for code in self.codes(session, "http://localhost/", "http://good.test/",
                                   f"http://localhost:{self.server.grpc_port}/", before=before):
                self.assertIn(code, ("000", "403", "502"))
        self.assertEqual(self.web.arrived, [])

    def test_the_token_is_in_no_answer_and_no_log(self):
        session = self.session(allowed_hosts=["good.test"])
        mark = self.token(session).rsplit(".", 1)[1]
        self.codes(session, "http://good.test/", "http://other.test/")
        self.assertNotIn(mark, self.server.log())
        self.assertNotIn(mark, self.server.get("/api/v1/audit?limit=1000").body.decode())
        self.assertNotIn(KEY, self.server.log())


if __name__ == "__main__":
    if os.geteuid() == 0:
        way_out.enter_own_world()
    main()
