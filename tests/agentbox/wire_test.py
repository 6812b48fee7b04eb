"""The bytes: messages as their contract has them in hexadecimal, errors of gRPC itself, both protocols on one port, and
peers that break every rule."""

import http.client
import socket
import struct

import grpc

from agentbox_case import MESSAGE_BYTES_MAX, PATIENCE, SERVICE, AgentboxCase, Api, main, pb

import h2
from harness import wait_for

NOT_FOUND = "08ffffffffffffffffff011a1153657373696f6e206e6f7420666f756e64"
TIMED_OUT = "08ffffffffffffffffff011a11436f6d6d616e642074696d6564206f75742001"
EXIT_0, EXIT_9 = "0a04657869741800", "0a046578697418f7ffffffffffffffff01"


def of(kind, **fields):
    return getattr(pb, kind)(**fields).SerializeToString()


class Hex(AgentboxCase):
    def setUp(self):
        self.session_id = self.session()

    def test_exec(self):
        self.assertEqual(self.api.raw("Exec", of("ExecRequest", session_id="nope", command="true")).hex(), NOT_FOUND)
        asked = of("ExecRequest", session_id=self.session_id, command="sleep 600", timeout=1)
        self.assertEqual(self.api.raw("Exec", asked).hex(), TIMED_OUT)
        # Nothing but zeroes is no bytes at all, and still a message.
        self.assertEqual(self.api.raw("Exec", of("ExecRequest", session_id=self.session_id, command="true")), b"")

    def test_exec_stream(self):
        for command, wanted in (("true", EXIT_0), ("kill -9 $$", EXIT_9)):
            asked = of("ExecStreamRequest", session_id=self.session_id, command=command)
            self.assertEqual([one.hex() for one in self.api.raw_stream("ExecStream", asked)], [wanted])

    def test_its_working_directory_is_field_three(self):
        asked = bytes([0x0A, len(self.session_id)]) + self.session_id.encode() + b"\x12\x03pwd" + b"\x1a\x04/tmp"
        seen = list(self.api.raw_stream("ExecStream", asked))
        self.assertEqual([one.hex() for one in seen], [(b"\x0a\x06stdout\x12\x05/tmp\n").hex(), EXIT_0])

    def test_files(self):
        self.assertEqual(self.api.raw("WriteFile", of("WriteFileRequest", session_id=self.session_id, path="e")).hex(), "0801")
        self.assertEqual(self.api.raw("ReadFile", of("ReadFileRequest", session_id=self.session_id, path="e")).hex(), "08011200")
        self.assertEqual(self.api.raw("ReadFile", of("ReadFileRequest", session_id="nope", path="e")),
                         b"\x1a\x11Session not found")

    def test_create_and_destroy(self):
        asked = bytes.fromhex("1a0b6578616d706c652e636f6d")
        self.assertEqual(asked, of("CreateSessionRequest", allowed_hosts=["example.com"]))
        made = pb.CreateSessionResponse.FromString(self.api.raw("CreateSession", asked)).session
        self.assertEqual(list(made.allowed_hosts), ["example.com"])
        destroy = of("DestroySessionRequest", session_id=made.session_id)
        self.assertEqual(self.api.raw("DestroySession", destroy).hex(), "0801")
        self.assertEqual(self.api.raw("DestroySession", destroy), b"")

    def test_fields_that_nobody_knows_are_passed_over(self):
        more = b"\xfa\x01\x03abc" + b"\x98\x06\x7f" + b"\xa5\x06\0\0\0\0"
        asked = more + of("ExecRequest", session_id=self.session_id, command="echo hi") + more
        self.assertEqual(pb.ExecResponse.FromString(self.api.raw("Exec", asked)).stdout, "hi\n")

    def test_the_last_of_two_counts(self):
        asked = of("ExecRequest", session_id="nope", command="false") + of("ExecRequest", session_id=self.session_id,
                                                                           command="echo last")
        self.assertEqual(pb.ExecResponse.FromString(self.api.raw("Exec", asked)).stdout, "last\n")


class Errors(AgentboxCase):
    def test_unknown_methods(self):
        for method, service in (("Nothing", SERVICE), ("exec", SERVICE), ("Exec/", SERVICE), ("Exec", "sandbox.v2.X"),
                                ("", SERVICE), ("Exec", "")):
            self.assertEqual(self.status_of(lambda m=method, s=service: self.api.raw(m, b"", s)),
                             (grpc.StatusCode.UNIMPLEMENTED, "Method not found!"), (method, service))

    def test_what_cannot_be_decoded(self):
        for data in (b"\xff", b"\x0a\x05ab", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xff\xfe", b"\x12\x01\x80", b"\x07",
                     b"\x0b\x0a\x01a"):
            for method in ("Exec", "CreateSession"):
                self.assertEqual(self.status_of(lambda m=method, d=data: self.api.raw(m, d)),
                                 (grpc.StatusCode.INTERNAL, "Exception deserializing request!"), (method, data))

    def test_a_request_that_is_too_large(self):
        session = self.session()
        size = len(of("WriteFileRequest", session_id=session, path="a", content=""))
        fits = "x" * (MESSAGE_BYTES_MAX - size - 5)
        self.assertTrue(self.api.WriteFile(session_id=session, path="a", content=fits).success)
        large = of("WriteFileRequest", session_id=session, path="a", content="y" * MESSAGE_BYTES_MAX)
        code, words = self.status_of(lambda: self.api.raw("WriteFile", large))
        self.assertEqual((code, words), (grpc.StatusCode.RESOURCE_EXHAUSTED,
                                         f"Received message larger than max ({len(large)} vs. {MESSAGE_BYTES_MAX})"))
        self.assertEqual(self.says(session, "head -c 1 a"), "x")

    def test_compressed_requests_are_refused(self):
        with Api(self.server.grpc, options=(("grpc.default_compression_algorithm", 2),)) as gzip:
            request = of("WriteFileRequest", session_id="nope", path="a", content="x" * 100000)
            try:
                self.assertEqual(gzip.raw("WriteFile", request), b"\x12\x11Session not found")
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNIMPLEMENTED)


class Bounds(AgentboxCase):
    settings = {"message_bytes_max": 100000}

    def test_the_setting_holds(self):
        session = self.session()
        self.assertTrue(self.api.WriteFile(session_id=session, path="a", content="x" * 90000).success)
        self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED,
                     lambda: self.api.WriteFile(session_id=session, path="a", content="x" * 100000))


class OnePort(AgentboxCase):
    def setUp(self):
        self.list = f"/{SERVICE}/ListSessions"

    def lives(self):
        self.assertEqual(list(self.api.ListSessions().sessions), [])

    def test_both_protocols(self):
        for _ in range(3):
            with h2.Link(self.server.grpc_port) as link:
                self.assertEqual(link.answer(link.ask(self.list, h2.message(b""))), (h2.message(b""), None))
            connection = http.client.HTTPConnection("127.0.0.1", self.server.grpc_port, timeout=PATIENCE)
            connection.request("POST", self.list, h2.message(b""), {"content-type": "application/grpc-web+proto"})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()[:5]), (200, h2.message(b"")))
            connection.close()

    def test_kinds_of_content(self):
        with h2.Link(self.server.grpc_port) as link:
            for kind in ("application/grpc", "application/grpc+proto"):
                self.assertEqual(link.answer(link.ask(self.list, h2.message(b""), kind=kind)), (h2.message(b""), None))
            for kind in ("application/json", "text/plain", "application/grpcx", ""):
                data, code = link.answer(link.ask(self.list, h2.message(b""), kind=kind))
                self.assertNotEqual(data, h2.message(b""), kind)
        self.lives()

    def test_a_preface_in_pieces(self):
        link = h2.Link(self.server.grpc_port, settings=None)
        self.addCleanup(link.close)
        for byte in h2.PREFACE + h2.frame(h2.SETTINGS):
            link.send(bytes([byte]))
        self.assertEqual(link.answer(link.ask(self.list, h2.message(b""))), (h2.message(b""), None))

    def test_half_a_preface_holds_nobody_up(self):
        links = [h2.Link(self.server.grpc_port, settings=None) for _ in range(20)]
        for count, link in enumerate(links):
            link.send(h2.PREFACE[:count])
        self.lives()
        for link in links:
            link.close()
        self.lives()

    def test_something_like_a_preface(self):
        for start in (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"PRI * HTTP/1.1\r\n\r\n", b"PRI / HTTP/2.0\r\n\r\n",
                      b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200, b"\0" * 24, b"GET\0"):
            with socket.create_connection(("127.0.0.1", self.server.grpc_port), PATIENCE) as link:
                link.sendall(start)
                link.shutdown(socket.SHUT_WR)
                seen = b""
                try:
                    while part := link.recv(4096):
                        seen += part
                except ConnectionResetError:
                    pass
                self.assertTrue(not seen or seen.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505")), (start, seen))
        self.lives()


class Malformed(AgentboxCase):
    """Each ends a stream or the connection, and nobody else notices."""

    def setUp(self):
        self.path = f"/{SERVICE}/ListSessions"
        self.head = h2.request_fields(self.path)

    def tearDown(self):
        self.assertEqual(list(self.api.ListSessions().sessions), [])

    def ends(self, data, code=None):
        """The connection, and with a GOAWAY of this code when one is named."""
        with h2.Link(self.server.grpc_port) as link:
            link.send(data)
            seen = link.until_closed()
            if code is not None:
                self.assertIn(seen, (code, None), data[:40])

    def test_frames_that_end_the_connection(self):
        for data in (
            h2.frame(h2.DATA, 0, 0, b"x"),  # on no stream
            h2.frame(h2.HEADERS, h2.END_HEADERS, 0, self.head),
            h2.frame(h2.HEADERS, h2.END_HEADERS, 2, self.head),  # a number that is not the client's
            h2.frame(h2.HEADERS, h2.END_HEADERS, 1, b"\xff" * 40),  # fields that cannot be read
            h2.frame(h2.DATA, 0, 1, b"", length=16384 * 4),  # longer than anybody allowed
            h2.frame(h2.SETTINGS, 0, 1),
            h2.frame(h2.SETTINGS, 0, 0, b"12345"),
            h2.frame(h2.SETTINGS, h2.ACK, 0, b"123456"),
            h2.frame(h2.SETTINGS, 0, 0, struct.pack(">HI", h2.INITIAL_WINDOW, 0xFFFFFFFF)),
            h2.frame(h2.PING, 0, 0, b"1234"),
            h2.frame(h2.PING, 0, 1, b"12345678"),
            h2.frame(h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 0)),
            h2.frame(h2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF)),
            h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1, self.head),
            h2.frame(h2.HEADERS, 0, 1, self.head[:20]) + h2.frame(h2.PING, 0, 0, b"12345678"),  # in between
            h2.frame(h2.RST_STREAM, 0, 7, struct.pack(">I", 8)),  # of a stream that never was
            h2.frame(h2.PUSH_PROMISE, h2.END_HEADERS, 1, b"\0\0\0\2" + self.head),
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            self.ends(data)

    def test_floods_that_end_the_connection(self):
        rapid = b"".join(h2.frame(h2.HEADERS, h2.END_HEADERS, 2 * i + 1, self.head) +
                         h2.frame(h2.RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8)) for i in range(5000))
        continued = h2.frame(h2.HEADERS, 0, 1, self.head) + h2.frame(h2.CONTINUATION, 0, 1, b"") * 20000
        for data in (rapid, continued, h2.frame(h2.PING, 0, 0, b"12345678") * 50000, h2.frame(h2.SETTINGS) * 50000,
                     h2.frame(h2.HEADERS, h2.END_HEADERS, 1, self.head) + h2.frame(h2.DATA, 0, 1) * 50000):
            with h2.Link(self.server.grpc_port) as link:
                link.socket.settimeout(PATIENCE)
                try:
                    link.send(data)
                except (ConnectionResetError, BrokenPipeError):
                    continue
                link.until_closed()

    def test_fields_that_are_too_many_or_too_large(self):
        for more in ([("x" * 100, "y" * 100)] * 2000, [("x", "y" * 60000)]):
            head = h2.fields([(":method", "POST"), (":scheme", "http"), (":path", self.path),
                              ("content-type", "application/grpc"), *more])
            data, first = b"", True
            while head:
                part, head = head[:16000], head[16000:]
                flags = 0 if head else h2.END_HEADERS
                data += h2.frame(h2.HEADERS if first else h2.CONTINUATION, flags, 1, part)
                first = False
            with h2.Link(self.server.grpc_port) as link:
                try:
                    link.send(data + h2.frame(h2.DATA, h2.END_STREAM, 1, h2.message(b"")))
                    seen = link.answer(1)
                except (ConnectionResetError, BrokenPipeError):
                    seen = None
                self.assertTrue(seen is None or seen[0] != h2.message(b""), seen)

    def test_messages_that_are_none(self):
        """Wrong within gRPC: the stream ends without an answer, the connection goes on."""
        exec_path = f"/{SERVICE}/Exec"
        with h2.Link(self.server.grpc_port) as link:
            for body in (b"", b"\0", b"\0\0\0\0", b"\0\0\0\0\5ab", b"\0\xff\xff\xff\xff", b"\1\0\0\0\1x", b"\2\0\0\0\0",
                         b"\x80\0\0\0\0", h2.message(b"") + b"\0", h2.message(b"") * 2):
                data, _ = link.answer(link.ask(exec_path, body))
                self.assertEqual(data, b"", body)
            self.assertEqual(link.answer(link.ask(self.path, h2.message(b""))), (h2.message(b""), None))

    def test_a_message_in_pieces(self):
        with h2.Link(self.server.grpc_port) as link:
            stream = link.ask(self.path, b"", end=False)
            for byte in h2.message(b""):
                link.send(h2.frame(h2.DATA, 0, stream, bytes([byte])))
            link.send(h2.frame(h2.DATA, h2.END_STREAM, stream))
            self.assertEqual(link.answer(stream), (h2.message(b""), None))

    def test_other_methods_of_http(self):
        for method in ("GET", "PUT", "OPTIONS", "CONNECT"):
            with h2.Link(self.server.grpc_port) as link:
                head = h2.fields([(":method", method), (":scheme", "http"), (":path", self.path),
                                  (":authority", "localhost"), ("content-type", "application/grpc")])
                link.send(h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, head))
                seen = link.answer(1)
                self.assertTrue(seen is None or seen[0] != h2.message(b""), method)

    def test_slow_requests_hold_nobody_up(self):
        links = [h2.Link(self.server.grpc_port) for _ in range(20)]
        for link in links:
            self.addCleanup(link.close)
            link.ask(f"/{SERVICE}/Exec", b"\0\0", end=False)
        self.assertEqual(list(self.api.ListSessions().sessions), [])

    def test_more_streams_than_are_allowed(self):
        with h2.Link(self.server.grpc_port) as link:
            for _ in range(2000):
                try:
                    link.ask(self.path, b"\0", end=False)
                except (ConnectionResetError, BrokenPipeError):
                    return
            refused = 0
            for kind, _, _, _ in link.frames():
                if kind in (h2.RST_STREAM, h2.GOAWAY):
                    refused += 1
                    break
            self.assertEqual(refused, 1)


class Window(AgentboxCase):
    def test_a_window_that_stays_shut(self):
        """The command stops where the window does, and goes with the connection."""
        session = self.session()
        asked = of("ExecStreamRequest", session_id=session, command="exec head -c 200000000 /dev/zero")
        with h2.Link(self.server.grpc_port, settings=[(h2.INITIAL_WINDOW, 0)]) as link:
            stream = link.ask(f"/{SERVICE}/ExecStream", h2.message(asked))
            self.wait_until_running(session, "head -c 200000000")
            link.send(h2.frame(h2.WINDOW_UPDATE, 0, stream, struct.pack(">I", 10000)))
            seen = 0
            for kind, _, number, payload in link.frames():
                if kind == h2.DATA and number == stream:
                    seen += len(payload)
                if seen >= 10000:
                    break
            self.assertEqual(seen, 10000)
            self.assertTrue(self.running(session, "head -c 200000000"))
        self.wait_until_ended(session, "head -c 200000000")

    def test_a_peer_that_vanishes(self):
        session = self.session()
        for command in ("echo up; sleep 1732.1", "yes 1732.1"):
            asked = of("ExecStreamRequest", session_id=session, command=command)
            link = h2.Link(self.server.grpc_port)
            link.ask(f"/{SERVICE}/ExecStream", h2.message(asked))
            self.wait_until_running(session, "1732.1")
            link.reset()
            self.wait_until_ended(session, "1732.1")
        asked = of("ExecRequest", session_id=session, command="sleep 1732.2")
        link = h2.Link(self.server.grpc_port)
        link.ask(f"/{SERVICE}/Exec", h2.message(asked))
        self.wait_until_running(session, "1732.2")
        link.close()
        self.wait_until_ended(session, "1732.2")
        wait_for(lambda: self.says(session, "echo alive") == "alive\n", "the session")

    def test_one_stream_ends_and_its_neighbours_go_on(self):
        session = self.session()
        with h2.Link(self.server.grpc_port) as link:
            first = link.ask(f"/{SERVICE}/Exec", h2.message(of("ExecRequest", session_id=session, command="sleep 1732.3")))
            self.wait_until_running(session, "1732.3")
            link.send(h2.frame(h2.RST_STREAM, 0, first, struct.pack(">I", 8)))
            self.wait_until_ended(session, "1732.3")
            second = link.ask(f"/{SERVICE}/Exec", h2.message(of("ExecRequest", session_id=session, command="echo on")))
            data, _ = link.answer(second)
            self.assertEqual(pb.ExecResponse.FromString(data[5:]).stdout, "on\n")


if __name__ == "__main__":
    main()
