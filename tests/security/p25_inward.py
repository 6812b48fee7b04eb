"""P25: the gate never reaches inward. Whoever owns the zone of an allowed name may point it anywhere; a guest may spell
an address as it likes. In the test's world every address answers, so that a single slip is a connection."""

import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from upstream import Web
from way_out import PUBLIC, PUBLIC6, WayOut, rule

INWARD = (
    "0.0.0.0", "0.1.2.3", "127.0.0.1", "127.1.2.3", "127.255.255.254", "10.0.0.1", "10.255.255.255", "172.16.0.1",
    "172.31.255.254", "192.168.0.1", "100.64.0.1", "100.127.255.254", "169.254.1.1", "169.254.169.254",
    "169.254.170.2", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.254",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "100.100.100.200",
    "::", "::1", "::2", "::127.0.0.1", "::10.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "::ffff:0.0.0.0", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "100::1",
    "2001::1", "2001:2::1", "2001:db8::1", "2001:10::1", "2002:7f00:1::1", "2002:a9fe:a9fe::", "3fff::1", "5f00::1",
    "fc00::1", "fd00::1", "fd00:ec2::254", "fd63:6169:7373:6f6e::1", "fe80::1", "febf::1", "fec0::1", "ff02::1",
    "ff0e::1", "4000::1", "e000::1",
)
# None of a network's own, though they look alike.
OUTWARD = ("11.22.33.44", "9.255.255.255", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1",
           "169.253.255.255", "198.17.255.255", "198.20.0.1", "223.255.255.254", "2600:1234::44", "2a00::1",
           "::ffff:11.22.33.44", "64:ff9b::b16:212c")
SPELLINGS = (
    "127.0.0.1", "127.1", "127.0.1", "127.00.00.01", "127.000.000.001", "2130706433", "02130706433", "0x7f000001",
    "0X7F000001", "0x7f.1", "0x7f.0.0.1", "0x7f.0x0.0x0.0x1", "0177.1", "0177.0.0.1", "00000177.0.0.1", "017700000001",
    "0x000000007f000001", "127.0x1", "127.0.0x1", "127.0.0.01", "127.65535", "127.16777215", "127.255.255.254", "0",
    "0x0", "0.0.0.0", "00", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::1%lo]", "[::1%25lo]", "[fe80::1%25lo]", "127.0.0.1.",
    "2130706433.", "0x7f000001.", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1",
    "127\xe3\x80\x820\xe3\x80\x820\xe3\x80\x821", "%31%32%37.0.0.1", "127.0.0.1%00", "localhost", "localhost.",
    "LOCALHOST", "ip6-localhost", "localhost.localdomain", "a.localhost",
)


class Inward(WayOut):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=80)
        cls.dns.set("good.test", PUBLIC, PUBLIC6)

    def setUp(self):
        super().setUp()
        self.web.forget()

    def ask_names(self, rules, names):
        """How each name is answered by the proxy, by CONNECT, by SOCKS and by its address inside."""
        return self.probe(rules, """
for name in names:
    out['http ' + name] = status(get(f'http://{name}/http'))
    link, said = tunnel(name + ':80')
    if said == 200:
        link.sendall(f'GET /connect HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
        said = status(receive(link).decode('latin-1'))
    out['connect ' + name] = said
    link, said = socks(name, 80)
    out['socks ' + name] = 200 if said == 0 else 403
    link.close()
    for kind in (1, 28):
        found = query(name, kind)[1]
        words = f'GET /direct HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\n\\r\\n'
        reply = reach(found[0], 80, words.encode())
        out[f'direct {kind} {name}'] = 200 if reply.startswith('got HTTP/1.1 200') else 403
""", names=names).told

    def test_names_that_point_inward(self):
        names = []
        for number, address in enumerate(INWARD):
            names.append(f"n{number}.inward.test")
            self.dns.set(names[-1], address)
        told = self.ask_names([rule("*.inward.test", 80)], names)
        self.assertEqual(len(told), 5 * len(INWARD))
        # A name without an address at all is as good; a record of the other family was not asked for.
        self.assert_all(told, (403, 502), "; ".join(f"{a}={b}" for a, b in zip(names, INWARD)))
        self.assertEqual(self.web.arrived, [])

    def test_names_that_point_outward(self):
        names = []
        for number, address in enumerate(OUTWARD):
            names.append(f"n{number}.outward.test")
            self.dns.set(names[-1], address)
        told = self.ask_names([rule("*.outward.test", 80)], names)
        self.assert_all(told, (200,), "; ".join(f"{a}={b}" for a, b in zip(names, OUTWARD)))
        # What is written as IPv4 inside IPv6 is judged, and then reached, as IPv4.
        self.assertIn("11.22.33.44", self.web.arrived)

    def test_a_grant_opens_one_address_for_one_name(self):
        for name in ("inner.test", "other.test"):
            self.dns.set(name, "10.0.0.7")
        self.dns.set("wrong.test", "10.0.0.8")
        rules = [rule("inner.test", 80, granted_addresses=["10.0.0.7"]), rule("other.test", 80),
                 rule("wrong.test", 80, granted_addresses=["10.0.0.7"])]
        told = self.ask_names(rules, ["inner.test", "other.test", "wrong.test"])
        for key, value in told.items():
            self.assertEqual(value, 200 if key.endswith("inner.test") else 403, key)
        self.assertEqual(set(self.web.arrived), {"10.0.0.7"})

    def test_one_bad_address_condemns_the_others(self):
        mixed = {"a.mixed.test": (PUBLIC, "127.0.0.1"), "b.mixed.test": ("10.0.0.1", PUBLIC),
                 "c.mixed.test": (PUBLIC, "::1"), "d.mixed.test": (PUBLIC6, "192.168.0.1"),
                 "e.mixed.test": (PUBLIC, PUBLIC6, "::ffff:169.254.169.254"),
                 "g.mixed.test": tuple(f"11.0.{i // 250}.{i % 250 + 1}" for i in range(100)),  # more than are judged
                 "f.mixed.test": tuple(f"11.0.0.{i}" for i in range(1, 30)) + ("0.0.0.0",)}
        for name, values in mixed.items():
            self.dns.set(name, *values)
        self.assert_all(self.ask_names([rule("*.mixed.test", 80)], list(mixed)), (403, 502))
        self.assertEqual(self.web.arrived, [])
        self.assertIn("tcp", {transport for _, _, transport in self.dns.asked})  # the long one was read whole

    def test_names_that_stand_for_others(self):
        self.dns.set("a.alias.test", "inner.elsewhere")
        self.dns.set("inner.elsewhere", "10.0.0.1")
        self.dns.set("b.alias.test", "localhost")
        self.dns.set("localhost", "127.0.0.1", "::1")
        self.dns.set("c.alias.test", "c2.elsewhere")
        self.dns.set("c2.elsewhere", "c3.elsewhere")
        self.dns.set("c3.elsewhere", PUBLIC)
        told = self.ask_names([rule("*.alias.test", 80)], ["a.alias.test", "b.alias.test", "c.alias.test"])
        for key, value in told.items():
            self.assertEqual(value, 200 if key.endswith("c.alias.test") else 403, key)
        self.assertEqual(set(self.web.arrived), {PUBLIC})

    def test_rebinding(self):
        """Public for the first question, loopback ever after, with no time to live. Whatever is asked again, every
        connection goes to an address that was judged."""
        for name in ("a.rebind.test", "b.rebind.test"):
            self.dns.turn(name, (PUBLIC,), ("127.0.0.1", "::1"))
        done = self.probe([rule("*.rebind.test", 80)], """
said = []
def ask():
    said.append(status(get('http://a.rebind.test/')))
    link, code = tunnel('b.rebind.test:80')
    link.close()
    said.append(code)
    return 403 in said[-2:]
out['refused'] = until(ask)
out['said'] = sorted(set(said))
out['first'] = said[:2]
""")
        self.assertEqual(done.told, {"refused": True, "said": [200, 403], "first": [200, 200]})
        self.assertEqual(set(self.web.arrived), {PUBLIC})
        # And the other way round: refused first, then public. Nobody is stuck with a bad answer for ever.
        self.dns.turn("c.rebind.test", ("127.0.0.1",), (PUBLIC,))
        done = self.probe([rule("*.rebind.test", 80)], """
out['first'] = status(get('http://c.rebind.test/'))
out['later'] = until(lambda: status(get('http://c.rebind.test/')) == 200)
""")
        self.assertEqual(done.told, {"first": 403, "later": True})

    def test_spellings_of_loopback(self):
        """Rules for the names that can be written; the rest cannot even be in a rule."""
        rules = [rule("localhost", 80), rule("*.localhost", 80), rule("ip6-localhost", 80),
                 rule("localhost.localdomain", 80), rule("good.test", 80)]
        for name in ("localhost", "ip6-localhost", "localhost.localdomain", "a.localhost"):
            self.dns.set(name, "127.0.0.1", "::1")
        done = self.probe(rules, """
for text in spellings:
    for port in ('', ':80'):
        out[f'http {text}{port}'] = status(get(f'http://{text}{port}/'))
    out['host ' + text] = status(get('http://good.test/', host=text))
    link, out['connect ' + text] = tunnel(text + ':80')
    link.close()
    link, said = socks(text, 80)
    out['socks ' + text] = 200 if said == 0 else 403
    link.close()
for address, kind in (('127.0.0.1', 1), ('0.0.0.0', 1), ('169.254.169.254', 1), ('11.22.33.44', 1), ('::1', 4),
                      ('::ffff:127.0.0.1', 4), ('2600:1234::44', 4)):
    link, said = socks(address, 80, kind)
    out['socks address ' + address] = 200 if said == 0 else 403
    link.close()
# The fourth version of SOCKS, by address and by name.
for data in (b'\\x04\\x01\\x00\\x50\\x7f\\x00\\x00\\x01\\x00',
             b'\\x04\\x01\\x00\\x50\\x00\\x00\\x00\\x01\\x00localhost\\x00',
             b'\\x04\\x01\\x00\\x50\\x0b\\x16\\x21\\x2c\\x00'):
    out[f'socks4 {data!r}'] = 200 if '\\x5a' in talk(data, SOCKS)[:2] else 403
""", spellings=SPELLINGS)
        self.assert_all(done.told, (400, 403))
        self.assertEqual(self.web.arrived, [])
        self.assertLessEqual(self.dns.names_asked(), {"localhost", "ip6-localhost", "localhost.localdomain",
                                                      "a.localhost"})

    def test_the_spellings_do_mean_loopback(self):
        """To the C library, at least half of them: a proxy that let it read them would arrive there."""
        meant = 0
        for text in SPELLINGS:
            try:
                socket.create_connection((text.strip("[]"), 80), 2).close()
                meant += 1
            except (OSError, UnicodeError):
                pass
        self.assertGreater(meant, len(SPELLINGS) // 2)
        way_out.wait_until("all have arrived", lambda: len(self.web.arrived) == meant)

    def test_a_rule_cannot_name_an_address_or_grant_one_to_a_zone(self):
        for wanted in (rule("127.0.0.1", 80), rule("0x7f.1", 80), rule("[::1]", 80), rule("2130706433", 80),
                       rule("*.zone.test", 80, granted_addresses=["127.0.0.1"]),
                       rule("a.test", 80, granted_addresses=["0.0.0.0"]),
                       rule("a.test", 80, granted_addresses=["224.0.0.1"])):
            done = self.run_command([wanted], "/bin/true")
            self.assertNotEqual(done.code, 0, wanted)
            self.assertIn("network_egress_rules[0]", done.stderr)

    def test_a_redirection_is_the_clients_own_step(self):
        done = self.probe([rule("good.test", 80)], """
reply = get('http://good.test/to/http://127.0.0.1/inside')
out['status'], out['location'] = status(reply), 'http://127.0.0.1/inside' in reply
""")
        self.assertEqual(done.told, {"status": 302, "location": True})
        self.assertEqual(self.web.targets(), ["/to/http://127.0.0.1/inside"])


if __name__ == "__main__":
    way_out.main()
