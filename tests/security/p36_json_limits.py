"""P36, the part about JSON: a document that costs more than it weighs is refused, at once, and others do not notice."""

import live_server
from live_server import Attack

MIB = 1 << 20
BOMBS = {
    "deep arrays": b"[" * 100_000 + b"]" * 100_000,
    "deep arrays without an end": b"[" * 1_000_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep below a known field": b'{"labels":' + b'{"a":' * 33 + b"1" + b"}" * 34,
    "the same key twice": b'{"name":"a","name":"b"}',
    "the same key twice, written differently": b'{"name":"a","n\\u0061me":"b"}',
    "the same key twice, below": b'{"labels":{"x":"1","x":"2"}}',
    "too many members": b'{"labels":{' + b",".join(b'"k%d":"v"' % i for i in range(5000)) + b"}}",
    "too many values": b'{"tools":[' + b",".join([b'"a"'] * 100_000) + b"]}",
    "too many empty lists": b'{"tools":[' + b",".join([b"[]"] * 100_000) + b"]}",
    "a key without an end": b'{"' + b"k" * (4 * MIB),
    "a long key": b'{"' + b"k" * MIB + b'":1}',
    "a long text": b'{"name":"' + b"n" * (4 * MIB) + b'"}',
    "a huge number": b'{"user":1' + b"0" * 100_000 + b"}",
    "a huge exponent": b'{"resource_limits":{"cpu":1e999999999}}',
    "a number of 1 MiB": b'{"user":0.' + b"1" * MIB + b"}",
    "infinity": b'{"resource_limits":{"cpu":Infinity}}',
    "not a number": b'{"resource_limits":{"cpu":NaN}}',
    "a negative number": b'{"user":-1}',
    "beyond 64 bits": b'{"user":18446744073709551617}',
    "bad UTF-8": b'{"name":"\xff\xfe"}',
    "an overlong NUL": b'{"name":"\xc0\x80"}',
    "half a surrogate": b'{"name":"\\ud800"}',
    "a NUL": b'{"name":"a\\u0000b"}',
    "a raw newline": b'{"name":"a\nb"}',
    "text behind it": b"{} {}",
    "a comment": b"{/* */}",
    "a trailing comma": b'{"name":"a",}',
    "a mark before it": b"\xef\xbb\xbf{}",
    "another encoding": '{"name":"a"}'.encode("utf-16"),
    "not an object": b"[]",
    "nothing but a word": b"true",
    "single quotes": b"{'name':'a'}",
    "an unknown field": b'{"nmae":"a"}',
    "the prototype": b'{"__proto__":{"admin":true}}',
}


class JsonLimits(Attack):
    flags = ("--open",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.box = cls.server.sandbox(None)

    def memory(self):
        return self.server.memory_peak()

    def post(self, path, body):
        return self.server.call("POST", path, body, headers={"Content-Type": "application/json"})

    def test_each_is_refused_with_a_short_word(self):
        before = self.memory()
        for name, body in BOMBS.items():
            for path in ("/api/v1/sandboxes", f"/api/v1/sandboxes/{self.box}/exec", "/api/v1/tokens"):
                with self.subTest(bomb=name, path=path):
                    answer = self.post(path, body)
                    self.assertIn(answer.status, (400, 413), answer)
                    self.assertLess(len(answer.body), 8192)
                    self.assertTrue(answer.json()["error"]["message"])
        self.assertLess(self.memory() - before, 256 * MIB)
        listed = self.server.call("GET", "/api/v1/sandboxes").json()["sandboxes"]
        self.assertEqual([box["id"] for box in listed], [self.box])

    def test_a_body_beyond_the_limit_is_not_read(self):
        before = self.memory()
        head = b"POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        answer = self.server.raw(head + b"Content-Length: 99999999999\r\n\r\n{", until=b"\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 413"), answer)
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        answer = self.server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 200 + b"0\r\n\r\n",
                                 until=b"\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 413") or not answer, answer)
        self.assertLess(self.memory() - before, 64 * MIB)

    def test_a_compressed_body_is_not_unpacked(self):
        import gzip
        bomb = gzip.compress(b" " * (64 * MIB) + b"{}")
        before = self.memory()
        answer = self.server.call("POST", "/api/v1/sandboxes", bomb,
                                  headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})
        self.assertIn(answer.status, (400, 415), answer)
        self.assertLess(self.memory() - before, 32 * MIB)

    def test_what_is_within_the_limits_is_taken(self):
        """Otherwise the refusals above would say nothing."""
        answer = self.post(f"/api/v1/sandboxes/{self.box}/exec", b'{"argv": ["/bin/true", "' + b"x" * 100_000 + b'"]}')
        self.assertEqual((answer.status, answer.json()["exit_code"]), (200, 0))
        labels = b",".join(b'"k%d":"v"' % i for i in range(32))
        answer = self.post("/api/v1/sandboxes", b'{"name": null, "labels": {' + labels + b"}}")
        self.assertEqual(answer.status, 201, answer)
        self.server.call("DELETE", f"/api/v1/sandboxes/{answer.json()['id']}")


if __name__ == "__main__":
    live_server.main()
