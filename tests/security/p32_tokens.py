"""P32: no call without a known caller. Every operation of the contract is tried with every kind of bad token."""

import base64
import hashlib
import itertools
import socket
import subprocess
import tempfile

import live_server
from live_server import Attack, BIN, UPGRADE, filled, operations, wait_until

NOBODYS = "cais_" + "a" * 12 + "_" + "b" * 52
SCOPES = ("read", "use", "create", "admin")
MALFORMED = ["x", "cais_", "cais_a_b", NOBODYS, NOBODYS.upper(), NOBODYS + "x", "../../etc/passwd", "' OR 1=1 --",
             "%00", "null", "a" * 400]


class Tokens(Attack):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.peers = (f"127.1.{high}.{low}" for high, low in itertools.product(range(1, 250), range(1, 250)))
        cls.owner = cls.server.new_token("red", "read", "use", "create")["token"]
        cls.box = cls.server.sandbox(cls.owner)

    def attack(self, token, statuses, choose=lambda operation: True, upgrade=False):
        """Each operation that wants a token, with this one; a fresh peer each time, so that none is blocked."""
        tried = 0
        for method, path, operation in operations():
            if operation["x-caisson-scope"] == "none" or not choose(operation):
                continue
            body, headers = live_server.example_body(operation)
            if upgrade and method == "GET":
                headers = {**headers, **UPGRADE}
            answer = self.server.call(method, filled(path, self.box), body, token, headers, next(self.peers))
            with self.subTest(operation=operation["operationId"]):
                self.assertIn(answer.status, statuses, answer)
                self.assertIn(str(answer.status), operation["responses"], "the contract does not declare it")
            tried += 1
        self.assertTrue(tried)
        return tried

    def still_there(self):
        answer = self.server.call("GET", f"/api/v1/sandboxes/{self.box}", token=self.owner)
        self.assertEqual((answer.status, answer.json()["state"]), (200, "running"))

    def test_nothing_without_a_token(self):
        self.assertGreater(self.attack(None, {401}), 40)
        self.attack(None, {401}, upgrade=True)
        self.still_there()

    def test_nothing_with_a_malformed_token(self):
        for token in MALFORMED:
            with self.subTest(token=token):
                self.attack(token, {401})

    def test_nothing_with_a_good_id_and_another_secret(self):
        _, name, secret = self.owner.split("_")
        for other in (secret[:-1] + ("a" if secret[-1] != "a" else "q"), secret[::-1], secret[:-1], "a" * 52):
            self.attack(f"cais_{name}_{other}", {401})

    def test_nothing_with_an_expired_token(self):
        token = self.server.new_token("red", "admin", expires_seconds=0.1)["token"]
        wait_until("it has expired",
                   lambda: self.server.call("GET", "/api/v1/sandboxes", token=token, peer="127.2.0.1").status == 401)
        self.attack(token, {401})
        self.attack(token, {401}, upgrade=True)

    def test_nothing_with_a_revoked_token(self):
        token = self.server.new_token("red", "admin")
        self.assertEqual(self.server.call("GET", "/api/v1/tokens", token=token["token"]).status, 200)
        answer = self.server.call("DELETE", f"/api/v1/tokens/{token['id']}", token=self.server.admin)
        self.assertEqual(answer.status, 204, answer)
        self.attack(token["token"], {401})
        self.attack(token["token"], {401}, upgrade=True)
        self.still_there()

    def hold(self, token, path, headers=None):
        """A connection whose answer does not end by itself, after its head has come."""
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        link = socket.create_connection(("127.0.0.1", self.server.port), live_server.PATIENCE)
        self.addCleanup(link.close)
        link.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        seen = b""
        while b"\r\n\r\n" not in seen:
            part = link.recv(65536)
            self.assertTrue(part, seen)
            seen += part
        self.assertIn(seen.split()[1], (b"101", b"200"), seen)
        return link

    def ends(self, link):
        """True when the server has closed it; a time-out of the socket is a failure."""
        try:
            while link.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    def open_sockets(self, token):
        terminal = self.hold(token, f"/api/v1/sandboxes/{self.box}/terminal?command=cat", UPGRADE)
        events = self.hold(token, "/api/v1/events")
        watch = self.hold(token, f"/api/v1/sandboxes/{self.box}/watch/")
        return terminal, events, watch

    def test_a_revoked_token_ends_on_open_sockets(self):
        token = self.server.new_token("red", "read", "use")
        links = self.open_sockets(token["token"])
        spared = self.hold(self.owner, "/api/v1/events")
        answer = self.server.call("DELETE", f"/api/v1/tokens/{token['id']}", token=self.server.admin)
        self.assertEqual(answer.status, 204, answer)
        self.assertTrue(all(self.ends(link) for link in links))
        spared.setblocking(False)
        try:
            while spared.recv(65536):
                pass
            self.fail("the socket of another token was cut, too")
        except BlockingIOError:
            pass
        # Who withdraws his own token hears that it is done.
        own = self.server.new_token("red", "admin")
        answer = self.server.call("DELETE", f"/api/v1/tokens/{own['id']}", token=own["token"])
        self.assertEqual(answer.status, 204, answer)

    def test_an_expired_token_ends_on_open_sockets(self):
        token = self.server.new_token("red", "read", "use", expires_seconds=3)["token"]
        self.assertTrue(all(self.ends(link) for link in self.open_sockets(token)))

    def test_a_missing_scope_is_recorded(self):
        token = self.server.new_token("red", "read")
        for _ in range(20):
            self.assertEqual(self.server.call("GET", "/api/v1/tokens", token=token["token"]).status, 403)
        page = self.server.call("GET", "/api/v1/audit?action=denied&limit=1000", token=self.server.admin)
        rows = [row for row in page.json()["rows"] if row["actor"] == token["id"]]
        self.assertTrue(rows, page)
        self.assertEqual((rows[0]["object"], rows[0]["outcome"]), ("GET /api/v1/tokens", "denied"))
        self.assertLess(len(rows), 20)

    def test_a_scope_is_not_another(self):
        for scope in SCOPES[:3]:
            token = self.server.new_token("red", scope)["token"]
            self.attack(token, {403}, lambda operation: operation["x-caisson-scope"] != scope)
            self.attack(token, {403}, lambda operation: operation["x-caisson-scope"] != scope, upgrade=True)
        self.still_there()

    def test_a_foreign_tenant_finds_nothing(self):
        token = self.server.new_token("blue", "read", "use", "create")["token"]

        def of_a_sandbox(operation):
            parameters = str(operation.get("parameters", ""))
            return "parameters/Id'" in parameters

        # 426: asked without an upgrade, a socket says so whoever calls.
        self.assertGreater(self.attack(token, {404, 426}, of_a_sandbox), 25)
        self.attack(token, {404}, of_a_sandbox, upgrade=True)
        self.still_there()

    def test_what_is_not_declared_is_not_there(self):
        for method, path in (("GET", "/api/v1/nothing"), ("GET", "/api/v2/sandboxes"), ("PUT", "/api/v1/sandboxes"),
                             ("GET", "//api/v1/sandboxes"), ("GET", "/api/v1/sandboxes/"), ("TRACE", "/metrics"),
                             ("GET", "/api/v1/%73andboxes"), ("GET", "/healthz/../metrics"), ("GET", "/METRICS")):
            answer = self.server.call(method, path, peer=next(self.peers))
            self.assertIn(answer.status, (400, 401, 404, 405, 501), (method, path, answer))

    def test_a_token_in_the_address_is_refused_and_not_logged(self):
        for name in ("token", "access_token", "api_key", "Authorization", "X-API-Key", "key"):
            for path in ("/api/v1/sandboxes", f"/api/v1/sandboxes/{self.box}", "/metrics", "/healthz"):
                answer = self.server.call("GET", f"{path}?{name}={self.owner}", peer=next(self.peers))
                self.assertIn(answer.status, (400, 401), (path, answer))
                self.assertNotIn(self.owner, answer.text)
        answer = self.server.call("GET", f"/api/v1/sandboxes?token={self.owner}", token=self.owner)
        self.assertEqual(answer.status, 400, answer)
        self.assertNotIn(self.owner, answer.text)
        self.assertNotIn(self.owner, self.server.log())

    def test_two_tokens_are_one_too_many(self):
        other = self.server.new_token("blue", "read")["token"]
        answer = self.server.call("GET", "/api/v1/sandboxes", token=self.owner, headers={"X-API-Key": other})
        self.assertEqual(answer.status, 400, answer)
        twice = (f"GET /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.owner}\r\n"
                 f"Authorization: Bearer {other}\r\nConnection: close\r\n\r\n").encode()
        self.assertTrue(self.server.raw(twice).startswith(b"HTTP/1.1 400"))

    def test_the_database_holds_no_token(self):
        tokens = [self.owner, self.server.admin, self.server.new_token("red", "read")["token"]]
        held = b"".join(path.read_bytes() for path in self.server.state.rglob("*")
                        if path.is_file() and path.parent.name in ("server", "run", "launcher"))
        for token in tokens:
            secret = token.split("_")[2]
            self.assertNotIn(secret.encode(), held)
            self.assertNotIn(base64.b32decode(secret.upper() + "=" * (-len(secret) % 8)), held)
            # We did look into the right files.
            self.assertIn(hashlib.sha256(secret.encode()).hexdigest().encode(), held)

    def test_guessing_is_slowed_and_recorded(self):
        peer = "127.3.0.1"
        answers = [self.server.call("GET", "/api/v1/sandboxes", token=NOBODYS, peer=peer) for _ in range(1000)]
        refused = [answer for answer in answers if answer.status == 401]
        slowed = [answer for answer in answers if answer.status == 429]
        self.assertEqual(len(refused) + len(slowed), 1000)
        # A minute may have begun anew on a slow machine, but not often.
        self.assertLessEqual(len(refused), 100)
        self.assertTrue(all(int(answer.header("Retry-After")) > 0 for answer in slowed))
        # Only what fails is slowed: a good token from the same address works, and a bad one waits all the same.
        self.assertEqual(self.server.call("GET", "/api/v1/sandboxes", token=self.owner, peer=peer).status, 200)
        self.assertEqual(self.server.call("GET", "/api/v1/sandboxes", token=NOBODYS, peer=peer).status, 429)
        self.assertEqual(self.server.call("GET", "/healthz", peer=peer).status, 200)
        self.assertEqual(self.server.call("GET", "/api/v1/sandboxes", token=self.owner).status, 200)
        page = self.server.call("GET", "/api/v1/audit?action=login&outcome=denied&limit=1000", token=self.server.admin)
        rows = [row for row in page.json()["rows"] if peer in str(row)]
        self.assertTrue(rows, page)
        self.assertLess(len(rows), 200)

    def test_a_server_without_tokens_is_for_this_machine_only(self):
        for flags in (["--open", "--listen", "0.0.0.0:0"], ["--open", "--listen", "[::]:0"],
                      ["--open", "--behind-tls-proxy", "--listen", "0.0.0.0:0"], ["--listen", "0.0.0.0:0"]):
            with tempfile.TemporaryDirectory(dir="/tmp") as folder:
                ended = subprocess.run([BIN / "caisson", "serve", "--state-dir", f"{folder}/state", *flags],
                                       capture_output=True, timeout=30, check=False)
            self.assertNotEqual(ended.returncode, 0, flags)
            self.assertNotIn(b"listening", ended.stdout)
            self.assertTrue(ended.stderr)


if __name__ == "__main__":
    live_server.main()
