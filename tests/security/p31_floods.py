"""P31: a guest cannot exhaust its own gate, and never another's. Slow and huge heads, half-open connections, first
bytes that never end: each has a bound, and the healthy path works beside them and after them."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from upstream import Authority, Echo, Web
from way_out import PUBLIC, WayOut, rule

RULES = [rule("allowed.test", 80, 443, 7)]
MOST_OPEN = 256  # connections of one sandbox


class Floods(WayOut):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=80)
        cls.echo = Echo(port=7)
        cls.secure = Web(port=443, context=Authority(cls.folder).context("allowed.test"))
        cls.dns.set("allowed.test", PUBLIC)

    def setUp(self):
        super().setUp()
        for server in (self.web, self.echo, self.secure):
            server.forget()

    def test_huge_heads(self):
        done = self.probe(RULES, """
line = 'GET http://allowed.test/{} HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: close\\r\\n'
CASES = {'long target': line.format('a' * 100000) + '\\r\\n',
         'long field': line.format('') + 'X: ' + 'y' * 1000000 + '\\r\\n\\r\\n',
         'many fields': line.format('') + ''.join(f'X{i}: y\\r\\n' for i in range(20000)) + '\\r\\n',
         'long name': line.format('') + 'X' * 100000 + ': y\\r\\n\\r\\n',
         'no end': line.format('') + 'X: y\\r\\n' * 200000,
         'long method': 'G' * 100000 + ' http://allowed.test/ HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n',
         'long host': 'GET http://' + 'a' * 100000 + '.test/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n',
         'only empty lines': '\\r\\n' * 100000, 'zeros': '\\0' * 1000000, 'no line at all': 'A' * 5000000}
for name, data in CASES.items():
    out[name] = status(talk(data))
    link, said = tunnel('allowed.test:80')
    try:
        link.sendall(data.replace('http://allowed.test/', '/').encode()); link.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    out['tunnel ' + name] = status(receive(link).decode('latin-1'))
out['healthy'] = status(get('http://allowed.test/healthy'))
out['large but good'] = status(get('http://allowed.test/' + 'a' * 4000, more='X: ' + 'y' * 4000 + '\\r\\n'))
""")
        self.assertEqual(done.told.pop("healthy"), 200)
        self.assertEqual(done.told.pop("large but good"), 200)
        self.assert_all(done.told, (0, 400, 403, 408, 413, 414, 431))
        self.assertEqual([target for target in self.web.targets() if len(target) > 5000], [])

    def test_slow_heads_beside_the_healthy_path(self):
        """They are held, and cost only their own places. None of them is served before it is whole."""
        done = self.probe(RULES, """
slow = []
for number in range(100):
    link = socket.create_connection(('127.0.0.1', (PROXY, SOCKS, NAMES)[number % 3]), PATIENCE)
    link.sendall((b'GET http://allowed.test/slow HTTP', b'\\x05', b'\\0')[number % 3])
    slow.append(link)
address = query('allowed.test')[1][0]
for number in range(50):
    link = socket.create_connection((address, (80, 443)[number % 2]), PATIENCE)
    link.sendall((b'GET /slow', b'\\x16\\x03\\x01\\x02\\x00\\x01')[number % 2])
    slow.append(link)
# A burst of fifty new connections is a burst for the test's own host, too: on a loaded machine it may miss a beat.
for _ in range(20):
    if status(get('http://allowed.test/healthy')) == 200:
        break
out['healthy'] = [status(get('http://allowed.test/healthy')) for _ in range(20)]
for link in slow:
    link.setblocking(False)
    try:
        link.send(b'x')
    except OSError:
        pass
out['names'] = query('allowed.test')[0]
out['later'] = [status(get('http://allowed.test/healthy')) for _ in range(20)]
""")
        self.assertEqual(done.told["healthy"], [200] * 20)
        self.assertEqual(done.told["later"], [200] * 20)
        self.assertEqual(done.told["names"], 0)
        self.assertEqual(set(self.web.targets()), {"/healthy"})

    def test_a_head_that_is_never_finished_is_closed(self):
        done = self.probe(RULES, """
links = {}
for name, port, data in (('nothing', PROXY, b''), ('half a head', PROXY, b'GET http://allowed.test/ HTTP/1.1\\r\\nHo'),
                         ('socks', SOCKS, b'\\x05'), ('names', NAMES, b'\\0')):
    links[name] = socket.create_connection(('127.0.0.1', port), 40)
    links[name].sendall(data)
links['half a hello'] = tunnel('allowed.test:443')[0]
links['half a hello'].sendall(b'\\x16\\x03\\x01\\x02\\x00\\x01')
for name, link in links.items():
    link.settimeout(40)
    reply = receive(link)
    out[name] = 'open' if b'[timeout]' in reply else status(reply.decode('latin-1'))
""")
        self.assert_all(done.told, (0, 408))

    def test_half_open_flood(self):
        """More connections than there are places, all idle; then they go, and the way is free."""
        done = self.probe(RULES, """
import resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
links, refused = [], 0
for number in range(1000):
    try:
        link = socket.create_connection(('127.0.0.1', PROXY), 2)
        link.setblocking(False)
        links.append(link)
    except OSError:
        refused += 1
        if refused > 5:
            break
out['tried'] = len(links) + refused
out['names'] = query('allowed.test')[0]
for link in links:
    link.close()
out['after'] = until(lambda: status(get('http://allowed.test/after')) == 200)
""")
        self.assertGreater(done.told["tried"], MOST_OPEN)
        self.assertEqual(done.told["names"], 0)
        self.assertTrue(done.told["after"])

    def test_places_in_use_do_not_exceed_the_bound(self):
        """Tunnels that are really open, each with a connection outside."""
        done = self.probe(RULES, f"""
links, passed = [], 0
for number in range({MOST_OPEN + 60}):
    try:
        link = socket.create_connection(('127.0.0.1', PROXY), 3)
        link.sendall(b'CONNECT allowed.test:7 HTTP/1.1\\r\\nHost: allowed.test:7\\r\\n\\r\\n')
        links.append(link)
        if b' 200 ' in link.recv(4096):
            passed += 1
        else:
            break
    except OSError:
        break
out['passed'] = passed
for link in links:
    link.close()
out['after'] = until(lambda: status(get('http://allowed.test/after')) == 200)
""")
        self.assertLessEqual(done.told["passed"], MOST_OPEN)
        self.assertGreater(done.told["passed"], MOST_OPEN // 2)
        self.assertTrue(done.told["after"])
        self.assertLessEqual(len(self.echo.arrived), MOST_OPEN)

    def test_another_sandbox_is_not_touched(self):
        """One run floods while another one works: each has a gate of its own."""
        code = """
from guest_side import *
links = []
try:
    while len(links) < 700:
        link = socket.create_connection(('127.0.0.1', PROXY), 2); link.setblocking(False); links.append(link)
except OSError:
    pass
print('flooded', flush=True)
sys.stdin.readline()
"""
        (self.work / "flood.py").write_text(code, encoding="utf-8")
        flood = self.begin(RULES, ["/usr/bin/python3", "-B", "flood.py"])
        self.addCleanup(lambda: flood.poll() is None and flood.kill())
        self.assertEqual(flood.stdout.readline(), "flooded\n")
        done = self.probe(RULES, "out['said'] = [status(get('http://allowed.test/other')) for _ in range(20)]")
        self.assertEqual(done.told["said"], [200] * 20)
        self.finish(flood)

    def test_a_peer_that_is_always_ready_does_not_keep_the_gate(self):
        """Requests by the thousand in one piece, all refused, and answers that are taken as they come: nothing of it
        ever has to be waited for. Others have their turn nevertheless."""
        done = self.probe(RULES, """
import os, signal
link = socket.create_connection(('127.0.0.1', PROXY), PATIENCE)
link.setblocking(True)
many = b'GET http://refused.test/ HTTP/1.1\\r\\nHost: refused.test\\r\\n\\r\\n' * 4000
others = []
for work in (lambda: link.sendall(many), lambda: link.recv(1 << 20)):
    child = os.fork()
    if child == 0:
        try:
            while True:
                work()
        finally:
            os._exit(0)
    others.append(child)
out['healthy'] = [status(get('http://allowed.test/healthy')) for _ in range(50)]
out['names'] = query('allowed.test')[0]
for child in others:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
""")
        self.assertEqual(set(done.told["healthy"]), {200})
        self.assertEqual(done.told["names"], 0)

    def test_first_bytes_that_never_end(self):
        done = self.probe(RULES, """
def pour(port, first, more, most=2000000):
    link, said = tunnel(f'allowed.test:{port}')
    sent = 0
    try:
        link.sendall(first)
        while sent < most:
            link.sendall(more)
            sent += len(more)
        link.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    reply = receive(link)
    link.close()
    return status(reply.decode('latin-1'))
out['a hello'] = pour(443, b'\\x16\\x03\\x01\\x40\\x00\\x01\\xff\\xff\\xff', b'\\x16\\x03\\x01\\x00\\x40' + bytes(64))
out['a request line'] = pour(80, b'GET /', b'a' * 1000)
out['a head'] = pour(80, b'GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n', b'X: y\\r\\n')
out['healthy'] = status(get('http://allowed.test/'))
""")
        self.assertEqual(done.told.pop("healthy"), 200)
        self.assert_all(done.told, (0, 400, 414, 431))
        self.assertEqual(self.secure.server_names, [])

    def test_memory_of_the_gate_is_bounded(self):
        """A host that sends and a client that does not read: nobody keeps the difference."""
        code = """
from guest_side import *
links = []
for number in range(100):
    link = socket.create_connection(('127.0.0.1', PROXY), PATIENCE)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.sendall(b'GET http://allowed.test/bytes/20000000 HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n')
    link.recv(16)
    links.append(link)
print('all ask', flush=True)
sys.stdin.readline()
"""
        (self.work / "hoard.py").write_text(code, encoding="utf-8")
        run = self.begin(RULES, ["/usr/bin/python3", "-B", "hoard.py"])
        self.addCleanup(lambda: run.poll() is None and run.kill())
        self.assertEqual(run.stdout.readline(), "all ask\n")
        status = pathlib.Path(f"/proc/{way_out.gate_of(run)}/status").read_text(encoding="ascii")
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        self.assertLess(peak, 100 * 1024, "kilobytes")
        self.finish(run)


if __name__ == "__main__":
    way_out.main()
