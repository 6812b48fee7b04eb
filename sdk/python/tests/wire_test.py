"""The parts of the client that know no sockets: HTTP, events, WebSocket frames, addresses, decisions to repeat."""

import os
import struct
import sys
import tempfile
import unittest
from pathlib import Path

SDK = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SDK / "src"))

from caisson import _frames as frames  # noqa: E402
from caisson import _operations as op  # noqa: E402
from caisson import errors  # noqa: E402
from caisson._endpoint import DEFAULT_URL, ConfigurationError, find_endpoint  # noqa: E402
from caisson._events import EVENT_BYTES_MAX, EventParser  # noqa: E402
from caisson._http1 import CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX, AnswerParser, Head, request_head  # noqa: E402
from caisson._retry import PAUSE_SECONDS_MAX, Retry  # noqa: E402
from caisson._wire import build, file_part, read_error  # noqa: E402
from caisson.requests import Network, SandboxConfig  # noqa: E402

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HERE = find_endpoint("http://127.0.0.1:8080", "t", {})


def answer_of(data, method="GET", step=None):
    """(head, body, done) of bytes that come in steps of so many."""
    parser = AnswerParser(method)
    body = b""
    for at in range(0, len(data), step or len(data)):
        parser.feed(data[at : at + (step or len(data))])
        while (piece := parser.piece()) is not None:
            body += piece
    return parser, body


class Http(unittest.TestCase):
    def test_bodies_at_every_cut(self):
        cases = {
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello": b"hello",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n": b"",
            CHUNKED + b"3;x=y\r\nhel\r\nA\r\nlo world!!\r\n0\r\nA: b\r\n\r\n": (
                b"hello world!!"),
            b"HTTP/1.1 204 No Content\r\n\r\n": b"",
        }
        for data, want in cases.items():
            for step in range(1, len(data) + 1):
                parser, body = answer_of(data, step=step)
                self.assertEqual((body, parser.done, parser.reusable), (want, True, True), (data, step))

    def test_a_head_has_no_body(self):
        parser, body = answer_of(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD")
        self.assertEqual((body, parser.done), (b"", True))

    def test_until_the_end_of_the_connection(self):
        parser, body = answer_of(b"HTTP/1.1 200 OK\r\n\r\nall")
        self.assertEqual((body, parser.done), (b"all", False))
        parser.feed(b"")
        self.assertIsNone(parser.piece())
        self.assertEqual((parser.done, parser.reusable), (True, False))

    def test_half_an_answer_is_no_answer(self):
        for data in (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"):
            parser, _ = answer_of(data)
            parser.feed(b"")
            with self.assertRaises(errors.BadAnswerError):
                parser.piece()

    def test_hostile_answers(self):
        for data in (b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", b"x" * (HEAD_BYTES_MAX + 1),
                     b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", CHUNKED + b"zz\r\n",
                     b"HTTP/1.1 \xb2 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
                     CHUNKED + b"-3\r\n", CHUNKED + b"0x3\r\n", CHUNKED + b"1_0\r\n",
                     CHUNKED + b"1" * (CHUNK_LINE_BYTES_MAX + 1), CHUNKED + b"1\r\nab\r\n"):
            with self.subTest(data=data[:60]), self.assertRaises(errors.BadAnswerError):
                answer_of(data)

    def test_nobody_slips_a_header_in(self):
        with self.assertRaises(ValueError):
            request_head("GET", "/", [("X", "a\r\nY: b")])


class Requests(unittest.TestCase):
    def test_paths_and_queries(self):
        self.assertEqual(file_part("/etc/a b"), "%2Fetc/a%20b")
        self.assertEqual(file_part("a/ü?#"), "a/%C3%BC%3F%23")
        request = build(HERE, op.LIST_FILES, {"id": "x/y", "path": ""}, {"recursive": True}, {}, None)
        self.assertEqual(request.target, "/api/v1/sandboxes/x%2Fy/list/?recursive=true")
        with self.assertRaises(ValueError):
            build(HERE, op.GET_SERVER, {}, {"colour": 1}, {}, None)

    def test_no_path_becomes_another_route(self):
        for path in ("..", "../../../tokens/x", "a/../b", "/workspace/.."):
            with self.subTest(path=path), self.assertRaises(errors.DeniedError):
                build(HERE, op.REMOVE_FILE, {"id": "x", "path": path}, {}, {}, None)
        for name in ("", ".", ".."):
            with self.subTest(name=name), self.assertRaises(ValueError):
                build(HERE, op.DESTROY_SANDBOX, {"id": name}, {}, {}, None)

    def test_a_token_is_not_shown(self):
        endpoint = find_endpoint("http://127.0.0.1:8080", "very-secret", {})
        request = build(endpoint, op.GET_SERVER, {}, {}, {}, None)
        self.assertIn("Bearer very-secret", dict(request.fields).values())
        self.assertNotIn("very-secret", repr(endpoint) + repr(request))

    def test_a_key_is_new_for_each_call(self):
        config = SandboxConfig(name="a", network=Network(mode="none"))
        keys = {dict(build(HERE, op.CREATE_SANDBOX, {}, {}, {}, config).fields)["Idempotency-Key"] for _ in range(10)}
        self.assertEqual(len(keys), 10)
        request = build(HERE, op.CREATE_SANDBOX, {}, {}, {}, config)
        self.assertEqual(request.body, b'{"name":"a","network":{"mode":"none"}}')
        self.assertNotIn("Idempotency-Key", dict(build(HERE, op.CREATE_TOKEN, {}, {}, {}, b"").fields))

    def test_errors(self):
        body = b'{"error": {"code": "Denied", "message": "no", "details": {"field": "tool"}, "request_id": "7"}}'
        error = read_error(Head(403, {}), body)
        self.assertIsInstance(error, errors.DeniedError)
        self.assertIsInstance(error, PermissionError)
        self.assertEqual((error.code, error.field, error.request_id, error.status), ("Denied", "tool", "7", 403))
        newer = read_error(Head(418, {}), b'{"error": {"code": "Teapot", "message": "short"}}')
        self.assertEqual((type(newer), newer.actual_code), (errors.ApiError, "Teapot"))
        self.assertIsInstance(read_error(Head(404, {"x-request-id": "8"}), b""), errors.NotFoundError)
        self.assertIsInstance(read_error(Head(502, {}), b"<html>"), errors.BadAnswerError)


class Streams(unittest.TestCase):
    def test_events_at_every_cut(self):
        data = ': quiet\n\nevent: stdout\nid: 4-0\ndata: {"a": "ü"}\n\ndata: 1\r\n\r\nevent: none\n\n'.encode()
        for step in range(1, len(data)):
            parser, seen = EventParser(), []
            for at in range(0, len(data), step):
                seen += parser.feed(data[at : at + step])
            self.assertEqual([tuple(one) for one in seen], [("stdout", "4-0", {"a": "ü"}), ("message", "4-0", 1)])

    def test_an_event_has_a_most(self):
        with self.assertRaises(errors.BadAnswerError):
            EventParser().feed(b"x" * (EVENT_BYTES_MAX + 1))
        with self.assertRaises(errors.BadAnswerError):
            EventParser().feed(b"data: x\n" * (EVENT_BYTES_MAX // 8 + 1))
        with self.assertRaises(errors.BadAnswerError):
            EventParser().feed(b"data: {\n\n")

    def test_frames(self):
        for size in (0, 1, 125, 126, 65535, 65536):
            data = os.urandom(size)
            sent = frames.frame(frames.BINARY, data)
            at = {True: 2, False: 4 if size < 65536 else 10}[size < 126]
            mask, masked = sent[at : at + 4], sent[at + 4 :]
            self.assertEqual(bytes(one ^ mask[i % 4] for i, one in enumerate(masked)), data)

    def test_messages_in_pieces(self):
        data = b"\x01\x03hel" + b"\x89\x01p" + b"\x80\x02lo" + b"\x82\x7e\x01\x00" + b"z" * 256
        for step in range(1, len(data)):
            parser, seen = frames.FrameParser(), []
            for at in range(0, len(data), step):
                seen += parser.feed(data[at : at + step])
            self.assertEqual([tuple(one) for one in seen],
                             [(frames.PING, b"p"), (frames.TEXT, b"hello"), (frames.BINARY, b"z" * 256)])

    def test_hostile_frames(self):
        huge = b"\x82\x7f" + struct.pack("!Q", frames.MESSAGE_BYTES_MAX + 1)
        for data in (b"\xc1\x00", b"\x81\x80", b"\x80\x00", b"\x01\x00\x01\x00", b"\x89\x7e\x00\x7e", huge):
            with self.subTest(data=data), self.assertRaises(errors.BadAnswerError):
                frames.FrameParser().feed(data)


class Repeating(unittest.TestCase):
    def test_only_what_is_safe(self):
        path = {"id": "a", "pid": 1, "port": 1, "path": "x"}

        def repeatable(operation, headers=(), body=b""):
            return build(HERE, operation, path, {}, dict(headers), body).repeatable

        for operation in (op.GET_SANDBOX, op.CREATE_SANDBOX, op.EXEC, op.UPLOAD_FILE, op.DESTROY_SANDBOX, op.SET_LIMITS):
            self.assertTrue(repeatable(operation), operation.name)
        for operation in (op.CREATE_TOKEN, op.WRITE_INPUT, op.OPEN_TERMINAL, op.EXEC_SOCKET, op.PROXY_POST,
                          op.PROXY_PATCH, op.IMPORT_IMAGE, op.REMOVE_FILE):
            self.assertFalse(repeatable(operation), operation.name)
        self.assertFalse(repeatable(op.EXEC, {"Accept": "text/event-stream"}))
        self.assertFalse(repeatable(op.UPLOAD_FILE, {"If-None-Match": "*"}))
        self.assertFalse(repeatable(op.UPLOAD_FILE, body=iter([b"x"])))
        self.assertIsNone(Retry(False, 1).after_loss(sent=True))
        self.assertIsNotNone(Retry(False, 1).after_loss(sent=False))

    def test_answers_that_say_wait(self):
        self.assertIsNotNone(Retry(False, 1).after_answer(429, 1.0))
        self.assertIsNotNone(Retry(True, 1).after_answer(409, 1.0))
        self.assertIsNone(Retry(True, 1).after_answer(409, None))
        self.assertIsNone(Retry(True, 1).after_answer(500, None))
        self.assertLessEqual(Retry(True, 1).after_answer(503, 900.0), PAUSE_SECONDS_MAX)

    def test_an_end(self):
        retry = Retry(True, 2)
        self.assertEqual([retry.after_loss(True) is None for _ in range(3)], [False, False, True])


class Addresses(unittest.TestCase):
    def test_where_it_comes_from(self):
        with tempfile.TemporaryDirectory() as folder:
            env = {"XDG_CONFIG_HOME": folder}
            self.assertEqual(find_endpoint(None, None, env).authority, "127.0.0.1:8080")
            path = Path(folder, "caisson", "client.yaml")
            path.parent.mkdir()
            path.write_text("# mine\nurl: 'http://box:1'  # here\ntoken: cais_file\n")
            with self.assertRaises(ConfigurationError) as refused:
                find_endpoint(None, None, env)
            self.assertIn("chmod 600", str(refused.exception))
            path.chmod(0o600)
            found = find_endpoint(None, None, env)
            self.assertEqual((found.host, found.port, found.token), ("box", 1, "cais_file"))
            # The file's token does not follow an address from elsewhere.
            self.assertEqual(find_endpoint("http://other", None, env).token, "")
            env |= {"CAISSON_URL": "https://env/base/", "CAISSON_TOKEN": "cais_env"}
            found = find_endpoint(None, None, env)
            self.assertEqual((found.host, found.port, found.tls, found.prefix, found.token),
                             ("env", 443, True, "/base", "cais_env"))
            self.assertEqual(find_endpoint("http://arg", "cais_arg", env).token, "cais_arg")
            path.write_text("colour: red\n")
            with self.assertRaises(ConfigurationError):
                find_endpoint(None, None, {"XDG_CONFIG_HOME": folder})

    def test_what_is_no_address(self):
        self.assertTrue(DEFAULT_URL.startswith("http"))
        for url in ("ftp://x", "http://", "http://u:p@x", "http://x?y", "http://x y", "http://x:99999"):
            with self.subTest(url=url), self.assertRaises(ConfigurationError):
                find_endpoint(url, None, {})
        with self.assertRaises(ConfigurationError):
            find_endpoint("http://x", "a\r\nb", {})


if __name__ == "__main__":
    unittest.main(verbosity=2)
