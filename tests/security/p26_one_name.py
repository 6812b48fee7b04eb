"""P26: one name per connection. CONNECT's target, the server name of TLS and the Host field of every request name the
same host, or nothing of the guest's is sent on."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from upstream import Authority, Echo, Web
from way_out import PUBLIC, WayOut, rule

RULES = [rule("allowed.test", 80, 443, 2222, 25), rule("second.test", 80, 443), rule("*.zone.test", 80, 443),
         rule("xn--bcher-kva.test", 80)]


class OneName(WayOut):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=80)
        cls.secure = Web(port=443, context=Authority(cls.folder).context("allowed.test", "second.test", "evil.example"))
        cls.echo = Echo(port=2222)
        cls.greeter = Echo(port=25, greeting=b"220 ready\r\n")
        for name in ("allowed.test", "second.test", "*.zone.test", "*.test", "evil.example", "*.evil.example",
                     "evil.com", "*.evil.com", "xn--bcher-kva.test"):
            cls.dns.set(name, PUBLIC)

    def setUp(self):
        super().setUp()
        for server in (self.web, self.secure, self.echo, self.greeter):
            server.forget()

    def test_names_that_are_nearly_allowed(self):
        names = ("evil.example", "allowed.test.evil.example", "notallowed.test", "xallowed.test", "sub.allowed.test",
                 "allowed.testx", "allowed", "test", "zone.test", "notzone.test", "a.zone.test.evil.example",
                 "allowed.test\0.evil.example", "allowed.test%00.evil.example", "allowed.test\x01", "allowed..test",
                 ".allowed.test", "allowed.test.", "allowed.test..", "allowed_test", "-", "evil.example#allowed.test",
                 "evil.example#.zone.test", "evil.example/.zone.test", "evil.example\\.zone.test",
                 "evil.example?.zone.test", "evil.example;.zone.test", "evil.example&.zone.test",
                 "evil.example .zone.test",
                 "evil.example\t.zone.test", "evil.example%2f.zone.test", "evil.example%23.zone.test",
                 "allowed.test@evil.example",
                 "evil.example@allowed.test", "allowed.test:80@evil.example", "user:pass@allowed.test",
                 "b\xc3\xbccher.test", "b\xfccher.test", "allow\xc3\xa9d.test", "allowed\xe3\x80\x82test",
                 "allowed\xef\xbc\x8etest", "\xef\xbd\x81llowed.test", "allowed.test,evil.example",
                 "*.zone.test", "a.*.zone.test", "a" * 64 + ".zone.test", "a." * 130 + "zone.test")
        done = self.probe(RULES, """
for name in names:
    out['http ' + name] = status(get(f'http://{name}/', host=name))
    out['http, good host ' + name] = status(get(f'http://{name}/', host='allowed.test'))
    out['host ' + name] = status(get('http://allowed.test/', host=name)) if name != 'allowed.test:80' else 403
    link, out['connect ' + name] = tunnel(name + ':80'); link.close()
    if len(name) < 256:
        link, said = socks(name, 80); link.close()
        out['socks ' + name] = 403 if said else 200
""", names=names)
        self.assert_all(done.told, (400, 403, 404, 414, 0))
        self.assertEqual(self.web.arrived, [])
        self.assertEqual(self.dns.asked, [])

    def test_spellings_of_an_allowed_name(self):
        done = self.probe(RULES, """
for name in ('allowed.test', 'ALLOWED.TEST', 'Allowed.Test', 'a.zone.test', 'A.B.ZONE.test', 'xn--bcher-kva.test',
             'allowed.test:80'):
    out['http ' + name] = status(get(f'http://{name}/'))
    if ':' not in name:
        link, out['connect ' + name] = tunnel(name + ':80'); link.close()
        link, said = socks(name, 80); link.close()
        out['socks ' + name] = 403 if said else 200
""")
        self.assert_all(done.told, (200,))
        # The host sees one spelling, the canonical one.
        self.assertEqual(set(self.web.hosts()), {"allowed.test", "a.zone.test", "a.b.zone.test", "xn--bcher-kva.test"})

    def test_ports_are_part_of_a_rule(self):
        done = self.probe(RULES, """
for port in (81, 22, 8080, 3128, 65535):
    out[f'http {port}'] = status(get(f'http://allowed.test:{port}/'))
    link, out[f'connect {port}'] = tunnel(f'allowed.test:{port}'); link.close()
for port in ('0', '-1', '65536', '99999', '080', '+80', '0x50', '80a', '', ' 80', '80 '):
    link, out[f'connect {port!r}'] = tunnel(f'allowed.test:{port}'); link.close()
out['connect'] = tunnel('allowed.test')[1]
out['https in a request'] = status(get('https://allowed.test/'))
out['other scheme'] = status(get('ftp://allowed.test/'))
""")
        self.assert_all(done.told, (400, 403, 0))
        self.assertEqual(self.web.arrived + self.secure.arrived, [])

    def test_server_names(self):
        done = self.probe(RULES, """
for way in ('connect', 'socks', 'direct'):
    for name in ('allowed.test', 'ALLOWED.test', 'second.test', 'evil.example', 'sub.allowed.test',
                 'allowed.test.evil.example', None):
        if way == 'connect':
            link, said = tunnel('allowed.test:443'); assert said == 200
        elif way == 'socks':
            link, said = socks('allowed.test', 443); assert said == 0
        else:
            link = socket.create_connection((query('allowed.test')[1][0], 443), PATIENCE)
        out[f'{way} {name}'] = over_tls(link, name)[:12]
""")
        for key, reply in done.told.items():
            self.assertEqual(reply == "HTTP/1.1 200", key.lower().endswith(" allowed.test"), done.told)
        # Not one byte of the others was sent on.
        self.assertEqual({name.lower() for name in self.secure.server_names}, {"allowed.test"})
        self.assertEqual(len(self.secure.requests), 6)
        self.assertIn("evil.example", done.messages)

    def test_a_hello_in_pieces(self):
        """Split at every place where a reader could lose its thread, over records and over packets."""
        done = self.probe(RULES, """
def records(data, size):
    body, pieces = data[5:], []
    for at in range(0, len(body), size):
        part = body[at:at + size]
        pieces.append(data[:3] + struct.pack('>H', len(part)) + part)
    return pieces
def say(name, pieces):
    link, said = tunnel('allowed.test:443')
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        for piece in pieces:
            link.sendall(piece)
        first = link.recv(5)
    except OSError:
        first = b''
    link.close()
    return first[:1] == b'\\x16'
for name in ('allowed.test', 'second.test', 'evil.example'):
    data = hello(name)
    out[f'{name} bytes'] = say(name, [data[i:i + 1] for i in range(len(data))])
    out[f'{name} halves'] = say(name, [data[:len(data) // 2], data[len(data) // 2:]])
    out[f'{name} head'] = say(name, [data[:5], data[5:]])
    at = data.index(name.encode()) + 3
    out[f'{name} within the name'] = say(name, [data[:at], data[at:]])
    out[f'{name} records of 1'] = say(name, [b''.join(records(data, 1))])
    out[f'{name} records of 64'] = say(name, records(data, 64))
    out[f'{name} records, within the name'] = say(name, records(data, at - 5))
""")
        for key, passed in done.told.items():
            # A server may be too strict for tiny records itself; what must hold is that no other name passes.
            if not key.startswith("allowed.test"):
                self.assertFalse(passed, key)
        for key in ("bytes", "halves", "head", "within the name"):
            self.assertTrue(done.told[f"allowed.test {key}"], done.told)
        self.assertEqual({name for name in self.secure.server_names}, {"allowed.test"})

    def test_hellos_that_are_odd(self):
        done = self.probe(RULES, r"""
data = hello('allowed.test')
at = data.index(b'allowed.test')
def extension(number, body):
    # Adds one to the hello, and mends the lengths around it.
    offset = 5 + 4 + 2 + 32
    offset += 1 + data[offset]
    offset += 2 + struct.unpack('>H', data[offset:offset + 2])[0]
    offset += 1 + data[offset]
    old = data[offset + 2:]
    new = old + struct.pack('>HH', number, len(body)) + body
    shake = data[9:offset] + struct.pack('>H', len(new)) + new
    shake = b'\x01' + struct.pack('>I', len(shake))[1:] + shake
    return b'\x16\x03\x01' + struct.pack('>H', len(shake)) + shake
def names(*values):
    body = b''.join(b'\0' + struct.pack('>H', len(value)) + value for value in values)
    return struct.pack('>H', len(body)) + body
CASES = {'ech': extension(0xfe0d, b'\0\0\1\0\1\0\0\x20' + bytes(32) + b'\0\x10' + bytes(16)),
         'old esni': extension(0xffce, bytes(64)), 'two names': extension(0, names(b'evil.example')),
         'nul': data[:at] + b'allowed\0tes' + data[at + 11:], 'sslv2': b'\x80\x2e\x01\x03\x01' + bytes(43),
         'no hello': b'\x16\x03\x01\x00\x05\x02\0\0\1x', 'alert': b'\x15\x03\x01\x00\x02\x02\x28',
         'empty record': b'\x16\x03\x01\x00\x00' * 50 + data, 'huge record': b'\x16\x03\x01\xff\xff' + data[5:],
         'cut': data[:-1] + b''}
for name, bytes_said in CASES.items():
    link, said = tunnel('allowed.test:443')
    link.settimeout(3 if name == 'cut' else PATIENCE)
    try:
        link.sendall(bytes_said)
        if name == 'cut':
            link.shutdown(socket.SHUT_WR)
        out[name] = link.recv(5)[:1] == b'\x16'
    except OSError:
        out[name] = False
    link.close()
whole, said = tunnel('allowed.test:443')
whole.sendall(extension(0x4a4a, b''))
out['control'] = whole.recv(5)[:1] == b'\x16'
""")
        self.assertTrue(done.told.pop("control"), "an unknown extension is nobody's business")
        self.assertNotIn(True, done.told.values(), done.told)
        self.assertEqual(self.secure.server_names, ["allowed.test"])
        self.assertEqual(len(self.secure.requests), 0)

    def test_plain_http_in_a_tunnel(self):
        done = self.probe(RULES, """
def through(host, target='/inner', line='GET {} HTTP/1.1'):
    link, said = tunnel('allowed.test:80')
    link.sendall(f'{line.format(target)}\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
    return status(receive(link).decode('latin-1'))
out['allowed.test'] = through('allowed.test')
for host in ('evil.example', 'second.test', 'sub.allowed.test', 'allowed.test.evil.example',
             'allowed.test, evil.example', 'allowed.test\\r\\nHost: evil.example', 'allowed.test:81', ''):
    out['host ' + host] = through(host)
out['absolute'] = through('allowed.test', 'http://evil.example/')
out['connect'] = through('allowed.test', 'evil.example:80', 'CONNECT {} HTTP/1.1')
out['empty lines first'] = through('evil.example', line='\\r\\n\\r\\nGET {} HTTP/1.1')
out['tab'] = through('evil.example', line='GET\\t{} HTTP/1.1')
out['lower case'] = through('evil.example', line='get {} http/1.1')
""")
        self.assertEqual(done.told.pop("allowed.test"), 200)
        self.assert_all(done.told, (400, 403, 0))
        self.assertEqual(self.web.targets(), ["/inner"])
        self.assertEqual(self.web.hosts(), ["allowed.test"])

    def test_requests_that_a_lenient_server_finds(self):
        """The host of this test skips empty lines, takes any method and a line of any length. Whatever such a server
        would take for a request is judged as one, and never passed on as something unknown."""
        done = self.probe(RULES, """
def through(first, host, pieces=1):
    link, said = tunnel('allowed.test:80')
    data = (first + f'\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n').encode('latin-1')
    try:
        for at in range(0, len(data), len(data) // pieces + 1):
            link.sendall(data[at:at + len(data) // pieces + 1])
        link.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    return status(receive(link).decode('latin-1'))
LONG = 'a' * 9000
CASES = {'one empty line': '\\r\\nGET /x HTTP/1.1', 'empty lines': '\\r\\n' * 600 + 'GET /x HTTP/1.1',
         'many empty lines': '\\r\\n' * 5000 + 'GET /x HTTP/1.1', 'bare empty lines': '\\n' * 9000 + 'GET /x HTTP/1.1',
         'long target': f'GET /{LONG} HTTP/1.1', 'long target, rare method': f'SEARCH /{LONG} HTTP/1.1',
         'long target, unknown method': f'FOO /{LONG} HTTP/1.1', 'long method': f'{LONG} /x HTTP/1.1',
         'longer target': f'SEARCH /{LONG * 5} HTTP/1.1', 'rare method': 'SEARCH /x HTTP/1.1',
         'unknown method': 'FOO /x HTTP/1.1', 'no version': 'GET /x', 'HTTP/2': 'PRI * HTTP/2.0',
         'odd version': 'FOO /x HTTP/9',
         'websocket': 'GET /x HTTP/1.1\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade',
         'spaces': 'FOO' + ' ' * 9000 + '/x HTTP/1.1', 'tabs': 'FOO\\t/x\\tHTTP/1.1', 'space first': ' FOO /x HTTP/1.1'}
for name, first in CASES.items():
    for pieces in (1, 3):
        out[f'{name} {pieces}'] = through(first, 'evil.example', pieces)
out['control'] = through('SEARCH /control HTTP/1.1', 'allowed.test')
""")
        self.assertEqual(done.told.pop("control"), 200)
        self.assert_all(done.told, (0, 400, 403, 408, 413, 414, 431, 501, 505))
        self.assertEqual(self.web.targets(), ["/control"])
        self.assertNotIn(b"evil", self.web.raw)

    def test_later_requests(self):
        """The first request of a connection opens nothing for the second one."""
        done = self.probe(RULES, """
def two(first, second):
    with socket.create_connection(('127.0.0.1', PROXY), PATIENCE) as link:
        said = []
        for target, host in (first, second):
            link.sendall(f'GET {target} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())
            said.append(one_answer(link)[0])
        return said
good = ('http://allowed.test/first', 'allowed.test')
out['same'] = two(good, ('http://allowed.test/same', 'allowed.test'))
out['second'] = two(good, ('http://second.test/second', 'second.test'))
out['target'] = two(good, ('http://evil.example/target', 'evil.example'))
out['host'] = two(good, ('http://allowed.test/host', 'evil.example'))
out['origin form'] = two(good, ('/origin', 'evil.example'))
link, said = tunnel('allowed.test:80')
said = []
for host in ('allowed.test', 'evil.example'):
    link.sendall(f'GET /in-tunnel-{host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())
    said.append(one_answer(link)[0])
out['tunnel'] = said
both = ''.join(f'GET /at-once-{host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'
               for host in ('allowed.test', 'evil.example'))
link, said = tunnel('allowed.test:80')
link.sendall(both.encode())
out['at once'] = [one_answer(link)[0] for _ in range(2)]
""")
        self.assertEqual(done.told["same"], [200, 200])
        self.assertEqual(done.told["second"], [200, 200])
        for key in ("target", "host", "origin form", "tunnel", "at once"):
            self.assertEqual(done.told[key][0], 200, key)
            self.assertIn(done.told[key][1], (400, 403), key)
        self.assertEqual({host for host in self.web.hosts()}, {"allowed.test", "second.test"})
        for target in self.web.targets():
            self.assertNotIn("evil", target)

    def test_a_relay_inside_gains_nothing(self):
        """A guest's own proxy in front of ours, and ours in front of itself."""
        done = self.probe(RULES, """
import threading
listener = socket.create_server(('127.0.0.1', 9999))
def relay():
    while True:
        link, _ = listener.accept()
        with link, socket.create_connection(('127.0.0.1', PROXY), PATIENCE) as up:
            up.sendall(link.recv(65536)); link.sendall(receive(up))
threading.Thread(target=relay, daemon=True).start()
def via(target):
    words = f'GET {target} HTTP/1.1\\r\\nHost: {target.split("/")[2]}\\r\\nConnection: close\\r\\n\\r\\n'
    return status(talk(words, 9999, until=b'\\0'))
out['allowed'] = via('http://allowed.test/')
out['evil'] = via('http://evil.example/')
for target in ('127.0.0.1:3128', 'localhost:3128', '127.0.0.1:1080', '127.0.0.1:53', '[::1]:3128', '198.18.1.0:3128',
               'allowed.test:3128', '127.0.0.1:9999'):
    link, out['proxy to proxy ' + target] = tunnel(target); link.close()
    out['forward ' + target] = status(get(f'http://{target}/'))
""")
        self.assertEqual(done.told.pop("allowed"), 200)
        self.assert_all(done.told, (403, 400))

    def test_protocols_that_name_no_host(self):
        done = self.probe(RULES, """
link, said = tunnel('allowed.test:2222'); link.sendall(b'SSH-2.0-probe\\r\\n'); out['echo'] = link.recv(64).decode()
link = socket.create_connection((query('allowed.test')[1][0], 25), PATIENCE); out['greeting'] = link.recv(64).decode()
link.sendall(b'EHLO guest\\r\\n'); out['answer'] = link.recv(64).decode()
""")
        self.assertEqual(done.told, {"echo": "SSH-2.0-probe\r\n", "greeting": "220 ready\r\n",
                                     "answer": "EHLO guest\r\n"})


if __name__ == "__main__":
    way_out.main()
