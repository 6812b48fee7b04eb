"""P29: a proxy identity works only for its own sandbox. The listener says whose connection it is, the token must say the
same; what is forged, altered, endless, another's or of a sandbox that is gone, is worth nothing. The proxy on the host
asks for the same token."""

import atexit
import base64
import functools
import hashlib
import hmac
import json
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "server")]

import way_out
from harness import PATIENCE, Server, path_of
from upstream import Dns, Web
from way_out import PUBLIC, allowlist, rule

CODE = "curl -s -o /dev/null -w '%{{http_code}} ' {}; "


def letters(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unletters(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@functools.cache
def world():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-token-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, True)
    dns = Dns()
    for name in ("good.test", "other.test", "*.zone.test"):
        dns.set(name, PUBLIC)
    return dns, Web(port=80)


class TokenCase(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.dns, cls.web = world()
        cls.server = Server(config=f'egress: {{dns_servers: ["{cls.dns.address}"], host_port: "127.0.0.1:0"}}\n'
                                   "logging: {level: info}\n")
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.key = None

    def setUp(self):
        self.web.forget()

    def create(self, *rules, token=True):
        box = self.server.create(network=allowlist(*rules, token=token))
        self.addCleanup(self.server.delete, path_of(box))
        return box

    def run_in(self, box, command):
        answer = self.server.post(path_of(box, "exec"), {"command": command})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["stdout"]

    def token_of(self, box):
        found = re.match(r"http://sandbox:jwt_([\w.-]+)@127\.0\.0\.1:3128$", self.run_in(box, "echo $HTTP_PROXY").strip())
        self.assertIsNotNone(found)
        return found[1]

    def with_token(self, box, *tokens, url="http://good.test/"):
        """What a client in this sandbox is told that shows these."""
        proxies = [f"-x 'http://sandbox:jwt_{token}@127.0.0.1:3128' {url}" for token in tokens]
        return self.run_in(box, "".join(CODE.format(proxy) for proxy in proxies)).split()

    def signed(self, claims, header=None, key=None):
        if key is None:
            key = (self.server.state / "server" / "proxy-tokens.key").read_bytes().rstrip(b"\n")
        header = {"alg": "HS256", "typ": "JWT"} if header is None else header
        head = letters(json.dumps(header).encode()) + "." + letters(json.dumps(claims).encode())
        return head + "." + letters(hmac.new(key, head.encode(), hashlib.sha256).digest())

    def claims(self, token):
        return json.loads(unletters(token.split(".")[1]))


class Inside(TokenCase):
    def test_its_own_works_and_is_not_passed_on(self):
        box = self.create(rule("good.test", 80))
        self.assertEqual(self.run_in(box, CODE.format("http://good.test/") + CODE.format("-p http://good.test/")),
                         "200 200 ")
        self.assertEqual(len(self.web.requests), 2)
        self.assertNotIn(b"proxy-authorization", self.web.raw.lower())
        self.assertNotIn(b"jwt_", self.web.raw)

    def test_without_one(self):
        box = self.create(rule("good.test", 80))
        said = self.run_in(box, "curl -s -i -x http://127.0.0.1:3128 http://good.test/; " +
                           CODE.format("-x http://127.0.0.1:3128 -p http://good.test/"))
        self.assertIn("407", said.splitlines()[0])
        self.assertIn("proxy-authenticate: basic", said.lower())
        self.assertEqual(self.web.requests, [])

    def test_forged_altered_and_endless(self):
        box = self.create(rule("good.test", 80))
        token = self.token_of(box)
        good = self.claims(token)
        head, body, mac = token.split(".")
        wider = letters(json.dumps({**good, "allowed_hosts": "*.test,good.test,other.test"}).encode())
        endless = {name: value for name, value in good.items() if name != "exp"}
        none = letters(b'{"alg":"none","typ":"JWT"}')
        bad = [self.signed(good, key=b"x" * 44), f"{none}.{body}.", f"{none}.{body}.{mac}", f"{head}.{wider}.{mac}",
               f"{head}.{body}.", f"{head}.{body}", f"{head}.{body}.{mac[:-2]}", self.signed(endless),
               self.signed({**good, "exp": int(time.time()) - 1}), self.signed({**good, "exp": "later"}),
               self.signed(good, header={"alg": "HS512", "typ": "JWT"}), self.signed(good, header={"alg": "RS256"}),
               self.signed(good, header={"alg": "none"}), "x", token + ".x"]
        self.assertEqual(self.with_token(box, *bad), ["407"] * len(bad))
        self.assertEqual(self.web.requests, [])
        self.assertEqual(self.with_token(box, self.signed(good), token), ["200", "200"])

    def test_another_sandboxs(self):
        one, two = self.create(rule("good.test", 80)), self.create(rule("good.test", 80))
        stolen = self.token_of(one)
        self.assertEqual(self.with_token(two, stolen), ["403"])
        self.server.delete(path_of(one))
        self.assertEqual(self.with_token(two, stolen), ["403"])
        self.assertEqual(self.web.requests, [])

    def test_it_narrows_and_never_widens(self):
        box = self.create(rule("good.test", 80), rule("*.zone.test", 80))
        good = self.claims(self.token_of(box))
        narrow = self.signed({**good, "allowed_hosts": "a.zone.test"})
        wide = self.signed({**good, "allowed_hosts": "good.test,other.test,*.zone.test"})
        self.assertEqual(self.with_token(box, narrow), ["403"])
        self.assertEqual(self.with_token(box, narrow, url="http://a.zone.test/"), ["200"])
        self.assertEqual(self.with_token(box, wide, url="http://other.test/"), ["403"])
        self.assertEqual(self.with_token(box, wide), ["200"])


class OnTheHost(TokenCase):
    def port(self):
        found = re.findall(r"a proxy for holders of a sandbox's token at http://127\.0\.0\.1:(\d+)", self.server.log())
        return int(found[-1])

    def ask(self, token, url="http://good.test/x", more="", times=1):
        """The status of each answer on one connection; the token goes with the first alone where there are several."""
        credential = base64.b64encode(f"sandbox:jwt_{token}".encode()).decode()
        host, said = url.split("/")[2], []
        with socket.create_connection(("127.0.0.1", self.port()), timeout=PATIENCE) as link:
            stream = link.makefile("rb")
            for turn in range(times):
                proof = f"Proxy-Authorization: Basic {credential}\r\n" if token and turn == 0 else ""
                link.sendall(f"GET {url} HTTP/1.1\r\nHost: {host}\r\n{proof}{more}\r\n".encode())
                line = stream.readline()
                said.append(int(line.split()[1]) if line else 0)
                length = 0
                while (field := stream.readline().strip()):
                    if field.lower().startswith(b"content-length:"):
                        length = int(field.split(b":")[1])
                stream.read(length)
        return said

    def test_a_living_sandboxs_token(self):
        box = self.create(rule("good.test", 80))
        token = self.token_of(box)
        self.assertEqual(self.ask(token), [200])
        self.assertEqual(self.ask(token, url="http://other.test/"), [403])
        self.assertEqual(self.ask(token, times=2), [200, 407], "each request shows it")
        self.assertNotIn(b"proxy-authorization", self.web.raw.lower())
        self.server.delete(path_of(box))
        self.assertEqual(self.ask(token), [407])

    def test_nobody_elses(self):
        box = self.create(rule("good.test", 80))
        plain = self.create(rule("good.test", 80), token=False)
        good = self.claims(self.token_of(box))
        for session in ("sb-none", plain, "", "../" + box):
            self.assertEqual(self.ask(self.signed({**good, "session_id": session})), [407], session)
        self.assertEqual(self.ask(""), [407])
        self.assertEqual(self.ask("x.y.z"), [407])
        self.assertEqual(self.web.requests, [])

    def test_after_a_restart_it_is_the_same_key(self):
        box = self.create(rule("good.test", 80))
        token = self.token_of(box)
        self.server.kill()
        self.server.start()
        self.assertEqual(self.ask(token), [200])
        self.assertEqual(self.with_token(box, token), ["200"])


if __name__ == "__main__":
    way_out.main()
