"""P28: IPv6, UDP and QUIC get the same answer as TCP over IPv4. What a name may reach does not depend on the family it
is reached by, and a datagram has nowhere to go."""

import pathlib
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from upstream import Authority, Web
from way_out import PUBLIC, PUBLIC6, Capture, WayOut, rule

RULES = [rule("both.test", 80, 443), rule("six.test", 80), rule("four.test", 80)]


class Datagrams:
    """Hears UDP on one port of every address."""

    def __init__(self, port):
        self.heard = []
        self.socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(("::", port))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            data, who = self.socket.recvfrom(65536)
            self.heard.append(data)
            self.socket.sendto(b"heard", who)


class SameAnswer(WayOut):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        authority = Authority(cls.folder)
        cls.web = Web(port=80)
        cls.secure = Web(port=443, context=authority.context("both.test"))
        cls.datagrams = [Datagrams(port) for port in (53, 80, 443)]
        cls.dns.set("both.test", PUBLIC, PUBLIC6)
        cls.dns.set("six.test", PUBLIC6)
        cls.dns.set("four.test", PUBLIC)

    def setUp(self):
        super().setUp()
        self.web.forget()
        self.secure.forget()
        for one in self.datagrams:
            one.heard.clear()

    def test_either_family_inside_reaches_either_family_outside(self):
        done = self.probe(RULES, """
for name in ('both.test', 'six.test', 'four.test'):
    for kind in (1, 28):
        address = query(name, kind)[1][0]
        words = f'GET /{kind} HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\n\\r\\n'
        reply = reach(address, 80, words.encode())
        out[f'{name} {kind}'] = status(reply[4:])
    out[name] = status(get(f'http://{name}/'))
""")
        self.assert_all(done.told, (200,))
        self.assertEqual(set(self.web.arrived), {PUBLIC, PUBLIC6})

    def test_either_family_inside_is_refused_alike(self):
        done = self.probe(RULES, """
for name in ('both.test', 'six.test', 'four.test'):
    for kind in (1, 28):
        address = query(name, kind)[1][0]
        for port in (22, 81, 8080):
            out[f'{name} {kind} {port}'] = reach(address, port, b'GET / HTTP/1.1\\r\\nHost: both.test\\r\\n\\r\\n')
        other = b'GET / HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n'
        out[f'{name} {kind} host'] = status(reach(address, 80, other)[4:])
""")
        hosts = {key: done.told.pop(key) for key in list(done.told) if key.endswith("host")}
        self.assert_all(hosts, (400, 403))
        self.assert_all(done.told, ("got ", "ECONNRESET", "EPIPE", "ENOTCONN", "ECONNREFUSED"))
        self.assertEqual(self.web.requests, [])

    def test_server_name_over_ipv6(self):
        done = self.probe(RULES, """
for kind in (1, 28):
    address = query('both.test', kind)[1][0]
    for name in ('both.test', 'six.test', 'evil.example', None):
        link = socket.create_connection((address, 443), PATIENCE)
        out[f'{kind} {name}'] = over_tls(link, name)[:12]
""")
        for key, reply in done.told.items():
            self.assertEqual(reply == "HTTP/1.1 200", key.endswith("both.test"), done.told)
        self.assertEqual(self.secure.server_names, ["both.test"] * 2)

    def test_datagrams_have_nowhere_to_go(self):
        """To the addresses of allowed names, where TCP does pass, and to addresses outside."""
        quic = b"\xc0\x00\x00\x00\x01\x08" + bytes(1194)  # a long header of version 1, padded as a first packet is
        with Capture() as capture:
            done = self.probe(RULES, """
quic = bytes.fromhex(quic)
for kind in (1, 28):
    for name in ('both.test', 'six.test'):
        address = query(name, kind)[1][0]
        for port in (53, 80, 443, 3128, 1080):
            out[f'{name} {kind} {port}'] = reach(address, port, quic, socket.SOCK_DGRAM, wait=0.2)
for address in outside:
    for port in (53, 80, 443):
        out[f'{address} {port}'] = reach(address, port, quic, socket.SOCK_DGRAM, wait=0.2)
""", quic=quic.hex(), outside=[PUBLIC, PUBLIC6, "10.0.0.1", "fe80::1", "fd00::1", "169.254.169.254"])
        nowhere = ("ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EINVAL", "EADDRNOTAVAIL", "timeout")
        self.assert_all(done.told, nowhere)
        self.assertEqual(capture.packets, [])
        self.assertEqual([one.heard for one in self.datagrams], [[], [], []])

    def test_socks_has_no_way_for_datagrams(self):
        done = self.probe(RULES, """
for command in (2, 3):
    with socket.create_connection(('127.0.0.1', SOCKS), PATIENCE) as link:
        link.sendall(b'\\x05\\x01\\x00'); link.recv(2)
        link.sendall(b'\\x05' + bytes([command]) + b'\\x00\\x01' + bytes(4) + b'\\x00\\x35')
        reply = receive(link, most=10)
        out[command] = reply[1] if len(reply) > 1 else -1
""")
        self.assertNotIn(0, done.told.values())

    def test_the_listeners_hear_datagrams_that_are_sent(self):
        """Otherwise nobody would have heard the guest's, either."""
        for family, address in ((socket.AF_INET, PUBLIC), (socket.AF_INET6, PUBLIC6)):
            with socket.socket(family, socket.SOCK_DGRAM) as link, Capture() as capture:
                link.settimeout(way_out.PATIENCE)
                link.sendto(b"control", (address, 443))
                self.assertEqual(link.recv(16), b"heard")
            self.assertTrue(capture.packets)

    def test_quic_offered_by_a_server_changes_nothing(self):
        """The offer arrives, and what a client may do with it is to go on as before."""
        self.web.pages["/offer"] = ("text/plain\r\nAlt-Svc: h3=\":443\"; ma=86400", b"offered")
        self.addCleanup(self.web.pages.clear)
        done = self.probe(RULES, """
reply = get('http://both.test/offer')
out['status'], out['body'] = status(reply), reply.endswith('offered')
""")
        self.assertEqual(done.told, {"status": 200, "body": True})


if __name__ == "__main__":
    way_out.main()
