"""P35: a sandbox's web page is a stranger to the console and to its siblings. The program inside is hostile: it keeps
every byte that reaches it, and answers with whatever bytes an attack wants."""

import http.client
import io
import urllib.parse

import live_server
from live_server import UPGRADE, Attack, wait_until

VHOST = "box.test"
PORT = 8000
NEVER_WAS = "a" * 26
# /say?BYTES answers with these bytes; /heard with all that came so far, in one connection each.
PROGRAM = """
import socket, threading, urllib.parse
heard = []
def serve(link):
    got = b""
    while b"\\r\\n\\r\\n" not in got:
        piece = link.recv(65536)
        if not piece:
            break
        got += piece
    path = got.split(b" ")[1].decode()
    if path == "/heard":
        body = b"\\n--\\n".join(heard)
        heard.clear()
        link.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    else:
        link.settimeout(0.2 if path.startswith("/rest") else 0)
        try:
            while piece := link.recv(65536):
                got += piece
        except OSError:
            pass
        heard.append(got)
        said = urllib.parse.unquote_to_bytes(path.partition("?")[2])
        link.settimeout(5)
        link.sendall(said or b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    link.close()
door = socket.create_server(("127.0.0.1", 8000))
while True:
    threading.Thread(target=serve, args=(door.accept()[0],), daemon=True).start()
"""


class Previews(Attack):
    flags = ("--vhost", f"https://{VHOST}")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.red = cls.server.new_token("red", "read", "use", "create")["token"]
        cls.blue = cls.server.new_token("blue", "read", "use", "create")["token"]
        cls.box, cls.sibling = cls.site(cls.red), cls.site(cls.red)

    @classmethod
    def site(cls, token):
        box = cls.server.sandbox(token, files={"program.py": PROGRAM})
        cls.server.call("POST", f"/api/v1/sandboxes/{box}/processes", {"command": "exec python3 program.py"}, token)
        wait_until("the program listens", lambda: cls.server.call(
            "GET", f"/api/v1/sandboxes/{box}/ports/{PORT}/", token=token).status == 200)
        return box

    def host(self, box=None, port=None):
        return (f"{port}-" if port else "") + f"{box or self.box}.{VHOST}"

    def send(self, path="/", box=None, method="GET", fields=(), body=b"", host=None, token=None):
        """One request, each field as it stands here; the whole answer as bytes."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host or self.host(box)}", "Connection: close"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        lines += [f"{name}: {value}" for name, value in fields]
        return self.server.raw("\r\n".join([*lines, "", ""]).encode() + body)

    def status(self, *words, **more):
        answer = self.send(*words, **more)
        self.assertTrue(answer.startswith(b"HTTP/1.1 "), answer)
        return int(answer.split()[1])

    def heard(self, box=None):
        """All that reached the program since the last look."""
        return self.send("/heard", box, token=self.red).partition(b"\r\n\r\n")[2]

    def said(self, answer):
        """What a client gets when the program answers with these bytes."""
        return self.send("/say?" + urllib.parse.quote(answer, safe=""), token=self.red)

    def enter(self, box=None):
        made = self.server.call("POST", f"/api/v1/sandboxes/{box or self.box}/previews", {}, self.red)
        self.assertEqual(made.status, 201, made)
        path = made.json()["invitation"].partition(VHOST)[2]
        answer = self.send(path, box)
        fields = http.client.parse_headers(io.BytesIO(answer.partition(b"\r\n")[2]))
        return fields["Set-Cookie"]

    # --- who may look

    def test_nobody_looks_without_a_right(self):
        self.heard()
        for fields in ((), [("Accept", "text/html")], [("Authorization", "Bearer cais_x")],
                       [("Authorization", "Basic eDp5")], [("Cookie", "__Host-caisson-preview=x")],
                       [("X-API-Key", self.red)], [("Cookie", f"SID={self.red}")]):
            self.assertIn(self.status(fields=fields), (302, 401), fields)
        self.assertEqual(self.status(token=self.blue), 404)
        self.assertEqual(self.heard(), b"")

    def test_strangers_cannot_tell_what_there_is(self):
        def shown(box, **more):
            answer = self.send(box=box, **more).decode()
            lines = [line for line in answer.split("\r\n") if not line.startswith(("Date:", "X-Request-Id:"))]
            own = next(line for line in answer.split("\r\n") if line.startswith("X-Request-Id:")).split()[1]
            return "\n".join(lines).replace(box, "BOX").replace(own, "ID")
        for more in ({}, {"fields": [("Accept", "text/html")]}, {"token": self.blue}, {"fields": UPGRADE.items()},
                     {"path": "/.caisson/enter?ticket=x"}):
            self.assertEqual(shown(self.box, **more), shown(NEVER_WAS, **more))

    def test_a_cookie_opens_its_own_host_only(self):
        cookie = self.enter()
        attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
        self.assertTrue({"secure", "httponly", "path=/", "samesite=lax"} <= attributes, cookie)
        self.assertFalse(any(part.startswith("domain") for part in attributes))
        own = [("Cookie", cookie.partition(";")[0])]
        self.assertEqual(self.status(fields=own), 200)
        self.assertEqual(self.status(box=self.sibling, fields=own), 401)
        self.assertEqual(self.status(host=self.host(port=PORT), fields=own), 401)
        secret = cookie.partition("=")[2].partition(";")[0]
        for name in ("SID", "__Host-SID"):
            self.assertEqual(self.status("/api/v1/sandboxes", host=VHOST, fields=[("Cookie", f"{name}={secret}")]), 401)
        self.assertEqual(self.status("/api/v1/sandboxes", host=VHOST, token=secret), 401)

    def test_a_page_of_a_sibling_gets_nothing_by_it(self):
        own = ("Cookie", self.enter().partition(";")[0])
        self.heard()
        for origin in (f"https://{self.host(self.sibling)}", f"https://{VHOST}", "null", "https://evil.test",
                       f"https://{self.host()}.evil.test"):
            for method in ("GET", "POST", "PUT", "DELETE"):
                self.assertEqual(self.status(method=method, fields=[own, ("Origin", origin)]), 401, origin)
            socket = [own, ("Origin", origin), *UPGRADE.items()]
            self.assertIn(self.status(fields=socket), (401, 403), origin)
        for site in ("same-site", "cross-site"):
            fields = [own, ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "no-cors")]
            self.assertEqual(self.status(fields=fields), 401)
        self.assertEqual(self.heard(), b"")

    def test_the_api_does_not_answer_there(self):
        for path in ("/api/v1/sandboxes", "/metrics", "/internal/ask", "/healthz", "/auth/me"):
            self.assertIn(b"\r\n\r\nok", self.send(path, token=self.red), path)
        for host in (f"x.{VHOST}", f"{self.box}.{VHOST}.", self.host().upper(), f"{self.box}.x.{VHOST}"):
            self.assertIn(self.status("/api/v1/sandboxes", host=host, token=self.red), (400, 421), host)

    # --- what reaches the program

    def test_no_credential_of_ours_gets_inside(self):
        self.heard()
        cookie = self.enter().partition(";")[0]
        secret = cookie.partition("=")[2]
        self.assertEqual(self.status(token=self.red), 200)
        self.assertEqual(self.status(token=self.red, fields=[("Cookie", f"a=1; {cookie}; b=2")]), 200)
        self.assertEqual(self.status(fields=[("Cookie", cookie), ("Authorization", f"bearer {self.blue}")]), 200)
        self.assertEqual(self.status(fields=[("Cookie", cookie), ("X-API-Key", self.red)]), 200)
        self.assertEqual(self.status(fields=[("Cookie", f"__host-CAISSON-preview=x; {cookie}")]), 200)
        inside = self.heard()
        self.assertEqual(inside.count(b"HTTP/1.1\r\n"), 5)
        self.assertIn(b"Cookie: a=1; b=2\r\n", inside)
        for word in (self.red, self.blue, secret, "cais_", "caisson"):
            self.assertNotIn(word.encode().lower(), inside.lower())

    def test_nobody_says_who_he_is_for_others(self):
        """The peer is another machine to the server only when it is no loopback address; what a proxy of this machine
        says passes, in the words of an address."""
        self.heard()
        self.status(token=self.red, fields=[("X-Forwarded-For", "evil; x=<y>"), ("X-Forwarded-Host", "evil.test"),
                                            ("X-Forwarded-Proto", "gopher"), ("X-Forwarded-Prefix", "/evil"),
                                            ("Forwarded", "for=evil"), ("X-Real-IP", "evil")])
        inside = self.heard()
        self.assertNotIn(b"evil", inside)
        self.assertNotIn(b"gopher", inside)
        self.assertEqual(inside.lower().count(b"x-forwarded-"), 3)

    def test_one_request_stays_one(self):
        self.heard()
        evil = b"GET /evil HTTP/1.1\r\nHost: x\r\n\r\n"
        for fields, body in (([("Content-Length", "0"), ("Transfer-Encoding", "chunked")], b"0\r\n\r\n" + evil),
                             ([("Content-Length", "0"), ("Content-Length", str(len(evil)))], evil),
                             ([("Transfer-Encoding", "chunked, identity")], evil),
                             ([("Transfer-Encoding", "\x0bchunked")], b"0\r\n\r\n" + evil),
                             ([("Transfer-Encoding ", "chunked")], b"0\r\n\r\n" + evil),
                             ([("Content-Length", "+0")], evil), ([("Content-Length", "-1")], evil),
                             ([("X", "y\nTransfer-Encoding: chunked")], b"0\r\n\r\n" + evil)):
            self.assertIn(self.status("/rest", method="POST", token=self.red, fields=fields, body=body),
                          (400, 411, 501), fields)
        self.assertEqual(self.heard(), b"")
        # What follows a whole request is the client's next one, not the program's.
        self.send("/rest", method="POST", token=self.red, fields=[("Content-Length", "2")], body=b"ab" + evil)
        self.assertNotIn(b"/evil", self.heard())
        # Fields that speak of one connection end at it.
        self.send(token=self.red, fields=[("Connection", "X-Secret"), ("X-Secret", "1"), ("Upgrade", "h2c"),
                                          ("HTTP2-Settings", "AAA"), ("TE", "trailers"), ("Keep-Alive", "x")])
        inside = self.heard().lower()
        for word in (b"x-secret", b"h2c", b"http2", b"trailers", b"keep-alive"):
            self.assertNotIn(word, inside)

    # --- what comes out of it

    def test_an_answer_is_one_answer(self):
        evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil,
                       b"HTTP/1.1 204 No Content\r\n\r\n" + evil,
                       b"HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n" + evil,
                       b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil):
            self.assertNotIn(b"evil", self.said(answer))
        for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                       b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
                       b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
                       b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n" + evil,
                       b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", b"\x00" * 100, b"SSH-2.0-x\r\n"):
            self.assertTrue(self.said(answer).startswith(b"HTTP/1.1 502 "), answer)

    def test_an_answer_acts_on_its_own_host_only(self):
        fields = (b"Set-Cookie: a=1; Domain=box.test; Path=/\r\nSet-Cookie: b=2; dOmAiN=.test\r\n"
                  b"Set-Cookie: __Host-caisson-preview=evil; Secure; Path=/\r\nSet-Cookie: caisson-preview=evil\r\n"
                  b"Set-Cookie: =__Host-caisson-preview=evil\r\nSet-Cookie: __Host-CAISSON-preview=evil\r\n"
                  b'Clear-Site-Data: "cookies"\r\nAlt-Svc: h2="evil:1"\r\nStrict-Transport-Security: max-age=9;'
                  b" includeSubDomains\r\nX-Accel-Redirect: /evil\r\nConnection: X-Drop\r\nX-Drop: evil\r\n")
        answer = self.said(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + fields + b"\r\nok")
        self.assertIn(b"Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\n", answer)
        for word in (b"evil", b"domain", b"clear-site-data", b"strict-transport", b"caisson-preview"):
            self.assertNotIn(word, answer.lower())

    def test_nobody_is_led_away_by_our_own_pages(self):
        for to in ("//evil.test", "https://evil.test/", "/%5cevil.test", "/%0d%0aSet-Cookie:%20a=b", "javascript:1"):
            made = self.server.call("POST", f"/api/v1/sandboxes/{self.box}/previews", {}, self.red).json()
            path = made["invitation"].partition(VHOST)[2].partition("&to=")[0]
            answer = self.send(f"{path}&to={to}")
            self.assertIn(b"\r\nLocation: /\r\n", answer)
        answer = self.send("/preview/open?host=evil.test&path=/", host=VHOST, token=self.red)
        self.assertTrue(answer.startswith(b"HTTP/1.1 404 "), answer)

    def test_nothing_of_ours_is_the_programs(self):
        self.heard()
        for path in ("/.caisson/", "/.caisson", "/.caisson/x", "/.caisson/enter?ticket=x", "/.caisson/../x"):
            self.assertIn(self.status(path, token=self.red), (403, 404))
        self.assertEqual(self.heard(), b"")


if __name__ == "__main__":
    live_server.main()
