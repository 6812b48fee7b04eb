"""P24: nothing leaves except through the gate. A sandbox with rules has lo, one range that leads to the gate, and
nothing else; variables are a convenience and no wall."""

import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from upstream import Web
from way_out import PUBLIC, PUBLIC6, Capture, WayOut, rule

# Public, private, shared, link-local, metadata, what could be this host, a gateway or a bridge, and everybody.
ADDRESSES = (PUBLIC, "8.8.8.8", "10.0.0.1", "172.17.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "192.0.2.1",
             "224.0.0.1", "255.255.255.255", "240.0.0.1", PUBLIC6, "2001:4860:4860::8888", "fe80::1", "fd00::1",
             "fd00:ec2::254", "ff02::1", "::ffff:11.22.33.44", "::ffff:169.254.169.254", "64:ff9b::1")
NO_WAY = ("ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EINVAL", "EACCES", "EPERM", "ENETDOWN")
REQUEST = "GET /direct HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: close\\r\\n\\r\\n"


class NoOtherWay(WayOut):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=80)
        cls.dns.set("allowed.test", PUBLIC, PUBLIC6)

    def setUp(self):
        super().setUp()
        self.web.forget()

    def test_an_allowed_request_does_pass_and_is_captured(self):
        """The other tests would see what leaked."""
        with Capture() as capture:
            done = self.probe([rule("allowed.test", 80)], "out['proxy'] = status(get('http://allowed.test/seen'))")
        self.assertEqual(done.told, {"proxy": 200})
        self.assertEqual(self.web.targets(), ["/seen"])
        self.assertTrue(any(b"/seen" in packet for packet in capture.packets))

    def test_no_address_can_be_reached_directly(self):
        for rules in ([], [rule("allowed.test", 80)]):
            with self.subTest(rules=len(rules)), Capture() as capture:
                done = self.probe(rules, f"""
without_variables()
for address in addresses:
    for port in (80, 443, 53, 22):
        out[f'tcp {{address}} {{port}}'] = reach(address, port, b"{REQUEST}")
        out[f'udp {{address}} {{port}}'] = reach(address, port, b'x', socket.SOCK_DGRAM)
""", addresses=ADDRESSES)
                self.assert_all(done.told, NO_WAY)
            self.assertEqual(capture.packets, [])
        self.assertEqual(self.web.arrived, [])

    def test_the_same_probe_reaches_the_gate_by_the_address_of_a_name(self):
        done = self.probe([rule("allowed.test", 80)], f"""
without_variables()
for kind, version in ((1, 'v4'), (28, 'v6')):
    address = query('allowed.test', kind)[1][0]
    out[version] = reach(address, 80, b"{REQUEST}")
""")
        for version, reply in done.told.items():
            self.assertTrue(reply.startswith("got HTTP/1.1 200"), (version, reply))
        self.assertEqual(self.web.targets(), ["/direct"] * 2)

    def test_addresses_of_the_range_that_stand_for_no_name(self):
        done = self.probe([rule("allowed.test", 80)], f"""
first = query('allowed.test')[1][0]
for address in ('198.18.0.0', '198.18.0.1', '198.18.0.255', '198.18.1.1', '198.19.255.255', '198.18.255.254',
                'fd63:6169:7373:6f6e::', 'fd63:6169:7373:6f6e::1', 'fd63:6169:7373:6f6e:ffff:ffff:ffff:ffff'):
    assert address != first
    out[address] = reach(address, 80, b"{REQUEST}")
for address in ('198.17.255.255', '198.20.0.0', 'fd63:6169:7373:6f6d::1', 'fd63:6169:7373:6f6f::1'):
    out['beside ' + address] = reach(address, 80, b"{REQUEST}")
""")
        self.assert_all(done.told, ("got ", "ECONNRESET", "EPIPE", "ENOTCONN", "ECONNREFUSED", *NO_WAY))
        self.assertEqual(self.web.arrived, [])
        self.assertEqual(self.dns.asked, [])

    def test_other_sockets_and_changes_of_the_network(self):
        with Capture() as capture:
            done = self.probe([rule("allowed.test", 80)], """
def attempt(name, call):
    try:
        call()
        out[name] = 'WORKED'
    except OSError as error:
        out[name] = name_of(error)
SOCKETS = {'raw': (socket.AF_INET, socket.SOCK_RAW, 1), 'raw tcp': (socket.AF_INET, socket.SOCK_RAW, 6),
           'raw 255': (socket.AF_INET, socket.SOCK_RAW, 255), 'raw v6': (socket.AF_INET6, socket.SOCK_RAW, 58),
           'ping': (socket.AF_INET, socket.SOCK_DGRAM, 1), 'ping v6': (socket.AF_INET6, socket.SOCK_DGRAM, 58),
           'packet': (socket.AF_PACKET, socket.SOCK_RAW, 0), 'packet dgram': (socket.AF_PACKET, socket.SOCK_DGRAM, 0),
           'vsock': (40, socket.SOCK_STREAM, 0), 'sctp': (socket.AF_INET, socket.SOCK_STREAM, 132),
           'dccp': (socket.AF_INET, 6, 33), 'mptcp': (socket.AF_INET, socket.SOCK_STREAM, 262),
           'xdp': (44, socket.SOCK_RAW, 0), 'bluetooth': (31, socket.SOCK_RAW, 1), 'can': (29, socket.SOCK_RAW, 1),
           'netlink firewall': (16, socket.SOCK_RAW, 12), 'alg': (38, 5, 0), 'tipc': (30, 5, 0), 'rds': (21, 5, 0)}
for name, words in SOCKETS.items():
    attempt(name, lambda: socket.socket(*words))
def route(kind, flags, body):
    message = struct.pack('=IHHII', 16 + len(body), kind, flags | 5, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.bind((0, 0)); link.settimeout(PATIENCE); link.send(message)
        answer = link.recv(4096)
    number = -struct.unpack('=i', answer[16:20])[0]
    if number:
        raise OSError(number, 'netlink')
attempt('new route', lambda: route(24, 0x400, struct.pack('=BBBBBBBBI', 2, 0, 0, 0, 254, 3, 0, 1, 0)
                                   + struct.pack('=HHI', 8, 4, 1)))
attempt('new address', lambda: route(20, 0x600, struct.pack('=BBBBI', 2, 8, 0, 0, 1)
                                     + struct.pack('=HH4s', 8, 2, socket.inet_aton('11.22.33.44'))))
attempt('new link', lambda: route(16, 0x600, struct.pack('=BxHiII', 0, 0, 0, 0, 0)
                                  + struct.pack('=HHHH8s', 16, 18, 12, 1, b'dummy')))
attempt('mark', lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1))
attempt('transparent', lambda: socket.socket().setsockopt(socket.SOL_IP, 19, 1))
""")
        refused = ("EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EINVAL", "ENOPROTOOPT",
                   "EOPNOTSUPP", "ENOSYS")
        mptcp = done.told.pop("mptcp")
        self.assertIn(mptcp, (*refused, "WORKED"))  # it is TCP, and its addresses are those of TCP
        self.assert_all(done.told, refused)
        self.assertEqual(capture.packets, [])

    def test_variables_are_no_wall(self):
        """A client that believes them, and one that does not, get the same answer."""
        done = self.probe([rule("allowed.test", 80)], """
import urllib.request, urllib.error
def fetch(url):
    try:
        return urllib.request.build_opener().open(url, timeout=PATIENCE).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return 'error'
for name in ('allowed.test', 'refused.test'):
    out['with ' + name] = fetch(f'http://{name}/')
without_variables()
for name in ('allowed.test', 'refused.test'):
    out['without ' + name] = fetch(f'http://{name}/')
""")
        self.assertEqual(done.told, {"with allowed.test": 200, "with refused.test": 403,
                                     "without allowed.test": 200, "without refused.test": "error"})

    def begun(self):
        """A run that asks each time a line comes, and says what the answer was; and the process that serves it."""
        (self.work / "asks.py").write_text("""
from guest_side import *
for line in sys.stdin:
    print(status(get('http://allowed.test/asked')), reach('11.22.33.44', 80, b'x'), flush=True)
""", encoding="utf-8")
        run = self.begin([rule("allowed.test", 80)], ["/usr/bin/python3", "-B", "asks.py"])
        self.addCleanup(lambda: run.poll() is None and run.kill())
        self.assertEqual(self.ask(run), "200 ENETUNREACH\n")
        return run, way_out.gate_of(run)

    def ask(self, run):
        run.stdin.write("ask\n")
        run.stdin.flush()
        return run.stdout.readline()

    def test_when_the_gate_dies_nothing_leaves(self):
        run, gate = self.begun()
        os.kill(gate, signal.SIGKILL)
        way_out.wait_until("the gate is dead", lambda: way_out.is_gone(gate))
        with Capture() as capture:
            said = self.ask(run)
        self.assertIn(said, ("0 ENETUNREACH\n", ""))  # the run may have ended with it
        self.assertFalse([packet for packet in capture.packets if b"/asked" in packet])
        self.assertEqual(self.web.targets(), ["/asked"])
        done = self.finish(run)
        self.assertNotEqual(done.code, 0, "a run whose way out was lost does not end well")

    def test_the_gate_does_not_outlive_its_run(self):
        for number in (signal.SIGKILL, signal.SIGTERM, 0):
            run, gate = self.begun()
            if number:
                run.send_signal(number)
            self.finish(run)
            way_out.wait_until("the gate has gone, too", lambda: way_out.is_gone(gate))

    def test_the_gate_has_no_privileges(self):
        run, gate = self.begun()
        status = dict(line.split(":\t", 1) for line in
                      pathlib.Path(f"/proc/{gate}/status").read_text(encoding="ascii").splitlines() if ":\t" in line)
        self.assertNotIn("0", status["Uid"].split() + status["Gid"].split())
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Groups"].split(), [])
        self.finish(run)

    def test_without_rules_there_is_nothing(self):
        done = self.probe([], """
for port in (PROXY, SOCKS, NAMES):
    out[port] = reach('127.0.0.1', port, b'x')
out['names'] = reach('127.0.0.1', NAMES, b'x', socket.SOCK_DGRAM, wait=2)
out['range'] = reach('198.18.1.0', 80, b'x')
out['range v6'] = reach('fd63:6169:7373:6f6e::100', 80, b'x')
out['variables'] = ' '.join(name for name in os.environ if name.lower().endswith('_proxy')) or 'ECONNREFUSED'
""")
        self.assert_all(done.told, ("ECONNREFUSED", *NO_WAY))


if __name__ == "__main__":
    way_out.main()
