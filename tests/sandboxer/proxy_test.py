"""Into a port of a sandbox: by id, by name, in public; and what neither side may see of the other."""

import socket

from sandboxer_case import IDLE, SandboxerCase
from harness import main, wait_for
from websocket import Refused, WebSocket

# A page of busybox's own web server.
WEB = "mkdir -p /www; echo from-httpd >/www/index.html; httpd -f -p {port} -h /www"


class Proxy(SandboxerCase):
    pictures = {"busybox": "busybox", "jmalloc/echo-server": "echo-server"}

    def echo(self, **more):
        return self.make("jmalloc/echo-server", "echo", **more)

    def seen(self, box, path="", method="GET", by="id", **more):
        """What the program inside was sent: (first line, {name: value}, body)."""
        answer = self.ask(method, f"/sandboxes/{box[by]}/proxy/{path}", **more)
        self.assertEqual(answer.status, 200, answer.body)
        head, _, body = answer.body.decode().partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        return first, {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}, body

    # --- what must not work

    def test_who_may_not_look_does_not(self):
        box = self.echo()
        self.detail(self.ask("GET", "/sandboxes/" + "0" * 64 + "/proxy/"), 404, "Sandbox not found")
        self.detail(self.ask("GET", "/sandboxes/nobody/proxy/"), 404, "Sandbox not found")
        other = self.tenant("stranger")
        for by in ("id", "name"):
            self.detail(self.ask("GET", f"/sandboxes/{box[by]}/proxy/", token=other), 403, "Access denied")
            self.detail(self.ask("GET", f"/sandboxes/{box[by]}/proxy/", token=""), 401, "Authentication required")
            for token, status in ((other, 403), ("nothing", 401)):
                with self.assertRaises(Refused) as refused:
                    WebSocket(self.server, f"/sandboxes/{box[by]}/proxy/", {"Authorization": f"Bearer {token}"})
                self.assertEqual(refused.exception.status, status)

    def test_our_credentials_stay_outside(self):
        box = self.echo()
        secret = self.ask("POST", "/auth/token", {"token": self.server.token}, token="").headers["Set-Cookie"]
        cookie = secret.partition(";")[0]
        for headers, token in (({"Cookie": cookie + "; theme=dark"}, ""), ({}, self.server.token),
                               ({"X-API-Key": self.server.token}, "")):
            _, fields, _ = self.seen(box, token=token, headers=headers)
            text = repr(fields)
            self.assertNotIn(self.server.token, text)
            self.assertNotIn(cookie.partition("=")[2], text)
            self.assertNotIn("authorization", fields)

    def test_its_cookies_do_not_become_ours(self):
        answer = self.ask("GET", self.at(self.echo(), "proxy/cookies"))
        self.assertEqual(answer.status, 200)
        self.assertNotIn("stolen", str(answer.headers))

    def test_what_does_not_speak_http_is_told_so(self):
        answer = self.ask("GET", self.at(self.echo(), "proxy/noise"))
        self.assertEqual((answer.status, answer.json), (
            502, {"error": "Sandbox connection was unexpectedly closed, is it an HTTP server?"}))

    def test_nobody_listens(self):
        box = self.make(args=IDLE)
        self.detail(self.ask("GET", self.at(box, "proxy/")), 500, "Sandbox container is missing an exposed port")
        self.detail(self.ask("GET", self.at(box, "proxy/"), headers={"X-Sandbox-Port": "81"}), 502,
                    "Sandbox connection failed")
        self.assertEqual(self.ask("GET", self.at(box, "proxy/"), headers={"X-Sandbox-Port": "99999"}).status, 400)
        with self.assertRaises(Refused) as refused:
            WebSocket(self.server, self.at(box, "proxy/"))
        self.assertEqual(refused.exception.status, 403)

    def test_a_paused_one_does_not_hang(self):
        box = self.echo()
        self.good("PUT", self.at(box, "pause"))
        self.detail(self.ask("GET", self.at(box, "proxy/"), timeout=20), 502, "Sandbox connection failed")

    # --- what works

    def test_a_request_goes_in_as_it_was_sent(self):
        box = self.echo()
        first, fields, body = self.seen(box, "foo/b%20r?q=a%20b&c=%2F", "POST", raw=b"hello",
                                        headers={"X-Own": "1", "X-Forwarded-For": "10.0.0.1"})
        self.assertEqual((first, body), ("POST /foo/b%20r?q=a%20b&c=%2F HTTP/1.1", "hello"))
        self.assertEqual((fields["x-own"], fields["content-length"]), ("1", "5"))
        self.assertNotIn("x-forwarded-for", {name for name, value in fields.items() if "10.0.0.1" in value})
        self.assertNotIn("transfer-encoding", self.seen(box)[1])

    def test_every_method_goes_in(self):
        box = self.echo()
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            self.assertTrue(self.seen(box, "x", method)[0].startswith(method))
        self.assertEqual(self.ask("HEAD", self.at(box, "proxy/x")).status, 200)

    def test_a_redirect_is_passed_on_and_not_followed(self):
        box = self.echo()
        answer = self.ask("GET", self.at(box, "proxy/away"))
        self.assertEqual((answer.status, answer.headers["Location"]), (302, f"/sandboxes/{box['id']}/proxy/elsewhere"))

    def test_events_flow_as_they_come(self):
        _, answer = self.open("GET", self.at(self.echo(), "proxy/.sse"))
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
        for number in range(3):
            self.assertEqual([answer.readline() for _ in range(3)],
                             [b"event: time\n", b"data: %d\n" % number, b"\n"])

    def test_the_likely_port_is_found(self):
        box = self.make(args=["sh", "-c", WEB.format(port=3000)])
        wait_for(lambda: self.ask("GET", self.at(box, "proxy/")).body == b"from-httpd\n", "its page")
        self.execute(box, "mkdir /other; echo from-the-other >/other/index.html; httpd -p 127.0.0.1:5123 -h /other")
        self.assertEqual(self.ask("GET", self.at(box, "proxy/")).body, b"from-httpd\n")
        answer = self.ask("GET", self.at(box, "proxy/"), headers={"X-Sandbox-Port": "5123"})
        self.assertEqual(answer.body, b"from-the-other\n")

    def test_a_public_one_is_everybodys_by_its_name_alone(self):
        box = self.echo()
        self.good("PATCH", self.at(box), {"public": True})
        first, fields, _ = self.seen(box, "page", by="name", token="")
        self.assertEqual(first, "GET /page HTTP/1.1")
        # Also for its own pages, which have no origin, and for somebody whose token is wrong.
        self.seen(box, by="name", token="", headers={"Origin": "null"})
        self.seen(box, by="name", token="nothing")
        self.detail(self.ask("GET", self.at(box, "proxy/"), token=""), 401, "Authentication required")
        self.seen(box, by="id", token=self.tenant("visitor"))
        # Nothing else of it is.
        for path in ("", "/logs", "/files/", "/tree"):
            self.assertEqual(self.ask("GET", f"/sandboxes/{box['name']}{path}", token="").status, 401)
        # Whichever door closes it or opens it: it is one and the same.
        for is_public in (False, True):
            self.good("PUT", f"/api/v1/sandboxes/{box['name']}/visibility", {"public": is_public})
            self.assertEqual(self.ask("GET", f"/sandboxes/{box['name']}/proxy/", token="").status,
                             200 if is_public else 401)
            self.assertEqual(self.show(box)["is_public"], is_public)
        self.good("PATCH", self.at(box), {"public": False})
        self.assertEqual(self.ask("GET", f"/sandboxes/{box['name']}/proxy/", token="").status, 401)

    def test_strangers_cannot_fill_the_owners_audit(self):
        """Each row is charged to him, and beyond his share his own calls are turned away."""
        box = self.make(args=IDLE)
        self.good("PATCH", self.at(box), {"public": True})
        visitor = self.tenant("passer-by")
        for port in range(1, 31):
            answer = self.ask("GET", f"/sandboxes/{box['name']}/proxy/", token=visitor if port % 2 else "",
                              headers={"X-Sandbox-Port": str(port)})
            self.detail(answer, 502, "Sandbox connection failed")
        rows = self.good("GET", f"/api/v1/audit?sandbox={box['name']}&action=port.connect")["rows"]
        self.assertEqual([row["actor"] for row in rows], ["public"])

    def test_a_websocket_is_passed_on(self):
        # netcat plays the server: it answers the handshake and echoes one frame.
        script = ("printf 'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
                  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\\r\\n\\r\\n'; printf '\\202\\003abc'; sleep 100")
        box = self.make(args=["sh", "-c", f"({script}) | nc -l -p 8080 >/seen; exec sleep 100000"])
        wait_for(lambda: ":1F90 " in self.run_one(box, "cat /proc/net/tcp /proc/net/tcp6")[0], "the listener")
        with socket.create_connection(("127.0.0.1", self.server.port), 30) as raw:
            raw.sendall((f"GET {self.at(box, 'proxy/chat')} HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n"
                         f"Authorization: Bearer {self.server.token}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
            seen = b""
            while b"\x82\x03abc" not in seen:
                piece = raw.recv(4096)
                self.assertNotEqual(piece, b"", seen)
                seen += piece
            self.assertTrue(seen.startswith(b"HTTP/1.1 101 "), seen)
            raw.sendall(b"\x82\x83\x00\x00\x00\x00xyz")
            wait_for(lambda: "xyz" in self.run_one(box, "cat /seen")[0], "a frame inside")
        head = self.run_one(box, "cat /seen")[0]
        self.assertTrue(head.startswith("GET /chat HTTP/1.1"), head)
        self.assertNotIn(self.server.token, head)


if __name__ == "__main__":
    main()
