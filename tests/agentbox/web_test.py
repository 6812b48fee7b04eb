"""gRPC-Web over HTTP/1.1, byte by byte, on the port of gRPC."""

import http.client
import socket
import struct
import urllib.parse

from agentbox_case import MESSAGE_BYTES_MAX, PATIENCE, SERVICE, AgentboxCase, main, pb

KIND = "application/grpc-web+proto"
ORIGIN = "https://app.example"
ALLOWED = ("content-type", "x-grpc-web", "x-user-agent", "grpc-timeout")


def framed(message, flags=0):
    return bytes([flags]) + struct.pack(">I", len(message)) + message


def frames_of(body):
    """[(flags, content)] of a whole body."""
    found = []
    while body:
        size = int.from_bytes(body[1:5], "big")
        assert len(body) >= 5 + size, body
        found.append((body[0], body[5 : 5 + size]))
        body = body[5 + size :]
    return found


def trailers_of(content):
    assert content.endswith(b"\r\n"), content
    lines = [line.split(":", 1) for line in content.decode("ascii").split("\r\n") if line]
    return {name.strip().lower(): value.strip() for name, value in lines}


class WebCase(AgentboxCase):
    def ask(self, method, message=b"", headers=None, body=None, connection=None, verb="POST", service=SERVICE):
        """(answer, whole body)"""
        own = connection is None
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.server.grpc_port, timeout=PATIENCE * 4)
        try:
            sent = {"content-type": KIND, "x-grpc-web": "1", "x-user-agent": "connect-es/2.1.1", **(headers or {})}
            connection.request(verb, f"/{service}/{method}", framed(message) if body is None else body,
                               {name: value for name, value in sent.items() if value is not None})
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            if own:
                connection.close()

    def call(self, method, **fields):
        """(messages as bytes, trailers)"""
        answer, body = self.ask(method, getattr(pb, f"{method}Request")(**fields).SerializeToString())
        self.assertEqual((answer.status, answer.getheader("content-type")), (200, KIND))
        frames = frames_of(body)
        if not frames:  # an error as headers
            return [], {name: answer.getheader(name) for name in ("grpc-status", "grpc-message")}
        self.assertEqual([flags for flags, _ in frames], [0] * (len(frames) - 1) + [0x80])
        return [content for _, content in frames[:-1]], trailers_of(frames[-1][1])

    def fails(self, answer_and_body, status, words=None):
        answer, body = answer_and_body
        self.assertEqual(answer.status, 200, body)
        frames = frames_of(body)
        told = (trailers_of(frames[-1][1]) if frames else
                {name: answer.getheader(name) for name in ("grpc-status", "grpc-message")})
        self.assertEqual([flags for flags, _ in frames[:-1]], [], "no message beside an error")
        self.assertEqual(told["grpc-status"], str(status), told)
        if words is not None:
            self.assertEqual(urllib.parse.unquote(told["grpc-message"]), words)


class Framing(WebCase):
    def setUp(self):
        self.session_id = self.session()

    def test_a_message_and_its_trailer(self):
        (message,), trailers = self.call("Exec", session_id=self.session_id, command="echo hi")
        self.assertEqual(pb.ExecResponse.FromString(message).stdout, "hi\n")
        self.assertEqual(trailers["grpc-status"], "0")

    def test_an_empty_message_is_a_frame_too(self):
        self.assertEqual(self.call("DestroySession", session_id="nope")[0], [b""])
        self.assertEqual(self.call("Exec", session_id=self.session_id, command="true")[0], [b""])

    def test_an_error(self):
        self.fails(self.ask("GetSession", b"\x0a\x04nope"), 5, "Session not found")
        self.fails(self.ask("Exec", b"\xff"), 13, "Exception deserializing request!")
        code = 3
        answer, body = self.ask("CreateSession", pb.CreateSessionRequest(session_id="ü%/").SerializeToString())
        self.fails((answer, body), code)

    def test_the_message_of_an_error_is_percent_encoded(self):
        answer, body = self.ask("CreateSession", pb.CreateSessionRequest(session_id="é%\r\nx: y").SerializeToString())
        frames = frames_of(body)
        text = frames[-1][1].decode("ascii") if frames else answer.getheader("grpc-message")
        self.assertNotIn("x: y\r\n", text)
        told = trailers_of(frames[-1][1]) if frames else dict(answer.getheaders())
        self.assertNotIn("x", told)
        self.assertEqual(told["grpc-status"], "3")

    def test_unknown_method(self):
        for method, service in (("Nothing", SERVICE), ("Exec", "sandbox.v9.Other")):
            answer, body = self.ask(method, service=service)
            if answer.status != 404:
                self.fails((answer, body), 12, "Method not found!")
        connection = http.client.HTTPConnection("127.0.0.1", self.server.grpc_port, timeout=PATIENCE)
        connection.request("GET", "/")
        self.assertIn(connection.getresponse().status, (404, 405))
        connection.close()

    def test_a_stream(self):
        messages, trailers = self.call("ExecStream", session_id=self.session_id, command="echo out; exit 3")
        seen = [pb.ExecStreamResponse.FromString(one) for one in messages]
        self.assertEqual([(one.type, one.data) for one in seen], [("stdout", "out\n"), ("exit", "")])
        self.assertEqual((seen[-1].exit_code, trailers["grpc-status"]), (3, "0"))
        self.assertEqual(self.call("ExecStream", session_id=self.session_id, command=""), ([], trailers))

    def test_a_stream_comes_as_it_is_printed(self):
        self.says(self.session_id, "mkfifo fifo")
        asked = pb.ExecStreamRequest(session_id=self.session_id, command="echo ask; read x < fifo; echo over")
        connection = http.client.HTTPConnection("127.0.0.1", self.server.grpc_port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("POST", f"/{SERVICE}/ExecStream", framed(asked.SerializeToString()), {"content-type": KIND})
        answer = connection.getresponse()
        size = int.from_bytes(answer.read(5)[1:], "big")
        self.assertEqual(pb.ExecStreamResponse.FromString(answer.read(size)).data, "ask\n")
        self.says(self.session_id, "echo > fifo")
        frames = frames_of(answer.read())
        self.assertEqual(pb.ExecStreamResponse.FromString(frames[0][1]).data, "over\n")
        self.assertEqual(trailers_of(frames[-1][1])["grpc-status"], "0")

    def test_connections_are_kept(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.grpc_port, timeout=PATIENCE)
        connection.connect()
        port = connection.sock.getsockname()[1]
        message = pb.ExecRequest(session_id=self.session_id, command="echo hi").SerializeToString()
        for _ in range(10):
            _, body = self.ask("Exec", message, connection=connection)
            self.assertEqual(pb.ExecResponse.FromString(frames_of(body)[0][1]).stdout, "hi\n")
            self.ask("GetSession", b"\x0a\x04nope", connection=connection)
            self.ask("ExecStream", pb.ExecStreamRequest(session_id=self.session_id, command="echo hi").SerializeToString(),
                     connection=connection)
        self.assertEqual(connection.sock.getsockname()[1], port)
        connection.close()

    def test_kinds_of_content(self):
        for kind in (KIND, "application/grpc-web", "application/grpc-web+proto; charset=utf-8"):
            answer, body = self.ask("ListSessions", headers={"content-type": kind})
            self.assertEqual((answer.status, frames_of(body)[-1][0]), (200, 0x80), kind)
        for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                     "application/grpc-web-text", None):
            answer, body = self.ask("ListSessions", headers={"content-type": kind})
            self.assertGreaterEqual(answer.status, 400, (kind, body))

    def test_a_chunked_request(self):
        answer, body = self.ask("ListSessions", body=iter([b"\0\0", b"\0\0\0"]))
        self.assertEqual((answer.status, frames_of(body)[-1][0]), (200, 0x80))

    def test_a_deadline(self):
        answer, body = self.ask("Exec", pb.ExecRequest(session_id=self.session_id, command="sleep 4669.1").SerializeToString(),
                                headers={"grpc-timeout": "1S"})
        self.fails((answer, body), 4)
        self.wait_until_ended(self.session_id, "sleep 4669.1")

    def test_deadlines_that_are_none(self):
        for value in ("", "1", "S", "-1S", "1.5S", "123456789S", "1s", "1X", "0x1S", " 1S1"):
            answer, body = self.ask("ListSessions", headers={"grpc-timeout": value})
            self.assertIn(answer.status, (200, 400), value)
        self.assertEqual(self.says(self.session_id, "echo alive"), "alive\n")

    def test_a_client_that_leaves_ends_its_command(self):
        for method, kind in (("ExecStream", pb.ExecStreamRequest), ("Exec", pb.ExecRequest)):
            message = kind(session_id=self.session_id, command="echo up; sleep 4669.2").SerializeToString()
            link = socket.create_connection(("127.0.0.1", self.server.grpc_port), PATIENCE)
            link.sendall(f"POST /{SERVICE}/{method} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {KIND}\r\n"
                         f"Content-Length: {len(message) + 5}\r\n\r\n".encode() + framed(message))
            self.wait_until_running(self.session_id, "sleep 4669.2")
            link.close()
            self.wait_until_ended(self.session_id, "sleep 4669.2")


class Broken(WebCase):
    def tearDown(self):
        self.assertEqual(list(self.api.ListSessions().sessions), [])

    def test_bodies_that_are_no_message(self):
        for body in (b"", b"\0", b"\0\0\0\0", b"\0\0\0\0\5ab", framed(b"") + b"x", framed(b"") * 2, b"\0\xff\xff\xff\xff",
                     framed(b"x", 1), framed(b"", 2), framed(b"", 0x80), b"{}", b"\xff" * 100):
            answer, content = self.ask("ListSessions", body=body)
            if answer.status == 200:
                frames = frames_of(content)
                told = trailers_of(frames[-1][1]) if frames else dict(answer.getheaders())
                self.assertNotEqual(told["grpc-status"], "0", body)
                self.assertEqual([one for one in frames if one[0] == 0], [])

    def test_too_large(self):
        large = pb.WriteFileRequest(session_id="a", path="a", content="x" * MESSAGE_BYTES_MAX).SerializeToString()
        self.fails(self.ask("WriteFile", large), 8,
                   f"Received message larger than max ({len(large)} vs. {MESSAGE_BYTES_MAX})")
        # One that only says that it is large is refused without being read.
        link = socket.create_connection(("127.0.0.1", self.server.grpc_port), PATIENCE)
        link.sendall(f"POST /{SERVICE}/Exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: {KIND}\r\n"
                     f"Content-Length: {1 << 32}\r\n\r\n".encode() + b"\0\xff\xff\xff\xf0")
        self.assertTrue(link.recv(4096).startswith(b"HTTP/1.1 "))
        link.close()

    def test_half_requests_hold_nobody_up(self):
        texts = (b"", b"P", b"POST /", f"POST /{SERVICE}/Exec HTTP/1.1\r\n".encode(),
                 f"POST /{SERVICE}/Exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: {KIND}\r\nContent-Length: 50\r\n\r\n\0\0".encode())
        links = []
        for text in texts * 4:
            link = socket.create_connection(("127.0.0.1", self.server.grpc_port), PATIENCE)
            link.sendall(text)
            links.append(link)
        self.assertEqual(self.call("ListSessions")[0], [b""])
        for link in links:
            link.close()

    def test_smuggling(self):
        """Two lengths, or a length beside chunks: one answer, and the connection ends."""
        for more in (b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                     b"Transfer-Encoding: x\r\n", b"Content-Length: +5\r\n", b"Content-Length: -1\r\n"):
            link = socket.create_connection(("127.0.0.1", self.server.grpc_port), PATIENCE)
            link.sendall(f"POST /{SERVICE}/ListSessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: {KIND}\r\n".encode() + more +
                         b"\r\n" + framed(b""))
            link.shutdown(socket.SHUT_WR)
            seen = b""
            while part := link.recv(4096):
                seen += part
            self.assertRegex(seen[:20].decode("latin-1"), "^HTTP/1.1 (400|501|411)", more)
            link.close()


class Browsers(WebCase):
    settings = {"web_origins": [ORIGIN]}

    def preflight(self, origin, wanted="POST"):
        headers = {"Origin": origin, "Access-Control-Request-Method": wanted,
                   "Access-Control-Request-Headers": "content-type,x-grpc-web,x-user-agent", "content-type": None}
        return self.ask("Exec", headers=headers, body=b"", verb="OPTIONS")[0]

    def test_a_page_of_a_configured_origin(self):
        answer = self.preflight(ORIGIN)
        self.assertEqual(answer.status, 204)
        self.assertEqual(answer.getheader("access-control-allow-origin"), ORIGIN)
        self.assertIn("POST", answer.getheader("access-control-allow-methods"))
        allowed = answer.getheader("access-control-allow-headers").lower().replace(" ", "").split(",")
        self.assertLessEqual(set(ALLOWED), set(allowed))
        answer, _ = self.ask("ListSessions", headers={"Origin": ORIGIN})
        self.assertEqual(answer.getheader("access-control-allow-origin"), ORIGIN)
        exposed = answer.getheader("access-control-expose-headers").lower().replace(" ", "").split(",")
        self.assertLessEqual({"grpc-status", "grpc-message"}, set(exposed))

    def test_pages_of_others(self):
        for origin in ("https://evil.example", "http://app.example", "https://app.example.evil", "null",
                       "https://app.example:444", "https://xapp.example"):
            self.assertIsNone(self.preflight(origin).getheader("access-control-allow-origin"), origin)
            answer, _ = self.ask("ListSessions", headers={"Origin": origin})
            self.assertIsNone(answer.getheader("access-control-allow-origin"), origin)


class NoBrowsers(WebCase):
    def test_no_origin_is_allowed_unless_it_is_configured(self):
        answer, _ = self.ask("Exec", headers={"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}, body=b"",
                             verb="OPTIONS")
        self.assertIsNone(answer.getheader("access-control-allow-origin"))

    def test_a_name_that_is_not_this_machines(self):
        """A page whose own name was given our address shows up with that name."""
        for host in ("evil.example", "localhost.evil.example", f"127.0.0.1.evil:{self.server.grpc_port}", "10.0.0.1"):
            self.fails(self.ask("ListSessions", headers={"Host": host}), 7)
        for host in ("localhost", f"127.0.0.1:{self.server.grpc_port}", "[::1]:50051"):
            answer, body = self.ask("ListSessions", headers={"Host": host})
            self.assertEqual(trailers_of(frames_of(body)[-1][1])["grpc-status"], "0", host)

    def test_a_page_cannot_call_an_open_server(self):
        """A browser sends an Origin with what it asks across sites; without one that is configured nothing is done."""
        before = len(self.api.ListSessions().sessions)
        answer, body = self.ask("CreateSession", headers={"Origin": "https://evil.example"})
        self.assertTrue(answer.status >= 400 or b"grpc-status: 0" not in body, body)
        self.assertEqual(len(self.api.ListSessions().sessions), before)


if __name__ == "__main__":
    main()
