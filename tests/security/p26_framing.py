"""P26: HTTP is framed strictly, one request is judged at a time. What two readers could split differently is refused;
what is passed on has been written anew."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from upstream import Web
from way_out import PUBLIC, WayOut, rule

HIDDEN = "GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
HEAD = "POST http://allowed.test/first HTTP/1.1\r\nHost: allowed.test\r\n"


def chunked(*fields):
    """A body of no chunks, and a second request behind it."""
    return HEAD + "".join(field + "\r\n" for field in fields) + "\r\n0\r\n\r\n" + HIDDEN


SMUGGLING = {
    "length and chunks": chunked(f"Content-Length: {len(HIDDEN) + 5}", "Transfer-Encoding: chunked"),
    "chunks and length": chunked("Transfer-Encoding: chunked", f"Content-Length: {len(HIDDEN) + 5}"),
    "two lengths": chunked("Content-Length: 5", f"Content-Length: {len(HIDDEN) + 5}"),
    "list of lengths": chunked(f"Content-Length: 5, {len(HIDDEN) + 5}"),
    "signed length": chunked("Content-Length: +5"),
    "negative length": chunked("Content-Length: -1"),
    "hexadecimal length": chunked("Content-Length: 0x5"),
    "length with a space": chunked("Content-Length: 5 5"),
    "empty length": chunked("Content-Length: "),
    "length beyond 64 bits": chunked("Content-Length: 18446744073709551621"),
    "two codings": chunked("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "identity, then chunked": chunked("Transfer-Encoding: identity", "Content-Length: 5"),
    "chunked, identity": chunked("Transfer-Encoding: chunked, identity"),
    "gzip, chunked": chunked("Transfer-Encoding: gzip, chunked"),
    "xchunked": chunked("Transfer-Encoding: xchunked"),
    "chunked in quotes": chunked('Transfer-Encoding: "chunked"'),
    "space before the colon": chunked("Transfer-Encoding : chunked"),
    "tab before the colon": chunked("Transfer-Encoding\t: chunked"),
    "vertical tab": chunked("Transfer-Encoding: \x0bchunked"),
    "nul in the value": chunked("Transfer-Encoding: chunked\0"),
    "folded": chunked("Transfer-Encoding:\r\n chunked"),
    "folded by a tab": chunked("X: y\r\n\tTransfer-Encoding: chunked"),
    "bare LF in a field": chunked("X: y\nTransfer-Encoding: chunked"),
    "bare CR in a field": chunked("X: y\rTransfer-Encoding: chunked"),
    "bare LF at the end": HEAD.replace("\r\n", "\n") + "Content-Length: 0\n\n" + HIDDEN,
    "space before a field": HEAD + " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "field without a name": chunked(": chunked"),
    "field without a colon": chunked("Transfer-Encoding chunked"),
    "high byte in a name": chunked("Transfer\xa0Encoding: chunked"),
    "HTTP/1.0 with chunks": chunked("Transfer-Encoding: chunked").replace("HTTP/1.1", "HTTP/1.0", 1),
    "HTTP/0.9": "GET http://allowed.test/\r\n\r\n" + HIDDEN,
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.2": "GET http://allowed.test/ HTTP/1.2\r\nHost: allowed.test\r\n\r\n" + HIDDEN,
    "two spaces": "GET  http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n" + HIDDEN,
    "words behind": "GET http://allowed.test/ HTTP/1.1 x\r\nHost: allowed.test\r\n\r\n" + HIDDEN,
    "two Hosts": HEAD + "Host: evil.example\r\nContent-Length: 0\r\n\r\n",
    "no Host": "GET http://allowed.test/ HTTP/1.1\r\n\r\n" + HIDDEN,
    "CR LF in the target": "GET http://allowed.test/%0d%0a\r\nX: http://allowed.test/ HTTP/1.1\r\n\r\n" + HIDDEN,
}
# The head is in order; the chunks are not.
CHUNKS = {
    "size that is none": "zz\r\n\r\n", "negative size": "-1\r\n", "signed size": "+5\r\nhello\r\n0\r\n\r\n",
    "size with 0x": "0x5\r\nhello\r\n0\r\n\r\n", "huge size": "ffffffffffffffffff\r\n", "no CR LF": "5\nhello\n0\n\n",
    "data that is longer": "5\r\nhello, world\r\n0\r\n\r\n", "data without an end": "5\r\nhelloXX0\r\n\r\n",
    "space before the size": " 5\r\nhello\r\n0\r\n\r\n", "LF in an extension": "5;a\nb\r\nhello\r\n0\r\n\r\n",
    "endless extension": "5;" + "a" * 20000 + "\r\nhello\r\n0\r\n\r\n",
    "bare CR after the size": "5\rhello\r\n0\r\n\r\n",
}


class Framing(WayOut):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=80)
        for name in ("allowed.test", "evil.example"):
            cls.dns.set(name, PUBLIC)

    def setUp(self):
        super().setUp()
        self.web.forget()

    def test_requests_that_two_readers_could_split_differently(self):
        done = self.probe([rule("allowed.test", 80)], """
for name, data in cases.items():
    reply = talk(data)
    out['proxy: ' + name] = [status(reply), reply.count('HTTP/1.1 200')]
    link, said = tunnel('allowed.test:80')
    try:
        link.sendall(data.replace('http://allowed.test/', '/').encode('latin-1')); link.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    reply = receive(link).decode('latin-1')
    out['tunnel: ' + name] = [status(reply), reply.count('HTTP/1.1 200')]
""", cases=SMUGGLING)
        for name, (said, _) in done.told.items():
            with self.subTest(name):
                self.assertIn(said, (0, 400, 403, 411, 413, 431, 501, 505))
        self.assertEqual(self.web.targets(), [])
        self.assertNotIn(b"smuggled", self.web.raw)
        self.assertNotIn(b"evil", self.web.raw)

    def test_chunks_that_are_none(self):
        done = self.probe([rule("allowed.test", 80)], """
for name, body in cases.items():
    reply = talk(f'POST http://allowed.test/{name.replace(" ", "-")} HTTP/1.1\\r\\nHost: allowed.test\\r\\n'
                 f'Transfer-Encoding: chunked\\r\\n\\r\\n{body}' + hidden)
    out[name] = [status(reply), reply.count('HTTP/1.1 200')]
""", cases=CHUNKS, hidden=HIDDEN)
        self.assert_all({name: said for name, (said, _) in done.told.items()}, (0, 400, 413, 502))
        # What the host got of them, it could not take for a whole request, and nothing came behind it.
        self.assertEqual(self.web.targets(), [])
        self.assertNotIn(b"smuggled", self.web.raw)

    def test_what_is_in_order_passes_and_is_written_anew(self):
        done = self.probe([rule("allowed.test", 80)], """
body = '5;extension=1\\r\\nhello\\r\\n6\\r\\n world\\r\\n0\\r\\nTrailer: x\\r\\n\\r\\n'
reply = talk('POST http://allowed.test/echo HTTP/1.1\\r\\nHost: allowed.test\\r\\nTransfer-Encoding: ChunKed\\r\\n'
             'Connection: close, X-Named\\r\\nX-Named: dropped\\r\\nProxy-Authorization: Basic c2VjcmV0\\r\\n'
             'Proxy-Connection: keep-alive\\r\\nTE: trailers\\r\\nKeep-Alive: timeout=5\\r\\n'
             'X-Kept: kept\\r\\n\\r\\n' + body)
out['chunks'] = [status(reply), reply.endswith('hello world')]
reply = get('http://allowed.test/echo', method='PUT', more='Content-Length: 4\\r\\n', body='four')
out['length'] = [status(reply), reply.endswith('four')]
""")
        self.assertEqual(done.told, {"chunks": [200, True], "length": [200, True]})
        first = self.web.requests[0]
        self.assertEqual(first.field("x-kept"), "kept")
        for name in ("x-named", "proxy-authorization", "proxy-connection", "te", "keep-alive", "trailer"):
            self.assertIsNone(first.field(name), name)

    def test_a_refused_request_ends_its_connection(self):
        """Nobody can say where the next one would begin."""
        done = self.probe([rule("allowed.test", 80)], """
for name, data in cases.items():
    with socket.create_connection(('127.0.0.1', PROXY), PATIENCE) as link:
        try:
            link.sendall(data.encode('latin-1'))
            link.sendall(b'GET http://allowed.test/behind HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n')
        except OSError:
            pass
        reply = receive(link)
        out[name] = b'200 OK' in reply or b'[timeout]' in reply
""", cases={name: SMUGGLING[name] for name in ("length and chunks", "two lengths", "bare LF in a field", "folded",
                                               "space before the colon", "two Hosts")})
        self.assert_all(done.told, (False,))
        self.assertEqual(self.web.targets(), [])

    def test_answers_that_are_not_http_are_not_passed_on_as_such(self):
        bad = {"two framings": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
               "two lengths": "Content-Length: 5\r\nContent-Length: 6\r\n", "odd coding": "Transfer-Encoding: gzip\r\n"}
        for number, fields in enumerate(bad.values()):
            self.web.pages[f"/bad{number}"] = (f"text/plain\r\n{fields}X-End: 1", b"hello")
        self.addCleanup(self.web.pages.clear)
        done = self.probe([rule("allowed.test", 80)], """
for number in range(count):
    out[number] = status(get(f'http://allowed.test/bad{number}'))
""", count=len(bad))
        self.assert_all(done.told, (502,))

    def test_methods_and_paths_of_a_rule(self):
        rules = [rule("allowed.test", 80, methods=["GET"], path_prefixes=["/api/"])]
        done = self.probe(rules, """
for method, path in (('GET', '/api/x'), ('GET', '/api/'), ('GET', '/'), ('GET', '/apix'), ('GET', '/API/x'),
                     ('POST', '/api/x'), ('DELETE', '/api/x'), ('get', '/api/x'), ('GET', '/api/../secret'),
                     ('GET', '/api/%2e%2e/secret'),
                     ('GET', '/api/..%2fsecret'), ('GET', '//api/x'), ('GET', '/api/./x'), ('GET', '/api/%2e/x'),
                     ('GET', '/api\\\\..\\\\secret'), ('GET', '/api/..;/secret'), ('GET', '/api/%252e%252e/secret')):
    out[f'{method} {path}'] = status(get(f'http://allowed.test{path}', method=method))
link, out['tunnel'] = tunnel('allowed.test:80')
link.sendall(b'not HTTP at all\\r\\n\\r\\n')
out['opaque'] = receive(link).decode('latin-1')[:12]
""")
        self.assertEqual(done.told.pop("GET /api/x"), 200)
        self.assertEqual(done.told.pop("GET /api/"), 200)
        # Twice encoded is a name of its own to a server that decodes once.
        self.assertIn(done.told.pop("GET /api/%252e%252e/secret"), (200, 400, 403))
        tunnel, opaque = done.told.pop("tunnel"), done.told.pop("opaque")
        self.assertIn(tunnel, (200, 403))
        self.assertNotIn("200", opaque)
        self.assert_all(done.told, (400, 403))
        for target in self.web.targets():
            self.assertTrue(target.startswith("/api/"), target)
            self.assertNotIn("secret", target.replace("%252e%252e/secret", ""))


if __name__ == "__main__":
    way_out.main()
